#include "program/train_flags.h"

#include "common/flag_rules.h"
#include "common/message.h"
#include "program/noise_words.h"
#include "program/token_budget.h"

#include <string.h>

void train_flags_set_defaults(setup *s) {
  s->flags = (train_flags){.beta1 = 0.9,
                           .momentum = 0.9,
                           .adamw_rate = -1,
                           .seed = 1,
                           .rank_timeout = 60,
                           .ranks = 1,
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
      FLAG("batch", OPTION_STAGES, &f->batches.given),
      FLAG("steps", OPTION_INTEGER, &f->steps, .fallback = f->steps ? NULL : "by epochs"),
      FLAG("epochs", OPTION_INTEGER, &f->epochs, .fallback = f->epochs ? NULL : "by steps"),
      FLAG("freeze", OPTION_TEXT, &f->freeze),
      FLAG("beta1", OPTION_REAL, &f->beta1),
      FLAG("beta2", OPTION_REAL, &f->beta2),
      FLAG("momentum", OPTION_REAL, &f->momentum),
      FLAG("no-nesterov", OPTION_SWITCH, &f->no_nesterov),
      FLAG("muon-scale", OPTION_CHOICE, &f->muon_scale),
      FLAG("adamw-rate", OPTION_REAL, &f->adamw_rate),
      FLAG("weight-decay", OPTION_REAL, &f->weight_decay),
      FLAG("clip", OPTION_REAL, &f->clip),
      FLAG("clip-by", OPTION_CHOICE, &f->clip_by),
      FLAG("group", OPTION_LIST, &f->groups.list),
      FLAG("ema", OPTION_REAL, &f->ema),
      FLAG("last-window", OPTION_CHOICE, &f->last_window),
      FLAG("eval-every", OPTION_INTEGER, &f->eval_every),
      FLAG("eval-samples", OPTION_INTEGER, &f->eval_samples),
      FLAG("patience", OPTION_INTEGER, &f->patience),
      FLAG("patience-gain", OPTION_REAL, &f->patience_gain),
      FLAG("rank", OPTION_TEXT, &f->rank),
      FLAG("seed", OPTION_INTEGER, &f->seed),
      FLAG("fold", OPTION_TEXT, &f->fold),
  };
  OPTIONS_ADD(o, rows);
}

static void add_run(train_flags *f, options *o) {
  const option init[] = {FLAG("init", OPTION_TEXT, &f->init)};
  const option rows[] = {
      FLAG("device", OPTION_TEXT, &f->device),
      FLAG("threads", OPTION_INTEGER, &f->threads),
      FLAG("memory", OPTION_SIZE, &f->memory),
      FLAG("micro-batch", OPTION_INTEGER, &f->micro_batch),
      FLAG("read-ahead", OPTION_INTEGER, &f->read_ahead,
           .fallback = f->read_ahead ? "1, or none where --memory has no room" : NULL),
      FLAG("loader-threads", OPTION_INTEGER, &f->loader_threads),
      FLAG("batch-norm", OPTION_CHOICE, &f->batch_norm),
      FLAG("precision", OPTION_CHOICE, &f->precision),
      FLAG("debug-numerics", OPTION_SWITCH, &f->debug_numerics),
      FLAG("recompute", OPTION_CHOICE, &f->recompute),
      FLAG("out", OPTION_TEXT, &f->out),
      FLAG("metrics", OPTION_TEXT, &f->metrics),
      FLAG("tensorboard", OPTION_TEXT, &f->tensorboard),
      FLAG("noise-scale", OPTION_CHOICE, &f->noise_scale),
      FLAG("noise-layers", OPTION_INTEGER, &f->noise_layers),
      FLAG("quiet", OPTION_SWITCH, &f->quiet),
      FLAG("histograms", OPTION_INTEGER, &f->histograms),
  };
  const option of_ranks[] = {
      FLAG("rank-timeout", OPTION_REAL, &f->rank_timeout),
      FLAG("ranks", OPTION_INTEGER, &f->ranks),
  };
  const option examples[] = {FLAG("examples", OPTION_INTEGER, &f->examples)};
  OPTIONS_ADD(o, rows);
  OPTIONS_ADD_FILED(o, examples);
  OPTIONS_ADD_FILED(o, of_ranks);
  OPTIONS_ADD_FILED(o, init);
}

