/* Windows that ranks share out: N ranks of this process against one rank with the same effective
 * batch. All ranks have the same bits, the same again in another run, and those of one rank but for
 * rounding. */
#include "support/models.h"
#include "support/ranked_cases.h"
#include "support/trainers.h"

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/share.h"
#include "io/safetensors.h"
#include "window/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a language model ------------------------------------------------------------------------ */

static ac_graph *gpt_fused(void) {
  return test_gpt_graph(&(test_gpt){.layers = 1,
                                    .width = RANKED_WIDTH,
                                    .context = RANKED_CONTEXT,
                                    .vocab = RANKED_VOCAB,
                                    .heads = 2,
                                    .dropout = 0.1f,
                                    .fused = true});
}

static void check_optimizer(ac_optimizer_kind optimizer, double tolerance) {
  const ranked_case c = ranked_gpt_case(optimizer);
  ranked_check_case(&c, tolerance);
}

/* ---- a loop of the caller's own -------------------------------------------------------------- */

/* Each rank gives its own share of a window; of the second window some ranks have no sample. */
static ac_status loop_of_its_own(ac_trainer *trainer) {
  static const int64_t windows[] = {5, 1, 8, 2};
  const ac_plan_info *info = &trainer->instance.plan->info;
  int64_t next = 0;
  for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
    int32_t tokens[8 * RANKED_CONTEXT], targets[8 * RANKED_CONTEXT];
    const int64_t first = ac_share_begin(windows[w], info->rank, info->ranks),
                  share = ac_share_of(windows[w], info->rank, info->ranks);
    for (int64_t i = 0; i < share; i++) {
      const ac_sample_key key = {.index = next + first + i};
      void *const fields[] = {tokens + i * RANKED_CONTEXT, targets + i * RANKED_CONTEXT};
      AC_TRY(ranked_read_tokens(NULL, &key, fields));
    }
    next += windows[w];
    const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
    AC_TRY(ac_trainer_begin_share(trainer, first));
    if (share > 0) AC_TRY(ac_trainer_accumulate(trainer, share, feeds, 2));
    AC_TRY(ac_trainer_update(trainer, NULL));
  }
  return AC_OK;
}

static void loops_of_callers_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  c.after = loop_of_its_own;
  c.fit.steps = 1;
  ranked_check_case(&c, 1e-5);
}

/* ---- state files ----------------------------------------------------------------------------- */

static size_t kept_count;

/* All moments of a state file one after another; free them. Of 8 bits the bytes. */
static float *kept_states(const char *path) {
  ac_model_file *file;
  float *all = NULL;
  kept_count = 0;
  assert_ok(ac_model_file_open(&file, path));
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const ac_model_tensor *tensor = ac_model_file_tensor(file, i);
    if (strncmp(tensor->name, "accrue/state.", 13)) continue;
    int64_t count = 1;
    for (int d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
    all = realloc(all, (kept_count + (size_t)count) * sizeof *all);
    assert_non_null(all);
    if (tensor->dtype == AC_F32) {
      assert_ok(ac_model_file_read(file, i, 0, count, all + kept_count));
    } else {
      uint8_t *bytes = malloc((size_t)count);
      assert_ok(ac_model_file_read_stored(file, i, 0, count, bytes));
      for (int64_t k = 0; k < count; k++) all[kept_count + (size_t)k] = bytes[k];
      free(bytes);
    }
    kept_count += (size_t)count;
  }
  ac_model_file_close(file);
  return all;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void adamw_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_ADAMW, 1e-5);
}

static void sgd_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_SGD, 1e-5);
}

static void adafactor_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_ADAFACTOR, 1e-5);
}

static void adam_mini_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_ADAM_MINI, 1e-5);
}

static void muon_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_MUON, 1e-5);
}

static void lion_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_LION, 1e-3); /* a sign near zero may turn */
}

static void fused_losses_and_clipping_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  c.graph = gpt_fused;
  c.plan.optimizer.clip = 0.5;
  c.plan.read_ahead = 1;
  ranked_check_case(&c, 1e-5);
}

