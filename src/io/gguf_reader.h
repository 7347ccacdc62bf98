/* Reading a GGUF file from its beginning, for the two that do: gguf.c, which finds tensors, and
 * gguf_metadata.c, which keeps typed metadata. */
#ifndef AC_IO_GGUF_READER_H
#define AC_IO_GGUF_READER_H

#include "core/error.h"
#include "core/little_endian.h"
#include "io/opened.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 65535, MOST_PAIRS = 1 << 16, LEAST_PAIR = 13 };

typedef enum value_type {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  BOOL,
  TEXT,
  ARRAY,
  U64,
  I64,
  F64,
  TYPES
} value_type;

static const unsigned char value_bytes[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

typedef struct reader {
  ac_model_file *file;
  int64_t left; /* bytes of the file */
} reader;

static inline ac_status truncated(const reader *r) {
  return ac_fail(AC_ERROR_FORMAT,
                 "%s is a GGUF model, but its header goes beyond the end of the file",
                 r->file->path);
}

static inline ac_status take(reader *r, void *data, uint64_t bytes) {
  if (bytes > (uint64_t)r->left) return truncated(r);
  if (fread(data, 1, (size_t)bytes, r->file->stream) != bytes)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", r->file->path,
                   ferror(r->file->stream) ? strerror(errno) : "it has become shorter");
  r->left -= (int64_t)bytes;
  return AC_OK;
}

static inline ac_status take_number(reader *r, int bytes, uint64_t *value) {
  unsigned char data[8];
  AC_TRY(take(r, data, (uint64_t)bytes));
  *value = ac_little_endian(data, (size_t)bytes);
  return AC_OK;
}

static inline ac_status pass(reader *r, uint64_t bytes) {
  char unused[4096];
  while (bytes) {
    const uint64_t piece = bytes < sizeof unused ? bytes : sizeof unused;
    AC_TRY(take(r, unused, piece));
    bytes -= piece;
  }
  return AC_OK;
}

/* Each pair is asked for by its key, so there may not be any number of them. */
static inline ac_status check_pairs(const reader *r, uint64_t pairs) {
  if (pairs > (uint64_t)r->left / LEAST_PAIR) return truncated(r);
  if (pairs <= MOST_PAIRS) return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: it has %" PRIu64 " metadata, more than %d",
                 r->file->path, pairs, MOST_PAIRS);
}

/* The `bytes` of a text, which are left. free() frees it. */
static inline ac_status take_bytes(reader *r, char **text, uint64_t bytes) {
  char *made = malloc((size_t)bytes + 1);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header", r->file->path);
  const ac_status status = take(r, made, bytes);
  if (status != AC_OK) {
    free(made);
    return status;
  }
  made[bytes] = 0;
  *text = made;
  return AC_OK;
}

/* free() frees it. */
static inline ac_status take_name(reader *r, char **text, size_t *length) {
  uint64_t bytes;
  *text = NULL;
  AC_TRY(take_number(r, 8, &bytes));
  if (bytes > (uint64_t)r->left) return truncated(r);
  if (bytes > MOST_NAME)
    return ac_fail(AC_ERROR_FORMAT, "%s: a name has %" PRIu64 " bytes", r->file->path, bytes);
  *length = (size_t)bytes;
  return take_bytes(r, text, bytes);
}

#endif
