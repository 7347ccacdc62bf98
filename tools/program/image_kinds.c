/* `accrue train resnet` and other networks that classify images: their flags, data and files. They
 * differ in their family, which builds the graph and knows files of others, and their defaults. */
#include "common/message.h"
#include "models/image_net.h"
#include "program/image_positions.h"
#include "program/image_weights.h"
#include "program/model_kind.h"
#include "program/picture_words.h"
#include "program/preset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct image_model {
  image_net net;
  const image_family *family;
  image_data_flags data;
  ac_augmentation augmentation;
  ac_mixing mixing;
  bool foreign;            /* --init is a file that Accrue has not written */
  bool guessed;            /* and it may be one of timm's tf_ networks */
  patch_grid grid_of_file; /* of vit; no rows: there is no file */
  float *positions;        /* of vit, made for other images than the file's; NULL: the file's */
  int64_t classes_of_file; /* of --init, if its head is not taken; 0: it is */
  char taken[80];          /* a pattern of all but the head and positions: "!fc.*" */
} image_model;

/* Words of choices, in the order of their enums: as flags and as metadata. */
static const char *const norms[] = {"group", "layer", "instance", "batch", NULL};
static const char *const stems[] = {"small", "large", NULL};
static const char *const mobilenets[] = {"v1", "v2", "v3-small", "v3-large", NULL};
static const char *const efficientnets[] = {"lite0", "b0", NULL};
static const char *const losses[] = {"cross-entropy", "dice", "both", NULL};
static const char *const fits[] = {"crop", "stretch", "pad", NULL};
static const char *const namers[] = {"torchvision",     "timm", "tensorflow", "torchvision-old",
                                     "timm-tensorflow", NULL};
static const char *const pixels[] = {"plain", "imagenet", "half", "lite", NULL};

static const char *const *variants_of(const image_model *model) {
  return model->family == &mobilenet_family      ? mobilenets
         : model->family == &efficientnet_family ? efficientnets
                                                 : NULL;
}

/* Which of the shared settings a family has. */
static bool has_stem(const image_model *model) {
  return model->family == &resnet_family;
}

static bool has_norm(const image_model *model) {
  return model->family == &resnet_family || model->family == &mobilenet_family ||
         model->family == &unet_family;
}

static bool has_depth(const image_model *model) {
  return model->family != &efficientnet_family;
}

static bool is_vit(const image_model *model) {
  return model->family == &vit_family;
}

static bool is_unet(const image_model *model) {
  return model->family == &unet_family;
}

/* ---- flags ----------------------------------------------------------------------------------- */

static image_model *shared_defaults(void *self, train_flags *flags, const image_family *family) {
  image_model *model = self;
  model->family = family;
  model->augmentation = (ac_augmentation){.shift = 3, .rotation = 10, .scaling = 0.1};
  flags->batch = 32;
  flags->read_ahead = 1;
  flags->epochs = 16;
  flags->rate.lr = 4e-3;
  flags->rate.schedule = AC_SCHEDULE_COSINE;
  flags->beta2 = 0.99;
  flags->weight_decay = 0.05;
  return model;
}

static void resnet_defaults(void *self, train_flags *flags) {
  image_model *model = shared_defaults(self, flags, &resnet_family);
  model->net = (image_net){.classes = 10, .depth = 8, .base = 16, .layer_decay = 1};
  flags->out = "accrue-resnet";
}

static void mobilenet_defaults(void *self, train_flags *flags) {
  image_model *model = shared_defaults(self, flags, &mobilenet_family);
  model->net = (image_net){.classes = 10, .depth = 6, .base = 24, .layer_decay = 1};
  flags->out = "accrue-mobilenet";
}

static void efficientnet_defaults(void *self, train_flags *flags) {
  image_model *model = shared_defaults(self, flags, &efficientnet_family);
  model->net = (image_net){.classes = 10, .base = 32, .norm = IMAGE_NORM_BATCH, .layer_decay = 1};
  flags->out = "accrue-efficientnet";
}

