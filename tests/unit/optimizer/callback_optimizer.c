/* Optimizers of the caller's own: AdamW and SGD as callbacks against those built in, update by
 * update, under every kind of plan; what they are handed; their states, bytes and failures; and
 * refused. */
#include "support/files.h"

#include "support/runs.h"

#include "window/trainer.h"

enum { BATCH = 8, UPDATES = 4, MOST = 4 * 40 * 40 };

/* Some of its matrices have states that may be in host memory. */
static const test_gpt wide = {1, 40, CONTEXT, VOCAB, 2, 0.1f, true, true};

/* ---- the formulas of ops/update/optimizer.h
 * --------------------------------------------------------- */

typedef struct caller {
  int calls;
  int64_t largest;    /* elements that were handed over at once */
  int fail_at;        /* the call that fails; 0: none */
  ac_trainer *meddle; /* to be called from within */
} caller;

static const char *begin(caller *c, const ac_parameter_step *s) {
  if (s->count > c->largest) c->largest = s->count;
  if (c->meddle) {
    float value = 0;
    assert_refused(ac_trainer_set_parameter(c->meddle, 0, 0, 1, &value), AC_ERROR_STATE,
                   "at work in an update");
    assert_refused(ac_trainer_update(c->meddle, NULL), AC_ERROR_STATE, "at work in an update");
    assert_refused(ac_trainer_get_gradient(c->meddle, s->parameter, 0, 1, &value), AC_ERROR_STATE,
                   "at work in an update");
    ac_trainer_discard(c->meddle);
  }
  return ++c->calls == c->fail_at ? "the coffee is out" : NULL;
}

static const char *adamw(void *user, const ac_parameter_step *s) {
  const ac_optimizer_desc *o = &s->optimizer;
  const double t = (double)s->update, correction1 = 1 - pow(o->beta1, t),
               correction2 = sqrt(1 - pow(o->beta2, t));
  const char *why = begin(user, s);
  if (why) return why;
  assert_int_equal(s->state_count, 2);
  for (int64_t i = 0; i < s->count; i++) {
    const double g = (double)s->gradient[i];
    double m = (double)s->state[0][i], v = (double)s->state[1][i], p = (double)s->weights[i];
    m += (1 - o->beta1) * (g - m);
    v += (1 - o->beta2) * (g * g - v);
    p -= s->rate * s->weight_decay * p;
    p -= s->rate / correction1 * m / (sqrt(v) / correction2 + o->epsilon);
    s->state[0][i] = (float)m;
    s->state[1][i] = (float)v;
    s->weights[i] = (float)p;
  }
  return NULL;
}

static const char *sgd(void *user, const ac_parameter_step *s) {
  const char *why = begin(user, s);
  if (why) return why;
  assert_int_equal(s->state_count, 1);
  for (int64_t i = 0; i < s->count; i++) {
    const double p = (double)s->weights[i], g = (double)s->gradient[i] + s->weight_decay * p;
    const double m = s->update == 1 ? g : s->optimizer.momentum * (double)s->state[0][i] + g;
    s->state[0][i] = (float)m;
    s->weights[i] = (float)(p - s->rate * m);
  }
  return NULL;
}

/* ---- side by side ---------------------------------------------------------------------------- */

typedef struct pair {
  run built_in, own;
  caller caller;
} pair;

typedef ac_status reads(ac_trainer *, int, int64_t, int64_t, float *);
static ac_status read_first(ac_trainer *t, int index, int64_t first, int64_t count, float *data) {
  return ac_trainer_get_state(t, index, 0, first, count, data);
}
static ac_status read_second(ac_trainer *t, int index, int64_t first, int64_t count, float *data) {
  return ac_trainer_get_state(t, index, 1, first, count, data);
}

/* To 1e-6; what is read of the one is then brought to the other, so that in 16 bits no last bit
 * grows. */
static void compare(pair *p, int index, const char *what, reads *read,
                    ac_status (*write)(ac_trainer *, int, int64_t, int64_t, const float *)) {
  float want[MOST], got[MOST];
  const int64_t count = elements(p->own.trainer, index);
  assert_ok(read(p->built_in.trainer, index, 0, count, want));
  assert_ok(read(p->own.trainer, index, 0, count, got));
  for (int64_t e = 0; e < count; e++)
    if (!(fabs((double)want[e] - (double)got[e]) <= 1e-6))
      fail_msg("%s %d [%d] is %.9g, not %.9g", what, index, (int)e, (double)got[e],
               (double)want[e]);
  if (write) assert_ok(write(p->own.trainer, index, 0, count, want));
}

