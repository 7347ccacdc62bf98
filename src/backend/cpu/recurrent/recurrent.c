/* Recurrent layers forward in time (formulas in ops/recurrent/recurrent.c). At each step the gates
 * of a block of units are computed for a chunk of samples:
 *
 *   sums[sample][gate][unit] = h[t-1] x panels of the block;  then h[t] of the block
 *
 * h[t-1] and h[t] are two rows of a sample that change places. Gates that are stored in 16 bits are
 * converted a row at a time. */
#include "backend/cpu/recurrent/recurrent.h"

#include "backend/cpu/shared/vector_functions.h"

typedef struct work {
  ac_cpu_recurrence all;
  const ac_op_args *args;
  ac_cpu_step_rows left[2]; /* h as it is multiplied */
  float *panels, *bias, *h[2], *c, *gates, *kept, *pack;
  int64_t panel, block_panels; /* floats of a panel, panels of a block */
} work;

/* Lays out the workspace; returns its floats. */
static int64_t lay_out(work *w, const ac_cpu_context *context, const ac_op_args *args) {
  *w = (work){.all = ac_cpu_recurrence_of(context, args), .args = args};
  const ac_cpu_recurrence *all = &w->all;
  const int64_t rows = all->row_parts * all->room, units = all->r.units;
  const int64_t blocks = ac_ceil_div(units, all->block);
  float *const begin = args->workspace, *at = begin;
  w->block_panels = ac_ceil_div(all->r.gates, 2);
  w->panel = ac_cpu_step_panel(all, units);
  w->panels = ac_cpu_take(&at, blocks * w->block_panels * w->panel);
  w->bias = ac_cpu_take(&at, all->width);
  for (int k = 0; k < 2; k++) {
    w->h[k] = ac_cpu_take(&at, rows * all->pitch);
    w->left[k].depth = units;
    w->left[k].data = ac_cpu_take(&at, rows * ac_cpu_step_depth(all, units));
  }
  w->c = ac_cpu_take(&at, all->r.cell == AC_CELL_LSTM ? rows * all->pitch : 0);
  if (all->dtype != AC_F32) {
    w->gates = ac_cpu_take(&at, rows * all->width);
    w->kept = ac_cpu_take(&at, all->r.cell == AC_CELL_GRU ? rows * all->pitch : 0);
  }
  w->pack = ac_cpu_take(&at, context->threads * ac_cpu_step_pack_scratch(all));
  return at - begin;
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  work w;
  return (uint64_t)lay_out(&w, context, args) * sizeof(float);
}

/* ---- before the first step ------------------------------------------------------------------- */

static void pack_block(const work *w, int64_t block, float *scratch) {
  const ac_cpu_recurrence *all = &w->all;
  const int64_t unit = block * all->block, count = ac_smaller(all->block, all->r.units - unit);
  for (int64_t g = 0; g < 2 * w->block_panels; g++) {
    float *panel = w->panels + (block * w->block_panels + g / 2) * w->panel;
    ac_cpu_step_pack(all, false, g * all->r.units + unit, g < all->r.gates ? count : 0,
                     (int)(g % 2), panel, scratch);
  }
}

static void begin_sample(const work *w, const ac_cpu_recurrent_part *p, int64_t i) {
  const ac_cpu_recurrence *all = &w->all;
  const int64_t units = all->r.units, row = p->row + i, count = p->last - p->first;
  const int64_t states = ac_recurrent_states(all->r.cell);
  const float *state = ac_cpu_data(all->r.state);
  float *h = w->h[0] + row * all->pitch + p->first;
  uint16_t stored[AC_CPU_RUN];
  if (state) state += (p->sample + i) * states * units + p->first;
  for (int64_t j = 0; j < count; j += AC_CPU_RUN) {
    const int64_t some = ac_smaller(AC_CPU_RUN, count - j);
    for (int64_t e = 0; e < some; e++) h[j + e] = state ? state[j + e] : 0.0f;
    if (all->dtype != AC_F32) {
      ac_cpu_narrow(all->dtype, false, h + j, stored, some);
      ac_cpu_widen(all->dtype, stored, h + j, some);
    }
    ac_cpu_step_put(all, &w->left[0], row, p->first + j, some, h + j, stored);
  }
  if (states == 1) return;
  float *c = w->c + row * all->pitch + p->first;
  for (int64_t j = 0; j < count; j++) c[j] = state ? state[units + j] : 0.0f;
}

