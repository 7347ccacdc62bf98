#include "practice.h"

const int64_t practice_counts[PRACTICE_PARAMETERS] = {54, 3, 135, 5, 20, 4};

ac_graph *practice_graph(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 2, 3, 3)),
            *y = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 4));
  ac_tensor *conv = ac_parameter(g, "conv.weight", SHAPE(3, 2, 3, 3), ZEROS);
  x = ac_conv2d(x, conv, ac_parameter(g, "conv.bias", SHAPE(3), NULL),
                &(ac_conv2d_desc){.padding = {1, 1}});
  x = ac_reshape(ac_tanh(x), SHAPE(AC_BATCH, 27));
  ac_tensor *mid = ac_parameter(g, "mid.weight", SHAPE(5, 27), ZEROS);
  x = ac_tanh(ac_linear(x, mid, ac_parameter(g, "mid.bias", SHAPE(5), NULL), AC_OUT_IN));
  ac_tensor *head = ac_parameter(g, "head.weight", SHAPE(5, 4), ZEROS);
  x = ac_linear(x, head, ac_parameter(g, "head.bias", SHAPE(4), NULL), AC_IN_OUT);
  ac_graph_set_loss(g, ac_mean_squared_error(x, y, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

double practice_number(const op_vector *v, const char *name) {
  return op_vector_attribute(v, name, 0);
}

run practice_begin(const char *device, const op_vector *v, ac_plan_desc plan,
                   ac_trainer_desc desc) {
  const double *p0 = op_vector_find(v, "p0")->data;
  plan.batch = PRACTICE_SAMPLES;
  plan.optimizer.kind = practice_number(v, "adamw") != 0 ? AC_ADAMW : AC_SGD;
  desc.schedule.lr = practice_number(v, "lr");
  desc.optimizer.epsilon = practice_number(v, "epsilon");
  run r = run_of(open_device(device), practice_graph(), &plan, &desc);
  for (int i = 0; i < PRACTICE_PARAMETERS; p0 += practice_counts[i++]) {
    float values[PRACTICE_COUNT];
    for (int64_t e = 0; e < practice_counts[i]; e++) values[e] = (float)p0[e];
    assert_ok(ac_trainer_set_parameter(r.trainer, i, 0, practice_counts[i], values));
  }
  return r;
}

void practice_feed(run *r, const op_vector *v, int update) {
  float x[PRACTICE_SAMPLES * 18], y[PRACTICE_SAMPLES * 4];
  const double *xs = op_vector_find(v, "x")->data + update * PRACTICE_SAMPLES * 18,
               *ys = op_vector_find(v, "y")->data + update * PRACTICE_SAMPLES * 4;
  for (int i = 0; i < PRACTICE_SAMPLES * 18; i++) x[i] = (float)xs[i];
  for (int i = 0; i < PRACTICE_SAMPLES * 4; i++) y[i] = (float)ys[i];
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  assert_ok(ac_trainer_accumulate(r->trainer, PRACTICE_SAMPLES, feeds, 2));
}

void practice_check(run *r, const op_vector *v, const char *name, int update,
                    ac_status (*read)(ac_trainer *, int, int64_t, int64_t, float *)) {
  const double *want = op_vector_find(v, name)->data + update * PRACTICE_COUNT;
  for (int i = 0; i < PRACTICE_PARAMETERS; want += practice_counts[i++]) {
    float values[PRACTICE_COUNT];
    assert_ok(read(r->trainer, i, 0, practice_counts[i], values));
    for (int64_t e = 0; e < practice_counts[i]; e++)
      if (!(fabs((double)values[e] - want[e]) <= 1e-6))
        fail_msg("%s: %s of parameter %d [%d] is %.9g, not %.9g, after update %d", v->name, name, i,
                 (int)e, (double)values[e], want[e], update + 1);
  }
}

void practice_cases(const char *prefix, int expected, void (*check)(const op_vector *v)) {
  int count, found = 0;
  op_vector *vectors = op_vectors_read("practice", &count);
  assert_non_null(vectors);
  for (int i = 0; i < count; i++)
    if (!strncmp(vectors[i].name, prefix, strlen(prefix))) check(&vectors[i]), found++;
  assert_int_equal(found, expected);
  op_vectors_free(vectors, count);
}
