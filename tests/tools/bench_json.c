/* The bench's JSON: its content, which files are refused, and when a result of two documents counts
 * as slower. */
#include "support/check.h"

#include "bench/json.h"

#include <stdlib.h>

static const bench_asked all = {.kinds = {true, true, true}};

/* A report of one op on one device. */
typedef struct sample {
  bench_report report;
  bench_row row;
} sample;

static void make(sample *s, double median, double spread) {
  *s = (sample){
      .report = {.device_count = 1, .count = 1},
      .row = {.kind = BENCH_OP, .name = "gelu", .detail = "8 -> 8", .model = "tiny", .count = 3}};
  s->row.results[0] = (bench_result){
      .measured = true,
      .visited = 2,
      .timing = {.median = median, .spread = spread, .samples = 9, .noisy = spread > 0.05},
      .flops = 128,
      .bytes = 64,
      .limit = median / 2,
      .bound = AC_BOUND_MEMORY};
  s->report.rows = &s->row;
  assert_ok(ac_device_open(&s->report.devices[0], &(ac_device_desc){.name = "dry"}));
}

static json_t *document(double median, double spread) {
  sample s;
  make(&s, median, spread);
  s.report.visits = 3;
  json_t *json = bench_json(&s.report);
  ac_device_close(s.report.devices[0]);
  assert_non_null(json);
  return json;
}

static void test_document(void **state) {
  (void)state;
  json_t *json = document(0.5, 0.01);
  const json_t *row = json_array_get(json_object_get(json, "rows"), 0);
  assert_string_equal(json_string_value(json_object_get(row, "name")), "gelu");
  assert_int_equal(json_integer_value(json_object_get(row, "count")), 3);
  const json_t *result = json_array_get(json_object_get(row, "results"), 0);
  assert_string_equal(json_string_value(json_object_get(result, "device")), "dry");
  assert_string_equal(json_string_value(json_object_get(result, "bound")), "memory");
  assert_true(json_real_value(json_object_get(result, "flops_per_s")) == 256);
  assert_true(json_real_value(json_object_get(result, "bytes_per_s")) == 128);
  assert_true(json_real_value(json_object_get(result, "share_of_roof")) == 0.5);
  assert_int_equal(json_integer_value(json_object_get(result, "visits")), 2);
  json_decref(json);
}

/* Compares a result with one that took a second; what was written stays in `text`. */
static bench_changes compare(double median, double spread, double spread_then, char *text,
                             size_t size) {
  json_t *now = document(median, spread), *then = document(1, spread_then);
  FILE *out = tmpfile();
  assert_non_null(out);
  bench_changes changes = bench_json_compare(now, then, &all, out);
  rewind(out);
  text[fread(text, 1, size - 1, out)] = 0;
  fclose(out);
  json_decref(now);
  json_decref(then);
  return changes;
}

static void test_twenty_percent_is_found(void **state) {
  (void)state;
  char text[512];
  bench_changes changes = compare(1.2, 0.05, 0.05, text, sizeof text);
  assert_int_equal(changes.compared, 1);
  assert_int_equal(changes.slower, 1);
  assert_contains(text, "slower: 1.20 times, 1.20 s instead of 1.00 s");
  assert_contains(text, "dry, gelu f32 8 -> 8 of tiny");
  assert_contains(text, "1 compared, 1 slower, 0 faster");
}

static void test_what_is_within_the_spreads_is_not(void **state) {
  (void)state;
  char text[512];
  assert_int_equal(compare(1.09, 0.05, 0.05, text, sizeof text).slower, 0);
  assert_int_equal(compare(1.2, 0.15, 0.06, text, sizeof text).slower, 0);
  assert_int_equal(compare(1.2, 0.06, 0.15, text, sizeof text).slower, 0);
  assert_int_equal(compare(1, 0, 0, text, sizeof text).slower, 0);
  bench_changes changes = compare(0.8, 0.05, 0.05, text, sizeof text);
  assert_int_equal(changes.slower, 0);
  assert_int_equal(changes.faster, 1);
}

/* What had not settled is told apart from what is sure. */
static void test_noise_is_told(void **state) {
  (void)state;
  char text[512];
  assert_int_equal(compare(1.2, 0.05, 0.05, text, sizeof text).noisy, 0);
  bench_changes changes = compare(2, 0.05, 0.3, text, sizeof text);
  assert_int_equal(changes.slower, 1);
  assert_int_equal(changes.noisy, 1);
  assert_contains(text, "slower, but noisy: 2.00 times");
  assert_contains(text, "1 of the slower had not settled");
}

