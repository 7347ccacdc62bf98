/* Losses that a graph computes itself (ac_loss): windows, weights of rows and of samples, losses
 * below zero, several of them, and what is refused. The loss of a row is x[b, t] times w[t], so
 * that everything can be computed by hand. */
#include "support/devices.h"
#include "support/trainers.h"

#include <math.h>

enum { SAMPLES = 5, ROWS = 3 };

static const float x[SAMPLES][ROWS] = {
    {1, -2, 3}, {0.5f, 0.25f, -4}, {-1, -1, -1}, {2, 0, 8}, {-3, 5, 0.125f}};
static const float by_row[SAMPLES][ROWS] = {
    {1, 0, 2}, {0.5f, 0.5f, 0}, {0, 0, 0}, {1, 3, 0.25f}, {1, 1, 1}};
static const float by_sample[SAMPLES] = {1, 0, 2, 0.5f, 0.25f};
static const float start[ROWS] = {0.5f, -1, 2};

typedef enum weighing { PLAIN, BY_ROW, BY_SAMPLE, WEIGHINGS } weighing;

static double weight_of(weighing kind, int b, int t) {
  return kind == BY_ROW ? (double)by_row[b][t] : kind == BY_SAMPLE ? (double)by_sample[b] : 1;
}

static ac_tensor *losses_of(ac_graph *g, ac_tensor *w) {
  return ac_multiply(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, ROWS)), w);
}

static ac_tensor *weights_of(ac_graph *g, weighing kind) {
  if (kind == PLAIN) return NULL;
  if (kind == BY_ROW) return ac_input(g, "by_row", AC_F32, SHAPE(AC_BATCH, ROWS));
  return ac_input(g, "by_sample", AC_F32, SHAPE(AC_BATCH));
}

static run start_run(const char *device, ac_graph *g, ac_plan_desc plan) {
  plan.batch = SAMPLES;
  plan.optimizer = (ac_optimizer_desc){.kind = AC_SGD, .sgd_no_momentum = true};
  const ac_trainer_desc desc = {.schedule = {.lr = 1}};
  run r = run_of(open_device(device), g, &plan, &desc);
  assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, ROWS, start));
  return r;
}

static ac_update train(run *r, int piece) {
  ac_update update;
  for (int first = 0; first < SAMPLES; first += piece) {
    const ac_feed feeds[] = {
        {"x", x[first]}, {"by_row", by_row[first]}, {"by_sample", by_sample + first}};
    const int count = piece < SAMPLES - first ? piece : SAMPLES - first;
    assert_ok(ac_trainer_accumulate(r->trainer, count, feeds, 3));
  }
  assert_ok(ac_trainer_update(r->trainer, &update));
  return update;
}

/* The mean, and its gradient for each w[t]. */
static double mean(weighing kind, double gradient[ROWS]) {
  double loss = 0, weight = 0;
  for (int t = 0; t < ROWS; t++) gradient[t] = 0;
  for (int b = 0; b < SAMPLES; b++)
    for (int t = 0; t < ROWS; t++) {
      const double w = weight_of(kind, b, t);
      loss += w * (double)x[b][t] * (double)start[t];
      gradient[t] += w * (double)x[b][t];
      weight += w;
    }
  for (int t = 0; t < ROWS; t++) gradient[t] /= weight;
  return loss / weight;
}

static void assert_stepped(run *r, const double gradient[ROWS]) {
  float w[ROWS];
  assert_ok(ac_trainer_get_parameter(r->trainer, 0, 0, ROWS, w));
  for (int t = 0; t < ROWS; t++)
    if (fabs((double)w[t] - ((double)start[t] - gradient[t])) > 2e-6)
      fail_msg("w[%d] is %.9g, not %.9g", t, (double)w[t], (double)start[t] - gradient[t]);
}

