/* Blocks of elements that are reduced in the first cache, and how what came out of them is joined.
 *
 * A state is what the elements of one result make so far: a sum; the largest and how often it
 * comes; the largest and the sum of e^(x - largest); mean and sum of squared differences from it.
 * Blocks are reduced in floats and joined in doubles, in the order of the elements, so that
 * rounding does not grow with their number. A strip has the states of neighbouring results.
 *
 * The mean of a block is off by roundings of its largest element, which may be more than elements
 * differ. So differences d are from a number near the mean. Their sum r tells how near: the mean
 * itself would give sum of d^2 - r^2 / n.
 *
 * What is summed, or compared, may be a function of x: blocks are mapped first. */
#ifndef AC_BACKEND_CPU_BLOCKS_H
#define AC_BACKEND_CPU_BLOCKS_H

#include "backend/cpu/shared/reduce.h"
#include "backend/cpu/shared/vector_math.h"
#include "ops/reduction/reduce.h"

#include <float.h>

enum { STRIP = 512, ROWS = 16, BLOCK = STRIP * ROWS };

/* MOST is the largest alone, where nobody asks how often it comes. */
typedef enum form { SUM, LARGEST, MOST, EXPONENTIALS, SQUARED_DIFFERENCES } form;

typedef struct state {
  double a, b;
  double n; /* elements */
} state;

typedef struct strip {
  double a[STRIP], b[STRIP], n;
} strip;

static inline form form_of(const ac_reduce_attributes *a) {
  switch (a->kind) {
  case AC_REDUCE_MAX:
  case AC_REDUCE_MIN:
  case AC_REDUCE_LARGEST:
    return LARGEST;
  case AC_REDUCE_LOGSUMEXP:
    return EXPONENTIALS;
  case AC_REDUCE_VARIANCE:
    return SQUARED_DIFFERENCES;
  default:
    return SUM;
  }
}

/* ---- functions of elements ------------------------------------------------------------------- */

static inline bool is_mapped(const ac_reduce_attributes *a) {
  return a->kind == AC_REDUCE_ABSOLUTES || a->kind == AC_REDUCE_SQUARES ||
         a->kind == AC_REDUCE_POWERS || a->kind == AC_REDUCE_MIN || a->kind == AC_REDUCE_LARGEST;
}

/* In place. */
static inline void map(const ac_reduce_attributes *a, float *x, int64_t count) {
  switch (a->kind) {
  case AC_REDUCE_ABSOLUTES:
  case AC_REDUCE_LARGEST:
#pragma omp simd
    for (int64_t j = 0; j < count; j++) x[j] = fabsf(x[j]);
    break;
  case AC_REDUCE_SQUARES:
#pragma omp simd
    for (int64_t j = 0; j < count; j++) x[j] *= x[j];
    break;
  case AC_REDUCE_POWERS:
    for (int64_t j = 0; j < count; j++) x[j] = powf(fabsf(x[j]), a->power);
    break;
  case AC_REDUCE_MIN:
#pragma omp simd
    for (int64_t j = 0; j < count; j++) x[j] = -x[j];
    break;
  default:
    break;
  }
}

/* ---- joining --------------------------------------------------------------------------------- */

static inline double beginning(form f) {
  return f == LARGEST || f == MOST || f == EXPONENTIALS ? -(double)INFINITY : 0;
}

/* A NaN is the largest. Nothing is computed under a condition, so that loops vectorise. */
static inline void join_largest(double *a, double *b, double other_a, double other_b) {
  const bool above = (other_a > *a) | (other_a != other_a), joins = above | (other_a == *a);
  *b = (above ? 0.0 : *b) + (joins ? other_b : 0.0);
  *a = above ? other_a : *a;
}

/* Two infinities of one sign differ by NaN, and by nothing. */
static inline void join_exponentials(double *a, double *b, double other_a, double other_b) {
  const bool above = other_a > *a;
  const double high = above ? other_a : *a, low = above ? *a : other_a;
  const float apart = (float)(low - high);
  const double shrink = (double)exponential(apart == apart ? apart : 0.0f);
  *b = *b * (above ? shrink : 1.0) + other_b * (above ? 1.0 : shrink);
  *a = high;
}

/* Chan, Golub and LeVeque 1979. `share` is of the other's elements in all, `weight` n m / (n + m).
 */
static inline void join_squares(double *a, double *b, double other_a, double other_b, double share,
                                double weight) {
  const double apart = other_a - *a;
  *a += apart * share;
  *b += other_b + apart * apart * weight;
}