static void vit_defaults(void *self, train_flags *flags) {
  image_model *model = shared_defaults(self, flags, &vit_family);
  model->net = (image_net){.classes = 10,
                           .depth = 6,
                           .base = 192,
                           .patch = 4,
                           .names = IMAGE_NAMES_TIMM,
                           .layer_decay = 1};
  flags->rate.lr = 5e-4;
  flags->beta2 = 0.999;
  flags->out = "accrue-vit";
}

static void convnext_defaults(void *self, train_flags *flags) {
  image_model *model = shared_defaults(self, flags, &convnext_family);
  model->net = (image_net){.classes = 10, .depth = 2, .base = 32, .layer_decay = 1};
  flags->rate.lr = 1e-3;
  flags->beta2 = 0.999;
  flags->out = "accrue-convnext";
}

static void unet_defaults(void *self, train_flags *flags) {
  image_model *model = shared_defaults(self, flags, &unet_family);
  model->net = (image_net){.classes = 2, .depth = 4, .base = 16, .layer_decay = 1};
  model->augmentation = (ac_augmentation){0};
  model->data.pictures.segments = true;
  model->data.pictures.fit = AC_PICTURE_FIT_PAD;
  flags->batch = 8;
  flags->rate.lr = 1e-3;
  flags->beta2 = 0.999;
  flags->out = "accrue-unet";
}

static void add_options(void *self, options *o) {
  image_model *model = self;
  image_net *net = &model->net;
  const option depth[] = {FLAG("depth", OPTION_INTEGER, &net->depth)};
  const option width[] = {FLAG("width", OPTION_INTEGER, &net->base)};
  const option stem[] = {FLAG("stem", OPTION_CHOICE, &net->stem)};
  const option norm[] = {FLAG("norm", OPTION_CHOICE, &net->norm)};
  const option variant[] = {FLAG("variant", OPTION_CHOICE, &net->variant)};
  const option patches[] = {
      FLAG("heads", OPTION_INTEGER, &net->heads, .fallback = "--width / 64"),
      FLAG("patch", OPTION_INTEGER, &net->patch),
  };
  const option images[] = {
      FLAG("classes", OPTION_INTEGER, &net->classes, .fallback = "as the data has"),
      FLAG("pixels", OPTION_CHOICE, &net->pixels),
  };
  const option masks[] = {
      FLAG("masks", OPTION_TEXT, &model->data.pictures.masks),
      FLAG("fit", OPTION_CHOICE, &model->data.pictures.fit),
  };
  data_add_image_options(&model->data, o);
  if (is_unet(model)) OPTIONS_ADD_FILED(o, masks);
  if (variants_of(model)) OPTIONS_ADD(o, variant);
  if (has_depth(model)) OPTIONS_ADD(o, depth);
  OPTIONS_ADD(o, width);
  if (is_vit(model)) OPTIONS_ADD(o, patches);
  if (has_stem(model)) OPTIONS_ADD(o, stem);
  if (has_norm(model)) OPTIONS_ADD(o, norm);
  OPTIONS_ADD(o, images);
}

