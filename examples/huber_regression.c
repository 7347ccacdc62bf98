/* Regression where a few numbers are far off: the Huber loss grows only linearly with these.
 */
#include "recipe.h"

enum { POINTS = 32, FEATURES = 4, UPDATES = 200 };

static float x[POINTS][FEATURES], y[POINTS][1];

static void fill(void) {
  for (int i = 0; i < POINTS; i++) {
    for (int k = 0; k < FEATURES; k++) x[i][k] = draw();
    y[i][0] = x[i][0] - 2 * x[i][1] * x[i][2] + (i % 8 == 0 ? 10 * draw() : 0);
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *target = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_tensor *hidden = ac_tanh(ac_dense(graph, "hidden", in, 16, NULL));
  ac_tensor *prediction = ac_dense(graph, "out", hidden, 1, NULL);
  ac_graph_set_loss(graph, ac_huber_loss(prediction, target, NULL, 0.5f));
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  return train_recipe("huber_regression", graph, POINTS, UPDATES, 0.1, feeds, 2, fill, 0.312243822);
}
