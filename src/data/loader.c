/* The batches in memory form a ring of `depth` slots. Batch b, counted from the last seek, lives in
 * slot b mod depth from when its first sample is read until the caller asks for batch b + 1:
 *
 *      taken              filling
 *        |                   |
 *    [ caller's ] [ complete ] [ being read ] [ free ]      taken <= filling <= taken + depth
 *
 * A reader (a worker, or the caller while it waits) takes the next PIECE samples of batch
 * `filling`, reads them without the lock and adds them to the slot's samples done. `filling` moves
 * on when all pieces of its batch are taken; the batch is complete when all are done. So all
 * readers work on the oldest batch, which is ready as early as it can be. */
#include "data/loader.h"

#include "core/align.h"
#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/process.h"
#include "core/platform/threads.h"
#include "core/share.h"
#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 16 };
#define LOOK_SECONDS 0.1 /* how long a caller that waits does nothing else */

typedef struct slot {
  char *fields[AC_MAX_FIELDS]; /* NULL: unused */
  ac_window window;
  int64_t given, done; /* samples of the window's share: taken by readers, read */
  int64_t failed;      /* the first sample that could not be read; -1: none */
  ac_status status;
  char sentence[1024];
} slot;

typedef struct reader {
  ac_loader *loader;
  ac_thread *thread; /* NULL: the caller */
  char *unused;      /* where unused fields are written */
} reader;

struct ac_loader {
  ac_dataset *dataset;
  ac_loader_desc desc;
  ac_windows windows; /* by the loader's own stages */
  ac_batch_stage stages[AC_MAX_BATCH_STAGES];
  size_t bytes[AC_MAX_FIELDS]; /* per sample */
  char *memory;
  reader *readers; /* the caller, then the threads */
  slot *slots;

  ac_monitor *monitor; /* guards the slots, except for the samples in them, and: */
  int64_t taken;       /* the batch that is the caller's or comes next */
  int64_t filling;     /* the first batch that still has samples to take */
  bool laid;           /* its slot says which they are */
  ac_place next;       /* where it begins, if not */
  bool holding;        /* batch `taken` is the caller's */
  int reading;         /* readers at work without the lock */
  bool pause, stop;
  int process; /* that made it */
};

/* ---- the order of samples -------------------------------------------------------------------- */

ac_windows ac_loader_windows(const ac_dataset *dataset, const ac_loader_desc *desc) {
  return (ac_windows){.count = ac_dataset_count(dataset),
                      .batch = desc->batch,
                      .epochs = desc->epochs,
                      .epoch_end = desc->epoch_end,
                      .no_shuffle = desc->no_shuffle,
                      .seed = desc->seed,
                      .stages = desc->stages,
                      .stage_count = desc->stage_count,
                      .rank = desc->rank,
                      .ranks = desc->ranks};
}

