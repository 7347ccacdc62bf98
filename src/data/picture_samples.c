/* Samples of pictures. To read one takes a file in memory, its pixels, the same turned as its
 * orientation says, and what resizing needs: a set of buffers, from a pool. */
#include "core/error.h"
#include "core/integers.h"
#include "data/dataset.h"
#include "data/picture_geometry.h"
#include "data/pictures.h"
#include "data/pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 16384 };

typedef struct buffers {
  ac_picture_buffer file, pixels, turned, room, sample;
  ac_picture_buffer mask, turned_mask, mask_sample; /* if there are masks */
  FILE *cache;                                      /* NULL: not read from yet */
} buffers;

typedef struct source {
  ac_pictures *pictures; /* its own list */
  ac_picture_samples desc;
  ac_picture_changes changes; /* desc.changes is NULL or leads here */
  uint64_t bytes;             /* the most that buffers take */
  int64_t most_pixels;        /* of a picture, as listed */

  /* If classes are balanced: the classes that have pictures, and the pictures of each. */
  int64_t present;
  int64_t *first, *member; /* those of class c begin at member[first[c]] */

  ac_pool *pool; /* of sets of buffers */
} source;

/* ---- reading --------------------------------------------------------------------------------- */

static ac_picture_geometry arrange(const source *s, const ac_sample_key *key, bool turned,
                                   int64_t width, int64_t height) {
  return ac_picture_arrange(&s->desc, key, turned ? height : width, turned ? width : height);
}

/* By how much a JPEG may be decoded smaller: what is cut out stays twice as large as it has to be.
 */
static int reduction(const source *s, const ac_picture_info *info, const ac_resampling *r) {
  if (!s->desc.scaled_decoding) return 1;
  const int64_t width = 2 * r->width * r->from_width / r->box_width,
                height = 2 * r->height * r->from_height / r->box_height;
  return info->orientation > 4 ? ac_picture_reduction(info, height, width)
                               : ac_picture_reduction(info, width, height);
}

/* The same of a picture that was decoded smaller. */
static void reduce(ac_resampling *r, int by) {
  if (by == 1) return;
  r->from_width = ac_picture_reduced(r->from_width, by);
  r->from_height = ac_picture_reduced(r->from_height, by);
  r->box_left /= by;
  r->box_top /= by;
  r->box_width =
      ac_larger(ac_smaller(ac_picture_reduced(r->box_width, by), r->from_width - r->box_left), 1);
  r->box_height =
      ac_larger(ac_smaller(ac_picture_reduced(r->box_height, by), r->from_height - r->box_top), 1);
}

/* Decodes a file, and says how the picture, and what was decoded of it, become a sample. */
static ac_status load_file(const source *s, const ac_sample_key *key, const char *path, buffers *b,
                           ac_picture_geometry *g, ac_resampling *r, const uint8_t **pixels) {
  ac_picture_file file = {.path = path};
  ac_picture_info info;
  uint64_t all;
  AC_TRY(ac_picture_read_file(path, UINT64_MAX, &b->file, &file.bytes, &all));
  file.data = b->file.data;
  AC_TRY(ac_picture_inspect(&file, &info));
  if (info.width * info.height > s->most_pixels)
    return ac_fail(AC_ERROR_FORMAT, "%s has changed since the pictures were listed", path);
  *g = arrange(s, key, info.orientation > 4, info.width, info.height);
  *r = g->resampling;
  const int by = reduction(s, &info, r);
  AC_TRY(ac_picture_decode_turned(&file, &info, by, (int)s->desc.channels, &b->pixels, &b->turned,
                                  pixels));
  reduce(r, by);
  return AC_OK;
}

/* The same of a picture that was decoded before. */
static ac_status load_cached(const source *s, const ac_sample_key *key,
                             const ac_picture_entry *entry, buffers *b, ac_picture_geometry *g,
                             ac_resampling *r, const uint8_t **pixels) {
  const ac_picture_cache *cache = s->pictures->store->cache;
  int64_t width, height;
  ac_picture_cache_size(cache, entry->cached, &width, &height);
  AC_TRY(ac_picture_buffer_grow(&b->pixels, (uint64_t)(s->desc.channels * width * height),
                                entry->path));
  AC_TRY(ac_picture_cache_read(cache, entry->cached, &b->cache, b->pixels.data));
  *g = arrange(s, key, false, width, height);
  *r = g->resampling;
  *pixels = b->pixels.data;
  return AC_OK;
}

