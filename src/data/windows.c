#include "data/windows.h"

#include "core/error.h"
#include "core/share.h"

/* ---- stages ---------------------------------------------------------------------------------- */

/* The row before it of the same unit; -1: none. */
static int row_before(const ac_batch_stage *stages, int row) {
  int before = row - 1;
  while (before >= 0 && stages[before].unit != stages[row].unit) before--;
  return before;
}

static ac_status check_stage(const ac_batch_stage *stages, int row, int64_t most) {
  const ac_batch_stage *stage = &stages[row];
  if (stage->batch < 1 || stage->batch > most)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "a schedule of batches has one of %lld samples, and the plan is for 1 to %lld",
                   (long long)stage->batch, (long long)most);
  if ((unsigned)stage->unit > AC_BATCH_FROM_SAMPLE)
    return ac_fail(AC_ERROR_ARGUMENT, "a schedule of batches counts in the unknown unit %d",
                   (int)stage->unit);
  if (row == 0 && stage->from != 0)
    return ac_fail(AC_ERROR_ARGUMENT, "a schedule of batches begins at %lld, not at 0",
                   (long long)stage->from);
  const int before = row_before(stages, row);
  if (row > 0 && stage->from <= (before < 0 ? 0 : stages[before].from))
    return ac_fail(AC_ERROR_ARGUMENT, "in a schedule of batches %lld does not rise from %lld",
                   (long long)stage->from, (long long)(before < 0 ? 0 : stages[before].from));
  return AC_OK;
}

ac_status ac_batch_stages_check(const ac_batch_stage *stages, int count, int64_t most) {
  if (count < 0 || count > AC_MAX_BATCH_STAGES || (count > 0 && !stages))
    return ac_fail(AC_ERROR_ARGUMENT, "a schedule of batches has %d stages; there can be 0 to %d",
                   count, AC_MAX_BATCH_STAGES);
  for (int i = 0; i < count; i++) AC_TRY(check_stage(stages, i, most));
  return AC_OK;
}

static bool has_begun(const ac_batch_stage *stage, ac_place at) {
  const int64_t reached[] = {[AC_BATCH_FROM_STEP] = at.windows,
                             [AC_BATCH_FROM_EPOCH] = at.epoch,
                             [AC_BATCH_FROM_SAMPLE] = at.samples};
  return reached[stage->unit] >= stage->from;
}

int64_t ac_windows_batch(const ac_windows *w, ac_place at) {
  int row = w->stage_count - 1;
  while (row > 0 && !has_begun(&w->stages[row], at)) row--;
  return row < 0 ? w->batch : w->stages[row].batch;
}

int64_t ac_windows_largest(const ac_windows *w) {
  int64_t largest = w->stage_count ? 0 : w->batch;
  for (int i = 0; i < w->stage_count; i++)
    if (w->stages[i].batch > largest) largest = w->stages[i].batch;
  return largest;
}

/* ---- windows --------------------------------------------------------------------------------- */

static ac_place next_epoch(ac_place at) {
  return (ac_place){.epoch = at.epoch + 1, .windows = at.windows, .samples = at.samples};
}

/* If incomplete windows are dropped, a window that cannot be filled begins in the next epoch. */
static ac_place skip_rest(const ac_windows *w, ac_place at) {
  if (w->epoch_end != AC_EPOCH_END_DROP || w->count - at.position >= ac_windows_batch(w, at))
    return at;
  return next_epoch(at);
}

ac_window ac_windows_lay(const ac_windows *w, ac_place from) {
  ac_window window = {.begin = skip_rest(w, from)};
  const int64_t batch = ac_windows_batch(w, window.begin);
  ac_place at = window.begin;
  while (window.count < batch && (!w->epochs || at.epoch < w->epochs)) {
    const int64_t rest = w->count - at.position, left = batch - window.count;
    const int64_t piece = left < rest ? left : rest;
    window.count += piece;
    at.position += piece;
    if (piece < rest) break;
    at = next_epoch(at);
    if (w->epoch_end != AC_EPOCH_END_CARRY) break;
  }
  window.first = ac_share_begin(window.count, w->rank, w->ranks);
  window.share = ac_share_of(window.count, w->rank, w->ranks);
  at.windows += window.count > 0;
  at.samples += window.count;
  window.next = skip_rest(w, at);
  return window;
}

/* Windows of one batch from there to the end of the epoch. */
static int64_t rest_of_epoch(const ac_windows *w, ac_place at, int64_t batch) {
  const int64_t rest = w->count - at.position;
  return rest / batch + (w->epoch_end == AC_EPOCH_END_SHORT && rest % batch != 0);
}

/* And to the end of all epochs. */
static int64_t rest_of_all(const ac_windows *w, ac_place at, int64_t batch) {
  const int64_t more = w->epochs - at.epoch - 1;
  if (more < 0) return 0;
  if (w->epoch_end == AC_EPOCH_END_CARRY) {
    const int64_t rest = w->count - at.position + more * w->count;
    return rest / batch + (rest % batch != 0);
  }
  return rest_of_epoch(w, at, batch) + more * rest_of_epoch(w, (ac_place){0}, batch);
}

int64_t ac_windows_total(const ac_windows *w) {
  ac_place at = {0};
  const ac_batch_stage *last = w->stages + (w->stage_count ? w->stage_count - 1 : 0);
  while (w->stage_count && !has_begun(last, at)) {
    const ac_window window = ac_windows_lay(w, at);
    if (!window.count) return at.windows;
    at = window.next;
  }
  return at.windows + rest_of_all(w, at, ac_windows_batch(w, at));
}

ac_sample_key ac_windows_key(const ac_windows *w, ac_place begin, int64_t sample) {
  const int64_t position = begin.position + sample;
  ac_sample_key key = {.epoch = begin.epoch + position / w->count, .seed = w->seed};
  key.index = position % w->count;
  if (!w->no_shuffle) key.index = ac_shuffle(key.seed, key.epoch, key.index, w->count);
  return key;
}
