/* Forward and backward of a graph in double. Forward runs the references of tests/ops node by node;
 * backward is a tape of its own over the same nodes: the gradient references serve as
 * vector-Jacobian products, fed as the families' tables say, and everything that reaches a tensor
 * is added up by its storage. Nothing of the library's differentiation is used. */
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct tape {
  const random_graph *g;
  const random_run *run;
  float *const *parameters;
  random_reference *result;
  ac_run_state state;
  double **data;     /* by storage; integers are the leaves' own */
  double **leaf_s;   /* by storage of leaves, and of results in f32: as operands of kind s see it */
  double **gradient; /* by storage; NULL: nothing has reached it */
  uint64_t counter;  /* of noise */
  double **pooled;   /* by node of batch norm: [C][3] of the window */
} tape;

static int64_t elements(const tape *t, int tensor) {
  return ac_operand_of(ac_tensor_at(t->g->graph, tensor), t->state.batch).count;
}

static double *reals(int64_t count) {
  return calloc((size_t)(count ? count : 1), sizeof(double));
}

/* ---- noise ----------------------------------------------------------------------------------- */

/* Of what is stored as floats; and of what a kernel for floats rounds on its way: it is as good as
 * an exact one of inputs that are off a little, each by itself. */
static const double float_unit = 0x1p-23;

static double unit_of(const tape *t, char kind) {
  return kind == 's' && t->run->unit > float_unit ? t->run->unit : float_unit;
}

/* A value off by up to one rounding: equal ones by the same, as rounding is. Zero is zero in any
 * precision. */
static double off(const tape *t, double value, char kind, double smallest) {
  uint64_t bits;
  if (!t->run->noise || value == 0) return value;
  memcpy(&bits, &value, sizeof bits);
  double u = op_draw_sign(op_draw_hash(t->run->noise, bits));
  return value + u * (fabs(value) * unit_of(t, kind) + (kind == 's' ? smallest : 0));
}

static void store(tape *t, double *values, int64_t count, char kind, bool gradient) {
  double smallest = gradient ? t->run->smallest_gradient : t->run->smallest;
  for (int64_t e = 0; e < count; e++) {
    if (fabs(values[e]) > t->result->largest) t->result->largest = fabs(values[e]);
    values[e] = off(t, values[e], kind, smallest);
  }
}

/* `exact`: nothing is rounded; nor is it by ops that move values. */
static void compute(tape *t, const ac_op_args *args, bool exact) {
  ac_op_args own = *args;
  bool noisy = t->run->noise && !exact && !ac_op_describe(args->op)->copies_values;
  for (int i = 0; noisy && i < AC_MAX_INPUTS; i++) {
    if (!own.in[i].count || own.in[i].dtype == AC_I32) continue;
    double *x = own.in[i].data = reals(own.in[i].count);
    for (int64_t e = 0; e < own.in[i].count; e++) {
      double u = op_draw_sign(op_draw_hash(t->run->noise + 1, t->counter++));
      x[e] = op_reals(&args->in[i])[e] * (1 + u * float_unit);
    }
  }
  op_reference_of(args->op)->compute(&own);
  for (int i = 0; noisy && i < AC_MAX_INPUTS; i++)
    if (own.in[i].data != args->in[i].data) free(own.in[i].data);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Values of a leaf for the micro-batch that begins at `sample`. */
static void set_leaf(tape *t, int leaf, int64_t sample) {
  const ac_tensor *tensor = t->g->draw.leaves[leaf].tensor;
  const random_values *v = &t->g->values[leaf];
  if (!v->reals) return;
  const bool given = tensor->role != AC_ROLE_PARAMETER;
  int64_t count = elements(t, tensor->id), first = tensor->shape.batched ? sample * v->count : 0;
  const float *from = v->reals;
  if (!given && t->parameters) from = t->parameters[tensor->parameter];
  const double *along = given || !t->run->direction ? NULL : t->run->direction[tensor->parameter];
  t->data[tensor->id] = reals(count);
  t->leaf_s[tensor->id] = reals(count);
  for (int64_t e = 0; e < count; e++) {
    double value = (double)from[first + e];
    if (along) value += t->run->step * along[e];
    t->data[tensor->id][e] = off(t, value, 'f', 0);
    t->leaf_s[tensor->id][e] = off(t, value, 's', t->run->smallest);
  }
}

static void *operand_data(const tape *t, int tensor, char kind, int64_t sample) {
  const ac_tensor *x = ac_tensor_at(t->g->graph, tensor);
  int leaf = t->g->leaf[x->storage];
  if (leaf < 0)
    return kind == 's' && t->leaf_s[x->storage] ? t->leaf_s[x->storage] : t->data[x->storage];
  const random_values *v = &t->g->values[leaf];
  const bool batched = t->g->draw.leaves[leaf].tensor->shape.batched;
  if (v->integers) return v->integers + (batched ? sample * v->count : 0);
  return kind == 's' ? t->leaf_s[x->storage] : t->data[x->storage];
}

static void forward_arguments(tape *t, const ac_node *node, int64_t sample, ac_op_args *args) {
  const ac_graph *graph = t->g->graph;
  *args = (ac_op_args){.op = node->op, .attributes = node->attributes, .run = &t->state};
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    if (node->in[i] < 0) continue;
    args->in[i] = ac_operand_of(ac_tensor_at(graph, node->in[i]), t->state.batch);
    args->in[i].data =
        operand_data(t, node->in[i], ac_op_input_kind_of(node->op, node->attributes, i), sample);
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (node->out[j] < 0) continue;
    args->out[j] = ac_operand_of(ac_tensor_at(graph, node->out[j]), t->state.batch);
    args->out[j].data = t->data[ac_tensor_at(graph, node->out[j])->storage];
  }
}

