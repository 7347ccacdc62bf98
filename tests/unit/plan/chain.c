/* Checkpointing of chains: against exhaustive search by the recurrence, against every persistent
 * schedule simulated, against the binomial formula for uniform chains. Sizes and times are small
 * whole numbers, so that costs are compared exactly. */
#include "support/check.h"

#include "core/platform/clock.h"
#include "plan/chain.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STAGES = 10, MAX_VARIANTS = 3, RANDOM_CHAINS = 400 };

typedef struct test_chain {
  ac_chain chain;
  ac_chain_stage stage[MAX_STAGES];
  ac_chain_variant variant[MAX_STAGES][MAX_VARIANTS];
} test_chain;

static uint64_t random_state = 1;

static int random_below(int limit) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((random_state >> 33) % (uint64_t)limit);
}

/* Later variants tend to save less and take longer, as in earnest, but need not. `scale` makes
 * bytes of small numbers. */
static void make_random(test_chain *it, int stages, uint64_t scale) {
  it->chain = (ac_chain){stages, it->stage, scale * (uint64_t)random_below(6)};
  for (int l = 0; l < stages; l++) {
    uint64_t output = scale * (uint64_t)random_below(6);
    int variants = 1 + random_below(MAX_VARIANTS);
    it->stage[l] = (ac_chain_stage){.forward = random_below(20),
                                    .output = output,
                                    .forward_peak = scale * (uint64_t)random_below(16),
                                    .variants = variants,
                                    .variant = it->variant[l]};
    for (int k = 0; k < variants; k++)
      it->variant[l][k] =
          (ac_chain_variant){.saved = output + scale * (uint64_t)random_below(12 - 3 * k),
                             .forward_peak = scale * (uint64_t)random_below(5),
                             .backward_peak = scale * (uint64_t)random_below(8),
                             .extra = random_below(1 + 10 * k),
                             .backward = random_below(30),
                             .drops_output = random_below(2)};
  }
}

static double seconds_of(const ac_chain *chain, const ac_chain_operation *operation) {
  const ac_chain_stage *stage = &chain->stage[operation->stage - 1];
  const ac_chain_variant *variant = &stage->variant[operation->variant];
  if (operation->kind == AC_CHAIN_BACKWARD) return variant->extra + variant->backward;
  return stage->forward;
}

/* What the solution says of a limit holds for the schedule that it gives. */
static void assert_schedule_keeps(const ac_chain_solution *solution, const ac_chain *chain,
                                  uint64_t limit) {
  const ac_chain_operation *operations;
  int count;
  uint64_t peak;
  double seconds, sum = 0;
  assert_ok(ac_chain_schedule(solution, limit, &operations, &count));
  assert_ok(ac_chain_simulate(chain, operations, count, &peak, &seconds));
  for (int i = 0; i < count; i++) sum += seconds_of(chain, &operations[i]);
  assert_true(peak <= limit);
  assert_true(seconds == ac_chain_seconds(solution, limit));
  assert_true(seconds == sum);
}

/* The most useful limit: all that the fastest schedule needs. */
static uint64_t plenty(const ac_chain_solution *solution) {
  const ac_chain_choice *choices;
  int count = ac_chain_choices(solution, &choices);
  assert_true(count > 0);
  return choices[count - 1].memory;
}

/* ---- exhaustive search ----------------------------------------------------------------------- */

static int64_t output_of(const ac_chain *chain, int l) {
  return (int64_t)(l ? chain->stage[l - 1].output : chain->input);
}

static double search(const ac_chain *chain, int s, int t, int64_t memory);

static double search_saving(const ac_chain *chain, int s, int t, int64_t memory) {
  const ac_chain_stage *stage = &chain->stage[s - 1];
  int64_t waiting = t < chain->stages ? output_of(chain, t) : 0;
  double best = INFINITY;
  for (int k = 0; k < stage->variants; k++) {
    const ac_chain_variant *variant = &stage->variant[k];
    int64_t saved = (int64_t)variant->saved, output = output_of(chain, s);
    if (waiting + saved + (int64_t)variant->forward_peak > memory) continue;
    int64_t at_backward = saved - (variant->drops_output ? output : 0);
    if (at_backward + output + (int64_t)variant->backward_peak > memory) continue;
    double inner = s < t ? search(chain, s + 1, t, memory - saved) : 0;
    best = fmin(best, stage->forward + inner + variant->extra + variant->backward);
  }
  return best;
}

