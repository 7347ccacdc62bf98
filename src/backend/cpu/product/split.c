/* How a team shares out a product: each thread has a tile of C. */
#include "backend/cpu/product/gemm.h"

/* Part `index` of `count` of [0, size), cut at multiples of the kernels' tile if it is that long.
 */
static void cut(int64_t size, int64_t tile, int index, int count, int64_t *first, int64_t *last) {
  int64_t unit = size >= 2 * tile * count ? tile : 4;
  int64_t share = ac_ceil_div(ac_ceil_div(size, unit), count) * unit;
  *first = index * share < size ? index * share : size;
  *last = *first + share < size ? *first + share : size;
}

ac_gemm_tile ac_gemm_split(int64_t m, int64_t n, int part, int parts) {
  /* A thread packs its rows of op(A) and its columns of op(B): the sum is what it costs to split.
   */
  int best = 1;
  int64_t least = INT64_MAX;
  for (int rows = 1; rows <= parts; rows++) {
    if (parts % rows) continue;
    int64_t cost = ac_ceil_div(m, rows) + ac_ceil_div(n, parts / rows);
    if (cost < least) least = cost, best = rows;
  }
  ac_gemm_tile tile;
  cut(m, 12, part % best, best, &tile.m0, &tile.m1);
  cut(n, 32, part / best, parts / best, &tile.n0, &tile.n1);
  return tile;
}

ac_gemm ac_gemm_part(const ac_gemm *gemm, const ac_gemm_tile *tile) {
  ac_gemm part = *gemm;
  part.m = tile->m1 - tile->m0;
  part.n = tile->n1 - tile->n0;
  part.a = ac_element(gemm->a, gemm->a_dtype, tile->m0 * (gemm->transpose_a ? 1 : gemm->lda));
  const int64_t first = tile->n0 * (gemm->transpose_b ? gemm->ldb : 1);
  if (gemm->b_blocks) part.b_first += first;
  else part.b = ac_element(gemm->b, gemm->b_dtype, first);
  part.c = ac_element(gemm->c, gemm->c_dtype, tile->m0 * gemm->ldc + tile->n0);
  if (part.n == 0) part.m = 0;
  return part;
}