static void windows_at_the_ends_of_epochs_are_those_of_one_rank(void **state) {
  (void)state;
  const ac_last_window policies[] = {AC_LAST_UPDATE, AC_LAST_CARRY, AC_LAST_DROP};
  for (int i = 0; i < 3; i++) {
    ranked_case c = ranked_gpt_case(AC_ADAMW);
    c.data.count = 17; /* 8, 8, 1: with several ranks all but one have no sample of the last */
    c.fit.last_window = policies[i];
    c.plan.read_ahead = i; /* none, and loaders */
    ranked_check_case(&c, 1e-5);
  }
}

static void states_in_8_bits_are_near_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  c.plan.optimizer.state = AC_STATE_8BIT;
  ranked_check_case(&c, 1e-3);
}

static void gradients_in_bf16_are_near_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  c.plan.precision = AC_PRECISION_BF16;
  c.plan.gradient_storage = AC_GRADIENT_BF16;
  c.plan.weights = AC_WEIGHTS_BF16;
  ranked_check_case(&c, 0.05);
}

static void averages_groups_and_schedules_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  c.plan.average = true;
  c.trainer.schedule =
      (ac_schedule){.kind = AC_SCHEDULE_COSINE, .lr = 0.01, .warmup = 4, .total = RANKED_UPDATES};
  c.trainer.groups[0] = (ac_parameter_group){.patterns = "wte*", .settings = {.rate = 0.5}};
  c.trainer.group_count = 1;
  c.trainer.spikes.policy = AC_SPIKE_SKIP;
  ranked_check_case(&c, 1e-5);
}

/* ---- images: what batch norms pool, and overflows -------------------------------------------- */

enum { BAD = 9 };

/* Micro-batches of two are the same samples with 1, 2 and 3 ranks; with 4 ranks of three samples
 * they are not, and so are their statistics. */
static void pooled_statistics_are_those_of_one_rank(void **state) {
  (void)state;
  const ranked_case c = ranked_feature_case(ranked_norms);
  ranked_check_near_one(&c, 3, 1e-5);
}

/* Exact, they are those of the whole window, whatever ranks and micro-batches it is divided into:
 * five ranks have uneven shares, and of a window of three samples two of them have none. Three
 * values may be so near each other that their spread has fewer digits than they have. */
static void exact_statistics_are_those_of_one_rank(void **state) {
  static const int64_t batches[] = {12, 3}, sizes[] = {3, 1};
  (void)state;
  for (int i = 0; i < 2; i++) {
    ranked_case c = ranked_feature_case(ranked_norms);
    c.plan.batch = batches[i];
    c.plan.micro_batch = 0;
    c.plan.batch_norm = AC_BATCH_NORM_WHOLE;
    ranked one, many[5];
    ranked_run(&c, 1, &one);
    ranked_check_same(&one, 1);
    c.plan.batch_norm = AC_BATCH_NORM_EXACT;
    for (int ranks = 1; ranks <= 5; ranks++) {
      c.plan.micro_batch = ranks < 4 ? sizes[i] : 1;
      ranked_run(&c, ranks, many);
      ranked_check_same(many, ranks);
      ranked_check_near(&one, many, i ? 1e-4 : 1e-5);
      ranked_free(many, ranks);
    }
    ranked_free(&one, 1);
  }
}

/* A caller's loop may give rank 0 no sample; ac_fit does not. */
static ac_status leave_out_rank_0(ac_trainer *trainer) {
  const float x[2 * RANKED_FEATURES] = {1, 2, 3}, t[2 * RANKED_CLASSES] = {1};
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  const int rank = trainer->exchange.rank;
  AC_TRY(ac_trainer_begin_share(trainer, rank ? 2 * (rank - 1) : 0));
  if (rank) AC_TRY(ac_trainer_accumulate(trainer, 2, feeds, 2));
  return ac_trainer_update(trainer, NULL);
}

static void exact_statistics_need_a_sample_on_rank_0(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_norms);
  ranked all[3];
  c.plan.batch_norm = AC_BATCH_NORM_EXACT;
  c.fit.steps = 1;
  c.after = leave_out_rank_0;
  ranked_run(&c, 3, all);
  for (int r = 0; r < 3; r++) {
    assert_int_not_equal(all[r].status, AC_OK);
    assert_contains(all[r].sentence, "with exact batch norm rank 0 needs a sample");
  }
  ranked_free(all, 3);
}