static void add_state(train_flags *f, options *o) {
  const option rows[] = {
      FLAG("resume", OPTION_SWITCH, &f->resume),
      FLAG("resume-or-start", OPTION_SWITCH, &f->resume_or_start),
      FLAG("overwrite", OPTION_SWITCH, &f->overwrite),
      FLAG("save-every", OPTION_INTEGER, &f->save_every),
      FLAG("save-minutes", OPTION_REAL, &f->save_minutes),
      FLAG("keep", OPTION_INTEGER, &f->keep),
      FLAG("keep-best", OPTION_SWITCH, &f->keep_best),
      FLAG("grace", OPTION_REAL, &f->grace),
      FLAG("config", OPTION_TEXT, &f->config),
      FLAG("print-config", OPTION_SWITCH, &f->print_config),
  };
  OPTIONS_ADD(o, rows);
}

static void add_limits(train_flags *f, options *o) {
  const option rows[] = {
      FLAG("max-minutes", OPTION_REAL, &f->max_minutes),
      FLAG("max-tokens", OPTION_TEXT, &f->max_tokens),
      FLAG("policy", OPTION_TEXT, &f->policy),
  };
  OPTIONS_ADD(o, rows);
}

void train_flags_add(setup *s) {
  options *o = &s->options;
  train_flags *f = &s->flags;
  s->kind->add_options(s->model, o);
  const option preset[] = {FLAG("preset", OPTION_TEXT, &f->preset)};
  OPTIONS_ADD_FILED(o, preset);
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

/* A flag that another value would ignore is a misunderstanding. */
static int check_relevance(const setup *s) {
  const storage_flags *storage = &s->flags.storage;
  const ac_precision precision = (ac_precision)s->flags.precision;
  options_find(&s->options, "loss-scale")->implied = loss_scale_implied(precision);
  int status = flag_rules_check(&s->options);
  if (status == STATUS_CONTINUE) status = storage_check(storage, precision);
  return status == STATUS_CONTINUE ? rate_check(&s->flags.rate, &s->options) : status;
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
  const gradient_way *way = gradient_way_of(desc.gradients);
  if (desc.average && desc.weights == AC_WEIGHTS_BF16)
    return fail_usage("--ema averages weights in f32, and --weights bf16 has none");
  if (desc.optimizer.clipping < AC_CLIP_VALUE) return STATUS_CONTINUE;
  if (way->has_norm && desc.weights == AC_WEIGHTS_F32 && desc.gradient_storage == AC_GRADIENT_F32)
    return STATUS_CONTINUE;
  return fail_usage("--clip-by %s needs weights and gradients in f32, and none that are folded; "
                    "leave out --%s %s",
                    desc.optimizer.clipping == AC_CLIP_VALUE ? "value" : "adaptive",
                    way->has_norm && desc.weights == AC_WEIGHTS_BF16 ? "weights" : "gradients",
                    way->has_norm ? "bf16" : way->name);
}

/* Folded gradients cannot be clipped, or used for Nesterov momentum. */
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
  return STATUS_CONTINUE;
}

/* What a way of gradients excludes. */
int train_flags_check_gradients(const setup *s) {
  const train_flags *f = &s->flags;
  const gradient_way *way = gradient_way_of(f->storage.gradients);
  const int status = way->folds ? check_folded(s) : STATUS_CONTINUE;
  if (status != STATUS_CONTINUE) return status;
  if (way->one_micro_batch && f->last_window == AC_LAST_CARRY)
    return fail_usage(
        "--gradients %s takes a whole window at once, and --last-window carry splits one",
        way->name);
  if (way->one_micro_batch && f->micro_batch && f->micro_batch < f->batch)
    return fail_usage("--gradients %s takes a batch of %lld at once, and --micro-batch %lld "
                      "splits it",
                      way->name, (long long)f->batch, (long long)f->micro_batch);
  if (f->histograms && !way->may_keep)
    return fail_usage("--histograms shows whole gradients, and --gradients %s keeps none of them",
                      way->name);
  return STATUS_CONTINUE;
}

static bool has_ranks(const setup *s) {
  return s->words.ranks || s->flags.ranks > 1;
}

