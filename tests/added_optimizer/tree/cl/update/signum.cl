/* signum: the formula of src/ops/update/signum.h, one work-item an element, groups of GROUP, by
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
  float gradient_factor, rate, decay, take;
} signum_factors;

/* The parameter's next value, with its momentum. */
floats signum_update(signum_factors a, floats p, floats g, floats *kept) {
  const floats d = a.gradient_factor * g, momentum = *kept + a.take * (d - *kept);
  *kept = momentum;
  return p - a.decay * p - a.rate * sign(momentum);
}

#define SIGNUM_FACTORS const signum_factors a = {factors.s0, factors.s1, factors.s2, factors.s3}

#ifdef EIGHT_BIT

kernel WORK_GROUP(EIGHT_BIT_GROUP, 1) void signum(UPDATE_OPERANDS(), uint update) {
  SIGNUM_FACTORS;
  EIGHT_BIT_STEP(1, m, m, signum_update(a, before, gradient, &signed_kept));
}

#else

void signum_element(UPDATE_ELEMENT) {
  SIGNUM_FACTORS;
  float kept = m[i];
  const float result = signum_update(a, rounded_load(p, i), gradient_load(g, i), &kept);
  m[i] = kept;
  rounded_store(p, i, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, i, result);
}

kernel WORK_GROUP(GROUP, 1) void signum(UPDATE_OPERANDS(), uint update) {
  UPDATE_ONE(signum_element);
}

kernel WORK_GROUP(GROUP, 1) void signum_each(UPDATE_SLOTS, uint update) {
  UPDATE_EACH(signum_element);
}

#endif
