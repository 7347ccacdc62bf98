/* Parameters that a plan freezes: what they no longer take, where the backward pass ends, what is
 * stored in 16 bits alone, and states of other runs. */
#include "support/files.h"

#include "support/runs.h"

#include "plan/plan.h"

static const test_gpt blocks = {3, 24, 9, 17, 2, 0, true, true};
static const char lower[] = "w?e.w,h0.*,h1.*";

static ac_plan *plan_with(ac_device *device, ac_plan_desc desc) {
  ac_plan *plan;
  ac_graph *graph = test_gpt_graph(&blocks);
  desc.batch = 8;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  ac_graph_free(graph);
  return plan;
}

static bool is_lower(const char *scope) {
  return !strcmp(scope, "h0") || !strcmp(scope, "h1");
}

static bool is_frozen(const char *name) {
  return name[0] == 'w' || !strncmp(name, "h0.", 3) || !strncmp(name, "h1.", 3);
}

/* Bytes of a role, by whether its parameter is frozen. */
static uint64_t bytes_of(const ac_plan *plan, ac_role role, bool frozen) {
  uint64_t bytes = 0;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != role) continue;
    const int tensor = plan->graph->parameters[cell->owner];
    if (is_frozen(ac_tensor_at(plan->graph, tensor)->name) == frozen) bytes += cell->bytes;
  }
  return bytes;
}

/* Backward nodes of the blocks below, and forward ones. */
static void count_steps(const ac_plan *plan, int *backward, int *forward) {
  *backward = *forward = 0;
  for (int64_t i = 0; i < plan->info.steps; i++) {
    ac_plan_step step;
    assert_ok(ac_plan_get_step(plan, i, &step));
    if (is_lower(step.scope)) ++*(step.backward ? backward : forward);
  }
}

static void takes_no_more_than_what_is_trained(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  for (int recompute = 0; recompute < 3; recompute++) {
    ac_plan_desc desc = {.micro_batch = 4, .recompute = (ac_recompute)recompute};
    ac_plan *all = plan_with(device, desc);
    desc.frozen = lower;
    ac_plan *some = plan_with(device, desc);
    int backward, forward, all_backward, all_forward;
    count_steps(all, &all_backward, &all_forward);
    count_steps(some, &backward, &forward);
    assert_true(all_backward > 0 && backward == 0);
    assert_true(forward > 0 && forward <= all_forward);
    if (recompute != AC_RECOMPUTE_ALL) assert_int_equal(forward, all_forward);
    assert_true(some->info.frozen_count > 0);
    assert_int_equal(some->info.parameter_count + some->info.frozen_count,
                     all->info.parameter_count);
    for (ac_role role = AC_ROLE_PARAMETER; role <= AC_ROLE_STATE; role++)
      assert_int_equal(bytes_of(some, role, false), bytes_of(all, role, false));
    assert_int_equal(bytes_of(some, AC_ROLE_PARAMETER, true),
                     bytes_of(all, AC_ROLE_PARAMETER, true));
    assert_int_equal(bytes_of(some, AC_ROLE_GRADIENT, true), 0);
    assert_int_equal(bytes_of(some, AC_ROLE_STATE, true), 0);
    assert_int_equal(bytes_of(some, AC_ROLE_STATISTICS, true), 0);
    assert_true(some->info.bytes.activations < all->info.bytes.activations ||
                recompute == AC_RECOMPUTE_ALL);
    assert_true(some->info.predicted_seconds < all->info.predicted_seconds);
    ac_plan_free(all);
    ac_plan_free(some);
  }
  ac_device_close(device);
}

/* What runs below the cut does so once, however little memory there is. */
static void nothing_below_runs_again(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_plan *tight = plan_with(
      device, (ac_plan_desc){.micro_batch = 4, .frozen = lower, .recompute = AC_RECOMPUTE_ALL});
  assert_true(tight->info.recomputed_ops > 0);
  for (int64_t i = 0; i < tight->info.steps; i++) {
    ac_plan_step step;
    assert_ok(ac_plan_get_step(tight, i, &step));
    assert_false(step.recomputed && is_lower(step.scope));
  }
  ac_plan_free(tight);
  ac_device_close(device);
}

/* Weights of products have no original in f32; vectors of norms are read as floats. */
static void sixteen_bits_alone(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_plan *plan = plan_with(
      device, (ac_plan_desc){.micro_batch = 4, .frozen = lower, .precision = AC_PRECISION_BF16});
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    const char *name = ac_tensor_at(plan->graph, plan->graph->parameters[i])->name;
    const bool original = ac_plan_cell(plan, AC_ROLE_PARAMETER, i, 0),
               copy = ac_plan_cell(plan, AC_ROLE_WORKING, i, 0);
    const bool vector = strstr(name, ".b") || strstr(name, "ln");
    assert_int_equal(original, vector || !is_frozen(name));
    assert_int_equal(copy, !vector);
  }
  ac_plan_free(plan);
  ac_device_close(device);
}

