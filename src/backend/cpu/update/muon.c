/* Muon's step (formulas in ops/update/muon.h): a pass over the gradient for the momentum, products
 * that a team shares out, and a pass over the parameter. The workspace; each part begins at a cache
 * line:
 *
 *   | this layout | squares of the update, by block | X | next X | A | polynomial of A | scratch |
 *
 * An iteration is three products. The last two add to copies: A^2 to a copy of A, and the next X to
 * a copy of X. A and A^2 are symmetric: what lies above their diagonal is copied from below. The
 * matrices are in f32, or in bf16 if that is asked for and the CPU multiplies it; sums are in f32,
 * and each is rounded once. */
#include "ops/update/muon.h"

#include "backend/cpu/product/gemm.h"
#include "backend/cpu/update/update.h"
#include "core/align.h"

#include <math.h>

/* Sums are taken in blocks of fixed size, so that they do not depend on the threads. A symmetric
 * product is taken in strips of so many rows, each from the first column to the diagonal's last; it
 * is mirrored in squares of TILE. */
enum { BLOCK = 16384, STRIP = 192, TILE = 32 };

/* Where the parts of the workspace lie, for functions of a range, which only know the arguments. */
typedef struct space {
  ac_muon_matrix m;
  ac_dtype dtype; /* of the matrices */
  double *squares;
  void *x, *next, *gram, *polynomial;
  char *scratch;          /* of the products */
  uint64_t scratch_bytes; /* of one thread */
  uint64_t bytes;
} space;

/* A = X X^T or X^T X */
static ac_gemm gram_product(const space *s) {
  const ac_muon_matrix *m = &s->m;
  const bool wide = m->rows <= m->columns;
  return (ac_gemm){.transpose_a = !wide,
                   .transpose_b = wide,
                   .m = m->side,
                   .n = m->side,
                   .k = wide ? m->columns : m->rows,
                   .alpha = 1,
                   .a = s->x,
                   .lda = m->columns,
                   .b = s->x,
                   .ldb = m->columns,
                   .c = s->gram,
                   .ldc = m->side,
                   .a_dtype = s->dtype,
                   .b_dtype = s->dtype,
                   .c_dtype = s->dtype};
}

/* The polynomial without its first term, in the place of a copy of A. */
static ac_gemm polynomial_product(const space *s) {
  const int64_t side = s->m.side;
  return (ac_gemm){.m = side,
                   .n = side,
                   .k = side,
                   .alpha = ac_muon_polynomial[2],
                   .beta = ac_muon_polynomial[1],
                   .a = s->gram,
                   .lda = side,
                   .b = s->gram,
                   .ldb = side,
                   .c = s->polynomial,
                   .ldc = side,
                   .a_dtype = s->dtype,
                   .b_dtype = s->dtype,
                   .c_dtype = s->dtype};
}

/* The next X, in the place of a copy of X, which the first term multiplies. */
static ac_gemm next_product(const space *s) {
  const ac_muon_matrix *m = &s->m;
  const bool wide = m->rows <= m->columns;
  return (ac_gemm){.m = m->rows,
                   .n = m->columns,
                   .k = m->side,
                   .alpha = 1,
                   .beta = ac_muon_polynomial[0],
                   .a = wide ? s->polynomial : s->x,
                   .lda = wide ? m->side : m->columns,
                   .b = wide ? s->x : s->polynomial,
                   .ldb = wide ? m->columns : m->side,
                   .c = s->next,
                   .ldc = m->columns,
                   .a_dtype = s->dtype,
                   .b_dtype = s->dtype,
                   .c_dtype = s->dtype};
}

/* Its rows from `first` on. A factor's rows are of lda elements, its columns if transposed. */
static ac_gemm strip_of(ac_gemm product, int64_t first) {
  const int64_t rows = ac_smaller(STRIP, product.m - first);
  product.m = rows;
  product.n = first + rows;
  product.a = ac_element((void *)(uintptr_t)product.a, product.a_dtype,
                         product.transpose_a ? first : first * product.lda);
  product.c = ac_element(product.c, product.c_dtype, first * product.ldc);
  return product;
}

static uint64_t scratch_of(const ac_cpu_context *context, const space *s) {
  const ac_gemm products[] = {gram_product(s), polynomial_product(s), next_product(s)};
  uint64_t most = 0;
  for (int i = 0; i < 3; i++) {
    const uint64_t bytes = ac_cpu_gemm_scratch(context, context->threads, &products[i]);
    if (bytes > most) most = bytes;
  }
  return most;
}

