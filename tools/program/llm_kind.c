/* `accrue train llm`: fine-tunes a language model that others have trained: an adapter of frozen
 * weights, or all weights. */
#include "program/llm_kind.h"

#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_CONTEXT = 1024, MOST_CONTEXT = 1 << 24 };

static void defaults(void *self, train_flags *flags) {
  llm_model *model = self;
  model->rank = 16;
  model->held_out = 0.05;
  model->beta = 0.1;
  flags->batch = 8;
  flags->epochs = 1;
  flags->precision = AC_PRECISION_BF16;
  flags->rate.lr = 2e-4;
  flags->rate.schedule = AC_SCHEDULE_COSINE;
  flags->beta2 = 0.999;
  flags->clip = 1;
  flags->eval_every = 50;
  flags->eval_samples = 64;
  flags->out = "accrue-llm";
}

static void add_options(void *self, options *o) {
  llm_model *model = self;
  const option source[] = {
      FLAG("model", OPTION_TEXT, &model->path),
      FLAG("base", OPTION_CHOICE, &model->base),
      FLAG("context", OPTION_INTEGER, &model->context),
  };
  const option objective[] = {
      FLAG("objective", OPTION_CHOICE, &model->objective),
      FLAG("beta", OPTION_REAL, &model->beta),
      FLAG("label-smoothing", OPTION_REAL, &model->label_smoothing),
  };
  const option adapter[] = {
      FLAG("adapter", OPTION_TEXT, &model->adapter),
      FLAG("lora", OPTION_INTEGER, &model->rank),
      FLAG("lora-alpha", OPTION_REAL, &model->alpha),
      FLAG("lora-dropout", OPTION_REAL, &model->dropout),
      FLAG("lora-targets", OPTION_TEXT, &model->targets),
      FLAG("rslora", OPTION_SWITCH, &model->rslora),
      FLAG("dora", OPTION_SWITCH, &model->dora),
  };
  const option data[] = {
      FLAG("data", OPTION_TEXT, &model->data),
      FLAG("template", OPTION_TEXT, &model->chat_template),
      FLAG("learn", OPTION_CHOICE, &model->learn),
      FLAG("no-pack", OPTION_SWITCH, &model->no_pack),
      FLAG("drop-long", OPTION_SWITCH, &model->drop_long),
      FLAG("held-out", OPTION_REAL, &model->held_out),
  };
  OPTIONS_ADD_FILED(o, source);
  OPTIONS_ADD_FILED(o, objective);
  OPTIONS_ADD_FILED(o, adapter);
  OPTIONS_ADD_FILED(o, data);
}

/* ---- flags ----------------------------------------------------------------------------------- */

/* Of a model that trains all weights. */
static int check_full(const llm_model *model, const options *o) {
  static const char *const of_adapters[] = {"lora-alpha", "lora-dropout", "lora-targets", "rslora",
                                            "dora"};
  for (size_t i = 0; i < sizeof of_adapters / sizeof *of_adapters; i++)
    if (options_given_now(o, of_adapters[i]))
      return fail_usage("--%s has no meaning with --lora 0, which trains the weights themselves",
                        of_adapters[i]);
  if (model->base)
    return fail_usage(
        "--base is how weights are kept that do not change, and --lora 0 trains them; "
        "see --weights");
  return STATUS_CONTINUE;
}

/* Of preferences. */
static int check_dpo(const llm_model *model, const options *o) {
  static const char *const of_samples[] = {"no-pack", "learn"};
  if (!model->rank)
    return fail_usage("--objective dpo compares the model with its adapter and without, and "
                      "--lora 0 makes none");
  for (size_t i = 0; i < sizeof of_samples / sizeof *of_samples; i++)
    if (options_given_now(o, of_samples[i]))
      return fail_usage("--%s has no meaning with --objective dpo: a sample is a pair, and its "
                        "answers are learned",
                        of_samples[i]);
  return STATUS_CONTINUE;
}

