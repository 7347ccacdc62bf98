/* What the CPU kernels share. Every file but cpu.c and some in product/ (blas.c, dot.c, dot_*.c,
 * openblas_*.c, split.c) is compiled once for each instruction set, with AC_CPU_ISA naming it;
 * symbols seen by other files carry that name as a suffix, so the copies live side by side and
 * cpu.c chooses among their tables (table.c) when a device is opened.
 *
 * Loops are plain C that the compiler vectorises. Parallel regions are opened here
 * (ac_cpu_parallel, ac_cpu_for), in blocks.c and in planes.c, and nowhere else. They ask for all
 * the threads of the context or are not opened at all: OpenMP keeps one team, and would allocate a
 * team of another size, or of one thread, anew each time. Small work runs in the calling thread. */
#ifndef AC_BACKEND_CPU_KERNELS_H
#define AC_BACKEND_CPU_KERNELS_H

#include "backend/cpu/shared/element.h"
#include "core/integers.h"
#include "ops/arguments.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#ifndef AC_CPU_ISA
#define AC_CPU_ISA base
#endif
#define AC_CPU_JOIN_EXPANDED(name, isa) name##_##isa
#define AC_CPU_JOIN(name, isa) AC_CPU_JOIN_EXPANDED(name, isa)
#define AC_CPU_NAME(name) AC_CPU_JOIN(name, AC_CPU_ISA)

typedef struct ac_cpu_context {
  int threads;
  /* Up to this many elements of work a parallel region costs more than it saves. */
  int64_t serial;
  uint64_t cache_bytes;           /* no cache keeps operands that take more; 0: unknown */
  const struct ac_blas *blas;     /* product/blas.h */
  const struct ac_dot_class *dot; /* product/dot.h; NULL: bf16 is multiplied as floats */
} ac_cpu_context;

typedef struct ac_cpu_kernel {
  void (*run)(const ac_cpu_context *context, const ac_op_args *args);
  /* In its place where functions of the caller run, which may fail. */
  ac_status (*run_caller)(const ac_cpu_context *context, const ac_op_args *args);
  /* Whether it can compute this, in addition to what all ops ask for; NULL: it can. */
  bool (*fits)(const ac_op_args *args);
  /* Bytes; NULL: none. */
  uint64_t (*workspace)(const ac_cpu_context *context, const ac_op_args *args);
  /* Bit i: where bf16 is multiplied by an ac_dot_class, it may also have input i in f32, and rounds
   * it itself (ac_backend.rounds): a table, or what is packed. */
  uint32_t rounds;
  /* Bit i: it may have input i in blocks, and decodes it itself (ac_backend.decodes). */
  uint32_t decodes;
} ac_cpu_kernel;

/* A file defines `const ac_cpu_kernel AC_CPU_KERNEL(op)` for each of its ops. */
#define AC_CPU_KERNEL(op) AC_CPU_NAME(ac_cpu_##op)

/* An operand's elements; NULL if it is absent. */
static inline void *ac_cpu_data(const ac_operand *x) {
  return x->count ? x->data : NULL;
}

/* The larger of two floats, for loops over elements: selects vectorise, but fmaxf and fminf are
 * calls. It is `a` if one is NaN. */
static inline float larger(float a, float b) {
  return b > a ? b : a;
}
static inline float smaller(float a, float b) {
  return b < a ? b : a;
}

/* The range [*first, *last) of `count` items that is one thread's, cut at multiples of `unit`. */
static inline void ac_cpu_share(int64_t count, int64_t unit, int thread, int team, int64_t *first,
                                int64_t *last) {
  int64_t share = ac_ceil_div(ac_ceil_div(count, unit), team) * unit;
  *first = ac_smaller(count, thread * share);
  *last = ac_smaller(count, *first + share);
}

typedef void (*ac_cpu_part)(const ac_cpu_context *context, const ac_op_args *args, int thread,
                            int team);

/* Calls `part` in each thread of a team; nested in a caller's region the team may be smaller than
 * asked for. In it OpenBLAS runs only in the calling thread: it does not start more threads than
 * OpenMP allows the current task. */
static inline void ac_cpu_parallel(const ac_cpu_context *context, const ac_op_args *args,
                                   ac_cpu_part part) {
#ifdef _OPENMP
  if (context->threads > 1) {
#pragma omp parallel num_threads(context->threads)
    {
      omp_set_num_threads(1);
      part(context, args, omp_get_thread_num(), omp_get_num_threads());
    }
    return;
  }
  int saved = omp_get_max_threads();
  omp_set_num_threads(1);
  part(context, args, 0, 1);
  omp_set_num_threads(saved);
#else
  part(context, args, 0, 1);
#endif
}

