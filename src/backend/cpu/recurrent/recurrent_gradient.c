/* Recurrent layers backward in time (formulas in ops/recurrent/recurrent.c). At each position
 *
 *   the gradients of a sample's gates, a row at a time;  then dh += those of s x W
 *
 * and at the end, with all positions' gradients as rows of one matrix and h[t-1] as rows of
 * another, dW is their product. Where gates' and s's gradients differ, in a GRU, those of s[n] have
 * a matrix of their own. */
#include "backend/cpu/recurrent/recurrent.h"

#include "backend/cpu/shared/vector_functions.h"

typedef struct work {
  ac_cpu_recurrence all;
  const ac_op_args *args;
  ac_cpu_step_rows left[2]; /* gradients of s as they are multiplied */
  float *panels, *dh, *dc, *pack, *sums;
  float *rows;       /* of each thread: see scratch_row */
  void *before;      /* h[t-1] of all positions, as stored */
  void *gates, *own; /* gradients of all positions: of the gates, and of a GRU's s[n] */
  int64_t panel, row_floats;
} work;

enum { ROWS_OF_SCRATCH = 2 * AC_CPU_MOST_GATES + 6 };

static int64_t elements_as_floats(const ac_cpu_recurrence *all, int64_t count) {
  return ac_ceil_div(count * (int64_t)ac_element_bytes(all->dtype), (int64_t)sizeof(float));
}

static ac_gemm weight_product(const work *w, const void *gradients, int64_t distance, int64_t gate,
                              int64_t gates) {
  const ac_cpu_recurrence *all = &w->all;
  const ac_operand *dw = &w->args->out[2];
  const int64_t units = all->r.units;
  return (ac_gemm){.transpose_a = true,
                   .m = gates * units,
                   .n = units,
                   .k = all->r.samples * all->r.positions,
                   .alpha = 1,
                   .beta = w->args->add[2] ? 1 : 0,
                   .a = gradients,
                   .lda = distance,
                   .a_dtype = all->dtype,
                   .b = w->before,
                   .ldb = units,
                   .b_dtype = all->dtype,
                   .c = (float *)dw->data + gate * units * units,
                   .ldc = units,
                   .c_dtype = AC_F32};
}

static uint64_t product_scratch(const work *w) {
  const ac_gemm product = weight_product(w, NULL, w->all.width, 0, w->all.r.gates);
  return ac_cpu_gemm_scratch(w->all.context, w->all.context->threads, &product);
}

static int64_t lay_out(work *w, const ac_cpu_context *context, const ac_op_args *args) {
  *w = (work){.all = ac_cpu_recurrence_of(context, args), .args = args};
  const ac_cpu_recurrence *all = &w->all;
  const int64_t rows = all->row_parts * all->room, units = all->r.units;
  const int64_t steps = all->r.samples * all->r.positions;
  float *const begin = args->workspace, *at = begin;
  w->panel = ac_cpu_step_panel(all, all->width);
  w->panels = ac_cpu_take(&at, all->pitch / (2 * all->block) * w->panel);
  w->dh = ac_cpu_take(&at, rows * all->pitch);
  w->dc = ac_cpu_take(&at, all->r.cell == AC_CELL_LSTM ? rows * all->pitch : 0);
  for (int k = 0; k < 2; k++) {
    w->left[k].depth = all->width;
    w->left[k].data = ac_cpu_take(&at, rows * ac_cpu_step_depth(all, all->width));
  }
  w->row_floats = ROWS_OF_SCRATCH * all->pitch;
  w->rows = ac_cpu_take(&at, context->threads * w->row_floats);
  w->before = ac_cpu_take(&at, args->out[2].count ? elements_as_floats(all, steps * units) : 0);
  w->gates = args->out[0].data;
  if (!args->out[0].count) w->gates = ac_cpu_take(&at, elements_as_floats(all, steps * all->width));
  w->own =
      ac_cpu_take(&at, all->r.cell == AC_CELL_GRU ? elements_as_floats(all, steps * units) : 0);
  w->sums = ac_cpu_take(&at, all->r.cell == AC_CELL_GRU ? all->width : 0);
  w->pack = ac_cpu_take(&at, context->threads * ac_cpu_step_pack_scratch(all));
  return at - begin;
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  work w;
  const uint64_t floats = (uint64_t)lay_out(&w, context, args) * sizeof(float);
  return floats + (args->out[2].count ? (uint64_t)context->threads * product_scratch(&w) : 0);
}