/* What an op leaves is rounded as it is stored, and once more where it is f32 and cast. */
static void store_output(tape *t, const ac_node *node, int j, const ac_operand *y) {
  const int tensor = node->out[j];
  const char kind = ac_op_output_kind_of(node->op, node->attributes, j);
  store(t, op_reals(y), y->count, kind, false);
  if (kind != 'f') return;
  t->leaf_s[tensor] = reals(y->count);
  for (int64_t e = 0; e < y->count; e++)
    t->leaf_s[tensor][e] = off(t, op_reals(y)[e], 's', t->run->smallest);
}

/* Pools statistics over the window: counts, means and sums of squares join as two samples do. */
static void pool(tape *t, int index, const ac_op_args *args) {
  int64_t C = args->in[0].dim[1];
  double n = (double)(args->in[0].count / C);
  if (!t->pooled[index]) t->pooled[index] = reals(3 * C);
  for (int64_t c = 0; c < C; c++) {
    double *p = t->pooled[index] + 3 * c, all = p[0] + n;
    double d = op_reals(&args->out[1])[2 * c] - p[1];
    p[2] += n * op_reals(&args->out[2])[c] + d * d * p[0] * n / all;
    p[1] += d * n / all;
    p[0] = all;
  }
}

/* Results are in double, and integers that ops read are not. */
static void to_integers(const ac_operand *x) {
  int32_t *integers = x->data;
  for (int64_t e = 0; e < x->count; e++) integers[e] = (int32_t)op_reals(x)[e];
}

