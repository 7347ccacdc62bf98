/* clang-format off */
/* A recurrent layer in one direction, over positions t that follow each other, with s[g] = W[g] h[t-1] + b[g] and
 * x[g], which a linear layer has made of the input, for each gate g (PyTorch's formulas and order):
 *
 *   LSTM  i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of x + s;  c[t] = f c[t-1] + i g;  h[t] = o tanh(c[t])
 *   GRU   r, z = sigmoid(x + s), n = tanh(x[n] + r s[n]);         h[t] = (1 - z) n + z h[t-1]
 *   plain h[t] = tanh or relu of x + s
 *
 * y[t] is h[t]. Reversed, t-1 is the position after t. From a sample's length on y is 0 and the state stays. Activated
 * gates are kept, and of an LSTM c, of a GRU s[n]. Backward, with dh = dy[t] + the gradient from t+1:
 *
 *   LSTM  dc += dh o (1 - tanh(c)^2);  di = dc g i (1-i), df = dc c[t-1] f (1-f), dg = dc i (1-g^2),
 *         do = dh tanh(c) o (1-o);  to t-1: dc f
 *   GRU   dn = dh (1-z) (1-n^2), dr = dn s[n] r (1-r), dz = dh (h[t-1] - n) z (1-z);  to t-1: dh z
 *   plain dx = dh (1-y^2), or dh where y > 0
 *   to t-1: dh = sum over gates of ds W, where ds is dx but for a GRU's ds[n] = r dn
 *   dW[g] = sum over samples and t of ds[g] h[t-1],  db[g] = sum of ds[g]
 *
 * h[t-1] is as y is stored. */
/* clang-format on */
#include "ops/recurrent/recurrent.h"

#include "graph/differentiate.h"
#include "ops/recurrent/build.h"
#include "ops/words.h"

static ac_shape of_samples(const ac_tensor *gates, int64_t rows, int64_t columns) {
  return (ac_shape){3, true, {gates->shape.dim[0], rows, columns}};
}

ac_tensor *ac_recurrent_emit(ac_graph *graph, const ac_recurrent_attributes *attributes,
                             ac_tensor *gates, ac_tensor *w, ac_tensor *b, ac_tensor *state,
                             ac_tensor *lengths, ac_tensor **final) {
  const ac_recurrent_cell cell = (ac_recurrent_cell)attributes->cell;
  ac_tensor *operands[] = {gates, w, b, state, lengths};
  if (!gates) return NULL;
  const ac_shape y = of_samples(gates, gates->shape.dim[1], w->shape.dim[1]),
                 last = of_samples(gates, ac_recurrent_states(cell), w->shape.dim[1]);
  ac_tensor_at(graph, w->storage)->matrix = AC_MATRIX_OUT_IN;
  ac_tensor *result =
      ac_graph_emit(graph, AC_OP_recurrent, attributes, sizeof *attributes, 5, operands, &y);
  if (!result) return NULL;
  const int node = result->producer;
  *final = ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, AC_F32, &last);
  if (!*final) return NULL;
  if (ac_recurrent_is_plain(cell)) return result;
  const bool all = ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, AC_F32, &gates->shape) &&
                   ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, AC_F32, &y);
  return all ? result : NULL;
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]),   ac_gradient_of(d, node->out[1]),
                           ac_tensor_at(graph, node->out[2]), ac_tensor_at(graph, node->out[0]),
                           ac_tensor_at(graph, node->out[3]), ac_tensor_at(graph, node->in[1]),
                           ac_tensor_at(graph, node->in[3]),  ac_tensor_at(graph, node->in[4])};
  const int targets[] = {node->in[0], node->in[3], node->in[1], node->in[2]};
  return ac_gradient_emit(d, AC_OP_recurrent_gradient, node->attributes,
                          sizeof(ac_recurrent_attributes), 8, operands, 4, targets);
}

static int64_t limit(const ac_op_args *args, int input) {
  const ac_recurrent_attributes *a = (const ac_recurrent_attributes *)args->attributes;
  return input == (args->op == AC_OP_recurrent ? 4 : 7) ? a->all + 1 : 0;
}

static double flops(const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const double steps = (double)r.samples * (double)r.positions * (double)r.units;
  return steps * (double)r.gates * (2.0 * (double)r.units + 10);
}

static double gradient_flops(const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const double steps = (double)r.samples * (double)r.positions * (double)r.units;
  const double products = args->out[2].count ? 2 : 1;
  return steps * (double)r.gates * (2.0 * products * (double)r.units + 6);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  static const char *const names[] = {"lstm", "gru", "tanh", "relu"};
  ac_words_put(words, ", %s", names[r.cell]);
  if (r.reversed) ac_words_put(words, ", reversed");
}

static const ac_recurrent_attributes sampled = {.cell = AC_CELL_LSTM, .all = 8};

const ac_op_desc ac_op_desc_recurrent = {
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .limit = limit,
    .words = words,
    .sample = {{"B84C", "4CC", "4C"}, {"B8C", "B2C", "B84C", "B8C"}, &sampled},
};
const ac_op_desc ac_op_desc_recurrent_gradient = {
    .in_place = 1u << 2,
    .can_add = 1u << 2 | 1u << 3,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = gradient_flops,
    .limit = limit,
    .words = words,
    .sample = {{"B8C", NULL, "B84C", "B8C", "B8C", "4CC"}, {"B84C", NULL, "4CC", "4C"}, &sampled},
};
