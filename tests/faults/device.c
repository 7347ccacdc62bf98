/* A small life of a trainer. The first, the second, ... call of the device fails, or the first, the
 * second, ... allocation of the library. Each failure has a message. The trainer is then as before;
 * or it is so after the window is discarded; or it refuses everything until a state is loaded. From
 * there on the life comes to the same bits as one without a fault.
 *
 *   test_faults_device [--all]    without it every n-th call, which takes a minute */
#include "support/states.h"

#include "backend.h"
#include "core/error.h"
#include "faults.h"

#include <accrue/session.h>

static const shape_of_model both = {.norm = true, .two = true}, without_norm = {.two = true};
static bool all;

/* ---- two ways to fail ------------------------------------------------------------------------ */

typedef struct faults {
  const char *name;
  void (*begin)(long k); /* counts anew; the k-th fails; 0: none */
  void (*pause)(bool paused);
  long (*calls)(void);
  ac_status status; /* in addition to AC_ERROR_MEMORY */
  int runs;         /* without --all, about as many for each life */
} faults;

static void begin_memory(long k) {
  char text[32];
  snprintf(text, sizeof text, "memory:%ld", k);
  assert_true(faults_arm(text, NULL));
}

static const faults of_device = {
    "device", faulty_backend_fail, faulty_backend_pause, faulty_backend_calls, AC_ERROR_DEVICE,
    150};
static const faults of_memory = {"memory",     begin_memory,    faults_pause,
                                 faults_calls, AC_ERROR_MEMORY, 150};

/* ---- a life ---------------------------------------------------------------------------------- */

enum { EVALUATIONS = 3 };

typedef struct life {
  run r;
  ac_dataset *train, *validation;
  test_path state, model, last; /* last: before the step at hand */
  facts evaluations[EVALUATIONS];
} life;

typedef struct contents {
  unsigned char *data;
  size_t bytes;
} contents;

static contents read_contents(const test_path *path) {
  contents c;
  c.data = read_file(path->text, &c.bytes);
  return c;
}

/* As all that a trainer is. Fails where the trainer may not be saved. */
static ac_status look(const life *l, contents *c) {
  const test_path path = in_folder("look");
  *c = (contents){0};
  AC_TRY(ac_trainer_save_state(l->r.trainer, path.text, NULL, 0));
  *c = read_contents(&path);
  return AC_OK;
}

/* The tensors of a state alone, without what is counted. */
static contents tensors_of(const contents *state) {
  uint64_t header;
  memcpy(&header, state->data, sizeof header);
  return (contents){state->data + 8 + header, state->bytes - 8 - header};
}