static void add_training_options(void *self, options *o) {
  image_model *model = self;
  ac_augmentation *a = &model->augmentation;
  const option loss[] = {
      FLAG("label-smoothing", OPTION_REAL, &model->net.smoothing),
      FLAG("layer-decay", OPTION_REAL, &model->net.layer_decay),
  };
  const option of_classes[] = {
      FLAG("dropout", OPTION_REAL, &model->net.dropout),
      FLAG("drop-path", OPTION_REAL, &model->net.drop_path),
      FLAG("balanced", OPTION_SWITCH, &model->data.pictures.balanced),
      FLAG("class-weights", OPTION_SWITCH, &model->net.weighted),
      FLAG("mixup", OPTION_REAL, &model->mixing.mixup),
      FLAG("cutmix", OPTION_REAL, &model->mixing.cutmix),
  };
  const option augmentation[] = {
      FLAG("shift", OPTION_INTEGER, &a->shift),          FLAG("flip", OPTION_SWITCH, &a->flip),
      FLAG("rotation", OPTION_REAL, &a->rotation),       FLAG("scaling", OPTION_REAL, &a->scaling),
      FLAG("erase", OPTION_REAL, &a->erase_probability),
  };
  OPTIONS_ADD(o, loss);
  const option minimised[] = {FLAG("loss", OPTION_CHOICE, &model->net.loss)};
  if (is_unet(model)) OPTIONS_ADD(o, minimised);
  else OPTIONS_ADD(o, of_classes);
  OPTIONS_ADD(o, augmentation);
  data_add_picture_changes(&model->data.pictures, o);
}

static int check(void *self, const options *o, train_flags *flags) {
  image_model *model = self;
  const struct {
    const char *flag;
    double alpha;
  } mixtures[] = {{"mixup", model->mixing.mixup}, {"cutmix", model->mixing.cutmix}};
  for (int i = 0; i < 2; i++)
    if (mixtures[i].alpha > 0 && mixtures[i].alpha < 1e-6)
      return fail_usage("--%s %g is neither 0 nor at least 1e-6", mixtures[i].flag,
                        mixtures[i].alpha);
  (void)o;
  model->net.frozen_norm = flags->batch_norm == BATCH_NORM_FROZEN;
  model->net.mixed = model->mixing.mixup > 0 || model->mixing.cutmix > 0;
  return STATUS_CONTINUE;
}

/* ---- files ----------------------------------------------------------------------------------- */

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

/* `flag` NULL: no flag says it. `missing`: what it is in a file without the key; < 0: damaged. */
static int adopt_word(const options *o, const ac_model_file *init, const char *path,
                      const char *key, const char *flag, const char *const *words, int missing,
                      int *value) {
  const char *text = ac_model_file_metadata(init, key);
  int found = text ? 0 : missing;
  while (text && words[found] && strcmp(words[found], text) != 0) found++;
  if (found < 0 || (text && !words[found]))
    return fail("%s has a damaged description of its %s", path, flag ? flag : "names");
  if (flag && options_given(o, flag) && found != *value)
    return fail_usage("--%s %s contradicts %s, where it is %s", flag, words[*value], path,
                      words[found]);
  *value = found;
  return STATUS_CONTINUE;
}

static int adopt_patches(image_net *net, const options *o, const ac_model_file *init,
                         const char *path) {
  int status = adopt_number(o, init, path, "accrue.heads", "heads", &net->heads);
  if (status == STATUS_CONTINUE)
    status = adopt_number(o, init, path, "accrue.patch", "patch", &net->patch);
  return status;
}

/* The images that the positions of the file are for. */
static int adopt_grid(image_model *model, const ac_model_file *init, const char *path) {
  const char *text = ac_model_file_metadata(init, "accrue.image");
  int64_t height, width;
  const int64_t patch = model->net.patch;
  if (!text || sscanf(text, "%" SCNd64 "x%" SCNd64, &height, &width) != 2 || height < 1 ||
      width < 1 || height > PICTURE_MOST_SIDE || width > PICTURE_MOST_SIDE || height % patch ||
      width % patch)
    return fail("%s has a damaged description of its images", path);
  model->grid_of_file = (patch_grid){height / patch, width / patch};
  return STATUS_CONTINUE;
}

/* Another number of classes replaces the head. */
static int adopt_classes(image_model *model, const options *o, const ac_model_file *init,
                         const char *path) {
  const char *text = ac_model_file_metadata(init, "accrue.classes");
  int64_t classes;
  if (!text || !options_read_integer(options_find(o, "classes"), text, &classes))
    return fail("%s has a damaged description of its classes", path);
  if (!options_given(o, "classes")) model->net.classes = classes;
  else if (!options_find(o, "init") && model->net.classes != classes)
    return fail_usage("--classes %" PRId64 " contradicts %s, where it is %" PRId64,
                      model->net.classes, path, classes);
  model->classes_of_file = classes;
  return STATUS_CONTINUE;
}

