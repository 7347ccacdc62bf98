/* Losses that are made of other ops, and cross-entropy over an axis, against PyTorch's (losses of
 * tests/vectors): their mean by weight, and its gradient for each operand, on every device. Each
 * operand is a table. Each sample has a row of it, so that its gradient is that of the table. */
#include "support/devices.h"
#include "support/trainers.h"

#include "ops/vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 3 };

typedef struct given {
  ac_tensor *in[MOST], *weights;
  const op_vector *vector;
} given;

static float number(const given *g, const char *name) {
  return (float)op_vector_attribute(g->vector, name, NAN);
}

#define LOSS(name, call)                   \
  static ac_tensor *name(const given *g) { \
    ac_tensor *const *in = g->in;          \
    return call;                           \
  }
LOSS(l1_loss, ac_l1_loss(in[0], in[1], g->weights))
LOSS(huber_loss, ac_huber_loss(in[0], in[1], g->weights, number(g, "delta")))
LOSS(hinge_loss, ac_hinge_loss(in[0], in[1], g->weights, number(g, "margin")))
LOSS(focal_loss, ac_focal_loss(in[0], in[1], g->weights, number(g, "alpha"), number(g, "gamma")))
LOSS(poisson_nll, ac_poisson_nll(in[0], in[1], g->weights))
LOSS(gaussian_nll, ac_gaussian_nll(in[0], in[1], in[2], g->weights))
LOSS(triplet_loss, ac_triplet_loss(in[0], in[1], in[2], g->weights, number(g, "margin")))
LOSS(cosine_embedding_loss,
     ac_cosine_embedding_loss(in[0], in[1], in[2], g->weights, number(g, "margin")))
LOSS(soft_cross_entropy, ac_soft_cross_entropy(in[0], in[1], g->weights))
LOSS(kl_divergence, ac_kl_divergence(in[0], in[1], g->weights, number(g, "temperature")))
LOSS(contrastive_loss, ac_contrastive_loss(in[0], in[1], g->weights, number(g, "temperature")))
LOSS(image_cross_entropy,
     ac_cross_entropy(in[0], in[1], g->weights, &(ac_cross_entropy_desc){.axis = 1}))

static const struct {
  const char *name;
  ac_tensor *(*build)(const given *);
} losses[] = {
    {"l1_loss", l1_loss},
    {"huber_loss", huber_loss},
    {"hinge_loss", hinge_loss},
    {"focal_loss", focal_loss},
    {"poisson_nll", poisson_nll},
    {"gaussian_nll", gaussian_nll},
    {"triplet_loss", triplet_loss},
    {"cosine_embedding_loss", cosine_embedding_loss},
    {"soft_cross_entropy", soft_cross_entropy},
    {"kl_divergence", kl_divergence},
    {"contrastive_loss", contrastive_loss},
    {"image_cross_entropy", image_cross_entropy},
};

/* ---- a graph of a case ----------------------------------------------------------------------- */

static const op_vector_tensor *operand(const op_vector *vector, const char *kind, int i) {
  char name[16];
  snprintf(name, sizeof name, "%s%d", kind, i);
  return op_vector_find(vector, name);
}

/* Sample b has row b of the parameter "in<i>", which is frozen if PyTorch has no gradient of it;
 * integers are an input of that name. */
static ac_tensor *leaf(ac_graph *g, ac_tensor *ids, const op_vector_tensor *x, bool frozen) {
  int64_t shape[AC_MAX_RANK] = {AC_BATCH};
  for (int d = 1; d < x->rank; d++) shape[d] = x->dim[d];
  if (x->dtype == AC_I32) return ac_input(g, x->name, AC_I32, x->rank, shape);
  const int64_t size = x->count / x->dim[0];
  ac_tensor *table =
      ac_parameter(g, x->name, AC_SHAPE(x->dim[0], size), &(ac_parameter_desc){.frozen = frozen});
  return ac_reshape(ac_embedding(table, ids), x->rank, shape);
}

static ac_graph *graph_of(const op_vector *vector) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  given g = {.vector = vector};
  ac_tensor *ids = ac_input(graph, "ids", AC_I32, AC_SHAPE(AC_BATCH));
  for (int i = 0; i < MOST && operand(vector, "in", i); i++)
    g.in[i] = leaf(graph, ids, operand(vector, "in", i), !operand(vector, "grad", i));
  const op_vector_tensor *weights = op_vector_find(vector, "weights");
  if (weights) {
    const int64_t shape[] = {AC_BATCH, weights->dim[1]};
    g.weights = ac_input(graph, "weights", AC_F32, weights->rank, shape);
  }
  ac_tensor *(*build)(const given *) = NULL;
  for (size_t k = 0; k < sizeof losses / sizeof *losses; k++)
    if (!strncmp(vector->name, losses[k].name, strlen(losses[k].name))) build = losses[k].build;
  assert_non_null(build);
  ac_graph_set_loss(graph, build(&g));
  assert_string_equal(ac_graph_message(graph), "");
  return graph;
}

