/* Plans that keep no gradients run the backward pass twice, and step each parameter in the second,
 * or once, and step each one by itself. The first changes what a window takes, not one bit of what
 * it computes, nor does the second where nothing is clipped and all is finite. On the CPU and on
 * every OpenCL device. */
#include "support/files.h"
#include "support/passes.h"
#include "support/models.h"

/* ---- a transformer --------------------------------------------------------------------------- */

static uint64_t sum(const ac_plan_bytes *b) {
  return b->parameters + b->gradients + b->optimizer + b->activations + b->workspace + b->io;
}

/* Counts of what 16 bits lose are of all steps of a pass. */
static uint64_t beside_counts(const ac_plan_bytes *b) {
  return b->total - b->io;
}

static void assert_less(const trained *passing, const trained *kept, bool arena, bool muon) {
  assert_same_training(kept, passing);
  assert_int_equal(sum(&passing->bytes), passing->bytes.total);
  /* Muon's products need scratch space amid activations. */
  if (!arena || !muon)
    assert_true(beside_counts(&passing->bytes) + !arena <= beside_counts(&kept->bytes));
  assert_true(passing->bytes.gradients + !arena <= kept->bytes.gradients);
  assert_int_equal(passing->bytes.parameters, kept->bytes.parameters);
  assert_int_equal(passing->bytes.optimizer, kept->bytes.optimizer);
}

static bool is_cpu(const ac_device *device) {
  return !strncmp(ac_device_get_info(device)->id, "cpu", 3);
}

/* Against gradients in a buffer, and on the CPU also in an arena: there all of them may be in the
 * place of what was alive before there was any gradient. */
static trained assert_passing(ac_device *device, const test_gpt *m, ac_plan_desc plan,
                              const ac_trainer_desc *desc, int updates, bool locally) {
  trained passing[2] = {{.made = 0}};
  plan.batch = plan.micro_batch = BATCH;
  for (int way = 0; way < 1 + locally; way++) {
    plan.gradients = way ? AC_GRADIENTS_FUSED_LOCAL : AC_GRADIENTS_FUSED;
    passing[way] = train_passes(device, m, plan, desc, updates);
  }
  plan.gradients = AC_GRADIENTS_BUFFER;
  for (int arena = 0; arena < (is_cpu(device) ? 2 : 1); arena++) {
    plan.whole_windows = arena;
    trained kept = train_passes(device, m, plan, desc, updates);
    for (int way = 0; way < 1 + locally; way++)
      assert_less(&passing[way], &kept, arena, plan.optimizer.kind == AC_MUON);
    free(kept.parameters);
  }
  for (int way = 0; way < 1 + locally; way++) free(passing[way].parameters);
  return passing[0];
}

/* Tied embeddings, dropout and weight decay, with each optimizer. */
static void optimizers_leave_the_same_bits(const char *name) {
  ac_device *device = open_device(name);
  const ac_trainer_desc desc = {
      .seed = 3, .schedule = {.lr = 1e-2}, .optimizer = {.weight_decay = 0.1}};
  const ac_plan_desc plans[] = {
      {.optimizer = {.kind = AC_ADAMW}},
      {.optimizer = {.kind = AC_SGD}},
      {.optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}},
      {.optimizer = {.kind = AC_LION}},
      {.optimizer = {.kind = AC_ADAFACTOR}},
      {.optimizer = {.kind = AC_MUON}},
      {.optimizer = {.kind = AC_ADAM_MINI}},
      {.optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}},
      {.gradient_storage = AC_GRADIENT_BF16},
      {.precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16},
      {.optimizer = {.kind = AC_ADAFACTOR},
       .precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16},
      {.optimizer = {.kind = AC_MUON}, .precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16},
      {.optimizer = {.kind = AC_ADAM_MINI},
       .precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16}};
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    test_gpt m = model;
    m.fused = i % 2;
    const int updates = i ? FEW : UPDATES;
    const trained t = assert_passing(device, &m, plans[i], &desc, updates, true);
    assert_int_equal(t.skipped, 0);
    if (!i) assert_true(t.updates[updates - 1].loss < t.updates[0].loss);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(optimizers_leave_the_same_bits)

