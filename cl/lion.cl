/* lion: the formula of src/ops/lion.h, one work-item an element, groups of GROUP; w, if it is
 * there, becomes a copy of p. Dtypes: storage for w, float for the rest; with ROUNDED p is
 * bf16, rounded by chance with key, from and update, and with GRADIENT_BF16 g is bf16. With
 * EIGHT_BIT m is in blocks of 8 bits, which work-groups have as common.cl says. */

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

#ifdef EIGHT_BIT

kernel WORK_GROUP(EIGHT_BIT_GROUP, 1)
void lion(const global gradient_t *g, global rounded_t *p, global uchar *m, global storage *w,
          long n, uint2 key, uint from, uint update, float gradient_factor, float rate, float decay,
          float keep1, float take1, float take2) {
  const lion_factors a = {gradient_factor, rate, decay, keep1, take1, take2};
  EIGHT_BIT_STEP(1, m, m, lion_update(a, before, gradient, &signed_kept));
}

#else

kernel WORK_GROUP(GROUP, 1) void lion(const global gradient_t *g, global rounded_t *p,
                                      global float *m, global storage *w, long n, uint2 key,
                                      uint from, uint update, float gradient_factor, float rate,
                                      float decay, float keep1, float take1, float take2) {
  const lion_factors a = {gradient_factor, rate, decay, keep1, take1, take2};
  const size_t i = get_global_id(0);
  if (i >= n) return;
  float kept = m[i];
  const float result = lion_update(a, rounded_load(p, i), gradient_load(g, i), &kept);
  m[i] = kept;
  rounded_store(p, i, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, i, result);
}

#endif
