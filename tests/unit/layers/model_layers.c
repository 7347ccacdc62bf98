/* Layers: names, shapes, initial values and sentences; and the learner. */
#include "support/headers.h"

#include "graph/graph.h"

#include <accrue/learner.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static ac_graph *graph;

static int open_graph(void **state) {
  (void)state;
  return ac_graph_create(&graph);
}

static int free_graph(void **state) {
  (void)state;
  ac_graph_free(graph);
  return 0;
}

static void assert_shape(const ac_tensor *tensor, int rank, const int64_t *shape) {
  ac_tensor_info info;
  if (!tensor) fail_msg("%s", ac_graph_message(graph));
  ac_tensor_get_info(tensor, &info);
  assert_int_equal(info.rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(info.shape[i], shape[i]);
}

/* The parameter of this name. */
static const ac_tensor *named(const char *name) {
  for (int i = 0; i < graph->parameter_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, graph->parameters[i]);
    if (!strcmp(tensor->name, name)) return tensor;
  }
  fail_msg("there is no parameter %s", name);
  return NULL;
}

static void assert_uniform(const char *name, double bound) {
  const ac_init *init = &named(name)->desc.init;
  assert_int_equal(init->kind, AC_INIT_UNIFORM);
  assert_float_equal(init->high, bound, 1e-6);
  assert_float_equal(init->low, -bound, 1e-6);
}

static void assert_constant(const char *name, double value) {
  assert_int_equal(named(name)->desc.init.kind, AC_INIT_CONSTANT);
  assert_float_equal(named(name)->desc.init.value, value, 0);
}

static void dense_is_pytorchs_linear(void **state) {
  (void)state;
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 5, 16));
  ac_graph_scope(graph, "outer");
  ac_tensor *y = ac_dense(graph, "fc1", x, 8, NULL);
  assert_shape(y, AC_SHAPE(AC_BATCH, 5, 8));
  assert_shape(named("fc1.weight"), AC_SHAPE(8, 16));
  assert_shape(named("fc1.bias"), AC_SHAPE(8));
  assert_uniform("fc1.weight", 0.25);
  assert_uniform("fc1.bias", 0.25);
  assert_string_equal(graph->scopes[ac_node_at(graph, y->producer)->scope], "fc1");
  ac_tensor *z = ac_relu(y);
  assert_string_equal(graph->scopes[ac_node_at(graph, z->producer)->scope], "outer");
  const ac_dense_desc turned = {.no_bias = true,
                                .frozen = true,
                                .layout = AC_IN_OUT,
                                .weight = {.kind = AC_INIT_XAVIER_NORMAL}};
  assert_shape(ac_dense(graph, "fc2", z, 3, &turned), AC_SHAPE(AC_BATCH, 5, 3));
  assert_shape(named("fc2.weight"), AC_SHAPE(8, 3));
  assert_true(named("fc2.weight")->desc.init.in_out);
  assert_true(named("fc2.weight")->desc.frozen);
  assert_int_equal(graph->parameter_count, 3);
}

