#include "bench/models.h"

#include "common/message.h"
#include "models/presets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

enum { GPT2_VOCAB = 50257, BYTES = PRESET_BYTE_VOCAB, CLASSES = 10, IMAGENET_CLASSES = 1000 };

static const struct {
  const char *kind;
  void (*build)(ac_graph *graph, const image_net *net);
} image_builders[] = {{"resnet", resnet_build},
                      {"mobilenet", mobilenet_build},
                      {"efficientnet", efficientnet_build},
                      {"vit", vit_build},
                      {"convnext", convnext_build}};

/* A model without a function of its own has the shape of the preset of its name. */
static void build_preset(const char *name, ac_graph *graph, int64_t context) {
  const model_preset *preset = model_preset_find(name);
  gpt_config gpt = preset->gpt;
  gpt.context = context;
  if (!strcmp(preset->kind, "gpt")) gpt_build(graph, &gpt, true);
  for (size_t i = 0; i < sizeof image_builders / sizeof *image_builders; i++)
    if (!strcmp(preset->kind, image_builders[i].kind)) image_builders[i].build(graph, &preset->net);
}

/* The convolutions that papers time, at 64 channels of 56 x 56: 3 x 3 and depthwise. The first of
 * each has no gradient of its input, the others have all. */
static void build_convolutions(ac_graph *graph, int64_t context) {
  (void)context;
  image_net net = {.channels = 64, .height = 56, .width = 56, .classes = CLASSES};
  net.graph = graph;
  net.path = "";
  ac_tensor *x = image_conv(&net, "first", image_input(&net), 64, 64, 3, 1, 1);
  x = image_conv(&net, "second", x, 64, 64, 3, 1, 1);
  x = image_conv(&net, "depthwise", x, 64, 64, 3, 1, 64);
  image_head(&net, x, 64);
}

/* Ops that memory bounds, on arrays larger than caches: 384 MiB an activation. */
static void build_elementwise(ac_graph *graph, int64_t context) {
  enum { WIDTH = 768 };
  const ac_parameter_desc drawn = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.02f}};
  const ac_parameter_desc ones = {.init = {AC_INIT_CONSTANT, .value = 1}};
  const int64_t width[] = {WIDTH}, table[] = {GPT2_VOCAB, WIDTH};
  ac_tensor *tokens = ac_input(graph, "tokens", AC_I32, 2, (int64_t[]){AC_BATCH, context});
  ac_tensor *targets = ac_input(graph, "targets", AC_F32, 3, (int64_t[]){AC_BATCH, context, WIDTH});
  ac_tensor *gamma = ac_parameter(graph, "gamma", 1, width, &ones);
  ac_tensor *beta =
      ac_parameter(graph, "beta", 1, width, &(ac_parameter_desc){.init = {.kind = AC_INIT_ZERO}});
  ac_tensor *x = ac_embedding(ac_parameter(graph, "table", 2, table, &drawn), tokens);
  ac_tensor *y = ac_gelu(ac_layer_norm(x, gamma, beta, 0), AC_GELU_TANH);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_add(x, ac_dropout(y, 0.1f)), targets, NULL));
}

const bench_model bench_models[] = {
    {"gpt2-124m", 4, 64, GPT2_VOCAB, true, true, NULL},
    {"gpt-small", 12, 64, BYTES, false, true, NULL},
    {"resnet18", 32, 0, CLASSES, true, true, NULL},
    {"mobilenet", 32, 0, CLASSES, false, true, NULL},
    {"convolutions", 16, 0, CLASSES, false, false, build_convolutions},
    {"elementwise", 128, 1024, GPT2_VOCAB, false, false, build_elementwise},
    {"resnet50", 32, 0, IMAGENET_CLASSES, false, false, NULL},
    {"vit-small", 32, 0, IMAGENET_CLASSES, false, false, NULL},
    {"convnext-tiny", 32, 0, IMAGENET_CLASSES, false, false, NULL},
    {"efficientnet-lite0", 32, 0, IMAGENET_CLASSES, false, false, NULL},
    {"gpt2-355m", 4, 64, GPT2_VOCAB, false, false, NULL},
    {"gpt2-774m", 4, 64, GPT2_VOCAB, false, false, NULL},
    {"gpt2-1.5b", 4, 64, GPT2_VOCAB, false, false, NULL},
};
const int bench_model_count = sizeof bench_models / sizeof *bench_models;

