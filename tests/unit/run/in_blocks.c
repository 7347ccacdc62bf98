/* Frozen weights in blocks under small trained ones: against the same graph with the decoded
 * weights in floats. What they take, how they are read, written, saved and resumed. */
#include "support/files.h"

#include "support/runs.h"

#include "plan/plan.h"

#include <math.h>

enum { V = 70, C = 64, HIDDEN = 128, T = 5, B = 4, R = 2 };

static const ac_blocks all[] = {AC_BLOCKS_Q8_0, AC_BLOCKS_Q4_0, AC_BLOCKS_Q4_1, AC_BLOCKS_NF4};

/* ---- the model ------------------------------------------------------------------------------- */

static ac_tensor *frozen_matrix(ac_graph *g, const char *name, int64_t rows, int64_t columns,
                                ac_blocks blocks) {
  const ac_parameter_desc desc = {
      .init = {AC_INIT_NORMAL, .deviation = 0.2f}, .frozen = true, .blocks = blocks};
  return ac_parameter(g, name, 2, (const int64_t[]){rows, columns}, &desc);
}

/* x W + (x A) B, A and B trained. */
static ac_tensor *adapted(ac_graph *g, ac_tensor *x, const char *name, int64_t in, int64_t out,
                          ac_layout layout, ac_blocks blocks) {
  char a[64], b[64];
  snprintf(a, sizeof a, "%s.a", name);
  snprintf(b, sizeof b, "%s.b", name);
  const ac_parameter_desc small = {.init = {AC_INIT_NORMAL, .deviation = 0.1f}};
  ac_tensor *w = layout == AC_OUT_IN ? frozen_matrix(g, name, out, in, blocks)
                                     : frozen_matrix(g, name, in, out, blocks);
  ac_tensor *low =
      ac_linear(x, ac_parameter(g, a, 2, (const int64_t[]){R, in}, &small), NULL, AC_OUT_IN);
  ac_tensor *high =
      ac_linear(low, ac_parameter(g, b, 2, (const int64_t[]){out, R}, &small), NULL, AC_OUT_IN);
  return ac_add(ac_linear(x, w, NULL, layout), high);
}

/* A table that is the head as well, both layouts, ops that read no blocks themselves, and a matrix
 * that nothing reads. */
static ac_graph *graph_with(ac_blocks blocks) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const int64_t rows[] = {AC_BATCH, T};
  ac_tensor *tokens = ac_input(g, "tokens", AC_I32, 2, rows),
            *targets = ac_input(g, "targets", AC_I32, 2, rows);
  ac_tensor *table = frozen_matrix(g, "table", V, C, blocks);
  ac_tensor *x = ac_embedding(table, tokens);
  ac_tensor *up = ac_tanh(adapted(g, x, "up", C, HIDDEN, AC_OUT_IN, blocks));
  x = ac_add(x, adapted(g, up, "down", HIDDEN, C, AC_IN_OUT, blocks));
  const ac_parameter_desc small = {.init = {AC_INIT_NORMAL, .deviation = 0.2f}};
  ac_tensor *mixer = ac_parameter(g, "mixer", 2, (const int64_t[]){C, C}, &small);
  mixer = ac_matmul(frozen_matrix(g, "turn", C, C, blocks), mixer, false, true);
  x = ac_linear(ac_multiply(x, frozen_matrix(g, "factors", T, C, blocks)), mixer, NULL, AC_OUT_IN);
  frozen_matrix(g, "unread", 3, C, blocks);
  ac_graph_set_output(g, "logits", ac_linear(x, table, NULL, AC_OUT_IN));
  ac_graph_set_loss(g, ac_linear_cross_entropy(x, table, AC_OUT_IN, targets, NULL, NULL));
  return g;
}

static run run_with(const char *device, ac_blocks blocks, ac_plan_desc plan) {
  ac_device *opened = open_device(device);
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 0.01}};
  plan.batch = B;
  return run_of(opened, graph_with(blocks), &plan, &desc);
}

static ac_status feed_run(const run *r, int first) {
  int32_t tokens[B * T], targets[B * T];
  for (int i = 0; i < B * T; i++) {
    tokens[i] = (first * 31 + i * 17) % V;
    targets[i] = (first * 13 + i * 29) % V;
  }
  const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
  return ac_trainer_accumulate(r->trainer, B, feeds, 2);
}

