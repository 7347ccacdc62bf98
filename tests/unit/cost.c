/* The cost model: its formula, what it is measured with, and its file. Nothing here depends on how
 * fast the machine is. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "files.h"

#include "plan/cost.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

/* rows x inputs by inputs x outputs, without handles. */
static ac_op_args linear(int64_t rows, int64_t inputs, int64_t outputs) {
  return (ac_op_args){.op = AC_OP_linear,
                      .in = {{NULL, AC_F32, 2, {rows, inputs}, rows * inputs},
                             {NULL, AC_F32, 2, {inputs, outputs}, inputs * outputs}},
                      .out = {{NULL, AC_F32, 2, {rows, outputs}, rows * outputs}}};
}

static ac_op_args relu(int64_t elements) {
  ac_operand x = {NULL, AC_F32, 1, {elements}, elements};
  return (ac_op_args){.op = AC_OP_relu, .in = {x}, .out = {x}};
}

static ac_op_args embedding(int64_t entries, int64_t rows, int64_t channels) {
  return (ac_op_args){.op = AC_OP_embedding,
                      .in = {{NULL, AC_F32, 2, {entries, channels}, entries * channels},
                             {NULL, AC_I32, 1, {rows}, rows}},
                      .out = {{NULL, AC_F32, 2, {rows, channels}, rows * channels}}};
}

static ac_op_args embedding_gradient(int64_t entries, int64_t rows, int64_t channels, bool add) {
  return (ac_op_args){
      .op = AC_OP_embedding_gradient,
      .in = {{NULL, AC_I32, 1, {rows}, rows}, {NULL, AC_F32, 2, {rows, channels}, rows * channels}},
      .out = {{NULL, AC_F32, 2, {entries, channels}, entries * channels}},
      .add = {add}};
}

static void assert_near(double got, double expected) {
  if (fabs(got - expected) > 1e-12 * fabs(expected)) fail_msg("%.17g, not %.17g", got, expected);
}

static const ac_cost_model *model_of(ac_device *device) {
  const ac_cost_model *model;
  assert_ok(ac_cost_model_get(&model, device, AC_F32, NULL));
  return model;
}

static ac_device *open_device(const char *name) {
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = name}));
  return device;
}

static void test_dry_is_fixed(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  const ac_cost_model *model = model_of(device);
  assert_ptr_equal(model, model_of(device));
  ac_op_args product = linear(10, 20, 30), map = relu(1000);
  assert_near(ac_cost_seconds(model, &product),
              2e-6 + 2 * 10 * 20 * 30 / 200e9 + 4 * (10 * 20 + 20 * 30 + 10 * 30) / 20e9);
  assert_near(ac_cost_seconds(model, &map), 2e-6 + 8 * 1000 / 20e9);
  ac_device_close(device);
}

/* Seconds grow by the same amount for each sample more. */
static void test_affine_in_the_batch(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  const ac_cost_model *model = model_of(device);
  double seconds[5];
  for (int batch = 0; batch < 5; batch++) {
    ac_op_args args = linear(64 * (batch + 1), 48, 96);
    seconds[batch] = ac_cost_seconds(model, &args);
  }
  for (int batch = 1; batch < 4; batch++)
    assert_near(seconds[batch + 1] - seconds[batch], seconds[batch] - seconds[batch - 1]);
  assert_true(seconds[1] < 2 * seconds[0]);
  ac_device_close(device);
}

/* Looking up rows costs what the rows take, however large the table; so does adding to them, while
 * a gradient that begins anew clears the whole table. */
static void test_tables_cost_their_rows(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  const ac_cost_model *model = model_of(device);
  ac_op_args small = embedding(100, 64, 32), large = embedding(100000, 64, 32);
  assert_near(ac_cost_seconds(model, &large), ac_cost_seconds(model, &small));
  small = embedding_gradient(100, 64, 32, true), large = embedding_gradient(100000, 64, 32, true);
  assert_near(ac_cost_seconds(model, &large), ac_cost_seconds(model, &small));
  large = embedding_gradient(100000, 64, 32, false);
  assert_true(ac_cost_seconds(model, &large) > 100000 * 32 * 4 / 20e9);
  ac_device_close(device);
}

static void assert_sensible(const ac_cost_model *model) {
  for (int op = 0; op < AC_OP_COUNT; op++) {
    bool good = isfinite(model->launch[op]) && model->launch[op] >= 0 &&
                isfinite(model->per_flop[op]) && model->per_flop[op] >= 0 &&
                isfinite(model->per_byte[op]) && model->per_byte[op] > 0;
    if (!good)
      fail_msg("%s: %g + flops x %g + bytes x %g", ac_op_name((ac_op)op), model->launch[op],
               model->per_flop[op], model->per_byte[op]);
  }
  assert_true(model->per_flop[AC_OP_linear] > 0 && model->per_flop[AC_OP_attention] > 0);
}

