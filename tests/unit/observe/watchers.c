/* What the list of watchers promises: their keys, what a copy of a run takes along, and the sums of
 * the window in progress, which ranks would add up. */
#include "support/states.h"

static const ac_plan_desc split = {.batch = 8, .micro_batch = 2};
static const ac_trainer_desc watched = {.noise_every = 1,
                                        .noise_layers = true,
                                        .layers_every = 1,
                                        .spikes = {.policy = AC_SPIKE_TELL},
                                        .schedule = {.kind = AC_SCHEDULE_PLATEAU}};

static run begin_watched(void) {
  return start_model("cpu", &(shape_of_model){.norm = false}, &split, &watched);
}

static void update(run *r) {
  assert_ok(feed_samples(r, 0, 8));
  assert_ok(ac_trainer_update(r->trainer, NULL));
}

static void keys_are_those_of_states(void **state) {
  (void)state;
  const char *keys[256];
  const ac_record *record;
  int count = 0;
  ac_run run;
  void *at;
  assert_ok(ac_run_create(&run));
  for (int i = 0; (record = ac_run_record(&run, i, &at)); i++)
    for (const ac_state_field *field = record->fields; field->key; field++) {
      assert_true(!strncmp(field->key, "accrue.state.", 13));
      for (int k = 0; k < count; k++) assert_string_not_equal(keys[k], field->key);
      keys[count++] = field->key;
    }
  assert_true(count > 50);
  ac_run_drop(&run);
}

/* Whether all bytes of a watcher's sums are 0; it has some. */
static bool sums_are_zero(const run *r, int watcher) {
  const char *record = r->trainer->run.watched[watcher];
  bool zero = true;
  for (const ac_watch_sum *sum = ac_watchers[watcher]->sums; sum->number.kind; sum++) {
    const int64_t times = sum->times.kind ? ac_state_number_of(&sum->times, record) : 1;
    for (int64_t k = 0; k < times; k++)
      for (size_t b = 0; b < ac_state_number_bytes(&sum->number); b++)
        zero &= !record[sum->number.offset + (size_t)k * sum->stride + b];
  }
  return zero;
}

/* They are all that a window in progress adds to what watchers keep. */
static void sums_are_of_one_window(void **state) {
  (void)state;
  run r = begin_watched();
  update(&r);
  ac_run before;
  assert_ok(ac_run_copy(&before, &r.trainer->run));
  assert_ok(feed_samples(&r, 0, 2));
  for (int i = 0; i < AC_WATCHER_COUNT; i++) {
    const bool sums = ac_watchers[i]->sums[0].number.kind;
    assert_true(sums == (i == AC_WATCHER_noise || i == AC_WATCHER_noise_layers));
    if (sums) assert_false(sums_are_zero(&r, i));
  }
  ac_trainer_discard(r.trainer);
  for (int i = 0; i < AC_WATCHER_COUNT; i++) assert_true(sums_are_zero(&r, i));
  const size_t table = AC_WATCHER_COUNT * sizeof *before.watched;
  assert_memory_equal((char *)r.trainer->run.watched + table, (char *)before.watched + table,
                      before.bytes - table);
  ac_run_drop(&before);
  end_run(&r);
}

/* A copy that is put back is all that the run was, in its own memory. */
static void a_copy_has_all(void **state) {
  (void)state;
  run r = begin_watched();
  update(&r);
  ac_run copy, *own = &r.trainer->run;
  void **const watched_at = own->watched;
  assert_ok(ac_run_copy(&copy, own));
  update(&r);
  assert_int_equal(AC_WATCHED(own, layers)->measured, 2);
  assert_int_equal(AC_WATCHED(own, noise_layers)->count, 2);
  ac_run_put_back(own, &copy);
  assert_int_equal(own->updates, 1);
  assert_int_equal(AC_WATCHED(own, layers)->measured, 1);
  assert_int_equal(AC_WATCHED(own, noise_layers)->count, 1);
  assert_int_equal(AC_WATCHED(own, spikes)->count, 1);
  assert_ptr_equal(own->watched, watched_at);
  for (int i = 0; i < AC_WATCHER_COUNT; i++)
    assert_true((char *)own->watched[i] > (char *)own->watched &&
                (char *)own->watched[i] < (char *)own->watched + own->bytes);
  ac_run_drop(&copy);
  end_run(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_those_of_states),
                                     cmocka_unit_test(sums_are_of_one_window),
                                     cmocka_unit_test(a_copy_has_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
