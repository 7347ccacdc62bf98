/* Counting of numbers that 16 bits lose: each is counted once, where it is computed. */
#include "support/devices.h"

#ifdef AC_HAVE_OPENCL
#include "backend/opencl/shared/opencl.h"
#endif

#include <math.h>

/* Kernels and memory objects of an OpenCL device. */
static int64_t made_so_far(ac_device *device) {
  int64_t kernels = 0;
#ifdef AC_HAVE_OPENCL
  if (device->backend == &ac_backend_opencl)
    kernels = ((const ac_opencl *)device->state)->kernel_count;
#endif
  return kernels + (int64_t)device->backend->objects(device->state);
}

/* y = scale(scale(x, down), up) of values near 1: what `down` flushes or `up` overflows is counted
 * in its own layer. */
static void watch(const char *name, ac_precision precision, float down, float up, int64_t flushed,
                  int64_t overflowed) {
  ac_device *device = open_device(name);
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const int64_t rows[] = {AC_BATCH, 8};
  ac_tensor *x = ac_input(g, "x", AC_F32, 2, rows), *goal = ac_input(g, "goal", AC_F32, 2, rows);
  ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}};
  ac_tensor *gate = ac_parameter(g, "gate", 1, (const int64_t[]){8}, &one);
  ac_graph_scope(g, "down");
  /* What is kept is not fused with what reads it. */
  ac_tensor *h = ac_tensor_hint(ac_multiply(x, gate), AC_KEEP);
  h = ac_tensor_hint(ac_scale(h, down), AC_KEEP);
  ac_graph_scope(g, "up");
  h = ac_scale(h, up);
  ac_graph_scope(g, NULL);
  ac_graph_set_loss(g, ac_mean_squared_error(h, goal, NULL));
  ac_plan *plan;
  ac_trainer *trainer;
  ac_plan_desc desc = {
      .batch = 3, .micro_batch = 2, .precision = precision, .debug_numerics = true};
  assert_ok(ac_plan_create(&plan, g, device, &desc));
  ac_trainer_desc how = {.schedule = {.lr = 1e-3}, .loss_scaling = {.kind = AC_LOSS_SCALING_NONE}};
  assert_ok(ac_trainer_create(&trainer, plan, &how));
  int64_t compiled = made_so_far(device);
  float values[24], zeros[24] = {0};
  for (int i = 0; i < 24; i++) values[i] = i % 8 ? 1 + (float)i / 64 : 0; /* three true zeros */
  ac_feed feeds[] = {{"x", values}, {"goal", zeros}};
  for (int u = 0; u < 2; u++) {
    assert_ok(ac_trainer_accumulate(trainer, 3, feeds, 2));
    assert_ok(ac_trainer_update(trainer, NULL));
  }
  assert_int_equal(made_so_far(device), compiled);
  int found = 0;
  for (int i = 0; i < ac_trainer_numerics_count(trainer); i++) {
    ac_numerics n;
    assert_ok(ac_trainer_numerics(trainer, i, &n));
    if (n.backward || strcmp(n.op, "scale") != 0) continue;
    found++;
    bool is_up = !strcmp(n.scope, "up");
    assert_int_equal(n.values, 48);
    assert_int_equal(n.flushed, is_up ? 0 : flushed);
    assert_int_equal(n.overflowed, is_up ? overflowed : 0);
  }
  assert_int_equal(found, 2);
  assert_refused(ac_trainer_numerics(trainer, -1, &(ac_numerics){0}), AC_ERROR_ARGUMENT, "watched");
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(device);
}

/* What a scale flushes is counted there, not where the result is moved to or read again: after it
 * come a transpose, a slice and a joint. An embedding reads a weight that f16 flushes. */
static void moved_values_are_counted_once(const char *name, ac_precision precision) {
  if (precision != AC_PRECISION_F16) return;
  ac_device *device = open_device(name);
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_parameter_desc tiny = {.init = {AC_INIT_CONSTANT, .value = 0x1p-30f}},
                    one = {.init = {AC_INIT_CONSTANT, .value = 1}};
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, 2));
  ac_tensor *goal = ac_input(g, "goal", AC_F32, SHAPE(AC_BATCH, 4, 4));
  ac_tensor *h = ac_embedding(ac_parameter(g, "table", SHAPE(3, 4), &tiny), ids);
  h = ac_add(h, ac_parameter(g, "shift", SHAPE(4), &one));
  ac_tensor *down = ac_scale(h, 0x1p-26f);
  ac_tensor *turned = ac_transpose(ac_slice(down, 1, 0, 2), 1, 2);
  turned = ac_concat(g, (ac_tensor *[]){turned, turned}, 2, 2);
  ac_graph_set_loss(g, ac_mean_squared_error(turned, goal, NULL));
  assert_ok(ac_graph_status(g));
  ac_plan *plan;
  ac_trainer *trainer;
  ac_plan_desc desc = {
      .batch = 3, .micro_batch = 3, .precision = precision, .debug_numerics = true};
  assert_ok(ac_plan_create(&plan, g, device, &desc));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = -1}}));
  const int32_t rows[] = {0, 1, 2, 0, 1, 2};
  const float zeros[48] = {0};
  const float table[12] = {0x1p-30f, 0x1p-30f, 0x1p-30f, 0x1p-30f};
  assert_ok(ac_trainer_set_parameter(trainer, 0, 0, 12, table));
  ac_feed feeds[] = {{"ids", rows}, {"goal", zeros}};
  assert_ok(ac_trainer_accumulate(trainer, 3, feeds, 2));
  assert_ok(ac_trainer_update(trainer, NULL));
  int64_t flushed = 0;
  for (int i = 0; i < ac_trainer_numerics_count(trainer); i++) {
    ac_numerics n;
    assert_ok(ac_trainer_numerics(trainer, i, &n));
    if (!n.backward) flushed += n.flushed;
    assert_string_not_equal(n.op, "transpose");
  }
  assert_int_equal(flushed, 3 * 2 * 4);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(device);
}

