#include "trainers.h"

#include "backend/device.h"

#include <math.h>
#include <stdlib.h>

run run_of(ac_device *device, ac_graph *graph, const ac_plan_desc *plan,
           const ac_trainer_desc *desc) {
  run r = {.device = device};
  assert_ok(ac_plan_create(&r.plan, graph, device, plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, desc));
  ac_graph_free(graph);
  return r;
}

void stop_on(run *r) {
  ac_trainer_free(r->trainer);
  ac_plan_free(r->plan);
}

void stop(run *r) {
  ac_trainer_free(r->trainer);
  assert_int_equal(ac_device_allocated_bytes(r->device), 0);
  ac_plan_free(r->plan);
  ac_device_close(r->device);
}

int64_t elements(const ac_trainer *trainer, int index) {
  ac_tensor_info info;
  int64_t count = 1;
  assert_ok(ac_trainer_parameter_info(trainer, index, &info));
  for (int k = 0; k < info.rank; k++) count *= info.shape[k];
  return count;
}

float *all_parameters(run *r, size_t *total) {
  float *all = NULL;
  *total = 0;
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++) {
    const int64_t count = elements(r->trainer, i);
    all = realloc(all, (*total + (size_t)count) * sizeof *all);
    assert_non_null(all);
    assert_ok(ac_trainer_get_parameter(r->trainer, i, 0, count, all + *total));
    *total += (size_t)count;
  }
  return all;
}

double distance(const float *a, const float *b, size_t count) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < count; i++) {
    difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    norm += (double)a[i] * (double)a[i];
  }
  return sqrt(difference / norm);
}