/* The least seconds for stages s..t with `memory` bytes in addition to a[s-1]. No tables. */
static double search(const ac_chain *chain, int s, int t, int64_t memory) {
  if (memory < 0) return INFINITY;
  int64_t waiting = t < chain->stages ? output_of(chain, t) : 0;
  double best = search_saving(chain, s, t, memory), run = 0;
  for (int r = s; r < t; r++) {
    int64_t read = r > s ? output_of(chain, r - 1) : 0, output = output_of(chain, r);
    if (waiting + read + output + (int64_t)chain->stage[r - 1].forward_peak > memory) break;
    run += chain->stage[r - 1].forward;
    double later = search(chain, r + 1, t, memory - output);
    if (later < INFINITY) best = fmin(best, run + later + search(chain, s, r, memory));
  }
  return best;
}

static double search_all(const ac_chain *chain, uint64_t limit) {
  return search(chain, 1, chain->stages, (int64_t)limit - (int64_t)chain->input);
}

static void random_chains_cost_what_exhaustive_search_finds(void **state) {
  (void)state;
  random_state = 1;
  double seconds = 0;
  int limits = 0;
  for (int i = 0; i < RANDOM_CHAINS; i++) {
    test_chain it;
    make_random(&it, 1 + i % MAX_STAGES, 1);
    ac_chain_solution *solution;
    double start = ac_clock();
    assert_ok(ac_chain_solve(&solution, &it.chain, UINT64_MAX, 1000));
    seconds += ac_clock() - start;
    uint64_t least = ac_chain_least_memory(solution), most = plenty(solution);
    if (least) assert_true(search_all(&it.chain, least - 1) == INFINITY);
    if (least) assert_true(ac_chain_seconds(solution, least - 1) == INFINITY);
    double previous = INFINITY;
    for (int step = 0; step <= 6; step++, limits++) {
      uint64_t limit = least + (most - least) * (uint64_t)step / 5;
      double found = ac_chain_seconds(solution, limit);
      assert_true(found == search_all(&it.chain, limit));
      assert_true(found <= previous);
      assert_schedule_keeps(solution, &it.chain, limit);
      previous = found;
    }
    ac_chain_free(solution);
  }
  print_message("%d chains solved in %.3f s; %d limits compared\n", RANDOM_CHAINS, seconds, limits);
}

/* ---- every persistent schedule --------------------------------------------------------------- */

enum { MAX_OPERATIONS = 64, MAX_BYTES = 400 };

/* Operations so far, and what is still to be laid down: the stages s..t, or a backward pass. */
typedef struct task {
  int s, t, variant; /* variant -1: stages s..t */
} task;

typedef struct partial {
  ac_chain_operation operations[MAX_OPERATIONS];
  task tasks[2 * MAX_STAGES];
  int count, pending;
} partial;

typedef struct front {
  double best[MAX_BYTES]; /* by peak */
  long schedules;
} front;

static void append(partial *it, ac_chain_kind kind, int stage, int variant) {
  assert_true(it->count < MAX_OPERATIONS);
  it->operations[it->count++] = (ac_chain_operation){kind, stage, variant};
}

static void enumerate(const ac_chain *chain, const partial *so_far, front *all) {
  partial it = *so_far;
  if (!it.pending) {
    uint64_t peak;
    double seconds;
    assert_ok(ac_chain_simulate(chain, it.operations, it.count, &peak, &seconds));
    assert_true(peak < MAX_BYTES);
    all->best[peak] = fmin(all->best[peak], seconds);
    all->schedules++;
    return;
  }
  task now = it.tasks[--it.pending];
  if (now.variant >= 0) append(&it, AC_CHAIN_BACKWARD, now.s, now.variant);
  if (now.variant >= 0 || now.s > now.t) {
    enumerate(chain, &it, all);
    return;
  }
  for (int k = 0; k < chain->stage[now.s - 1].variants; k++) {
    partial save = it;
    append(&save, AC_CHAIN_SAVE, now.s, k);
    save.tasks[save.pending++] = (task){now.s, 0, k};
    save.tasks[save.pending++] = (task){now.s + 1, now.t, -1};
    enumerate(chain, &save, all);
  }
  for (int r = now.s + 1; r <= now.t; r++) {
    append(&it, AC_CHAIN_FORWARD, r - 1, 0);
    partial split = it;
    split.tasks[split.pending++] = (task){now.s, r - 1, -1};
    split.tasks[split.pending++] = (task){r, now.t, -1};
    enumerate(chain, &split, all);
  }
}