static bool same(const contents *a, const contents *b) {
  return a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

/* ---- its steps ------------------------------------------------------------------------------- */

static const ac_trainer_desc described = {.seed = 3,
                                          .schedule = {.lr = 0.02},
                                          .loss_scaling = {.scale = 64},
                                          .spikes = {.policy = AC_SPIKE_SKIP},
                                          .layers_every = 1,
                                          .noise_layers = true,
                                          .noise_every = 1};

static ac_status create(life *l) {
  return ac_trainer_create(&l->r.trainer, l->r.plan, &described);
}

static ac_status begin_window(life *l) {
  return feed_samples(&l->r, 0, 2);
}

static ac_status end_window(life *l) {
  AC_TRY(feed_samples(&l->r, 2, 2));
  return ac_trainer_update(l->r.trainer, NULL);
}

static ac_status whole_window(life *l) {
  AC_TRY(feed_samples(&l->r, 4, 4));
  return ac_trainer_update(l->r.trainer, NULL);
}

static ac_status evaluate(life *l, int number) {
  ac_evaluation e;
  AC_TRY(ac_trainer_evaluate(l->r.trainer, l->validation, 0, &e));
  l->evaluations[number] = (facts){.count = 0};
  add_evaluation(&l->evaluations[number], &e);
  return AC_OK;
}

static ac_status evaluate_within(life *l) {
  return evaluate(l, 0);
}
static ac_status evaluate_between(life *l) {
  return evaluate(l, 1);
}

static ac_status save_state(life *l) {
  return ac_trainer_save_state(l->r.trainer, l->state.text, NULL, 0);
}
static ac_status load_state(life *l) {
  return ac_trainer_load_state(l->r.trainer, l->state.text);
}
static ac_status save_model(life *l) {
  return ac_trainer_save(l->r.trainer, l->model.text, NULL, 0);
}
static ac_status load_model(life *l) {
  return ac_trainer_load(l->r.trainer, l->model.text, NULL);
}

static ac_status fit(life *l) {
  const ac_fit_desc desc = {.train = l->train,
                            .validation = l->validation,
                            .epochs = 2,
                            .eval_every = 2,
                            .seed = 5,
                            .resume = true};
  ac_fit_result result;
  AC_TRY(ac_fit(l->r.trainer, &desc, &result));
  l->evaluations[2] = (facts){.count = 0};
  add_evaluation(&l->evaluations[2], &result.final);
  return AC_OK;
}

static const struct {
  const char *name;
  ac_status (*run)(life *l);
  bool advances; /* where it fails, it may have done some of what it does */
} steps[] = {
    {"create", create, false},
    {"whole window", whole_window, false},
    {"begin window", begin_window, false},
    {"save state", save_state, false},
    {"evaluate within", evaluate_within, false},
    {"end window", end_window, false},
    {"save model", save_model, false},
    {"load state", load_state, false},
    {"end window again", end_window, false},
    {"whole window again", whole_window, false},
    {"load model", load_model, false},
    {"evaluate between", evaluate_between, false},
    {"fit", fit, true},
    {"last window", whole_window, false},
};
enum { STEPS = sizeof steps / sizeof *steps };

/* ---- what holds after a failure -------------------------------------------------------------- */

static void assert_is(const contents *now, const contents *expected, const char *where) {
  if (!same(now, expected)) fail_msg("%s: the trainer has changed", where);
  free(now->data);
}

/* Brings the trainer to where the step began; `between` is what it was before the window. */
static void recover(life *l, int step, const contents *before, const contents *between,
                    const char *where) {
  contents now;
  if (look(l, &now) == AC_OK) {
    if (steps[step].advances) free(now.data);
    else assert_is(&now, before, where);
    return;
  }
  ac_trainer_discard(l->r.trainer);
  if (look(l, &now) == AC_OK) {
    if (steps[step].advances) free(now.data);
    else assert_is(&now, between, where);
    if (same(before, between)) return;
  } else assert_contains(ac_last_error(), "load");
  assert_ok(ac_trainer_load_state(l->r.trainer, l->last.text));
}

static void check_failure(const faults *f, ac_status status, const char *where) {
  if (status != f->status && status != AC_ERROR_MEMORY)
    fail_msg("%s: %s: %s", where, ac_status_name(status), ac_last_error());
  const char *sentence = ac_last_error();
  const bool says = status != AC_ERROR_MEMORY ? strstr(sentence, "the device failed in") != NULL
                                              : strstr(sentence, "memory") ||
                                                    strstr(sentence, "could not be allocated") ||
                                                    strstr(sentence, "cannot start a thread");
  if (!says) fail_msg("%s: no cause in \"%s\"", where, ac_last_error());
  assert_null(strchr(ac_last_error(), '\n'));
}

/* What the trainer is, and what it would be without its window. */
static void note(life *l, contents *before, contents *between) {
  free(before->data);
  free(between->data);
  assert_ok(look(l, before));
  write_file(l->last.text, before->data, before->bytes);
  ac_trainer_discard(l->r.trainer);
  assert_ok(look(l, between));
  assert_ok(ac_trainer_load_state(l->r.trainer, l->last.text));
}

static void take_step(life *l, const faults *f, int step, contents *before, contents *between) {
  const ac_status status = steps[step].run(l);
  f->pause(true);
  char where[80];
  snprintf(where, sizeof where, "%s, call %ld: %s", f->name, f->calls(), steps[step].name);
  if (status != AC_OK) {
    check_failure(f, status, where);
    if (l->r.trainer) recover(l, step, before, between, where);
    if (steps[step].run(l) != AC_OK) fail_msg("%s again: %s", where, ac_last_error());
  }
  note(l, before, between);
  f->pause(false);
}

/* Returns what the trainer is in the end. */
static contents live(life *l, const faults *f, long k) {
  contents before = {0}, between = {0};
  f->begin(k);
  for (int i = 0; i < STEPS; i++) take_step(l, f, i, &before, &between);
  f->pause(true);
  free(between.data);
  ac_trainer_free(l->r.trainer);
  l->r.trainer = NULL;
  assert_int_equal(ac_device_allocated_bytes(l->r.device), 0);
  return before;
}

/* ---- every call ------------------------------------------------------------------------------ */

static life begin_life(const shape_of_model *m, const ac_plan_desc *plan) {
  life l = {.train = dataset_of(10),
            .validation = dataset_of(3),
            .state = in_folder("state"),
            .model = in_folder("model"),
            .last = in_folder("last")};
  ac_graph *graph = graph_of(m);
  assert_ok(ac_device_open(&l.r.device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  assert_ok(ac_plan_create(&l.r.plan, graph, l.r.device, plan));
  ac_graph_free(graph);
  faulty_backend_wrap(l.r.device);
  return l;
}

static void end_life(life *l) {
  ac_plan_free(l->r.plan);
  ac_device_close(l->r.device);
  ac_dataset_free(l->train);
  ac_dataset_free(l->validation);
}

static void fail_in_turn(const faults *f, const ac_plan_desc *plan) {
  life l = begin_life(&both, plan);
  const contents undisturbed = live(&l, f, 0);
  facts evaluations[EVALUATIONS];
  memcpy(evaluations, l.evaluations, sizeof evaluations);
  const long calls = f->calls(), stride = all ? 1 : calls / f->runs + 1;
  for (long k = 1; k <= calls; k += stride) {
    const contents end = live(&l, f, k);
    if (!same(&end, &undisturbed)) fail_msg("%s, call %ld: another end", f->name, k);
    for (int i = 0; i < EVALUATIONS; i++)
      assert_true(same_facts(&evaluations[i], &l.evaluations[i]));
    free(end.data);
  }
  print_message("%ld calls (%s)\n", calls, f->name);
  free(undisturbed.data);
  end_life(&l);
}

static const ac_plan_desc plain = {.batch = BATCH,
                                   .micro_batch = 1,
                                   .batch_norm = AC_BATCH_NORM_MICRO,
                                   .recompute = AC_RECOMPUTE_ALL,
                                   .loss_means = AC_LOSS_MEANS_PER_SAMPLE};
static const ac_plan_desc half = {.batch = BATCH,
                                  .micro_batch = 3,
                                  .batch_norm = AC_BATCH_NORM_MICRO,
                                  .precision = AC_PRECISION_F16,
                                  .optimizer = {.kind = AC_SGD},
                                  .loss_means = AC_LOSS_MEANS_PER_SAMPLE,
                                  .read_ahead = 1,
                                  .debug_numerics = true};

static void calls_of_the_device_fail(void **state) {
  (void)state;
  fail_in_turn(&of_device, &plain);
  fail_in_turn(&of_device, &half);
}

static void allocations_fail(void **state) {
  (void)state;
  fail_in_turn(&of_memory, &plain);
  fail_in_turn(&of_memory, &half);
}

/* ---- values that are not finite -------------------------------------------------------------- */

static void spare_the_update(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer, (void)decision;
  faulty_backend_pause(true);
}

/* The k-th op of a window that yields floats begins them with a NaN; -1: none does. */
static ac_update spoiled_window(life *l, long k) {
  ac_update update;
  faulty_backend_spoil(k);
  assert_ok(feed_samples(&l->r, 0, BATCH));
  assert_ok(ac_trainer_update(l->r.trainer, &update));
  faulty_backend_pause(true);
  return update;
}

static contents look_at_tensors(const life *l, contents *whole) {
  assert_ok(look(l, whole));
  return tensors_of(whole);
}

static void check_spoiled(life *l, const ac_trainer_desc *desc, long k, const contents *expected) {
  contents whole[3];
  assert_ok(ac_trainer_create(&l->r.trainer, l->r.plan, desc));
  const contents before = look_at_tensors(l, &whole[0]);
  if (!spoiled_window(l, k).skipped) fail_msg("NaN of op %ld: an update", k);
  const contents skipped = look_at_tensors(l, &whole[1]);
  if (!same(&before, &skipped)) fail_msg("NaN of op %ld: the trainer has changed", k);
  assert_false(spoiled_window(l, -1).skipped);
  const contents after = look_at_tensors(l, &whole[2]);
  if (!same(&after, expected)) fail_msg("NaN of op %ld: the next window is another", k);
  for (int i = 0; i < 3; i++) free(whole[i].data);
  ac_trainer_free(l->r.trainer);
}

/* Whatever op of a window yields a NaN, the window is skipped and nothing has changed: the same
 * window again comes to the same bits. The other outputs of batch norm do not reach the loss and
 * its gradient. */
static void a_nan_of_any_op_changes_nothing(void **state) {
  (void)state;
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 0.02}, .decide = spare_the_update};
  life l = begin_life(&without_norm, &plain);
  contents whole;
  assert_ok(ac_trainer_create(&l.r.trainer, l.r.plan, &desc));
  assert_false(spoiled_window(&l, -1).skipped);
  const long calls = faulty_backend_calls();
  const contents expected = look_at_tensors(&l, &whole);
  ac_trainer_free(l.r.trainer);
  assert_in_range(calls, 40, 1000);
  for (long k = 1; k <= calls; k++) check_spoiled(&l, &desc, k, &expected);
  free(whole.data);
  end_life(&l);
}

/* ---- sessions -------------------------------------------------------------------------------- */

enum { OUTPUTS = 2 * TOKENS * WIDTH };

static ac_status compute(ac_session *session) {
  float x[2][TOKENS * WIDTH];
  for (int i = 0; i < 2; i++) {
    const sample s = make_sample(i, 0);
    memcpy(x[i], s.x, sizeof s.x);
  }
  return ac_session_run(session, 2, &(ac_feed){"x", x}, 1);
}

static ac_status result_of(ac_session *session, float *h) {
  return ac_session_output(session, "h", 0, OUTPUTS, h);
}

static void save_two_models(void) {
  life l = begin_life(&both, &plain);
  assert_ok(create(&l));
  assert_ok(ac_trainer_save(l.r.trainer, l.state.text, NULL, 0));
  assert_ok(whole_window(&l));
  assert_ok(save_model(&l));
  ac_trainer_free(l.r.trainer);
  end_life(&l);
}

/* Loads another model and computes, with the k-th call failing. Returns whether there was one. */
static bool fail_session(const life *l, ac_session *session, long k, const float *expected) {
  float h[OUTPUTS];
  assert_ok(ac_session_load(session, l->state.text, NULL));
  assert_ok(compute(session));
  faulty_backend_fail(k);
  const bool loaded = ac_session_load(session, l->model.text, NULL) == AC_OK;
  const bool computed = loaded && compute(session) == AC_OK;
  faulty_backend_pause(true);
  if (!computed) assert_contains(ac_last_error(), "the device failed in");
  if (!loaded) {
    assert_refused(compute(session), AC_ERROR_STATE, "session: a model was loaded in part");
    assert_ok(ac_session_load(session, l->model.text, NULL));
  } else if (!computed) assert_refused(result_of(session, h), AC_ERROR_STATE, "nothing was run");
  assert_ok(compute(session));
  assert_ok(result_of(session, h));
  assert_memory_equal(h, expected, sizeof h);
  return !computed;
}

/* A session computes with one model or another, and yields nothing of a run that failed. */
static void sessions_fail_whole(void **state) {
  (void)state;
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = 2};
  save_two_models();
  life l = begin_life(&both, &desc);
  ac_session *session;
  float expected[OUTPUTS];
  assert_ok(ac_session_create(&session, l.r.plan, 8));
  assert_ok(ac_session_load(session, l.model.text, NULL));
  assert_ok(compute(session));
  assert_ok(result_of(session, expected));
  long k = 1;
  while (fail_session(&l, session, k, expected)) k++;
  assert_in_range(k, 10, 1000);
  ac_session_free(session);
  end_life(&l);
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(int argc, char **argv) {
  all = argc > 1 && !strcmp(argv[1], "--all");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_of_the_device_fail),
      cmocka_unit_test(allocations_fail),
      cmocka_unit_test(a_nan_of_any_op_changes_nothing),
      cmocka_unit_test(sessions_fail_whole),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
