/* What must hold for every plan and update, and that violations are noticed: an op adds to a sum
 * once, however often its node runs; the window's weight is that of its samples; each trained
 * parameter is stepped once; values stay in their memory. */
#include "support/runs.h"

#include "plan/candidates.h"
#include "window/trainer.h"

/* ---- a classifier with a loss that is computed again ----------------------------------------- */

enum { ROWS = 8, WIDTH = 6, CLASSES = 5 };

static ac_graph *classifier(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, WIDTH));
  ac_tensor *targets = ac_input(g, "targets", AC_I32, SHAPE(AC_BATCH));
  ac_tensor *hidden = ac_relu(ac_linear(x, test_matrix(g, "a", "w", WIDTH, 7), NULL, AC_IN_OUT));
  ac_tensor *logits = ac_linear(hidden, test_matrix(g, "b", "w", 7, CLASSES), NULL, AC_IN_OUT);
  ac_graph_set_loss(g, ac_cross_entropy(logits, targets, NULL, NULL));
  return g;
}

typedef struct trained {
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
} trained;

static trained begin(const char *device, ac_recompute recompute) {
  trained t;
  ac_graph *graph = classifier();
  assert_ok(ac_device_open(&t.device, &(ac_device_desc){.name = device, .threads = 2}));
  ac_plan_desc plan = {.batch = ROWS, .micro_batch = ROWS / 2, .recompute = recompute};
  assert_ok(ac_plan_create(&t.plan, graph, t.device, &plan));
  ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 0.1}};
  assert_ok(ac_trainer_create(&t.trainer, t.plan, &desc));
  ac_graph_free(graph);
  return t;
}

static void end(trained *t) {
  ac_trainer_free(t->trainer);
  ac_plan_free(t->plan);
  ac_device_close(t->device);
}

static void feed_window(trained *t) {
  float x[ROWS * WIDTH];
  int32_t targets[ROWS];
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i * 7 % 11) / 5 - 1;
  for (int i = 0; i < ROWS; i++) targets[i] = i % CLASSES;
  ac_feed feeds[] = {{"x", x}, {"targets", targets}};
  assert_ok(ac_trainer_accumulate(t->trainer, ROWS, feeds, 2));
}

static void recomputing_a_loss_changes_no_bit(const char *device) {
  ac_update update[2];
  const ac_recompute choice[] = {AC_RECOMPUTE_NONE, AC_RECOMPUTE_ALL};
  for (int k = 0; k < 2; k++) {
    trained t = begin(device, choice[k]);
    feed_window(&t);
    assert_ok(ac_trainer_update(t.trainer, &update[k]));
    end(&t);
  }
  assert_true(update[0].weight == ROWS);
  assert_true(update[0].loss == update[1].loss && update[0].weight == update[1].weight);
  assert_true(update[0].grad_norm == update[1].grad_norm);
}
ON_EVERY_DEVICE(recomputing_a_loss_changes_no_bit)

/* ---- losses and metrics half way ------------------------------------------------------------- */

enum { LAYERS = 3 };

/* Each layer's output has a loss, or a metric. */
static ac_graph *measured_layers(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, WIDTH)), *h = x;
  for (int i = 0; i < LAYERS; i++) {
    char name[16];
    snprintf(name, sizeof name, "layer.%d", i);
    h = ac_relu(ac_linear(h, test_matrix(g, name, "w", WIDTH, WIDTH), NULL, AC_IN_OUT));
    ac_tensor *sums = ac_mean_squared_error(h, x, NULL);
    if (i == 1) ac_graph_add_metric(g, name, sums, AC_METRIC_MEAN);
    else ac_graph_add_loss(g, name, sums, 1);
  }
  assert_ok(ac_graph_status(g));
  return g;
}

