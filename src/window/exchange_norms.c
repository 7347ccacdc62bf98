/* The sums of exact batch norms over ranks: each is told at a point of its own, in the order in
 * which the steps of a window make them. */
#include "core/error.h"
#include "window/trainer.h"

#include <stdlib.h>

int64_t ac_exchange_norm_values(const ac_trainer *trainer) {
  const ac_graph *graph = trainer->instance.plan->graph;
  int64_t most = 0;
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    const int64_t count = ac_shape_count(&tensor->shape);
    if ((tensor->role == AC_ROLE_POOLED || tensor->role == AC_ROLE_GATHERED) && count > most)
      most = count;
  }
  return trainer->instance.plan->problem.in_sections ? most : 0;
}

/* (n, mean, squares) of each channel as sums of ones, of elements and of their squares. In double
 * little is lost by that, and they can be added. */
static void open_moments(double *values, int64_t channels) {
  for (int64_t c = 0; c < channels; c++) {
    double *v = values + 3 * c;
    v[2] += v[0] * v[1] * v[1];
    v[1] *= v[0];
  }
}

static void close_moments(double *values, int64_t channels) {
  for (int64_t c = 0; c < channels; c++) {
    double *v = values + 3 * c;
    if (!(v[0] > 0)) continue;
    v[1] /= v[0];
    v[2] -= v[0] * v[1] * v[1];
    if (v[2] < 0) v[2] = 0;
  }
}

/* Without a sample this rank has none of it, whatever is in its memory. What counts once, as the
 * gradients of scales and shifts, counts on rank 0. */
static ac_status read_own(ac_trainer *trainer, int tensor, int64_t count, float *data) {
  const ac_instance *instance = &trainer->instance;
  const char *found = trainer->exchange.found;
  for (int64_t i = 0; i < count; i++) data[i] = 0;
  if (trainer->exchange.idle && trainer->exchange.rank == 0)
    return ac_fail(AC_ERROR_STATE, "trainer: with exact batch norm rank 0 needs a sample of each "
                                   "window, and has none of this one");
  if (trainer->exchange.idle) return AC_OK;
  if (found && found[0])
    return ac_fail(AC_ERROR_NOT_FINITE, "%s (rank %d)", found, trainer->exchange.rank);
  return ac_instance_read_floats(instance, instance->persistent[tensor], AC_F32, 0, count, data);
}

static ac_status join(void *user, int index) {
  ac_trainer *trainer = user;
  ac_exchange *e = &trainer->exchange;
  const ac_tensor *tensor = ac_tensor_at(trainer->instance.plan->graph, index);
  const int64_t count = ac_shape_count(&tensor->shape), channels = tensor->shape.dim[0];
  const bool moments = tensor->role == AC_ROLE_POOLED;
  const ac_status status = read_own(trainer, index, count, e->norm);
  for (int64_t i = 0; i < count; i++) e->values[i] = (double)e->norm[i];
  if (moments) open_moments(e->values, channels);
  AC_TRY(ac_exchange_sum(trainer, AC_MEET_NORM, status, e->values, count));
  if (moments) close_moments(e->values, channels);
  for (int64_t i = 0; i < count; i++) e->norm[i] = (float)e->values[i];
  return ac_instance_write_floats(&trainer->instance, index, 0, count, e->norm);
}

ac_status ac_exchange_begin_norms(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (!trainer->instance.plan->problem.in_sections) return AC_OK;
  e->norm = calloc((size_t)ac_exchange_norm_values(trainer) + 1, sizeof *e->norm);
  if (!e->norm)
    return ac_fail(AC_ERROR_MEMORY, "trainer: no memory on the host for transfers between ranks");
  trainer->instance.join = (ac_join){join, trainer};
  trainer->instance.run.counts_elsewhere = e->rank > 0;
  return AC_OK;
}

ac_status ac_exchange_idle_norms(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (!trainer->instance.join.call || trainer->run.samples) return AC_OK;
  e->idle = true;
  const ac_status status = ac_sections_join(&trainer->instance);
  e->idle = false;
  return status;
}
