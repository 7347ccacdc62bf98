#include "losses.h"

const place_of_parameter places[PARAMETERS] = {
    {"encoder", ENCODER, HIDDEN *WIDTH},
    {"encoder.bias", ENCODER_BIAS, HIDDEN},
    {"decoder", DECODER, WIDTH *HIDDEN},
    {"decoder.bias", DECODER_BIAS, WIDTH},
    {"classifier", CLASSIFIER, CLASSES *HIDDEN},
    {"classifier.bias", CLASSIFIER_BIAS, CLASSES},
    {"flagger", FLAGGER, HIDDEN},
};

int loss_count(const losses *l) {
  return l->flags ? 3 : 2;
}

losses with_means(losses l, ac_loss_means means) {
  l.means = means;
  return l;
}

/* ---- samples --------------------------------------------------------------------------------- */

samples make_samples(const losses *l) {
  samples d;
  uint32_t state = 5;
  for (int i = 0; i < COUNT * TOKENS * WIDTH; i++) {
    state = state * 1664525u + 1013904223u;
    d.x[i] = (float)(state >> 16) / 32768 - 1;
  }
  for (int i = 0; i < COUNT * TOKENS; i++) {
    int length = (i / TOKENS + 1) * 3 % (TOKENS + 2);
    d.kinds[i] = l->ignore && i % TOKENS >= length ? -1 : (i * 7 + i / TOKENS) % CLASSES;
    d.weights[i] = (float)(i * 5 % 4) / 2;
    d.flags[i] = (float)(i * 3 % 5) / 4;
  }
  for (int i = 0; i < COUNT; i++) d.shares[i] = (float)(i * 2 % 5) * 0.75f;
  return d;
}

ac_status feed_losses(run *r, const samples *d, int first, int count) {
  const ac_feed feeds[] = {{"x", d->x + first * TOKENS * WIDTH},
                           {"kinds", d->kinds + first * TOKENS},
                           {"weights", d->weights + first * TOKENS},
                           {"flags", d->flags + first * TOKENS},
                           {"shares", d->shares + first}};
  return ac_trainer_accumulate(r->trainer, count, feeds, 5);
}

ac_dataset *losses_dataset(const samples *d) {
  static const ac_field fields[] = {{"x", AC_F32, TOKENS * WIDTH},
                                    {"kinds", AC_I32, TOKENS},
                                    {"weights", AC_F32, TOKENS},
                                    {"flags", AC_F32, TOKENS},
                                    {"shares", AC_F32, 1}};
  const void *const data[] = {d->x, d->kinds, d->weights, d->flags, d->shares};
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, COUNT, 5, fields, data));
  return dataset;
}

/* ---- the model ------------------------------------------------------------------------------- */

ac_tensor *losses_matrix(ac_graph *g, const char *name, int rows, int columns) {
  const ac_parameter_desc desc = {.init = {AC_INIT_NORMAL, .deviation = 0.6f}};
  if (!columns) return ac_parameter(g, name, SHAPE(rows), &desc);
  return ac_parameter(g, name, SHAPE(rows, columns), &desc);
}

inputs inputs_of(ac_graph *g, const losses *l) {
  inputs in = {NULL, NULL, NULL};
  for (int i = 0; i < 3; i++) {
    const int turn = (l->first_input + i) % 3;
    if (turn == X_FIRST) in.x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, TOKENS, WIDTH));
    if (turn == KINDS_FIRST) in.kinds = ac_input(g, "kinds", AC_I32, SHAPE(AC_BATCH, TOKENS));
    if (turn == WEIGHTS_FIRST && l->weighted)
      in.weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH, TOKENS));
  }
  return in;
}

ac_tensor *kinds_loss(ac_graph *g, ac_tensor *h, const inputs *in, const losses *l) {
  const ac_cross_entropy_desc desc = {.ignore = l->ignore, .ignore_index = -1};
  ac_tensor *w = losses_matrix(g, "classifier", CLASSES, HIDDEN);
  if (l->fused) return ac_linear_cross_entropy(h, w, AC_OUT_IN, in->kinds, in->weights, &desc);
  ac_tensor *b = losses_matrix(g, "classifier.bias", CLASSES, 0);
  return ac_cross_entropy(ac_linear(h, w, b, AC_OUT_IN), in->kinds, in->weights, &desc);
}

