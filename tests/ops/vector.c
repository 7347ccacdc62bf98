#include "vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_tensor(FILE *file, op_vector *vector) {
  enum { MOST = sizeof vector->tensor / sizeof *vector->tensor };
  if (vector->tensor_count == MOST) return false;
  op_vector_tensor *t = &vector->tensor[vector->tensor_count++];
  char dtype[8];
  if (fscanf(file, "%31s %7s %d", t->name, dtype, &t->rank) != 3) return false;
  if (t->rank < 1 || t->rank > AC_MAX_RANK) return false;
  t->dtype = strcmp(dtype, "i32") == 0 ? AC_I32 : AC_F32;
  t->count = 1;
  for (int d = 0; d < t->rank; d++) {
    long long dim;
    if (fscanf(file, "%lld", &dim) != 1 || dim < 1) return false;
    t->dim[d] = dim;
    t->count *= dim;
  }
  t->data = calloc((size_t)t->count, sizeof(double));
  for (int64_t i = 0; t->data && i < t->count; i++) {
    if (fscanf(file, "%lf", &t->data[i]) != 1) return false;
    if (strcmp(dtype, "f32") == 0) t->data[i] = (double)(float)t->data[i];
  }
  return t->data != NULL;
}

static bool read_attribute(FILE *file, op_vector *vector) {
  enum { MOST = sizeof vector->attribute / sizeof *vector->attribute };
  if (vector->attribute_count == MOST) return false;
  int i = vector->attribute_count++;
  return fscanf(file, "%31s %lf", vector->attribute[i].name, &vector->attribute[i].value) == 2;
}

op_vector *op_vectors_read(const char *name, int *count) {
  char path[1024], word[16];
  const char *folder = getenv("ACCRUE_TEST_VECTORS");
  snprintf(path, sizeof path, "%s/%s.txt", folder ? folder : ACCRUE_TEST_VECTORS, name);
  *count = 0;
  FILE *file = fopen(path, "r");
  if (!file) return NULL;
  op_vector *vectors = NULL;
  bool good = true;
  while (good && fscanf(file, "%15s", word) == 1) {
    op_vector *last = *count ? &vectors[*count - 1] : NULL;
    if (strcmp(word, "case") == 0) {
      op_vector *more = realloc(vectors, (size_t)(*count + 1) * sizeof *vectors);
      good = more != NULL;
      if (!good) break;
      vectors = more;
      last = &vectors[(*count)++];
      memset(last, 0, sizeof *last);
      good = fscanf(file, "%63s", last->name) == 1;
    } else if (last && strcmp(word, "attribute") == 0) {
      good = read_attribute(file, last);
    } else if (last && strcmp(word, "tensor") == 0) {
      good = read_tensor(file, last);
    } else {
      good = false;
    }
  }
  fclose(file);
  if (good) return vectors;
  op_vectors_free(vectors, *count);
  *count = 0;
  return NULL;
}

void op_vectors_free(op_vector *vectors, int count) {
  for (int i = 0; i < count; i++)
    for (int t = 0; t < vectors[i].tensor_count; t++) free(vectors[i].tensor[t].data);
  free(vectors);
}

double op_vector_attribute(const op_vector *vector, const char *name, double otherwise) {
  for (int i = 0; i < vector->attribute_count; i++)
    if (strcmp(vector->attribute[i].name, name) == 0) return vector->attribute[i].value;
  return otherwise;
}

const op_vector_tensor *op_vector_find(const op_vector *vector, const char *name) {
  for (int i = 0; i < vector->tensor_count; i++)
    if (strcmp(vector->tensor[i].name, name) == 0) return &vector->tensor[i];
  return NULL;
}
