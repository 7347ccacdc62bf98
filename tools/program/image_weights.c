#include "program/image_weights.h"

#include "common/message.h"
#include "program/image_origin.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tensors by name ------------------------------------------------------------------------- */

static const ac_model_tensor *tensor(const ac_model_file *file, const char *name) {
  return ac_model_file_tensor(file, ac_model_file_find(file, name));
}

static bool has(const ac_model_file *file, const char *name) {
  return ac_model_file_find(file, name) >= 0;
}

/* How many follow each other from 0 on, of names such as "layer1.%d.conv1.weight". */
static int count_of(const ac_model_file *file, const char *format) {
  char name[96];
  int count = 0;
  for (;; count++) {
    snprintf(name, sizeof name, format, count);
    if (!has(file, name)) return count;
  }
}

/* The same of a stage: "layer%d.%d.conv1.weight". */
static int count_in(const ac_model_file *file, const char *format, int stage) {
  char name[96];
  int count = 0;
  for (;; count++) {
    snprintf(name, sizeof name, format, stage, count);
    if (!has(file, name)) return count;
  }
}

/* Size `axis` of a tensor of `rank` dimensions; 0: it is not such a one. */
static int64_t size_of(const ac_model_file *file, const char *name, int rank, int axis) {
  const ac_model_tensor *t = tensor(file, name);
  return t && t->rank == rank ? t->shape[axis] : 0;
}

/* ---- families -------------------------------------------------------------------------------- */

static const char *recognise_resnet(image_net *net, const ac_model_file *file) {
  static const struct {
    int depth, stem, bottleneck, blocks[4];
  } published[] = {
      {18, IMAGE_STEM_LARGE, 0, {2, 2, 2, 2}},   {34, IMAGE_STEM_LARGE, 0, {3, 4, 6, 3}},
      {50, IMAGE_STEM_LARGE, 1, {3, 4, 6, 3}},   {101, IMAGE_STEM_LARGE, 1, {3, 4, 23, 3}},
      {152, IMAGE_STEM_LARGE, 1, {3, 8, 36, 3}}, {18, IMAGE_STEM_SMALL, 0, {2, 2, 2, 2}},
      {34, IMAGE_STEM_SMALL, 0, {3, 4, 6, 3}}};
  const int64_t kernel = size_of(file, "conv1.weight", 4, 2);
  const bool bottleneck = has(file, "layer1.0.conv3.weight");
  int blocks[4];
  if (!kernel) return "it has no tensor conv1.weight [C, 3, 7, 7]";
  for (int i = 0; i < 4; i++) blocks[i] = count_in(file, "layer%d.%d.conv1.weight", i + 1);
  net->base = size_of(file, "conv1.weight", 4, 0);
  net->stem = kernel == 7 ? IMAGE_STEM_LARGE : IMAGE_STEM_SMALL;
  if (!has(file, "bn1.running_mean")) return "it has no batch norm";
  net->norm = IMAGE_NORM_BATCH;
  for (size_t i = 0; i < sizeof published / sizeof *published; i++)
    if (published[i].stem == net->stem && published[i].bottleneck == bottleneck &&
        !memcmp(published[i].blocks, blocks, sizeof blocks)) {
      net->depth = published[i].depth;
      return NULL;
    }
  if (net->stem == IMAGE_STEM_SMALL && !bottleneck && blocks[0] && blocks[0] == blocks[1] &&
      blocks[1] == blocks[2] && !blocks[3]) {
    net->depth = 6 * blocks[0] + 2;
    return NULL;
  }
  return "its blocks are not those of a ResNet of 18, 34, 50, 101 or 152 layers";
}

const image_family resnet_family = {"resnet", resnet_build, resnet_head, recognise_resnet};

/* The first convolution, which all three ways of naming have. */
static bool recognise_stem(image_net *net, const ac_model_file *file) {
  static const char *const stems[] = {[IMAGE_NAMES_TORCHVISION] = "features.0.0.weight",
                                      [IMAGE_NAMES_TIMM] = "conv_stem.weight",
                                      [IMAGE_NAMES_TENSORFLOW] = "_conv_stem.weight"};
  for (int names = 0; names < 3; names++)
    if (size_of(file, stems[names], 4, 2) == 3) {
      net->names = names;
      net->base = size_of(file, stems[names], 4, 0);
      return true;
    }
  return false;
}

