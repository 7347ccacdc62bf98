#include "generator.h"

#include <math.h>
#include <stdlib.h>

void op_ties_add(op_ties *ties, double distance) {
  if (ties->count == ties->room) {
    ties->room = 2 * ties->room + 64;
    ties->distances = realloc(ties->distances, (size_t)ties->room * sizeof *ties->distances);
  }
  ties->distances[ties->count++] = distance;
}

void op_ties_at_zero(op_ties *ties, const ac_op_args *args) {
  for (int64_t e = 0; e < args->in[0].count; e++) op_ties_add(ties, op_reals(&args->in[0])[e]);
}

bool op_is_undecided(const op_ties *ties, const double *x, int64_t count) {
  double best = -INFINITY, second = -INFINITY, largest = 0;
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(x[i]));
    if (x[i] > best) second = best, best = x[i];
    else second = fmax(second, x[i]);
  }
  return best - second <= 16 * ties->unit * largest;
}

double op_weight_of(const ac_operand *weights, int64_t row) {
  return weights->count ? op_reals(weights)[row] : 1;
}
