/* Gradient rules and their composition: whole graphs, evaluated in double by the references of
 * tests/ops, against finite differences. For each parameter of each graph the gradient that a
 * device computes is held against (L(p + h) - L(p - h)) / 2h along a random direction and for
 * single elements, where L is the double evaluation of the forward nodes. */
#include "support/check.h"
#include "support/models.h"

#include "core/hash.h"
#include "core/random.h"
#include "ops/case.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 3 };

/* ---- a graph evaluated in double ------------------------------------------------------------- */

typedef struct evaluation {
  const ac_plan *plan;
  void **data; /* by storage: doubles, or int32_t for integers */
  ac_run_state run;
} evaluation;

static int64_t elements_of(const ac_tensor *tensor) {
  return ac_operand_of(tensor, BATCH).count;
}

static void fill_leaf(const ac_tensor *tensor, void *data) {
  uint64_t key = ac_hash_text(tensor->name);
  int64_t count = elements_of(tensor);
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits = ac_philox(key, (uint32_t)i, 0, 0, 0).v[0];
    /* Rounded to float, so that the device starts from the same values. */
    if (tensor->dtype == AC_I32) ((int32_t *)data)[i] = (int32_t)(bits % 5);
    else
      ((double *)data)[i] =
          (double)(ac_uniform24(bits) * 1.5f + (tensor->role == AC_ROLE_INPUT ? 0.05f : -0.75f));
  }
}

static void fill_constant(const ac_tensor *tensor, void *data) {
  const size_t count = (size_t)elements_of(tensor);
  if (tensor->dtype == AC_I32) memcpy(data, tensor->values->data, count * sizeof(int32_t));
  else
    for (size_t i = 0; i < count; i++) {
      float value;
      memcpy(&value, tensor->values->data + i * sizeof value, sizeof value);
      ((double *)data)[i] = (double)value;
    }
}

static evaluation begin(const ac_plan *plan) {
  const ac_graph *graph = plan->graph;
  evaluation e = {.plan = plan};
  e.data = calloc((size_t)graph->tensor_count + 1, sizeof *e.data);
  assert_non_null(e.data);
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->storage != i) continue;
    e.data[i] = calloc((size_t)elements_of(tensor), sizeof(double));
    assert_non_null(e.data[i]);
    if (tensor->role == AC_ROLE_INPUT || tensor->role == AC_ROLE_PARAMETER)
      fill_leaf(tensor, e.data[i]);
    if (tensor->role == AC_ROLE_CONSTANT) fill_constant(tensor, e.data[i]);
  }
  e.run = (ac_run_state){.training = true, .seed = 5, .batch = BATCH, .loss_scale = 1};
  return e;
}

static void end(evaluation *e) {
  for (int i = 0; i < e->plan->graph->tensor_count; i++) free(e->data[i]);
  free(e->data);
}

/* Results are in double, and integers that ops read are not. */
static void to_integers(const ac_operand *x) {
  int32_t *integers = x->data;
  for (int64_t i = 0; i < x->count; i++) integers[i] = (int32_t)op_reals(x)[i];
}

/* The sum of losses. Forward nodes in order; each tensor has memory of its own. */
static double loss_of(evaluation *e) {
  const ac_graph *graph = e->plan->graph;
  const ac_sequence *sequence = &e->plan->evaluation;
  for (int s = 0; s < sequence->step_count; s++) {
    const ac_step *step = &sequence->steps[s];
    ac_op_args args;
    ac_step_arguments(step, graph, &e->run, &args);
    for (int i = 0; i < AC_MAX_INPUTS; i++)
      if (step->in[i].tensor >= 0)
        args.in[i].data = e->data[ac_tensor_at(graph, step->in[i].tensor)->storage];
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      if (step->out[j].tensor < 0) continue;
      args.out[j].data = e->data[ac_tensor_at(graph, step->out[j].tensor)->storage];
      args.add[j] = false;
    }
    op_reference_of(args.op)->compute(&args);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (args.out[j].count && args.out[j].dtype == AC_I32) to_integers(&args.out[j]);
  }
  const double *sums = e->data[graph->losses[0].tensor];
  return sums[0] + sums[1];
}

/* ---- the same on a device -------------------------------------------------------------------- */

