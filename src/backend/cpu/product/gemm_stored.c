/* Products of operands stored in 16 bits, in one thread. Products of bf16 alone use the CPU's own
 * instructions, if it has them (gemm_pairs.c). All others are products of floats on blocks:
 *
 *   for each ROWS x COLUMNS block of C, in floats in scratch
 *     for each DEPTH of k
 *       convert the blocks of op(A) and op(B)
 *       C = or += their product
 *     convert the block of C
 *
 * so that sums run over all of k in floats and are rounded once. An element of A is converted once
 * for each COLUMNS of C and one of B once for each ROWS. That costs very little compared to the
 * multiplications that it is used in. Larger blocks are hardly faster. Small products use narrower
 * blocks, so that scratch stays below what 16 bits save. k is cut in the same places for every size
 * of a block. So the bits of the result depend on that size only if a block at the edge has too few
 * rows or columns for gemm.c and goes to OpenBLAS, or if all blocks go there, because OpenBLAS has
 * its own order of sums. Operands in f32 are not copied. Those of B that are in blocks are decoded
 * in the place of a conversion. */
#include "backend/cpu/product/few_rows.h"
#include "backend/cpu/product/gemm_pairs.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/decode.h"

enum { ROWS = 240, COLUMNS = 256, FEW_COLUMNS = 128, DEPTH = 256, ROW_UNIT = 12, COLUMN_UNIT = 32 };

/* Up to this many multiplications a product is small. */
static const double small_product = 0x1p24;

/* Rows of blocks are an odd number of cache lines apart: a power of two would put them all in the
 * same sets of the cache. */
static int64_t stride(int64_t columns) {
  return (ac_ceil_div(columns, AC_CPU_LINE) | 1) * AC_CPU_LINE;
}

/* Length of the equal parts, multiples of `unit`, that `size` is cut into. */
static int64_t part_of(int64_t size, int64_t parts, int64_t unit) {
  return ac_ceil_div(ac_ceil_div(size, parts), unit) * unit;
}

/* The same for as few parts as can be of at most `most`. */
static int64_t part_within(int64_t size, int64_t most, int64_t unit) {
  return ac_smaller(most, part_of(size, ac_ceil_div(size, most), unit));
}

static int64_t block_floats(ac_dtype dtype, int64_t rows, int64_t columns) {
  return dtype == AC_F32 ? 0 : rows * stride(columns);
}

/* The most rows and columns of a block of C, and floats in scratch of one of op(A), as stored, of
 * op(B) and of C. */
typedef struct blocks {
  int64_t rows, columns, a, b, c;
} blocks;

static blocks blocks_of(const ac_gemm *g, int64_t rows, int64_t columns) {
  int64_t m = ac_smaller(g->m, rows), n = ac_smaller(g->n, columns), k = ac_smaller(g->k, DEPTH);
  return (blocks){m, n, block_floats(g->a_dtype, g->transpose_a ? k : m, g->transpose_a ? m : k),
                  block_floats(g->b_dtype, g->transpose_b ? n : k, g->transpose_b ? k : n),
                  block_floats(g->c_dtype, m, n)};
}

static uint64_t bytes_of(const blocks *s) {
  return (uint64_t)(s->a + s->b + s->c) * sizeof(float);
}

static blocks best_blocks(const ac_gemm *g) {
  bool small = (double)g->m * (double)g->n * (double)g->k <= small_product;
  return blocks_of(g, ROWS, small ? FEW_COLUMNS : COLUMNS);
}

/* The best blocks that `room` bytes hold. A team smaller than the context's has larger tiles than
 * its scratch was made for. */
static blocks blocks_within(const ac_gemm *g, uint64_t room) {
  blocks s = best_blocks(g);
  while (bytes_of(&s) > room)
    s = s.rows > s.columns ? blocks_of(g, s.rows / 2, s.columns)
                           : blocks_of(g, s.rows, ac_ceil_div(s.columns, 2));
  return s;
}

static bool all_floats(const ac_gemm *g) {
  return g->a_dtype == AC_F32 && g->b_dtype == AC_F32 && g->c_dtype == AC_F32;
}

static uint64_t best_scratch(const ac_cpu_context *context, const ac_gemm *g) {
  if (ac_cpu_gemm_in_pairs(context, g)) return ac_cpu_gemm_pairs_scratch(g);
  blocks s = best_blocks(g);
  return bytes_of(&s);
}

/* The largest scratch of all grids that the team could divide the product by (ac_gemm_split uses
 * one of them): if only the chosen one counted, a larger product that is divided differently could
 * need less. */
