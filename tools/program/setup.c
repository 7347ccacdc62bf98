#include "program/train_flags.h"

#include "common/device_choice.h"
#include "common/freed_memory.h"
#include "common/message.h"
#include "common/json_text.h"
#include "common/option_record.h"
#include "common/suggest.h"
#include "common/waiting.h"
#include "program/noise_words.h"
#include "program/rank_devices.h"
#include "program/run_outputs.h"
#include "program/run_record.h"
#include "program/token_budget.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const model_kind gpt_kind, llm_kind, mlp_kind, resnet_kind, mobilenet_kind,
    efficientnet_kind, vit_kind, convnext_kind, unet_kind;
const model_kind *const model_kinds[] = {
    &gpt_kind,          &llm_kind, &mlp_kind,      &resnet_kind, &mobilenet_kind,
    &efficientnet_kind, &vit_kind, &convnext_kind, &unet_kind,   NULL};

void model_metadata_add(model_metadata *metadata, const char *key, const char *format, ...) {
  size_t room = sizeof metadata->text - metadata->used;
  char *value = metadata->text + metadata->used;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(value, room, format, arguments);
  va_end(arguments);
  int capacity = (int)(sizeof metadata->entries / sizeof *metadata->entries);
  metadata->incomplete |= length < 0 || (size_t)length >= room || metadata->count == capacity;
  if (metadata->incomplete) return;
  metadata->entries[metadata->count++] = (ac_metadata){key, value};
  metadata->used += (size_t)length + 1;
}

/* ---- flags ----------------------------------------------------------------------------------- */

static const char *sentence_of(const char *verb) {
  if (!strcmp(verb, "plan")) return "Says what training would take, before it takes it.";
  if (!strcmp(verb, "verify"))
    return "Compares training as planned with training on whole batches.";
  if (!strcmp(verb, "lr-find"))
    return "Tries learning rates from low to high, and says which one suits.";
  if (!strcmp(verb, "pilot"))
    return "Makes short runs over a grid of settings, seeds and folds, and compares them.";
  return "Trains a model and saves it.";
}

int setup_help(const char *verb, help_form form) {
  char more[80];
  help h = help_begin(form, verb, "MODEL [flags]", sentence_of(verb));
  help_commands(&h, "MODELS");
  for (int i = 0; model_kinds[i]; i++)
    help_put_command(&h, model_kinds[i]->name, model_kinds[i]->what);
  snprintf(more, sizeof more, "accrue %s MODEL --help lists a model's flags.", verb);
  help_paragraph(&h, more);
  help_end(&h);
  return STATUS_DONE;
}

help_form setup_wants_help(int argc, char **argv) {
  return argc > 0 ? help_asked(argv[0]) : HELP_NONE;
}

static const model_kind *find_kind(const char *name) {
  for (int i = 0; model_kinds[i]; i++)
    if (!strcmp(model_kinds[i]->name, name)) return model_kinds[i];
  return NULL;
}

/* `dry` computes nothing: good for plans, but what it trained would be zeros. */
static int refuse_dry(const setup *s) {
  if (strcmp(s->flags.device, "dry") != 0) return STATUS_CONTINUE;
  return fail_usage("--device dry computes nothing; it is for accrue plan");
}

static bool resumes(int argc, char **argv) {
  return options_named("resume", argc, argv) || options_named("resume-or-start", argc, argv);
}

/* The record that --config names, or the record of a run to resume in its folder. */
static int read_record(setup *s, int argc, char **argv) {
  const char *config = options_value("config", argc, argv), *out = options_value("out", argc, argv);
  if (config && access(config, R_OK) != 0)
    return fail("cannot read %s: %s", config, strerror(errno));
  if (!config && !resumes(argc, argv)) return STATUS_CONTINUE;
  if (config) snprintf(s->recorded_path, sizeof s->recorded_path, "%s", config);
  else
    snprintf(s->recorded_path, sizeof s->recorded_path, "%s/run.json",
             out            ? out
             : s->flags.out ? s->flags.out
                            : "");
  return run_record_read(&s->recorded, s->recorded_path);
}

