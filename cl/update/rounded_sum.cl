/* rounded_sum: y[i] (+)= x[i]; with ROUNDED y is bf16, rounded by chance with key, update, sample
 * and stream. One work-item an element, groups of GROUP. Dtypes: storage for x. */
#include "update/parameter.h"

kernel WORK_GROUP(GROUP, 1) void rounded_sum(const global storage *x, global rounded_t *y, long n,
                                             int add, uint2 key, uint from, uint update,
                                             uint sample, uint stream) {
  const size_t i = element_id();
  if (i >= n) return;
  const float value = add ? rounded_load(y, i) + load(x, i) : load(x, i);
  rounded_store(y, i, value, key, (uint4)(from, sample, update, stream));
}
