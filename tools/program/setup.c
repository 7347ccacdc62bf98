#include "program/setup.h"

#include "common/message.h"
#include "common/option_record.h"
#include "common/waiting.h"
#include "program/noise_words.h"
#include "program/run_record.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const model_kind gpt_kind, mlp_kind, resnet_kind, mobilenet_kind;
const model_kind *const model_kinds[] = {&gpt_kind, &mlp_kind, &resnet_kind, &mobilenet_kind, NULL};

void model_metadata_add(model_metadata *metadata, const char *key, const char *format, ...) {
  size_t room = sizeof metadata->text - metadata->used;
  char *value = metadata->text + metadata->used;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(value, room, format, arguments);
  va_end(arguments);
  int capacity = (int)(sizeof metadata->entries / sizeof *metadata->entries);
  if (length < 0 || (size_t)length >= room || metadata->count == capacity) return;
  metadata->entries[metadata->count++] = (ac_metadata){key, value};
  metadata->used += (size_t)length + 1;
}

/* ---- flags ----------------------------------------------------------------------------------- */

static void set_defaults(setup *s) {
  s->flags = (train_flags){.beta1 = 0.9,
                           .momentum = 0.9,
                           .adamw_rate = -1,
                           .seed = 1,
                           .device = "auto",
                           .loader_threads = 1,
                           .save_minutes = 10,
                           .keep = 2,
                           .grace = 5,
                           .eval_every = 0};
  loss_scale_defaults(&s->flags.loss_scale);
  rate_defaults(&s->flags.rate);
  s->kind->defaults(s->model, &s->flags);
  s->flags.batches.given.number = s->flags.batch;
}

