/* Datasets made of callbacks, memory and parts of other datasets. */
#include "support/files.h"

#include <accrue/dataset.h>

typedef struct source {
  int reads, closes;
  ac_status result;
} source;

static ac_status read_numbers(void *user, const ac_sample_key *key, void *const *fields) {
  source *from = user;
  from->reads++;
  ((float *)fields[0])[0] = (float)key->index;
  ((float *)fields[0])[1] = (float)key->epoch;
  *(int32_t *)fields[1] = (int32_t)key->seed;
  return from->result;
}

static void count_close(void *user) {
  ((source *)user)->closes++;
}

static ac_callback_dataset_desc describe(source *from) {
  return (ac_callback_dataset_desc){.count = 10,
                                    .field_count = 2,
                                    .fields = {{"x", AC_F32, 2}, {"labels", AC_I32, 1}},
                                    .read = read_numbers,
                                    .close = count_close,
                                    .user = from};
}

static void a_callback_is_asked_for_the_key(void **state) {
  (void)state;
  source from = {0};
  char name[] = "images";
  ac_callback_dataset_desc desc = describe(&from);
  desc.fields[0].name = name;
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  memset(name, 'z', sizeof name - 1); /* names are copied */
  assert_int_equal(ac_dataset_count(dataset), 10);
  assert_int_equal(ac_dataset_classes(dataset), 0);
  assert_int_equal(ac_dataset_field_count(dataset), 2);
  assert_string_equal(ac_dataset_field(dataset, 0)->name, "images");
  assert_int_equal(ac_dataset_field(dataset, 0)->elements, 2);
  assert_string_equal(ac_dataset_field(dataset, 1)->name, "labels");
  assert_int_equal(ac_dataset_field(dataset, 1)->dtype, AC_I32);
  assert_null(ac_dataset_field(dataset, 2));
  assert_null(ac_dataset_field(dataset, -1));

  float x[2];
  int32_t label;
  void *fields[] = {x, &label};
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = 7, .epoch = 3, .seed = 9}, fields));
  assert_true(x[0] == 7 && x[1] == 3 && label == 9);
  ac_dataset_free(dataset);
  assert_int_equal(from.closes, 1);
  ac_dataset_free(NULL);
}

static void reading_fails_with_the_sample_in_the_sentence(void **state) {
  (void)state;
  source from = {0};
  ac_callback_dataset_desc desc = describe(&from);
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  float x[2];
  int32_t label;
  void *fields[] = {x, &label};
  assert_refused(ac_dataset_read(dataset, &(ac_sample_key){.index = 10}, fields), AC_ERROR_ARGUMENT,
                 "no sample 10 among 10");
  assert_refused(ac_dataset_read(dataset, &(ac_sample_key){.index = -1}, fields), AC_ERROR_ARGUMENT,
                 "no sample -1");
  assert_int_equal(from.reads, 0);
  from.result = AC_ERROR_IO;
  assert_refused(ac_dataset_read(dataset, &(ac_sample_key){.index = 4}, fields), AC_ERROR_IO,
                 "reading sample 4 failed");
  static const char *const own_numbers[] = {"7", "-12", "-77"}; /* of a callback's own */
  for (int i = 0; i < 3; i++) {
    char sentence[96];
    snprintf(sentence, sizeof sentence, "reading sample 4 returned %s, which is not a status",
             own_numbers[i]);
    from.result = (ac_status)atoi(own_numbers[i]);
    assert_refused(ac_dataset_read(dataset, &(ac_sample_key){.index = 4}, fields), AC_ERROR_IO,
                   sentence);
  }
  ac_dataset_free(dataset);
}

/* ---- datasets that read others --------------------------------------------------------------- */

typedef struct mixture {
  ac_dataset *of; /* its next sample is also read */
  ac_status inner;
  int depth;
} mixture;

