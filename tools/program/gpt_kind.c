/* `accrue train gpt`: flags, data and files around the graph in models/gpt.c. The defaults are
 * nanoGPT's published setting for small CPUs. */
#include "program/gpt_config.h"
#include "common/message.h"
#include "program/preset.h"

#include <accrue/format.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct gpt_model {
  gpt_config config;
  gpt_ends ends;
  const char *data;
  uint64_t max_bytes;
  bool binary;
  int64_t positions; /* of --init; 0: any number */
} gpt_model;

enum { BYTE_VOCAB = 256 };

static void defaults(void *self, train_flags *flags) {
  gpt_model *model = self;
  model->ends = (gpt_ends){-1, -1};
  model->config = (gpt_config){.layers = 4, .heads = 4, .width = 128, .context = 64};
  flags->batch = 12;
  flags->steps = 2000;
  flags->rate.lr = 1e-3;
  flags->rate.schedule = AC_SCHEDULE_COSINE;
  flags->beta2 = 0.99;
  flags->weight_decay = 0.1;
  flags->clip = 1;
  flags->eval_every = 250;
  flags->eval_samples = 240;
  flags->out = "accrue-gpt";
}

static void add_options(void *self, options *o) {
  gpt_model *model = self;
  gpt_config *c = &model->config;
  const option data[] = {
      FLAG("data", OPTION_TEXT, &model->data),
      FLAG("max-bytes", OPTION_SIZE, &model->max_bytes),
      FLAG("binary", OPTION_SWITCH, &model->binary),
      FLAG("vocab", OPTION_INTEGER, &c->vocab),
  };
  const option shape[] = {
      FLAG("layers", OPTION_INTEGER, &c->layers), FLAG("heads", OPTION_INTEGER, &c->heads),
      FLAG("width", OPTION_INTEGER, &c->width),   FLAG("context", OPTION_INTEGER, &c->context),
      FLAG("dropout", OPTION_REAL, &c->dropout),
  };
  OPTIONS_ADD(o, data);
  OPTIONS_ADD(o, shape);
}

