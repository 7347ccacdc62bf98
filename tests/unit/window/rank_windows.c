/* Windows that ranks share out: N ranks of this process against one rank with the same effective
 * batch. All ranks have the same bits, the same again in another run, and those of one rank but for
 * rounding. */
#include "support/devices.h"
#include "support/models.h"
#include "support/ranked.h"
#include "support/trainers.h"

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/threads.h"
#include "core/share.h"
#include "io/safetensors.h"
#include "window/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT = 6, VOCAB = 32, WIDTH = 32, SAMPLES = 43, UPDATES = 20 };

/* ---- a language model ------------------------------------------------------------------------ */

static ac_graph *gpt(void) {
  return test_gpt_graph(&(test_gpt){.layers = 1,
                                    .width = WIDTH,
                                    .context = CONTEXT,
                                    .vocab = VOCAB,
                                    .heads = 2,
                                    .dropout = 0.1f});
}

static ac_graph *gpt_fused(void) {
  return test_gpt_graph(&(test_gpt){.layers = 1,
                                    .width = WIDTH,
                                    .context = CONTEXT,
                                    .vocab = VOCAB,
                                    .heads = 2,
                                    .dropout = 0.1f,
                                    .fused = true});
}

/* Sequences of unequal length: sample k has 1 + k % CONTEXT tokens that count. */
static ac_status read_tokens(void *user, const ac_sample_key *key, void *const *fields) {
  int32_t *tokens = fields[0], *targets = fields[1];
  (void)user;
  for (int64_t t = 0; t < CONTEXT; t++) {
    tokens[t] = (int32_t)((key->index * 7 + t * 3) % VOCAB);
    targets[t] = t <= key->index % CONTEXT ? (int32_t)((key->index * 7 + t * 3 + 3) % VOCAB) : -1;
  }
  return AC_OK;
}

