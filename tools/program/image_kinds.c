/* `accrue train resnet` and `accrue train mobilenet`: convolutional networks that classify images.
 * They differ in their graph and their defaults. */
#include "models/image_net.h"
#include "common/message.h"
#include "program/model_kind.h"
#include "program/picture_words.h"
#include "program/preset.h"

#include <inttypes.h>
#include <string.h>

typedef struct image_model {
  image_net net;
  const char *name;
  image_data_flags data;
  ac_augmentation augmentation;
} image_model;

static const char *const norms[] = {"group", "layer", "instance", "batch"};

/* ---- flags ----------------------------------------------------------------------------------- */

static void shared_defaults(image_model *model, train_flags *flags) {
  model->augmentation = (ac_augmentation){.shift = 3, .rotation = 10, .scaling = 0.1};
  flags->batch = 32;
  flags->read_ahead = 1;
  flags->epochs = 16;
  flags->rate.lr = 4e-3;
  flags->rate.schedule = AC_SCHEDULE_COSINE;
  flags->beta2 = 0.99;
  flags->weight_decay = 0.05;
}

static void resnet_defaults(void *self, train_flags *flags) {
  image_model *model = self;
  shared_defaults(model, flags);
  model->name = "resnet";
  model->net = (image_net){.classes = 10, .depth = 8, .base = 16};
  flags->out = "accrue-resnet";
}

static void mobilenet_defaults(void *self, train_flags *flags) {
  image_model *model = self;
  shared_defaults(model, flags);
  model->name = "mobilenet";
  model->net = (image_net){.classes = 10, .depth = 6, .base = 24};
  flags->out = "accrue-mobilenet";
}

static void add_options(void *self, options *o) {
  image_model *model = self;
  image_net *net = &model->net;
  const option shape[] = {
      FLAG("depth", OPTION_INTEGER, &net->depth),
      FLAG("width", OPTION_INTEGER, &net->base),
      FLAG("norm", OPTION_CHOICE, &net->norm),
      FLAG("classes", OPTION_INTEGER, &net->classes, .fallback = "as the data has"),
  };
  data_add_image_options(&model->data, o);
  OPTIONS_ADD(o, shape);
}

static void add_training_options(void *self, options *o) {
  image_model *model = self;
  ac_augmentation *a = &model->augmentation;
  const option loss[] = {
      FLAG("label-smoothing", OPTION_REAL, &model->net.smoothing),
      FLAG("balanced", OPTION_SWITCH, &model->data.pictures.balanced),
  };
  const option augmentation[] = {
      FLAG("shift", OPTION_INTEGER, &a->shift),          FLAG("flip", OPTION_SWITCH, &a->flip),
      FLAG("rotation", OPTION_REAL, &a->rotation),       FLAG("scaling", OPTION_REAL, &a->scaling),
      FLAG("erase", OPTION_REAL, &a->erase_probability),
  };
  OPTIONS_ADD(o, loss);
  OPTIONS_ADD(o, augmentation);
  data_add_picture_changes(&model->data.pictures, o);
}

/* ---- data and files -------------------------------------------------------------------------- */

/* A flag that is given must not contradict the file. Otherwise the file decides, within the range
 * of the flag. */
static int adopt_number(const options *o, const ac_model_file *init, const char *path,
                        const char *key, const char *flag, int64_t *value) {
  const char *text = ac_model_file_metadata(init, key);
  int64_t number;
  if (!text || !options_read_integer(options_find(o, flag), text, &number))
    return fail("%s has a damaged description of its %s", path, flag);
  if (options_given(o, flag) && *value != number)
    return fail_usage("--%s %" PRId64 " contradicts %s, where it is %" PRId64, flag, *value, path,
                      number);
  *value = number;
  return STATUS_CONTINUE;
}

static int adopt(image_model *model, const options *o, const ac_model_file *init,
                 const char *path) {
  const char *kind = ac_model_file_metadata(init, "accrue.model");
  const char *norm = ac_model_file_metadata(init, "accrue.norm");
  if (!kind || strcmp(kind, model->name) || !norm)
    return fail("%s does not hold a model of kind %s", path, model->name);
  int found = 0, count = sizeof norms / sizeof *norms;
  while (found < count && strcmp(norms[found], norm)) found++;
  if (found == count) return fail("%s has a damaged description of its norm", path);
  if (options_given(o, "norm") && found != model->net.norm)
    return fail_usage("--norm %s contradicts %s, where it is %s", norms[model->net.norm], path,
                      norm);
  model->net.norm = found;
  int status = adopt_number(o, init, path, "accrue.depth", "depth", &model->net.depth);
  if (status == STATUS_CONTINUE)
    status = adopt_number(o, init, path, "accrue.width", "width", &model->net.base);
  if (status == STATUS_CONTINUE)
    status = adopt_number(o, init, path, "accrue.classes", "classes", &model->net.classes);
  return status;
}