static void compare_all(pair *p) {
  const ac_plan *plan = p->own.plan;
  for (int i = 0; i < ac_trainer_parameter_count(p->own.trainer); i++) {
    compare(p, i, "parameter", ac_trainer_get_parameter, ac_trainer_set_parameter);
    if (!ac_trainer_trains(p->own.trainer, i)) continue;
    compare(p, i, "first state", read_first, NULL);
    if (ac_trainer_state_count(p->own.trainer) > 1)
      compare(p, i, "second state", read_second, NULL);
  }
  if (!plan->problem.desc.average) return;
  assert_ok(ac_trainer_use_average(p->built_in.trainer, true));
  assert_ok(ac_trainer_use_average(p->own.trainer, true));
  for (int i = 0; i < ac_trainer_parameter_count(p->own.trainer); i++)
    compare(p, i, "average", ac_trainer_get_parameter, NULL);
  assert_ok(ac_trainer_use_average(p->built_in.trainer, false));
  assert_ok(ac_trainer_use_average(p->own.trainer, false));
}

static ac_plan_desc own_plan(ac_plan_desc plan) {
  plan.optimizer.callback_states = plan.optimizer.kind == AC_ADAMW ? 2 : 1;
  plan.optimizer.kind = AC_OPTIMIZER_CALLBACK;
  return plan;
}

static void begin_pair(pair *p, ac_device *device, const test_gpt *m, ac_plan_desc plan,
                       ac_trainer_desc desc) {
  const ac_plan_desc own = own_plan(plan);
  *p = (pair){.caller = {0}};
  desc.seed = 3;
  plan.optimizer.callback_part = 0;
  p->built_in = start_on(device, m, plan, desc);
  desc.optimizer.step = plan.optimizer.kind == AC_ADAMW ? adamw : sgd;
  desc.user = &p->caller;
  p->own = start_on(device, m, own, desc);
}

static void check(ac_device *device, const test_gpt *m, ac_plan_desc plan, ac_trainer_desc desc) {
  const corpus c = make_corpus();
  plan.batch = BATCH;
  pair p;
  begin_pair(&p, device, m, plan, desc);
  for (int u = 0; u < UPDATES; u++) {
    ac_update a, b;
    assert_ok(feed(&p.built_in, &c, u, BATCH));
    assert_ok(feed(&p.own, &c, u, BATCH));
    assert_ok(ac_trainer_update(p.built_in.trainer, &a));
    assert_ok(ac_trainer_update(p.own.trainer, &b));
    assert_true(!a.skipped && !b.skipped && fabs(a.grad_norm - b.grad_norm) <= 1e-5 * a.grad_norm);
    compare_all(&p);
  }
  if (plan.optimizer.callback_part) assert_true(p.caller.largest == plan.optimizer.callback_part);
  stop_on(&p.built_in);
  stop_on(&p.own);
}