/* The sample is read by one rank alone. */
static void an_overflow_on_one_rank_skips_the_window_everywhere(void **state) {
  static int bad = BAD;
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  c.plan.precision = AC_PRECISION_F16;
  c.data.user = &bad;
  ranked one;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  assert_true(one.result.skipped > 0 && one.result.skipped < RANKED_UPDATES);
  assert_true(one.update[RANKED_UPDATES - 1].loss_scale < one.update[0].loss_scale);
  ranked_free(&one, 1);
  ranked_check_case(&c, 1e-3);
  c.fit.replay = false;
  bad = -1;
  ranked_check_case(&c, 1e-3);
}

/* What measuring costs is a part of what a rank's own share takes, not of what all take. */
static void noise_is_not_measured_more_often_by_several_ranks(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked one, all[3];
  c.trainer.noise_every = -1;
  c.fit.steps = 200;
  c.plan.batch = 4;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  c.plan.batch = 12;
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  assert_true(one.noise.windows > 1 && one.noise.windows < 100);
  /* Steps of an update, which are shared out, are not counted. */
  assert_in_range(all[0].noise.windows, one.noise.windows / 2, one.noise.windows);
  ranked_free(&one, 1);
  ranked_free(all, 3);
}

/* ---- memory and states ----------------------------------------------------------------------- */

/* Each rank keeps its part of the optimizer's state alone, and takes what its plan says. */
static void each_rank_keeps_its_part_of_the_state(void **state) {
  const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_SGD, AC_ADAFACTOR, AC_MUON, AC_ADAM_MINI};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    ranked_case c = ranked_gpt_case(kinds[k]);
    c.fit.steps = 2;
    ranked one, many[4];
    ranked_run(&c, 1, &one);
    ranked_check_same(&one, 1);
    ranked_run(&c, 4, many);
    ranked_check_same(many, 4);
    uint64_t all = 0;
    for (int r = 0; r < 4; r++) {
      assert_true(many[r].peak == many[r].planned);
      assert_true(many[r].optimizer_bytes < one.optimizer_bytes);
      all += many[r].optimizer_bytes;
    }
    if (kinds[k] == AC_ADAMW)
      for (int r = 0; r < 4; r++)
        assert_true(many[r].optimizer_bytes < one.optimizer_bytes / 4 + 16 * 1024);
    assert_true(all >= one.optimizer_bytes && all < one.optimizer_bytes + (64 << 10));
    ranked_free(&one, 1);
    ranked_free(many, 4);
  }
}

/* Runs so many updates on so many ranks, from one state file to another. */
static void go_on(ranked_case c, int ranks, int64_t steps, const char *from, const char *to,
                  ranked *all) {
  c.fit.steps = steps;
  c.fit.resume = from != NULL;
  c.load = from;
  c.save = to;
  ranked_run(&c, ranks, all);
  ranked_check_same(all, ranks);
}

static void check_resuming(const ranked_case *c, double tolerance) {
  static const char *const files[] = {"ranks_a.state", "ranks_b.state", "ranks_c.state",
                                      "ranks_d.state"};
  ranked one, all[8];
  go_on(*c, 1, 20, NULL, files[0], &one);
  float *undisturbed = kept_states(files[0]), *moments;
  const int ranks[] = {4, 3, 8, 1};
  for (int i = 0; i < 4; i++) {
    go_on(*c, ranks[i], 5 * (i + 1), i ? files[i - 1] : NULL, files[i], all);
    if (i < 3) ranked_free(all, ranks[i]);
  }
  assert_int_equal(all[0].parameter_count, one.parameter_count);
  assert_true(distance(one.parameters, all[0].parameters, one.parameter_count) <= tolerance);
  moments = kept_states(files[3]);
  assert_true(distance(undisturbed, moments, kept_count) <= 10 * tolerance);
  ranked_free(all, 1);
  ranked_free(&one, 1);
  free(undisturbed);
  free(moments);
  /* The same number of ranks: equal bits, and the same file. */
  ranked first[3], second[3];
  go_on(*c, 3, 20, NULL, files[0], first);
  go_on(*c, 3, 9, NULL, files[1], second);
  ranked_free(second, 3);
  go_on(*c, 3, 20, files[1], files[2], second);
  assert_memory_equal(first[0].parameters, second[0].parameters, 4 * first[0].parameter_count);
  undisturbed = kept_states(files[0]);
  moments = kept_states(files[2]);
  assert_memory_equal(undisturbed, moments, kept_count * sizeof(float));
  free(undisturbed);
  free(moments);
  ranked_free(first, 3);
  ranked_free(second, 3);
  for (int i = 0; i < 4; i++) remove(files[i]);
}

