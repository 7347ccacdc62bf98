/* Long sequences are built in parts along time. They compute what one op over all positions does,
 * and plans that compute parts again give the same bits. */
#include "support/check.h"

#include "graph/graph.h"
#include "ops/recurrent/build.h"

#include <math.h>
#include <stdlib.h>

enum { T = 100, IN = 3, UNITS = 16, BATCH = 4, WIDTH = 4 * UNITS, UPDATES = 3 };

static float inputs[BATCH][T][IN], targets[BATCH][T][2 * UNITS];
static const int32_t lengths[BATCH] = {100, 31, 64, 1};

static const ac_feed feeds[] = {{"x", inputs}, {"y", targets}, {"lengths", lengths}};

static void fill(void) {
  for (int i = 0; i < BATCH * T * IN; i++) (&inputs[0][0][0])[i] = sinf((float)(i * i % 97));
  for (int i = 0; i < BATCH * T * 2 * UNITS; i++)
    (&targets[0][0][0])[i] = cosf((float)(i % 101)) / 2;
}

/* The same parameters for either way to build it. */
static void make_weights(ac_graph *graph, ac_recurrent_weights w[2]) {
  static const char *const names[2][4] = {{"ih", "hh", "bi", "bh"}, {"ihr", "hhr", "bir", "bhr"}};
  const ac_parameter_desc drawn = {.init = {AC_INIT_UNIFORM, .low = -0.5f, .high = 0.5f}};
  for (int d = 0; d < 2; d++)
    w[d] = (ac_recurrent_weights){ac_parameter(graph, names[d][0], SHAPE(WIDTH, IN), &drawn),
                                  ac_parameter(graph, names[d][1], SHAPE(WIDTH, UNITS), &drawn),
                                  ac_parameter(graph, names[d][2], SHAPE(WIDTH), &drawn),
                                  ac_parameter(graph, names[d][3], SHAPE(WIDTH), &drawn)};
}

/* One op a direction, over all positions. */
static ac_tensor *build_whole(ac_graph *graph, ac_tensor *x, ac_tensor *count,
                              const ac_recurrent_weights w[2], ac_tensor **last) {
  ac_tensor *y[2], *states[2];
  for (int d = 0; d < 2; d++) {
    const ac_recurrent_attributes attributes = {AC_CELL_LSTM, d == 1, 0, T};
    ac_tensor *gates = ac_linear(x, w[d].input, w[d].input_bias, AC_OUT_IN);
    y[d] = ac_recurrent_emit(graph, &attributes, gates, w[d].hidden, w[d].hidden_bias, NULL, count,
                             &states[d]);
  }
  *last = ac_concat(graph, states, 2, 1);
  return ac_concat(graph, y, 2, 2);
}

static ac_tensor *build_parts(ac_graph *graph, ac_tensor *x, ac_tensor *count,
                              const ac_recurrent_weights w[2], ac_tensor **last) {
  ac_recurrent_state s;
  ac_tensor *y =
      ac_lstm(x, count, NULL, w, &(ac_recurrent_desc){.direction = AC_BOTH_DIRECTIONS}, &s);
  ac_tensor *rows[4];
  for (int d = 0; d < 2; d++) {
    rows[2 * d] = ac_slice(s.hidden, 1, d, 1);
    rows[2 * d + 1] = ac_slice(s.cell, 1, d, 1);
  }
  *last = ac_concat(graph, rows, 4, 1);
  return y;
}

typedef struct trained {
  double loss[UPDATES];
  float weights[WIDTH * UNITS], reversed[WIDTH * UNITS];
  int64_t recomputed;
  uint64_t bytes;
} trained;

