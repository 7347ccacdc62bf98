/* A mixture of experts: a router gives each sample to the two of its experts that it finds best,
 * and weighs what they say. ac_top_k finds these, and ac_gather takes their answers; only they, and
 * the router, get a gradient. */
#include "recipe.h"

enum { SAMPLES = 32, FEATURES = 4, EXPERTS = 4, WIDTH = 6, CHOSEN = 2, UPDATES = 200 };

static float points[SAMPLES][FEATURES], targets[SAMPLES][1];

/* Another function in each quarter of the plane. */
static void fill(void) {
  for (int i = 0; i < SAMPLES; i++) {
    float *x = points[i];
    for (int f = 0; f < FEATURES; f++) x[f] = draw();
    targets[i][0] = x[0] > 0 ? (x[1] > 0 ? x[2] : -x[3]) : (x[1] > 0 ? x[2] * x[3] : 1 - x[2]);
  }
}

/* What each expert says: [B, FEATURES] -> [B, EXPERTS]. */
static ac_tensor *experts(ac_graph *graph, ac_tensor *x) {
  ac_tensor *h = ac_tanh(ac_dense(graph, "hidden", x, EXPERTS * WIDTH, NULL)),
            *weight = ac_parameter(graph, "out.weight", AC_SHAPE(EXPERTS, WIDTH), NULL),
            *bias = ac_parameter(graph, "out.bias", AC_SHAPE(EXPERTS), NULL);
  h = ac_reshape(h, AC_SHAPE(AC_BATCH, EXPERTS, WIDTH));
  return ac_add(ac_sum(ac_multiply(h, weight), AC_AXES(-1), false), bias);
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *target = ac_input(graph, "target", AC_F32, AC_SHAPE(AC_BATCH, 1)), *ids;
  ac_tensor *best = ac_top_k(ac_dense(graph, "router", x, EXPERTS, NULL), CHOSEN, &ids),
            *said = ac_gather(experts(graph, x), ids, 1); /* [B, CHOSEN] */
  ac_tensor *y = ac_sum(ac_multiply(ac_softmax(best), said), AC_AXES(-1), true);
  ac_graph_set_loss(graph, ac_mean_squared_error(y, target, NULL));
  const ac_feed feeds[] = {{"x", points}, {"target", targets}};
  return train_recipe("mixture_of_experts", graph, SAMPLES, UPDATES, 0.2, feeds, 2, fill,
                      0.18471208);
}