static void add_options(setup *s) {
  train_flags *f = &s->flags;
  const option training[] = {
      {"batch", "N[@FROM],N@FROM,...", OPTION_STAGES, &f->batches.given,
       .help = "samples an update (the effective batch), or by stages, from an update (500), an "
               "epoch (2ep), a number of tokens (10Mtok) or samples (50000samples) on",
       .least = 1, .most = 1 << 30},
      {"steps", "N", OPTION_INTEGER, &f->steps, .help = "updates to make",
       .fallback = f->steps ? NULL : "by epochs", .least = 1},
      {"epochs", "N", OPTION_INTEGER, &f->epochs, .help = "passes over the data instead",
       .fallback = f->epochs ? NULL : "by steps", .least = 1},
      {"freeze", "PATTERNS", OPTION_TEXT, &f->freeze,
       .help =
           "names of parameters that stay as they are: '*.wte.*,*.h.[0-5].*'; without gradients "
           "and state",
       .fallback = "none"},
      {"beta1", "X", OPTION_REAL, &f->beta1, .help = "of adamw, lion, muon and adam-mini",
       .least = 0, .most = 1, .below_most = true},
      {"beta2", "X", OPTION_REAL, &f->beta2, .help = "of adamw, lion, muon and adam-mini",
       .least = 0, .most = 1, .below_most = true},
      {"momentum", "X", OPTION_REAL, &f->momentum, .help = "of sgd; of muon, unless given, 0.95",
       .least = 0, .most = 1, .below_most = true},
      {"no-nesterov", NULL, OPTION_SWITCH, &f->no_nesterov,
       .help = "muon's momentum does not look ahead"},
      {"muon-scale", "adamw|original", OPTION_CHOICE, &f->muon_scale,
       .help = "steps as large as adamw's, with its --lr, or its author's, with some 0.02"},
      {"adamw-rate", "X", OPTION_REAL, &f->adamw_rate,
       .help = "part of --lr with which muon leaves parameters to adamw",
       .fallback = "1, with the original scale 0.015", .least = 0},
      {"weight-decay", "X", OPTION_REAL, &f->weight_decay, .help = "of matrices"},
      {"clip", "X", OPTION_REAL, &f->clip,
       .help = "largest norm of the gradient, with fused-local of each weight's; 0: none"},
      {"clip-by", "norm|each|value|adaptive", OPTION_CHOICE, &f->clip_by,
       .help = "what --clip limits: the norm of all gradients, of each weight's, each number, or "
               "the norm of each output's by that of its weights (AGC, say 0.01)"},
      {"group", "PATTERNS:SETTINGS", OPTION_LIST, &f->groups.list,
       .help =
           "parameters with settings of their own: '*.bias:decay=0', '*.h.0.*:lr=0.1,clip=1' (lr: "
           "part of --lr); several times for several groups, of which the first counts",
       .fallback = "none"},
      {"ema", "X", OPTION_REAL, &f->ema,
       .help = "moving average of weights, of which an update leaves X, such as 0.999: validated "
               "too, and saved as average.safetensors",
       .fallback = "none", .least = 0, .most = 1, .below_most = true},
      {"last-window", "update|carry|drop", OPTION_CHOICE, &f->last_window,
       .help = "what becomes of samples that do not fill a batch"},
      {"eval-every", "N", OPTION_INTEGER, &f->eval_every,
       .help = "updates between validations; 0: only at the end"},
      {"eval-samples", "N", OPTION_INTEGER, &f->eval_samples,
       .help = "in each validation but the last; 0: all"},
      {"patience", "N", OPTION_INTEGER, &f->patience,
       .help = "validations in a row that may be no better before training ends early",
       .fallback = "any number", .least = 1},
      {"patience-gain", "X", OPTION_REAL, &f->patience_gain,
       .help = "nats by which the loss of a better one is lower", .least = 0},
      {"rank", "I/N", OPTION_TEXT, &f->rank,
       .help = "train on the share of process I of N (0/N to (N-1)/N)", .fallback = ""},
      {"seed", "N", OPTION_INTEGER, &f->seed, .help = "of initial weights, order and dropout"},
  };
  const option run[] = {
      OPTION_DEVICE(&f->device),
      OPTION_THREADS(&f->threads),
      {"memory", "SIZE", OPTION_SIZE, &f->memory, .help = "budget for everything on the device",
       .fallback = "what it has"},
      {"micro-batch", "N", OPTION_INTEGER, &f->micro_batch, .help = "samples at a time",
       .fallback = "planned", .least = 1, .most = 1 << 30},
      {"read-ahead", "N", OPTION_INTEGER, &f->read_ahead,
       .help = "batches read while the device works; 0: none",
       .fallback = f->read_ahead ? "1, or none where --memory has no room" : NULL, .least = 0,
       .most = 32},
      {"loader-threads", "N", OPTION_INTEGER, &f->loader_threads, .help = "that read them",
       .least = 1, .most = 64},
      {"batch-norm", "whole|micro", OPTION_CHOICE, &f->batch_norm,
       .help = "keep batches whole where batch norm sees them, or accept micro-batches"},
      {"precision", "f32|f16|bf16", OPTION_CHOICE, &f->precision, .help = "storage of activations"},
      {"debug-numerics", NULL, OPTION_SWITCH, &f->debug_numerics,
       .help = "count what 16 bits lose, by layer; slow"},
      {"recompute", "auto|none|all", OPTION_CHOICE, &f->recompute,
       .help = "activations in the backward pass"},
      {"init", "FILE", OPTION_TEXT, &f->init, .help = "start from these weights (safetensors)",
       .fallback = ""},
      {"out", "DIR", OPTION_TEXT, &f->out, .help = "folder for model.safetensors"},
      {"metrics", "FILE", OPTION_TEXT, &f->metrics, .help = "one JSON object a line",
       .fallback = ""},
      {"tensorboard", "DIR", OPTION_TEXT, &f->tensorboard,
       .help = "the same for TensorBoard, as an event file in this folder", .fallback = ""},
      {"noise-scale", "auto|on|off", OPTION_CHOICE, &f->noise_scale,
       .help = "measure from which batch on gradients agree, in at most 1 % of the time, where "
               "batches are several micro-batches; on: say why, where that cannot be"},
      {"histograms", "N", OPTION_INTEGER, &f->histograms,
       .help = "updates between histograms of weights and gradients for --tensorboard",
       .fallback = "none", .least = 1},
  };
  const option limits[] = {
      {"max-minutes", "X", OPTION_REAL, &f->max_minutes,
       .help = "the run pauses after the window in which they are over; --resume goes on",
       .fallback = "none", .above_least = true},
      {"policy", "FILE", OPTION_TEXT, &f->policy, .help = "rules that a run must keep to, as JSON",
       .fallback = ""},
  };
  const option state[] = {
      {"resume", NULL, OPTION_SWITCH, &f->resume,
       .help = "go on with the newest state in --out, with the flags of then"},
      {"save-every", "N", OPTION_INTEGER, &f->save_every, .help = "updates between states in --out",
       .fallback = "by minutes", .least = 1},
      {"save-minutes", "X", OPTION_REAL, &f->save_minutes,
       .help = "minutes between them; 0: only where --save-every says so, and at the end"},
      {"keep", "N", OPTION_INTEGER, &f->keep, .help = "states that stay; 0: none is saved",
       .least = 0, .most = 1000},
      {"keep-best", NULL, OPTION_SWITCH, &f->keep_best,
       .help = "the model of the least validation loss is the one that is left"},
      {"grace", "X", OPTION_REAL, &f->grace,
       .help = "seconds: where windows take longer, one that is stopped is saved half done"},
      {"config", "FILE", OPTION_TEXT, &f->config, .help = "take flags from a run's run.json",
       .fallback = ""},
  };
  s->kind->add_options(s->model, &s->options);
  if (s->kind->add_training_options) s->kind->add_training_options(s->model, &s->options);
  const option fold[] = {
      {"fold", "I/K", OPTION_TEXT, &f->fold,
       .help = "of K folds of the training data, I validates (1/K to K/K), the others train",
       .fallback = ""}};
  OPTIONS_ADD(&s->options, "Training", training);
  OPTIONS_ADD(&s->options, "Training", fold);
  storage_add_options(&f->storage, &s->options);
  rate_add_options(&f->rate, &s->options);
  loss_scale_add_options(&f->loss_scale, &s->options);
  OPTIONS_ADD(&s->options, "Run", run);
  OPTIONS_ADD(&s->options, "State", state);
  OPTIONS_ADD(&s->options, "Limits", limits);
}

