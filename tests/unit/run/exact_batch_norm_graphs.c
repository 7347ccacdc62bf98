/* Batch norm over whole windows in many kinds of graphs: held against the whole batch, however it
 * is split and whatever is computed again. */
#include "plan/plan.h"
#include "support/correlation.h"
#include "support/devices.h"
#include "support/models.h"
#include "support/trainers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  SAMPLES = 11,
  SHORT = 7,
  CHANNELS = 4,
  SIDE = 6,
  IMAGE = CHANNELS * SIDE * SIDE,
  CLASSES = 3,
  IDS = 5,
  WORDS = 9
};

/* ---- graphs ---------------------------------------------------------------------------------- */

static ac_tensor *vector(ac_graph *g, const char *name, int64_t count, float value, bool frozen) {
  const ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = value}, .frozen = frozen};
  return ac_parameter(g, name, SHAPE(count), &desc);
}

/* The parameters of a norm, which may be used twice. */
typedef struct norm {
  ac_tensor *part[4];
} norm;

static norm norm_of(ac_graph *g, const char *scope, int64_t channels) {
  static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
  static const float values[] = {1.25f, 0.125f, 0, 1};
  norm n;
  for (int i = 0; i < 4; i++) {
    char text[128];
    snprintf(text, sizeof text, "%s.%s", scope, names[i]);
    n.part[i] = vector(g, text, channels, values[i], i > 1);
  }
  return n;
}

static ac_tensor *apply(norm n, ac_tensor *x) {
  return ac_batch_norm(x, n.part[0], n.part[1], n.part[2], n.part[3],
                       &(ac_batch_norm_desc){.momentum = 0.25f});
}

static ac_tensor *norm_after(ac_graph *g, ac_tensor *x, const char *scope) {
  return apply(norm_of(g, scope, CHANNELS), x);
}

static ac_tensor *kernel(ac_graph *g, const char *name) {
  return ac_parameter(g, name, SHAPE(CHANNELS, CHANNELS, 3, 3),
                      &(ac_parameter_desc){.init = {AC_INIT_NORMAL, .deviation = 0.2f}});
}

static ac_tensor *convolve(ac_tensor *x, ac_tensor *w) {
  return ac_conv2d(x, w, NULL, &(ac_conv2d_desc){.padding = {1, 1}});
}

static ac_tensor *block(ac_graph *g, ac_tensor *x, const char *name) {
  char text[64];
  snprintf(text, sizeof text, "%s.norm", name);
  return ac_relu(norm_after(g, convolve(x, kernel(g, name)), text));
}

static ac_tensor *images(ac_graph *g) {
  return ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, CHANNELS, SIDE, SIDE));
}

static ac_tensor *logits(ac_graph *g, ac_tensor *y) {
  y = ac_reshape(y, SHAPE(AC_BATCH, IMAGE));
  return ac_linear(y, test_matrix(g, "head", "w", CLASSES, IMAGE), NULL, AC_OUT_IN);
}

static ac_graph *begin(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  return g;
}