/* ---- a sample at a position ------------------------------------------------------------------ */

/* Rows of units: what was kept, and gradients; all gates' rows are a pitch apart. */
typedef struct cell_row {
  const float *gates, *kept, *before, *dy; /* before: c[t-1] or h[t-1] */
  float *dh, *dc, *dgates, *own;
  int64_t pitch, count;
} cell_row;

static void lstm(const cell_row *s) {
  const int64_t P = s->pitch;
  const float *a = s->gates, *kept = s->kept, *before = s->before, *dy = s->dy;
  float *dh = s->dh, *dc = s->dc, *d = s->dgates;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) {
    const float i = a[j], f = a[P + j], g = a[2 * P + j], o = a[3 * P + j];
    const float t = hyperbolic_tangent(kept[j]), gh = dh[j] + dy[j];
    const float gc = dc[j] + gh * o * (1.0f - t * t);
    d[j] = gc * g * i * (1.0f - i);
    d[P + j] = gc * before[j] * f * (1.0f - f);
    d[2 * P + j] = gc * i * (1.0f - g * g);
    d[3 * P + j] = gh * t * o * (1.0f - o);
    dc[j] = gc * f;
    dh[j] = 0.0f;
  }
}

static void gru(const cell_row *s) {
  const int64_t P = s->pitch;
  const float *a = s->gates, *kept = s->kept, *before = s->before, *dy = s->dy;
  float *dh = s->dh, *d = s->dgates, *own = s->own;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) {
    const float r = a[j], z = a[P + j], n = a[2 * P + j], gh = dh[j] + dy[j];
    const float gn = gh * (1.0f - z) * (1.0f - n * n);
    d[j] = gn * kept[j] * r * (1.0f - r);
    d[P + j] = gh * (before[j] - n) * z * (1.0f - z);
    d[2 * P + j] = gn;
    own[j] = gn * r;
    dh[j] = gh * z;
  }
}

/* `gates` is y. */
static void plain_tanh(const cell_row *s) {
  const float *y = s->gates, *dy = s->dy;
  float *dh = s->dh, *d = s->dgates;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) {
    d[j] = (dh[j] + dy[j]) * (1.0f - y[j] * y[j]);
    dh[j] = 0.0f;
  }
}