static ac_status read_mixture(void *user, const ac_sample_key *key, void *const *fields) {
  mixture *m = user;
  float other;
  if (m->of && m->depth++ < 3) {
    const ac_sample_key next = {.index = (key->index + 1) % 4};
    m->inner = ac_dataset_read(m->of, &next, (void *[]){&other});
  }
  *(float *)fields[0] = (float)key->index;
  m->depth = 0;
  return AC_OK;
}

static ac_dataset *make_mixture(mixture *m, bool concurrent) {
  ac_dataset *dataset;
  const ac_callback_dataset_desc desc = {.count = 4,
                                         .field_count = 1,
                                         .fields = {{"x", AC_F32, 1}},
                                         .read = read_mixture,
                                         .concurrent = concurrent,
                                         .user = m};
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  return dataset;
}

/* Itself, by way of another, or through a part of itself: the lock that it holds would be waited
 * for for ever. The alarm ends a test that waits. */
static void a_dataset_does_not_wait_for_itself(void **state) {
  (void)state;
  alarm(30);
  for (int way = 0; way < 3; way++) {
    mixture first = {.inner = AC_OK}, second = {.inner = AC_OK};
    ac_dataset *one = make_mixture(&first, false), *two = make_mixture(&second, false), *part;
    assert_ok(ac_dataset_slice(&part, one, 0, 4));
    first.of = way == 0 ? one : way == 1 ? two : part;
    if (way == 1) second.of = one;
    float x = 0;
    assert_ok(ac_dataset_read(one, &(ac_sample_key){.index = 2}, (void *[]){&x}));
    assert_true(x == 2);
    assert_int_equal(way == 1 ? second.inner : first.inner, AC_ERROR_STATE);
    assert_non_null(strstr(ac_last_error(), "reads the dataset itself"));
    first.of = second.of = NULL; /* and the lock is free again */
    assert_ok(ac_dataset_read(one, &(ac_sample_key){.index = 1}, (void *[]){&x}));
    ac_dataset_free(part);
    ac_dataset_free(one);
    ac_dataset_free(two);
  }
  mixture again = {.inner = AC_ERROR_STATE};
  ac_dataset *concurrent = make_mixture(&again, true);
  float x = 0;
  again.of = concurrent;
  assert_ok(ac_dataset_read(concurrent, &(ac_sample_key){.index = 0}, (void *[]){&x}));
  assert_int_equal(again.inner, AC_OK);
  ac_dataset_free(concurrent);
  alarm(0);
}

static void impossible_descriptions_are_refused(void **state) {
  (void)state;
  source from = {0};
  ac_dataset *dataset;
  ac_callback_dataset_desc desc = describe(&from);
  desc.count = 0;
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "0 samples");
  desc = describe(&from), desc.read = NULL;
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "no function");
  desc = describe(&from), desc.field_count = 0;
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "0 fields");
  desc = describe(&from), desc.field_count = AC_MAX_FIELDS + 1;
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "9 fields");
  desc = describe(&from), desc.fields[1].name = "";
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT,
                 "field 1 has no name");
  desc = describe(&from), desc.fields[1].name = "x";
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "two fields");
  desc = describe(&from), desc.fields[1].elements = 0;
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "labels has 0");
  desc = describe(&from), desc.fields[1].elements = INT64_MAX;
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "labels has 922");
  desc = describe(&from), desc.fields[1].dtype = (ac_dtype)77;
  assert_refused(ac_dataset_from_callback(&dataset, &desc), AC_ERROR_ARGUMENT, "unknown dtype 77");
  assert_null(dataset);
  assert_int_equal(from.closes, 0);
}

static const float points[] = {0, 1, 10, 11, 20, 21, 30, 31, 40, 41};
static const int32_t labels[] = {0, 1, 2, 3, 4};
static const ac_field memory_fields[] = {{"x", AC_F32, 2}, {"labels", AC_I32, 1}};