/* A loss of results, and one of final states. */
static trained train(bool whole, ac_recompute recompute, uint64_t memory) {
  trained t = {{0}, {0}, {0}, 0, 0};
  ac_graph *graph = NULL;
  ac_learner *learner = NULL;
  ac_recurrent_weights w[2];
  ac_tensor *last = NULL;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, T, IN)),
            *y = ac_input(graph, "y", AC_F32, SHAPE(AC_BATCH, T, 2 * UNITS)),
            *count = ac_input(graph, "lengths", AC_I32, SHAPE(AC_BATCH));
  make_weights(graph, w);
  x = (whole ? build_whole : build_parts)(graph, x, count, w, &last);
  ac_graph_add_loss(graph, "results", ac_mean_squared_error(x, y, NULL), 1);
  ac_tensor *ends = ac_sum(ac_multiply(last, last), AC_ALL_AXES, false);
  ac_graph_add_loss(graph, "states", ac_loss(ends, NULL), 0.25);
  ac_learner_desc desc = AC_DEFAULTS;
  desc.device = (ac_device_desc){.name = "cpu", .threads = 2};
  desc.plan.batch = BATCH;
  desc.plan.recompute = recompute;
  desc.plan.memory = memory;
  desc.plan.micro_batch = BATCH;
  desc.plan.optimizer = (ac_optimizer_desc){.kind = AC_SGD, .sgd_no_momentum = true};
  desc.trainer.schedule.lr = 0.5;
  assert_ok(ac_learner_create(&learner, graph, &desc));
  ac_trainer *trainer = ac_learner_trainer(learner);
  for (int u = 0; u < UPDATES; u++) {
    ac_update update;
    assert_ok(ac_trainer_accumulate(trainer, BATCH, feeds, 3));
    assert_ok(ac_trainer_update(trainer, &update));
    t.loss[u] = update.loss;
  }
  assert_ok(ac_trainer_get_parameter(trainer, 1, 0, WIDTH * UNITS, t.weights));
  assert_ok(ac_trainer_get_parameter(trainer, 5, 0, WIDTH * UNITS, t.reversed));
  t.recomputed = ac_plan_get_info(ac_learner_plan(learner))->recomputed_ops;
  t.bytes = ac_plan_get_info(ac_learner_plan(learner))->bytes.total;
  ac_learner_free(learner);
  ac_graph_free(graph);
  return t;
}

/* Rounding differs, as sums over positions are divided. */
static void parts_compute_what_the_whole_does(void **state) {
  (void)state;
  const trained whole = train(true, AC_RECOMPUTE_NONE, 0),
                parts = train(false, AC_RECOMPUTE_NONE, 0);
  for (int u = 0; u < UPDATES; u++)
    assert_true(fabs(whole.loss[u] - parts.loss[u]) <= 1e-6 * fabs(whole.loss[u]));
  assert_true(parts.loss[UPDATES - 1] < parts.loss[0]);
  for (int i = 0; i < WIDTH * UNITS; i++) {
    assert_true(fabsf(whole.weights[i] - parts.weights[i]) <= 1e-5f);
    assert_true(fabsf(whole.reversed[i] - parts.reversed[i]) <= 1e-5f);
  }
}

static void parts_that_are_computed_again_have_the_same_bits(void **state) {
  (void)state;
  const trained kept = train(false, AC_RECOMPUTE_NONE, 0);
  assert_int_equal(kept.recomputed, 0);
  const struct {
    ac_recompute recompute;
    uint64_t memory;
  } choices[] = {{AC_RECOMPUTE_ALL, 0},
                 {AC_RECOMPUTE_AUTO, kept.bytes * 9 / 10},
                 {AC_RECOMPUTE_AUTO, kept.bytes * 7 / 10}};
  for (int i = 0; i < 3; i++) {
    const trained again = train(false, choices[i].recompute, choices[i].memory);
    assert_true(again.recomputed > 0);
    if (choices[i].memory) assert_true(again.bytes <= choices[i].memory);
    assert_memory_equal(kept.loss, again.loss, sizeof kept.loss);
    assert_memory_equal(kept.weights, again.weights, sizeof kept.weights);
    assert_memory_equal(kept.reversed, again.reversed, sizeof kept.reversed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_compute_what_the_whole_does),
      cmocka_unit_test(parts_that_are_computed_again_have_the_same_bits),
  };
  fill();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
