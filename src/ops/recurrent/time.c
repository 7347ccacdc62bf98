/* Recurrent layers of any number and direction, made of linear layers for the inputs and of the op
 * `recurrent` for what follows in time. A long sequence is built in parts, which states connect:
 *
 *   x -> slice -> linear -> recurrent -> concat        a part: 4 nodes
 *                              | state
 *   x -> slice -> linear -> recurrent -> concat
 *
 * A plan may drop what is inside a part, which is activated gates above all, and compute it
 * again when the backward pass comes to it: with y and the states kept, each part by itself. */
#include <accrue/recurrent.h>

#include "ops/recurrent/build.h"

/* Positions of a part. The number of parts is limited, so that plans of long sequences are made
 * quickly. */
enum { WHOLE = 64, PART = 32, MOST_PARTS = 32 };

static int64_t part_of(int64_t positions) {
  if (positions <= WHOLE) return positions;
  const int64_t least = (positions + MOST_PARTS - 1) / MOST_PARTS;
  return least > PART ? least : PART;
}

typedef struct recurrence {
  ac_graph *graph;
  ac_builder builder;
  ac_recurrent_cell cell;
  ac_recurrent_desc desc;
  int directions;
  ac_tensor *x, *lengths, *hidden, *cells; /* the two of the initial state; NULL: zeros */
  int64_t units;
} recurrence;

static ac_tensor *part(ac_tensor *x, int64_t first, int64_t length) {
  return length == x->shape.dim[1] ? x : ac_slice(x, 1, first, length);
}

/* ---- a direction of a layer ------------------------------------------------------------------ */

static ac_tensor *initial(const recurrence *r, int64_t row) {
  if (!r->hidden) return NULL;
  ac_tensor *h = part(r->hidden, row, 1), *c = r->cells && h ? part(r->cells, row, 1) : NULL;
  ac_tensor *both[] = {h, c};
  return c ? ac_concat(r->graph, both, 2, 1) : h;
}

/* Returns y; *state begins as the initial state and becomes the final one. */
static ac_tensor *run_direction(const recurrence *r, ac_tensor *x, const ac_recurrent_weights *w,
                                bool reversed, ac_tensor **state) {
  const int64_t positions = x->shape.dim[1], length = part_of(positions);
  const int parts = (int)((positions + length - 1) / length);
  ac_tensor *y[MOST_PARTS];
  for (int k = 0; k < parts; k++) {
    const int at = reversed ? parts - 1 - k : k;
    const int64_t first = at * length, rest = positions - first;
    const ac_recurrent_attributes attributes = {r->cell, reversed, first, positions};
    ac_tensor *own = part(x, first, rest < length ? rest : length);
    ac_tensor *gates = own ? ac_linear(own, w->input, w->input_bias, AC_OUT_IN) : NULL;
    y[at] = ac_recurrent_emit(r->graph, &attributes, gates, w->hidden, w->hidden_bias, *state,
                              r->lengths, state);
    if (!y[at]) return NULL;
  }
  return ac_concat(r->graph, y, parts, 1);
}

enum { MOST_ROWS = 64 }; /* of a state */

static ac_tensor *run_layer(const recurrence *r, ac_tensor *x, const ac_recurrent_weights *weights,
                            int layer, ac_tensor **states) {
  ac_tensor *y[2];
  for (int d = 0; d < r->directions; d++) {
    const int row = layer * r->directions + d;
    states[row] = initial(r, row);
    if (r->graph->status != AC_OK) return NULL;
    y[d] = run_direction(r, x, &weights[row], d == 1 || r->desc.direction == AC_BACKWARD,
                         &states[row]);
    if (!y[d]) return NULL;
  }
  return ac_concat(r->graph, y, r->directions, 2);
}

