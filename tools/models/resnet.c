/* ResNet (He, Zhang, Ren, Sun: "Deep residual learning for image recognition", arXiv 1512.03385).
 * Stages of blocks, each with half the size and twice the channels of the one before:
 *
 *        x ----------------------------------------------+
 *        |                                               | (1 x 1, where the shape changes)
 *        +-- conv 3x3 -- norm -- relu -- conv 3x3 -- norm -- + -- relu -->
 *
 *   for small images    stem (3x3, C) -> n blocks of C -> n of 2C -> n of 4C (-> n of 8C)
 *   for large images    stem (7x7, stride 2, C, pool) -> blocks of C, 2C, 4C and 8C
 *
 * and then the average and the classes. From 50 layers on, a large one has blocks of 1x1, 3x3 and
 * 1x1 with four times the channels after them. The stride is at the 3x3, as in torchvision. */
#include "models/image_net.h"

#include <stdio.h>

enum { MOST_STAGES = 4, BOTTLENECK = 4 };

typedef struct stages {
  int count, blocks[MOST_STAGES];
  int expansion; /* of the channels after a block */
} stages;

static bool stages_of(const image_net *net, stages *s) {
  const int64_t depth = net->depth;
  const bool large = net->stem == IMAGE_STEM_LARGE;
  if (depth == 18) *s = (stages){4, {2, 2, 2, 2}, 1};
  else if (depth == 34) *s = (stages){4, {3, 4, 6, 3}, 1};
  else if (large && depth == 50) *s = (stages){4, {3, 4, 6, 3}, BOTTLENECK};
  else if (large && depth == 101) *s = (stages){4, {3, 4, 23, 3}, BOTTLENECK};
  else if (large && depth == 152) *s = (stages){4, {3, 8, 36, 3}, BOTTLENECK};
  else if (!large && depth >= 8 && depth <= 1202 && depth % 6 == 2) {
    int n = (int)(depth / 6);
    *s = (stages){3, {n, n, n}, 1};
  } else return false;
  return true;
}

bool resnet_depth_is_valid(const image_net *config) {
  stages ignored;
  return stages_of(config, &ignored);
}

const char *resnet_head(const image_net *config) {
  (void)config;
  return "fc";
}

static ac_tensor *basic(const image_net *net, ac_tensor *x, int64_t in, int64_t out, int stride) {
  x = image_conv(net, "conv1", x, in, out, 3, stride, 1);
  x = ac_relu(image_norm_layer(net, "bn1", x, out));
  x = image_conv(net, "conv2", x, out, out, 3, 1, 1);
  return image_norm_layer(net, "bn2", x, out);
}

static ac_tensor *bottleneck(const image_net *net, ac_tensor *x, int64_t in, int64_t out,
                             int stride) {
  const int64_t narrow = out / BOTTLENECK;
  x = image_conv(net, "conv1", x, in, narrow, 1, 1, 1);
  x = ac_relu(image_norm_layer(net, "bn1", x, narrow));
  x = image_conv(net, "conv2", x, narrow, narrow, 3, stride, 1);
  x = ac_relu(image_norm_layer(net, "bn2", x, narrow));
  x = image_conv(net, "conv3", x, narrow, out, 1, 1, 1);
  return image_norm_layer(net, "bn3", x, out);
}

static ac_tensor *block(const image_net *net, ac_tensor *x, int64_t in, int64_t out, int stride,
                        int expansion) {
  ac_tensor *shortcut = x;
  if (in != out || stride != 1) {
    shortcut = image_conv(net, "downsample.0", x, in, out, 1, stride, 1);
    shortcut = image_norm_layer(net, "downsample.1", shortcut, out);
  }
  x = expansion > 1 ? bottleneck(net, x, in, out, stride) : basic(net, x, in, out, stride);
  return ac_relu(ac_add(image_branch(net, x), shortcut));
}

static ac_tensor *stem(const image_net *net) {
  const bool large = net->stem == IMAGE_STEM_LARGE;
  ac_graph_scope(net->graph, "stem");
  ac_tensor *x = image_input(net);
  x = image_conv(net, "conv1", x, net->channels, net->base, large ? 7 : 3, large ? 2 : 1, 1);
  x = ac_relu(image_norm_layer(net, "bn1", x, net->base));
  const ac_pool2d_desc pool = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  return large ? ac_max_pool2d(x, &pool) : x;
}

void resnet_build(ac_graph *graph, const image_net *config) {
  stages s;
  char path[48];
  image_net net = *config;
  net.graph = graph;
  net.path = "";
  if (!stages_of(&net, &s)) return;

  int64_t level = 0, last = 1;
  for (int stage = 0; stage < s.count; stage++) last += s.blocks[stage];
  image_level(&net, level++, last);
  ac_tensor *x = stem(&net);

  int64_t channels = net.base;
  for (int stage = 0; stage < s.count; stage++)
    for (int i = 0; i < s.blocks[stage]; i++) {
      const int64_t out = (net.base << stage) * s.expansion;
      snprintf(path, sizeof path, "layer%d.%d", stage + 1, i);
      ac_graph_scope(graph, path);
      snprintf(path, sizeof path, "layer%d.%d.", stage + 1, i);
      net.path = path;
      image_block(&net, level - 1, last - 2);
      image_level(&net, level++, last);
      x = block(&net, x, channels, out, stage > 0 && i == 0 ? 2 : 1, s.expansion);
      channels = out;
    }

  net.path = "";
  image_head(&net, x, channels);
}
