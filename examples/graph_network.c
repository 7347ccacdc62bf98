/* A graph network: each sample is a graph of nodes with edges between them, given as the ids of
 * both ends. A message goes along each edge, each node adds up those that arrive, and so learns
 * something about its neighbours. */
#include "recipe.h"

enum { GRAPHS = 8, NODES = 6, EDGES = 12, FEATURES = 3, WIDTH = 8, UPDATES = 200 };

static float nodes[GRAPHS][NODES][FEATURES], targets[GRAPHS][NODES][1];
static int32_t from[GRAPHS][EDGES], to[GRAPHS][EDGES];

static int32_t draw_node(void) {
  const int32_t node = (int32_t)((draw() + 1) / 2 * NODES);
  return node < NODES ? node : NODES - 1;
}

/* A node has to find the sum of what its neighbours have first, times what it has second. */
static void fill(void) {
  for (int g = 0; g < GRAPHS; g++) {
    float sum[NODES] = {0};
    for (int n = 0; n < NODES; n++)
      for (int f = 0; f < FEATURES; f++) nodes[g][n][f] = draw();
    for (int e = 0; e < EDGES; e++) {
      from[g][e] = draw_node();
      to[g][e] = draw_node();
      sum[to[g][e]] += nodes[g][from[g][e]][0];
    }
    for (int n = 0; n < NODES; n++) targets[g][n][0] = sum[n] * nodes[g][n][1];
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *x = ac_input(graph, "nodes", AC_F32, AC_SHAPE(AC_BATCH, NODES, FEATURES)),
            *first = ac_input(graph, "from", AC_I32, AC_SHAPE(AC_BATCH, EDGES)),
            *second = ac_input(graph, "to", AC_I32, AC_SHAPE(AC_BATCH, EDGES)),
            *target = ac_input(graph, "target", AC_F32, AC_SHAPE(AC_BATCH, NODES, 1));
  ac_tensor *h = ac_tanh(ac_dense(graph, "node", x, WIDTH, NULL));
  /* [B, NODES, WIDTH] -> [B, EDGES, 2 WIDTH] -> [B, EDGES, WIDTH] -> [B, NODES, WIDTH] */
  ac_tensor *ends[] = {ac_gather(h, first, 1), ac_gather(h, second, 1)};
  ac_tensor *along = ac_concat(graph, ends, 2, -1);
  ac_tensor *messages = ac_tanh(ac_dense(graph, "message", along, WIDTH, NULL));
  ac_tensor *own[] = {h, ac_scatter_add(messages, second, 1, NODES)};
  ac_tensor *next = ac_concat(graph, own, 2, -1);
  h = ac_tanh(ac_dense(graph, "update", next, WIDTH, NULL));
  ac_tensor *y = ac_dense(graph, "out", h, 1, NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(y, target, NULL));
  const ac_feed feeds[] = {{"nodes", nodes}, {"from", from}, {"to", to}, {"target", targets}};
  return train_recipe("graph_network", graph, GRAPHS, UPDATES, 0.2, feeds, 4, fill, 0.0158904926);
}
