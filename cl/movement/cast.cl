/* cast: y[i] (+)= x[i], between storage and float, one way or the other, and from bytes and
 * integers. One work-item an element, groups of GROUP. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void cast_to_float(const global storage *x, global float *y, long n,
                                               int add) {
  const size_t i = element_id();
  if (i < n) y[i] = add ? y[i] + load(x, i) : load(x, i);
}

kernel WORK_GROUP(GROUP, 1) void cast_to_storage(const global float *x, global storage *y, long n,
                                                 int add) {
  const size_t i = element_id();
  if (i < n) store(y, i, add ? load(y, i) + x[i] : x[i]);
}

kernel WORK_GROUP(GROUP, 1) void cast_bytes(const global uchar *x, global storage *y, long n,
                                            int add) {
  const size_t i = element_id();
  if (i < n) store(y, i, add ? load(y, i) + (float)x[i] : (float)x[i]);
}

kernel WORK_GROUP(GROUP, 1) void cast_integers(const global int *x, global float *y, long n,
                                               int add) {
  const size_t i = element_id();
  if (i < n) y[i] = add ? y[i] + (float)x[i] : (float)x[i];
}

/* Nothing is added to integers: `add` makes the arguments those of the others. */
kernel WORK_GROUP(GROUP, 1) void cast_to_integers(const global long *x, global int *y, long n,
                                                  int add) {
  const size_t i = element_id();
  if (i < n) y[i] = (int)x[i];
}