static void a_state_goes_on_at_any_number_of_ranks(void **state) {
  const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_MUON, AC_ADAFACTOR};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const ranked_case c = ranked_gpt_case(kinds[k]);
    check_resuming(&c, 1e-5);
  }
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  c.plan.optimizer.state = AC_STATE_8BIT;
  check_resuming(&c, 1e-2);
}

/* ---- failures -------------------------------------------------------------------------------- */

static ac_status fail_to_read(void *user, const ac_sample_key *key, void *const *fields) {
  if (ranked_rank() == 1 && key->index == 20) return AC_ERROR_IO;
  return ranked_read_features(user, key, fields);
}

static void a_rank_that_cannot_read_ends_all(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[3];
  c.data.read = fail_to_read;
  ranked_run(&c, 3, all);
  for (int r = 0; r < 3; r++) {
    assert_int_not_equal(all[r].status, AC_OK);
    assert_contains(all[r].sentence, "dataset: reading sample 20 failed");
  }
  ranked_free(all, 3);
}

static void take_8_bits(ac_plan_desc *plan) {
  plan->optimizer.state = AC_STATE_8BIT;
}

static void clip_more(ac_plan_desc *plan) {
  plan->optimizer.clip = 0.25;
}

static void check_refused(void (*vary)(ac_plan_desc *plan), const char *sentence) {
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  ranked all[3];
  c.plan.optimizer.clip = 1;
  c.vary = vary;
  ranked_run(&c, 3, all);
  for (int r = 0; r < 3; r++) {
    assert_int_not_equal(all[r].status, AC_OK);
    assert_contains(all[r].sentence, sentence);
  }
  ranked_free(all, 3);
}

static void ranks_with_other_settings_are_refused(void **state) {
  (void)state;
  check_refused(take_8_bits, "ranks must agree on the optimizer's state: it is \"f32\" on rank 0 "
                             "and \"8 bits\" on rank 2");
  check_refused(clip_more, "ranks must agree on the clipping: it is \"1\" on rank 0");
}

/* Rank 1 takes longer for a micro-batch than the others wait for one that is silent. */
static ac_status read_slowly(void *user, const ac_sample_key *key, void *const *fields) {
  if (ranked_rank() == 1) ac_sleep(0.3);
  return ranked_read_features(user, key, fields);
}

static void a_slow_rank_is_waited_for(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[2];
  c.plan.micro_batch = 6;
  c.data.read = read_slowly;
  c.fit.steps = 1;
  c.validation = 12;
  c.ranks.timeout = 1;
  ranked_run(&c, 2, all);
  ranked_check_same(all, 2);
  assert_true(all[0].result.seconds > 1.2);
  ranked_free(all, 2);
}

/* The window after which rank 0 stops is the last of its epoch, which nobody reports then. */
static void ranks_stop_together(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[3];
  c.stop_after = 4;
  c.fit.epochs_end = true;
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  for (int r = 0; r < 3; r++) {
    assert_true(all[r].result.stopped);
    assert_int_equal(all[r].windows, 4);
    assert_int_equal(all[r].epochs, 0);
  }
  ranked_free(all, 3);
}

/* Devices round norms in different ways, and each rank measures its part alone; all decide by what
 * the ranks' measures come to. Here each has measured something else. */
static ac_status measure_otherwise(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_exchange *e = &trainer->exchange;
  ac_update update;
  const float x[2 * RANKED_FEATURES] = {1}, t[2 * RANKED_CLASSES] = {0};
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  AC_TRY(ac_trainer_accumulate(trainer, 2, feeds, 2));
  AC_TRY(ac_trainer_update(trainer, &update));
  double squares = 0;
  for (int i = 0; i < plan->cell_count; i++)
    if (plan->cells[i].role == AC_ROLE_STATISTICS)
      squares += ac_trainer_squares(trainer, &plan->cells[i]);
  const double norm = sqrt(squares) / update.weight;
  if (fabs(norm - update.grad_norm) <= 1e-6 * norm && e->ranks == 3 && norm > 0) return AC_OK;
  return ac_fail(AC_ERROR_INTERNAL, "the norm is %.9g, but %.9g of all parts", update.grad_norm,
                 norm);
}