static inline void state_join(form f, state *s, state other) {
  const double n = s->n + other.n;
  if (f == SUM) s->a += other.a;
  else if (f == LARGEST || f == MOST) join_largest(&s->a, &s->b, other.a, other.b);
  else if (f == EXPONENTIALS) join_exponentials(&s->a, &s->b, other.a, other.b);
  else join_squares(&s->a, &s->b, other.a, other.b, other.n / n, s->n * other.n / n);
  s->n = n;
}

/* join_largest in loops that compilers vectorise. */
static inline void strip_join_largest(double *a, double *b, const double *c, const double *d,
                                      int64_t width) {
  double stays[STRIP], joins[STRIP];
#pragma omp simd
  for (int64_t j = 0; j < width; j++) stays[j] = (c[j] > a[j]) | (c[j] != c[j]) ? 0.0 : 1.0;
#pragma omp simd
  for (int64_t j = 0; j < width; j++) joins[j] = c[j] == a[j] ? 1.0 : 0.0;
#pragma omp simd
  for (int64_t j = 0; j < width; j++) a[j] = stays[j] == 0.0 ? c[j] : a[j];
#pragma omp simd
  for (int64_t j = 0; j < width; j++)
    b[j] = stays[j] * b[j] + (1.0 - stays[j] * (1.0 - joins[j])) * d[j];
}

static inline void strip_join(form f, strip *s, const strip *other, int64_t width) {
  const double n = s->n + other->n, share = other->n / n, weight = s->n * share;
  double *a = s->a, *b = s->b;
  const double *c = other->a, *d = other->b;
  s->n = n;
  switch (f) {
  case SUM:
#pragma omp simd
    for (int64_t j = 0; j < width; j++) a[j] += c[j];
    break;
  case LARGEST:
    strip_join_largest(a, b, c, d, width);
    break;
  case MOST:
#pragma omp simd
    for (int64_t j = 0; j < width; j++) a[j] = (c[j] > a[j]) | (c[j] != c[j]) ? c[j] : a[j];
    break;
  case EXPONENTIALS:
#pragma omp simd
    for (int64_t j = 0; j < width; j++) join_exponentials(&a[j], &b[j], c[j], d[j]);
    break;
  case SQUARED_DIFFERENCES:
#pragma omp simd
    for (int64_t j = 0; j < width; j++) join_squares(&a[j], &b[j], c[j], d[j], share, weight);
    break;
  }
}

static inline state state_begin(form f) {
  return (state){beginning(f), 0, 0};
}

static inline void strip_begin(form f, strip *s, int64_t width) {
  for (int64_t j = 0; j < width; j++) s->a[j] = beginning(f), s->b[j] = 0;
  s->n = 0;
}

/* ---- neighbouring elements of one result ----------------------------------------------------- */

/* Two selects: compilers do not vectorise one by two conditions. */
static inline float larger_or_nan(float a, float b) {
  const float most = b > a ? b : a;
  return b != b ? b : most;
}

/* What differences from the largest are taken from: none are infinite. */
static inline float finite_or_zero(float x) {
  return x > -INFINITY && x < INFINITY ? x : 0;
}

/* e^(x - top). Only infinite elements are above it, and then any number will do. */
static inline float below(float x, float top) {
  const float d = x - top;
  return exponential(d > 0 ? 0 : d);
}

static inline float most_of(const float *x, int64_t count) {
  lanes most, other; /* two that do not wait for each other */
  for (int l = 0; l < AC_CPU_LANES; l++) most.v[l] = other.v[l] = -INFINITY;
  int64_t j = 0;
  for (; j + 2 * AC_CPU_LANES <= count; j += 2 * AC_CPU_LANES) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_LANES; l++) {
      most.v[l] = larger_or_nan(most.v[l], x[j + l]);
      other.v[l] = larger_or_nan(other.v[l], x[j + AC_CPU_LANES + l]);
    }
  }
  for (; j < count; j++) most.v[0] = larger_or_nan(most.v[0], x[j]);
#pragma omp simd
  for (int l = 0; l < AC_CPU_LANES; l++) most.v[l] = larger_or_nan(most.v[l], other.v[l]);
  for (int l = 1; l < AC_CPU_LANES; l++) most.v[0] = larger_or_nan(most.v[0], most.v[l]);
  return most.v[0];
}

static inline state largest_of(const float *x, int64_t count) {
  lanes times = {{0}};
  int64_t j;
  const float top = most_of(x, count);
  for (j = 0; j + AC_CPU_LANES <= count; j += AC_CPU_LANES) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_LANES; l++) times.v[l] += x[j + l] == top ? 1.0f : 0.0f;
  }
  for (; j < count; j++) times.v[0] += x[j] == top ? 1.0f : 0.0f;
  return (state){(double)top, (double)lanes_sum(times), (double)count};
}