/* What does not matter to a verb stays accepted, so that the flags of `accrue train` can be handed
 * on whole. A plan has to do with neither the values that are computed nor the order of samples;
 * verifying makes a few updates at the full rate, and runs again what overflows; a range test has
 * rates of its own. */
static void ignore_options(options *o, const char *verb) {
  if (!strcmp(verb, "train")) return;
  if (!strcmp(verb, "pilot")) {
    options_ignore(o, "metrics tensorboard histograms resume keep keep-best");
    return;
  }
  options_ignore(o, RATE_SCHEDULE_FLAGS);
  if (!strcmp(verb, "plan"))
    options_ignore(
        o, "label-smoothing shift flip rotation scaling erase steps epochs lr "
           "beta1 beta2 no-nesterov muon-scale adamw-rate weight-decay clip group eval-every "
           "eval-samples patience patience-gain seed "
           "loss-scale loss-scale-init loss-scale-growth loss-scale-interval "
           "loss-scale-backoff loss-scale-floor replay loader-threads out metrics "
           "tensorboard histograms noise-scale resume save-every save-minutes keep keep-best "
           "grace max-minutes policy");
  if (!strcmp(verb, "lr-find"))
    options_ignore(o, "steps epochs lr eval-every eval-samples patience patience-gain replay out "
                      "metrics tensorboard "
                      "histograms noise-scale resume save-every save-minutes keep keep-best grace "
                      "max-minutes");
  if (!strcmp(verb, "verify"))
    options_ignore(
        o, "steps epochs eval-every eval-samples patience patience-gain replay "
           "loader-threads out metrics tensorboard histograms noise-scale resume save-every "
           "save-minutes keep keep-best grace max-minutes policy");
}