static void moved_values_are_counted_once_everywhere(void **state) {
  (void)state;
  everywhere(moved_values_are_counted_once);
}

/* Of a model's backward pass over two samples of zeros (the output should be -1): the counts of the
 * one op of this name, and what all ops flush. */
static void backward_counts(const char *name, ac_tensor *(*model)(ac_graph *g, ac_tensor *x),
                            int64_t width, const char *op, ac_numerics *counts, int64_t *flushed) {
  ac_device *device = open_device(name);
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4));
  ac_tensor *goal = ac_input(g, "goal", AC_F32, SHAPE(AC_BATCH, width));
  ac_graph_set_loss(g, ac_mean_squared_error(model(g, x), goal, NULL));
  assert_ok(ac_graph_status(g));
  ac_plan *plan;
  ac_trainer *trainer;
  ac_plan_desc desc = {
      .batch = 2, .micro_batch = 2, .precision = AC_PRECISION_F16, .debug_numerics = true};
  assert_ok(ac_plan_create(&plan, g, device, &desc));
  ac_trainer_desc how = {.schedule = {.lr = -1}, .loss_scaling = {.kind = AC_LOSS_SCALING_NONE}};
  assert_ok(ac_trainer_create(&trainer, plan, &how));
  float zeros[8] = {0}, goals[16];
  for (int i = 0; i < 16; i++) goals[i] = -1;
  ac_feed feeds[] = {{"x", zeros}, {"goal", goals}};
  assert_ok(ac_trainer_accumulate(trainer, 2, feeds, 2));
  assert_ok(ac_trainer_update(trainer, NULL));
  int found = 0;
  *flushed = 0;
  for (int i = 0; i < ac_trainer_numerics_count(trainer); i++) {
    ac_numerics n;
    assert_ok(ac_trainer_numerics(trainer, i, &n));
    if (!n.backward) continue;
    *flushed += n.flushed;
    if (strcmp(n.op, op) != 0) continue;
    *counts = n;
    found++;
  }
  assert_int_equal(found, 1);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(device);
}

static ac_tensor *gated(ac_graph *g, ac_tensor *x) {
  return ac_multiply(x, ac_parameter(g, "gate", SHAPE(4), NULL));
}

/* Either joint hands back gradients of 40000. */
static ac_tensor *joined_twice(ac_graph *g, ac_tensor *x) {
  ac_tensor *h = gated(g, x);
  ac_tensor *a = ac_concat(g, (ac_tensor *[]){h, x}, 2, 1),
            *b = ac_concat(g, (ac_tensor *[]){x, h}, 2, 1);
  return ac_add(ac_scale(a, 320000), ac_scale(b, 320000));
}

/* Both halves get the same gradient, which f16 flushes. */
static ac_tensor *halved(ac_graph *g, ac_tensor *x) {
  ac_tensor *h = gated(g, x);
  return ac_add(ac_scale(ac_slice(h, 1, 0, 2), 0x1p-26f), ac_scale(ac_slice(h, 1, 2, 2), 0x1p-26f));
}

/* What is moved and added to something else may overflow as any sum. But what it left alone was
 * counted before. */
static void sums_of_moved_values_are_counted(const char *name, ac_precision precision) {
  if (precision != AC_PRECISION_F16) return;
  ac_numerics counts;
  int64_t flushed;
  backward_counts(name, joined_twice, 8, "slice", &counts, &flushed);
  assert_int_equal(counts.values, 8);
  assert_int_equal(counts.overflowed, 8);
  backward_counts(name, halved, 2, "slice", &counts, &flushed);
  assert_int_equal(counts.flushed, 0);
  assert_int_equal(flushed, 4);
}

static void sums_of_moved_values_are_counted_everywhere(void **state) {
  (void)state;
  everywhere(sums_of_moved_values_are_counted);
}

static void losses_of_numbers_are_counted(const char *device, ac_precision precision) {
  bool f16 = precision == AC_PRECISION_F16;
  watch(device, precision, 0x1p-26f, 0.5f, f16 ? 42 : 0, 0);
  watch(device, precision, 0.5f, 0x1p17f, 0, f16 ? 42 : 0);
  watch(device, precision, 0.5f, 2, 0, 0);
}

static void losses_of_numbers_are_counted_everywhere(void **state) {
  (void)state;
  everywhere(losses_of_numbers_are_counted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moved_values_are_counted_once_everywhere),
      cmocka_unit_test(sums_of_moved_values_are_counted_everywhere),
      cmocka_unit_test(losses_of_numbers_are_counted_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
