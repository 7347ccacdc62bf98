/* Convolutional networks for images: their configuration and the parts that several of them share.
 * Parameters are named as PyTorch's modules would name them. */
#ifndef TOOLS_MODELS_IMAGE_NET_H
#define TOOLS_MODELS_IMAGE_NET_H

#include <accrue/graph.h>

typedef enum image_norm {
  IMAGE_NORM_GROUP = 0, /* groups of 8 channels, or all in one where 8 does not divide them */
  IMAGE_NORM_LAYER,     /* over a whole sample */
  IMAGE_NORM_INSTANCE,
  IMAGE_NORM_BATCH
} image_norm;

typedef struct image_net {
  int64_t channels, height, width; /* of the images */
  int64_t classes;
  int64_t depth, base; /* layers, and channels of the first stage */
  int norm;            /* image_norm */
  double smoothing;    /* of labels */
  ac_graph *graph;     /* while building: */
  const char *path;    /* prefix of parameter names, with its dot */
} image_net;

/* The number of layers that a ResNet can have: 6 n + 2 in three stages (He et al., section 4.2), or
 * 18 and 34 in four (table 1). */
bool resnet_depth_is_valid(int64_t depth);
void resnet_build(ac_graph *graph, const image_net *config);
void mobilenet_build(ac_graph *graph, const image_net *config);

/* ---- parts ----------------------------------------------------------------------------------- */

/* Inputs "images" [B, channels, height, width] and, later, "labels" [B]. */
ac_tensor *image_input(const image_net *net);

/* A convolution without bias, padded so that stride 1 keeps the size. `groups` channels groups. */
ac_tensor *image_conv(const image_net *net, const char *name, ac_tensor *x, int64_t in, int64_t out,
                      int kernel, int stride, int64_t groups);
ac_tensor *image_norm_layer(const image_net *net, const char *name, ac_tensor *x, int64_t channels);

/* Global average, linear layer "fc", cross-entropy as the graph's loss, logits as its output. */
void image_head(const image_net *net, ac_tensor *x, int64_t channels);

#endif