/* Zeros beyond what is put among pairs, which are multiplied as well. */
static void clear_left(const work *w, int64_t row_part) {
  const ac_cpu_recurrence *all = &w->all;
  const int64_t size = all->room * ac_cpu_step_depth(all, all->r.units);
  for (int k = 0; k < 2 && all->pairs; k++)
    memset(w->left[k].data + row_part * size, 0, (size_t)size * sizeof(float));
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* One sample's units of a block: x, sums and activated gates are [gate][units], each with its
 * own distance of gates. `before` is h[t-1]. */
typedef struct cell_row {
  const float *x, *bias, *sums, *before;
  float *activated, *kept, *c, *h;
  int64_t units, block, count;
} cell_row;

static void lstm(const cell_row *s) {
  const int64_t H = s->units, U = s->block;
  const float *x = s->x, *b = s->bias, *sum = s->sums;
  float *to = s->activated, *kept = s->kept, *c = s->c, *h = s->h;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) {
    const float i = logistic(x[j] + (sum[j] + b[j]));
    const float f = logistic(x[H + j] + (sum[U + j] + b[H + j]));
    const float g = hyperbolic_tangent(x[2 * H + j] + (sum[2 * U + j] + b[2 * H + j]));
    const float o = logistic(x[3 * H + j] + (sum[3 * U + j] + b[3 * H + j]));
    const float next = f * c[j] + i * g;
    to[j] = i, to[H + j] = f, to[2 * H + j] = g, to[3 * H + j] = o;
    c[j] = next, kept[j] = next;
    h[j] = o * hyperbolic_tangent(next);
  }
}

static void gru(const cell_row *s) {
  const int64_t H = s->units, U = s->block;
  const float *x = s->x, *b = s->bias, *sum = s->sums, *before = s->before;
  float *to = s->activated, *kept = s->kept, *h = s->h;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) {
    const float r = logistic(x[j] + (sum[j] + b[j]));
    const float z = logistic(x[H + j] + (sum[U + j] + b[H + j]));
    const float own = sum[2 * U + j] + b[2 * H + j];
    const float n = hyperbolic_tangent(x[2 * H + j] + r * own);
    to[j] = r, to[H + j] = z, to[2 * H + j] = n;
    kept[j] = own;
    h[j] = (1.0f - z) * n + z * before[j];
  }
}

static void plain_tanh(const cell_row *s) {
  const float *x = s->x, *b = s->bias, *sum = s->sums;
  float *h = s->h;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) h[j] = hyperbolic_tangent(x[j] + (sum[j] + b[j]));
}

static void plain_relu(const cell_row *s) {
  const float *x = s->x, *b = s->bias, *sum = s->sums;
  float *h = s->h;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) h[j] = maximum(x[j] + (sum[j] + b[j]), 0.0f);
}

static void run_cell(ac_recurrent_cell cell, const cell_row *row) {
  switch (cell) {
  case AC_CELL_LSTM:
    lstm(row);
    break;
  case AC_CELL_GRU:
    gru(row);
    break;
  case AC_CELL_TANH:
    plain_tanh(row);
    break;
  case AC_CELL_RELU:
    plain_relu(row);
    break;
  }
}

/* Where sample i of a part is at position t. */
typedef struct place {
  int64_t row, step; /* in the workspace; among all samples' positions */
  bool counts;
} place;

static place place_of(const work *w, const ac_cpu_recurrent_part *p, int64_t i, int64_t t) {
  const int64_t sample = p->sample + i;
  return (place){p->row + i, sample * w->all.r.positions + t,
                 t < ac_cpu_recurrent_length(&w->all, w->args, sample)};
}

static float *floats_at(const ac_operand *x, int64_t element) {
  return x->count ? (float *)x->data + element : NULL;
}

