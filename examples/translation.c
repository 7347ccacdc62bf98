/* Translation: an encoder reads a row in one language, and a decoder writes it in another, token by
 * token. It looks at what it has written so far, and at what the encoder made of the row. The other
 * language has the words in reverse order. */
#include "recipe.h"

enum { ROWS = 32, LENGTH = 5, WORDS = 6, START = WORDS, WIDTH = 16, HEADS = 2, UPDATES = 300 };

static int32_t source[ROWS][LENGTH], written[ROWS][LENGTH], targets[ROWS][LENGTH], lengths[ROWS];

static int below(int limit) {
  return (int)((draw() + 1) * 0.5f * (float)limit);
}

/* What is written begins with a token of its own, and is then what was to be written before. */
static void fill(void) {
  for (int i = 0; i < ROWS; i++) {
    lengths[i] = 2 + below(LENGTH - 1);
    for (int t = 0; t < LENGTH; t++) source[i][t] = t < lengths[i] ? below(WORDS) : 0;
    for (int t = 0; t < LENGTH; t++) {
      targets[i][t] = t < lengths[i] ? WORDS - 1 - source[i][lengths[i] - 1 - t] : 0;
      written[i][t] = t ? targets[i][t - 1] : START;
    }
  }
}

/* x [B, T, WIDTH] attends to y, by two heads of queries that share one of keys and values. */
static ac_tensor *attend(ac_graph *graph, const char *name, ac_tensor *x, ac_tensor *y,
                         const ac_attention_desc *desc) {
  enum { SIZE = WIDTH / HEADS };
  char text[32];
  snprintf(text, sizeof text, "%s.q", name);
  ac_tensor *q = ac_dense(graph, text, x, WIDTH, NULL);
  snprintf(text, sizeof text, "%s.k", name);
  ac_tensor *k = ac_dense(graph, text, y, SIZE, NULL);
  snprintf(text, sizeof text, "%s.v", name);
  ac_tensor *v = ac_dense(graph, text, y, SIZE, NULL);
  ac_tensor *z = ac_attention(ac_reshape(q, AC_SHAPE(AC_BATCH, LENGTH, HEADS, SIZE)),
                              ac_reshape(k, AC_SHAPE(AC_BATCH, LENGTH, 1, SIZE)),
                              ac_reshape(v, AC_SHAPE(AC_BATCH, LENGTH, 1, SIZE)), desc);
  snprintf(text, sizeof text, "%s.out", name);
  z = ac_dense(graph, text, ac_reshape(z, AC_SHAPE(AC_BATCH, LENGTH, WIDTH)), WIDTH, NULL);
  return ac_add(x, z);
}

static ac_tensor *embed(ac_graph *graph, const char *name, const char *positions, ac_tensor *ids) {
  ac_tensor *x = ac_embedding_layer(graph, name, ids, WORDS + 1, WIDTH, NULL);
  return ac_add(x, ac_parameter(graph, positions, AC_SHAPE(LENGTH, WIDTH), NULL));
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *from = ac_input(graph, "source", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *to = ac_input(graph, "written", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *right = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *count = ac_input(graph, "lengths", AC_I32, AC_SHAPE(AC_BATCH));
  const ac_attention_desc of_source = {.lengths = count}, causal = {.causal = true};
  ac_tensor *x = embed(graph, "source", "source.positions", from);
  x = attend(graph, "encoder", x, x, &of_source);
  ac_tensor *y = embed(graph, "written", "written.positions", to);
  y = attend(graph, "decoder", y, y, &causal);
  y = attend(graph, "crossed", y, x, &of_source);
  ac_tensor *hidden = ac_gelu(ac_dense(graph, "up", y, 2 * WIDTH, NULL), AC_GELU_ERF);
  y = ac_add(y, ac_dense(graph, "down", hidden, WIDTH, NULL));
  ac_tensor *logits = ac_dense(graph, "logits", y, WORDS, NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, right, ac_length_mask(count, LENGTH), NULL));
  const ac_feed feeds[] = {
      {"source", source}, {"written", written}, {"targets", targets}, {"lengths", lengths}};
  return train_recipe("translation", graph, ROWS, UPDATES, 0.1, feeds, 4, fill, 0.283812675);
}
