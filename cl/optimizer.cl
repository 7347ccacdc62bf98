/* gradient_statistics: out[0] = sum (g scale)^2, out[1] = 0 if every g is finite, else 1. Two
 * passes: a fixed number of work-groups of GROUP items leave (sum, flag) in `partial`, then one
 * group adds these up; local memory 8 * GROUP bytes. An exponent of all ones is looked for in the
 * bits, which no compiler option changes.
 *
 * adamw and sgd: the formulas of src/ops/optimizer.h, one work-item an element, groups of GROUP;
 * w, if it is there, becomes a copy of p. Dtypes: storage for w, float for the rest. */

void write_statistics(float sum, int bad, local float *scratch, local int *flags,
                      global float *to) {
  const int item = get_local_id(0);
  flags[item] = bad;
  const float total = group_sum(sum, scratch, item, GROUP);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) flags[item] |= flags[item + half_size];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0) {
    to[0] = total;
    to[1] = flags[0];
  }
}

kernel WORK_GROUP(GROUP, 1) void gradient_statistics(const global float *g, global float *partial,
                                                     long n, float scale) {
  local float scratch[GROUP];
  local int flags[GROUP];
  float sum = 0;
  int bad = 0;
  for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) {
    const float v = g[i] * scale;
    bad |= (as_uint(g[i]) & 0x7f800000u) == 0x7f800000u;
    sum += v * v;
  }
  write_statistics(sum, bad, scratch, flags, partial + 2 * get_group_id(0));
}

kernel WORK_GROUP(GROUP, 1) void gradient_statistics_total(const global float *partial,
                                                           global float *out, int groups) {
  local float scratch[GROUP];
  local int flags[GROUP];
  float sum = 0;
  int bad = 0;
  for (int i = get_local_id(0); i < groups; i += GROUP) {
    sum += partial[2 * i];
    bad |= partial[2 * i + 1] != 0;
  }
  write_statistics(sum, bad, scratch, flags, out);
}

kernel WORK_GROUP(GROUP, 1) void adamw(const global float *g, global float *p, global float *m,
                                       global float *v, global storage *w, long n,
                                       float gradient_factor, float decay, float take1, float take2,
                                       float step, float sqrt_correction2, float epsilon) {
  const size_t i = get_global_id(0);
  if (i >= n) return;
  const float d = gradient_factor * g[i];
  const float mean = m[i] + take1 * (d - m[i]), square = v[i] + take2 * (d * d - v[i]);
  m[i] = mean;
  v[i] = square;
  const float result =
      p[i] - decay * p[i] - step * mean / (sqrt(square) / sqrt_correction2 + epsilon);
  p[i] = result;
  if (w) store(w, i, result);
}

kernel WORK_GROUP(GROUP, 1) void sgd(const global float *g, global float *p, global float *momentum,
                                     global storage *w, long n, float gradient_factor, float rate,
                                     float weight_decay, float keep, int nesterov, int first) {
  const size_t i = get_global_id(0);
  if (i >= n) return;
  float d = gradient_factor * g[i] + weight_decay * p[i];
  if (momentum) {
    const float b = first ? d : keep * momentum[i] + d;
    momentum[i] = b;
    d = nesterov ? d + keep * b : b;
  }
  const float result = p[i] - rate * d;
  p[i] = result;
  if (w) store(w, i, result);
}
