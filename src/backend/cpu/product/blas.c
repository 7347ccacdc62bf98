/* Loading OpenBLAS, and calling it from our own threads.
 *
 * OpenBLAS chooses its kernels when it is loaded, by the CPU's model number. It takes a model that
 * is newer than the library for a much older one (0.3.21 runs SSE3 kernels on an Emerald Rapids
 * Xeon, at a fifth of the speed of its AVX-512 kernels, and AVX2 kernels on an AVX-512 CPU of AMD).
 * OPENBLAS_CORETYPE overrides that, but only at that moment. So the library is opened here, with
 * that variable set by what the CPU can do, unless the user set it. It is not set by setenv: an
 * OpenCL driver that another thread uses for the first time may be reading the environment. A
 * process that had loaded OpenBLAS already keeps the kernels it has. openblas.h says how it is
 * opened.
 *
 * Its products (gemm.c keeps the small ones) run as one single-threaded call per thread of our
 * parallel regions, each on its own tile of C. OpenBLAS's own threading allocates memory in every
 * call and, in the pthread build, would run in addition to our threads. Its OpenMP build is
 * single-threaded inside a parallel region, or where the calling task may only start one thread;
 * the pthread build is told so once. */
#include "backend/cpu/product/blas.h"

#include <cblas.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/product/openblas.h"
#include "core/error.h"
#include "core/platform/memory.h"
#include "core/platform/process.h"
#include "core/platform/processors.h"
#include "core/platform/threads.h"

/* A single-threaded product packs op(A) into panels of all its rows by Q of k, and op(B) into
 * blocks of P columns by Q, in a buffer per thread; only the used part of it becomes resident. Rows
 * are cut here, so that the panel stays in the cache and the buffer's size is known. Measured for
 * 0.3.21 on x86-64: P, Q = 448, 448 for SkylakeX, 640, 320 for Cooperlake, 320, 320 for Haswell and
 * Zen; the bound takes the largest of each. On AArch64 all cores stay within that bound except two,
 * which have 512, 1024. */
enum { ROWS_PER_CALL = 2048, LARGEST_P = 640, LARGEST_Q = 448 };
static const char *const deep_cores[] = {"tsv110", "emag8180"};
enum { DEEP_P = 512, DEEP_Q = 1024 };

static ac_blas blas;
static char why_not[256]; /* it could not be loaded */
static ac_once once;

/* ---- memory ---------------------------------------------------------------------------------- */

/* A buffer of its pool: what 0.3.21 maps on x86-64 and AArch64, and what malloc adds. */
enum { BUFFER = (128 << 20) + (64 << 10) };

uint64_t ac_openblas_bytes(int threads) {
  return (uint64_t)threads * (BUFFER + ac_thread_stack_bytes());
}

/* When OpenBLAS is loaded it maps a buffer for each processor, and ac_blas_reserve maps more.
 * *tight: there is not enough memory for all, so tell OpenBLAS of a single thread, which is enough
 * for our calls. False: there is not even memory for that. */
static bool is_room(bool *tight) {
  char bytes[32];
  const uint64_t least = AC_OPENBLAS_CODE + ac_openblas_bytes(1),
                 all = AC_OPENBLAS_CODE + ac_openblas_bytes(2 * ac_processor_count());
  *tight = !ac_openblas_is_loaded() && !ac_pages_available(all);
  if (!*tight || ac_pages_available(least)) return true;
  snprintf(why_not, sizeof why_not,
           "it takes %s of address space, more than this process has left; raise its limit "
           "(ulimit -v)",
           ac_format_bytes(bytes, sizeof bytes, least));
  return false;
}

/* Whether so many more threads can be started. malloc gives each of the first few threads that call
 * it 64 MiB of address space. Enough must be left for the stacks of the last threads: OpenMP ends
 * the program if it cannot start a thread. */
static bool threads_fit(int more) {
  const uint64_t arenas = (uint64_t)(more < 5 ? more - 1 : 4) * (64 << 20);
  return ac_pages_available(ac_openblas_bytes(more) + arenas);
}

/* The most that can, fewer than `threads`. */
static int most_threads(int threads) {
  int most = 0;
  for (int less = 1; less < threads; less *= 2)
    if (threads_fit(less)) most = less;
  for (int step = most / 2; step > 0; step /= 2)
    if (most + step < threads && threads_fit(most + step)) most += step;
  return most;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* The core type with float kernels that use the widest vectors of the CPU; "": let OpenBLAS
 * choose. */
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

/* Sets its variables while it is opened. Both its builds, with its own threads and with OpenMP,
 * read those of the number of threads. */
static bool open_library(ac_openblas *library) {
  const char *user = getenv("OPENBLAS_CORETYPE");
  static char core[64]; /* for whoever reads it late */
  const char *settings[3];
  int count = 0;
  bool tight;
  if (!is_room(&tight)) return false;
  if (!user || !*user) snprintf(blas.wanted, sizeof blas.wanted, "%s", best_core());
  snprintf(core, sizeof core, "OPENBLAS_CORETYPE=%s", blas.wanted);
  if (blas.wanted[0]) settings[count++] = core;
  if (tight) settings[count++] = "OPENBLAS_NUM_THREADS=1", settings[count++] = "OMP_NUM_THREADS=1";
  ac_variables variables;
  if (!ac_variables_begin(&variables, settings, count)) {
    snprintf(why_not, sizeof why_not, "there is no memory");
    return false;
  }
  const bool opened = ac_openblas_open(library, why_not, sizeof why_not);
  ac_variables_end(&variables);
  return opened;
}

static void load(void) {
  ac_openblas library = {0};
  if (!open_library(&library)) return;
  describe_library(&library);
  if (library.parallel && library.set_threads && library.parallel() == OPENBLAS_THREAD)
    library.set_threads(1);
  blas.sgemm = library.sgemm;
  blas.take_buffer = library.take_buffer;
  blas.return_buffer = library.return_buffer;
}

ac_status ac_blas_load(const ac_blas **result) {
  ac_call_once(&once, load);
  if (!blas.sgemm) return ac_fail(AC_ERROR_DEVICE, "cpu: OpenBLAS cannot be loaded: %s", why_not);
  *result = &blas;
  return AC_OK;
}

static atomic_int reserved; /* buffers, which stay in the pool */

static ac_status check_memory(int threads) {
  char bytes[32], offer[64] = "raise its limit (ulimit -v)";
  const int held = reserved, more = threads - held;
  if (more <= 0 || threads_fit(more)) return AC_OK;
  const int most = held + most_threads(more);
  if (most > 0)
    snprintf(offer, sizeof offer, "take at most %d, or raise its limit (ulimit -v)", most);
  return ac_fail(AC_ERROR_MEMORY,
                 "cpu: %d %s %s of address space, more than this process has left; %s", threads,
                 threads == 1 ? "thread takes" : "threads take",
                 ac_format_bytes(bytes, sizeof bytes, ac_openblas_bytes(threads)), offer);
}

ac_status ac_blas_reserve(const ac_blas *library, int threads) {
  enum { POOL = 64 }; /* more would reach the limit that Debian's OpenBLAS is built with */
  void *taken[POOL];
  AC_TRY(check_memory(threads));
  if (!library->take_buffer || !library->return_buffer) return AC_OK;
  if (threads > POOL) threads = POOL;
  for (int i = 0; i < threads; i++) taken[i] = library->take_buffer(0);
  for (int i = 0; i < threads; i++)
    if (taken[i]) library->return_buffer(taken[i]);
  if (threads > reserved) reserved = threads;
  return AC_OK;
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
