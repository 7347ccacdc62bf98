/* OpenBLAS, loaded at run time with the kernels that suit the CPU, and matrix products split over
 * the threads of a parallel region. */
#ifndef AC_BACKEND_CPU_BLAS_H
#define AC_BACKEND_CPU_BLAS_H

#include <accrue/base.h>

/* One product C = alpha op(A) op(B) + beta C, row-major: C is [m, n], op(A) [m, k], op(B) [k, n];
 * `lda`, `ldb` and `ldc` are the distances of rows as stored, in elements. beta == 0 overwrites C
 * without reading it. Each operand has a float type of its own, f32 unless said; C is stored with
 * marks (ac_run_state.mark_flushed) if `mark`. */
typedef struct ac_gemm {
  bool transpose_a, transpose_b, mark;
  int64_t m, n, k;
  float alpha, beta;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc;
  ac_dtype a_dtype, b_dtype, c_dtype;
} ac_gemm;

/* ac_dtype_bytes of an operand's type without a call, which in an inner loop would cost more than
 * what is done to the element. */
_Static_assert(AC_DTYPE_COUNT == 5, "a new dtype");
static inline size_t ac_element_bytes(ac_dtype dtype) {
  return dtype == AC_U8 ? 1 : dtype == AC_F16 || dtype == AC_BF16 ? 2 : 4;
}

/* The address of an operand's element; by integers, for it may stand for one that is elsewhere. */
static inline void *ac_element(const void *base, ac_dtype dtype, int64_t index) {
  return (void *)((uintptr_t)base + (uintptr_t)index * ac_element_bytes(dtype));
}

/* cblas_sgemm, its enumerations as the integers that they are. */
typedef void ac_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

typedef struct ac_blas {
  ac_sgemm *sgemm;
  void *(*take_buffer)(int); /* NULL where OpenBLAS does not export its pool */
  void (*return_buffer)(void *);
  char version[32]; /* "0.3.21" */
  char core[32];    /* whose kernels run: "SkylakeX" */
  char wanted[32];  /* the core type asked for; "" if the user or OpenBLAS chose */
} ac_blas;

/* Loads OpenBLAS, once per process. The result lives as long as the process. */
ac_status ac_blas_load(const ac_blas **blas);

/* Maps the packing buffers that `threads` threads need at once. OpenBLAS maps one whenever a call
 * finds all others in use, so without this the first step in which two threads happen to overlap
 * would allocate. */
void ac_blas_reserve(const ac_blas *blas, int threads);

/* What OpenBLAS keeps resident at most for the products of `threads` threads: a bound from the
 * sizes of its blocks. */
uint64_t ac_blas_bytes(int threads);

/* Runs a product of f32 operands in the calling thread alone, where ac_cpu_parallel (kernels.h)
 * calls it. */
void ac_blas_gemm(const ac_blas *blas, const ac_gemm *gemm);

/* The rows [m0, m1) and columns [n0, n1) of C that are thread `part`'s of `parts`: tiles of a grid
 * as square as possible, so that the least is packed twice. They may be empty. */
typedef struct ac_gemm_tile {
  int64_t m0, m1, n0, n1;
} ac_gemm_tile;
ac_gemm_tile ac_gemm_split(int64_t m, int64_t n, int part, int parts);

/* The product restricted to a tile of C. */
ac_gemm ac_gemm_part(const ac_gemm *gemm, const ac_gemm_tile *tile);

#endif
