/* What optimizers keep in 8 bits: the codes against the values of arXiv 2110.02861, which
 * parameters are kept so and in how many bytes, and runs: the same bits again, also after a state,
 * and losses near those of a run in f32. tests/ops/update/optimizer.c compares the kernels with
 * references. */
#include "support/files.h"
#include "support/table_model.h"

#include "core/eight_bit.h"
#include "plan/plan.h"

#include <accrue/accrue.h>

#include <float.h>
#include <math.h>

/* ---- codes ----------------------------------------------------------------------------------- */

/* In ascending order, with `count` of them: zero, one, and the middles of equal parts of decades.
 */
static double value_of(bool is_signed, int code) {
  const int position = is_signed ? abs(code - 127) : code;
  if (position == 0) return 0;
  if (position == (is_signed ? 128 : 255)) return 1;
  int before = 1, decade = 0, parts = is_signed ? 1 : 2; /* positions below the decade */
  for (; position >= before + parts; parts *= 2, decade++) before += parts;
  const double value = pow(10, decade - 6) * (0.1 + 0.9 * (position - before + 0.5) / parts);
  return is_signed && code < 127 ? -value : value;
}

static void codes_have_the_values_of_the_paper(void **state) {
  (void)state;
  for (int sign = 0; sign < 2; sign++)
    for (int code = 0; code < 256; code++) {
      const double want = value_of(sign, code),
                   got = (double)ac_eight_bit_decode((uint8_t)code, sign);
      if (!(fabs(got - want) <= 4e-7 * fabs(want)))
        fail_msg("code %d: %.9g, not %.9g", code, got, want);
      assert_int_equal(ac_eight_bit_encode((float)got, sign), code);
    }
}

static void values_become_the_nearest_code(void **state) {
  (void)state;
  uint64_t random = 5;
  for (int i = 0; i < 400000; i++) {
    const bool sign = i % 2;
    const double size = pow(10, -9 * (double)next_random(&random) / 4294967296.0);
    const float x = (float)(sign && i % 4 > 1 ? -size : size);
    const int code = ac_eight_bit_encode(x, sign);
    /* Nothing that is not zero becomes zero as a denominator. */
    if (!sign) assert_true(code > 0);
    const double off = fabs(value_of(sign, code) - (double)x);
    for (int other = code - 1; other <= code + 1; other += 2) {
      if (other < 0 || other > 255 || (!sign && other == 0)) continue;
      if (fabs(value_of(sign, other) - (double)x) < off - 1e-6 * fabs((double)x))
        fail_msg("%.9g became code %d, and %d is nearer", (double)x, code, other);
    }
  }
}

static void scales_stay_normal(void **state) {
  (void)state;
  static const float largest[] = {0, 1e-44f, 0x1p-126f, 1e-30f, 1e38f, FLT_MAX, INFINITY};
  for (size_t k = 0; k < sizeof largest / sizeof *largest; k++) {
    float values[AC_EIGHT_BIT_BLOCK] = {0}, again[AC_EIGHT_BIT_BLOCK];
    uint8_t block[AC_EIGHT_BIT_BYTES];
    values[3] = largest[k];
    values[4] = -largest[k] / 2;
    ac_eight_bit_store(block, true, values);
    ac_eight_bit_load(block, true, again);
    const float kept = largest[k] < 0x1p-126f ? 0 : fminf(largest[k], 0x1p126f);
    assert_true(again[3] == kept);
    assert_true(isfinite(again[4]) && again[0] == 0);
  }
}

/* ---- plans ----------------------------------------------------------------------------------- */

static bool is_eight_bit(const run *t, const char *name) {
  const int index = ac_trainer_find_parameter(t->trainer, name);
  return ac_plan_cell(t->plan, AC_ROLE_STATE, index, 0)->dtype == AC_U8;
}

static void names_and_sizes_decide(void **state) {
  (void)state;
  static const struct {
    ac_plan_desc desc;
    bool table, matrix;
  } cases[] = {
      {{0}, false, false},
      {{.optimizer = {.state_f32 = ""}}, false, false},
      {{.optimizer = {.state = AC_STATE_8BIT}}, false, true},
      {{.optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}}, true, true},
      {{.optimizer = {.state = AC_STATE_8BIT, .state_f32 = "mat*"}}, true, false},
      {{.optimizer = {.kind = AC_SGD, .state = AC_STATE_8BIT}}, false, true},
      {{.optimizer = {.kind = AC_LION, .state = AC_STATE_8BIT}}, false, true},
  };
  const uint64_t blocks = (COUNT + 255) / 256 * 260;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    run t = begin("cpu", cases[i].desc);
    assert_int_equal(is_eight_bit(&t, "table"), cases[i].table);
    assert_int_equal(is_eight_bit(&t, "matrix"), cases[i].matrix);
    assert_false(is_eight_bit(&t, "bias"));
    const uint64_t states = cases[i].desc.optimizer.kind == AC_ADAMW ? 2 : 1;
    const uint64_t least = states * ((cases[i].table ? blocks : 4 * COUNT) +
                                     (cases[i].matrix ? blocks : 4 * COUNT) + 4 * ROWS);
    const uint64_t bytes = ac_plan_get_info(t.plan)->bytes.optimizer;
    assert_in_range(bytes, least, least + 6 * 64);
    stop(&t);
  }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static const ac_plan_desc all_eight = {.optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}};