/* Lays down the plan anew, so that all stages before a backward pass run again for it. */
static void run_all_again(ac_plan *plan) {
  const ac_stages *stages = plan->problem.stages;
  ac_cost_model costs;
  ac_candidates s;
  ac_chain_operation list[256];
  int count = 0;
  ac_cost_guess(&costs);
  assert_ok(ac_candidates_list(&s, &plan->problem, &costs, 0));
  assert_true(stages->count > LAYERS && stages->count < 16);
  for (int last = stages->count; last > 0; last--) {
    for (int l = 1; l < last; l++) list[count++] = (ac_chain_operation){AC_CHAIN_FORWARD, l, 0};
    list[count++] = (ac_chain_operation){AC_CHAIN_SAVE, last, 0};
    list[count++] = (ac_chain_operation){AC_CHAIN_BACKWARD, last, 0};
  }
  assert_ok(ac_order_lay(&s.order, stages, &s.sizes[0].chain, list, count));
  const ac_choice choice = {
      .micro_batch = ROWS, .order = &s.order.nodes, .way = ac_gradient_way_of(AC_GRADIENTS_BUFFER)};
  assert_ok(ac_plan_lay(plan, &choice));
  ac_candidates_free(&s);
}

static int runs_of(const ac_plan *plan, ac_op op) {
  int runs = 0;
  for (int i = 0; i < plan->main.step_count; i++)
    runs += ac_node_at(plan->graph, plan->main.steps[i].node)->op == op;
  return runs;
}

static void update_measured(const char *device, bool again, ac_update *update) {
  trained t;
  ac_graph *graph = measured_layers();
  assert_ok(ac_device_open(&t.device, &(ac_device_desc){.name = device, .threads = 2}));
  const ac_plan_desc desc = {
      .batch = ROWS, .micro_batch = ROWS, .loss_means = AC_LOSS_MEANS_PER_SAMPLE};
  assert_ok(ac_plan_create(&t.plan, graph, t.device, &desc));
  if (again) run_all_again(t.plan);
  assert_ok(ac_plan_check(t.plan));
  assert_int_equal(runs_of(t.plan, AC_OP_mean_squared_error), LAYERS);
  if (again) assert_true(runs_of(t.plan, AC_OP_linear) > LAYERS);
  assert_ok(ac_trainer_create(&t.trainer, t.plan,
                              &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 0.1}}));
  float x[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i * 7 % 11) / 5 - 1;
  assert_ok(ac_trainer_accumulate(t.trainer, ROWS, &(ac_feed){"x", x}, 1));
  assert_ok(ac_trainer_update(t.trainer, update));
  ac_graph_free(graph);
  end(&t);
}

static void stages_that_run_again_sum_up_once(const char *device) {
  ac_update once, again;
  update_measured(device, false, &once);
  update_measured(device, true, &again);
  assert_true(once.loss == again.loss && once.grad_norm == again.grad_norm);
  assert_int_equal(once.metric_count, 1);
  assert_true(once.metrics[0].value == again.metrics[0].value);
}
ON_EVERY_DEVICE(stages_that_run_again_sum_up_once)

/* ---- plans
 * --------------------------------------------------------------------------------------- */

/* The plan's order, and after it every node once more. No planner would make such a plan. */
static void what_runs_again_has_no_sums(void **state) {
  (void)state;
  trained t = begin("cpu", AC_RECOMPUTE_NONE);
  int list[64], count = ac_sequence_end(&t.plan->main);
  assert_true(2 * count <= 64);
  for (int i = 0; i < count; i++) list[i] = list[count + i] = t.plan->main.steps[i].node;
  const ac_nodes order = {list, 2 * count};
  ac_sequence sequence;
  assert_ok(ac_sequence_build(&sequence, t.plan->graph, AC_TARGET_GRADIENTS, (ac_storage){0},
                              &order, NULL));
  int sums = 0;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int tensor = sequence.steps[i].out[j].tensor, again = sequence.steps[count + i].out[j].tensor;
      bool sum = tensor >= 0 && ac_role_is_sum(ac_tensor_at(t.plan->graph, tensor)->role);
      assert_int_equal(again, sum ? -1 : tensor);
      sums += sum;
    }
  assert_int_equal(sums, 3); /* of the loss and of two gradients */
  ac_sequence_free(&sequence);
  end(&t);
}

