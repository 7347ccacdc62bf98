/* muon: the formulas of src/ops/update/muon.h but for the products, which are those of gemm.cl or,
 * with FACTORS_BF16, of unit_gemm.cl. `space` is the workspace, as floats and as what is
 * multiplied, in which from such elements on lie what the names say.
 *
 * _momentum: a fixed number of work-groups of GROUP items; each leaves a sum of squares. _norm: one
 * group. Both have local memory of a float an item. The rest: one work-item an element, groups of
 * GROUP. Dtypes: storage for w, float for the rest; with FACTORS_BF16 X is bf16, with ROUNDED p is
 * bf16, rounded by chance with key, from and update, and with GRADIENT_BF16 g is bf16.
 */
#include "update/parameter.h"

#ifdef FACTORS_BF16
typedef ushort factor;
#define load_factor bf16_load
#define store_factor bf16_store
#else
typedef float factor;
#define load_factor LOAD_FLOAT
#define store_factor STORE_FLOAT
#endif

kernel WORK_GROUP(GROUP, 1) void muon_momentum(const global gradient_t *g, global float *m,
                                               global float *space, global factor *factors,
                                               long sums, long x, long n, float gradient_factor,
                                               float take, float blend) {
  local float scratch[GROUP];
  float sum = 0;
  for (size_t i = element_id(); i < n; i += get_global_size(0)) {
    const float d = gradient_factor * gradient_load(g, i), moved = m[i] + take * (d - m[i]);
    const float update = d + blend * (moved - d);
    m[i] = moved;
    store_factor(factors, x + i, update);
    sum += update * update;
  }
  sum = group_sum(sum, scratch, get_local_id(0), GROUP);
  if (get_local_id(0) == 0) space[sums + get_group_id(0)] = sum;
}

/* The first sum becomes what the update is multiplied with. */
kernel WORK_GROUP(GROUP, 1) void muon_norm(global float *space, long sums, int groups,
                                           float epsilon) {
  local float scratch[GROUP];
  float sum = 0;
  for (int i = get_local_id(0); i < groups; i += GROUP) sum += space[sums + i];
  sum = group_sum(sum, scratch, get_local_id(0), GROUP);
  if (get_local_id(0) == 0) space[sums] = 1 / fmax(sqrt(sum), epsilon);
}

kernel WORK_GROUP(GROUP, 1) void muon_normalise(const global float *space, global factor *factors,
                                                long sums, long x, long n) {
  const size_t i = element_id();
  if (i < n) store_factor(factors, x + i, load_factor(factors, x + i) * space[sums]);
}

#ifndef FACTORS_BF16
/* Of A [side, side]: what A is multiplied with, c A + b, and what is added to that product, a. */
kernel WORK_GROUP(GROUP, 1) void muon_polynomial(global float *space, long gram, long factor,
                                                 long polynomial, long side, float a, float b,
                                                 float c) {
  const size_t i = element_id();
  if (i >= side * side) return;
  const size_t row = quotient(i, side);
  const bool diagonal = i - row * side == row;
  space[factor + i] = c * space[gram + i] + (diagonal ? b : 0);
  space[polynomial + i] = diagonal ? a : 0;
}
#endif

kernel WORK_GROUP(GROUP, 1) void muon(global rounded_t *p, global storage *w,
                                      const global factor *factors, long x, long n, uint2 key,
                                      uint from, uint update, float decay, float step) {
  const size_t i = element_id();
  if (i >= n) return;
  const float before = rounded_load(p, i),
              result = before - decay * before - step * load_factor(factors, x + i);
  rounded_store(p, i, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, i, result);
}