/* Row `k` of each layer's and direction's state. */
static ac_tensor *collect(const recurrence *r, ac_tensor *const *states, int k) {
  ac_tensor *rows[MOST_ROWS];
  const int count = r->desc.layers * r->directions;
  for (int i = 0; i < count; i++)
    if (!(rows[i] = part(states[i], k, 1))) return NULL;
  return ac_concat(r->graph, rows, count, 1);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static ac_tensor *fail(const recurrence *r, const char *reason) {
  ac_tensor *operands[] = {r->x, r->lengths, r->hidden, r->cells};
  return ac_builder_fail(r->graph, &r->builder, operands, reason);
}

static bool is_state(const recurrence *r, const ac_tensor *state) {
  const ac_shape shape = {
      3, true, {r->x->shape.dim[0], (int64_t)r->desc.layers * r->directions, r->units}};
  return !state || (state->dtype == AC_F32 && ac_shape_equal(&state->shape, &shape));
}

static bool is_matrix(const ac_tensor *w, int64_t rows, int64_t columns) {
  return w && w->dtype == AC_F32 && w->shape.rank == 2 && !w->shape.batched &&
         w->shape.dim[0] == rows && w->shape.dim[1] == columns;
}

static bool are_weights(const recurrence *r, const ac_recurrent_weights *w, int64_t in) {
  const int64_t width = ac_recurrent_gates(r->cell) * r->units;
  ac_tensor *const all[] = {w->input, w->hidden, w->input_bias, w->hidden_bias};
  for (int i = 0; i < 4; i++)
    if (all[i] && all[i]->graph != r->graph) return false;
  return is_matrix(w->input, width, in) && is_matrix(w->hidden, width, r->units) &&
         (!w->input_bias || ac_is_float_vector(w->input_bias, width)) &&
         (!w->hidden_bias || ac_is_float_vector(w->hidden_bias, width));
}

static const char *weights_fault(const recurrence *r, const ac_recurrent_weights *weights) {
  for (int i = 0; i < r->desc.layers * r->directions; i++) {
    const bool first = i < r->directions;
    const int64_t in = first ? r->x->shape.dim[2] : r->units * r->directions;
    if (!are_weights(r, &weights[i], in))
      return "weights of each layer and direction are f32 input [G * H, in], hidden [G * H, H], "
             "and biases [G * H] or NULL, in the order of a state's rows";
  }
  return NULL;
}

static const char *desc_fault(const ac_recurrent_desc *d, ac_recurrent_cell cell) {
  if (d->direction < AC_FORWARD || d->direction > AC_BOTH_DIRECTIONS) return "unknown direction";
  if (d->function < AC_RNN_TANH || d->function > AC_RNN_RELU) return "unknown function of a cell";
  if (d->function && !ac_recurrent_is_plain(cell)) return "only ac_rnn has a choice of functions";
  if (d->layers < 1 || d->layers > MOST_ROWS / 2) return "there are 1 to 32 layers";
  if (!(d->dropout >= 0 && d->dropout < 1)) return "dropout must be in [0, 1)";
  return NULL;
}

/* Whether the operands fit; if not, the graph has failed. */
static bool check(const recurrence *r, const ac_recurrent_weights *weights) {
  const ac_shape *x = &r->x->shape, samples = {1, true, {x->dim[0]}};
  const bool is_sequence = r->x->dtype == AC_F32 && x->rank == 3 && x->batched;
  const bool has_lengths =
      !r->lengths || (r->lengths->dtype == AC_I32 && ac_shape_equal(&r->lengths->shape, &samples));
  if (!is_sequence || !has_lengths || !is_state(r, r->hidden) || !is_state(r, r->cells) ||
      (!r->cells != !r->hidden && r->cell == AC_CELL_LSTM)) {
    fail(r, NULL);
    return false;
  }
  const char *fault =
      x->dim[1] >= INT32_MAX ? "positions are counted in 32 bits" : weights_fault(r, weights);
  if (fault) fail(r, fault);
  return !fault;
}

/* ---- builders -------------------------------------------------------------------------------- */

static ac_tensor *build(const char *name, ac_recurrent_cell cell, ac_tensor *x, ac_tensor *lengths,
                        const ac_recurrent_state *given, const ac_recurrent_weights *weights,
                        const ac_recurrent_desc *desc, ac_recurrent_state *final) {
  const bool lstm = cell == AC_CELL_LSTM;
  recurrence r = {.builder = {name,
                              lstm ? 4 : 3,
                              {"x f32 [B, T, in]", "lengths? i32 [B]",
                               "initial.hidden? f32 [B, layers * directions, H]",
                               lstm ? "initial.cell? f32 [B, layers * directions, H]" : NULL}},
                  .cell = cell,
                  .desc = AC_DESCRIBED(ac_recurrent_desc, desc),
                  .x = x,
                  .lengths = lengths,
                  .hidden = given ? given->hidden : NULL,
                  .cells = given && lstm ? given->cell : NULL};
  ac_tensor *operands[] = {x, lengths, r.hidden, r.cells}, *states[MOST_ROWS];
  if (final) *final = (ac_recurrent_state){NULL, NULL};
  r.graph = ac_builder_graph(&r.builder, operands);
  if (!r.graph) return NULL;
  if (!r.desc.layers) r.desc.layers = 1;
  r.directions = r.desc.direction == AC_BOTH_DIRECTIONS ? 2 : 1;
  const char *fault = desc_fault(&r.desc, cell);
  if (!fault && (!weights || !weights->hidden || weights->hidden->shape.rank != 2))
    fault = "weights are NULL, or have no matrix for the hidden state";
  if (fault) return fail(&r, fault);
  if (r.desc.function == AC_RNN_RELU) r.cell = AC_CELL_RELU;
  r.units = weights->hidden->shape.dim[1];
  if (!check(&r, weights)) return NULL;
  ac_tensor *y = x;
  for (int layer = 0; layer < r.desc.layers && y; layer++) {
    if (layer > 0) y = ac_dropout(y, r.desc.dropout);
    if (y) y = run_layer(&r, y, weights, layer, states);
  }
  if (!y || !final) return y;
  final->hidden = collect(&r, states, 0);
  final->cell = lstm && final->hidden ? collect(&r, states, 1) : NULL;
  return final->hidden && (!lstm || final->cell) ? y : NULL;
}

ac_tensor *ac_lstm(ac_tensor *x, ac_tensor *lengths, const ac_recurrent_state *initial_state,
                   const ac_recurrent_weights *weights, const ac_recurrent_desc *desc,
                   ac_recurrent_state *final) {
  return build("lstm", AC_CELL_LSTM, x, lengths, initial_state, weights, desc, final);
}

ac_tensor *ac_gru(ac_tensor *x, ac_tensor *lengths, const ac_recurrent_state *initial_state,
                  const ac_recurrent_weights *weights, const ac_recurrent_desc *desc,
                  ac_recurrent_state *final) {
  return build("gru", AC_CELL_GRU, x, lengths, initial_state, weights, desc, final);
}

ac_tensor *ac_rnn(ac_tensor *x, ac_tensor *lengths, const ac_recurrent_state *initial_state,
                  const ac_recurrent_weights *weights, const ac_recurrent_desc *desc,
                  ac_recurrent_state *final) {
  return build("rnn", AC_CELL_TANH, x, lengths, initial_state, weights, desc, final);
}