static void all_ranks_have_the_measures_of_all(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[3];
  c.fit.steps = 1;
  c.after = measure_otherwise;
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  ranked_free(all, 3);
}

/* Adaptive clipping measures units, which are not cut then; by value single elements. */
static void clipped_gradients_are_those_of_one_rank(void **state) {
  (void)state;
  const ac_clipping kinds[] = {AC_CLIP_VALUE, AC_CLIP_ADAPTIVE, AC_CLIP_EACH};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    ranked_case c = ranked_gpt_case(AC_ADAMW);
    c.plan.optimizer.clip = 0.02;
    c.plan.optimizer.clipping = kinds[k];
    ranked_check_case(&c, 1e-5);
  }
}

static int64_t clipped[RANKED_MOST]; /* elements, by rank */

static ac_status count_clipped(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  int64_t count = 0;
  for (int i = 0; i < plan->main.step_count; i++) {
    const ac_step *step = &plan->main.steps[i];
    if (ac_node_at(plan->graph, step->node)->op != AC_OP_clip) continue;
    const int64_t all = ac_shape_count(&ac_tensor_at(plan->graph, step->in[0].tensor)->shape);
    count += step->part.count ? step->part.count : all;
  }
  clipped[plan->info.rank] = count;
  return AC_OK;
}

/* By the rank that steps it, and by no other. */
static void each_gradient_is_clipped_once(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    ranked_case c = ranked_feature_case(ranked_plain);
    ranked all[3];
    c.plan.optimizer.clip = 0.02;
    c.plan.optimizer.clipping = k ? AC_CLIP_ADAPTIVE : AC_CLIP_VALUE;
    c.fit.steps = 1;
    c.after = count_clipped;
    ranked_run(&c, 3, all);
    ranked_check_same(all, 3);
    assert_int_equal(clipped[0] + clipped[1] + clipped[2], all[0].parameter_count);
    ranked_free(all, 3);
  }
}

/* ---- a simulated network --------------------------------------------------------------------- */

enum { SEEDS = 12 };

/* Delays and messages that overtake each other change nothing. */
static void delays_change_no_bit(void **state) {
  (void)state;
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  ranked calm[3], all[3];
  c.fit.steps = 4;
  c.fit.eval_every = 2;
  ranked_run(&c, 3, calm);
  ranked_check_same(calm, 3);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    c.ranks = (ac_ranks_threads_desc){.seed = seed, .latency = 1e-3, .bandwidth = 1e8};
    ranked_run(&c, 3, all);
    ranked_check_same(all, 3);
    assert_memory_equal(all[0].parameters, calm[0].parameters, 4 * calm[0].parameter_count);
    ranked_free(all, 3);
  }
  ranked_free(calm, 3);
}

/* A rank that dies at any message ends all, in simulated time; nobody has a wrong result. */
static void a_rank_that_dies_ends_all(void **state) {
  (void)state;
  ranked_case c = ranked_gpt_case(AC_ADAMW);
  ranked calm[3], all[3];
  c.fit.steps = 2;
  c.fit.eval_every = 1;
  ranked_run(&c, 3, calm);
  ranked_check_same(calm, 3);
  int died = 0;
  for (int kind = 0; kind < 2; kind++)
    for (int64_t at = 1; at <= 40; at += kind ? 5 : 1) {
      c.ranks = (ac_ranks_threads_desc){.seed = (uint64_t)at};
      if (kind) c.ranks.lost_rank = (int)(at % 3), c.ranks.lost_at = at;
      else c.ranks.killed_rank = (int)(at % 3), c.ranks.killed_at = at;
      ranked_run(&c, 3, all);
      for (int r = 0; r < 3; r++) {
        if (all[r].status != AC_OK) assert_true(strlen(all[r].sentence) > 10);
        else
          assert_memory_equal(all[r].parameters, calm[0].parameters, 4 * calm[0].parameter_count);
      }
      died += all[0].status != AC_OK && all[1].status != AC_OK && all[2].status != AC_OK;
      ranked_free(all, 3);
    }
  assert_true(died >= 30);
  ranked_free(calm, 3);
}

