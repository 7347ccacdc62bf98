#include "data/pictures.h"

#include "core/error.h"
#include "core/platform/files.h"
#include "core/platform/processors.h"
#include "core/platform/threads.h"
#include "data/dataset.h"

#include <accrue/masks.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- lists ----------------------------------------------------------------------------------- */

void ac_picture_store_keep(ac_picture_store *store) {
  atomic_fetch_add(&store->users, 1);
}

void ac_picture_store_release(ac_picture_store *store) {
  if (!store || atomic_fetch_sub(&store->users, 1) > 1) return;
  for (int64_t i = 0; i < store->count; i++) {
    free(store->entries[i].path);
    free(store->entries[i].bad);
    free(store->entries[i].mask);
  }
  for (int64_t c = 0; c < store->classes; c++) free(store->names[c]);
  free(store->entries);
  free(store->names);
  free(store->labels);
  ac_picture_cache_free(store->cache);
  free(store);
}

ac_status ac_pictures_create(ac_pictures **pictures, ac_picture_store *store, int64_t count) {
  ac_pictures *made = calloc(1, sizeof *made + (size_t)count * sizeof *made->index);
  if (!made)
    return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for a list of %lld", (long long)count);
  made->store = store;
  ac_picture_store_keep(store);
  *pictures = made;
  return AC_OK;
}

void ac_pictures_free(ac_pictures *pictures) {
  if (!pictures) return;
  ac_picture_store_release(pictures->store);
  free(pictures);
}

int64_t ac_pictures_count(const ac_pictures *pictures) {
  return pictures ? pictures->count : 0;
}

int64_t ac_pictures_classes(const ac_pictures *pictures) {
  return pictures ? pictures->store->classes : 0;
}

const char *ac_pictures_class_name(const ac_pictures *pictures, int64_t index) {
  return index >= 0 && index < ac_pictures_classes(pictures) ? pictures->store->names[index] : NULL;
}

static const ac_picture_entry *entry_of(const ac_pictures *pictures, int64_t index) {
  return index >= 0 && index < ac_pictures_count(pictures)
             ? &pictures->store->entries[pictures->index[index]]
             : NULL;
}

const char *ac_pictures_path(const ac_pictures *pictures, int64_t index) {
  const ac_picture_entry *entry = entry_of(pictures, index);
  return entry ? entry->path : NULL;
}

int64_t ac_pictures_label(const ac_pictures *pictures, int64_t index) {
  const ac_picture_entry *entry = entry_of(pictures, index);
  return entry ? entry->label : -1;
}

const char *ac_pictures_mask(const ac_pictures *pictures, int64_t index) {
  const ac_picture_entry *entry = entry_of(pictures, index);
  return entry ? entry->mask : NULL;
}

ac_status ac_pictures_size(const ac_pictures *pictures, int64_t index, int64_t *width,
                           int64_t *height) {
  AC_REQUIRE(pictures, width, height);
  const ac_picture_entry *entry = entry_of(pictures, index);
  if (!entry)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: there is no picture %lld", (long long)index);
  *width = entry->turned ? entry->height : entry->width;
  *height = entry->turned ? entry->width : entry->height;
  return AC_OK;
}

int64_t ac_pictures_left_out(const ac_pictures *pictures) {
  return pictures ? pictures->left_out : 0;
}

/* ---- folds ----------------------------------------------------------------------------------- */

/* Any number would do, but another one makes other folds. */
#define FOLD_SEED UINT64_C(0x50494354)

/* Writes to turn[i] the place of picture i in the order in which pictures are dealt: class by
 * class, each shuffled. Labels begin at -1, so class c has counts[c + 1] pictures. */
static ac_status deal(const ac_pictures *pictures, int64_t *turn) {
  const int64_t groups = pictures->store->classes + 1;
  int64_t *memory = calloc((size_t)groups, 3 * sizeof *memory);
  if (!memory) return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for folds");
  int64_t *counts = memory, *begin = memory + groups, *met = memory + 2 * groups;
  for (int64_t i = 0; i < pictures->count; i++) counts[ac_pictures_label(pictures, i) + 1]++;
  for (int64_t g = 1; g < groups; g++) begin[g] = begin[g - 1] + counts[g - 1];
  for (int64_t i = 0; i < pictures->count; i++) {
    const int64_t g = ac_pictures_label(pictures, i) + 1;
    turn[i] = begin[g] + ac_shuffle(FOLD_SEED, g, met[g]++, counts[g]);
  }
  free(memory);
  return AC_OK;
}

