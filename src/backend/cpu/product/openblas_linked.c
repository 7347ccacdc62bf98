/* OpenBLAS as a part of the program. It has chosen its kernels in a constructor, before anything
 * could set OPENBLAS_CORETYPE, so it is made to choose again; nothing has been computed yet. Its
 * functions for that are no public interface, and builds for a single CPU have none of them. */
#include "backend/cpu/product/openblas.h"

#include <cblas.h>

void gotoblas_dynamic_quit(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));
void *blas_memory_alloc(int) __attribute__((weak));
void blas_memory_free(void *) __attribute__((weak));

static void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
  cblas_sgemm((CBLAS_ORDER)order, (CBLAS_TRANSPOSE)transpose_a, (CBLAS_TRANSPOSE)transpose_b, m, n,
              k, alpha, a, lda, b, ldb, beta, c, ldc);
}

bool ac_openblas_open(ac_openblas *library) {
  if (gotoblas_dynamic_quit && gotoblas_dynamic_init) {
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
  }
  *library = (ac_openblas){
      .config = openblas_get_config,
      .core = openblas_get_corename,
      .parallel = openblas_get_parallel,
      .set_threads = openblas_set_num_threads,
      .sgemm = sgemm,
      .take_buffer = blas_memory_alloc,
      .return_buffer = blas_memory_free,
  };
  return true;
}
