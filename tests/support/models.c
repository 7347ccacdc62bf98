#include "models.h"

ac_tensor *test_matrix(ac_graph *g, const char *scope, const char *name, int64_t rows,
                       int64_t columns) {
  char full[96];
  snprintf(full, sizeof full, "%s.%s", scope, name);
  ac_parameter_desc desc = {.init = {AC_INIT_NORMAL, .deviation = 0.2f}};
  if (!columns) return ac_parameter(g, full, 1, &rows, &desc);
  return ac_parameter(g, full, 2, (const int64_t[]){rows, columns}, &desc);
}

ac_tensor *test_norm(ac_graph *g, ac_tensor *x, const char *scope, const char *name,
                     int64_t width) {
  char weight[96], bias[96];
  snprintf(weight, sizeof weight, "%s.%s.weight", scope, name);
  snprintf(bias, sizeof bias, "%s.%s.bias", scope, name);
  ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}};
  return ac_layer_norm(x, ac_parameter(g, weight, 1, &width, &one),
                       ac_parameter(g, bias, 1, &width, NULL), 0);
}

static ac_tensor *test_block(ac_graph *g, ac_tensor *x, const test_gpt *m, int64_t layer) {
  char s[32];
  int64_t C = m->width;
  snprintf(s, sizeof s, "h%d", (int)layer);
  ac_graph_scope(g, s);
  ac_tensor *a = test_norm(g, x, s, "ln_1", C);
  a = ac_linear(a, test_matrix(g, s, "qkv.w", C, 3 * C), test_matrix(g, s, "qkv.b", 3 * C, 0),
                AC_IN_OUT);
  a = ac_causal_attention(a, &(ac_attention_desc){.heads = m->heads, .dropout = m->dropout});
  a = ac_linear(a, test_matrix(g, s, "proj.w", C, C), test_matrix(g, s, "proj.b", C, 0), AC_IN_OUT);
  x = ac_add(x, ac_dropout(a, m->dropout));
  a = test_norm(g, x, s, "ln_2", C);
  a = ac_linear(a, test_matrix(g, s, "fc.w", C, 4 * C), test_matrix(g, s, "fc.b", 4 * C, 0),
                AC_IN_OUT);
  a = ac_gelu(a, AC_GELU_TANH);
  a = ac_linear(a, test_matrix(g, s, "out.w", 4 * C, C), NULL, AC_IN_OUT);
  x = ac_add(x, ac_dropout(a, m->dropout));
  ac_graph_scope(g, NULL);
  return x;
}

ac_graph *test_gpt_graph(const test_gpt *m) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const int64_t rows[] = {AC_BATCH, m->context};
  ac_tensor *tokens = ac_input(g, "tokens", AC_I32, 2, rows);
  ac_tensor *targets = ac_input(g, "targets", AC_I32, 2, rows);
  ac_tensor *weights = m->weighted ? ac_input(g, "weights", AC_F32, 2, rows) : NULL;
  ac_tensor *wte = test_matrix(g, "wte", "w", m->vocab, m->width);
  ac_tensor *x =
      ac_add(ac_embedding(wte, tokens), test_matrix(g, "wpe", "w", m->context, m->width));
  x = ac_dropout(x, m->dropout);
  for (int64_t i = 0; i < m->layers; i++) x = test_block(g, x, m, i);
  x = test_norm(g, x, "f", "ln", m->width);
  ac_tensor *logits = ac_linear(x, wte, NULL, AC_OUT_IN);
  ac_graph_set_output(g, "logits", logits);
  const ac_cross_entropy_desc desc = {.ignore = true, .ignore_index = -1};
  ac_graph_set_loss(g, m->fused
                           ? ac_linear_cross_entropy(x, wte, AC_OUT_IN, targets, weights, &desc)
                           : ac_cross_entropy(logits, targets, weights, &desc));
  assert_ok(ac_graph_status(g));
  return g;
}

ac_plan_offer test_offer(const ac_graph *graph, ac_device *device, ac_plan_desc desc,
                         unsigned reliefs) {
  ac_plan_offer list[16];
  int count;
  assert_ok(ac_plan_offers(graph, device, &desc, list, 16, &count));
  assert_true(count <= 16);
  for (int i = 0; i < count; i++)
    if (list[i].reliefs == reliefs) return list[i];
  return (ac_plan_offer){.bytes = 0};
}

uint64_t least_budget(const ac_graph *graph, ac_device *device, ac_plan_desc desc) {
  ac_plan *plan;
  unsigned long long bytes = 0;
  desc.memory = 1;
  assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET,
                 "plan: needs at least");
  const char *number = strchr(ac_last_error(), '(');
  assert_non_null(number);
  assert_int_equal(sscanf(number, "(%llu bytes", &bytes), 1);
  return bytes;
}
