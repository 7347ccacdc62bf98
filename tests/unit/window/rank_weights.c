/* Weights that come from other ranks while the next micro-batch runs: which step waits for what,
 * and that whatever else reads or writes parameters waits for all of them. */
#include "support/devices.h"
#include "support/models.h"
#include "support/ranked_cases.h"
#include "support/trainers.h"

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/threads.h"
#include "core/share.h"
#include "ranks/engine.h"
#include "window/trainer.h"

#include <stdatomic.h>
#include <unistd.h>

/* ---- a network that holds weights back ------------------------------------------------------- */

enum { TAG_WEIGHTS = 4, HELD = 64 };

/* What a rank sends of its weights waits until `may_send` says so. */
typedef struct hold {
  ac_engine_functions held;
  const ac_engine_functions *own;
  ac_trainer *trainer;
  ac_follower follower;
  ac_arrival arrival;
  ac_transfer *waiting[HELD]; /* the communication thread's, like all up to `until` */
  int64_t round[HELD];
  int count;
  double until;
  atomic_int steps;  /* of the micro-batch that have run */
  atomic_bool opens; /* somebody waits for all */
  int64_t ahead;     /* steps that ran before the last weights had come */
  int64_t fails_at;  /* the message that fails; 0: none does */
} hold;

static hold holds[RANKED_MOST];
static int64_t fails_at;
static int fails_on;

static hold *hold_of(const ac_engine *engine) {
  return &holds[engine->rank];
}

/* A round goes when all steps have run that need no more than the rounds before it. */
static bool may_send(const hold *h, int64_t round) {
  const ac_exchange *e = &h->trainer->exchange;
  const int end = ac_sequence_end(&h->trainer->instance.plan->main);
  int first = 0;
  if (h->until) return ac_clock() >= h->until;
  while (first < end && e->overlap.needed[first] <= round) first++;
  return h->opens || h->steps >= first;
}

static ac_status send_held(ac_engine *engine) {
  hold *h = hold_of(engine);
  int sent = 0;
  for (; sent < h->count && may_send(h, h->round[sent]); sent++)
    AC_TRY(h->own->begin(engine, h->waiting[sent]));
  h->count -= sent;
  memmove(h->waiting, h->waiting + sent, (size_t)h->count * sizeof *h->waiting);
  memmove(h->round, h->round + sent, (size_t)h->count * sizeof *h->round);
  return AC_OK;
}

static ac_status begin(ac_engine *engine, ac_transfer *transfer) {
  hold *h = hold_of(engine);
  const bool weights = transfer->tag == TAG_WEIGHTS && h->trainer->exchange.overlap.gathering;
  if (weights && h->fails_at && --h->fails_at == 0) {
    snprintf(engine->why, sizeof engine->why, "the cable is out");
    return AC_ERROR_IO;
  }
  if (!weights || !transfer->sends || h->count == HELD) return h->own->begin(engine, transfer);
  if (h->until) h->until = ac_clock() + 0.01;
  h->round[h->count] = h->trainer->exchange.arriving.begun;
  h->waiting[h->count++] = transfer;
  return AC_OK;
}

static ac_status advance(ac_engine *engine) {
  AC_TRY(send_held(engine));
  return hold_of(engine)->own->advance(engine);
}

static ac_engine *engine_of(const ac_trainer *trainer) {
  return ac_transport_engine(trainer->exchange.transport);
}

static ac_status follow(void *user, int steps) {
  hold *h = user;
  const ac_exchange *e = &h->trainer->exchange;
  h->ahead += e->overlap.owed && !ac_overlap_has_weights(&h->trainer->exchange.overlap);
  h->steps = steps;
  return h->follower.call(h->follower.user, steps);
}

static ac_status wait_for_all(void *user) {
  hold *h = user;
  h->opens = h->trainer->exchange.overlap.owed;
  return h->arrival.all(h->arrival.user);
}

static ac_status wait_for_step(void *user, int step) {
  const hold *h = user;
  return h->arrival.step(h->arrival.user, step);
}

