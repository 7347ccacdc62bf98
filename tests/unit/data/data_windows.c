/* Which samples form which window: against a walk through the epochs, sample by sample. */
#include "support/files.h"

#include "data/windows.h"

enum { WINDOWS = 9 };

/* A walker is at the sample that comes next. */
typedef struct walker {
  const ac_windows *windows;
  ac_place at;
} walker;

static bool has_ended(const walker *w) {
  return w->windows->epochs && w->at.epoch >= w->windows->epochs;
}

/* Passes one sample; true if it was the epoch's last. */
static bool pass(walker *w) {
  if (++w->at.position < w->windows->count) return false;
  w->at = (ac_place){.epoch = w->at.epoch + 1};
  return true;
}

/* Collects a window's samples into `samples`; returns how many. A window that is to be dropped is
 * begun again after it. */
static int64_t walk(walker *w, ac_place *samples) {
  int64_t count = 0;
  while (count < w->windows->batch && !has_ended(w)) {
    samples[count++] = w->at;
    if (!pass(w) || count == w->windows->batch) continue;
    if (w->windows->epoch_end == AC_EPOCH_END_SHORT) break;
    if (w->windows->epoch_end == AC_EPOCH_END_DROP) count = 0;
  }
  return count;
}

static void check_window(const ac_windows *windows, const ac_window *window,
                         const ac_place *samples, int64_t count) {
  assert_int_equal(window->count, count);
  for (int64_t i = 0; i < count; i++) {
    const ac_sample_key key = ac_windows_key(windows, window->begin, i);
    int64_t index = samples[i].position;
    if (!windows->no_shuffle)
      index = ac_shuffle(windows->seed, samples[i].epoch, index, windows->count);
    assert_int_equal(key.epoch, samples[i].epoch);
    assert_int_equal(key.index, index);
    assert_true(key.seed == windows->seed);
  }
}

static void check_windows(const ac_windows *windows) {
  walker w = {.windows = windows};
  ac_place next = {0}, samples[16];
  for (int i = 0; i < WINDOWS; i++) {
    const int64_t count = walk(&w, samples);
    if (windows->epoch_end == AC_EPOCH_END_DROP && count < windows->batch) {
      assert_int_equal(ac_windows_lay(windows, next).count, 0); /* no later epoch fills it */
      return;
    }
    const ac_window window = ac_windows_lay(windows, next);
    check_window(windows, &window, samples, count);
    next = window.next;
    if (!count) return;
  }
}

static void test_windows(void **state) {
  (void)state;
  for (int64_t count = 1; count <= 7; count++)
    for (int64_t batch = 1; batch <= 16; batch++)
      for (int64_t epochs = 0; epochs <= 3; epochs++)
        for (int end = AC_EPOCH_END_SHORT; end <= AC_EPOCH_END_DROP; end++) {
          if (end == AC_EPOCH_END_DROP && batch > count) continue; /* refused: none is filled */
          check_windows(&(ac_windows){.count = count,
                                      .batch = batch,
                                      .epochs = epochs,
                                      .epoch_end = (ac_epoch_end)end,
                                      .no_shuffle = true});
          check_windows(&(ac_windows){.count = count,
                                      .batch = batch,
                                      .epochs = epochs,
                                      .epoch_end = (ac_epoch_end)end,
                                      .seed = 5});
        }
}

/* With incomplete windows dropped, the next one begins where a window can be filled. */
static void test_next_begins_a_window(void **state) {
  (void)state;
  const ac_windows windows = {.count = 7, .batch = 3, .epoch_end = AC_EPOCH_END_DROP};
  const ac_window first = ac_windows_lay(&windows, (ac_place){0});
  const ac_window second = ac_windows_lay(&windows, first.next);
  assert_int_equal(second.begin.position, 3);
  assert_int_equal(second.next.epoch, 1);
  assert_int_equal(second.next.position, 0);
  assert_int_equal(ac_windows_lay(&windows, (ac_place){.position = 5}).begin.epoch, 1);
}

/* With stages, against a walk that asks each stage by itself. */
static int64_t batch_by_rows(const ac_windows *w, int64_t windows, int64_t epoch, int64_t samples) {
  int64_t batch = w->batch;
  for (int i = 0; i < w->stage_count; i++) {
    const ac_batch_stage *s = &w->stages[i];
    const int64_t reached = s->unit == AC_BATCH_FROM_STEP    ? windows
                            : s->unit == AC_BATCH_FROM_EPOCH ? epoch
                                                             : samples;
    if (reached >= s->from) batch = s->batch;
  }
  return batch;
}

