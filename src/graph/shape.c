#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

int64_t ac_shape_count(const ac_shape *shape) {
  int64_t count = 1;
  for (int i = 0; i < shape->rank; i++) count *= shape->dim[i];
  return count;
}

bool ac_shape_equal(const ac_shape *a, const ac_shape *b) {
  return a->rank == b->rank && a->batched == b->batched &&
         !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]);
}

char *ac_shape_text(char text[AC_SHAPE_TEXT], const ac_shape *shape) {
  size_t used = 1;
  strcpy(text, "[");
  for (int i = 0; i < shape->rank && used < AC_SHAPE_TEXT; i++) {
    const char *comma = i ? ", " : "";
    long long dim = shape->dim[i];
    bool symbolic = i == 0 && shape->batched;
    const char *format = !symbolic ? "%s%lld" : dim == 1 ? "%sB" : "%sB*%lld";
    used += (size_t)snprintf(text + used, AC_SHAPE_TEXT - used, format, comma, dim);
  }
  if (used < AC_SHAPE_TEXT) snprintf(text + used, AC_SHAPE_TEXT - used, "]");
  return text;
}

bool ac_shape_parse(ac_shape *shape, int rank, const int64_t *dim) {
  if (!dim || rank < 1 || rank > AC_MAX_RANK) return false;
  *shape = (ac_shape){.rank = rank, .batched = dim[0] < 0};
  int64_t count = 1;
  for (int i = 0; i < rank; i++) {
    int64_t d = i == 0 && dim[0] < 0 && dim[0] > INT64_MIN ? -dim[0] : dim[i];
    if (d <= 0 || d > AC_MAX_ELEMENTS / count) return false;
    shape->dim[i] = d;
    count *= d;
  }
  return true;
}

ac_operand ac_operand_of(const ac_tensor *tensor, int64_t batch) {
  const ac_shape *shape = &tensor->shape;
  ac_operand operand = {.dtype = tensor->dtype, .rank = shape->rank, .count = 1};
  for (int i = 0; i < shape->rank; i++) {
    operand.dim[i] = i == 0 && shape->batched ? shape->dim[0] * batch : shape->dim[i];
    operand.count *= operand.dim[i];
  }
  return operand;
}