static ac_graph *end(ac_graph *g, ac_tensor *y) {
  ac_tensor *t = ac_input(g, "t", AC_I32, SHAPE(AC_BATCH));
  y = logits(g, y);
  ac_graph_set_output(g, "logits", y);
  ac_graph_set_loss(g, ac_cross_entropy(y, t, NULL, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* A weight that is standardised, and read between two norms and after them. */
static ac_graph *standardised(void) {
  ac_graph *g = begin();
  ac_tensor *w = ac_weight_standardisation(kernel(g, "w"), 0);
  ac_tensor *y = ac_relu(norm_after(g, convolve(images(g), w), "first"));
  y = ac_relu(norm_after(g, convolve(y, w), "second"));
  return end(g, convolve(y, w));
}

/* What does not depend on samples is read by all micro-batches, and then made into something else,
 * before a section ends. Nothing else reads it: it is not trained. */
static ac_graph *without_samples(void) {
  ac_graph *g = begin();
  const ac_parameter_desc frozen = {.init = {AC_INIT_NORMAL, .deviation = 0.2f}, .frozen = true};
  ac_tensor *w = ac_parameter(g, "w", SHAPE(CHANNELS, CHANNELS, 3, 3), &frozen);
  w = ac_weight_standardisation(w, 0);
  ac_tensor *y = convolve(images(g), w);
  y = convolve(y, ac_softmax(w));
  return end(g, block(g, norm_after(g, y, "first"), "a"));
}

/* The same parameters and running statistics in two places. */
static ac_graph *shared(void) {
  ac_graph *g = begin();
  const norm n = norm_of(g, "shared", CHANNELS);
  ac_tensor *y = ac_relu(apply(n, convolve(images(g), kernel(g, "a"))));
  return end(g, ac_relu(apply(n, convolve(y, kernel(g, "b")))));
}

/* Two rows of the batch for each sample. */
static ac_graph *twice_the_batch(void) {
  ac_graph *g = begin();
  ac_tensor *y = ac_reshape(block(g, images(g), "a"), SHAPE(AC_BATCH_TIMES(2), 2, SIDE, SIDE));
  y = ac_relu(apply(norm_of(g, "halves", 2), y));
  return end(g, block(g, ac_reshape(y, SHAPE(AC_BATCH, CHANNELS, SIDE, SIDE)), "b"));
}

/* The second loss has weights of its own and hangs on the middle. */
static ac_graph *two_losses(void) {
  ac_graph *g = begin();
  ac_tensor *t = ac_input(g, "t", AC_I32, SHAPE(AC_BATCH)),
            *u = ac_input(g, "u", AC_F32, SHAPE(AC_BATCH, CHANNELS, SIDE, SIDE)),
            *weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH));
  ac_tensor *y = block(g, images(g), "a");
  ac_graph_add_loss(g, "middle", ac_mean_squared_error(convolve(y, kernel(g, "m")), u, weights),
                    0.5);
  y = logits(g, block(g, y, "b"));
  ac_graph_add_loss(g, "classes", ac_cross_entropy(y, t, NULL, NULL), 1);
  ac_graph_add_metric(g, "second", ac_top_k_accuracy(y, t, 2, NULL), AC_METRIC_MEAN);
  assert_ok(ac_graph_status(g));
  return g;
}

/* An input without the batch, before a norm and after it. */
static ac_graph *one_for_all(void) {
  ac_graph *g = begin();
  ac_tensor *scale = ac_input(g, "scale", AC_F32, SHAPE(CHANNELS, 1, 1));
  ac_tensor *y = ac_multiply(convolve(images(g), kernel(g, "a")), ac_tanh(scale));
  y = ac_relu(norm_after(g, y, "a.norm"));
  return end(g, block(g, ac_add(y, ac_tanh(scale)), "b"));
}

/* Rows of a table, and the largest of them. */
static ac_graph *rows_of_a_table(void) {
  ac_graph *g = begin();
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, IDS));
  ac_tensor *t = ac_input(g, "t", AC_I32, SHAPE(AC_BATCH));
  ac_tensor *table = test_matrix(g, "table", "w", WORDS, 8);
  ac_tensor *y = ac_relu(apply(norm_of(g, "words", IDS), ac_embedding(table, ids)));
  y = ac_top_k(apply(norm_of(g, "again", IDS), ac_multiply(y, y)), 4, NULL);
  ac_tensor *best = ac_embedding(test_matrix(g, "second", "w", 8, 4), ac_argmax(y, -1, false));
  y = apply(norm_of(g, "largest", IDS), ac_add(ac_silu(y), best));
  y = ac_linear(ac_reshape(y, SHAPE(AC_BATCH, IDS * 4)),
                test_matrix(g, "head", "w", CLASSES, IDS * 4), NULL, AC_OUT_IN);
  ac_graph_set_output(g, "logits", y);
  ac_graph_set_loss(g, ac_cross_entropy(y, t, NULL, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* An op of one's own between norms, on rows of each channel. */
static ac_graph *of_ones_own(void) {
  ac_graph *g = begin();
  ac_tensor *w = vector(g, "w", 3, 0.5f, false);
  ac_tensor *y = ac_reshape(block(g, images(g), "a"), SHAPE(AC_BATCH, CHANNELS, SIDE * SIDE));
  y = ac_custom_op(g, (ac_tensor *[]){y, w}, 2, NULL, &correlation_stored);
  y = ac_relu(apply(norm_of(g, "own", CHANNELS), y));
  y = ac_custom_op(g, (ac_tensor *[]){y, w}, 2, NULL, &correlation_stored);
  y = ac_pad(y, &(ac_pad_desc){.after = {0, 0, 4}});
  return end(g, block(g, ac_reshape(y, SHAPE(AC_BATCH, CHANNELS, SIDE, SIDE)), "b"));
}

/* Dropout twice, a branch that is added late, and results that the caller wants kept or not. */
static ac_graph *hinted(void) {
  ac_graph *g = begin();
  ac_tensor *y = ac_tensor_hint(block(g, images(g), "a"), AC_KEEP), *early = y;
  y = ac_dropout(ac_tensor_hint(block(g, y, "b"), AC_RECOMPUTE), 0.25f);
  y = ac_tensor_hint(ac_dropout(block(g, y, "c"), 0.25f), AC_KEEP);
  ac_graph_set_output(g, "middle", y);
  y = block(g, ac_add(y, early), "d");
  return end(g, ac_add(ac_silu(y), early));
}

/* Each block reads what all blocks before it have made. */
static ac_graph *dense(void) {
  ac_graph *g = begin();
  ac_tensor *all[5] = {images(g)};
  for (int i = 1; i < 5; i++) {
    char name[16];
    snprintf(name, sizeof name, "c%d", i);
    ac_tensor *sum = all[0];
    for (int k = 1; k < i; k++) sum = ac_add(sum, all[k]);
    all[i] = ac_dropout(ac_silu(block(g, ac_tanh(sum), name)), 0.1f);
  }
  return end(g, ac_add(ac_add(all[1], all[3]), all[4]));
}

typedef struct graph_case {
  const char *name;
  ac_graph *(*make)(void);
} graph_case;

static const graph_case cases[] = {
    {"standardised", standardised},
    {"without samples", without_samples},
    {"shared", shared},
    {"twice the batch", twice_the_batch},
    {"two losses", two_losses},
    {"one for all", one_for_all},
    {"rows of a table", rows_of_a_table},
    {"of one's own", of_ones_own},
    {"hinted", hinted},
    {"dense", dense},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct samples {
  float x[SAMPLES * IMAGE], u[SAMPLES * IMAGE], weights[SAMPLES], scale[CHANNELS];
  int32_t t[SAMPLES], ids[SAMPLES * IDS];
} samples;

static samples s;

/* They differ in mean and scale, so that a part of them has other statistics. */
static int make_samples(void **state) {
  uint32_t drawn = 7;
  (void)state;
  for (int i = 0; i < SAMPLES * IMAGE; i++) {
    drawn = drawn * 1664525u + 1013904223u;
    const float sample = (float)(i / IMAGE);
    s.x[i] = ((float)(drawn >> 8) * 0x1p-24f - 0.5f) * (1 + sample / 4) + sample / 8;
    s.u[i] = (float)(drawn & 0xff) * 0x1p-8f;
  }
  for (int i = 0; i < SAMPLES; i++) s.t[i] = i * i % CLASSES;
  for (int i = 0; i < SAMPLES; i++) s.weights[i] = (float)(i % 4) / 2;
  for (int i = 0; i < SAMPLES * IDS; i++) s.ids[i] = i * i % WORDS;
  for (int c = 0; c < CHANNELS; c++) s.scale[c] = 0.5f * (float)(c + 1);
  return 0;
}

static ac_status feed(ac_trainer *trainer, int64_t count) {
  const ac_feed feeds[] = {{"x", s.x},     {"t", s.t},         {"u", s.u},
                           {"ids", s.ids}, {"scale", s.scale}, {"weights", s.weights}};
  return ac_trainer_accumulate(trainer, count, feeds, 6);
}

/* ---- windows --------------------------------------------------------------------------------- */

enum { WINDOWS = 3, MOST = 4096 };
typedef struct outcome {
  double loss[WINDOWS];
  float gradients[WINDOWS][MOST], weights[WINDOWS][MOST];
  int gradient_count, weight_count;
} outcome;

static run start(const graph_case *c, const char *device, ac_plan_desc desc) {
  desc.batch = SAMPLES;
  run r = run_of(open_device(device), c->make(), &desc,
                 &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
  assert_int_equal(ac_device_peak_bytes(r.device), ac_plan_get_info(r.plan)->bytes.total);
  return r;
}

static void read_all(run *r, outcome *o, int w, bool gradients) {
  const ac_graph *graph = r->plan->graph;
  int *total = gradients ? &o->gradient_count : &o->weight_count;
  *total = 0;
  for (int p = 0; p < graph->parameter_count; p++) {
    const int64_t count = ac_shape_count(&ac_tensor_at(graph, graph->parameters[p])->shape);
    if (gradients && r->plan->problem.parameters[p].gradient < 0) continue;
    assert_true(*total + count <= MOST);
    assert_ok(gradients
                  ? ac_trainer_get_gradient(r->trainer, p, 0, count, o->gradients[w] + *total)
                  : ac_trainer_get_parameter(r->trainer, p, 0, count, o->weights[w] + *total));
    *total += (int)count;
  }
}

/* The second window is short. */
static void train(run *r, outcome *o) {
  for (int w = 0; w < WINDOWS; w++) {
    ac_update update;
    assert_ok(feed(r->trainer, w == 1 ? SHORT : SAMPLES));
    read_all(r, o, w, true);
    assert_ok(ac_trainer_update(r->trainer, &update));
    assert_false(update.skipped);
    o->loss[w] = update.loss;
    read_all(r, o, w, false);
  }
}

static double largest(const float *x, int count) {
  double most = 0;
  for (int i = 0; i < count; i++) most = fmax(most, fabs((double)x[i]));
  return most;
}

static void hold(const char *what, const float *a, const float *b, int count, double tolerance) {
  const double most = largest(b, count);
  for (int i = 0; i < count; i++)
    if (!(fabs((double)a[i] - (double)b[i]) <= tolerance * most))
      fail_msg("%s: [%d] is %.9g, not %.9g; the largest is %.9g", what, i, (double)a[i],
               (double)b[i], most);
}

static void compare(const char *what, const outcome *a, const outcome *b) {
  for (int w = 0; w < WINDOWS; w++) {
    if (!(fabs(a->loss[w] - b->loss[w]) < 1e-5 * fabs(b->loss[w])))
      fail_msg("%s: loss %d is %.9g, not %.9g", what, w, a->loss[w], b->loss[w]);
    hold(what, a->gradients[w], b->gradients[w], b->gradient_count, 2e-5);
    hold(what, a->weights[w], b->weights[w], b->weight_count, 2e-4); /* AdamW amplifies rounding */
  }
}

static void check(const graph_case *c, const char *device, ac_plan_desc desc, const char *how) {
  static outcome whole, split;
  char what[160];
  ac_plan_desc at_once = desc;
  at_once.recompute = AC_RECOMPUTE_NONE;
  at_once.micro_batch = SAMPLES;
  at_once.batch_norm = AC_BATCH_NORM_WHOLE;
  at_once.memory = 0;
  run r = start(c, device, at_once);
  train(&r, &whole);
  stop(&r);
  desc.batch_norm = AC_BATCH_NORM_EXACT;
  r = start(c, device, desc);
  assert_true(ac_plan_get_info(r.plan)->sections > 1);
  snprintf(what, sizeof what, "%s on %s, %s, micro-batch %lld of %lld, recompute %d", c->name,
           device, how, (long long)ac_plan_get_info(r.plan)->micro_batch, (long long)SAMPLES,
           (int)desc.recompute);
  train(&r, &split);
  stop(&r);
  compare(what, &split, &whole);
}

static void check_graphs(const char *device) {
  static const int64_t sizes[] = {1, 4, 6, SAMPLES};
  for (int k = 0; k < CASES; k++)
    for (int i = 0; i < 4; i++)
      for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
        if (!strcmp(device, "cpu") || k + i + policy == 6)
          check(&cases[k], device,
                (ac_plan_desc){.micro_batch = sizes[i], .recompute = (ac_recompute)policy}, "free");
      }
}
ON_EVERY_DEVICE(check_graphs)

/* From the least budget to that of the largest plan: each has an order of its own. */
static void test_budgets(void **state) {
  (void)state;
  for (int k = 0; k < CASES; k++) {
    ac_device *device = open_device("cpu");
    ac_graph *graph = cases[k].make();
    ac_plan *plan;
    ac_plan_desc desc = {.batch = SAMPLES, .batch_norm = AC_BATCH_NORM_EXACT};
    const uint64_t least = least_budget(graph, device, desc);
    desc.recompute = AC_RECOMPUTE_NONE;
    desc.micro_batch = SAMPLES;
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    const uint64_t most = ac_plan_get_info(plan)->bytes.total;
    ac_plan_free(plan);
    ac_graph_free(graph);
    ac_device_close(device);
    for (int part = 0; part <= 6; part += part < 2 ? 1 : 2) {
      char how[64];
      snprintf(how, sizeof how, "budget %d of 6", part);
      const uint64_t memory = least + (most > least ? (most - least) * (uint64_t)part / 6 : 0);
      check(&cases[k], "cpu", (ac_plan_desc){.memory = memory, .whole_windows = part == 1}, how);
    }
  }
}

/* Other ways to describe the same: what is frozen before and after norms, where state is, means of
 * losses. */
static void check_descriptions(const char *device) {
  static const struct {
    const char *how;
    int graph;
    ac_plan_desc desc;
  } list[] = {
      {"the first block frozen", 8, {.frozen = "a,a.norm.*"}},
      {"all but the head frozen", 8, {.frozen = "a*,b*,c*,d*"}},
      {"blocks in the middle frozen", 9, {.frozen = "c2*,c3*"}},
      {"norms frozen", 8, {.frozen = "*.norm.weight,*.norm.bias"}},
      {"means per sample", 4, {.loss_means = AC_LOSS_MEANS_PER_SAMPLE}},
      {"means counted", 4, {.loss_means = AC_LOSS_MEANS_COUNTED}},
      {"an average", 0, {.average = true}},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int64_t size = 1; size <= 4; size += 3)
      for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
        ac_plan_desc desc = list[i].desc;
        desc.micro_batch = size;
        desc.recompute = (ac_recompute)policy;
        if (!strcmp(device, "cpu") || (size == 4 && policy == AC_RECOMPUTE_ALL))
          check(&cases[list[i].graph], device, desc, list[i].how);
      }
}
ON_EVERY_DEVICE(check_descriptions)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(check_graphs_everywhere),
      cmocka_unit_test(test_budgets),
      cmocka_unit_test(check_descriptions_everywhere),
  };
  return cmocka_run_group_tests(tests, make_samples, NULL);
}