static void convolutions_norms_and_embeddings(void **state) {
  (void)state;
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 6, 9, 9)),
            *ids = ac_input(graph, "ids", AC_I32, AC_SHAPE(AC_BATCH, 7));
  const ac_conv2d_layer_desc moved = {
      .convolution = {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}};
  ac_tensor *y = ac_conv2d_layer(graph, "conv", x, 12, 3, &moved);
  assert_shape(y, AC_SHAPE(AC_BATCH, 12, 5, 5));
  assert_shape(named("conv.weight"), AC_SHAPE(12, 3, 3, 3));
  assert_uniform("conv.weight", 1 / sqrt(27));
  assert_uniform("conv.bias", 1 / sqrt(27));
  const ac_conv_transpose2d_layer_desc larger = {.convolution = {.stride = {2, 2}, .groups = 3}};
  assert_shape(ac_conv_transpose2d_layer(graph, "up", x, 12, 2, &larger),
               AC_SHAPE(AC_BATCH, 12, 18, 18));
  assert_shape(named("up.weight"), AC_SHAPE(6, 4, 2, 2));
  assert_uniform("up.weight", 0.25);
  assert_uniform("up.bias", 0.25);
  ac_tensor *line = ac_reshape(x, AC_SHAPE(AC_BATCH, 6, 81)),
            *volume = ac_reshape(x, AC_SHAPE(AC_BATCH, 2, 3, 9, 9));
  assert_shape(ac_conv1d_layer(graph, "line", line, 4, 6, NULL), AC_SHAPE(AC_BATCH, 4, 76));
  assert_shape(named("line.weight"), AC_SHAPE(4, 6, 6));
  assert_uniform("line.bias", 1 / 6.0);
  assert_shape(ac_conv_transpose1d_layer(graph, "back", line, 4, 2, NULL),
               AC_SHAPE(AC_BATCH, 4, 82));
  assert_shape(named("back.weight"), AC_SHAPE(6, 4, 2));
  assert_uniform("back.weight", 1 / sqrt(8));
  assert_shape(ac_conv3d_layer(graph, "volume", volume, 4, 2, NULL),
               AC_SHAPE(AC_BATCH, 4, 2, 8, 8));
  assert_shape(named("volume.weight"), AC_SHAPE(4, 2, 2, 2, 2));
  assert_uniform("volume.weight", 0.25);
  static const struct {
    ac_norm_layer_desc desc;
    int parameters;
  } norms[] = {{{.kind = AC_NORM_GROUP}, 2},
               {{.kind = AC_NORM_GROUP, .groups = 4, .no_bias = true}, 1},
               {{.kind = AC_NORM_INSTANCE}, 2},
               {{.kind = AC_NORM_BATCH, .momentum = 0.2f}, 4}};
  for (int i = 0; i < 4; i++) {
    char name[16];
    const int before = graph->parameter_count;
    snprintf(name, sizeof name, "norm%d", i);
    assert_shape(ac_norm_layer(graph, name, y, &norms[i].desc), AC_SHAPE(AC_BATCH, 12, 5, 5));
    assert_int_equal(graph->parameter_count - before, norms[i].parameters);
  }
  assert_constant("norm0.weight", 1);
  assert_constant("norm0.bias", 0);
  assert_constant("norm3.running_var", 1);
  assert_true(named("norm3.running_mean")->desc.frozen);
  assert_false(named("norm3.weight")->desc.frozen);
  ac_tensor *z = ac_embedding_layer(graph, "table", ids, 11, 16, NULL);
  assert_shape(z, AC_SHAPE(AC_BATCH, 7, 16));
  assert_shape(named("table.weight"), AC_SHAPE(11, 16));
  assert_int_equal(named("table.weight")->desc.init.kind, AC_INIT_NORMAL);
  assert_float_equal(named("table.weight")->desc.init.deviation, 1, 0);
  assert_shape(ac_norm_layer(graph, "last", z, NULL), AC_SHAPE(AC_BATCH, 7, 16));
  assert_shape(ac_norm_layer(graph, "rms", z, &(ac_norm_layer_desc){.kind = AC_NORM_RMS}),
               AC_SHAPE(AC_BATCH, 7, 16));
  assert_shape(named("last.bias"), AC_SHAPE(16));
}

/* Parameters of both directions of two layers come in PyTorch's order, layer after layer. */
static void recurrent_layers_are_those_of_pytorch(void **state) {
  (void)state;
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 70, 6)),
            *lengths = ac_input(graph, "lengths", AC_I32, AC_SHAPE(AC_BATCH));
  ac_recurrent_state last;
  const ac_recurrent_layer_desc both = {
      .recurrence = {.layers = 2, .direction = AC_BOTH_DIRECTIONS, .dropout = 0.1f},
      .lengths = lengths};
  assert_shape(ac_lstm_layer(graph, "lstm", x, 4, &both, &last), AC_SHAPE(AC_BATCH, 70, 8));
  assert_shape(last.hidden, AC_SHAPE(AC_BATCH, 4, 4));
  assert_shape(last.cell, AC_SHAPE(AC_BATCH, 4, 4));
  static const struct {
    const char *name;
    int64_t rows, columns;
  } parameters[] = {{"lstm.weight_ih_l0", 16, 6},         {"lstm.weight_hh_l0", 16, 4},
                    {"lstm.bias_ih_l0", 16, 0},           {"lstm.bias_hh_l0", 16, 0},
                    {"lstm.weight_ih_l0_reverse", 16, 6}, {"lstm.weight_hh_l0_reverse", 16, 4},
                    {"lstm.bias_ih_l0_reverse", 16, 0},   {"lstm.bias_hh_l0_reverse", 16, 0},
                    {"lstm.weight_ih_l1", 16, 8},         {"lstm.weight_hh_l1", 16, 4}};
  for (int i = 0; i < 10; i++) {
    ac_tensor *p = ac_tensor_at(graph, graph->parameters[i]);
    assert_string_equal(p->name, parameters[i].name);
    if (parameters[i].columns) assert_shape(p, AC_SHAPE(parameters[i].rows, parameters[i].columns));
    else assert_shape(p, AC_SHAPE(parameters[i].rows));
    assert_uniform(parameters[i].name, 0.5);
  }
  assert_int_equal(graph->parameter_count, 16);
  const ac_recurrent_layer_desc bare = {.recurrence = {.direction = AC_BACKWARD}, .no_bias = true};
  assert_shape(ac_gru_layer(graph, "gru", x, 5, &bare, &last), AC_SHAPE(AC_BATCH, 70, 5));
  assert_shape(last.hidden, AC_SHAPE(AC_BATCH, 1, 5));
  assert_null(last.cell);
  assert_shape(named("gru.weight_ih_l0"), AC_SHAPE(15, 6));
  assert_shape(ac_rnn_layer(graph, "rnn", x, 5, NULL, NULL), AC_SHAPE(AC_BATCH, 70, 5));
  assert_int_equal(graph->parameter_count, 16 + 2 + 4);
}