typedef struct trained {
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
} trained;

static trained open_trainer(ac_graph *graph, const char *device) {
  trained t;
  assert_ok(ac_graph_status(graph));
  assert_ok(ac_device_open(&t.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&t.plan, graph, t.device,
                           &(ac_plan_desc){.batch = BATCH, .micro_batch = BATCH}));
  assert_ok(ac_trainer_create(&t.trainer, t.plan, &(ac_trainer_desc){.seed = 5}));
  return t;
}

static void set_parameters(trained *t, const evaluation *e) {
  const ac_graph *graph = t->plan->graph;
  for (int i = 0; i < graph->parameter_count; i++) {
    int64_t count = elements_of(ac_tensor_at(graph, graph->parameters[i]));
    const double *from = e->data[graph->parameters[i]];
    for (int64_t k = 0; k < count; k++) {
      float value = (float)from[k];
      assert_ok(ac_trainer_set_parameter(t->trainer, i, k, 1, &value));
    }
  }
}

static void accumulate(trained *t, const evaluation *e) {
  const ac_graph *graph = t->plan->graph;
  ac_feed feeds[8];
  float *floats[8] = {0};
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    const void *data = e->data[input->id];
    if (input->dtype == AC_F32) {
      int64_t count = elements_of(input);
      floats[i] = malloc((size_t)count * sizeof *floats[i]);
      for (int64_t k = 0; k < count; k++) floats[i][k] = (float)((const double *)data)[k];
      data = floats[i];
    }
    feeds[i] = (ac_feed){input->name, data};
  }
  assert_ok(ac_trainer_accumulate(t->trainer, BATCH, feeds, graph->input_count));
  for (int i = 0; i < 8; i++) free(floats[i]);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double directional(evaluation *e, double *values, const double *direction, int64_t count) {
  const double h = 1e-5;
  double up, down;
  for (int64_t i = 0; i < count; i++) values[i] += h * direction[i];
  up = loss_of(e);
  for (int64_t i = 0; i < count; i++) values[i] -= 2 * h * direction[i];
  down = loss_of(e);
  for (int64_t i = 0; i < count; i++) values[i] += h * direction[i];
  return (up - down) / (2 * h);
}

/* Float rounding through a graph of about ten ops: 1e-4 of the gradient's norm is two orders above
 * what is seen for right rules, and wrong ones are off by its whole size. A parameter that is left
 * without a gradient has one of zeros. */
static void check_parameter(trained *t, evaluation *e, int index) {
  const ac_graph *graph = t->plan->graph;
  const ac_tensor *tensor = ac_tensor_at(graph, graph->parameters[index]);
  if (tensor->desc.frozen) return;
  int64_t count = elements_of(tensor);
  float *gradient = calloc((size_t)count, sizeof *gradient);
  double *direction = calloc((size_t)count, sizeof *direction);
  double *values = e->data[tensor->id];
  if (t->plan->problem.parameters[index].gradient >= 0)
    assert_ok(ac_trainer_get_gradient(t->trainer, index, 0, count, gradient));
  double norm = 0, along = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits = ac_philox(77, (uint32_t)i, 0, 0, 0).v[1];
    direction[i] = bits & 1 ? 1 : -1;
    norm += (double)gradient[i] * (double)gradient[i];
    along += (double)gradient[i] * direction[i];
  }
  double tolerance = 1e-4 * (sqrt(norm) * sqrt((double)count) + 1e-3);
  double expected = directional(e, values, direction, count);
  if (!(fabs(expected - along) <= tolerance))
    fail_msg("%s: along a direction %g, expected %g", tensor->name, along, expected);
  memset(direction, 0, (size_t)count * sizeof *direction);
  for (int64_t i = 0; i < count; i += 1 + count / 5) {
    direction[i] = 1;
    expected = directional(e, values, direction, count);
    direction[i] = 0;
    if (!(fabs(expected - (double)gradient[i]) <= 1e-4 * (sqrt(norm) + 1e-3)))
      fail_msg("%s[%lld]: %g, expected %g", tensor->name, (long long)i, (double)gradient[i],
               expected);
  }
  free(gradient);
  free(direction);
}

