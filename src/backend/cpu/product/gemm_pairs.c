/* Products of bf16 in one thread by the instructions that the CPU has for them (dot.h):
 *
 *   for each block of rows and of columns of C
 *     for each DEPTH of k
 *       for each PANEL of the columns
 *         pack the panel of op(B)
 *         for each strip of the rows
 *           in the first panel, pack the strip of op(A)
 *           for each part of the depth (ac_dot_class.steps)
 *             for each strip of the panel's columns: sums = or += their product
 *             where k ends: C = sums (+ C), rounded once
 *
 * The packed block and the panel stay in the second-level cache. If all of k is one DEPTH, a block
 * has all columns, so that op(A) is packed once, and sums are written as they come. Otherwise the
 * sums of a block wait in scratch. Packing costs more than the products if a packed element is used
 * only a hundred times, so blocks are as large as scratch allows.
 *
 * During products the operands that are packed next are prefetched, and so is C: packing would take
 * three times as long if it waited for memory.
 *
 * Operands lie along k (the elements of a row of op(A), or of a column of op(B), are neighbours) or
 * across k. In both cases sixteen lines by sixteen pairs are read into sixteen vectors, turned if
 * they lie across, and written. */
#include "backend/cpu/product/gemm_pairs.h"

#include "backend/cpu/product/pairs.h"
#include "core/half.h"

/* The most of k, elements of a packed block, columns of a panel and sums that wait. */
enum {
  DEPTH = 24 * STEP,
  LEFT = 512 * 512,
  PANEL = 4 * STRIP,
  AREA = 512 * 512,
  SUMS = STRIP * STRIP
};

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Parts of the product that scratch has room for. */
typedef struct blocks {
  int64_t depth, rows, columns;
} blocks;

/* The length of as few equal parts as can be of at most `most`, in multiples of `unit`. */
static int64_t part_of(int64_t size, int64_t most, int64_t unit) {
  return ac_ceil_div(ac_ceil_div(size, ac_ceil_div(size, most)), unit) * unit;
}

static blocks blocks_of(const ac_gemm *g, int64_t left, int64_t area) {
  blocks b = {part_of(ac_larger(g->k, 1), DEPTH, STEP), 0, g->n};
  b.rows = part_of(g->m, ac_larger(left / b.depth / STRIP, 1) * STRIP, STRIP);
  if (b.depth < g->k) b.columns = part_of(g->n, ac_larger(area / b.rows / STRIP, 1) * STRIP, STRIP);
  return b;
}

static int64_t packed_strip(const blocks *b) {
  return steps_of(b->depth) * STRIP * PAIRS;
}

static int64_t panel_columns(const blocks *b) {
  return ac_smaller(PANEL, strips_of(b->columns) * STRIP);
}

/* Bytes with so many elements of a packed block, and with the strips of sums that wait if k has
 * more than one depth. */
static uint64_t bytes_with(const ac_gemm *g, const blocks *b, int64_t left, int64_t waiting) {
  int64_t panel = strips_of(panel_columns(b)), sums = b->depth < g->k ? waiting : panel;
  return (uint64_t)(left / 2 + panel * packed_strip(b) + sums * SUMS) * sizeof(float);
}

static uint64_t bytes_of(const ac_gemm *g, const blocks *b) {
  int64_t strips = strips_of(b->rows);
  return bytes_with(g, b, 2 * strips * packed_strip(b), strips * strips_of(b->columns));
}

/* Equal parts may be longer where the whole is shorter, so this counts the longest that there are:
 * no product takes more than a larger one. */
uint64_t ac_cpu_gemm_pairs_scratch(const ac_gemm *g) {
  blocks most = {ac_smaller(g->k, DEPTH), g->m, g->n};
  int64_t strips = strips_of(g->m);
  return bytes_with(g, &most, ac_smaller(2 * strips * packed_strip(&most), LEFT),
                    ac_smaller(strips * strips_of(g->n), AREA / SUMS));
}

/* A team smaller than the context's has larger products than its scratch was made for. */
static blocks blocks_within(const ac_gemm *g, uint64_t room) {
  int64_t left = LEFT, area = AREA;
  blocks b = blocks_of(g, left, area);
  while (bytes_of(g, &b) > room && (b.rows > STRIP || area > STRIP * STRIP)) {
    if (area > b.rows * STRIP) area /= 2;
    else left /= 2;
    b = blocks_of(g, left, area);
  }
  return b;
}

