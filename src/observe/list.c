#include "observe/list.h"

#include "core/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AC_WATCHER_(name) &ac_watcher_##name,
const ac_watcher *const ac_watchers[AC_WATCHER_COUNT] = {AC_WATCHERS(AC_WATCHER_)};
#undef AC_WATCHER_

/* ---- records --------------------------------------------------------------------------------- */

/* The order of keys in states: the run, the loss scale, the place in the data, the other watchers.
 * It stays as it was, so that the same run writes the same file. */
static const ac_record *const before[] = {&ac_record_run}, *const others[] = {
                                                               &ac_record_fit, &ac_record_window,
                                                               &ac_record_window_batch,
                                                               &ac_record_fingerprint,
                                                               &ac_record_groups};
enum {
  BEFORE = sizeof before / sizeof *before,
  FIRST = AC_WATCHER_scaler + 1, /* watchers between them */
  OTHERS = sizeof others / sizeof *others
};

const ac_record *ac_run_record(const ac_run *run, int index, void **at) {
  const int rest = index - BEFORE, last = rest - OTHERS;
  *at = (void *)run;
  if (rest < 0) return before[index];
  if (rest >= FIRST && last < FIRST) return others[rest - FIRST];
  const int watcher = rest < FIRST ? rest : last;
  if (watcher >= AC_WATCHER_COUNT) return NULL;
  *at = run->watched[watcher];
  return &ac_watchers[watcher]->record;
}

/* The block begins with the table of records. */
static ac_status allocate(ac_run *run, const ac_watch_setup *setup) {
  enum { ALIGNMENT = 16 };
  size_t at[AC_WATCHER_COUNT];
  run->bytes = (AC_WATCHER_COUNT * sizeof *run->watched + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *watcher = ac_watchers[i];
    at[i] = run->bytes;
    run->bytes += watcher->bytes + (setup && watcher->tables ? watcher->tables(setup) : 0);
    run->bytes = (run->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  run->watched = calloc(1, run->bytes);
  if (!run->watched) return ac_fail(AC_ERROR_MEMORY, "no memory for what a run remembers");
  for (int i = 0; i < AC_WATCHER_COUNT; i++) run->watched[i] = (char *)run->watched + at[i];
  return AC_OK;
}

ac_status ac_run_create(ac_run *run) {
  *run = (ac_run){.bytes = 0};
  return allocate(run, NULL);
}

/* Between blocks of the same layout. */
static void move(void **to, void *const *from, size_t bytes) {
  memcpy(to, from, bytes);
  for (int i = 0; i < AC_WATCHER_COUNT; i++)
    to[i] = (char *)to + ((const char *)from[i] - (const char *)from);
}

ac_status ac_run_copy(ac_run *copy, const ac_run *run) {
  *copy = *run;
  copy->watched = malloc(run->bytes);
  if (!copy->watched) return ac_fail(AC_ERROR_MEMORY, "no memory to copy what a run remembers");
  move(copy->watched, run->watched, run->bytes);
  return AC_OK;
}

void ac_run_put_back(ac_run *run, const ac_run *copy) {
  void **const own = run->watched;
  *run = *copy;
  run->watched = own;
  move(own, copy->watched, copy->bytes);
}

void ac_run_take(ac_run *run, ac_run *read) {
  const ac_record *record;
  void *at, *own;
  for (int i = 0; (record = ac_run_record(read, i, &at)); i++) {
    ac_run_record(run, i, &own);
    if (record->settle) record->settle(at, own);
  }
  ac_run_put_back(run, read);
}

void ac_run_drop(ac_run *copy) {
  free(copy->watched);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Where a watcher is asked to work: refuses a plan of another way of gradients. */
static ac_status check_way(const ac_watcher *watcher, const ac_watch_setup *setup,
                           const ac_fit_desc *fit) {
  const ac_gradient_way *way = setup->plan->way;
  const unsigned has = (way->has_noise ? AC_NEEDS_NOISE : 0) | (way->can_skip ? AC_NEEDS_SKIP : 0) |
                       (way->can_skip || way->steps_alone ? AC_NEEDS_LEAVE_OUT : 0);
  if (!(watcher->needs & ~has) || !watcher->is_asked(setup, fit)) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, watcher->lacking, way->words);
}

ac_status ac_watchers_begin(ac_run *run, const ac_watch_setup *setup) {
  AC_TRY(allocate(run, setup));
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *watcher = ac_watchers[i];
    AC_TRY(check_way(watcher, setup, NULL));
    if (watcher->record.anew) watcher->record.anew(run->watched[i]);
    if (watcher->begin) AC_TRY(watcher->begin(run->watched[i], setup));
  }
  return AC_OK;
}

void ac_watchers_release(ac_run *run) {
  for (int i = 0; i < AC_WATCHER_COUNT && run->watched; i++)
    if (ac_watchers[i]->release) ac_watchers[i]->release(run->watched[i]);
  free(run->watched);
}

/* ---- a window -------------------------------------------------------------------------------- */

bool ac_watchers_want_first(const ac_window_view *view) {
  bool any = false;
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->wants_first) any |= w->wants_first(view->run->watched[i], view);
  }
  return any;
}