static ac_status hold_back(ac_trainer *trainer) {
  const int rank = ranked_rank();
  ac_engine *engine = engine_of(trainer);
  ac_instance *instance = &trainer->instance;
  hold *h = &holds[rank];
  memset(h, 0, sizeof *h);
  h->own = engine->functions;
  h->held = *h->own;
  h->held.begin = begin;
  h->held.advance = advance;
  h->trainer = trainer;
  h->follower = instance->follower;
  h->arrival = instance->arrival;
  h->fails_at = rank == fails_on ? fails_at : 0;
  instance->follower = (ac_follower){follow, h};
  instance->arrival = (ac_arrival){wait_for_all, wait_for_step, h};
  engine->functions = &h->held;
  return AC_OK;
}

/* Before an update: the weights that follow are held back anew. */
static void close_again(void *user, ac_trainer *trainer, ac_decision *decision) {
  hold *h = &holds[ranked_rank()];
  (void)user, (void)trainer, (void)decision;
  h->steps = 0;
  h->opens = false;
}

static ac_status let_go(ac_trainer *trainer) {
  AC_TRY(ac_exchange_settle(trainer));
  engine_of(trainer)->functions = holds[ranked_rank()].own;
  return AC_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int64_t rounds, may_run_ahead;

static ac_status note(ac_trainer *trainer) {
  const ac_exchange *e = &trainer->exchange;
  AC_TRY(let_go(trainer));
  if (ranked_rank()) return AC_OK;
  rounds = e->rounds.gradients;
  may_run_ahead = 0;
  while (e->overlap.needed[may_run_ahead] < rounds) may_run_ahead++;
  return AC_OK;
}

static ranked_case deep_case(void) {
  ranked_case c = ranked_feature_case(ranked_wide);
  c.fit.steps = 3;
  c.validation = 0;
  c.trainer.schedule.lr = 1e-4;
  return c;
}

/* Each step runs as soon as the weights are there that it reads: those that come later are on their
 * way until it has run. */
static void check_waiting(const char *device, int ranks) {
  ranked_case c = deep_case();
  ranked held[3], afterwards[3];
  c.device = device;
  c.before = hold_back;
  c.after = note;
  c.trainer.decide = close_again;
  ranked_run(&c, ranks, held);
  ranked_check_same(held, ranks);
  assert_true(rounds >= 2 && may_run_ahead >= 2);
  for (int r = 0; r < ranks; r++) assert_true(holds[r].ahead >= 2 * may_run_ahead);
  c.before = ranked_exchange_afterwards;
  c.after = NULL;
  ranked_run(&c, ranks, afterwards);
  ranked_check_same(afterwards, ranks);
  ranked_check_bits(&held[0], &afterwards[0]);
  ranked_free(held, ranks);
  ranked_free(afterwards, ranks);
}

static void steps_wait_for_what_they_read(void **state) {
  (void)state;
  check_waiting(NULL, 2);
  check_waiting(NULL, 3);
}

static void steps_of_other_devices_wait_as_well(void **state) {
  (void)state;
  ac_device_close(open_opencl("opencl:0")); /* or there is none to try */
  check_waiting("opencl:0", 2);
  check_waiting("opencl:0", 3);
}

static ac_graph *larger_gpt(void) {
  return test_gpt_graph(
      &(test_gpt){.layers = 4, .width = 128, .context = RANKED_CONTEXT, .vocab = 512, .heads = 2});
}

/* Weights are read in other ways: computed again, by 16-bit copies or without them, alone in 16
 * bits, in windows of one micro-batch, next to frozen ones, with averages. */
static void set_way(ranked_case *c, int way) {
  c->graph = larger_gpt;
  c->fit.steps = 3;
  c->fit.eval_every = 2;
  c->trainer.noise_every = 0;
  if (way == 0) c->plan.recompute = AC_RECOMPUTE_ALL;
  if (way == 1) c->plan.precision = AC_PRECISION_BF16;
  if (way == 2)
    c->plan.precision = AC_PRECISION_F16, c->plan.working_copies = AC_WORKING_COPIES_NONE;
  if (way == 3) c->plan.precision = AC_PRECISION_BF16, c->plan.weights = AC_WEIGHTS_BF16;
  if (way == 4) c->plan.micro_batch = 8, c->plan.whole_windows = true;
  if (way == 5) c->plan.frozen = "wpe*,*qkv*", c->plan.average = true;
}

static void late_weights_give_the_same_bits(void **state) {
  (void)state;
  for (int way = 0; way <= 5; way++) {
    ranked_case c = ranked_gpt_case(AC_ADAMW);
    ranked held[2], afterwards[2];
    set_way(&c, way);
    c.before = hold_back;
    c.after = note;
    c.trainer.decide = close_again;
    ranked_run(&c, 2, held);
    ranked_check_same(held, 2);
    if (way < 5 && !holds[0].ahead) fail_msg("way %d: no step was ahead of weights", way);
    c.before = ranked_exchange_afterwards;
    c.after = NULL;
    ranked_run(&c, 2, afterwards);
    ranked_check_same(afterwards, 2);
    ranked_check_bits(&held[0], &afterwards[0]);
    assert_memory_equal(&held[0].result.final.loss, &afterwards[0].result.final.loss,
                        sizeof(double));
    ranked_free(held, 2);
    ranked_free(afterwards, 2);
  }
}

/* ---- what waits for all ---------------------------------------------------------------------- */

enum { BATCH = 12 };
static float feature[BATCH * RANKED_FEATURES], target[BATCH * RANKED_CLASSES];
static const ac_feed feeds[] = {{"x", feature}, {"t", target}};

static ac_status read_one(ac_trainer *t, double *out) {
  float value[2];
  AC_TRY(ac_trainer_get_parameter(t, ac_trainer_find_parameter(t, "e.w"), 700, 2, value));
  *out = (double)value[0] + (double)value[1];
  return AC_OK;
}

static ac_status write_one(ac_trainer *t, double *out) {
  const float value = 0.5f;
  AC_TRY(ac_trainer_set_parameter(t, 0, 0, 1, &value));
  return read_one(t, out);
}

static ac_status evaluate(ac_trainer *t, double *out) {
  ac_evaluation found;
  ac_dataset *data;
  ac_callback_dataset_desc desc = deep_case().data;
  AC_TRY(ac_dataset_from_callback(&data, &desc));
  const ac_status status = ac_trainer_evaluate(t, data, 5, &found);
  ac_dataset_free(data);
  *out = found.loss;
  return status;
}

static ac_status predict(ac_trainer *t, double *out) {
  float y[RANKED_CLASSES];
  AC_TRY(ac_trainer_predict(t, "y", 1, feeds, 1, RANKED_CLASSES, y));
  *out = (double)y[0];
  return AC_OK;
}

static ac_status use_average(ac_trainer *t, double *out) {
  AC_TRY(ac_trainer_use_average(t, true));
  AC_TRY(read_one(t, out));
  return ac_trainer_use_average(t, false);
}

static ac_status locate(ac_trainer *t, double *out) {
  char text[64];
  AC_TRY(ac_trainer_locate_nonfinite(t, 1, feeds, 2, text, sizeof text));
  *out = text[0];
  return AC_OK;
}

static const char *path_of(void) {
  static char paths[RANKED_MOST][64];
  char *path = paths[ranked_rank()];
  snprintf(path, sizeof paths[0], "rank_weights_%d_%d", (int)getpid(), ranked_rank());
  return path;
}

static ac_status save(ac_trainer *t, double *out) {
  AC_TRY(ac_trainer_save(t, path_of(), NULL, 0));
  AC_TRY(ac_trainer_load(t, path_of(), NULL));
  unlink(path_of());
  return read_one(t, out);
}

static ac_status save_state(ac_trainer *t, double *out) {
  AC_TRY(ac_trainer_save_state(t, path_of(), NULL, 0));
  unlink(path_of());
  return read_one(t, out);
}

static ac_status share(ac_trainer *t, double *out) {
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = 1, .shared = "*"};
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  float y[RANKED_CLASSES] = {0};
  ac_graph *graph = ranked_wide();
  ac_status status = ac_plan_create(&plan, graph, t->instance.device, &desc);
  if (status == AC_OK) status = ac_session_create_shared(&session, plan, 1, t);
  if (status == AC_OK) status = ac_session_predict(session, "y", 1, feeds, 1, RANKED_CLASSES, y);
  *out = (double)y[0];
  ac_session_free(session);
  ac_plan_free(plan);
  ac_graph_free(graph);
  return status;
}

