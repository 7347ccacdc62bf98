/* gradient_statistics, as src/ops/update/optimizer.h says: (sum, exponent). Some work-groups of
 * GROUP items leave theirs in `partial`, then, if there are several, one group adds these up;
 * _each: a work-group for each of up to eight gradients. A group reads its elements again if the
 * plain sum is too large or too small. Local memory 8 * GROUP bytes. Items have four elements on
 * their way. An exponent of all ones is looked for in the bits, which no compiler option changes.
 *
 * adamw and sgd: the formulas of src/ops/update/optimizer.h, one work-item an element, groups of
 * GROUP, by parameter.h for one parameter or up to eight; w, if it is there, becomes a copy of p.
 * Dtypes: storage for w, float for the rest; with EIGHT_BIT what is kept is in blocks of 8 bits,
 * which work-groups have as eight_bit.h says; with ROUNDED p is bf16, rounded by chance with key,
 * from and update, and with GRADIENT_BF16 g is bf16. */
#include "update/eight_bit.h"
#include "update/parameter.h"

#ifndef EIGHT_BIT
SEPARATE_PRODUCTS
#endif

/* What an update uses in addition to its operands. */
typedef struct {
  float gradient_factor, decay, take1, take2, step, inverse_correction2, epsilon;
} adamw_factors;

/* The parameter's next value, with what is kept for it. */
floats adamw_update(adamw_factors a, floats p, floats g, floats *mean, floats *square) {
  const floats d = a.gradient_factor * g;
  *mean += a.take1 * (d - *mean);
  *square += a.take2 * (d * d - *square);
  return p - a.decay * p - a.step * *mean / (sqrt(*square) * a.inverse_correction2 + a.epsilon);
}

typedef struct {
  float gradient_factor, rate, weight_decay, keep;
  int nesterov, first;
} sgd_factors;

/* The same; nothing needs to be kept. A NULL in place of `kept` would put it in memory. */
floats sgd_update(sgd_factors a, floats p, floats g, floats *kept, bool keeps) {
  floats d = a.gradient_factor * g + a.weight_decay * p;
  if (keeps) {
    const floats b = a.first ? d : a.keep * *kept + d;
    *kept = b;
    d = a.nesterov ? d + a.keep * b : b;
  }
  return p - a.rate * d;
}

#define ADAMW_FACTORS                                                      \
  const adamw_factors a = {factors.s0, factors.s1, factors.s2, factors.s3, \
                           factors.s4, factors.s5, factors.s6}
#define SGD_FACTORS                                               \
  const sgd_factors a = {factors.s0, factors.s1,      factors.s2, \
                         factors.s3, factors.s4 != 0, factors.s5 != 0}

#ifdef EIGHT_BIT

kernel WORK_GROUP(EIGHT_BIT_GROUP, 1) void adamw(UPDATE_OPERANDS(), uint update) {
  ADAMW_FACTORS;
  EIGHT_BIT_STEP(2, m, v, adamw_update(a, before, gradient, &signed_kept, &kept));
}

kernel WORK_GROUP(EIGHT_BIT_GROUP, 1) void sgd(UPDATE_OPERANDS(), uint update) {
  SGD_FACTORS;
  EIGHT_BIT_STEP(1, m, m, sgd_update(a, before, gradient, &signed_kept, true));
}

#else

#define SQUARES_NOT_FINITE 1
#define SQUARES_EXPONENT 96 /* of UP */
#define SQUARES_LEAST 0x1p-80f
#define SQUARES_MOST 0x1p100f

/* Whether any item of the group says so. */
int group_any(int v, local int *flags, int item) {
  flags[item] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) flags[item] |= flags[item + half_size];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return flags[0];
}

/* Of the elements item, item + step, ... of g, each times `level` and then `scale`. */
float sum_of_squares(const global gradient_t *g, long n, float level, float scale, size_t item,
                     size_t step, int *bad) {
  float sum = 0;
  size_t i = item;
  for (; i + 3 * step < n; i += 4 * step) {
    const float4 v = (float4)(gradient_load(g, i), gradient_load(g, i + step),
                              gradient_load(g, i + 2 * step), gradient_load(g, i + 3 * step)),
                 scaled = v * level * scale;
    *bad |= any((as_int4(v) & 0x7f800000) == 0x7f800000);
    sum += dot(scaled, scaled);
  }
  for (; i < n; i += step) {
    const float v = gradient_load(g, i), scaled = v * level * scale;
    *bad |= (as_int(v) & 0x7f800000) == 0x7f800000;
    sum += scaled * scaled;
  }
  return sum;
}