/* No word and no record names the model. */
static int lack_model(const setup *s, const char *verb, int argc, char **argv) {
  const char *out = options_value("out", argc, argv);
  if (json_object_get(s->recorded, "model"))
    return fail_usage("%s: model must be the name of a model", s->recorded_path);
  const bool by_folder =
      !s->recorded && resumes(argc, argv) && !options_named("config", argc, argv);
  if (by_folder && !strcmp(verb, "pilot"))
    return fail_usage("accrue pilot goes on with what its folder has, without --resume: repeat the "
                      "whole command that began it");
  if (!by_folder || strcmp(verb, "train") != 0)
    return fail_usage("a model is missing; accrue %s --help lists them", verb);
  if (!out)
    return fail_usage("--resume needs --out DIR, the folder of the run to resume, or the name "
                      "of its model");
  return fail_usage("%s holds no run to resume: there is no %s/run.json", out, out);
}

static int unknown_model(const setup *s, const char *name, const char *verb, bool named) {
  const char *near = suggest_model(name), *preset = model_preset_find(name) ? name : NULL;
  int least = near ? 0 : 3;
  char where[RUN_PATH_BYTES + 16] = "";
  for (int i = 0; model_kinds[i]; i++) {
    const int d = suggest_distance(name, strlen(name), model_kinds[i]->name);
    if (d < least) least = d, near = model_kinds[i]->name;
  }
  if (!named) snprintf(where, sizeof where, "%s: model: ", s->recorded_path);
  if (preset)
    return fail_usage("%sunknown model %s; did you mean %s --preset %s?", where, name,
                      model_preset_find(name)->kind, preset);
  if (near) return fail_usage("%sunknown model %s; did you mean %s?", where, name, near);
  return fail_usage("%sunknown model %s; accrue %s --help lists the models", where, name, verb);
}

/* The model's name is the first word, or comes from a record. */
static int choose_kind(setup *s, const char *verb, int *argc, char ***argv) {
  const bool named = *argc > 0 && strncmp((*argv)[0], "--", 2) != 0;
  int status = named ? STATUS_CONTINUE : read_record(s, *argc, *argv);
  if (status != STATUS_CONTINUE) return status;
  const char *name = named ? (*argv)[0] : json_string_value(json_object_get(s->recorded, "model"));
  if (!name) return lack_model(s, verb, *argc, *argv);
  if (!(s->kind = find_kind(name))) return unknown_model(s, name, verb, named);
  *argc -= named;
  *argv += named;
  return STATUS_CONTINUE;
}

static int check_model(const setup *s) {
  const json_t *value = json_object_get(s->recorded, "model");
  const char *model = json_string_value(value);
  if (!value || (model && !strcmp(model, s->kind->name))) return STATUS_CONTINUE;
  return fail_usage("%s: model is %s, but the command is for %s", s->recorded_path,
                    model ? model : "not a text", s->kind->name);
}

/* A file of flags does not say where flags come from: neither another file nor a run to resume. */
static int refuse_nested(const setup *s) {
  static const char *const names[] = {"config", "print-config", "resume", "resume-or-start"};
  const json_t *flags = json_object_get(s->recorded, "flags");
  if (options_is_record(s->recorded)) return STATUS_CONTINUE;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (json_object_get(flags ? flags : s->recorded, names[i]))
      return fail_usage("%s: %s%s belongs on the command line", s->recorded_path,
                        flags ? "flags." : "", names[i]);
  return STATUS_CONTINUE;
}

/* Of a file that people write. The record of a run has the shape itself. */
static int apply_files_preset(setup *s) {
  char where[RUN_PATH_BYTES + 32];
  const json_t *flags = json_object_get(s->recorded, "flags");
  const char *name = json_string_value(json_object_get(flags ? flags : s->recorded, "preset"));
  if (!name || options_is_record(s->recorded)) return STATUS_CONTINUE;
  snprintf(where, sizeof where, "%s: %spreset: ", s->recorded_path, flags ? "flags." : "");
  return preset_apply(&s->options, s->kind->name, name, where);
}