/* Without data, images are those that the preset is for. */
static void assume_images(image_net *net, const options *o, bool known, const image_net *preset) {
  net->channels = preset->channels;
  net->height = preset->height;
  net->width = preset->width;
  if (!options_given(o, "classes") && !known) net->classes = preset->classes;
}

static int prepare(void *self, const options *o, const ac_model_file *init, const char *init_path,
                   train_data *data) {
  image_model *model = self;
  image_net *net = &model->net;
  const model_preset *preset = preset_given(o);
  int status = init ? adopt(model, o, init, init_path) : STATUS_CONTINUE;
  if (status == STATUS_CONTINUE && preset && data->optional && !data_image_flags_given(o)) {
    assume_images(net, o, init, &preset->net);
    return STATUS_CONTINUE;
  }
  if (status == STATUS_CONTINUE && init)
    status = picture_adopt(&model->data.pictures, o, init, init_path);
  if (status == STATUS_CONTINUE) status = data_open_image_flags(data, &model->data, o);
  if (status != STATUS_CONTINUE) return status;
  model->data.pictures.list = data->all;
  int64_t shape[3];
  if (!ac_dataset_image_shape(data->train, shape)) return fail("the data holds no images");
  net->channels = shape[0];
  net->height = shape[1];
  net->width = shape[2];
  if (!options_given(o, "classes") && !init) net->classes = ac_dataset_classes(data->train);
  status = data_check_labels(data, net->classes);
  if (status != STATUS_CONTINUE) return status;
  data->augmentation = model->augmentation;
  if (options_given(o, "erase")) data->augmentation.erase_area = 0.25;
  return STATUS_CONTINUE;
}

static int prepare_resnet(void *self, const options *o, const ac_model_file *init,
                          const char *init_path, train_data *data) {
  image_model *model = self;
  int status = prepare(self, o, init, init_path, data);
  if (status == STATUS_CONTINUE && !resnet_depth_is_valid(model->net.depth))
    return fail_usage("--depth %" PRId64 " is not a depth of a ResNet: give 18, 34 or 6 n + 2",
                      model->net.depth);
  return status;
}

static void build_resnet(const void *self, ac_graph *graph) {
  resnet_build(graph, &((const image_model *)self)->net);
}

static void build_mobilenet(const void *self, ac_graph *graph) {
  mobilenet_build(graph, &((const image_model *)self)->net);
}

static void describe(const void *self, model_metadata *metadata) {
  const image_model *model = self;
  const image_net *net = &model->net;
  model_metadata_add(metadata, "accrue.model", "%s", model->name);
  model_metadata_add(metadata, "accrue.channels", "%" PRId64, net->channels);
  model_metadata_add(metadata, "accrue.image", "%" PRId64 "x%" PRId64, net->height, net->width);
  model_metadata_add(metadata, "accrue.depth", "%" PRId64, net->depth);
  model_metadata_add(metadata, "accrue.width", "%" PRId64, net->base);
  model_metadata_add(metadata, "accrue.norm", "%s", norms[net->norm]);
  model_metadata_add(metadata, "accrue.classes", "%" PRId64, net->classes);
  picture_describe(&model->data.pictures, metadata);
}

static int64_t classes(const void *self) {
  return ((const image_model *)self)->net.classes;
}

const model_kind resnet_kind = {
    .name = "resnet",
    .what = "a residual network that classifies images",
    .size = sizeof(image_model),
    .defaults = resnet_defaults,
    .add_options = add_options,
    .add_training_options = add_training_options,
    .prepare = prepare_resnet,
    .build = build_resnet,
    .describe = describe,
    .classes = classes,
};

const model_kind mobilenet_kind = {
    .name = "mobilenet",
    .what = "a network of depthwise separable convolutions that classifies images",
    .size = sizeof(image_model),
    .defaults = mobilenet_defaults,
    .add_options = add_options,
    .add_training_options = add_training_options,
    .prepare = prepare,
    .build = build_mobilenet,
    .describe = describe,
    .classes = classes,
};
