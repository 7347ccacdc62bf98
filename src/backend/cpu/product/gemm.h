/* Matrix products on the CPU: what one is, how a team shares it out, and which code computes it. */
#ifndef AC_BACKEND_CPU_PRODUCT_GEMM_H
#define AC_BACKEND_CPU_PRODUCT_GEMM_H

#include "backend/cpu/shared/kernels.h"

/* One product C = alpha op(A) op(B) + beta C, row-major: C is [m, n], op(A) [m, k], op(B) [k, n];
 * `lda`, `ldb` and `ldc` are the distances of rows as stored, in elements. beta == 0 overwrites C
 * without reading it. Each operand has a float type of its own, f32 unless said; C is stored with
 * marks (ac_run_state.mark_flushed) if `mark`. With `round_b`, B is f32 and A bf16, which the
 * context's ac_dot_class multiplies, and B is rounded to bf16 for that. With `b_blocks`, B is in
 * blocks, and `b` is the first one; element `b_first` of these is its first one, and it is decoded
 * as it is packed, to floats or, where an ac_dot_class multiplies, to bf16. */
typedef struct ac_gemm {
  bool transpose_a, transpose_b, mark, round_b;
  int64_t m, n, k;
  float alpha, beta;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc;
  ac_dtype a_dtype, b_dtype, c_dtype;
  ac_blocks b_blocks;
  int64_t b_first;
} ac_gemm;

/* ---- shares of a team ------------------------------------------------------------------------ */

/* The rows [m0, m1) and columns [n0, n1) of C that are thread `part`'s of `parts`: tiles of a grid
 * as square as possible, so that the least is packed twice. They may be empty. */
typedef struct ac_gemm_tile {
  int64_t m0, m1, n0, n1;
} ac_gemm_tile;
ac_gemm_tile ac_gemm_split(int64_t m, int64_t n, int part, int parts);

/* The product restricted to a tile of C. */
ac_gemm ac_gemm_part(const ac_gemm *gemm, const ac_gemm_tile *tile);

/* ---- products -------------------------------------------------------------------------------- */

#define ac_cpu_gemm AC_CPU_NAME(ac_cpu_gemm)
#define ac_cpu_gemm_stored AC_CPU_NAME(ac_cpu_gemm_stored)
#define ac_cpu_gemm_scratch AC_CPU_NAME(ac_cpu_gemm_scratch)
#define ac_cpu_gemm_share AC_CPU_NAME(ac_cpu_gemm_share)

/* The product of f32 operands in the calling thread; where beta is 0, rows of C start from `bias`
 * if it is not NULL. */
void ac_cpu_gemm(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias);

/* The same for operands of any float type, with `scratch` of the calling thread's own. Its best
 * size is what ac_cpu_gemm_scratch returns for each thread of a team that divides a product: a
 * multiple of 64 bytes, 0 if all operands are f32. */
void ac_cpu_gemm_stored(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias,
                        void *scratch, uint64_t scratch_bytes);
uint64_t ac_cpu_gemm_scratch(const ac_cpu_context *context, int team, const ac_gemm *gemm);

/* What a factor is best stored in that an op computes to multiply it by one stored in `dtype`: in
 * bf16 where products of bf16 alone have instructions of their own, else in f32. */
static inline ac_dtype ac_cpu_factor_dtype(const ac_cpu_context *context, ac_dtype dtype) {
  return context->dot && dtype == AC_BF16 ? AC_BF16 : AC_F32;
}

/* The calling thread's share of it; `scratch` has so many bytes for each thread, in their order. */
void ac_cpu_gemm_share(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias,
                       void *scratch, uint64_t scratch_bytes, int thread, int team);

#endif
