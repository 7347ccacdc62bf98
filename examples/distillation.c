/* Distillation: a student learns the logits of a teacher, which say more than a class does. What
 * the teacher says is computed before, here by a formula. */
#include "recipe.h"

enum { POINTS = 32, FEATURES = 3, CLASSES = 4, UPDATES = 200 };

static float x[POINTS][FEATURES], teacher[POINTS][CLASSES];

static void fill(void) {
  for (int i = 0; i < POINTS; i++) {
    for (int k = 0; k < FEATURES; k++) x[i][k] = draw();
    for (int c = 0; c < CLASSES; c++)
      teacher[i][c] = 3 * x[i][c % FEATURES] * (c < FEATURES ? 1 : -1) + x[i][0] * x[i][1];
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *said = ac_input(graph, "teacher", AC_F32, AC_SHAPE(AC_BATCH, CLASSES));
  ac_tensor *hidden = ac_tanh(ac_dense(graph, "hidden", in, 16, NULL));
  ac_tensor *logits = ac_dense(graph, "out", hidden, CLASSES, NULL);
  ac_graph_set_loss(graph, ac_kl_divergence(logits, said, NULL, 2));
  const ac_feed feeds[] = {{"x", x}, {"teacher", teacher}};
  return train_recipe("distillation", graph, POINTS, UPDATES, 0.1, feeds, 2, fill, 0.00523947565);
}
