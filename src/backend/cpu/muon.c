/* Muon's step (formulas in ops/muon.h): a pass over the gradient for the momentum, products that a
 * team shares out, and a pass over the parameter. The workspace, each part from a line on:
 *
 *   | squares of the update, by block | X | next X | A | polynomial of A |
 *
 * An iteration is three products, of which the last two begin from copies: A^2 from A, and the next
 * X from X. */
#include "ops/muon.h"

#include "backend/cpu/product/gemm.h"
#include "backend/cpu/update.h"
#include "core/align.h"

#include <math.h>

/* Sums are taken in blocks of fixed size, so that they do not depend on the threads. */
enum { BLOCK = 16384 };

typedef struct space {
  ac_muon_matrix m;
  double *squares;
  float *x, *next, *gram, *polynomial;
  uint64_t bytes;
} space;

static void *take(char *base, uint64_t *used, uint64_t bytes) {
  char *at = base ? base + *used : NULL;
  *used += ac_align(bytes, AC_LINE_BYTES);
  return at;
}

/* Of no workspace the sizes alone. */
static space lay(const ac_op_args *args) {
  space s = {.m = ac_muon_matrix_of(args)};
  const uint64_t count = (uint64_t)args->in[0].count, side = (uint64_t)s.m.side;
  const uint64_t blocks = (uint64_t)ac_ceil_div(args->in[0].count, BLOCK);
  s.squares = take(args->workspace, &s.bytes, blocks * sizeof(double));
  s.x = take(args->workspace, &s.bytes, count * sizeof(float));
  s.next = take(args->workspace, &s.bytes, count * sizeof(float));
  s.gram = take(args->workspace, &s.bytes, side * side * sizeof(float));
  s.polynomial = take(args->workspace, &s.bytes, side * side * sizeof(float));
  return s;
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  ac_op_args sized = *args;
  sized.workspace = NULL;
  return lay(&sized).bytes;
}

/* ---- momentum -------------------------------------------------------------------------------- */

/* Elements [first, first + count), of which x is to hold the first. */
static double momentum_run(const ac_op_args *args, float *x, int64_t first, int64_t count) {
  _Alignas(64) float gradients[AC_CPU_STEPPED];
  const ac_muon_attributes *a = args->attributes;
  const float *g = stepped_read(&args->in[0], first, count, gradients);
  float *m = (float *)args->out[1].data + first;
  const float factor = a->gradient_factor, take = 1.0f - a->momentum;
  const float blend = a->nesterov ? a->momentum : 1.0f;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    float gradient = factor * g[i];
    float moved = m[i] + take * (gradient - m[i]);
    float update = gradient + blend * (moved - gradient);
    m[i] = moved;
    x[i] = update;
    sum += (double)update * (double)update;
  }
  return sum;
}

static double momentum_block(const ac_op_args *args, float *x, int64_t first, int64_t last) {
  double sum = 0;
  for (int64_t at = first, count; at < last; at += count) {
    count = ac_min(last - at, stepped_run(args));
    sum += momentum_run(args, x + at, at, count);
  }
  return sum;
}

static void momentum_range(const ac_op_args *args, int64_t first, int64_t last) {
  const space s = lay(args);
  for (int64_t block = first; block < last; block++)
    s.squares[block] =
        momentum_block(args, s.x, block * BLOCK, ac_min(args->in[0].count, (block + 1) * BLOCK));
}

/* ---- products -------------------------------------------------------------------------------- */

static void multiply(const ac_cpu_context *context, const ac_gemm *gemm, int thread, int team) {
  ac_cpu_gemm_share(context, gemm, NULL, NULL, 0, thread, team);
  ac_cpu_barrier(team);
}

static void copy_share(const float *from, float *to, int64_t count, int thread, int team) {
  int64_t first, last;
  ac_cpu_share(count, AC_CPU_LINE, thread, team, &first, &last);
  if (first < last) memcpy(to + first, from + first, (size_t)(last - first) * sizeof *to);
}

/* X becomes what the polynomial makes of it, in the place of `next`. */
static void iterate(const ac_cpu_context *context, const space *s, int thread, int team) {
  const ac_muon_matrix *m = &s->m;
  const bool wide = m->rows <= m->columns;
  const int64_t side = m->side, columns = m->columns;
  const ac_gemm gram = {.transpose_a = !wide,
                        .transpose_b = wide,
                        .m = side,
                        .n = side,
                        .k = wide ? columns : m->rows,
                        .alpha = 1,
                        .a = s->x,
                        .lda = columns,
                        .b = s->x,
                        .ldb = columns,
                        .c = s->gram,
                        .ldc = side},
                square = {.m = side,
                          .n = side,
                          .k = side,
                          .alpha = ac_muon_polynomial[2],
                          .beta = ac_muon_polynomial[1],
                          .a = s->gram,
                          .lda = side,
                          .b = s->gram,
                          .ldb = side,
                          .c = s->polynomial,
                          .ldc = side},
                next = {.m = m->rows,
                        .n = columns,
                        .k = side,
                        .alpha = 1,
                        .beta = ac_muon_polynomial[0],
                        .a = wide ? s->polynomial : s->x,
                        .lda = wide ? side : columns,
                        .b = wide ? s->x : s->polynomial,
                        .ldb = wide ? columns : side,
                        .c = s->next,
                        .ldc = columns};
  multiply(context, &gram, thread, team);
  copy_share(s->gram, s->polynomial, side * side, thread, team);
  copy_share(s->x, s->next, m->rows * columns, thread, team);
  ac_cpu_barrier(team);
  multiply(context, &square, thread, team);
  multiply(context, &next, thread, team);
}

static void normalise_share(const ac_op_args *args, const space *s, int thread, int team) {
  const int64_t count = args->in[0].count;
  double sum = 0;
  for (int64_t block = 0; block * BLOCK < count; block++) sum += s->squares[block];
  const float inverse = 1 / larger(AC_MUON_EPSILON, (float)sqrt(sum));
  int64_t first, last;
  ac_cpu_share(count, AC_CPU_LINE, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) s->x[i] *= inverse;
}

/* After an odd number of iterations the result is where `next` was laid. */
_Static_assert(AC_MUON_STEPS % 2 == 1, "the last result lies in the second place");

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  space s = lay(args);
  normalise_share(args, &s, thread, team);
  ac_cpu_barrier(team);
  for (int k = 0; k < AC_MUON_STEPS; k++) {
    iterate(context, &s, thread, team);
    float *x = s.x;
    s.x = s.next;
    s.next = x;
  }
}

/* ---- the step -------------------------------------------------------------------------------- */

static void step_floats(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_muon_attributes *a = args->attributes;
  const space s = lay(args);
  const float *x = s.next;
  float *p = args->out[0].data;
  const float keep = 1.0f - a->rate * a->weight_decay, step = a->rate * a->scale;
#pragma omp simd
  for (int64_t i = first; i < last; i++) p[i] = p[i] * keep - step * x[i];
  ac_cpu_copy_parameters(&args->out[2], p, first, last);
}

static void step_range(const ac_op_args *args, int64_t first, int64_t last) {
  stepped_range(args, first, last, step_floats);
}

static void muon(const ac_cpu_context *context, const ac_op_args *args) {
  const int64_t count = args->in[0].count, side = ac_muon_matrix_of(args).side;
  ac_cpu_for(context, args, ac_ceil_div(count, BLOCK), BLOCK, momentum_range);
  ac_cpu_parallel_for(context, args, count * side, part);
  ac_cpu_for_floats(context, args, count, 1, step_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(muon) = {muon, workspace};
