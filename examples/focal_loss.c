/* Two classes, and one is rare: the focal loss lets the many easy samples count little. */
#include "recipe.h"

enum { POINTS = 64, FEATURES = 2, UPDATES = 300 };

static float x[POINTS][FEATURES], rare[POINTS][1];

static void fill(void) {
  for (int i = 0; i < POINTS; i++) {
    for (int k = 0; k < FEATURES; k++) x[i][k] = draw();
    rare[i][0] = x[i][0] + x[i][1] > 1.25f;
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *target = ac_input(graph, "rare", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_tensor *hidden = ac_tanh(ac_dense(graph, "hidden", in, 16, NULL));
  ac_tensor *logit = ac_dense(graph, "out", hidden, 1, NULL);
  ac_graph_set_loss(graph, ac_focal_loss(logit, target, NULL, 0.25f, 2));
  const ac_feed feeds[] = {{"x", x}, {"rare", rare}};
  return train_recipe("focal_loss", graph, POINTS, UPDATES, 1, feeds, 2, fill, 0.00651031877);
}