static ranked_case gpt_case(ac_optimizer_kind optimizer) {
  return (ranked_case){
      .graph = gpt,
      .plan = {.batch = 8,
               .micro_batch = 3,
               .optimizer = {.kind = optimizer},
               .frozen = "*qkv.b"}, /* gradients of keys' biases are rounding alone */
      .trainer = {.seed = 5, .schedule = {.lr = 0.01}, .noise_every = 3},
      .fit = {.steps = UPDATES, .seed = 11, .eval_every = 7},
      .validation = 13,
      .data = {.count = SAMPLES,
               .field_count = 2,
               .fields = {{"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}},
               .read = read_tokens}};
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void check_near(const ranked *one, const ranked *many, double tolerance) {
  assert_int_equal(many->windows, one->windows);
  for (int i = 0; i < one->windows; i++) {
    assert_int_equal(many->samples[i], one->samples[i]);
    assert_int_equal(many->update[i].skipped, one->update[i].skipped);
    assert_true(many->update[i].weight == one->update[i].weight);
    assert_true(many->update[i].loss_scale == one->update[i].loss_scale);
    const double error = fabs(many->update[i].loss - one->update[i].loss);
    if (!(error <= tolerance * fabs(one->update[i].loss)) && !one->update[i].skipped)
      fail_msg("window %d of %d ranks: loss %.9g, but %.9g with one", i, many->ranks,
               many->update[i].loss, one->update[i].loss);
  }
  assert_int_equal(many->result.updates, one->result.updates);
  const double validated = fabs(many->result.final.loss - one->result.final.loss);
  if (!(validated <= tolerance * fabs(one->result.final.loss)))
    fail_msg("the validation loss of %d ranks is %.9g, but %.9g with one", many->ranks,
             many->result.final.loss, one->result.final.loss);
  const double apart = distance(one->parameters, many->parameters, one->parameter_count);
  if (!(apart <= tolerance))
    fail_msg("parameters of %d ranks are %g from those of one", many->ranks, apart);
  if (one->noise.windows) assert_int_equal(many->noise.windows, one->noise.windows);
}

static ac_status exchange_afterwards(ac_trainer *trainer) {
  trainer->exchange.overlap.never = true;
  return AC_OK;
}

/* Another run, which exchanges gradients after the last micro-batch and not while it runs, has the
 * same bits. */
static void check_case(const ranked_case *c, double tolerance) {
  ranked one, many[4], again[4];
  ranked_case afterwards = *c;
  afterwards.before = exchange_afterwards;
  ranked_run(c, 1, &one);
  ranked_check_same(&one, 1);
  for (int ranks = 2; ranks <= 4; ranks++) {
    ranked_run(c, ranks, many);
    ranked_check_same(many, ranks);
    check_near(&one, many, tolerance);
    ranked_run(&afterwards, ranks, again);
    ranked_check_same(again, ranks);
    assert_memory_equal(again[0].parameters, many[0].parameters, 4 * many[0].parameter_count);
    ranked_free(many, ranks);
    ranked_free(again, ranks);
  }
  ranked_free(&one, 1);
}

static void check_optimizer(ac_optimizer_kind optimizer, double tolerance) {
  const ranked_case c = gpt_case(optimizer);
  check_case(&c, tolerance);
}

/* ---- a loop of the caller's own -------------------------------------------------------------- */

/* Each rank gives its own share of a window; of the second window some ranks have no sample. */
static ac_status loop_of_its_own(ac_trainer *trainer) {
  static const int64_t windows[] = {5, 1, 8, 2};
  const ac_plan_info *info = &trainer->instance.plan->info;
  int64_t next = 0;
  for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
    int32_t tokens[8 * CONTEXT], targets[8 * CONTEXT];
    const int64_t first = ac_share_begin(windows[w], info->rank, info->ranks),
                  share = ac_share_of(windows[w], info->rank, info->ranks);
    for (int64_t i = 0; i < share; i++) {
      const ac_sample_key key = {.index = next + first + i};
      void *const fields[] = {tokens + i * CONTEXT, targets + i * CONTEXT};
      AC_TRY(read_tokens(NULL, &key, fields));
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
  ranked_case c = gpt_case(AC_ADAMW);
  c.after = loop_of_its_own;
  c.fit.steps = 1;
  check_case(&c, 1e-5);
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
  ranked_case c = gpt_case(AC_ADAMW);
  c.graph = gpt_fused;
  c.plan.optimizer.clip = 0.5;
  c.plan.read_ahead = 1;
  check_case(&c, 1e-5);
}

static void windows_at_the_ends_of_epochs_are_those_of_one_rank(void **state) {
  (void)state;
  const ac_last_window policies[] = {AC_LAST_UPDATE, AC_LAST_CARRY, AC_LAST_DROP};
  for (int i = 0; i < 3; i++) {
    ranked_case c = gpt_case(AC_ADAMW);
    c.data.count = 17; /* 8, 8, 1: with several ranks all but one have no sample of the last */
    c.fit.last_window = policies[i];
    c.plan.read_ahead = i; /* none, and loaders */
    check_case(&c, 1e-5);
  }
}

static void states_in_8_bits_are_near_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = gpt_case(AC_ADAMW);
  c.plan.optimizer.state = AC_STATE_8BIT;
  check_case(&c, 1e-3);
}

static void gradients_in_bf16_are_near_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = gpt_case(AC_ADAMW);
  c.plan.precision = AC_PRECISION_BF16;
  c.plan.gradient_storage = AC_GRADIENT_BF16;
  c.plan.weights = AC_WEIGHTS_BF16;
  check_case(&c, 0.05);
}

static void averages_groups_and_schedules_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = gpt_case(AC_ADAMW);
  c.plan.average = true;
  c.trainer.schedule =
      (ac_schedule){.kind = AC_SCHEDULE_COSINE, .lr = 0.01, .warmup = 4, .total = UPDATES};
  c.trainer.groups[0] = (ac_parameter_group){.patterns = "wte*", .settings = {.rate = 0.5}};
  c.trainer.group_count = 1;
  c.trainer.spikes.policy = AC_SPIKE_SKIP;
  check_case(&c, 1e-5);
}

/* ---- images: what batch norms pool, and overflows -------------------------------------------- */

enum { FEATURES = 6, CLASSES = 3, BAD = 9 };

static ac_graph *norms(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, CLASSES));
  x = ac_linear(x, test_matrix(g, "a", "w", 24, FEATURES), NULL, AC_OUT_IN);
  const ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}},
                          still = {.frozen = true, .init = {AC_INIT_CONSTANT, .value = 1}};
  x = ac_batch_norm(x, ac_parameter(g, "n.gamma", SHAPE(24), &one),
                    ac_parameter(g, "n.beta", SHAPE(24), NULL),
                    ac_parameter(g, "n.mean", SHAPE(24), &still),
                    ac_parameter(g, "n.variance", SHAPE(24), &still), NULL);
  x = ac_linear(ac_relu(x), test_matrix(g, "b", "w", CLASSES, 24), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static ac_graph *plain(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, CLASSES));
  x = ac_linear(x, test_matrix(g, "a", "w", 96, FEATURES), NULL, AC_OUT_IN);
  x = ac_linear(ac_relu(x), test_matrix(g, "b", "w", 96, 96), NULL, AC_OUT_IN);
  x = ac_linear(ac_relu(x), test_matrix(g, "c", "w", CLASSES, 96), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static ac_status read_features(void *user, const ac_sample_key *key, void *const *fields) {
  float *x = fields[0], *t = fields[1];
  const bool bad = user && key->index == *(const int *)user;
  for (int i = 0; i < FEATURES; i++)
    x[i] = bad ? 3e4f : (float)((key->index * 5 + i * 3) % 11) / 11 - 0.5f;
  for (int i = 0; i < CLASSES; i++) t[i] = (float)((key->index + i) % 3) - 1;
  return AC_OK;
}

static ranked_case feature_case(ac_graph *(*graph)(void)) {
  return (ranked_case){.graph = graph,
                       .plan = {.batch = 12, .micro_batch = 2, .batch_norm = AC_BATCH_NORM_MICRO},
                       .trainer = {.seed = 3, .schedule = {.lr = 0.003}},
                       .fit = {.steps = UPDATES, .seed = 2},
                       .validation = 7,
                       .data = {.count = 48,
                                .field_count = 2,
                                .fields = {{"x", AC_F32, FEATURES}, {"t", AC_F32, CLASSES}},
                                .read = read_features}};
}

/* Micro-batches of two are the same samples with 1, 2 and 3 ranks; with 4 ranks of three samples
 * they are not, and so are their statistics. */
static void pooled_statistics_are_those_of_one_rank(void **state) {
  (void)state;
  const ranked_case c = feature_case(norms);
  ranked one, many[3];
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  for (int ranks = 2; ranks <= 3; ranks++) {
    ranked_run(&c, ranks, many);
    ranked_check_same(many, ranks);
    check_near(&one, many, 1e-5);
    ranked_free(many, ranks);
  }
  ranked_free(&one, 1);
}

/* Exact, they are those of the whole window, whatever ranks and micro-batches it is divided into:
 * five ranks have uneven shares, and of a window of three samples two of them have none. */
static void exact_statistics_are_those_of_one_rank(void **state) {
  static const int64_t batches[] = {12, 3}, sizes[] = {3, 1};
  (void)state;
  for (int i = 0; i < 2; i++) {
    ranked_case c = feature_case(norms);
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
      check_near(&one, many, 1e-5);
      ranked_free(many, ranks);
    }
    ranked_free(&one, 1);
  }
}

