/* OpenBLAS, loaded at run time with the kernels that suit the CPU. */
#ifndef AC_BACKEND_CPU_PRODUCT_BLAS_H
#define AC_BACKEND_CPU_PRODUCT_BLAS_H

#include "backend/cpu/product/gemm.h"

/* cblas_sgemm, its enumerations as the integers that they are. */
typedef void ac_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

typedef struct ac_blas {
  ac_sgemm *sgemm;
  void *(*take_buffer)(int); /* NULL where OpenBLAS does not export its pool */
  void (*return_buffer)(void *);
  char version[32]; /* "0.3.21" */
  char core[32];    /* the core type of the kernels that run: "SkylakeX" */
  char wanted[32];  /* the core type asked for; "" if the user or OpenBLAS chose */
} ac_blas;

/* Loads OpenBLAS, once per process. The result lives as long as the process. */
ac_status ac_blas_load(const ac_blas **blas);

/* Maps the packing buffers that `threads` threads need at once. OpenBLAS maps one when a call finds
 * all others in use, so without this the first step with two overlapping threads would allocate.
 * Fails if there is not enough memory. */
ac_status ac_blas_reserve(const ac_blas *blas, int threads);

/* What OpenBLAS keeps resident at most for the products of `threads` threads: a bound from the
 * sizes of its blocks. */
uint64_t ac_blas_bytes(int threads);

/* Runs a product of f32 operands in the calling thread alone, where ac_cpu_parallel (kernels.h)
 * calls it. */
void ac_blas_gemm(const ac_blas *blas, const ac_gemm *gemm);

#endif
