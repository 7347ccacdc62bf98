/* Connectionist temporal classification. For a sample with logits x[t], y[t] = log softmax(x[t])
 * and a target of S classes, the states s in [0, L), L = 2 S + 1, are the target's classes with a
 * blank before, between and after them: c[s]. In logarithms, with (+) for log(e^a + e^b):
 *
 *   a[t, s] = (a[t-1, s] (+) a[t-1, s-1] (+) a[t-1, s-2] where paths may skip) + y[t, c[s]]
 *             that is where c[s] is neither the blank nor c[s-2]
 *   b[t, s] = the same backwards, from s, s+1, s+2 at t+1 with their y[t+1], without y[t]
 *   loss    = -w (a[T-1, L-1] (+) a[T-1, L-2])
 *   g[t, s] = e^(a[t, s] + b[t, s]), divided by its sum over s: the posterior of state s
 *   dx[t, v] = scale w (softmax(x[t])[v] - sum of g[t, s] where c[s] = v)
 *
 * where scale is the loss scale. Kernels keep a[t] and b[t] less their largest elements, so that
 * they lose nothing however long a sample is. Each row's maximum and log of its sum are kept as in
 * cross_entropy. */
#include "ops/loss/ctc_loss.h"

#include "ops/loss/loss.h"

static bool is_integers(const ac_tensor *x, const ac_shape *shape) {
  return !x || (x->dtype == AC_I32 && ac_shape_equal(&x->shape, shape));
}

ac_tensor *ac_ctc_loss(ac_tensor *logits, ac_tensor *targets, ac_tensor *input_lengths,
                       ac_tensor *target_lengths, ac_tensor *weights,
                       const ac_ctc_loss_desc *desc) {
  static const ac_builder builder = {"ctc_loss",
                                     5,
                                     {"logits f32 [B, T, V]", "targets i32 [B, S]",
                                      "input_lengths? i32 [B]", "target_lengths? i32 [B]",
                                      "weights? f32 [B]"}};
  ac_tensor *operands[] = {logits, targets, input_lengths, target_lengths, weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const ac_shape *x = &logits->shape;
  ac_shape samples = *x;
  samples.rank = 1;
  if (logits->dtype != AC_F32 || x->rank != 3 || !x->batched || targets->dtype != AC_I32 ||
      targets->shape.rank != 2 || !targets->shape.batched || targets->shape.dim[0] != x->dim[0] ||
      !is_integers(input_lengths, &samples) || !is_integers(target_lengths, &samples) ||
      !ac_loss_weights_match(weights, &samples))
    return ac_builder_fail(graph, &builder, operands, NULL);
  const ac_ctc_loss_desc described = AC_DESCRIBED(ac_ctc_loss_desc, desc);
  if (described.blank < 0 || described.blank >= x->dim[2])
    return ac_builder_fail(graph, &builder, operands, "blank is %d, but there are %lld classes",
                           described.blank, (long long)x->dim[2]);
  if (x->dim[1] >= INT32_MAX || targets->shape.dim[1] >= INT32_MAX / 2)
    return ac_builder_fail(graph, &builder, operands, "positions are counted in 32 bits");
  const ac_ctc_loss_attributes attributes = {described.blank, described.zero_infinity};
  ac_tensor *sums =
      ac_loss_emit(graph, AC_OP_ctc_loss, &attributes, sizeof attributes, 5, operands);
  ac_shape extents = *x;
  extents.dim[2] = 2;
  if (!sums || !ac_graph_add_output(graph, sums->producer, AC_ROLE_ACTIVATION, AC_F32, &extents))
    return NULL;
  return sums;
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(ac_loss_refuse_gradient(d, node, 1, "there is no other way"));
  ac_graph *graph = d->graph;
  ac_tensor *operands[6];
  for (int i = 0; i < 5; i++) operands[i] = ac_tensor_at(graph, node->in[i]);
  operands[5] = ac_tensor_at(graph, node->out[1]);
  return ac_gradient_emit(d, AC_OP_ctc_loss_gradient, node->attributes,
                          sizeof(ac_ctc_loss_attributes), 6, operands, 1, &node->in[0]);
}

static int64_t id_limit(const ac_op_args *args) {
  return args->in[0].dim[2];
}

static int64_t limit(const ac_op_args *args, int input) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  return input == 2 ? shape.positions + 1 : input == 3 ? shape.targets + 1 : 0;
}

static ac_loss_rows loss_rows(const ac_op_args *args) {
  return (ac_loss_rows){.weights = args->in[4].count ? 4 : -1, .per_sample = args->in[0].dim[0]};
}

/* A state of a position costs three exponentials and a logarithm. */
static double states_flops(const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  return 40.0 * (double)(shape.samples * shape.positions * ac_ctc_loss_states(args));
}

static double flops(const ac_op_args *args) {
  return states_flops(args) + 11.0 * (double)args->in[0].count;
}

static double gradient_flops(const ac_op_args *args) {
  return 2 * states_flops(args) + 11.0 * (double)args->in[0].count;
}

static const ac_ctc_loss_attributes sampled = {0, false};

const ac_op_desc ac_op_desc_ctc_loss = {
    .can_add = 1,
    .sums = 1,
    .gradient = gradient,
    .flops = flops,
    .ids = 1,
    .id_limit = id_limit,
    .limit = limit,
    .loss_rows = loss_rows,
    .sample = {{"BTD", "#Bs"}, {"8", "BT2"}, &sampled},
};
const ac_op_desc ac_op_desc_ctc_loss_gradient = {
    .backward = true,
    .flops = gradient_flops,
    .ids = 1,
    .id_limit = id_limit,
    .limit = limit,
    .sample = {{"BTD", "#Bs", NULL, NULL, NULL, "BT2"}, {"BTD"}, &sampled},
};