ac_tensor *flags_loss(ac_graph *g, ac_tensor *h) {
  ac_tensor *flags = ac_input(g, "flags", AC_F32, SHAPE(AC_BATCH, TOKENS, 1));
  ac_tensor *shares = ac_input(g, "shares", AC_F32, SHAPE(AC_BATCH));
  ac_tensor *z = ac_linear(h, losses_matrix(g, "flagger", 1, HIDDEN), NULL, AC_OUT_IN);
  return ac_binary_cross_entropy(z, flags, shares);
}

ac_graph *losses_graph(const losses *l) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const inputs in = inputs_of(g, l);
  ac_tensor *h = ac_tanh(ac_linear(in.x, losses_matrix(g, "encoder", HIDDEN, WIDTH),
                                   losses_matrix(g, "encoder.bias", HIDDEN, 0), AC_OUT_IN));
  ac_tensor *y = ac_linear(h, losses_matrix(g, "decoder", WIDTH, HIDDEN),
                           losses_matrix(g, "decoder.bias", WIDTH, 0), AC_OUT_IN);
  ac_graph_add_loss(g, "pixels", ac_mean_squared_error(y, in.x, NULL), l->factor[PIXELS]);
  ac_graph_add_loss(g, "kinds", kinds_loss(g, h, &in, l), l->factor[KINDS]);
  if (l->flags) ac_graph_add_loss(g, "flags", flags_loss(g, h), l->factor[FLAGS]);
  assert_ok(ac_graph_status(g));
  return g;
}

run start_losses(const char *device, const losses *l, ac_plan_desc plan,
                 ac_loss_scaling_desc scaling) {
  plan.loss_means = l->means;
  plan.batch = BATCH;
  plan.optimizer.kind = AC_SGD;
  plan.optimizer.sgd_no_momentum = true;
  const ac_trainer_desc desc = {.seed = 9, .schedule = {.lr = RATE}, .loss_scaling = scaling};
  return run_of(open_device(device), losses_graph(l), &plan, &desc);
}

scalars read_scalars(run *r, bool gradients) {
  scalars s = {{0}};
  for (int i = 0; i < PARAMETERS; i++) {
    int index = ac_trainer_find_parameter(r->trainer, places[i].name);
    if (index >= 0)
      assert_ok((gradients ? ac_trainer_get_gradient : ac_trainer_get_parameter)(
          r->trainer, index, 0, places[i].count, s.of + places[i].first));
  }
  return s;
}

/* ---- the reference --------------------------------------------------------------------------- */

static double weight_of(const losses *l, const samples *d, int loss, int sample, int t) {
  if (loss == PIXELS) return 1;
  if (loss == FLAGS) return (double)d->shares[sample];
  if (l->ignore && d->kinds[sample * TOKENS + t] == -1) return 0;
  return l->weighted ? (double)d->weights[sample * TOKENS + t] : 1;
}

/* y = W h + b, and back: the gradient g of y[j]. */
static double product(const token *k, int weight, int bias, int j) {
  double y = bias >= 0 ? k->p[bias + j] : 0;
  for (int i = 0; i < HIDDEN; i++) y += k->p[weight + j * HIDDEN + i] * k->h[i];
  return y;
}

static void product_gradient(const token *k, int weight, int bias, int j, double g) {
  if (bias >= 0) k->o->gradient[bias + j] += g;
  for (int i = 0; i < HIDDEN; i++) {
    k->o->gradient[weight + j * HIDDEN + i] += g * k->h[i];
    k->dh[i] += g * k->p[weight + j * HIDDEN + i];
  }
}

