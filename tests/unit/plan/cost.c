/* The cost model: its formula, what it is measured with, and its file. Nothing here depends on how
 * fast the machine is. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "support/files.h"

#include "core/hash.h"
#include "ops/movement/gather.h"
#include "ops/pointwise/functions.h"
#include "ops/pointwise/pointwise.h"
#include "ops/update/muon.h"
#include "optimizer/nodes.h"
#include "plan/cost.h"

#include <accrue/accrue.h>

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

/* One flop an element. */
static ac_op_args relu(int64_t elements) {
  static const ac_pointwise_attributes attributes = {
      .program = {.operands = 1,
                  .steps = 1,
                  .results = 1,
                  .result = {AC_FIRST_STEP},
                  .step = {{AC_FUNCTION_relu, {0}}}}};
  ac_operand x = {.dtype = AC_F32, .rank = 1, .dim = {elements}, .count = elements};
  return (ac_op_args){.op = AC_OP_pointwise, .attributes = &attributes, .in = {x}, .out = {x}};
}

static const ac_gather_attributes of_table = {.table = true};

static ac_op_args embedding(int64_t entries, int64_t rows, int64_t channels) {
  return (ac_op_args){.op = AC_OP_gather,
                      .attributes = &of_table,
                      .in = {{NULL, AC_F32, 2, {entries, channels}, entries * channels},
                             {NULL, AC_I32, 1, {rows}, rows}},
                      .out = {{NULL, AC_F32, 2, {rows, channels}, rows * channels}}};
}

