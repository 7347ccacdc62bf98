/* Optimizer state in host memory changes the place of bytes, and no byte. On the dry device, and on
 * every OpenCL device: here each counts as one with its own memory. */
#include "support/files.h"
#include "support/models.h"
#include "support/runs.h"

#include "core/align.h"
#include "core/error.h"
#include "faults/adverse_queues.h"
#include "plan/plan.h"
#include "state/cells.h"

/* One matrix that is moved in two parts (the last one does not fill a block of 8 bits), one that is
 * moved at once, and vectors that stay. */
enum { BATCH = 6, IN = 701, HIDDEN = 900, OUT = 20, UPDATES = 20 };

static ac_graph *perceptron(void) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, IN));
  ac_graph_scope(graph, "hidden");
  x = ac_silu(ac_linear(x, test_matrix(graph, "1", "w", HIDDEN, IN),
                        test_matrix(graph, "1", "b", HIDDEN, 0), AC_OUT_IN));
  ac_graph_scope(graph, "out");
  x = ac_dropout(ac_linear(x, test_matrix(graph, "2", "w", OUT, HIDDEN), NULL, AC_OUT_IN), 0.1f);
  ac_graph_set_loss(
      graph, ac_mean_squared_error(x, ac_input(graph, "t", AC_F32, SHAPE(AC_BATCH, OUT)), NULL));
  assert_ok(ac_graph_status(graph));
  return graph;
}

/* Several matrices that are moved at once each, so that memory is another's after a while, and
 * before them a layer with few weights, and with results as large as all that is transferred. */
static ac_graph *deep_perceptron(void) {
  static const char *const names[] = {"1", "2", "3", "4", "5", "6", "7"};
  enum { LAYERS = sizeof names / sizeof *names, WIDTH = 64 };
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, IN));
  for (int i = 0; i < LAYERS; i++) {
    const int in = i ? WIDTH : IN, out = i < LAYERS - 1 ? WIDTH : OUT;
    x = ac_linear(x, test_matrix(graph, names[i], "w", out, in), NULL, AC_OUT_IN);
    if (i < LAYERS - 1) x = ac_silu(x);
  }
  ac_graph_set_loss(
      graph, ac_mean_squared_error(x, ac_input(graph, "t", AC_F32, SHAPE(AC_BATCH, OUT)), NULL));
  assert_ok(ac_graph_status(graph));
  return graph;
}

static const ac_trainer_desc described = {
    .seed = 3, .schedule = {.lr = 1e-3}, .optimizer = {.clip = 0.5, .weight_decay = 0.1}};

static run begin_with(ac_graph *graph, const char *device, ac_plan_desc desc) {
  desc.batch = BATCH;
  return run_of(open_device(device), graph, &desc, &described);
}

static run begin(const char *device, ac_plan_desc desc) {
  return begin_with(perceptron(), device, desc);
}

static void end(run *r) {
  ac_device *device = r->device;
  ac_trainer_free(r->trainer);
  assert_int_equal(ac_device_allocated_bytes(device), 0);
  assert_int_equal(ac_device_host_allocated_bytes(device), 0);
  ac_plan_free(r->plan);
  ac_device_close(device);
}

static double step(run *r, int update) {
  static float x[BATCH * IN], t[BATCH * OUT];
  ac_update made;
  for (int i = 0; i < BATCH * IN; i++) x[i] = (float)((i + update) * 7 % 31) / 16 - 1;
  for (int i = 0; i < BATCH * OUT; i++) t[i] = (float)(i * 5 % 13) / 8;
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, (ac_feed[]){{"x", x}, {"t", t}}, 2));
  assert_ok(ac_trainer_update(r->trainer, &made));
  assert_false(made.skipped);
  return made.loss;
}

/* Of a cell, read as it is stored. */
static void assert_same_cell(const run *a, const run *b, const ac_cell *cell) {
  const ac_cell *other = ac_plan_cell(b->plan, cell->role, cell->owner,
                                      ac_tensor_at(a->plan->graph, cell->tensor)->state);
  void *x = malloc(cell->bytes), *y = malloc(cell->bytes);
  assert_ok(ac_instance_read_elements(&a->trainer->instance, cell, 0, cell->count, x));
  assert_ok(ac_instance_read_elements(&b->trainer->instance, other, 0, cell->count, y));
  assert_memory_equal(x, y, cell->bytes);
  free(x);
  free(y);
}