static void residuals_project_where_they_must(void **state) {
  (void)state;
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 6, 9, 12)),
            *t = ac_input(graph, "t", AC_F32, AC_SHAPE(AC_BATCH, 7, 4));
  assert_shape(ac_residual(graph, "same", x, ac_relu(x)), AC_SHAPE(AC_BATCH, 6, 9, 12));
  assert_int_equal(graph->parameter_count, 0);
  const ac_conv2d_layer_desc half = {.convolution = {.stride = {2, 2}, .padding = {1, 1}}};
  ac_tensor *branch = ac_conv2d_layer(graph, "conv", x, 8, 3, &half);
  assert_shape(ac_residual(graph, "short", x, branch), AC_SHAPE(AC_BATCH, 8, 5, 6));
  assert_shape(named("short.weight"), AC_SHAPE(8, 6, 1, 1));
  assert_shape(ac_residual(graph, "wide", t, ac_dense(graph, "fc", t, 10, NULL)),
               AC_SHAPE(AC_BATCH, 7, 10));
  assert_shape(named("wide.weight"), AC_SHAPE(10, 4));
}

/* Fails at first with these words; the graph is made anew. */
#define MISBUILT(words, call)                                                         \
  do {                                                                                \
    assert_null(call);                                                                \
    assert_int_equal(ac_graph_status(graph), AC_ERROR_ARGUMENT);                      \
    if (!strstr(ac_graph_message(graph), words))                                      \
      fail_msg("%s: \"%s\" is not in \"%s\"", #call, words, ac_graph_message(graph)); \
    ac_graph_free(graph);                                                             \
    assert_int_equal(ac_graph_create(&graph), AC_OK);                                 \
    x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 6, 9, 9));                    \
    v = ac_input(graph, "v", AC_F32, AC_SHAPE(AC_BATCH));                             \
    ids = ac_input(graph, "ids", AC_I32, AC_SHAPE(AC_BATCH, 7));                      \
  } while (0)