static void check_on(ac_graph *graph, const char *device) {
  trained t = open_trainer(graph, device);
  evaluation e = begin(t.plan);
  set_parameters(&t, &e);
  accumulate(&t, &e);
  for (int i = 0; i < t.plan->graph->parameter_count; i++) check_parameter(&t, &e, i);
  end(&e);
  ac_trainer_free(t.trainer);
  ac_plan_free(t.plan);
  ac_device_close(t.device);
}

/* On the CPU and on each OpenCL device; frees the graph. */
static void check(ac_graph *graph) {
  ac_device_info list[8];
  int count;
  assert_ok(ac_device_list(list, 8, &count));
  for (int i = 0; i < count && i < 8; i++) check_on(graph, list[i].id);
  ac_graph_free(graph);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static ac_graph *new_graph(void) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  return graph;
}

static ac_tensor *parameter(ac_graph *g, const char *name, int64_t rows, int64_t columns) {
  return ac_parameter(g, name, columns ? 2 : 1, (const int64_t[]){rows, columns}, NULL);
}

/* [B, 4, 6] depending on parameters, to apply other ops to. */
static ac_tensor *hidden(ac_graph *g) {
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4, 5));
  return ac_linear(x, parameter(g, "w", 6, 5), parameter(g, "b", 6, 0), AC_OUT_IN);
}

/* Mean squared distance to an input of [B, 4, 6], with weights. */
static ac_graph *finish(ac_graph *g, ac_tensor *y) {
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 4, 6));
  ac_tensor *weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH));
  ac_graph_set_loss(g, ac_mean_squared_error(y, t, weights));
  return g;
}

static void elementwise_ops(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g);
  ac_tensor *y = ac_gelu(h, AC_GELU_TANH);
  y = ac_add(y, ac_gelu(h, AC_GELU_ERF));
  y = ac_multiply(y, ac_silu(h));
  y = ac_add(ac_scale(y, 0.5f), ac_relu(ac_add(h, parameter(g, "shift", 6, 0))));
  y = ac_multiply(y, parameter(g, "gain", 4, 6));
  y = ac_multiply(parameter(g, "gain2", 6, 0), y);
  y = ac_multiply(ac_tanh(y), ac_add(ac_sigmoid(h), ac_leaky_relu(h, 0.2f)));
  check(finish(g, ac_softmax(y)));
}

/* A tensor used several times, also twice by one op, and passed on by sums: contributions must add
 * up, in the order in which their memory allows. */
static void shared_gradients(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g);
  ac_tensor *early = ac_silu(h);
  ac_tensor *a = ac_relu(h), *b = ac_silu(ac_scale(h, 2));
  ac_tensor *other = ac_multiply(a, early);
  ac_tensor *sum = ac_add(a, b);
  ac_tensor *late = ac_gelu(b, AC_GELU_ERF);
  ac_tensor *y = ac_add(ac_add(sum, ac_multiply(late, late)), ac_add(other, other));
  y = ac_add(y, ac_add(h, h));
  check(finish(g, y));
}

static void matmul_transposes(void **state) {
  (void)state;
  for (int flags = 0; flags < 4; flags++) {
    ac_graph *g = new_graph();
    ac_tensor *h = hidden(g);                                  /* [B, 4, 6] */
    ac_tensor *square = ac_matmul(h, ac_silu(h), true, false); /* [B, 6, 6] */
    bool ta = flags & 1, tb = flags & 2;
    ac_tensor *a = ta ? ac_transpose(h, 1, 2) : h;
    ac_tensor *y = ac_matmul(a, square, ta, tb); /* [B, 4, 6] */
    check(finish(g, ac_softmax(y)));
  }
}

static void views_and_transposes(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g);
  ac_tensor *heads = ac_transpose(ac_reshape(h, SHAPE(AC_BATCH, 4, 2, 3)), 1, 2);
  ac_tensor *scores = ac_softmax(ac_matmul(heads, heads, false, true));
  ac_tensor *mixed = ac_transpose(ac_matmul(scores, heads, false, false), 1, 2);
  ac_tensor *rows = ac_reshape(mixed, SHAPE(AC_BATCH_TIMES(4), 6));
  rows = ac_linear(rows, parameter(g, "out", 6, 6), NULL, AC_IN_OUT);
  ac_tensor *y = ac_add(ac_reshape(rows, SHAPE(AC_BATCH, 4, 6)), h);
  /* A parameter seen through a view. */
  ac_tensor *view = ac_reshape(parameter(g, "p", 24, 0), SHAPE(4, 6));
  check(finish(g, ac_multiply(y, view)));
}

