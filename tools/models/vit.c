/* Vision transformer (Dosovitskiy et al., arXiv 2010.11929): an image is a row of patches, each a
 * vector, after a vector for the class:
 *
 *   x -- norm -- attention -- + -- norm -- linear 4C -- gelu -- linear C -- + -->
 *   +-------------------------+ +-------------------------------------------+
 *
 * The class is read from the first vector, after a norm. Dropout, if there is any, comes after each
 * linear layer but that of queries, keys and values, and after the positions are added (appendix
 * B.1). Names are timm's or torchvision's. */
#include "models/image_net.h"

#include <stdio.h>

typedef struct vit_names {
  const char *token, *patches, *positions;
  const char *block, *first_norm, *qkv, *qkv_weight, *qkv_bias, *out, *second_norm, *up, *down;
  const char *norm, *head;
} vit_names;

static const vit_names all_names[] = {
    [IMAGE_NAMES_TIMM] = {"cls_token", "patch_embed.proj", "pos_embed", "blocks.%d", "norm1",
                          "attn.qkv", "attn.qkv.weight", "attn.qkv.bias", "attn.proj", "norm2",
                          "mlp.fc1", "mlp.fc2", "norm", "head"},
    [IMAGE_NAMES_TORCHVISION] = {"class_token", "conv_proj", "encoder.pos_embedding",
                                 "encoder.layers.encoder_layer_%d", "ln_1", "self_attention",
                                 "self_attention.in_proj_weight", "self_attention.in_proj_bias",
                                 "self_attention.out_proj", "ln_2", "mlp.0", "mlp.3", "encoder.ln",
                                 "heads.head"},
    [IMAGE_NAMES_TORCHVISION_OLD] = {"class_token", "conv_proj", "encoder.pos_embedding",
                                     "encoder.layers.encoder_layer_%d", "ln_1", "self_attention",
                                     "self_attention.in_proj_weight", "self_attention.in_proj_bias",
                                     "self_attention.out_proj", "ln_2", "mlp.linear_1",
                                     "mlp.linear_2", "encoder.ln", "heads.head"},
};

static const vit_names *names_of(const image_net *net) {
  const bool torchvision =
      net->names == IMAGE_NAMES_TORCHVISION || net->names == IMAGE_NAMES_TORCHVISION_OLD;
  return &all_names[torchvision ? net->names : IMAGE_NAMES_TIMM];
}

const char *vit_head(const image_net *config) {
  return names_of(config)->head;
}

const char *vit_positions(const image_net *config) {
  return names_of(config)->positions;
}

/* The patches as vectors [B, T, C], with the class before them and positions added. */
static ac_tensor *embed(const image_net *net, const vit_names *names) {
  const int64_t width = net->base, patch = net->patch;
  const int64_t count = (net->height / patch) * (net->width / patch), one[] = {1, 1, width},
                positions[] = {1, count + 1, width}, repeated[] = {AC_BATCH, 1, width};
  const ac_parameter_desc drawn = {.init = {AC_INIT_TRUNCATED_NORMAL, .deviation = 0.02f},
                                   .no_weight_decay = true};
  ac_graph_scope(net->graph, "embedding");
  ac_tensor *token = image_parameter(net, names->token, "", 3, one, drawn);
  ac_tensor *table = image_parameter(net, names->positions, "", 3, positions, drawn);
  ac_tensor *x = image_input(net);
  x = image_convolve(
      net, names->patches, x, net->channels, width,
      &(image_conv_desc){
          .kernel = (int)patch, .stride = (int)patch, .bias = true, .unpadded = true});
  x = ac_reshape(x, AC_SHAPE(AC_BATCH, width, count));
  x = ac_transpose(x, 1, 2);
  ac_tensor *parts[] = {ac_expand(token, 3, repeated), x};
  return image_dropout(net, ac_add(ac_concat(net->graph, parts, 2, 1), table));
}

static ac_tensor *attend(const image_net *net, const vit_names *names, ac_tensor *x,
                         int64_t positions) {
  const int64_t width = net->base, heads = net->heads, three = 3 * width, shape[] = {three, width};
  const ac_init drawn = {AC_INIT_TRUNCATED_NORMAL, .deviation = 0.02f};
  ac_tensor *weight =
      image_parameter(net, names->qkv_weight, "", 2, shape, (ac_parameter_desc){.init = drawn});
  ac_tensor *bias = image_parameter(net, names->qkv_bias, "", 1, &three, (ac_parameter_desc){0});
  ac_tensor *all = ac_linear(x, weight, bias, AC_OUT_IN);
  all = ac_reshape(all, AC_SHAPE(AC_BATCH, positions, 3 * heads, width / heads));
  ac_tensor *y = ac_attention(all, NULL, NULL, &(ac_attention_desc){.heads = (int)heads});
  y = ac_reshape(y, AC_SHAPE(AC_BATCH, positions, width));
  return image_dropout(net, image_dense(net, names->out, y, width, width, IMAGE_START_TRUNCATED));
}

static ac_tensor *block(const image_net *net, const vit_names *names, ac_tensor *x,
                        int64_t positions) {
  const int64_t width = net->base, hidden = 4 * width;
  ac_tensor *y = image_layer_norm(net, names->first_norm, x, width);
  x = ac_add(x, image_branch(net, attend(net, names, y, positions)));
  y = image_layer_norm(net, names->second_norm, x, width);
  y = image_dense(net, names->up, y, width, hidden, IMAGE_START_TRUNCATED);
  y = image_dropout(net, ac_gelu(y, AC_GELU_ERF));
  y = image_dense(net, names->down, y, hidden, width, IMAGE_START_TRUNCATED);
  return ac_add(x, image_branch(net, image_dropout(net, y)));
}

void vit_build(ac_graph *graph, const image_net *config) {
  char path[64];
  image_net net = *config;
  net.graph = graph;
  net.path = "";
  if (!net.heads) net.heads = net.base / 64;
  const vit_names *names = names_of(&net);
  const int64_t positions = 1 + (net.height / net.patch) * (net.width / net.patch),
                last = net.depth + 1;
  image_level(&net, 0, last);
  ac_tensor *x = embed(&net, names);
  for (int64_t i = 0; i < net.depth; i++) {
    snprintf(path, sizeof path - 1, names->block, (int)i);
    ac_graph_scope(graph, path);
    size_t length = 0;
    while (path[length]) length++;
    path[length] = '.', path[length + 1] = 0;
    net.path = path;
    image_level(&net, i + 1, last);
    image_block(&net, i, net.depth - 1);
    x = block(&net, names, x, positions);
  }
  net.path = "";
  image_level(&net, last, last);
  ac_graph_scope(graph, "head");
  x = ac_reshape(ac_slice(x, 1, 0, 1), AC_SHAPE(AC_BATCH, net.base));
  x = image_layer_norm(&net, names->norm, x, net.base);
  net.dropout = 0;
  image_classify(&net, names->head, x, net.base);
}
