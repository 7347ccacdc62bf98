/* The gradient noise scale of several ranks: what a calculation in double says of each rank's own
 * gradient and of all, and batches that grow by it. */
#include "support/ranked_cases.h"

#include "core/share.h"
#include "window/trainer.h"

#include <math.h>

enum { POINT = 6, SAMPLES = 24, BATCH_SIZE = 11, EPOCHS = 2 };

/* ---- points ---------------------------------------------------------------------------------- */

static const float at = 0.5f; /* of each weight, which stays */

static float point(int64_t sample, int d) {
  return (float)((sample * 7 + d * 5) % 13) / 13 - 0.25f;
}

/* Some samples weigh more than others. */
static float weight_of(int64_t sample) {
  static const float weights[] = {1, 0.5f, 2};
  return weights[sample % 3];
}

static ac_status read_point(void *user, const ac_sample_key *key, void *const *fields) {
  float *one = fields[0], *x = fields[1], *weight = fields[2];
  (void)user;
  *one = 1;
  for (int d = 0; d < POINT; d++) x[d] = point(key->index, d);
  *weight = weight_of(key->index);
  return AC_OK;
}

static ac_graph *points_graph(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = at}};
  ac_tensor *one = ac_input(g, "one", AC_F32, SHAPE(AC_BATCH, 1)),
            *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, POINT)),
            *weight = ac_input(g, "weight", AC_F32, SHAPE(AC_BATCH)),
            *w = ac_parameter(g, "w", SHAPE(POINT, 1), &desc);
  ac_graph_set_loss(g, ac_mean_squared_error(ac_linear(one, w, NULL, AC_OUT_IN), x, weight));
  assert_ok(ac_graph_status(g));
  return g;
}

/* Each rank's share of a window is one micro-batch. */
static ranked_case points_case(bool whole_windows) {
  return (ranked_case){
      .graph = points_graph,
      .plan = {.batch = BATCH_SIZE,
               .micro_batch = whole_windows ? 0 : BATCH_SIZE,
               .whole_windows = whole_windows,
               .recompute = AC_RECOMPUTE_NONE},
      .trainer = {.schedule = {.lr = -1}, .optimizer = {.weight_decay = -1}, .noise_every = 1},
      .fit = {.epochs = EPOCHS, .no_shuffle = true},
      .data = {.count = SAMPLES,
               .field_count = 3,
               .fields = {{"one", AC_F32, 1}, {"x", AC_F32, POINT}, {"weight", AC_F32, 1}},
               .read = read_point}};
}

/* ---- in double ------------------------------------------------------------------------------- */

/* Of samples [first, first + count): their weight, and the squared norm of their mean gradient. */
static double mean_of(int64_t first, int64_t count, double *squares) {
  double sum[POINT] = {0}, weight = 0;
  *squares = 0;
  for (int64_t i = first; i < first + count; i++) {
    weight += (double)weight_of(i);
    for (int d = 0; d < POINT; d++)
      sum[d] += (double)weight_of(i) * 2 / POINT * ((double)at - (double)point(i, d));
  }
  for (int d = 0; d < POINT; d++) *squares += sum[d] / weight * (sum[d] / weight);
  return weight;
}

/* |G|^2 and tr Sigma of one window (observe/noise.c). */
static void add_window(int64_t first, int64_t count, int ranks, double *g, double *s) {
  double squares, all, small = 0, inverse = 0;
  const double weight = mean_of(first, count, &all), B = (double)count;
  int parts = 0;
  for (int r = 0; r < ranks; r++) {
    const int64_t share = ac_share_of(count, r, ranks);
    if (!share) continue;
    const double own = mean_of(first + ac_share_begin(count, r, ranks), share, &squares);
    small += squares;
    inverse += weight / (own * B); /* 1 / b, with b in samples of the window's mean weight */
    parts++;
  }
  small /= parts;
  inverse /= parts;
  const double b = 1 / inverse;
  *g = 0.995 * *g + 0.005 * (B * all - b * small) / (B - b);
  *s = 0.995 * *s + 0.005 * (small - all) / (inverse - 1 / B);
}

static void check_noise(const ac_noise_scale *noise, const int64_t *windows, int count, int ranks) {
  double g = 0, s = 0;
  int64_t first = 0;
  for (int w = 0; w < count; w++) {
    add_window(first, windows[w], ranks, &g, &s);
    first = (first + windows[w]) % SAMPLES;
  }
  const double corrected = 1 - pow(0.995, count);
  assert_int_equal(noise->windows, count);
  if (!(fabs(noise->gradient_squares * corrected - g) < 1e-5 * fabs(g) + 1e-7 * s))
    fail_msg("%d ranks: |G|^2 is %.9g, not %.9g", ranks, noise->gradient_squares, g / corrected);
  if (!(fabs(noise->variance * corrected - s) < 1e-5 * fabs(s)))
    fail_msg("%d ranks: the variance is %.9g, not %.9g", ranks, noise->variance, s / corrected);
}

/* ---- what is measured ------------------------------------------------------------------------ */

