/* A perceptron that classifies images. Its parameters are named as a PyTorch Sequential would name
 * them. */
#ifndef TOOLS_MODELS_MLP_H
#define TOOLS_MODELS_MLP_H

#include <accrue/graph.h>

enum { MLP_MOST_HIDDEN = 32 };

typedef struct mlp_config {
  int64_t inputs, classes;
  int64_t widths[MLP_MOST_HIDDEN]; /* of the hidden layers */
  int depth;                       /* number of hidden layers; 0: a linear classifier */
  double dropout;                  /* dropout before each layer */
} mlp_config;

/* Inputs "images" [B, inputs] and "labels" [B], cross-entropy as the graph's loss, "logits"
 * [B, classes] as its output. */
void mlp_build(ac_graph *graph, const mlp_config *config);

#endif
