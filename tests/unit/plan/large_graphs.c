/* Planning of graphs with many thousands of nodes, by an unrolled LSTM: what is worked out grows no
 * faster than the graph, and depth takes no stack. Steps are counted, as time would depend on the
 * machine. */
#include "support/check.h"

#include "plan/plan.h"
#include "plan/works.h"

#include <accrue/accrue.h>

#include <stdio.h>
#include <string.h>

enum { UNITS = 16, WIDTH = 8 };

typedef struct cell {
  ac_tensor *h, *c;
} cell;

static cell step(cell last, ac_tensor *x, ac_tensor *from_x, ac_tensor *from_h, ac_tensor *bias) {
  ac_tensor *sum = ac_linear(x, from_x, bias, AC_OUT_IN), *gate[4];
  if (last.h) sum = ac_add(sum, ac_linear(last.h, from_h, NULL, AC_OUT_IN));
  for (int i = 0; i < 4; i++) {
    ac_tensor *part = ac_slice(sum, 1, (int64_t)i * UNITS, UNITS);
    gate[i] = i == 2 ? ac_tanh(part) : ac_sigmoid(part);
  }
  ac_tensor *c = ac_multiply(gate[0], gate[2]);
  if (last.c) c = ac_add(ac_multiply(gate[1], last.c), c);
  return (cell){ac_multiply(gate[3], ac_tanh(c)), c};
}

static ac_graph *unrolled(int steps) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, AC_SHAPE(AC_BATCH, steps * WIDTH)),
            *target = ac_input(g, "target", AC_F32, AC_SHAPE(AC_BATCH, UNITS));
  ac_tensor *from_x = ac_parameter(g, "from_x", AC_SHAPE(4 * UNITS, WIDTH), NULL),
            *from_h = ac_parameter(g, "from_h", AC_SHAPE(4 * UNITS, UNITS), NULL),
            *bias = ac_parameter(g, "bias", AC_SHAPE(4 * UNITS), NULL);
  cell state = {NULL, NULL};
  for (int t = 0; t < steps; t++)
    state = step(state, ac_slice(x, 1, (int64_t)t * WIDTH, WIDTH), from_x, from_h, bias);
  ac_graph_set_loss(g, ac_mean_squared_error(state.h, target, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* How many answers about ops a search had to work out. */
static int64_t misses(int steps, ac_recompute recompute, uint64_t memory) {
  ac_device *device;
  ac_plan *plan;
  ac_graph *graph = unrolled(steps);
  const ac_plan_desc desc = {.batch = 8, .recompute = recompute, .memory = memory};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  const int64_t count = ac_works_misses(plan->problem.works);
  assert_true(ac_plan_get_info(plan)->steps >= 15 * (int64_t)steps);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
  return count;
}

static void answers_grow_with_the_graph(void **state) {
  (void)state;
  for (int recompute = AC_RECOMPUTE_AUTO; recompute <= AC_RECOMPUTE_ALL; recompute++) {
    const int64_t few = misses(50, (ac_recompute)recompute, 0),
                  many = misses(400, (ac_recompute)recompute, 0);
    assert_true(many <= 9 * few);
    assert_true(many <= 100 * (int64_t)400);
  }
}

/* Each node that is computed again asks for the one before it. */
static void depth_takes_no_stack(void **state) {
  (void)state;
  misses(8000, AC_RECOMPUTE_ALL, 0);
}

static void names_are_found(void **state) {
  (void)state;
  enum { MANY = 20000 };
  ac_graph *g;
  char name[32];
  assert_ok(ac_graph_create(&g));
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "w%d", i);
    assert_non_null(ac_parameter(g, name, AC_SHAPE(4), NULL));
  }
  assert_non_null(ac_input(g, "w7", AC_F32, AC_SHAPE(AC_BATCH, 4)));
  assert_null(ac_parameter(g, "w7", AC_SHAPE(4), NULL));
  assert_non_null(strstr(ac_graph_message(g), "\"w7\" exists already"));
  ac_graph_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_grow_with_the_graph),
      cmocka_unit_test(depth_takes_no_stack),
      cmocka_unit_test(names_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