static void forward(tape *t, int64_t sample) {
  const ac_graph *graph = t->g->graph;
  for (int i = 0; i < t->g->draw.leaf_count; i++) set_leaf(t, i, sample);
  for (int n = 0; n < graph->node_count; n++) {
    const ac_node *node = ac_node_at(graph, n);
    if (ac_tensor_at(graph, node->out[0])->fed >= 0) continue; /* the leaf's values are converted */
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (node->out[j] >= 0) t->data[node->out[j]] = reals(elements(t, node->out[j]));
    ac_op_args args;
    forward_arguments(t, node, sample, &args);
    compute(t, &args, false);
    const op_generator *generator = random_generator_of(node->op);
    if (t->run->noise && generator->round)
      generator->round(&args, float_unit, op_draw_hash(t->run->noise + 2, t->counter++));
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (args.out[j].dtype == AC_I32) to_integers(&args.out[j]);
      else if (args.out[j].count) store_output(t, node, j, &args.out[j]);
    if (generator->ties) generator->ties(&t->result->ties, &args);
    if (node->op == AC_OP_batch_norm && args.out[2].count && t->state.training) pool(t, n, &args);
  }
  const double *sums = t->data[graph->losses[0].tensor];
  t->result->loss += sums[0] + sums[1];
  t->result->weight += sums[2] + sums[3];
  t->result->correct += sums[4] + sums[5];
  if (!graph->metric_count) return;
  const double *hits = t->data[graph->metrics[0].tensor];
  t->result->hits += hits[0] + hits[1];
  t->result->hits_of += hits[2] + hits[3];
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Adds what reached one view of a tensor to its storage; operands that were repeated to the shape
 * of `values`, as NumPy does, get the sum. */
static void add_gradient(tape *t, int tensor, const ac_operand *values) {
  const ac_operand x = ac_operand_of(ac_tensor_at(t->g->graph, tensor), t->state.batch);
  int storage = ac_tensor_at(t->g->graph, tensor)->storage;
  int64_t n = elements(t, storage);
  bool again = t->gradient[storage];
  if (!again) t->gradient[storage] = reals(n);
  double *to = t->gradient[storage];
  for (int64_t e = 0; e < values->count; e++)
    to[x.count == values->count ? e : op_repeated_element(&x, values, e)] += op_reals(values)[e];
  bool leaf = t->g->leaf[storage] >= 0;
  if (again) store(t, to, n, leaf ? 'f' : 's', true);
}

static void pull_back(tape *t, const ac_node *node, const ac_op_args *forward,
                      const op_gradient *gradient, const ac_operand dy[AC_MAX_OUTPUTS]) {
  ac_op_args args = {.op = gradient->op, .run = &t->state};
  args.attributes = gradient->attributes ? (const void *)gradient->attributes : forward->attributes;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const op_source *source = &gradient->in[i];
    if (source->from == OP_NONE) continue;
    args.in[i] = source->from == OP_FROM_INPUT    ? forward->in[source->index]
                 : source->from == OP_FROM_OUTPUT ? forward->out[source->index]
                                                  : dy[source->index];
  }
  for (int j = 0; j < gradient->outputs; j++) {
    int of = gradient->of[j];
    args.out[j] = of == OP_AGAIN ? forward->out[0] : forward->in[of];
    if (gradient->like_dy) args.out[j] = args.in[0];
    if (args.out[j].count) args.out[j].data = reals(args.out[j].count);
  }
  compute(t, &args, gradient->exact);
  for (int j = 0; j < gradient->outputs; j++) {
    if (!args.out[j].count) continue;
    double *values = op_reals(&args.out[j]);
    if (gradient->of[j] != OP_AGAIN) {
      store(t, values, args.out[j].count, ac_op_output_kind_of(gradient->op, args.attributes, j),
            true);
      add_gradient(t, node->in[gradient->of[j]], &args.out[j]);
    }
    free(values);
  }
}

/* What has reached each output; absent: nothing. False: nothing has reached the node. */
static bool find_gradients(const tape *t, const ac_node *node, ac_operand dy[AC_MAX_OUTPUTS]) {
  const ac_graph *graph = t->g->graph;
  bool any = node->out[0] == graph->losses[0].tensor;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    dy[j] = (ac_operand){0};
    if (node->out[j] < 0) continue;
    double *reached = t->gradient[ac_tensor_at(graph, node->out[j])->storage];
    if (!reached && !(j == 0 && any)) continue;
    dy[j] = ac_operand_of(ac_tensor_at(graph, node->out[j]), t->state.batch);
    dy[j].data = reached;
    any = true;
  }
  return any;
}

static void backward(tape *t, int64_t sample) {
  const ac_graph *graph = t->g->graph;
  for (int n = graph->node_count - 1; n >= 0; n--) {
    const ac_node *node = ac_node_at(graph, n);
    ac_op_args args;
    ac_operand dy[AC_MAX_OUTPUTS];
    if (!find_gradients(t, node, dy)) continue;
    forward_arguments(t, node, sample, &args);
    op_gradient list[AC_MAX_INPUTS];
    op_attributes attributes[AC_MAX_INPUTS];
    const op_generator *generator = random_generator_of(node->op);
    const op_gradient *gradients = generator->choose ? list : generator->gradients;
    int count =
        generator->choose ? generator->choose(&args, list, attributes) : generator->gradient_count;
    for (int k = 0; k < count; k++) pull_back(t, node, &args, &gradients[k], dy);
  }
}

/* ---- windows --------------------------------------------------------------------------------- */

static void take_gradients(tape *t) {
  const ac_graph *graph = t->g->graph;
  for (int p = 0; p < graph->parameter_count; p++) {
    const double *from = t->gradient[graph->parameters[p]];
    if (!from) continue;
    if (!t->result->gradient[p]) t->result->gradient[p] = reals(t->result->count[p]);
    for (int64_t e = 0; e < t->result->count[p]; e++) t->result->gradient[p][e] += from[e];
  }
}

static void forget(tape *t) {
  for (int i = 0; i < t->g->graph->tensor_count; i++) {
    free(t->data[i]), free(t->leaf_s[i]), free(t->gradient[i]);
    t->data[i] = t->leaf_s[i] = t->gradient[i] = NULL;
  }
}

