/* Networks for images: their configuration and the parts that several of them share. Parameters
 * are named as torchvision, timm or the file that they come from names them. */
#ifndef TOOLS_MODELS_IMAGE_NET_H
#define TOOLS_MODELS_IMAGE_NET_H

#include <accrue/graph.h>
#include <accrue/metric.h>

typedef enum image_norm {
  IMAGE_NORM_GROUP = 0, /* groups of 8 channels, or all in one where 8 does not divide them */
  IMAGE_NORM_LAYER,     /* over a whole sample */
  IMAGE_NORM_INSTANCE,
  IMAGE_NORM_BATCH
} image_norm;

/* How a network begins. */
typedef enum image_stem {
  IMAGE_STEM_SMALL = 0, /* a convolution of 3 x 3, for images such as CIFAR's */
  IMAGE_STEM_LARGE      /* one of 7 x 7 with stride 2 and a pool, as published for ImageNet */
} image_stem;

/* Which shape of a family. */
typedef enum image_variant {
  IMAGE_MOBILENET_V1 = 0,
  IMAGE_MOBILENET_V2,
  IMAGE_MOBILENET_V3_SMALL,
  IMAGE_MOBILENET_V3_LARGE
} image_variant;
typedef enum efficientnet_variant {
  IMAGE_EFFICIENTNET_LITE0 = 0,
  IMAGE_EFFICIENTNET_B0
} efficientnet_variant;

/* The program that named the parameters. */
typedef enum image_names {
  IMAGE_NAMES_TORCHVISION = 0,
  IMAGE_NAMES_TIMM,
  IMAGE_NAMES_TENSORFLOW, /* the packages efficientnet-pytorch and efficientnet-lite-pytorch, with
                             TensorFlow's padding and epsilon */
  IMAGE_NAMES_TORCHVISION_OLD, /* torchvision before 0.13, as in its published files of ViT */
  IMAGE_NAMES_TIMM_TENSORFLOW  /* timm's names, with TensorFlow's padding and epsilon: tf_... */
} image_names;

/* What is made of pixels, which are in [0, 1], before the first layer: (pixel - mean) / deviation.
 */
typedef enum image_pixels {
  IMAGE_PIXELS_PLAIN = 0, /* nothing */
  IMAGE_PIXELS_IMAGENET,  /* by the mean and deviation of each colour in ImageNet */
  IMAGE_PIXELS_HALF,      /* mean and deviation 0.5 */
  IMAGE_PIXELS_LITE       /* (256 values - 127) / 128 */
} image_pixels;

/* What a network that segments images minimises. */
typedef enum image_loss {
  IMAGE_LOSS_CROSS_ENTROPY = 0, /* of pixels */
  IMAGE_LOSS_DICE,              /* of images */
  IMAGE_LOSS_BOTH
} image_loss;
enum {
  UNET_MOST_DEPTH = 8,
  IMAGE_MOST_IOU = AC_MAX_METRICS - 1 /* classes, so that each has a metric of its own */
};

typedef struct image_net {
  int64_t channels, height, width; /* of the images */
  bool bytes;                      /* images are u8; the device makes floats in [0, 1] of them */
  int64_t classes;
  int64_t depth, base; /* layers or blocks, and channels of the first stage */
  int64_t heads;       /* of vit; 0: base / 64 */
  int64_t patch;       /* of vit: pixels of a side */
  int norm;            /* image_norm */
  int stem;            /* image_stem */
  int variant;         /* of mobilenet and efficientnet */
  int names;           /* image_names */
  int pixels;          /* image_pixels */
  bool frozen_norm;    /* batch norms use their running statistics, which stay as they are */
  int loss;            /* image_loss, of unet */
  double layer_decay;  /* rate of a layer as a part of that of the next one; 0: 1 */
  double smoothing;    /* of labels */
  bool mixed;          /* the loss is of "targets", which are shares of classes */
  bool weighted;       /* samples have "weights" */
  double dropout;      /* before the head; of vit after its layers */
  double drop_path;    /* of the last residual branch; the branches before it have less */
  ac_graph *graph;     /* while building: */
  const char *path;    /* prefix of parameter names, with its dot */
  double rate;         /* of the layer's parameters, as a part of the schedule's; 0: 1 */
  double dropped;      /* what image_branch drops */
} image_net;

