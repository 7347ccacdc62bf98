/* The loader: which samples its batches hold, that threads change nothing, failures, seeking and
 * ending at any time. */
#include "support/files.h"

#include "data/loader.h"

#include <stdatomic.h>
#include <time.h>

enum { MOST = 4096 };

/* Sample i of epoch e has the number 1000 e + i three times over, and 64 bytes of noise that depend
 * on it. */
typedef struct source {
  atomic_int inside, overlaps, reads;
  int64_t bad[2]; /* samples that cannot be read; -1: none */
  int delay;      /* rounds of idling in a read */
} source;

static ac_status read_number(void *user, const ac_sample_key *key, void *const *fields) {
  source *s = user;
  if (atomic_fetch_add(&s->inside, 1) > 0) atomic_fetch_add(&s->overlaps, 1);
  atomic_fetch_add(&s->reads, 1);
  uint64_t random = (uint64_t)key->index * 31 + (uint64_t)key->epoch;
  int32_t *number = fields[0];
  for (int i = 0; i < 3; i++) number[i] = (int32_t)(1000 * key->epoch + key->index);
  for (int i = 0; i < 64; i++) ((uint8_t *)fields[1])[i] = (uint8_t)next_random(&random);
  for (int i = 0; i < s->delay * (int)(key->index % 7); i++)
    ((uint8_t *)fields[1])[i % 64] = (uint8_t)next_random(&random);
  atomic_fetch_sub(&s->inside, 1);
  return key->index == s->bad[0] || key->index == s->bad[1] ? AC_ERROR_IO : AC_OK;
}

static ac_dataset *make_dataset(source *s, int64_t count, bool concurrent) {
  memset(s, 0, sizeof *s);
  s->bad[0] = s->bad[1] = -1;
  ac_dataset *dataset;
  const ac_callback_dataset_desc desc = {.count = count,
                                         .field_count = 2,
                                         .fields = {{"number", AC_I32, 3}, {"noise", AC_U8, 64}},
                                         .read = read_number,
                                         .concurrent = concurrent,
                                         .user = s};
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  return dataset;
}

/* All batches one after another: their sizes and their samples' numbers. */
typedef struct tape {
  int64_t batches, samples, size[MOST];
  int32_t number[MOST];
  uint8_t noise[MOST][64];
} tape;

static void record(tape *t, const ac_batch *batch) {
  assert_true(t->samples + batch->window.count <= MOST);
  t->size[t->batches++] = batch->window.count;
  const int32_t *number = batch->fields[0];
  for (int64_t i = 0; i < batch->window.count; i++, t->samples++) {
    assert_true(number[3 * i] == number[3 * i + 2]);
    t->number[t->samples] = number[3 * i];
    if (batch->fields[1]) memcpy(t->noise[t->samples], (uint8_t *)batch->fields[1] + 64 * i, 64);
  }
}

static tape *play(ac_dataset *dataset, const ac_loader_desc *desc) {
  tape *t = calloc(1, sizeof *t);
  assert_non_null(t);
  ac_loader *loader;
  ac_batch batch;
  assert_ok(ac_loader_create(&loader, dataset, desc));
  int64_t epoch = 0, position = 0;
  for (;;) {
    assert_ok(ac_loader_next(loader, &batch));
    if (!batch.window.count) break;
    assert_true(batch.window.begin.epoch == epoch && batch.window.begin.position == position);
    epoch = batch.window.next.epoch, position = batch.window.next.position;
    record(t, &batch);
  }
  assert_ok(ac_loader_next(loader, &batch)); /* the end stays the end */
  assert_int_equal(batch.window.count, 0);
  ac_loader_free(loader);
  return t;
}

/* ---- which samples --------------------------------------------------------------------------- */

