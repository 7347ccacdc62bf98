/* Plans: lifetimes, addresses, budgets. Nothing is computed, and all but one run on the dry device.
 */
#include "core/error.h"
#include "support/models.h"

#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const test_gpt model = {3, 24, 10, 17, 2, 0.1f, false, true};

static ac_device *dry(uint64_t max_allocation) {
  ac_device *device;
  assert_ok(ac_device_open(&device,
                           &(ac_device_desc){.name = "dry", .dry_max_allocation = max_allocation}));
  return device;
}

static ac_plan *make(const ac_graph *graph, ac_device *device, ac_plan_desc desc) {
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  return plan;
}

/* Two values with memory of their own that are alive together must not overlap; none straddles a
 * chunk or reaches below the arena or beyond the total. */
static void check_layout(const ac_plan *plan, const ac_sequence *sequence) {
  uint64_t chunk = plan->chunk_bytes;
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *a = &sequence->values[i];
    if (a->shares != i) continue;
    assert_true(a->address + a->bytes <= plan->info.bytes.total);
    assert_true(a->address % plan->device->info.alignment == 0);
    if (chunk) assert_int_equal(a->address / chunk, (a->address + a->bytes - 1) / chunk);
    for (int j = 0; j < i; j++) {
      const ac_value *b = &sequence->values[j];
      bool together = b->shares == j && a->first <= b->last && b->first <= a->last;
      if (together)
        assert_true(a->address + a->bytes <= b->address || b->address + b->bytes <= a->address);
    }
  }
}

/* Every value is written before it is read and not overwritten by a sharer while it is still
 * needed. */
static void check_lifetimes(const ac_sequence *sequence) {
  int *owner = calloc((size_t)sequence->value_count + 1, sizeof *owner);
  for (int i = 0; i < sequence->value_count; i++) owner[i] = -1;
  for (int s = 0; s < sequence->step_count; s++) {
    const ac_step *step = &sequence->steps[s];
    for (int k = 0; k < AC_MAX_INPUTS + 1; k++) {
      int value = k < AC_MAX_INPUTS ? step->in[k].value : step->copy.value;
      if (value < 0) continue;
      int root = value;
      while (sequence->values[root].shares != root) root = sequence->values[root].shares;
      assert_int_equal(owner[root], value);
      int end = ac_sequence_end(sequence), point = s < end ? s : end;
      assert_true(sequence->values[root].first <= point && point <= sequence->values[root].last);
    }
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int value = step->out[j].value;
      if (value < 0) continue;
      int root = value;
      while (sequence->values[root].shares != root) root = sequence->values[root].shares;
      owner[root] = value;
    }
  }
  free(owner);
}

static void layouts_are_sound(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  static const uint64_t limits[] = {0, 16384, 20000, 1 << 20};
  for (int i = 0; i < 8; i++) {
    ac_device *device = dry(limits[i / 2]);
    ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = 4, .whole_windows = i % 2});
    assert_int_equal(plan->main.whole_window, i % 2);
    check_layout(plan, &plan->main);
    check_layout(plan, &plan->evaluation);
    check_lifetimes(&plan->main);
    check_lifetimes(&plan->evaluation);
    ac_plan_free(plan);
    ac_device_close(device);
  }
  ac_graph_free(graph);
}

static void the_arena_is_near_its_bound(void **state) {
  (void)state;
  static const test_gpt sizes[] = {{1, 24, 10, 17, 2, 0, false, false},
                                   {4, 128, 64, 256, 4, 0, false, true},
                                   {6, 32, 16, 1000, 2, 0.1f, false, false}};
  for (int i = 0; i < 3; i++) {
    ac_graph *graph = test_gpt_graph(&sizes[i]);
    ac_device *device = dry(0);
    for (int64_t batch = 1; batch < 40; batch += 3) {
      bool whole = batch % 2 == 0;
      ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = batch, .whole_windows = whole});
      const ac_plan_info *info = ac_plan_get_info(plan);
      uint64_t arena = info->bytes.activations + info->bytes.workspace;
      if (whole) arena += info->bytes.gradients;
      assert_true(arena >= info->live_bytes);
      assert_true((double)arena <= 1.05 * (double)info->live_bytes);
      ac_plan_free(plan);
    }
    ac_device_close(device);
    ac_graph_free(graph);
  }
}