/* Another precision, another device, another model or another shape is another result. */
static void test_what_is_not_there(void **state) {
  (void)state;
  static const char *const keys[] = {"kind", "name", "detail", "model", "precision", "device"};
  for (int i = 0; i < 6; i++) {
    json_t *now = document(9, 0), *then = document(1, 0);
    json_t *row = json_array_get(json_object_get(then, "rows"), 0);
    json_t *result = json_array_get(json_object_get(row, "results"), 0);
    json_object_set_new(i < 5 ? row : result, keys[i], json_string("other"));
    FILE *out = tmpfile();
    assert_non_null(out);
    bench_changes changes = bench_json_compare(now, then, &all, out);
    fclose(out);
    assert_int_equal(changes.missing, 1);
    /* Of another kind or device it was not asked for. */
    assert_int_equal(changes.gone, strcmp(keys[i], "kind") != 0 && strcmp(keys[i], "device") != 0);
    assert_int_equal(changes.compared + changes.slower, 0);
    json_decref(now);
    json_decref(then);
  }
}

static void check_gone(const bench_asked *asked, int gone) {
  json_t *now = document(1, 0), *then = document(1, 0);
  json_array_clear(json_object_get(now, "rows"));
  char text[512];
  FILE *out = tmpfile();
  assert_non_null(out);
  bench_changes changes = bench_json_compare(now, then, asked, out);
  rewind(out);
  text[fread(text, 1, sizeof text - 1, out)] = 0;
  fclose(out);
  assert_int_equal(changes.gone, gone);
  if (gone) {
    assert_contains(text, "not measured now: dry, gelu f32 8 -> 8 of tiny\n");
    assert_contains(text, "; 1 of it were not measured now\n");
  }
  json_decref(now);
  json_decref(then);
}

/* What the baseline alone has is told, unless it was not asked for. */
static void test_what_is_gone_is_told(void **state) {
  (void)state;
  check_gone(&all, 1);
  check_gone(&(bench_asked){.kinds = {[BENCH_OP] = true}, .filter = "gelu f32 8"}, 1);
  check_gone(&(bench_asked){.kinds = {[BENCH_OP] = true}, .filter = "linear"}, 0);
  check_gone(&(bench_asked){.kinds = {[BENCH_GEMM] = true, [BENCH_STEP] = true}}, 0);
}

static void check_told(const char *key, bool of_device, json_t *value, const char *line) {
  json_t *now = document(1, 0), *then = document(1, 0);
  json_t *object = of_device ? json_array_get(json_object_get(then, "devices"), 0) : then;
  assert_non_null(json_object_get(object, key));
  json_object_set_new(object, key, value);
  char text[512];
  FILE *out = tmpfile();
  assert_non_null(out);
  bench_changes changes = bench_json_compare(now, then, &all, out);
  rewind(out);
  text[fread(text, 1, sizeof text - 1, out)] = 0;
  fclose(out);
  assert_int_equal(changes.compared, 1);
  assert_int_equal(strncmp(text, "baseline: measured otherwise: ", 30), 0);
  assert_contains(text, line);
  json_decref(now);
  json_decref(then);
}

/* Results that were taken in another way or on another machine are compared, but it is said. */
static void test_what_was_measured_otherwise_is_told(void **state) {
  (void)state;
  char text[512];
  compare(1, 0, 0, text, sizeof text);
  assert_null(strstr(text, "otherwise"));
  check_told("footprint", false, json_integer(4096), "footprint 0 instead of 4096\n");
  check_told("samples", false, json_integer(30), "samples 0 instead of 30\n");
  check_told("visits", false, json_integer(5), "visits 3 instead of 5\n");
  check_told("name", true, json_string("another"), "dry's name ");
  check_told("driver", true, json_string("old"), "instead of old\n");
  check_told("compute_units", true, json_integer(4096), "instead of 4096\n");
}

static void check_file(const char *text, int expected) {
  char path[] = "/tmp/accrue-bench-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *stream = fopen(path, "w");
  assert_non_null(stream);
  fputs(text, stream);
  fclose(stream);
  json_t *json;
  assert_int_equal(bench_json_read(&json, path), expected);
  assert_true((json != NULL) == (expected == -1));
  json_decref(json);
  remove(path);
}

static void test_reading(void **state) {
  (void)state;
  json_t *good = document(1, 0.02);
  char *text = json_dumps(good, 0);
  check_file(text, -1);
  text[strlen(text) / 2] = 0;
  check_file(text, 1);
  check_file("", 1);
  check_file("[]", 1);
  check_file("{\"rows\": 5}", 1);
  check_file("{\"rows\": [5]}", 1);
  check_file("{\"rows\": [{\"results\": [{\"median_seconds\": 0, \"spread\": 0}]}]}", 1);
  check_file("{\"rows\": [{\"results\": [{\"median_seconds\": \"1\"}]}]}", 1);
  free(text);
  json_decref(good);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_document),
      cmocka_unit_test(test_twenty_percent_is_found),
      cmocka_unit_test(test_what_is_within_the_spreads_is_not),
      cmocka_unit_test(test_noise_is_told),
      cmocka_unit_test(test_what_is_not_there),
      cmocka_unit_test(test_what_is_gone_is_told),
      cmocka_unit_test(test_what_was_measured_otherwise_is_told),
      cmocka_unit_test(test_reading),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
