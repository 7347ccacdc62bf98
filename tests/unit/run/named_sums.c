/* Metrics: named sums with the losses, of windows and evaluations, however these are split, that
 * change nothing of the training. */
#include "support/runs.h"

#include "core/error.h"

#include <math.h>
#include <stdio.h>

enum { N = 11, IN = 6, CLASSES = 5 };

static float x[N * IN], weights[N];
static int32_t labels[N];

static void fill(void) {
  uint32_t state = 3;
  for (int i = 0; i < N * IN; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / (1 << 23) - 1;
  }
  for (int i = 0; i < N; i++) {
    labels[i] = i * 7 % CLASSES;
    weights[i] = (float)(1 + i % 3) / 2;
  }
}

/* "heavy": the first logit, weighted; nothing is trained on it. */
static ac_graph *make(bool metrics) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *in = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, IN)),
            *targets = ac_input(g, "labels", AC_I32, SHAPE(AC_BATCH)),
            *w = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH));
  ac_tensor *hidden = ac_tanh(ac_linear(in, test_matrix(g, "a", "w", 8, IN), NULL, AC_OUT_IN));
  ac_tensor *logits =
      ac_linear(ac_dropout(hidden, 0.25f), test_matrix(g, "b", "w", CLASSES, 8), NULL, AC_OUT_IN);
  ac_tensor *loss = ac_cross_entropy(logits, targets, w, NULL);
  ac_graph_set_output(g, "logits", logits);
  ac_graph_set_loss(g, loss);
  if (metrics) {
    ac_graph_add_metric(g, "again", loss, AC_METRIC_MEAN);
    ac_graph_add_metric(g, "perplexity", loss, AC_METRIC_EXP);
    ac_graph_add_metric(g, "right", loss, AC_METRIC_RIGHT);
    ac_tensor *first = ac_reshape(ac_slice(logits, 1, 0, 1), 1, (int64_t[]){AC_BATCH});
    ac_tensor *heavy = ac_loss(first, w);
    ac_graph_add_metric(g, "heavy", heavy, AC_METRIC_MEAN);
    ac_graph_add_metric(g, "root", ac_mean_squared_error(logits, ac_scale(logits, 0.5f), NULL),
                        AC_METRIC_ROOT);
    ac_graph_add_metric(g, "top2", ac_top_k_accuracy(logits, targets, 2, NULL), AC_METRIC_MEAN);
    ac_graph_add_metric(g, "precision",
                        ac_class_precision(logits, targets, 1, &(ac_class_desc){.weights = w}),
                        AC_METRIC_MEAN);
    ac_graph_add_metric(g, "recall", ac_class_recall(logits, targets, 1, NULL), AC_METRIC_MEAN);
    ac_graph_add_metric(g, "iou", ac_class_iou(logits, targets, 1, NULL), AC_METRIC_MEAN);
  }
  assert_ok(ac_graph_status(g));
  return g;
}

static ac_status feed_some(const run *r, int first, int count) {
  const ac_feed feeds[] = {
      {"x", x + first * IN}, {"labels", labels + first}, {"weights", weights + first}};
  return ac_trainer_accumulate(r->trainer, count, feeds, 3);
}

static void near(const char *what, double got, double want, double most) {
  if (!(fabs(got - want) <= most * fmax(1, fabs(want))))
    fail_msg("%s is %.9g, not %.9g", what, got, want);
}

static void check_metrics(const ac_metric *m, int count, double loss, double accuracy,
                          double weight) {
  assert_int_equal(count, 9);
  assert_string_equal(m[0].name, "again");
  assert_true(m[0].value == loss && m[1].value == exp(loss) && m[2].value == accuracy);
  assert_true(m[0].weight == weight);
  assert_string_equal(m[3].name, "heavy");
  assert_string_equal(m[4].name, "root");
}