static void clipping_leaves_the_same_bits(const char *name) {
  ac_device *device = open_device(name);
  const ac_trainer_desc clipped = {
      .seed = 3, .schedule = {.lr = 1e-2}, .optimizer = {.clip = 0.5, .weight_decay = 0.1}};
  const trained t =
      assert_passing(device, &model, (ac_plan_desc){.batch = 0}, &clipped, FEW, false);
  assert_true(t.updates[0].grad_norm > 0.5);
  ac_device_close(device);
}
ON_EVERY_DEVICE(clipping_leaves_the_same_bits)

/* What is recomputed also reads working copies. */
static void precisions_and_recomputation_leave_the_same_bits(const char *name) {
  ac_device *device = open_device(name);
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_F16, AC_PRECISION_BF16};
  static const ac_recompute policies[] = {AC_RECOMPUTE_NONE, AC_RECOMPUTE_ALL};
  const ac_trainer_desc desc = {
      .seed = 3, .schedule = {.lr = 1e-2}, .loss_scaling = {.scale = 256}};
  for (int i = 1; i < 6; i += is_cpu(device) ? 1 : 2) {
    test_gpt m = model;
    m.fused = i % 2;
    const ac_plan_desc plan = {
        .precision = precisions[i / 2], .recompute = policies[i % 2], .debug_numerics = i >= 4};
    assert_int_equal(assert_passing(device, &m, plan, &desc, FEW, true).skipped, 0);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(precisions_and_recomputation_leave_the_same_bits)

/* A window that overflows is skipped with nothing stepped, again and again. */
static void windows_that_overflow_leave_no_trace(const char *name) {
  ac_device *device = open_device(name);
  const ac_trainer_desc desc = {
      .seed = 3, .schedule = {.lr = 1e-2}, .loss_scaling = {.scale = 0x1p40, .interval = 5}};
  const trained t = assert_passing(device, &model, (ac_plan_desc){.precision = AC_PRECISION_F16},
                                   &desc, 2 * FEW, false);
  assert_true(t.skipped >= 3 && t.updates[0].skipped && t.updates[1].skipped);
  assert_false(t.updates[t.made - 1].stuck);
  ac_device_close(device);
}
ON_EVERY_DEVICE(windows_that_overflow_leave_no_trace)

/* ---- decisions ------------------------------------------------------------------------------- */

typedef struct decider {
  int asked;
  double norm;
} decider;

/* Skips every third, and has gradients of others in half. Norms are known, gradients are not. */
static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  decider *d = user;
  float value = 0;
  d->asked++;
  d->norm += ac_trainer_gradient_norm(trainer, 0);
  if (trainer->instance.plan->way->passes > 1)
    assert_refused(ac_trainer_get_gradient(trainer, 0, 0, 1, &value), AC_ERROR_STATE,
                   "keeps no gradients");
  decision->skip = d->asked % 3 == 0;
  decision->factor *= 0.5;
}

static void callers_decide_as_ever(const char *name) {
  ac_device *device = open_device(name);
  const ac_gradients ways[] = {AC_GRADIENTS_BUFFER, AC_GRADIENTS_FUSED};
  trained t[2];
  decider d[2] = {{.asked = 0}};
  for (int i = 0; i < 2; i++) {
    const ac_trainer_desc desc = {.seed = 3, .decide = decide, .user = &d[i]};
    t[i] = train_passes(device, &model, (ac_plan_desc){.batch = BATCH, .gradients = ways[i]}, &desc,
                        FEW);
    assert_int_equal(t[i].skipped, FEW / 3);
  }
  assert_same_training(&t[0], &t[1]);
  assert_true(d[0].norm == d[1].norm && d[0].norm > 0);
  for (int i = 0; i < 2; i++) free(t[i].parameters);
  ac_device_close(device);
}
ON_EVERY_DEVICE(callers_decide_as_ever)

/* ---- windows in progress --------------------------------------------------------------------- */

