/* Event files: a file of TensorBoard is read; our files begin as they must, hold the given values,
 * and survive a full disk. */
#include "support/files.h"
#undef fail /* of cmocka; the program has a function of that name */

#include "common/crc32c.h"
#include "common/message.h"
#include "tensorboard/histogram.h"
#include "tensorboard/tensorboard.h"
#include "tools/event_reader.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

/* RFC 3720, B.4, and the usual nine digits. */
static void checksums_have_their_known_values(void **state) {
  (void)state;
  unsigned char bytes[32];
  memset(bytes, 0, sizeof bytes);
  assert_int_equal(crc32c(bytes, sizeof bytes), 0x8a9136aa);
  memset(bytes, 0xff, sizeof bytes);
  assert_int_equal(crc32c(bytes, sizeof bytes), 0x62a8ab43);
  for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
  assert_int_equal(crc32c(bytes, sizeof bytes), 0x46dd794e);
  for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)(31 - i);
  assert_int_equal(crc32c(bytes, sizeof bytes), 0x113fdb5c);
  assert_int_equal(crc32c("123456789", 9), 0xe3069283);
  assert_int_equal(crc32c("", 0), 0);
}

/* ---- histograms ------------------------------------------------------------------------------ */

static void hold_against_counting(const histogram *h, const float *values, int64_t count,
                                  double divisor) {
  static double limits[HISTOGRAM_BUCKETS], counts[HISTOGRAM_BUCKETS];
  const int buckets = histogram_read(h, limits, counts);
  double seen = 0, sum = 0, squares = 0, min = INFINITY, max = -INFINITY;
  for (int b = 0; b < buckets; b++) {
    int64_t inside = 0;
    for (int64_t i = 0; i < count; i++) {
      const double x = (double)values[i] / divisor;
      inside += x < limits[b] && (!b || x >= limits[b - 1]);
    }
    assert_true(counts[b] == (double)inside);
    assert_true(!b || limits[b] > limits[b - 1]);
    assert_true(!b || counts[b] > 0 || counts[b - 1] > 0); /* no two empty ones in a row */
    seen += counts[b];
  }
  for (int64_t i = 0; i < count; i++) {
    const double x = (double)values[i] / divisor;
    sum += x;
    squares += x * x;
    min = fmin(min, x);
    max = fmax(max, x);
  }
  assert_true(seen == (double)count && h->count == count);
  assert_true(counts[0] > 0 && counts[buckets - 1] > 0);
  assert_true(h->min == min && h->max == max);
  /* The same sums in the same order. */
  assert_true(fabs(h->sum - sum) <= 1e-12 * fabs(sum));
  assert_true(fabs(h->sum_squares - squares) <= 1e-12 * squares);
}

/* Of both signs and all sizes, zeros and the limits of floats among them, added in two pieces. */
static void histograms_count_every_value_once(void **state) {
  (void)state;
  enum { COUNT = 4000 };
  static float values[COUNT];
  uint64_t random = 1;
  for (int i = 0; i < COUNT; i++) {
    const double exponent = (double)next_random(&random) / 0x80000000u * 60 - 38;
    const float size = (float)pow(10, exponent);
    values[i] = next_random(&random) % 2 ? size : -size;
  }
  values[0] = values[1] = 0;
  values[2] = FLT_MAX;
  values[3] = -FLT_MAX;
  static histogram h;
  histogram_init(&h);
  const double divisors[] = {1, 3};
  for (int k = 0; k < 2; k++) {
    histogram_clear(&h);
    histogram_add(&h, values, 1500, divisors[k]);
    histogram_add(&h, values + 1500, COUNT - 1500, divisors[k]);
    hold_against_counting(&h, values, COUNT, divisors[k]);
  }
}

static void buckets_grow_by_a_tenth(void **state) {
  (void)state;
  static histogram h;
  static double limits[HISTOGRAM_BUCKETS], counts[HISTOGRAM_BUCKETS];
  histogram_init(&h);
  assert_int_equal(histogram_read(&h, limits, counts), 0);
  for (int k = 0; k < 700; k++) { /* in the middle of each bucket, so that none is empty */
    const float x = (float)(1.05e-12 * pow(1.1, k));
    histogram_add(&h, &x, 1, 1);
    histogram_add(&h, &x, 1, -1);
  }
  /* Between the two sides those of 0 and of what is smaller than all limits, as one. */
  assert_int_equal(histogram_read(&h, limits, counts), 2 * 700 + 1);
  for (int k = 0; k < 700; k++) {
    const double upper = 1e-12 * pow(1.1, k + 1);
    assert_true(fabs(limits[701 + k] / upper - 1) < 1e-12);
    assert_true(fabs(limits[699 - k] / (-1e-12 * pow(1.1, k)) - 1) < 1e-12);
    assert_true(counts[701 + k] == 1 && counts[699 - k] == 1);
  }
  assert_true(limits[700] == 1e-12 && counts[700] == 0);
}

