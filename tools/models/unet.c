/* U-Net (Ronneberger, Fischer, Brox: "U-Net: Convolutional networks for biomedical image
 * segmentation", arXiv 1505.04597), with padding, so that each pixel of the image gets a class. On
 * the way down each level has half the size and twice the channels of the one before; on the way up
 * each is joined with what the way down had at its size:
 *
 *     inc (C) ------------------------------------------- join -- up4 (C) -- outc -->
 *        down1 (2C) --------------------------- join -- up3 (2C)
 *           down2 (4C) --------------- join -- up2 (4C)
 *              down3 (8C) --- join -- up1 (8C)
 *                 down4 (16C)
 *
 * A level is twice conv 3x3 -- norm -- relu. Where a size is odd, what comes up is padded with
 * zeros to the size of what it joins. Parameters are named as in milesial/Pytorch-UNet. */
#include "models/image_net.h"
#include "models/share.h"

#include <accrue/accrue.h>
#include <stdio.h>

/* ---- layers ---------------------------------------------------------------------------------- */

static ac_tensor *twice(image_net *net, const char *name, ac_tensor *x, int64_t in, int64_t out) {
  char path[48];
  snprintf(path, sizeof path, "%s.double_conv.", name);
  net->path = path;
  x = image_conv(net, "0", x, in, out, 3, 1, 1);
  x = ac_relu(image_norm_layer(net, "1", x, out));
  x = image_conv(net, "3", x, out, out, 3, 1, 1);
  x = ac_relu(image_norm_layer(net, "4", x, out));
  net->path = "";
  return x;
}

/* Twice the size, half the channels. */
static ac_tensor *enlarge(const image_net *net, const char *name, ac_tensor *x, int64_t in) {
  const int64_t out = in / 2, shape[] = {in, out, 2, 2};
  const ac_init he = {.kind = AC_INIT_KAIMING_NORMAL};
  ac_tensor *weight =
      image_parameter(net, name, "weight", 4, shape, (ac_parameter_desc){.init = he});
  ac_tensor *bias = image_parameter(net, name, "bias", 1, &out, (ac_parameter_desc){0});
  return ac_conv_transpose2d(x, weight, bias, &(ac_conv_transpose2d_desc){.stride = {2, 2}});
}

/* x with the height and width of `other`. */
static ac_tensor *pad_to(ac_tensor *x, ac_tensor *other) {
  ac_tensor_info from, to;
  if (!x || !other) return NULL;
  ac_tensor_get_info(x, &from);
  ac_tensor_get_info(other, &to);
  ac_pad_desc desc = {0};
  bool same = true;
  for (int axis = 2; axis < 4; axis++) {
    const int64_t missing = to.shape[axis] - from.shape[axis];
    same = same && !missing;
    desc.before[axis] = missing / 2;
    desc.after[axis] = missing - missing / 2;
  }
  return same ? x : ac_pad(x, &desc);
}

/* ---- losses ---------------------------------------------------------------------------------- */

enum { MASK_VALUES = 256 };

/* A row of `table` for each pixel: table[class] for a class, table[255] for what is ignored. */
static ac_tensor *look_up(ac_graph *graph, const char *name, ac_tensor *masks, int64_t columns,
                          const float *table) {
  ac_tensor *constant =
      ac_constant(graph, name, AC_F32, 2, (int64_t[]){MASK_VALUES, columns}, table);
  return ac_embedding(constant, masks);
}

/* 1 - the mean over classes of (2 |A and B| + 1) / (|A| + |B| + 1), of each image; arXiv
 * 1606.04797. A pixel belongs to a class by its probability; ignored ones belong to none. */
static ac_tensor *dice_loss(ac_graph *graph, ac_tensor *logits, ac_tensor *masks, int64_t classes) {
  static float one_hot[MASK_VALUES * AC_MASK_IGNORED], counted[MASK_VALUES];
  for (int64_t i = 0; i < MASK_VALUES; i++) {
    for (int64_t c = 0; c < classes; c++) one_hot[i * classes + c] = i == c;
    counted[i] = i < classes;
  }
  ac_tensor *target = look_up(graph, "mask_classes", masks, classes, one_hot),
            *valid = look_up(graph, "mask_counted", masks, 1, counted),
            *p = ac_multiply(ac_softmax(logits), valid);
  ac_tensor *both = ac_sum(ac_multiply(p, target), AC_AXES(1, 2), false),
            *sizes = ac_sum(ac_add(p, target), AC_AXES(1, 2), false);
  ac_tensor *overlap = ac_divide(ac_add_scalar(ac_scale(both, 2), 1), ac_add_scalar(sizes, 1));
  ac_tensor *mean = ac_mean(overlap, AC_AXES(1), false);
  return ac_loss(ac_add_scalar(ac_scale(mean, -1), 1), NULL);
}