static void it_is_as_the_one_built_in(const char *name) {
  static const ac_plan_desc plans[] = {
      {.micro_batch = 8},
      {.micro_batch = 3, .optimizer = {.callback_part = 100}},
      {.optimizer = {.kind = AC_SGD}, .micro_batch = 3},
      {.whole_windows = true, .gradients = AC_GRADIENTS_BUFFER, .average = true},
      {.precision = AC_PRECISION_BF16, .micro_batch = 4, .average = true},
      {.precision = AC_PRECISION_F16, .micro_batch = 4, .optimizer = {.callback_part = 7}},
      {.gradients = AC_GRADIENTS_FUSED},
      {.gradients = AC_GRADIENTS_FUSED, .precision = AC_PRECISION_BF16, .average = true},
      {.gradients = AC_GRADIENTS_FUSED_LOCAL},
      {.gradients = AC_GRADIENTS_FUSED_LOCAL,
       .precision = AC_PRECISION_BF16,
       .optimizer = {.kind = AC_SGD},
       .average = true},
      {.gradients = AC_GRADIENTS_FUSED,
       .optimizer = {.clipping = AC_CLIP_VALUE},
       .precision = AC_PRECISION_F16},
      {.micro_batch = 4, .optimizer = {.kind = AC_SGD, .clipping = AC_CLIP_EACH}},
      {.micro_batch = 4, .optimizer = {.clipping = AC_CLIP_VALUE}},
      {.micro_batch = 4, .optimizer = {.clipping = AC_CLIP_ADAPTIVE}},
      {.micro_batch = 4, .frozen = "wte*,h0.*"}};
  ac_device *device = open_device(name);
  const ac_trainer_desc desc = {.schedule = {.lr = 1e-2},
                                .optimizer = {.weight_decay = 0.1, .clip = 0.05},
                                .groups = {{"*.b", {.rate = 0.5, .weight_decay = 0.2}},
                                           {"h1.fc.w", {.clip = 0.01}},
                                           {"f.ln.*", {.rate = -1}}},
                                .group_count = 3};
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) check(device, &model, plans[k], desc);
  ac_device_close(device);
}
ON_EVERY_DEVICE(it_is_as_the_one_built_in)

static void unclipped(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer;
  decision->factor = 1;
}

/* A decision's factor is what gradients come with. */
static void decisions_are_its_too(void **state) {
  (void)state;
  static const ac_plan_desc plans[] = {{.micro_batch = 4}, {.gradients = AC_GRADIENTS_FUSED}};
  ac_device *device = open_device("cpu");
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++)
    check(device, &model, plans[k],
          (ac_trainer_desc){
              .schedule = {.lr = 1e-2}, .optimizer = {.clip = 1e-4}, .decide = unclipped});
  ac_device_close(device);
}

/* What is there already is not copied. */
static void states_may_be_on_the_host(const char *name) {
  static const ac_plan_desc plans[] = {
      {.micro_batch = 4, .state_space = AC_STATE_ON_HOST, .optimizer = {.callback_part = 1000}},
      {.micro_batch = 4, .state_space = AC_STATE_ON_HOST, .optimizer = {.kind = AC_SGD}},
      {.gradients = AC_GRADIENTS_FUSED, .state_space = AC_STATE_ON_HOST}};
  ac_device *device = open_device(name);
  if (!device->backend->is_host) {
    device->info.own_memory = true;
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++)
      check(device, &wide, plans[k], (ac_trainer_desc){.schedule = {.lr = 1e-2}});
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(states_may_be_on_the_host)

/* ---- what is kept ---------------------------------------------------------------------------- */

static const char *count_up(void *user, const ac_parameter_step *s) {
  ++*(int *)user;
  for (int k = 0; k < s->state_count; k++)
    for (int64_t i = 0; i < s->count; i++)
      s->state[k][i] += (float)(k + 1) * (float)(s->first + i + 1);
  return NULL;
}

static const ac_plan_desc four = {
    .batch = BATCH,
    .micro_batch = 4,
    .optimizer = {.kind = AC_OPTIMIZER_CALLBACK, .callback_states = 4, .callback_part = 1000}};

static void check_states(ac_trainer *trainer, int updates) {
  float data[MOST];
  assert_int_equal(ac_trainer_state_count(trainer), 4);
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++)
    for (int k = 0; k < 4; k++) {
      const int64_t count = elements(trainer, i);
      assert_ok(ac_trainer_get_state(trainer, i, k, 0, count, data));
      for (int64_t e = 0; e < count; e++)
        assert_true(data[e] == (float)updates * (float)(k + 1) * (float)(e + 1));
    }
}

