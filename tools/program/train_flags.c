#include "program/train_flags.h"

#include "common/message.h"
#include "program/noise_words.h"
#include "program/token_budget.h"

#include <string.h>

void train_flags_set_defaults(setup *s) {
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
  watch_defaults(&s->flags.watch);
  s->kind->defaults(s->model, &s->flags);
  s->flags.batches.given.number = s->flags.batch;
}

static void add_training(train_flags *f, options *o) {
  const option rows[] = {
      {"batch", "N[@FROM],N@FROM,...", OPTION_STAGES, &f->batches.given,
       .help = "samples an update (the effective batch), or by stages, from an update (500), an "
               "epoch (2ep), a number of tokens (10Mtok) or samples (50000samples) on; "
               "32..1024@noise: doubled by the gradient noise scale",
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
      {"fold", "I/K", OPTION_TEXT, &f->fold,
       .help = "of K folds of the training data, I validates (1/K to K/K), the others train",
       .fallback = ""},
  };
  OPTIONS_ADD(o, "Training", rows);
}

static void add_run(train_flags *f, options *o) {
  const option rows[] = {
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
      {"metrics", "FILE", OPTION_TEXT, &f->metrics, .help = "one JSON object a line; none: no file",
       .fallback = "metrics.jsonl in --out"},
      {"tensorboard", "DIR", OPTION_TEXT, &f->tensorboard,
       .help = "the same for TensorBoard, as an event file in this folder", .fallback = ""},
      {"noise-scale", "auto|on|off", OPTION_CHOICE, &f->noise_scale,
       .help = "measure from which batch on gradients agree, in at most 1 % of the time, where "
               "batches are several micro-batches; on: say why, where that cannot be"},
      {"noise-layers", "N", OPTION_INTEGER, &f->noise_layers,
       .help = "updates between lines of metrics with the same of each parameter's gradient",
       .fallback = "none", .least = 1},
      {"quiet", NULL, OPTION_SWITCH, &f->quiet, .help = "tell only what goes wrong"},
      {"histograms", "N", OPTION_INTEGER, &f->histograms,
       .help = "updates between histograms of weights and gradients for --tensorboard",
       .fallback = "none", .least = 1},
  };
  OPTIONS_ADD(o, "Run", rows);
}

static void add_state(train_flags *f, options *o) {
  const option rows[] = {
      {"resume", NULL, OPTION_SWITCH, &f->resume,
       .help = "go on with the newest state in --out, with the flags of then"},
      {"resume-or-start", NULL, OPTION_SWITCH, &f->resume_or_start,
       .help =
           "the same; where --out holds no run yet, it begins: for jobs that are started again"},
      {"overwrite", NULL, OPTION_SWITCH, &f->overwrite,
       .help = "replace the run that --out holds, and the file that --metrics names"},
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
      {"config", "FILE", OPTION_TEXT, &f->config,
       .help = "take flags from this JSON file, or a run's run.json", .fallback = ""},
      {"print-config", NULL, OPTION_SWITCH, &f->print_config,
       .help = "print all settings as such a file, and do nothing else"},
  };
  OPTIONS_ADD(o, "State", rows);
}

static void add_limits(train_flags *f, options *o) {
  const option rows[] = {
      {"max-minutes", "X", OPTION_REAL, &f->max_minutes,
       .help = "the run pauses after the window in which they are over; --resume goes on",
       .fallback = "none", .above_least = true},
      {"max-tokens", "N", OPTION_TEXT, &f->max_tokens,
       .help = "likewise, after as many tokens from its beginning on: 50000, 500k, 1.5M, 2G",
       .fallback = "none"},
      {"policy", "FILE", OPTION_TEXT, &f->policy, .help = "rules that a run must keep to, as JSON",
       .fallback = ""},
  };
  OPTIONS_ADD(o, "Limits", rows);
}

void train_flags_add(setup *s) {
  options *o = &s->options;
  train_flags *f = &s->flags;
  s->kind->add_options(s->model, o);
  const option preset[] = {
      {"preset", "NAME", OPTION_TEXT, &f->preset, .help = s->preset_help, .fallback = ""}};
  preset_help(s->kind->name, s->preset_help);
  OPTIONS_ADD(o, "Model", preset);
  if (s->kind->add_training_options) s->kind->add_training_options(s->model, o);
  add_training(f, o);
  storage_add_options(&f->storage, o);
  rate_add_options(&f->rate, o);
  loss_scale_add_options(&f->loss_scale, o);
  add_run(f, o);
  add_state(f, o);
  watch_add_options(&f->watch, o);
  add_limits(f, o);
}

/* Flags without meaning for a verb are accepted, so that the flags of `accrue train` can be used
 * unchanged. A plan depends neither on computed values nor on the order of samples; verify makes a
 * few updates at the full rate, and repeats windows that overflow; a range test has rates of its
 * own. */
void train_flags_ignore(options *o, const char *verb) {
  if (!strcmp(verb, "train")) return;
  if (!strcmp(verb, "pilot")) {
    options_ignore(o, PILOT_IGNORED);
    return;
  }
  options_ignore(o, RATE_SCHEDULE_FLAGS);
  options_ignore(o, WATCH_FLAGS);
  if (!strcmp(verb, "plan"))
    options_ignore(
        o, "label-smoothing shift flip rotation scaling erase steps epochs lr "
           "beta1 beta2 no-nesterov muon-scale adamw-rate weight-decay clip eval-every "
           "eval-samples patience patience-gain seed "
           "loss-scale loss-scale-init loss-scale-growth loss-scale-interval "
           "loss-scale-backoff loss-scale-floor replay loader-threads out metrics "
           "tensorboard histograms noise-scale noise-layers resume resume-or-start overwrite "
           "save-every save-minutes keep "
           "keep-best "
           "grace max-minutes max-tokens policy quiet");
  if (!strcmp(verb, "lr-find"))
    options_ignore(o, "steps epochs lr eval-every eval-samples patience patience-gain replay out "
                      "metrics tensorboard "
                      "histograms noise-scale noise-layers resume resume-or-start overwrite "
                      "save-every save-minutes "
                      "keep keep-best grace "
                      "max-minutes max-tokens");
  if (!strcmp(verb, "verify"))
    options_ignore(o, "steps epochs eval-every eval-samples patience patience-gain replay "
                      "loader-threads out metrics tensorboard histograms noise-scale noise-layers "
                      "resume resume-or-start overwrite save-every "
                      "save-minutes keep keep-best grace max-minutes max-tokens policy quiet");
}

/* If the chosen optimizer or schedule would ignore a flag, the flag is refused. */
static int check_relevance(const setup *s) {
  const storage_flags *storage = &s->flags.storage;
  /* Flags that some optimizers ignore, with these optimizers. */
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
  return rate_check(&s->flags.rate, &s->options, (ac_optimizer_kind)storage->optimizer);
}

/* A group may have a clip of its own. */
static int check_clip_by(const setup *s) {
  bool clips = s->flags.clip > 0;
  for (int g = 0; g < s->trainer.group_count; g++) clips |= s->trainer.groups[g].settings.clip > 0;
  if (clips || !options_given(&s->options, "clip-by") || !s->flags.clip_by) return STATUS_CONTINUE;
  return fail_usage("--clip-by has no meaning without --clip, or a --group with clip=X");
}

/* Changes of single gradients, and averages of weights, are computed in floats. */
static int check_floats(const setup *s) {
  const ac_plan_desc desc = setup_plan_desc(s);
  const bool folded = desc.gradients == AC_GRADIENTS_FOLDED;
  if (desc.average && desc.weights == AC_WEIGHTS_BF16)
    return fail_usage("--ema averages weights in f32, and --weights bf16 has none");
  if (desc.clipping < AC_CLIP_VALUE) return STATUS_CONTINUE;
  if (!folded && desc.weights == AC_WEIGHTS_F32 && desc.gradient_storage == AC_GRADIENT_F32)
    return STATUS_CONTINUE;
  return fail_usage("--clip-by %s needs weights and gradients in f32, and none that are folded; "
                    "leave out %s",
                    desc.clipping == AC_CLIP_VALUE ? "value" : "adaptive",
                    folded                            ? "--gradients folded"
                    : desc.weights == AC_WEIGHTS_BF16 ? "--weights bf16"
                                                      : "--gradients bf16");
}

/* Folded gradients cannot be clipped, used for Nesterov momentum, or shown. */
static int check_folded(const setup *s) {
  const train_flags *f = &s->flags;
  if (f->clip > 0)
    return fail_usage("--gradients folded has no norm of all gradients for --clip %g; give "
                      "--clip 0",
                      f->clip);
  if (f->storage.optimizer == AC_MUON && !f->no_nesterov)
    return fail_usage("--gradients folded cannot do the Nesterov momentum of muon; give "
                      "--no-nesterov");
  for (int g = 0; g < s->trainer.group_count; g++)
    if (s->trainer.groups[g].settings.clip > 0)
      return fail_usage("--gradients folded has no norm of gradients for the clip of --group %s",
                        f->groups.list.items[g]);
  if (s->trainer.loss_scaling.kind == AC_LOSS_SCALING_DYNAMIC)
    return fail_usage("--gradients folded cannot skip a window that a dynamic loss scale lets "
                      "overflow; give --loss-scale X or another --precision");
  if (f->histograms)
    return fail_usage("--histograms shows gradients, and --gradients folded keeps none");
  return STATUS_CONTINUE;
}

/* Without kept gradients a window is one micro-batch, and gradients cannot be shown. */
int train_flags_check_gradients(const setup *s) {
  const train_flags *f = &s->flags;
  if (f->storage.gradients == AC_GRADIENTS_FOLDED) return check_folded(s);
  const bool local = f->storage.gradients == AC_GRADIENTS_FUSED_LOCAL;
  const char *way = local ? "fused-local" : "fused";
  if (f->storage.gradients != AC_GRADIENTS_FUSED && !local) return STATUS_CONTINUE;
  if (f->last_window == AC_LAST_CARRY)
    return fail_usage(
        "--gradients %s takes a whole window at once, and --last-window carry splits one", way);
  if (f->micro_batch && f->micro_batch < f->batch)
    return fail_usage("--gradients %s takes a batch of %lld at once, and --micro-batch %lld "
                      "splits it",
                      way, (long long)f->batch, (long long)f->micro_batch);
  if (f->histograms)
    return fail_usage("--histograms shows gradients, and --gradients %s keeps none", way);
  return STATUS_CONTINUE;
}

/* The noise of gradients that are not kept is not known. */
static bool keeps_gradients(const storage_flags *f) {
  return f->gradients <= AC_GRADIENTS_BUFFER || f->gradients == GRADIENTS_BF16;
}

static int check_noise_layers(const setup *s) {
  const train_flags *f = &s->flags;
  if (!f->noise_layers) return STATUS_CONTINUE;
  if (f->noise_scale == NOISE_OFF)
    return fail_usage("--noise-layers has no meaning with --noise-scale off");
  if (keeps_gradients(&f->storage)) return STATUS_CONTINUE;
  return fail_usage("--noise-layers needs gradients that are kept; give --gradients buffer");
}

/* Batches grow by what is measured during the run, so nobody knows when. */
static int check_growth(const setup *s) {
  const train_flags *f = &s->flags;
  const int64_t from = f->batches.grow_from;
  const unsigned endless =
      1u << AC_SCHEDULE_CONSTANT | 1u << AC_SCHEDULE_INVERSE_SQRT | 1u << AC_SCHEDULE_PLATEAU;
  if (!from) return STATUS_CONTINUE;
  const char *text = f->batches.given.text;
  if (f->noise_scale == NOISE_OFF)
    return fail_usage("--batch %s depends on the gradient noise scale, and --noise-scale is off",
                      text);
  if (!keeps_gradients(&f->storage))
    return fail_usage("--batch %s needs gradients that are kept, to measure their noise; give "
                      "--gradients buffer",
                      text);
  if (from < 2 || (f->micro_batch && f->micro_batch >= from))
    return fail_usage("--batch %s begins with one micro-batch, so the gradient noise scale cannot "
                      "be measured; begin with more samples, or give a smaller --micro-batch",
                      text);
  if (f->epochs && !(endless >> f->rate.schedule & 1))
    return fail_usage("--batch %s leaves it open how many updates --epochs %lld are, and the "
                      "schedule of the rate depends on that; give --steps, or --schedule "
                      "constant, inverse-sqrt or plateau",
                      text, (long long)f->epochs);
  return STATUS_CONTINUE;
}

int train_flags_check(setup *s) {
  train_flags *f = &s->flags;
  int status = options_exclude(&s->options, "steps", "epochs");
  if (status == STATUS_CONTINUE) status = options_exclude(&s->options, "resume", "overwrite");
  if (status == STATUS_CONTINUE)
    status = options_exclude(&s->options, "resume-or-start", "overwrite");
  f->resume |= f->resume_or_start;
  if (status == STATUS_CONTINUE) status = batch_flag_parse(&f->batches, &f->batch);
  if (status == STATUS_CONTINUE) status = token_budget_check(f->max_tokens);
  if (status == STATUS_CONTINUE) status = check_relevance(s);
  if (status == STATUS_CONTINUE) status = groups_resolve(&f->groups, &s->trainer);
  if (status == STATUS_CONTINUE) status = check_clip_by(s);
  if (status == STATUS_CONTINUE) status = check_floats(s);
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
    return fail_usage("--schedule plateau needs validations: give --eval-every");
  if ((status = check_growth(s)) != STATUS_CONTINUE) return status;
  if ((status = check_noise_layers(s)) != STATUS_CONTINUE) return status;
  status = watch_check(&f->watch, &s->options, (ac_gradients)f->storage.gradients);
  if (status != STATUS_CONTINUE) return status;
  /* Checks the schedule before data are read, unless its length depends on them. */
  return f->steps ? rate_schedule(&f->rate, f->steps, &s->trainer.schedule) : STATUS_CONTINUE;
}