/* What movement makes of other ops, and where their gradients end. */
static void movements(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g), *parts[12]; /* [B, 4, 6] */
  ac_tensor *images = ac_reshape(h, SHAPE(AC_BATCH, 4, 2, 3));
  ac_tensor *large = ac_silu(ac_pixel_shuffle(images, 2)); /* [B, 1, 4, 6] */
  ac_tensor *y = ac_add(h, ac_reshape(large, SHAPE(AC_BATCH, 4, 6)));
  y = ac_multiply(y, ac_reshape(ac_pixel_unshuffle(large, 2), SHAPE(AC_BATCH, 4, 6)));
  y = ac_add(y, ac_expand(parameter(g, "row", 6, 0), SHAPE(AC_BATCH, 4, 6)));
  y = ac_add(y,
             ac_permute(ac_expand(ac_sum(h, AC_AXES(1), true), SHAPE(0, 4, 0)), AC_AXES(0, 1, 2)));
  ac_split(ac_flip(y, AC_AXES(1, 2)), 2, 3, NULL, parts); /* [B, 4, 2] */
  for (int i = 3; i < 12; i++) parts[i] = i % 2 ? parts[i % 3] : ac_silu(parts[i % 3]);
  y = ac_concat(g, parts, 12, 1); /* [B, 48, 2] */
  y = ac_add(y, ac_reshape(ac_stack(g, parts, 12, 1), SHAPE(AC_BATCH, 48, 2)));
  y = ac_pad(y, &(ac_pad_desc){.before = {0, 0, 1}, .after = {0, 2}, .mode = AC_PAD_REFLECT});
  y = ac_slice_step(y, 1, 49, 13, -3); /* [B, 13, 3] */
  y = ac_reshape(ac_slice(y, 1, 1, 8), SHAPE(AC_BATCH, 4, 6));
  check(finish(g, ac_add(y, h)));
}

/* By ids that are fed, the same for all samples, or found; each twice, and with a bag of each kind.
 */
static void gathered(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  static const int32_t shared[] = {3, 0, 3, 1, 2};
  ac_tensor *h = hidden(g); /* [B, 4, 6] */
  ac_tensor *five = ac_constant(g, "five", AC_I32, SHAPE(5), shared);
  ac_tensor *wide = ac_index_select(h, five, 1); /* [B, 5, 6] */
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, 8)), *best;
  ac_tensor *rows = ac_silu(ac_gather(wide, ids, 1));                  /* [B, 8, 6] */
  ac_tensor *y = ac_scatter_add(rows, ac_flip(ids, AC_AXES(1)), 1, 5); /* [B, 5, 6] */
  y = ac_slice(ac_add(y, wide), 1, 1, 4);
  ac_tensor *top = ac_top_k(h, 2, &best); /* [B, 4, 2] */
  y = ac_add(y, ac_scatter_add(ac_silu(top), best, 2, 6));
  y = ac_add(y, ac_multiply(ac_one_hot(ac_slice(ids, 1, 2, 4), 6), h));
  ac_tensor *table = parameter(g, "table", 5, 6);
  ac_tensor *bags = ac_reshape(ids, SHAPE(AC_BATCH, 4, 2));
  ac_tensor *lengths = ac_argmax(ac_slice(h, 2, 0, 3), -1, false); /* 0 to 2 */
  for (int mode = AC_BAG_SUM; mode <= AC_BAG_MAX; mode++) {
    const ac_embedding_bag_desc desc = {(ac_bag_mode)mode};
    y = ac_add(y, ac_embedding_bag(table, bags, NULL, NULL, &desc));
    y = ac_add(y, ac_embedding_bag(table, bags, lengths, NULL, &desc));
  }
  ac_tensor *weights = ac_slice(h, 2, 1, 2);
  y = ac_add(y, ac_embedding_bag(table, bags, lengths, weights, NULL));
  check(finish(g, ac_add(y, ac_embedding(table, ac_slice(ids, 1, 0, 4)))));
}