static void check_stages(ac_windows w) {
  ac_place at = {0};
  int64_t windows = 0, samples = 0;
  for (;; windows++) {
    const ac_window window = ac_windows_lay(&w, at);
    if (!window.count) break;
    const ac_place begin = window.begin;
    const int64_t batch = batch_by_rows(&w, windows, begin.epoch, samples);
    const int64_t left = w.epoch_end == AC_EPOCH_END_CARRY
                             ? (w.epochs - begin.epoch) * w.count - begin.position
                             : w.count - begin.position;
    assert_int_equal(window.count, left < batch ? left : batch);
    if (w.epoch_end == AC_EPOCH_END_DROP) assert_int_equal(window.count, batch);
    assert_true(begin.windows == windows && begin.samples == samples);
    assert_int_equal(ac_windows_batch(&w, begin), batch);
    /* Nothing lies between but what is dropped, which fills no window. */
    const int64_t gap = begin.epoch * w.count + begin.position - at.epoch * w.count - at.position;
    assert_int_equal(gap, 0);
    samples += window.count;
    at = window.next;
  }
  assert_int_equal(ac_windows_total(&w), windows);
  if (w.epoch_end != AC_EPOCH_END_DROP) assert_int_equal(samples, w.epochs * w.count);
}

static void test_stages(void **state) {
  (void)state;
  static const ac_batch_stage rows[][4] = {
      {{2, AC_BATCH_FROM_STEP, 0}, {5, AC_BATCH_FROM_STEP, 3}, {3, AC_BATCH_FROM_STEP, 7}},
      {{1, AC_BATCH_FROM_STEP, 0}, {4, AC_BATCH_FROM_EPOCH, 1}, {7, AC_BATCH_FROM_EPOCH, 3}},
      {{3, AC_BATCH_FROM_SAMPLE, 0}, {4, AC_BATCH_FROM_SAMPLE, 10}, {5, AC_BATCH_FROM_SAMPLE, 21}},
      {{2, AC_BATCH_FROM_EPOCH, 0},
       {3, AC_BATCH_FROM_STEP, 2},
       {5, AC_BATCH_FROM_EPOCH, 2},
       {7, AC_BATCH_FROM_SAMPLE, 25}},
      {{6, AC_BATCH_FROM_STEP, 0}, {2, AC_BATCH_FROM_STEP, 1000}}};
  static const int lengths[] = {3, 3, 3, 4, 2};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (int64_t count = 7; count <= 23; count += 4)
      for (int64_t epochs = 1; epochs <= 6; epochs++)
        for (int end = AC_EPOCH_END_SHORT; end <= AC_EPOCH_END_DROP; end++) {
          assert_ok(ac_batch_stages_check(rows[i], lengths[i], 7));
          check_stages((ac_windows){.count = count,
                                    .batch = 9,
                                    .epochs = epochs,
                                    .epoch_end = (ac_epoch_end)end,
                                    .stages = rows[i],
                                    .stage_count = lengths[i]});
          check_stages((ac_windows){
              .count = count, .batch = 5, .epochs = epochs, .epoch_end = (ac_epoch_end)end});
        }
}

static void test_stages_refused(void **state) {
  (void)state;
  const ac_batch_stage late = {4, AC_BATCH_FROM_STEP, 2}, large = {9, AC_BATCH_FROM_STEP, 0},
                       none = {0}, unknown = {4, (ac_batch_unit)3, 0};
  const ac_batch_stage falls[] = {
      {4, AC_BATCH_FROM_STEP, 0}, {5, AC_BATCH_FROM_EPOCH, 3}, {6, AC_BATCH_FROM_EPOCH, 3}};
  assert_refused(ac_batch_stages_check(&late, 1, 8), AC_ERROR_ARGUMENT, "begins at 2, not at 0");
  assert_refused(ac_batch_stages_check(&large, 1, 8), AC_ERROR_ARGUMENT, "one of 9 samples");
  assert_refused(ac_batch_stages_check(&none, 1, 8), AC_ERROR_ARGUMENT, "one of 0 samples");
  assert_refused(ac_batch_stages_check(&unknown, 1, 8), AC_ERROR_ARGUMENT, "unknown unit 3");
  assert_refused(ac_batch_stages_check(falls, 3, 8), AC_ERROR_ARGUMENT, "3 does not rise from 3");
  assert_refused(ac_batch_stages_check(NULL, 1, 8), AC_ERROR_ARGUMENT, "has 1 stages");
  assert_refused(ac_batch_stages_check(falls, 33, 8), AC_ERROR_ARGUMENT, "has 33 stages");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_next_begins_a_window),
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_stages_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