/* ---- a window of it -------------------------------------------------------------------------- */

static void *elements_of(const op_vector_tensor *x) {
  float *values = malloc((size_t)x->count * sizeof *values);
  int32_t *integers = (int32_t *)values;
  for (int64_t e = 0; e < x->count; e++) {
    if (x->dtype == AC_I32) integers[e] = (int32_t)x->data[e];
    else values[e] = (float)x->data[e];
  }
  return values;
}

static void feed_window(run *r, const op_vector *vector, int64_t samples) {
  int32_t ids[16];
  ac_feed feeds[MOST + 2] = {{"ids", ids}};
  void *held[MOST + 1];
  int count = 0;
  for (int i = 0; i < 16; i++) ids[i] = i;
  for (int i = 0; i < MOST && operand(vector, "in", i); i++) {
    const op_vector_tensor *x = operand(vector, "in", i);
    void *values = elements_of(x);
    const int index = ac_trainer_find_parameter(r->trainer, x->name);
    if (index >= 0) assert_ok(ac_trainer_set_parameter(r->trainer, index, 0, x->count, values));
    held[count++] = values;
    feeds[count] = (ac_feed){x->name, values};
  }
  const op_vector_tensor *weights = op_vector_find(vector, "weights");
  if (weights) {
    held[count++] = elements_of(weights);
    feeds[count] = (ac_feed){"weights", held[count - 1]};
  }
  assert_ok(ac_trainer_accumulate(r->trainer, samples, feeds, count + 1));
  for (int i = 0; i < count; i++) free(held[i]);
}

/* The trainer has the gradient of the sum, which the update divides; NULL: the operand has none. */
static float *gradient_of(const run *r, const op_vector *vector, int i) {
  const op_vector_tensor *x = operand(vector, "in", i);
  const int index = x ? ac_trainer_find_parameter(r->trainer, x->name) : -1;
  if (index < 0 || !operand(vector, "grad", i)) return NULL;
  float *values = malloc((size_t)x->count * sizeof *values);
  assert_ok(ac_trainer_get_gradient(r->trainer, index, 0, x->count, values));
  return values;
}

/* Roundings of floats, and sums of a few of them. */
static void compare_gradient(const char *device, const op_vector *vector, int i, const float *got,
                             double weight) {
  const op_vector_tensor *want = operand(vector, "grad", i);
  double largest = 1e-3;
  for (int64_t e = 0; got && e < want->count; e++) largest = fmax(largest, fabs(want->data[e]));
  for (int64_t e = 0; got && e < want->count; e++)
    if (!(fabs((double)got[e] / weight - want->data[e]) <= 1e-5 * largest))
      fail_msg("%s: %s: gradient %d[%lld] is %.9g, not %.9g", device, vector->name, i, (long long)e,
               (double)got[e] / weight, want->data[e]);
}

static void check(ac_device *opened, const char *device, const op_vector *vector) {
  const int64_t samples = operand(vector, "in", 0)->dim[0];
  const ac_plan_desc plan = {.batch = samples,
                             .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  const ac_trainer_desc desc = {.schedule = {.lr = 1e-6}};
  const double want = op_vector_find(vector, "loss")->data[0];
  run r = run_of(opened, graph_of(vector), &plan, &desc);
  ac_update update;
  float *gradients[MOST];
  feed_window(&r, vector, samples);
  for (int i = 0; i < MOST; i++) gradients[i] = gradient_of(&r, vector, i);
  assert_ok(ac_trainer_update(r.trainer, &update));
  if (!(fabs(update.loss - want) <= 2e-6 * fmax(1, fabs(want))))
    fail_msg("%s: %s: the loss is %.9g, not %.9g", device, vector->name, update.loss, want);
  for (int i = 0; i < MOST; i++) {
    compare_gradient(device, vector, i, gradients[i], update.weight);
    free(gradients[i]);
  }
  stop_on(&r);
}

static void losses_are_those_of_pytorch(const char *device) {
  int count;
  op_vector *vectors = op_vectors_read("losses", &count);
  assert_true(count >= 31);
  ac_device *opened = open_device(device);
  for (int k = 0; k < count; k++) check(opened, device, &vectors[k]);
  ac_device_close(opened);
  op_vectors_free(vectors, count);
}
ON_EVERY_DEVICE(losses_are_those_of_pytorch)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(losses_are_those_of_pytorch_everywhere)};
  return cmocka_run_group_tests_name("ready_losses", tests, NULL, NULL);
}
