/* Recurrent layers; formulas are in src/ops/recurrent/recurrent.c.
 *
 *   recurrent_forward   an item a unit of a sample, a launch a position: its gates, and h[t]. The
 *                       final state is the one that goes from launch to launch.
 *   recurrent_backward  the same backwards: gradients of its gates. The next launch adds up what
 *                       reaches h[t-1] through them.
 *   recurrent_state     an item a unit of a sample: the gradient of the initial state
 *   recurrent_weights   an item an element of W or b: its gradient
 *
 * `cell` is ac_recurrent_cell. The workspace has gradients [samples, states, units] that reach
 * h[t-1] and c[t-1] past the gates, then a GRU's gradients of s[n], `own`, and dgates if there is
 * no operand for them. Work-groups of GROUP items; no local memory. Dtypes: storage for gates, W, y
 * and what is kept, int for lengths, float for the rest. */
#include "common.h"

enum { LSTM, GRU, TANH, RELU };

/* An item's unit of a sample at a position, and the position before it in time; -1: there is none,
 * but the initial state. */
typedef struct {
  size_t n, unit, units, row, gates; /* row: of all samples' positions; gates: its first element */
  long t, before, after, length;
} place;

long length_of(const global int *lengths, size_t n, long first, long positions) {
  return lengths ? clamp(lengths[n] - first, 0L, positions) : positions;
}

int gates_of(int cell) {
  return cell == LSTM ? 4 : cell == GRU ? 3 : 1;
}

place find_place(size_t item, const global int *lengths, long t, long positions, long units,
                 long first, int reversed, int cell) {
  place p;
  p.n = quotient(item, units);
  p.unit = item - p.n * units;
  p.units = units;
  p.t = t;
  p.row = p.n * positions + t;
  p.gates = p.row * gates_of(cell) * units + p.unit;
  p.length = length_of(lengths, p.n, first, positions);
  const long next = t + 1 < p.length ? t + 1 : -1, last = t > 0 ? t - 1 : -1;
  p.before = reversed ? next : last;
  p.after = reversed ? last : next;
  return p;
}

float logistic(float x) {
  return 1 / (1 + exp(-x));
}

/* h[t-1] of another unit. */
float before_of(const global storage *y, const global float *state, size_t n, long before,
                long positions, size_t units, int states, size_t unit) {
  if (before >= 0) return load(y, (n * positions + before) * units + unit);
  return state ? state[n * states * units + unit] : 0;
}