static void assert_same(const run *a, const run *b) {
  for (int i = 0; i < a->plan->cell_count; i++)
    if (ac_state_holds(a->trainer, &a->plan->cells[i], false))
      assert_same_cell(a, b, &a->plan->cells[i]);
}

static uint64_t moved_bytes(const ac_plan *plan, uint64_t alignment) {
  uint64_t bytes = 0;
  for (int i = 0; i < plan->cell_count; i++)
    if (plan->cells[i].space == AC_SPACE_HOST && plan->cells[i].role == AC_ROLE_STATE)
      bytes += ac_align(plan->cells[i].bytes, alignment);
  return bytes;
}

/* What was moved is missed on the device, and counted on the host. */
static void assert_counted(const run *plain, const run *moved) {
  const ac_plan_info *p = ac_plan_get_info(plain->plan), *m = ac_plan_get_info(moved->plan);
  const uint64_t alignment = ac_device_get_info(moved->device)->alignment;
  assert_int_equal(p->state_space, AC_STATE_ON_DEVICE);
  assert_int_equal(m->state_space, AC_STATE_ON_HOST);
  assert_int_equal(p->bytes.optimizer, m->bytes.optimizer + moved_bytes(moved->plan, alignment));
  assert_int_equal(p->bytes.parameters, m->bytes.parameters);
  assert_int_equal(p->bytes.io, m->bytes.io);
  assert_true(m->bytes.total < p->bytes.total);
  assert_true(m->predicted_seconds > p->predicted_seconds);
  assert_int_equal(p->host_bytes, 0);
  assert_int_equal(moved_bytes(moved->plan, 1), m->host_bytes);
  assert_int_equal(ac_device_peak_bytes(plain->device), p->bytes.total);
  assert_int_equal(ac_device_peak_bytes(moved->device), m->bytes.total);
  assert_int_equal(ac_device_host_peak_bytes(plain->device), 0);
  assert_int_equal(ac_device_host_peak_bytes(moved->device), m->host_bytes);
}

static void train_both(const char *device, ac_plan_desc desc, int updates) {
  run plain = begin(device, desc);
  desc.state_space = AC_STATE_ON_HOST;
  run moved = begin(device, desc);
  const uint64_t objects = ac_device_object_count(moved.device);
  double first = 0, last = 0;
  for (int u = 0; u < updates; u++) {
    last = step(&plain, u);
    if (u == 0) first = last;
    assert_true(step(&moved, u) == last);
  }
  assert_true(last < first);
  assert_same(&plain, &moved);
  assert_counted(&plain, &moved);
  assert_int_equal(ac_device_object_count(moved.device), objects);
  end(&plain);
  end(&moved);
}

static void on_devices_of_their_own(void (*check)(const char *device)) {
  ac_device_info list[8];
  int count;
  assert_ok(ac_device_list(list, 8, &count));
  assert_true(count >= (getenv("ACCRUE_TEST_OPENCL") ? 2 : 1));
  for (int i = 0; i < count && i < 8; i++)
    if (list[i].own_memory) check(list[i].id);
}

static void states_leave_the_same_bits(const char *device) {
  const ac_plan_desc all[] = {
      {.micro_batch = 4},
      {.optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}, .gradients = AC_GRADIENTS_FUSED},
      {.optimizer = {.kind = AC_SGD}, .micro_batch = 4},
      {.optimizer = {.kind = AC_ADAM_MINI},
       .whole_windows = true,
       .gradients = AC_GRADIENTS_BUFFER}};
  const ac_plan_desc more[] = {
      {.gradients = AC_GRADIENTS_FUSED, .recompute = AC_RECOMPUTE_ALL},
      {.optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}, .micro_batch = 4},
      {.optimizer = {.kind = AC_LION},
       .precision = AC_PRECISION_F16,
       .gradients = AC_GRADIENTS_FUSED},
      {.precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16,
       .micro_batch = 4},
      {.optimizer = {.kind = AC_ADAM_MINI},
       .precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16,
       .micro_batch = 4}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) train_both(device, all[i], UPDATES);
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) train_both(device, more[i], 4);
}

