/* Gradients that are divided among ranks (AC_GRADIENTS_SHARDED), against one rank and against ranks
 * that keep all of them: to rounding, and with one micro-batch a rank to the bit. */
#include "support/models.h"
#include "support/ranked_cases.h"
#include "support/trainers.h"

#include "core/error.h"
#include "core/share.h"
#include "ranks/engine.h"
#include "window/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static ranked_case divided(ranked_case c) {
  c.plan.gradients = AC_GRADIENTS_SHARDED;
  return c;
}

static ranked_case divided_gpt(ac_optimizer_kind optimizer) {
  return divided(ranked_gpt_case(optimizer));
}

/* ---- results --------------------------------------------------------------------------------- */

/* Near one rank's, for two to four. */
static void check_near_one(const ranked_case *c, double tolerance) {
  ranked_check_near_one(c, 4, tolerance);
}

/* As with gradients that are kept, to the bit. */
static void check_as_kept(ranked_case c) {
  ranked kept[4], all[4];
  for (int ranks = 2; ranks <= 4; ranks++) {
    c.plan.gradients = AC_GRADIENTS_SHARDED;
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    c.plan.gradients = AC_GRADIENTS_BUFFER;
    ranked_run(&c, ranks, kept);
    ranked_check_same(kept, ranks);
    assert_memory_equal(all[0].parameters, kept[0].parameters, 4 * kept[0].parameter_count);
    for (int i = 0; i < kept[0].windows; i++)
      assert_memory_equal(&all[0].update[i].grad_norm, &kept[0].update[i].grad_norm,
                          sizeof(double));
    assert_true(all[0].noise.windows == kept[0].noise.windows);
    ranked_free(kept, ranks);
    ranked_free(all, ranks);
  }
}

static void optimizers_are_those_of_one_rank(void **state) {
  static const struct {
    ac_optimizer_kind kind;
    double tolerance;
  } rows[] = {{AC_ADAMW, 1e-5},     {AC_SGD, 1e-5},  {AC_ADAFACTOR, 1e-5},
              {AC_ADAM_MINI, 1e-5}, {AC_MUON, 1e-5}, {AC_LION, 1e-3}}; /* a sign may turn */
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const ranked_case c = divided_gpt(rows[i].kind);
    check_near_one(&c, rows[i].tolerance);
  }
}

/* Windows of 8 and 1: some ranks have no sample of the last. */
static void one_micro_batch_has_the_bits_of_gradients_that_are_kept(void **state) {
  const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_MUON, AC_ADAFACTOR};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    ranked_case c = ranked_gpt_case(kinds[k]);
    c.plan.micro_batch = 4;
    c.data.count = 17;
    c.fit.steps = 6;
    check_as_kept(c);
  }
}

static void windows_at_the_ends_of_epochs_are_those_of_one_rank(void **state) {
  const ac_last_window policies[] = {AC_LAST_UPDATE, AC_LAST_CARRY, AC_LAST_DROP};
  (void)state;
  for (int i = 0; i < 3; i++) {
    ranked_case c = divided_gpt(AC_ADAMW);
    c.data.count = 17;
    c.plan.micro_batch = 1;
    c.fit.last_window = policies[i];
    c.plan.read_ahead = i;
    check_near_one(&c, 1e-5);
  }
}

/* The last rank has twice as many micro-batches, and computes again what the others keep. */
static void take_smaller_pieces(ac_plan_desc *plan) {
  plan->micro_batch = 1;
  plan->recompute = AC_RECOMPUTE_ALL;
}

static void ranks_may_have_plans_of_their_own(void **state) {
  const ac_recompute kinds[] = {AC_RECOMPUTE_NONE, AC_RECOMPUTE_ALL, AC_RECOMPUTE_AUTO};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    ranked_case c = divided_gpt(AC_ADAMW);
    c.plan.recompute = kinds[k];
    c.vary = take_smaller_pieces;
    check_near_one(&c, 1e-5);
  }
}

