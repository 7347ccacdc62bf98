/* Matrix products of the sizes that layers of small models have, in one thread.
 *
 * OpenBLAS packs both operands into buffers before it multiplies, which pays when each packed
 * element is used many hundred times. Here only op(B) is packed, in panels of K_BLOCK x COLUMNS
 * that stay in the first-level cache while they are multiplied with all rows of op(A), which are
 * not copied:
 *
 *   for each K_BLOCK of k
 *     for each ROWS_BLOCK of rows, so that op(A) stays in the second-level cache
 *       for each COLUMNS of C
 *         pack the panel
 *         for each ROWS of the block: tile of C = or += rows of op(A) x panel
 *
 * A tile of C, ROWS by two vectors, stays in registers; the inner loop is mostly their
 * multiply-adds. The first pass over k starts from zero, from C or from a bias. Sums run in the
 * order of k within a block and of blocks, so they depend neither on the tile nor on the split over
 * threads.
 *
 * It needs vectors of known size and fused multiply-add. Without them everything goes to OpenBLAS,
 * and so do large products, where OpenBLAS is faster. */
#include "backend/cpu/product/gemm.h"

#include "backend/cpu/product/blas.h"
#include "backend/cpu/product/registers.h"
#include "backend/cpu/product/transpose.h"

#if defined(AC_CPU_HAVE_SHUFFLES) && \
    (defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__)) || defined(__aarch64__))
#define HAVE_VECTORS
#endif

#ifdef HAVE_VECTORS

enum { K_BLOCK = 256, ROWS_BLOCK = 768 };

/* ---- packing --------------------------------------------------------------------------------- */

/* panel[k][j] = B[k][j], columns beyond `width` zero. */
static void pack_plain(float *panel, const float *b, int64_t ldb, int64_t depth, int64_t width) {
  if (width == COLUMNS) {
    for (int64_t k = 0; k < depth; k++)
      memcpy(panel + k * COLUMNS, b + k * ldb, COLUMNS * sizeof *b);
    return;
  }
  for (int64_t k = 0; k < depth; k++)
    for (int64_t j = 0; j < COLUMNS; j++)
      panel[k * COLUMNS + j] = j < width ? b[k * ldb + j] : 0.0f;
}

/* panel[k][j] = B[j][k] */
static void pack_transposed(float *panel, const float *b, int64_t ldb, int64_t depth,
                            int64_t width) {
  transpose_rows(b, ldb, width, depth, panel, COLUMNS);
  clear_columns(panel, depth, width, COLUMNS);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Where a tile goes, and what it is added to: rows of `from`, which is C, or one row again and
 * again (a step of 0). */
typedef struct target {
  float *c;
  const float *from;
  int64_t ldc, from_step, width;
  float alpha;
} target;

static const float zeros[COLUMNS];

/* The product's rows as they lie in `values`, where a tile of C has fewer columns than a panel. */
static void finish_narrow(const target *t, int rows, const float *values) {
  for (int i = 0; i < rows; i++)
    for (int64_t j = 0; j < t->width; j++)
      t->c[i * t->ldc + j] = t->from[i * t->from_step + j] + t->alpha * values[i * COLUMNS + j];
}

/* `rows` and one of the steps are constants where this is inlined. C, where it is added to, is
 * asked for ahead. */
INLINE void multiply(int rows, int64_t depth, const float *a, int64_t step_row, int64_t step_k,
                     const float *panel, const target *t) {
  vector sum[ROWS][2];
  for (int i = 0; i < rows && t->from_step; i++) __builtin_prefetch(t->from + i * t->from_step);
  multiply_tile(false, rows, 2, depth, a, NULL, step_row, step_k, panel, NULL, sum);
  float narrow[ROWS * COLUMNS];
  bool whole = t->width == COLUMNS;
  float *c = whole ? t->c : narrow;
  const float *from = whole ? t->from : zeros;
  int64_t ldc = whole ? t->ldc : COLUMNS, from_step = whole ? t->from_step : 0;
  float alpha = whole ? t->alpha : 1.0f;
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    store(c + i * ldc, load(from + i * from_step) + alpha * sum[i][0]);
    store(c + i * ldc + VECTOR, load(from + i * from_step + VECTOR) + alpha * sum[i][1]);
  }
  if (!whole) finish_narrow(t, rows, narrow);
}

