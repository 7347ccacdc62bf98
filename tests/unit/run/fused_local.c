/* Plans that step each parameter by itself in a window's only pass: what is clipped, what a
 * gradient that is not finite holds back, and what nobody can ask for there. fused.c tests that
 * they leave the same bits as other plans if nothing is clipped. On the CPU and on every OpenCL
 * device.
 */
#include "support/files.h"
#include "support/passes.h"

#include <math.h>

/* ---- clipping -------------------------------------------------------------------------------- */

/* What SGD makes of a parameter with a gradient clipped alone, from a trainer that keeps it;
 * true: it was clipped. Products are rounded twice more than there. */
static bool assert_clipped_alone(const run *kept, const run *local, int parameter, double weight,
                                 double rate, double clip) {
  const int64_t count = elements(kept->trainer, parameter);
  float *w = malloc((size_t)count * sizeof *w), *g = malloc((size_t)count * sizeof *g),
        *stepped = malloc((size_t)count * sizeof *stepped);
  double squares = 0;
  assert_ok(ac_trainer_get_parameter(kept->trainer, parameter, 0, count, w));
  assert_ok(ac_trainer_get_gradient(kept->trainer, parameter, 0, count, g));
  assert_ok(ac_trainer_get_parameter(local->trainer, parameter, 0, count, stepped));
  for (int64_t i = 0; i < count; i++) squares += (double)g[i] * (double)g[i];
  const double norm = sqrt(squares) / weight, factor = norm > clip ? clip / norm : 1;
  for (int64_t i = 0; i < count; i++) {
    const double step = rate * factor * (double)g[i] / weight, exact = (double)w[i] - step;
    assert_true(fabs((double)stepped[i] - exact) <= 1e-6 * fabs(step) + 1e-7 * fabs(exact));
  }
  assert_ok(ac_trainer_set_parameter(kept->trainer, parameter, 0, count, stepped));
  free(w);
  free(g);
  free(stepped);
  return factor < 1;
}

static void each_is_clipped_alone(const char *name) {
  ac_device *device = open_device(name);
  const double rate = 0.1, clip = 0.05;
  const corpus c = make_corpus();
  const ac_plan_desc plan = {.batch = BATCH,
                             .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = rate}, .optimizer = {.clip = clip}};
  ac_plan_desc passing = plan;
  passing.gradients = AC_GRADIENTS_FUSED_LOCAL;
  run kept = start_on(device, &model, plan, desc), local = start_on(device, &model, passing, desc);
  int clipped = 0, whole = 0;
  for (int u = 0; u < 8; u++) { /* gradients shrink below the bound */
    ac_update update;
    /* The same random numbers: both have made as many updates. */
    assert_ok(feed(&kept, &c, u, BATCH));
    assert_ok(feed(&local, &c, u, BATCH));
    assert_ok(ac_trainer_update(local.trainer, &update));
    assert_false(update.skipped);
    for (int p = 0; p < ac_trainer_parameter_count(kept.trainer); p++) {
      const bool cut = assert_clipped_alone(&kept, &local, p, update.weight, rate, clip);
      clipped += cut;
      whole += !cut;
    }
    ac_trainer_discard(kept.trainer);
    kept.trainer->run.updates++;
  }
  assert_true(clipped > 0 && whole > 0);
  stop_on(&kept);
  stop_on(&local);
  ac_device_close(device);
}
ON_EVERY_DEVICE(each_is_clipped_alone)

/* ---- what is not finite ---------------------------------------------------------------------- */

enum { WIDTH = 6 };

/* y = a x + b z against t: the gradient of b overflows where z is large, and the loss does not
 * while b is zero. */
static ac_graph *sum_of_two(void) {
  ac_graph *graph;
  const int64_t width = WIDTH;
  const ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}};
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, WIDTH));
  ac_tensor *z = ac_input(graph, "z", AC_F32, SHAPE(AC_BATCH, WIDTH));
  ac_tensor *t = ac_input(graph, "t", AC_F32, SHAPE(AC_BATCH, WIDTH));
  ac_tensor *y = ac_add(ac_multiply(x, ac_parameter(graph, "a", 1, &width, &one)),
                        ac_multiply(z, ac_parameter(graph, "b", 1, &width, NULL)));
  ac_graph_set_loss(graph, ac_mean_squared_error(y, t, NULL));
  return graph;
}