/* ---- several losses -------------------------------------------------------------------------- */

/* Each is divided by its own weight, which all ranks count before a window. */
static ac_graph *two_losses(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES)),
            *a = ac_input(g, "a", AC_I32, SHAPE(AC_BATCH)),
            *b = ac_input(g, "b", AC_I32, SHAPE(AC_BATCH));
  const ac_cross_entropy_desc desc = {.ignore = true, .ignore_index = -1};
  x = ac_relu(ac_linear(x, test_matrix(g, "body", "w", 24, RANKED_FEATURES), NULL, AC_OUT_IN));
  ac_tensor *u = ac_linear(x, test_matrix(g, "u", "w", RANKED_CLASSES, 24), NULL, AC_OUT_IN),
            *v = ac_linear(x, test_matrix(g, "v", "w", RANKED_CLASSES, 24), NULL, AC_OUT_IN);
  ac_graph_add_loss(g, "a", ac_cross_entropy(u, a, NULL, &desc), 1);
  ac_graph_add_loss(g, "b", ac_cross_entropy(v, b, NULL, &desc), 0.5f);
  assert_ok(ac_graph_status(g));
  return g;
}

static ac_status read_two(void *user, const ac_sample_key *key, void *const *fields) {
  float *x = fields[0];
  (void)user;
  for (int i = 0; i < RANKED_FEATURES; i++)
    x[i] = (float)((key->index * 5 + i * 3) % 11) / 11 - 0.5f;
  *(int32_t *)fields[1] = key->index % 3 ? (int32_t)(key->index % RANKED_CLASSES) : -1;
  *(int32_t *)fields[2] = key->index % 5 ? -1 : (int32_t)((key->index + 1) % RANKED_CLASSES);
  return AC_OK;
}

static void several_losses_are_divided_by_all_weights(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(two_losses);
  c.plan.read_ahead = 1;
  c.data.count = 31;
  c.data.field_count = 3;
  c.data.fields[1] = (ac_field){"a", AC_I32, 1};
  c.data.fields[2] = (ac_field){"b", AC_I32, 1};
  c.data.read = read_two;
  ranked_check_case(&c, 1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adamw_is_that_of_one_rank),
      cmocka_unit_test(sgd_is_that_of_one_rank),
      cmocka_unit_test(lion_is_that_of_one_rank),
      cmocka_unit_test(adafactor_is_that_of_one_rank),
      cmocka_unit_test(adam_mini_is_that_of_one_rank),
      cmocka_unit_test(muon_is_that_of_one_rank),
      cmocka_unit_test(fused_losses_and_clipping_are_those_of_one_rank),
      cmocka_unit_test(windows_at_the_ends_of_epochs_are_those_of_one_rank),
      cmocka_unit_test(states_in_8_bits_are_near_those_of_one_rank),
      cmocka_unit_test(gradients_in_bf16_are_near_those_of_one_rank),
      cmocka_unit_test(averages_groups_and_schedules_are_those_of_one_rank),
      cmocka_unit_test(pooled_statistics_are_those_of_one_rank),
      cmocka_unit_test(an_overflow_on_one_rank_skips_the_window_everywhere),
      cmocka_unit_test(noise_is_not_measured_more_often_by_several_ranks),
      cmocka_unit_test(each_rank_keeps_its_part_of_the_state),
      cmocka_unit_test(a_state_goes_on_at_any_number_of_ranks),
      cmocka_unit_test(several_losses_are_divided_by_all_weights),
      cmocka_unit_test(ranks_with_other_settings_are_refused),
      cmocka_unit_test(a_slow_rank_is_waited_for),
      cmocka_unit_test(delays_change_no_bit),
      cmocka_unit_test(a_rank_that_dies_ends_all),
      cmocka_unit_test(a_rank_that_cannot_read_ends_all),
      cmocka_unit_test(ranks_stop_together),
      cmocka_unit_test(loops_of_callers_are_those_of_one_rank),
      cmocka_unit_test(all_ranks_have_the_measures_of_all),
      cmocka_unit_test(exact_statistics_are_those_of_one_rank),
      cmocka_unit_test(exact_statistics_need_a_sample_on_rank_0),
      cmocka_unit_test(clipped_gradients_are_those_of_one_rank),
      cmocka_unit_test(each_gradient_is_clipped_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