/* Gives b the parameters of a, as a decodes them. */
static void copy_parameters(const run *a, const run *b) {
  for (int i = 0; i < ac_trainer_parameter_count(a->trainer); i++) {
    const int64_t count = elements(a->trainer, i);
    float *values = malloc((size_t)count * sizeof *values);
    assert_ok(ac_trainer_get_parameter(a->trainer, i, 0, count, values));
    assert_ok(ac_trainer_set_parameter(b->trainer, i, 0, count, values));
    free(values);
  }
}

/* ---- results --------------------------------------------------------------------------------- */

/* Three updates from equal weights. `far`: how far losses and trained weights may be apart, since
 * sums of products may run in another order; in 16 bits activations are rounded. */
static void check_equal(const char *device, ac_blocks blocks, ac_plan_desc plan, double far) {
  run a = run_with(device, blocks, plan), b = run_with(device, AC_BLOCKS_NONE, plan);
  copy_parameters(&a, &b);
  for (int i = 0; i < 3; i++) {
    ac_update x, y;
    assert_ok(feed_run(&a, i));
    assert_ok(feed_run(&b, i));
    assert_ok(ac_trainer_update(a.trainer, &x));
    assert_ok(ac_trainer_update(b.trainer, &y));
    assert_false(x.skipped || y.skipped);
    if (fabs(x.loss - y.loss) > far * y.loss)
      fail_msg("%s: loss %g, not %g", ac_blocks_name(blocks), x.loss, y.loss);
    if (fabs(x.grad_norm - y.grad_norm) > 10 * far * y.grad_norm)
      fail_msg("%s: norm %g, not %g", ac_blocks_name(blocks), x.grad_norm, y.grad_norm);
  }
  assert_int_equal(ac_device_peak_bytes(a.device), ac_plan_get_info(a.plan)->bytes.total);
  stop(&a);
  stop(&b);
}

static void computes_what_floats_do(const char *device) {
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    check_equal(device, all[k], (ac_plan_desc){0}, 1e-6);
    check_equal(device, all[k], (ac_plan_desc){.micro_batch = 1, .recompute = AC_RECOMPUTE_ALL},
                1e-6);
    check_equal(device, all[k], (ac_plan_desc){.gradients = AC_GRADIENTS_FUSED}, 1e-6);
  }
}
ON_EVERY_DEVICE(computes_what_floats_do)

static void in_16_bits_too(const char *device) {
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    check_equal(device, all[k], (ac_plan_desc){.precision = AC_PRECISION_F16}, 2e-3);
    check_equal(device, all[k], (ac_plan_desc){.precision = AC_PRECISION_BF16}, 1e-2);
    check_equal(device, all[k],
                (ac_plan_desc){.precision = AC_PRECISION_BF16,
                               .weights = AC_WEIGHTS_BF16,
                               .gradients = AC_GRADIENTS_FUSED},
                1e-2);
  }
}
ON_EVERY_DEVICE(in_16_bits_too)

/* ---- bytes ----------------------------------------------------------------------------------- */

static int64_t frozen_elements(void) {
  return V * C + 2 * C * HIDDEN + C * C + T * C + 3 * C;
}

static void take_the_bytes_of_blocks(void **state) {
  (void)state;
  for (int p = 0; p < 3; p++)
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
      run r = run_with("cpu", all[k], (ac_plan_desc){.precision = (ac_precision)p});
      const ac_plan_info *info = ac_plan_get_info(r.plan);
      assert_int_equal(info->blocks_bytes, ac_blocks_bytes(all[k], frozen_elements()));
      for (int i = 0; i < ac_trainer_parameter_count(r.trainer); i++) {
        ac_plan_parameter parameter;
        assert_ok(ac_plan_get_parameter(r.plan, i, &parameter));
        assert_int_equal(parameter.blocks, parameter.frozen ? all[k] : AC_BLOCKS_NONE);
        if (!parameter.frozen) continue;
        assert_int_equal(parameter.bytes, ac_blocks_bytes(all[k], elements(r.trainer, i)));
        assert_int_equal(parameter.tensor.dtype, AC_U8);
      }
      stop(&r);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* What is written in part is rounded with the rest of its blocks, and nothing else is. */
static void parts_are_written(const char *device) {
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    run r = run_with(device, all[k], (ac_plan_desc){0});
    const int index = ac_trainer_find_parameter(r.trainer, "up");
    const int64_t count = elements(r.trainer, index), size = ac_blocks_elements(all[k]);
    const int64_t first = 3 * size + 5, some = 2 * size;
    float *before = malloc((size_t)count * sizeof *before),
          *after = malloc((size_t)count * sizeof *after);
    float written[128], again[3];
    assert_ok(ac_trainer_get_parameter(r.trainer, index, 0, count, before));
    for (int64_t i = 0; i < some; i++) written[i] = (float)(i % 15 - 7) / 7;
    assert_ok(ac_trainer_set_parameter(r.trainer, index, first, some, written));
    assert_ok(ac_trainer_get_parameter(r.trainer, index, 0, count, after));
    for (int64_t i = 0; i < count; i++) {
      const bool touched = i >= 3 * size && i < 6 * size, ours = i >= first && i < first + some;
      if (!touched) assert_true(before[i] == after[i]);
      else if (ours) assert_true(fabsf(after[i] - written[i - first]) < 0.15f);
    }
    assert_ok(ac_trainer_get_parameter(r.trainer, index, first + 1, 3, again));
    assert_memory_equal(again, after + first + 1, sizeof again);
    free(before);
    free(after);
    stop(&r);
  }
}
ON_EVERY_DEVICE(parts_are_written)