/* Flags of a file or a record, but for those that are given anew. */
static int restore_flags(setup *s, int argc, char **argv) {
  if (!s->words.resumes && !options_named("config", argc, argv)) return STATUS_CONTINUE;
  int status = s->recorded ? STATUS_CONTINUE : read_record(s, argc, argv);
  if (status != STATUS_CONTINUE || !s->recorded) return status;
  status = check_model(s);
  if (status == STATUS_CONTINUE) status = refuse_nested(s);
  if (status == STATUS_CONTINUE && !options_named("preset", argc, argv))
    status = apply_files_preset(s);
  const bool of_pilot = !s->words.resumes && !strcmp(s->words.verb, "train");
  if (status == STATUS_CONTINUE)
    status = options_restore(&s->options, s->recorded, s->recorded_path, of_pilot, argc, argv);
  return status;
}

static int apply_preset(setup *s, int argc, char **argv) {
  const char *name = options_value("preset", argc, argv);
  return name ? preset_apply(&s->options, s->kind->name, name, "") : STATUS_CONTINUE;
}

/* As a file that --config takes. */
static int print_config(const setup *s, int rows) {
  json_t *file = json_object();
  bool good = json_object_set_new(file, "model", json_string(s->kind->name)) == 0 &&
              options_config(&s->options, rows, "config print-config preset", file);
  char *text = good ? json_text_short(file, JSON_INDENT(2)) : NULL;
  if (text) printf("%s\n", text);
  free(text);
  json_decref(file);
  return text ? STATUS_DONE : fail("out of memory");
}

int setup_parse_words(setup *s, const setup_words *words) {
  const char *verb = words->verb;
  int argc = words->argc;
  char **argv = words->argv;
  *s = (setup){.words = *words};
  int status = choose_kind(s, verb, &argc, &argv);
  if (status != STATUS_CONTINUE) return status;
  if (!(s->model = calloc(1, s->kind->size))) return fail("out of memory");
  snprintf(s->command, sizeof s->command, "%s %s", verb, s->kind->name);
  snprintf(s->summary, sizeof s->summary, "%s\n%s is %s.%s%s", sentence_of(verb), s->kind->name,
           s->kind->what, s->kind->note ? "\n" : "", s->kind->note ? s->kind->note : "");
  s->options = (options){.command = s->command, .summary = s->summary};
  train_flags_set_defaults(s);
  train_flags_add(s);
  const int rows = s->options.count;
  if (words->more) words->more(&s->options);
  status = restore_flags(s, argc, argv);
  if (status == STATUS_CONTINUE) status = apply_preset(s, argc, argv);
  if (status == STATUS_CONTINUE) status = options_parse(&s->options, argc, argv);
  if (status == STATUS_CONTINUE) status = train_flags_check(s);
  if (status == STATUS_CONTINUE && s->flags.init) {
    status = model_path("init", s->flags.init, s->init);
    s->flags.init = s->init;
  }
  const option *row = options_find(&s->options, "policy");
  if (status == STATUS_CONTINUE)
    status = policy_read(&s->policy, row->ignored ? NULL : s->flags.policy);
  if (status == STATUS_CONTINUE && strcmp(verb, "plan") != 0) status = refuse_dry(s);
  if (status == STATUS_CONTINUE && strcmp(verb, "verify") != 0)
    status = train_flags_check_gradients(s);
  if (status == STATUS_CONTINUE && s->flags.print_config) status = print_config(s, rows);
  return status;
}

int setup_parse(setup *s, const char *verb, int argc, char **argv, void (*more)(options *o)) {
  const setup_words words = {
      .verb = verb, .resumes = !strcmp(verb, "train"), .argc = argc, .argv = argv, .more = more};
  return setup_parse_words(s, &words);
}

/* ---- what the flags ask for ------------------------------------------------------------------ */

/* The newest state of the run to resume; *file NULL: there is none. */
static int newest_state(const train_flags *f, ac_model_file **file, char path[RUN_PATH_BYTES]) {
  run_folder folder = {.lock = -1};
  *file = NULL;
  if (!f->resume || strlen(f->out) >= sizeof folder.path) return STATUS_CONTINUE;
  strcpy(folder.path, f->out);
  return run_folder_newest(&folder, file, path);
}

