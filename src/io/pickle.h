/* Python's pickles, as far as files of tensors need them. Nothing is executed: an object is only
 * ever one of the kinds below. */
#ifndef AC_IO_PICKLE_H
#define AC_IO_PICKLE_H

#include "io/opened.h"

typedef enum ac_pickle_kind {
  AC_PICKLE_NONE,
  AC_PICKLE_BOOLEAN,
  AC_PICKLE_INTEGER,
  AC_PICKLE_REAL,
  AC_PICKLE_TEXT,
  AC_PICKLE_TUPLE,
  AC_PICKLE_LIST,
  AC_PICKLE_DICT,    /* items: a key, its value, a key, ... */
  AC_PICKLE_GLOBAL,  /* text: one of those that are known, "torch.FloatStorage" */
  AC_PICKLE_STORAGE, /* integer: which of the pickle's storages */
  AC_PICKLE_TENSOR,  /* items: storage, offset, sizes, strides */
  AC_PICKLE_MARK
} ac_pickle_kind;

typedef struct ac_pickle_value ac_pickle_value;
struct ac_pickle_value {
  ac_pickle_kind kind;
  union {
    int64_t integer;
    double real;
    const char *text; /* ends with 0 */
    struct ac_pickle_items *items;
  };
};

typedef struct ac_pickle_items {
  ac_pickle_value *at;
  size_t count, capacity;
} ac_pickle_items;

/* Elements in the file, to which tensors refer. */
typedef struct ac_pickle_storage {
  const char *key, *type; /* type: "torch.FloatStorage" */
  int64_t elements;
} ac_pickle_storage;

typedef struct ac_pickle {
  ac_model_file *file;
  int64_t left;         /* bytes of the file that the pickle may still take */
  ac_pickle_value root; /* what it is */
  ac_pickle_storage *storages;
  size_t storage_count, storage_capacity;
  json_t *by_key; /* {KEY: index of a storage} */

  ac_pickle_items stack, memo;
  struct ac_pickle_piece *pieces; /* memory of all values */
  size_t used;                    /* bytes of it */
} ac_pickle;

/* Reads one pickle, from where the file's stream is. ac_pickle_release it, also after a failure. */
ac_status ac_pickle_read(ac_pickle *pickle, ac_model_file *file, int64_t most_bytes);
void ac_pickle_release(ac_pickle *pickle);

/* The value of a key of a dict that is a text; NULL: there is none. */
const ac_pickle_value *ac_pickle_get(const ac_pickle_value *dict, const char *key);

#endif