/* Says which samples batch `filling` has; none after the end. */
static void lay_batch(ac_loader *loader, slot *s) {
  s->window = ac_windows_lay(&loader->windows, loader->next);
  if (loader->desc.batches && loader->filling >= loader->desc.batches)
    s->window = (ac_window){.begin = s->window.begin, .next = s->window.begin};
  s->given = s->done = 0;
  s->failed = -1;
  loader->laid = true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static ac_status call_meanwhile(const ac_loader *loader) {
  return loader->desc.meanwhile ? loader->desc.meanwhile(loader->desc.user) : AC_OK;
}

/* Samples [first, end) of this rank's; if one cannot be read, *failed says which. */
static ac_status read_samples(const reader *r, const slot *s, int64_t first, int64_t end,
                              int64_t *failed) {
  const ac_loader *loader = r->loader;
  void *fields[AC_MAX_FIELDS];
  for (int64_t i = first; i < end; i++) {
    for (int f = 0; f < ac_dataset_field_count(loader->dataset); f++)
      fields[f] = s->fields[f] ? s->fields[f] + (size_t)i * loader->bytes[f] : r->unused;
    const ac_sample_key key =
        ac_windows_key(&loader->windows, s->window.begin, s->window.first + i);
    *failed = i;
    if (r == loader->readers) AC_TRY(call_meanwhile(loader)); /* the caller */
    AC_TRY(ac_dataset_read_for(loader->desc.owner, loader->dataset, &key, fields));
  }
  return AC_OK;
}

/* Pieces may fail in any order; the caller hears of the first sample. */
static void note_failure(slot *s, ac_status status, int64_t failed) {
  if (s->failed >= 0 && s->failed < failed) return;
  s->failed = failed;
  s->status = status;
  snprintf(s->sentence, sizeof s->sentence, "%s", ac_last_error());
}

/* Reads one piece; false if there is nothing to read now. The lock is held before and after. */
static bool read_piece(const reader *r) {
  ac_loader *loader = r->loader;
  if (loader->pause || loader->filling == loader->taken + loader->desc.depth) return false;
  slot *s = &loader->slots[loader->filling % loader->desc.depth];
  if (!loader->laid) lay_batch(loader, s);
  if (!s->window.count) return false;

  int64_t first = s->given, end = s->window.share - first < PIECE ? s->window.share : first + PIECE,
          failed = 0;
  s->given = end;
  if (end == s->window.share) {
    loader->filling++;
    loader->laid = false;
    loader->next = s->window.next;
  }
  loader->reading++;
  ac_monitor_unlock(loader->monitor);
  ac_status status = read_samples(r, s, first, end, &failed);
  ac_monitor_lock(loader->monitor);
  loader->reading--;
  if (status != AC_OK) note_failure(s, status, failed);
  s->done += end - first;
  if (s->done == s->window.share || loader->pause) ac_monitor_wake(loader->monitor);
  return true;
}

static void read_ahead(void *user) {
  const reader *r = user;
  ac_loader *loader = r->loader;
  ac_monitor_lock(loader->monitor);
  while (!loader->stop)
    if (!read_piece(r)) ac_monitor_wait(loader->monitor);
  ac_monitor_unlock(loader->monitor);
}

/* ---- batches for the caller ------------------------------------------------------------------ */

/* Batch `taken` is complete, or known to be none. */
static bool is_ready(const ac_loader *loader) {
  const slot *s = &loader->slots[loader->taken % loader->desc.depth];
  if (loader->taken == loader->filling) return loader->laid && !s->window.count;
  return s->done == s->window.share;
}

static ac_status check_process(const ac_loader *loader) {
  if (!loader->desc.threads || loader->process == ac_process()) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "loader: this process was forked while samples were read ahead, by threads that "
                 "are the parent's; train on there, or begin another fit here");
}

/* The lock is held before and after. */
static ac_status wait_a_while(ac_loader *loader) {
  if (!loader->desc.meanwhile) {
    ac_monitor_wait(loader->monitor);
    return AC_OK;
  }
  ac_monitor_wait_for(loader->monitor, LOOK_SECONDS);
  ac_monitor_unlock(loader->monitor);
  const ac_status status = call_meanwhile(loader);
  ac_monitor_lock(loader->monitor);
  return status;
}

ac_status ac_loader_next(ac_loader *loader, ac_batch *batch) {
  double began = ac_clock();
  AC_TRY(check_process(loader));
  ac_monitor_lock(loader->monitor);
  if (loader->holding) {
    loader->holding = false;
    loader->taken++;
    ac_monitor_wake(loader->monitor); /* its slot is free */
  }
  ac_status waited = AC_OK;
  while (waited == AC_OK && !is_ready(loader)) {
    bool helped = loader->filling == loader->taken && read_piece(&loader->readers[0]);
    if (!helped && !is_ready(loader)) waited = wait_a_while(loader);
  }
  if (waited != AC_OK) {
    ac_monitor_unlock(loader->monitor);
    return waited;
  }
  const slot *s = &loader->slots[loader->taken % loader->desc.depth];
  loader->holding = s->window.count > 0 && s->failed < 0;
  ac_monitor_unlock(loader->monitor);

  *batch = (ac_batch){.window = s->window, .wait_seconds = ac_clock() - began};
  memcpy(batch->fields, s->fields, sizeof s->fields);
  return s->failed < 0 ? AC_OK : ac_fail(s->status, "%s", s->sentence);
}