/* The sample is read by one rank alone. */
static void an_overflow_on_one_rank_skips_the_window_everywhere(void **state) {
  static int bad = BAD;
  (void)state;
  ranked_case c = feature_case(plain);
  c.plan.precision = AC_PRECISION_F16;
  c.data.user = &bad;
  ranked one;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  assert_true(one.result.skipped > 0 && one.result.skipped < UPDATES);
  assert_true(one.update[UPDATES - 1].loss_scale < one.update[0].loss_scale);
  ranked_free(&one, 1);
  check_case(&c, 1e-3);
  c.fit.replay = false;
  bad = -1;
  check_case(&c, 1e-3);
}

/* ---- memory and states ----------------------------------------------------------------------- */

/* Each rank keeps its part of the optimizer's state alone, and takes what its plan says. */
static void each_rank_keeps_its_part_of_the_state(void **state) {
  const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_SGD, AC_ADAFACTOR, AC_MUON, AC_ADAM_MINI};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    ranked_case c = gpt_case(kinds[k]);
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
    const ranked_case c = gpt_case(kinds[k]);
    check_resuming(&c, 1e-5);
  }
  ranked_case c = gpt_case(AC_ADAMW);
  c.plan.optimizer.state = AC_STATE_8BIT;
  check_resuming(&c, 1e-2);
}

/* ---- failures -------------------------------------------------------------------------------- */

static ac_status fail_to_read(void *user, const ac_sample_key *key, void *const *fields) {
  if (ranked_rank() == 1 && key->index == 20) return AC_ERROR_IO;
  return read_features(user, key, fields);
}

