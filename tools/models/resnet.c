/* ResNet (He, Zhang, Ren, Sun: "Deep residual learning for image recognition", arXiv 1512.03385)
 * for small images: a first convolution of 3 x 3, then stages of basic blocks, each with half the
 * size and twice the channels of the one before:
 *
 *        x ----------------------------------------------+
 *        |                                               | (1 x 1, where the shape changes)
 *        +-- conv 3x3 -- norm -- relu -- conv 3x3 -- norm -- + -- relu -->
 *
 *   stem (3x3, C) -> n blocks of C -> n of 2C -> n of 4C (-> n of 8C) -> average -> classes */
#include "models/image_net.h"

#include <stdio.h>

enum { MOST_STAGES = 4 };

typedef struct stages {
  int count, blocks[MOST_STAGES];
} stages;

static bool stages_of(int64_t depth, stages *s) {
  if (depth == 18) *s = (stages){4, {2, 2, 2, 2}};
  else if (depth == 34) *s = (stages){4, {3, 4, 6, 3}};
  else if (depth >= 8 && depth <= 1202 && depth % 6 == 2) {
    int n = (int)(depth / 6);
    *s = (stages){3, {n, n, n}};
  } else return false;
  return true;
}

bool resnet_depth_is_valid(int64_t depth) {
  stages ignored;
  return stages_of(depth, &ignored);
}

static ac_tensor *block(const image_net *net, ac_tensor *x, int64_t in, int64_t out, int stride) {
  ac_tensor *shortcut = x;
  if (in != out || stride != 1) {
    shortcut = image_conv(net, "downsample.0", x, in, out, 1, stride, 1);
    shortcut = image_norm_layer(net, "downsample.1", shortcut, out);
  }
  x = image_conv(net, "conv1", x, in, out, 3, stride, 1);
  x = ac_relu(image_norm_layer(net, "bn1", x, out));
  x = image_conv(net, "conv2", x, out, out, 3, 1, 1);
  x = image_norm_layer(net, "bn2", x, out);
  return ac_relu(ac_add(x, shortcut));
}

void resnet_build(ac_graph *graph, const image_net *config) {
  stages s;
  char path[48];
  image_net net = *config;
  net.graph = graph;
  net.path = "";
  if (!stages_of(net.depth, &s)) return;

  ac_graph_scope(graph, "stem");
  ac_tensor *x = image_input(&net);
  x = image_conv(&net, "conv1", x, net.channels, net.base, 3, 1, 1);
  x = ac_relu(image_norm_layer(&net, "bn1", x, net.base));

  int64_t channels = net.base;
  net.path = path;
  for (int stage = 0; stage < s.count; stage++)
    for (int i = 0; i < s.blocks[stage]; i++) {
      int64_t out = net.base << stage;
      snprintf(path, sizeof path, "layer%d.%d", stage + 1, i);
      ac_graph_scope(graph, path);
      snprintf(path, sizeof path, "layer%d.%d.", stage + 1, i);
      x = block(&net, x, channels, out, stage > 0 && i == 0 ? 2 : 1);
      channels = out;
    }

  net.path = "";
  image_head(&net, x, channels);
}