/* Another call of the transport. */
static ac_status meet(ac_trainer *t, double *out) {
  AC_TRY(ac_ranks_barrier(t->desc.ranks));
  return read_one(t, out);
}

static ac_status be_absent(ac_trainer *t, double *out) {
  ac_ranks_begin_absence(t->desc.ranks);
  ac_ranks_end_absence(t->desc.ranks);
  return read_one(t, out);
}

/* Weights are on their way when an absence ends, and with it what a thread of theirs locks. */
static ac_status end_absence(ac_trainer *t, double *out) {
  ac_ranks_begin_absence(t->desc.ranks);
  AC_TRY(ac_trainer_accumulate(t, 1, feeds, 2));
  AC_TRY(ac_trainer_update(t, NULL));
  ac_ranks_end_absence(t->desc.ranks);
  if (t->exchange.overlap.owed) return ac_fail(AC_ERROR_INTERNAL, "a thread uses the ranks");
  return read_one(t, out);
}

/* Another trainer of the same ranks. */
typedef struct other {
  ac_graph *graph;
  ac_plan *plan;
  ac_trainer *trainer;
} other;

static other others[RANKED_MOST];

static ac_status open_other(ac_trainer *t) {
  other *o = &others[ranked_rank()];
  const ac_plan_desc plan = {.batch = BATCH, .ranks = t->exchange.ranks, .rank = t->exchange.rank};
  const ac_trainer_desc desc = {.seed = 2, .schedule = {.lr = 1e-3}, .ranks = t->desc.ranks};
  *o = (other){.graph = ranked_wide()};
  AC_TRY(ac_plan_create(&o->plan, o->graph, t->instance.device, &plan));
  return ac_trainer_create(&o->trainer, o->plan, &desc);
}