ac_status ac_pictures_fold(ac_pictures **train, ac_pictures **validation,
                           const ac_pictures *pictures, int64_t fold, int64_t folds) {
  AC_CREATES(train);
  AC_CREATES(validation);
  AC_REQUIRE(pictures);
  AC_TRY(ac_kfold_check(fold, folds, pictures->count, "pictures"));
  ac_pictures *made[2] = {NULL, NULL};
  int64_t *turn = malloc((size_t)pictures->count * sizeof *turn);
  ac_status status =
      turn ? deal(pictures, turn) : ac_fail(AC_ERROR_MEMORY, "pictures: no memory for folds");
  for (int p = 0; p < 2 && status == AC_OK; p++)
    status = ac_pictures_create(&made[p], pictures->store, pictures->count);
  for (int64_t i = 0; i < pictures->count && status == AC_OK; i++) {
    ac_pictures *part = made[turn[i] % folds == fold - 1];
    part->index[part->count++] = pictures->index[i];
  }
  free(turn);
  if (status == AC_OK) {
    *train = made[0];
    *validation = made[1];
    return AC_OK;
  }
  ac_pictures_free(made[0]);
  ac_pictures_free(made[1]);
  return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

ac_status ac_picture_buffer_grow(ac_picture_buffer *buffer, uint64_t bytes, const char *path) {
  if (bytes <= buffer->bytes) return AC_OK;
  free(buffer->data);
  buffer->bytes = 0;
  buffer->data = bytes < PTRDIFF_MAX ? malloc((size_t)bytes) : NULL;
  if (!buffer->data)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for %llu bytes", path,
                   (unsigned long long)bytes);
  buffer->bytes = (size_t)bytes;
  return AC_OK;
}

ac_status ac_picture_read_file(const char *path, uint64_t limit, ac_picture_buffer *buffer,
                               size_t *got, uint64_t *all) {
  FILE *stream;
  *got = 0;
  AC_TRY(ac_file_open(&stream, path, false));
  uint64_t bytes = *all = ac_file_bytes(stream);
  ac_status status = AC_OK;
  if (bytes > AC_PICTURE_MOST_BYTES)
    status = ac_fail(AC_ERROR_FORMAT, "%s has %llu bytes; the file of a picture may have %d", path,
                     (unsigned long long)bytes, (int)AC_PICTURE_MOST_BYTES);
  const bool more = bytes > limit;
  if (more) bytes = limit;
  if (status == AC_OK)
    status = ac_picture_buffer_grow(buffer, bytes + 1 + (more ? AC_PICTURE_TAIL_BYTES : 0), path);
  if (status == AC_OK) {
    *got = fread(buffer->data, 1, (size_t)bytes, stream);
    if (more && ac_seek(stream, (int64_t)(*all - AC_PICTURE_TAIL_BYTES), SEEK_SET) == 0 &&
        fread(buffer->data + bytes, 1, AC_PICTURE_TAIL_BYTES, stream) != AC_PICTURE_TAIL_BYTES)
      memset(buffer->data + bytes, 0, AC_PICTURE_TAIL_BYTES);
    if (!more) *all = *got;
    if (ferror(stream)) status = ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  }
  fclose(stream);
  return status;
}

ac_status ac_picture_decode_turned(const ac_picture_file *file, const ac_picture_info *info, int by,
                                   int channels, ac_picture_buffer *pixels,
                                   ac_picture_buffer *turned, const uint8_t **result) {
  const int64_t width = ac_picture_reduced(info->width, by),
                height = ac_picture_reduced(info->height, by);
  AC_TRY(ac_picture_buffer_grow(pixels, (uint64_t)(3 * width * height), file->path));
  AC_TRY(ac_picture_decode(file, info, by, channels, pixels->data));
  *result = pixels->data;
  if (info->orientation == 1) return AC_OK;
  AC_TRY(ac_picture_buffer_grow(turned, (uint64_t)(channels * width * height), file->path));
  ac_picture_orient(pixels->data, width, height, channels, info->orientation, turned->data);
  *result = turned->data;
  return AC_OK;
}

/* ---- what files say about themselves --------------------------------------------------------- */

enum { HEADER_BYTES = 1 << 16, MAX_THREADS = 16 };

typedef struct inspection {
  ac_picture_store *store;
  bool decode;
  atomic_llong next;
  atomic_int status; /* of what is not the fault of a file */
  int64_t stopped;   /* the first entry that had it */
} inspection;