/* From pixels with their channels next to each other to a plane for each channel. */
static void write_planes(const ac_picture_samples *d, const uint8_t *pixels, void *to) {
  const int64_t count = d->height * d->width, channels = d->channels;
  uint8_t *bytes = to;
  float *floats = to;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t p = 0; p < count; p++) {
      const uint8_t value = pixels[p * channels + c];
      if (d->dtype == AC_U8) bytes[c * count + p] = value;
      else floats[c * count + p] = (float)value / 255.0f;
    }
}

static ac_status read_image(source *s, const ac_sample_key *key, const ac_picture_entry *entry,
                            buffers *b, void *to) {
  const ac_picture_samples *d = &s->desc;
  ac_picture_geometry g;
  ac_resampling r;
  const uint8_t *pixels;
  if (s->pictures->store->cache) AC_TRY(load_cached(s, key, entry, b, &g, &r, &pixels));
  else AC_TRY(load_file(s, key, entry->path, b, &g, &r, &pixels));
  const uint64_t bytes = (uint64_t)(d->channels * d->width * d->height);
  AC_TRY(
      ac_picture_buffer_grow(&b->room, ac_larger_bytes(ac_resample_room(&r), bytes), entry->path));
  AC_TRY(ac_picture_buffer_grow(&b->sample, bytes, entry->path));
  ac_resample(&r, pixels, b->room.data, b->sample.data);
  ac_picture_put_margins(&g, (int)d->channels, 0, b->sample.data);
  const ac_pixels sample = {b->sample.data, d->width, d->height, (int)d->channels};
  if (d->changes) ac_picture_change(d->changes, key, &sample, b->room.data);
  write_planes(d, b->sample.data, to);
  return AC_OK;
}

/* After its picture: the room is large enough. */
static ac_status read_mask(source *s, const ac_sample_key *key, const ac_picture_entry *entry,
                           buffers *b, int32_t *to) {
  const ac_picture_samples *d = &s->desc;
  const uint8_t *mask;
  const int64_t count = d->width * d->height;
  AC_TRY(ac_mask_read(entry, &b->file, &b->mask, &b->turned_mask, &mask));
  AC_TRY(ac_picture_buffer_grow(&b->mask_sample, (uint64_t)count, entry->mask));
  const ac_picture_geometry g = arrange(s, key, entry->turned, entry->width, entry->height);
  const ac_pixels sample = {b->mask_sample.data, d->width, d->height, 1};
  ac_mask_resample(&g, mask, sample.data);
  ac_picture_moves moves = {0};
  if (d->changes) ac_picture_draw_moves(d->changes, key, d->width, d->height, &moves);
  for (int i = 0; i < moves.count; i++)
    ac_picture_transform(&sample, moves.m[i], AC_MASK_IGNORED, b->room.data);
  const int64_t classes = s->pictures->store->classes;
  for (int64_t p = 0; p < count; p++) {
    to[p] = sample.data[p];
    if (to[p] >= classes && to[p] != AC_MASK_IGNORED)
      return ac_fail(AC_ERROR_FORMAT, "%s has changed since the pictures were listed", entry->mask);
  }
  return AC_OK;
}

static void write_labels(const ac_picture_store *store, const ac_picture_entry *entry, void *to) {
  if (!store->several) {
    *(int32_t *)to = entry->label;
    return;
  }
  float *targets = to;
  for (int64_t c = 0; c < store->classes; c++) targets[c] = 0;
  for (int64_t l = 0; l < entry->labels; l++) targets[store->labels[entry->first + l]] = 1;
}

/* Which picture of the list a sample is. */
static int64_t picture_of(const source *s, const ac_sample_key *key) {
  if (!s->desc.balanced) return key->index;
  const int64_t c = key->index % s->present, own = s->first[c + 1] - s->first[c];
  const int64_t in_epoch = (s->pictures->count - c + s->present - 1) / s->present;
  const int64_t turn = key->epoch * in_epoch + key->index / s->present;
  const uint64_t seed = key->seed ^ ((uint64_t)(c + 1) * UINT64_C(0x9E3779B97F4A7C15));
  return s->member[s->first[c] + ac_shuffle(seed, turn / own, turn % own, own)];
}

static ac_status read_picture(void *user, const ac_sample_key *key, void *const *fields) {
  source *s = user;
  const ac_picture_store *store = s->pictures->store;
  const ac_picture_entry *entry = &store->entries[s->pictures->index[picture_of(s, key)]];
  buffers *b = ac_pool_borrow(s->pool);
  ac_status status = read_image(s, key, entry, b, fields[0]);
  if (status == AC_OK && store->masked) status = read_mask(s, key, entry, b, fields[1]);
  ac_pool_return(s->pool, b);
  if (status == AC_OK && store->classes && !store->masked) write_labels(store, entry, fields[1]);
  return status;
}

