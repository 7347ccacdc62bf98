/* Pictures that were decoded once, in a file: a head, a record for each, and their pixels, which
 * are those that decoding gives, turned. A record has a key of the file that it was made of, so a
 * cache serves any list if it has all of its pictures. Numbers are stored as the machine has them.
 *
 * Several threads decode when a cache is made. Each waits for its turn to write, so that the file
 * does not depend on how many there are. */
#include "core/error.h"
#include "core/integers.h"
#include "core/platform/atomic_file.h"
#include "core/platform/files.h"
#include "core/platform/processors.h"
#include "core/platform/threads.h"
#include "data/pictures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MAX_THREADS = 16 };
#define MOST_PICTURES (INT64_C(1) << 32)

typedef struct head {
  char magic[8];
  uint32_t order, channels; /* order: how the machine stores numbers */
  int64_t count;
  uint64_t bytes; /* of the file */
} head;

typedef struct record {
  uint64_t key, at, hash; /* of the file it was made of; where its pixels are; of these */
  int32_t width, height;
} record;

struct ac_picture_cache {
  char *path;
  int channels;
  int64_t count;
  record *records; /* by key */
};

static const head sample_head = {.magic = "accrueIC", .order = 0x01020304};

/* ---- reading --------------------------------------------------------------------------------- */

void ac_picture_cache_free(ac_picture_cache *cache) {
  if (!cache) return;
  free(cache->path);
  free(cache->records);
  free(cache);
}

int ac_picture_cache_channels(const ac_picture_cache *cache) {
  return cache->channels;
}

void ac_picture_cache_size(const ac_picture_cache *cache, int64_t picture, int64_t *width,
                           int64_t *height) {
  *width = cache->records[picture].width;
  *height = cache->records[picture].height;
}

ac_status ac_picture_cache_read(const ac_picture_cache *cache, int64_t picture, FILE **stream,
                                uint8_t *pixels) {
  const record *r = &cache->records[picture];
  const size_t bytes = (size_t)cache->channels * (size_t)r->width * (size_t)r->height;
  if (!*stream) AC_TRY(ac_file_open(stream, cache->path, false));
  if (ac_seek(*stream, (int64_t)r->at, SEEK_SET) != 0 || fread(pixels, 1, bytes, *stream) != bytes)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", cache->path,
                   ferror(*stream) ? strerror(errno) : "it ends early");
  if (XXH3_64bits(pixels, bytes) != r->hash)
    return ac_fail(AC_ERROR_FORMAT, "%s, a cache of images, is damaged; remove it", cache->path);
  return AC_OK;
}

static int compare(const void *a, const void *b) {
  const record *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static ac_status check_records(const ac_picture_cache *c, uint64_t bytes) {
  for (int64_t i = 0; i < c->count; i++) {
    const record *r = &c->records[i];
    const bool sized = r->width > 0 && r->height > 0 && r->width <= AC_PICTURE_MOST_SIDE &&
                       r->height <= AC_PICTURE_MOST_SIDE &&
                       (int64_t)r->width * r->height <= AC_PICTURE_MOST_PIXELS;
    const uint64_t pixels =
        sized ? (uint64_t)c->channels * (uint64_t)r->width * (uint64_t)r->height : 0;
    if (!sized || r->at > bytes || bytes - r->at < pixels)
      return ac_fail(AC_ERROR_FORMAT, "%s, a cache of images, is damaged; remove it", c->path);
  }
  return AC_OK;
}

static ac_status read_records(ac_picture_cache *c, FILE *stream, int64_t channels) {
  const uint64_t bytes = ac_file_bytes(stream);
  head h;
  if (fread(&h, sizeof h, 1, stream) != 1 ||
      memcmp(h.magic, sample_head.magic, sizeof h.magic) != 0)
    return ac_fail(AC_ERROR_FORMAT, "%s is not a cache of images; name another file", c->path);
  if (h.order != sample_head.order)
    return ac_fail(AC_ERROR_FORMAT, "%s is a cache of images of another kind of machine", c->path);
  if (h.bytes != bytes || h.count < 1 || h.count > MOST_PICTURES ||
      (uint64_t)h.count > bytes / sizeof *c->records)
    return ac_fail(AC_ERROR_FORMAT, "%s, a cache of images, is damaged; remove it", c->path);
  if (h.channels != (uint64_t)channels)
    return ac_fail(AC_ERROR_FORMAT, "%s has pictures %s, and they are wanted %s; name another file",
                   c->path, h.channels == 1 ? "in grey" : "in colours",
                   channels == 1 ? "in grey" : "in colours");
  c->channels = (int)channels;
  c->count = h.count;
  c->records = malloc((size_t)h.count * sizeof *c->records);
  if (!c->records) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its records", c->path);
  if (fread(c->records, sizeof *c->records, (size_t)h.count, stream) != (size_t)h.count)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", c->path, strerror(errno));
  AC_TRY(check_records(c, bytes));
  qsort(c->records, (size_t)c->count, sizeof *c->records, compare);
  return AC_OK;
}

/* Which picture has the key; -1: none. */
static int64_t find(const ac_picture_cache *c, uint64_t key) {
  int64_t low = 0, high = c->count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (c->records[middle].key < key) low = middle + 1;
    else high = middle;
  }
  return low < c->count && c->records[low].key == key ? low : -1;
}