/* Of a file that Accrue has written. */
static int adopt_described(image_model *model, const options *o, const ac_model_file *init,
                           const char *path) {
  image_net *net = &model->net;
  const char *kind = ac_model_file_metadata(init, "accrue.model");
  const int missing_names = is_vit(model) ? IMAGE_NAMES_TIMM : IMAGE_NAMES_TORCHVISION;
  if (strcmp(kind, model->family->name) != 0)
    return fail("%s does not hold a model of kind %s", path, model->family->name);
  int status = adopt_word(o, init, path, "accrue.names", NULL, namers, missing_names, &net->names);
  if (status == STATUS_CONTINUE && is_unet(model) && !options_given_now(o, "fit"))
    status = adopt_word(o, init, path, "accrue.fit", "fit", fits, AC_PICTURE_FIT_PAD,
                        &model->data.pictures.fit);
  if (status == STATUS_CONTINUE && is_unet(model) &&
      !(options_find(o, "loss") && options_given_now(o, "loss")))
    status = adopt_word(o, init, path, "accrue.loss", NULL, losses, 0, &net->loss);
  if (status == STATUS_CONTINUE && has_norm(model))
    status = adopt_word(o, init, path, "accrue.norm", "norm", norms, -1, &net->norm);
  if (status == STATUS_CONTINUE && has_stem(model))
    status = adopt_word(o, init, path, "accrue.stem", "stem", stems, 0, &net->stem);
  if (status == STATUS_CONTINUE && variants_of(model))
    status = adopt_word(o, init, path, "accrue.variant", "variant", variants_of(model), 0,
                        &net->variant);
  if (status == STATUS_CONTINUE && !options_given_now(o, "pixels"))
    status = adopt_word(o, init, path, "accrue.pixels", "pixels", pixels, 0, &net->pixels);
  if (status == STATUS_CONTINUE && has_depth(model))
    status = adopt_number(o, init, path, "accrue.depth", "depth", &net->depth);
  if (status == STATUS_CONTINUE)
    status = adopt_number(o, init, path, "accrue.width", "width", &net->base);
  if (status == STATUS_CONTINUE && is_vit(model)) status = adopt_patches(net, o, init, path);
  if (status == STATUS_CONTINUE && is_vit(model)) status = adopt_grid(model, init, path);
  return status == STATUS_CONTINUE ? adopt_classes(model, o, init, path) : status;
}