/* 11 samples are shares that are not alike, and of 2 samples some ranks have none. */
static void one_micro_batch_a_rank_is_measured(void **state) {
  static const int64_t windows[] = {11, 11, 2, 11, 11, 2};
  (void)state;
  for (int way = 0; way < 8; way++)
    for (int ranks = 2; ranks <= 4; ranks++) {
      ranked_case c = points_case(way & 1);
      ranked all[4];
      if (way & 4) c.plan.gradients = AC_GRADIENTS_SHARDED;
      if (way & 2) c.before = ranked_exchange_afterwards;
      ranked_run(&c, ranks, all);
      ranked_check_same(all, ranks);
      for (int r = 0; r < ranks; r++) check_noise(&all[r].noise, windows, 6, ranks);
      ranked_free(all, ranks);
    }
}

/* Which the trainer does not know to be the last micro-batch. */
static ac_status windows_by_hand(ac_trainer *trainer) {
  static const int64_t windows[] = {11, 2};
  const ac_plan_info *info = &trainer->instance.plan->info;
  int64_t next = BATCH_SIZE;
  for (int w = 0; w < 2; w++) {
    float one[BATCH_SIZE], x[BATCH_SIZE * POINT], weight[BATCH_SIZE];
    const int64_t first = ac_share_begin(windows[w], info->rank, info->ranks),
                  share = ac_share_of(windows[w], info->rank, info->ranks);
    for (int64_t i = 0; i < share; i++) {
      const ac_sample_key key = {.index = next + first + i};
      AC_TRY(read_point(NULL, &key, (void *[]){one + i, x + i * POINT, weight + i}));
    }
    next += windows[w];
    const ac_feed feeds[] = {{"one", one}, {"x", x}, {"weight", weight}};
    AC_TRY(ac_trainer_begin_share(trainer, first));
    if (share > 0) AC_TRY(ac_trainer_accumulate(trainer, share, feeds, 3));
    AC_TRY(ac_trainer_update(trainer, NULL));
  }
  return AC_OK;
}

static void loops_of_callers_are_measured(void **state) {
  static const int64_t windows[] = {11, 11, 2};
  (void)state;
  for (int whole = 0; whole < 2; whole++) {
    ranked_case c = points_case(whole);
    ranked all[3];
    c.fit.epochs = 0;
    c.fit.steps = 1;
    c.after = windows_by_hand;
    ranked_run(&c, 3, all);
    ranked_check_same(all, 3);
    for (int r = 0; r < 3; r++) check_noise(&all[r].noise, windows, 3, 3);
    ranked_free(all, 3);
  }
}

/* A window of one sample, and windows of one rank in one piece, have one mean only. */
static void one_mean_is_not_measured(void **state) {
  ranked all[2];
  (void)state;
  ranked_case c = points_case(true);
  ranked_run(&c, 1, all);
  ranked_check_same(all, 1);
  assert_int_equal(all[0].noise.windows, 0);
  ranked_free(all, 1);
  c.plan.batch = 1;
  ranked_run(&c, 2, all);
  ranked_check_same(all, 2);
  assert_int_equal(all[0].noise.windows, 0);
  ranked_free(all, 2);
}

/* ---- growth ---------------------------------------------------------------------------------- */

static ac_batch_stage grown[AC_MAX_BATCH_STAGES];
static int grown_count;

static ac_status keep_growth(ac_trainer *trainer) {
  if (trainer->instance.plan->info.rank) return AC_OK;
  return ac_trainer_get_growth(trainer, grown, &grown_count);
}

static void batches_grow_with_one_micro_batch_a_rank(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 4; ranks++) {
    ranked_case c = points_case(true);
    ranked all[4], again[4];
    c.trainer.schedule = (ac_schedule){.lr = 0.01};
    c.plan.gradients = ranks == 3 ? AC_GRADIENTS_SHARDED : AC_GRADIENTS_BUFFER;
    c.fit = (ac_fit_desc){.steps = 20, .seed = 4};
    c.fit.growth = (ac_batch_growth){.from = 2, .windows = 3, .factor = 1e-9};
    c.after = keep_growth;
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    assert_int_equal(grown_count, 4); /* 2, 4, 8, 11 */
    assert_int_equal(grown[3].batch, BATCH_SIZE);
    c.fit.growth.from = 0;
    c.fit.batches = grown;
    c.fit.batch_count = grown_count;
    c.after = NULL;
    ranked_run(&c, ranks, again);
    ranked_check_same(again, ranks);
    assert_int_equal(again[0].windows, all[0].windows);
    assert_memory_equal(again[0].samples, all[0].samples,
                        (size_t)all[0].windows * sizeof *all[0].samples);
    assert_memory_equal(again[0].parameters, all[0].parameters, 4 * all[0].parameter_count);
    ranked_free(all, ranks);
    ranked_free(again, ranks);
  }
}

static void one_sample_cannot_grow(void **state) {
  ranked all[2];
  ranked_case c = points_case(true);
  (void)state;
  c.fit.growth.from = 1;
  ranked_run(&c, 2, all);
  for (int r = 0; r < 2; r++)
    assert_non_null(
        strstr(all[r].sentence, "needs samples on two ranks, but the first batch is 1"));
  ranked_free(all, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_micro_batch_a_rank_is_measured),
      cmocka_unit_test(loops_of_callers_are_measured),
      cmocka_unit_test(one_mean_is_not_measured),
      cmocka_unit_test(batches_grow_with_one_micro_batch_a_rank),
      cmocka_unit_test(one_sample_cannot_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