/* A flag that the chosen optimizer or schedule would ignore is a misunderstanding. */
static int check_relevance(const setup *s) {
  const storage_flags *storage = &s->flags.storage;
  /* Of the flags that some optimizers ignore, those that each does not. */
  static const char *const of_optimizer[AC_OPTIMIZER_COUNT] = {
      [AC_ADAMW] = "beta1 beta2",
      [AC_SGD] = "momentum",
      [AC_LION] = "beta1 beta2",
      [AC_ADAFACTOR] = "",
      [AC_MUON] = "beta1 beta2 momentum no-nesterov muon-scale adamw-rate",
      [AC_ADAM_MINI] = "beta1 beta2",
  };
  static const char *const flags[] = {"beta1",       "beta2",      "momentum",
                                      "no-nesterov", "muon-scale", "adamw-rate"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (options_given(&s->options, flags[i]) && !strstr(of_optimizer[storage->optimizer], flags[i]))
      return fail_usage("--%s has no meaning for the optimizer %s", flags[i],
                        storage_optimizer_name(storage->optimizer));
  int status = storage_check(storage, &s->options, (ac_precision)s->flags.precision);
  if (status != STATUS_CONTINUE) return status;
  if (options_given(&s->options, "clip-by") && s->flags.clip_by && !(s->flags.clip > 0) &&
      !s->flags.groups.list.count)
    return fail_usage("--clip-by has no meaning without --clip");
  return rate_check(&s->flags.rate, &s->options, (ac_optimizer_kind)storage->optimizer);
}

/* What is folded cannot be clipped, looked ahead of or looked at. */
static int check_folded(const setup *s) {
  const train_flags *f = &s->flags;
  if (f->clip > 0)
    return fail_usage("--gradients folded has no norm of all gradients for --clip %g; give "
                      "--clip 0",
                      f->clip);
  if (f->storage.optimizer == AC_MUON && !f->no_nesterov)
    return fail_usage("--gradients folded leaves muon nothing to look ahead with; give "
                      "--no-nesterov");
  if (s->trainer.loss_scaling.kind == AC_LOSS_SCALING_DYNAMIC)
    return fail_usage("--gradients folded cannot skip a window that a dynamic loss scale lets "
                      "overflow; give --loss-scale X or another --precision");
  if (f->histograms)
    return fail_usage("--histograms shows gradients, and --gradients folded keeps none");
  return STATUS_CONTINUE;
}

/* Without gradients a window is a batch at once, and nobody can look at them. */
static int check_gradients(const setup *s) {
  const train_flags *f = &s->flags;
  if (f->storage.gradients == AC_GRADIENTS_FOLDED) return check_folded(s);
  const bool local = f->storage.gradients == AC_GRADIENTS_FUSED_LOCAL;
  const char *way = local ? "fused-local" : "fused";
  if (f->storage.gradients != AC_GRADIENTS_FUSED && !local) return STATUS_CONTINUE;
  if (f->last_window == AC_LAST_CARRY)
    return fail_usage("--gradients %s takes a window at once, and --last-window carry cuts one",
                      way);
  if (f->micro_batch && f->micro_batch < f->batch)
    return fail_usage("--gradients %s takes a batch of %lld at once, and --micro-batch %lld "
                      "splits it",
                      way, (long long)f->batch, (long long)f->micro_batch);
  if (f->histograms)
    return fail_usage("--histograms shows gradients, and --gradients %s keeps none", way);
  return STATUS_CONTINUE;
}

static int check_flags(setup *s) {
  train_flags *f = &s->flags;
  int status = options_exclude(&s->options, "steps", "epochs");
  if (status == STATUS_CONTINUE) status = batch_flag_parse(&f->batches, &f->batch);
  if (status == STATUS_CONTINUE) status = check_relevance(s);
  if (status == STATUS_CONTINUE) status = groups_resolve(&f->groups, &s->trainer);
  if (status == STATUS_CONTINUE)
    status = loss_scale_resolve(&f->loss_scale, &s->options, (ac_precision)f->precision,
                                &s->trainer.loss_scaling);
  if (status != STATUS_CONTINUE) return status;
  if (f->storage.optimizer == AC_LION && !options_given(&s->options, "beta2")) f->beta2 = 0.99;
  if (f->storage.optimizer == AC_MUON && !options_given(&s->options, "momentum"))
    f->momentum = 0.95;
  if (options_given(&s->options, "steps")) f->epochs = 0;
  if (options_given(&s->options, "epochs")) f->steps = 0;
  if (f->histograms && !f->tensorboard)
    return fail_usage("--histograms has no meaning without --tensorboard");
  if (f->micro_batch > f->batch)
    return fail_usage("--micro-batch %lld is larger than the batch of %lld",
                      (long long)f->micro_batch, (long long)f->batch);
  if (f->patience && !f->eval_every)
    return fail_usage("--patience counts validations: give --eval-every");
  if (options_given(&s->options, "patience-gain") && !f->patience)
    return fail_usage("--patience-gain has no meaning without --patience");
  if (f->rate.schedule == AC_SCHEDULE_PLATEAU && !f->eval_every)
    return fail_usage("--schedule plateau goes by validations: give --eval-every");
  /* What is wrong with it is said before data are read, unless their number says how long it is. */
  return f->steps ? rate_schedule(&f->rate, f->steps, &s->trainer.schedule) : STATUS_CONTINUE;
}

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

/* The record that --config names, or that a run to go on with has left in its folder. */
static int read_record(setup *s, int argc, char **argv) {
  char path[RUN_PATH_BYTES];
  const char *config = options_value("config", argc, argv), *out = options_value("out", argc, argv);
  if (config && access(config, R_OK) != 0)
    return fail("cannot read %s: %s", config, strerror(errno));
  if (!config && !options_named("resume", argc, argv)) return STATUS_CONTINUE;
  snprintf(path, sizeof path, "%s/run.json", out ? out : s->flags.out ? s->flags.out : "");
  return run_record_read(&s->recorded, config ? config : path);
}

/* The model's name comes first, or is that of a record. */
static int choose_kind(setup *s, const char *verb, int *argc, char ***argv) {
  const bool named = *argc > 0 && strncmp((*argv)[0], "--", 2) != 0;
  int status = named ? STATUS_CONTINUE : read_record(s, *argc, *argv);
  if (status != STATUS_CONTINUE) return status;
  const char *name = named ? (*argv)[0] : json_string_value(json_object_get(s->recorded, "model"));
  if (!name) return fail_usage("a model is missing; accrue %s --help lists them", verb);
  if (!(s->kind = find_kind(name)))
    return fail_usage("unknown model %s; accrue %s --help lists the models", name, verb);
  *argc -= named;
  *argv += named;
  return STATUS_CONTINUE;
}

/* Flags of the record, but for those that are given anew. */
static int restore_flags(setup *s, bool resumes, int argc, char **argv) {
  if (!resumes && !options_named("config", argc, argv)) return STATUS_CONTINUE;
  int status = s->recorded ? STATUS_CONTINUE : read_record(s, argc, argv);
  if (status != STATUS_CONTINUE || !s->recorded) return status;
  const char *model = json_string_value(json_object_get(s->recorded, "model"));
  if (!model || strcmp(model, s->kind->name) != 0)
    return fail_usage("the run that is recorded is of the model %s, not %s",
                      model ? model : "of no name", s->kind->name);
  return options_restore(&s->options, s->recorded, "the run's record", argc, argv);
}

/* `resumes`: a run that goes on has flags of then. */
static int parse(setup *s, const char *verb, bool resumes, int argc, char **argv,
                 void (*more)(options *o)) {
  *s = (setup){0};
  int status = choose_kind(s, verb, &argc, &argv);
  if (status != STATUS_CONTINUE) return status;
  if (!(s->model = calloc(1, s->kind->size))) return fail("out of memory");
  snprintf(s->command, sizeof s->command, "%s %s", verb, s->kind->name);
  snprintf(s->summary, sizeof s->summary, "%s\n%s is %s.%s%s", sentence_of(verb), s->kind->name,
           s->kind->what, s->kind->note ? "\n" : "", s->kind->note ? s->kind->note : "");
  s->options = (options){.command = s->command, .summary = s->summary};
  set_defaults(s);
  add_options(s);
  ignore_options(&s->options, verb);
  if (more) more(&s->options);
  status = restore_flags(s, resumes, argc, argv);
  if (status == STATUS_CONTINUE) status = options_parse(&s->options, argc, argv);
  if (status == STATUS_CONTINUE) status = check_flags(s);
  const option *row = options_find(&s->options, "policy");
  if (status == STATUS_CONTINUE)
    status = policy_read(&s->policy, row->ignored ? NULL : s->flags.policy);
  if (status == STATUS_CONTINUE && strcmp(verb, "plan") != 0) status = refuse_dry(s);
  if (status == STATUS_CONTINUE && strcmp(verb, "verify") != 0) status = check_gradients(s);
  return status;
}

int setup_parse(setup *s, const char *verb, int argc, char **argv, void (*more)(options *o)) {
  return parse(s, verb, !strcmp(verb, "train"), argc, argv, more);
}

/* ---- what the flags ask for ------------------------------------------------------------------ */

/* Of the run that is gone on with; *file NULL: there is none. */
static int newest_state(const train_flags *f, ac_model_file **file, char path[RUN_PATH_BYTES]) {
  run_folder folder = {.lock = -1};
  *file = NULL;
  if (!f->resume || strlen(f->out) >= sizeof folder.path) return STATUS_CONTINUE;
  strcpy(folder.path, f->out);
  return run_folder_newest(&folder, file, path);
}

static int64_t number_of(const ac_model_file *file, const char *key) {
  const char *text = ac_model_file_metadata(file, key);
  return text ? strtoll(text, NULL, 10) : 0;
}

/* A run that began with --init has the model's shape in its states; the file may be gone by now. */
static int open_data(setup *s) {
  char path[RUN_PATH_BYTES];
  const char *from = s->flags.init;
  ac_model_file *init = NULL;
  int status = from ? newest_state(&s->flags, &init, path) : STATUS_CONTINUE;
  if (status != STATUS_CONTINUE) return status;
  if (init) from = path;
  if (from && !init && ac_model_file_open(&init, from) != AC_OK) return fail_library();
  s->data.undivided = s->flags.fold != NULL;
  status = s->kind->prepare(s->model, &s->options, init, from, &s->data);
  ac_model_file_close(init);
  if (status == STATUS_CONTINUE && s->flags.fold) status = data_fold(&s->data, s->flags.fold);
  if (status == STATUS_CONTINUE) status = data_augment(&s->data);
  if (status == STATUS_CONTINUE && s->flags.rank) status = data_shard(&s->data, s->flags.rank);
  return status;
}

/* Counts the run's windows and lays the schedule over them. */
static int make_schedule(setup *s) {
  train_flags *f = &s->flags;
  const int64_t count = ac_dataset_count(s->data.train);
  int status = batch_flag_count_tokens(&f->batches, &s->data);
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
                           .batch_count = f->batches.count};
  if (ac_fit_windows(&fit, f->batch, &s->steps) != AC_OK) return fail_library();
  return rate_schedule(&f->rate, s->steps, &s->trainer.schedule);
}