/* The second pass uses the samples and the parameters of the first. */
static void windows_are_protected(const char *device) {
  const corpus c = make_corpus();
  const ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
  const ac_field fields[] = {
      {"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}, {"weights", AC_F32, CONTEXT}};
  const void *arrays[] = {c.tokens, c.targets, c.weights};
  run r = start(device, &model, (ac_plan_desc){.batch = BATCH, .gradients = AC_GRADIENTS_FUSED},
                (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 3, fields, arrays));
  double loss[2];
  for (int k = 0; k < 2; k++) {
    ac_update update;
    ac_evaluation evaluation;
    char where[64];
    float value;
    size_t count;
    assert_refused(ac_trainer_get_gradient(r.trainer, 0, 0, 1, &value), AC_ERROR_STATE,
                   "keeps no gradients (AC_GRADIENTS_FUSED)");
    assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluation));
    assert_ok(ac_trainer_locate_nonfinite(r.trainer, BATCH, feeds, 3, where, sizeof where));
    assert_string_equal(where, "");
    assert_ok(feed(&r, &c, 0, BATCH - 1));
    float *before = all_parameters(&r, &count);
    assert_refused(feed(&r, &c, BATCH - 1, 1), AC_ERROR_STATE, "each in one piece");
    assert_refused(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluation), AC_ERROR_STATE,
                   "this would overwrite the window's samples");
    assert_refused(ac_trainer_locate_nonfinite(r.trainer, BATCH, feeds, 3, where, sizeof where),
                   AC_ERROR_STATE, "update or discard it first");
    assert_refused(ac_trainer_set_parameter(r.trainer, 0, 0, 1, &value), AC_ERROR_STATE,
                   "computes the window's gradients again");
    assert_refused(ac_trainer_load(r.trainer, "none", NULL), AC_ERROR_STATE,
                   "update or discard it first");
    float *after = all_parameters(&r, &count);
    assert_memory_equal(before, after, count * sizeof *before);
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_int_equal(update.update, k + 1);
    loss[k] = update.loss;
    free(before);
    free(after);
  }
  assert_true(loss[1] < loss[0]);
  assert_ok(feed(&r, &c, 0, BATCH));
  ac_trainer_discard(r.trainer);
  assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, 1, &(float){0.5f}));
  const ac_fit_desc carried = {.train = dataset, .epochs = 1, .last_window = AC_LAST_CARRY};
  assert_refused(ac_fit(r.trainer, &carried, NULL), AC_ERROR_ARGUMENT, "carried over");
  ac_dataset_free(dataset);
  stop(&r);
}
ON_EVERY_DEVICE(windows_are_protected)

/* A run goes on from the state of one of any other way, and of its own. */
static void states_are_of_any_way(const char *name) {
  ac_device *device = open_device(name);
  const test_path path = in_folder("state");
  const ac_gradients ways[] = {AC_GRADIENTS_BUFFER, AC_GRADIENTS_FUSED, AC_GRADIENTS_FUSED_LOCAL,
                               AC_GRADIENTS_FUSED_LOCAL, AC_GRADIENTS_BUFFER};
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 1e-2}};
  const corpus c = make_corpus();
  float *first = NULL;
  for (int i = 0; i < 5; i++) {
    run r = start_on(device, &model, (ac_plan_desc){.batch = BATCH, .gradients = ways[i]}, desc);
    for (int u = 0; u < 4; u++) {
      if (i && u == 2) {
        assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
        stop_on(&r);
        r = start_on(device, &model, (ac_plan_desc){.batch = BATCH, .gradients = ways[(i + 1) % 5]},
                     desc);
        assert_ok(ac_trainer_load_state(r.trainer, path.text));
      }
      assert_ok(feed(&r, &c, u, BATCH));
      if (i && u == 3)
        assert_int_equal(ac_trainer_save_state(r.trainer, path.text, NULL, 0),
                         r.plan->way->keeps ? AC_OK : AC_ERROR_STATE);
      assert_ok(ac_trainer_update(r.trainer, NULL));
    }
    size_t count;
    float *parameters = all_parameters(&r, &count);
    if (i) assert_memory_equal(first, parameters, count * sizeof *parameters);
    stop_on(&r);
    if (i) free(parameters);
    else first = parameters;
  }
  free(first);
  ac_device_close(device);
}
ON_EVERY_DEVICE(states_are_of_any_way)

/* ---- batch norm and parameters that are read often ------------------------------------------- */

enum { WIDTH = 12, CHANNELS = 4 };