static void refuses_what_is_not_there(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_graph *graph = test_gpt_graph(&blocks);
  ac_plan *plan;
  static const struct {
    const char *frozen, *sentence;
  } cases[] = {{"h0.*,nothing*", "no parameter's name matches \"nothing*\", which is to be frozen"},
               {"", "no parameter's name matches \"\""},
               {"h0.*,", "no parameter's name matches \"\""},
               {"*", "the loss depends on no trainable parameter"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_refused(ac_plan_create(&plan, graph, device,
                                  &(ac_plan_desc){.batch = 1, .frozen = cases[i].frozen}),
                   AC_ERROR_ARGUMENT, cases[i].sentence);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* Where the largest of each row is, found by one op that has a gradient and one that has none. */
static ac_tensor *places_by(ac_tensor *x, bool sorted) {
  ac_tensor *ids;
  if (!sorted) return ac_argmax(x, -1, false);
  ac_top_k(x, 1, &ids);
  return ids;
}

/* No gradient goes through ids, whichever way the table that they index is frozen. */
static void check_ids_depend_on_nothing(ac_device *device, bool sorted, const char *sentence) {
  for (int i = 0; i < 3; i++) {
    ac_graph *g;
    ac_plan *plan;
    assert_ok(ac_graph_create(&g));
    ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 3));
    ac_tensor *p = ac_parameter(g, "p", SHAPE(3), &(ac_parameter_desc){.frozen = i == 2});
    ac_tensor *table =
        ac_parameter(g, "table", SHAPE(3, 2), &(ac_parameter_desc){.frozen = i != 1});
    ac_tensor *ids = places_by(ac_multiply(x, p), sorted);
    ac_graph_set_loss(g, ac_loss(ac_embedding(table, ids), NULL));
    const ac_plan_desc desc = {.batch = 2, .frozen = i == 1 ? "table" : NULL};
    assert_refused(ac_plan_create(&plan, g, device, &desc), AC_ERROR_ARGUMENT,
                   i == 2 ? "the loss depends on no trainable parameter" : sentence);
    ac_graph_free(g);
  }
}

static void ids_depend_on_nothing(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  check_ids_depend_on_nothing(
      device, false,
      "the loss has no gradient, and would train nothing: it depends on parameter \"p\" only "
      "through argmax, which passes no gradient on");
  check_ids_depend_on_nothing(
      device, true,
      "the loss has no gradient, and would train nothing: it depends on parameter \"p\" only "
      "through top_k, which passes no gradient on");
  ac_device_close(device);
}

/* A graph with parameters p, which a squared loss trains, and t, from which `make` makes another
 * loss of each row. */
static ac_plan *plan_of_losses(ac_device *device, ac_tensor *(*make)(ac_tensor *x, ac_tensor *t),
                               const char *frozen, ac_status *status) {
  ac_graph *g;
  ac_plan *plan = NULL;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 3));
  ac_tensor *p = ac_parameter(g, "p", SHAPE(3), NULL), *t = ac_parameter(g, "t", SHAPE(3), NULL);
  ac_graph_add_loss(g, "squares", ac_loss(ac_square(ac_multiply(x, p)), NULL), 1);
  ac_graph_add_loss(g, "other", ac_loss(make(ac_multiply(x, p), t), NULL), 1);
  *status = ac_plan_create(
      &plan, g, device,
      &(ac_plan_desc){.batch = 2, .frozen = frozen, .loss_means = AC_LOSS_MEANS_PER_SAMPLE});
  ac_graph_free(g);
  return plan;
}

static ac_tensor *is_less(ac_tensor *x, ac_tensor *t) {
  return ac_less(x, t);
}
static ac_tensor *masked(ac_tensor *x, ac_tensor *t) {
  return ac_multiply(x, ac_less(x, t));
}
static ac_tensor *chosen(ac_tensor *x, ac_tensor *t) {
  return ac_formula(x->graph, "where(a < b, a * 2, a)", (ac_tensor *[]){x, t}, 2);
}
static ac_tensor *signs(ac_tensor *x, ac_tensor *t) {
  return ac_add(x, ac_sign(ac_scale(t, 2)));
}
static ac_tensor *added(ac_tensor *x, ac_tensor *t) {
  return ac_multiply(ac_add(x, t), ac_less(x, t));
}

/* A loss or a parameter that only functions without a gradient separate would train nothing, or not
 * be trained, without a word. */
