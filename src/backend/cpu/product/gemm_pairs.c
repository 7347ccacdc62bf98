/* Products of bf16 in one thread by the instructions that the CPU has for them (dot.h):
 *
 *   for each block of rows and of columns of C
 *     for each DEPTH of k
 *       pack the block of op(A)
 *       for each PANEL of the columns
 *         pack the panel of op(B)
 *         for each strip of the rows
 *           for each strip of the panel's columns: sums = or += their product
 *           where k ends: C = sums, beside what it is added to, rounded once
 *
 * The packed block and the panel stay in the second-level cache, a strip of rows in the first.
 * Where all of k is one DEPTH a block has all columns, so that op(A) is packed once, and sums are
 * written as they come; else the sums of a block wait in scratch. Packing costs more than the
 * products if a packed element is used a hundred times only, so blocks are as large as scratch
 * allows.
 *
 * Operands lie along k (the elements of a row of op(A), or of a column of op(B), beside each other)
 * or down k. Sixteen lines by sixteen pairs are read either way into sixteen vectors, turned if
 * they lie across, and written. */
#include "backend/cpu/product/gemm_pairs.h"

#include "backend/cpu/product/pairs.h"
#include "core/half.h"

enum { DEPTH = 16 * STEP, ROWS = 512, PANEL = 4 * STRIP, AREA = 512 * 512, SUMS = STRIP * STRIP };

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Parts of the product that scratch has room for. */
typedef struct blocks {
  int64_t depth, rows, columns;
} blocks;

/* The length of as few equal parts as can be of at most `most`, in multiples of `unit`. */
static int64_t part_of(int64_t size, int64_t most, int64_t unit) {
  return ac_ceil_div(ac_ceil_div(size, ac_ceil_div(size, most)), unit) * unit;
}

static blocks blocks_of(const ac_gemm *g, int64_t rows, int64_t area) {
  blocks b = {part_of(ac_max(g->k, 1), DEPTH, STEP), part_of(g->m, rows, STRIP), g->n};
  if (b.depth < g->k) b.columns = part_of(g->n, ac_max(area / b.rows / STRIP, 1) * STRIP, STRIP);
  return b;
}

static int64_t packed_strip(const blocks *b) {
  return steps_of(b->depth) * STRIP * PAIRS;
}

static int64_t panel_columns(const blocks *b) {
  return ac_min(PANEL, strips_of(b->columns) * STRIP);
}

/* With so many strips of sums that wait, if k has more than one depth. */
static uint64_t bytes_with(const ac_gemm *g, const blocks *b, int64_t waiting) {
  int64_t panel = strips_of(panel_columns(b)), strips = strips_of(b->rows) + panel;
  int64_t sums = b->depth < g->k ? waiting : panel;
  return (uint64_t)(strips * packed_strip(b) + sums * SUMS) * sizeof(float);
}

static uint64_t bytes_of(const ac_gemm *g, const blocks *b) {
  return bytes_with(g, b, strips_of(b->rows) * strips_of(b->columns));
}

/* Equal parts may be longer where the whole is shorter, so this counts the longest that there are:
 * no product takes more than a larger one. */
uint64_t ac_cpu_gemm_pairs_scratch(const ac_gemm *g) {
  blocks most = {ac_min(g->k, DEPTH), ac_min(g->m, ROWS), g->n};
  return bytes_with(g, &most, ac_min(strips_of(most.rows) * strips_of(g->n), AREA / SUMS));
}

/* A team smaller than the context's has larger products than its scratch was made for. */
static blocks blocks_within(const ac_gemm *g, uint64_t room) {
  int64_t rows = ROWS, area = AREA;
  blocks b = blocks_of(g, rows, area);
  while (bytes_of(g, &b) > room && (rows > STRIP || area > STRIP * STRIP)) {
    if (area > rows * STRIP) area /= 2;
    else rows /= 2;
    b = blocks_of(g, rows, area);
  }
  return b;
}

/* ---- packing --------------------------------------------------------------------------------- */

static operand left_of(const ac_gemm *g) {
  return (operand){g->a, g->lda, !g->transpose_a, g->m, g->k};
}

static operand right_of(const ac_gemm *g) {
  return (operand){g->b, g->ldb, g->transpose_b, g->n, g->k};
}

/* Packs strips of `x` one behind the other. What lies beside each other in memory is read in a row:
 * steps of a strip, or a step of all strips. */
static void pack(const operand *x, bool by_line, uint32_t *to) {
  int64_t strips = strips_of(x->lines), steps = steps_of(x->depth), count = strips * steps;
  int64_t across = by_line ? PAIRS * PAIRS : PAIRS, distance = by_line ? PAIRS : STRIP;
  for (int64_t i = 0; i < count; i++) {
    int64_t strip = x->along ? i / steps : i % strips, step = x->along ? i % steps : i / strips;
    uint32_t *square = to + (strip * steps + step) * STRIP * PAIRS;
    pack_square(x, strip * STRIP, step * STEP, by_line, square, distance);
    pack_square(x, strip * STRIP + PAIRS, step * STEP, by_line, square + across, distance);
  }
}

/* ---- results --------------------------------------------------------------------------------- */

/* What C starts from. */
typedef enum start { NOTHING, BIAS, OLD } start;

/* `rows` rows of a strip of sums to where they belong. All but the rows and addresses are constants
 * where this is inlined. */