static ac_tensor *constant(ac_graph *g, const char *name, int64_t count, float value, bool frozen) {
  const ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = value}, .frozen = frozen};
  return ac_parameter(g, name, 1, &count, &desc);
}

/* One matrix is read at all depths, also by a norm of weights; a vector is added and multiplied. */
static ac_graph *shared(void) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *in = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, CHANNELS, WIDTH));
  ac_tensor *g = constant(graph, "g", WIDTH, 1.5f, false);
  ac_tensor *w = test_matrix(graph, "w", "w", WIDTH, WIDTH);
  ac_graph_scope(graph, "a");
  ac_tensor *h = ac_multiply(in, ac_multiply(g, g));
  h = ac_silu(ac_linear(ac_add(h, ac_scale(g, 0.5f)), w, NULL, AC_OUT_IN));
  ac_graph_scope(graph, "b");
  h = ac_batch_norm(h, constant(graph, "n.g", CHANNELS, 1, false),
                    constant(graph, "n.b", CHANNELS, 0, false),
                    constant(graph, "n.mean", CHANNELS, 0, true),
                    constant(graph, "n.var", CHANNELS, 1, true), NULL);
  ac_graph_scope(graph, "c");
  h = ac_silu(ac_linear(h, ac_weight_standardisation(w, 0), NULL, AC_OUT_IN));
  ac_graph_scope(graph, "d");
  h = ac_dropout(ac_linear(ac_add(h, ac_scale(g, 2)), ac_scale(w, 0.25f), NULL, AC_OUT_IN), 0.2f);
  ac_tensor *target = ac_input(graph, "t", AC_F32, SHAPE(AC_BATCH, CHANNELS, WIDTH));
  ac_graph_set_loss(graph, ac_mean_squared_error(h, target, NULL));
  return graph;
}

