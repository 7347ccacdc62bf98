/* What `accrue verify` takes for rounding, and what it does not: two parameters, three windows. */
#include "support/check.h"

#include "core/half.h"
#include "core/random.h"
#include "program/verify_judge.h"

#include <math.h>
#include <string.h>

enum { WINDOWS = 3, FIRST = 4, ELEMENTS = 10 };

typedef struct setting {
  layout layout;
  record record;
  distances distances;
  int64_t first[3];
  bool trained[2], rounded[2];
  const char *names[2];
  float gradients[WINDOWS][ELEMENTS], weights[WINDOWS + 1][ELEMENTS];
  float *gradient_rows[WINDOWS], *weight_rows[WINDOWS + 1];
  ac_update updates[WINDOWS], other_updates[WINDOWS];
  double own[2 * WINDOWS], unexplained[2 * WINDOWS], share[2 * WINDOWS], moved[WINDOWS];
} setting;

static void start(setting *s) {
  *s = (setting){.first = {0, FIRST, ELEMENTS}, .trained = {true, true}, .names = {"a", "b"}};
  s->layout = (layout){2, s->first, s->trained, s->rounded, s->names};
  s->record = (record){WINDOWS, s->gradient_rows, s->weight_rows, s->updates};
  s->distances = (distances){s->own, s->unexplained, s->share, s->moved, s->other_updates, false};
  for (int u = 0; u <= WINDOWS; u++) {
    s->weight_rows[u] = s->weights[u];
    for (int i = 0; i < ELEMENTS; i++) s->weights[u][i] = (float)(i + 1) - 0.1f * (float)u;
    if (u == WINDOWS) continue;
    s->gradient_rows[u] = s->gradients[u];
    s->updates[u] = s->other_updates[u] = (ac_update){.loss = 2, .weight = 64};
    for (int i = 0; i < ELEMENTS; i++) s->gradients[u][i] = (float)(i + 1 + u) / 8;
  }
}

/* A window in which the gradient of parameter `index` is `factor` times the other way's, and
 * weights moved `step` times as far. */
static void measure(setting *s, int window, int index, double factor, double step) {
  float gradient[ELEMENTS], weights[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++) {
    bool changed = i >= s->first[index] && i < s->first[index + 1];
    gradient[i] = s->gradients[window][i] * (float)(changed ? factor : 1);
    float before = s->weights[window][i];
    weights[i] = before + (float)step * (s->weights[window + 1][i] - before);
  }
  verify_measure(&s->layout, &s->record, window, gradient, NULL, weights, &s->distances);
}

static verdict judge(setting *s, ac_precision precision, const spread *by_rounding) {
  return verify_judge(&s->layout, &s->record, &s->distances, precision, by_rounding);
}

static void measure_all(setting *s, int index, double factor) {
  for (int u = 0; u < WINDOWS; u++) measure(s, u, index, factor, 1);
}

static void rounding_is_the_same(void **state) {
  (void)state;
  setting s;
  start(&s);
  measure_all(&s, 0, 1 + 2e-6);
  verdict v = judge(&s, AC_PRECISION_F32, NULL);
  assert_true(verdict_same(&v));
  measure_all(&s, 0, 1 + 2e-4);
  v = judge(&s, AC_PRECISION_F32, NULL);
  assert_int_equal(v.gradients, 1);
}

/* Rounding to 16 bits does not explain half a hundredth, however far apart whole batches are. */
static void sixteen_bits_are_no_excuse(void **state) {
  (void)state;
  setting s;
  start(&s);
  double own[2] = {1e-4, 1e-4}, share[2] = {1e-4, 1e-4};
  spread by_rounding = {own, share, 1e-4};
  for (ac_precision p = AC_PRECISION_F16; p <= AC_PRECISION_BF16; p++) {
    measure_all(&s, 0, 1 + 2e-6);
    verdict v = judge(&s, p, NULL);
    assert_true(verdict_same(&v));
    measure_all(&s, 1, 1 + 3e-4);
    v = judge(&s, p, NULL);
    assert_int_equal(v.gradients, 1);
    v = judge(&s, p, &by_rounding);
    assert_true(verdict_same(&v));
    measure_all(&s, 1, 1.005);
    v = judge(&s, p, &by_rounding);
    assert_int_equal(v.gradients, 1);
    own[1] = 0.1;
    v = judge(&s, p, &by_rounding);
    assert_int_equal(v.gradients, 1);
    own[1] = 1e-4;
    measure_all(&s, 1, 1);
    s.other_updates[1].loss = 2.0006;
    v = judge(&s, p, NULL);
    assert_true(v.loss);
    v = judge(&s, p, &by_rounding);
    assert_true(verdict_same(&v));
    s.other_updates[1].loss = 2.01;
    v = judge(&s, p, &by_rounding);
    assert_true(v.loss);
    s.other_updates[1].loss = 2;
  }
}

