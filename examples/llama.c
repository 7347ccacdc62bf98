/* Blocks of a Llama: RMS norms, rotary positions, grouped heads and a gated MLP. The model learns
 * to say again what came three tokens before. */
#include "recipe.h"

enum { SAMPLES = 8, CONTEXT = 12, VOCAB = 8, WIDTH = 16, HEADS = 4, KEY_HEADS = 2, SIZE = 4 };
enum { HIDDEN = 24, LAYERS = 2, UPDATES = 150, DISTANCE = 3 };

static int32_t tokens[SAMPLES][CONTEXT], targets[SAMPLES][CONTEXT];

static void fill(void) {
  for (int i = 0; i < SAMPLES; i++)
    for (int t = 0; t < CONTEXT; t++) {
      tokens[i][t] = (int32_t)((draw() + 1) / 2 * VOCAB);
      targets[i][t] = tokens[i][t < DISTANCE ? t : t - DISTANCE];
    }
}

static ac_tensor *matrix(ac_graph *graph, int layer, const char *part, int64_t out, int64_t in) {
  char name[32];
  snprintf(name, sizeof name, "layers.%d.%s", layer, part);
  return ac_parameter(graph, name, AC_SHAPE(out, in), NULL);
}

static ac_tensor *norm(ac_graph *graph, int layer, const char *part, ac_tensor *x) {
  char name[32];
  snprintf(name, sizeof name, "layers.%d.%s", layer, part);
  return ac_rms_norm(x, ac_parameter(graph, name, AC_SHAPE(WIDTH), NULL), 0);
}

/* x W as heads: [B, T, heads, SIZE]. */
static ac_tensor *project(ac_graph *graph, int layer, const char *part, ac_tensor *x, int heads) {
  x = ac_linear(x, matrix(graph, layer, part, (int64_t)heads * SIZE, WIDTH), NULL, AC_OUT_IN);
  return ac_reshape(x, AC_SHAPE(AC_BATCH, CONTEXT, heads, SIZE));
}

static ac_tensor *attend(ac_graph *graph, int layer, ac_tensor *x) {
  const ac_rope_desc rope = {.base = 500000};
  const ac_attention_desc causal = {.causal = true};
  ac_tensor *q = ac_rope(project(graph, layer, "q", x, HEADS), NULL, &rope),
            *k = ac_rope(project(graph, layer, "k", x, KEY_HEADS), NULL, &rope),
            *v = project(graph, layer, "v", x, KEY_HEADS);
  x = ac_reshape(ac_attention(q, k, v, &causal), AC_SHAPE(AC_BATCH, CONTEXT, WIDTH));
  return ac_linear(x, matrix(graph, layer, "o", WIDTH, WIDTH), NULL, AC_OUT_IN);
}

static ac_tensor *block(ac_graph *graph, int layer, ac_tensor *x) {
  x = ac_add(x, attend(graph, layer, norm(graph, layer, "norm_1", x)));
  ac_tensor *h = norm(graph, layer, "norm_2", x),
            *gate = ac_linear(h, matrix(graph, layer, "gate", HIDDEN, WIDTH), NULL, AC_OUT_IN),
            *up = ac_linear(h, matrix(graph, layer, "up", HIDDEN, WIDTH), NULL, AC_OUT_IN);
  return ac_add(x, ac_linear(ac_swiglu(gate, up), matrix(graph, layer, "down", WIDTH, HIDDEN), NULL,
                             AC_OUT_IN));
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *ids = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, CONTEXT)),
            *next = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, CONTEXT));
  ac_tensor *x = ac_embedding(matrix(graph, LAYERS, "table", VOCAB, WIDTH), ids);
  for (int layer = 0; layer < LAYERS; layer++) x = block(graph, layer, x);
  x = norm(graph, LAYERS, "norm", x);
  ac_tensor *logits = ac_linear(x, matrix(graph, LAYERS, "head", VOCAB, WIDTH), NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, next, NULL, NULL));
  const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
  return train_recipe("llama", graph, SAMPLES, UPDATES, 0.2, feeds, 2, fill, 1.53437567);
}