static void classes_add_up(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  ac_device *device = dry(0);
  ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = 4});
  const ac_plan_bytes *b = &ac_plan_get_info(plan)->bytes;
  assert_int_equal(b->total, b->parameters + b->gradients + b->optimizer + b->activations +
                                 b->workspace + b->io);
  assert_int_equal(b->parameters, b->gradients);
  assert_int_equal(b->optimizer, 2 * b->parameters);
  uint64_t scalars = (uint64_t)ac_plan_get_info(plan)->parameter_count;
  assert_true(b->parameters >= 4 * scalars);
  assert_true(b->parameters <= 4 * scalars + 64 * (uint64_t)ac_graph_parameter_count(graph));
  ac_plan_free(plan);

  plan = make(graph, device, (ac_plan_desc){.batch = 4, .optimizer = {.kind = AC_SGD}});
  assert_int_equal(ac_plan_get_info(plan)->bytes.optimizer,
                   ac_plan_get_info(plan)->bytes.parameters);
  ac_plan_free(plan);
  plan = make(graph, device, (ac_plan_desc){.batch = 4, .optimizer = {.kind = AC_LION}});
  assert_int_equal(ac_plan_get_info(plan)->bytes.optimizer,
                   ac_plan_get_info(plan)->bytes.parameters);
  ac_plan_free(plan);
  plan = make(graph, device, (ac_plan_desc){.batch = 4, .optimizer = {.kind = AC_ADAFACTOR}});
  assert_true(ac_plan_get_info(plan)->bytes.optimizer <
              ac_plan_get_info(plan)->bytes.parameters / 2); /* of matrices this small */
  ac_plan_free(plan);
  plan = make(graph, device,
              (ac_plan_desc){.batch = 4, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}});
  assert_int_equal(ac_plan_get_info(plan)->bytes.optimizer, 0);
  ac_plan_free(plan);
  plan = make(graph, device, (ac_plan_desc){.purpose = AC_PREDICT, .batch = 4});
  b = &ac_plan_get_info(plan)->bytes;
  assert_int_equal(b->gradients + b->optimizer, 0);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* A trainer allocates the plan's total, to the byte, in chunks no larger than allowed, and gives
 * all of it back. */
static void the_total_is_what_is_allocated(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  static const uint64_t limits[] = {0, 17000};
  for (int i = 0; i < 2; i++) {
    ac_device *device = dry(limits[i]);
    ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = 4});
    ac_trainer *trainer;
    assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 1e-3}}));
    assert_int_equal(ac_device_peak_bytes(device), ac_plan_get_info(plan)->bytes.total);
    uint64_t objects = ac_device_object_count(device);
    int32_t tokens[4 * 10] = {0};
    ac_feed feeds[] = {{"tokens", tokens}, {"targets", tokens}};
    assert_ok(ac_trainer_accumulate(trainer, 4, feeds, 2));
    assert_ok(ac_trainer_update(trainer, NULL));
    assert_int_equal(ac_device_object_count(device), objects);
    ac_trainer_free(trainer);
    assert_int_equal(ac_device_allocated_bytes(device), 0);
    ac_plan_free(plan);
    ac_device_close(device);
  }
  ac_graph_free(graph);
}

/* Without recomputation the micro-batch is all there is to choose: it grows with the budget. */
static void larger_budgets_give_larger_micro_batches(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  ac_device *device = dry(0);
  ac_plan_desc desc = {.batch = 13, .recompute = AC_RECOMPUTE_NONE};
  ac_plan *whole = make(graph, device, desc);
  uint64_t high = ac_plan_get_info(whole)->bytes.total;
  assert_int_equal(ac_plan_get_info(whole)->micro_batch, 13);
  desc.micro_batch = 1;
  ac_plan *least = make(graph, device, desc);
  uint64_t low = ac_plan_get_info(least)->bytes.total;
  desc.micro_batch = 0;
  int64_t previous = 1;
  for (int i = 0; i <= 10; i++) {
    desc.memory = low + (high - low) * (uint64_t)i / 10;
    ac_plan *plan = make(graph, device, desc);
    const ac_plan_info *info = ac_plan_get_info(plan);
    assert_true(info->bytes.total <= desc.memory);
    assert_true(info->micro_batch >= previous);
    assert_true(info->micro_batch * info->accumulation_steps >= 13);
    assert_true(info->micro_batch * (info->accumulation_steps - 1) < 13);
    assert_int_equal(info->recomputed_ops, 0);
    previous = info->micro_batch;
    ac_plan_free(plan);
  }
  assert_int_equal(previous, 13);
  ac_plan_free(whole);
  ac_plan_free(least);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* Ten budgets from the smallest to plenty, for each policy: kept, sound, and never slower with more
 * memory; one byte less than the smallest is refused. */
static void check_budgets(const test_gpt *m, ac_device *device, ac_plan_desc desc) {
  ac_graph *graph = test_gpt_graph(m);
  uint64_t low = least_budget(graph, device, desc), high;
  ac_plan *plan = make(graph, device, desc);
  high = ac_plan_get_info(plan)->bytes.total;
  ac_plan_free(plan);
  double previous = INFINITY;
  for (int i = 0; i < 10; i++) {
    desc.memory = low + (high - low) * (uint64_t)i / 9;
    plan = make(graph, device, desc);
    const ac_plan_info *info = ac_plan_get_info(plan);
    assert_true(info->bytes.total <= desc.memory);
    assert_true(info->predicted_seconds <= previous);
    previous = info->predicted_seconds;
    check_layout(plan, &plan->main);
    check_layout(plan, &plan->evaluation);
    check_lifetimes(&plan->main);
    uint64_t arena = info->bytes.activations + info->bytes.workspace;
    assert_true((double)arena <= 1.05 * (double)info->live_bytes);
    ac_plan_free(plan);
  }
  desc.memory = low - 1;
  assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET, "needs at least");
  ac_graph_free(graph);
}