static void epochs_end_as_told(void **state) {
  (void)state;
  static const struct {
    ac_epoch_end end;
    int64_t batches, size[8];
  } cases[] = {{AC_EPOCH_END_SHORT, 6, {4, 4, 2, 4, 4, 2}},
               {AC_EPOCH_END_CARRY, 5, {4, 4, 4, 4, 4}},
               {AC_EPOCH_END_DROP, 4, {4, 4, 4, 4}}};
  source s;
  ac_dataset *dataset = make_dataset(&s, 10, true);
  for (int c = 0; c < 3; c++)
    for (int threads = 0; threads < 3; threads++) {
      ac_loader_desc desc = {.batch = 4,
                             .epochs = 2,
                             .threads = threads,
                             .no_shuffle = true,
                             .epoch_end = cases[c].end};
      tape *t = play(dataset, &desc);
      assert_int_equal(t->batches, cases[c].batches);
      assert_memory_equal(t->size, cases[c].size, (size_t)t->batches * sizeof *t->size);
      int per_epoch = cases[c].end == AC_EPOCH_END_DROP ? 8 : 10;
      for (int i = 0; i < t->samples; i++)
        assert_int_equal(t->number[i], 1000 * (i / per_epoch) + i % per_epoch);
      free(t);
      desc.batches = 3;
      t = play(dataset, &desc);
      assert_int_equal(t->batches, 3);
      free(t);
    }
  /* Batches may be larger than epochs, and the last of all smaller. */
  tape *t = play(dataset, &(ac_loader_desc){.batch = 25,
                                            .epochs = 3,
                                            .no_shuffle = true,
                                            .threads = 2,
                                            .epoch_end = AC_EPOCH_END_CARRY});
  assert_int_equal(t->batches, 2);
  assert_int_equal(t->size[1], 5);
  for (int i = 0; i < 30; i++) assert_int_equal(t->number[i], 1000 * (i / 10) + i % 10);
  free(t);
  assert_int_equal(atomic_load(&s.inside), 0);
  ac_dataset_free(dataset);
}

static void the_order_is_that_of_shuffle(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 100, true);
  tape *t = play(dataset, &(ac_loader_desc){.batch = 33, .epochs = 3, .seed = 8, .threads = 2});
  assert_int_equal(t->samples, 300);
  assert_int_equal(atomic_load(&s.reads), 300); /* nothing is read beyond the end */
  for (int i = 0; i < 300; i++)
    assert_int_equal(t->number[i], 1000 * (i / 100) + ac_shuffle(8, i / 100, i % 100, 100));
  free(t);
  ac_dataset_free(dataset);
}

/* Any number of threads and any depth: the same samples in the same places. */
static void threads_change_nothing(void **state) {
  (void)state;
  source s;
  for (int concurrent = 0; concurrent < 2; concurrent++) {
    ac_dataset *dataset = make_dataset(&s, 357, concurrent);
    s.delay = 20;
    ac_loader_desc desc = {.batch = 70, .epochs = 3, .seed = 3};
    tape *reference = play(dataset, &desc);
    assert_int_equal(reference->samples, 3 * 357);
    for (desc.threads = 1; desc.threads < 8; desc.threads += 3)
      for (desc.depth = 1; desc.depth < 5; desc.depth++) {
        tape *t = play(dataset, &desc);
        assert_memory_equal(t, reference, sizeof *t);
        free(t);
      }
    /* Callbacks see one thread at a time, unless they say that they can bear more. */
    if (!concurrent) assert_int_equal(atomic_load(&s.overlaps), 0);
    free(reference);
    ac_dataset_free(dataset);
  }
}

static void fields_without_use_take_no_room(void **state) {
  (void)state;
  source s;
  uint64_t all, used;
  ac_dataset *dataset = make_dataset(&s, 50, true);
  ac_loader_desc desc = {.batch = 20, .epochs = 2, .threads = 2, .depth = 3};
  assert_ok(ac_loader_bytes(dataset, &desc, &all));
  assert_int_equal(all, 3 * (256 + 20 * 64)); /* 20 x 12 bytes take 256 */
  desc.unused[1] = true;
  assert_ok(ac_loader_bytes(dataset, &desc, &used));
  assert_int_equal(used, 3 * 256 + 3 * 64); /* three readers */
  tape *t = play(dataset, &desc);
  for (int i = 0; i < 100; i++)
    assert_int_equal(t->number[i], 1000 * (i / 50) + ac_shuffle(0, i / 50, i % 50, 50));
  free(t);
  desc.threads = 0;
  assert_ok(ac_loader_bytes(dataset, &desc, &used));
  assert_int_equal(used, 256 + 64); /* one batch */
  ac_dataset_free(dataset);
}

/* ---- what can happen on the way -------------------------------------------------------------- */