/* Whether the loss depends on the node. */
static bool *alive_nodes(const ac_graph *graph) {
  bool *needed = calloc((size_t)graph->tensor_count + 1, sizeof *needed);
  bool *alive = calloc((size_t)graph->node_count + 1, sizeof *alive);
  needed[graph->losses[0].tensor] = true;
  for (int n = graph->node_count - 1; n >= 0; n--) {
    const ac_node *node = ac_node_at(graph, n);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (node->out[j] >= 0 && needed[node->out[j]]) alive[n] = true;
    for (int i = 0; alive[n] && i < AC_MAX_INPUTS; i++)
      if (node->in[i] >= 0) needed[ac_tensor_at(graph, node->in[i])->storage] = true;
  }
  free(needed);
  return alive;
}

static void move_running(tape *t, const ac_node *node, const double *pooled) {
  const ac_graph *graph = t->g->graph;
  double momentum =
      (double)((const ac_batch_norm_attributes *)(const void *)node->attributes)->momentum;
  for (int k = 0; k < 2; k++) {
    int p = ac_tensor_at(graph, node->in[3 + k])->parameter;
    int64_t C = t->result->count[p];
    const float *from =
        t->parameters ? t->parameters[p] : t->g->values[t->g->parameter_leaf[p]].reals;
    double *to = t->result->running[p] = reals(C);
    for (int64_t c = 0; c < C; c++) {
      const double *window = pooled + 3 * c;
      double target = k == 0 ? window[1] : window[2] / fmax(1, window[0] - 1);
      to[c] = (double)from[c] + momentum * (target - (double)from[c]);
    }
  }
}

static void move_all_running(tape *t) {
  const ac_graph *graph = t->g->graph;
  bool *alive = alive_nodes(graph);
  for (int n = 0; n < graph->node_count; n++) {
    if (t->pooled[n] && alive[n]) move_running(t, ac_node_at(graph, n), t->pooled[n]);
    free(t->pooled[n]);
  }
  free(alive);
}

static void begin(random_reference *r, const random_graph *g) {
  *r = (random_reference){.parameters = g->graph->parameter_count};
  size_t count = (size_t)r->parameters + 1;
  r->count = calloc(count, sizeof *r->count);
  r->gradient = calloc(count, sizeof *r->gradient);
  r->running = calloc(count, sizeof *r->running);
  for (int p = 0; p < r->parameters; p++)
    r->count[p] = ac_shape_count(&ac_tensor_at(g->graph, g->graph->parameters[p])->shape);
}

void random_evaluate(random_reference *r, const random_graph *g, const random_run *run,
                     float *const *parameters) {
  size_t tensors = (size_t)g->graph->tensor_count + 1, nodes = (size_t)g->graph->node_count + 1;
  tape t = {.g = g, .run = run, .parameters = parameters, .result = r};
  begin(r, g);
  r->ties.unit = fmax(run->unit, 0x1p-22);
  t.data = calloc(tensors, sizeof *t.data);
  t.leaf_s = calloc(tensors, sizeof *t.leaf_s);
  t.gradient = calloc(tensors, sizeof *t.gradient);
  t.pooled = calloc(nodes, sizeof *t.pooled);
  t.state = (ac_run_state){
      .training = run->training, .seed = RANDOM_SEED, .update = run->update, .loss_scale = 1};
  for (int64_t first = 0; first < run->count; first += run->micro_batch) {
    int64_t rest = run->count - first;
    t.state.batch = rest < run->micro_batch ? rest : run->micro_batch;
    t.state.sample = (uint32_t)first;
    forward(&t, run->first + first);
    if (run->training) backward(&t, run->first + first);
    if (run->training) take_gradients(&t);
    forget(&t);
  }
  move_all_running(&t);
  for (int p = 0; p < r->parameters; p++) {
    const ac_tensor *tensor = ac_tensor_at(g->graph, g->graph->parameters[p]);
    for (int64_t e = 0; r->gradient[p] && !tensor->desc.frozen && e < r->count[p]; e++)
      r->norm += r->gradient[p][e] * r->gradient[p][e];
  }
  r->norm = sqrt(r->norm);
  free(t.data), free(t.leaf_s), free(t.gradient), free(t.pooled);
}

void random_reference_free(random_reference *r) {
  for (int p = 0; p < r->parameters; p++) free(r->gradient[p]), free(r->running[p]);
  free(r->count), free(r->gradient), free(r->running);
  op_ties_free(&r->ties);
  memset(r, 0, sizeof *r);
}