void ac_watchers_first(ac_run *run, const ac_window_view *view) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->first && w->wants_first(run->watched[i], view)) w->first(run->watched[i], view);
  }
}

ac_proposal ac_watchers_judge(const ac_window_view *view) {
  ac_proposal proposal = {.factor = 1,
                          .spike = {.loss_limit = (double)NAN, .norm_limit = (double)NAN}};
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->judge) w->judge(view->run->watched[i], view, &proposal);
  }
  return proposal;
}

bool ac_watchers_look(const ac_window_view *view) {
  bool any = false;
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->looks) any |= w->looks(view->run->watched[i], view);
  }
  return any;
}

ac_status ac_watchers_before_step(ac_run *run, const ac_window_view *view) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->looks && w->looks(run->watched[i], view)) AC_TRY(w->before_step(run->watched[i], view));
  }
  return AC_OK;
}

ac_status ac_watchers_after_step(ac_run *run, const ac_window_view *view) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->looks && w->looks(run->watched[i], view)) AC_TRY(w->after_step(run->watched[i], view));
  }
  return AC_OK;
}

void ac_watchers_after(ac_run *run, const ac_window_view *view, ac_update *update) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->after) w->after(run->watched[i], view, update);
  }
}

static int64_t times_of(const ac_watch_sum *sum, const void *record) {
  return sum->times.kind ? ac_state_number_of(&sum->times, record) : 1;
}

int64_t ac_watchers_get_sums(const ac_run *run, double *values) {
  int64_t count = 0;
  for (int i = 0; i < AC_WATCHER_COUNT; i++)
    for (const ac_watch_sum *sum = ac_watchers[i]->sums; sum->number.kind; sum++) {
      const char *record = run->watched[i];
      const int64_t times = times_of(sum, record);
      for (int64_t k = 0; k < times && values; k++)
        values[count + k] = ac_state_number_value(&sum->number, record + (size_t)k * sum->stride);
      count += times;
    }
  return count;
}

void ac_watchers_set_sums(ac_run *run, const double *values) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++)
    for (const ac_watch_sum *sum = ac_watchers[i]->sums; sum->number.kind; sum++) {
      char *record = run->watched[i];
      const int64_t times = times_of(sum, record);
      for (int64_t k = 0; k < times; k++)
        ac_state_number_set(&sum->number, record + (size_t)k * sum->stride, *values++);
    }
}

static void clear(const ac_watch_sum *sum, void *record) {
  const int64_t times = times_of(sum, record);
  const size_t bytes = ac_state_number_bytes(&sum->number);
  char *at = (char *)record + sum->number.offset;
  for (int64_t k = 0; k < times; k++) memset(at + (size_t)k * sum->stride, 0, bytes);
}

void ac_watchers_leave(ac_run *run) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++)
    for (const ac_watch_sum *sum = ac_watchers[i]->sums; sum->number.kind; sum++)
      clear(sum, run->watched[i]);
}

/* ---- a fit ----------------------------------------------------------------------------------- */

ac_status ac_watchers_check_fit(const ac_watch_setup *setup, const ac_fit_desc *fit) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    AC_TRY(check_way(w, setup, fit));
    if (w->check_fit) AC_TRY(w->check_fit(setup->run->watched[i], setup, fit));
  }
  return AC_OK;
}

ac_status ac_watchers_begin_fit(ac_run *run, const ac_watch_setup *setup, const ac_fit_desc *fit,
                                bool goes_on) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->begin_fit) AC_TRY(w->begin_fit(run->watched[i], setup, fit, goes_on));
  }
  return AC_OK;
}

void ac_watchers_validated(ac_run *run, double loss) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->validated) w->validated(run->watched[i], loss);
  }
}

void ac_watchers_go_back(ac_run *run, const ac_run *before, int64_t step) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->went_back) w->went_back(run->watched[i], before->watched[i], run, step);
  }
}

void ac_watchers_rest(ac_run *run) {
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const ac_watcher *w = ac_watchers[i];
    if (w->rest) w->rest(run->watched[i]);
  }
}
