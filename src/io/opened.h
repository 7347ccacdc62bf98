/* A model file that is open: what the readers of both formats fill (safetensors.h, gguf.c). */
#ifndef AC_IO_OPENED_H
#define AC_IO_OPENED_H

#include <accrue/model_file.h>

#include "io/blocks.h"

#include <jansson.h>
#include <stdio.h>

/* How elements lie in the file. */
typedef enum ac_element_storage {
  AC_STORED_F32,
  AC_STORED_F64,
  AC_STORED_F16,
  AC_STORED_BF16,
  AC_STORED_BLOCKS, /* of `blocks`; listed as f32 */
  AC_STORED_OTHER
} ac_element_storage;

typedef struct ac_tensor_entry {
  ac_model_tensor tensor;
  ac_element_storage storage;
  const ac_block_format *blocks;
  bool listed;
  int64_t begin, end; /* in the data */
} ac_tensor_entry;

struct ac_model_file {
  FILE *stream;
  char *path;
  /* {"__metadata__": {KEY: TEXT}, NAME: {"dtype": TEXT}}: names and metadata stay in it. */
  json_t *root;
  ac_tensor_entry *entries; /* the listed ones, in the order of their data */
  int count;
  const char *unlisted; /* the first tensor that is not; NULL: all are listed */
  int64_t data_begin;   /* in the file */
  uint64_t checksum;    /* of a safetensors header */
};

/* Sorts the entries by their places in the data, and finds overlaps. */
ac_status ac_sort_entries(ac_model_file *file, int count);
/* Keeps those that are listed, and remembers the first that is not. */
void ac_list_entries(ac_model_file *file, int count);

/* Reads and checks the header of a GGUF file. Its first bytes are known. */
ac_status ac_gguf_read_header(ac_model_file *file, int64_t file_bytes);

#endif