static void a_kink_in_one_window_is_no_verdict(void **state) {
  (void)state;
  setting s;
  start(&s);
  measure_all(&s, 0, 1);
  measure(&s, 1, 0, 1.05, 1);
  verdict v = judge(&s, AC_PRECISION_F32, NULL);
  assert_true(verdict_same(&v));
  measure(&s, 2, 0, 1.05, 1);
  v = judge(&s, AC_PRECISION_F32, NULL);
  assert_int_equal(v.gradients, 1);
}

/* Whichever the window, and though rounding reaches as far. */
static void nothing_excuses_one_window_far_off(void **state) {
  (void)state;
  double own[2] = {1, 1}, share[2] = {0};
  const spread by_rounding = {own, share, 1};
  for (int u = 0; u < WINDOWS; u++) {
    setting s;
    start(&s);
    measure_all(&s, 0, 1);
    measure(&s, u, 0, 100, 1);
    verdict v = judge(&s, AC_PRECISION_F32, &by_rounding);
    assert_true(v.gradients == 1 && !v.weights);
    measure(&s, u, 0, 1, 50);
    v = judge(&s, AC_PRECISION_F32, &by_rounding);
    assert_true(v.weights && !v.gradients);
    measure(&s, u, 0, NAN, 1);
    v = judge(&s, AC_PRECISION_F32, &by_rounding);
    assert_int_equal(v.gradients, 1);
    measure(&s, u, 0, 1, NAN);
    v = judge(&s, AC_PRECISION_F32, &by_rounding);
    assert_true(v.weights);
    measure(&s, u, 0, 1, 1);
    const double losses[] = {1e6, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
      s.other_updates[u].loss = losses[i];
      v = judge(&s, AC_PRECISION_F32, &by_rounding);
      assert_true(v.loss);
    }
    s.other_updates[u].loss = 2;
    s.other_updates[u].weight = NAN;
    v = judge(&s, AC_PRECISION_F32, &by_rounding);
    assert_true(v.weight && !v.loss && !v.weights && !v.gradients);
  }
}

/* Where whole batches with other roundings are as far apart, a difference is explained, unless it
 * is so large that no rounding is an excuse. */
static void a_spread_explains_what_is_near_it(void **state) {
  (void)state;
  setting s;
  start(&s);
  float gradient[ELEMENTS];
  double own[2] = {0}, share[2] = {0};
  spread by_rounding = {.gradient = own, .share = share};
  for (int i = 0; i < ELEMENTS; i++) gradient[i] = s.gradients[0][i] * (i < FIRST ? 1.01f : 1);
  verify_spread(&s.layout, &s.record, 0, gradient, &(ac_update){.loss = 2.002}, &by_rounding);
  verify_spread(&s.layout, &s.record, 1, s.gradients[1], &s.updates[1], &by_rounding);
  assert_true(fabs(own[0] - 0.01) < 1e-6 && own[1] == 0); /* the largest counts */
  assert_true(share[0] > 0 && share[0] < own[0] && share[1] == 0);
  assert_true(fabs(by_rounding.loss - 0.001) < 1e-9);
  measure_all(&s, 0, 1.03);
  verdict v = judge(&s, AC_PRECISION_F32, &by_rounding);
  assert_true(verdict_same(&v));
  measure_all(&s, 0, 1.05);
  v = judge(&s, AC_PRECISION_F32, &by_rounding);
  assert_int_equal(v.gradients, 1);
  measure_all(&s, 1, 1.03); /* the other parameter has none */
  v = judge(&s, AC_PRECISION_F32, &by_rounding);
  assert_int_equal(v.gradients, 1);
  own[0] = own[1] = 0.5;
  measure_all(&s, 0, 0.5);
  v = judge(&s, AC_PRECISION_BF16, &by_rounding);
  assert_int_equal(v.gradients, 1);
  /* With exact batch norm 16 bits spread as f32 does, and losses as their own type does. */
  start(&s);
  measure_all(&s, 0, 1.03);
  v = judge(&s, AC_PRECISION_F16, &by_rounding);
  assert_int_equal(v.gradients, 1);
  s.distances.spreads = true;
  v = judge(&s, AC_PRECISION_F16, &by_rounding);
  assert_true(verdict_same(&v));
}