static run start_sum(ac_device *device, ac_gradients gradients, const ac_trainer_desc *desc) {
  const ac_plan_desc plan = {.batch = BATCH, .gradients = gradients};
  return run_of(device, sum_of_two(), &plan, desc);
}

static ac_update step_sum(run *r, float target, float poison) {
  float x[BATCH * WIDTH], z[BATCH * WIDTH], t[BATCH * WIDTH];
  const ac_feed feeds[] = {{"x", x}, {"z", z}, {"t", t}};
  ac_update update;
  for (int i = 0; i < BATCH * WIDTH; i++) {
    x[i] = (float)(i * 7 % 31) / 16 - 1;
    z[i] = poison;
    t[i] = (float)(i * 5 % 13) / 8 + 3;
  }
  t[0] = target;
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, feeds, 3));
  assert_ok(ac_trainer_update(r->trainer, &update));
  return update;
}

static float *all_state(const run *r, int parameter) {
  const int64_t count = WIDTH;
  float *state = malloc(2 * (size_t)count * sizeof *state);
  for (int k = 0; k < 2; k++)
    assert_ok(ac_trainer_get_state(r->trainer, parameter, k, 0, count, state + k * count));
  return state;
}

static void assert_same_parameter(const run *a, const run *b, int parameter) {
  float of_a[WIDTH], of_b[WIDTH];
  assert_ok(ac_trainer_get_parameter(a->trainer, parameter, 0, WIDTH, of_a));
  assert_ok(ac_trainer_get_parameter(b->trainer, parameter, 0, WIDTH, of_b));
  assert_memory_equal(of_a, of_b, sizeof of_a);
  float *state_a = all_state(a, parameter), *state_b = all_state(b, parameter);
  assert_memory_equal(state_a, state_b, 2 * sizeof of_a);
  free(state_a);
  free(state_b);
}

/* If the gradient of one parameter overflows, it stays, with its optimizer state; the other one is
 * updated as always. If the loss is not finite, both stay. */
static void only_what_is_not_finite_stays(const char *name) {
  ac_device *device = open_device(name);
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 1e-2}};
  run kept = start_sum(device, AC_GRADIENTS_BUFFER, &desc),
      local = start_sum(device, AC_GRADIENTS_FUSED_LOCAL, &desc);
  step_sum(&kept, 1, 0);
  step_sum(&local, 1, 0);
  const ac_update clean = step_sum(&kept, 1, 0), poisoned = step_sum(&local, 1, 3e38f);
  assert_true(poisoned.loss == clean.loss && poisoned.weight == clean.weight);
  assert_true(poisoned.finite_loss && !poisoned.finite_gradient && isinf(poisoned.grad_norm));
  assert_false(poisoned.skipped);
  assert_false(poisoned.stuck);
  assert_int_equal(poisoned.left_out, 1);
  assert_int_equal(poisoned.update, 2);
  for (int p = 0; p < 2; p++) assert_same_parameter(&kept, &local, p);
  const float targets[] = {NAN, 3e19f}; /* its square is beyond floats */
  for (int i = 0; i < 2; i++) {
    const ac_update lost = step_sum(&local, targets[i], 0);
    assert_true(lost.skipped && !lost.finite_loss && lost.stuck);
    assert_int_equal(lost.finite_gradient, i);
    assert_int_equal(lost.update, 2);
    for (int p = 0; p < 2; p++) assert_same_parameter(&kept, &local, p);
  }
  step_sum(&kept, 1, 0.5f);
  const ac_update after = step_sum(&local, 1, 0.5f);
  assert_true(!after.skipped && after.finite_gradient && !after.stuck && !after.left_out);
  for (int p = 0; p < 2; p++) assert_same_parameter(&kept, &local, p);
  stop_on(&kept);
  stop_on(&local);
  ac_device_close(device);
}
ON_EVERY_DEVICE(only_what_is_not_finite_stays)

/* Two norms that share running statistics; what one of them pools overflows, and nothing else
 * does. */