/* "heavy" and "root" of an evaluation, from predicted logits. */
static void expect_own(const run *r, const ac_evaluation *e, double most) {
  float logits[N * CLASSES];
  const ac_feed feeds[] = {{"x", x}};
  assert_ok(ac_trainer_predict(r->trainer, "logits", N, feeds, 1, N * CLASSES, logits));
  double sum = 0, weight = 0, squares = 0;
  for (int i = 0; i < N; i++) {
    sum += (double)weights[i] * (double)logits[i * CLASSES];
    weight += (double)weights[i];
    for (int k = 0; k < CLASSES; k++) squares += pow((double)logits[i * CLASSES + k] / 2, 2);
  }
  near("heavy", e->metrics[3].value, sum / weight, most);
  near("its weight", e->metrics[3].weight, weight, 1e-6);
  near("root", e->metrics[4].value, sqrt(squares / (N * CLASSES)), most);
  double top = 0, said = 0, is = 0, either = 0, both = 0, both_weighed = 0;
  for (int i = 0; i < N; i++) {
    const float *row = logits + i * CLASSES;
    int p = 0, before = 0;
    for (int k = 0; k < CLASSES; k++) {
      p = row[k] > row[p] ? k : p;
      before += k < labels[i] ? row[k] >= row[labels[i]] : row[k] > row[labels[i]];
    }
    top += before < 2;
    said += p == 1 ? (double)weights[i] : 0;
    is += labels[i] == 1;
    either += p == 1 || labels[i] == 1;
    both += p == 1 && labels[i] == 1;
    both_weighed += p == 1 && labels[i] == 1 ? (double)weights[i] : 0;
  }
  near("top2", e->metrics[5].value, top / N, 1e-6);
  near("recall", e->metrics[7].value, both / is, 1e-6);
  near("iou", e->metrics[8].value, both / either, 1e-6);
  near("weight of precision", e->metrics[6].weight, said, 1e-6);
  if (said > 0) near("precision", e->metrics[6].value, both_weighed / said, 1e-6);
  else assert_true(isnan(e->metrics[6].value));
}

static void evaluate(const run *r, ac_evaluation *e) {
  const ac_field fields[] = {{"x", AC_F32, IN}, {"labels", AC_I32, 1}, {"weights", AC_F32, 1}};
  const void *data[] = {x, labels, weights};
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, N, 3, fields, data));
  assert_ok(ac_trainer_evaluate(r->trainer, dataset, 0, e));
  ac_dataset_free(dataset);
}

static float *train(ac_device *device, const ac_plan_desc *plan, bool metrics, size_t *total) {
  const ac_trainer_desc desc = {.seed = 4, .schedule = {.lr = 0.03}};
  run r = run_of(device, make(metrics), plan, &desc);
  for (int i = 0; i < 3; i++) {
    ac_update update;
    ac_evaluation e;
    assert_ok(feed_some(&r, i, 8));
    if (!plan->whole_windows && !plan->gradients) evaluate(&r, &e);
    assert_ok(ac_trainer_update(r.trainer, &update));
    evaluate(&r, &e);
    if (metrics) {
      check_metrics(update.metrics, update.metric_count, update.loss, update.losses[0].accuracy,
                    update.weight);
      check_metrics(e.metrics, e.metric_count, e.loss, e.accuracy, e.weight);
      expect_own(&r, &e, plan->precision ? 2e-2 : 1e-5);
    } else {
      assert_int_equal(update.metric_count, 0);
      assert_int_equal(e.metric_count, 0);
    }
  }
  float *all = all_parameters(&r, total);
  stop_on(&r);
  return all;
}

static void metrics_change_nothing(const char *device) {
  static const ac_plan_desc plans[] = {
      {.batch = 8, .micro_batch = 3},
      {.batch = 8, .whole_windows = true, .recompute = AC_RECOMPUTE_ALL},
      {.batch = 8, .gradients = AC_GRADIENTS_FUSED},
      {.batch = 8, .gradients = AC_GRADIENTS_FUSED_LOCAL},
      {.batch = 8, .precision = AC_PRECISION_BF16}};
  ac_device *opened = open_device(device);
  fill();
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
    size_t count, same;
    float *with = train(opened, &plans[k], true, &count),
          *without = train(opened, &plans[k], false, &same);
    assert_int_equal(count, same);
    assert_memory_equal(with, without, count * sizeof *with);
    free(with);
    free(without);
  }
  assert_int_equal(ac_device_allocated_bytes(opened), 0);
  ac_device_close(opened);
}
ON_EVERY_DEVICE(metrics_change_nothing)