static void *take(char *base, uint64_t *used, uint64_t bytes) {
  char *at = base ? base + *used : NULL;
  *used += ac_align(bytes, AC_LINE_BYTES);
  return at;
}

/* Without a workspace it only gives the sizes. */
static space lay(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_muon_attributes *a = args->attributes;
  space s = {.m = ac_muon_matrix_of(args), .dtype = ac_cpu_factor_dtype(context, a->factors)};
  const uint64_t size = ac_element_bytes(s.dtype), count = (uint64_t)args->in[0].count * size,
                 square = (uint64_t)(s.m.side * s.m.side) * size;
  const uint64_t blocks = (uint64_t)ac_ceil_div(args->in[0].count, BLOCK);
  s.scratch_bytes = scratch_of(context, &s);
  take(args->workspace, &s.bytes, sizeof s);
  s.squares = take(args->workspace, &s.bytes, blocks * sizeof(double));
  s.x = take(args->workspace, &s.bytes, count);
  s.next = take(args->workspace, &s.bytes, count);
  s.gram = take(args->workspace, &s.bytes, square);
  s.polynomial = take(args->workspace, &s.bytes, square);
  s.scratch = take(args->workspace, &s.bytes, (uint64_t)context->threads * s.scratch_bytes);
  return s;
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  ac_op_args sized = *args;
  sized.workspace = NULL;
  return lay(context, &sized).bytes;
}

/* ---- momentum -------------------------------------------------------------------------------- */

enum { RUN = AC_CPU_STEPPED };

/* Moves the momentum of elements [first, first + count) and leaves their update in x; returns its
 * squares. */