/* The recurrence is not used here: peaks come from lifetimes alone. */
static void no_persistent_schedule_is_better(void **state) {
  (void)state;
  random_state = 2;
  long schedules = 0;
  for (int i = 0; i < 120; i++) {
    test_chain it;
    make_random(&it, 1 + i % 5, 1);
    static front all;
    all.schedules = 0;
    for (int m = 0; m < MAX_BYTES; m++) all.best[m] = INFINITY;
    partial start = {.tasks = {{1, it.chain.stages, -1}}, .pending = 1};
    enumerate(&it.chain, &start, &all);
    schedules += all.schedules;
    ac_chain_solution *solution;
    assert_ok(ac_chain_solve(&solution, &it.chain, UINT64_MAX, MAX_BYTES));
    double best = INFINITY;
    for (int m = 0; m < MAX_BYTES; m++) {
      best = fmin(best, all.best[m]);
      assert_true(ac_chain_seconds(solution, (uint64_t)m) == best);
      if (best == INFINITY) assert_true((uint64_t)m < ac_chain_least_memory(solution));
    }
    ac_chain_free(solution);
  }
  print_message("%ld schedules simulated\n", schedules);
}

/* ---- uniform chains -------------------------------------------------------------------------- */

/* beta(c, r) = (c + r)! / (c! r!) */
static int64_t beta(int c, int r) {
  if (r < 0) return 0;
  int64_t value = 1;
  for (int i = 1; i <= r; i++) value = value * (c + i) / i;
  return value;
}

/* Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000): forward steps, those right
 * before a backward step not counted, to reverse `steps` with `checkpoints`, the initial state
 * being one of them: r steps - beta(checkpoints + 1, r - 1), r the least with steps <=
 * beta(checkpoints, r). */
static int64_t revolve(int steps, int checkpoints) {
  int r = 0;
  while (beta(checkpoints, r) < steps) r++;
  return (int64_t)r * steps - beta(checkpoints + 1, r - 1);
}

/* A stage saves too much for two to be saved at once, so that only boundaries can be kept: the
 * checkpoints, and the one that a stage is run from. */
static void uniform_chains_follow_the_binomial_schedule(void **state) {
  (void)state;
  enum { STEPS = 40, SAVED = 50 };
  static const ac_chain_variant variant = {.saved = SAVED, .backward = 1};
  ac_chain_stage stage[STEPS];
  for (int l = 0; l < STEPS; l++)
    stage[l] = (ac_chain_stage){.forward = 1, .output = 1, .variants = 1, .variant = &variant};
  for (int steps = 1; steps <= STEPS; steps++)
    for (int checkpoints = 1; checkpoints <= 8; checkpoints++) {
      ac_chain chain = {steps, stage, 1};
      ac_chain_solution *solution;
      uint64_t limit = (uint64_t)checkpoints + 1 + SAVED + 1;
      assert_ok(ac_chain_solve(&solution, &chain, limit, 1000));
      const ac_chain_operation *operations;
      int count;
      int64_t forwards = 0;
      assert_ok(ac_chain_schedule(solution, limit, &operations, &count));
      for (int i = 0; i < count; i++) forwards += operations[i].kind == AC_CHAIN_FORWARD;
      assert_int_equal(forwards, revolve(steps, checkpoints));
      assert_true(ac_chain_seconds(solution, limit) == (double)(forwards + 2 * steps));
      ac_chain_free(solution);
    }
}

