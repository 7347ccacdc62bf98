/* lion: the formula of src/ops/update/lion.h, one work-item an element, groups of GROUP, by
 * parameter.h for one parameter or up to eight; w, if it is there, becomes a copy of p. Dtypes:
 * storage for w, float for the rest; with ROUNDED p is bf16, rounded by chance with key, from and
 * update, and with GRADIENT_BF16 g is bf16. With EIGHT_BIT m is in blocks of 8 bits, which
 * work-groups have as eight_bit.h says. */
#include "update/eight_bit.h"
#include "update/parameter.h"

#ifndef EIGHT_BIT
SEPARATE_PRODUCTS
#endif

typedef struct {
  float gradient_factor, rate, decay, keep1, take1, take2;
} lion_factors;

/* The parameter's next value, with its momentum. */
floats lion_update(lion_factors a, floats p, floats g, floats *kept) {
  const floats d = a.gradient_factor * g, momentum = *kept;
  const floats direction = a.keep1 * momentum + a.take1 * d;
  *kept = momentum + a.take2 * (d - momentum);
  return p - a.decay * p - a.rate * sign(direction);
}

#define LION_FACTORS \
  const lion_factors a = {factors.s0, factors.s1, factors.s2, factors.s3, factors.s4, factors.s5}

#ifdef EIGHT_BIT

kernel WORK_GROUP(EIGHT_BIT_GROUP, 1) void lion(UPDATE_OPERANDS(), uint update) {
  LION_FACTORS;
  EIGHT_BIT_STEP(1, m, m, lion_update(a, before, gradient, &signed_kept));
}

#else

void lion_element(UPDATE_ELEMENT) {
  LION_FACTORS;
  float kept = m[i];
  const float result = lion_update(a, rounded_load(p, i), gradient_load(g, i), &kept);
  m[i] = kept;
  rounded_store(p, i, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, i, result);
}

kernel WORK_GROUP(GROUP, 1) void lion(UPDATE_OPERANDS(), uint update) {
  UPDATE_ONE(lion_element);
}

kernel WORK_GROUP(GROUP, 1) void lion_each(UPDATE_SLOTS, uint update) {
  UPDATE_EACH(lion_element);
}

#endif