static void a_gradient_of_noise_is_held_against_all(void **state) {
  (void)state;
  setting s;
  start(&s);
  for (int u = 0; u < WINDOWS; u++)
    for (int i = 0; i < FIRST; i++) s.gradients[u][i] = 1e-9f;
  measure_all(&s, 0, -1);
  verdict v = judge(&s, AC_PRECISION_F32, NULL);
  assert_true(verdict_same(&v));
  /* In 16 bits it may be larger, where it is so in whole batches. */
  for (int u = 0; u < WINDOWS; u++)
    for (int i = 0; i < FIRST; i++) s.gradients[u][i] = 1.5e-6f;
  measure_all(&s, 0, -1);
  double own[2] = {2, 0}, share[2] = {1e-6, 0};
  const spread by_rounding = {own, share, 0};
  v = judge(&s, AC_PRECISION_F16, NULL);
  assert_int_equal(v.gradients, 1);
  v = judge(&s, AC_PRECISION_F16, &by_rounding);
  assert_true(verdict_same(&v));
  v = judge(&s, AC_PRECISION_F32, &by_rounding);
  assert_int_equal(v.gradients, 1);
  s.trained[1] = false; /* among nothing else it is large */
  measure_all(&s, 0, -1);
  v = judge(&s, AC_PRECISION_F32, NULL);
  assert_int_equal(v.gradients, 1);
}

/* ---- gradients in bf16 ----------------------------------------------------------------------- */

enum { LARGE = 4096, MOST_MICRO_BATCHES = 64 };

/* One window of one large parameter: what each micro-batch adds to its gradient. */
typedef struct sums {
  float parts[MOST_MICRO_BATCHES][LARGE];
  float whole[LARGE], gradient[LARGE], squares[LARGE], weights[LARGE], after[LARGE];
} sums;

static float by_chance(float value, int i, int sum, uint64_t seed) {
  const ac_philox_block block = ac_philox(seed, (uint32_t)i, (uint32_t)sum, 1, 0);
  return ac_bf16_to_float(ac_bf16_by_chance(value, block.v[0] & 0xffff));
}

/* As random as gradients of samples are, with something in common. */
static void draw_parts(sums *s, int micro_batches, uint64_t seed) {
  for (int k = 0; k < micro_batches; k++)
    for (int i = 0; i < LARGE; i++) {
      const ac_philox_block own = ac_philox(seed, (uint32_t)i, (uint32_t)k, 2, 0);
      const ac_philox_block common = ac_philox(seed, (uint32_t)i, 0, 3, 0);
      s->parts[k][i] = ac_uniform24(own.v[0]) - 0.5f + 0.3f * (ac_uniform24(common.v[0]) - 0.5f);
    }
}

/* The whole gradient, and that of micro-batches: the first `kept` of them are added up, each
 * rounded by chance, and made `factor` times as large. */
static void add_up(sums *s, int micro_batches, int kept, float factor, uint64_t seed) {
  for (int i = 0; i < LARGE; i++) {
    float whole = 0, sum = 0;
    s->squares[i] = 0;
    for (int k = 0; k < micro_batches; k++) {
      whole += s->parts[k][i];
      if (k >= kept) continue;
      sum = by_chance(sum + s->parts[k][i] * factor, i, k, seed);
      s->squares[i] += sum * sum;
    }
    s->whole[i] = by_chance(whole, i, MOST_MICRO_BATCHES, seed);
    s->gradient[i] = sum;
    s->after[i] = 1;
  }
}

