/* Loading OpenBLAS, and calling it from our own threads.
 *
 * OpenBLAS chooses its kernels when it is loaded, by the CPU's model number; a model younger than
 * the library is taken for a much older one (0.3.21 runs SSE3 kernels on an Emerald Rapids Xeon, a
 * fifth of what its AVX-512 kernels reach, and AVX2 kernels on an AVX-512 CPU of AMD).
 * OPENBLAS_CORETYPE overrides that, but only at that moment. So the library is opened here, with
 * that variable set by what the CPU can do, unless the user set it. A process that had loaded
 * OpenBLAS already keeps the kernels it has. How it is opened is openblas.h's.
 *
 * Products that go to it (gemm.c keeps the small ones) run as one single-threaded call per thread
 * of our parallel regions, each on its own tile of C. OpenBLAS's own threading allocates memory in
 * every call and, in the pthread build, would run beside our threads. Its OpenMP build is
 * single-threaded inside a parallel region, or where the calling task may only start one thread;
 * the pthread build is told so once. */
#include "backend/cpu/product/blas.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/product/openblas.h"
#include "core/error.h"
#include "core/platform.h"

/* A single-threaded product packs op(A) into panels of all its rows by Q of k, and op(B) into
 * blocks of P columns by Q, in a buffer per thread of which only what is used becomes resident.
 * Rows are cut here, so that the panel stays in the cache and the buffer's size is known. Measured
 * for 0.3.21 on x86-64: P, Q = 448, 448 for SkylakeX, 640, 320 for Cooperlake, 320, 320 for Haswell
 * and Zen; the bound takes the largest of each. On AArch64 all cores stay within it but two, which
 * have 512, 1024. */
enum { ROWS_PER_CALL = 2048, LARGEST_P = 640, LARGEST_Q = 448 };
static const char *const deep_cores[] = {"tsv110", "emag8180"};
enum { DEEP_P = 512, DEEP_Q = 1024 };

static ac_blas blas;
static ac_once once;

static void set_variable(const char *name, const char *value) {
#ifdef _WIN32
  _putenv_s(name, value ? value : "");
#else
  if (value) setenv(name, value, 1);
  else unsetenv(name);
#endif
}

/* The core type whose float kernels use the widest vectors that the CPU has; "" where OpenBLAS
 * knows best. */
static const char *best_core(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return "";
}

static void describe_library(const ac_openblas *library) {
  if (!library->config || sscanf(library->config(), "OpenBLAS %31s", blas.version) != 1)
    blas.version[0] = 0;
  snprintf(blas.core, sizeof blas.core, "%s", library->core ? library->core() : "");
}

static void load(void) {
  const char *user = getenv("OPENBLAS_CORETYPE");
  ac_openblas library = {0};
  if (!user || !*user) {
    snprintf(blas.wanted, sizeof blas.wanted, "%s", best_core());
    if (blas.wanted[0]) set_variable("OPENBLAS_CORETYPE", blas.wanted);
  }
  bool opened = ac_openblas_open(&library);
  if (blas.wanted[0]) set_variable("OPENBLAS_CORETYPE", user ? "" : NULL);
  if (!opened) return;

  describe_library(&library);
  if (library.parallel && library.set_threads && library.parallel() == OPENBLAS_THREAD)
    library.set_threads(1);
  blas.sgemm = library.sgemm;
  blas.take_buffer = library.take_buffer;
  blas.return_buffer = library.return_buffer;
}

ac_status ac_blas_load(const ac_blas **result) {
  ac_call_once(&once, load);
  if (!blas.sgemm)
    return ac_fail(
        AC_ERROR_DEVICE,
        "cpu: OpenBLAS cannot be loaded: no libopenblas.so.0 with cblas_sgemm was found");
  *result = &blas;
  return AC_OK;
}

void ac_blas_reserve(const ac_blas *library, int threads) {
  enum { POOL = 64 }; /* more would reach the limit that Debian's OpenBLAS is built with */
  void *taken[POOL];
  if (!library->take_buffer || !library->return_buffer) return;
  if (threads > POOL) threads = POOL;
  for (int i = 0; i < threads; i++) taken[i] = library->take_buffer(0);
  for (int i = 0; i < threads; i++)
    if (taken[i]) library->return_buffer(taken[i]);
}

uint64_t ac_blas_bytes(int threads) {
  uint64_t floats = (ROWS_PER_CALL + LARGEST_P) * LARGEST_Q;
  for (size_t i = 0; i < sizeof deep_cores / sizeof *deep_cores; i++)
    if (!strcmp(blas.core, deep_cores[i])) floats = (ROWS_PER_CALL + DEEP_P) * DEEP_Q;
  return (uint64_t)threads * floats * sizeof(float);
}

void ac_blas_gemm(const ac_blas *library, const ac_gemm *g) {
  for (int64_t row = 0; row < g->m; row += ROWS_PER_CALL) {
    int64_t rows = g->m - row < ROWS_PER_CALL ? g->m - row : ROWS_PER_CALL;
    library->sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                   g->transpose_b ? CblasTrans : CblasNoTrans, (int)rows, (int)g->n, (int)g->k,
                   g->alpha, (const float *)g->a + (g->transpose_a ? row : row * g->lda),
                   (int)g->lda, g->b, (int)g->ldb, g->beta, (float *)g->c + row * g->ldc,
                   (int)g->ldc);
  }
}
