#include "passes.h"

/* ---- a transformer --------------------------------------------------------------------------- */

trained train_passes(ac_device *device, const test_gpt *m, ac_plan_desc plan,
                     const ac_trainer_desc *desc, int updates) {
  trained t = {.made = updates};
  const corpus c = make_corpus();
  run r = start_on(device, m, plan, *desc);
  t.bytes = ac_plan_get_info(r.plan)->bytes;
  assert_int_equal(ac_plan_get_info(r.plan)->gradients, plan.gradients);
  assert_int_equal(ac_device_allocated_bytes(device), t.bytes.total);
  for (int u = 0; u < updates; u++) {
    assert_ok(feed(&r, &c, u % 7, BATCH - u % 3));
    assert_ok(ac_trainer_update(r.trainer, &t.updates[u]));
    t.skipped += t.updates[u].skipped;
  }
  assert_int_equal(ac_device_allocated_bytes(device), t.bytes.total);
  t.parameters = all_parameters(&r, &t.count);
  stop_on(&r);
  assert_int_equal(ac_device_allocated_bytes(device), 0);
  return t;
}

void assert_same_training(const trained *a, const trained *b) {
  assert_int_equal(a->made, b->made);
  for (int u = 0; u < a->made; u++) {
    const ac_update *x = &a->updates[u], *y = &b->updates[u];
    assert_true(x->loss == y->loss && x->weight == y->weight && x->lr == y->lr);
    assert_true(x->grad_norm == y->grad_norm && x->loss_scale == y->loss_scale);
    assert_int_equal(x->skipped, y->skipped);
    assert_int_equal(x->update, y->update);
  }
  assert_int_equal(a->count, b->count);
  assert_memory_equal(a->parameters, b->parameters, a->count * sizeof *a->parameters);
}

ac_plan *plan_of(ac_device *device, const test_gpt *m, ac_plan_desc desc) {
  ac_graph *graph = test_gpt_graph(m);
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  ac_graph_free(graph);
  return plan;
}

/* ---- steps out of place ---------------------------------------------------------------------- */

int find_step(const ac_plan *plan, const ac_sequence *sequence, ac_op op) {
  for (int i = 0; i < sequence->step_count; i++)
    if (ac_node_at(plan->graph, sequence->steps[i].node)->op == op) return i;
  fail_msg("there is no such step");
  return -1;
}

void move(ac_sequence *sequence, int from, int to) {
  const ac_step step = sequence->steps[from];
  for (int i = from; i != to; i += to < from ? -1 : 1)
    sequence->steps[i] = sequence->steps[i + (to < from ? -1 : 1)];
  sequence->steps[to] = step;
}