kernel WORK_GROUP(GROUP, 1) void recurrent_forward(
    const global storage *gates, const global storage *w, const global float *b,
    const global float *state, const global int *lengths, global storage *y, global float *last,
    global storage *activated, global storage *kept, long items, long t, long positions, long units,
    long first, int reversed, int cell, int begins) {
  const size_t item = element_id();
  if (item >= items) return;
  const place p = find_place(item, lengths, t, positions, units, first, reversed, cell);
  const int states = cell == LSTM ? 2 : 1, count = gates_of(cell);
  const size_t at = p.n * states * units + p.unit, out = p.row * units + p.unit;
  if (begins)
    for (int k = 0; k < states; k++) last[at + k * units] = state ? state[at + k * units] : 0;
  if (t >= p.length) {
    store(y, out, 0);
    if (kept) store(kept, out, 0);
    for (int g = 0; activated && g < count; g++) store(activated, p.gates + g * units, 0);
    return;
  }
  float4 s = 0;
  for (size_t k = 0; k < units; k++) {
    const float h = before_of(y, state, p.n, p.before, positions, units, states, k);
    s.x += h * load(w, p.unit * units + k);
    if (count > 1) s.y += h * load(w, (p.unit + units) * units + k);
    if (count > 2) s.z += h * load(w, (p.unit + 2 * units) * units + k);
    if (count > 3) s.w += h * load(w, (p.unit + 3 * units) * units + k);
  }
  float4 x = 0;
  x.x = load(gates, p.gates);
  if (count > 1) x.y = load(gates, p.gates + units);
  if (count > 2) x.z = load(gates, p.gates + 2 * units);
  if (count > 3) x.w = load(gates, p.gates + 3 * units);
  if (b) {
    s.x += b[p.unit];
    if (count > 1) s.y += b[p.unit + units];
    if (count > 2) s.z += b[p.unit + 2 * units];
    if (count > 3) s.w += b[p.unit + 3 * units];
  }
  float h;
  if (cell == LSTM) {
    const float i = logistic(x.x + s.x), f = logistic(x.y + s.y), g = tanh(x.z + s.z),
                o = logistic(x.w + s.w);
    const float c = f * last[at + units] + i * g;
    last[at + units] = c;
    store(kept, out, c);
    store(activated, p.gates, i);
    store(activated, p.gates + units, f);
    store(activated, p.gates + 2 * units, g);
    store(activated, p.gates + 3 * units, o);
    h = o * tanh(c);
  } else if (cell == GRU) {
    const float r = logistic(x.x + s.x), z = logistic(x.y + s.y), n = tanh(x.z + r * s.z);
    const float before = before_of(y, state, p.n, p.before, positions, units, states, p.unit);
    store(kept, out, s.z);
    store(activated, p.gates, r);
    store(activated, p.gates + units, z);
    store(activated, p.gates + 2 * units, n);
    h = (1 - z) * n + z * before;
  } else {
    const float v = x.x + s.x;
    h = cell == TANH ? tanh(v) : isnan(v) ? v : fmax(v, 0.0f);
  }
  store(y, out, h);
  last[at] = h;
}

/* The gradient of s of gate g and unit k at a position. */
float sum_gradient(const global storage *dgates, const global storage *own, size_t row, int g,
                   size_t k, size_t units, int cell) {
  if (cell == GRU && g == 2) return load(own, row * units + k);
  return load(dgates, (row * gates_of(cell) + g) * units + k);
}

/* What reaches h of a unit from the gates of another position. */
float from_gates(const global storage *dgates, const global storage *own, const global storage *w,
                 size_t row, size_t unit, size_t units, int cell) {
  float sum = 0;
  for (int g = 0; g < gates_of(cell); g++)
    for (size_t k = 0; k < units; k++)
      sum += sum_gradient(dgates, own, row, g, k, units, cell) *
             load(w, (g * units + k) * units + unit);
  return sum;
}

kernel WORK_GROUP(GROUP, 1) void recurrent_backward(
    const global storage *dy, const global float *dlast, const global storage *activated,
    const global storage *y, const global storage *kept, const global storage *w,
    const global float *state, const global int *lengths, global storage *dgates,
    global float *room, long first_own, long first_gates, long items, long t, long positions,
    long units, long first, int reversed, int cell, int begins) {
  const size_t item = element_id();
  if (item >= items) return;
  const place p = find_place(item, lengths, t, positions, units, first, reversed, cell);
  const int states = cell == LSTM ? 2 : 1, count = gates_of(cell);
  const size_t at = p.n * states * units + p.unit, out = p.row * units + p.unit;
  global storage *own = (global storage *)(room + first_own);
  if (!dgates) dgates = (global storage *)(room + first_gates);
  if (begins)
    for (int k = 0; k < states; k++) room[at + k * units] = dlast ? dlast[at + k * units] : 0;
  if (t >= p.length) {
    for (int g = 0; g < count; g++) store(dgates, p.gates + g * units, 0);
    if (cell == GRU) store(own, out, 0);
    return;
  }
  float dh = room[at] + (dy ? load(dy, out) : 0);
  if (p.after >= 0)
    dh += from_gates(dgates, own, w, p.n * positions + p.after, p.unit, units, cell);
  if (cell == LSTM) {
    const float i = load(activated, p.gates), f = load(activated, p.gates + units),
                g = load(activated, p.gates + 2 * units), o = load(activated, p.gates + 3 * units);
    const float c = tanh(load(kept, out)), dc = room[at + units] + dh * o * (1 - c * c);
    const float before = p.before >= 0 ? load(kept, (p.n * positions + p.before) * units + p.unit)
                                       : (state ? state[at + units] : 0);
    store(dgates, p.gates, dc * g * i * (1 - i));
    store(dgates, p.gates + units, dc * before * f * (1 - f));
    store(dgates, p.gates + 2 * units, dc * i * (1 - g * g));
    store(dgates, p.gates + 3 * units, dh * c * o * (1 - o));
    room[at + units] = dc * f;
    room[at] = 0;
  } else if (cell == GRU) {
    const float r = load(activated, p.gates), z = load(activated, p.gates + units),
                n = load(activated, p.gates + 2 * units), dn = dh * (1 - z) * (1 - n * n);
    const float before = before_of(y, state, p.n, p.before, positions, units, states, p.unit);
    store(dgates, p.gates, dn * load(kept, out) * r * (1 - r));
    store(dgates, p.gates + units, dh * (before - n) * z * (1 - z));
    store(dgates, p.gates + 2 * units, dn);
    store(own, out, dn * r);
    room[at] = dh * z;
  } else {
    const float h = load(y, out);
    store(dgates, p.gates, cell == TANH ? dh * (1 - h * h) : h > 0 ? dh : 0);
    room[at] = 0;
  }
}