/* A model file has the decoded values, and loading them changes nothing but their last bits. */
static void files_have_decoded_values(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    run a = run_with("cpu", all[k], (ac_plan_desc){0}),
        b = run_with("cpu", AC_BLOCKS_NONE, (ac_plan_desc){0});
    size_t total;
    assert_ok(ac_trainer_save(a.trainer, in_folder("model").text, NULL, 0));
    assert_ok(ac_trainer_load(b.trainer, in_folder("model").text, NULL));
    float *x = all_parameters(&a, &total), *y = all_parameters(&b, &total);
    assert_memory_equal(x, y, total * sizeof *x);
    assert_ok(ac_trainer_load(a.trainer, in_folder("model").text, NULL));
    float *z = all_parameters(&a, &total);
    assert_true(distance(x, z, total) < 1e-3);
    free(x);
    free(y);
    free(z);
    stop(&a);
    stop(&b);
  }
}

/* Blocks of a GGUF file of the same format go in as they are; of others they are decoded. */
static void blocks_of_files_are_copied(void **state) {
  (void)state;
  static const struct {
    const char *name;
    ac_blocks blocks;
  } of_file[] = {{"Q8_0", AC_BLOCKS_Q8_0}, {"Q4_0", AC_BLOCKS_Q4_0}, {"Q4_1", AC_BLOCKS_Q4_1}};
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, ACCRUE_TEST_VECTORS "/blocks.gguf"));
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++) {
      const int index = ac_model_file_find(file, of_file[i].name);
      float want[3 * 96], got[3 * 96];
      assert_int_equal(ac_model_file_blocks(file, index), of_file[i].blocks);
      assert_ok(ac_model_file_read(file, index, 0, 3 * 96, want));
      ac_graph *g;
      assert_ok(ac_graph_create(&g));
      ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 96));
      ac_graph_set_output(
          g, "y", ac_linear(x, frozen_matrix(g, of_file[i].name, 3, 96, all[k]), NULL, AC_OUT_IN));
      ac_device *device = open_device("cpu");
      ac_plan *plan;
      ac_session *session;
      assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT}));
      assert_ok(ac_session_create(&session, plan, 0));
      assert_ok(ac_session_load(session, ACCRUE_TEST_VECTORS "/blocks.gguf", NULL));
      float unit[96 * 96] = {0}, y[96 * 3];
      for (int c = 0; c < 96; c++) unit[c * 97] = 1;
      const ac_feed feed = {"x", unit};
      assert_ok(ac_session_predict(session, "y", 96, &feed, 1, 96 * 3, y));
      for (int e = 0; e < 96 * 3; e++) got[e % 3 * 96 + e / 3] = y[e];
      for (int e = 0; of_file[i].blocks == all[k] && e < 3 * 96; e++)
        assert_true(got[e] == want[e]);
      assert_true(distance(got, want, 3 * 96) < 0.2);
      ac_session_free(session);
      ac_plan_free(plan);
      ac_graph_free(g);
      ac_device_close(device);
    }
  unsigned char bytes[64];
  const int q8 = ac_model_file_find(file, "Q8_0");
  assert_refused(ac_model_file_read_blocks(file, q8, 16, 32, bytes), AC_ERROR_ARGUMENT,
                 "are not whole blocks of 32");
  assert_refused(ac_model_file_read_blocks(file, q8, 288, 32, bytes), AC_ERROR_ARGUMENT,
                 "are not among them");
  assert_refused(ac_model_file_read_blocks(file, ac_model_file_find(file, "Q6_K"), 0, 256, bytes),
                 AC_ERROR_ARGUMENT, "is not in blocks");
  assert_int_equal(ac_model_file_blocks(file, ac_model_file_find(file, "F32")), AC_BLOCKS_NONE);
  ac_model_file_close(file);
}