static cell_row cell_row_of(const work *w, place at, int from, int64_t unit) {
  const ac_cpu_recurrence *all = &w->all;
  const bool floats = all->dtype == AC_F32;
  const int64_t gates = at.step * all->width + unit, h = at.row * all->pitch + unit;
  cell_row s = {.bias = w->bias + unit,
                .before = w->h[from] + h,
                .h = w->h[1 - from] + h,
                .units = all->r.units,
                .block = all->block};
  s.x = floats ? floats_at(&w->args->in[0], gates) : w->gates + at.row * all->width + unit;
  s.activated = floats ? floats_at(all->r.activated, gates) : w->gates + at.row * all->width + unit;
  s.c = all->r.cell == AC_CELL_LSTM ? w->c + h : NULL;
  s.kept = floats    ? floats_at(all->r.kept, at.step * all->r.units + unit)
           : s.c     ? s.c
           : w->kept ? w->kept + h
                     : NULL;
  return s;
}

/* h[t] of a block's units. */
static void step_block(const work *w, const ac_cpu_recurrent_part *p, int64_t t, int from,
                       int64_t unit) {
  const ac_cpu_recurrence *all = &w->all;
  _Alignas(64) float
      sums[AC_CPU_STEP_ROWS * AC_CPU_MOST_GATES * (STRIP / 2 > VECTOR ? STRIP / 2 : VECTOR)];
  const int64_t distance = 2 * all->block * w->block_panels;
  const float *panel = w->panels + unit / all->block * w->block_panels * w->panel;
  for (int64_t first = 0; first < p->rows; first += AC_CPU_STEP_ROWS) {
    const int64_t rows = ac_smaller(AC_CPU_STEP_ROWS, p->rows - first);
    for (int64_t k = 0; k < w->block_panels; k++)
      ac_cpu_step_multiply(all, &w->left[from], p->row + first, rows, panel + k * w->panel,
                           sums + k * 2 * all->block, distance, false);
    for (int64_t i = 0; i < rows; i++) {
      const place at = place_of(w, p, first + i, t);
      cell_row s = cell_row_of(w, at, from, unit);
      s.sums = sums + i * distance;
      s.count = ac_smaller(all->block, p->last - unit);
      if (at.counts) run_cell(all->r.cell, &s);
      else memcpy(s.h, s.before, (size_t)s.count * sizeof *s.h);
    }
  }
}

static void load_gates(const work *w, const ac_cpu_recurrent_part *p, place at) {
  const ac_cpu_recurrence *all = &w->all;
  for (int64_t g = 0; g < all->r.gates; g++) {
    const int64_t unit = g * all->r.units + p->first;
    ac_cpu_widen(all->dtype,
                 ac_element(w->args->in[0].data, all->dtype, at.step * all->width + unit),
                 w->gates + at.row * all->width + unit, p->last - p->first);
  }
}

/* Elements of an output, from floats or, without any, zeros. */
static void put(const work *w, const ac_operand *y, int64_t element, const float *from,
                int64_t count) {
  void *to = ac_element(y->data, y->dtype, element);
  if (from) ac_cpu_narrow(y->dtype, w->all.mark, from, to, count);
  else memset(to, 0, (size_t)count * ac_element_bytes(y->dtype));
}

static void store_activated(const work *w, const ac_cpu_recurrent_part *p, place at) {
  const ac_cpu_recurrence *all = &w->all;
  const int64_t units = all->r.units, count = p->last - p->first,
                row = at.row * all->pitch + p->first;
  const bool floats = all->dtype == AC_F32;
  if (floats && at.counts) return;
  for (int64_t g = 0; g < all->r.gates; g++) {
    const int64_t unit = g * units + p->first;
    put(w, all->r.activated, at.step * all->width + unit,
        at.counts ? w->gates + at.row * all->width + unit : NULL, count);
  }
  put(w, all->r.kept, at.step * units + p->first,
      !at.counts                    ? NULL
      : all->r.cell == AC_CELL_LSTM ? w->c + row
                                    : w->kept + row,
      count);
}