/* The shape comes from the file, unless a flag says otherwise. */
static int adopt(gpt_model *model, const options *o, const ac_model_file *init, const char *path) {
  gpt_config file, *config = &model->config;
  int status = gpt_config_read(&file, init, path);
  if (status != STATUS_CONTINUE) return status;
  if (!file.heads) {
    if (!options_given(o, "heads"))
      return fail_usage("%s does not tell its number of heads; give --heads", path);
    file.heads = config->heads;
  }
  const struct {
    const char *flag;
    int64_t given, file;
  } sizes[] = {{"layers", config->layers, file.layers},
               {"heads", config->heads, file.heads},
               {"width", config->width, file.width},
               {"vocab", config->vocab, file.vocab}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (options_given(o, sizes[i].flag) && sizes[i].given != sizes[i].file)
      return fail_usage("--%s %" PRId64 " contradicts %s, where it is %" PRId64, sizes[i].flag,
                        sizes[i].given, path, sizes[i].file);
  if (options_given(o, "context") && config->context > file.context)
    return fail_usage("--context %" PRId64 " is more than the %" PRId64 " positions of %s",
                      config->context, file.context, path);
  if (!options_given(o, "vocab") && file.vocab != BYTE_VOCAB)
    return fail_usage("%s has a vocabulary of %" PRId64 ", text as bytes one of %d; give a token "
                      "file with --vocab %" PRId64,
                      path, file.vocab, BYTE_VOCAB, file.vocab);
  model->positions = file.context;
  file.dropout = config->dropout;
  if (options_given(o, "context")) file.context = config->context; /* its first positions */
  *config = file;
  return STATUS_CONTINUE;
}

/* Whether a path is of text: a folder always is. */
static bool is_text(const char *path) {
  unsigned char start[4096];
  struct stat info;
  if (stat(path, &info) != 0 || S_ISFIFO(info.st_mode)) return false;
  if (S_ISDIR(info.st_mode)) return true;
  FILE *file = fopen(path, "rb");
  const size_t count = file ? fread(start, 1, sizeof start, file) : 0;
  if (file) fclose(file);
  const char *name = ac_format_name(start, count, (uint64_t)info.st_size);
  return name && (!strcmp(name, "text") || !strcmp(name, "JSON") || !strncmp(name, "gzip", 4));
}

/* A preset's vocabulary is that of tokens. Text has to be learned as bytes all the same. */
static void leave_preset_vocab(gpt_model *model, const options *o) {
  static bool told; /* once for all runs of a pilot */
  const model_preset *preset = preset_given(o);
  const bool proposed = options_given(o, "vocab") && !options_given_now(o, "vocab");
  if (!preset || !proposed || model->config.vocab != preset->gpt.vocab) return;
  const bool bytes = options_given(o, "max-bytes") || options_given(o, "binary");
  if (!bytes && !(model->data && is_text(model->data))) return;
  options_find(o, "vocab")->given = false;
  if (model->data && !told)
    say("%s is text, so the model learns bytes, with a vocabulary of %d instead of %" PRId64,
        model->data, BYTE_VOCAB, preset->gpt.vocab);
  told = true;
}

static int prepare(void *self, const options *o, const ac_model_file *init, const char *init_path,
                   train_data *data) {
  gpt_model *model = self;
  gpt_config *config = &model->config;
  leave_preset_vocab(model, o);
  int status = STATUS_CONTINUE;
  if (!model->data && !data->optional)
    return fail_usage("--data is missing: a text file or a folder to learn from");
  if (init && (status = adopt(model, o, init, init_path)) != STATUS_CONTINUE) return status;
  if (init) model->ends = gpt_config_read_ends(init, init_path);
  if (config->width % config->heads)
    return fail_usage("--heads %" PRId64 " does not divide --width %" PRId64, config->heads,
                      config->width);

  bool text = !options_given(o, "vocab");
  if (text) config->vocab = BYTE_VOCAB;
  if (!model->data) return STATUS_CONTINUE;
  const token_data_flags flags = {model->data, model->max_bytes, model->binary,
                                  text ? 0 : config->vocab};
  return data_open_tokens(data, &flags, config->context);
}

static void build(const void *self, ac_graph *graph) {
  gpt_build(graph, &((const gpt_model *)self)->config, true);
}

static model_growth growth(const void *self) {
  const gpt_model *model = self;
  return (model_growth){"context", 1, model->positions ? model->positions : GPT_MOST_CONTEXT};
}

static void grow(void *self, int64_t context) {
  gpt_model *model = self;
  model->config.context = context;
}

static void describe(const void *self, model_metadata *metadata) {
  const gpt_model *model = self;
  gpt_config_describe(&model->config, &model->ends, metadata);
}

static char *config_json(const void *self, const ac_trainer *trainer) {
  const gpt_model *model = self;
  (void)trainer;
  char *text = gpt_config_json(&model->config, &model->ends);
  if (!text) fail("out of memory");
  return text;
}

/* As transformers writes them, so that it also finds the tokenizer next to the new weights. */
static const char *const tokenizer_files[] = {"tokenizer.json",
                                              "tokenizer_config.json",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "merges.txt",
                                              "tokenizer.model",
                                              "generation_config.json",
                                              NULL};

const model_kind gpt_kind = {
    .name = "gpt",
    .what = "GPT-2's architecture on text or tokens",
    .note =
        "The files it writes load in Hugging Face's transformers, and weights from there start\n"
        "a run with --init.",
    .size = sizeof(gpt_model),
    .defaults = defaults,
    .add_options = add_options,
    .prepare = prepare,
    .build = build,
    .describe = describe,
    .config_json = config_json,
    .growth = growth,
    .grow = grow,
    .optional_prefix = GPT_PREFIX,
    .carried = tokenizer_files,
};