static float *train_shared(ac_device *device, ac_plan_desc plan, size_t *total) {
  enum { FED = BATCH * CHANNELS * WIDTH };
  float x[FED], t[FED];
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  for (int i = 0; i < FED; i++) x[i] = (float)(i * 7 % 31) / 16 - 1, t[i] = (float)(i * 5 % 13) / 8;
  ac_graph *graph = shared();
  plan.batch = BATCH;
  run r = run_of(device, graph, &plan, &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
  for (int u = 0; u < FEW; u++) {
    ac_update update;
    assert_ok(ac_trainer_accumulate(r.trainer, BATCH, feeds, 2));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
  }
  float *parameters = all_parameters(&r, total);
  stop_on(&r);
  return parameters;
}

static void parameters_are_stepped_behind_their_readers(const char *name) {
  ac_device *device = open_device(name);
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_BF16};
  static const ac_recompute policies[] = {AC_RECOMPUTE_NONE, AC_RECOMPUTE_ALL};
  for (int i = 0; i < 4; i++) {
    ac_plan_desc plan = {.precision = precisions[i / 2],
                         .recompute = policies[i % 2],
                         .gradients = AC_GRADIENTS_BUFFER};
    size_t total;
    float *a = train_shared(device, plan, &total);
    for (int way = AC_GRADIENTS_FUSED; way <= AC_GRADIENTS_FUSED_LOCAL; way++) {
      plan.gradients = (ac_gradients)way;
      float *b = train_shared(device, plan, &total);
      assert_memory_equal(a, b, total * sizeof *a);
      free(b);
    }
    free(a);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(parameters_are_stepped_behind_their_readers)

/* ---- plans ----------------------------------------------------------------------------------- */

/* The second pass is used where the budget leaves nothing faster, and where windows are whole. */
static void budgets_decide(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  const test_gpt m = {4, 64, 16, 512, 2, 0, false, true};
  ac_plan_desc desc = {.batch = 1, .whole_windows = true, .gradients = AC_GRADIENTS_FUSED};
  ac_plan *fused = plan_of(device, &m, desc);
  desc.gradients = AC_GRADIENTS_BUFFER;
  ac_plan *kept = plan_of(device, &m, desc);
  desc.gradients = AC_GRADIENTS_AUTO;
  ac_plan *free_to_choose = plan_of(device, &m, desc);
  const ac_plan_info *f = ac_plan_get_info(fused), *k = ac_plan_get_info(kept),
                     *a = ac_plan_get_info(free_to_choose);
  assert_int_equal(a->gradients, AC_GRADIENTS_BUFFER);
  assert_int_equal(a->bytes.total, k->bytes.total);
  assert_true(f->bytes.total < k->bytes.total);
  assert_true(f->predicted_seconds > k->predicted_seconds);
  desc.memory = f->bytes.total;
  ac_plan *tight = plan_of(device, &m, desc);
  assert_int_equal(ac_plan_get_info(tight)->gradients, AC_GRADIENTS_FUSED);
  assert_true(ac_plan_get_info(tight)->bytes.total <= desc.memory);
  ac_graph *graph = test_gpt_graph(&m);
  ac_plan *none;
  desc.gradients = AC_GRADIENTS_BUFFER;
  const uint64_t offered = test_offer(graph, device, desc, AC_RELIEF_GRADIENTS_AUTO).bytes;
  assert_true(offered > 0 && offered <= f->bytes.total); /* ops may also run again for it */
  desc = (ac_plan_desc){.batch = 1, .memory = f->bytes.total};
  assert_refused(ac_plan_create(&none, graph, device, &desc), AC_ERROR_BUDGET, "needs at least");
  desc = (ac_plan_desc){.batch = 64, .memory = 1, .gradients = AC_GRADIENTS_FUSED};
  assert_true(test_offer(graph, device, desc, AC_RELIEF_GRADIENTS_AUTO).bytes > 0);
  desc = (ac_plan_desc){.batch = 8, .micro_batch = 4, .gradients = AC_GRADIENTS_FUSED};
  assert_refused(ac_plan_create(&none, graph, device, &desc), AC_ERROR_ARGUMENT,
                 "gradients that are fused need a window of one micro-batch, but a batch of 8 in "
                 "micro-batches of 4 has several");
  desc = (ac_plan_desc){.batch = 8, .gradients = (ac_gradients)9};
  assert_refused(ac_plan_create(&none, graph, device, &desc), AC_ERROR_ARGUMENT,
                 "unknown way of gradients 9");
  ac_graph_free(graph);
  ac_plan_free(tight);
  ac_plan_free(free_to_choose);
  ac_plan_free(kept);
  ac_plan_free(fused);
  ac_device_close(device);
}

/* Steps are those of both passes, and none has more alive than the plan says. */
static void reports_show_both_passes(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  const ac_plan_desc desc = {.batch = BATCH, .gradients = AC_GRADIENTS_FUSED};
  ac_plan *plan = plan_of(device, &model, desc);
  const ac_plan_info *info = ac_plan_get_info(plan);
  uint64_t most = 0;
  int measured = 0, stepped = 0;
  ac_plan_step step;
  for (int64_t i = 0; i < info->steps + info->update_steps; i++) {
    assert_ok(ac_plan_get_step(plan, i, &step));
    assert_int_equal(step.phase, i < info->steps ? AC_PLAN_MICRO_BATCH : AC_PLAN_UPDATE);
    measured += i < info->steps && !strcmp(step.op, "gradient_statistics");
    stepped += i >= info->steps && !strcmp(step.op, "adamw");
    if (step.live_bytes > most) most = step.live_bytes;
  }
  assert_int_equal(measured, stepped);
  assert_int_equal(stepped, 26);
  assert_int_equal(most, info->live_bytes);
  assert_refused(ac_plan_get_step(plan, info->steps + info->update_steps, &step), AC_ERROR_ARGUMENT,
                 "plan: step");
  ac_plan_alternative list[64];
  int count;
  assert_ok(ac_plan_alternatives(plan, list, 64, &count));
  assert_true(count >= 2);
  for (int i = 0; i < count; i++) {
    assert_int_equal(list[i].gradients, AC_GRADIENTS_FUSED);
    assert_int_equal(list[i].micro_batch, BATCH);
  }
  ac_plan_free(plan);
  ac_device_close(device);
}

/* ---- what holds of both passes --------------------------------------------------------------- */

/* A plan that steps or measures too early is none. */
static void steps_out_of_place_are_found(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  const ac_plan_desc desc = {
      .batch = BATCH, .recompute = AC_RECOMPUTE_ALL, .gradients = AC_GRADIENTS_FUSED};
  ac_plan *plan = plan_of(device, &model, desc);
  int last = plan->stepping.step_count - 1, first = last;
  for (int i = 0; i < last; i++)
    if (ac_node_at(plan->graph, plan->stepping.steps[i].node)->op == AC_OP_adamw && first == last)
      first = i;
  assert_ok(ac_plan_check(plan));
  move(&plan->stepping, first, 1);
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would read what was stepped before");
  move(&plan->stepping, 1, first);
  assert_ok(ac_plan_check(plan));
  const int measured = find_step(plan, &plan->main, AC_OP_gradient_statistics);
  move(&plan->main, measured, 0);
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would add to a sum that was final");
  move(&plan->main, 0, measured);
  assert_ok(ac_plan_check(plan));
  const ac_step kept = plan->stepping.steps[first];
  plan->stepping.steps[first] = plan->main.steps[measured];
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "in another phase than its own");
  plan->stepping.steps[first] = plan->stepping.steps[0];
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "0 times");
  plan->stepping.steps[first] = kept;
  const int gradient = find_step(plan, &plan->stepping, AC_OP_linear_weight_gradient);
  const ac_step yields = plan->stepping.steps[gradient];
  plan->stepping.steps[gradient] = plan->stepping.steps[0];
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "no step would yield the gradient of");
  plan->stepping.steps[gradient] = yields;
  const int tied = find_step(plan, &plan->stepping, AC_OP_scatter_add);
  const ac_step adds = plan->stepping.steps[tied];
  plan->stepping.steps[tied] = plan->stepping.steps[0];
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would add up other gradients");
  plan->stepping.steps[tied] = adds;
  assert_ok(ac_plan_check(plan));
  for (int i = 0; i < plan->stepping.value_count; i++) {
    ac_value *value = &plan->stepping.values[i];
    if (value->shares != i || !value->bytes) continue;
    const uint64_t right = value->address;
    value->address = plan->info.bytes.total;
    assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would lie beyond");
    value->address = right;
  }
  ac_plan_free(plan);
  ac_device_close(device);
}

