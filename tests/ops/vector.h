/* Reads the frozen results in tests/vectors; see its README for the format. */
#ifndef AC_TESTS_OPS_VECTOR_H
#define AC_TESTS_OPS_VECTOR_H

#include "case.h"

typedef struct op_vector_tensor {
  char name[32];
  ac_dtype dtype;
  int rank;
  int64_t dim[AC_MAX_RANK];
  int64_t count;
  double *data;
} op_vector_tensor;

typedef struct op_vector {
  char name[64];
  int attribute_count, tensor_count;
  struct {
    char name[32];
    double value;
  } attribute[16];
  op_vector_tensor tensor[48];
} op_vector;

/* Reads the cases of tests/vectors/NAME.safetensors. NULL if there is no such file or it is
 * malformed. */
op_vector *op_vectors_read(const char *name, int *count);
void op_vectors_free(op_vector *vectors, int count);

/* An attribute's value, or `otherwise`. */
double op_vector_attribute(const op_vector *vector, const char *name, double otherwise);
/* NULL if there is none of this name. */
const op_vector_tensor *op_vector_find(const op_vector *vector, const char *name);

#endif