/* Resumed, the bits are those of a run that went on. */
static void states_go_on(const char *name) {
  const corpus c = make_corpus();
  const test_path path = in_folder("callback.safetensors");
  ac_device *device = open_device(name);
  int calls = 0;
  run r = start_on(device, &model, four,
                   (ac_trainer_desc){.optimizer = {.step = count_up}, .user = &calls});
  for (int u = 0; u < 3; u++) {
    assert_ok(feed(&r, &c, u, BATCH));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    if (u == 1) assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  }
  check_states(r.trainer, 3);
  assert_true(calls > 3 * ac_trainer_parameter_count(r.trainer));
  stop_on(&r);
  r = start_on(device, &model, four,
               (ac_trainer_desc){.optimizer = {.step = count_up}, .user = &calls});
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  check_states(r.trainer, 2);
  assert_ok(feed(&r, &c, 2, BATCH));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  check_states(r.trainer, 3);
  stop_on(&r);
  r = start_on(device, &model, (ac_plan_desc){.batch = BATCH}, (ac_trainer_desc){0});
  assert_refused(ac_trainer_load_state(r.trainer, path.text), AC_ERROR_FORMAT,
                 "is of a run with a callback, and the plan is for AdamW");
  stop_on(&r);
  ac_device_close(device);
}
ON_EVERY_DEVICE(states_go_on)

static float *resumed(ac_device *device, const char *path, bool saved, size_t *count) {
  const corpus c = make_corpus();
  caller own = {0};
  const ac_plan_desc plan =
      own_plan((ac_plan_desc){.batch = BATCH, .micro_batch = 4, .precision = AC_PRECISION_BF16});
  const ac_trainer_desc desc = {
      .seed = 3, .schedule = {.lr = 1e-2}, .optimizer = {.step = adamw}, .user = &own};
  run r = start_on(device, &model, plan, desc);
  if (saved) assert_ok(ac_trainer_load_state(r.trainer, path));
  for (int u = saved ? 2 : 0; u < UPDATES; u++) {
    assert_ok(feed(&r, &c, u, BATCH));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    if (u == 1) assert_ok(ac_trainer_save_state(r.trainer, path, NULL, 0));
  }
  float *all = all_parameters(&r, count);
  stop_on(&r);
  return all;
}

static void runs_go_on(const char *name) {
  const test_path path = in_folder("resumed.safetensors");
  ac_device *device = open_device(name);
  size_t count;
  float *whole = resumed(device, path.text, false, &count),
        *parts = resumed(device, path.text, true, &count);
  assert_memory_equal(whole, parts, count * sizeof *whole);
  free(whole);
  free(parts);
  ac_device_close(device);
}
ON_EVERY_DEVICE(runs_go_on)

/* What the plan counts is what there is. */
static void bytes_are_planned(const char *name) {
  ac_device *device = open_device(name);
  int calls = 0;
  for (int states = 0; states <= 4; states += 2)
    for (int part = 0; part < 2; part++) {
      ac_plan_desc plan = four;
      plan.optimizer.callback_states = states;
      plan.optimizer.callback_part = part ? 1000 : 0;
      const ac_trainer_desc desc = {.optimizer = {.step = count_up}, .user = &calls};
      run r = start_on(device, &model, plan, desc);
      const ac_plan_info *info = ac_plan_get_info(r.plan);
      const uint64_t largest = part ? 1000 : 4 * 24 * 24;
      uint64_t kept = 0;
      assert_int_equal(ac_device_allocated_bytes(device), info->bytes.total);
      for (int i = 0; i < r.plan->cell_count; i++)
        if (r.plan->cells[i].role == AC_ROLE_STATE) kept += r.plan->cells[i].bytes;
      assert_int_equal(kept, 4 * (uint64_t)states * (uint64_t)info->parameter_count);
      assert_true(info->bytes.optimizer >= kept && (states || !info->bytes.optimizer));
      assert_int_equal(info->callback_bytes,
                       device->backend->is_host ? 0 : largest * 4 * (2 + (uint64_t)states));
      stop_on(&r);
    }
  ac_device_close(device);
}
ON_EVERY_DEVICE(bytes_are_planned)

/* ---- when it is called ----------------------------------------------------------------------- */

static void hold_back(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer;
  decision->skip = true;
}