/* The gradient of L(x, stop(x)) is the one of its first x alone: that of a constant in its place.
 */
static void stopped_gradients(void **state) {
  (void)state;
  float gradient[2][24], values72[BATCH * 24];
  for (int i = 0; i < BATCH * 24; i++) values72[i] = 0.1f * (float)(i % 7);
  for (int stop = 0; stop < 2; stop++) {
    ac_graph *g = new_graph();
    static const float values[24] = {0.5f, -1, 2, 0.25f, 1, -2, 0.75f};
    ac_parameter_desc desc = {.init = {AC_INIT_ARRAY, .values = values}};
    ac_tensor *p = ac_parameter(g, "p", SHAPE(4, 6), &desc);
    ac_tensor *silu = ac_silu(p);
    ac_tensor *other = ac_constant(g, "c", AC_F32, SHAPE(4, 6), values);
    ac_tensor *stopped = ac_reshape(ac_stop_gradient(silu), SHAPE(4, 6));
    ac_tensor *y = ac_add(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4, 6)),
                          ac_multiply(silu, stop ? stopped : ac_silu(other)));
    ac_graph_set_loss(
        g, ac_mean_squared_error(y, ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 4, 6)), NULL));
    static const float zeros[BATCH * 24];
    const ac_feed feeds[] = {{"x", values72}, {"t", zeros}};
    trained t = open_trainer(g, "cpu");
    assert_ok(ac_trainer_accumulate(t.trainer, BATCH, feeds, 2));
    assert_ok(ac_trainer_get_gradient(t.trainer, 0, 0, 24, gradient[stop]));
    ac_trainer_free(t.trainer);
    ac_plan_free(t.plan);
    ac_device_close(t.device);
    ac_graph_free(g);
  }
  for (int i = 0; i < 24; i++) /* functions of elements are fused otherwise */
    assert_true(fabsf(gradient[0][i] - gradient[1][i]) <= 1e-6f * fabsf(gradient[0][i]));
  assert_true(fabsf(gradient[0][0]) > 1e-3f);
}

static void norms_and_dropout(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g);
  ac_tensor *y = ac_layer_norm(h, parameter(g, "gamma", 6, 0), parameter(g, "beta", 6, 0), 0);
  y = ac_add(h, ac_dropout(y, 0.3f));
  y = ac_layer_norm(ac_dropout(y, 0.2f), parameter(g, "gamma2", 6, 0), NULL, 1e-3f);
  check(finish(g, y));
}

/* [B, 4, 6] as images of 4 channels with 6 positions. */
static void norms_over_channels(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g);
  ac_tensor *y = ac_group_norm(h, parameter(g, "gamma", 4, 0), parameter(g, "beta", 4, 0), 2, 0);
  y = ac_add(ac_silu(y), ac_instance_norm(h, NULL, parameter(g, "beta2", 4, 0), 1e-3f));
  y = ac_add(ac_gelu(y, AC_GELU_ERF), ac_sample_norm(y, parameter(g, "gamma3", 4, 0), NULL, 0));
  check(finish(g, ac_rms_norm(y, parameter(g, "gamma4", 6, 0), 0)));
}

static void batch_norms(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  const ac_parameter_desc frozen = {.init = {AC_INIT_CONSTANT, .value = 1}, .frozen = true};
  ac_tensor *mean = ac_parameter(g, "running_mean", SHAPE(4), &frozen);
  ac_tensor *variance = ac_parameter(g, "running_variance", SHAPE(4), &frozen);
  ac_tensor *h = hidden(g);
  ac_tensor *y = ac_batch_norm(h, parameter(g, "gamma", 4, 0), parameter(g, "beta", 4, 0), mean,
                               variance, NULL);
  y = ac_batch_norm(ac_add(ac_silu(y), h), NULL, NULL, mean, variance,
                    &(ac_batch_norm_desc){.epsilon = 1e-3f});
  check(finish(g, y));
}

/* Of a parameter that something else also uses, of a view of one, and of a weight that is computed:
 * none of the results has a batch. */
