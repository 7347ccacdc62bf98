#include "bench/memory.h"

#include "common/freed_memory.h"
#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A line of Linux's account of this process in bytes, "VmRSS" or "VmHWM"; 0 elsewhere. */
static uint64_t process_bytes(const char *name) {
  char line[256];
  unsigned long long kibibytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), ": %llu", &kibibytes);
  if (file) fclose(file);
  return (uint64_t)kibibytes << 10;
}

/* Sets VmHWM to what is resident now. */
static void reset_high_water(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}

/* Resident memory after it has not fallen for a tenth of a second, or after a second: an OpenCL
 * implementation may give memory back in a thread of its own, after it was released. */
static uint64_t settled_bytes(void) {
  uint64_t least = process_bytes("VmRSS");
  for (int k = 0, same = 0; k < 50 && same < 5; k++, same++) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    const uint64_t bytes = process_bytes("VmRSS");
    if (bytes < least) least = bytes, same = -1;
  }
  return least;
}

static void print_memory(const bench_model *model, const ac_plan_info *info, uint64_t idle,
                         const char *when) {
  const uint64_t peak = process_bytes("VmHWM"), planned = info->bytes.total + info->host_bytes;
  printf("model         %s, batch %" PRId64 " as %" PRId64 " x %" PRId64 ", %" PRId64
         " ops run again, gradients %s\n",
         model->name, info->batch, info->accumulation_steps, info->micro_batch,
         info->recomputed_ops, gradient_way_of(info->gradients)->name);
  printf("idle          %s resident %s\n", text_bytes(idle).text, when);
  printf("training      %s resident at most, %s more\n", text_bytes(peak).text,
         text_bytes(peak - idle).text);
  printf("planned       %s", text_bytes(planned).text);
  if (info->host_bytes) printf(", %s of it of the host", text_bytes(info->host_bytes).text);
  printf(" and %s for libraries", text_bytes(info->library_bytes).text);
  if (info->budget_bytes) printf(", budget %s", text_bytes(info->budget_bytes).text);
  printf("\nresident / planned  %.4f\n",
         (double)(peak - idle) / (double)(planned + info->library_bytes));
}

typedef struct training {
  bench_planned planned;
  bench_stepper stepper;
} training;

/* Its memory stays until it is stopped. */
static ac_status train(training *t, const bench_model *model, const bench_setting *setting,
                       ac_device *device, int64_t steps) {
  ac_status status = bench_planned_open(&t->planned, model, setting, device);
  if (status == AC_OK) status = bench_stepper_open(&t->stepper, &t->planned);
  return status == AC_OK ? bench_stepper_run(&t->stepper, steps) : status;
}

static void stop(training *t) {
  bench_stepper_close(&t->stepper);
  bench_planned_close(&t->planned);
  *t = (training){0};
}

int bench_memory(const ac_device_desc *desc, const bench_model *model, const bench_setting *setting,
                 int64_t steps) {
  ac_device_info list[16];
  ac_device *device = NULL;
  training t = {0};
  int count;
  freed_memory_return();
  if (ac_device_list(list, 16, &count) != AC_OK) return fail_library();
  reset_high_water();
  uint64_t idle = process_bytes("VmRSS");
  const char *when = "after listing the devices";
  if (!idle) return fail("this system does not tell how much memory a process has");
  ac_status status = ac_device_open(&device, desc);
  /* An OpenCL implementation in this process keeps its compiler and compiled kernels in the
   * process. */
  if (status == AC_OK && !strcmp(ac_device_get_info(device)->backend, "opencl")) {
    status = train(&t, model, setting, device, 2);
    stop(&t);
    idle = settled_bytes();
    reset_high_water();
    when = "with the kernels compiled, after two updates";
  }
  if (status == AC_OK) status = train(&t, model, setting, device, steps);
  if (status == AC_OK) print_memory(model, ac_plan_get_info(t.planned.plan), idle, when);
  stop(&t);
  ac_device_close(device);
  return status == AC_OK ? STATUS_DONE : bench_fail(status);
}