static ac_graph *two_norms(void) {
  ac_graph *graph;
  const int64_t width = WIDTH;
  const ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}};
  const ac_parameter_desc kept = {.init = one.init, .frozen = true};
  assert_ok(ac_graph_create(&graph));
  ac_tensor *t = ac_input(graph, "t", AC_F32, SHAPE(AC_BATCH, WIDTH));
  ac_tensor *mean = ac_parameter(graph, "mean", 1, &width, &kept);
  ac_tensor *variance = ac_parameter(graph, "variance", 1, &width, &kept);
  ac_tensor *sum = ac_parameter(graph, "a", 1, &width, &one);
  for (int i = 0; i < 2; i++) {
    ac_tensor *x = ac_input(graph, i ? "z" : "x", AC_F32, SHAPE(AC_BATCH, WIDTH));
    ac_tensor *y = ac_batch_norm(x, NULL, NULL, mean, variance, NULL);
    sum = i ? ac_add(sum, y) : ac_multiply(y, sum);
  }
  ac_graph_set_loss(graph, ac_mean_squared_error(sum, t, NULL));
  return graph;
}

static void pools_that_are_not_finite_move_nothing(const char *name) {
  run r = {.device = open_device(name)};
  ac_graph *graph = two_norms();
  const ac_plan_desc plan = {.batch = BATCH, .gradients = AC_GRADIENTS_FUSED_LOCAL};
  float x[BATCH * WIDTH], z[BATCH * WIDTH], t[BATCH * WIDTH] = {0}, running[3][2][WIDTH];
  const ac_feed feeds[] = {{"x", x}, {"z", z}, {"t", t}};
  static const char *const names[] = {"mean", "variance"};
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, NULL));
  for (int u = 0; u < 3; u++) {
    ac_update update;
    for (int i = 0; i < BATCH * WIDTH; i++) {
      x[i] = (float)(i / WIDTH % 2 ? 1 : -1) * (u == 2 ? 3e20f : 1);
      z[i] = (float)(i / WIDTH % 2 ? 1 : -1) * (u == 1 ? 3e20f : 1);
    }
    assert_ok(ac_trainer_accumulate(r.trainer, BATCH, feeds, 3));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(update.finite_loss && !update.skipped && !update.left_out);
    assert_int_equal(update.finite_gradient, !u);
    for (int k = 0; k < 2; k++)
      assert_ok(ac_trainer_get_parameter(r.trainer, ac_trainer_find_parameter(r.trainer, names[k]),
                                         0, WIDTH, running[u][k]));
  }
  for (int u = 1; u < 3; u++) assert_memory_equal(running[0], running[u], sizeof running[0]);
  ac_graph_free(graph);
  stop(&r);
}
ON_EVERY_DEVICE(pools_that_are_not_finite_move_nothing)

/* Under a dynamic loss scale such a window makes it back off, as one that is skipped does. */
static void loss_scales_back_off(const char *name) {
  ac_device *device = open_device(name);
  const ac_trainer_desc desc = {.seed = 3,
                                .schedule = {.lr = 1e-2},
                                .loss_scaling = {.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 16}};
  run r = start_sum(device, AC_GRADIENTS_FUSED_LOCAL, &desc);
  assert_true(step_sum(&r, 1, 3e38f).loss_scale == 16);
  const ac_update next = step_sum(&r, 1, 3e38f);
  assert_true(next.loss_scale == 8 && !next.skipped && !next.stuck);
  assert_true(step_sum(&r, 1, 0).loss_scale == 4);
  assert_int_equal(step_sum(&r, 1, 0).update, 4);
  stop_on(&r);
  const ac_trainer_desc high = {
      .seed = 3, .schedule = {.lr = 1e-2}, .loss_scaling = {.scale = 0x1p40, .interval = 5}};
  trained t = train_passes(device, &model,
                           (ac_plan_desc){.batch = BATCH,
                                          .precision = AC_PRECISION_F16,
                                          .gradients = AC_GRADIENTS_FUSED_LOCAL},
                           &high, 2 * FEW);
  assert_true(t.updates[0].loss_scale == 0x1p40 && t.updates[t.made - 1].loss_scale < 0x1p40);
  for (size_t i = 0; i < t.count; i++) assert_true(isfinite(t.parameters[i]));
  free(t.parameters);
  ac_device_close(device);
}
ON_EVERY_DEVICE(loss_scales_back_off)

