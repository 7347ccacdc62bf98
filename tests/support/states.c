#include "states.h"

/* ---- samples --------------------------------------------------------------------------------- */

sample make_sample(int64_t index, int64_t epoch) {
  sample s;
  uint32_t state = (uint32_t)(index * 977 + epoch * 13 + 5);
  for (int i = 0; i < TOKENS * WIDTH; i++) {
    state = state * 1664525u + 1013904223u;
    s.x[i] = (float)(state >> 16) / 32768 - 1;
  }
  for (int i = 0; i < TOKENS; i++)
    s.kinds[i] = i > (index + epoch) % TOKENS ? -1 : (int32_t)(index + 3 * i) % WIDTH;
  return s;
}

ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  (void)user;
  const sample s = make_sample(key->index, key->epoch);
  memcpy(fields[0], s.x, sizeof s.x);
  memcpy(fields[1], s.kinds, sizeof s.kinds);
  return AC_OK;
}

ac_dataset *dataset_of(int64_t count) {
  ac_dataset *dataset;
  const ac_callback_dataset_desc desc = {
      .count = count,
      .field_count = 2,
      .fields = {{"x", AC_F32, TOKENS * WIDTH}, {"kinds", AC_I32, TOKENS}},
      .read = read_sample,
      .concurrent = true};
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  return dataset;
}

/* ---- the model ------------------------------------------------------------------------------- */

ac_tensor *matrix(ac_graph *g, const char *name, int64_t rows, int64_t columns) {
  const ac_parameter_desc desc = {.init = {AC_INIT_NORMAL, .deviation = 0.6f}};
  if (!columns) return ac_parameter(g, name, SHAPE(rows), &desc);
  return ac_parameter(g, name, SHAPE(rows, columns), &desc);
}

ac_tensor *statistics(ac_graph *g, const char *name, float value) {
  const ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = value}, .frozen = true};
  return ac_parameter(g, name, SHAPE(TOKENS), &desc);
}

static ac_tensor *norm(ac_graph *g, ac_tensor *x) {
  ac_tensor *weight = matrix(g, "norm.weight", TOKENS, 0);
  ac_tensor *mean = statistics(g, "norm.running_mean", 0);
  ac_tensor *variance = statistics(g, "norm.running_var", 1);
  return ac_batch_norm(x, weight, NULL, mean, variance, &(ac_batch_norm_desc){.momentum = 0.25f});
}

ac_graph *graph_of(const shape_of_model *m) {
  const int64_t hidden = m->hidden ? m->hidden : WIDTH;
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, TOKENS, WIDTH)), *h = x;
  if (m->norm) h = norm(g, h);
  ac_tensor *encoder = matrix(g, "encoder", hidden, WIDTH);
  h = ac_linear(h, encoder, matrix(g, "encoder.bias", hidden, 0), AC_OUT_IN);
  ac_tensor *shared = matrix(g, "shared", WIDTH, hidden);
  h = ac_linear(ac_dropout(ac_tanh(h), 0.25f), shared, NULL, AC_OUT_IN);
  if (hidden == WIDTH) h = ac_linear(ac_tanh(h), shared, NULL, AC_OUT_IN);
  ac_graph_set_output(g, "h", h);
  ac_tensor *pixels = ac_mean_squared_error(h, x, NULL);
  if (m->two) {
    const ac_cross_entropy_desc desc = {.ignore = true, .ignore_index = -1};
    ac_tensor *kinds = ac_input(g, "kinds", AC_I32, SHAPE(AC_BATCH, TOKENS));
    ac_graph_add_loss(g, "pixels", pixels, 0.5);
    ac_graph_add_loss(g, "kinds", ac_cross_entropy(h, kinds, NULL, &desc), 2);
  } else {
    ac_graph_set_loss(g, pixels);
  }
  assert_ok(ac_graph_status(g));
  return g;
}

/* ---- runs ------------------------------------------------------------------------------------ */

ac_device *shared_device;

run start_graph(const char *device, const ac_graph *graph, const ac_plan_desc *plan,
                const ac_trainer_desc *desc) {
  const ac_device_info *shared = ac_device_get_info(shared_device);
  run r = {.device = shared_device};
  if (!shared || strcmp(shared->id, device) != 0)
    assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device, plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, desc));
  return r;
}