static ac_op_args embedding_gradient(int64_t entries, int64_t rows, int64_t channels, bool add) {
  return (ac_op_args){
      .op = AC_OP_scatter_add,
      .attributes = &of_table,
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
  assert_near(ac_cost_seconds(model, &map), 2e-6 + 1000 / 200e9 + 8 * 1000 / 20e9);
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

/* Or a plan in bf16 would expect the time of products in f32. */
static void test_muon_is_timed_in_its_precision(void **state) {
  (void)state;
  for (ac_precision precision = AC_PRECISION_F32; precision <= AC_PRECISION_BF16; precision++) {
    const ac_dtype storage = precision == AC_PRECISION_BF16  ? AC_BF16
                             : precision == AC_PRECISION_F16 ? AC_F16
                                                             : AC_F32;
    ac_op_args args;
    ac_op_sample_arguments(&args, AC_OP_muon, storage, 0);
    assert_int_equal(((const ac_muon_attributes *)args.attributes)->factors,
                     ac_optimizer_factors(precision));
  }
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
  ac_cost_model model = {.known = {AC_COST_GUESSED}};
  for (int op = 0; op < AC_OP_COUNT; op++)
    model.launch[op] = model.per_flop[op] = model.per_byte[op] = (double)NAN;
  bool all[AC_OP_COUNT];
  for (int op = 0; op < AC_OP_COUNT; op++) all[op] = true;
  assert_ok(ac_cost_calibrate(&model, device, AC_F32, all, HUGE_VAL));
  assert_sensible(&model);
  ac_device_close(device);
}

/* ---- a device with made-up speed and compiler ------------------------------------------------ */

/* Its ops take what the dry device's model says, times `slowness`, and are compiled first, as much
 * in `prepare` as in their first run. */
static struct {
  ac_backend backend;
  double slowness, now, ran, compiled, longest_smallest; /* seconds */
  int runs[AC_OP_COUNT], announced, estimates, warnings;
  bool prepared[AC_OP_COUNT], ended;
} fake;

static double fake_clock(void) {
  return fake.now;
}

static double fake_seconds(const ac_op_args *args) {
  ac_cost_model guess;
  ac_cost_guess(&guess);
  return fake.slowness * ac_cost_seconds(&guess, args);
}

static void compile(double seconds) {
  fake.now += seconds;
  fake.compiled += seconds;
}

static ac_status fake_prepare(void *state, const ac_op_args *args) {
  (void)state;
  if (!fake.prepared[args->op]) compile(3);
  fake.prepared[args->op] = true;
  return AC_OK;
}

static ac_status fake_run(void *state, const ac_op_args *args) {
  (void)state;
  assert_true(fake.prepared[args->op]);
  if (!fake.runs[args->op]++) {
    compile(4);
    fake.longest_smallest = fmax(fake.longest_smallest, fake_seconds(args));
  }
  fake.now += fake_seconds(args);
  fake.ran += fake_seconds(args);
  return AC_OK;
}

static void fake_log(void *user, ac_log_level level, const char *line) {
  (void)user;
  if (level == AC_LOG_WARNING) fake.warnings++;
  if (strstr(line, "measuring")) fake.announced++;
  if (strstr(line, "estimate")) fake.estimates++;
  fake.ended = !strstr(line, "...");
}

static ac_device *open_fake(const char *name, double slowness) {
  ac_device *device = open_device("dry");
  memset(&fake, 0, sizeof fake);
  fake.slowness = slowness;
  fake.backend = *device->backend;
  fake.backend.name = "fake";
  fake.backend.computes_nothing = false; /* so that it is measured */
  fake.backend.prepare = fake_prepare;
  fake.backend.run = fake_run;
  device->backend = &fake.backend;
  ac_cost_account_of(device)->clock = fake_clock;
  device->log = fake_log;
  snprintf(device->info.name, sizeof device->info.name, "%s", name);
  return device;
}

/* As this device is equally slow in all that it does, an estimate is also near the truth. */
static void assert_truthful(ac_device *device, const ac_cost_model *model, ac_dtype storage) {
  for (int op = 0; op < AC_OP_COUNT; op++) {
    ac_op_args args;
    if (!model->known[op] ||
        !ac_cost_sample(&args, device, storage, (ac_op)op, AC_SAMPLE_SIZES - 1))
      continue;
    const double ratio = ac_cost_seconds(model, &args) / fake_seconds(&args);
    if (ratio < 0.5 || ratio > 2)
      fail_msg("%g times as slow: %s: %s: %g of what it takes", fake.slowness,
               ac_dtype_name(storage), ac_op_name((ac_op)op), ratio);
  }
}

/* However slow the device is: five seconds, and what the last op's smallest size takes, which is
 * run twice. */
static void check_bound(double slowness, bool estimates) {
  char name[32];
  snprintf(name, sizeof name, "%g", slowness);
  ac_device *device = open_fake(name, slowness);
  const ac_cost_model *model = model_of(device);
  assert_sensible(model);
  if (fake.ran > AC_COST_SECONDS + 2 * fake.longest_smallest + 0.01)
    fail_msg("%g times as slow: %g s", slowness, fake.ran);
  if (!estimates) assert_true(fake.compiled >= 7 * AC_OP_COUNT); /* which `ran` does not include */
  assert_int_equal(fake.estimates, estimates);
  assert_int_equal(fake.warnings, estimates);
  assert_int_equal(fake.announced, 3 * AC_OP_COUNT);
  assert_true(fake.ended);
  int estimated = 0;
  for (int op = 0; op < AC_OP_COUNT; op++) {
    assert_int_not_equal(model->known[op], AC_COST_GUESSED);
    estimated += model->known[op] == AC_COST_ESTIMATED;
  }
  assert_int_equal(estimated > 0, estimates);
  assert_truthful(device, model, AC_F32);
  ac_device_close(device);
}

static void test_time_is_bounded(void **state) {
  (void)state;
  check_bound(1, false);
  check_bound(1e3, true);
  check_bound(1e4, true);
  check_bound(1e5, true);
}

/* What an open device has spent is gone for its other storage types, and for the ops of its other
 * plans. Their estimates follow from what is known already. */
static void check_spent(const char *name, double slowness) {
  const bool half[AC_OP_COUNT] = {[AC_OP_linear] = true,
                                  [AC_OP_pointwise] = true,
                                  [AC_OP_dropout] = true,
                                  [AC_OP_softmax] = true};
  ac_device *device = open_fake(name, slowness);
  const ac_cost_model *model;
  assert_ok(ac_cost_model_get(&model, device, AC_F32, half));
  assert_ok(ac_cost_model_get(&model, device, AC_F16, half));
  ac_cost_account *account = ac_cost_account_of(device);
  account->spent = fmax(account->spent, AC_COST_SECONDS);
  assert_ok(ac_cost_model_get(&model, device, AC_F32, NULL));
  assert_truthful(device, model, AC_F32);
  const ac_cost_model before = *model;
  assert_ok(ac_cost_model_get(&model, device, AC_F16, NULL));
  assert_truthful(device, model, AC_F16);
  assert_ok(ac_cost_model_get(&model, device, AC_BF16, NULL));
  assert_truthful(device, model, AC_BF16);
  assert_ok(ac_cost_model_get(&model, device, AC_F32, NULL));
  assert_memory_equal(model, &before, sizeof before); /* plans repeat */
  assert_true(fake.ran <= AC_COST_SECONDS + 2 * fake.longest_smallest + 0.01);
  ac_device_close(device);
}

static void test_bound_is_a_device_s(void **state) {
  (void)state;
  check_spent("spent 1", 1);
  check_spent("spent 1e3", 1e3);
  check_spent("spent 1e4", 1e4);
  check_spent("spent 1e5", 1e5);
}

/* A first run on a busy machine does not decide for good: only what was measured is kept. */
static void test_estimates_are_not_kept(void **state) {
  (void)state;
  ac_device *device = open_fake("busy", 1e5);
  assert_int_equal(model_of(device)->known[AC_OP_linear], AC_COST_ESTIMATED);
  ac_device_close(device);
  device = open_fake("busy", 1);
  const ac_cost_model *model = model_of(device);
  assert_int_equal(model->known[AC_OP_linear], AC_COST_MEASURED);
  ac_op_args args;
  assert_true(ac_cost_sample(&args, device, AC_F32, AC_OP_linear, AC_SAMPLE_SIZES - 1));
  assert_true(ac_cost_seconds(model, &args) < 2 * fake_seconds(&args));
  ac_device_close(device);
}

/* What another process has measured in the meantime is kept, next to what this one estimates. */
static void test_estimates_leave_others_measurements(void **state) {
  (void)state;
  const bool some[AC_OP_COUNT] = {[AC_OP_pointwise] = true},
             more[AC_OP_COUNT] = {[AC_OP_dropout] = true};
  const ac_cost_model *model;
  ac_device *device = open_fake("two", 1);
  ac_cost_account_of(device)->spent = AC_COST_SECONDS;
  assert_ok(ac_cost_model_get(&model, device, AC_F32, some));
  assert_int_equal(model->known[AC_OP_pointwise], AC_COST_ESTIMATED);
  ac_device *other = open_fake("two", 1);
  assert_ok(ac_cost_model_get(&model, other, AC_F32, some));
  const double measured = model->per_byte[AC_OP_pointwise];
  ac_cost_account_of(device)->spent = 0;
  assert_ok(ac_cost_model_get(&model, device, AC_F32, more));
  assert_int_equal(model->known[AC_OP_pointwise], AC_COST_ESTIMATED);
  ac_device_close(device);
  ac_device_close(other);
  device = open_fake("two", 1e5);
  assert_ok(ac_cost_model_get(&model, device, AC_F32, some));
  assert_int_equal(fake.runs[AC_OP_pointwise], 0);
  assert_true(model->per_byte[AC_OP_pointwise] == measured);
  ac_device_close(device);
}

static void assert_ran(const bool expected[AC_OP_COUNT]) {
  for (int op = 0; op < AC_OP_COUNT; op++)
    if ((fake.runs[op] > 0) != expected[op])
      fail_msg("%s: %d runs", ac_op_name((ac_op)op), fake.runs[op]);
}

/* Ops are measured when a plan wants them, and what is known stays as it is, also on disk. */
static void test_only_what_is_wanted(void **state) {
  (void)state;
  const bool none[AC_OP_COUNT] = {false};
  const bool some[AC_OP_COUNT] = {[AC_OP_linear] = true, [AC_OP_pointwise] = true};
  const bool others[AC_OP_COUNT] = {[AC_OP_linear] = true, [AC_OP_dropout] = true};
  const bool gelu[AC_OP_COUNT] = {[AC_OP_dropout] = true};
  const ac_cost_model *model;
  ac_device *device = open_fake("wanted", 1);
  assert_ok(ac_cost_model_get(&model, device, AC_F32, some));
  assert_ran(some);
  assert_int_equal(fake.announced, 3 * 2);
  const ac_cost_model before = *model;
  ac_device_close(device);

  device = open_fake("wanted", 2);
  assert_ok(ac_cost_model_get(&model, device, AC_F32, others));
  assert_ran(gelu);
  assert_true(model->per_byte[AC_OP_linear] == before.per_byte[AC_OP_linear]);
  const ac_cost_model after = *model;
  ac_device_close(device);

  device = open_fake("wanted", 3);
  assert_ok(ac_cost_model_get(&model, device, AC_F32, some));
  assert_ok(ac_cost_model_get(&model, device, AC_F32, gelu));
  assert_ran(none);
  assert_memory_equal(model, &after, sizeof after);
  ac_device_close(device);
}

/* Every op that is priced is known. */
static void test_a_plan_s_ops_are_known(void **state) {
  (void)state;
  ac_device *device = open_fake("plan", 1);
  ac_graph *graph;
  ac_plan *plan;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, 2, (int64_t[]){AC_BATCH, 8});
  ac_tensor *labels = ac_input(graph, "labels", AC_I32, 1, (int64_t[]){AC_BATCH});
  ac_tensor *w = ac_parameter(graph, "w", 2, (int64_t[]){8, 4}, NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(ac_gelu(ac_linear(x, w, NULL, AC_IN_OUT), AC_GELU_TANH),
                                            labels, NULL, NULL));
  assert_ok(ac_plan_create(&plan, graph, device,
                           &(ac_plan_desc){.batch = 4, .optimizer = {.kind = AC_SGD}}));
  const uint64_t *known = ac_cost_account_of(device)->models[AC_F32]->known;
  for (int64_t i = 0; i < ac_plan_get_info(plan)->steps; i++) {
    ac_plan_step step;
    assert_ok(ac_plan_get_step(plan, i, &step));
    for (int op = 0; op < AC_OP_COUNT; op++)
      if (!strcmp(step.op, ac_op_name((ac_op)op)) && !known[op]) fail_msg("%s", step.op);
  }
  assert_true(known[AC_OP_linear] && known[AC_OP_sgd] && known[AC_OP_gradient_statistics]);
  assert_false(known[AC_OP_adamw] || known[AC_OP_conv2d]);
  ac_plan_free(plan);
  ac_graph_free(graph);
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

/* What was measured is the same when the device is opened again; on a busy machine the time may
 * have run out before some ops, which are estimated then and not kept. */
static void assert_kept(const ac_cost_model *first, const ac_cost_model *again) {
  int measured = 0;
  for (int op = 0; op < AC_OP_COUNT; op++) {
    if (first->known[op] != AC_COST_MEASURED) continue;
    measured++;
    assert_int_equal(again->known[op], AC_COST_MEASURED);
    assert_true(again->launch[op] == first->launch[op]);
    assert_true(again->per_flop[op] == first->per_flop[op]);
    assert_true(again->per_byte[op] == first->per_byte[op]);
  }
  assert_true(measured > 0);
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

static void test_file_is_used_and_repaired(void **state) {
  (void)state;
  ac_cost_model first = fresh_model(), second = fresh_model();
  assert_kept(&first, &second);
  test_path path = only_file();
  for (int damage = 0; damage < DAMAGES; damage++) {
    size_t bytes, now;
    unsigned char *bad = read_file(path.text, &bytes);
    size_t left = damage_file(bad, bytes, damage);
    write_file(path.text, bad, left);
    ac_cost_model repaired = fresh_model();
    assert_sensible(&repaired);
    unsigned char *contents = read_file(path.text, &now);
    assert_int_equal(now, bytes);
    assert_true(left != now || memcmp(contents, bad, bytes) != 0);
    free(contents);
    free(bad);
    ac_cost_model again = fresh_model();
    assert_kept(&repaired, &again);
  }
}

/* Numbers that are finite, and that no device has: what they are sums of would not be. Such a file
 * counts for nothing, so that the ops are measured anew. */
static void test_absurd_numbers_are_not_taken(void **state) {
  (void)state;
  static const double absurd[] = {1e308, 1e6, 1e-300, -1e-9, HUGE_VAL, (double)NAN};
  enum { HEAD = 24, CHECKSUM = 16 };
  const ac_cost_model good = fresh_model();
  const test_path path = only_file();
  ac_device *device = open_device("cpu");
  ac_cost_model recalled;
  bool wanted[AC_OP_COUNT] = {false};
  wanted[AC_OP_pointwise] = good.known[AC_OP_pointwise] == AC_COST_MEASURED;
  assert_true(wanted[AC_OP_pointwise]);
  assert_true(ac_cost_model_recall(&recalled, device, AC_F32, wanted));
  size_t bytes;
  unsigned char *contents = read_file(path.text, &bytes);
  assert_int_equal(bytes, HEAD + sizeof good);
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
    for (int member = 0; member < 3; member++) {
      ac_cost_model bad;
      memcpy(&bad, contents + HEAD, sizeof bad);
      double *const members[] = {bad.launch, bad.per_flop, bad.per_byte};
      if (member == 0 && absurd[i] == 1e-300) continue; /* as good as 0, which it may be */
      members[member][AC_OP_linear] = absurd[i];
      unsigned char *forged = malloc(bytes);
      assert_non_null(forged);
      memcpy(forged, contents, bytes);
      memcpy(forged + HEAD, &bad, sizeof bad);
      const uint64_t checksum = ac_hash(AC_HASH_BEGIN, &bad, sizeof bad);
      memcpy(forged + CHECKSUM, &checksum, sizeof checksum);
      write_file(path.text, forged, bytes);
      free(forged);
      if (ac_cost_model_recall(&recalled, device, AC_F32, wanted))
        fail_msg("%g was taken as number %d of an op", absurd[i], member);
    }
  write_file(path.text, contents, bytes);
  assert_true(ac_cost_model_recall(&recalled, device, AC_F32, wanted));
  free(contents);
  ac_device_close(device);
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
      cmocka_unit_test(test_muon_is_timed_in_its_precision),
      cmocka_unit_test(test_file_is_used_and_repaired), /* first, while the folder is empty */
      cmocka_unit_test(test_absurd_numbers_are_not_taken),
      cmocka_unit_test(test_no_op_is_forgotten),
      cmocka_unit_test(test_time_is_bounded),
      cmocka_unit_test(test_bound_is_a_device_s),
      cmocka_unit_test(test_estimates_are_not_kept),
      cmocka_unit_test(test_estimates_leave_others_measurements),
      cmocka_unit_test(test_only_what_is_wanted),
      cmocka_unit_test(test_a_plan_s_ops_are_known),
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_opencl),
      cmocka_unit_test(test_no_folder),
  };
  return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