static void clipped_gradients_are_those_of_one_rank(void **state) {
  const ac_clipping kinds[] = {AC_CLIP_NORM, AC_CLIP_VALUE, AC_CLIP_ADAPTIVE, AC_CLIP_EACH};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    ranked_case c = divided_gpt(AC_ADAMW);
    c.plan.optimizer.clip = 0.02;
    c.plan.optimizer.clipping = kinds[k];
    check_near_one(&c, 1e-5);
  }
}

static void averages_groups_and_schedules_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = divided_gpt(AC_ADAMW);
  c.plan.average = true;
  c.trainer.schedule =
      (ac_schedule){.kind = AC_SCHEDULE_COSINE, .lr = 0.01, .warmup = 4, .total = RANKED_UPDATES};
  c.trainer.groups[0] = (ac_parameter_group){.patterns = "wte*", .settings = {.rate = 0.5}};
  c.trainer.group_count = 1;
  c.trainer.spikes.policy = AC_SPIKE_SKIP;
  check_near_one(&c, 1e-5);
}

static void less_precise_storage_is_near_that_of_one_rank(void **state) {
  (void)state;
  ranked_case c = divided_gpt(AC_ADAMW);
  c.plan.optimizer.state = AC_STATE_8BIT;
  check_near_one(&c, 1e-3);
  c = divided_gpt(AC_ADAMW);
  c.plan.precision = AC_PRECISION_BF16;
  c.plan.weights = AC_WEIGHTS_BF16;
  check_near_one(&c, 0.05);
}

/* What batch norms pool is summed up once, at the end of a window. */
static void pooled_statistics_are_those_of_one_rank(void **state) {
  (void)state;
  const ranked_case c = divided(ranked_feature_case(ranked_norms));
  ranked_check_near_one(&c, 3, 1e-5);
}

/* One rank alone reads the sample. */
static void an_overflow_on_one_rank_skips_the_window_everywhere(void **state) {
  static int bad = 9;
  (void)state;
  ranked_case c = divided(ranked_feature_case(ranked_plain));
  c.plan.precision = AC_PRECISION_F16;
  c.data.user = &bad;
  ranked one;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  assert_true(one.result.skipped > 0 && one.result.skipped < RANKED_UPDATES);
  ranked_free(&one, 1);
  check_near_one(&c, 1e-3);
}

static void a_device_with_memory_of_its_own_has_the_same(void **state) {
  (void)state;
  ac_device *device;
  if (ac_device_open(&device, &(ac_device_desc){.name = "opencl"}) != AC_OK) skip();
  ac_device_close(device);
  ranked_case c = divided(ranked_feature_case(ranked_plain));
  ranked one, many[3];
  c.fit.steps = 3;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  c.device = "opencl";
  ranked_run(&c, 3, many);
  ranked_check_same(many, 3);
  ranked_check_near(&one, many, 1e-4);
  for (int r = 0; r < 3; r++) assert_true(many[r].peak == many[r].planned);
  ranked_free(many, 3);
  ranked_free(&one, 1);
}

/* ---- a loop of the caller's own -------------------------------------------------------------- */

/* Ranks give what they have in calls of their own; of the second window some have nothing. */
static ac_status accumulate_share(ac_trainer *trainer, int64_t begin, int64_t samples) {
  const ac_plan_info *info = &trainer->instance.plan->info;
  const int64_t first = ac_share_begin(samples, info->rank, info->ranks),
                share = ac_share_of(samples, info->rank, info->ranks);
  AC_TRY(ac_trainer_begin_share(trainer, first));
  for (int64_t i = 0; i < share; i++) {
    int32_t tokens[RANKED_CONTEXT], targets[RANKED_CONTEXT];
    const ac_sample_key key = {.index = begin + first + i};
    void *const fields[] = {tokens, targets};
    AC_TRY(ranked_read_tokens(NULL, &key, fields));
    const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
    AC_TRY(ac_trainer_accumulate(trainer, 1, feeds, 2));
  }
  return AC_OK;
}

static ac_status loop_of_its_own(ac_trainer *trainer) {
  static const int64_t windows[] = {5, 1, 8, 2};
  int64_t next = 0;
  for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
    AC_TRY(accumulate_share(trainer, next, windows[w]));
    next += windows[w];
    AC_TRY(ac_trainer_update(trainer, NULL));
  }
  return AC_OK;
}

