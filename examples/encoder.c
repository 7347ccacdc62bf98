/* An encoder that looks both ways, as BERT does: one token of each row is hidden, and the model
 * says which it was. Rows have unequal lengths; nothing looks at what is beyond. */
#include "recipe.h"

enum { ROWS = 32, LENGTH = 8, TOKENS = 6, HIDDEN = TOKENS, WIDTH = 16, HEADS = 2, UPDATES = 300 };

static int32_t tokens[ROWS][LENGTH], targets[ROWS][LENGTH], lengths[ROWS];
static float weights[ROWS][LENGTH];

static int below(int limit) {
  return (int)((draw() + 1) * 0.5f * (float)limit);
}

/* A row counts up from any token, by 1 or by 2. Only the hidden token has a weight in the loss. */
static void fill(void) {
  for (int i = 0; i < ROWS; i++) {
    const int first = below(TOKENS), step = 1 + below(2);
    lengths[i] = 4 + below(LENGTH - 3);
    const int hidden = below(lengths[i]);
    for (int t = 0; t < LENGTH; t++) {
      targets[i][t] = t < lengths[i] ? (first + step * t) % TOKENS : 0;
      tokens[i][t] = t == hidden ? HIDDEN : targets[i][t];
      weights[i][t] = t == hidden;
    }
  }
}

/* Attention of all positions to all that are there. */
static ac_tensor *attend(ac_graph *graph, ac_tensor *x, ac_tensor *row_lengths) {
  const ac_attention_desc desc = {.heads = HEADS, .lengths = row_lengths, .skip_padding = true};
  ac_tensor *qkv = ac_dense(graph, "qkv", x, 3 * WIDTH, NULL);
  qkv = ac_reshape(qkv, AC_SHAPE(AC_BATCH, LENGTH, 3 * HEADS, WIDTH / HEADS));
  ac_tensor *y = ac_attention(qkv, NULL, NULL, &desc);
  return ac_dense(graph, "out", ac_reshape(y, AC_SHAPE(AC_BATCH, LENGTH, WIDTH)), WIDTH, NULL);
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *ids = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *right = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *weight = ac_input(graph, "weights", AC_F32, AC_SHAPE(AC_BATCH, LENGTH)),
            *row_lengths = ac_input(graph, "lengths", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *x = ac_embedding_layer(graph, "tokens", ids, TOKENS + 1, WIDTH, NULL);
  x = ac_add(x, ac_parameter(graph, "positions", AC_SHAPE(LENGTH, WIDTH), NULL));
  x = ac_add(x, attend(graph, x, row_lengths));
  ac_tensor *hidden = ac_gelu(ac_dense(graph, "up", x, 2 * WIDTH, NULL), AC_GELU_ERF);
  x = ac_add(x, ac_dense(graph, "down", hidden, WIDTH, NULL));
  ac_tensor *logits = ac_dense(graph, "logits", x, TOKENS, NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, right, weight, NULL));
  const ac_feed feeds[] = {
      {"tokens", tokens}, {"targets", targets}, {"weights", weights}, {"lengths", lengths}};
  return train_recipe("encoder", graph, ROWS, UPDATES, 0.1, feeds, 4, fill, 0.0167940415);
}