static void standardised_weights(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g), *w = parameter(g, "v", 6, 6);
  ac_tensor *y = ac_linear(h, ac_weight_standardisation(w, 0), NULL, AC_OUT_IN);
  y = ac_silu(ac_linear(y, w, NULL, AC_OUT_IN));
  ac_tensor *view = ac_reshape(parameter(g, "p", 36, 0), SHAPE(6, 6));
  y = ac_linear(y, ac_weight_standardisation(view, 1e-2f), NULL, AC_OUT_IN);
  ac_tensor *computed = ac_gelu(ac_scale(w, 2), AC_GELU_ERF);
  y = ac_add(y, ac_linear(h, ac_weight_standardisation(computed, 0), NULL, AC_IN_OUT));
  check(finish(g, ac_softmax(y)));
}

/* Ops that add to a parameter's gradient directly, through a view of it. */
static void reshaped_parameters(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, 4));
  ac_tensor *table = ac_reshape(parameter(g, "table", 30, 0), SHAPE(5, 6));
  ac_tensor *square = ac_reshape(parameter(g, "square", 36, 0), SHAPE(6, 6));
  ac_tensor *y = ac_linear(ac_add(ac_embedding(table, ids), hidden(g)), square, NULL, AC_IN_OUT);
  check(finish(g, y));
}

/* Gradients of parameters that ops cannot add to directly, and a frozen one. */
static void bare_parameters(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *p = parameter(g, "p", 4, 6);
  ac_parameter_desc frozen = {.init = {AC_INIT_CONSTANT, .value = 1}, .frozen = true};
  ac_tensor *q = ac_parameter(g, "q", SHAPE(4, 6), &frozen);
  ac_tensor *bent = ac_add(ac_gelu(p, AC_GELU_ERF), ac_multiply(p, q));
  ac_tensor *y = ac_add(hidden(g), ac_add(bent, ac_softmax(p)));
  parameter(g, "unused", 3, 3);
  check(finish(g, y));
}

static void classification(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = ac_silu(hidden(g));
  ac_tensor *labels = ac_input(g, "labels", AC_I32, SHAPE(AC_BATCH, 4));
  ac_tensor *weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH, 4));
  ac_graph_set_loss(g, ac_cross_entropy(h, labels, weights,
                                        &(ac_cross_entropy_desc){
                                            .ignore = true, .ignore_index = 2, .smoothing = 0.1f}));
  check(g);
}

static void binary_classification(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH)); /* the graph's tensor 0 */
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 4, 6));
  ac_graph_set_loss(g, ac_binary_cross_entropy(ac_silu(hidden(g)), t, weights));
  check(g);
}

/* Losses know no gradient of targets and weights, and say so. */
static void refuse(ac_graph *g, ac_tensor *loss) {
  ac_device *device;
  ac_plan *plan = NULL;
  ac_graph_set_loss(g, loss);
  assert_ok(ac_graph_status(g));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  ac_plan_desc desc = {.batch = BATCH, .micro_batch = BATCH};
  assert_int_equal(ac_plan_create(&plan, g, device, &desc), AC_ERROR_UNSUPPORTED);
  assert_non_null(strstr(ac_last_error(), "must not depend on trainable parameters"));
  ac_device_close(device);
  ac_graph_free(g);
}

static void refused_targets(void **state) {
  (void)state;
  for (int kind = 0; kind < 7; kind++) {
    ac_graph *g = new_graph();
    ac_tensor *h = hidden(g);
    ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 4, 6));
    ac_tensor *labels = ac_input(g, "labels", AC_I32, SHAPE(AC_BATCH, 4));
    ac_tensor *pooled = ac_linear(h, parameter(g, "to_one", 1, 6), NULL, AC_OUT_IN);
    ac_tensor *rows = ac_reshape(pooled, SHAPE(AC_BATCH, 4));
    ac_tensor *sample =
        ac_reshape(ac_linear(rows, parameter(g, "v", 1, 4), NULL, AC_OUT_IN), SHAPE(AC_BATCH));
    ac_tensor *table = parameter(g, "table", 5, 6);
    refuse(g, kind == 0   ? ac_mean_squared_error(t, h, NULL)
              : kind == 1 ? ac_mean_squared_error(h, t, sample)
              : kind == 2 ? ac_binary_cross_entropy(t, h, NULL)
              : kind == 3 ? ac_binary_cross_entropy(h, t, sample)
              : kind == 4 ? ac_cross_entropy(h, labels, rows, NULL)
              : kind == 5 ? ac_loss(h, rows)
                          : ac_linear_cross_entropy(h, table, AC_OUT_IN, labels, rows, NULL));
  }
}

