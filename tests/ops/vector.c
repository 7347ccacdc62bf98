#include "vector.h"

#include "io/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The next elements of a file, each as a double. */
static bool read_elements(FILE *data, const char *dtype, int64_t count, double *to) {
  const bool integers = strcmp(dtype, "I32") == 0, doubles = strcmp(dtype, "F64") == 0;
  for (int64_t i = 0; i < count; i++) {
    union {
      int32_t integer;
      float single;
      double whole;
    } x;
    const size_t size = doubles ? sizeof x.whole : sizeof x.single;
    if (fread(&x, size, 1, data) != 1) return false;
    ac_swap_to_little_endian(&x, 1, size);
    to[i] = integers ? x.integer : doubles ? x.whole : (double)x.single;
  }
  return true;
}

/* The next tensor of a case; one of rank 0 is an attribute. */
static bool read_tensor(FILE *data, const ac_model_tensor *from, const char *dtype,
                        const char *name, op_vector *vector) {
  if (from->rank == 0) {
    enum { MOST = sizeof vector->attribute / sizeof *vector->attribute };
    if (vector->attribute_count == MOST) return false;
    const int i = vector->attribute_count++;
    snprintf(vector->attribute[i].name, sizeof vector->attribute[i].name, "%s", name);
    return read_elements(data, dtype, 1, &vector->attribute[i].value);
  }
  enum { MOST = sizeof vector->tensor / sizeof *vector->tensor };
  if (vector->tensor_count == MOST || from->rank > AC_MAX_RANK) return false;
  op_vector_tensor *t = &vector->tensor[vector->tensor_count++];
  snprintf(t->name, sizeof t->name, "%s", name);
  t->dtype = from->dtype;
  t->rank = from->rank;
  t->count = 1;
  for (int d = 0; d < t->rank; d++) t->count *= t->dim[d] = from->shape[d];
  t->data = calloc((size_t)t->count, sizeof *t->data);
  return t->data && read_elements(data, dtype, t->count, t->data);
}

/* The library reads the header. It reads f64 as f32, so elements are read here: they follow each
 * other in the order of the tensors. */
static bool read_cases(const ac_model_file *file, FILE *data, op_vector *vectors, int *count) {
  uint64_t header;
  if (fread(&header, sizeof header, 1, data) != 1) return false;
  ac_swap_to_little_endian(&header, 1, sizeof header);
  if (fseek(data, (long)header, SEEK_CUR) != 0) return false;
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const ac_model_tensor *t = ac_model_file_tensor(file, i);
    const char *slash = strchr(t->name, '/');
    op_vector *last = *count ? &vectors[*count - 1] : NULL;
    const size_t length = slash ? (size_t)(slash - t->name) : 0;
    if (!length || length >= sizeof last->name) return false;
    if (!last || strncmp(last->name, t->name, length) != 0 || last->name[length]) {
      last = &vectors[(*count)++];
      memcpy(last->name, t->name, length);
    }
    if (!read_tensor(data, t, ac_model_file_dtype(file, t->name), slash + 1, last)) return false;
  }
  return *count > 0;
}

op_vector *op_vectors_read(const char *name, int *count) {
  char path[1024];
  const char *folder = getenv("ACCRUE_TEST_VECTORS");
  snprintf(path, sizeof path, "%s/%s.safetensors", folder ? folder : ACCRUE_TEST_VECTORS, name);
  *count = 0;
  ac_model_file *file;
  if (ac_model_file_open(&file, path) != AC_OK) return NULL;
  FILE *data = fopen(path, "rb");
  op_vector *vectors = calloc((size_t)ac_model_file_tensor_count(file) + 1, sizeof *vectors);
  if (!data || !vectors || !read_cases(file, data, vectors, count)) {
    op_vectors_free(vectors, *count);
    vectors = NULL;
    *count = 0;
  }
  if (data) fclose(data);
  ac_model_file_close(file);
  return vectors;
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