/* What one rank does alone, or cannot give the others. */
static int check_ranks(const setup *s) {
  const train_flags *f = &s->flags;
  const gradient_way *way = gradient_way_of(f->storage.gradients);
  if (!has_ranks(s)) return STATUS_CONTINUE;
  if (f->examples)
    return fail_usage("--examples is for one rank; give it to accrue eval, for the model");
  if (f->debug_numerics)
    return fail_usage("--debug-numerics counts what one rank computes; leave it out with several");
  if (!way->may_have_noise) /* then nor is there a gradient to be summed */
    return fail_usage("--gradients %s leaves no gradients to be summed over ranks; give auto, "
                      "buffer, sharded or bf16",
                      way->name);
  if (f->batch_norm == BATCH_NORM_EXACT && f->storage.gradients == AC_GRADIENTS_SHARDED)
    return fail_usage("--batch-norm exact needs whole gradients, and --gradients sharded divides "
                      "them; leave one of them out");
  if (f->storage.state_space == AC_STATE_ON_HOST)
    return fail_usage("--optimizer-state-in host is for one rank: several divide the state and "
                      "keep it on their devices");
  if (f->storage.host_memory)
    return fail_usage("--host-memory is for one rank: several divide the optimizer's state and "
                      "keep it on their devices");
  return STATUS_CONTINUE;
}

/* The noise of gradients that are not kept is not known. */
static int check_noise_layers(const setup *s) {
  const train_flags *f = &s->flags;
  if (!f->noise_layers) return STATUS_CONTINUE;
  if (f->noise_scale == NOISE_OFF)
    return fail_usage("--noise-layers has no meaning with --noise-scale off");
  if (gradient_way_of(f->storage.gradients)->may_have_noise) return STATUS_CONTINUE;
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
  if (!gradient_way_of(f->storage.gradients)->may_have_noise)
    return fail_usage("--batch %s needs gradients that are kept, to measure their noise; give "
                      "--gradients buffer",
                      text);
  if (from < 2)
    return fail_usage("--batch %s begins with one sample, so the gradient noise scale cannot be "
                      "measured; begin with at least 2",
                      text);
  if (f->micro_batch && f->micro_batch >= from && !has_ranks(s))
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
  f->resume |= f->resume_or_start;
  int status = s->kind->check ? s->kind->check(s->model, &s->options, f) : STATUS_CONTINUE;
  if (status == STATUS_CONTINUE) status = batch_flag_parse(&f->batches, &f->batch);
  if (status == STATUS_CONTINUE) status = token_budget_check(f->max_tokens);
  if (status == STATUS_CONTINUE) status = check_relevance(s);
  if (status == STATUS_CONTINUE) status = groups_resolve(&f->groups, &s->trainer);
  if (status == STATUS_CONTINUE) status = check_clip_by(s);
  if (status == STATUS_CONTINUE) status = check_floats(s);
  if (status == STATUS_CONTINUE)
    status =
        loss_scale_resolve(&f->loss_scale, (ac_precision)f->precision, &s->trainer.loss_scaling);
  if (status != STATUS_CONTINUE) return status;
  if (f->storage.optimizer == AC_LION && !options_given(&s->options, "beta2")) f->beta2 = 0.99;
  if (f->storage.optimizer == AC_MUON && !options_given(&s->options, "momentum"))
    f->momentum = 0.95;
  if (options_given(&s->options, "steps")) f->epochs = 0;
  if (options_given(&s->options, "epochs")) f->steps = 0;
  if (f->micro_batch > f->batch)
    return fail_usage("--micro-batch %lld is larger than the batch of %lld",
                      (long long)f->micro_batch, (long long)f->batch);
  if (f->patience && !f->eval_every)
    return fail_usage("--patience counts validations: give --eval-every");
  if (f->rate.schedule == AC_SCHEDULE_PLATEAU && !f->eval_every)
    return fail_usage("--schedule plateau needs validations: give --eval-every");
  if ((status = check_ranks(s)) != STATUS_CONTINUE) return status;
  if ((status = check_growth(s)) != STATUS_CONTINUE) return status;
  if ((status = check_noise_layers(s)) != STATUS_CONTINUE) return status;
  status = watch_check(&f->watch, gradient_way_of(f->storage.gradients));
  if (status != STATUS_CONTINUE) return status;
  /* Checks the schedule before data are read, unless its length depends on them. */
  return f->steps ? rate_schedule(&f->rate, f->steps, &s->trainer.schedule) : STATUS_CONTINUE;
}
