/* How far a graph is from deciding otherwise: an input of ReLU from 0, the largest element of a
 * window from the second largest. Elements that are equal to the bit are copies of one value, or
 * zeros, and stay equal. Rows that a loss may count as classified right or not, as it rounds, are
 * weighed. */
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

/* Whether the two largest are too close to call, rounding being `unit` of what they are sums of. */
static bool is_undecided(const double *x, int64_t count, double unit) {
  double best = -INFINITY, second = -INFINITY, largest = 0;
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(x[i]));
    if (x[i] > best) second = best, best = x[i];
    else second = fmax(second, x[i]);
  }
  return best - second <= 16 * unit * largest;
}

static double weight_of(const ac_operand *weights, int64_t row) {
  return weights->count ? op_reals(weights)[row] : 1;
}

static void rows(random_reference *r, const ac_op_args *args, double unit) {
  const ac_operand *x = &args->in[0];
  int64_t columns = ac_columns(x);
  for (int64_t n = 0; n < ac_rows(x); n++)
    if (is_undecided(op_reals(x) + n * columns, columns, unit))
      r->undecided += weight_of(&args->in[2], n);
}

static void rows_of_products(random_reference *r, const ac_op_args *args, double unit) {
  const ac_linear_cross_entropy_attributes *a = args->attributes;
  const double *x = op_reals(&args->in[0]), *w = op_reals(&args->in[1]);
  int64_t in = ac_columns(&args->in[0]), V = ac_linear_cross_entropy_classes(args);
  double *z = malloc((size_t)V * sizeof *z);
  for (int64_t n = 0; n < ac_rows(&args->in[0]); n++) {
    for (int64_t v = 0; v < V; v++) {
      z[v] = 0;
      for (int64_t i = 0; i < in; i++)
        z[v] += x[n * in + i] * w[a->layout == AC_OUT_IN ? v * in + i : i * V + v];
    }
    if (is_undecided(z, V, unit)) r->undecided += weight_of(&args->in[3], n);
  }
  free(z);
}

/* A sample is right if all of its logits have the right sign. */
static void samples(random_reference *r, const ac_op_args *args, double unit) {
  const ac_operand *x = &args->in[0];
  int64_t columns = x->count / x->dim[0];
  for (int64_t n = 0; n < x->dim[0]; n++) {
    double nearest = INFINITY, largest = 0;
    for (int64_t i = 0; i < columns; i++) {
      nearest = fmin(nearest, fabs(op_reals(x)[n * columns + i]));
      largest = fmax(largest, fabs(op_reals(x)[n * columns + i]));
    }
    if (nearest <= 16 * unit * largest) r->undecided += weight_of(&args->in[2], n);
  }
}

void random_ties(random_reference *r, const ac_op_args *args, const random_run *run) {
  double unit = fmax(run->unit, 0x1p-22);
  if (args->op == AC_OP_max_pool2d) windows(r, args);
  if (args->op == AC_OP_cross_entropy) rows(r, args, unit);
  if (args->op == AC_OP_linear_cross_entropy) rows_of_products(r, args, unit);
  if (args->op == AC_OP_binary_cross_entropy) samples(r, args, unit);
  if (args->op != AC_OP_relu && args->op != AC_OP_leaky_relu) return;
  for (int64_t e = 0; e < args->in[0].count; e++) append(r, op_reals(&args->in[0])[e]);
}