/* ---- boxes and masks of samples -------------------------------------------------------------- */

static ac_status trace_picture(const void *user, const ac_sample_key *key, ac_polygon *polygon) {
  const source *s = user;
  const ac_picture_entry *entry =
      &s->pictures->store->entries[s->pictures->index[picture_of(s, key)]];
  const ac_picture_geometry g = arrange(s, key, entry->turned, entry->width, entry->height);
  ac_polygon_trace(polygon, &g, s->desc.changes, key);
  return AC_OK;
}

ac_status ac_dataset_restore_mask(const ac_dataset *dataset, int64_t index, const uint8_t *mask,
                                  uint8_t *restored) {
  AC_REQUIRE(dataset, mask, restored);
  const source *s = dataset->read == read_picture ? dataset->user : NULL;
  if (!s || s->desc.changes || s->desc.balanced)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "masks: they are taken back from datasets of pictures without random changes");
  if (index < 0 || index >= dataset->count)
    return ac_fail(AC_ERROR_ARGUMENT, "masks: there is no sample %lld", (long long)index);
  const ac_picture_entry *entry = &s->pictures->store->entries[s->pictures->index[index]];
  const bool turned = entry->turned;
  const ac_picture_geometry g = ac_picture_fit_whole(
      &s->desc, turned ? entry->height : entry->width, turned ? entry->width : entry->height);
  ac_mask_restore(&g, mask, restored);
  return AC_OK;
}

/* ---- making one ------------------------------------------------------------------------------ */

static void close_source(void *user) {
  source *s = user;
  for (int i = 0; i < ac_pool_count(s->pool); i++) {
    const buffers *b = ac_pool_block(s->pool, i);
    free(b->file.data);
    free(b->pixels.data);
    free(b->turned.data);
    free(b->room.data);
    free(b->sample.data);
    free(b->mask.data);
    free(b->turned_mask.data);
    free(b->mask_sample.data);
    if (b->cache) fclose(b->cache);
  }
  ac_pool_free(s->pool);
  free(s->first);
  free(s->member);
  ac_pictures_free(s->pictures);
  free(s);
}

static ac_status complete(ac_picture_samples *d) {
  if (!d->height) d->height = 224;
  if (!d->width) d->width = d->height;
  if (!d->channels) d->channels = 3;
  if (d->crop_share == 0) d->crop_share = 0.875;
  if (d->height < 1 || d->width < 1 || d->height > MOST_SIDE || d->width > MOST_SIDE)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: samples of %lld x %lld pixels; sides are 1 to %d",
                   (long long)d->height, (long long)d->width, (int)MOST_SIDE);
  if (d->channels != 1 && d->channels != 3)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: samples have 1 or 3 channels, not %lld",
                   (long long)d->channels);
  if (d->dtype != AC_F32 && d->dtype != AC_U8)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: samples are f32 or u8, not %s",
                   ac_dtype_name(d->dtype));
  if ((unsigned)d->filter > AC_PICTURE_BICUBIC || (unsigned)d->fit > AC_PICTURE_FIT_PAD)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: unknown filter or fit");
  if (!(d->crop_share >= 0.1 && d->crop_share <= 1))
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: a crop share of %g is not in [0.1, 1]",
                   d->crop_share);
  if (d->threads < 0 || d->threads > AC_POOL_MOST)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: %d threads; there can be 0 to %d", d->threads,
                   (int)AC_POOL_MOST);
  if (!d->threads) d->threads = ac_pool_usual_count();
  return AC_OK;
}

/* The most that one set of buffers takes, and the most pixels of a picture. */
static void measure(source *s) {
  const ac_picture_samples *d = &s->desc;
  const bool masked = s->pictures->store->masked;
  const uint64_t sample = (uint64_t)(d->channels * d->height * d->width),
                 mask_sample = masked ? (uint64_t)(d->height * d->width) : 0;
  uint64_t file = 0, room = sample; /* changes need that much */
  for (int64_t i = 0; i < s->pictures->count; i++) {
    const ac_picture_entry *entry = &s->pictures->store->entries[s->pictures->index[i]];
    const int64_t pixels = (int64_t)entry->width * entry->height;
    file = ac_larger_bytes(file, ac_larger_bytes(entry->bytes, entry->mask_bytes));
    if (pixels > s->most_pixels) s->most_pixels = pixels;
    for (int turned = 0; turned < 2; turned++) {
      const int64_t w = turned ? entry->height : entry->width,
                    h = turned ? entry->width : entry->height;
      ac_resampling r = ac_picture_fit_whole(d, w, h).resampling;
      room = ac_larger_bytes(room, ac_resample_room(&r));
      r.width = d->width; /* a crop of all of it */
      r.height = d->height;
      r.result_width = d->width;
      r.result_height = d->height;
      room = ac_larger_bytes(room, ac_resample_room(&r));
    }
  }
  const bool cached = s->pictures->store->cache;
  const int64_t decoded = (cached ? d->channels : 3 + d->channels) + (masked ? 2 : 0);
  s->bytes =
      (uint64_t)d->threads * ((cached && !masked ? 0 : file + 1) +
                              (uint64_t)(decoded * s->most_pixels) + room + sample + mask_sample);
}