static void add_metrics(ac_graph *graph, const image_net *net, ac_tensor *logits,
                        ac_tensor *masks) {
  const ac_class_desc all = {.ignore = true, .ignore_index = AC_MASK_IGNORED};
  for (int c = 0; c < net->classes && net->classes <= IMAGE_MOST_IOU; c++) {
    char name[16];
    snprintf(name, sizeof name, "iou_%d", c);
    ac_graph_add_metric(graph, name, ac_class_iou(logits, masks, c, &all), AC_METRIC_MEAN);
  }
}

/* Logits are [B, classes, H, W]. */
static void segment(ac_graph *graph, const image_net *net, ac_tensor *logits) {
  const int64_t shape[] = {AC_BATCH, net->height, net->width};
  const ac_cross_entropy_desc desc = {
      .ignore = true, .ignore_index = AC_MASK_IGNORED, .smoothing = share_of(net->smoothing)};
  ac_graph_scope(graph, "loss");
  ac_tensor *masks = ac_input(graph, "masks", AC_I32, 3, shape);
  ac_graph_set_output(graph, "logits", logits);
  ac_tensor *rows = ac_permute(logits, AC_AXES(0, 2, 3, 1));
  ac_tensor *entropy = ac_cross_entropy(rows, masks, NULL, &desc);
  if (net->loss == IMAGE_LOSS_CROSS_ENTROPY) ac_graph_set_loss(graph, entropy);
  else if (net->loss == IMAGE_LOSS_DICE) {
    ac_graph_set_loss(graph, dice_loss(graph, rows, masks, net->classes));
    ac_graph_add_metric(graph, "accuracy", entropy, AC_METRIC_RIGHT);
  } else {
    ac_graph_add_loss(graph, "cross_entropy", entropy, 1);
    ac_graph_add_loss(graph, "dice", dice_loss(graph, rows, masks, net->classes), 1);
  }
  add_metrics(graph, net, rows, masks);
}

/* ---- the network ----------------------------------------------------------------------------- */

const char *unet_head(const image_net *config) {
  (void)config;
  return "outc.conv";
}

void unet_build(ac_graph *graph, const image_net *config) {
  ac_tensor *kept[UNET_MOST_DEPTH];
  char name[48];
  image_net net = *config;
  net.graph = graph;
  net.path = "";
  const int64_t depth = net.depth, last = 2 * depth + 1;
  if (depth < 1 || depth > UNET_MOST_DEPTH) return;

  ac_graph_scope(graph, "inc");
  image_level(&net, 0, last);
  ac_tensor *x = twice(&net, "inc", image_input(&net), net.channels, net.base);
  int64_t channels = net.base;
  for (int64_t i = 0; i < depth; i++, channels *= 2) {
    kept[i] = x;
    snprintf(name, sizeof name, "down%d", (int)i + 1);
    ac_graph_scope(graph, name);
    image_level(&net, i + 1, last);
    snprintf(name, sizeof name, "down%d.maxpool_conv.1", (int)i + 1);
    x = ac_max_pool2d(x, &(ac_pool2d_desc){.kernel = {2, 2}});
    x = twice(&net, name, x, channels, 2 * channels);
  }
  for (int64_t i = 0; i < depth; i++, channels /= 2) {
    ac_tensor *across = kept[depth - 1 - i];
    snprintf(name, sizeof name, "up%d", (int)i + 1);
    ac_graph_scope(graph, name);
    image_level(&net, depth + 1 + i, last);
    snprintf(name, sizeof name, "up%d.up", (int)i + 1);
    x = pad_to(enlarge(&net, name, x, channels), across);
    x = ac_concat(graph, (ac_tensor *[]){across, x}, 2, 1);
    snprintf(name, sizeof name, "up%d.conv", (int)i + 1);
    x = twice(&net, name, x, channels, channels / 2);
  }
  ac_graph_scope(graph, "head");
  image_level(&net, last, last);
  x = image_convolve(&net, "outc.conv", x, net.base, net.classes,
                     &(image_conv_desc){.kernel = 1, .bias = true});
  segment(graph, &net, x);
}