/* Every picture must be there, as it is now. */
static ac_status assign(const ac_picture_cache *c, ac_picture_store *store) {
  for (int64_t i = 0; i < store->count; i++) {
    ac_picture_entry *e = &store->entries[i];
    if (e->bad) continue;
    e->cached = find(c, e->key);
    const record *r = e->cached < 0 ? NULL : &c->records[e->cached];
    const bool same = r && (int64_t)r->width * r->height == (int64_t)e->width * e->height;
    if (!same)
      return ac_fail(AC_ERROR_FORMAT,
                     "%s does not have %s as it is now: it was made of other pictures, or of these "
                     "before they changed; remove it, or name another file",
                     c->path, e->path);
  }
  return AC_OK;
}

static ac_status open_cache(ac_picture_cache **cache, ac_picture_store *store, const char *path,
                            int64_t channels) {
  ac_picture_cache *c = calloc(1, sizeof *c);
  if (c) c->path = malloc(strlen(path) + 1);
  if (!c || !c->path) {
    free(c);
    return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for a cache");
  }
  memcpy(c->path, path, strlen(path) + 1);
  FILE *stream;
  ac_status status = ac_file_open(&stream, path, false);
  if (status == AC_OK) {
    status = read_records(c, stream, channels);
    fclose(stream);
  }
  if (status == AC_OK) status = assign(c, store);
  if (status == AC_OK) *cache = c;
  else ac_picture_cache_free(c);
  return status;
}

/* ---- making one ------------------------------------------------------------------------------ */

typedef struct making {
  const ac_picture_store *store;
  int channels;
  ac_atomic_file file;
  int64_t count;   /* pictures that can be read */
  int64_t *entry;  /* of each */
  record *records; /* of each */
  ac_monitor *monitor;
  int64_t next, turn; /* the next to decode, and to write */
  uint64_t at;
  ac_status status; /* of the first that failed */
  char sentence[2 * AC_REPLACEMENT_PATH];
} making;

static int64_t take_next(making *m) {
  ac_monitor_lock(m->monitor);
  const int64_t i = m->status == AC_OK && m->next < m->count ? m->next++ : -1;
  ac_monitor_unlock(m->monitor);
  return i;
}

/* In the order of the list, with whatever decoding it has come to. */
static void write_in_turn(making *m, int64_t i, ac_status status, const uint8_t *pixels) {
  record *r = &m->records[i];
  const size_t bytes = (size_t)m->channels * (size_t)r->width * (size_t)r->height;
  if (status == AC_OK) r->hash = XXH3_64bits(pixels, bytes);
  ac_monitor_lock(m->monitor);
  while (m->turn != i) ac_monitor_wait(m->monitor);
  if (m->status == AC_OK) {
    r->at = m->at;
    m->at += bytes;
    if (status == AC_OK) status = ac_atomic_write(&m->file, pixels, bytes);
    if (status != AC_OK) snprintf(m->sentence, sizeof m->sentence, "%s", ac_last_error());
    m->status = status;
  }
  m->turn++;
  ac_monitor_wake(m->monitor);
  ac_monitor_unlock(m->monitor);
}

static ac_status decode(making *m, int64_t i, ac_picture_buffer *bytes, ac_picture_buffer *pixels,
                        ac_picture_buffer *turned, const uint8_t **result) {
  const ac_picture_entry *e = &m->store->entries[m->entry[i]];
  ac_picture_file file = {.path = e->path};
  ac_picture_info info;
  uint64_t all;
  AC_TRY(ac_picture_read_file(e->path, UINT64_MAX, bytes, &file.bytes, &all));
  file.data = bytes->data;
  AC_TRY(ac_picture_inspect(&file, &info));
  if (info.width != e->width || info.height != e->height)
    return ac_fail(AC_ERROR_FORMAT, "%s has changed since the pictures were listed", e->path);
  const bool turns = info.orientation > 4;
  m->records[i] = (record){
      .key = e->key, .width = turns ? e->height : e->width, .height = turns ? e->width : e->height};
  return ac_picture_decode_turned(&file, &info, 1, m->channels, pixels, turned, result);
}