/* Stores h[t] of a sample, which from now on is as it is stored. */
static void finish_row(const work *w, const ac_cpu_recurrent_part *p, place at, int to) {
  const ac_cpu_recurrence *all = &w->all;
  const int64_t count = p->last - p->first, element = at.step * all->r.units + p->first;
  float *h = w->h[to] + at.row * all->pitch + p->first;
  put(w, all->r.y, element, at.counts ? h : NULL, count);
  if (!ac_recurrent_is_plain(all->r.cell)) store_activated(w, p, at);
  const void *stored = ac_element(all->r.y->data, all->dtype, element);
  if (at.counts) {
    if (all->dtype != AC_F32) ac_cpu_widen(all->dtype, stored, h, count);
    ac_cpu_step_put(all, &w->left[to], at.row, p->first, count, h, stored);
    return;
  }
  uint16_t again[AC_CPU_RUN];
  for (int64_t j = 0; j < count; j += AC_CPU_RUN) {
    const int64_t some = ac_smaller(AC_CPU_RUN, count - j);
    if (all->dtype != AC_F32) ac_cpu_narrow(all->dtype, false, h + j, again, some);
    ac_cpu_step_put(all, &w->left[to], at.row, p->first + j, some, h + j, again);
  }
}

static void step(const work *w, const ac_cpu_recurrent_part *p, int64_t t, int from) {
  if (w->all.dtype != AC_F32)
    for (int64_t i = 0; i < p->rows; i++) load_gates(w, p, place_of(w, p, i, t));
  for (int64_t unit = p->first; unit < p->last; unit += w->all.block)
    step_block(w, p, t, from, unit);
  for (int64_t i = 0; i < p->rows; i++) finish_row(w, p, place_of(w, p, i, t), 1 - from);
}

static void finish_part(const work *w, const ac_cpu_recurrent_part *p) {
  const ac_cpu_recurrence *all = &w->all;
  const int64_t units = all->r.units, states = ac_recurrent_states(all->r.cell);
  const float *const rows[] = {w->h[all->r.positions % 2], w->c};
  for (int64_t i = 0; i < p->rows; i++)
    for (int64_t k = 0; k < states; k++)
      memcpy((float *)w->args->out[1].data + ((p->sample + i) * states + k) * units + p->first,
             rows[k] + (p->row + i) * all->pitch + p->first,
             (size_t)(p->last - p->first) * sizeof(float));
}

/* ---- the op ---------------------------------------------------------------------------------- */

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  work w;
  lay_out(&w, context, args);
  const ac_cpu_recurrence *all = &w.all;
  const int64_t blocks = ac_ceil_div(all->r.units, all->block), parts = ac_cpu_recurrent_parts(all);
  const float *b = ac_cpu_data(&args->in[2]);
  float *pack = w.pack + thread * ac_cpu_step_pack_scratch(all);
  for (int64_t k = thread; k < blocks; k += team) pack_block(&w, k, pack);
  for (int64_t k = thread; k < all->row_parts; k += team) clear_left(&w, k);
  for (int64_t j = 0; thread == 0 && j < all->width; j++) w.bias[j] = b ? b[j] : 0.0f;
  ac_cpu_barrier(team);
  for (int64_t k = thread; k < parts; k += team) {
    const ac_cpu_recurrent_part p = ac_cpu_recurrent_part_of(all, k);
    for (int64_t i = 0; i < p.rows; i++) begin_sample(&w, &p, i);
  }
  if (all->unit_parts > 1) ac_cpu_barrier(team);
  ac_dot_begin(all->pairs ? context->dot : NULL);
  for (int64_t i = 0; i < all->r.positions; i++) {
    const int64_t t = all->r.reversed ? all->r.positions - 1 - i : i;
    for (int64_t k = thread; k < parts; k += team) {
      const ac_cpu_recurrent_part p = ac_cpu_recurrent_part_of(all, k);
      step(&w, &p, t, (int)(i % 2));
    }
    if (all->unit_parts > 1) ac_cpu_barrier(team);
  }
  ac_dot_end(all->pairs ? context->dot : NULL);
  for (int64_t k = thread; k < parts; k += team) {
    const ac_cpu_recurrent_part p = ac_cpu_recurrent_part_of(all, k);
    finish_part(&w, &p);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  ac_cpu_parallel_for(context, args, r.samples * r.positions * r.gates * r.units * r.units,
                      forward_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(recurrent) = {.run = forward, .workspace = workspace};