const char *bench_model_names(char *text, size_t size) {
  size_t used = 0;
  for (int i = 0; i < bench_model_count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "|" : "", bench_models[i].name);
  return text;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *own_error; /* an error that is not the library's; NULL: there was none */

static ac_status fail_here(ac_status status, const char *sentence) {
  own_error = sentence;
  return status;
}

const char *bench_error(void) {
  const char *sentence = own_error ? own_error : ac_last_error();
  own_error = NULL;
  return sentence;
}

int bench_fail(ac_status status) {
  return status == AC_ERROR_ARGUMENT ? fail_usage("%s", bench_error()) : fail("%s", bench_error());
}

/* ---- planning -------------------------------------------------------------------------------- */

void bench_model_detail(char *text, size_t size, const bench_model *model,
                        const bench_setting *setting) {
  static const char *const policies[] = {"", ", recompute none", ", recompute all"};
  char context[48] = "", micro[48] = "", memory[48] = "", storage[128];
  if (model->context)
    snprintf(context, sizeof context, ", context %" PRId64,
             setting->context ? setting->context : model->context);
  if (setting->micro_batch)
    snprintf(micro, sizeof micro, ", micro-batch %" PRId64, setting->micro_batch);
  if (setting->memory) snprintf(memory, sizeof memory, ", memory %" PRIu64, setting->memory);
  storage_words(&setting->storage, storage, sizeof storage);
  snprintf(text, size, "batch %" PRId64 "%s%s%s%s%s",
           setting->batch ? setting->batch : model->batch, context, micro,
           policies[setting->recompute], memory, storage);
}

/* Integers spread over all tokens or classes, reals over [-0.5, 0.5). */
static void *make_samples(const bench_model *model, const ac_tensor_info *info, int64_t batch) {
  int64_t count = -info->shape[0] * batch;
  for (int i = 1; i < info->rank; i++) count *= info->shape[i];
  void *data = malloc((size_t)count * sizeof(float));
  for (int64_t i = 0; data && i < count; i++) {
    uint64_t scattered = (uint64_t)i * 2654435761u;
    if (info->dtype == AC_I32) ((int32_t *)data)[i] = (int32_t)(scattered % (uint64_t)model->limit);
    else ((float *)data)[i] = (float)(i % 251) / 251 - 0.5f;
  }
  return data;
}

static ac_status make_feeds(bench_planned *p, const bench_model *model) {
  const int most = sizeof p->feeds / sizeof *p->feeds;
  for (int i = 0; i < ac_graph_input_count(p->graph) && i < most; i++) {
    ac_tensor_info info;
    ac_status status = ac_graph_input(p->graph, i, &info);
    if (status != AC_OK) return status;
    void *data = make_samples(model, &info, p->batch);
    if (!data) return fail_here(AC_ERROR_MEMORY, "no memory for the samples of a window");
    p->feeds[p->feed_count++] = (ac_feed){info.name, data};
  }
  return AC_OK;
}

ac_status bench_planned_open(bench_planned *p, const bench_model *model,
                             const bench_setting *setting, ac_device *device) {
  *p = (bench_planned){.batch = setting->batch ? setting->batch : model->batch};
  if (model->context) p->context = setting->context ? setting->context : model->context;
  ac_status status = ac_graph_create(&p->graph);
  if (status != AC_OK) return status;
  if (model->build) model->build(p->graph, p->context);
  else build_preset(model->name, p->graph, p->context);
  ac_plan_desc desc = {.batch = p->batch,
                       .micro_batch = setting->micro_batch,
                       .memory = setting->memory,
                       .whole_windows = true,
                       .precision = setting->precision,
                       .recompute = setting->recompute,
                       .beyond_device = setting->beyond_device};
  storage_describe(&setting->storage, &desc);
  status = ac_plan_create(&p->plan, p->graph, device, &desc);
  if (status == AC_OK) status = make_feeds(p, model);
  return status;
}

void bench_planned_close(bench_planned *p) {
  for (int i = 0; i < p->feed_count; i++) free((void *)(uintptr_t)p->feeds[i].data);
  ac_plan_free(p->plan);
  ac_graph_free(p->graph);
}

/* ---- steps ----------------------------------------------------------------------------------- */

ac_status bench_stepper_open(bench_stepper *s, const bench_planned *planned) {
  *s = (bench_stepper){.planned = planned};
  const bool folds = gradient_way_of(ac_plan_get_info(planned->plan)->gradients)->folds;
  /* A window that overflows because of a loss scale would be skipped, and so be faster than it
   * should be. Folded gradients allow neither clipping nor Nesterov momentum. */
  const ac_trainer_desc desc = {.schedule = {.lr = 1e-4},
                                .optimizer = {.clip = folds ? 0 : 1, .muon_no_nesterov = folds},
                                .loss_scaling = {.kind = AC_LOSS_SCALING_NONE}};
  return ac_trainer_create(&s->trainer, planned->plan, &desc);
}

void bench_stepper_close(bench_stepper *s) {
  ac_trainer_free(s->trainer);
}

ac_status bench_stepper_run(void *stepper, int64_t runs) {
  const bench_stepper *s = stepper;
  const bench_planned *p = s->planned;
  for (int64_t i = 0; i < runs; i++) {
    ac_status status = ac_trainer_accumulate(s->trainer, p->batch, p->feeds, p->feed_count);
    ac_update update;
    if (status == AC_OK) status = ac_trainer_update(s->trainer, &update);
    if (status != AC_OK) return status;
    if (update.skipped)
      return fail_here(AC_ERROR_NOT_FINITE,
                       "an update was skipped, as its loss or a gradient is not finite");
  }
  return AC_OK;
}