static inline state exponentials_of(const float *x, int64_t count) {
  const float most = row_max(x, count), top = finite_or_zero(most);
  lanes sum = {{0}};
  int64_t j = 0;
  for (; j + AC_CPU_LANES <= count; j += AC_CPU_LANES) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_LANES; l++) sum.v[l] += below(x[j + l], top);
  }
  for (int l = 0; j < count; j++, l++) sum.v[l] += below(x[j], top);
  return (state){(double)most, (double)lanes_sum(sum), (double)count};
}

/* Squares, of differences that add up to `rest`, from where they are to their mean. Infinite ones
 * stay so. */
static inline double from_mean(double squares, double rest, double n) {
  const double less = squares - rest * rest / n;
  return squares > (double)FLT_MAX ? squares : less < 0 ? 0 : less;
}

static inline state squares_of(const float *x, int64_t count) {
  const float near = row_sum(x, count) / (float)count;
  const double n = (double)count;
  double rest = 0, squares = 0;
  for (int64_t j = 0; j < count;) {
    const int64_t end = ac_smaller(count, j + AC_CPU_CHUNK);
    lanes d = {{0}}, e = {{0}}, dd = {{0}}, ee = {{0}};
    for (; j + 2 * AC_CPU_LANES <= end; j += 2 * AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        const float one = x[j + l] - near, other = x[j + AC_CPU_LANES + l] - near;
        d.v[l] += one;
        e.v[l] += other;
        dd.v[l] += one * one;
        ee.v[l] += other * other;
      }
    }
    for (int l = 0; j < end; j++, l = (l + 1) % AC_CPU_LANES) {
      const float one = x[j] - near;
      d.v[l] += one;
      dd.v[l] += one * one;
    }
    rest += (double)lanes_sum(lanes_add(d, e));
    squares += (double)lanes_sum(lanes_add(dd, ee));
  }
  return (state){(double)near + rest / n, from_mean(squares, rest, n), n};
}

static inline void state_add(form f, state *s, const float *x, int64_t count) {
  if (f == SUM) s->a += (double)row_sum(x, count);
  else if (f == LARGEST) state_join(f, s, largest_of(x, count));
  else if (f == MOST) s->a = (double)larger_or_nan((float)s->a, most_of(x, count));
  else if (f == EXPONENTIALS) state_join(f, s, exponentials_of(x, count));
  else state_join(f, s, squares_of(x, count));
}

/* ---- rows of elements of neighbouring results ------------------------------------------------ */

/* sum[j] = the sum of rows, eight at a time. */
static inline void sum_rows(const float *const *row, int64_t rows, int64_t width, float *sum) {
  int64_t i = 0;
#pragma omp simd
  for (int64_t j = 0; j < width; j++) sum[j] = 0;
  for (; i + 8 <= rows; i += 8) {
    const float *const *r = row + i;
    const float *r0 = r[0], *r1 = r[1], *r2 = r[2], *r3 = r[3];
    const float *r4 = r[4], *r5 = r[5], *r6 = r[6], *r7 = r[7];
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
      sum[j] += ((r0[j] + r1[j]) + (r2[j] + r3[j])) + ((r4[j] + r5[j]) + (r6[j] + r7[j]));
  }
  for (; i < rows; i++) {
    const float *r0 = row[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) sum[j] += r0[j];
  }
}

/* The largest of four, two by two. */
static inline float largest_of_four(float a, float b, float c, float d) {
  return larger_or_nan(larger_or_nan(a, b), larger_or_nan(c, d));
}

/* most[j] = the largest of rows, four at a time. */
static inline void most_rows(const float *const *row, int64_t rows, int64_t width,
                             float *restrict most) {
  int64_t i = 0;
#pragma omp simd
  for (int64_t j = 0; j < width; j++) most[j] = -INFINITY;
  for (; i + 4 <= rows; i += 4) {
    const float *r0 = row[i], *r1 = row[i + 1], *r2 = row[i + 2], *r3 = row[i + 3];
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
      most[j] = larger_or_nan(most[j], largest_of_four(r0[j], r1[j], r2[j], r3[j]));
  }
  for (; i < rows; i++) {
    const float *x = row[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) most[j] = larger_or_nan(most[j], x[j]);
  }
}

static inline float is_equal(float a, float b) {
  return a == b ? 1.0f : 0.0f;
}