static void pixels(const token *k) {
  for (int j = 0; j < WIDTH; j++) {
    double e = product(k, DECODER, DECODER_BIAS, j) - k->x[j];
    k->o->mean[PIXELS] += e * e / (TOKENS * WIDTH);
    product_gradient(k, DECODER, DECODER_BIAS, j, k->scale[PIXELS] * 2 * e / (TOKENS * WIDTH));
  }
}

static void kinds(const token *k, int target, double weight) {
  double z[CLASSES], sum = 0;
  int best = 0, bias = k->losses->fused ? -1 : CLASSIFIER_BIAS;
  if (weight == 0) return;
  for (int j = 0; j < CLASSES; j++) {
    z[j] = product(k, CLASSIFIER, bias, j);
    sum += exp(z[j]);
    if (z[j] > z[best]) best = j;
  }
  k->o->mean[KINDS] += weight * (log(sum) - z[target]);
  if (best == target) k->o->accuracy[KINDS] += weight;
  for (int j = 0; j < CLASSES; j++)
    product_gradient(k, CLASSIFIER, bias, j,
                     k->scale[KINDS] * weight * (exp(z[j]) / sum - (j == target)));
}

static bool flags(const token *k, double target, double weight) {
  double z = product(k, FLAGGER, -1, 0);
  k->o->mean[FLAGS] += weight * (log(1 + exp(z)) - target * z) / TOKENS;
  product_gradient(k, FLAGGER, -1, 0,
                   k->scale[FLAGS] * weight * (1 / (1 + exp(-z)) - target) / TOKENS);
  return (z >= 0) == (target >= 0.5);
}

/* Adds a sample's losses and gradients. */
static void add_sample(const losses *l, const samples *d, const double *p, int sample,
                       const double *scale, outcome *o) {
  bool right = true;
  for (int t = 0; t < TOKENS; t++) {
    double x[WIDTH], h[HIDDEN], dh[HIDDEN] = {0};
    const token k = {l, p, x, h, dh, scale, o};
    for (int j = 0; j < WIDTH; j++) x[j] = (double)d->x[(sample * TOKENS + t) * WIDTH + j];
    for (int i = 0; i < HIDDEN; i++) {
      double a = p[ENCODER_BIAS + i];
      for (int j = 0; j < WIDTH; j++) a += p[ENCODER + i * WIDTH + j] * x[j];
      h[i] = tanh(a);
    }
    pixels(&k);
    kinds(&k, d->kinds[sample * TOKENS + t], weight_of(l, d, KINDS, sample, t));
    if (l->flags)
      right &= flags(&k, (double)d->flags[sample * TOKENS + t], weight_of(l, d, FLAGS, sample, t));
    for (int i = 0; i < HIDDEN; i++) {
      double da = dh[i] * (1 - h[i] * h[i]);
      o->gradient[ENCODER_BIAS + i] += da;
      for (int j = 0; j < WIDTH; j++) o->gradient[ENCODER + i * WIDTH + j] += da * x[j];
    }
  }
  if (l->flags && right) o->accuracy[FLAGS] += weight_of(l, d, FLAGS, sample, 0);
}

void weigh(const losses *l, const samples *d, int first, int count, double weight[LOSSES]) {
  for (int k = 0; k < LOSSES; k++) weight[k] = 0;
  for (int i = first; i < first + count; i++)
    for (int k = 0; k < loss_count(l); k++)
      for (int t = 0; t < (k == KINDS ? TOKENS : 1); t++) weight[k] += weight_of(l, d, k, i, t);
}