/* Threads look at them whenever they begin a batch, whatever becomes of the caller's. */
static void take_stages(ac_loader *loader, const ac_batch_stage *stages, int count) {
  if (count) memmove(loader->stages, stages, (size_t)count * sizeof *stages);
  loader->windows.stages = loader->stages;
  loader->windows.stage_count = count;
}

ac_status ac_loader_lay(ac_loader *loader, ac_place place, const ac_batch_stage *stages,
                        int stage_count, int64_t batches) {
  if (place.epoch < 0 || place.position < 0 || place.position >= ac_dataset_count(loader->dataset))
    return ac_fail(AC_ERROR_ARGUMENT, "loader: epoch %lld has no position %lld among %lld samples",
                   (long long)place.epoch, (long long)place.position,
                   (long long)ac_dataset_count(loader->dataset));
  AC_TRY(check_process(loader));
  ac_monitor_lock(loader->monitor);
  loader->pause = true;
  while (loader->reading) ac_monitor_wait(loader->monitor);
  loader->taken = loader->filling = 0;
  loader->laid = loader->holding = loader->pause = false;
  loader->next = place;
  take_stages(loader, stages, stage_count);
  loader->desc.batches = batches;
  ac_monitor_wake(loader->monitor);
  ac_monitor_unlock(loader->monitor);
  return AC_OK;
}

ac_status ac_loader_seek(ac_loader *loader, ac_place place) {
  return ac_loader_lay(loader, place, loader->stages, loader->windows.stage_count,
                       loader->desc.batches);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of one slot, of what a reader needs for unused fields, and of all. */
typedef struct sizes {
  size_t slot, unused, total;
} sizes;

static bool round_up(uint64_t bytes, size_t *rounded) {
  *rounded = (size_t)ac_align(bytes, AC_LINE_BYTES);
  return bytes <= PTRDIFF_MAX - AC_LINE_BYTES;
}

static size_t sample_bytes(const ac_dataset *dataset, int f) {
  const ac_field *field = ac_dataset_field(dataset, f);
  return (size_t)field->elements * ac_dtype_bytes(field->dtype);
}

static ac_status measure(const ac_dataset *dataset, const ac_loader_desc *desc, sizes *s) {
  const int64_t share = ac_share_most(desc->batch, desc->ranks);
  *s = (sizes){0};
  bool fits = true;
  for (int f = 0; f < ac_dataset_field_count(dataset) && fits; f++) {
    size_t bytes = sample_bytes(dataset, f), rounded = 0;
    if (desc->unused[f]) {
      fits = round_up(bytes, &rounded);
      if (rounded > s->unused) s->unused = rounded;
    } else {
      fits = (uint64_t)share <= PTRDIFF_MAX / bytes &&
             round_up((uint64_t)share * bytes, &rounded) && rounded < PTRDIFF_MAX - s->slot;
      s->slot += rounded;
    }
  }
  size_t slots = (size_t)desc->depth, readers = (size_t)desc->threads + 1;
  fits = fits && s->slot <= PTRDIFF_MAX / 2 / slots && s->unused <= PTRDIFF_MAX / 2 / readers;
  if (!fits)
    return ac_fail(AC_ERROR_ARGUMENT, "loader: batches of %lld samples are too large for memory",
                   (long long)desc->batch);
  s->total = slots * s->slot + readers * s->unused;
  return AC_OK;
}

/* Checks the description and fills in its defaults. */
static ac_status complete(const ac_dataset *dataset, ac_loader_desc *desc) {
  if (desc->batch < 1)
    return ac_fail(AC_ERROR_ARGUMENT, "loader: a batch has at least 1 sample, not %lld",
                   (long long)desc->batch);
  if (desc->threads < 0 || desc->threads > AC_LOADER_MAX_THREADS)
    return ac_fail(AC_ERROR_ARGUMENT, "loader: %d threads; there can be 0 to %d", desc->threads,
                   AC_LOADER_MAX_THREADS);
  if (desc->depth < 0 || desc->depth > AC_LOADER_MAX_DEPTH)
    return ac_fail(AC_ERROR_ARGUMENT, "loader: %d batches in memory; there can be at most %d",
                   desc->depth, AC_LOADER_MAX_DEPTH);
  if (desc->epochs < 0 || desc->batches < 0 || (unsigned)desc->epoch_end > AC_EPOCH_END_DROP)
    return ac_fail(AC_ERROR_ARGUMENT, "loader: the order of samples makes no sense");
  if (desc->epoch_end == AC_EPOCH_END_DROP && ac_dataset_count(dataset) < desc->batch)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "loader: %lld samples never fill a batch of %lld, and incomplete ones are "
                   "dropped",
                   (long long)ac_dataset_count(dataset), (long long)desc->batch);
  if (!desc->depth) desc->depth = 2;
  if (!desc->threads) desc->depth = 1;
  return AC_OK;
}

