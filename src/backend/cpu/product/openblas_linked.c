/* OpenBLAS as a part of the program. It has chosen its kernels in a constructor, before anything
 * could set OPENBLAS_CORETYPE, so it is made to choose again; nothing has been computed yet. Its
 * functions for that are not a public interface, and builds for a single CPU do not have them. */
#include "backend/cpu/product/openblas.h"

#include <cblas.h>

#include "core/platform/memory.h"
#include "core/platform/process.h"
#include "core/platform/processors.h"

/* ---- memory for its constructor ----------------------------------------------------------------
 *
 * OpenBLAS maps a buffer for each processor in its constructor; if there is no memory for one, it
 * tries again for ever. So this constructor runs first and looks. If there is not enough memory for
 * all, it tells OpenBLAS of a single thread, which is enough for our calls. If there is not enough
 * for that, the program ends with a message. */

static bool limited;
static ac_variables variables;

__attribute__((constructor(101))) static void look_for_memory(void) {
  static const char sentence[] =
      "OpenBLAS needs more memory than this program may have; raise its limit (ulimit -v)\n";
  if (ac_pages_available(ac_openblas_bytes(ac_processor_count()))) return;
  if (!ac_pages_available(ac_openblas_bytes(1))) ac_process_end(sentence);
  static const char *const settings[] = {"OMP_NUM_THREADS=1"};
  limited = ac_variables_begin(&variables, settings, 1);
}

static void restore_threads(void) {
  if (limited) ac_variables_end(&variables);
  limited = false;
}

/* ---- opening it ------------------------------------------------------------------------------ */

void gotoblas_dynamic_quit(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));
void *blas_memory_alloc(int) __attribute__((weak));
void blas_memory_free(void *) __attribute__((weak));

static void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
  cblas_sgemm((CBLAS_ORDER)order, (CBLAS_TRANSPOSE)transpose_a, (CBLAS_TRANSPOSE)transpose_b, m, n,
              k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* What comes first of all that asks for it: its constructor has run. */
bool ac_openblas_is_loaded(void) {
  restore_threads();
  return true;
}

bool ac_openblas_open(ac_openblas *library, char *why, size_t size) {
  (void)why, (void)size;
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