static verdict judge_sums(sums *s, bool rounded) {
  float *gradients[] = {s->whole}, *weights[] = {s->weights, s->after};
  ac_update update = {.loss = 2, .weight = 64}, other = update;
  double own, unexplained, share, moved;
  const layout l = {1, (int64_t[]){0, LARGE}, (bool[]){true}, &rounded, (const char *[]){"a"}};
  const record r = {1, gradients, weights, &update};
  distances d = {&own, &unexplained, &share, &moved, &other, false};
  verify_measure(&l, &r, 0, s->gradient, s->squares, s->after, &d);
  return verify_judge(&l, &r, &d, AC_PRECISION_F32, NULL);
}

/* However many they are; and a hundredth too much or too little is none of it, nor a micro-batch
 * that is not there. */
static void rounding_by_chance_is_the_same(void **state) {
  (void)state;
  static sums s;
  for (uint64_t seed = 1; seed <= 8; seed++)
    for (int micro_batches = 1; micro_batches <= MOST_MICRO_BATCHES; micro_batches *= 4) {
      draw_parts(&s, micro_batches, seed);
      add_up(&s, micro_batches, micro_batches, 1, seed);
      verdict v = judge_sums(&s, true);
      assert_true(verdict_same(&v));
      v = judge_sums(&s, false); /* what is kept in f32 has no such excuse */
      assert_int_equal(v.gradients, 1);
      add_up(&s, micro_batches, micro_batches, 1.01f, seed);
      v = judge_sums(&s, true);
      assert_int_equal(v.gradients, 1);
      add_up(&s, micro_batches, micro_batches, 0.99f, seed);
      v = judge_sums(&s, true);
      assert_int_equal(v.gradients, 1);
      add_up(&s, micro_batches, micro_batches - 1, 1, seed);
      v = judge_sums(&s, true);
      assert_int_equal(v.gradients, 1);
      s.gradient[7] = NAN;
      v = judge_sums(&s, true);
      assert_int_equal(v.gradients, 1);
      add_up(&s, micro_batches, micro_batches, 1, seed);
      s.squares[7] = INFINITY;
      v = judge_sums(&s, true);
      assert_int_equal(v.gradients, 1);
    }
}

static void weight_loss_and_step_are_judged(void **state) {
  (void)state;
  setting s;
  start(&s);
  measure_all(&s, 0, 1);
  s.other_updates[2].weight = 128;
  verdict v = judge(&s, AC_PRECISION_F32, NULL);
  assert_true(v.weight && !v.loss && !v.weights && !v.gradients);
  start(&s);
  measure_all(&s, 0, 1);
  s.other_updates[0].loss = s.other_updates[1].loss = 2.001;
  v = judge(&s, AC_PRECISION_F32, NULL);
  assert_true(v.loss && !v.weight && !v.weights && !v.gradients);
  start(&s);
  measure(&s, 1, 0, 1, 1.0005);
  v = judge(&s, AC_PRECISION_F32, NULL);
  assert_true(verdict_same(&v));
  for (int u = 0; u < WINDOWS; u++) measure(&s, u, 0, 1, u == 1 ? 1.01 : 1);
  v = judge(&s, AC_PRECISION_F32, NULL);
  assert_true(v.weights && !v.loss && !v.weight && !v.gradients);
  start(&s);
  measure_all(&s, 0, NAN);
  v = judge(&s, AC_PRECISION_F32, &(spread){(double[]){1, 1}, (double[]){1, 1}, 1});
  assert_int_equal(v.gradients, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rounding_is_the_same),
      cmocka_unit_test(sixteen_bits_are_no_excuse),
      cmocka_unit_test(nothing_excuses_one_window_far_off),
      cmocka_unit_test(a_kink_in_one_window_is_no_verdict),
      cmocka_unit_test(a_spread_explains_what_is_near_it),
      cmocka_unit_test(a_gradient_of_noise_is_held_against_all),
      cmocka_unit_test(rounding_by_chance_is_the_same),
      cmocka_unit_test(weight_loss_and_step_are_judged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