static void budgets_are_kept(void **state) {
  (void)state;
  static const test_gpt sizes[] = {{3, 24, 10, 17, 2, 0.1f, false, true},
                                   {4, 128, 64, 256, 4, 0, false, false},
                                   {9, 32, 16, 300, 2, 0.1f, true, true}};
  ac_device *device = dry(0);
  for (int i = 0; i < 3; i++) {
    check_budgets(&sizes[i], device, (ac_plan_desc){.batch = 13});
    check_budgets(&sizes[i], device, (ac_plan_desc){.batch = 8, .micro_batch = 4});
  }
  check_budgets(&sizes[0], device, (ac_plan_desc){.batch = 8, .recompute = AC_RECOMPUTE_ALL});
  check_budgets(&sizes[0], device, (ac_plan_desc){.batch = 8, .recompute = AC_RECOMPUTE_NONE});
  ac_device_close(device);
}

/* What fits whole is neither split nor recomputed; what does not is not refused while recomputation
 * helps. */
static void plenty_of_memory_is_used(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  ac_device *device = dry(0);
  ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = 13});
  assert_int_equal(ac_plan_get_info(plan)->accumulation_steps, 1);
  assert_int_equal(ac_plan_get_info(plan)->recomputed_ops, 0);
  uint64_t whole = ac_plan_get_info(plan)->bytes.total;
  ac_plan_free(plan);
  plan = make(graph, device, (ac_plan_desc){.batch = 13, .memory = whole});
  assert_int_equal(ac_plan_get_info(plan)->recomputed_ops, 0);
  ac_plan_free(plan);
  ac_plan_desc one = {.batch = 1, .micro_batch = 1};
  ac_plan_desc kept = {.batch = 1, .micro_batch = 1, .recompute = AC_RECOMPUTE_NONE};
  assert_true(least_budget(graph, device, one) < least_budget(graph, device, kept));
  ac_device_close(device);
  ac_graph_free(graph);
}

/* A device that allows no allocation large enough for the whole batch gets smaller micro-batches.
 */
static void chunks_limit_the_micro_batch(void **state) {
  (void)state;
  static const test_gpt wide = {1, 24, 16, 500, 2, 0, false, false};
  ac_graph *graph = test_gpt_graph(&wide);
  ac_device *device = dry(128 << 10); /* the logits of 4 samples */
  ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = 64});
  assert_true(ac_plan_get_info(plan)->micro_batch <= 4);
  check_layout(plan, &plan->main);
  ac_plan_alternative list[64];
  int count;
  assert_ok(ac_plan_alternatives(plan, list, 64, &count));
  assert_true(count > 0);
  ac_plan_free(plan);
  plan = make(graph, device, (ac_plan_desc){.purpose = AC_PREDICT, .batch = 64});
  assert_true(ac_plan_get_info(plan)->micro_batch <= 4);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* Blocks of norm, linear and GELU, each result with a hint. */
static ac_graph *hinted_graph(ac_hint norm, ac_hint gelu) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 32));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 32));
  for (int i = 0; i < 6; i++) {
    char s[32];
    snprintf(s, sizeof s, "b%d", i);
    ac_tensor *a = ac_tensor_hint(test_norm(g, x, s, "ln", 32), norm);
    a = ac_linear(a, test_matrix(g, s, "w", 32, 32), NULL, AC_OUT_IN);
    x = ac_tensor_hint(ac_gelu(a, AC_GELU_TANH), gelu);
  }
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static int runs_again(const ac_plan *plan, const char *op) {
  int times = 0;
  for (int64_t i = 0; i < ac_plan_get_info(plan)->steps; i++) {
    ac_plan_step step;
    assert_ok(ac_plan_get_step(plan, i, &step));
    times += step.recomputed && !strcmp(step.op, op);
  }
  return times;
}

