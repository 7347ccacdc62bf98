/* What it costs to train a model in less memory: a ResNet-18 on images as CIFAR's, planned for one
 * budget after the other. Nothing of the model is allocated. The last budget is too small, and the
 * library says which one is not. The model is one of tools/models, as `accrue bench` has it. */
#include "models/image_net.h"

#include <accrue/accrue.h>
#include <stdio.h>

static const uint64_t MiB = 1 << 20;

static ac_status describe(ac_graph **graph) {
  const image_net resnet18 = {
      .channels = 3, .height = 32, .width = 32, .classes = 10, .depth = 18, .base = 64};
  ac_status status = ac_graph_create(graph);
  if (status == AC_OK) resnet_build(*graph, &resnet18);
  return status;
}

static ac_status report(const ac_graph *graph, ac_device *device, uint64_t budget) {
  ac_plan *plan = NULL;
  const ac_plan_desc policy = {.batch = 128, .memory = budget, .whole_windows = true};
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) {
    const ac_plan_info *info = ac_plan_get_info(plan);
    printf("%5d MiB: %5.1f MiB taken, %3d samples at a time, %3d ops run again, about %.1f s\n",
           (int)(budget / MiB), (double)info->bytes.total / (double)MiB, (int)info->micro_batch,
           (int)info->recomputed_ops, info->predicted_seconds);
  } else if (status == AC_ERROR_BUDGET) {
    printf("%5d MiB: %s\n", (int)(budget / MiB), ac_last_error());
  }
  ac_plan_free(plan);
  return status;
}

int main(void) {
  ac_graph *graph = NULL;
  ac_device *device = NULL;
  ac_status status = describe(&graph);
  if (status == AC_OK) status = ac_device_open(&device, &(ac_device_desc){.name = "cpu"});
  int plans = 0;
  for (uint64_t budget = 1024 * MiB; status == AC_OK; budget /= 2) {
    status = report(graph, device, budget);
    plans += status == AC_OK;
  }
  if (status != AC_ERROR_BUDGET) fprintf(stderr, "budgets: %s\n", ac_last_error());
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_ERROR_BUDGET && plans > 1 ? 0 : 1;
}