static void a_rank_that_cannot_read_ends_all(void **state) {
  (void)state;
  ranked_case c = feature_case(plain);
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
  ranked_case c = gpt_case(AC_ADAMW);
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
  return read_features(user, key, fields);
}

static void a_slow_rank_is_waited_for(void **state) {
  (void)state;
  ranked_case c = feature_case(plain);
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
  ranked_case c = feature_case(plain);
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
  const float x[2 * FEATURES] = {1}, t[2 * CLASSES] = {0};
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
  ranked_case c = feature_case(plain);
  ranked all[3];
  c.fit.steps = 1;
  c.after = measure_otherwise;
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  ranked_free(all, 3);
}

/* ---- the exchange while backward goes on ----------------------------------------------------- */

enum { WIDE = 640, LAYERS = 4 };

/* Several chunks for each rank. */
static ac_graph *wide(void) {
  static const char *const names[LAYERS] = {"a", "b", "c", "d"};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, CLASSES));
  for (int i = 0; i < LAYERS; i++)
    x = ac_relu(
        ac_linear(x, test_matrix(g, names[i], "w", WIDE, i ? WIDE : FEATURES), NULL, AC_OUT_IN));
  x = ac_linear(x, test_matrix(g, "e", "w", CLASSES, WIDE), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static ranked_case wide_case(void) {
  ranked_case c = feature_case(wide);
  c.fit.steps = 2;
  c.trainer.schedule.lr = 1e-4;
  return c;
}

/* After each step the trainer's thread waits until all rounds have begun that may. */
static ac_follower followed[RANKED_MOST];

static int64_t rounds_begun(ac_overlap *o) {
  ac_monitor_lock(o->lock);
  const int64_t begun = o->early;
  ac_monitor_unlock(o->lock);
  return begun;
}

static void follow_and_wait(void *user, int steps) {
  ac_trainer *trainer = user;
  const ac_exchange *e = &trainer->exchange;
  const ac_follower *own = &followed[ranked_rank()];
  const bool inside = e->overlap.on && steps < ac_sequence_end(&trainer->instance.plan->main);
  int64_t may = 0;
  for (int64_t n = 0; n < e->rounds.all; n++) may += e->overlap.final[n] <= steps;
  /* Windows before this one had all but the last round begin early. */
  may += trainer->run.updates * (e->rounds.all - 1);
  own->call(own->user, steps);
  for (int i = 0; inside && rounds_begun(&trainer->exchange.overlap) < may && i < 20000; i++)
    ac_sleep(0.001);
}

static ac_status wait_for_rounds(ac_trainer *trainer) {
  followed[ranked_rank()] = trainer->instance.follower;
  trainer->instance.follower = (ac_follower){follow_and_wait, trainer};
  return AC_OK;
}

static int64_t early[RANKED_MOST], rounds;

static ac_status note_rounds(ac_trainer *trainer) {
  early[ranked_rank()] = trainer->exchange.overlap.early;
  rounds = trainer->exchange.rounds.gradients;
  return AC_OK;
}

/* All but what the first layer waits for goes before backward is over. */
static void chunks_go_while_backward_goes_on(void **state) {
  (void)state;
  ranked_case c = wide_case();
  for (int ranks = 2; ranks <= 3; ranks++) {
    ranked overlapped[3], afterwards[3];
    c.before = wait_for_rounds;
    c.after = note_rounds;
    ranked_run(&c, ranks, overlapped);
    ranked_check_same(overlapped, ranks);
    assert_true(rounds >= 2);
    for (int r = 0; r < ranks; r++) assert_int_equal(early[r], 2 * (rounds - 1));
    c.before = exchange_afterwards;
    ranked_run(&c, ranks, afterwards);
    ranked_check_same(afterwards, ranks);
    for (int r = 0; r < ranks; r++) assert_int_equal(early[r], 0);
    assert_memory_equal(overlapped[0].parameters, afterwards[0].parameters,
                        4 * overlapped[0].parameter_count);
    ranked_free(overlapped, ranks);
    ranked_free(afterwards, ranks);
  }
}

/* Of devices with memory of their own gradients are exchanged after the last micro-batch;
 * each rank measures and steps its part there. */
static void other_devices_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = feature_case(plain);
  ranked one, all[3];
  ac_device_close(open_opencl("opencl:0")); /* or there is none to try */
  c.device = "opencl:0";
  c.fit.steps = 6;
  c.after = note_rounds;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  check_near(&one, all, 1e-5);
  for (int r = 0; r < 3; r++) assert_int_equal(early[r], 0);
  ranked_free(&one, 1);
  ranked_free(all, 3);
}