static void all_leave_the_same_bits(void **state) {
  (void)state;
  on_devices_of_their_own(states_leave_the_same_bits);
}

/* Whichever queue is late, and whether state is transferred in a phase of its own or within a pass.
 */
static void order_is_enough(const char *device) {
  const ac_plan_desc descs[] = {{.micro_batch = 4},
                                {.gradients = AC_GRADIENTS_FUSED},
                                {.optimizer = {.kind = AC_MUON},
                                 .precision = AC_PRECISION_BF16,
                                 .weights = AC_WEIGHTS_BF16,
                                 .gradient_storage = AC_GRADIENT_BF16,
                                 .micro_batch = 4}};
  for (size_t i = 0; i < sizeof descs / sizeof *descs; i++)
    for (int late = 0; late < AC_QUEUE_COUNT; late++) {
      ac_plan_desc desc = descs[i];
      run plain = begin_with(deep_perceptron(), device, desc);
      desc.state_space = AC_STATE_ON_HOST;
      run moved = begin_with(deep_perceptron(), device, desc);
      const ac_backend *usual = moved.device->backend;
      adverse_queues_wrap(moved.device, (ac_queue)late);
      for (int u = 0; u < 3; u++) assert_true(step(&moved, u) == step(&plain, u));
      assert_same(&plain, &moved);
      moved.device->backend = usual;
      end(&plain);
      end(&moved);
    }
}

static void order_is_enough_everywhere(void **state) {
  (void)state;
  on_devices_of_their_own(order_is_enough);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* A run goes on from the state of one that keeps it elsewhere; what is kept is read and written as
 * ever. */
static void runs_go_on(const char *device) {
  const test_path path = in_folder("state");
  const ac_state_space spaces[] = {AC_STATE_ON_DEVICE, AC_STATE_ON_HOST};
  run straight = begin(device, (ac_plan_desc){.micro_batch = 4});
  for (int u = 0; u < 6; u++) step(&straight, u);
  for (int i = 0; i < 2; i++) {
    ac_plan_desc desc = {.micro_batch = 4, .state_space = spaces[i]};
    run r = begin(device, desc);
    for (int u = 0; u < 3; u++) step(&r, u);
    assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
    end(&r);
    desc.state_space = spaces[1 - i];
    r = begin(device, desc);
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    for (int u = 3; u < 6; u++) step(&r, u);
    assert_same(&straight, &r);
    float kept[3], again[3];
    const int w = ac_trainer_find_parameter(r.trainer, "1.w");
    assert_ok(ac_trainer_get_state(r.trainer, w, 1, 600000, 3, kept));
    assert_ok(ac_trainer_get_state(straight.trainer, w, 1, 600000, 3, again));
    assert_memory_equal(kept, again, sizeof kept);
    assert_true(kept[0] > 0);
    kept[1] = 7;
    assert_ok(ac_trainer_set_state(r.trainer, w, 1, 600000, 3, kept));
    assert_ok(ac_trainer_get_state(r.trainer, w, 1, 600000, 3, again));
    assert_memory_equal(kept, again, sizeof kept);
    end(&r);
  }
  end(&straight);
}

static void all_runs_go_on(void **state) {
  (void)state;
  on_devices_of_their_own(runs_go_on);
}

/* ---- devices that fail ------------------------------------------------------------------------
 */

static const ac_backend *real;
static ac_backend failing;
static int left = -1; /* calls before one fails; -1: none does */

static ac_status fail_in_time(void) {
  if (left < 0 || left-- > 0) return AC_OK;
  return ac_fail(AC_ERROR_DEVICE, "the link is broken");
}
static ac_status allocate_host(void *state, uint64_t bytes, ac_host_memory *memory) {
  AC_TRY(fail_in_time());
  return real->allocate_host(state, bytes, memory);
}
static ac_status transfer_in(void *state, void *handle, const void *data, uint64_t bytes) {
  AC_TRY(fail_in_time());
  return real->transfer_in(state, handle, data, bytes);
}
static ac_status transfer_out(void *state, const void *handle, void *data, uint64_t bytes) {
  AC_TRY(fail_in_time());
  return real->transfer_out(state, handle, data, bytes);
}
static ac_status order(void *state, ac_queue first, ac_queue then) {
  AC_TRY(fail_in_time());
  return real->order(state, first, then);
}

static void break_link(run *r) {
  real = r->device->backend;
  failing = *real;
  failing.allocate_host = allocate_host;
  failing.transfer_in = transfer_in;
  failing.transfer_out = transfer_out;
  failing.order = order;
  r->device->backend = &failing;
}

/* Nothing is left of a trainer that cannot be made; one that fails within an update goes on from a
 * state. */
static void failures_are_survived(const char *device) {
  const test_path path = in_folder("state");
  const ac_plan_desc desc = {.micro_batch = BATCH, .state_space = AC_STATE_ON_HOST};
  run straight = begin(device, desc), r = begin(device, desc);
  for (int u = 0; u < 2; u++) step(&straight, u);
  step(&r, 0);
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  break_link(&r);
  for (int calls = 0; calls < 24; calls += 5) {
    float x[BATCH * IN] = {1}, t[BATCH * OUT] = {1};
    assert_ok(ac_trainer_accumulate(r.trainer, BATCH, (ac_feed[]){{"x", x}, {"t", t}}, 2));
    left = calls;
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_DEVICE, "the link is broken");
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "load a state");
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
  }
  step(&r, 1);
  assert_same(&straight, &r);
  ac_trainer *none;
  for (left = 0; left < 4; left++) {
    const uint64_t before = ac_device_host_allocated_bytes(r.device);
    const int calls = left;
    assert_refused(ac_trainer_create(&none, r.plan, &described), AC_ERROR_DEVICE, "the link");
    assert_int_equal(ac_device_host_allocated_bytes(r.device), before);
    left = calls;
  }
  left = -1;
  end(&straight);
  end(&r);
}