#define TILE(rows)                                              \
  case rows:                                                    \
    if (transposed) multiply(rows, depth, a, 1, lda, panel, t); \
    else multiply(rows, depth, a, lda, 1, panel, t);            \
    break;

static void multiply_rows(int rows, int64_t depth, const float *a, int64_t lda, bool transposed,
                          const float *panel, const target *t) {
  switch (rows) { AC_CPU_TILE_HEIGHTS(TILE) }
}

/* Rows of C from one panel. `a` is the block's first row of op(A), `t` the first row's target. */
static void multiply_panel(const ac_gemm *g, int64_t rows, int64_t depth, const float *a,
                           const float *panel, target t) {
  ac_cpu_tiles tiles = ac_cpu_tiles_of(rows, ROWS);
  for (int64_t tile = 0; tile < tiles.count; tile++) {
    int height = ac_cpu_tile_height(&tiles, tile);
    multiply_rows(height, depth, a, g->lda, g->transpose_a, panel, &t);
    a += g->transpose_a ? height : height * g->lda;
    t.c += height * t.ldc;
    t.from += height * t.from_step;
  }
}

/* What rows [k, k + depth) of op(B) add to rows [first, first + rows) of C. */
static void multiply_block(const ac_gemm *g, int64_t first, int64_t rows, int64_t k, int64_t depth,
                           const float *bias) {
  _Alignas(64) float panel[K_BLOCK * COLUMNS];
  const float *a = (const float *)g->a + (g->transpose_a ? k * g->lda + first : first * g->lda + k);
  const float *b = g->b;
  float *c = (float *)g->c + first * g->ldc;
  for (int64_t column = 0; column < g->n; column += COLUMNS) {
    target t = {.c = c + column,
                .from = bias ? bias + column : zeros,
                .ldc = g->ldc,
                .width = ac_smaller(COLUMNS, g->n - column),
                .alpha = g->alpha};
    if (k > 0 || g->beta != 0.0f) t.from = t.c, t.from_step = t.ldc;
    if (g->transpose_b) pack_transposed(panel, b + column * g->ldb + k, g->ldb, depth, t.width);
    else pack_plain(panel, b + k * g->ldb + column, g->ldb, depth, t.width);
    multiply_panel(g, rows, depth, a, panel, t);
  }
}

static void multiply_small(const ac_gemm *g, const float *bias) {
  for (int64_t k = 0; k < g->k; k += K_BLOCK)
    for (int64_t row = 0; row < g->m; row += ROWS_BLOCK)
      multiply_block(g, row, ac_smaller(ROWS_BLOCK, g->m - row), k, ac_smaller(K_BLOCK, g->k - k),
                     bias);
}

/* Measured: from about 2^27 multiplications on, OpenBLAS's second level of blocking pays. It pays
 * earlier for a transposed A with rows that lie far apart, and with few rows or columns. */
static bool is_small(const ac_gemm *g) {
  return (g->beta == 0.0f || g->beta == 1.0f) && g->m >= 4 && g->n >= 24 &&
         (double)g->m * (double)g->n * (double)g->k <= 0x1p27 && !(g->transpose_a && g->lda > 512);
}

#else

static bool is_small(const ac_gemm *g) {
  (void)g;
  return false;
}

static void multiply_small(const ac_gemm *g, const float *bias) {
  (void)g, (void)bias;
}

#endif

void ac_cpu_gemm(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias) {
  if (gemm->m <= 0 || gemm->n <= 0) return;
  if (is_small(gemm)) {
    multiply_small(gemm, bias);
    return;
  }
  ac_gemm started = *gemm;
  for (int64_t i = 0; bias && i < gemm->m; i++)
    memcpy((float *)gemm->c + i * gemm->ldc, bias, (size_t)gemm->n * sizeof *bias);
  if (bias) started.beta = 1.0f;
  ac_blas_gemm(context->blas, &started);
}