static void close_other(void) {
  const other *o = &others[ranked_rank()];
  ac_trainer_free(o->trainer);
  ac_plan_free(o->plan);
  ac_graph_free(o->graph);
}

static ac_status train_other(ac_trainer *t, double *out) {
  ac_trainer *o = others[ranked_rank()].trainer;
  AC_TRY(
      ac_trainer_accumulate(o, ac_share_of(BATCH, t->exchange.rank, t->exchange.ranks), feeds, 2));
  AC_TRY(ac_trainer_update(o, NULL));
  return read_one(o, out);
}

/* A rank without a sample of its window comes to the end of it at once. */
static ac_status update_other(ac_trainer *t, double *out) {
  ac_trainer *o = others[ranked_rank()].trainer;
  if (!ranked_rank()) AC_TRY(ac_trainer_accumulate(o, 3, feeds, 2));
  AC_TRY(ac_trainer_update(o, NULL));
  (void)t;
  return read_one(o, out);
}

static ac_status save_other(ac_trainer *t, double *out) {
  (void)t;
  return save_state(others[ranked_rank()].trainer, out);
}

/* One rank alone reads all, while the others come to the next point. */
static ac_status read_alone(ac_trainer *t, double *out) {
  if (ranked_rank() == 1) AC_TRY(read_one(t, out));
  return AC_OK;
}

static ac_status (*const uses[])(ac_trainer *, double *) = {
    read_one, write_one, evaluate,  predict,     use_average, locate,       save,       save_state,
    share,    meet,      be_absent, end_absence, train_other, update_other, save_other, read_alone};
enum { USES = sizeof uses / sizeof *uses };

static double came_out[RANKED_MOST][USES];

/* A window, and a use of what comes of it, again and again. */
static ac_status use_all(ac_trainer *t) {
  const bool overlaps = !t->exchange.overlap.never;
  const int rank = ranked_rank(), ranks = t->exchange.ranks;
  AC_TRY(open_other(t));
  if (overlaps) holds[rank].until = 1; /* by time */
  for (int i = 0; i < USES; i++) {
    AC_TRY(ac_trainer_accumulate(t, ac_share_of(BATCH, rank, ranks), feeds, 2));
    AC_TRY(ac_trainer_update(t, NULL));
    if (t->exchange.overlap.owed != overlaps) return ac_fail(AC_ERROR_INTERNAL, "owed: %d", i);
    AC_TRY(uses[i](t, &came_out[rank][i]));
    if (t->exchange.overlap.owed && uses[i] != read_alone)
      return ac_fail(AC_ERROR_INTERNAL, "use %d has not waited for weights", i);
  }
  close_other();
  ac_rank_report report;
  AC_TRY(ac_trainer_rank_report(t, rank, &report));
  if (!(report.waited > 0) || !(t->exchange.overlap.blocked > 0) == overlaps)
    return ac_fail(AC_ERROR_INTERNAL, "it says that it has waited for %g s", report.waited);
  return overlaps ? let_go(t) : AC_OK;
}

