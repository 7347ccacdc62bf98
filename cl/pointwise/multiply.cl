/* multiply: c[i] (+)= a[i] b[i mod m], for m that divides n. c may be a. One work-item an element,
 * groups of GROUP. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void multiply(const global storage *a, const global storage *b,
                                          global storage *c, long n, long m, int add) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(a, i) * load(b, modulo(i, m));
  store(c, i, add ? load(c, i) + v : v);
}
