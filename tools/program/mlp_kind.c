/* `accrue train mlp`: flags, data and files around the graph in models/mlp.c. */
#include "common/message.h"
#include "models/mlp.h"
#include "program/model_kind.h"
#include "program/picture_words.h"
#include "program/preset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct mlp_model {
  mlp_config config;
  int64_t channels;   /* of the images */
  const char *hidden; /* "256,128"; "none": a linear classifier */
  char hidden_of_file[128];
  image_data_flags data;
} mlp_model;

static void defaults(void *self, train_flags *flags) {
  mlp_model *model = self;
  model->config.classes = 10;
  model->hidden = "512,256";
  model->config.dropout = 0.3;
  flags->batch = 128;
  flags->read_ahead = 1;
  flags->epochs = 30;
  flags->rate.lr = 3e-3;
  flags->rate.schedule = AC_SCHEDULE_COSINE;
  flags->beta2 = 0.999;
  flags->weight_decay = 0.2;
  flags->out = "accrue-mlp";
}

static void add_options(void *self, options *o) {
  mlp_model *model = self;
  const option shape[] = {
      FLAG("hidden", OPTION_TEXT, &model->hidden),
      FLAG("dropout", OPTION_REAL, &model->config.dropout),
      FLAG("classes", OPTION_INTEGER, &model->config.classes),
  };
  data_add_image_options(&model->data, o);
  OPTIONS_ADD(o, shape);
}

static bool parse_widths(mlp_config *config, const char *text) {
  config->depth = 0;
  if (!strcmp(text, "none")) return true;
  for (;;) {
    char *end;
    long long width = strtoll(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || width < 1 || width > 1 << 20) return false;
    if (config->depth == MLP_MOST_HIDDEN) return false;
    config->widths[config->depth++] = width;
    if (!*end) return true;
    if (*end != ',') return false;
    text = end + 1;
  }
}

static int adopt(mlp_model *model, const options *o, const ac_model_file *init, const char *path) {
  const char *kind = ac_model_file_metadata(init, "accrue.model");
  const char *hidden = ac_model_file_metadata(init, "accrue.hidden");
  const char *classes = ac_model_file_metadata(init, "accrue.classes");
  if (!kind || strcmp(kind, "mlp") || !hidden || !classes)
    return fail("%s does not hold a model of kind mlp", path);
  if (options_given(o, "hidden") && strcmp(hidden, model->hidden))
    return fail_usage("--hidden %s contradicts %s, where it is %s", model->hidden, path, hidden);
  mlp_config ignored;
  int64_t count;
  if (strlen(hidden) >= sizeof model->hidden_of_file || !parse_widths(&ignored, hidden) ||
      !options_read_integer(options_find(o, "classes"), classes, &count))
    return fail("%s has a damaged description of its layers", path);
  if (options_given(o, "classes") && count != model->config.classes)
    return fail_usage("--classes %" PRId64 " contradicts %s, where it is %" PRId64,
                      model->config.classes, path, count);
  /* The file is closed before the model is written. */
  model->hidden = strcpy(model->hidden_of_file, hidden);
  model->config.classes = count;
  return STATUS_CONTINUE;
}

static int prepare(void *self, const options *o, const ac_model_file *init, const char *init_path,
                   train_data *data) {
  mlp_model *model = self;
  int status = init ? adopt(model, o, init, init_path) : STATUS_CONTINUE;
  if (status != STATUS_CONTINUE) return status;
  if (!parse_widths(&model->config, model->hidden))
    return fail_usage("--hidden %s is not a list of at most %d widths such as 256,128",
                      model->hidden, MLP_MOST_HIDDEN);
  const model_preset *preset = preset_given(o);
  if (preset && data->optional && !data_image_flags_given(o)) {
    const picture_shape shape =
        picture_assume(&model->data.pictures, o, preset->net.channels, preset->net.height);
    model->channels = shape.channels;
    model->config.inputs = shape.channels * shape.side * shape.side;
    return STATUS_CONTINUE;
  }
  if (init) status = picture_adopt(&model->data.pictures, o, init, init_path);
  if (status == STATUS_CONTINUE) status = data_open_image_flags(data, &model->data, o);
  if (status != STATUS_CONTINUE) return status;
  int64_t shape[3];
  if (!ac_dataset_image_shape(data->train, shape)) return fail("the data holds no images");
  model->channels = shape[0];
  model->data.pictures.list = data->all;
  model->config.inputs = data_field_elements(data->train, "images");
  if (data->all && !options_given(o, "classes") && !init)
    model->config.classes = ac_dataset_classes(data->train);
  return data_check_labels(data, model->config.classes);
}

static void build(const void *self, ac_graph *graph) {
  mlp_build(graph, &((const mlp_model *)self)->config);
}

static model_growth growth(const void *self) {
  (void)self;
  return (model_growth){"resolution", 4, PICTURE_MOST_SIDE};
}

static void grow(void *self, int64_t side) {
  mlp_model *model = self;
  model->config.inputs = model->channels * side * side;
}

static void describe(const void *self, model_metadata *metadata) {
  const mlp_model *model = self;
  model_metadata_add(metadata, "accrue.model", "mlp");
  model_metadata_add(metadata, "accrue.inputs", "%" PRId64, model->config.inputs);
  model_metadata_add(metadata, "accrue.hidden", "%s", model->hidden);
  model_metadata_add(metadata, "accrue.classes", "%" PRId64, model->config.classes);
  picture_describe(&model->data.pictures, metadata);
}

static int64_t classes(const void *self) {
  return ((const mlp_model *)self)->config.classes;
}

const model_kind mlp_kind = {
    .name = "mlp",
    .what = "a perceptron with ReLU that classifies images such as MNIST's digits",
    .size = sizeof(mlp_model),
    .defaults = defaults,
    .add_options = add_options,
    .prepare = prepare,
    .build = build,
    .describe = describe,
    .classes = classes,
    .growth = growth,
    .grow = grow,
};
