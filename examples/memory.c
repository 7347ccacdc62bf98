/* Memory, to the byte: a plan says what training will take, and the trainer takes exactly that.
 * While it trains nothing is allocated, whatever the micro-batch is. The program compares the plan
 * with what the device has given, for one budget after another. */
#include <accrue/accrue.h>
#include <stdio.h>

enum { BATCH = 64, WIDTH = 256, CLASSES = 10 };

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, WIDTH)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  for (int i = 0; i < 4; i++) {
    char name[32];
    snprintf(name, sizeof name, "layer.%d", i);
    x = ac_relu(
        ac_linear(x, ac_parameter(graph, name, AC_SHAPE(WIDTH, WIDTH), &he), NULL, AC_OUT_IN));
  }
  x = ac_linear(x, ac_parameter(graph, "last", AC_SHAPE(CLASSES, WIDTH), &he), NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_cross_entropy(x, labels, NULL, NULL));
  return ac_graph_status(graph);
}

static ac_status train(ac_trainer *trainer) {
  static float x[BATCH][WIDTH];
  static int32_t labels[BATCH];
  const ac_feed feeds[] = {{"x", x}, {"labels", labels}};
  for (int i = 0; i < BATCH; i++) {
    labels[i] = i % CLASSES;
    x[i][i] = 1;
  }
  for (int update = 0; update < 3; update++) {
    ac_status status = ac_trainer_accumulate(trainer, BATCH, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* Plans for a budget (0: as much as there is), trains, and compares. */
static ac_status compare(const ac_graph *graph, ac_device *device, uint64_t budget, bool *exact) {
  const ac_plan_desc policy = {.batch = BATCH, .memory = budget, .whole_windows = true};
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status != AC_OK) return status;
  const ac_plan_info *info = ac_plan_get_info(plan);
  ac_device_reset_peak(device);
  status = ac_trainer_create(&trainer, plan, NULL);
  const uint64_t taken = ac_device_allocated_bytes(device),
                 objects = ac_device_object_count(device);
  if (status == AC_OK) status = train(trainer);
  if (status == AC_OK) {
    printf("micro-batch %2lld: planned %llu bytes, taken %llu, at most %llu; on the host %llu\n",
           (long long)info->micro_batch, (unsigned long long)info->bytes.total,
           (unsigned long long)taken, (unsigned long long)ac_device_peak_bytes(device),
           (unsigned long long)ac_device_host_allocated_bytes(device));
    *exact = *exact && taken == info->bytes.total && ac_device_peak_bytes(device) == taken &&
             ac_device_object_count(device) == objects && (budget == 0 || taken <= budget) &&
             ac_device_host_peak_bytes(device) == info->host_bytes;
  }
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  *exact = *exact && ac_device_allocated_bytes(device) == 0; /* all was given back */
  return status;
}

int main(void) {
  static const uint64_t budgets[] = {0, 4330000, 4300000};
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  bool exact = true;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    printf("%s; each tensor begins at a multiple of %u bytes\n", ac_device_get_info(device)->name,
           (unsigned)ac_device_get_info(device)->alignment);
  for (int i = 0; i < 3 && status == AC_OK; i++)
    status = compare(graph, device, budgets[i], &exact);
  if (status != AC_OK) fprintf(stderr, "memory: %s\n", ac_last_error());
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && exact ? 0 : 1;
}
