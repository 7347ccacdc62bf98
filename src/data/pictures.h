/* Lists of picture files. What was found is in a store; lists are choices of it, and so are cheap.
 * A store lives until the last list and the last dataset that uses it are freed. */
#ifndef AC_DATA_PICTURES_H
#define AC_DATA_PICTURES_H

#include <accrue/pictures.h>

#include "image/decode.h"

#include <stdatomic.h>
#include <stdio.h>

typedef struct ac_picture_entry {
  char *path;
  int32_t label;         /* -1: none, or several */
  int64_t first, labels; /* with several labels: of store->labels */
  uint64_t bytes;        /* of the file */
  uint64_t key;          /* which file it is: by its name, size and first bytes */
  int64_t cached;        /* which picture of the cache, if there is one */
  int32_t width, height; /* as stored */
  bool turned;           /* width and height are swapped when it is seen */
  char *mask;            /* the path of its mask; NULL: it has none */
  uint64_t mask_bytes;   /* of that file */
  int32_t largest;       /* class in the mask but AC_MASK_IGNORED; -1: none */
  char *bad;             /* why it cannot be read; NULL: it can */
} ac_picture_entry;

typedef struct ac_picture_store {
  atomic_int users;
  int64_t count, room; /* entries, and how many there is memory for */
  ac_picture_entry *entries;
  int64_t classes;
  char **names;                   /* of classes */
  bool several;                   /* labels for each picture */
  bool masked;                    /* each picture has a mask */
  int32_t *labels;                /* with several labels */
  struct ac_picture_cache *cache; /* NULL: none */
  int64_t label_count;
} ac_picture_store;

struct ac_pictures {
  ac_picture_store *store;
  int64_t count, left_out;
  int64_t index[]; /* of entries */
};

void ac_picture_store_keep(ac_picture_store *store);    /* one user more */
void ac_picture_store_release(ac_picture_store *store); /* NULL: nothing */
/* A list with room for `count` pictures and none in it. */
ac_status ac_pictures_create(ac_pictures **pictures, ac_picture_store *store, int64_t count);

/* Fills in what the files say about themselves, or why they cannot be read, with several threads.
 * `decode`: all of each file is looked at. */
ac_status ac_picture_store_inspect(ac_picture_store *store, bool decode);

/* ---- reading --------------------------------------------------------------------------------- */

/* Memory that grows with what it has to hold. */
typedef struct ac_picture_buffer {
  uint8_t *data;
  size_t bytes;
} ac_picture_buffer;

ac_status ac_picture_buffer_grow(ac_picture_buffer *buffer, uint64_t bytes, const char *path);
enum { AC_PICTURE_TAIL_BYTES = 4096 };
/* The first `limit` bytes of a file, at least AC_PICTURE_TAIL_BYTES, or all of it; *got: how many;
 * *all: how many it has. If it has more, its last AC_PICTURE_TAIL_BYTES follow the first ones. */
ac_status ac_picture_read_file(const char *path, uint64_t limit, ac_picture_buffer *buffer,
                               size_t *got, uint64_t *all);

/* The whole of a picture as it is to be seen: decoded, perhaps at 1 / `by` of its size, and turned.
 * *result is in one of the buffers. */
ac_status ac_picture_decode_turned(const ac_picture_file *file, const ac_picture_info *info, int by,
                                   int channels, ac_picture_buffer *pixels,
                                   ac_picture_buffer *turned, const uint8_t **result);

/* ---- decoded pictures in a file (picture_cache.c) -------------------------------------------- */

typedef struct ac_picture_cache ac_picture_cache;

void ac_picture_cache_free(ac_picture_cache *cache); /* NULL: nothing */
int ac_picture_cache_channels(const ac_picture_cache *cache);
void ac_picture_cache_size(const ac_picture_cache *cache, int64_t picture, int64_t *width,
                           int64_t *height);
/* Reads a picture, turned, to `pixels`. *stream is NULL at first, and the caller's to close. */
ac_status ac_picture_cache_read(const ac_picture_cache *cache, int64_t picture, FILE **stream,
                                uint8_t *pixels);

/* ---- masks ----------------------------------------------------------------------------------- */

/* The class of each pixel of an entry's mask, turned as its own orientation says. `pixels` holds
 * them, or *turned does; *mask says which. Fails if it is not as large as the picture is seen. */
ac_status ac_mask_read(const ac_picture_entry *entry, ac_picture_buffer *file,
                       ac_picture_buffer *pixels, ac_picture_buffer *turned, const uint8_t **mask);
/* Reads an entry's mask, notes its size and its largest class. `classes` 0: any. */
ac_status ac_mask_inspect(ac_picture_entry *entry, int64_t classes, ac_picture_buffer *file,
                          ac_picture_buffer *pixels, ac_picture_buffer *turned);

#endif
