/* A siamese network: one encoder for three points. The first two have the same kind. The
 * triplet loss moves these together and the third away. */
#include "recipe.h"

enum { TRIPLETS = 32, FEATURES = 4, WIDTH = 8, UPDATES = 40 };

static float x[TRIPLETS][3][FEATURES];

/* A kind is the sign of the first number; the others are noise. */
static void fill(void) {
  for (int i = 0; i < TRIPLETS; i++) {
    const float sign = i % 2 ? 1 : -1;
    for (int k = 0; k < 3; k++)
      for (int f = 0; f < FEATURES; f++)
        x[i][k][f] = f ? 2 * draw() : (k < 2 ? sign : -sign) * (1 + draw() / 2);
  }
}

static ac_tensor *part(ac_tensor *encoded, int k) {
  return ac_reshape(ac_slice(encoded, 1, k, 1), AC_SHAPE(AC_BATCH, WIDTH));
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 3, FEATURES));
  ac_tensor *hidden = ac_tanh(ac_dense(graph, "hidden", in, 16, NULL));
  ac_tensor *encoded = ac_dense(graph, "out", hidden, WIDTH, NULL);
  ac_graph_set_loss(graph,
                    ac_triplet_loss(part(encoded, 0), part(encoded, 1), part(encoded, 2), NULL, 2));
  const ac_feed feeds[] = {{"x", x}};
  return train_recipe("siamese", graph, TRIPLETS, UPDATES, 0.02, feeds, 1, fill, 0.0624613329);
}