/* Ids -> table -> hidden -> loss over the table's own entries, with separate ops or with one. */
static ac_graph *tied_head(bool fused) {
  ac_graph *g = new_graph();
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, 4));
  ac_tensor *table = parameter(g, "table", 5, 6);
  ac_tensor *h = ac_linear(ac_embedding(table, ids), parameter(g, "w", 6, 6), NULL, AC_OUT_IN);
  h = ac_add(ac_silu(h), h);
  ac_tensor *labels = ac_input(g, "labels", AC_I32, SHAPE(AC_BATCH, 4));
  ac_tensor *weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH, 4));
  const ac_cross_entropy_desc desc = {.ignore = true, .ignore_index = 2, .smoothing = 0.1f};
  ac_tensor *loss =
      fused ? ac_linear_cross_entropy(h, table, AC_OUT_IN, labels, weights, &desc)
            : ac_cross_entropy(ac_linear(h, table, NULL, AC_OUT_IN), labels, weights, &desc);
  ac_graph_set_loss(g, loss);
  return g;
}

static void fused_head(void **state) {
  (void)state;
  check(tied_head(true));
}

/* A head with a weight that is computed, one with an input that feeds something else, and one
 * without any op before it. */
static void other_heads(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g);
  ac_tensor *weight = ac_silu(ac_scale(parameter(g, "v", 6, 5), 2));
  ac_tensor *labels = ac_input(g, "labels", AC_I32, SHAPE(AC_BATCH, 4));
  ac_graph_set_loss(g, ac_linear_cross_entropy(h, weight, AC_IN_OUT, labels, NULL, NULL));
  check(g);
  g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4, 5));
  labels = ac_input(g, "labels", AC_I32, SHAPE(AC_BATCH, 4));
  weight = parameter(g, "v", 5, 5);
  ac_graph_set_loss(g, ac_linear_cross_entropy(x, weight, AC_OUT_IN, labels, NULL, NULL));
  check(g);
}

static void collect(const char *device, bool fused, float gradient[2][36], ac_update *update) {
  ac_graph *graph = tied_head(fused);
  trained t = open_trainer(graph, device);
  evaluation e = begin(t.plan);
  set_parameters(&t, &e);
  accumulate(&t, &e);
  accumulate(&t, &e);
  assert_ok(ac_trainer_get_gradient(t.trainer, 0, 0, 30, gradient[0]));
  assert_ok(ac_trainer_get_gradient(t.trainer, 1, 0, 36, gradient[1]));
  assert_ok(ac_trainer_update(t.trainer, update));
  end(&e);
  ac_trainer_free(t.trainer);
  ac_plan_free(t.plan);
  ac_device_close(t.device);
  ac_graph_free(graph);
}

/* Sums of about ten terms: a few units in the last place of values near one. */
static void fused_equals_separate(void **state) {
  (void)state;
  ac_device_info list[8];
  int count;
  assert_ok(ac_device_list(list, 8, &count));
  for (int i = 0; i < count && i < 8; i++) {
    float one[2][36], two[2][36];
    ac_update a, b;
    collect(list[i].id, true, one, &a);
    collect(list[i].id, false, two, &b);
    assert_true(fabs(a.loss - b.loss) <= 1e-6 * fabs(b.loss));
    assert_true(a.weight == b.weight);
    for (int k = 0; k < 66; k++) {
      float x = k < 30 ? one[0][k] : one[1][k - 30], y = k < 30 ? two[0][k] : two[1][k - 30];
      if (!(fabsf(x - y) <= 1e-5f))
        fail_msg("%s: gradient %d is %.9g, not %.9g", list[i].id, k, (double)x, (double)y);
    }
  }
}

static ac_tensor *kernel(ac_graph *g, const char *name, int64_t out, int64_t in, int64_t size) {
  return ac_parameter(g, name, SHAPE(out, in, size, size), ZEROS);
}