static void comparisons_train_nothing(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  static const struct {
    ac_tensor *(*make)(ac_tensor *x, ac_tensor *t);
    const char *frozen, *sentence; /* NULL: planned */
  } cases[] = {
      {is_less, NULL,
       "the loss other has no gradient, and would train nothing: it depends on "
       "parameter \"p\" only through less, which passes no gradient on"},
      {masked, NULL, "parameter \"t\" would not be trained: the losses depend on it only through "},
      {chosen, NULL, "parameter \"t\" would not be trained"},
      {signs, NULL, "parameter \"t\" would not be trained"},
      {masked, "t", NULL},
      {chosen, "t", NULL},
      {added, NULL, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_status status;
    ac_plan *plan = plan_of_losses(device, cases[i].make, cases[i].frozen, &status);
    if (cases[i].sentence) assert_refused(status, AC_ERROR_ARGUMENT, cases[i].sentence);
    else assert_ok(status);
    ac_plan_free(plan);
  }
  ac_device_close(device);
}

/* ---- states ---------------------------------------------------------------------------------- */

static run begin(const char *device, ac_plan_desc plan) {
  plan.batch = 8;
  plan.micro_batch = plan.micro_batch ? plan.micro_batch : 4;
  return start(device, &blocks, plan, (ac_trainer_desc){.seed = 5});
}

static void train(run *r, const corpus *c, int first, int last) {
  for (int u = first; u < last; u++) {
    assert_ok(feed(r, c, u, 8));
    assert_ok(ac_trainer_update(r->trainer, NULL));
  }
}

/* A run that goes on from a state leaves the bits of one that never stopped. */
static void check_resumed(const char *device) {
  static const ac_plan_desc plans[] = {
      {.frozen = lower},
      {.frozen = lower, .precision = AC_PRECISION_BF16},
      {.frozen = lower, .precision = AC_PRECISION_F16},
      {.frozen = lower, .precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16},
      {.frozen = lower, .gradients = AC_GRADIENTS_FUSED, .micro_batch = 8},
      {.frozen = lower, .gradients = AC_GRADIENTS_FUSED_LOCAL, .micro_batch = 8},
      {.frozen = lower, .gradients = AC_GRADIENTS_FOLDED},
      {.frozen = lower, .optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}},
  };
  const corpus c = make_corpus();
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    const test_path path = in_folder("state.safetensors");
    size_t count;
    run r = begin(device, plans[i]);
    float *start_values = all_parameters(&r, &count);
    train(&r, &c, 0, 3);
    assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
    train(&r, &c, 3, 6);
    float *whole = all_parameters(&r, &count);
    size_t moved = 0;
    for (size_t e = 0; e < count; e++) moved += whole[e] != start_values[e];
    assert_true(moved > 0 && (int64_t)moved <= ac_plan_get_info(r.plan)->parameter_count);
    stop(&r);
    r = begin(device, plans[i]);
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    train(&r, &c, 3, 6);
    float *parts = all_parameters(&r, &count);
    assert_memory_equal(parts, whole, count * sizeof *whole);
    free(start_values), free(whole), free(parts);
    stop(&r);
  }
}

ON_EVERY_DEVICE(check_resumed)

static void states_of_other_runs_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *saved, *loaded, *sentence;
  } cases[] = {
      {NULL, lower, "is of a run that trained wte.w, which is frozen here"},
      {lower, NULL, "is of a run that had wte.w frozen, which is trained here"},
      {"h0.*", "h1.*", "is of a run that trained h1."},
      {lower, "h1.*,h0.*,w?e.*", NULL},
  };
  const corpus c = make_corpus();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const test_path path = in_folder("other.safetensors");
    run r = begin("cpu", (ac_plan_desc){.frozen = cases[i].saved});
    train(&r, &c, 0, 1);
    assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
    stop(&r);
    r = begin("cpu", (ac_plan_desc){.frozen = cases[i].loaded});
    if (!cases[i].sentence) assert_ok(ac_trainer_load_state(r.trainer, path.text));
    else
      assert_refused(ac_trainer_load_state(r.trainer, path.text), AC_ERROR_FORMAT,
                     cases[i].sentence);
    stop(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_no_more_than_what_is_trained),
      cmocka_unit_test(nothing_below_runs_again),
      cmocka_unit_test(sixteen_bits_alone),
      cmocka_unit_test(refuses_what_is_not_there),
      cmocka_unit_test(ids_depend_on_nothing),
      cmocka_unit_test(comparisons_train_nothing),
      cmocka_unit_test(check_resumed_everywhere),
      cmocka_unit_test(states_of_other_runs_are_refused),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