/* With room for everything nothing runs twice, and every stage has its fastest variant. */
static void plenty_of_memory_recomputes_nothing(void **state) {
  (void)state;
  random_state = 3;
  for (int i = 0; i < 50; i++) {
    test_chain it;
    make_random(&it, MAX_STAGES, 997);
    double seconds = 0;
    for (int l = 0; l < MAX_STAGES; l++) {
      double best = INFINITY;
      for (int k = 0; k < it.stage[l].variants; k++)
        best = fmin(best, it.variant[l][k].extra + it.variant[l][k].backward);
      seconds += it.stage[l].forward + best;
    }
    ac_chain_solution *solution;
    assert_ok(ac_chain_solve(&solution, &it.chain, UINT64_MAX, 10 + i));
    assert_true(ac_chain_seconds(solution, UINT64_MAX) == seconds);
    ac_chain_free(solution);
  }
}

/* ---- few slots ------------------------------------------------------------------------------- */

/* Sizes that no slot divides. The bound is that of the file comment of chain.c. */
static void few_slots_are_safe_and_nearly_as_good(void **state) {
  (void)state;
  random_state = 4;
  enum { SLOTS = 64 };
  for (int i = 0; i < 60; i++) {
    test_chain it;
    make_random(&it, 1 + i % MAX_STAGES, 61);
    ac_chain_solution *exact, *coarse;
    assert_ok(ac_chain_solve(&exact, &it.chain, UINT64_MAX, AC_CHAIN_MAX_SLOTS));
    uint64_t least = ac_chain_least_memory(exact), most = plenty(exact);
    uint64_t top = least + (most - least) * (uint64_t)(1 + i % 4) / 4;
    assert_ok(ac_chain_solve(&coarse, &it.chain, top, SLOTS));
    assert_int_equal(ac_chain_least_memory(coarse), least);
    assert_true(ac_chain_seconds(coarse, least) < INFINITY);
    uint64_t rounding = (top / SLOTS + 1) * (uint64_t)(it.chain.stages + 1);
    double previous = INFINITY;
    for (uint64_t limit = least; limit <= top; limit += 1 + (top - least) / 50) {
      double found = ac_chain_seconds(coarse, limit);
      assert_true(found >= ac_chain_seconds(exact, limit));
      if (limit > rounding) assert_true(found <= ac_chain_seconds(exact, limit - rounding));
      assert_true(found <= previous);
      assert_schedule_keeps(coarse, &it.chain, limit);
      previous = found;
    }
    ac_chain_free(exact);
    ac_chain_free(coarse);
  }
}

static void choices_rise_in_memory_and_fall_in_seconds(void **state) {
  (void)state;
  random_state = 5;
  test_chain it;
  make_random(&it, MAX_STAGES, 7);
  ac_chain_solution *solution;
  assert_ok(ac_chain_solve(&solution, &it.chain, UINT64_MAX, 300));
  const ac_chain_choice *choices;
  int count = ac_chain_choices(solution, &choices);
  assert_true(count > 1);
  assert_int_equal(choices[0].memory, ac_chain_least_memory(solution));
  for (int i = 0; i < count; i++) {
    const ac_chain_operation *operations;
    int length;
    uint64_t peak;
    double seconds;
    assert_ok(ac_chain_schedule(solution, choices[i].memory, &operations, &length));
    assert_ok(ac_chain_simulate(&it.chain, operations, length, &peak, &seconds));
    assert_int_equal(peak, choices[i].memory);
    assert_true(seconds == choices[i].seconds);
    if (i) assert_true(choices[i].memory > choices[i - 1].memory);
    if (i) assert_true(choices[i].seconds < choices[i - 1].seconds);
  }
  ac_chain_free(solution);
}

static void a_limit_below_the_least_is_refused_when_asked_for(void **state) {
  (void)state;
  random_state = 6;
  test_chain it;
  make_random(&it, 6, 1 << 20);
  ac_chain_solution *solution;
  assert_ok(ac_chain_solve(&solution, &it.chain, UINT64_MAX, 100));
  uint64_t least = ac_chain_least_memory(solution);
  ac_chain_free(solution);
  assert_ok(ac_chain_solve(&solution, &it.chain, least - 1, 100));
  assert_int_equal(ac_chain_least_memory(solution), least);
  assert_true(ac_chain_seconds(solution, UINT64_MAX) == INFINITY);
  const ac_chain_operation *operations;
  int count;
  assert_refused(ac_chain_schedule(solution, least - 1, &operations, &count), AC_ERROR_BUDGET,
                 "chain: needs at least");
  ac_chain_free(solution);
  assert_ok(ac_chain_solve(&solution, &it.chain, least, 100));
  assert_schedule_keeps(solution, &it.chain, least);
  ac_chain_free(solution);
  ac_chain_free(NULL);
}