/* What was stepped in part does not run again. */
static bool count_replays(void *user, const ac_fit_event *event) {
  *(int *)user += event->kind == AC_FIT_STEP && event->replayed;
  return true;
}

static void windows_stepped_in_part_are_not_replayed(const char *name) {
  ac_device *device = open_device(name);
  static float x[BATCH * WIDTH], z[BATCH * WIDTH], t[BATCH * WIDTH];
  const ac_field fields[] = {{"x", AC_F32, WIDTH}, {"z", AC_F32, WIDTH}, {"t", AC_F32, WIDTH}};
  const void *arrays[] = {x, z, t};
  for (int i = 0; i < BATCH * WIDTH; i++) x[i] = 1, z[i] = 3e38f, t[i] = (float)(3 + i % 5);
  const ac_trainer_desc desc = {.seed = 3,
                                .schedule = {.lr = 1e-2},
                                .loss_scaling = {.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 16}};
  run r = start_sum(device, AC_GRADIENTS_FUSED_LOCAL, &desc);
  ac_dataset *dataset;
  ac_fit_result result;
  int replays = 0;
  assert_ok(ac_dataset_from_memory(&dataset, BATCH, 3, fields, arrays));
  assert_ok(ac_fit(r.trainer,
                   &(ac_fit_desc){.train = dataset,
                                  .steps = 2,
                                  .replay = true,
                                  .callback = count_replays,
                                  .user = &replays},
                   &result));
  assert_int_equal(replays, 0);
  assert_int_equal(result.updates, 2);
  assert_int_equal(result.skipped, 0);
  ac_dataset_free(dataset);
  stop_on(&r);
  ac_device_close(device);
}
ON_EVERY_DEVICE(windows_stepped_in_part_are_not_replayed)

/* ---- what is refused ------------------------------------------------------------------------- */

static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer, (void)decision;
}