/* Takes one offer alone, with a batch read ahead. */
static bool take_folded(void *context, unsigned reliefs, ac_plan_desc *desc) {
  if (reliefs != AC_RELIEF_GRADIENTS_FOLDED) return false;
  desc->read_ahead = 1;
  ++*(int *)context;
  return true;
}

static void callers_settle_offers(void **state) {
  (void)state;
  static const test_gpt m = {3, 24, 10, 17, 2, 0.1f, false, true};
  ac_device *device;
  ac_graph *graph = test_gpt_graph(&m);
  ac_plan_offer list[16];
  int taken = 0, count;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  const ac_plan_desc folded = {.batch = 8, .gradients = AC_GRADIENTS_FOLDED, .read_ahead = 1};
  const uint64_t least = least_budget(graph, device, folded);
  ac_plan_desc desc = {.batch = 8, .memory = 1, .offers = take_folded, .offers_context = &taken};
  assert_ok(ac_plan_offers(graph, device, &desc, list, 16, &count));
  assert_int_equal(taken, 1);
  assert_int_equal(count, 1);
  assert_int_equal(list[0].reliefs, AC_RELIEF_GRADIENTS_FOLDED);
  assert_int_equal(list[0].bytes, least);
  assert_int_equal(list[0].desc.read_ahead, 1);
  assert_int_equal(list[0].desc.gradients, AC_GRADIENTS_FOLDED);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void what_is_needed_is_rounded_up(void **state) {
  (void)state;
  static const struct {
    uint64_t bytes;
    const char *text;
  } cases[] = {{1, "1 byte"},
               {1023, "1023 bytes"},
               {1024, "1.0 KiB"},
               {1025, "1.1 KiB"},
               {735680, "718.5 KiB"},
               {735744, "718.5 KiB"},
               {735745, "718.6 KiB"},
               {1048575, "1024.0 KiB"},
               {1048576, "1.0 MiB"},
               {1048577, "1.1 MiB"},
               {3221225472, "3.0 GiB"},
               {3221225473, "3.1 GiB"},
               {UINT64_MAX, "16777216.0 TiB"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[32];
    assert_string_equal(ac_format_bytes_needed(text, sizeof text, cases[i].bytes), cases[i].text);
  }
}

static void hints_are_honoured(void **state) {
  (void)state;
  ac_device *device = dry(0);
  ac_plan_desc desc = {.batch = 64, .micro_batch = 64};
  ac_graph *plain = hinted_graph(AC_HINT_NONE, AC_HINT_NONE);
  uint64_t least = least_budget(plain, device, desc);
  desc.memory = least;
  ac_plan *plan = make(plain, device, desc);
  assert_true(runs_again(plan, "layer_norm") > 0);
  ac_plan_free(plan);

  ac_graph *keep = hinted_graph(AC_KEEP, AC_HINT_NONE),
           *again = hinted_graph(AC_HINT_NONE, AC_RECOMPUTE);
  assert_int_equal(test_offer(keep, device, desc, AC_RELIEF_NO_HINTS).bytes, least);
  desc.memory = 0;
  desc.memory = least_budget(keep, device, desc);
  plan = make(keep, device, desc);
  assert_int_equal(runs_again(plan, "layer_norm"), 0);
  check_lifetimes(&plan->main);
  ac_plan_free(plan);

  desc.memory = 0;
  plan = make(again, device, desc);
  assert_true(runs_again(plan, "gelu") >= 5);
  check_lifetimes(&plan->main);
  ac_plan_free(plan);
  desc.recompute = AC_RECOMPUTE_NONE;
  plan = make(again, device, desc);
  assert_int_equal(ac_plan_get_info(plan)->recomputed_ops, 0);
  ac_plan_free(plan);
  ac_graph_free(plain);
  ac_graph_free(keep);
  ac_graph_free(again);
  ac_device_close(device);
}

/* Each of the `count` results joins an early one with the last. Kept or not, the order of nodes is
 * that of a chain. */
static ac_graph *long_graph(int count) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 16));
  ac_tensor *h = ac_linear(x, test_matrix(g, "first", "w", 16, 16), NULL, AC_OUT_IN), *first = h;
  for (int i = 0; i < count; i++) h = ac_add(h, ac_softmax(first));
  ac_graph_set_loss(g, ac_mean_squared_error(h, x, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* Cutting, measuring, laying out and checking were once quadratic: this took minutes.
 */
static void long_graphs_are_planned(void **state) {
  (void)state;
  ac_graph *graph = long_graph(12000);
  ac_device *device = dry(0);
  ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = 1});
  check_layout(plan, &plan->evaluation);
  assert_true(ac_plan_get_info(plan)->steps >= 24000);
  /* A softmax's gradient needs its result, or its operand: one of 64 bytes for each is kept. */
  assert_true(ac_plan_get_info(plan)->live_bytes <= 24100 * 64);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* First fit as layout.c has it, by looking at all that was placed before. */
static uint64_t plain_first_fit(const ac_value *values, const int *order, int placed, int value,
                                uint64_t chunk) {
  const ac_value *v = &values[value];
  uint64_t address = 0;
  for (bool moved = true; moved;) {
    moved = false;
    if (chunk && v->bytes && address % chunk + v->bytes > chunk) address += chunk - address % chunk;
    for (int i = 0; i < placed; i++) {
      const ac_value *p = &values[order[i]];
      if (p->first > v->last || p->last < v->first) continue;
      if (p->address >= address + v->bytes || p->address + p->bytes <= address) continue;
      address = p->address + p->bytes;
      moved = true;
    }
  }
  return address;
}

static uint64_t plain_end(const ac_value *values, int count, int by, uint64_t chunk) {
  enum { MOST = 200 };
  ac_value list[MOST];
  int order[MOST];
  uint64_t key[MOST], end = 0;
  memcpy(list, values, (size_t)count * sizeof *list);
  for (int i = 0; i < count; i++) {
    const uint64_t length = (uint64_t)(list[i].last - list[i].first + 1);
    key[i] = by == 0   ? list[i].bytes
             : by == 1 ? list[i].bytes / 64 * length
                       : UINT64_MAX - (uint64_t)list[i].first;
    int at = i;
    for (; at > 0 && key[order[at - 1]] < key[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  for (int i = 0; i < count; i++) {
    ac_value *v = &list[order[i]];
    v->address = plain_first_fit(list, order, i, order[i], chunk);
    if (v->address + v->bytes > end) end = v->address + v->bytes;
  }
  return end;
}

/* The tree finds the places that a plain walk finds, with chunks and without. */
static void layouts_are_first_fit(void **state) {
  (void)state;
  for (uint32_t draw = 0, random = 1; draw < 300; draw++) {
    ac_value values[200] = {0};
    ac_sequence s = {.values = values};
    s.value_count = 2 + (int)(draw % 199);
    const int points = 2 + (int)(draw % 97), sizes = 1 + (int)(draw % 5);
    for (int i = 0; i < s.value_count; i++) {
      int ends[2];
      for (int k = 0; k < 2; k++) {
        random = random * 1664525u + 1013904223u;
        ends[k] = (int)((random >> 8) % (uint32_t)points);
      }
      random = random * 1664525u + 1013904223u;
      values[i].shares = i;
      values[i].first = ends[0] < ends[1] ? ends[0] : ends[1];
      values[i].last = ends[0] < ends[1] ? ends[1] : ends[0];
      values[i].bytes = 64 * (1 + (random >> 8) % (uint32_t)sizes);
    }
    const uint64_t chunk = draw % 3 ? 0 : 512;
    const ac_address_space space = {.alignment = 64, .chunk_bytes = chunk};
    uint64_t end, best = UINT64_MAX;
    for (int by = 0; by < 3; by++) {
      const uint64_t reached = plain_end(values, s.value_count, by, chunk);
      if (reached < best) best = reached;
    }
    assert_ok(ac_layout_arena(&space, &s, 0, 0, UINT64_MAX, &end));
    assert_int_equal(end, best);
    for (int i = 0; i < s.value_count; i++)
      for (int k = 0; k < i; k++)
        assert_true(values[i].first > values[k].last || values[k].first > values[i].last ||
                    values[i].address >= values[k].address + values[k].bytes ||
                    values[k].address >= values[i].address + values[i].bytes);
    assert_ok(ac_layout_arena(&space, &s, 0, 0, best, &end)); /* none is below that */
    assert_int_equal(end, best);
  }
}

static void sizes_do_not_overflow(void **state) {
  (void)state;
  ac_graph *g;
  ac_plan *plan;
  ac_device *device = dry(0);
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1LL << 40));
  ac_graph_set_output(g, "y", ac_relu(x));
  ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = 65536, .memory = 1 << 20};
  assert_refused(ac_plan_create(&plan, g, device, &desc), AC_ERROR_BUDGET, "is beyond any device");
  desc = (ac_plan_desc){.purpose = AC_PREDICT, .micro_batch = 1LL << 62};
  assert_refused(ac_plan_create(&plan, g, device, &desc), AC_ERROR_ARGUMENT, "exceeds 2^32");
  ac_device_close(device);
  ac_graph_free(g);
}

static void wrong_policies_are_refused(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model), *empty;
  ac_device *device = dry(0);
  ac_plan *plan;
#define REFUSED(graph, status, text, ...) \
  assert_refused(ac_plan_create(&plan, graph, device, &(ac_plan_desc){__VA_ARGS__}), status, text)
  REFUSED(graph, AC_ERROR_ARGUMENT, "the micro-batch 5 is larger than the batch 4", .batch = 4,
          .micro_batch = 5);
  REFUSED(graph, AC_ERROR_ARGUMENT, "the batch is -1; it cannot be negative", .batch = -1);
  REFUSED(graph, AC_ERROR_ARGUMENT, "the micro-batch is -3;", .batch = 4, .micro_batch = -3);
  REFUSED(graph, AC_ERROR_ARGUMENT, "exceeds 2^32", .batch = 1LL << 40);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown purpose", .purpose = (ac_purpose)7);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown optimizer", .optimizer.kind = AC_OPTIMIZER_COUNT);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown storage of optimizer state", .optimizer.state = 2);
  REFUSED(graph, AC_ERROR_ARGUMENT, "only AdamW, SGD and Lion keep", .optimizer.kind = AC_ADAFACTOR,
          .optimizer.state = AC_STATE_8BIT);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown storage of weights", .weights = 2);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown way of working copies", .working_copies = 3);
  REFUSED(graph, AC_ERROR_ARGUMENT, "need the precision bf16", .weights = AC_WEIGHTS_BF16,
          .precision = AC_PRECISION_F16);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown storage of gradients", .gradient_storage = 2);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown recomputation", .recompute = (ac_recompute)9);
  REFUSED(graph, AC_ERROR_ARGUMENT, "unknown precision", .precision = (ac_precision)3);
  REFUSED(graph, AC_ERROR_BUDGET, "the budget is 1 byte", .batch = 1, .memory = 1);
  REFUSED(graph, AC_ERROR_ARGUMENT, "the batch of a training plan is 0", .micro_batch = 0);
  ac_device *cpu;
  assert_ok(ac_device_open(&cpu, &(ac_device_desc){.name = "cpu"}));
  assert_refused(
      ac_plan_create(&plan, graph, cpu, &(ac_plan_desc){.batch = 1, .memory = 1ULL << 60}),
      AC_ERROR_BUDGET, "is larger than the memory of cpu");
  ac_device_close(cpu);
  assert_ok(ac_graph_create(&empty));
  REFUSED(empty, AC_ERROR_ARGUMENT, "no loss to train on", .batch = 1);
  REFUSED(empty, AC_ERROR_ARGUMENT, "no loss to evaluate", .purpose = AC_EVALUATE);
  REFUSED(empty, AC_ERROR_ARGUMENT, "no output to predict", .purpose = AC_PREDICT);
  ac_device *tiny = dry(1024);
  assert_refused(ac_plan_create(&plan, graph, tiny, &(ac_plan_desc){.batch = 1}), AC_ERROR_BUDGET,
                 "exceeds the device's largest allocation");
  ac_device_close(tiny);
  ac_device_close(device);
  ac_graph_free(graph);
  ac_graph_free(empty);
}