/* Fails before a step in the middle of the last micro-batch of the second window. */
static ac_meanwhile meanwhile_of_all[RANKED_MOST];
static int steps_left;

static ac_status fail_meanwhile(void *user) {
  const ac_meanwhile *to = user;
  if (ranked_rank() == 1 && --steps_left == 0) return ac_fail(AC_ERROR_DEVICE, "the device is hot");
  return to->call(to->user);
}

static ac_status fail_in_a_step(ac_trainer *trainer) {
  ac_meanwhile *own = &meanwhile_of_all[ranked_rank()];
  *own = trainer->instance.meanwhile;
  trainer->instance.meanwhile = (ac_meanwhile){fail_meanwhile, own};
  return AC_OK;
}

static void a_step_that_fails_ends_all(void **state) {
  (void)state;
  ranked_case c = feature_case(plain);
  c.before = fail_in_a_step;
  for (int at = 1; at < 60; at += 3) {
    ranked all[3];
    steps_left = at;
    ranked_run(&c, 3, all);
    for (int r = 0; r < 3; r++) {
      assert_int_not_equal(all[r].status, AC_OK);
      assert_contains(all[r].sentence, "the device is hot");
    }
    ranked_free(all, 3);
  }
}

/* ---- whole gradients ------------------------------------------------------------------------- */

static float read_gradients[RANKED_MOST][CLASSES * 96];

/* Reads a whole gradient. Each rank has summed up a part of it. */
static void read_gradient(void *user, ac_trainer *trainer, ac_decision *decision) {
  float *all = read_gradients[ranked_rank()];
  const int index = ac_trainer_find_parameter(trainer, "c.w");
  (void)user;
  if (ac_trainer_get_mean_gradient(trainer, index, 0, CLASSES * 96, all) != AC_OK)
    decision->factor = (double)NAN;
}

static void decisions_read_whole_gradients(void **state) {
  (void)state;
  ranked_case c = feature_case(plain);
  ranked all[4];
  float one[CLASSES * 96];
  c.trainer.decide = read_gradient;
  c.fit.steps = 1;
  for (int ranks = 1; ranks <= 4; ranks++) {
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    if (ranks == 1) memcpy(one, read_gradients[0], sizeof one);
    for (int r = 0; r < ranks; r++) {
      assert_memory_equal(read_gradients[r], read_gradients[0], sizeof one);
      assert_true(distance(one, read_gradients[r], CLASSES * 96) <= 1e-5);
    }
    ranked_free(all, ranks);
  }
}

static ac_layer_report layers[RANKED_MOST];

static ac_status keep_layer(ac_trainer *trainer) {
  return ac_trainer_layer(trainer, ac_trainer_find_parameter(trainer, "b.w"),
                          &layers[ranked_rank()]);
}

/* Outputs without a gradient are looked for in whole gradients. */
static void layers_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = feature_case(plain);
  ranked all[4];
  c.trainer.layers_every = 2;
  c.after = keep_layer;
  ac_layer_report one = {0};
  for (int ranks = 1; ranks <= 4; ranks++) {
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    if (ranks == 1) one = layers[0];
    for (int r = 0; r < ranks; r++) {
      const ac_layer_report *own = &layers[r];
      assert_int_equal(own->measured, one.measured);
      assert_int_equal(own->dead_units, one.dead_units);
      assert_true(fabs(own->gradient_norm - one.gradient_norm) <= 1e-4 * one.gradient_norm);
      assert_true(fabs(own->update_ratio - one.update_ratio) <= 1e-4 * one.update_ratio);
    }
    ranked_free(all, ranks);
  }
  assert_true(one.measured > 0 && one.dead_units > 0 && one.dead_units < one.units);
}

