/** @file
 * Layers: small functions that make parameters and the op that uses them, with PyTorch's names and
 * initial values.
 *
 *     x = ac_relu(ac_dense(graph, "fc1", x, 256, NULL));    parameters fc1.weight and fc1.bias
 *
 * Sizes of inputs are read from x. Ops of a layer have its name as their scope (ac_graph_scope). A
 * failure stays with the graph, as with every builder. A description may be NULL.
 *
 * In a description an ac_init of zeros means PyTorch's initial values, given below. */
#ifndef ACCRUE_LAYERS_H
#define ACCRUE_LAYERS_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Settings of ac_dense. */
typedef struct ac_dense_desc {
  bool no_bias;     /**< There is no NAME.bias. */
  bool frozen;      /**< Its parameters are not trained. */
  ac_layout layout; /**< How NAME.weight is stored. */
  ac_init weight;   /**< Zeros: uniform in +-1 / sqrt(in). */
  ac_init bias;     /**< Zeros: uniform in +-1 / sqrt(in). */
} ac_dense_desc;

/** A dense (fully connected) layer: x [..., in] -> [..., out], by ac_linear, with the parameters
 * NAME.weight [out, in] and NAME.bias [out]. As torch.nn.Linear. */
AC_API ac_tensor *ac_dense(ac_graph *graph, const char *name, ac_tensor *x, int64_t out,
                           const ac_dense_desc *desc);

/** Settings of ac_conv2d_layer. */
typedef struct ac_conv2d_layer_desc {
  ac_conv2d_desc convolution; /**< Stride, padding, dilation, groups. */
  bool no_bias;               /**< There is no NAME.bias. */
  bool frozen;                /**< Its parameters are not trained. */
  ac_init weight; /**< Zeros: uniform in +-1 / sqrt(fan_in), fan_in = in / groups * k^2. */
  ac_init bias;   /**< Zeros: as the weight. */
} ac_conv2d_layer_desc;

/** A convolution of x [B, in, H, W] with square kernels, by ac_conv2d, with the parameters
 * NAME.weight [out, in / groups, kernel, kernel] and NAME.bias [out]. As torch.nn.Conv2d. */
AC_API ac_tensor *ac_conv2d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out,
                                  int kernel, const ac_conv2d_layer_desc *desc);

/** Settings of ac_conv1d_layer. */
typedef struct ac_conv1d_layer_desc {
  ac_conv1d_desc convolution; /**< Stride, padding, dilation, groups. */
  bool no_bias;               /**< There is no NAME.bias. */
  bool frozen;                /**< Its parameters are not trained. */
  ac_init weight; /**< Zeros: uniform in +-1 / sqrt(fan_in), fan_in = in / groups * k. */
  ac_init bias;   /**< Zeros: as the weight. */
} ac_conv1d_layer_desc;

/** A convolution of lines, x [B, in, L], by ac_conv1d, with the parameters NAME.weight
 * [out, in / groups, kernel] and NAME.bias [out]. As torch.nn.Conv1d. */
AC_API ac_tensor *ac_conv1d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out,
                                  int kernel, const ac_conv1d_layer_desc *desc);

/** Settings of ac_conv3d_layer. */
typedef struct ac_conv3d_layer_desc {
  ac_conv3d_desc convolution; /**< Stride, padding, dilation, groups. */
  bool no_bias;               /**< There is no NAME.bias. */
  bool frozen;                /**< Its parameters are not trained. */
  ac_init weight; /**< Zeros: uniform in +-1 / sqrt(fan_in), fan_in = in / groups * k^3. */
  ac_init bias;   /**< Zeros: as the weight. */
} ac_conv3d_layer_desc;

/** A convolution of volumes, x [B, in, D, H, W], with cubic kernels, by ac_conv3d, with the
 * parameters NAME.weight [out, in / groups, kernel, kernel, kernel] and NAME.bias [out]. As
 * torch.nn.Conv3d. */
AC_API ac_tensor *ac_conv3d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out,
                                  int kernel, const ac_conv3d_layer_desc *desc);

/** Settings of ac_conv_transpose2d_layer. */
typedef struct ac_conv_transpose2d_layer_desc {
  ac_conv_transpose2d_desc convolution; /**< Stride, padding, dilation, groups, output padding. */
  bool no_bias;                         /**< There is no NAME.bias. */
  bool frozen;                          /**< Its parameters are not trained. */
  ac_init weight; /**< Zeros: uniform in +-1 / sqrt(fan_in), fan_in = out / groups * k^2. */
  ac_init bias;   /**< Zeros: as the weight. */
} ac_conv_transpose2d_layer_desc;