/* ---- a long chain ---------------------------------------------------------------------------- */

static void long_chains_are_solved_at_once(void **state) {
  (void)state;
  enum { STAGES = 120, VARIANTS = 4, SLOTS = 512 };
  random_state = 7;
  ac_chain_stage stage[STAGES];
  ac_chain_variant variant[STAGES][VARIANTS];
  for (int l = 0; l < STAGES; l++) {
    uint64_t output = (uint64_t)(1000 + random_below(9000)) * 1000;
    double forward = 1e-3 * (1 + random_below(50));
    stage[l] = (ac_chain_stage){forward, output, 2 * output, VARIANTS, variant[l]};
    for (int k = 0; k < VARIANTS; k++)
      variant[l][k] = (ac_chain_variant){.saved = (uint64_t)(16 - 4 * k) * output,
                                         .forward_peak = 3 * output,
                                         .backward_peak = 6 * output,
                                         .extra = 0.1 * k * forward,
                                         .backward = 2 * forward,
                                         .drops_output = true};
  }
  ac_chain chain = {STAGES, stage, 1000000};
  ac_chain_solution *solution;
  double start = ac_clock();
  assert_ok(ac_chain_solve(&solution, &chain, UINT64_MAX, SLOTS));
  const ac_chain_choice *choices;
  int count = ac_chain_choices(solution, &choices);
  print_message("%d stages, %d variants, %d slots: %.3f s, %d schedules\n", STAGES, VARIANTS, SLOTS,
                ac_clock() - start, count);
  assert_true(choices[0].memory * 20 < choices[count - 1].memory);
  ac_chain_free(solution);
}

/* ---- bad input ------------------------------------------------------------------------------- */

typedef struct one_stage {
  ac_chain chain;
  ac_chain_stage stage;
  ac_chain_variant variant;
} one_stage;

static const one_stage sound = {.chain = {.stages = 1, .input = 1},
                                .stage = {.forward = 1, .output = 2, .variants = 1},
                                .variant = {.saved = 4, .backward = 1}};

static ac_status solve_one(one_stage *it, int slots) {
  it->chain.stage = &it->stage;
  it->stage.variant = &it->variant;
  ac_chain_solution *solution;
  ac_status status = ac_chain_solve(&solution, &it->chain, 100, slots);
  if (status != AC_OK) assert_null(solution);
  ac_chain_free(solution);
  return status;
}

#define REFUSED_WITH(change, text)                               \
  do {                                                           \
    one_stage it = sound;                                        \
    it.change;                                                   \
    assert_refused(solve_one(&it, 10), AC_ERROR_ARGUMENT, text); \
  } while (0)

static void malformed_chains_are_refused(void **state) {
  (void)state;
  one_stage it = sound;
  assert_ok(solve_one(&it, 10));
  assert_refused(solve_one(&it, 0), AC_ERROR_ARGUMENT, "0 slots");
  assert_refused(solve_one(&it, AC_CHAIN_MAX_SLOTS + 1), AC_ERROR_ARGUMENT, "slots");
  REFUSED_WITH(chain.stages = 0, "0 stages");
  REFUSED_WITH(chain.stages = -3, "-3 stages");
  REFUSED_WITH(chain.stages = AC_CHAIN_MAX_STAGES + 1, "1025 stages");
  REFUSED_WITH(chain.input = UINT64_MAX, "the input");
  REFUSED_WITH(stage.variants = 0, "stage 1 has no variants");
  REFUSED_WITH(stage.forward = NAN, "stage 1: seconds");
  REFUSED_WITH(stage.forward = -1, "stage 1: seconds");
  REFUSED_WITH(stage.forward = INFINITY, "stage 1: seconds");
  REFUSED_WITH(stage.forward_peak = UINT64_MAX, "stage 1: a size");
  REFUSED_WITH(stage.output = 5, "less than its output of 5");
  REFUSED_WITH(variant.extra = NAN, "stage 1, variant 0: seconds");
  REFUSED_WITH(variant.backward = -1e-9, "stage 1, variant 0: seconds");
  REFUSED_WITH(variant.saved = UINT64_MAX, "stage 1, variant 0: a size");
  REFUSED_WITH(variant.forward_peak = UINT64_MAX, "stage 1, variant 0: a size");
  REFUSED_WITH(variant.backward_peak = UINT64_MAX, "stage 1, variant 0: a size");
}