/* A run that began with --init has the model's shape in its states; the file may not exist any
 * more. */
static int open_data(setup *s) {
  char path[RUN_PATH_BYTES];
  const char *from = s->flags.init;
  ac_model_file *init = NULL;
  int status = from ? newest_state(&s->flags, &init, path) : STATUS_CONTINUE;
  if (status != STATUS_CONTINUE) return status;
  if (init) from = path;
  if (from && !init && ac_model_file_open(&init, from) != AC_OK) return fail_library();
  s->data.undivided = s->flags.fold != NULL;
  s->data.shared = s->words.tokens;
  run_outputs_leave_out(s);
  status = s->kind->prepare(s->model, &s->options, init, from, &s->data);
  ac_model_file_close(init);
  if (status == STATUS_CONTINUE && s->flags.fold) status = data_fold(&s->data, s->flags.fold);
  if (status == STATUS_CONTINUE) status = data_change(&s->data, &s->options);
  if (status == STATUS_CONTINUE && s->flags.rank) status = data_shard(&s->data, s->flags.rank);
  return status;
}

/* Counts the run's windows, and makes the schedule for them. */
static int make_schedule(setup *s) {
  train_flags *f = &s->flags;
  const int64_t count = ac_dataset_count(s->data.train);
  int status = batch_flag_count_tokens(&f->batches, &s->data);
  if (status == STATUS_CONTINUE)
    status = token_budget_samples(f->max_tokens, &s->data, &f->max_samples);
  if (status != STATUS_CONTINUE) return status;
  if (f->epochs > INT64_MAX / 2 / (count + 1))
    return fail_usage("--epochs %lld is more than can be counted", (long long)f->epochs);
  if (f->last_window == AC_LAST_DROP && count < f->batch)
    return fail("the %lld training samples do not fill one batch of %lld, and --last-window drop "
                "leaves nothing",
                (long long)count, (long long)f->batch);
  const ac_fit_desc fit = {.train = s->data.train,
                           .steps = f->steps,
                           .epochs = f->epochs,
                           .last_window = (ac_last_window)f->last_window,
                           .batches = f->batches.stages,
                           .batch_count = f->batches.count,
                           .growth = {.from = f->batches.grow_from}};
  const ac_status counted = ac_fit_windows(&fit, f->batch, &s->steps);
  if (counted != AC_OK) return fail_setup(counted);
  return rate_schedule(&f->rate, s->steps, &s->trainer.schedule);
}

/* Ranks of one machine share its processors. */
static int threads_of(const setup *s) {
  if (s->flags.threads || !s->words.ranks) return (int)s->flags.threads;
  return ac_ranks_threads(s->words.ranks);
}

static int open_device(setup *s) {
  const train_flags *f = &s->flags;
  s->trainer.ranks = s->words.ranks;
  s->trainer.seed = (uint64_t)f->seed;
  s->trainer.average_decay = f->ema;
  s->trainer.noise_every = f->noise_scale == NOISE_OFF ? 0 : -1;
  s->trainer.states_without_frozen = s->kind->base_apart && s->kind->base_apart(s->model);
  s->trainer.noise_layers = f->noise_layers && s->trainer.noise_every;
  s->trainer.optimizer =
      (ac_optimizer_desc){.beta1 = rate_or_off(f->beta1),
                          .beta2 = rate_or_off(f->beta2),
                          .weight_decay = f->weight_decay,
                          .momentum = rate_or_off(f->momentum),
                          .muon_no_nesterov = f->no_nesterov,
                          .muon_scale = (ac_muon_scale)f->muon_scale,
                          .adamw_rate = f->adamw_rate < 0 ? 0 : rate_or_off(f->adamw_rate),
                          .clip = f->clip};
  if (s->cache) s->device = plan_cache_device(s->cache, f->device, f->threads);
  ac_device_reset_peak(s->device); /* each run's is its own */
  if (s->device) return STATUS_CONTINUE;
  const char *name = s->words.device ? s->words.device : f->device;
  const bool several = !s->words.device && rank_devices_count(name) > 1;
  if (several && f->resume)
    return fail_usage("the run had --device %s; give --device again, with these or with others",
                      name);
  if (several)
    return fail_usage("--device %s: only accrue train takes several devices, on its command line; "
                      "give one",
                      name);
  /* One rank says what takes long. */
  ac_device_desc device = {.name = device_choose(name),
                           .threads = threads_of(s),
                           .log = ac_ranks_rank(s->words.ranks) ? NULL : waiting_log};
  const ac_status opened = ac_device_open(&s->device, &device);
  if (opened != AC_OK) return fail_setup(opened);
  if (s->cache) plan_cache_add_device(s->cache, s->device, f->device, f->threads);
  return STATUS_CONTINUE;
}