static void steps_that_add_twice_or_never_are_found(void **state) {
  (void)state;
  trained t = begin("cpu", AC_RECOMPUTE_ALL);
  assert_ok(ac_plan_check(t.plan));
  ac_sequence *main = &t.plan->main;
  for (int i = 0; i < main->step_count; i++) {
    ac_step *step = &main->steps[i];
    const ac_node *node = ac_node_at(t.plan->graph, step->node);
    if (node->op != AC_OP_cross_entropy) continue;
    step->out[0].tensor = -1;
    assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL,
                   "cross_entropy would not add to its sums");
    step->out[0].tensor = node->out[0];
    assert_ok(ac_plan_check(t.plan));
    ac_step *other = &main->steps[0], right = *other;
    *other = *step;
    assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL,
                   "cross_entropy would add to its sums twice");
    *other = right;
  }
  end(&t);
}

/* In both directions: a sum that the op does not know of, and one that is missing. */
static void sums_are_those_that_ops_name(void **state) {
  (void)state;
  trained t = begin("cpu", AC_RECOMPUTE_NONE);
  int found = 0;
  for (int n = 0; n < t.plan->graph->node_count; n++) {
    ac_node *node = ac_node_at(t.plan->graph, n);
    const ac_op right = node->op;
    if (right != AC_OP_cross_entropy && right != AC_OP_cross_entropy_gradient &&
        right != AC_OP_linear_weight_gradient)
      continue;
    node->op = right == AC_OP_cross_entropy_gradient ? AC_OP_cross_entropy : AC_OP_softmax;
    assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "does not say what it sums up");
    node->op = right;
    assert_ok(ac_plan_check(t.plan));
    found++;
  }
  assert_true(found >= 3);
  end(&t);
}

static void values_that_leave_their_memory_are_found(void **state) {
  (void)state;
  trained t = begin("cpu", AC_RECOMPUTE_NONE);
  ac_sequence *main = &t.plan->main;
  for (int i = 0; i < main->value_count; i++) {
    ac_value *value = &main->values[i];
    uint64_t right = value->address;
    if (value->shares != i || !value->bytes) continue;
    value->address = t.plan->info.bytes.total - value->bytes + 1;
    assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "plan: ");
    value->address = ac_plan_cell(t.plan, AC_ROLE_PARAMETER, 0, 0)->address;
    assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "where something persists");
    value->address = right;
    for (int k = 0; k < main->value_count; k++) {
      const ac_value *other = &main->values[k];
      if (k == i || other->shares != k || !other->bytes) continue;
      if (other->address + value->bytes > t.plan->info.bytes.total) continue;
      value->address = other->address;
      bool meet = other->first <= value->last && value->first <= other->last;
      if (meet)
        assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "two values would overlap");
      value->address = right;
    }
  }
  for (int i = 0; i < t.plan->cell_count; i++) {
    ac_cell *cell = &t.plan->cells[i];
    uint64_t right = cell->address;
    if (cell->space != AC_SPACE_DEVICE) continue;
    cell->address = t.plan->cells[i ? 0 : 1].address;
    assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "tensors that persist would overlap");
    cell->address = right;
  }
  t.plan->chunk_bytes = 100;
  assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "across two chunks");
  t.plan->chunk_bytes = 0;
  for (int i = 0; i < main->value_count; i++) {
    ac_value *root = &main->values[main->values[i].shares];
    if (root == &main->values[i]) continue;
    root->last -= 1;
    assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "live longer than");
    root->last += 1;
  }
  assert_ok(ac_plan_check(t.plan));
  end(&t);
}

/* ---- updates
 * ------------------------------------------------------------------------------------- */

static void read_weights(trained *t, float weights[WIDTH * 7]) {
  assert_ok(ac_trainer_get_parameter(t->trainer, 0, 0, WIDTH * 7, weights));
}

/* Nothing was changed, and after a discard training goes on. */
static void refused_and_well_after(trained *t, const char *text, void (*repair)(trained *t)) {
  float before[WIDTH * 7], after[WIDTH * 7];
  read_weights(t, before);
  assert_refused(ac_trainer_update(t->trainer, NULL), AC_ERROR_INTERNAL, text);
  read_weights(t, after);
  assert_memory_equal(before, after, sizeof before);
  if (repair) repair(t);
  assert_refused(ac_trainer_update(t->trainer, NULL), AC_ERROR_STATE, "discard");
  ac_trainer_discard(t->trainer);
  feed_window(t);
  ac_update update;
  assert_ok(ac_trainer_update(t->trainer, &update));
  assert_true(update.update == 1 && update.weight == ROWS);
}