static void decode_some(void *user) {
  making *m = user;
  ac_picture_buffer bytes = {0}, pixels = {0}, turned = {0};
  for (int64_t i; (i = take_next(m)) >= 0;) {
    const uint8_t *result = NULL;
    const ac_status status = decode(m, i, &bytes, &pixels, &turned, &result);
    write_in_turn(m, i, status, result);
  }
  free(bytes.data);
  free(pixels.data);
  free(turned.data);
}

static void decode_all(making *m) {
  ac_thread *threads[MAX_THREADS] = {NULL};
  const int processors = ac_processor_count();
  const int64_t count = ac_smaller(ac_smaller(processors, MAX_THREADS), m->count);
  for (int64_t t = 1; t < count; t++)
    if (ac_thread_start(&threads[t], decode_some, m) != AC_OK) break; /* others do its work */
  decode_some(m);
  for (int64_t t = 1; t < count; t++) ac_thread_join(threads[t]);
}

/* The head and the records follow once all pixels are written, over zeros. */
static ac_status write_all(making *m) {
  head h = sample_head;
  h.channels = (uint32_t)m->channels;
  h.count = m->count;
  const size_t records = (size_t)m->count * sizeof *m->records;
  AC_TRY(ac_atomic_write(&m->file, &h, sizeof h));
  AC_TRY(ac_atomic_write(&m->file, m->records, records));
  m->at = sizeof h + records;
  decode_all(m);
  if (m->status != AC_OK) return ac_fail(m->status, "%s", m->sentence);
  h.bytes = m->at;
  AC_TRY(ac_atomic_write_again(&m->file, 0, &h, sizeof h));
  return ac_atomic_write_again(&m->file, sizeof h, m->records, records);
}

static ac_status prepare(making *m) {
  const size_t count = (size_t)m->store->count;
  m->entry = malloc(count * sizeof *m->entry);
  m->records = calloc(count, sizeof *m->records);
  m->monitor = ac_monitor_create();
  if (!m->entry || !m->records || !m->monitor)
    return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for a cache");
  for (int64_t i = 0; i < m->store->count; i++)
    if (!m->store->entries[i].bad) m->entry[m->count++] = i;
  return AC_OK;
}

static ac_status make_cache(const ac_picture_store *store, const char *path, int64_t channels) {
  making m = {.store = store, .channels = (int)channels};
  ac_status status = prepare(&m);
  if (status == AC_OK) {
    status = ac_atomic_open(&m.file, path);
    if (status == AC_OK && (status = write_all(&m)) != AC_OK) ac_atomic_abandon(&m.file);
    else if (status == AC_OK) status = ac_atomic_commit(&m.file);
  }
  ac_monitor_free(m.monitor);
  free(m.entry);
  free(m.records);
  return status;
}

/* ---- for callers ----------------------------------------------------------------------------- */

uint64_t ac_pictures_cache_bytes(const ac_pictures *pictures, int64_t channels) {
  if (!pictures || (channels != 0 && channels != 1 && channels != 3)) return 0;
  const ac_picture_store *s = pictures->store;
  uint64_t bytes = sizeof(head);
  for (int64_t i = 0; i < s->count; i++)
    if (!s->entries[i].bad)
      bytes += sizeof(record) + (uint64_t)(channels ? channels : 3) *
                                    (uint64_t)s->entries[i].width * (uint64_t)s->entries[i].height;
  return bytes;
}

ac_status ac_pictures_use_cache(ac_pictures *pictures, const char *path, int64_t channels) {
  AC_REQUIRE(pictures, path);
  if (!channels) channels = 3;
  if (channels != 1 && channels != 3)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: a cache has 1 or 3 channels, not %lld",
                   (long long)channels);
  if (pictures->store->cache)
    return ac_fail(AC_ERROR_STATE, "pictures: the list has a cache already");
  if (!ac_is_there(path)) AC_TRY(make_cache(pictures->store, path, channels));
  return open_cache(&pictures->store->cache, pictures->store, path, channels);
}
