#include "models/mlp.h"
#include "models/share.h"

#include <math.h>
#include <stdio.h>

/* y = x W^T + b, with W [out, in]. */
static ac_tensor *linear(ac_graph *graph, int layer, ac_tensor *x, int64_t in, int64_t out,
                         double gain, double dropout) {
  char name[32];
  if (dropout > 0) x = ac_dropout(x, share_of(dropout));
  ac_parameter_desc desc = {.init = {.kind = AC_INIT_KAIMING_NORMAL, .gain = (float)gain}};
  snprintf(name, sizeof name, "layers.%d.weight", layer);
  ac_tensor *weight = ac_parameter(graph, name, 2, (int64_t[]){out, in}, &desc);
  snprintf(name, sizeof name, "layers.%d.bias", layer);
  ac_tensor *bias = ac_parameter(graph, name, 1, &out, NULL);
  return ac_linear(x, weight, bias, AC_OUT_IN);
}

void mlp_build(ac_graph *graph, const mlp_config *config) {
  int64_t width = config->inputs;
  ac_tensor *x = ac_input(graph, "images", AC_F32, 2, (int64_t[]){AC_BATCH, width});
  ac_tensor *labels = ac_input(graph, "labels", AC_I32, 1, (int64_t[]){AC_BATCH});
  for (int i = 0; i < config->depth; i++) {
    char scope[32];
    snprintf(scope, sizeof scope, "layers.%d", i);
    ac_graph_scope(graph, scope);
    x = ac_relu(linear(graph, i, x, width, config->widths[i], sqrt(2), config->dropout));
    width = config->widths[i];
  }
  ac_graph_scope(graph, "head");
  ac_tensor *logits = linear(graph, config->depth, x, width, config->classes, 1, config->dropout);
  ac_graph_set_output(graph, "logits", logits);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, labels, NULL, NULL));
}