/* Every op of the list is timed. */
static void test_no_op_is_forgotten(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_cost_model model;
  for (int op = 0; op < AC_OP_COUNT; op++)
    model.launch[op] = model.per_flop[op] = model.per_byte[op] = (double)NAN;
  assert_ok(ac_cost_calibrate(&model, device, AC_F32));
  assert_sensible(&model);
  ac_device_close(device);
}

/* Also while a trainer's memory is there. */
static void check_device(const char *name) {
  ac_device *device = open_device(name);
  void *chunk;
  assert_ok(ac_device_allocate(device, 1 << 16, &chunk));
  assert_sensible(model_of(device));
  assert_int_equal(ac_device_allocated_bytes(device), 1 << 16);
  assert_int_equal(ac_device_peak_bytes(device), 1 << 16);
  ac_device_release(device, chunk, 1 << 16);
  ac_device_close(device);
}

static void test_cpu(void **state) {
  (void)state;
  check_device("cpu");
}

static void test_opencl(void **state) {
  (void)state;
  ac_device *device;
  if (ac_device_open(&device, &(ac_device_desc){.name = "opencl"}) != AC_OK) {
    if (getenv("ACCRUE_TEST_OPENCL")) fail_msg("%s", ac_last_error());
    skip();
  }
  ac_device_close(device);
  check_device("opencl");
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static test_path only_file(void) {
  DIR *folder = opendir(in_folder("costs").text);
  assert_non_null(folder);
  test_path found = {""};
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    assert_string_equal(found.text, "");
    snprintf(found.text, sizeof found.text, "%.200s/costs/%.200s", test_folder, entry->d_name);
  }
  closedir(folder);
  assert_string_not_equal(found.text, "");
  return found;
}

static ac_cost_model fresh_model(void) {
  ac_device *device = open_device("cpu");
  ac_cost_model model = *model_of(device);
  ac_device_close(device);
  return model;
}

enum { DAMAGES = 5 };

/* Damages a good file's contents, which have room for a byte more; returns how many are left. */
static size_t damage_file(unsigned char *contents, size_t bytes, int damage) {
  if (damage == 0) return bytes / 2;
  if (damage == 1) contents[bytes] = 0;
  if (damage == 2) contents[0] ^= 1;          /* the magic */
  if (damage == 3) contents[9] ^= 1;          /* the key */
  if (damage == 4) contents[bytes - 60] ^= 1; /* a number */
  return damage == 1 ? bytes + 1 : bytes;
}

static void test_file_is_used_and_mended(void **state) {
  (void)state;
  ac_cost_model first = fresh_model(), second = fresh_model();
  assert_memory_equal(&first, &second, sizeof first);
  test_path path = only_file();
  for (int damage = 0; damage < DAMAGES; damage++) {
    size_t bytes, now;
    unsigned char *bad = read_file(path.text, &bytes);
    size_t left = damage_file(bad, bytes, damage);
    write_file(path.text, bad, left);
    ac_cost_model mended = fresh_model();
    assert_sensible(&mended);
    unsigned char *contents = read_file(path.text, &now);
    assert_int_equal(now, bytes);
    assert_true(left != now || memcmp(contents, bad, bytes) != 0);
    free(contents);
    free(bad);
    ac_cost_model again = fresh_model();
    assert_memory_equal(&mended, &again, sizeof mended);
  }
}

/* Without a folder to write to there is a model all the same. */
static void test_no_folder(void **state) {
  (void)state;
  write_file(in_folder("plain").text, "x", 1);
  setenv("ACCRUE_CACHE_DIR", in_folder("plain").text, 1);
  ac_cost_model model = fresh_model();
  assert_sensible(&model);
  setenv("ACCRUE_CACHE_DIR", test_folder, 1);
}

static int set_up(void **state) {
  if (make_test_folder(state)) return -1;
  return setenv("ACCRUE_CACHE_DIR", test_folder, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dry_is_fixed),
      cmocka_unit_test(test_affine_in_the_batch),
      cmocka_unit_test(test_tables_cost_their_rows),
      cmocka_unit_test(test_file_is_used_and_mended), /* first, while the folder is empty */
      cmocka_unit_test(test_no_op_is_forgotten),
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_opencl),
      cmocka_unit_test(test_no_folder),
  };
  return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