/* ---- packing --------------------------------------------------------------------------------- */

static operand left_of(const ac_gemm *g) {
  return (operand){.data = g->a,
                   .dtype = AC_BF16,
                   .distance = g->lda,
                   .along = !g->transpose_a,
                   .lines = g->m,
                   .depth = g->k};
}

static operand right_of(const ac_gemm *g) {
  return (operand){.data = g->b,
                   .dtype = g->b_dtype,
                   .distance = g->ldb,
                   .along = g->transpose_b,
                   .lines = g->n,
                   .depth = g->k,
                   .blocks = g->b_blocks,
                   .first = g->b_first};
}

/* Packs strips of `x` one after the other. Neighbours in memory are read in a row: steps of a
 * strip, or a step of all strips. */
static void pack(const operand *x, bool by_line, uint32_t *to) {
  int64_t strips = strips_of(x->lines), steps = steps_of(x->depth), count = strips * steps;
  for (int64_t i = 0; i < count; i++) {
    int64_t strip = x->along ? i / steps : i % strips, step = x->along ? i % steps : i / strips;
    pack_step(x, strip * STRIP, step * STEP, by_line, to + (strip * steps + step) * STRIP * PAIRS);
  }
}

/* Part `index` of `count` of the cache lines that `x` lies in. Blocks are so few bytes that nothing
 * is gained. */
static ac_dot_lines lines_of(const operand *x, int64_t index, int64_t count) {
  if (x->blocks) return (ac_dot_lines){0};
  const int64_t rows = x->along ? x->lines : x->depth, columns = x->along ? x->depth : x->lines;
  const int64_t bytes = ac_element_bytes(x->dtype);
  const int64_t across = ac_ceil_div(columns * bytes, AC_DOT_LINE), all = rows * across;
  const int64_t share = ac_ceil_div(all, count), first = ac_smaller(share * index, all);
  const int64_t row = across ? first / across : 0, distance = x->distance * bytes;
  return (ac_dot_lines){(const char *)x->data + row * distance, distance, across,
                        first - row * across, ac_smaller(share, all - first)};
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
  int64_t rows = ac_smaller(STRIP, g->m - row), columns = ac_smaller(STRIP, g->n - column);
  void *c = ac_element(g->c, g->c_dtype, row * g->ldc + column);
  if (bias) bias += column;
  if (columns == STRIP) finish_columns(g, rows, STRIP, sums, bias, c);
  else finish_columns(g, rows, columns, sums, bias, c);
}

/* ---- the product ----------------------------------------------------------------------------- */

/* What is multiplied at a time: all rows of a block with a panel of its columns, over one depth. */
typedef struct place {
  int64_t row, column, k, panel;
} place;

/* What a product is computed with, and where it is. */
typedef struct work {
  const ac_dot_class *class;
  const ac_gemm *gemm;
  const float *bias;
  uint32_t *left, *right; /* packed: a block of op(A), a panel of op(B) */
  float *sums;
  blocks blocks;
  place at, next; /* next.row == m: there is none */
} work;

static place place_after(const work *w) {
  const ac_gemm *g = w->gemm;
  const blocks *b = &w->blocks;
  place p = w->at;
  p.panel += PANEL;
  if (p.panel < ac_smaller(p.column + b->columns, g->n)) return p;
  p.panel = p.column;
  p.k += b->depth;
  if (p.k < g->k) return p;
  p.k = 0;
  p.panel = p.column += b->columns;
  if (p.column < g->n) return p;
  p.panel = p.column = 0;
  p.row = ac_smaller(p.row + b->rows, g->m);
  return p;
}

/* At most `most` rows of op(A) from the block's row `first` on. */
static operand left_part(const work *w, const place *p, int64_t first, int64_t most) {
  operand left = left_of(w->gemm);
  int64_t rows = ac_smaller(w->blocks.rows, w->gemm->m - p->row);
  first = ac_smaller(first, rows);
  return part_of_operand(&left, p->row + first, ac_smaller(rows - first, most), p->k,
                         ac_smaller(w->blocks.depth, w->gemm->k - p->k));
}