static void plain_relu(const cell_row *s) {
  const float *y = s->gates, *dy = s->dy;
  float *dh = s->dh, *d = s->dgates;
#pragma omp simd
  for (int64_t j = 0; j < s->count; j++) {
    const float g = dh[j] + dy[j];
    d[j] = y[j] > 0.0f ? g : 0.0f;
    dh[j] = 0.0f;
  }
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

/* Where a sample is, and where the position before in time is; -1: that is the state. */
typedef struct place {
  int64_t sample, row, t, before;
  bool counts;
} place;

static place place_of(const work *w, const ac_cpu_recurrent_part *p, int64_t i, int64_t t) {
  const int64_t length = ac_cpu_recurrent_length(&w->all, w->args, p->sample + i);
  place at = {.sample = p->sample + i, .row = p->row + i, .t = t, .counts = t < length};
  at.before = w->all.r.reversed ? (t + 1 < length ? t + 1 : -1) : t - 1;
  return at;
}

static int64_t step_of(const work *w, const place *at, int64_t t) {
  return at->sample * w->all.r.positions + t;
}

/* A row of this thread's for `index` of ROWS_OF_SCRATCH. */
static float *scratch_row(const work *w, int thread, int index) {
  return w->rows + thread * w->row_floats + index * w->all.pitch;
}

/* The part's units of an operand's row as floats. */
static void load_row(const work *w, const ac_cpu_recurrent_part *p, const ac_operand *x,
                     int64_t element, float *to) {
  ac_cpu_widen(x->dtype, ac_element(x->data, x->dtype, element + p->first), to, p->last - p->first);
  (void)w;
}

/* Row k of the state before the first position. */
static void load_state(const work *w, const ac_cpu_recurrent_part *p, const place *at, int64_t k,
                       float *to) {
  const ac_recurrence *r = &w->all.r;
  const int64_t row = at->sample * ac_recurrent_states(r->cell) + k;
  if (r->state->count) load_row(w, p, r->state, row * r->units, to);
  else memset(to, 0, (size_t)(p->last - p->first) * sizeof *to);
}

/* h[t-1] as it is stored, for dW, and as floats. */
static void load_before(const work *w, const ac_cpu_recurrent_part *p, const place *at,
                        float *floats) {
  const ac_recurrence *r = &w->all.r;
  const int64_t count = p->last - p->first;
  if (at->before >= 0) load_row(w, p, r->y, step_of(w, at, at->before) * r->units, floats);
  else load_state(w, p, at, 0, floats);
  if (!w->args->out[2].count && r->cell != AC_CELL_GRU) return;
  uint16_t again[AC_CPU_RUN];
  for (int64_t j = 0; j < count; j += AC_CPU_RUN) {
    const int64_t some = ac_smaller(AC_CPU_RUN, count - j);
    void *to = w->args->out[2].count ? ac_element(w->before, w->all.dtype,
                                                  step_of(w, at, at->t) * r->units + p->first + j)
                                     : (void *)again;
    if (w->all.dtype == AC_F32 && !w->args->out[2].count) continue;
    ac_cpu_narrow(w->all.dtype, false, floats + j, to, some);
    ac_cpu_widen(w->all.dtype, to, floats + j, some);
  }
}

static cell_row load_cell(const work *w, const ac_cpu_recurrent_part *p, const place *at,
                          int thread) {
  const ac_recurrence *r = &w->all.r;
  const int64_t units = r->units, step = step_of(w, at, at->t), pitch = w->all.pitch;
  float *rows[ROWS_OF_SCRATCH];
  for (int k = 0; k < ROWS_OF_SCRATCH; k++) rows[k] = scratch_row(w, thread, k);
  float **const more = rows + 2 * AC_CPU_MOST_GATES;
  const bool plain = ac_recurrent_is_plain(r->cell);
  for (int64_t g = 0; g < r->gates; g++)
    load_row(w, p, plain ? r->y : r->activated, (step * r->gates + g) * units, rows[g]);
  if (!plain) load_row(w, p, r->kept, step * units, more[0]);
  load_before(w, p, at, more[1]);
  if (r->cell == AC_CELL_LSTM) {
    if (at->before >= 0) load_row(w, p, r->kept, step_of(w, at, at->before) * units, more[2]);
    else load_state(w, p, at, 1, more[2]);
  }
  const int64_t count = p->last - p->first;
  if (w->args->in[0].count) load_row(w, p, &w->args->in[0], step * units, more[3]);
  else memset(more[3], 0, (size_t)count * sizeof(float));
  return (cell_row){.gates = rows[0],
                    .kept = more[0],
                    .before = r->cell == AC_CELL_LSTM ? more[2] : more[1],
                    .dy = more[3],
                    .dh = w->dh + at->row * pitch + p->first,
                    .dc = r->cell == AC_CELL_LSTM ? w->dc + at->row * pitch + p->first : NULL,
                    .dgates = rows[AC_CPU_MOST_GATES],
                    .own = more[4],
                    .pitch = pitch,
                    .count = count};
}

/* Stores a sample's gradients at a position, and has them multiplied. */
static void put(const work *w, const ac_cpu_recurrent_part *p, const place *at, const cell_row *s,
                const ac_cpu_step_rows *left) {
  const ac_recurrence *r = &w->all.r;
  const ac_dtype dtype = w->all.dtype;
  for (int64_t g = 0; g < r->gates; g++) {
    const int64_t unit = g * r->units + p->first, step = step_of(w, at, at->t);
    const float *from = s->dgates + g * s->pitch;
    void *to = ac_element(w->gates, dtype, step * w->all.width + unit);
    ac_cpu_narrow(dtype, w->all.mark, from, to, s->count);
    if (r->cell == AC_CELL_GRU && g == 2) {
      from = s->own;
      to = ac_element(w->own, dtype, step * r->units + p->first);
      ac_cpu_narrow(dtype, w->all.mark, from, to, s->count);
    }
    ac_cpu_step_put(&w->all, left, at->row, unit, s->count, from, to);
  }
}

static void clear(const work *w, const ac_cpu_recurrent_part *p, const place *at, int thread,
                  const ac_cpu_step_rows *left) {
  cell_row zeros = {.dgates = scratch_row(w, thread, 0),
                    .own = scratch_row(w, thread, 0),
                    .count = p->last - p->first};
  memset(zeros.dgates, 0, (size_t)zeros.count * sizeof(float));
  put(w, p, at, &zeros, left);
  if (!w->args->out[2].count) return;
  const int64_t element = step_of(w, at, at->t) * w->all.r.units + p->first;
  memset(ac_element(w->before, w->all.dtype, element), 0,
         (size_t)zeros.count * ac_element_bytes(w->all.dtype));
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void step_gates(const work *w, const ac_cpu_recurrent_part *p, int64_t t, int thread,
                       const ac_cpu_step_rows *left) {
  for (int64_t i = 0; i < p->rows; i++) {
    const place at = place_of(w, p, i, t);
    if (!at.counts) {
      clear(w, p, &at, thread, left);
      continue;
    }
    const cell_row s = load_cell(w, p, &at, thread);
    run_cell(w->all.r.cell, &s);
    put(w, p, &at, &s, left);
  }
}

static void step_product(const work *w, const ac_cpu_recurrent_part *p,
                         const ac_cpu_step_rows *left) {
  const ac_cpu_recurrence *all = &w->all;
  for (int64_t unit = p->first; unit < p->last; unit += 2 * all->block)
    for (int64_t first = 0; first < p->rows; first += AC_CPU_STEP_ROWS)
      ac_cpu_step_multiply(all, left, p->row + first, ac_smaller(AC_CPU_STEP_ROWS, p->rows - first),
                           w->panels + unit / (2 * all->block) * w->panel,
                           w->dh + (p->row + first) * all->pitch + unit, all->pitch, true);
}

static void begin_part(const work *w, const ac_cpu_recurrent_part *p) {
  const ac_cpu_recurrence *all = &w->all;
  const ac_recurrence *r = &all->r;
  const float *from = ac_cpu_data(&w->args->in[1]);
  float *const rows[] = {w->dh, w->dc};
  const int64_t states = ac_recurrent_states(r->cell);
  for (int64_t i = 0; i < p->rows; i++)
    for (int64_t k = 0; k < states; k++)
      for (int64_t j = p->first; j < p->last; j++)
        rows[k][(p->row + i) * all->pitch + j] =
            from ? from[((p->sample + i) * states + k) * r->units + j] : 0.0f;
}

static void finish_part(const work *w, const ac_cpu_recurrent_part *p) {
  const ac_cpu_recurrence *all = &w->all;
  float *to = ac_cpu_data(&w->args->out[1]);
  const float *const rows[] = {w->dh, w->dc};
  const int64_t states = ac_recurrent_states(all->r.cell);
  for (int64_t i = 0; to && i < p->rows; i++)
    for (int64_t k = 0; k < states; k++)
      memcpy(to + ((p->sample + i) * states + k) * all->r.units + p->first,
             rows[k] + (p->row + i) * all->pitch + p->first,
             (size_t)(p->last - p->first) * sizeof(float));
}

/* Panels, and zeros where pairs have no elements. */
static void prepare(const work *w, int thread, int team) {
  const ac_cpu_recurrence *all = &w->all;
  const int64_t columns = 2 * all->block, size = all->room * ac_cpu_step_depth(all, all->width);
  float *pack = w->pack + thread * ac_cpu_step_pack_scratch(all);
  for (int64_t k = thread; k < all->pitch / columns; k += team)
    ac_cpu_step_pack(all, true, k * columns, ac_smaller(columns, all->r.units - k * columns), 0,
                     w->panels + k * w->panel, pack);
  for (int64_t k = thread; k < all->row_parts && all->pairs; k += team)
    for (int side = 0; side < 2; side++)
      memset(w->left[side].data + k * size, 0, (size_t)size * sizeof(float));
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void weight_share(const work *w, const void *gradients, int64_t distance, int64_t gate,
                         int64_t gates, void *scratch, int thread, int team) {
  const ac_gemm product = weight_product(w, gradients, distance, gate, gates);
  ac_cpu_gemm_share(w->all.context, &product, NULL, scratch, product_scratch(w), thread, team);
}

static void bias_share(const work *w, int thread, int team) {
  const ac_recurrence *r = &w->all.r;
  const int64_t rows = r->samples * r->positions, both = 2 * r->units;
  float *db = w->args->out[3].data;
  const bool add = w->args->add[3];
  if (r->cell != AC_CELL_GRU) {
    ac_cpu_column_sums(rows, w->all.width, w->gates, w->all.dtype, db, add, thread, team);
    return;
  }
  ac_cpu_column_sums(rows, w->all.width, w->gates, w->all.dtype, w->sums, false, thread, team);
  ac_cpu_column_sums(rows, r->units, w->own, w->all.dtype, db + both, add, thread, team);
  ac_cpu_barrier(team);
  for (int64_t j = 0; thread == 0 && j < both; j++) db[j] = w->sums[j] + (add ? db[j] : 0.0f);
}

static void parameters(const work *w, void *scratch, int thread, int team) {
  const ac_recurrence *r = &w->all.r;
  const bool gru = r->cell == AC_CELL_GRU;
  if (w->args->out[2].count) {
    weight_share(w, w->gates, w->all.width, 0, gru ? 2 : r->gates, scratch, thread, team);
    if (gru) weight_share(w, w->own, r->units, 2, 1, scratch, thread, team);
  }
  if (w->args->out[3].count) bias_share(w, thread, team);
}

/* ---- the op ---------------------------------------------------------------------------------- */

static void gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                          int team) {
  work w;
  void *scratch = (float *)args->workspace + lay_out(&w, context, args);
  const ac_cpu_recurrence *all = &w.all;
  const int64_t parts = ac_cpu_recurrent_parts(all), positions = all->r.positions;
  prepare(&w, thread, team);
  for (int64_t k = thread; k < parts; k += team) {
    const ac_cpu_recurrent_part p = ac_cpu_recurrent_part_of(all, k);
    begin_part(&w, &p);
  }
  ac_cpu_barrier(team);
  ac_dot_begin(all->pairs ? context->dot : NULL);
  for (int64_t i = 0; i < positions; i++) {
    const int64_t t = all->r.reversed ? i : positions - 1 - i;
    const ac_cpu_step_rows *left = &w.left[i % 2];
    for (int64_t k = thread; k < parts; k += team) {
      const ac_cpu_recurrent_part p = ac_cpu_recurrent_part_of(all, k);
      step_gates(&w, &p, t, thread, left);
    }
    if (all->unit_parts > 1) ac_cpu_barrier(team);
    for (int64_t k = thread; k < parts; k += team) {
      const ac_cpu_recurrent_part p = ac_cpu_recurrent_part_of(all, k);
      step_product(&w, &p, left);
    }
  }
  ac_dot_end(all->pairs ? context->dot : NULL);
  for (int64_t k = thread; k < parts; k += team) {
    const ac_cpu_recurrent_part p = ac_cpu_recurrent_part_of(all, k);
    finish_part(&w, &p);
  }
  ac_cpu_barrier(team);
  parameters(&w, scratch, thread, team);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  ac_cpu_parallel_for(context, args, r.samples * r.positions * r.gates * r.units * r.units,
                      gradient_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(recurrent_gradient) = {.run = gradient, .workspace = workspace};