/* Usually nothing is read ahead unless it is asked for. But folded windows are: the weights of
 * losses are counted before the first micro-batch, and a batch of tokens is small. */
static bool reads_to_count(const setup *s) {
  const train_flags *f = &s->flags;
  return gradient_way_of(f->storage.gradients)->needs_weights && !f->read_ahead &&
         !options_given(&s->options, "read-ahead");
}

/* Frozen statistics are the model's. */
static ac_batch_norm_statistics statistics_of(int flag) {
  switch (flag) {
  case BATCH_NORM_EXACT:
    return AC_BATCH_NORM_EXACT;
  case BATCH_NORM_MICRO:
    return AC_BATCH_NORM_MICRO;
  default:
    return AC_BATCH_NORM_WHOLE;
  }
}

ac_plan_desc setup_plan_desc(const setup *s) {
  const train_flags *f = &s->flags;
  ac_plan_desc desc = {.purpose = AC_TRAIN,
                       .batch = f->batch,
                       .micro_batch = f->micro_batch,
                       .memory = f->memory,
                       .batch_norm = statistics_of(f->batch_norm),
                       .whole_windows = f->last_window != AC_LAST_CARRY,
                       .read_ahead = reads_to_count(s) ? 1 : (int)f->read_ahead,
                       .read_ahead_if_room =
                           !reads_to_count(s) && !options_given(&s->options, "read-ahead"),
                       .precision = (ac_precision)f->precision,
                       .debug_numerics = f->debug_numerics,
                       .recompute = (ac_recompute)f->recompute,
                       .average = f->ema > 0,
                       .frozen = f->freeze};
  desc.ranks = (int)f->ranks;
  if (s->words.ranks) {
    desc.ranks = ac_ranks_size(s->words.ranks);
    desc.rank = ac_ranks_rank(s->words.ranks);
  }
  desc.optimizer.sgd_no_momentum = f->momentum <= 0;
  desc.optimizer.clipping = (ac_clipping)f->clip_by;
  storage_describe(&f->storage, &desc);
  /* Histograms and whatever uses the noise of gradients need gradients that are kept. */
  if (f->histograms || f->batches.grow_from || f->noise_layers)
    desc.gradients = AC_GRADIENTS_BUFFER;
  return desc;
}

static ac_status build_graph(const setup *s, ac_graph **graph) {
  const ac_status status = ac_graph_create(graph);
  if (status == AC_OK) s->kind->build(s->model, *graph);
  return status;
}

static ac_status try_plan(const setup_request *request, ac_plan **plan) {
  const setup *s = request->setup;
  ac_graph *graph = NULL;
  const ac_plan_desc desc = setup_describe(request, s);
  ac_status status = build_graph(s, &graph);
  if (status == AC_OK) status = ac_plan_create(plan, graph, s->device, &desc);
  ac_graph_free(graph);
  return status;
}

/* Whether a batch that a norm keeps whole is all that is in the way. Budgets are looked at by the
 * offers. */
static bool norm_is_in_the_way(const setup_request *request, const ac_graph *graph,
                               ac_status status) {
  ac_plan_desc desc = setup_describe(request, request->setup);
  ac_plan *plan = NULL;
  if (status == AC_ERROR_BUDGET || desc.batch_norm != AC_BATCH_NORM_WHOLE) return false;
  desc.batch_norm = AC_BATCH_NORM_MICRO;
  const bool does = ac_plan_create(&plan, graph, request->setup->device, &desc) == AC_OK;
  ac_plan_free(plan);
  return does;
}