static int open_device(setup *s) {
  const train_flags *f = &s->flags;
  s->trainer.seed = (uint64_t)f->seed;
  s->trainer.average_decay = f->ema;
  s->trainer.noise_every = f->noise_scale == NOISE_OFF ? 0 : -1;
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
  ac_device_desc device = {.name = f->device, .threads = (int)f->threads, .log = waiting_log};
  if (ac_device_open(&s->device, &device) != AC_OK) return fail_library();
  if (s->cache) plan_cache_add_device(s->cache, s->device, f->device, f->threads);
  return STATUS_CONTINUE;
}

/* Where nothing is read ahead unless it is asked for, folded windows are: what losses weigh is
 * counted before the first micro-batch, and a batch of tokens is small. */
static bool reads_to_count(const setup *s) {
  const train_flags *f = &s->flags;
  return f->storage.gradients == AC_GRADIENTS_FOLDED && !f->read_ahead &&
         !options_given(&s->options, "read-ahead");
}

ac_plan_desc setup_plan_desc(const setup *s) {
  const train_flags *f = &s->flags;
  ac_plan_desc desc = {.purpose = AC_TRAIN,
                       .batch = f->batch,
                       .micro_batch = f->micro_batch,
                       .memory = f->memory,
                       .micro_batch_norm = f->batch_norm != 0,
                       .whole_windows = f->last_window != AC_LAST_CARRY,
                       .read_ahead = reads_to_count(s) ? 1 : (int)f->read_ahead,
                       .read_ahead_if_room =
                           !reads_to_count(s) && !options_given(&s->options, "read-ahead"),
                       .precision = (ac_precision)f->precision,
                       .debug_numerics = f->debug_numerics,
                       .recompute = (ac_recompute)f->recompute,
                       .clipping = (ac_clipping)f->clip_by,
                       .average = f->ema > 0,
                       .frozen = f->freeze,
                       .sgd_no_momentum = f->momentum <= 0};
  storage_describe(&f->storage, &desc);
  if (f->histograms) desc.gradients = AC_GRADIENTS_BUFFER; /* they are of gradients, too */
  return desc;
}