static void a_wrong_weight_changes_nothing(const char *device) {
  trained t = begin(device, AC_RECOMPUTE_NONE);
  feed_window(&t);
  t.trainer->run.fed_weight[0] += 1;
  refused_and_well_after(&t, "of weight 8, but samples of weight 9", NULL);
  end(&t);
}
ON_EVERY_DEVICE(a_wrong_weight_changes_nothing)

/* The step of the first parameter, and the one after it. */
static ac_step *first_step(trained *t) {
  return &t->plan->main.steps[t->plan->main.begin[AC_PHASE_UPDATE]];
}

static ac_step kept;

static void put_back(trained *t) {
  first_step(t)[1] = kept;
}

static void a_parameter_stepped_twice_changes_nothing(void **state) {
  (void)state;
  trained t = begin("cpu", AC_RECOMPUTE_NONE);
  feed_window(&t);
  kept = first_step(&t)[1];
  first_step(&t)[1] = first_step(&t)[0];
  refused_and_well_after(&t, "nothing was changed: an update would step \"a.w\" 2 times", put_back);
  assert_int_equal(first_step(&t)[1].node, kept.node);
  first_step(&t)[1].out[0].tensor = -1;
  assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "would step \"b.w\" 0 times");
  put_back(&t);
  ac_step wrong = first_step(&t)[-1];
  kept = first_step(&t)[1], first_step(&t)[1] = wrong;
  assert_refused(ac_plan_check(t.plan), AC_ERROR_INTERNAL, "in another phase than its own");
  put_back(&t);
  assert_ok(ac_plan_check(t.plan));
  end(&t);
}

/* Weights of every kind of loss are known, so that the check tests something. */
static void the_weight_of_what_is_fed_is_known(void **state) {
  (void)state;
  run r = start("cpu", &model, (ac_plan_desc){.batch = SAMPLES, .micro_batch = 5},
                (ac_trainer_desc){.seed = 1, .schedule = {.lr = 0.01}});
  const corpus c = make_corpus();
  double expected = 0;
  for (int i = 0; i < SAMPLES * CONTEXT; i++)
    if (c.targets[i] != -1) expected += (double)c.weights[i];
  assert_ok(feed(&r, &c, 0, SAMPLES));
  assert_true(r.trainer->run.fed_weight[0] == expected);
  ac_update update;
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.weight == expected);
  stop(&r);
}

/* So are the weights of losses over several rows a sample. */
static void folded_rows_weigh_one_each(void **state) {
  (void)state;
  enum { FOLD = 3, SAMPLES_FED = 5 };
  float x[SAMPLES_FED * FOLD * 2] = {0}, t[SAMPLES_FED * FOLD * 2] = {0};
  float weights[SAMPLES_FED * FOLD];
  double expected = 0;
  for (int i = 0; i < SAMPLES_FED * FOLD; i++) expected += (double)(weights[i] = (float)(i % 4));
  for (int kind = 0; kind < 4; kind++) {
    trained r;
    ac_graph *g;
    ac_update update;
    assert_ok(ac_graph_create(&g));
    ac_tensor *y = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH_TIMES(FOLD), 2));
    ac_tensor *target = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH_TIMES(FOLD), 2));
    ac_tensor *w = kind & 2 ? ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH_TIMES(FOLD))) : NULL;
    y = ac_linear(y, test_matrix(g, "a", "w", 2, 2), NULL, AC_IN_OUT);
    ac_graph_set_loss(g, kind & 1 ? ac_mean_squared_error(y, target, w)
                                  : ac_binary_cross_entropy(y, target, w));
    assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "cpu"}));
    assert_ok(ac_plan_create(&r.plan, g, r.device,
                             &(ac_plan_desc){.batch = SAMPLES_FED, .micro_batch = 2}));
    assert_ok(ac_trainer_create(&r.trainer, r.plan, &(ac_trainer_desc){.seed = 1}));
    ac_feed feeds[] = {{"x", x}, {"t", t}, {"weights", weights}};
    assert_ok(ac_trainer_accumulate(r.trainer, SAMPLES_FED, feeds, 3));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(update.weight == (kind & 2 ? expected : SAMPLES_FED * FOLD));
    end(&r);
    ac_graph_free(g);
  }
}