/* What the library says, with the flag that would help, and what would need less memory. */
static int refuse_plan(const setup_request *request, ac_status status) {
  ac_graph *graph = NULL;
  const int failed = fail_setup(status);
  if (build_graph(request->setup, &graph) == AC_OK) {
    if (norm_is_in_the_way(request, graph, status))
      say("--batch-norm exact splits the batch without changing results; --batch-norm micro "
          "accepts the "
          "statistics of micro-batches");
    /* Nobody sees what other ranks print. */
    if (status == AC_ERROR_BUDGET && ac_ranks_rank(request->setup->words.ranks) == 0)
      setup_print_offers(request, graph);
  }
  ac_graph_free(graph);
  return failed;
}

/* The noise of gradients is known only of windows of several micro-batches. The smallest window
 * must be such a one: unless --micro-batch is given, micro-batches are at most half of it. Several
 * ranks have one each. */
static ac_status plan_as_asked(setup_request *request, ac_plan **plan) {
  const int64_t from = request->setup->flags.batches.grow_from;
  ac_status status = try_plan(request, plan);
  if (status == AC_OK && from && !setup_describe(request, request->setup).micro_batch &&
      ac_plan_get_info(*plan)->ranks < 2 && ac_plan_get_info(*plan)->micro_batch >= from) {
    request->micro_batch = from / 2;
    ac_plan_free(*plan);
    status = try_plan(request, plan);
  }
  return status;
}

int setup_plan(const setup *s, void (*change)(ac_plan_desc *desc), ac_plan **plan) {
  setup_request request = {s, change, 0};
  const ac_status status = plan_as_asked(&request, plan);
  return status == AC_OK ? STATUS_CONTINUE : refuse_plan(&request, status);
}

ac_status setup_try_plan(const setup *s, void (*change)(ac_plan_desc *desc), ac_plan **plan) {
  return plan_as_asked(&(setup_request){s, change, 0}, plan);
}

static int open_model(setup *s, const char *verb, int argc, char **argv, void (*more)(options *o),
                      bool data_optional) {
  int status = setup_parse(s, verb, argc, argv, more);
  s->data.optional = data_optional;
  if (status == STATUS_CONTINUE) status = run_outputs_check(s);
  if (status == STATUS_CONTINUE) status = open_data(s);
  if (status == STATUS_CONTINUE) status = open_device(s);
  return status;
}

int setup_open_model(setup *s, const char *verb, int argc, char **argv, void (*more)(options *o)) {
  return open_model(s, verb, argc, argv, more, true);
}

int setup_open_with_data(setup *s, const char *verb, int argc, char **argv,
                         void (*more)(options *o)) {
  return open_model(s, verb, argc, argv, more, false);
}

/* A run that is resumed keeps its micro-batch, as others round in another way; unless it does not
 * fit any more. */
static int plan_to_go_on(setup *s) {
  const train_flags *f = &s->flags;
  char path[RUN_PATH_BYTES];
  if (!f->resume || options_given(&s->options, "micro-batch")) return STATUS_CONTINUE;
  setup_request request = {s, NULL, 0};
  ac_model_file *state;
  int status = newest_state(f, &state, path);
  ac_state_info info;
  if (state && ac_state_get_info(state, &info) == AC_OK && info.batch == f->batch)
    request.micro_batch = info.micro_batch;
  ac_model_file_close(state);
  if (status != STATUS_CONTINUE) return status;
  if (!request.micro_batch || try_plan(&request, &s->plan) == AC_OK) return STATUS_CONTINUE;
  say("the run's micro-batch of %lld cannot be used any more (%s); another one is planned",
      (long long)request.micro_batch, ac_last_error());
  return STATUS_CONTINUE;
}