ac_status ac_loader_bytes(const ac_dataset *dataset, const ac_loader_desc *desc, uint64_t *bytes) {
  ac_loader_desc completed = *desc;
  sizes s;
  *bytes = 0;
  AC_TRY(complete(dataset, &completed));
  AC_TRY(measure(dataset, &completed, &s));
  *bytes = s.total;
  return AC_OK;
}

static ac_status allocate(ac_loader *loader) {
  const ac_loader_desc *desc = &loader->desc;
  sizes s;
  AC_TRY(measure(loader->dataset, desc, &s));
  loader->slots = calloc((size_t)desc->depth, sizeof *loader->slots);
  loader->readers = calloc((size_t)desc->threads + 1, sizeof *loader->readers);
  loader->monitor = ac_monitor_create();
  loader->memory = aligned_alloc(AC_LINE_BYTES, s.total);
  if (!loader->slots || !loader->readers || !loader->monitor || !loader->memory)
    return ac_fail(AC_ERROR_MEMORY, "loader: no memory for %d batches of %zu bytes", desc->depth,
                   s.slot);
  char *at = loader->memory;
  for (int i = 0; i < desc->depth; i++)
    for (int f = 0; f < ac_dataset_field_count(loader->dataset); f++) {
      loader->bytes[f] = sample_bytes(loader->dataset, f);
      if (desc->unused[f]) continue;
      size_t bytes;
      round_up((uint64_t)ac_share_most(desc->batch, desc->ranks) * loader->bytes[f], &bytes);
      loader->slots[i].fields[f] = at;
      at += bytes;
    }
  for (int i = 0; i <= desc->threads; i++, at += s.unused)
    loader->readers[i] = (reader){.loader = loader, .unused = at};
  return AC_OK;
}

ac_status ac_loader_create(ac_loader **loader, ac_dataset *dataset, const ac_loader_desc *desc) {
  *loader = NULL;
  ac_loader *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "loader: no memory for its description");
  made->dataset = dataset;
  made->desc = *desc;
  made->process = ac_process();
  ac_status status = complete(dataset, &made->desc);
  made->windows = ac_loader_windows(dataset, &made->desc);
  take_stages(made, desc->stages, desc->stage_count);
  if (status == AC_OK) status = allocate(made);
  for (int i = 1; i <= made->desc.threads && status == AC_OK; i++)
    status = ac_thread_start(&made->readers[i].thread, read_ahead, &made->readers[i]);
  if (status == AC_OK) *loader = made;
  else ac_loader_free(made);
  return status;
}

/* In the child of a fork there is nobody to wait for, and the lock may be a parent's thread's. */
static void end_threads(ac_loader *loader) {
  if (loader->desc.threads && loader->process != ac_process()) return;
  if (loader->monitor) {
    ac_monitor_lock(loader->monitor);
    loader->stop = true;
    ac_monitor_wake(loader->monitor);
    ac_monitor_unlock(loader->monitor);
  }
  for (int i = 1; loader->readers && i <= loader->desc.threads; i++)
    ac_thread_join(loader->readers[i].thread);
  ac_monitor_free(loader->monitor);
}

void ac_loader_free(ac_loader *loader) {
  if (!loader) return;
  end_threads(loader);
  free(loader->memory);
  free(loader->readers);
  free(loader->slots);
  free(loader);
}
