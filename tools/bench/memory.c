#include "bench/memory.h"

#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* Lets VmHWM start again from what is resident now. */
static void reset_high_water(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}

static void print_memory(const bench_model *model, const ac_plan_info *info, uint64_t idle) {
  const uint64_t peak = process_bytes("VmHWM"), planned = info->bytes.total + info->host_bytes;
  int length;
  const char *gradients = storage_gradients_name(info->gradients, &length);
  printf("model         %s, batch %" PRId64 " as %" PRId64 " x %" PRId64 ", %" PRId64
         " ops run again, gradients %.*s\n",
         model->name, info->batch, info->accumulation_steps, info->micro_batch,
         info->recomputed_ops, length, gradients);
  printf("idle          %s resident after listing the devices\n", text_bytes(idle).text);
  printf("training      %s resident at most, %s more\n", text_bytes(peak).text,
         text_bytes(peak - idle).text);
  printf("planned       %s", text_bytes(planned).text);
  if (info->host_bytes) printf(", %s of it of the host", text_bytes(info->host_bytes).text);
  printf(" and %s for libraries", text_bytes(info->library_bytes).text);
  if (info->budget_bytes) printf(", budget %s", text_bytes(info->budget_bytes).text);
  printf("\nresident / planned  %.4f\n",
         (double)(peak - idle) / (double)(planned + info->library_bytes));
}

int bench_memory(const ac_device_desc *desc, const bench_model *model, const bench_setting *setting,
                 int64_t steps) {
  ac_device_info list[16];
  ac_device *device = NULL;
  bench_planned planned = {0};
  bench_stepper stepper = {0};
  int count;
  if (ac_device_list(list, 16, &count) != AC_OK) return fail_library();
  reset_high_water();
  uint64_t idle = process_bytes("VmRSS");
  if (!idle) return fail("this system does not tell how much memory a process has");
  ac_status status = ac_device_open(&device, desc);
  if (status == AC_OK) status = bench_planned_open(&planned, model, setting, device);
  if (status == AC_OK) status = bench_stepper_open(&stepper, &planned);
  if (status == AC_OK) status = bench_stepper_run(&stepper, steps);
  if (status == AC_OK) print_memory(model, ac_plan_get_info(planned.plan), idle);
  bench_stepper_close(&stepper);
  bench_planned_close(&planned);
  ac_device_close(device);
  return status == AC_OK ? STATUS_DONE : fail("%s", bench_error());
}