/* The batch with a bad sample fails, by its first one; those before it do not. */
static void failures_arrive_with_their_sentence(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 300, true);
  s.bad[0] = 170, s.bad[1] = 130;
  for (int threads = 0; threads < 5; threads += 2) {
    ac_loader *loader;
    ac_batch batch;
    ac_loader_desc desc = {
        .batch = 100, .epochs = 1, .threads = threads, .depth = 4, .no_shuffle = true};
    assert_ok(ac_loader_create(&loader, dataset, &desc));
    assert_ok(ac_loader_next(loader, &batch));
    assert_int_equal(batch.window.count, 100);
    for (int again = 0; again < 2; again++)
      assert_refused(ac_loader_next(loader, &batch), AC_ERROR_IO, "reading sample 130 failed");
    assert_ok(ac_loader_seek(loader, (ac_place){.position = 171})); /* 129 are left */
    assert_ok(ac_loader_next(loader, &batch));
    assert_int_equal(((int32_t *)batch.fields[0])[0], 171);
    assert_ok(ac_loader_next(loader, &batch));
    assert_int_equal(batch.window.count, 29);
    ac_loader_free(loader);
  }
  ac_dataset_free(dataset);
}

static void seeking_goes_anywhere(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 90, true);
  s.delay = 20;
  for (int threads = 0; threads < 4; threads++) {
    ac_loader *loader;
    ac_batch batch;
    ac_loader_desc desc = {.batch = 40, .batches = 5, .threads = threads, .depth = 3, .seed = 6};
    assert_ok(ac_loader_create(&loader, dataset, &desc));
    uint64_t random = 5;
    for (int round = 0; round < 60; round++) {
      int64_t epoch = next_random(&random) % 9, position = next_random(&random) % 90;
      assert_ok(ac_loader_seek(loader, (ac_place){.epoch = epoch, .position = position}));
      for (uint32_t batches = next_random(&random) % 4; batches; batches--) {
        assert_ok(ac_loader_next(loader, &batch));
        assert_true(batch.window.begin.epoch == epoch && batch.window.begin.position == position);
        assert_int_equal(batch.window.count, 90 - position < 40 ? 90 - position : 40);
        const int32_t *number = batch.fields[0];
        for (int64_t i = 0; i < batch.window.count; i++)
          assert_int_equal(number[3 * i], 1000 * epoch + ac_shuffle(6, epoch, position + i, 90));
        epoch = batch.window.next.epoch, position = batch.window.next.position;
      }
    }
    assert_ok(ac_loader_seek(loader, (ac_place){.epoch = 2, .position = 89}));
    for (int i = 0; i < 5; i++) {
      assert_ok(ac_loader_next(loader, &batch));
      assert_true(batch.window.count > 0);
    }
    assert_ok(ac_loader_next(loader, &batch));
    assert_int_equal(batch.window.count, 0);
    assert_refused(ac_loader_seek(loader, (ac_place){.position = 90}), AC_ERROR_ARGUMENT,
                   "no position 90 among 90");
    assert_refused(ac_loader_seek(loader, (ac_place){.epoch = -1}), AC_ERROR_ARGUMENT, "epoch -1");
    ac_loader_free(loader);
  }
  ac_dataset_free(dataset);
}

/* The loader copies the rows of a schedule: its caller may write to them meanwhile. */
static void a_schedule_is_copied(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 90, true);
  for (int threads = 0; threads < 2; threads++) {
    ac_batch_stage rows[] = {{.batch = 10}, {.batch = 20, .from = 3}, {.batch = 30, .from = 4}};
    ac_loader *loader;
    ac_batch batch;
    const ac_loader_desc desc = {
        .batch = 30, .threads = threads, .depth = 2, .stages = rows, .stage_count = 2};
    assert_ok(ac_loader_create(&loader, dataset, &desc));
    rows[0].batch = rows[1].batch = 1;
    for (int i = 0; i < 4; i++) {
      assert_ok(ac_loader_next(loader, &batch));
      assert_int_equal(batch.window.count, i < 3 ? 10 : 20);
    }
    rows[0].batch = 10, rows[1].batch = 20;
    assert_ok(ac_loader_lay(loader, batch.window.next, rows, 3, 0));
    rows[2].batch = 1;
    for (int i = 0; i < 3; i++) {
      assert_ok(ac_loader_next(loader, &batch));
      assert_int_equal(batch.window.count, i < 1 ? 30 : i < 2 ? 10 : 30);
    }
    ac_loader_free(loader);
  }
  ac_dataset_free(dataset);
}