static void whatever_uses_parameters_waits_for_them(void **state) {
  (void)state;
  double held[RANKED_MOST][USES];
  ranked all[3], afterwards[3];
  ranked_case c = deep_case();
  for (int i = 0; i < BATCH * RANKED_FEATURES; i++) feature[i] = (float)(i % 7) / 7;
  for (int i = 0; i < BATCH * RANKED_CLASSES; i++) target[i] = (float)(i % 3);
  c.fit.steps = 1;
  c.plan.average = true;
  c.trainer.schedule.lr = 1e-3;
  c.before = hold_back;
  c.trainer.decide = close_again;
  c.after = use_all;
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  memcpy(held, came_out, sizeof held);
  c.before = ranked_exchange_afterwards;
  ranked_run(&c, 3, afterwards);
  ranked_check_same(afterwards, 3);
  assert_memory_equal(held, came_out, sizeof held);
  ranked_check_bits(&all[0], &afterwards[0]);
  ranked_free(all, 3);
  ranked_free(afterwards, 3);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Weights that fail to come end all ranks with one sentence, whichever message it was. */
static void a_late_failure_ends_all(void **state) {
  (void)state;
  ranked_case c = deep_case();
  c.before = hold_back;
  c.trainer.decide = close_again;
  fails_on = 1;
  for (fails_at = 1; fails_at < 24; fails_at += 4) {
    ranked all[3];
    ranked_run(&c, 3, all);
    for (int r = 0; r < 3; r++) {
      assert_int_not_equal(all[r].status, AC_OK);
      assert_contains(all[r].sentence, "the cable is out");
    }
    ranked_free(all, 3);
  }
  fails_at = 0;
}

/* Nothing can be done with a trainer that lacks weights. */
static ac_status lack_weights(ac_trainer *t) {
  float first;
  AC_TRY(ac_trainer_accumulate(t, 1, feeds, 2));
  AC_TRY(ac_trainer_update(t, NULL));
  if (ranked_rank() != 1) {
    (void)ac_trainer_get_parameter(t, 0, 0, 1, &first);
    return AC_OK;
  }
  holds[1].opens = true;
  if (ac_trainer_get_parameter(t, 0, 0, 1, &first) != AC_ERROR_IO ||
      !strstr(ac_last_error(), "the cable is out"))
    return ac_fail(AC_ERROR_INTERNAL, "it came nevertheless");
  if (ac_trainer_accumulate(t, 1, feeds, 2) == AC_ERROR_STATE &&
      strstr(ac_last_error(), "only some parameters were stepped"))
    return ac_fail(AC_ERROR_IO, "as it should be");
  return ac_fail(AC_ERROR_INTERNAL, "a trainer without weights goes on");
}

static ac_status fail_next(ac_trainer *trainer) {
  holds[ranked_rank()].fails_at = ranked_rank() == 1;
  return lack_weights(trainer);
}

static void a_trainer_without_weights_is_over(void **state) {
  (void)state;
  ranked_case c = deep_case();
  ranked all[2];
  c.fit.steps = 1;
  c.before = hold_back;
  c.trainer.decide = close_again;
  c.after = fail_next;
  ranked_run(&c, 2, all);
  assert_string_equal(all[1].sentence, "as it should be");
  ranked_free(all, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_wait_for_what_they_read),
      cmocka_unit_test(steps_of_other_devices_wait_as_well),
      cmocka_unit_test(late_weights_give_the_same_bits),
      cmocka_unit_test(whatever_uses_parameters_waits_for_them),
      cmocka_unit_test(a_late_failure_ends_all),
      cmocka_unit_test(a_trainer_without_weights_is_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
