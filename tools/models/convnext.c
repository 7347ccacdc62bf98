/* ConvNeXt (Liu et al., arXiv 2201.03545): four stages of blocks
 *
 *   x -- depthwise 7x7 -- norm -- linear 4C -- gelu -- linear C -- gamma -- + -->
 *   +-----------------------------------------------------------------------+
 *
 * with the channels as the last axis from the norm on. Before the first stage the image is cut into
 * patches of 4 x 4, before the others into patches of 2 x 2, with twice the channels. A network of
 * depth N has 3, 3, N and 3 blocks, or N in all stages if that is less. Names are timm's or
 * torchvision's. */
#include "models/image_net.h"

#include <stdio.h>

enum { STAGES = 4, BLOCKS = 3 };

typedef struct convnext_names {
  const char *stem, *stem_norm;
  int first_down, down_step, first_stage, stage_step; /* numbers in the names of stages */
  const char *down_norm, *down, *block;
  const char *depthwise, *norm, *up, *out, *gamma;
  const char *head_norm, *head;
} convnext_names;

static const convnext_names all_names[] = {
    [IMAGE_NAMES_TIMM] = {"stem.0", "stem.1", 1, 1, 0, 1, "stages.%d.downsample.0",
                          "stages.%d.downsample.1", "stages.%d.blocks.%d", "conv_dw", "norm",
                          "mlp.fc1", "mlp.fc2", "gamma", "head.norm", "head.fc"},
    [IMAGE_NAMES_TORCHVISION] = {"features.0.0", "features.0.1", 2, 2, 1, 2, "features.%d.0",
                                 "features.%d.1", "features.%d.%d", "block.0", "block.2", "block.3",
                                 "block.5", "layer_scale", "classifier.0", "classifier.2"},
};

static const convnext_names *names_of(const image_net *net) {
  return &all_names[net->names == IMAGE_NAMES_TIMM ? IMAGE_NAMES_TIMM : IMAGE_NAMES_TORCHVISION];
}

const char *convnext_head(const image_net *config) {
  return names_of(config)->head;
}

static ac_tensor *channels_last(ac_tensor *x) {
  return ac_permute(x, AC_AXES(0, 2, 3, 1));
}

static ac_tensor *channels_first(ac_tensor *x) {
  return ac_permute(x, AC_AXES(0, 3, 1, 2));
}

static ac_tensor *patches(const image_net *net, const char *name, ac_tensor *x, int64_t in,
                          int64_t out, int size) {
  const image_conv_desc desc = {.kernel = size, .stride = size, .bias = true, .unpadded = true};
  return image_convolve(net, name, x, in, out, &desc);
}

static ac_tensor *block(const image_net *net, const convnext_names *names, ac_tensor *x,
                        int64_t channels) {
  const bool timm = names == &all_names[IMAGE_NAMES_TIMM];
  const int64_t shape[] = {channels, 1, 1};
  const ac_parameter_desc small = {.init = {.kind = AC_INIT_CONSTANT, .value = 1e-6f},
                                   .no_weight_decay = true};
  ac_tensor *y = image_convolve(
      net, names->depthwise, x, channels, channels,
      &(image_conv_desc){.kernel = 7, .stride = 1, .groups = channels, .bias = true});
  y = image_layer_norm(net, names->norm, channels_last(y), channels);
  y = image_dense(net, names->up, y, channels, 4 * channels, IMAGE_START_TRUNCATED);
  y = image_dense(net, names->out, ac_gelu(y, AC_GELU_ERF), 4 * channels, channels,
                  IMAGE_START_TRUNCATED);
  ac_tensor *gamma = image_parameter(net, names->gamma, "", timm ? 1 : 3, shape, small);
  y = ac_multiply(y, ac_reshape(gamma, AC_SHAPE(channels)));
  return ac_add(x, image_branch(net, channels_first(y)));
}

void convnext_build(ac_graph *graph, const image_net *config) {
  char path[80], name[64];
  image_net net = *config;
  net.graph = graph;
  net.path = "";
  const convnext_names *names = names_of(&net);
  const int64_t usual = net.depth < BLOCKS ? net.depth : BLOCKS, last = 3 * usual + net.depth + 1;
  int64_t channels = net.base, level = 0, number = 0;

  image_level(&net, level++, last);
  ac_graph_scope(graph, "stem");
  ac_tensor *x = patches(&net, names->stem, image_input(&net), net.channels, channels, 4);
  x = channels_first(image_layer_norm(&net, names->stem_norm, channels_last(x), channels));
  for (int stage = 0; stage < STAGES; stage++) {
    image_level(&net, level, last);
    net.path = "";
    if (stage > 0) {
      const int at = names->first_down + (stage - 1) * names->down_step;
      snprintf(path, sizeof path, names->down_norm, at);
      snprintf(name, sizeof name, names->down, at);
      ac_graph_scope(graph, name);
      x = channels_first(image_layer_norm(&net, path, channels_last(x), channels));
      x = patches(&net, name, x, channels, 2 * channels, 2);
      channels *= 2;
    }
    for (int i = 0; i < (int)(stage == 2 ? net.depth : usual); i++) {
      image_level(&net, level++, last);
      image_block(&net, number++, last - 2);
      snprintf(name, sizeof name, names->block, names->first_stage + stage * names->stage_step, i);
      ac_graph_scope(graph, name);
      snprintf(path, sizeof path, "%s.", name);
      net.path = path;
      x = block(&net, names, x, channels);
    }
  }
  net.path = "";
  image_level(&net, last, last);
  ac_graph_scope(graph, "head");
  x = image_layer_norm(&net, names->head_norm, ac_global_average_pool(x), channels);
  image_classify(&net, names->head, x, channels);
}
