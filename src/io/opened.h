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
  /* The shard that has it, and its index there; NULL: the file itself. */
  ac_model_file *shard;
  int shard_index;
  /* How it is read so that it is as another program has it: see arranged.c. */
  struct {
    int64_t head_rows; /* rows of a head, which come in another order; 0: they do not */
    bool transposed;   /* the file has [columns, rows] */
    bool less_one;     /* 1 is subtracted from each element */
    bool strided;      /* element [i, j, ...] is that at i strides[0] + j strides[1] + ... */
    int64_t strides[8];
  } arranged;
} ac_tensor_entry;

/* Where the entry of a name is. */
typedef struct ac_entry_name {
  const char *name;
  int index;
} ac_entry_name;

struct ac_model_file {
  FILE *stream;
  char *path;
  /* {"__metadata__": {KEY: TEXT}, NAME: {"dtype": TEXT}}: names and metadata stay in it. */
  json_t *root;
  json_t *arrays; /* {KEY: true}: of a GGUF file's metadata that are arrays, which are not kept */
  ac_tensor_entry *entries; /* the listed ones, in the order of their data */
  int count;
  ac_entry_name *by_name; /* [count], sorted */
  const char *unlisted;   /* the first tensor that is not; NULL: all are listed */
  int64_t data_begin;     /* in the file */
  ac_model_file **shards; /* that make up this file; it then has no stream */
  int shard_count;
  uint64_t checksum; /* of a safetensors header */
  /* What was read last of a strided tensor: all from its first element to its last. */
  const ac_tensor_entry *spread_of;
  float *spread;
};

/* Whether an entry, also one of a shard, is in blocks of any format. */
bool ac_entry_is_in_blocks(const ac_tensor_entry *entry);

/* Sorts the entries by their places in the data, and finds overlaps. */
ac_status ac_sort_entries(ac_model_file *file, int count);
/* Keeps those that are listed, and remembers the first that is not. */
void ac_list_entries(ac_model_file *file, int count);

/* Sorts the names of the entries, so that one is found without asking all; again where they have
 * changed. Refuses two of the same name. */
ac_status ac_sort_names(ac_model_file *file);
/* Opens one of the files of an index, which is neither an index nor a folder. */
ac_status ac_shard_open(ac_model_file **file, const char *path);

/* `path` is a folder: it becomes that of the index in it, or of model.safetensors. One that has
 * neither is refused. */
ac_status ac_model_file_in_folder(ac_model_file *file);
/* Opens an index and all of its files: shards.c. A file that is none, and does not have the name of
 * one, is called by `format` if it is not NULL. */
ac_status ac_shards_open(ac_model_file *file, const char *format);

/* Whether an entry is arranged, and reading its elements like ac_model_file_read: arranged.c. */
bool ac_is_arranged(const ac_tensor_entry *entry);
ac_status ac_read_arranged(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                           int64_t count, float *data);
/* Reads elements as they come in the file. */
ac_status ac_read_plain(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                        int64_t count, float *data);
/* Bytes [first, first + bytes) of a tensor, as they are in the file. */
ac_status ac_read_bytes(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                        int64_t bytes, void *data);
/* The row of the file that has row `row` of the tensor. */
int64_t ac_arranged_row(const ac_tensor_entry *entry, int64_t row);

/* Reads and checks the header of a GGUF file. Its first bytes are known. */
ac_status ac_gguf_read_header(ac_model_file *file, int64_t file_bytes);

#endif