static const char *recognise_mobilenet(image_net *net, const ac_model_file *file) {
  static const char lacks[] = "it does not have the tensors of a MobileNet V2 or V3";
  net->norm = IMAGE_NORM_BATCH;
  if (!recognise_stem(net, file) || net->names == IMAGE_NAMES_TENSORFLOW) return lacks;
  if (has(file, "features.1.conv.0.0.weight") ||
      (net->names == IMAGE_NAMES_TIMM && has(file, "blocks.1.0.conv_pwl.weight") &&
       has(file, "conv_head.weight") && has(file, "bn2.weight")))
    net->variant = IMAGE_MOBILENET_V2;
  else if (net->names == IMAGE_NAMES_TIMM && has(file, "blocks.6.0.conv.weight"))
    net->variant = IMAGE_MOBILENET_V3_LARGE;
  else if (net->names == IMAGE_NAMES_TIMM && has(file, "blocks.5.0.conv.weight"))
    net->variant = IMAGE_MOBILENET_V3_SMALL;
  else if (has(file, "features.16.0.weight")) net->variant = IMAGE_MOBILENET_V3_LARGE;
  else if (has(file, "features.12.0.weight")) net->variant = IMAGE_MOBILENET_V3_SMALL;
  else return lacks;
  return NULL;
}

const image_family mobilenet_family = {"mobilenet", mobilenet_build, mobilenet_head,
                                       recognise_mobilenet};

static const char *recognise_efficientnet(image_net *net, const ac_model_file *file) {
  static const char *const squeezes[] = {[IMAGE_NAMES_TORCHVISION] =
                                             "features.1.0.block.1.fc1.weight",
                                         [IMAGE_NAMES_TIMM] = "blocks.0.0.se.conv_reduce.weight",
                                         [IMAGE_NAMES_TENSORFLOW] = "_blocks.0._se_reduce.weight"};
  static const char *const depthwise[] = {
      [IMAGE_NAMES_TORCHVISION] = "features.1.0.block.0.0.weight",
      [IMAGE_NAMES_TIMM] = "blocks.0.0.conv_dw.weight",
      [IMAGE_NAMES_TENSORFLOW] = "_blocks.0._depthwise_conv.weight"};
  net->norm = IMAGE_NORM_BATCH;
  if (!recognise_stem(net, file) || !has(file, depthwise[net->names]))
    return "it does not have the tensors of an EfficientNet";
  net->variant = has(file, squeezes[net->names]) ? IMAGE_EFFICIENTNET_B0 : IMAGE_EFFICIENTNET_LITE0;
  return NULL;
}

const image_family efficientnet_family = {"efficientnet", efficientnet_build, efficientnet_head,
                                          recognise_efficientnet};

static const char *recognise_vit(image_net *net, const ac_model_file *file) {
  const bool timm = has(file, "cls_token");
  const char *patches = timm ? "patch_embed.proj.weight" : "conv_proj.weight";
  const int64_t positions = size_of(file, timm ? "pos_embed" : "encoder.pos_embedding", 3, 1);
  const int64_t side = (int64_t)(sqrt((double)positions) + 0.5);
  net->names = timm ? IMAGE_NAMES_TIMM
               : has(file, "encoder.layers.encoder_layer_0.mlp.linear_1.weight")
                   ? IMAGE_NAMES_TORCHVISION_OLD
                   : IMAGE_NAMES_TORCHVISION;
  net->base = size_of(file, patches, 4, 0);
  net->patch = size_of(file, patches, 4, 2);
  net->depth = timm ? count_of(file, "blocks.%d.attn.qkv.weight")
                    : count_of(file, "encoder.layers.encoder_layer_%d.ln_1.weight");
  if (!net->base || !net->patch || !net->depth || positions < 2)
    return "it does not have the tensors of a vision transformer with a class token";
  if (net->patch > INT16_MAX || side > INT16_MAX) return "its sizes are beyond those of any image";
  if (side * side + 1 != positions) return "its table of positions is not that of a square image";
  net->height = net->width = side * net->patch;
  return NULL;
}

const image_family vit_family = {"vit", vit_build, vit_head, recognise_vit};

static const char *recognise_convnext(image_net *net, const ac_model_file *file) {
  const bool timm = has(file, "stem.0.weight");
  const char *stem = timm ? "stem.0.weight" : "features.0.0.weight";
  const char *blocks =
      timm ? "stages.%d.blocks.%d.conv_dw.weight" : "features.%d.%d.block.0.weight";
  int count[4];
  net->names = timm ? IMAGE_NAMES_TIMM : IMAGE_NAMES_TORCHVISION;
  net->base = size_of(file, stem, 4, 0);
  for (int i = 0; i < 4; i++) count[i] = count_in(file, blocks, timm ? i : 2 * i + 1);
  net->depth = count[2];
  if (!net->base || size_of(file, stem, 4, 2) != 4 || !net->depth)
    return "it does not have the tensors of a ConvNeXt";
  for (int i = 0; i < 4; i++)
    if (count[i] != (net->depth < 3 || i == 2 ? net->depth : 3))
      return "its blocks are not those of a ConvNeXt, which has 3, 3, N and 3";
  return NULL;
}