/* The number of layers that a ResNet can have. With the small stem it is 6 n + 2 in three stages
 * (He et al., section 4.2), or 18 and 34 in four (table 1). With the large one it is 18, 34, 50,
 * 101 or 152 in four. */
bool resnet_depth_is_valid(const image_net *config);
void resnet_build(ac_graph *graph, const image_net *config);
void mobilenet_build(ac_graph *graph, const image_net *config);
void efficientnet_build(ac_graph *graph, const image_net *config);
void vit_build(ac_graph *graph, const image_net *config);
void convnext_build(ac_graph *graph, const image_net *config);
void unet_build(ac_graph *graph, const image_net *config);

/* The layer before the loss, without ".weight": "fc". */
const char *resnet_head(const image_net *config);
const char *mobilenet_head(const image_net *config);
const char *efficientnet_head(const image_net *config);
const char *vit_head(const image_net *config);
/* The table of positions [1, 1 + patches, base]. */
const char *vit_positions(const image_net *config);
const char *convnext_head(const image_net *config);
const char *unet_head(const image_net *config);

/* ---- parts ----------------------------------------------------------------------------------- */

/* The parameter PATH NAME.LEAF, with the rate of its layer. */
ac_tensor *image_parameter(const image_net *net, const char *name, const char *leaf, int rank,
                           const int64_t *shape, ac_parameter_desc desc);

/* Sets the rate of the parameters that follow: `level` counts from 0, the first layer, to `last`,
 * the head. */
void image_level(image_net *net, int64_t level, int64_t last);

/* Sets what the branches of a block drop: the first block nothing, number `last` drop_path, and
 * those between in proportion (Huang et al., arXiv 1603.09382). */
void image_block(image_net *net, int64_t number, int64_t last);
/* The end of a residual branch: while training it is left out of some samples. */
ac_tensor *image_branch(const image_net *net, ac_tensor *x);
ac_tensor *image_dropout(const image_net *net, ac_tensor *x);

/* Inputs "images" [B, channels, height, width], f32 in [0, 1] or u8, and, later, "labels" [B]. */
ac_tensor *image_input(const image_net *net);

/* What a convolution is like. Zeros: padded so that stride 1 keeps the size, without bias. */
typedef struct image_conv_desc {
  int kernel, stride;
  int64_t groups;
  bool bias;
  bool unpadded;
  bool tensorflow; /* padded so that the result has size / stride, rounded up, pixels */
} image_conv_desc;
ac_tensor *image_convolve(const image_net *net, const char *name, ac_tensor *x, int64_t in,
                          int64_t out, const image_conv_desc *desc);
/* A convolution without bias, padded so that stride 1 keeps the size. `groups` channels groups. */
ac_tensor *image_conv(const image_net *net, const char *name, ac_tensor *x, int64_t in, int64_t out,
                      int kernel, int stride, int64_t groups);

ac_tensor *image_norm_layer(const image_net *net, const char *name, ac_tensor *x, int64_t channels);
/* A batch norm, in any network. epsilon and momentum 0: 1e-5 and 0.1. */
ac_tensor *image_batch_norm(const image_net *net, const char *name, ac_tensor *x, int64_t channels,
                            float epsilon, float momentum);
/* A layer norm over the last axis, with epsilon 1e-6. */
ac_tensor *image_layer_norm(const image_net *net, const char *name, ac_tensor *x, int64_t channels);

/* How image_dense begins. */
typedef enum image_start { IMAGE_START_TRUNCATED, IMAGE_START_KAIMING } image_start;
/* x [..., in] -> [..., out], with bias. */
ac_tensor *image_dense(const image_net *net, const char *name, ac_tensor *x, int64_t in,
                       int64_t out, image_start start);

/* Dropout and a linear layer of features [B, channels], cross-entropy as the graph's loss, logits
 * as its output. `name` is that of the whole parameter, without the path. Inputs "targets" [B,
 * classes] or "weights" [B], if samples are mixed or weighted. */
void image_classify(const image_net *net, const char *name, ac_tensor *features, int64_t channels);
/* The same of the global average, by the layer "fc". */
void image_head(const image_net *net, ac_tensor *x, int64_t channels);

#endif