static ac_status try_plan(const setup *s, const ac_plan_desc *desc, ac_plan **plan) {
  ac_graph *graph = NULL;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) {
    s->kind->build(s->model, graph);
    status = ac_plan_create(plan, graph, s->device, desc);
  }
  ac_graph_free(graph);
  return status;
}

int setup_plan(const setup *s, const ac_plan_desc *desc, ac_plan **plan) {
  return try_plan(s, desc, plan) == AC_OK ? STATUS_CONTINUE : fail_library();
}

int setup_open_model(setup *s, const char *verb, int argc, char **argv, void (*more)(options *o)) {
  int status = setup_parse(s, verb, argc, argv, more);
  s->data.optional = true;
  if (status == STATUS_CONTINUE) status = open_data(s);
  if (status == STATUS_CONTINUE) status = open_device(s);
  return status;
}

/* A run that goes on does so at the micro-batch it had, as others round otherwise; unless that does
 * not fit any more. */
static int plan_to_go_on(setup *s) {
  const train_flags *f = &s->flags;
  char path[RUN_PATH_BYTES];
  if (!f->resume || options_given(&s->options, "micro-batch")) return STATUS_CONTINUE;
  ac_plan_desc desc = setup_plan_desc(s);
  ac_model_file *state;
  int status = newest_state(f, &state, path);
  if (number_of(state, "accrue.state.batch") == f->batch)
    desc.micro_batch = number_of(state, "accrue.state.micro_batch");
  ac_model_file_close(state);
  if (status != STATUS_CONTINUE) return status;
  if (!desc.micro_batch || try_plan(s, &desc, &s->plan) == AC_OK) return STATUS_CONTINUE;
  say("the micro-batch of %lld that the run had does not do any more (%s); another is planned",
      (long long)desc.micro_batch, ac_last_error());
  return STATUS_CONTINUE;
}

