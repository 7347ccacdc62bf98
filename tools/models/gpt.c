/* Pre-norm blocks of causal attention and a two-layer perceptron on a residual stream, learned
 * positions, and a head that shares the token table:
 *
 *   x = wte[tokens] + wpe
 *   x = x + c_proj(attention(c_attn(ln_1(x))))     layers times
 *   x = x + c_proj(gelu(c_fc(ln_2(x))))
 *   logits = ln_f(x) wte^T
 *
 * Weights start from N(0, 0.02), those that write to the residual stream from N(0, 0.02 / sqrt(2
 * layers)), biases from 0 and norms from 1, as in GPT-2. */
#include "models/gpt.h"
#include "models/share.h"

#include <math.h>
#include <stdio.h>

typedef struct builder {
  ac_graph *graph;
  const gpt_config *config;
  int layer; /* < 0: outside the blocks */
} builder;

/* "transformer.h.3.attn.c_attn.weight"; rows 0: a vector. */
static ac_tensor *parameter(const builder *b, const char *layer, const char *leaf, int64_t rows,
                            int64_t columns, ac_init init) {
  char name[96];
  if (b->layer < 0) snprintf(name, sizeof name, GPT_PREFIX "%s.%s", layer, leaf);
  else snprintf(name, sizeof name, GPT_PREFIX "h.%d.%s.%s", b->layer, layer, leaf);
  const int64_t shape[] = {rows, columns};
  return ac_parameter(b->graph, name, rows ? 2 : 1, rows ? shape : shape + 1,
                      &(ac_parameter_desc){.init = init});
}

static ac_init normal(double deviation) {
  return (ac_init){.kind = AC_INIT_NORMAL, .deviation = (float)deviation};
}

static ac_tensor *norm(const builder *b, const char *name, ac_tensor *x) {
  int64_t C = b->config->width;
  ac_tensor *gamma = parameter(b, name, "weight", 0, C, (ac_init){AC_INIT_CONSTANT, .value = 1});
  ac_tensor *beta = parameter(b, name, "bias", 0, C, (ac_init){.kind = AC_INIT_ZERO});
  return ac_layer_norm(x, gamma, beta, 1e-5f);
}

static ac_tensor *linear(const builder *b, const char *name, ac_tensor *x, int64_t in, int64_t out,
                         double deviation) {
  ac_tensor *weight = parameter(b, name, "weight", in, out, normal(deviation));
  ac_tensor *bias = parameter(b, name, "bias", 0, out, (ac_init){.kind = AC_INIT_ZERO});
  return ac_linear(x, weight, bias, AC_IN_OUT);
}

static ac_tensor *drop(const builder *b, ac_tensor *x) {
  return b->config->dropout > 0 ? ac_dropout(x, share_of(b->config->dropout)) : x;
}

static void scope(const builder *b, const char *part) {
  char name[48];
  snprintf(name, sizeof name, "h.%d.%s", b->layer, part);
  ac_graph_scope(b->graph, name);
}

static ac_tensor *attention(const builder *b, ac_tensor *x, double residual) {
  int64_t C = b->config->width;
  scope(b, "attn");
  x = norm(b, "ln_1", x);
  x = linear(b, "attn.c_attn", x, C, 3 * C, 0.02);
  x = ac_causal_attention(x, &(ac_attention_desc){.heads = (int)b->config->heads,
                                                  .dropout = share_of(b->config->dropout)});
  x = linear(b, "attn.c_proj", x, C, C, residual);
  return drop(b, x);
}

static ac_tensor *perceptron(const builder *b, ac_tensor *x, double residual) {
  int64_t C = b->config->width;
  scope(b, "mlp");
  x = norm(b, "ln_2", x);
  x = linear(b, "mlp.c_fc", x, C, 4 * C, 0.02);
  x = ac_gelu(x, AC_GELU_TANH);
  x = linear(b, "mlp.c_proj", x, 4 * C, C, residual);
  return drop(b, x);
}

void gpt_build(ac_graph *graph, const gpt_config *config, bool loss) {
  int64_t T = config->context, C = config->width, V = config->vocab;
  double residual = 0.02 / sqrt(2 * (double)config->layers);
  builder b = {graph, config, -1};

  ac_graph_scope(graph, "embedding");
  ac_tensor *tokens = ac_input(graph, "tokens", AC_I32, 2, (int64_t[]){AC_BATCH, T});
  ac_tensor *wte = parameter(&b, "wte", "weight", V, C, normal(0.02));
  ac_tensor *wpe = ac_parameter(graph, GPT_PREFIX "wpe.weight", 2, (int64_t[]){T, C},
                                &(ac_parameter_desc){.init = normal(0.02), .first_rows = true});
  ac_tensor *x = drop(&b, ac_add(ac_embedding(wte, tokens), wpe));

  for (b.layer = 0; b.layer < config->layers; b.layer++) {
    x = ac_add(x, attention(&b, x, residual));
    x = ac_add(x, perceptron(&b, x, residual));
  }

  b.layer = -1;
  ac_graph_scope(graph, "head");
  x = norm(&b, "ln_f", x);
  if (loss) {
    ac_tensor *targets = ac_input(graph, "targets", AC_I32, 2, (int64_t[]){AC_BATCH, T});
    /* Targets of -100 do not count, as in transformers. */
    const ac_cross_entropy_desc desc = {.ignore = true, .ignore_index = -100};
    ac_graph_set_loss(graph, ac_linear_cross_entropy(x, wte, AC_OUT_IN, targets, NULL, &desc));
  } else {
    ac_graph_set_output(graph, "logits", ac_linear(x, wte, NULL, AC_OUT_IN));
  }
}