outcome reference(const losses *l, const samples *d, const scalars *parameters, int first,
                  int count) {
  outcome o = {0};
  double p[SCALARS], scale[LOSSES] = {0}, own[LOSSES];
  for (int i = 0; i < SCALARS; i++) p[i] = (double)parameters->of[i];
  weigh(l, d, first, count, own);
  for (int k = 0; k < loss_count(l); k++) {
    o.weight[k] = l->means == AC_LOSS_MEANS_PER_SAMPLE ? count : own[k];
    scale[k] = o.weight[k] > 0 ? l->factor[k] / o.weight[k] : 0;
  }
  for (int i = first; i < first + count; i++) add_sample(l, d, p, i, scale, &o);
  for (int k = 0; k < loss_count(l); k++) {
    if (!(own[k] > 0)) { /* nothing has no mean */
      o.mean[k] = o.weight[k] > 0 ? 0 : (double)NAN;
      o.accuracy[k] = (double)NAN;
      continue;
    }
    o.mean[k] /= o.weight[k];
    o.accuracy[k] /= own[k];
    o.loss += l->factor[k] * o.mean[k];
  }
  for (int i = 0; i < SCALARS; i++) o.norm += o.gradient[i] * o.gradient[i];
  o.norm = sqrt(o.norm);
  return o;
}

/* ---- comparing ------------------------------------------------------------------------------- */

void assert_near(const char *where, const char *what, double got, double expected, double most) {
  if (isnan(got) != isnan(expected) || fabs(got - expected) > most)
    fail_msg("%s: %s is %.9g, expected %.9g +- %.1g", where, what, got, expected, most);
}

void assert_means(const char *where, const losses *l, const outcome *o, double loss,
                  const ac_loss_mean *means, int count, double tolerance) {
  static const char *const names[LOSSES] = {"pixels", "kinds", "flags"};
  assert_int_equal(count, loss_count(l));
  assert_near(where, "the loss", loss, o->loss, tolerance * o->loss);
  for (int k = 0; k < count; k++) {
    assert_string_equal(means[k].name, names[k]);
    assert_near(where, names[k], means[k].loss, o->mean[k], tolerance * o->mean[k]);
    assert_near(where, "its weight", means[k].weight, o->weight[k], 1e-6 * o->weight[k]);
    if (tolerance < 1e-3)
      assert_near(where, "its accuracy", means[k].accuracy, o->accuracy[k], 1e-6);
  }
}

/* Each element by the norm of all, as a sum over tokens may come to much less than its terms. */
static void assert_elements(const char *where, const char *what, const float *got, double by,
                            const double *expected, double most) {
  for (int i = 0; i < PARAMETERS; i++)
    for (int k = places[i].first; k < places[i].first + places[i].count; k++) {
      char name[64];
      snprintf(name, sizeof name, "%s %s[%d]", what, places[i].name, k - places[i].first);
      assert_near(where, name, (double)got[k] * by, expected[k], most);
    }
}

void assert_update(const char *where, const losses *l, const outcome *o, const ac_update *update,
                   int count, const scalars *before, const scalars *after, double tolerance) {
  double stepped[SCALARS];
  assert_false(update->skipped);
  assert_true(update->weight == count);
  assert_means(where, l, o, update->loss, update->losses, update->loss_count, tolerance);
  assert_near(where, "the norm", update->grad_norm, o->norm, tolerance * o->norm);
  for (int i = 0; i < SCALARS; i++) stepped[i] = (double)before->of[i] - RATE * o->gradient[i];
  assert_elements(where, "stepped", after->of, 1, stepped, tolerance * RATE * o->norm + 2e-7);
}

ac_update train_window(const char *where, run *r, const losses *l, const samples *d, int first,
                       int count, int piece, double tolerance) {
  ac_update update;
  scalars before = read_scalars(r, false);
  const outcome o = reference(l, d, &before, first, count);
  double weight[LOSSES];
  weigh(l, d, first, count, weight);
  if (l->means == AC_LOSS_MEANS_GIVEN)
    assert_ok(ac_trainer_begin_window(r->trainer, count, weight, loss_count(l)));
  for (int done = 0; done < count; done += piece)
    assert_ok(feed_losses(r, d, first + done, piece < count - done ? piece : count - done));
  const scalars gradients = read_scalars(r, true);
  assert_elements(where, "gradient", gradients.of, 1.0 / count, o.gradient, tolerance * o.norm);
  assert_ok(ac_trainer_update(r->trainer, &update));
  const scalars after = read_scalars(r, false);
  assert_update(where, l, &o, &update, count, &before, &after, tolerance);
  return update;
}