/* ---- gradients through views
 * ----------------------------------------------------------------------- */

/* Rules append tensors while they hold others: whatever the number of tensors when they do, since
 * arrays grow at some of these. Sanitizers see what is read after it was freed. */
static ac_tensor *views(ac_graph *g, int kind) {
  ac_tensor *image = ac_input(g, "image", AC_F32, SHAPE(AC_BATCH, 4, 3, 3));
  ac_tensor *row = ac_reshape(image, SHAPE(AC_BATCH, 36));
  ac_tensor *gamma = test_matrix(g, "norm", "gamma", 36, 0);
  ac_tensor *channels = test_matrix(g, "norm", "channels", 4, 0);
  const ac_parameter_desc frozen = {.frozen = true};
  switch (kind) {
  case 0:
    return ac_linear(row, test_matrix(g, "w", "w", 36, 36), NULL, AC_IN_OUT);
  case 1:
    return ac_layer_norm(row, gamma, NULL, 0);
  case 2:
    return ac_rms_norm(row, gamma, 0);
  case 3:
    return ac_group_norm(image, channels, NULL, 2, 0);
  case 4:
    return ac_batch_norm(image, channels, NULL, ac_parameter(g, "mean", SHAPE(4), &frozen),
                         ac_parameter(g, "variance", SHAPE(4), &frozen), NULL);
  case 5: {
    ac_tensor *qkv = ac_linear(row, test_matrix(g, "w", "w", 36, 108), NULL, AC_IN_OUT);
    qkv = ac_reshape(qkv, SHAPE(AC_BATCH, 3, 36));
    return ac_causal_attention(qkv, &(ac_attention_desc){.heads = 2});
  }
  case 6:
    return ac_conv2d(image, ac_parameter(g, "kernel", SHAPE(4, 4, 3, 3), ZEROS), NULL,
                     &(ac_conv2d_desc){.padding = {1, 1}});
  default: {
    ac_tensor *kernel = ac_parameter(g, "kernel", SHAPE(4, 4, 3, 3), ZEROS);
    kernel = ac_weight_standardisation(ac_reshape(kernel, SHAPE(4, 36)), 0);
    return ac_conv2d(image, ac_reshape(kernel, SHAPE(4, 4, 3, 3)), NULL,
                     &(ac_conv2d_desc){.padding = {1, 1}});
  }
  }
}

static void gradients_pass_through_views_whatever_their_number(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  for (int kind = 0; kind < 8; kind++)
    for (int others = 0; others < 64; others++) {
      ac_graph *g;
      ac_plan *plan;
      assert_ok(ac_graph_create(&g));
      ac_tensor *y = views(g, kind);
      for (int i = 0; i < others; i++) y = ac_reshape(y, SHAPE(AC_BATCH, 36));
      ac_tensor *target = ac_input(g, "target", AC_F32, SHAPE(AC_BATCH, 36));
      ac_graph_set_loss(g, ac_mean_squared_error(ac_reshape(y, SHAPE(AC_BATCH, 36)), target, NULL));
      assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.batch = 2}));
      ac_plan_free(plan);
      ac_graph_free(g);
    }
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recomputing_a_loss_changes_no_bit_everywhere),
      cmocka_unit_test(stages_that_run_again_sum_up_once_everywhere),
      cmocka_unit_test(what_runs_again_has_no_sums),
      cmocka_unit_test(steps_that_add_twice_or_never_are_found),
      cmocka_unit_test(sums_are_those_that_ops_name),
      cmocka_unit_test(values_that_leave_their_memory_are_found),
      cmocka_unit_test(a_wrong_weight_changes_nothing_everywhere),
      cmocka_unit_test(a_parameter_stepped_twice_changes_nothing),
      cmocka_unit_test(the_weight_of_what_is_fed_is_known),
      cmocka_unit_test(folded_rows_weigh_one_each),
      cmocka_unit_test(gradients_pass_through_views_whatever_their_number),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