/* The same where there is enough to do; otherwise `part` in the calling thread alone. */
static inline void ac_cpu_parallel_for(const ac_cpu_context *context, const ac_op_args *args,
                                       int64_t elements, ac_cpu_part part) {
  if (elements <= context->serial) part(context, args, 0, 1);
  else ac_cpu_parallel(context, args, part);
}

/* Waits for the team of a part. */
static inline void ac_cpu_barrier(int team) {
  if (team > 1) {
#pragma omp barrier
  }
}

enum { AC_CPU_LINE = 16 }; /* floats in a cache line */

typedef void (*ac_cpu_range)(const ac_op_args *args, int64_t first, int64_t last);

/* Calls `range` on disjoint parts of [0, count); `weight` is the elements of work in one item.
 * Parts of single elements begin at multiples of a cache line. */
static inline void ac_cpu_for(const ac_cpu_context *context, const ac_op_args *args, int64_t count,
                              int64_t weight, ac_cpu_range range) {
#ifdef _OPENMP
  if (context->threads > 1 && count > 1 && count * weight > context->serial) {
#pragma omp parallel num_threads(context->threads)
    {
      int64_t first, last;
      ac_cpu_share(count, weight == 1 ? 64 : 1, omp_get_thread_num(), omp_get_num_threads(), &first,
                   &last);
      if (first < last) range(args, first, last);
    }
    return;
  }
#endif
  (void)context, (void)weight;
  range(args, 0, count);
}

/* ---- what files of kernels share, by the names of this instruction set's copies -------------- */

#define ac_cpu_for_floats AC_CPU_NAME(ac_cpu_for_floats)
#define ac_cpu_for_elements AC_CPU_NAME(ac_cpu_for_elements)
#define ac_cpu_scratch AC_CPU_NAME(ac_cpu_scratch)
#define ac_cpu_column_sums AC_CPU_NAME(ac_cpu_column_sums)
#define ac_cpu_is_cold AC_CPU_NAME(ac_cpu_is_cold)
#define ac_cpu_is_streamed AC_CPU_NAME(ac_cpu_is_streamed)

/* ac_cpu_for with a range function that knows only floats and fills its outputs in their order: it
 * gets operands of kind s as floats, whatever they are stored in, and outputs that are too large
 * for the caches are written past them (blocks.c). */
void ac_cpu_for_floats(const ac_cpu_context *context, const ac_op_args *args, int64_t count,
                       int64_t weight, ac_cpu_range range);

/* Whether the output is one that no cache holds: what is read too is in one when it is written. And
 * whether there are such, with operands too large for the caches, so that they are written past
 * them. */
bool ac_cpu_is_cold(const ac_op_args *args, int output);
bool ac_cpu_is_streamed(const ac_cpu_context *context, const ac_op_args *args, int64_t weight);

/* ac_cpu_for_floats with the elements of the first output for items. Where that is written past the
 * caches and all operands are f32, `streamed` does it. AC_CPU_ELEMENTWISE (stream.h) makes one of a
 * range function, and a kernel of both. */
void ac_cpu_for_elements(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range range,
                         ac_cpu_range streamed);

/* Bytes ac_cpu_for_floats takes at the end of the workspace, which is then a multiple of 64; 0
 * unless items are long. */
uint64_t ac_cpu_scratch(const ac_cpu_context *context, const ac_op_args *args, int64_t weight);

/* ac_cpu_for_floats with the rows of the first operand for items, and what it takes of the
 * workspace. */
static inline void ac_cpu_for_rows(const ac_cpu_context *context, const ac_op_args *args,
                                   ac_cpu_range range) {
  const ac_operand *x = &args->in[0];
  ac_cpu_for_floats(context, args, ac_rows(x), ac_columns(x), range);
}
static inline uint64_t ac_cpu_row_scratch(const ac_cpu_context *context, const ac_op_args *args) {
  return ac_cpu_scratch(context, args, ac_columns(&args->in[0]));
}

/* One thread's part of the column sums of x[rows, columns] into y, added to it if `add`. */
void ac_cpu_column_sums(int64_t rows, int64_t columns, const void *x, ac_dtype dtype, float *y,
                        bool add, int thread, int team);

/* Columns per strip when `columns` are shared out by strips of at most `most`. */
static inline int64_t ac_cpu_strip(int64_t columns, int team, int64_t most) {
  return ac_smaller(ac_ceil_div(ac_ceil_div(columns, team), 16) * 16, most);
}

#endif
