#include "models/image_net.h"
#include "models/share.h"

#include <accrue/metric.h>
#include <accrue/pointwise.h>

#include <float.h>
#include <stdio.h>

ac_tensor *image_parameter(const image_net *net, const char *name, const char *leaf, int rank,
                           const int64_t *shape, ac_parameter_desc desc) {
  char full[128];
  snprintf(full, sizeof full, "%s%s%s%s", net->path, name, *leaf ? "." : "", leaf);
  desc.rate = net->rate;
  return ac_parameter(net->graph, full, rank, shape, &desc);
}

void image_level(image_net *net, int64_t level, int64_t last) {
  net->rate = 1;
  if (net->layer_decay > 0)
    for (; level < last; level++) net->rate *= net->layer_decay;
  if (!(net->rate > 0)) net->rate = DBL_MIN; /* 0 would be the whole rate */
}

/* ---- what is dropped ------------------------------------------------------------------------- */

void image_block(image_net *net, int64_t number, int64_t last) {
  net->dropped = last > 0 ? net->drop_path * (double)number / (double)last : net->drop_path;
}

ac_tensor *image_branch(const image_net *net, ac_tensor *x) {
  return net->dropped > 0 ? ac_drop_path(x, share_of(net->dropped)) : x;
}

ac_tensor *image_dropout(const image_net *net, ac_tensor *x) {
  return net->dropout > 0 ? ac_dropout(x, share_of(net->dropout)) : x;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* (x - mean) / deviation, of each colour; images of one channel are taken as the mean colour. Bytes
 * are divided by 255 first, as what reads pictures as floats does. */
static ac_tensor *normalised(const image_net *net, ac_tensor *x) {
  static const float means[][3] = {
      [IMAGE_PIXELS_IMAGENET] = {0.485f, 0.456f, 0.406f},
      [IMAGE_PIXELS_HALF] = {0.5f, 0.5f, 0.5f},
      [IMAGE_PIXELS_LITE] = {127 / 255.0f, 127 / 255.0f, 127 / 255.0f}};
  static const float deviations[][3] = {
      [IMAGE_PIXELS_IMAGENET] = {0.229f, 0.224f, 0.225f},
      [IMAGE_PIXELS_HALF] = {0.5f, 0.5f, 0.5f},
      [IMAGE_PIXELS_LITE] = {128 / 255.0f, 128 / 255.0f, 128 / 255.0f}};
  const float *mean = means[net->pixels], *deviation = deviations[net->pixels];
  const int64_t count = net->channels == 3 ? 3 : 1, shape[] = {count, 1, 1};
  float subtracted[3], factors[3];
  for (int i = 0; i < 3; i++) subtracted[i] = mean[i], factors[i] = 1 / deviation[i];
  if (count == 1) {
    subtracted[0] = (mean[0] + mean[1] + mean[2]) / 3;
    factors[0] = 3 / (deviation[0] + deviation[1] + deviation[2]);
  }
  ac_tensor *from = ac_constant(net->graph, "pixel_mean", AC_F32, 3, shape, subtracted);
  ac_tensor *by = ac_constant(net->graph, "pixel_factor", AC_F32, 3, shape, factors);
  ac_tensor *parts[] = {x, from, by};
  return net->bytes ? ac_formula(net->graph, "(a / 255 - b) * c", parts, 3)
                    : ac_multiply(ac_subtract(x, from), by);
}

ac_tensor *image_input(const image_net *net) {
  const int64_t shape[] = {AC_BATCH, net->channels, net->height, net->width};
  ac_tensor *images = ac_input(net->graph, "images", net->bytes ? AC_U8 : AC_F32, 4, shape);
  if (net->pixels != IMAGE_PIXELS_PLAIN) return normalised(net, images);
  return net->bytes ? ac_formula(net->graph, "a / 255", &images, 1) : images;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* TensorFlow puts as many zeros before as after an axis or, if they are odd, one more after it. */
static void pad_as_tensorflow(int64_t size, int kernel, int stride, int *before, int *more) {
  const int64_t out = (size + stride - 1) / stride, needed = (out - 1) * stride + kernel - size;
  const int total = needed > 0 ? (int)needed : 0;
  *before = total / 2;
  *more = total - 2 * *before;
}

/* He et al. (arXiv 1502.01852), for the ReLU that follows. */
ac_tensor *image_convolve(const image_net *net, const char *name, ac_tensor *x, int64_t in,
                          int64_t out, const image_conv_desc *desc) {
  const int64_t groups = desc->groups ? desc->groups : 1;
  const int kernel = desc->kernel, stride = desc->stride ? desc->stride : 1;
  const int64_t shape[] = {out, in / groups, kernel, kernel};
  const ac_init he = {.kind = AC_INIT_KAIMING_NORMAL};
  ac_tensor *weight =
      image_parameter(net, name, "weight", 4, shape, (ac_parameter_desc){.init = he});
  ac_tensor *bias =
      desc->bias ? image_parameter(net, name, "bias", 1, &out, (ac_parameter_desc){0}) : NULL;
  ac_conv2d_desc conv = {.stride = {stride, stride}, .groups = (int)groups};
  for (int axis = 0; axis < 2 && !desc->unpadded && !desc->tensorflow; axis++)
    conv.padding[axis] = kernel / 2;
  if (desc->tensorflow && x) {
    ac_tensor_info info;
    ac_tensor_get_info(x, &info);
    for (int axis = 0; axis < 2; axis++)
      pad_as_tensorflow(info.shape[2 + axis], kernel, stride, &conv.padding[axis],
                        &conv.more_padding[axis]);
  }
  return ac_conv2d(x, weight, bias, &conv);
}

ac_tensor *image_conv(const image_net *net, const char *name, ac_tensor *x, int64_t in, int64_t out,
                      int kernel, int stride, int64_t groups) {
  return image_convolve(net, name, x, in, out,
                        &(image_conv_desc){.kernel = kernel, .stride = stride, .groups = groups});
}

ac_tensor *image_batch_norm(const image_net *net, const char *name, ac_tensor *x, int64_t channels,
                            float epsilon, float momentum) {
  const ac_init one = {.kind = AC_INIT_CONSTANT, .value = 1};
  const ac_parameter_desc ones = {.init = one}, frozen_ones = {.init = one, .frozen = true};
  ac_tensor *gamma = image_parameter(net, name, "weight", 1, &channels, ones);
  ac_tensor *beta = image_parameter(net, name, "bias", 1, &channels, (ac_parameter_desc){0});
  ac_tensor *mean =
      image_parameter(net, name, "running_mean", 1, &channels, (ac_parameter_desc){.frozen = true});
  ac_tensor *variance = image_parameter(net, name, "running_var", 1, &channels, frozen_ones);
  const ac_batch_norm_desc desc = {
      .epsilon = epsilon, .momentum = momentum, .frozen_statistics = net->frozen_norm};
  return ac_batch_norm(x, gamma, beta, mean, variance, &desc);
}

ac_tensor *image_norm_layer(const image_net *net, const char *name, ac_tensor *x,
                            int64_t channels) {
  if (net->norm == IMAGE_NORM_BATCH) return image_batch_norm(net, name, x, channels, 0, 0);
  const ac_parameter_desc ones = {.init = {.kind = AC_INIT_CONSTANT, .value = 1}};
  ac_tensor *gamma = image_parameter(net, name, "weight", 1, &channels, ones);
  ac_tensor *beta = image_parameter(net, name, "bias", 1, &channels, (ac_parameter_desc){0});
  if (net->norm == IMAGE_NORM_LAYER) return ac_sample_norm(x, gamma, beta, 0);
  if (net->norm == IMAGE_NORM_INSTANCE) return ac_instance_norm(x, gamma, beta, 0);
  return ac_group_norm(x, gamma, beta, channels % 8 ? 1 : (int)(channels / 8), 0);
}

ac_tensor *image_layer_norm(const image_net *net, const char *name, ac_tensor *x,
                            int64_t channels) {
  const ac_parameter_desc ones = {.init = {.kind = AC_INIT_CONSTANT, .value = 1}};
  ac_tensor *gamma = image_parameter(net, name, "weight", 1, &channels, ones);
  ac_tensor *beta = image_parameter(net, name, "bias", 1, &channels, (ac_parameter_desc){0});
  return ac_layer_norm(x, gamma, beta, 1e-6f);
}

ac_tensor *image_dense(const image_net *net, const char *name, ac_tensor *x, int64_t in,
                       int64_t out, image_start start) {
  const ac_init inits[] = {
      [IMAGE_START_TRUNCATED] = {.kind = AC_INIT_TRUNCATED_NORMAL, .deviation = 0.02f},
      [IMAGE_START_KAIMING] = {.kind = AC_INIT_KAIMING_NORMAL, .gain = 1}};
  const int64_t shape[] = {out, in};
  ac_tensor *weight =
      image_parameter(net, name, "weight", 2, shape, (ac_parameter_desc){.init = inits[start]});
  ac_tensor *bias = image_parameter(net, name, "bias", 1, &out, (ac_parameter_desc){0});
  return ac_linear(x, weight, bias, AC_OUT_IN);
}

/* ---- the head -------------------------------------------------------------------------------- */

/* Accuracy is a metric, because shares of classes have no right answer; labels have. */
static ac_tensor *soft_loss(const image_net *net, ac_tensor *logits, ac_tensor *labels) {
  ac_tensor *targets =
      ac_input(net->graph, "targets", AC_F32, 2, (int64_t[]){AC_BATCH, net->classes});
  ac_graph_add_metric(net->graph, "accuracy", ac_top_k_accuracy(logits, labels, 1, NULL),
                      AC_METRIC_MEAN);
  return ac_soft_cross_entropy(logits, targets, NULL);
}

static ac_tensor *hard_loss(const image_net *net, ac_tensor *logits, ac_tensor *labels) {
  const ac_cross_entropy_desc desc = {.smoothing = share_of(net->smoothing)};
  ac_tensor *weights =
      net->weighted ? ac_input(net->graph, "weights", AC_F32, 1, (int64_t[]){AC_BATCH}) : NULL;
  return ac_cross_entropy(logits, labels, weights, &desc);
}

void image_classify(const image_net *net, const char *name, ac_tensor *features, int64_t channels) {
  image_net head = *net;
  head.path = "";
  head.rate = 0;
  ac_graph_scope(net->graph, "head");
  ac_tensor *logits = image_dense(&head, name, image_dropout(net, features), channels, net->classes,
                                  IMAGE_START_KAIMING);
  ac_tensor *labels = ac_input(net->graph, "labels", AC_I32, 1, (int64_t[]){AC_BATCH});
  ac_graph_set_output(net->graph, "logits", logits);
  ac_graph_set_loss(net->graph,
                    net->mixed ? soft_loss(net, logits, labels) : hard_loss(net, logits, labels));
}

void image_head(const image_net *net, ac_tensor *x, int64_t channels) {
  ac_graph_scope(net->graph, "head");
  image_classify(net, "fc", ac_global_average_pool(x), channels);
}
