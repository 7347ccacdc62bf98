/* Plans with and without working copies of weights in 16 bits: the memory of each, and which of
 * them is chosen under a budget. */
#include "support/devices.h"
#include "support/models.h"

#include <math.h>
#include <stdio.h>

static const test_gpt gpt = {
    .layers = 3, .width = 64, .context = 32, .vocab = 300, .heads = 2, .dropout = 0.1f};

static ac_plan_info info_of(const ac_graph *graph, ac_device *device, ac_plan_desc desc) {
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  ac_plan_info info = *ac_plan_get_info(plan);
  ac_plan_free(plan);
  return info;
}

/* ---- what they are --------------------------------------------------------------------------- */

static void copies_are_kept_without_a_budget_on(const char *name, ac_precision precision) {
  ac_device *device = open_device(name);
  ac_graph *graph = test_gpt_graph(&gpt);
  ac_plan_desc desc = {.batch = 4, .micro_batch = 4, .precision = precision};
  const ac_plan_info open = info_of(graph, device, desc);
  desc.working_copies = AC_WORKING_COPIES_KEPT;
  const ac_plan_info kept = info_of(graph, device, desc);
  desc.working_copies = AC_WORKING_COPIES_NONE;
  const ac_plan_info none = info_of(graph, device, desc);
  assert_false(open.rounds_anew);
  assert_false(kept.rounds_anew);
  assert_true(none.rounds_anew);
  assert_int_equal(open.bytes.total, kept.bytes.total);
  assert_true(kept.working_bytes > 0);
  assert_int_equal(none.working_bytes, 0);
  assert_int_equal(none.bytes.parameters, kept.bytes.parameters - kept.working_bytes);
  assert_true(none.bytes.total < kept.bytes.total);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void copies_are_kept_without_a_budget(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) copies_are_kept_without_a_budget_on("dry", halves[k]);
  everywhere(copies_are_kept_without_a_budget_on);
}

/* In f32 there are none, and without a backward pass originals are not kept as well. */
static void other_plans_are_left_alone(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(&gpt);
  for (int purpose = AC_TRAIN; purpose <= AC_PREDICT; purpose++)
    for (int precision = AC_PRECISION_F32; precision <= AC_PRECISION_BF16; precision++) {
      if (purpose == AC_TRAIN && precision != AC_PRECISION_F32) continue;
      ac_plan_desc desc = {
          .purpose = (ac_purpose)purpose, .batch = 4, .precision = (ac_precision)precision};
      const ac_plan_info open = info_of(graph, device, desc);
      desc.working_copies = AC_WORKING_COPIES_NONE;
      const ac_plan_info none = info_of(graph, device, desc);
      assert_false(none.rounds_anew);
      assert_memory_equal(&open.bytes, &none.bytes, sizeof open.bytes);
    }
  ac_graph_free(graph);
  ac_device_close(device);
}

/* A weight that is not trained is kept in 16 bits alone either way. */
static void frozen_weights_stay_as_they_are(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(&gpt);
  ac_plan_desc desc = {.batch = 4,
                       .precision = AC_PRECISION_BF16,
                       .frozen = "h?.*",
                       .working_copies = AC_WORKING_COPIES_NONE};
  const ac_plan_info none = info_of(graph, device, desc);
  desc.working_copies = AC_WORKING_COPIES_KEPT;
  const ac_plan_info kept = info_of(graph, device, desc);
  const uint64_t table = 300 * 64 * 2; /* bytes of the table's copy, which is trained */
  assert_true(none.working_bytes > 0 && none.rounds_anew);
  assert_true(kept.working_bytes - none.working_bytes >= table &&
              kept.working_bytes - none.working_bytes < 2 * table);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* ---- which of them a budget gets ------------------------------------------------------------- */

/* From the smallest budget of either on: never slower than with copies or with less memory, and
 * copies are given up only where something is to be had for them. */
static void budgets_choose_on(const char *name, ac_precision precision) {
  enum { STEPS = 12 };
  ac_device *device = open_device(name);
  ac_graph *graph = test_gpt_graph(&gpt);
  ac_plan_desc open = {.batch = 8, .precision = precision}, kept = open, none = open;
  kept.working_copies = AC_WORKING_COPIES_KEPT;
  none.working_copies = AC_WORKING_COPIES_NONE;
  const uint64_t low = least_budget(graph, device, open),
                 low_kept = least_budget(graph, device, kept),
                 low_none = least_budget(graph, device, none);
  assert_true(low_none < low_kept);
  assert_int_equal(low, low_none);
  const ac_plan_info fastest = info_of(graph, device, kept);
  double previous = INFINITY;
  int given_up = 0;
  for (int i = 0; i <= STEPS; i++) {
    open.memory = kept.memory = low + (fastest.bytes.total - low) * (uint64_t)i / STEPS;
    const ac_plan_info info = info_of(graph, device, open);
    assert_true(info.bytes.total <= open.memory);
    assert_true(info.predicted_seconds <= previous);
    assert_true(info.predicted_seconds >= fastest.predicted_seconds);
    previous = info.predicted_seconds;
    given_up += info.rounds_anew;
    if (kept.memory < low_kept) {
      assert_true(info.rounds_anew);
      continue;
    }
    const ac_plan_info other = info_of(graph, device, kept);
    assert_true(info.predicted_seconds <= other.predicted_seconds);
    assert_true(!info.rounds_anew || info.predicted_seconds < other.predicted_seconds);
  }
  assert_true(given_up > 0 && given_up <= STEPS); /* at the end copies fit */
  ac_graph_free(graph);
  ac_device_close(device);
}

static void budgets_choose(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) budgets_choose_on("dry", halves[k]);
  everywhere(budgets_choose_on);
}

/* If copies are asked for and there is no room, the refusal says what would be enough without them.
 * That is enough, and one byte less is not. */
static void a_refusal_offers_to_do_without(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_graph *graph = test_gpt_graph(&gpt);
  ac_plan *plan;
  ac_plan_desc desc = {
      .batch = 8, .precision = AC_PRECISION_BF16, .working_copies = AC_WORKING_COPIES_KEPT};
  desc.memory = least_budget(graph, device, desc) - 1;
  const ac_plan_offer offer = test_offer(graph, device, desc, AC_RELIEF_WORKING_COPIES_AUTO);
  desc.working_copies = AC_WORKING_COPIES_AUTO;
  assert_int_equal(offer.bytes, least_budget(graph, device, desc));
  assert_true(info_of(graph, device, desc).rounds_anew);
  desc.memory = least_budget(graph, device, desc);
  assert_true(info_of(graph, device, desc).rounds_anew);
  desc.memory--;
  assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET, "needs at least");
  assert_int_equal(test_offer(graph, device, desc, AC_RELIEF_WORKING_COPIES_AUTO).bytes, 0);
  ac_graph_free(graph);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(copies_are_kept_without_a_budget),
                                     cmocka_unit_test(other_plans_are_left_alone),
                                     cmocka_unit_test(frozen_weights_stay_as_they_are),
                                     cmocka_unit_test(budgets_choose),
                                     cmocka_unit_test(a_refusal_offers_to_do_without)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
