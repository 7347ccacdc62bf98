/* Mixup: a sample is a mixture of two, and its target the mixture of their classes; arXiv
 * 1710.09412. The targets are probabilities, so the loss is ac_soft_cross_entropy. */
#include "recipe.h"

enum { POINTS = 32, FEATURES = 2, CLASSES = 3, UPDATES = 200 };

static float x[POINTS][FEATURES], mixed[POINTS][CLASSES];

static void fill(void) {
  for (int i = 0; i < POINTS; i++) {
    const float share = (draw() + 1) / 2;
    for (int c = 0; c < CLASSES; c++) mixed[i][c] = 0;
    for (int k = 0; k < FEATURES; k++) x[i][k] = 0;
    for (int half = 0; half < 2; half++) {
      const float part = half ? 1 - share : share, a = draw(), b = draw();
      x[i][0] += part * a;
      x[i][1] += part * b;
      mixed[i][a > 0 ? 2 : b > 0] += part;
    }
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *target = ac_input(graph, "mixed", AC_F32, AC_SHAPE(AC_BATCH, CLASSES));
  ac_tensor *hidden = ac_tanh(ac_dense(graph, "hidden", in, 16, NULL));
  ac_tensor *logits = ac_dense(graph, "out", hidden, CLASSES, NULL);
  ac_graph_set_loss(graph, ac_soft_cross_entropy(logits, target, NULL));
  const ac_feed feeds[] = {{"x", x}, {"mixed", mixed}};
  return train_recipe("mixup", graph, POINTS, UPDATES, 0.2, feeds, 2, fill, 0.519835229);
}