static void skipped_windows_do_not_call_it(void **state) {
  (void)state;
  const corpus c = make_corpus();
  caller own = {0};
  ac_update update;
  const ac_plan_desc plan = own_plan((ac_plan_desc){.batch = BATCH, .precision = AC_PRECISION_F16});
  ac_trainer_desc desc = {
      .optimizer = {.step = adamw}, .user = &own, .loss_scaling = {.scale = 0x1p+40}};
  run r = start("cpu", &model, plan, desc);
  assert_ok(feed(&r, &c, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.skipped && own.calls == 0);
  stop(&r);
  desc.loss_scaling.scale = 0;
  desc.decide = hold_back;
  r = start("cpu", &model, plan, desc);
  assert_ok(feed(&r, &c, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.skipped && own.calls == 0);
  stop(&r);
}

/* In the middle of steps, so that nobody goes on but from a state. */
static void failures_end_the_update(const char *name) {
  static const ac_plan_desc plans[] = {{.micro_batch = 4},
                                       {.gradients = AC_GRADIENTS_FUSED},
                                       {.gradients = AC_GRADIENTS_FUSED_LOCAL}};
  const corpus c = make_corpus();
  const test_path path = in_folder("failed.safetensors");
  ac_device *device = open_device(name);
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
    caller own = {0};
    ac_plan_desc plan = plans[k];
    plan.batch = BATCH;
    run r = start_on(device, &model, own_plan(plan),
                     (ac_trainer_desc){.optimizer = {.step = adamw}, .user = &own});
    const int each = ac_trainer_parameter_count(r.trainer);
    own.meddle = r.trainer;
    for (int u = 0; u < 2; u++) {
      own.fail_at = u ? each + 3 : 0;
      assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
      assert_ok(feed(&r, &c, u, BATCH));
      if (!u) assert_ok(ac_trainer_update(r.trainer, NULL));
      if (!u) assert_int_equal(own.calls, each);
    }
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STOPPED,
                   "the optimizer's callback failed at parameter");
    assert_contains(ac_last_error(), "the coffee is out");
    ac_trainer_discard(r.trainer);
    assert_refused(feed(&r, &c, 0, BATCH), AC_ERROR_STATE, "only some parameters were stepped");
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    assert_ok(feed(&r, &c, 0, BATCH));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    stop_on(&r);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(failures_end_the_update)

static void refusals(void **state) {
  (void)state;
  static const struct {
    ac_plan_desc plan;
    const char *why;
  } cases[] = {
      {{.optimizer = {.callback_states = 5}}, "0 to 4 states"},
      {{.optimizer = {.callback_states = -1}}, "0 to 4 states"},
      {{.optimizer = {.callback_part = -1}}, "parts of at least 1 element"},
      {{.optimizer = {.state = AC_STATE_8BIT}}, "keep their state in 8 bits"},
      {{.gradient_storage = AC_GRADIENT_BF16}, "takes no gradients in bf16"},
      {{.precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16}, "steps no weights in bf16"},
      {{.gradients = AC_GRADIENTS_FOLDED}, "take folded gradients"}};
  ac_device *device = open_device("cpu");
  ac_graph *graph = test_gpt_graph(&model);
  ac_plan *plan;
  ac_trainer *trainer;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_plan_desc desc = cases[i].plan;
    desc.optimizer.kind = AC_OPTIMIZER_CALLBACK;
    assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_ARGUMENT, cases[i].why);
  }
  assert_refused(
      ac_plan_create(&plan, graph, device, &(ac_plan_desc){.optimizer = {.callback_states = 1}}),
      AC_ERROR_ARGUMENT, "no meaning for another optimizer");
  assert_ok(ac_plan_create(&plan, graph, device,
                           &(ac_plan_desc){.batch = 1, .optimizer = {.kind = AC_SGD}}));
  assert_refused(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.optimizer = {.step = sgd}}),
                 AC_ERROR_ARGUMENT, "the plan is not for one");
  ac_plan_free(plan);
  assert_ok(ac_plan_create(&plan, graph, device, &four));
  assert_refused(ac_trainer_create(&trainer, plan, NULL), AC_ERROR_ARGUMENT,
                 "an optimizer of the caller's own; give it");
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_as_the_one_built_in_everywhere),
                                     cmocka_unit_test(decisions_are_its_too),
                                     cmocka_unit_test(states_may_be_on_the_host_everywhere),
                                     cmocka_unit_test(states_go_on_everywhere),
                                     cmocka_unit_test(runs_go_on_everywhere),
                                     cmocka_unit_test(bytes_are_planned_everywhere),
                                     cmocka_unit_test(skipped_windows_do_not_call_it),
                                     cmocka_unit_test(failures_end_the_update_everywhere),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