/* A plan from the cache, or a new one for the cache. */
static int make_plan(setup *s) {
  const bool shares = s->cache && s->cache->device == s->device;
  if (shares) s->plan = plan_cache_find(s->cache, &s->options);
  s->plan_is_shared = s->plan != NULL;
  if (s->plan) return STATUS_CONTINUE;
  const int status = setup_plan(s, NULL, &s->plan);
  s->plan_is_shared =
      shares && status == STATUS_CONTINUE && plan_cache_add(s->cache, &s->options, s->plan);
  return status;
}

/* With folded gradients, the weight of a window's tokens is counted before its first micro-batch.
 */
static int check_counting(const setup *s) {
  const ac_plan_info *info = ac_plan_get_info(s->plan);
  const gradient_way *way = gradient_way_of(info->gradients);
  if (!way->needs_weights || info->read_ahead || !s->data.tokens_per_sample ||
      info->micro_batch == info->batch)
    return STATUS_CONTINUE;
  return fail_usage("--gradients %s in micro-batches needs whole batches read ahead, to count "
                    "their tokens first; leave out --read-ahead 0, or give --micro-batch %lld",
                    way->name, (long long)info->batch);
}

int setup_open(setup *s, const setup_words *words, plan_cache *cache,
               int (*check)(const train_flags *f)) {
  int status = setup_parse_words(s, words);
  s->cache = cache;
  if (status == STATUS_CONTINUE) status = run_outputs_check(s);
  if (status == STATUS_CONTINUE && check) status = check(&s->flags);
  if (status == STATUS_CONTINUE) status = open_data(s);
  if (status == STATUS_CONTINUE) status = make_schedule(s);
  if (status == STATUS_CONTINUE)
    status = policy_check_run(&s->policy, &s->flags, &s->trainer, s->steps);
  if (status == STATUS_CONTINUE) status = open_device(s);
  if (status == STATUS_CONTINUE) status = plan_to_go_on(s);
  if (status == STATUS_CONTINUE && !s->plan) status = make_plan(s);
  if (status == STATUS_CONTINUE) status = check_counting(s);
  if (status == STATUS_CONTINUE)
    status = policy_check_memory(&s->policy, ac_plan_get_info(s->plan));
  freed_memory_return();
  return status;
}

model_files setup_files(const setup *s) {
  static const model_files usual = {"model.safetensors", "config.json"};
  return s->kind->files ? s->kind->files(s->model) : usual;
}

int setup_load(const setup *s, ac_trainer *trainer) {
  return s->kind->load ? s->kind->load(s->model, trainer) : STATUS_CONTINUE;
}

static bool trainer_has(const void *trainer, const char *name) {
  return ac_trainer_find_parameter(trainer, name) >= 0;
}

int setup_check_init(const setup *s, const ac_trainer *trainer) {
  if (!s->flags.init || !s->kind->check_file) return STATUS_CONTINUE;
  return s->kind->check_file(s->model, trainer_has, trainer, s->flags.init);
}

ac_status setup_take_init(const setup *s, ac_trainer *trainer) {
  const char *path = s->flags.init, *prefix = s->kind->optional_prefix;
  const char *taken = path && s->kind->taken ? s->kind->taken(s->model) : NULL;
  if (!path) return AC_OK;
  const ac_status status = taken ? ac_trainer_load_part(trainer, path, taken, prefix)
                                 : ac_trainer_load(trainer, path, prefix);
  const model_made made = s->kind->made ? s->kind->made(s->model) : (model_made){0};
  if (status != AC_OK || !made.name) return status;
  return ac_trainer_set_parameter(trainer, ac_trainer_find_parameter(trainer, made.name), 0,
                                  made.count, made.data);
}

int setup_load_init(const setup *s, ac_trainer *trainer) {
  const int status = setup_check_init(s, trainer);
  if (status != STATUS_CONTINUE) return status;
  return setup_take_init(s, trainer) == AC_OK ? STATUS_CONTINUE : fail_library();
}

void setup_close(setup *s) {
  if (s->model && s->kind->close) s->kind->close(s->model);
  json_decref(s->recorded);
  if (!s->plan_is_shared) ac_plan_free(s->plan);
  if (!s->cache || s->cache->device != s->device) ac_device_close(s->device);
  data_close(&s->data);
  free(s->model);
}