/* One of the cache's, or one that it gets. */
static int make_plan(setup *s) {
  const bool shares = s->cache && s->cache->device == s->device;
  if (shares) s->plan = plan_cache_find(s->cache, &s->options);
  s->plan_is_shared = s->plan != NULL;
  if (s->plan) return STATUS_CONTINUE;
  const ac_plan_desc desc = setup_plan_desc(s);
  const int status = setup_plan(s, &desc, &s->plan);
  s->plan_is_shared =
      shares && status == STATUS_CONTINUE && plan_cache_add(s->cache, &s->options, s->plan);
  return status;
}

int setup_open(setup *s, const char *verb, int argc, char **argv, plan_cache *cache) {
  int status = parse(s, verb, !cache, argc, argv, NULL);
  s->cache = cache;
  if (status == STATUS_CONTINUE) status = open_data(s);
  if (status == STATUS_CONTINUE) status = make_schedule(s);
  if (status == STATUS_CONTINUE)
    status = policy_check_run(&s->policy, &s->flags, &s->trainer, s->steps);
  if (status == STATUS_CONTINUE) status = open_device(s);
  if (status == STATUS_CONTINUE) status = plan_to_go_on(s);
  if (status == STATUS_CONTINUE && !s->plan) status = make_plan(s);
  if (status == STATUS_CONTINUE)
    status = policy_check_memory(&s->policy, ac_plan_get_info(s->plan));
  return status;
}

void setup_close(setup *s) {
  json_decref(s->recorded);
  if (!s->plan_is_shared) ac_plan_free(s->plan);
  if (!s->cache || s->cache->device != s->device) ac_device_close(s->device);
  data_close(&s->data);
  free(s->model);
}