/* Layers with a loss half way. `fused` takes the op that does its forward work in the backward
 * pass.
 */
static uint64_t total_with_loss_half_way(ac_device *device, bool fused) {
  enum { LAYERS = 12, LOSS_AT = 4, SIZE = 64, ROWS = 1024 };
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, SIZE));
  ac_tensor *targets = ac_input(g, "targets", AC_I32, SHAPE(AC_BATCH));
  for (int i = 0; i < LAYERS; i++) {
    char name[16];
    snprintf(name, sizeof name, "layer.%d", i);
    x = ac_gelu(ac_linear(x, test_matrix(g, name, "w", SIZE, SIZE), NULL, AC_IN_OUT), AC_GELU_TANH);
    if (i != LOSS_AT) continue;
    ac_tensor *w = test_matrix(g, "head", "w", SIZE, SIZE);
    ac_tensor *loss = fused
                          ? ac_linear_cross_entropy(x, w, AC_IN_OUT, targets, NULL, NULL)
                          : ac_cross_entropy(ac_linear(x, w, NULL, AC_IN_OUT), targets, NULL, NULL);
    ac_graph_add_loss(g, "half way", loss, 0.5);
  }
  ac_graph_add_loss(g, "end", ac_cross_entropy(x, targets, NULL, NULL), 1);
  ac_plan *plan = make(
      g, device, (ac_plan_desc){.batch = ROWS, .micro_batch = ROWS, .recompute = AC_RECOMPUTE_ALL});
  uint64_t total = plan->info.bytes.total - plan->info.bytes.workspace;
  ac_plan_free(plan);
  ac_graph_free(g);
  return total;
}

