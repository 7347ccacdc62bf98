/* Which op steps which parameter, by what the graph does with it, and what is kept for it. */
#include "support/check.h"

#include "optimizer/nodes.h"
#include "plan/plan.h"

#include <accrue/accrue.h>

#include <string.h>

enum { ENTRIES = 30, WIDTH = 16, POSITIONS = 8, CLASSES = 5, CHANNELS = 6 };

static ac_tensor *parameter(ac_graph *g, const char *name, int64_t rows, int64_t columns) {
  const ac_parameter_desc normal = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.1f}};
  return columns ? ac_parameter(g, name, AC_SHAPE(rows, columns), &normal)
                 : ac_parameter(g, name, AC_SHAPE(rows), &normal);
}

/* A table for both ends, positions that are added, a hidden layer of either layout. */
static ac_graph *language_model(bool fused) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *ids = ac_input(g, "ids", AC_I32, AC_SHAPE(AC_BATCH, POSITIONS)),
            *targets = ac_input(g, "targets", AC_I32, AC_SHAPE(AC_BATCH, POSITIONS));
  ac_tensor *table = parameter(g, "table", ENTRIES, WIDTH);
  ac_tensor *x = ac_add(ac_embedding(table, ids), parameter(g, "positions", POSITIONS, WIDTH));
  x = ac_rms_norm(x, parameter(g, "gamma", WIDTH, 0), 0);
  x = ac_linear(x, parameter(g, "in_out", WIDTH, 2 * WIDTH), parameter(g, "bias", 2 * WIDTH, 0),
                AC_IN_OUT);
  x = ac_linear(ac_silu(x), parameter(g, "out_in", WIDTH, 2 * WIDTH), NULL, AC_OUT_IN);
  ac_graph_set_loss(
      g, fused ? ac_linear_cross_entropy(x, table, AC_OUT_IN, targets, NULL, NULL)
               : ac_cross_entropy(ac_linear(x, table, NULL, AC_OUT_IN), targets, NULL, NULL));
  return g;
}

/* Filters, standardised ones, and heads of their own: the result of one is moved before its loss.
 */
static ac_graph *image_model(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, AC_SHAPE(AC_BATCH, 3, 8, 8)),
            *targets = ac_input(g, "targets", AC_I32, AC_SHAPE(AC_BATCH)),
            *pixels = ac_input(g, "pixels", AC_F32, AC_SHAPE(AC_BATCH, 8, 8, 2));
  const ac_conv2d_desc same = {.padding = {1, 1}};
  x = ac_conv2d(x, ac_parameter(g, "filters", AC_SHAPE(CHANNELS, 3, 3, 3), ZEROS), NULL, &same);
  ac_tensor *w = ac_parameter(g, "standard", AC_SHAPE(CHANNELS, CHANNELS, 3, 3), ZEROS);
  ac_tensor *hidden = ac_conv2d(x, ac_weight_standardisation(w, 0), NULL, &same);
  x = ac_relu(hidden);
  ac_tensor *map =
      ac_conv2d(x, ac_parameter(g, "map", AC_SHAPE(2, CHANNELS, 1, 1), ZEROS), NULL, NULL);
  map = ac_transpose(ac_transpose(map, 1, 2), 2, 3);
  ac_tensor *flat = ac_reshape(x, AC_SHAPE(AC_BATCH, CHANNELS * 64));
  ac_tensor *logits = ac_linear(flat, parameter(g, "head", CLASSES, CHANNELS * 64),
                                parameter(g, "head.bias", CLASSES, 0), AC_OUT_IN);
  ac_graph_add_loss(g, "classes", ac_cross_entropy(logits, targets, NULL, NULL), 1);
  ac_graph_add_loss(g, "map", ac_mean_squared_error(map, pixels, NULL), 1);
  /* A metric of what a hidden layer gives has no head. */
  ac_graph_add_metric(g, "activity", ac_loss(hidden, NULL), AC_METRIC_MEAN);
  return g;
}

typedef struct expected {
  const char *name;
  ac_op op;
  int64_t kept[2]; /* elements of each state */
} expected;

static const ac_tensor *find(const ac_graph *graph, const char *name) {
  for (int i = 0; i < graph->parameter_count; i++) {
    const ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[i]);
    if (!strcmp(parameter->name, name)) return parameter;
  }
  fail_msg("no parameter %s", name);
  return NULL;
}

