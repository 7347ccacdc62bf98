/* How far a graph is from deciding otherwise: an input of ReLU from 0, the largest element of a
 * window from the second largest. Elements that are equal to the bit are copies of one value, or
 * zeros, and stay equal. */
#include "random.h"

#include <math.h>
#include <stdlib.h>

static void append(random_reference *r, double distance) {
  if (r->kink_count == r->kink_room) {
    r->kink_room = 2 * r->kink_room + 64;
    r->kinks = realloc(r->kinks, (size_t)r->kink_room * sizeof *r->kinks);
  }
  r->kinks[r->kink_count++] = distance;
}

static void windows(random_reference *r, const ac_op_args *args) {
  const ac_pool2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  int64_t H = x->dim[2], W = x->dim[3], h = y->dim[2], w = y->dim[3];
  for (int64_t e = 0; e < y->count; e++) {
    const double *plane = op_reals(x) + e / (h * w) * H * W;
    double best = -INFINITY, second = -INFINITY;
    for (int64_t k = 0; k < (int64_t)a->kernel[0] * a->kernel[1]; k++) {
      int64_t i = e / w % h * a->stride[0] - a->padding[0] + k / a->kernel[1];
      int64_t j = e % w * a->stride[1] - a->padding[1] + k % a->kernel[1];
      if (i < 0 || i >= H || j < 0 || j >= W) continue;
      double value = plane[i * W + j];
      if (value > best) second = best, best = value;
      else second = fmax(second, value);
    }
    append(r, isinf(second) ? 0 : best - second);
  }
}

void random_ties(random_reference *r, const ac_op_args *args) {
  if (args->op == AC_OP_max_pool2d) windows(r, args);
  if (args->op != AC_OP_relu && args->op != AC_OP_leaky_relu) return;
  for (int64_t e = 0; e < args->in[0].count; e++) append(r, op_reals(&args->in[0])[e]);
}