/* A loss in the middle ends no recomputation of what comes after it. */
static void a_loss_half_way_keeps_stages_apart(void **state) {
  (void)state;
  ac_device *device = dry(0);
  assert_true(total_with_loss_half_way(device, true) <= total_with_loss_half_way(device, false));
  ac_device_close(device);
}

/* A budget that is the largest number accepts no plan that cannot be placed. */
static void no_budget_makes_room_beyond_an_allocation(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  ac_device *tiny = dry(1024);
  ac_plan *plan;
  assert_refused(
      ac_plan_create(&plan, graph, tiny,
                     &(ac_plan_desc){.batch = 1, .memory = UINT64_MAX, .beyond_device = true}),
      AC_ERROR_BUDGET, "exceeds the device's largest allocation");
  ac_device_close(tiny);
  ac_graph_free(graph);
}

static void a_plan_outlives_its_graph(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  ac_device *device = dry(0);
  ac_plan *plan = make(graph, device, (ac_plan_desc){.batch = 2});
  ac_graph_free(graph);
  ac_plan_step step;
  const ac_plan_info *info = ac_plan_get_info(plan);
  double flops = 0;
  uint64_t live = 0;
  for (int64_t i = 0; i < info->steps; i++) {
    assert_ok(ac_plan_get_step(plan, i, &step));
    flops += step.flops;
    if (step.live_bytes > live) live = step.live_bytes;
  }
  assert_true(flops == info->flops);
  assert_int_equal(live, info->live_bytes);
  assert_true(step.phase == AC_PLAN_MICRO_BATCH);
  assert_true(info->update_steps > 0 && info->update_steps % 2 == 0); /* statistics and steps */
  for (int64_t i = 0; i < info->update_steps; i++) {
    assert_ok(ac_plan_get_step(plan, info->steps + i, &step));
    bool reduces = i < info->update_steps / 2;
    assert_int_equal(step.phase, reduces ? AC_PLAN_REDUCE : AC_PLAN_UPDATE);
    assert_string_equal(step.op, reduces ? "gradient_statistics" : "adamw");
  }
  assert_refused(ac_plan_get_step(plan, info->steps + info->update_steps, &step), AC_ERROR_ARGUMENT,
                 "step");
  ac_plan_free(plan);
  ac_device_close(device);
}

