/* MobileNet V1 (Howard et al., arXiv 1704.04861) for small images: a first convolution of 3 x 3,
 * then depthwise separable blocks; every second one halves the size and doubles the channels, as
 * long as there is something to halve:
 *
 *   x -- depthwise 3x3 -- norm -- relu -- 1x1 -- norm -- relu -->
 *
 *   stem (3x3, C) -> [C] -> [2C, stride 2] -> [2C] -> [4C, stride 2] -> ... -> average -> classes
 */
#include "models/inverted.h"

#include <stdio.h>

const char *mobilenet_head(const image_net *config) {
  return config->variant == IMAGE_MOBILENET_V1 ? "fc" : inverted_head(config, false);
}

static ac_tensor *block(const image_net *net, ac_tensor *x, int64_t in, int64_t out, int stride) {
  x = image_conv(net, "depthwise.conv", x, in, in, 3, stride, in);
  x = ac_relu(image_norm_layer(net, "depthwise.norm", x, in));
  x = image_conv(net, "pointwise.conv", x, in, out, 1, 1, 1);
  return ac_relu(image_norm_layer(net, "pointwise.norm", x, out));
}

void mobilenet_build(ac_graph *graph, const image_net *config) {
  char path[48];
  if (config->variant != IMAGE_MOBILENET_V1) {
    inverted_mobilenet(graph, config);
    return;
  }
  image_net net = *config;
  net.graph = graph;
  net.path = "";

  image_level(&net, 0, net.depth + 1);
  ac_graph_scope(graph, "stem");
  ac_tensor *x = image_input(&net);
  x = image_conv(&net, "conv", x, net.channels, net.base, 3, 1, 1);
  x = ac_relu(image_norm_layer(&net, "norm", x, net.base));

  int64_t channels = net.base, smaller = net.height < net.width ? net.height : net.width;
  net.path = path;
  for (int64_t i = 0; i < net.depth; i++) {
    bool halve = i % 2 == 1 && smaller >= 4;
    int64_t out = halve ? 2 * channels : channels;
    snprintf(path, sizeof path, "blocks.%d", (int)i);
    ac_graph_scope(graph, path);
    snprintf(path, sizeof path, "blocks.%d.", (int)i);
    image_level(&net, i + 1, net.depth + 1);
    x = block(&net, x, channels, out, halve ? 2 : 1);
    if (halve) smaller = (smaller + 1) / 2;
    channels = out;
  }

  net.path = "";
  image_head(&net, x, channels);
}