/* After an update that was refused the window is still there, but each rank has its part. */
static ac_status read_after_refusal(ac_trainer *trainer) {
  const float x[2 * FEATURES] = {1}, t[2 * CLASSES] = {0};
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  float first;
  AC_TRY(ac_trainer_accumulate(trainer, 2, feeds, 2));
  trainer->desc.schedule.lr = (double)NAN;
  if (ac_trainer_update(trainer, NULL) != AC_ERROR_ARGUMENT)
    return ac_fail(AC_ERROR_INTERNAL, "a rate of NaN was taken");
  const ac_status status = ac_trainer_get_gradient(trainer, 0, 0, 1, &first);
  ac_trainer_discard(trainer);
  if (status == AC_ERROR_STATE && strstr(ac_last_error(), "each rank has its part")) return AC_OK;
  return ac_fail(AC_ERROR_INTERNAL, "a part was read as if it were a sum of all ranks");
}

static void parts_are_not_read_as_sums(void **state) {
  (void)state;
  ranked_case c = feature_case(plain);
  ranked all[2];
  c.fit.steps = 1;
  c.after = read_after_refusal;
  ranked_run(&c, 2, all);
  ranked_check_same(all, 2);
  ranked_free(all, 2);
}

/* Adaptive clipping measures units, which are not cut then; by value single elements. */
static void clipped_gradients_are_those_of_one_rank(void **state) {
  (void)state;
  const ac_clipping kinds[] = {AC_CLIP_VALUE, AC_CLIP_ADAPTIVE, AC_CLIP_EACH};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    ranked_case c = gpt_case(AC_ADAMW);
    c.plan.optimizer.clip = 0.02;
    c.plan.optimizer.clipping = kinds[k];
    check_case(&c, 1e-5);
  }
}

/* ---- a simulated network --------------------------------------------------------------------- */

enum { SEEDS = 12 };

/* Delays and messages that overtake each other change nothing. */
static void delays_change_no_bit(void **state) {
  (void)state;
  ranked_case c = gpt_case(AC_ADAMW);
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
  ranked_case c = gpt_case(AC_ADAMW);
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
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, FEATURES)),
            *a = ac_input(g, "a", AC_I32, SHAPE(AC_BATCH)),
            *b = ac_input(g, "b", AC_I32, SHAPE(AC_BATCH));
  const ac_cross_entropy_desc desc = {.ignore = true, .ignore_index = -1};
  x = ac_relu(ac_linear(x, test_matrix(g, "body", "w", 24, FEATURES), NULL, AC_OUT_IN));
  ac_tensor *u = ac_linear(x, test_matrix(g, "u", "w", CLASSES, 24), NULL, AC_OUT_IN),
            *v = ac_linear(x, test_matrix(g, "v", "w", CLASSES, 24), NULL, AC_OUT_IN);
  ac_graph_add_loss(g, "a", ac_cross_entropy(u, a, NULL, &desc), 1);
  ac_graph_add_loss(g, "b", ac_cross_entropy(v, b, NULL, &desc), 0.5f);
  assert_ok(ac_graph_status(g));
  return g;
}

static ac_status read_two(void *user, const ac_sample_key *key, void *const *fields) {
  float *x = fields[0];
  (void)user;
  for (int i = 0; i < FEATURES; i++) x[i] = (float)((key->index * 5 + i * 3) % 11) / 11 - 0.5f;
  *(int32_t *)fields[1] = key->index % 3 ? (int32_t)(key->index % CLASSES) : -1;
  *(int32_t *)fields[2] = key->index % 5 ? -1 : (int32_t)((key->index + 1) % CLASSES);
  return AC_OK;
}

static void several_losses_are_divided_by_all_weights(void **state) {
  (void)state;
  ranked_case c = feature_case(two_losses);
  c.plan.read_ahead = 1;
  c.data.count = 31;
  c.data.field_count = 3;
  c.data.fields[1] = (ac_field){"a", AC_I32, 1};
  c.data.fields[2] = (ac_field){"b", AC_I32, 1};
  c.data.read = read_two;
  check_case(&c, 1e-5);
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
      cmocka_unit_test(chunks_go_while_backward_goes_on),
      cmocka_unit_test(other_devices_are_those_of_one_rank),
      cmocka_unit_test(exact_statistics_are_those_of_one_rank),
      cmocka_unit_test(a_step_that_fails_ends_all),
      cmocka_unit_test(decisions_read_whole_gradients),
      cmocka_unit_test(layers_are_those_of_one_rank),
      cmocka_unit_test(parts_are_not_read_as_sums),
      cmocka_unit_test(clipped_gradients_are_those_of_one_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