run start_model(const char *device, const shape_of_model *m, const ac_plan_desc *plan,
                const ac_trainer_desc *desc) {
  ac_graph *graph = graph_of(m);
  const run r = start_graph(device, graph, plan, desc);
  ac_graph_free(graph);
  return r;
}

void end_run(run *r) {
  if (r->device != shared_device) {
    stop(r);
    return;
  }
  ac_trainer_free(r->trainer);
  assert_int_equal(ac_device_allocated_bytes(r->device), 0);
  ac_plan_free(r->plan);
}

void share_device(const char *name) {
  if (strcmp(name, "cpu"))
    assert_ok(ac_device_open(&shared_device, &(ac_device_desc){.name = name}));
}

void unshare_device(void) {
  ac_device_close(shared_device);
  shared_device = NULL;
}

ac_status feed_samples(const run *r, int first, int count) {
  float x[COUNT][TOKENS * WIDTH];
  int32_t kinds[COUNT][TOKENS];
  assert_true(first >= 0 && first + count <= COUNT);
  for (int i = 0; i < count; i++) {
    const sample s = make_sample(first + i, 0);
    memcpy(x[i], s.x, sizeof s.x);
    memcpy(kinds[i], s.kinds, sizeof s.kinds);
  }
  return ac_trainer_accumulate(r->trainer, count, (ac_feed[]){{"x", x}, {"kinds", kinds}}, 2);
}

/* ---- what can be seen of a trainer ----------------------------------------------------------- */

snapshot look_at(const run *r) {
  snapshot s;
  memset(&s, 0, sizeof s);
  assert_ok(ac_trainer_get_progress(r->trainer, &s.progress));
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++) {
    const int count = (int)elements(r->trainer, i);
    assert_true(s.weight_count + count <= MOST_FLOATS);
    assert_ok(ac_trainer_get_parameter(r->trainer, i, 0, count, s.weights + s.weight_count));
    s.weight_count += count;
    for (int k = 0; k < ac_trainer_state_count(r->trainer); k++) {
      assert_true(s.moment_count + count <= MOST_FLOATS);
      if (ac_trainer_get_state(r->trainer, i, k, 0, count, s.moments + s.moment_count) == AC_OK)
        s.moment_count += count;
    }
    if (s.progress.window_samples &&
        ac_trainer_get_gradient(r->trainer, i, 0, count, s.gradients + s.gradient_count) == AC_OK)
      s.gradient_count += count;
  }
  return s;
}

void assert_same(const char *where, const snapshot *a, const snapshot *b) {
  if (memcmp(a->weights, b->weights, sizeof a->weights)) fail_msg("%s: other weights", where);
  if (memcmp(a->moments, b->moments, sizeof a->moments)) fail_msg("%s: other moments", where);
  if (memcmp(a->gradients, b->gradients, sizeof a->gradients)) fail_msg("%s: gradients", where);
  if (memcmp(&a->progress, &b->progress, sizeof a->progress)) fail_msg("%s: progress", where);
  assert_true(a->weight_count == b->weight_count && a->moment_count == b->moment_count &&
              a->gradient_count == b->gradient_count);
}

/* ---- updates as numbers, to be compared bit by bit ------------------------------------------- */

void add_fact(facts *f, double fact) {
  assert_true(f->count < FACTS);
  f->of[f->count++] = fact;
}

static void add_means(facts *f, const ac_loss_mean *losses, int count) {
  add_fact(f, count);
  for (int k = 0; k < count; k++) {
    add_fact(f, losses[k].loss);
    add_fact(f, losses[k].accuracy);
    add_fact(f, losses[k].weight);
  }
}

void add_update(facts *f, const ac_update *u) {
  const double all[] = {(double)u->update,  u->loss,       u->weight,     u->lr,
                        u->grad_norm,       u->loss_scale, u->skipped,    u->finite_loss,
                        u->finite_gradient, u->stuck,      u->noise_scale};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) add_fact(f, all[i]);
  add_means(f, u->losses, u->loss_count);
}

void add_evaluation(facts *f, const ac_evaluation *e) {
  add_fact(f, e->loss);
  add_fact(f, e->accuracy);
  add_fact(f, e->weight);
  add_means(f, e->losses, e->loss_count);
}

bool same_facts(const facts *a, const facts *b) {
  return a->count == b->count && !memcmp(a->of, b->of, (size_t)a->count * sizeof *a->of);
}