/* Here rounding could put a value into the wrong bucket. */
static void values_next_to_a_limit_find_their_bucket(void **state) {
  (void)state;
  static histogram h;
  histogram_init(&h);
  for (int i = 1; i < HISTOGRAM_BUCKETS - 1; i++) {
    const double near[] = {nextafter(h.limits[i], -INFINITY), h.limits[i],
                           nextafter(h.limits[i], INFINITY)};
    for (int k = 0; k < 3; k++) {
      const float one = 1;
      const int expected = k ? i + 1 : i;
      histogram_clear(&h);
      histogram_add(&h, &one, 1, 1 / near[k]);
      const bool exact = h.min == near[k]; /* the divisor may have been rounded */
      assert_true(!exact || h.counts[expected] == 1);
      assert_int_equal(h.counts[i] + h.counts[i + 1], 1);
    }
  }
}

static void a_histogram_of_zeros_is_one_bucket(void **state) {
  (void)state;
  static histogram h;
  double limits[HISTOGRAM_BUCKETS], counts[HISTOGRAM_BUCKETS];
  const float zeros[7] = {0};
  histogram_init(&h);
  histogram_add(&h, zeros, 7, 1);
  assert_int_equal(histogram_read(&h, limits, counts), 1);
  assert_true(limits[0] == 1e-12 && counts[0] == 7 && h.min == 0 && h.max == 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Which TensorBoard's own code wrote. */
static void tensorboards_own_file_is_read(void **state) {
  (void)state;
  event_list list;
  assert_true(event_list_read(&list, ACCRUE_TEST_VECTORS "/events.tfevents"));
  assert_int_equal(list.count, 6);
  Tb__Event **e = list.events;
  for (int i = 0; i < 6; i++) assert_true(e[i]->wall_time == 1.5);
  assert_int_equal(e[0]->what_case, TB__EVENT__WHAT_FILE_VERSION);
  assert_string_equal(e[0]->file_version, "brain.Event:2");
  assert_int_equal(e[1]->what_case, TB__EVENT__WHAT_SESSION_LOG);
  assert_int_equal(e[1]->session_log->status, TB__SESSION_LOG__STATUS__START);
  const int64_t steps[] = {0, 8, 8, 9, 9, 0};
  for (int i = 0; i < 6; i++) assert_int_equal(e[i]->step, steps[i]);

  const Tb__Summary__Value *loss = event_value(e[2]), *skipped = event_value(e[3]);
  assert_string_equal(loss->tag, "train/loss");
  assert_true(loss->simple_value == 0.25f);
  assert_string_equal(skipped->tag, "train/skipped");
  assert_int_equal(skipped->value_case, TB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE);
  assert_true(skipped->simple_value == 0);

  const Tb__Summary__Value *weights = event_value(e[4]), *settings = event_value(e[5]);
  assert_int_equal(weights->value_case, TB__SUMMARY__VALUE__VALUE_HISTO);
  const Tb__Histogram *h = weights->histo;
  assert_true(h->min == -1 && h->max == 2.5 && h->num == 4 && h->sum == 3);
  assert_true(h->sum_squares == 8.25 && h->n_bucket == 3 && h->n_bucket_limit == 3);
  assert_true(h->bucket_limit[1] == 2 && h->bucket_limit[2] == 3);
  assert_true(h->bucket[0] == 1 && h->bucket[1] == 0 && h->bucket[2] == 3);

  assert_string_equal(settings->metadata->plugin_data->plugin_name, "text");
  assert_int_equal(settings->value_case, TB__SUMMARY__VALUE__VALUE_TENSOR);
  assert_int_equal(settings->tensor->dtype, TB__TENSOR__DATA_TYPE__STRING);
  assert_int_equal(settings->tensor->n_string_val, 1);
  assert_memory_equal(settings->tensor->string_val[0].data, "--steps 5", 9);
  event_list_free(&list);
}

static tensorboard *open_in(const char *name, int64_t done) {
  tensorboard *t = NULL;
  const test_path folder = in_folder(name);
  const tensorboard_desc desc = {.folder = folder.text, .done = done};
  assert_int_equal(tensorboard_open(&t, &desc), STATUS_CONTINUE);
  return t;
}

static void add_line(tensorboard *t, const char *text) {
  json_t *line = json_loads(text, 0, NULL);
  assert_non_null(line);
  tensorboard_line(t, line);
  json_decref(line);
}

static event_list read_back(const char *name) {
  event_list list;
  assert_true(event_list_read_folder(&list, in_folder(name).text));
  assert_true(list.count > 0);
  assert_int_equal(list.events[0]->what_case, TB__EVENT__WHAT_FILE_VERSION);
  assert_string_equal(list.events[0]->file_version, "brain.Event:2");
  return list;
}

static void assert_scalar(const Tb__Event *event, int64_t step, const char *tag, float x) {
  const Tb__Summary__Value *value = event_value(event);
  assert_non_null(value);
  assert_string_equal(value->tag, tag);
  assert_int_equal(value->value_case, TB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE);
  assert_true(value->simple_value == x);
  assert_int_equal(event->step, step);
}

static void lines_become_scalars(void **state) {
  (void)state;
  tensorboard *t = open_in("deep/er/lines", 0);
  add_line(t, "{\"event\":\"plan\",\"bytes\":{\"total\":7}}");
  add_line(t, "{\"event\":\"step\",\"step\":1,\"loss\":null,\"skipped\":true}");
  add_line(t, "{\"event\":\"step\",\"step\":2,\"loss\":0.1,\"losses\":{\"step\":2,\"b\":3}}");
  add_line(t, "{\"event\":\"eval\",\"step\":2,\"loss\":5}");
  add_line(t, "{\"event\":\"end\",\"seconds\":6}");
  tensorboard_text(t, "words", "two words");
  assert_int_equal(tensorboard_close(t), STATUS_CONTINUE);

  event_list list = read_back("deep/er/lines");
  Tb__Event **e = list.events;
  assert_int_equal(list.count, 9);
  assert_scalar(e[1], 0, "plan/bytes/total", 7);
  assert_scalar(e[2], 1, "train/skipped", 1);
  assert_scalar(e[3], 2, "train/loss", 0.1f);
  assert_scalar(e[4], 2, "train/losses/step", 2);
  assert_scalar(e[5], 2, "train/losses/b", 3);
  assert_scalar(e[6], 2, "validation/loss", 5);
  assert_scalar(e[7], 2, "end/seconds", 6);
  const Tb__Summary__Value *words = event_value(e[8]);
  assert_string_equal(words->tag, "words");
  assert_string_equal(words->metadata->plugin_data->plugin_name, "text");
  assert_int_equal(words->tensor->string_val[0].len, 9);
  assert_memory_equal(words->tensor->string_val[0].data, "two words", 9);
  assert_true(e[1]->wall_time > 1.7e9 && e[8]->wall_time >= e[1]->wall_time);
  event_list_free(&list);
}

/* Resumed after 41 windows: the plan is at step 41, and TensorBoard forgets step 42 and later of
 * older files. */
static void a_file_may_begin_later(void **state) {
  (void)state;
  tensorboard *t = open_in("later", 41);
  add_line(t, "{\"event\":\"plan\",\"bytes\":7}");
  add_line(t, "{\"event\":\"step\",\"step\":42,\"loss\":0.5}");
  assert_int_equal(tensorboard_close(t), STATUS_CONTINUE);
  event_list list = read_back("later");
  assert_int_equal(list.count, 4);
  assert_int_equal(list.events[1]->what_case, TB__EVENT__WHAT_SESSION_LOG);
  assert_int_equal(list.events[1]->session_log->status, TB__SESSION_LOG__STATUS__START);
  assert_int_equal(list.events[1]->step, 42);
  assert_scalar(list.events[2], 41, "plan/bytes", 7);
  assert_scalar(list.events[3], 42, "train/loss", 0.5f);
  event_list_free(&list);
}

static int count_files(const char *name) {
  char command[600];
  int count = 0;
  snprintf(command, sizeof command, "find %s -type f | wc -l", in_folder(name).text);
  FILE *stream = popen(command, "r");
  assert_int_equal(fscanf(stream, "%d", &count), 1);
  pclose(stream);
  return count;
}

static void each_run_has_a_file_of_its_own(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    assert_int_equal(tensorboard_close(open_in("shared", 0)), STATUS_CONTINUE);
  assert_int_equal(count_files("shared"), 3);
}

/* TensorBoard reads files in the order of their names: the clock may have been set back since the
 * file before, or a second may not have passed. Names that it would not take for such files do not
 * count, nor do names with the largest number. */
static void a_later_file_has_a_later_name(void **state) {
  (void)state;
  static const char before[] = "events.out.tfevents.4000000000.zzz.99999.0";
  char first[64], second[64];
  assert_int_equal(mkdir(in_folder("ordered").text, 0777), 0);
  write_file(in_folder("ordered/events.out.tfevents.4000000000.zzz.99999.0").text, "", 0);
  write_file(in_folder("ordered/events.out.tfevents.9999999999.zzz.99999.0").text, "", 0);
  write_file(in_folder("ordered/events.out.tfevents.77777777777.zzz.99999.0").text, "", 0);
  write_file(in_folder("ordered/events.out.tfevents.new").text, "", 0);
  char *const names[] = {first, second};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tensorboard_close(open_in("ordered", 5)), STATUS_CONTINUE);
    snprintf(names[i], sizeof first, "events.out.tfevents.%lld.", 4000000001LL + i);
    DIR *directory = opendir(in_folder("ordered").text);
    int found = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
      found += !strncmp(entry->d_name, names[i], strlen(names[i]));
    closedir(directory);
    assert_int_equal(found, 1);
  }
  assert_true(strcmp(first, before) > 0 && strcmp(second, first) > 0);
}