static inline __attribute__((always_inline)) void finish_strip(const ac_gemm *g, ac_dtype dtype,
                                                               start from, int64_t rows,
                                                               int64_t columns, const float *sums,
                                                               const float *bias, void *c) {
  const float alpha = g->alpha, beta = g->beta;
  for (int64_t i = 0; i < rows; i++, sums += STRIP) {
    float *floats = ac_element(c, dtype, i * g->ldc);
    uint16_t *halves = (uint16_t *)floats;
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) {
      float value = alpha * sums[j];
      if (from == BIAS) value += bias[j];
      if (from == OLD) value += beta * (dtype == AC_F32 ? floats[j] : ac_bf16_to_float(halves[j]));
      if (dtype == AC_F32) floats[j] = value;
      else halves[j] = ac_bf16_from_float(value);
    }
  }
}

static inline __attribute__((always_inline)) void finish_columns(const ac_gemm *g, int64_t rows,
                                                                 int64_t columns, const float *sums,
                                                                 const float *bias, void *c) {
  bool old = g->beta != 0.0f;
  if (g->c_dtype == AC_F32) {
    if (old) finish_strip(g, AC_F32, OLD, rows, columns, sums, NULL, c);
    else if (bias) finish_strip(g, AC_F32, BIAS, rows, columns, sums, bias, c);
    else finish_strip(g, AC_F32, NOTHING, rows, columns, sums, NULL, c);
  } else {
    if (old) finish_strip(g, AC_BF16, OLD, rows, columns, sums, NULL, c);
    else if (bias) finish_strip(g, AC_BF16, BIAS, rows, columns, sums, bias, c);
    else finish_strip(g, AC_BF16, NOTHING, rows, columns, sums, NULL, c);
  }
}

/* The strip of C at (row, column) from its sums. */
static void finish(const ac_gemm *g, int64_t row, int64_t column, const float *sums,
                   const float *bias) {
  int64_t rows = ac_min(STRIP, g->m - row), columns = ac_min(STRIP, g->n - column);
  void *c = ac_element(g->c, g->c_dtype, row * g->ldc + column);
  if (bias) bias += column;
  if (columns == STRIP) finish_columns(g, rows, STRIP, sums, bias, c);
  else finish_columns(g, rows, columns, sums, bias, c);
}

/* ---- the product ----------------------------------------------------------------------------- */

/* What a product is computed with: scratch, and the part that it is at. */
typedef struct work {
  const ac_dot_class *class;
  const ac_gemm *gemm;
  const float *bias;
  uint32_t *left, *right; /* packed: a block of op(A), a panel of op(B) */
  float *sums;
  int64_t row, column, rows, columns; /* the block of C */
  int64_t k, depth;
  bool wait; /* sums wait for the rest of k */
} work;

/* The columns [column, column + columns) of the block with all its rows, from packed operands. */
static void multiply_panel(const work *w, int64_t column, int64_t columns) {
  int64_t steps = steps_of(w->depth), packed = steps * STRIP * PAIRS;
  int64_t distance = w->wait ? strips_of(w->rows) * SUMS : SUMS;
  bool last = w->k + w->depth == w->gemm->k;
  for (int64_t i = 0; i < w->rows; i += STRIP) {
    float *sums = w->sums;
    if (w->wait) sums += (column - w->column) / STRIP * distance + i / STRIP * SUMS;
    for (int64_t j = 0; j < columns; j += STRIP)
      w->class->multiply(steps, (int)ac_min(STRIP, w->rows - i), (int)ac_min(STRIP, columns - j),
                         w->left + i / STRIP * packed, w->right + j / STRIP * packed,
                         sums + j / STRIP * distance, STRIP, w->k > 0);
    for (int64_t j = 0; last && j < columns; j += STRIP)
      finish(w->gemm, w->row + i, column + j, sums + j / STRIP * distance, w->bias);
  }
}

static void multiply_depth(const work *w) {
  operand left = left_of(w->gemm), right = right_of(w->gemm);
  operand block = part_of_operand(&left, w->row, w->rows, w->k, w->depth);
  pack(&block, true, w->left);
  for (int64_t column = w->column; column < w->column + w->columns; column += PANEL) {
    int64_t columns = ac_min(PANEL, w->column + w->columns - column);
    operand panel = part_of_operand(&right, column, columns, w->k, w->depth);
    pack(&panel, false, w->right);
    multiply_panel(w, column, columns);
  }
}

bool ac_cpu_gemm_in_pairs(const ac_cpu_context *context, const ac_gemm *g) {
  return context->dot && g->a_dtype == AC_BF16 && g->b_dtype == AC_BF16 && g->c_dtype != AC_F16 &&
         g->k > 0;
}

void ac_cpu_gemm_pairs(const ac_cpu_context *context, const ac_gemm *g, const float *bias,
                       void *scratch, uint64_t scratch_bytes) {
  blocks b = blocks_within(g, scratch_bytes);
  work w = {
      .class = context->dot, .gemm = g, .bias = bias, .left = scratch, .wait = b.depth < g->k};
  w.right = w.left + strips_of(b.rows) * packed_strip(&b);
  w.sums = (float *)(w.right + strips_of(panel_columns(&b)) * packed_strip(&b));
  ac_dot_begin(w.class);
  for (w.row = 0; w.row < g->m; w.row += b.rows)
    for (w.column = 0; w.column < g->n; w.column += b.columns)
      for (w.k = 0; w.k < g->k; w.k += b.depth) {
        w.rows = ac_min(b.rows, g->m - w.row);
        w.columns = ac_min(b.columns, g->n - w.column);
        w.depth = ac_min(b.depth, g->k - w.k);
        multiply_depth(&w);
      }
  ac_dot_end(w.class);
}
