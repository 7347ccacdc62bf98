/* lion: the formula of src/ops/lion.h, one work-item an element, groups of GROUP; w, if it is
 * there, becomes a copy of p. Dtypes: storage for w, float for the rest. */

kernel WORK_GROUP(GROUP, 1) void lion(const global float *g, global float *p, global float *m,
                                      global storage *w, long n, float gradient_factor, float rate,
                                      float decay, float keep1, float take1, float take2) {
  const size_t i = get_global_id(0);
  if (i >= n) return;
  const float d = gradient_factor * g[i], momentum = m[i];
  const float direction = keep1 * momentum + take1 * d;
  m[i] = momentum + take2 * (d - momentum);
  const float result = p[i] - decay * p[i] - rate * ((direction > 0) - (direction < 0));
  p[i] = result;
  if (w) store(w, i, result);
}