/** A transposed convolution of x [B, in, H, W] with square kernels, by ac_conv_transpose2d, with
 * the parameters NAME.weight [in, out / groups, kernel, kernel] and NAME.bias [out]. As
 * torch.nn.ConvTranspose2d. */
AC_API ac_tensor *ac_conv_transpose2d_layer(ac_graph *graph, const char *name, ac_tensor *x,
                                            int64_t out, int kernel,
                                            const ac_conv_transpose2d_layer_desc *desc);

/** Settings of ac_conv_transpose1d_layer. */
typedef struct ac_conv_transpose1d_layer_desc {
  ac_conv_transpose1d_desc convolution; /**< Stride, padding, dilation, groups, output padding. */
  bool no_bias;                         /**< There is no NAME.bias. */
  bool frozen;                          /**< Its parameters are not trained. */
  ac_init weight; /**< Zeros: uniform in +-1 / sqrt(fan_in), fan_in = out / groups * k. */
  ac_init bias;   /**< Zeros: as the weight. */
} ac_conv_transpose1d_layer_desc;

/** A transposed convolution of lines, x [B, in, L], by ac_conv_transpose1d, with the parameters
 * NAME.weight [in, out / groups, kernel] and NAME.bias [out]. As torch.nn.ConvTranspose1d. */
AC_API ac_tensor *ac_conv_transpose1d_layer(ac_graph *graph, const char *name, ac_tensor *x,
                                            int64_t out, int kernel,
                                            const ac_conv_transpose1d_layer_desc *desc);

/** Which norm ac_norm_layer is. */
typedef enum ac_norm_kind {
  AC_NORM_LAYER = 0, /**< ac_layer_norm: over the last dimension. */
  AC_NORM_RMS,       /**< ac_rms_norm: over the last dimension, without NAME.bias. */
  AC_NORM_GROUP,     /**< ac_group_norm: over groups of channels, [B, C, ...]. */
  AC_NORM_INSTANCE,  /**< ac_instance_norm: over each channel, [B, C, ...]. */
  AC_NORM_BATCH      /**< ac_batch_norm: over samples and positions, [B, C, ...]. */
} ac_norm_kind;

/** Settings of ac_norm_layer. */
typedef struct ac_norm_layer_desc {
  ac_norm_kind kind; /**< Which norm it is. */
  int groups;        /**< Of AC_NORM_GROUP. 0: the largest divisor of C up to 32. Else 0. */
  float epsilon;     /**< 0: 1e-5. */
  float momentum;    /**< Of AC_NORM_BATCH. 0: 0.1. Else 0. */
  bool no_bias;      /**< There is no NAME.bias. Not with AC_NORM_BATCH. */
  bool frozen;       /**< Its parameters are not trained. */
  /** Of AC_NORM_BATCH: ac_batch_norm_desc.frozen_statistics. Else false. */
  bool frozen_statistics;
} ac_norm_layer_desc;

/** A norm with the parameters NAME.weight, from ones, and NAME.bias, from zeros, [C] each. With
 * AC_NORM_BATCH also NAME.running_mean and NAME.running_var [C], which are not trained. As
 * torch.nn.LayerNorm, RMSNorm, GroupNorm, InstanceNorm2d with affine=True, and BatchNorm2d. */
AC_API ac_tensor *ac_norm_layer(ac_graph *graph, const char *name, ac_tensor *x,
                                const ac_norm_layer_desc *desc);

/** Settings of ac_embedding_layer. */
typedef struct ac_embedding_layer_desc {
  bool frozen;    /**< Its table is not trained. */
  ac_init weight; /**< Zeros: normal with mean 0 and deviation 1. */
} ac_embedding_layer_desc;

/** Rows of a table: ids i32 [...] in [0, count) -> [..., width], by ac_embedding, with the
 * parameter NAME.weight [count, width]. As torch.nn.Embedding. */
AC_API ac_tensor *ac_embedding_layer(ac_graph *graph, const char *name, ac_tensor *ids,
                                     int64_t count, int64_t width,
                                     const ac_embedding_layer_desc *desc);

/** A residual connection: branch + x. If the shapes differ, x is projected first, by the parameter
 * NAME.weight without bias: images [B, C, H, W] by a convolution of 1 x 1, with the stride that
 * gives the branch's height and width; everything else by ac_dense. */
AC_API ac_tensor *ac_residual(ac_graph *graph, const char *name, ac_tensor *x, ac_tensor *branch);

#ifdef __cplusplus
}
#endif
#endif