uint64_t ac_cpu_gemm_scratch(const ac_cpu_context *context, int team, const ac_gemm *gemm) {
  uint64_t most = 0;
  if (all_floats(gemm)) return 0;
  for (int parts = 1; parts <= team; parts++) {
    if (team % parts) continue;
    ac_gemm tile = *gemm;
    tile.m = ac_smaller(gemm->m, part_of(gemm->m, parts, ROW_UNIT));
    tile.n = ac_smaller(gemm->n, part_of(gemm->n, team / parts, COLUMN_UNIT));
    uint64_t bytes = best_scratch(context, &tile);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* The block of `rows` by `columns` from (row, column) on of a stored matrix, as floats. */
static const float *floats_of(const void *x, ac_dtype dtype, int64_t *ld, int64_t row,
                              int64_t column, int64_t rows, int64_t columns, float *scratch) {
  const void *from = ac_element(x, dtype, row * *ld + column);
  if (dtype == AC_F32) return from;
  ac_cpu_widen_rows(dtype, from, *ld, scratch, stride(columns), rows, columns);
  *ld = stride(columns);
  return scratch;
}

/* The same of B. */
static const float *floats_of_b(const ac_gemm *g, int64_t *ld, int64_t row, int64_t column,
                                int64_t rows, int64_t columns, float *scratch) {
  if (!g->b_blocks) return floats_of(g->b, g->b_dtype, ld, row, column, rows, columns, scratch);
  *ld = stride(columns);
  for (int64_t i = 0; i < rows; i++)
    ac_cpu_decode_from(g->b_blocks, g->b, g->b_first + (row + i) * g->ldb + column, columns,
                       scratch + i * *ld);
  return scratch;
}

/* What [k, k + depth) adds to the block of C. */
static void multiply_depth(const ac_cpu_context *context, const ac_gemm *g, const ac_gemm *block,
                           const blocks *s, int64_t row, int64_t column, int64_t k,
                           const float *bias, float *scratch) {
  ac_gemm product = *block;
  int64_t depth = product.k = ac_smaller(DEPTH, g->k - k);
  product.a = g->transpose_a
                  ? floats_of(g->a, g->a_dtype, &product.lda, k, row, depth, block->m, scratch)
                  : floats_of(g->a, g->a_dtype, &product.lda, row, k, block->m, depth, scratch);
  product.b = g->transpose_b
                  ? floats_of_b(g, &product.ldb, column, k, block->n, depth, scratch + s->a)
                  : floats_of_b(g, &product.ldb, k, column, depth, block->n, scratch + s->a);
  if (k > 0) product.beta = 1;
  ac_cpu_gemm(context, &product, k > 0 ? NULL : bias);
}

/* The block of C at (row, column), which `block` has the size of. */
static void multiply_block(const ac_cpu_context *context, const ac_gemm *g, ac_gemm block,
                           const blocks *s, int64_t row, int64_t column, const float *bias,
                           float *scratch) {
  void *c = ac_element(g->c, g->c_dtype, row * g->ldc + column);
  block.c = c;
  if (g->c_dtype != AC_F32) {
    block.c = scratch + s->a + s->b;
    block.ldc = stride(block.n);
    if (g->beta != 0.0f)
      ac_cpu_widen_rows(g->c_dtype, c, g->ldc, block.c, block.ldc, block.m, block.n);
  }
  for (int64_t k = 0; k < g->k; k += DEPTH)
    multiply_depth(context, g, &block, s, row, column, k, bias ? bias + column : NULL, scratch);
  if (g->c_dtype != AC_F32)
    ac_cpu_narrow_rows(g->c_dtype, g->mark, block.c, block.ldc, c, g->ldc, block.m, block.n);
}

void ac_cpu_gemm_stored(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias,
                        void *scratch, uint64_t scratch_bytes) {
  if (gemm->m <= 0 || gemm->n <= 0) return;
  if (all_floats(gemm)) {
    ac_cpu_gemm(context, gemm, bias);
    return;
  }
  if (ac_cpu_gemm_in_pairs(context, gemm)) {
    ac_cpu_gemm_pairs(context, gemm, bias, scratch, scratch_bytes);
    return;
  }
  ac_gemm block = *gemm;
  block.a_dtype = block.b_dtype = block.c_dtype = AC_F32;
  block.b_blocks = AC_BLOCKS_NONE;
  blocks s = blocks_within(gemm, scratch_bytes);
  int64_t rows = part_within(gemm->m, s.rows, ROW_UNIT);
  int64_t columns = part_within(gemm->n, s.columns, COLUMN_UNIT);
  for (int64_t row = 0; row < gemm->m; row += rows)
    for (int64_t column = 0; column < gemm->n; column += columns) {
      block.m = ac_smaller(rows, gemm->m - row);
      block.n = ac_smaller(columns, gemm->n - column);
      multiply_block(context, gemm, block, &s, row, column, bias, scratch);
    }
}

void ac_cpu_gemm_share(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias,
                       void *scratch, uint64_t scratch_bytes, int thread, int team) {
  /* Sums in pairs have another order, which their class defines. */
  const bool few = ac_cpu_has_few_rows(gemm) && !ac_cpu_gemm_in_pairs(context, gemm);
  ac_gemm_tile tile = {0, gemm->m, 0, 0};
  if (few) ac_cpu_share(gemm->n, AC_CPU_LINE, thread, team, &tile.n0, &tile.n1);
  else tile = ac_gemm_split(gemm->m, gemm->n, thread, team);
  ac_gemm part = ac_gemm_part(gemm, &tile);
  if (few) {
    ac_cpu_few_rows(&part, bias ? bias + tile.n0 : NULL);
    return;
  }
  ac_cpu_gemm_stored(context, &part, bias ? bias + tile.n0 : NULL,
                     (char *)scratch + (uint64_t)thread * scratch_bytes, scratch_bytes);
}