static void a_loss_is_its_mean(const char *device) {
  for (int i = 0; i < 2 * WEIGHINGS; i++) {
    const weighing kind = (weighing)(i / 2);
    ac_graph *g;
    double gradient[ROWS];
    const double want = mean(kind, gradient);
    assert_ok(ac_graph_create(&g));
    ac_tensor *losses = losses_of(g, ac_parameter(g, "w", SHAPE(ROWS), NULL));
    ac_graph_set_loss(g, ac_loss(losses, weights_of(g, kind)));
    run r = start_run(device, g, (ac_plan_desc){.micro_batch = i % 2 ? 2 : SAMPLES});
    const ac_update update = train(&r, i % 2 ? 3 : SAMPLES);
    assert_true(fabs(update.loss - want) < 1e-6);
    assert_stepped(&r, gradient);
    stop(&r);
  }
}
ON_EVERY_DEVICE(a_loss_is_its_mean)

/* Each has its own mean; rows seen without their sample are as good as others. */
static void several_have_means_of_their_own(const char *device) {
  double gradient[ROWS] = {0}, want = 0;
  static const double factors[WEIGHINGS] = {1, 0.5, 2};
  for (int k = 0; k < WEIGHINGS; k++) {
    double own[ROWS];
    want += factors[k] * mean((weighing)k, own);
    for (int t = 0; t < ROWS; t++) gradient[t] += factors[k] * own[t];
  }
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *losses = losses_of(g, ac_parameter(g, "w", SHAPE(ROWS), NULL));
  ac_tensor *rows = ac_reshape(losses, SHAPE(AC_BATCH_TIMES(ROWS)));
  ac_graph_add_loss(g, "plain", ac_loss(rows, NULL), factors[PLAIN]);
  ac_graph_add_loss(g, "rows", ac_loss(losses, weights_of(g, BY_ROW)), factors[BY_ROW]);
  ac_graph_add_loss(g, "samples", ac_loss(losses, weights_of(g, BY_SAMPLE)), factors[BY_SAMPLE]);
  run r = start_run(device, g, (ac_plan_desc){.micro_batch = 2});
  const ac_update update = train(&r, SAMPLES);
  assert_int_equal(update.loss_count, WEIGHINGS);
  assert_true(fabs(update.loss - want) < 3e-6);
  for (int k = 0; k < WEIGHINGS; k++) {
    double own[ROWS];
    assert_true(fabs(update.losses[k].loss - mean((weighing)k, own)) < 1e-6);
    assert_true(update.losses[k].accuracy == 0);
  }
  assert_stepped(&r, gradient);
  stop(&r);
}
ON_EVERY_DEVICE(several_have_means_of_their_own)

static void wrong_weights_are_refused(void **state) {
  (void)state;
  static const float bad[] = {-1, (float)NAN, (float)INFINITY};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *losses = losses_of(g, ac_parameter(g, "w", SHAPE(ROWS), NULL));
  ac_graph_set_loss(g, ac_loss(losses, weights_of(g, BY_SAMPLE)));
  run r = start_run("cpu", g, (ac_plan_desc){.micro_batch = 1});
  for (int k = 0; k < 3; k++) {
    const ac_feed feeds[] = {{"x", x}, {"by_sample", &bad[k]}};
    assert_int_equal(ac_trainer_accumulate(r.trainer, 1, feeds, 2), AC_ERROR_ARGUMENT);
    assert_non_null(strstr(ac_last_error(), "input \"by_sample\" holds the weight "));
  }
  stop(&r);
}

