/* A classifier of texts of unequal length: a GRU reads each text from both ends, and what it
 * remembers of both is classified. Words beyond a text's length count nothing. */
#include "recipe.h"

enum { TEXTS = 32, LONGEST = 10, WORDS = 12, WIDTH = 6, UNITS = 8, UPDATES = 200 };

static int32_t words[TEXTS][LONGEST], lengths[TEXTS], labels[TEXTS];

/* In [0, n). */
static int choose(int n) {
  return (int)((draw() + 1) / 2 * (float)n);
}

/* The first half of the words are good ones: is the text more good than bad? */
static void fill(void) {
  for (int i = 0; i < TEXTS; i++) {
    int good = 0;
    lengths[i] = 1 + choose(LONGEST);
    for (int t = 0; t < LONGEST; t++) {
      words[i][t] = choose(WORDS);
      if (t < lengths[i]) good += words[i][t] < WORDS / 2 ? 1 : -1;
    }
    labels[i] = good > 0;
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_recurrent_state last;
  const ac_recurrent_layer_desc desc = {.recurrence = {.direction = AC_BOTH_DIRECTIONS},
                                        .lengths =
                                            ac_input(graph, "lengths", AC_I32, AC_SHAPE(AC_BATCH))};
  ac_tensor *x = ac_input(graph, "words", AC_I32, AC_SHAPE(AC_BATCH, LONGEST));
  x = ac_embedding_layer(graph, "words", x, WORDS, WIDTH, NULL);
  ac_gru_layer(graph, "gru", x, UNITS, &desc, &last);
  ac_tensor *ends = ac_reshape(last.hidden, AC_SHAPE(AC_BATCH, 2 * UNITS)),
            *label = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_graph_set_loss(graph,
                    ac_cross_entropy(ac_dense(graph, "out", ends, 2, NULL), label, NULL, NULL));
  const ac_feed feeds[] = {{"words", words}, {"lengths", lengths}, {"labels", labels}};
  return train_recipe("text_classifier", graph, TEXTS, UPDATES, 1, feeds, 3, fill, 0.0277383328);
}