static void loops_of_callers_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = divided_gpt(AC_ADAMW);
  c.after = loop_of_its_own;
  c.fit.steps = 1;
  check_near_one(&c, 1e-5);
}

/* Ranks have accumulated different numbers of micro-batches, or none, of what is thrown away. */
static ac_status throw_away(ac_trainer *trainer) {
  static const int64_t windows[] = {5, 1, 7, 8};
  int64_t next = 0;
  ac_trainer_discard(trainer);
  for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
    AC_TRY(accumulate_share(trainer, next, windows[w]));
    next += windows[w];
    ac_trainer_discard(trainer);
    AC_TRY(accumulate_share(trainer, next, 4));
    next += 4;
    AC_TRY(ac_trainer_update(trainer, NULL));
  }
  return AC_OK;
}

static void windows_that_are_thrown_away_leave_nothing(void **state) {
  (void)state;
  ranked_case c = divided_gpt(AC_ADAMW);
  c.after = throw_away;
  c.fit.steps = 1;
  check_near_one(&c, 1e-5);
}

/* Nor does a state take the place of a window that others go on with. */
static ac_status load_within(ac_trainer *trainer) {
  static const char file[] = "divided_within.state";
  AC_TRY(ac_trainer_save_state(trainer, file, NULL, 0));
  AC_TRY(accumulate_share(trainer, 0, 4));
  const ac_status status = ac_trainer_load_state(trainer, file);
  if (trainer->instance.plan->info.ranks > 1 && status != AC_ERROR_STATE)
    return ac_fail(AC_ERROR_INTERNAL, "a state was loaded within a window");
  ac_trainer_discard(trainer);
  AC_TRY(ac_trainer_load_state(trainer, file));
  AC_TRY(accumulate_share(trainer, 0, 4));
  return ac_trainer_update(trainer, NULL);
}

static void states_are_not_loaded_within_a_window(void **state) {
  (void)state;
  ranked_case c = divided_gpt(AC_ADAMW);
  c.after = load_within;
  c.fit.steps = 1;
  check_near_one(&c, 1e-5);
  remove("divided_within.state");
}

/* Doubles this rank's part of each gradient, through the one function, and reads it with the other.
 */
static ac_status double_part(ac_trainer *trainer, int index, bool *wrote) {
  float data[64], mean[64];
  int64_t first, count;
  AC_TRY(ac_trainer_gradient_part(trainer, index, &first, &count));
  *wrote |= count > 0;
  for (int64_t done = 0; done < count; done += 64) {
    const int64_t n = count - done < 64 ? count - done : 64;
    AC_TRY(ac_trainer_get_gradient(trainer, index, first + done, n, data));
    AC_TRY(ac_trainer_get_mean_gradient(trainer, index, first + done, n, mean));
    for (int64_t i = 0; i < n; i++) {
      if (fabs((double)(data[i] - 12 * mean[i])) > 1e-5 * fabs((double)data[i]))
        return ac_fail(AC_ERROR_INTERNAL, "sums and means differ");
      data[i] *= 2;
    }
    AC_TRY(ac_trainer_set_gradient(trainer, index, first + done, n, data));
  }
  return AC_OK;
}

static _Thread_local ac_status decided;

static void double_all(void *user, ac_trainer *trainer, ac_decision *decision) {
  const int count = ac_trainer_parameter_count(trainer);
  const ac_plan_info *info = &trainer->instance.plan->info;
  bool wrote = false;
  (void)user, (void)decision;
  decided = AC_OK;
  for (int i = 0; i < count && decided == AC_OK; i++) decided = double_part(trainer, i, &wrote);
  float x = 0;
  int64_t first, owned;
  if (info->ranks < 2 || decided != AC_OK) return;
  decided = ac_trainer_gradient_part(trainer, 0, &first, &owned);
  if (ac_trainer_get_gradient(trainer, 0, first + owned, 1, &x) != AC_ERROR_ARGUMENT)
    decided = AC_ERROR_INTERNAL;
}

