#include "table_model.h"

/* `hidden`: the matrix is not that of the last layer, which Muon would leave to AdamW. */
static ac_graph *make_graph(bool hidden) {
  ac_graph *graph;
  const ac_parameter_desc normal = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.1f}};
  assert_ok(ac_graph_create(&graph));
  ac_tensor *ids = ac_input(graph, "ids", AC_I32, AC_SHAPE(AC_BATCH)),
            *targets = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *table = ac_parameter(graph, "table", AC_SHAPE(ROWS, WIDTH), &normal);
  ac_tensor *bias = ac_parameter(graph, "bias", AC_SHAPE(ROWS), NULL);
  ac_tensor *x = ac_embedding(table, ids);
  x = ac_linear(x, ac_parameter(graph, "matrix", AC_SHAPE(ROWS, WIDTH), &normal), bias, AC_OUT_IN);
  if (hidden) x = ac_silu(x);
  ac_graph_set_loss(graph, ac_cross_entropy(x, targets, NULL, NULL));
  return graph;
}

run begin_with(const char *device, ac_plan_desc desc, ac_trainer_desc training) {
  desc.batch = BATCH;
  ac_device *opened;
  assert_ok(ac_device_open(&opened, &(ac_device_desc){.name = device}));
  return run_of(opened, make_graph(desc.optimizer.kind == AC_MUON), &desc, &training);
}

run begin(const char *device, ac_plan_desc desc) {
  return begin_with(device, desc, (ac_trainer_desc){.seed = 3});
}

void accumulate(run *r, int step) {
  int32_t ids[BATCH], targets[BATCH];
  for (int i = 0; i < BATCH; i++) {
    ids[i] = (step * 7 + i * 13) % 30;
    targets[i] = (ids[i] * 3 + 1) % ROWS;
  }
  const ac_feed feeds[] = {{"ids", ids}, {"targets", targets}};
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, feeds, 2));
}

double train_steps(run *r, int first, int last) {
  ac_update update = {0};
  for (int step = first; step < last; step++) {
    accumulate(r, step);
    assert_ok(ac_trainer_update(r->trainer, &update));
  }
  return update.loss;
}

const char *const devices[] = {"cpu", "opencl"};

bool is_missing(const char *name) {
  int count = 0;
  assert_ok(ac_device_list(NULL, 0, &count));
  return !strcmp(name, "opencl") && count < 2;
}

void assert_same_parameters(run *a, run *b) {
  size_t count, same;
  float *x = all_parameters(a, &count), *y = all_parameters(b, &same);
  assert_int_equal(count, same);
  assert_memory_equal(x, y, count * sizeof *x);
  free(x);
  free(y);
}

double train_with_a_state(const char *device, ac_plan_desc desc, const char *path, run *whole,
                          run *half) {
  *whole = begin(device, desc);
  const double loss = train_steps(whole, 0, 40);
  *half = begin(device, desc);
  train_steps(half, 0, 20);
  assert_ok(ac_trainer_save_state(half->trainer, path, NULL, 0));
  stop(half);
  *half = begin(device, desc);
  assert_ok(ac_trainer_load_state(half->trainer, path));
  assert_true(train_steps(half, 20, 40) == loss);
  assert_same_parameters(whole, half);
  return loss;
}