static void all_failures_are_survived(void **state) {
  (void)state;
  on_devices_of_their_own(failures_are_survived);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static ac_status plan_of(ac_plan **plan, ac_device *device, ac_plan_desc desc) {
  ac_graph *graph = perceptron();
  desc.batch = BATCH;
  const ac_status status = ac_plan_create(plan, graph, device, &desc);
  ac_graph_free(graph);
  return status;
}

/* State is moved where the budget leaves nothing faster, and where there is room for it. */
/* A device that computes nothing has the memory all the same. */
static void states_of_nothing_are_zeros(void **state) {
  (void)state;
  const test_path path = in_folder("state");
  run r = {0};
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "dry"}));
  assert_ok(plan_of(&r.plan, r.device, (ac_plan_desc){.state_space = AC_STATE_ON_HOST}));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, NULL));
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  stop(&r);
}

static void budgets_decide(void **state) {
  (void)state;
  ac_device *device;
  ac_plan *moved, *plan;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  ac_plan_desc desc = {
      .micro_batch = BATCH, .recompute = AC_RECOMPUTE_NONE, .state_space = AC_STATE_ON_HOST};
  assert_ok(plan_of(&moved, device, desc));
  const ac_plan_info *m = ac_plan_get_info(moved);
  desc.state_space = AC_STATE_SPACE_AUTO;
  desc.host_memory = m->host_bytes;
  assert_ok(plan_of(&plan, device, desc));
  assert_int_equal(ac_plan_get_info(plan)->state_space, AC_STATE_ON_DEVICE);
  ac_plan_free(plan);
  desc.memory = m->bytes.total;
  assert_ok(plan_of(&plan, device, desc));
  assert_int_equal(ac_plan_get_info(plan)->state_space, AC_STATE_ON_HOST);
  assert_int_equal(ac_plan_get_info(plan)->host_bytes, m->host_bytes);
  assert_true(ac_plan_get_info(plan)->bytes.total <= desc.memory);
  ac_plan_free(plan);
  for (int i = 0; i < 2; i++) {
    desc.host_memory = i ? m->host_bytes - 1 : 0;
    ac_graph *graph = perceptron();
    desc.batch = BATCH;
    const ac_plan_offer offer = test_offer(graph, device, desc, AC_RELIEF_HOST_MEMORY);
    ac_graph_free(graph);
    assert_refused(plan_of(&plan, device, desc), AC_ERROR_BUDGET, "needs at least");
    assert_true(offer.bytes > 0 && offer.bytes <= m->bytes.total);
    assert_int_equal(offer.desc.host_memory, m->host_bytes);
  }
  desc.host_memory = 0;
  desc.state_space = AC_STATE_ON_HOST;
  desc.memory = 1;
  assert_refused(plan_of(&plan, device, desc), AC_ERROR_BUDGET, "needs at least");
  ac_plan_free(moved);
  ac_device_close(device);
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  ac_device *cpu, *dry;
  ac_plan *plan;
  assert_ok(ac_device_open(&cpu, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_device_open(&dry, &(ac_device_desc){.name = "dry"}));
  const char *shared = "cannot be moved to host memory, because the memory of cpu is the host's";
  ac_plan_desc desc = {.state_space = AC_STATE_ON_HOST};
  assert_refused(plan_of(&plan, cpu, desc), AC_ERROR_ARGUMENT, shared);
  assert_refused(plan_of(&plan, cpu, (ac_plan_desc){.host_memory = 1}), AC_ERROR_ARGUMENT, shared);
  desc.host_memory = 1000;
  assert_refused(plan_of(&plan, dry, desc), AC_ERROR_BUDGET, "the budget of host memory is 1000");
  desc = (ac_plan_desc){.state_space = AC_STATE_ON_HOST,
                        .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  assert_refused(plan_of(&plan, dry, desc), AC_ERROR_ARGUMENT, "there is no optimizer state to");
  desc = (ac_plan_desc){.state_space = AC_STATE_ON_DEVICE, .host_memory = 1};
  assert_refused(plan_of(&plan, dry, desc), AC_ERROR_ARGUMENT, "has no meaning with optimizer");
  desc = (ac_plan_desc){.state_space = (ac_state_space)3};
  assert_refused(plan_of(&plan, dry, desc), AC_ERROR_ARGUMENT, "unknown place of optimizer state");
  desc = (ac_plan_desc){.purpose = AC_EVALUATE, .state_space = AC_STATE_ON_HOST};
  assert_ok(plan_of(&plan, cpu, desc));
  ac_plan_free(plan);
  ac_device_close(dry);
  ac_device_close(cpu);
}

/* A plan that steps what is not there, or leaves elements out, is none. */
static void broken_plans_are_found(void **state) {
  (void)state;
  ac_device *device;
  ac_plan *plan;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_ok(plan_of(&plan, device, (ac_plan_desc){.state_space = AC_STATE_ON_HOST}));
  const int index = ac_transfers_next(&plan->main, ac_transfers_next(&plan->main, -1));
  ac_step *step = &plan->main.steps[index];
  const ac_step kept = *step;
  ac_value *value = &plan->main.values[step->out[1].value];
  const ac_value right = *value;
  assert_int_equal(step->part.count, HIDDEN * IN - step->part.first);
  assert_true(step->part.first > 0);
  step->part.count--;
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "leave out a part of its parameter");
  *step = kept;
  value->bytes -= 64;
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "move more than there is room for");
  *value = right;
  value->last--;
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL,
                 "other values are where its state is transferred");
  *value = right;
  step->out[1].value = -1;
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would not find what is kept");
  *step = kept;
  assert_ok(ac_plan_check(plan));
  ac_plan_free(plan);
  ac_device_close(device);
}

int main(void) {
  setenv("ACCRUE_OWN_MEMORY", "1", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_leave_the_same_bits),
      cmocka_unit_test(order_is_enough_everywhere),
      cmocka_unit_test(all_runs_go_on),
      cmocka_unit_test(all_failures_are_survived),
      cmocka_unit_test(budgets_decide),
      cmocka_unit_test(states_of_nothing_are_zeros),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(broken_plans_are_found),
  };
  return cmocka_run_group_tests_name("offload", tests, make_test_folder, remove_test_folder);
}