static void what_cannot_be_opened_is_refused(void **state) {
  (void)state;
  tensorboard *t = NULL;
  const test_path file = in_folder("file"), below = in_folder("file/below");
  write_file(file.text, "", 0);
  tensorboard_desc desc = {.folder = file.text};
  assert_int_equal(tensorboard_open(&t, &desc), STATUS_FAILED);
  desc.folder = below.text;
  assert_int_equal(tensorboard_open(&t, &desc), STATUS_FAILED);
  desc.folder = "";
  assert_int_equal(tensorboard_open(&t, &desc), STATUS_USAGE);
  assert_null(t);

  desc.folder = NULL;
  assert_int_equal(tensorboard_open(&t, &desc), STATUS_CONTINUE);
  assert_null(t);
  add_line(t, "{\"event\":\"plan\"}"); /* which nobody takes */
  tensorboard_text(t, "words", "none");
  assert_int_equal(tensorboard_close(t), STATUS_CONTINUE);
}

static void with_file_limit(rlim_t bytes, struct rlimit *before) {
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, before), 0);
  const struct rlimit limit = {bytes, before->rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* What was written until then can be read; the run is not disturbed, and told at the end. */
static void a_disk_may_fill(void **state) {
  (void)state;
  struct rlimit before;
  tensorboard *t = open_in("full", 0);
  with_file_limit(1011, &before);
  for (int i = 0; i < 100; i++) add_line(t, "{\"event\":\"step\",\"step\":1,\"loss\":2}");
  const int status = tensorboard_close(t);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_int_equal(status, STATUS_FAILED);
  event_list list;
  assert_false(event_list_read_folder(&list, in_folder("full").text)); /* the last one is cut */
  assert_true(list.count > 10 && list.count < 40);
  assert_scalar(list.events[list.count - 1], 1, "train/loss", 2);
  event_list_free(&list);

  with_file_limit(0, &before);
  tensorboard *none = NULL;
  const test_path folder = in_folder("none");
  const tensorboard_desc desc = {.folder = folder.text};
  const int at_once = tensorboard_open(&none, &desc);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_int_equal(at_once, STATUS_FAILED);
  assert_null(none);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checksums_have_their_known_values),
      cmocka_unit_test(histograms_count_every_value_once),
      cmocka_unit_test(buckets_grow_by_a_tenth),
      cmocka_unit_test(values_next_to_a_limit_find_their_bucket),
      cmocka_unit_test(a_histogram_of_zeros_is_one_bucket),
      cmocka_unit_test(tensorboards_own_file_is_read),
      cmocka_unit_test(lines_become_scalars),
      cmocka_unit_test(a_file_may_begin_later),
      cmocka_unit_test(each_run_has_a_file_of_its_own),
      cmocka_unit_test(a_later_file_has_a_later_name),
      cmocka_unit_test(what_cannot_be_opened_is_refused),
      cmocka_unit_test(a_disk_may_fill),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