static inline void largest_rows(const float *const *row, int64_t rows, int64_t width,
                                float *restrict most, float *restrict times) {
  int64_t i = 0;
  most_rows(row, rows, width, most);
#pragma omp simd
  for (int64_t j = 0; j < width; j++) times[j] = 0;
  for (; i + 4 <= rows; i += 4) {
    const float *r0 = row[i], *r1 = row[i + 1], *r2 = row[i + 2], *r3 = row[i + 3];
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
      times[j] += (is_equal(r0[j], most[j]) + is_equal(r1[j], most[j])) +
                  (is_equal(r2[j], most[j]) + is_equal(r3[j], most[j]));
  }
  for (; i < rows; i++) {
    const float *x = row[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) times[j] += is_equal(x[j], most[j]);
  }
}

static inline void exponential_rows(const float *const *row, int64_t rows, int64_t width,
                                    float *most, float *sum) {
#pragma omp simd
  for (int64_t j = 0; j < width; j++) most[j] = row[0][j], sum[j] = 0;
  for (int64_t i = 1; i < rows; i++) {
    const float *x = row[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) most[j] = larger(most[j], x[j]);
  }
  for (int64_t i = 0; i < rows; i++) {
    const float *x = row[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) sum[j] += below(x[j], finite_or_zero(most[j]));
  }
}

/* From the first row, which is near enough for so few: the mean is first[j] + rest[j]. */
static inline void square_rows(const float *const *row, int64_t rows, int64_t width, float *first,
                               float *squares, float *rest) {
  const float n = (float)rows;
  int64_t i = 0;
#pragma omp simd
  for (int64_t j = 0; j < width; j++) first[j] = row[0][j], squares[j] = 0, rest[j] = 0;
  for (; i + 4 <= rows; i += 4) {
    const float *r0 = row[i], *r1 = row[i + 1], *r2 = row[i + 2], *r3 = row[i + 3];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
      const float a = r0[j] - first[j], b = r1[j] - first[j];
      const float c = r2[j] - first[j], d = r3[j] - first[j];
      rest[j] += (a + b) + (c + d);
      squares[j] += (a * a + b * b) + (c * c + d * d);
    }
  }
  for (; i < rows; i++) {
    const float *r0 = row[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
      const float a = r0[j] - first[j];
      rest[j] += a;
      squares[j] += a * a;
    }
  }
#pragma omp simd
  for (int64_t j = 0; j < width; j++) {
    rest[j] /= n;
    const float less = squares[j] - n * (rest[j] * rest[j]);
    squares[j] = squares[j] > FLT_MAX ? squares[j] : less < 0 ? 0 : less;
  }
}

static inline void strip_add(form f, strip *s, const float *const *row, int64_t rows,
                             int64_t width) {
  float first[STRIP], second[STRIP], third[STRIP];
  if (f == MOST) {
    most_rows(row, rows, width, first);
#pragma omp simd
    for (int64_t j = 0; j < width; j++) s->a[j] = (double)larger_or_nan((float)s->a[j], first[j]);
    return;
  }
  strip block;
  block.n = (double)rows;
  if (f == SUM) sum_rows(row, rows, width, first);
  else if (f == LARGEST) largest_rows(row, rows, width, first, second);
  else if (f == EXPONENTIALS) exponential_rows(row, rows, width, first, second);
  else square_rows(row, rows, width, first, second, third);
  if (f == SUM) {
#pragma omp simd
    for (int64_t j = 0; j < width; j++) s->a[j] += (double)first[j];
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < width; j++) block.a[j] = (double)first[j], block.b[j] = (double)second[j];
  if (f == SQUARED_DIFFERENCES) {
#pragma omp simd
    for (int64_t j = 0; j < width; j++) block.a[j] += (double)third[j];
  }
  strip_join(f, s, &block, width);
}

/* ---- results --------------------------------------------------------------------------------- */

static inline float state_result(const state *s, const ac_reduce_attributes *a) {
  switch (a->kind) {
  case AC_REDUCE_SUM:
    return (float)(s->a / (double)a->divisor);
  case AC_REDUCE_SQUARES:
    return (float)sqrt(s->a);
  case AC_REDUCE_POWERS:
    return (float)pow(s->a, 1 / (double)a->power);
  case AC_REDUCE_MIN:
    return (float)-s->a;
  case AC_REDUCE_LOGSUMEXP:
    return (float)(s->a + log(s->b));
  case AC_REDUCE_VARIANCE:
    return (float)(s->b / (double)a->divisor);
  default:
    return (float)s->a;
  }
}

/* What the gradient needs: the share of one of the largest, or the mean. */
static inline float state_kept(form f, const state *s) {
  return (float)(f == SQUARED_DIFFERENCES ? s->a : s->b > 0 ? 1 / s->b : 0);
}

#endif