/* Flags that are given must not contradict what the tensors say. */
static int check_numbers(const options *o, const char *path, const image_net *given,
                         const image_net *found) {
  const struct {
    const char *flag;
    int64_t given, found;
  } numbers[] = {{"depth", given->depth, found->depth},
                 {"width", given->base, found->base},
                 {"patch", given->patch, found->patch}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (options_find(o, numbers[i].flag) && options_given(o, numbers[i].flag) &&
        numbers[i].given != numbers[i].found)
      return fail_usage("--%s %" PRId64 " contradicts %s, where it is %" PRId64, numbers[i].flag,
                        numbers[i].given, path, numbers[i].found);
  return STATUS_CONTINUE;
}

static int check_words(const image_model *model, const options *o, const char *path,
                       const image_net *given, const image_net *found) {
  const struct {
    const char *flag;
    const char *const *words;
    int given, found;
  } choices[] = {{"stem", stems, given->stem, found->stem},
                 {"norm", norms, given->norm, found->norm},
                 {"variant", variants_of(model), given->variant, found->variant}};
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
    if (options_find(o, choices[i].flag) && options_given(o, choices[i].flag) &&
        choices[i].given != choices[i].found)
      return fail_usage("--%s %s contradicts %s, where it is %s", choices[i].flag,
                        choices[i].words[choices[i].given], path,
                        choices[i].words[choices[i].found]);
  return STATUS_CONTINUE;
}

/* What the tensors say must be in the ranges of the flags, which what is written says again. */
static int check_ranges(const options *o, const char *path, const image_net *found) {
  const struct {
    const char *flag;
    int64_t found;
  } numbers[] = {{"depth", found->depth}, {"width", found->base}, {"patch", found->patch}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const option *row = options_find(o, numbers[i].flag);
    char text[24];
    int64_t ignored;
    snprintf(text, sizeof text, "%" PRId64, numbers[i].found);
    if (row && !options_read_integer(row, text, &ignored))
      return fail("%s has a %s of %s, which is beyond the range of --%s", path, numbers[i].flag,
                  text, numbers[i].flag);
  }
  return STATUS_CONTINUE;
}

static int check_classes(const image_net *net, const char *path) {
  if (net->classes > 1) return STATUS_CONTINUE;
  return fail("%s has 1 class, and a classifier needs two", path);
}

/* Of a file of others. Its classes are those of the data it was trained on. */
static int adopt_foreign(image_model *model, const options *o, const ac_model_file *init,
                         const char *path) {
  const image_net given = model->net;
  image_net *net = &model->net;
  int status = image_weights_adopt(model->family, net, init, path, &model->guessed);
  if (status == STATUS_CONTINUE) status = check_ranges(o, path, net);
  if (status == STATUS_CONTINUE) status = check_numbers(o, path, &given, net);
  if (status == STATUS_CONTINUE) status = check_words(model, o, path, &given, net);
  if (status != STATUS_CONTINUE) return status;
  if (options_given_now(o, "pixels")) net->pixels = given.pixels;
  model->foreign = true;
  if (is_vit(model))
    model->grid_of_file = (patch_grid){net->height / net->patch, net->width / net->patch};
  model->classes_of_file = net->classes;
  if (options_given(o, "classes")) net->classes = given.classes;
  return options_find(o, "init") ? STATUS_CONTINUE : check_classes(net, path); /* may be replaced */
}

static int adopt(image_model *model, const options *o, const ac_model_file *init,
                 const char *path) {
  return ac_model_file_metadata(init, "accrue.model") ? adopt_described(model, o, init, path)
                                                      : adopt_foreign(model, o, init, path);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Without data, images are those that the preset is for, as far as flags do not say it. */
static void assume_images(image_model *model, const options *o, bool known,
                          const image_net *preset) {
  image_net *net = &model->net;
  const picture_shape shape =
      picture_assume(&model->data.pictures, o, preset->channels, preset->height);
  net->channels = shape.channels;
  net->height = net->width = shape.side;
  if (!options_given(o, "classes") && !known) net->classes = preset->classes;
}

static int check_patches(const image_model *model) {
  const image_net *net = &model->net;
  if (net->height % net->patch || net->width % net->patch)
    return fail_usage("--patch %" PRId64 " does not divide images of %" PRId64 " x %" PRId64,
                      net->patch, net->height, net->width);
  if (net->heads ? net->base % net->heads : net->base % 64)
    return fail_usage("--width %" PRId64 " is not a multiple of %s", net->base,
                      net->heads ? "--heads" : "64; give --heads");
  return STATUS_CONTINUE;
}

static int check_unet(const image_net *net) {
  if (net->classes > AC_MASK_IGNORED)
    return fail_usage("masks have at most %d classes, not %" PRId64, (int)AC_MASK_IGNORED,
                      net->classes);
  const int64_t smaller = net->height < net->width ? net->height : net->width;
  if (smaller >> net->depth >= 1) return STATUS_CONTINUE;
  return fail_usage("--depth %" PRId64 " halves images of %" PRId64 " x %" PRId64
                    " until nothing is left; give a smaller one, or a larger --size",
                    net->depth, net->height, net->width);
}

/* Images of another size need other positions than the file's. */
static int make_positions(image_model *model, ac_model_file *init, const char *path) {
  const image_net *net = &model->net;
  const patch_grid from = model->grid_of_file;
  if (!from.rows) return STATUS_CONTINUE;
  const patch_grid to = {net->height / net->patch, net->width / net->patch};
  if (from.rows == to.rows && from.columns == to.columns) return STATUS_CONTINUE;
  say("the positions of %" PRId64 " x %" PRId64 " patches in %s are resampled to %" PRId64
      " x %" PRId64 " with the bicubic filter, as timm does it",
      from.rows, from.columns, path, to.rows, to.columns);
  return image_positions_resample(&model->positions, init, path, vit_positions(net), from, to,
                                  net->base);
}

/* Each stage of a ConvNeXt halves the size, which may not be odd then, and the first makes a
 * quarter of it. */
static int check_convnext(const image_net *net) {
  enum { LEAST = 32 };
  if (net->height >= LEAST && net->width >= LEAST) return STATUS_CONTINUE;
  return fail_usage("convnext needs images of at least %d x %d pixels, and these have %" PRId64
                    " x %" PRId64 "; of pictures, --size chooses it",
                    LEAST, LEAST, net->height, net->width);
}

/* What the flags ask for, now that the images are known. */
static int check_shape(image_model *model, const options *o, const char *init_path) {
  image_net *net = &model->net;
  if (is_vit(model)) return check_patches(model);
  if (is_unet(model)) return check_unet(net);
  if (model->family == &convnext_family) return check_convnext(net);
  if (has_stem(model) && !resnet_depth_is_valid(net))
    return fail_usage("--depth %" PRId64 " is not a depth of a ResNet: give %s", net->depth,
                      net->stem == IMAGE_STEM_LARGE ? "18, 34, 50, 101 or 152"
                                                    : "18, 34 or 6 n + 2");
  if (model->family != &mobilenet_family) return STATUS_CONTINUE;
  if (net->variant == IMAGE_MOBILENET_V1)
    return net->drop_path > 0
               ? fail_usage("--drop-path is for --variant v2, v3-small and v3-large; "
                            "v1 has no residual blocks")
               : STATUS_CONTINUE;
  if (options_given(o, "depth"))
    return fail_usage("--depth is for --variant v1; the others have the blocks of their papers");
  if (options_given(o, "norm") && net->norm != IMAGE_NORM_BATCH)
    return fail_usage("--norm %s is for --variant v1; the others have batch norm",
                      norms[net->norm]);
  net->norm = IMAGE_NORM_BATCH;
  if (!options_given(o, "width") && !init_path)
    net->base = net->variant == IMAGE_MOBILENET_V2 ? 32 : 16;
  return STATUS_CONTINUE;
}

/* The classes of the data replace those of a file of others, if it begins a training. */
static void choose_classes(image_model *model, const options *o, bool init,
                           const train_data *data) {
  image_net *net = &model->net;
  const bool begins = model->foreign && options_find(o, "init");
  if (options_given(o, "classes") || (init && !begins)) return;
  const int64_t classes = ac_dataset_classes(data->train);
  if (classes > 0) net->classes = classes;
}

static int open_data(image_model *model, const options *o, bool init, train_data *data) {
  image_net *net = &model->net;
  int64_t shape[3];
  data->bytes = true;
  int status = data_open_image_flags(data, &model->data, o);
  if (status != STATUS_CONTINUE) return status;
  net->bytes = data->all;
  model->data.pictures.list = data->all;
  if (!ac_dataset_image_shape(data->train, shape)) return fail("the data holds no images");
  net->channels = shape[0];
  net->height = shape[1];
  net->width = shape[2];
  choose_classes(model, o, init, data);
  if (is_unet(model) && ac_dataset_classes(data->train) > net->classes)
    return fail_usage("masks have classes up to %" PRId64 ", and the model has %" PRId64
                      " classes, from 0 on",
                      ac_dataset_classes(data->train) - 1, net->classes);
  status = data_check_labels(data, net->classes);
  if (status != STATUS_CONTINUE) return status;
  if (is_unet(model) && net->loss == IMAGE_LOSS_CROSS_ENTROPY) data->loss_unit = "pixel";
  data->no_nats = is_unet(model) && net->loss != IMAGE_LOSS_CROSS_ENTROPY;
  data->augmentation = model->augmentation;
  data->mixing = model->mixing;
  data->mixing.smoothing = net->smoothing;
  data->mixing.classes = net->classes;
  data->class_weights = net->weighted;
  if (options_given(o, "erase")) data->augmentation.erase_area = 0.25;
  return STATUS_CONTINUE;
}

static int check_classes_of_all(const image_model *model, const train_data *data,
                                const char *init_path) {
  const bool told = ac_dataset_classes(data->train) == model->net.classes;
  if (told && is_unet(model) && model->net.classes == 1)
    return fail("no pixel of a mask in %s has another class than 0 (%d is ignored); number the "
                "classes 0, 1 and so on, or give --classes",
                model->data.pictures.masks, (int)AC_MASK_IGNORED);
  return check_classes(&model->net, told || !init_path ? model->data.path : init_path);
}

static int prepare(void *self, const options *o, const ac_model_file *init, const char *init_path,
                   train_data *data) {
  image_model *model = self;
  const model_preset *preset = preset_given(o);
  int status = init ? adopt(model, o, init, init_path) : STATUS_CONTINUE;
  if (status == STATUS_CONTINUE && init)
    status = picture_adopt(&model->data.pictures, o, init, init_path);
  if (status != STATUS_CONTINUE) return status;
  if (preset && data->optional && !data_image_flags_given(o))
    assume_images(model, o, init, &preset->net);
  else status = open_data(model, o, init != NULL, data);
  if (status == STATUS_CONTINUE) status = check_shape(model, o, init ? init_path : NULL);
  if (status == STATUS_CONTINUE) status = make_positions(model, (ac_model_file *)init, init_path);
  if (status == STATUS_CONTINUE) status = check_classes_of_all(model, data, init_path);
  if (model->classes_of_file == model->net.classes) model->classes_of_file = 0;
  return status;
}

/* ---- the rest of the kinds ------------------------------------------------------------------- */

/* Most networks halve the size five times. */
static model_growth growth(const void *self) {
  const image_model *model = self;
  const int64_t halved =
      is_unet(model) && model->net.depth > 5 ? INT64_C(1) << model->net.depth : 32;
  return (model_growth){"resolution", is_vit(model) ? model->net.patch : halved, PICTURE_MOST_SIDE};
}

static void grow(void *self, int64_t side) {
  image_model *model = self;
  model->net.height = model->net.width = side;
}

static void build(const void *self, ac_graph *graph) {
  const image_model *model = self;
  model->family->build(graph, &model->net);
}

static void describe(const void *self, model_metadata *metadata) {
  const image_model *model = self;
  const image_net *net = &model->net;
  model_metadata_add(metadata, "accrue.model", "%s", model->family->name);
  model_metadata_add(metadata, "accrue.channels", "%" PRId64, net->channels);
  model_metadata_add(metadata, "accrue.image", "%" PRId64 "x%" PRId64, net->height, net->width);
  if (has_depth(model)) model_metadata_add(metadata, "accrue.depth", "%" PRId64, net->depth);
  model_metadata_add(metadata, "accrue.width", "%" PRId64, net->base);
  if (is_unet(model)) {
    model_metadata_add(metadata, "accrue.fit", "%s", fits[model->data.pictures.fit]);
    model_metadata_add(metadata, "accrue.loss", "%s", losses[net->loss]);
  }
  if (is_vit(model)) {
    model_metadata_add(metadata, "accrue.heads", "%" PRId64,
                       net->heads ? net->heads : net->base / 64);
    model_metadata_add(metadata, "accrue.patch", "%" PRId64, net->patch);
  }
  if (has_norm(model)) model_metadata_add(metadata, "accrue.norm", "%s", norms[net->norm]);
  if (has_stem(model)) model_metadata_add(metadata, "accrue.stem", "%s", stems[net->stem]);
  if (variants_of(model))
    model_metadata_add(metadata, "accrue.variant", "%s", variants_of(model)[net->variant]);
  model_metadata_add(metadata, "accrue.names", "%s", namers[net->names]);
  model_metadata_add(metadata, "accrue.pixels", "%s", pixels[net->pixels]);
  model_metadata_add(metadata, "accrue.classes", "%" PRId64, net->classes);
  picture_describe(&model->data.pictures, metadata);
}

static int64_t classes(const void *self) {
  return ((const image_model *)self)->net.classes;
}

static bool is_segmenter(const void *self) {
  return is_unet(self);
}

static void introduce(const void *self, const ac_plan *plan) {
  const image_model *model = self;
  const image_net *net = &model->net;
  (void)plan;
  if (model->classes_of_file)
    say("the head, %s, has %" PRId64 " classes in the file and %" PRId64 " here; it begins anew",
        model->family->head(net), model->classes_of_file, net->classes);
  if (model->guessed)
    say("timm's tf_ networks have the same tensors, and another padding; this one is taken for "
        "none "
        "of them, as neither the file's name nor a config.json next to it says tf_");
  if (model->foreign) say("pixels are normalised as --pixels %s has it", pixels[net->pixels]);
}

static const char *taken(void *self) {
  image_model *model = self;
  const char *but = model->positions ? vit_positions(&model->net) : "";
  if (!model->classes_of_file && !*but) return NULL;
  const char *head = model->classes_of_file ? model->family->head(&model->net) : "";
  snprintf(model->taken, sizeof model->taken, "%s%s%s%s%s%s", *head ? "!" : "", head,
           *head ? ".*" : "", *head && *but ? "," : "", *but ? "!" : "", but);
  return model->taken;
}

static model_made made(const void *self) {
  const image_model *model = self;
  const image_net *net = &model->net;
  if (!model->positions) return (model_made){0};
  const int64_t patches = (net->height / net->patch) * (net->width / net->patch);
  return (model_made){vit_positions(net), (1 + patches) * net->base, model->positions};
}

static void close_model(void *self) {
  image_model *model = self;
  free(model->positions);
}

static int check_file(const void *self, bool (*has)(const void *in, const char *name),
                      const void *in, const char *path) {
  const image_model *model = self;
  return model->foreign ? image_weights_check(model->family, has, in, path) : STATUS_CONTINUE;
}

#define IMAGE_KIND(word, text)                                                  \
  const model_kind word##_kind = {.name = #word,                                \
                                  .what = text,                                 \
                                  .size = sizeof(image_model),                  \
                                  .defaults = word##_defaults,                  \
                                  .add_options = add_options,                   \
                                  .add_training_options = add_training_options, \
                                  .check = check,                               \
                                  .prepare = prepare,                           \
                                  .build = build,                               \
                                  .describe = describe,                         \
                                  .introduce = introduce,                       \
                                  .classes = classes,                           \
                                  .segments = is_segmenter,                     \
                                  .growth = growth,                             \
                                  .grow = grow,                                 \
                                  .taken = taken,                               \
                                  .made = made,                                 \
                                  .close = close_model,                         \
                                  .check_file = check_file}

IMAGE_KIND(unet, "a U-Net that tells the class of each pixel");
IMAGE_KIND(resnet, "a residual network that classifies images");
IMAGE_KIND(mobilenet, "a network of depthwise separable convolutions that classifies images");
IMAGE_KIND(efficientnet, "an EfficientNet that classifies images");
IMAGE_KIND(vit, "a vision transformer that classifies images");
IMAGE_KIND(convnext, "a ConvNeXt that classifies images");
