/* A variational autoencoder; arXiv 1312.6114. The noise is an input. What the code costs is a loss
 * of its own: the divergence from a normal distribution. */
#include "recipe.h"

enum { POINTS = 32, FEATURES = 6, CODE = 2, UPDATES = 200 };

static float x[POINTS][FEATURES], noise[POINTS][CODE];

static void fill(void) {
  for (int i = 0; i < POINTS; i++) {
    const float a = draw(), b = draw();
    for (int k = 0; k < FEATURES; k++) x[i][k] = (k % 2 ? a : b) + draw() / 8;
    for (int k = 0; k < CODE; k++) noise[i][k] = 1.5f * draw();
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *drawn = ac_input(graph, "noise", AC_F32, AC_SHAPE(AC_BATCH, CODE));
  ac_tensor *hidden = ac_tanh(ac_dense(graph, "encoder", in, 16, NULL));
  ac_tensor *code[] = {ac_dense(graph, "mean", hidden, CODE, NULL),
                       ac_dense(graph, "log_variance", hidden, CODE, NULL), drawn};
  ac_tensor *divergence = ac_formula(graph, "(square(a) + exp(b) - b - 1) / 2", code, 2);
  ac_graph_add_loss(graph, "divergence", ac_loss(ac_sum(divergence, AC_AXES(-1), false), NULL),
                    0.05);
  ac_tensor *sample = ac_formula(graph, "a + exp(b / 2) * c", code, 3);
  ac_tensor *out =
      ac_dense(graph, "out", ac_tanh(ac_dense(graph, "decoder", sample, 16, NULL)), FEATURES, NULL);
  ac_graph_add_loss(graph, "error", ac_mean_squared_error(out, in, NULL), 1);
  const ac_feed feeds[] = {{"x", x}, {"noise", noise}};
  return train_recipe("vae", graph, POINTS, UPDATES, 0.1, feeds, 2, fill, 0.154270195);
}