/* Eight images of 2^28 positions are more than OpenCL's convolutions can count; one is not. */
static void ops_must_bear_the_micro_batch(void **state) {
  (void)state;
  ac_device *device;
  if (ac_device_open(&device, &(ac_device_desc){.name = "opencl"}) != AC_OK) {
    if (getenv("ACCRUE_TEST_OPENCL")) fail_msg("%s", ac_last_error());
    skip();
  }
  if (ac_device_get_info(device)->max_allocation < (uint64_t)1 << 32) {
    ac_device_close(device);
    skip();
  }
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_graph_scope(g, "stem");
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1, 1 << 14, 1 << 14));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(1, 1, 1, 1), ZEROS);
  ac_graph_set_output(g, "y", ac_conv2d(x, w, NULL, NULL));
  ac_plan_desc desc = {.purpose = AC_PREDICT, .precision = AC_PRECISION_F16, .beyond_device = true};
  ac_plan *plan;
  desc.batch = desc.micro_batch = 8;
  assert_refused(ac_plan_create(&plan, g, device, &desc), AC_ERROR_UNSUPPORTED,
                 "cannot run conv2d (stem) at a micro-batch of 8; give a smaller one");
  desc.micro_batch = 0;
  plan = make(g, device, desc);
  assert_int_equal(ac_plan_get_info(plan)->micro_batch, 3);
  ac_plan_free(plan);
  desc.batch = desc.micro_batch = 1;
  ac_plan_free(make(g, device, desc));
  ac_graph_free(g);
  ac_device_close(device);
}

static bool supports_up_to_five(void *state, const ac_op_args *args) {
  (void)state;
  return args->op != AC_OP_pointwise || args->out[0].dim[0] <= 5;
}