static operand panel_of(const work *w, const place *p) {
  operand right = right_of(w->gemm);
  int64_t end = ac_smaller(p->column + w->blocks.columns, w->gemm->n);
  return part_of_operand(&right, p->panel, ac_smaller(PANEL, end - p->panel), p->k,
                         ac_smaller(w->blocks.depth, w->gemm->k - p->k));
}

/* The lines of the strip of C at (row, column), in the rows that there are. */
static ac_dot_lines result_lines(const ac_gemm *g, int64_t row, int64_t column) {
  const int64_t rows = ac_smaller(STRIP, g->m - row), bytes = (int64_t)ac_dtype_bytes(g->c_dtype);
  const int64_t across = STRIP * bytes / AC_DOT_LINE;
  return (ac_dot_lines){ac_element(g->c, g->c_dtype, row * g->ldc + column), g->ldc * bytes, across,
                        0, rows * across};
}

static void multiply_panel(const work *w) {
  const ac_gemm *g = w->gemm;
  const place *at = &w->at;
  const operand panel = panel_of(w, at), next = panel_of(w, &w->next);
  const int64_t steps = steps_of(panel.depth), packed = steps * STRIP * PAIRS;
  const int64_t rows = ac_smaller(w->blocks.rows, g->m - at->row), columns = panel.lines;
  const bool wait = w->blocks.depth < g->k, last = at->k + panel.depth == g->k;
  const bool first = at->panel == at->column, more = w->next.row < g->m;
  const int64_t distance = wait ? strips_of(rows) * SUMS : SUMS, across = strips_of(columns);
  const int64_t part = part_of(steps, w->class->steps ? w->class->steps : steps, 1);
  const int64_t products = ac_ceil_div(steps, part) * across; /* with a strip of the rows */
  pack(&panel, false, w->right);
  for (int64_t i = 0; i < rows; i += STRIP) {
    uint32_t *strip = w->left + i / STRIP * packed;
    float *sums = w->sums;
    operand beneath = left_part(w, at, i + STRIP, STRIP);
    if (first) {
      operand here = left_part(w, at, i, STRIP);
      pack(&here, true, strip);
    }
    if (wait) sums += (at->panel - at->column) / STRIP * distance + i / STRIP * SUMS;
    for (int64_t n = 0; n < products; n++) {
      const int64_t j = n % across, step = n / across * part, at_step = step * STRIP * PAIRS;
      const bool ends = last && step + part >= steps;
      ac_dot_fetch fetch = {0};
      if (ends) fetch.written = result_lines(g, at->row + i, at->panel + j * STRIP);
      if (first && beneath.lines) fetch.read[0] = lines_of(&beneath, n, products);
      if (more)
        fetch.read[1] = lines_of(&next, i / STRIP * products + n, strips_of(rows) * products);
      w->class->multiply(ac_smaller(part, steps - step), (int)ac_smaller(STRIP, rows - i),
                         (int)ac_smaller(STRIP, columns - j * STRIP), strip + at_step,
                         w->right + j * packed + at_step, sums + j * distance, STRIP,
                         at->k > 0 || step > 0, &fetch);
      if (ends) finish(g, at->row + i, at->panel + j * STRIP, sums + j * distance, w->bias);
    }
  }
}

bool ac_cpu_gemm_in_pairs(const ac_cpu_context *context, const ac_gemm *g) {
  return context->dot && g->a_dtype == AC_BF16 &&
         (g->b_dtype == AC_BF16 || g->round_b || g->b_blocks) && g->c_dtype != AC_F16 && g->k > 0;
}

void ac_cpu_gemm_pairs(const ac_cpu_context *context, const ac_gemm *g, const float *bias,
                       void *scratch, uint64_t scratch_bytes) {
  work w = {.class = context->dot, .gemm = g, .bias = bias, .left = scratch};
  w.blocks = blocks_within(g, scratch_bytes);
  w.right = w.left + strips_of(w.blocks.rows) * packed_strip(&w.blocks);
  w.sums = (float *)(w.right + strips_of(panel_columns(&w.blocks)) * packed_strip(&w.blocks));
  ac_dot_begin(w.class);
  for (; w.at.row < g->m; w.at = w.next) {
    w.next = place_after(&w);
    multiply_panel(&w);
  }
  ac_dot_end(w.class);
}
