/* square: y = factor x^2; gradient: dx = 2 factor x dy. In place allowed. One work-item an element,
 * groups of GROUP. Dtypes: storage. */

kernel WORK_GROUP(GROUP, 1) void square(const global storage *x, global storage *y, float factor,
                                        long n) {
  const size_t i = get_global_id(0);
  if (i < n) store(y, i, factor * load(x, i) * load(x, i));
}

kernel WORK_GROUP(GROUP, 1) void square_gradient(const global storage *dy, const global storage *x,
                                                 global storage *dx, float factor, long n) {
  const size_t i = get_global_id(0);
  if (i < n) store(dx, i, 2 * factor * load(x, i) * load(dy, i));
}