/* A state within a window has the sums. */
static void a_state_has_them(void **state) {
  (void)state;
  const ac_plan_desc plan = {.batch = 8, .micro_batch = 2};
  const ac_trainer_desc desc = {.seed = 4};
  ac_update a, b;
  fill();
  run first = run_of(open_device("cpu"), make(true), &plan, &desc),
      second = run_of(open_device("cpu"), make(true), &plan, &desc);
  const char *path = "named_sums.state";
  assert_ok(feed_some(&first, 0, 4));
  assert_ok(ac_trainer_save_state(first.trainer, path, NULL, 0));
  assert_ok(ac_trainer_load_state(second.trainer, path));
  assert_ok(feed_some(&first, 4, 4));
  assert_ok(feed_some(&second, 4, 4));
  assert_ok(ac_trainer_update(first.trainer, &a));
  assert_ok(ac_trainer_update(second.trainer, &b));
  for (int i = 0; i < 6; i++) assert_true(a.metrics[i].value == b.metrics[i].value);
  remove(path);
  stop(&first);
  stop(&second);
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define REFUSED_METRIC(why, ...)                                   \
  do {                                                             \
    ac_graph *g;                                                   \
    assert_ok(ac_graph_create(&g));                                \
    ac_tensor *in = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, IN)); \
    ac_tensor *sums = ac_loss(ac_tanh(in), NULL);                  \
    (void)sums;                                                    \
    __VA_ARGS__;                                                   \
    assert_refused(ac_graph_status(g), AC_ERROR_ARGUMENT, why);    \
    ac_graph_free(g);                                              \
  } while (0)

static void bad_input(void **state) {
  (void)state;
  char name[16];
  REFUSED_METRIC("metric \"m\": it is not a result of a loss op",
                 ac_graph_add_metric(g, "m", in, AC_METRIC_MEAN));
  REFUSED_METRIC("metric \"m\": it is not a result of a loss op",
                 ac_graph_add_metric(g, "m", NULL, AC_METRIC_MEAN));
  REFUSED_METRIC("it has no name", ac_graph_add_metric(g, "", sums, AC_METRIC_MEAN));
  REFUSED_METRIC("it has no name", ac_graph_add_metric(g, NULL, sums, AC_METRIC_MEAN));
  REFUSED_METRIC("not UTF-8", ac_graph_add_metric(g, "\xff", sums, AC_METRIC_MEAN));
  REFUSED_METRIC("its kind is unknown", ac_graph_add_metric(g, "m", sums, (ac_metric_kind)9));
  REFUSED_METRIC("the name exists already", ac_graph_add_metric(g, "m", sums, AC_METRIC_MEAN),
                 ac_graph_add_metric(g, "m", sums, AC_METRIC_EXP));
  REFUSED_METRIC("a loss has this name", ac_graph_add_loss(g, "m", sums, 1),
                 ac_graph_add_metric(g, "m", sums, AC_METRIC_EXP));
  REFUSED_METRIC("a metric has this name", ac_graph_add_metric(g, "m", sums, AC_METRIC_EXP),
                 ac_graph_add_loss(g, "m", sums, 1));
  REFUSED_METRIC(
      "as many metrics as there can be", for (int i = 0; i <= AC_MAX_METRICS; i++) {
        snprintf(name, sizeof name, "m%d", i);
        ac_graph_add_metric(g, name, sums, AC_METRIC_MEAN);
      });
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(metrics_change_nothing_everywhere),
                                     cmocka_unit_test(a_state_has_them),
                                     cmocka_unit_test(bad_input)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