static double momentum_run(const ac_op_args *args, float *x, int64_t first, int64_t count) {
  _Alignas(64) float gradients[RUN];
  const ac_muon_attributes *a = args->attributes;
  const float *g = stepped_read(&args->in[0], first, count, gradients);
  float *m = (float *)args->out[1].data + first;
  const float factor = a->gradient_factor, take = a->take;
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

static double momentum_block(const ac_op_args *args, const space *s, int64_t first, int64_t last) {
  _Alignas(64) float updates[RUN];
  double sum = 0;
  for (int64_t at = first, count; at < last; at += count) {
    count = ac_smaller(last - at, RUN);
    sum += momentum_run(args, updates, at, count);
    ac_cpu_narrow(s->dtype, false, updates, ac_element(s->x, s->dtype, at), count);
  }
  return sum;
}

static void momentum_range(const ac_op_args *args, int64_t first, int64_t last) {
  const space *s = args->workspace;
  for (int64_t block = first; block < last; block++)
    s->squares[block] =
        momentum_block(args, s, block * BLOCK, ac_smaller(args->in[0].count, (block + 1) * BLOCK));
}

/* ---- products -------------------------------------------------------------------------------- */

static void multiply(const ac_cpu_context *context, const space *s, const ac_gemm *gemm, int thread,
                     int team) {
  ac_cpu_gemm_share(context, gemm, NULL, s->scratch, s->scratch_bytes, thread, team);
  ac_cpu_barrier(team);
}

static void mirror_tile(const ac_gemm *gemm, int64_t row, int64_t column) {
  const int64_t rows = ac_smaller(gemm->m, row + TILE),
                columns = ac_smaller(gemm->n, column + TILE);
  for (int64_t i = row; i < rows; i++)
    for (int64_t j = ac_larger(column, i + 1); j < columns; j++)
      if (gemm->c_dtype == AC_F32)
        ((float *)gemm->c)[i * gemm->ldc + j] = ((const float *)gemm->c)[j * gemm->ldc + i];
      else
        ((uint16_t *)gemm->c)[i * gemm->ldc + j] = ((const uint16_t *)gemm->c)[j * gemm->ldc + i];
}

/* Rows of tiles in turn, because the first have most to the right of the diagonal. */
static void mirror_share(const ac_gemm *gemm, int thread, int team) {
  for (int64_t row = thread * TILE; row < gemm->m; row += (int64_t)team * TILE)
    for (int64_t column = row; column < gemm->n; column += TILE) mirror_tile(gemm, row, column);
}

static void multiply_symmetric(const ac_cpu_context *context, const space *s, const ac_gemm *gemm,
                               int thread, int team) {
  for (int64_t first = 0; first < gemm->m; first += STRIP) {
    const ac_gemm strip = strip_of(*gemm, first);
    ac_cpu_gemm_share(context, &strip, NULL, s->scratch, s->scratch_bytes, thread, team);
  }
  ac_cpu_barrier(team);
  mirror_share(gemm, thread, team);
  ac_cpu_barrier(team);
}

static void copy_share(const space *s, const void *from, void *to, int64_t count, int thread,
                       int team) {
  int64_t first, last;
  ac_cpu_share(count, AC_CPU_LINE, thread, team, &first, &last);
  if (first < last)
    memcpy(ac_element(to, s->dtype, first), ac_element(from, s->dtype, first),
           (size_t)(last - first) * ac_element_bytes(s->dtype));
}

/* X becomes what the polynomial makes of it, in the place of `next`. */
static void iterate(const ac_cpu_context *context, const space *s, int thread, int team) {
  const ac_gemm gram = gram_product(s), polynomial = polynomial_product(s), next = next_product(s);
  multiply_symmetric(context, s, &gram, thread, team);
  copy_share(s, s->gram, s->polynomial, s->m.side * s->m.side, thread, team);
  copy_share(s, s->x, s->next, s->m.rows * s->m.columns, thread, team);
  ac_cpu_barrier(team);
  multiply_symmetric(context, s, &polynomial, thread, team);
  multiply(context, s, &next, thread, team);
}

static void normalise_share(const ac_op_args *args, const space *s, int thread, int team) {
  _Alignas(64) float values[RUN];
  const int64_t all = args->in[0].count;
  double sum = 0;
  for (int64_t block = 0; block * BLOCK < all; block++) sum += s->squares[block];
  const float inverse = 1 / larger(AC_MUON_EPSILON, (float)sqrt(sum));
  int64_t first, last;
  ac_cpu_share(all, AC_CPU_LINE, thread, team, &first, &last);
  for (int64_t at = first, count; at < last; at += count) {
    count = ac_smaller(last - at, RUN);
    void *x = ac_element(s->x, s->dtype, at);
    ac_cpu_widen(s->dtype, x, values, count);
    for (int64_t i = 0; i < count; i++) values[i] *= inverse;
    ac_cpu_narrow(s->dtype, false, values, x, count);
  }
}

/* After an odd number of iterations the result is where `next` was laid. */
_Static_assert(AC_MUON_STEPS % 2 == 1, "the last result lies in the second place");

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  space s = *(const space *)args->workspace;
  normalise_share(args, &s, thread, team);
  ac_cpu_barrier(team);
  for (int k = 0; k < AC_MUON_STEPS; k++) {
    iterate(context, &s, thread, team);
    void *x = s.x;
    s.x = s.next;
    s.next = x;
  }
}

/* ---- the step -------------------------------------------------------------------------------- */

static void step_floats(const ac_op_args *args, int64_t first, int64_t last) {
  _Alignas(64) float updates[RUN];
  const ac_muon_attributes *a = args->attributes;
  const space *s = args->workspace;
  float *p = args->out[0].data;
  const float keep = 1.0f - a->rate * a->weight_decay, step = a->rate * a->scale;
  for (int64_t at = first, end; at < last; at = end) {
    end = ac_smaller(last, at + RUN);
    ac_cpu_widen(s->dtype, ac_element(s->next, s->dtype, at), updates, end - at);
#pragma omp simd
    for (int64_t i = at; i < end; i++) p[i] = p[i] * keep - step * updates[i - at];
  }
  ac_cpu_copy_parameters(&args->out[2], p, first, last);
}

static void step_range(const ac_op_args *args, int64_t first, int64_t last) {
  stepped_range(args, first, last, step_floats);
}

static void muon(const ac_cpu_context *context, const ac_op_args *args) {
  const int64_t count = args->in[0].count, side = ac_muon_matrix_of(args).side;
  *(space *)args->workspace = lay(context, args);
  ac_cpu_for(context, args, ac_ceil_div(count, BLOCK), BLOCK, momentum_range);
  ac_cpu_parallel_for(context, args, count * side, part);
  ac_cpu_for_floats(context, args, count, 1, step_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(muon) = {.run = muon, .workspace = workspace};