/* With a ReLU, after a batch norm or not. */
static ac_graph *rectified(bool normed) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const ac_parameter_desc frozen = {.frozen = true};
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 6));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 6));
  ac_tensor *h = ac_linear(x, test_matrix(g, "fc", "w", 6, 6), NULL, AC_OUT_IN);
  ac_graph_scope(g, "norm");
  if (normed)
    h = ac_batch_norm(h, NULL, NULL, ac_parameter(g, "mean", SHAPE(6), &frozen),
                      ac_parameter(g, "var", SHAPE(6), &frozen), NULL);
  ac_graph_scope(g, "stem");
  h = ac_relu(h);
  ac_graph_set_output(g, "h", h);
  ac_graph_set_loss(g, ac_mean_squared_error(h, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* A micro-batch that is not given is one that the device runs (16 samples are four times 4, not 5),
 * and where one is given or cannot be chosen, what is advised can be followed. */
static void the_micro_batch_is_one_that_ops_bear(void **state) {
  (void)state;
  ac_device *device = dry(0);
  ac_backend backend = *device->backend;
  backend.supports = supports_up_to_five;
  device->backend = &backend;
  ac_graph *graph = rectified(false), *normed = rectified(true);
  ac_plan *plan;
  static const ac_purpose purposes[] = {AC_TRAIN, AC_EVALUATE, AC_PREDICT};
  for (int p = 0; p < 3; p++)
    for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
      ac_plan_desc desc = {.batch = 16, .purpose = purposes[p], .recompute = (ac_recompute)policy};
      plan = make(graph, device, desc);
      assert_int_equal(ac_plan_get_info(plan)->micro_batch, 4);
      ac_plan_free(plan);
      desc.micro_batch = 6;
      assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_UNSUPPORTED,
                     "relu (stem) at a micro-batch of 6; give a smaller one");
      desc.micro_batch = 5;
      ac_plan_free(make(graph, device, desc));
    }
  ac_plan_desc desc = {.batch = 6};
  assert_refused(ac_plan_create(&plan, normed, device, &desc), AC_ERROR_UNSUPPORTED,
                 "relu (stem) on 6 samples, and batch_norm (norm) keeps a batch whole");
  assert_contains(ac_last_error(), "smaller batch");
  desc.batch_norm = AC_BATCH_NORM_MICRO;
  ac_plan_free(make(normed, device, desc));
  desc = (ac_plan_desc){.batch = 5};
  ac_plan_free(make(normed, device, desc));
  ac_graph_free(graph);
  ac_graph_free(normed);
  ac_device_close(device);
}

/* What is read ahead lies in the program's own memory, and counts where the device computes there:
 * the backend says so, whatever it is called. */
static void the_host_s_memory_is_the_budget_s(void **state) {
  (void)state;
  ac_graph *graph = rectified(false);
  for (int host = 0; host < 2; host++) {
    ac_device *device = dry(0);
    ac_backend backend = *device->backend;
    backend.name = host ? "third" : "cpu";
    backend.is_host = host;
    device->backend = &backend;
    ac_plan_desc desc = {.batch = 8, .micro_batch = 8, .read_ahead = 2};
    ac_plan *plan = make(graph, device, desc);
    const uint64_t total = plan->info.bytes.total, ahead = plan->info.read_ahead_bytes;
    assert_true(ahead > 0);
    ac_plan_free(plan);
    desc.memory = total + (host ? ahead : 0);
    ac_plan_free(make(graph, device, desc));
    desc.memory--;
    assert_int_equal(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET);
    ac_device_close(device);
  }
  ac_graph_free(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_are_sound),
      cmocka_unit_test(the_host_s_memory_is_the_budget_s),
      cmocka_unit_test(the_arena_is_near_its_bound),
      cmocka_unit_test(classes_add_up),
      cmocka_unit_test(the_total_is_what_is_allocated),
      cmocka_unit_test(larger_budgets_give_larger_micro_batches),
      cmocka_unit_test(budgets_are_kept),
      cmocka_unit_test(plenty_of_memory_is_used),
      cmocka_unit_test(chunks_limit_the_micro_batch),
      cmocka_unit_test(callers_settle_offers),
      cmocka_unit_test(long_graphs_are_planned),
      cmocka_unit_test(layouts_are_first_fit),
      cmocka_unit_test(what_is_needed_is_rounded_up),
      cmocka_unit_test(hints_are_honoured),
      cmocka_unit_test(sizes_do_not_overflow),
      cmocka_unit_test(ops_must_bear_the_micro_batch),
      cmocka_unit_test(the_micro_batch_is_one_that_ops_bear),
      cmocka_unit_test(wrong_policies_are_refused),
      cmocka_unit_test(a_plan_outlives_its_graph),
      cmocka_unit_test(a_loss_half_way_keeps_stages_apart),
      cmocka_unit_test(no_budget_makes_room_beyond_an_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