typedef struct wrong_schedule {
  const char *text;
  int count;
  ac_chain_operation operations[8];
} wrong_schedule;

#define F AC_CHAIN_FORWARD
#define S AC_CHAIN_SAVE
#define B AC_CHAIN_BACKWARD

static void wrong_schedules_are_found(void **state) {
  (void)state;
  static const ac_chain_variant variants[2] = {{.saved = 9, .backward = 1},
                                               {.saved = 5, .extra = 1, .backward = 1}};
  static const ac_chain_stage stage[2] = {
      {.forward = 1, .output = 3, .variants = 2, .variant = variants},
      {.forward = 1, .output = 1, .variants = 2, .variant = variants}};
  ac_chain chain = {2, stage, 4};
  uint64_t peak;
  double seconds;
  static const ac_chain_operation good[] = {{F, 1, 0}, {S, 2, 1}, {B, 2, 1}, {S, 1, 0}, {B, 1, 0}};
  assert_ok(ac_chain_simulate(&chain, good, 5, &peak, &seconds));
  assert_int_equal(peak, 4 + 9 + 3); /* a[0], saved by stage 1, the gradient of a[1] */
  assert_true(seconds == 1 + 1 + 2 + 1 + 1);
  static const wrong_schedule wrong[] = {
      {"stage 1 has no backward", 0, {{0}}},
      {"stage 2 has no backward", 2, {{S, 1, 0}, {B, 1, 0}}},
      {"stage 1 makes is read", 3, {{S, 2, 1}, {B, 2, 1}, {B, 1, 0}}},
      {"by variant 1, not 0", 4, {{S, 1, 1}, {S, 2, 0}, {B, 2, 0}, {B, 1, 0}}},
      {"2 where 1 is due", 4, {{S, 1, 0}, {S, 2, 0}, {B, 1, 0}, {B, 2, 0}}},
      {"1 where 2 is due", 5, {{S, 1, 0}, {S, 2, 0}, {B, 2, 0}, {B, 1, 0}, {B, 1, 0}}},
      {"does not follow", 4, {{S, 2, 0}, {S, 1, 0}, {B, 2, 0}, {B, 1, 0}}},
      {"forward once", 5, {{S, 1, 0}, {F, 2, 0}, {S, 2, 0}, {B, 2, 0}, {B, 1, 0}}},
      {"forward once", 5, {{S, 1, 0}, {S, 2, 0}, {S, 2, 0}, {B, 2, 0}, {B, 1, 0}}},
      {"no stage 3", 1, {{S, 3, 0}}},
      {"no stage 0", 1, {{B, 0, 0}}},
      {"a variant 2", 1, {{S, 1, 2}}},
      {"a variant -1", 1, {{B, 1, -1}}}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_refused(ac_chain_simulate(&chain, wrong[i].operations, wrong[i].count, &peak, &seconds),
                   AC_ERROR_ARGUMENT, wrong[i].text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_chains_cost_what_exhaustive_search_finds),
      cmocka_unit_test(no_persistent_schedule_is_better),
      cmocka_unit_test(uniform_chains_follow_the_binomial_schedule),
      cmocka_unit_test(plenty_of_memory_recomputes_nothing),
      cmocka_unit_test(few_slots_are_safe_and_nearly_as_good),
      cmocka_unit_test(choices_rise_in_memory_and_fall_in_seconds),
      cmocka_unit_test(a_limit_below_the_least_is_refused_when_asked_for),
      cmocka_unit_test(long_chains_are_solved_at_once),
      cmocka_unit_test(malformed_chains_are_refused),
      cmocka_unit_test(wrong_schedules_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