/* Two ways from one image that meet again: strided and dilated convolutions, depthwise and grouped
 * ones, pooling, upsampling, a part of one way joined to the other. */
static void images(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 2, 8, 8));
  const ac_conv2d_desc same = {.padding = {1, 1}};
  const ac_conv2d_desc depthwise = {.padding = {2, 2}, .dilation = {2, 2}, .groups = 4};
  const ac_conv2d_desc half = {.stride = {2, 2}, .padding = {1, 1}, .groups = 2};
  const ac_pool2d_desc pairs = {.kernel = {2, 2}};
  const ac_pool2d_desc threes = {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  ac_tensor *h = ac_conv2d(x, kernel(g, "first", 4, 2, 3), parameter(g, "first_bias", 4, 0), &same);
  ac_tensor *a = ac_silu(ac_conv2d(h, kernel(g, "depthwise", 4, 1, 3), NULL, &depthwise));
  ac_tensor *b = ac_conv2d(h, kernel(g, "half", 6, 2, 3), NULL, &half);
  b = ac_upsample_nearest2d(ac_average_pool2d(b, &threes), 2);
  ac_tensor *parts[] = {ac_slice(a, 1, 1, 2), b, h};
  ac_tensor *y = ac_max_pool2d(ac_concat(g, parts, 3, 1), &pairs);
  y = ac_conv2d(y, kernel(g, "last", 24, 12, 1), parameter(g, "last_bias", 24, 0), NULL);
  check(finish(g, ac_reshape(ac_global_average_pool(y), SHAPE(AC_BATCH, 4, 6))));
}

/* Biases that are computed and used twice: gradients of further outputs of an op are passed on and
 * added up. */
static void computed_biases(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *h = hidden(g), *bias = ac_silu(parameter(g, "p", 6, 0));
  ac_tensor *y = ac_silu(ac_linear(h, parameter(g, "w1", 6, 6), bias, AC_OUT_IN));
  y = ac_linear(y, parameter(g, "w2", 6, 6), bias, AC_OUT_IN);
  check(finish(g, ac_layer_norm(y, parameter(g, "gamma", 6, 0), bias, 0)));
}

/* As many parts as an op takes, one of them twice, and the first the graph's first tensor. */
static void eight_parts(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *z = ac_input(g, "z", AC_F32, SHAPE(AC_BATCH, 4, 1));
  ac_tensor *h = hidden(g), *parts[8];
  for (int i = 0; i < 7; i++) parts[i] = ac_slice(h, 2, i % 6, 1);
  parts[7] = ac_linear(h, parameter(g, "wide", 5, 6), NULL, AC_OUT_IN);
  parts[0] = z;
  parts[3] = parts[2];
  ac_tensor *y = ac_concat(g, parts, 8, 2); /* [B, 4, 12] */
  check(finish(g, ac_linear(y, parameter(g, "narrow", 6, 12), NULL, AC_OUT_IN)));
}

static void a_whole_transformer(void **state) {
  (void)state;
  test_gpt m = {2, 12, 7, 5, 3, 0.2f, true, true};
  check(test_gpt_graph(&m));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise_ops),
      cmocka_unit_test(shared_gradients),
      cmocka_unit_test(matmul_transposes),
      cmocka_unit_test(views_and_transposes),
      cmocka_unit_test(movements),
      cmocka_unit_test(gathered),
      cmocka_unit_test(stopped_gradients),
      cmocka_unit_test(norms_and_dropout),
      cmocka_unit_test(norms_over_channels),
      cmocka_unit_test(batch_norms),
      cmocka_unit_test(standardised_weights),
      cmocka_unit_test(reshaped_parameters),
      cmocka_unit_test(bare_parameters),
      cmocka_unit_test(classification),
      cmocka_unit_test(binary_classification),
      cmocka_unit_test(refused_targets),
      cmocka_unit_test(fused_head),
      cmocka_unit_test(other_heads),
      cmocka_unit_test(fused_equals_separate),
      cmocka_unit_test(images),
      cmocka_unit_test(computed_biases),
      cmocka_unit_test(eight_parts),
      cmocka_unit_test(a_whole_transformer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