/* A run that goes on from a state has the bits of one that never stopped; a state of other blocks
 * is refused, also of NF4 and Q4_0, which take as many bytes. */
static void states_hold_blocks(const char *device) {
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    run a = run_with(device, all[k], (ac_plan_desc){0}),
        b = run_with(device, all[k], (ac_plan_desc){0});
    ac_update x, y;
    assert_ok(feed_run(&a, 0));
    assert_ok(ac_trainer_update(a.trainer, &x));
    assert_ok(ac_trainer_save_state(a.trainer, in_folder("state").text, NULL, 0));
    assert_ok(ac_trainer_load_state(b.trainer, in_folder("state").text));
    for (int i = 1; i < 3; i++) {
      assert_ok(feed_run(&a, i));
      assert_ok(feed_run(&b, i));
      assert_ok(ac_trainer_update(a.trainer, &x));
      assert_ok(ac_trainer_update(b.trainer, &y));
      assert_true(x.loss == y.loss && x.grad_norm == y.grad_norm);
    }
    stop(&b);
    b = run_with(device, all[(k + 1) % 4], (ac_plan_desc){0});
    assert_refused(ac_trainer_load_state(b.trainer, in_folder("state").text), AC_ERROR_FORMAT,
                   "table");
    stop(&b);
    b = run_with(device, AC_BLOCKS_NONE, (ac_plan_desc){0});
    assert_refused(ac_trainer_load_state(b.trainer, in_folder("state").text), AC_ERROR_FORMAT,
                   "table");
    stop(&b);
    stop(&a);
  }
}
ON_EVERY_DEVICE(states_hold_blocks)

/* One element makes its block one of NaNs, which is found and not saved. */
static void what_is_not_finite_is_found(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    run r = run_with("cpu", all[k], (ac_plan_desc){0});
    const float nan = NAN;
    const int index = ac_trainer_find_parameter(r.trainer, "down");
    int32_t tokens[B * T] = {0}, targets[B * T] = {0};
    const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
    char text[256];
    assert_ok(ac_trainer_set_parameter(r.trainer, index, 70, 1, &nan));
    assert_ok(ac_trainer_locate_nonfinite(r.trainer, B, feeds, 2, text, sizeof text));
    assert_contains(text, "parameter down");
    assert_refused(ac_trainer_save(r.trainer, in_folder("model").text, NULL, 0),
                   AC_ERROR_NOT_FINITE, "down");
    stop(&r);
  }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuses_what_no_blocks_hold(void **state) {
  (void)state;
  static const struct {
    ac_parameter_desc desc;
    int rank;
    int64_t shape[3];
    const char *sentence;
  } cases[] = {
      {{.blocks = AC_BLOCKS_Q8_0}, 2, {4, 32}, "(q8_0) and is not frozen"},
      {{.blocks = AC_BLOCKS_Q8_0, .frozen = true},
       1,
       {32},
       "a matrix with rows of a multiple of 32"},
      {{.blocks = AC_BLOCKS_Q4_1, .frozen = true}, 2, {32, 48}, "a multiple of 32"},
      {{.blocks = AC_BLOCKS_NF4, .frozen = true},
       2,
       {32, 96},
       "(nf4), so it must be a matrix with rows of a multiple of 64"},
      {{.blocks = (ac_blocks)7, .frozen = true}, 2, {32, 64}, "the unknown blocks 7"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_graph *g;
    assert_ok(ac_graph_create(&g));
    assert_null(ac_parameter(g, "w", cases[i].rank, cases[i].shape, &cases[i].desc));
    assert_refused(ac_graph_status(g), AC_ERROR_ARGUMENT, cases[i].sentence);
    ac_graph_free(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(computes_what_floats_do_everywhere),
      cmocka_unit_test(in_16_bits_too_everywhere),
      cmocka_unit_test(take_the_bytes_of_blocks),
      cmocka_unit_test(parts_are_written_everywhere),
      cmocka_unit_test(files_have_decoded_values),
      cmocka_unit_test(blocks_of_files_are_copied),
      cmocka_unit_test(states_hold_blocks_everywhere),
      cmocka_unit_test(what_is_not_finite_is_found),
      cmocka_unit_test(refuses_what_no_blocks_hold),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
