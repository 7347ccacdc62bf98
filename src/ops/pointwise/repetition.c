#include "ops/pointwise/repetition.h"

/* Puts a dimension before those that are there. */
static void put_first(ac_repetition *r, int64_t dim, int64_t stride) {
  if (r->rank && stride == r->stride[0] * r->dim[0]) {
    r->dim[0] *= dim;
    return;
  }
  for (int k = r->rank++; k > 0; k--) {
    r->dim[k] = r->dim[k - 1];
    r->stride[k] = r->stride[k - 1];
  }
  r->dim[0] = dim;
  r->stride[0] = stride;
}

void ac_repetition_of(ac_repetition *r, const ac_operand *x, const ac_operand *result) {
  *r = (ac_repetition){0};
  int64_t stride = 1;
  for (int k = 1; k <= result->rank; k++) {
    const int64_t dim = result->dim[result->rank - k];
    const int64_t own = k <= x->rank ? x->dim[x->rank - k] : 1;
    if (dim == 1) continue;
    put_first(r, dim, own == 1 ? 0 : stride);
    stride *= own;
  }
}

int64_t ac_repetition_period(const ac_repetition *r) {
  int64_t period = 1;
  for (int k = r->rank && r->stride[0] == 0 ? 1 : 0; k < r->rank; k++) period *= r->dim[k];
  return period;
}