/* Nor is one that hands a parameter to a caller's own optimizer before it, or its copy in 16 bits,
 * is read for the last time. */
static void parameters_are_handed_over_last(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  for (int precision = AC_PRECISION_F32; precision <= AC_PRECISION_BF16; precision += 2) {
    const ac_plan_desc desc = {.batch = BATCH,
                               .precision = (ac_precision)precision,
                               .optimizer = {.kind = AC_OPTIMIZER_CALLBACK},
                               .gradients = AC_GRADIENTS_FUSED};
    ac_plan *plan = plan_of(device, &model, desc);
    int found = 0;
    for (int i = 0; i < plan->stepping.step_count; i++) {
      if (ac_node_at(plan->graph, plan->stepping.steps[i].node)->op != AC_OP_clip) continue;
      for (int to = i - 1; to >= 0; to--) {
        move(&plan->stepping, i, to);
        found += ac_plan_check(plan) == AC_ERROR_INTERNAL &&
                 strstr(ac_last_error(), "would read what was stepped before");
        move(&plan->stepping, to, i);
      }
    }
    assert_true(found > 0);
    assert_ok(ac_plan_check(plan));
    ac_plan_free(plan);
  }
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(optimizers_leave_the_same_bits_everywhere),
      cmocka_unit_test(clipping_leaves_the_same_bits_everywhere),
      cmocka_unit_test(precisions_and_recomputation_leave_the_same_bits_everywhere),
      cmocka_unit_test(windows_that_overflow_leave_no_trace_everywhere),
      cmocka_unit_test(callers_decide_as_ever_everywhere),
      cmocka_unit_test(windows_are_protected_everywhere),
      cmocka_unit_test(states_are_of_any_way_everywhere),
      cmocka_unit_test(parameters_are_stepped_behind_their_readers_everywhere),
      cmocka_unit_test(budgets_decide),
      cmocka_unit_test(reports_show_both_passes),
      cmocka_unit_test(steps_out_of_place_are_found),
      cmocka_unit_test(parameters_are_handed_over_last),
  };
  return cmocka_run_group_tests_name("fused", tests, make_test_folder, remove_test_folder);
}
