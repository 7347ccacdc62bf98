/* Norms of the rows of W and of V = W + s B A, with elements that are made a piece of a row at a
 * time. A and B are first brought to floats, A with the columns of W as rows where W is [in, out],
 * so that what an element needs of them is contiguous. Each row has one owner and is summed in
 * pieces in a fixed order, so the bits do not depend on the threads. */
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"
#include "ops/linear/row_norms.h"

#include <math.h>
#include <string.h>

enum { PIECE = 512, STRIP = 64 };

typedef struct problem {
  const ac_operand *w;
  int64_t out, in, rank;
  bool in_out;
  float scale;
  float *a, *b; /* [rank, in], or [in, rank] where W is [in, out]; [out, rank] */
  float *ratio, *inverse;
} problem;

static problem problem_of(const ac_op_args *args) {
  const ac_row_norms_attributes *attributes = args->attributes;
  problem p = {.w = &args->in[0],
               .in = args->in[1].dim[1],
               .rank = args->in[1].dim[0],
               .out = args->in[2].dim[0],
               .in_out = attributes->layout == AC_IN_OUT,
               .scale = attributes->scale,
               .a = args->workspace,
               .ratio = args->out[0].data,
               .inverse = args->out[1].data};
  p.b = p.a + args->in[1].count;
  return p;
}

/* The thread's share of A and B in floats. */
static void widen(const ac_op_args *args, const problem *p, int thread, int team) {
  int64_t first, last;
  ac_cpu_share(p->rank, 1, thread, team, &first, &last);
  for (int64_t r = first; r < last; r++) {
    const void *from = ac_element(args->in[1].data, args->in[1].dtype, r * p->in);
    if (!p->in_out) {
      ac_cpu_widen(args->in[1].dtype, from, p->a + r * p->in, p->in);
      continue;
    }
    float piece[PIECE];
    for (int64_t i = 0; i < p->in; i += PIECE) {
      const int64_t count = ac_smaller(PIECE, p->in - i);
      ac_cpu_widen(args->in[1].dtype, ac_element(from, args->in[1].dtype, i), piece, count);
      for (int64_t j = 0; j < count; j++) p->a[(i + j) * p->rank + r] = piece[j];
    }
  }
  ac_cpu_share(args->in[2].count, AC_CPU_LINE, thread, team, &first, &last);
  if (first < last)
    ac_cpu_widen(args->in[2].dtype, ac_element(args->in[2].data, args->in[2].dtype, first),
                 p->b + first, last - first);
}

static void finish_row(const problem *p, int64_t o, double before, double after) {
  const bool none = after == 0;
  p->ratio[o] = none ? 0 : (float)(sqrt(before / after) - 1);
  p->inverse[o] = none ? 0 : (float)(1 / sqrt(after));
}

/* W is [out, in]. */
static void run_row(const problem *p, int64_t o) {
  double before = 0, after = 0;
  float v[PIECE];
  for (int64_t i = 0; i < p->in; i += PIECE) {
    const int64_t count = ac_smaller(PIECE, p->in - i);
    ac_cpu_widen(p->w->dtype, ac_element(p->w->data, p->w->dtype, o * p->in + i), v, count);
    before += (double)row_dot(v, v, count);
    for (int64_t r = 0; r < p->rank; r++) {
      const float factor = p->scale * p->b[o * p->rank + r];
      const float *a = p->a + r * p->in + i;
#pragma omp simd
      for (int64_t j = 0; j < count; j++) v[j] += factor * a[j];
    }
    after += (double)row_dot(v, v, count);
  }
  finish_row(p, o, before, after);
}

/* W is [in, out]: a few neighbouring outputs at a time. */
static void run_strip(const problem *p, int64_t o, int64_t count) {
  double before[STRIP] = {0}, after[STRIP] = {0};
  float w[STRIP];
  for (int64_t i = 0; i < p->in; i++) {
    ac_cpu_widen(p->w->dtype, ac_element(p->w->data, p->w->dtype, i * p->out + o), w, count);
    const float *a = p->a + i * p->rank;
    for (int64_t k = 0; k < count; k++) {
      const float *b = p->b + (o + k) * p->rank, v = w[k] + p->scale * row_dot(a, b, p->rank);
      before[k] += (double)w[k] * (double)w[k];
      after[k] += (double)v * (double)v;
    }
  }
  for (int64_t k = 0; k < count; k++) finish_row(p, o + k, before[k], after[k]);
}

static void run_part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  (void)context;
  const problem p = problem_of(args);
  widen(args, &p, thread, team);
  ac_cpu_barrier(team);
  int64_t first, last;
  ac_cpu_share(p.out, p.in_out ? STRIP : 1, thread, team, &first, &last);
  if (p.in_out)
    for (int64_t o = first; o < last; o += STRIP) run_strip(&p, o, ac_smaller(STRIP, last - o));
  else
    for (int64_t o = first; o < last; o++) run_row(&p, o);
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[0].count, run_part);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  return (uint64_t)(args->in[1].count + args->in[2].count) * sizeof(float);
}

const ac_cpu_kernel AC_CPU_KERNEL(row_norms) = {.run = run, .workspace = workspace};