kernel WORK_GROUP(GROUP, 1) void recurrent_state(const global storage *w, const global int *lengths,
                                                 const global storage *dgates,
                                                 const global float *room, global float *dstate,
                                                 long first_own, long first_gates, long items,
                                                 long positions, long units, long first,
                                                 int reversed, int cell) {
  const size_t item = element_id();
  if (item >= items) return;
  const size_t n = quotient(item, units), unit = item - n * units;
  const long length = length_of(lengths, n, first, positions);
  const int states = cell == LSTM ? 2 : 1;
  const size_t at = n * states * units + unit;
  const global storage *own = (const global storage *)(room + first_own);
  if (!dgates) dgates = (const global storage *)(room + first_gates);
  float dh = room[at];
  if (length > 0)
    dh +=
        from_gates(dgates, own, w, n * positions + (reversed ? length - 1 : 0), unit, units, cell);
  dstate[at] = dh;
  if (cell == LSTM) dstate[at + units] = room[at + units];
}

/* Columns of an item's row: those of W, and the bias. */
kernel WORK_GROUP(GROUP,
                  1) void recurrent_weights(const global storage *y, const global float *state,
                                            const global int *lengths, const global storage *dgates,
                                            const global float *room, global float *dw,
                                            global float *db, long first_own, long first_gates,
                                            long samples, long positions, long units, long first,
                                            int reversed, int cell, int add_w, int add_b) {
  const size_t item = element_id(), columns = units + 1;
  const size_t row = quotient(item, columns), k = item - row * columns;
  const bool bias = k == units;
  if (row >= (size_t)gates_of(cell) * units || (bias ? !db : !dw)) return;
  const int states = cell == LSTM ? 2 : 1, g = (int)quotient(row, units);
  const global storage *own = (const global storage *)(room + first_own);
  if (!dgates) dgates = (const global storage *)(room + first_gates);
  float all = 0;
  for (size_t n = 0; n < samples; n++) {
    const long length = length_of(lengths, n, first, positions);
    float sum = 0;
    for (long t = 0; t < length; t++) {
      const long next = t + 1 < length ? t + 1 : -1;
      const float d = sum_gradient(dgates, own, n * positions + t, g, row - g * units, units, cell);
      sum += bias
                 ? d
                 : d * before_of(y, state, n, reversed ? next : t - 1, positions, units, states, k);
    }
    all += sum;
  }
  if (bias) db[row] = add_b ? db[row] + all : all;
  else dw[row * units + k] = add_w ? dw[row * units + k] + all : all;
}