static void what_is_wrong_is_said(void **state) {
  (void)state;
  ac_tensor *x = NULL, *v = NULL, *ids = NULL;
  char name[AC_MAX_NAME + 1];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  MISBUILT("dense: x is missing", ac_dense(graph, "fc", NULL, 3, NULL));
  MISBUILT("dense: the layer has no name", ac_dense(graph, NULL, x, 3, NULL));
  MISBUILT("dense: the layer has no name", ac_dense(graph, "", x, 3, NULL));
  MISBUILT("dense (fc): out is 0; it must be at least 1; x is input \"x\"",
           ac_dense(graph, "fc", x, 0, NULL));
  MISBUILT("out is -4", ac_dense(graph, "fc", x, -4, NULL));
  MISBUILT("dense (fc): it takes x f32 [..., in]", ac_dense(graph, "fc", ids, 3, NULL));
  MISBUILT("dense (fc): it takes x f32 [..., in]", ac_dense(graph, "fc", v, 3, NULL));
  MISBUILT("fc.weight", (ac_dense(graph, "fc", x, 3, NULL), ac_dense(graph, "fc", x, 3, NULL)));
  MISBUILT("name", ac_dense(graph, name, x, 3, NULL));
  MISBUILT("both must be at least 1", ac_conv2d_layer(graph, "c", x, 3, 0, NULL));
  MISBUILT("at most 2^48 elements", ac_conv2d_layer(graph, "c", x, 3, INT32_MAX, NULL));
  MISBUILT("it takes x f32 [B, in, H, W]", ac_conv2d_layer(graph, "c", v, 3, 3, NULL));
  MISBUILT(
      "4 groups do not divide 6 channels",
      ac_conv2d_layer(graph, "c", x, 8, 3, &(ac_conv2d_layer_desc){.convolution = {.groups = 4}}));
  MISBUILT(
      "3 groups do not divide 8 channels",
      ac_conv_transpose2d_layer(graph, "c", x, 8, 3,
                                &(ac_conv_transpose2d_layer_desc){.convolution = {.groups = 3}}));
  MISBUILT("unknown kind of norm",
           ac_norm_layer(graph, "n", x, &(ac_norm_layer_desc){.kind = (ac_norm_kind)7}));
  MISBUILT("only AC_NORM_GROUP has groups",
           ac_norm_layer(graph, "n", x, &(ac_norm_layer_desc){.groups = 2}));
  MISBUILT("only AC_NORM_BATCH has a momentum",
           ac_norm_layer(graph, "n", x, &(ac_norm_layer_desc){.momentum = 0.5f}));
  MISBUILT(
      "AC_NORM_BATCH always has a bias",
      ac_norm_layer(graph, "n", x, &(ac_norm_layer_desc){.kind = AC_NORM_BATCH, .no_bias = true}));
  MISBUILT("it takes x f32 [..., C]", ac_norm_layer(graph, "n", v, NULL));
  MISBUILT("the table has 0 rows of 4", ac_embedding_layer(graph, "e", ids, 0, 4, NULL));
  MISBUILT("embedding_layer: ids is missing", ac_embedding_layer(graph, "e", NULL, 3, 4, NULL));
  MISBUILT("lstm_layer (l): it takes x f32 [B, T, in]",
           ac_lstm_layer(graph, "l", x, 2, NULL, NULL));
  const ac_recurrent_layer_desc deep = {.recurrence = {.layers = 33}};
  MISBUILT("gru_layer (l): 0 units in 1 layers",
           ac_gru_layer(graph, "l", ac_input(graph, "s", AC_F32, AC_SHAPE(AC_BATCH, 3, 4)), 0, NULL,
                        NULL));
  MISBUILT("2 units in 33 layers; there must be at least 1, and at most 32 layers",
           ac_rnn_layer(graph, "l", ac_input(graph, "s", AC_F32, AC_SHAPE(AC_BATCH, 3, 4)), 2,
                        &deep, NULL));
  MISBUILT("residual: branch is missing", ac_residual(graph, "r", x, NULL));
  MISBUILT("residual (r): it takes", ac_residual(graph, "r", x, v));
  MISBUILT("no stride makes", ac_residual(graph, "r", ac_slice(x, 2, 0, 4), x));
}

/* A learner trains as its three parts do. */
static void learners_own_three(void **state) {
  (void)state;
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 4)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_dense(graph, "fc", x, 1, NULL), y, NULL));
  static float features[8][4], targets[8];
  for (int i = 0; i < 8; i++) {
    for (int j = 0; j < 4; j++) features[i][j] = (float)((i >> j & 1) - 0.5);
    targets[i] = features[i][0] - 2 * features[i][2];
  }
  static const ac_field fields[] = {{"x", AC_F32, 4}, {"y", AC_F32, 1}};
  const void *arrays[] = {features, targets};
  ac_learner_desc desc = AC_DEFAULTS;
  desc.device.name = "cpu";
  desc.plan.batch = 8;
  desc.trainer.schedule.lr = 0.05;
  ac_learner *learner = NULL;
  ac_dataset *data = NULL;
  ac_fit_result result;
  assert_int_equal(ac_learner_create(&learner, graph, &desc), AC_OK);
  assert_int_equal(ac_dataset_from_memory(&data, 8, 2, fields, arrays), AC_OK);
  assert_int_equal(ac_learner_fit(learner, data, data, 200, &result), AC_OK);
  assert_int_equal(result.steps, 200);
  assert_true(result.final.loss < 1e-3);
  assert_int_equal(ac_device_peak_bytes(ac_learner_device(learner)),
                   ac_plan_get_info(ac_learner_plan(learner))->bytes.total);
  ac_learner_free(learner);
  ac_dataset_free(data);
  desc.plan.memory = 1;
  assert_int_equal(ac_learner_create(&learner, graph, &desc), AC_ERROR_BUDGET);
  assert_null(learner);
  desc.plan.memory = 0;
  desc.plan.purpose = AC_PREDICT;
  assert_int_equal(ac_learner_create(&learner, graph, &desc), AC_ERROR_ARGUMENT);
  assert_string_equal(ac_last_error(), "ac_learner_create: the plan's purpose is not AC_TRAIN");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(dense_is_pytorchs_linear, open_graph, free_graph),
      cmocka_unit_test_setup_teardown(convolutions_norms_and_embeddings, open_graph, free_graph),
      cmocka_unit_test_setup_teardown(recurrent_layers_are_those_of_pytorch, open_graph,
                                      free_graph),
      cmocka_unit_test_setup_teardown(residuals_project_where_they_must, open_graph, free_graph),
      cmocka_unit_test_setup_teardown(what_is_wrong_is_said, open_graph, free_graph),
      cmocka_unit_test_setup_teardown(learners_own_three, open_graph, free_graph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