/* Freed at once, in the middle of reading, with a batch in the caller's hands, after a failure. */
static void a_loader_can_end_at_any_time(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 500, false);
  s.delay = 5, s.bad[0] = 300;
  for (int round = 0; round < 60; round++) {
    ac_loader *loader;
    ac_batch batch;
    ac_loader_desc desc = {
        .batch = 100, .threads = round % 4, .depth = 1 + round % 3, .no_shuffle = true};
    assert_ok(ac_loader_create(&loader, dataset, &desc));
    for (int i = 0; i < round % 6; i++)
      assert_int_equal(ac_loader_next(loader, &batch), i < 3 ? AC_OK : AC_ERROR_IO);
    ac_loader_free(loader);
  }
  ac_loader_free(NULL);
  ac_dataset_free(dataset);
}

/* Others may read the dataset meanwhile, also one that bears one thread only. */
static void a_dataset_is_shared(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 64, false);
  ac_loader *loader;
  ac_batch batch;
  assert_ok(ac_loader_create(&loader, dataset, &(ac_loader_desc){.batch = 64, .threads = 2}));
  for (int i = 0; i < 40; i++) {
    int32_t number[3];
    uint8_t noise[64];
    assert_ok(ac_loader_next(loader, &batch));
    for (int64_t k = 0; k < 64; k++) {
      assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = k, .epoch = 2},
                                (void *const[]){number, noise}));
      assert_int_equal(number[0], 2000 + k);
    }
  }
  ac_loader_free(loader);
  assert_int_equal(atomic_load(&s.overlaps), 0);
  ac_dataset_free(dataset);
}

/* Reading a batch takes about 0.1 s; one that was read ahead while nobody waited costs nothing. */
static void waiting_is_measured(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 1000, true);
  s.delay = 20000;
  ac_loader *loader;
  ac_batch batch, ready;
  assert_ok(ac_loader_create(&loader, dataset, &(ac_loader_desc){.batch = 1000}));
  assert_ok(ac_loader_next(loader, &batch));
  assert_true(batch.wait_seconds > 1e-3);
  ac_loader_free(loader);
  assert_ok(ac_loader_create(&loader, dataset, &(ac_loader_desc){.batch = 1000, .threads = 1}));
  while (atomic_load(&s.reads) < 2001) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_ok(ac_loader_next(loader, &ready));
  assert_true(ready.wait_seconds < batch.wait_seconds / 2);
  ac_loader_free(loader);
  ac_dataset_free(dataset);
}

static void impossible_descriptions_are_refused(void **state) {
  (void)state;
  source s;
  ac_dataset *dataset = make_dataset(&s, 10, true);
  static const struct {
    ac_loader_desc desc;
    const char *mention;
  } cases[] = {
      {{.batch = 0}, "not 0"},
      {{.batch = 1, .threads = -1}, "-1 threads"},
      {{.batch = 1, .threads = 65}, "65 threads; there can be 0 to 64"},
      {{.batch = 1, .depth = 65}, "65 batches in memory"},
      {{.batch = 1, .epochs = -1}, "makes no sense"},
      {{.batch = 1, .batches = -1}, "makes no sense"},
      {{.batch = 11, .epoch_end = AC_EPOCH_END_DROP}, "10 samples never fill a batch of 11"},
      {{.batch = INT64_MAX / 12}, "too large for memory"},
      {{.batch = INT64_MAX, .unused = {true}}, "too large for memory"}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    ac_loader *loader;
    uint64_t bytes;
    assert_refused(ac_loader_create(&loader, dataset, &cases[c].desc), AC_ERROR_ARGUMENT,
                   cases[c].mention);
    assert_refused(ac_loader_bytes(dataset, &cases[c].desc, &bytes), AC_ERROR_ARGUMENT,
                   cases[c].mention);
    assert_null(loader);
    assert_int_equal(bytes, 0);
  }
  ac_dataset_free(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(epochs_end_as_told),
      cmocka_unit_test(the_order_is_that_of_shuffle),
      cmocka_unit_test(threads_change_nothing),
      cmocka_unit_test(fields_without_use_take_no_room),
      cmocka_unit_test(failures_arrive_with_their_sentence),
      cmocka_unit_test(seeking_goes_anywhere),
      cmocka_unit_test(a_schedule_is_copied),
      cmocka_unit_test(a_loader_can_end_at_any_time),
      cmocka_unit_test(a_dataset_is_shared),
      cmocka_unit_test(waiting_is_measured),
      cmocka_unit_test(impossible_descriptions_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
