/* Which samples form which window: against a walk through the epochs, sample by sample. */
#include "check.h"

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
  w->at = (ac_place){w->at.epoch + 1, 0};
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
  walker w = {windows, {0, 0}};
  ac_place next = {0, 0}, samples[16];
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
          check_windows(&(ac_windows){count, batch, epochs, (ac_epoch_end)end, true, 0});
          check_windows(&(ac_windows){count, batch, epochs, (ac_epoch_end)end, false, 5});
        }
}

/* With incomplete windows dropped, the next one begins where a window can be filled. */
static void test_next_begins_a_window(void **state) {
  (void)state;
  const ac_windows windows = {.count = 7, .batch = 3, .epoch_end = AC_EPOCH_END_DROP};
  const ac_window first = ac_windows_lay(&windows, (ac_place){0, 0});
  const ac_window second = ac_windows_lay(&windows, first.next);
  assert_int_equal(second.begin.position, 3);
  assert_int_equal(second.next.epoch, 1);
  assert_int_equal(second.next.position, 0);
  assert_int_equal(ac_windows_lay(&windows, (ac_place){0, 5}).begin.epoch, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_next_begins_a_window),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
