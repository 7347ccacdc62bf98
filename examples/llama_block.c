/* A block as in Llama: norms by the root of the mean square, rotary positions, four heads of
 * queries that share two of keys and values, and a gated feed-forward part. It learns to go on
 * counting: the two tokens before tell the step. */
#include "recipe.h"

enum { ROWS = 32, LENGTH = 8, TOKENS = 7, WIDTH = 16, HEADS = 4, KEY_HEADS = 2, UPDATES = 400 };
enum { HEAD = WIDTH / HEADS, INNER = 24 };

static int32_t tokens[ROWS][LENGTH], targets[ROWS][LENGTH];

static int below(int limit) {
  return (int)((draw() + 1) * 0.5f * (float)limit);
}

/* A row counts from any token by a step of its own. */
static void fill(void) {
  for (int i = 0; i < ROWS; i++) {
    const int first = below(TOKENS), step = 1 + below(TOKENS - 1);
    for (int t = 0; t < LENGTH; t++) {
      tokens[i][t] = (first + step * t) % TOKENS;
      targets[i][t] = (first + step * (t + 1)) % TOKENS;
    }
  }
}

static ac_tensor *linear(ac_graph *graph, const char *name, ac_tensor *x, int64_t out) {
  const ac_dense_desc desc = {.no_bias = true};
  return ac_dense(graph, name, x, out, &desc);
}

static ac_tensor *norm(ac_graph *graph, const char *name, ac_tensor *x) {
  return ac_rms_norm(x, ac_parameter(graph, name, AC_SHAPE(WIDTH), NULL), 1e-5f);
}

static ac_tensor *heads(ac_graph *graph, const char *name, ac_tensor *x, int count) {
  return ac_reshape(linear(graph, name, x, (int64_t)count * HEAD),
                    AC_SHAPE(AC_BATCH, LENGTH, count, HEAD));
}

static ac_tensor *attend(ac_graph *graph, ac_tensor *x) {
  const ac_attention_desc causal = {.causal = true};
  const ac_rope_desc turned = {.base = 500000};
  ac_tensor *q = ac_rope(heads(graph, "q_proj", x, HEADS), NULL, &turned),
            *k = ac_rope(heads(graph, "k_proj", x, KEY_HEADS), NULL, &turned),
            *v = heads(graph, "v_proj", x, KEY_HEADS);
  ac_tensor *y = ac_attention(q, k, v, &causal);
  return linear(graph, "o_proj", ac_reshape(y, AC_SHAPE(AC_BATCH, LENGTH, WIDTH)), WIDTH);
}

static ac_tensor *feed_forward(ac_graph *graph, ac_tensor *x) {
  ac_tensor *gate = linear(graph, "gate_proj", x, INNER), *up = linear(graph, "up_proj", x, INNER);
  return linear(graph, "down_proj", ac_swiglu(gate, up), WIDTH);
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *ids = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *next = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, LENGTH));
  ac_tensor *x = ac_embedding_layer(graph, "embed_tokens", ids, TOKENS, WIDTH, NULL);
  x = ac_add(x, attend(graph, norm(graph, "input_layernorm", x)));
  x = ac_add(x, feed_forward(graph, norm(graph, "post_attention_layernorm", x)));
  ac_tensor *logits = linear(graph, "lm_head", norm(graph, "norm", x), TOKENS);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, next, NULL, NULL));
  const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
  return train_recipe("llama_block", graph, ROWS, UPDATES, 0.2, feeds, 2, fill, 0.298140852);
}
