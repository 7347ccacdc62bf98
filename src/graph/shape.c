#include "graph/graph.h"

#include "core/blocks.h"

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

/* Whether the dimension, from the last one, is repeated to `size` by an operand. */
static bool broadcast_dimension(ac_shape *shape, int from_last, int64_t size) {
  int64_t *dim = &shape->dim[shape->rank - 1 - from_last];
  if (size == 1 || size == *dim) return true;
  if (*dim != 1) return false;
  *dim = size;
  return true;
}

bool ac_broadcast_shapes(ac_shape *shape, int count, ac_tensor *const *tensors) {
  *shape = (ac_shape){.rank = 0};
  for (int i = 0; i < count; i++) {
    const ac_shape *own = &tensors[i]->shape;
    if (own->rank > shape->rank) shape->rank = own->rank;
  }
  for (int k = 0; k < shape->rank; k++) shape->dim[k] = 1;
  int64_t rows = 0; /* of a sample */
  for (int i = 0; i < count; i++) {
    const ac_shape *own = &tensors[i]->shape;
    if (!own->batched) continue;
    if (own->rank < shape->rank || (rows && own->dim[0] != rows)) return false;
    rows = own->dim[0];
  }
  for (int i = 0; i < count; i++) {
    const ac_shape *own = &tensors[i]->shape;
    const bool leading = rows && own->rank == shape->rank;
    if (leading && !own->batched && own->dim[0] != 1) return false;
    for (int k = 0; k < own->rank - leading; k++)
      if (!broadcast_dimension(shape, k, own->dim[own->rank - 1 - k])) return false;
  }
  shape->batched = rows > 0;
  if (rows) shape->dim[0] = rows;
  return true;
}

ac_operand ac_operand_of(const ac_tensor *tensor, int64_t batch) {
  const ac_shape *shape = &tensor->shape;
  ac_operand operand = {.dtype = tensor->dtype, .rank = shape->rank, .count = 1};
  for (int i = 0; i < shape->rank; i++) {
    operand.dim[i] = i == 0 && shape->batched ? shape->dim[0] * batch : shape->dim[i];
    operand.count *= operand.dim[i];
  }
  if (tensor->blocks) {
    const ac_block_format *format = ac_blocks_format(tensor->blocks);
    operand.blocks = tensor->blocks;
    operand.dim[1] = shape->dim[1] / format->bytes * format->elements;
    operand.count = operand.dim[0] * operand.dim[1];
  }
  return operand;
}