const image_family convnext_family = {"convnext", convnext_build, convnext_head,
                                      recognise_convnext};

/* milesial/Pytorch-UNet, with transposed convolutions. */
static const char *recognise_unet(image_net *net, const ac_model_file *file) {
  net->base = size_of(file, "inc.double_conv.0.weight", 4, 0);
  if (!net->base || !has(file, "outc.conv.weight"))
    return "it does not have the tensors of a U-Net, such as inc.double_conv.0.weight";
  if (!has(file, "up1.up.weight")) return "it has no transposed convolutions, such as up1.up";
  if (!has(file, "inc.double_conv.1.running_mean")) return "it has no batch norm";
  net->norm = IMAGE_NORM_BATCH;
  for (net->depth = 0; net->depth <= UNET_MOST_DEPTH; net->depth++) {
    char name[64];
    snprintf(name, sizeof name, "down%d.maxpool_conv.1.double_conv.0.weight", (int)net->depth + 1);
    if (!has(file, name)) break;
  }
  return net->depth >= 1 && net->depth <= UNET_MOST_DEPTH ? NULL : "it has no levels";
}

const image_family unet_family = {"unet", unet_build, unet_head, recognise_unet};

/* ---- the whole ------------------------------------------------------------------------------- */

static bool begins(const image_origin *origin, const char *start) {
  return !strncmp(origin->architecture, start, strlen(start));
}

static const char *article_of(const image_family *family) {
  return family->name[0] == 'e' ? "an" : "a";
}

static bool is_inverted(const image_family *family) {
  return family == &mobilenet_family || family == &efficientnet_family;
}

/* What has the same tensors as the published networks, and computes something else with them. */
static int refuse_look_alikes(const image_origin *origin, const char *path) {
  static const char *const names[] = {"resnetaa", "resnetblur"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (begins(origin, names[i]))
      return fail("%s is timm's %s, which has a filter without weights; accrue does not have it",
                  path, origin->architecture);
  return STATUS_CONTINUE;
}

static int pixels_of(const image_family *family, const image_net *net, const image_origin *origin) {
  if (origin->pixels >= 0) return origin->pixels;
  if (family == &vit_family && net->names == IMAGE_NAMES_TIMM && !begins(origin, "deit"))
    return IMAGE_PIXELS_HALF;
  if (begins(origin, "tf_efficientnet_lite")) return IMAGE_PIXELS_HALF;
  if (family == &efficientnet_family && net->names == IMAGE_NAMES_TENSORFLOW &&
      net->variant == IMAGE_EFFICIENTNET_LITE0)
    return IMAGE_PIXELS_LITE;
  if (family == &unet_family) return IMAGE_PIXELS_PLAIN;
  return IMAGE_PIXELS_IMAGENET;
}

int image_weights_adopt(const image_family *family, image_net *net, const ac_model_file *file,
                        const char *path, bool *guessed) {
  char name[96];
  const image_origin origin = image_origin_of(path);
  const int status = refuse_look_alikes(&origin, path);
  if (status != STATUS_CONTINUE) return status;
  const char *lacks = family->recognise(net, file);
  const char *article = article_of(family);
  if (lacks) return fail("%s does not hold %s %s: %s", path, article, family->name, lacks);
  snprintf(name, sizeof name, "%s.weight", family->head(net));
  net->classes = size_of(file, name, family == &unet_family ? 4 : 2, 0);
  if (net->classes < 1)
    return fail("%s does not hold the whole of %s %s: it has no tensor %s [classes, C]", path,
                article, family->name, name);
  *guessed = false;
  if (is_inverted(family) && net->names == IMAGE_NAMES_TIMM) {
    if (begins(&origin, "tf_")) net->names = IMAGE_NAMES_TIMM_TENSORFLOW;
    else *guessed = !begins(&origin, family->name);
  }
  net->pixels = pixels_of(family, net, &origin);
  return STATUS_CONTINUE;
}

int image_weights_check(const image_family *family, bool (*has)(const void *in, const char *name),
                        const void *in, const char *path) {
  ac_model_file *file;
  int status = STATUS_CONTINUE;
  if (ac_model_file_open(&file, path) != AC_OK) return fail_library();
  for (int i = 0; i < ac_model_file_tensor_count(file) && status == STATUS_CONTINUE; i++) {
    const ac_model_tensor *t = ac_model_file_tensor(file, i);
    if (t->dtype != AC_I32 && t->dtype != AC_U8 && !has(in, t->name))
      status =
          fail("%s has a tensor %s, which is not one of %s %s of this shape; accrue would have "
               "to leave it out, and that would be another model",
               path, t->name, article_of(family), family->name);
  }
  ac_model_file_close(file);
  return status;
}