static int check_base(const llm_model *model, const train_flags *flags) {
  const bool bf16 = flags->precision == AC_PRECISION_BF16;
  if (model->base == BASE_F32 && flags->precision != AC_PRECISION_F32)
    return fail_usage("--base f32 needs --precision f32");
  if (model->base == BASE_BF16 && !bf16) return fail_usage("--base bf16 needs --precision bf16");
  return STATUS_CONTINUE;
}

static int check(void *self, const options *o, train_flags *flags) {
  llm_model *model = self;
  const bool small = !model->rank || model->objective == OBJECTIVE_DPO;
  if (small && !options_given(o, "lr")) flags->rate.lr = 2e-5;
  model->weights_in_16_bits = flags->storage.weights == AC_WEIGHTS_BF16;
  model->lora = (ac_lora_desc){.rank = model->rank,
                               .alpha = model->alpha > 0 ? model->alpha : 2 * (double)model->rank,
                               .dropout = model->dropout,
                               .rank_stabilised = model->rslora,
                               .dora = model->dora,
                               .targets = model->targets};
  int status = model->objective == OBJECTIVE_DPO ? check_dpo(model, o) : STATUS_CONTINUE;
  if (status == STATUS_CONTINUE)
    status = model->rank ? check_base(model, flags) : check_full(model, o);
  return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

static model_growth growth(const void *self) {
  const llm_model *model = self;
  const int64_t most = model->info.positions;
  return (model_growth){"context", 1, most ? most : MOST_CONTEXT};
}

static void grow(void *self, int64_t context) {
  llm_model *model = self;
  model->context = context;
}

static int check_context(llm_model *model) {
  const int64_t most = model->info.positions;
  if (!model->context) model->context = most && most < USUAL_CONTEXT ? most : USUAL_CONTEXT;
  if (!most || model->context <= most) return STATUS_CONTINUE;
  return fail_usage("--context %" PRId64 " is more than the %" PRId64 " positions of %s",
                    model->context, most, model->path);
}

/* What an adapter says itself is not said by flags as well. */
static int check_adapter(const llm_model *model, const options *o) {
  static const char *const own[] = {"lora", "lora-alpha", "lora-targets", "rslora", "dora"};
  for (size_t i = 0; !model->evaluates && i < sizeof own / sizeof *own; i++)
    if (options_given_now(o, own[i]))
      return fail_usage("--%s has no meaning with %s, an adapter that says itself what it is like",
                        own[i], model->found.adapter);
  return STATUS_CONTINUE;
}

static int open_adapter(llm_model *model, const options *o) {
  const double dropout = model->dropout;
  const int status = check_adapter(model, o);
  if (status != STATUS_CONTINUE) return status;
  if (ac_adapter_open(&model->saved, model->found.adapter) != AC_OK) return fail_library();
  language_model_compare_base(model->found.adapter, model->found.base);
  model->lora = *ac_adapter_desc(model->saved);
  if (options_given(o, "lora-dropout")) model->lora.dropout = dropout;
  model->rank = model->lora.rank; /* or another: each layer has its own */
  model->targets = NULL;
  return STATUS_CONTINUE;
}

/* The base, and the adapter that training begins with. */
static int find_model(llm_model *model) {
  const int status = language_model_find("model", model->path, &model->found);
  if (status != STATUS_CONTINUE || !model->adapter) return status;
  if (*model->found.adapter)
    return fail_usage("--model %s is an adapter already; leave out --adapter, or give its base",
                      model->path);
  if (strlen(model->adapter) >= sizeof model->found.adapter)
    return fail_usage("--adapter is not a path");
  strcpy(model->found.adapter, model->adapter);
  return STATUS_CONTINUE;
}

static int open_model(llm_model *model, const options *o, bool optional) {
  model->evaluates = !options_find(o, "lora");
  if (!model->path)
    return fail_usage("--model is missing: a folder of Hugging Face's form, or a GGUF file");
  int status = find_model(model);
  if (status != STATUS_CONTINUE) return status;
  if (ac_model_open(&model->model, model->found.base) != AC_OK) return fail_library();
  ac_model_get_info(model->model, &model->info);
  if (!model->info.weights && !optional)
    return fail("%s has a configuration and no weights, which is enough for accrue plan alone",
                model->path);
  if (!optional) status = language_model_fingerprint(model->found.base, model->fingerprint);
  if (status == STATUS_CONTINUE && *model->found.adapter) status = open_adapter(model, o);
  return status == STATUS_CONTINUE ? check_context(model) : status;
}

/* As the file has it, unless all weights are trained. */
static bool is_as_in_file(const llm_model *model) {
  return model->base == BASE_FILE && (model->rank > 0 || model->evaluates);
}

static ac_blocks blocks_of(const llm_model *model) {
  static const ac_blocks blocks[] = {AC_BLOCKS_Q8_0, AC_BLOCKS_Q4_0, AC_BLOCKS_Q4_1, AC_BLOCKS_NF4};
  return model->base < BASE_BLOCKS ? AC_BLOCKS_NONE : blocks[model->base - BASE_BLOCKS];
}

static void build(const void *self, ac_graph *graph) {
  const llm_model *model = self;
  const bool dpo = model->objective == OBJECTIVE_DPO;
  const ac_model_graph_desc desc = {.context = model->context,
                                    .packed = !dpo,
                                    .weighted = !dpo,
                                    .dpo = dpo ? &model->dpo : NULL,
                                    .frozen = model->rank > 0 || model->evaluates,
                                    .base = blocks_of(model),
                                    .base_as_in_file = is_as_in_file(model),
                                    .lora = model->rank ? &model->lora : NULL};
  ac_model_build(model->model, graph, &desc);
}

/* Patterns that match nothing are a mistake of the user's. */
static int check_targets(const llm_model *model) {
  ac_graph *graph = NULL;
  bool any = false;
  if (!model->targets) return STATUS_CONTINUE;
  if (ac_graph_create(&graph) != AC_OK) return fail_library();
  build(model, graph);
  for (int i = 0; i < ac_graph_parameter_count(graph) && !any; i++) {
    ac_tensor_info info;
    any = ac_graph_parameter(graph, i, &info) == AC_OK && strstr(info.name, ".lora_");
  }
  const bool failed = ac_graph_status(graph) != AC_OK;
  ac_graph_free(graph);
  if (failed) return fail_library();
  return any ? STATUS_CONTINUE
             : fail_usage("--lora-targets %s: no linear layer of the blocks has such a name; "
                          "accrue plan --names lists them",
                          model->targets);
}

/* What evaluates a model takes all documents, unless it is to divide them as training does. */
static void choose_share(llm_model *model, const options *o) {
  const option *split = options_find(o, "split");
  const bool all = split && (!split->given || *(const int *)split->value == 2);
  if (all) model->held_out = 0;
}

static int prepare(void *self, const options *o, const ac_model_file *init, const char *init_path,
                   train_data *data) {
  llm_model *model = self;
  (void)init, (void)init_path;
  int status = open_model(model, o, data->optional);
  if (status != STATUS_CONTINUE) return status;
  choose_share(model, o);
  if (model->objective == OBJECTIVE_DPO && model->evaluates && !model->saved)
    return fail_usage("--objective dpo compares a model with its adapter and without, and %s has "
                      "none",
                      model->path);
  model->dpo = (ac_dpo_desc){(float)model->beta, (float)model->label_smoothing};
  status = check_targets(model);
  if (status != STATUS_CONTINUE) return status;
  if (!model->data && !data->optional)
    return fail_usage("--data is missing: a JSONL file, or a folder or file of text");
  return model->data ? llm_open_data(model, data) : STATUS_CONTINUE;
}

static int load(void *self, ac_trainer *trainer) {
  llm_model *model = self;
  ac_status status = ac_model_load(model->model, trainer);
  if (status == AC_OK && model->saved) status = ac_adapter_load(model->saved, trainer);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

static int load_session(void *self, ac_session *session) {
  llm_model *model = self;
  ac_status status = ac_model_load_session(model->model, session);
  if (status == AC_OK && model->saved) status = ac_adapter_load_session(model->saved, session);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

static ac_status judge(const void *self, ac_session *session, ac_dataset *dataset,
                       ac_stop_callback stop, void *user, ac_evaluation *result, double *plain,
                       bool *done) {
  const llm_model *model = self;
  *done = model->choices.count > 0;
  if (!*done) return AC_OK;
  return llm_choices_evaluate(&model->choices, session, dataset, stop, user, result, plain);
}

static bool base_apart(const void *self) {
  return ((const llm_model *)self)->rank > 0;
}

static void close_model(void *self) {
  llm_model *model = self;
  ac_chat_free(model->chat);
  llm_choices_free(&model->choices);
  ac_adapter_close(model->saved);
  ac_model_free(model->model);
}

/* ---- what is said of it ---------------------------------------------------------------------- */

static const char *base_name(const llm_model *model) {
  static const char *const names[] = {"file", "f32", "bf16", "q8_0", "q4_0", "q4_1", "nf4"};
  return names[model->base];
}

static void describe(const void *self, model_metadata *metadata) {
  const llm_model *model = self;
  model_metadata_add(metadata, "accrue.model", "llm");
  model_metadata_add(metadata, "accrue.base", "%s", model->fingerprint);
  model_metadata_add(metadata, "accrue.context", "%" PRId64, model->context);
  model_metadata_add(metadata, "accrue.lora", "%" PRId64, model->rank);
  model_metadata_add(metadata, "accrue.objective", "%s",
                     model->objective == OBJECTIVE_DPO ? "dpo" : "next-token");
  if (!model->rank) return;
  model_metadata_add(metadata, "accrue.base_storage", "%s", base_name(model));
  model_metadata_add(metadata, "accrue.lora_alpha", "%.17g", model->lora.alpha);
  model_metadata_add(metadata, "accrue.lora_targets", "%s", model->targets ? model->targets : "");
  model_metadata_add(metadata, "accrue.lora_scaling", "%s", model->rslora ? "sqrt" : "rank");
  model_metadata_add(metadata, "accrue.dora", "%d", model->dora);
  if (model->objective != OBJECTIVE_DPO) return;
  model_metadata_add(metadata, "accrue.beta", "%.17g", model->beta);
  model_metadata_add(metadata, "accrue.label_smoothing", "%.17g", model->label_smoothing);
}

static json_t *record(const void *self) {
  const llm_model *model = self;
  return json_pack("{s:s, s:s, s:s, s:I}", "path", model->found.base, "fingerprint",
                   model->fingerprint, "family", model->info.family, "parameters",
                   (json_int_t)model->info.parameters);
}

/* "134.5 million" */
static void put_millions(char text[32], int64_t count) {
  if (count < 100000) snprintf(text, 32, "%s", text_count(count).text);
  else if (count < 9950000000)
    snprintf(text, 32, "%.*f million", count < 99950000 ? 1 : 0, (double)count / 1e6);
  else snprintf(text, 32, "%.1f billion", (double)count / 1e9);
}

static int64_t count_trained(const ac_plan *plan) {
  ac_plan_parameter p;
  int64_t trained = 0;
  for (int i = 0; ac_plan_get_parameter(plan, i, &p) == AC_OK; i++) {
    int64_t count = p.trained;
    for (int d = 0; d < p.tensor.rank; d++) count *= p.tensor.shape[d];
    trained += count;
  }
  return trained;
}

static void say_model(const llm_model *model, const ac_plan *plan) {
  char all[32], part[32];
  const int64_t trained = count_trained(plan);
  put_millions(all, model->info.parameters);
  put_millions(part, trained);
  if (model->rank)
    say("%s: %s, %s weights, frozen; adapters of rank %" PRId64 "%s%s with %s more are trained "
        "(%.2g %%)",
        model->saved && !model->adapter ? model->found.base : model->path, model->info.family, all,
        model->rank, model->saved ? " of " : "", model->saved ? model->found.adapter : "", part,
        100 * (double)trained / (double)model->info.parameters);
  else say("%s: %s, %s weights, %s of them trained", model->path, model->info.family, all, part);
}

/* "; 3 documents are cut at the context": what is not learned as it is, is never silent. */
static void say_losses(const ac_chat_info *info, int64_t context) {
  if (info->unlearned)
    say("%s document%s left out, as nothing in %s is learned", text_count(info->unlearned).text,
        info->unlearned == 1 ? " is" : "s are", info->unlearned == 1 ? "it" : "them");
  if (info->dropped)
    say("%s document%s left out, as longer than a context of %" PRId64,
        text_count(info->dropped).text, info->dropped == 1 ? " is" : "s are", context);
  if (info->cut)
    say("%s document%s cut at a context of %" PRId64 ", and %s tokens with that; the longest has "
        "%s",
        text_count(info->cut).text, info->cut == 1 ? " is" : "s are", context,
        text_count(info->cut_tokens).text, text_count(info->longest).text);
}

/* A pair is two documents. */
static void say_pairs(const llm_model *model, const ac_chat_info *info) {
  const int64_t pairs = (info->train.documents + info->validation.documents) / 2,
                learned = info->train.learned + info->validation.learned;
  say("%s: %s pair%s of answers, %s tokens of them learned; %s train and %s validate, with a "
      "context of %" PRId64 "; the reference is the model without its adapters",
      model->data, text_count(pairs).text, pairs == 1 ? "" : "s", text_count(learned).text,
      text_count(info->train.samples).text, text_count(info->validation.samples).text,
      model->context);
  say_losses(info, model->context);
}

static void say_data(const llm_model *model) {
  ac_chat_info info;
  ac_chat_get_info(model->chat, &info);
  if (model->objective == OBJECTIVE_DPO) {
    say_pairs(model, &info);
    return;
  }
  const int64_t documents = info.train.documents + info.validation.documents,
                tokens = info.train.tokens + info.validation.tokens,
                learned = info.train.learned + info.validation.learned;
  say("%s: %s document%s, %s tokens, %s of them learned; %s samples of %" PRId64 " train and "
      "%s validate",
      model->data, text_count(documents).text, documents == 1 ? "" : "s", text_count(tokens).text,
      text_count(learned).text, text_count(info.train.samples).text, model->context,
      text_count(info.validation.samples).text);
  say_losses(&info, model->context);
}

/* For a result: in one line. */
static void put_data(const void *self, bool train, bool validation) {
  const llm_model *model = self;
  if (model->choices.count) {
    printf("data         %s questions with %s answers\n", text_count(model->choices.questions).text,
           text_count(model->choices.count).text);
    return;
  }
  ac_chat_info info;
  ac_chat_get_info(model->chat, &info);
  const ac_chat_side none = {0}, *a = train ? &info.train : &none,
                     *b = validation ? &info.validation : &none;
  if (model->objective == OBJECTIVE_DPO) {
    printf("data         %s pairs of answers, %s tokens of them predicted\n",
           text_count(a->samples + b->samples).text, text_count(a->learned + b->learned).text);
    return;
  }
  printf("data         %s documents, %s tokens, %s of them predicted\n",
         text_count(a->documents + b->documents).text, text_count(a->tokens + b->tokens).text,
         text_count(a->learned + b->learned).text);
}

static void introduce(const void *self, const ac_plan *plan) {
  say_model(self, plan);
  say_data(self);
}

const model_kind llm_kind = {
    .name = "llm",
    .what = "a language model of others, fine-tuned",
    .note = "It takes a folder as Hugging Face's transformers has it, or a GGUF file, and trains\n"
            "adapters (LoRA) of its frozen weights, or the weights themselves.",
    .size = sizeof(llm_model),
    .defaults = defaults,
    .add_options = add_options,
    .prepare = prepare,
    .build = build,
    .describe = describe,
    .config_json = llm_config_json,
    .check = check,
    .introduce = introduce,
    .load = load,
    .load_session = load_session,
    .judge = judge,
    .put_data = put_data,
    .base_apart = base_apart,
    .files = llm_files,
    .save = llm_save,
    .carry = llm_carry,
    .record = record,
    .growth = growth,
    .grow = grow,
    .close = close_model,
};