/* Lengths and classes are checked when they are fed. */
static void wrong_lengths_are_refused(void **state) {
  (void)state;
  static const float logits[2][4][3] = {{{0}}};
  static const struct {
    int32_t targets[4], positions[2], counts[2];
    const char *sentence;
  } cases[] = {
      {{1, 2, 2, 1}, {4, 0}, {2, 0}, NULL},
      {{1, 2, 2, 3}, {4, 4}, {2, 2}, "input \"targets\" holds 3 at position 3, outside [0, 3)"},
      {{1, 2, 2, 1}, {4, 5}, {2, 2}, "input \"positions\" holds 5 at position 1, outside [0, 5)"},
      {{1, 2, 2, 1}, {-1, 4}, {2, 2}, "input \"positions\" holds -1 at position 0, outside [0, 5)"},
      {{1, 2, 2, 1}, {4, 4}, {2, 3}, "input \"counts\" holds 3 at position 1, outside [0, 3)"},
  };
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_add(ac_input(g, "logits", AC_F32, SHAPE(AC_BATCH, 4, 3)),
                        ac_parameter(g, "w", SHAPE(3), NULL));
  ac_tensor *targets = ac_input(g, "targets", AC_I32, SHAPE(AC_BATCH, 2)),
            *positions = ac_input(g, "positions", AC_I32, SHAPE(AC_BATCH)),
            *counts = ac_input(g, "counts", AC_I32, SHAPE(AC_BATCH));
  ac_graph_set_loss(g, ac_ctc_loss(x, targets, positions, counts, NULL, NULL));
  run r = start_run("cpu", g, (ac_plan_desc){.micro_batch = 1});
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const ac_feed feeds[] = {{"logits", logits},
                             {"targets", cases[k].targets},
                             {"positions", cases[k].positions},
                             {"counts", cases[k].counts}};
    const ac_status status = ac_trainer_accumulate(r.trainer, 2, feeds, 4);
    assert_int_equal(status, cases[k].sentence ? AC_ERROR_ARGUMENT : AC_OK);
    if (cases[k].sentence) assert_non_null(strstr(ac_last_error(), cases[k].sentence));
  }
  stop(&r);
}

/* As in PyTorch a vector of zeros has a unit vector of zeros, and a gradient. */
static void zero_vectors_have_a_gradient(void **state) {
  (void)state;
  static const float b[2][2] = {{1, 2}, {3, -1}};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *p = ac_parameter(g, "w", SHAPE(ROWS), NULL),
            *a = ac_multiply(ac_input(g, "a", AC_F32, SHAPE(AC_BATCH, 2, 2)), ac_slice(p, 0, 0, 2));
  ac_graph_set_loss(
      g, ac_contrastive_loss(a, ac_input(g, "b", AC_F32, SHAPE(AC_BATCH, 2, 2)), NULL, 0.5f));
  run r = start_run("cpu", g, (ac_plan_desc){.micro_batch = 1});
  for (int k = 0; k < 2; k++) {
    const float vectors[2][2] = {{0, 0}, {(float)k, 2}};
    const ac_feed feeds[] = {{"a", vectors}, {"b", b}};
    float gradient[ROWS];
    assert_ok(ac_trainer_accumulate(r.trainer, 1, feeds, 2));
    assert_ok(ac_trainer_get_gradient(r.trainer, 0, 0, ROWS, gradient));
    for (int i = 0; i < ROWS; i++) assert_true(isfinite(gradient[i]));
    ac_trainer_discard(r.trainer);
  }
  stop(&r);
}

/* Settings of losses are numbers in a formula, which has no exponents to write them with. */
static void small_numbers_are_settings(void **state) {
  (void)state;
  static const float deltas[] = {2e-38f, 1e-33f, 1e-20f, 3e38f};
  for (size_t k = 0; k < sizeof deltas / sizeof *deltas; k++) {
    ac_graph *g;
    assert_ok(ac_graph_create(&g));
    ac_tensor *prediction = ac_input(g, "prediction", AC_F32, SHAPE(AC_BATCH, 2));
    ac_huber_loss(prediction, ac_input(g, "target", AC_F32, SHAPE(AC_BATCH, 2)), NULL, deltas[k]);
    assert_string_equal(ac_graph_message(g), "");
    ac_graph_free(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loss_is_its_mean_everywhere),
      cmocka_unit_test(several_have_means_of_their_own_everywhere),
      cmocka_unit_test(wrong_weights_are_refused),
      cmocka_unit_test(wrong_lengths_are_refused),
      cmocka_unit_test(zero_vectors_have_a_gradient),
      cmocka_unit_test(small_numbers_are_settings),
  };
  return cmocka_run_group_tests_name("own_losses", tests, NULL, NULL);
}
