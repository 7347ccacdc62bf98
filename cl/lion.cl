/* lion: the formula of src/ops/lion.h, one work-item an element, groups of GROUP; w, if it is
 * there, becomes a copy of p. Dtypes: storage for w, float for the rest; with
 * ROUNDED p is bf16, rounded by chance with key and update, and with GRADIENT_BF16 g is bf16. */

kernel WORK_GROUP(GROUP, 1) void lion(const global gradient_t *g, global rounded_t *p,
                                      global float *m, global storage *w, long n, uint2 key,
                                      uint update, float gradient_factor, float rate, float decay,
                                      float keep1, float take1, float take2) {
  const size_t i = get_global_id(0);
  if (i >= n) return;
  const float d = gradient_factor * gradient_load(g, i), momentum = m[i], old = rounded_load(p, i);
  const float direction = keep1 * momentum + take1 * d;
  m[i] = momentum + take2 * (d - momentum);
  const float result = old - decay * old - rate * ((direction > 0) - (direction < 0));
  rounded_store(p, i, result, key, WEIGHT_STREAM(update));
  if (w) store(w, i, result);
}
