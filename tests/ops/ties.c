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

void op_ties_call(op_ties *ties, op_call call) {
  if (ties->call_count == ties->call_room) {
    ties->call_room = 2 * ties->call_room + 64;
    ties->calls = realloc(ties->calls, (size_t)ties->call_room * sizeof *ties->calls);
  }
  ties->calls[ties->call_count++] = call;
}

void op_ties_classify(op_ties *ties, const double *x, int64_t count, double weight) {
  double second = -INFINITY, largest = 0;
  int64_t best = 0;
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(x[i]));
    if (i && x[i] > x[best]) second = x[best], best = i;
    else if (i) second = fmax(second, x[i]);
  }
  bool close = x[best] - second <= 16 * ties->unit * largest;
  op_ties_call(ties, (op_call){(uint64_t)best, weight, close, OP_CALL_CLASS});
}

void op_ties_find(op_ties *ties, const double *x, int64_t count, int64_t step, int64_t rank) {
  int64_t found = 0;
  double next = INFINITY, largest = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t before = 0;
    for (int64_t j = 0; j < count; j++)
      before += x[j * step] > x[i * step] || (x[j * step] == x[i * step] && j < i);
    if (before == rank) found = i;
  }
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(x[i * step]));
    const double apart = fabs(x[i * step] - x[found * step]);
    if (apart > 0) next = fmin(next, apart); /* what is equal stays so */
  }
  if (isfinite(next)) op_ties_add(ties, next);
  op_ties_call(ties, (op_call){(uint64_t)found, 0, next <= 2 * ties->unit * largest, OP_CALL_ID});
}

void op_ties_free(op_ties *ties) {
  free(ties->distances), free(ties->calls);
  *ties = (op_ties){0};
}

double op_weight_of(const ac_operand *weights, int64_t row) {
  return weights->count ? op_reals(weights)[row] : 1;
}