static void check(ac_graph *graph, ac_optimizer_kind optimizer, const expected *list, int count) {
  ac_device *device;
  ac_plan *plan;
  ac_plan_desc desc = {.batch = 2, .optimizer = {.kind = optimizer}};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_int_equal(plan->graph->parameter_count, count);
  for (int i = 0; i < count; i++) {
    const ac_tensor *p = find(plan->graph, list[i].name);
    const ac_stepping stepping = ac_optimizer_stepping(&desc, p);
    int64_t kept[2] = {0, 0};
    for (int k = 0; k < stepping.states; k++) kept[k] = ac_shape_count(&stepping.state[k].shape);
    if (stepping.row->step != list[i].op || kept[0] != list[i].kept[0] ||
        kept[1] != list[i].kept[1])
      fail_msg("%s: %s with %d and %d elements, not %s with %d and %d", p->name,
               ac_op_name(stepping.row->step), (int)kept[0], (int)kept[1], ac_op_name(list[i].op),
               (int)list[i].kept[0], (int)list[i].kept[1]);
  }
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

#define BY_ADAMW(name, count) \
  {                           \
    name, AC_OP_adamw, {      \
      count, count            \
    }                         \
  }
#define BY_MUON(name, count) \
  {                          \
    name, AC_OP_muon, {      \
      count, 0               \
    }                        \
  }
#define BY_MINI(name, count, blocks) \
  {                                  \
    name, AC_OP_adam_mini, {         \
      count, blocks                  \
    }                                \
  }
#define CHECK(graph, optimizer, list) \
  check(graph, optimizer, list, (int)(sizeof(list) / sizeof *(list)))

static void muon_takes_the_matrices_of_hidden_layers(void **state) {
  (void)state;
  static const expected language[] = {
      BY_ADAMW("table", ENTRIES * WIDTH), BY_ADAMW("positions", POSITIONS * WIDTH),
      BY_ADAMW("gamma", WIDTH),           BY_MUON("in_out", 2 * WIDTH * WIDTH),
      BY_ADAMW("bias", 2 * WIDTH),        BY_MUON("out_in", 2 * WIDTH * WIDTH),
  };
  static const expected image[] = {
      BY_MUON("filters", CHANNELS * 27), BY_MUON("standard", CHANNELS * CHANNELS * 9),
      BY_ADAMW("map", 2 * CHANNELS),     BY_ADAMW("head", CLASSES * CHANNELS * 64),
      BY_ADAMW("head.bias", CLASSES),
  };
  CHECK(language_model(false), AC_MUON, language);
  CHECK(language_model(true), AC_MUON, language);
  CHECK(image_model(), AC_MUON, image);
}

static void adam_mini_has_a_moment_for_each_output(void **state) {
  (void)state;
  static const expected language[] = {
      BY_MINI("table", ENTRIES * WIDTH, ENTRIES),
      BY_MINI("positions", POSITIONS * WIDTH, POSITIONS),
      BY_MINI("gamma", WIDTH, 1),
      BY_MINI("in_out", 2 * WIDTH * WIDTH, 2 * WIDTH),
      BY_MINI("bias", 2 * WIDTH, 1),
      BY_MINI("out_in", 2 * WIDTH * WIDTH, WIDTH),
  };
  static const expected image[] = {
      BY_MINI("filters", CHANNELS * 27, CHANNELS),
      BY_MINI("standard", CHANNELS * CHANNELS * 9, CHANNELS),
      BY_MINI("map", 2 * CHANNELS, 2),
      BY_MINI("head", CLASSES * CHANNELS * 64, CLASSES),
      BY_MINI("head.bias", CLASSES, 1),
  };
  CHECK(language_model(false), AC_ADAM_MINI, language);
  CHECK(language_model(true), AC_ADAM_MINI, language);
  CHECK(image_model(), AC_ADAM_MINI, image);
}

/* State in host memory is stepped in parts if the op says so (plan/transfers.c), and shards will be
 * by what the row says. */
static void ops_and_rows_agree(void **state) {
  (void)state;
  for (int k = 0; k < AC_OPTIMIZER_COUNT; k++) {
    const ac_optimizer_row *row = ac_optimizer_row_of((ac_optimizer_kind)k);
    if (row->hands_over) continue;
    assert_int_equal(row->part == AC_STEP_RANGE, ac_op_describe(row->step)->by_element);
    assert_true(row->argument_bytes <= AC_STEP_BYTES);
  }
  assert_null(ac_optimizer_row_of(AC_OPTIMIZER_COUNT));
  assert_string_equal(ac_optimizer_name(AC_OPTIMIZER_COUNT), "unknown");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adam_mini_has_a_moment_for_each_output),
      cmocka_unit_test(muon_takes_the_matrices_of_hidden_layers),
      cmocka_unit_test(ops_and_rows_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