/* Another picture has other first or last bytes, or another size. A PNG that is not compressed may
 * have the same first bytes as another one, but its last bytes have the checksum of all. */
static uint64_t key_of(const ac_picture_entry *entry, const ac_picture_buffer *bytes, size_t got) {
  const char *slash = strrchr(entry->path, '/'), *name = slash ? slash + 1 : entry->path;
  const size_t first = got < HEADER_BYTES ? got : HEADER_BYTES,
               last = got < AC_PICTURE_TAIL_BYTES ? got : AC_PICTURE_TAIL_BYTES;
  const uint8_t *tail = bytes->data + (got < entry->bytes ? got : got - last);
  const uint64_t parts[] = {entry->bytes, XXH3_64bits(name, strlen(name)),
                            XXH3_64bits(bytes->data, first), XXH3_64bits(tail, last)};
  return XXH3_64bits(parts, sizeof parts);
}

/* The header alone, if it is in the first bytes. */
static ac_status look(const inspection *job, ac_picture_entry *entry, ac_picture_buffer *bytes,
                      ac_picture_buffer *pixels) {
  ac_picture_file file = {.path = entry->path};
  ac_picture_info info;
  AC_TRY(ac_picture_read_file(entry->path, job->decode ? UINT64_MAX : HEADER_BYTES, bytes,
                              &file.bytes, &entry->bytes));
  file.data = bytes->data;
  ac_status status = ac_picture_inspect(&file, &info);
  if (status == AC_ERROR_FORMAT && file.bytes == HEADER_BYTES && !job->decode) {
    AC_TRY(ac_picture_read_file(entry->path, UINT64_MAX, bytes, &file.bytes, &entry->bytes));
    file.data = bytes->data;
    status = ac_picture_inspect(&file, &info);
  }
  AC_TRY(status);
  entry->key = key_of(entry, bytes, file.bytes);
  entry->width = (int32_t)info.width;
  entry->height = (int32_t)info.height;
  entry->turned = info.orientation > 4;
  if (!job->decode) return AC_OK;
  AC_TRY(ac_picture_buffer_grow(pixels, (uint64_t)(3 * info.width * info.height), entry->path));
  return ac_picture_decode(&file, &info, 1, 3, pixels->data);
}

static void inspect_some(void *user) {
  inspection *job = user;
  ac_picture_buffer bytes = {0}, pixels = {0}, turned = {0};
  for (;;) {
    const int64_t i = atomic_fetch_add(&job->next, 1);
    if (i >= job->store->count || atomic_load(&job->status) != AC_OK) break;
    ac_picture_entry *entry = &job->store->entries[i];
    ac_status status = look(job, entry, &bytes, &pixels);
    if (status == AC_OK && entry->mask)
      status = ac_mask_inspect(entry, job->store->classes, &bytes, &pixels, &turned);
    if (status == AC_OK) continue;
    const size_t length = strlen(ac_last_error()) + 1;
    entry->bad = malloc(length);
    if (entry->bad) memcpy(entry->bad, ac_last_error(), length);
    int none = AC_OK;
    const ac_status stop = entry->bad ? status : AC_ERROR_MEMORY;
    if ((stop == AC_ERROR_MEMORY || stop == AC_ERROR_UNSUPPORTED) &&
        atomic_compare_exchange_strong(&job->status, &none, (int)stop))
      job->stopped = i;
  }
  free(bytes.data);
  free(pixels.data);
  free(turned.data);
}

/* What stopped the threads. */
static ac_status explain(const inspection *job) {
  const ac_status status = (ac_status)atomic_load(&job->status);
  if (status == AC_OK) return AC_OK;
  const char *sentence = job->store->entries[job->stopped].bad;
  return ac_fail(status, "%s", sentence ? sentence : "pictures: no memory to read them");
}

ac_status ac_picture_store_inspect(ac_picture_store *store, bool decode) {
  inspection job = {.store = store, .decode = decode};
  const int processors = ac_processor_count();
  ac_thread *threads[MAX_THREADS] = {NULL};
  int64_t count = processors < MAX_THREADS ? processors : MAX_THREADS;
  if (count > store->count / 8) count = store->count / 8;
  for (int64_t t = 1; t < count; t++)
    if (ac_thread_start(&threads[t], inspect_some, &job) != AC_OK) break; /* others do its work */
  inspect_some(&job);
  for (int64_t t = 1; t < count; t++) ac_thread_join(threads[t]);
  return explain(&job);
}