/* Leaves those of a work-group in `to`. Its items have the elements item, item + step, ... */
void measure_group(const global gradient_t *g, long n, float scale, size_t first, size_t step,
                   local float *scratch, local int *flags, global float *to) {
  const int item = get_local_id(0);
  int bad = 0, exponent = 0;
  float sum = sum_of_squares(g, n, 1, scale, first, step, &bad);
  sum = group_sum(sum, scratch, item, GROUP);
  if (group_any(bad, flags, item)) exponent = SQUARES_NOT_FINITE;
  else if (!(sum <= SQUARES_MOST)) exponent = SQUARES_EXPONENT;
  else if (sum < SQUARES_LEAST) exponent = -SQUARES_EXPONENT;
  if (exponent == SQUARES_EXPONENT || exponent == -SQUARES_EXPONENT) {
    sum = sum_of_squares(g, n, exponent > 0 ? DOWN : UP, scale, first, step, &bad);
    sum = group_sum(sum, scratch, item, GROUP);
  }
  if (item == 0) {
    to[0] = sum;
    to[1] = sum == 0 ? 0 : exponent;
  }
}

kernel WORK_GROUP(GROUP, 1) void gradient_statistics(const global gradient_t *g,
                                                     global float *partial, long n, float scale) {
  local float scratch[GROUP];
  local int flags[GROUP];
  measure_group(g, n, scale, element_id(), get_global_size(0), scratch, flags,
                partial + 2 * get_group_id(0));
}

#define STATISTICS_SLOT(k) \
  const global gradient_t *g##k, global float *to##k, long n##k, float scale##k
#define STATISTICS_SLOTS                                                          \
  STATISTICS_SLOT(0), STATISTICS_SLOT(1), STATISTICS_SLOT(2), STATISTICS_SLOT(3), \
      STATISTICS_SLOT(4), STATISTICS_SLOT(5), STATISTICS_SLOT(6), STATISTICS_SLOT(7)
#define STATISTICS_TAKE(k)    \
  if (get_group_id(0) == k) { \
    g = g##k;                 \
    to = to##k;               \
    n = n##k;                 \
    scale = scale##k;         \
  }

kernel WORK_GROUP(GROUP, 1) void gradient_statistics_each(STATISTICS_SLOTS) {
  local float scratch[GROUP];
  local int flags[GROUP];
  const global gradient_t *g = g0;
  global float *to = to0;
  long n = n0;
  float scale = scale0;
  STATISTICS_TAKE(1)
  STATISTICS_TAKE(2)
  STATISTICS_TAKE(3)
  STATISTICS_TAKE(4)
  STATISTICS_TAKE(5)
  STATISTICS_TAKE(6)
  STATISTICS_TAKE(7)
  measure_group(g, n, scale, get_local_id(0), GROUP, scratch, flags, to);
}

/* A partial sum, as one by the exponent `to`. */
float by_exponent(float sum, int from, int to) {
  if (from > to - SQUARES_EXPONENT) return sum;
  return from == to - SQUARES_EXPONENT ? sum * DOWN * DOWN : 0;
}

/* By the largest exponent of all. */
kernel WORK_GROUP(GROUP, 1) void gradient_statistics_total(const global float *partial,
                                                           global float *out, int groups) {
  local float scratch[GROUP];
  local int flags[GROUP];
  const int item = get_local_id(0);
  float sum = 0, largest = -SQUARES_EXPONENT;
  int bad = 0;
  for (int i = item; i < groups; i += GROUP) {
    bad |= partial[2 * i + 1] == SQUARES_NOT_FINITE;
    if (partial[2 * i] != 0) largest = fmax(largest, partial[2 * i + 1]);
  }
  bad = group_any(bad, flags, item);
  const int exponent = group_max(largest, scratch, item, GROUP);
  for (int i = item; i < groups; i += GROUP)
    sum += by_exponent(partial[2 * i], partial[2 * i + 1], exponent);
  sum = group_sum(sum, scratch, item, GROUP);
  if (item == 0) {
    out[0] = sum;
    out[1] = bad ? SQUARES_NOT_FINITE : sum == 0 ? 0 : exponent;
  }
}

void adamw_element(UPDATE_ELEMENT) {
  ADAMW_FACTORS;
  float mean = m[i], square = v[i];
  const float result = adamw_update(a, rounded_load(p, i), gradient_load(g, i), &mean, &square);
  m[i] = mean;
  v[i] = square;
  rounded_store(p, i, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, i, result);
}

kernel WORK_GROUP(GROUP, 1) void adamw(UPDATE_OPERANDS(), uint update) {
  UPDATE_ONE(adamw_element);
}

kernel WORK_GROUP(GROUP, 1) void adamw_each(UPDATE_SLOTS, uint update) {
  UPDATE_EACH(adamw_element);
}

void sgd_element(UPDATE_ELEMENT) {
  SGD_FACTORS;
  float kept = m ? m[i] : 0;
  const float result = sgd_update(a, rounded_load(p, i), gradient_load(g, i), &kept, m != 0);
  if (m) m[i] = kept;
  rounded_store(p, i, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, i, result);
}

kernel WORK_GROUP(GROUP, 1) void sgd(UPDATE_OPERANDS(), uint update) {
  UPDATE_ONE(sgd_element);
}

kernel WORK_GROUP(GROUP, 1) void sgd_each(UPDATE_SLOTS, uint update) {
  UPDATE_EACH(sgd_element);
}

#endif
