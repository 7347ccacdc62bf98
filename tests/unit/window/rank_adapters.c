/* Adapters (LoRA, DoRA) that several ranks train, against one rank. */
#include "support/models.h"
#include "support/ranked_cases.h"
#include "support/trainers.h"

#include <accrue/adapter.h>

static ac_tensor *adapted(ac_graph *g, const char *name, ac_tensor *x, int64_t out, int64_t in,
                          const ac_lora_desc *lora) {
  char weight[32];
  const ac_parameter_desc frozen = {.frozen = true,
                                    .init = {.kind = AC_INIT_NORMAL, .deviation = 0.3f}};
  snprintf(weight, sizeof weight, "%s.weight", name);
  return ac_lora_linear(g, name, x, ac_parameter(g, weight, SHAPE(out, in), &frozen), NULL,
                        AC_OUT_IN, lora);
}

/* Only adapters are trained. Those of the middle layer are large enough to be cut. */
static ac_graph *with_adapters(const ac_lora_desc *lora) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES)),
            *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  x = ac_relu(adapted(g, "a", x, 160, RANKED_FEATURES, lora));
  x = ac_relu(adapted(g, "b", x, 160, 160, lora));
  x = adapted(g, "c", x, RANKED_CLASSES, 160, lora);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static ac_graph *lora(void) {
  return with_adapters(&(ac_lora_desc){.rank = 8, .dropout = 0.1});
}

static ac_graph *dora(void) {
  return with_adapters(&(ac_lora_desc){.rank = 4, .dora = true});
}

static void check_adapters(ac_graph *(*graph)(void), double tolerance) {
  ranked_case c = ranked_feature_case(graph);
  ranked_check_case(&c, tolerance);
  c.plan.gradients = AC_GRADIENTS_SHARDED;
  ranked_check_case(&c, tolerance);
}

static void adapters_are_those_of_one_rank(void **state) {
  (void)state;
  check_adapters(lora, 1e-5);
  check_adapters(dora, 1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(adapters_are_those_of_one_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