static void windows_are_protected(const char *name) {
  ac_device *device = open_device(name);
  const corpus c = make_corpus();
  const ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
  run r = start_on(device, &model,
                   (ac_plan_desc){.batch = BATCH, .gradients = AC_GRADIENTS_FUSED_LOCAL},
                   (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
  ac_trainer *none;
  ac_update update;
  char where[64];
  float value;
  size_t count;
  assert_refused(ac_trainer_create(&none, r.plan, &(ac_trainer_desc){.decide = decide}),
                 AC_ERROR_ARGUMENT, "decisions are not available with AC_GRADIENTS_FUSED_LOCAL");
  assert_refused(ac_trainer_get_gradient(r.trainer, 0, 0, 1, &value), AC_ERROR_STATE,
                 "keeps no gradients (AC_GRADIENTS_FUSED_LOCAL)");
  assert_refused(ac_trainer_update(r.trainer, &update), AC_ERROR_STATE, "nothing was accumulated");
  float *before = all_parameters(&r, &count);
  assert_ok(ac_trainer_locate_nonfinite(r.trainer, BATCH, feeds, 3, where, sizeof where));
  assert_string_equal(where, "");
  assert_ok(feed(&r, &c, 0, BATCH - 1));
  assert_refused(feed(&r, &c, BATCH - 1, 1), AC_ERROR_STATE, "each in one piece");
  assert_refused(ac_trainer_locate_nonfinite(r.trainer, BATCH, feeds, 3, where, sizeof where),
                 AC_ERROR_STATE, "this would overwrite the window's samples");
  ac_trainer_discard(r.trainer);
  float *after = all_parameters(&r, &count);
  assert_memory_equal(before, after, count * sizeof *before);
  assert_ok(feed(&r, &c, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_int_equal(update.update, 1);
  assert_true(ac_trainer_gradient_norm(r.trainer, 0) > 0);
  free(before);
  free(after);
  stop_on(&r);
  ac_device_close(device);
}
ON_EVERY_DEVICE(windows_are_protected)

/* ---- plans ----------------------------------------------------------------------------------- */

static void plans_name_it(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  const test_gpt m = {4, 64, 16, 512, 2, 0, false, true};
  ac_plan *plans[3];
  const ac_plan_info *info[3];
  for (int i = 0; i < 3; i++) {
    plans[i] =
        plan_of(device, &m,
                (ac_plan_desc){.batch = 1, .gradients = (ac_gradients)(AC_GRADIENTS_BUFFER + i)});
    info[i] = ac_plan_get_info(plans[i]);
  }
  assert_int_equal(info[2]->gradients, AC_GRADIENTS_FUSED_LOCAL);
  assert_true(info[2]->bytes.total < info[0]->bytes.total);
  assert_true(info[2]->predicted_seconds < info[1]->predicted_seconds);
  assert_int_equal(info[2]->update_steps, 0);
  int64_t phases[3] = {0};
  for (int64_t i = 0; i < info[2]->steps; i++) {
    ac_plan_step step;
    assert_ok(ac_plan_get_step(plans[2], i, &step));
    phases[step.phase]++;
  }
  assert_int_equal(phases[AC_PLAN_REDUCE], phases[AC_PLAN_UPDATE]);
  assert_true(phases[AC_PLAN_UPDATE] > 0);
  ac_graph *graph = test_gpt_graph(&m);
  ac_plan *none;
  const ac_plan_desc kept = {
      .batch = 1, .whole_windows = true, .memory = 1, .gradients = AC_GRADIENTS_BUFFER};
  ac_plan_offer list[16];
  int count, local = 0;
  assert_ok(ac_plan_offers(graph, device, &kept, list, 16, &count));
  for (int i = 0; i < count; i++) local += (list[i].reliefs & AC_RELIEF_GRADIENTS_LOCAL) != 0;
  assert_int_equal(local, 1);
  const ac_plan_desc split = {.batch = 8, .micro_batch = 4, .gradients = AC_GRADIENTS_FUSED_LOCAL};
  assert_refused(ac_plan_create(&none, graph, device, &split), AC_ERROR_ARGUMENT,
                 "gradients that are fused locally need a window of one micro-batch");
  ac_graph_free(graph);
  for (int i = 0; i < 3; i++) ac_plan_free(plans[i]);
  ac_device_close(device);
}

static void swap(ac_plan *plan, int a, int b) {
  const ac_step step = plan->main.steps[a];
  plan->main.steps[a] = plan->main.steps[b];
  plan->main.steps[b] = step;
}

/* A step before it is measured, before its readers, and before a loss. */
static void steps_out_of_place_are_found(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  ac_plan *plan = plan_of(device, &model,
                          (ac_plan_desc){.batch = BATCH,
                                         .recompute = AC_RECOMPUTE_ALL,
                                         .gradients = AC_GRADIENTS_FUSED_LOCAL});
  ac_sequence *main = &plan->main;
  const int measured = find_step(plan, main, AC_OP_gradient_statistics),
            stepped = find_step(plan, main, AC_OP_adamw);
  const int gradient = main->steps[stepped].in[0].tensor;
  int own = measured;
  while (main->steps[own].in[0].tensor != gradient) own++;
  assert_ok(ac_plan_check(plan));
  assert_true(own < stepped);
  swap(plan, own, stepped);
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would step what was not measured");
  swap(plan, own, stepped);
  move(main, stepped, 0);
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would read what was stepped before");
  move(main, 0, stepped);
  const int graph_losses = plan->problem.graph->loss_count;
  plan->problem.graph->loss_count++;
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "before all losses are known");
  plan->problem.graph->loss_count = graph_losses;
  assert_ok(ac_plan_check(plan));
  ac_plan_free(plan);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_is_clipped_alone_everywhere),
      cmocka_unit_test(only_what_is_not_finite_stays_everywhere),
      cmocka_unit_test(pools_that_are_not_finite_move_nothing_everywhere),
      cmocka_unit_test(loss_scales_back_off_everywhere),
      cmocka_unit_test(windows_stepped_in_part_are_not_replayed_everywhere),
      cmocka_unit_test(windows_are_protected_everywhere),
      cmocka_unit_test(plans_name_it),
      cmocka_unit_test(steps_out_of_place_are_found),
  };
  return cmocka_run_group_tests_name("fused_local", tests, make_test_folder, remove_test_folder);
}