static ac_status check_decided(ac_trainer *trainer) {
  float x;
  AC_TRY(decided);
  return ac_trainer_get_gradient(trainer, 0, 0, 1, &x) == AC_ERROR_STATE
             ? AC_OK
             : ac_fail(AC_ERROR_INTERNAL, "a gradient was read between windows");
}

/* A matrix of one element goes to one rank, and the others write nothing. */
static ac_graph *tiny(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES)),
            *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  x = ac_linear(x, test_matrix(g, "a", "w", RANKED_CLASSES, RANKED_FEATURES), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static void deciders_read_and_write_their_part(void **state) {
  ac_graph *(*const graphs[])(void) = {ranked_plain, tiny};
  (void)state;
  for (int i = 0; i < 2; i++) {
    ranked_case c = divided(ranked_feature_case(graphs[i]));
    c.trainer.decide = double_all;
    c.plan.optimizer = (ac_optimizer_desc){.kind = AC_SGD};
    c.after = check_decided;
    c.fit.steps = 4;
    check_near_one(&c, 1e-5);
    /* Doubled gradients are a doubled rate of SGD. */
    ranked doubled[3], rate[3];
    ranked_run(&c, 3, doubled);
    ranked_check_same(doubled, 3);
    c.trainer.decide = NULL;
    c.after = NULL;
    c.trainer.schedule.lr *= 2;
    ranked_run(&c, 3, rate);
    ranked_check_same(rate, 3);
    assert_true(distance(rate[0].parameters, doubled[0].parameters, rate[0].parameter_count) <=
                1e-5);
    ranked_free(doubled, 3);
    ranked_free(rate, 3);
  }
}

/* ---- the price ------------------------------------------------------------------------------- */

static const ac_network simulated = {.bandwidth = 1.25e8, .latency = 2e-5};

static double now(const ac_trainer *trainer) {
  ac_engine *engine = ac_transport_engine(trainer->exchange.transport);
  return engine->functions->clock(engine);
}

/* Windows of two micro-batches a rank. Computing takes no simulated time. */
static ac_status check_price(ac_trainer *trainer) {
  enum { WINDOWS = 4 };
  const float x[2 * RANKED_FEATURES] = {1}, t[2 * RANKED_CLASSES] = {0};
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  const ac_transport *transport = trainer->exchange.transport;
  ac_rank_price price;
  AC_TRY(ac_plan_price_ranks(trainer->instance.plan, &simulated, &price));
  const double begun = now(trainer);
  const ac_transport_counts before = ac_transport_count(transport);
  for (int w = 0; w < WINDOWS; w++) {
    AC_TRY(ac_trainer_accumulate(trainer, 2, feeds, 2));
    AC_TRY(ac_trainer_accumulate(trainer, 2, feeds, 2));
    AC_TRY(ac_trainer_update(trainer, NULL));
  }
  const double seconds = (now(trainer) - begun) / WINDOWS,
               sent = (double)(ac_transport_count(transport).bytes - before.bytes) / WINDOWS;
  if (fabs((double)price.bytes - sent) > 0.05 * sent)
    return ac_fail(AC_ERROR_INTERNAL, "%llu bytes predicted, %g sent",
                   (unsigned long long)price.bytes, sent);
  if (fabs(price.exchange_seconds - seconds) > 0.25 * seconds)
    return ac_fail(AC_ERROR_INTERNAL, "%g s predicted, %g s simulated", price.exchange_seconds,
                   seconds);
  return AC_OK;
}

static void each_micro_batch_is_priced(void **state) {
  (void)state;
  ranked_case c = divided(ranked_feature_case(ranked_plain));
  ranked all[3];
  c.fit.steps = 1;
  c.after = check_price;
  c.ranks = (ac_ranks_threads_desc){
      .seed = 5, .bandwidth = simulated.bandwidth, .latency = simulated.latency};
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  ranked_free(all, 3);
}

/* ---- memory and states ----------------------------------------------------------------------- */

static uint64_t gradient_bytes(const ranked_case *c, int ranks, int rank) {
  ac_device *device;
  ac_plan *plan;
  ac_graph *graph = c->graph();
  ac_plan_desc desc = c->plan;
  desc.ranks = ranks;
  desc.rank = rank;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  const uint64_t bytes = ac_plan_get_info(plan)->bytes.gradients;
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return bytes;
}

/* Of a deep model each rank has its part of the sums and a few gradients of a micro-batch. */
static ac_graph *deep(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES)),
            *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  x = ac_linear(x, test_matrix(g, "in", "w", 512, RANKED_FEATURES), NULL, AC_OUT_IN);
  for (int i = 0; i < 12; i++) {
    char name[16];
    snprintf(name, sizeof name, "h%d", i);
    x = ac_linear(ac_relu(x), test_matrix(g, name, "w", 512, 512), NULL, AC_OUT_IN);
  }
  x = ac_linear(ac_relu(x), test_matrix(g, "out", "w", RANKED_CLASSES, 512), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static void each_rank_takes_what_its_plan_says(void **state) {
  (void)state;
  ranked_case c = divided(ranked_feature_case(deep));
  c.fit.steps = 2;
  const uint64_t matrix = 512 * 512 * 4, all = 12 * matrix;
  ranked many[4];
  ranked_run(&c, 4, many);
  ranked_check_same(many, 4);
  for (int r = 0; r < 4; r++) {
    assert_true(many[r].peak == many[r].planned);
    const uint64_t bytes = gradient_bytes(&c, 4, r);
    assert_in_range(bytes, all / 4, all / 4 + 4 * matrix); /* a round is one of them, about */
  }
  ranked_free(many, 4);
  c.plan.gradients = AC_GRADIENTS_BUFFER;
  assert_true(gradient_bytes(&c, 4, 0) >= all);
  const uint64_t kept = gradient_bytes(&c, 1, 0);
  c.plan.gradients = AC_GRADIENTS_SHARDED; /* one rank has all */
  assert_true(gradient_bytes(&c, 1, 0) == kept);
}

/* A plan that does not fit offers it where there are ranks. */
static void several_ranks_are_offered_it(void **state) {
  enum { MOST = 32 };
  ac_plan_offer list[MOST];
  ac_device *device;
  (void)state;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  for (int ranks = 1; ranks <= 4; ranks += 3) {
    ac_graph *graph = deep();
    const ac_plan_desc desc = {.batch = 16, .micro_batch = 2, .ranks = ranks};
    int count, offered = 0;
    assert_ok(ac_plan_offers(graph, device, &desc, list, MOST, &count));
    for (int i = 0; i < count; i++) {
      if (!(list[i].reliefs & AC_RELIEF_GRADIENTS_SHARDED)) continue;
      ac_plan *plan;
      ac_plan_desc taken = list[i].desc;
      taken.memory = list[i].bytes;
      assert_ok(ac_plan_create(&plan, graph, device, &taken));
      assert_int_equal(ac_plan_get_info(plan)->gradients, AC_GRADIENTS_SHARDED);
      ac_plan_free(plan);
      offered++;
    }
    assert_int_equal(offered, ranks > 1);
    ac_graph_free(graph);
  }
  ac_device_close(device);
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

/* Also by ranks that keep their gradients, and by one. */
static void a_state_goes_on_at_any_number_of_ranks(void **state) {
  static const char *const files[] = {"divided_a.state", "divided_b.state"};
  static const ac_gradients ways[] = {AC_GRADIENTS_SHARDED, AC_GRADIENTS_SHARDED,
                                      AC_GRADIENTS_BUFFER, AC_GRADIENTS_SHARDED};
  const int ranks[] = {4, 3, 2, 1};
  ranked_case c = divided_gpt(AC_ADAMW);
  ranked one, all[4];
  (void)state;
  go_on(c, 1, 16, NULL, NULL, &one);
  for (int i = 0; i < 4; i++) {
    c.plan.gradients = ways[i];
    go_on(c, ranks[i], 4 * (i + 1), i ? files[(i + 1) % 2] : NULL, files[i % 2], all);
    if (i < 3) ranked_free(all, ranks[i]);
  }
  assert_true(distance(one.parameters, all[0].parameters, one.parameter_count) <= 1e-5);
  ranked_free(all, 1);
  ranked_free(&one, 1);
  for (int i = 0; i < 2; i++) remove(files[i]);
}

/* ---- failures -------------------------------------------------------------------------------- */

static ac_status fail_to_read(void *user, const ac_sample_key *key, void *const *fields) {
  if (ranked_rank() == 1 && key->index == 20) return AC_ERROR_IO;
  return ranked_read_features(user, key, fields);
}

static void a_rank_that_cannot_read_ends_all(void **state) {
  (void)state;
  ranked_case c = divided(ranked_feature_case(ranked_plain));
  ranked all[3];
  c.data.read = fail_to_read;
  ranked_run(&c, 3, all);
  for (int r = 0; r < 3; r++) {
    assert_int_not_equal(all[r].status, AC_OK);
    assert_contains(all[r].sentence, "dataset: reading sample 20 failed");
  }
  ranked_free(all, 3);
}

/* In the middle of a micro-batch, when some rounds have been exchanged. */
static ac_status fail_in_step(void *user, int steps) {
  ac_trainer *trainer = user;
  const ac_sharded *s = &trainer->exchange.sharded;
  if (s->begun > 0 && trainer->exchange.rank == 1 && trainer->run.updates == 2)
    return ac_fail(AC_ERROR_DEVICE, "a step failed");
  return ac_sharded_follow(trainer, steps);
}

static ac_status make_steps_fail(ac_trainer *trainer) {
  trainer->instance.follower = (ac_follower){fail_in_step, trainer};
  return AC_OK;
}

static void a_step_that_fails_on_one_rank_ends_all(void **state) {
  (void)state;
  ranked_case c = divided(ranked_feature_case(deep));
  ranked all[3];
  c.before = make_steps_fail;
  c.fit.steps = 4;
  ranked_run(&c, 3, all);
  for (int r = 0; r < 3; r++) {
    assert_int_not_equal(all[r].status, AC_OK);
    assert_contains(all[r].sentence, "a step failed");
  }
  ranked_free(all, 3);
}

/* Steps after which a round was still on its way, with more to come; by rank. */
static int behind[RANKED_MOST];

static ac_status count_behind(void *user, int steps) {
  ac_trainer *trainer = user;
  const ac_sharded *s = &trainer->exchange.sharded;
  AC_TRY(ac_sharded_follow(trainer, steps));
  if (s->on && s->ended < s->begun && steps < ac_sequence_end(&trainer->instance.plan->main))
    behind[ranked_rank()]++;
  return AC_OK;
}

static ac_status look_behind(ac_trainer *trainer) {
  behind[ranked_rank()] = 0;
  trainer->instance.follower = (ac_follower){count_behind, trainer};
  return AC_OK;
}

/* A network on which each message takes a while. */
static void rounds_travel_while_steps_run(void **state) {
  (void)state;
  ranked_case c = divided(ranked_feature_case(deep));
  ranked calm[3], all[3];
  c.fit.steps = 2;
  ranked_run(&c, 3, calm);
  ranked_check_same(calm, 3);
  c.before = look_behind;
  c.ranks = (ac_ranks_threads_desc){.seed = 3, .latency = 1e-3, .bandwidth = 1e9};
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  assert_memory_equal(all[0].parameters, calm[0].parameters, 4 * calm[0].parameter_count);
  for (int r = 0; r < 3; r++) assert_true(behind[r] >= 4);
  ranked_free(calm, 3);
  ranked_free(all, 3);
}

static void keep_them(ac_plan_desc *plan) {
  plan->gradients = AC_GRADIENTS_BUFFER;
}

static void ranks_of_two_ways_are_refused(void **state) {
  (void)state;
  ranked_case c = divided_gpt(AC_ADAMW);
  ranked all[3];
  c.vary = keep_them;
  ranked_run(&c, 3, all);
  for (int r = 0; r < 3; r++) {
    assert_int_not_equal(all[r].status, AC_OK);
    assert_contains(all[r].sentence, "ranks must agree on the gradients: it is \"divided among "
                                     "ranks\" on rank 0 and \"kept by each rank\" on rank 2");
  }
  ranked_free(all, 3);
}

static void what_needs_all_gradients_is_refused(void **state) {
  static const struct {
    ac_plan_desc plan;
    const char *sentence;
  } rows[] = {
      {{.gradient_storage = AC_GRADIENT_BF16}, "exclude AC_GRADIENT_BF16"},
      {{.batch_norm = AC_BATCH_NORM_EXACT}, "excludes gradients that are divided among ranks"}};
  ac_device *device;
  (void)state;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ac_graph *graph = ranked_norms();
    ac_plan_desc desc = rows[i].plan;
    ac_plan *plan;
    desc.batch = 8;
    desc.ranks = 2;
    desc.gradients = AC_GRADIENTS_SHARDED;
    assert_int_equal(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_ARGUMENT);
    assert_contains(ac_last_error(), rows[i].sentence);
    ac_graph_free(graph);
  }
  ac_device_close(device);
}

/* Delays and messages that overtake each other change no bit; a rank that dies, or a message that
 * never comes, ends all, and nobody has a wrong result. */
static void a_bad_network_gives_no_wrong_result(void **state) {
  (void)state;
  ranked_case c = divided_gpt(AC_ADAMW);
  ranked calm[3], all[3];
  c.fit.steps = 2;
  c.fit.eval_every = 1;
  c.plan.micro_batch = 1;
  ranked_run(&c, 3, calm);
  ranked_check_same(calm, 3);
  int ended = 0;
  for (int64_t at = 1; at <= 45; at += 2) {
    const int kind = (int)(at % 3), rank = (int)(at / 2 % 3);
    c.ranks = (ac_ranks_threads_desc){.seed = (uint64_t)at, .latency = 1e-3, .bandwidth = 1e8};
    if (kind == 1) c.ranks.killed_rank = rank, c.ranks.killed_at = at;
    if (kind == 2) c.ranks.lost_rank = rank, c.ranks.lost_at = at;
    ranked_run(&c, 3, all);
    if (!kind) ranked_check_same(all, 3);
    for (int r = 0; r < 3; r++) {
      ended += all[r].status != AC_OK;
      if (all[r].status != AC_OK) assert_true(strlen(all[r].sentence) > 10);
      else assert_memory_equal(all[r].parameters, calm[0].parameters, 4 * calm[0].parameter_count);
    }
    ranked_free(all, 3);
  }
  assert_true(ended >= 30);
  ranked_free(calm, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(optimizers_are_those_of_one_rank),
      cmocka_unit_test(one_micro_batch_has_the_bits_of_gradients_that_are_kept),
      cmocka_unit_test(windows_at_the_ends_of_epochs_are_those_of_one_rank),
      cmocka_unit_test(ranks_may_have_plans_of_their_own),
      cmocka_unit_test(clipped_gradients_are_those_of_one_rank),
      cmocka_unit_test(averages_groups_and_schedules_are_those_of_one_rank),
      cmocka_unit_test(less_precise_storage_is_near_that_of_one_rank),
      cmocka_unit_test(pooled_statistics_are_those_of_one_rank),
      cmocka_unit_test(an_overflow_on_one_rank_skips_the_window_everywhere),
      cmocka_unit_test(a_device_with_memory_of_its_own_has_the_same),
      cmocka_unit_test(loops_of_callers_are_those_of_one_rank),
      cmocka_unit_test(windows_that_are_thrown_away_leave_nothing),
      cmocka_unit_test(states_are_not_loaded_within_a_window),
      cmocka_unit_test(deciders_read_and_write_their_part),
      cmocka_unit_test(each_micro_batch_is_priced),
      cmocka_unit_test(each_rank_takes_what_its_plan_says),
      cmocka_unit_test(several_ranks_are_offered_it),
      cmocka_unit_test(a_state_goes_on_at_any_number_of_ranks),
      cmocka_unit_test(a_rank_that_cannot_read_ends_all),
      cmocka_unit_test(a_step_that_fails_on_one_rank_ends_all),
      cmocka_unit_test(rounds_travel_while_steps_run),
      cmocka_unit_test(ranks_of_two_ways_are_refused),
      cmocka_unit_test(what_needs_all_gradients_is_refused),
      cmocka_unit_test(a_bad_network_gives_no_wrong_result),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