/* Lists the pictures of each class that has some. */
static ac_status sort_by_class(source *s) {
  const int64_t classes = s->pictures->store->classes, count = s->pictures->count;
  int64_t *next = calloc((size_t)classes, sizeof *next); /* where the next one of a class goes */
  s->first = calloc((size_t)classes + 1, sizeof *s->first);
  s->member = malloc((size_t)count * sizeof *s->member);
  if (!next || !s->first || !s->member) {
    free(next);
    return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for a dataset");
  }
  for (int64_t i = 0; i < count; i++) next[ac_pictures_label(s->pictures, i)]++;
  for (int64_t c = 0, begin = 0; c < classes; c++) {
    const int64_t own = next[c];
    next[c] = begin;
    begin += own;
    if (own) s->first[++s->present] = begin;
  }
  for (int64_t i = 0; i < count; i++) s->member[next[ac_pictures_label(s->pictures, i)]++] = i;
  free(next);
  return AC_OK;
}

static ac_status make_source(source **made, const ac_pictures *pictures,
                             const ac_picture_samples *desc) {
  source *s = calloc(1, sizeof *s);
  if (!s) return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for a dataset");
  s->desc = *desc;
  if (desc->changes) {
    s->changes = *desc->changes;
    s->desc.changes = &s->changes;
  }
  ac_status status = ac_pool_create(&s->pool, desc->threads, sizeof(buffers), "pictures");
  if (status == AC_OK) status = ac_pictures_create(&s->pictures, pictures->store, pictures->count);
  if (status == AC_OK) {
    const size_t bytes = (size_t)pictures->count * sizeof *pictures->index;
    s->pictures->count = pictures->count;
    memcpy(s->pictures->index, pictures->index, bytes);
    if (desc->balanced) status = sort_by_class(s);
  }
  if (status != AC_OK) {
    close_source(s);
    return status;
  }
  measure(s);
  *made = s;
  return AC_OK;
}

ac_status ac_dataset_from_pictures(ac_dataset **dataset, const ac_pictures *pictures,
                                   const ac_picture_samples *samples) {
  AC_CREATES(dataset);
  AC_REQUIRE(pictures);
  ac_picture_samples d = AC_DESCRIBED(ac_picture_samples, samples);
  AC_TRY(complete(&d));
  ac_picture_changes changes;
  if (d.changes) {
    changes = *d.changes;
    AC_TRY(ac_picture_changes_complete(&changes));
    d.changes = &changes;
  }
  const ac_picture_store *store = pictures->store;
  if (d.balanced && (!store->classes || store->several || store->masked))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "pictures: classes cannot be balanced unless each picture has one");
  source *s = NULL;
  if (store->cache && ac_picture_cache_channels(store->cache) != (int)d.channels)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "pictures: the cache has pictures of %d channels, and samples have %lld",
                   ac_picture_cache_channels(store->cache), (long long)d.channels);
  AC_TRY(make_source(&s, pictures, &d));
  ac_callback_dataset_desc desc = {
      .count = pictures->count,
      .field_count = store->classes ? 2 : 1,
      .fields = {{"images", d.dtype, d.channels * d.height * d.width}, {"labels", AC_I32, 1}},
      .read = read_picture,
      .close = close_source,
      .user = s};
  if (store->masked) desc.fields[1] = (ac_field){"masks", AC_I32, d.height * d.width};
  if (store->several) desc.fields[1] = (ac_field){"targets", AC_F32, store->classes};
  const ac_status status = ac_dataset_create(dataset, &desc, store->classes);
  if (status != AC_OK) {
    close_source(s);
    return status;
  }
  (*dataset)->trace = trace_picture;
  (*dataset)->bytes = s->bytes;
  memcpy((*dataset)->image_shape, (int64_t[]){d.channels, d.height, d.width},
         sizeof(*dataset)->image_shape);
  return AC_OK;
}

uint64_t ac_dataset_picture_bytes(const ac_dataset *dataset) {
  return dataset ? dataset->bytes : 0;
}