static void memory_is_read_where_it_lies(void **state) {
  (void)state;
  ac_dataset *dataset;
  assert_ok(
      ac_dataset_from_memory(&dataset, 5, 2, memory_fields, (const void *const[]){points, labels}));
  float x[2];
  int32_t label;
  void *fields[] = {x, &label};
  for (int64_t i = 0; i < 5; i++) {
    assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = i}, fields));
    assert_true(x[0] == points[2 * i] && x[1] == points[2 * i + 1] && label == labels[i]);
  }
  ac_dataset_free(dataset);

  assert_refused(
      ac_dataset_from_memory(&dataset, 5, 2, memory_fields, (const void *const[]){points, NULL}),
      AC_ERROR_ARGUMENT, "labels has no data");
  assert_refused(ac_dataset_from_memory(&dataset, INT64_MAX / 2, 2, memory_fields,
                                        (const void *const[]){points, labels}),
                 AC_ERROR_ARGUMENT, "overflow");
  assert_refused(
      ac_dataset_from_memory(&dataset, 0, 2, memory_fields, (const void *const[]){points, labels}),
      AC_ERROR_ARGUMENT, "0 samples");
}

static void a_slice_is_a_part(void **state) {
  (void)state;
  ac_dataset *whole, *part, *inner;
  assert_ok(
      ac_dataset_from_memory(&whole, 5, 2, memory_fields, (const void *const[]){points, labels}));
  assert_ok(ac_dataset_slice(&part, whole, 1, 5));
  assert_ok(ac_dataset_slice(&inner, part, 2, 3));
  assert_int_equal(ac_dataset_count(part), 4);
  assert_int_equal(ac_dataset_count(inner), 1);
  assert_string_equal(ac_dataset_field(inner, 1)->name, "labels");
  float x[2];
  int32_t label;
  void *fields[] = {x, &label};
  assert_ok(ac_dataset_read(part, &(ac_sample_key){.index = 0}, fields));
  assert_int_equal(label, 1);
  assert_ok(ac_dataset_read(inner, &(ac_sample_key){.index = 0}, fields));
  assert_int_equal(label, 3);
  assert_refused(ac_dataset_read(part, &(ac_sample_key){.index = 4}, fields), AC_ERROR_ARGUMENT,
                 "no sample 4 among 4");
  ac_dataset_free(inner);

  assert_refused(ac_dataset_slice(&inner, whole, -1, 3), AC_ERROR_ARGUMENT, "[-1, 3)");
  assert_refused(ac_dataset_slice(&inner, whole, 3, 3), AC_ERROR_ARGUMENT, "[3, 3)");
  assert_refused(ac_dataset_slice(&inner, whole, 0, 6), AC_ERROR_ARGUMENT, "[0, 6)");
  assert_null(inner);
  ac_dataset_free(part);
  ac_dataset_free(whole);
}

static void labels_are_checked(void **state) {
  (void)state;
  ac_dataset *whole, *part, *unlabelled;
  assert_ok(
      ac_dataset_from_memory(&whole, 5, 2, memory_fields, (const void *const[]){points, labels}));
  assert_ok(ac_dataset_check_labels(whole, 5));
  assert_refused(ac_dataset_check_labels(whole, 3), AC_ERROR_FORMAT, "label 3 of sample 3");
  assert_ok(ac_dataset_slice(&part, whole, 0, 3));
  assert_ok(ac_dataset_check_labels(part, 3));
  ac_dataset_free(part);
  ac_dataset_free(whole);
  assert_ok(
      ac_dataset_from_memory(&unlabelled, 5, 1, memory_fields, (const void *const[]){points}));
  assert_refused(ac_dataset_check_labels(unlabelled, 3), AC_ERROR_ARGUMENT, "labels");
  ac_dataset_free(unlabelled);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_callback_is_asked_for_the_key),
      cmocka_unit_test(reading_fails_with_the_sample_in_the_sentence),
      cmocka_unit_test(a_dataset_does_not_wait_for_itself),
      cmocka_unit_test(impossible_descriptions_are_refused),
      cmocka_unit_test(memory_is_read_where_it_lies),
      cmocka_unit_test(a_slice_is_a_part),
      cmocka_unit_test(labels_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