static void kept_values_are_read_and_written_as_floats(void **state) {
  (void)state;
  for (int d = 0; d < 2; d++) {
    if (is_missing(devices[d])) continue;
    run t = begin(devices[d], all_eight);
    const int index = ac_trainer_find_parameter(t.trainer, "matrix");
    static float values[COUNT], read[COUNT];
    assert_int_equal(ac_trainer_state_count(t.trainer), 2);
    for (int k = 0; k < 2; k++) {
      for (int i = 0; i < COUNT; i++)
        values[i] = (k ? 1 : i % 2 ? -1 : 1) * (float)(1 + i % 100) / 100;
      assert_ok(ac_trainer_set_state(t.trainer, index, k, 0, COUNT, values));
      assert_ok(ac_trainer_set_state(t.trainer, index, k, COUNT - 1, 1, values));
      values[COUNT - 1] = values[0];
      /* Across blocks, and not from the first element of one. */
      assert_ok(ac_trainer_get_state(t.trainer, index, k, 100, COUNT - 100, read));
      for (int i = 100; i < COUNT; i++)
        if (fabsf(read[i - 100] - values[i]) > 0.15f * fabsf(values[i]) + 1e-6f)
          fail_msg("%s: state %d, element %d is %g, not %g", devices[d], k, i,
                   (double)read[i - 100], (double)values[i]);
    }
    const float refused[] = {INFINITY, NAN, 1e38f, -1};
    for (int i = 0; i < 4; i++)
      for (int k = i < 3 ? 0 : 1; k < 2; k++)
        assert_refused(ac_trainer_set_state(t.trainer, index, k, 5, 1, &refused[i]),
                       AC_ERROR_ARGUMENT, "in 8 bits");
    /* What training makes of it is of the size of its gradients. */
    train_steps(&t, 0, 5);
    assert_ok(ac_trainer_get_state(t.trainer, index, 1, 0, COUNT, read));
    for (int i = 0; i < COUNT; i++) assert_true(read[i] > 0 && read[i] < 1.01f);
    stop(&t);
  }
}

static void runs_repeat_and_go_on(void **state) {
  (void)state;
  for (int d = 0; d < 2; d++)
    for (int kind = AC_ADAMW; kind <= AC_LION; kind++) {
      if (is_missing(devices[d])) continue;
      ac_plan_desc desc = all_eight, floats = {.optimizer = {.kind = (ac_optimizer_kind)kind}};
      desc.optimizer.kind = (ac_optimizer_kind)kind;
      const test_path path = in_folder("state");
      run whole, half, other = begin(devices[d], floats);
      const double loss = train_with_a_state(devices[d], desc, path.text, &whole, &half);
      /* Near f32, and not its bits. */
      assert_refused(ac_trainer_load_state(other.trainer, path.text), AC_ERROR_FORMAT,
                     "is kept in 8 bits, and the plan keeps it in f32");
      const double exact = train_steps(&other, 0, 40);
      if (!(fabs(loss - exact) < 0.02 * exact) || loss == exact)
        fail_msg("%s, optimizer %d: loss %.9g with 8 bits, %.9g with f32", devices[d], kind, loss,
                 exact);
      assert_ok(ac_trainer_save_state(other.trainer, path.text, NULL, 0));
      assert_refused(ac_trainer_load_state(half.trainer, path.text), AC_ERROR_FORMAT,
                     "is kept in f32, and the plan keeps it in 8 bits");
      stop(&whole);
      stop(&half);
      stop(&other);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_have_the_values_of_the_paper),
      cmocka_unit_test(values_become_the_nearest_code),
      cmocka_unit_test(scales_stay_normal),
      cmocka_unit_test(names_and_sizes_decide),
      cmocka_unit_test(kept_values_are_read_and_written_as_floats),
      cmocka_unit_test(runs_repeat_and_go_on),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
