/* Steps that end a window and are given to a backend together may run in any order. In reverse
 * order they come to the same bits, for every built-in optimizer, with clipping before them,
 * averaging after them and storage in 16 bits. */
#include "support/runs.h"

#include "core/error.h"

#include <stdio.h>

/* A device that runs steps in order, or those that are handed over together backwards. */
static struct {
  const ac_backend *real;
  ac_backend backend;
  bool backwards;
  int most[2]; /* handed over at a time: statistics, and steps of an update */
} ordered;

static ac_status run_all(void *state, const ac_op_args *args, int count) {
  int *most = &ordered.most[args->op != AC_OP_gradient_statistics];
  if (count > *most) *most = count;
  for (int i = 0; i < count; i++)
    AC_TRY(ordered.real->run(state, &args[ordered.backwards ? count - 1 - i : i]));
  return AC_OK;
}

static ac_device *open_ordered(bool backwards) {
  ac_device *device = open_device("cpu");
  ordered.real = device->backend;
  ordered.backend = *device->backend;
  ordered.backend.run_all = run_all;
  ordered.backwards = backwards;
  ordered.most[0] = ordered.most[1] = 0;
  device->backend = &ordered.backend;
  return device;
}

/* All parameters after some updates, followed by all averages; free it. */
static float *train(const ac_plan_desc *plan, bool backwards, size_t *total) {
  enum { UPDATES = 4 };
  const corpus c = make_corpus();
  run r = start_on(open_ordered(backwards), &model, *plan,
                   (ac_trainer_desc){.seed = 3,
                                     .schedule = {.lr = 1e-3},
                                     .optimizer = {.clip = 0.1},
                                     .average_decay = plan->average ? 0.5 : 0});
  for (int u = 0; u < UPDATES; u++) {
    assert_ok(feed(&r, &c, u, (int)plan->batch));
    assert_ok(ac_trainer_update(r.trainer, NULL));
  }
  size_t averages = 0;
  float *parameters = all_parameters(&r, total), *of_averages = NULL;
  if (plan->average) {
    assert_ok(ac_trainer_use_average(r.trainer, true));
    of_averages = all_parameters(&r, &averages);
    parameters = realloc(parameters, (*total + averages) * sizeof *parameters);
    assert_non_null(parameters);
    memcpy(parameters + *total, of_averages, averages * sizeof *parameters);
  }
  *total += averages;
  free(of_averages);
  stop(&r);
  return parameters;
}

static void check(const ac_plan_desc *plan) {
  size_t total, same;
  float *in_order = train(plan, false, &total), *backwards = train(plan, true, &same);
  assert_int_equal(total, same);
  for (size_t i = 0; i < total; i++)
    if (memcmp(&in_order[i], &backwards[i], sizeof *in_order))
      fail_msg("optimizer %d, clipping %d, average %d: element %zu of %zu",
               (int)plan->optimizer.kind, (int)plan->optimizer.clipping, plan->average, i, total);
  /* Else nothing has been asked. */
  if (ordered.most[0] < 10 || ordered.most[1] < 10)
    fail_msg("optimizer %d, clipping %d: at most %d and %d were handed over together",
             (int)plan->optimizer.kind, (int)plan->optimizer.clipping, ordered.most[0],
             ordered.most[1]);
  free(in_order);
  free(backwards);
}

static void optimizers_and_clipping(void **unused) {
  static const ac_clipping clippings[] = {AC_CLIP_NORM, AC_CLIP_VALUE, AC_CLIP_ADAPTIVE};
  (void)unused;
  for (int optimizer = 0; optimizer < AC_OPTIMIZER_CALLBACK; optimizer++)
    for (int c = 0; c < 3; c++)
      for (int average = 0; average < 2; average++)
        check(&(ac_plan_desc){
            .batch = 8,
            .micro_batch = 4,
            .optimizer = {.kind = (ac_optimizer_kind)optimizer, .clipping = clippings[c]},
            .average = average});
}

static void storage_and_gradients(void **unused) {
  static const ac_plan_desc plans[] = {
      {.batch = 8, .precision = AC_PRECISION_BF16, .average = true},
      {.batch = 8, .precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16},
      {.batch = 8, .precision = AC_PRECISION_F16, .micro_batch = 3},
      {.batch = 8,
       .whole_windows = true,
       .optimizer = {.clipping = AC_CLIP_VALUE},
       .average = true},
      {.batch = 8, .whole_windows = true, .optimizer = {.clipping = AC_CLIP_ADAPTIVE}},
      {.batch = 8, .optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}, .average = true},
      {.batch = 8, .precision = AC_PRECISION_BF16, .gradient_storage = AC_GRADIENT_BF16},
  };
  (void)unused;
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) check(&plans[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(optimizers_and_clipping),
      cmocka_unit_test(storage_and_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
