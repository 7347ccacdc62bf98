#ifndef AC_OPS_RECURRENT_H
#define AC_OPS_RECURRENT_H

#include "ops/arguments.h"

typedef enum ac_recurrent_cell {
  AC_CELL_LSTM,
  AC_CELL_GRU,
  AC_CELL_TANH,
  AC_CELL_RELU
} ac_recurrent_cell;

/* The op's positions are those from `first` on of sequences of `all`, which lengths count. */
typedef struct ac_recurrent_attributes {
  int32_t cell;
  int32_t reversed; /* from the last position to the first */
  int64_t first, all;
} ac_recurrent_attributes;

static inline int64_t ac_recurrent_gates(ac_recurrent_cell cell) {
  return cell == AC_CELL_LSTM ? 4 : cell == AC_CELL_GRU ? 3 : 1;
}
/* Rows of a state: h, and an LSTM's c. */
static inline int64_t ac_recurrent_states(ac_recurrent_cell cell) {
  return cell == AC_CELL_LSTM ? 2 : 1;
}
static inline bool ac_recurrent_is_plain(ac_recurrent_cell cell) {
  return cell == AC_CELL_TANH || cell == AC_CELL_RELU;
}

/* Operands of both ops, by what they are. Absent ones have a count of 0. */
typedef struct ac_recurrence {
  ac_recurrent_cell cell;
  bool reversed;
  int64_t first, samples, positions, units, gates;
  const ac_operand *w, *state, *lengths, *y, *activated, *kept;
} ac_recurrence;

static inline ac_recurrence ac_recurrence_of(const ac_op_args *args) {
  const ac_recurrent_attributes *a = (const ac_recurrent_attributes *)args->attributes;
  const ac_operand *in = args->in, *out = args->out;
  const bool forward = args->op == AC_OP_recurrent;
  ac_recurrence r = {
      .cell = (ac_recurrent_cell)a->cell, .reversed = a->reversed, .first = a->first};
  r.gates = ac_recurrent_gates(r.cell);
  r.y = forward ? &out[0] : &in[3];
  r.activated = forward ? &out[2] : &in[2];
  r.kept = forward ? &out[3] : &in[4];
  r.w = forward ? &in[1] : &in[5];
  r.state = forward ? &in[3] : &in[6];
  r.lengths = forward ? &in[4] : &in[7];
  r.samples = r.y->dim[0], r.positions = r.y->dim[1], r.units = r.y->dim[2];
  return r;
}

#endif
