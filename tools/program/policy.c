#include "program/policy.h"

#include "common/json_file.h"
#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum { VERSION = 1 };

typedef enum rule_type { NUMBER, WHOLE, BYTES, REQUIRED, WHOLE_LIST } rule_type;

static const struct {
  const char *name;
  rule_type type;
} rules[POLICY_RULES] = {
    [POLICY_MAX_MEMORY] = {"max_memory", BYTES},
    [POLICY_MAX_HOST_MEMORY] = {"max_host_memory", BYTES},
    [POLICY_MAX_LR] = {"max_lr", NUMBER},
    [POLICY_MIN_BATCH] = {"min_batch", WHOLE},
    [POLICY_MAX_BATCH] = {"max_batch", WHOLE},
    [POLICY_MAX_CLIP] = {"max_clip", NUMBER},
    [POLICY_MAX_GRADIENT_NORM] = {"max_gradient_norm", NUMBER},
    [POLICY_MAX_STEPS] = {"max_steps", WHOLE},
    [POLICY_MAX_MINUTES] = {"max_minutes", NUMBER},
    [POLICY_REQUIRE_VALIDATION] = {"require_validation", REQUIRED},
    [POLICY_MAX_EVAL_EVERY] = {"max_eval_every", WHOLE},
    [POLICY_SEEDS] = {"seeds", WHOLE_LIST},
};

/* ---- reading --------------------------------------------------------------------------------- */

static const char *type_in_words(rule_type type) {
  static const char *const words[] = {
      [NUMBER] = "a number above 0",
      [WHOLE] = "a whole number of at least 1",
      [BYTES] = "a size such as \"512MiB\", or a number of bytes",
      [REQUIRED] = "true or false",
      [WHOLE_LIST] = "a list of 1 to 64 whole numbers",
  };
  return words[type];
}

/* 2.0 is also a whole number, as JSON Schema says. */
static bool is_whole(const json_t *value) {
  const double number = json_number_value(value);
  return json_is_number(value) && number == floor(number);
}

static bool take_number(const json_t *value, bool whole, double *limit) {
  if (!json_is_number(value) || (whole && !is_whole(value))) return false;
  *limit = json_number_value(value);
  return *limit > 0;
}

static bool take_bytes(const json_t *value, double *limit) {
  uint64_t bytes;
  if (!json_is_string(value)) return take_number(value, true, limit);
  if (!options_read_size(json_string_value(value), &bytes)) return false;
  *limit = (double)bytes;
  return true;
}

/* "false" means that the rule is not set. */
static bool take_required(const json_t *value, double *limit) {
  if (json_is_true(value)) *limit = 1;
  return json_is_boolean(value);
}

static bool take_seeds(policy *p, const json_t *value) {
  const size_t count = json_array_size(value);
  for (size_t i = 0; i < count && i < POLICY_MOST_SEEDS; i++) {
    const json_t *seed = json_array_get(value, i);
    if (!is_whole(seed)) return false;
    p->seed[p->seed_count++] = json_number_value(seed);
  }
  p->limit[POLICY_SEEDS] = 1;
  return count >= 1 && count <= POLICY_MOST_SEEDS;
}

static bool take(policy *p, policy_rule rule, const json_t *value) {
  double *limit = &p->limit[rule];
  switch (rules[rule].type) {
  case NUMBER:
    return take_number(value, false, limit);
  case WHOLE:
    return take_number(value, true, limit);
  case BYTES:
    return take_bytes(value, limit);
  case REQUIRED:
    return take_required(value, limit);
  case WHOLE_LIST:
    return take_seeds(p, value);
  }
  return false;
}

static int take_rule(policy *p, const char *name, const json_t *value) {
  int rule = 0;
  while (rule < POLICY_RULES && strcmp(rules[rule].name, name) != 0) rule++;
  if (rule == POLICY_RULES)
    return fail_usage("the policy %s has the unknown rule \"%.64s\"", p->path, name);
  if (take(p, (policy_rule)rule, value)) return STATUS_CONTINUE;
  return fail_usage("the policy %s has a wrong value for %s: it must be %s", p->path, name,
                    type_in_words(rules[rule].type));
}

static int take_rules(policy *p, const json_t *root) {
  const char *name;
  json_t *value;
  const json_t *version = json_object_get(root, "version");
  if (json_number_value(version) != VERSION)
    return fail_usage("the policy %s needs \"version\": %d, which says how to read it", p->path,
                      (int)VERSION);
  json_object_foreach((json_t *)root, name, value) {
    const bool for_editors = !strcmp(name, "$schema") && json_is_string(value);
    if (!strcmp(name, "version") || for_editors) continue;
    int status = take_rule(p, name, value);
    if (status != STATUS_CONTINUE) return status;
  }
  return STATUS_CONTINUE;
}

int policy_read(policy *p, const char *path) {
  *p = (policy){.path = path};
  for (int i = 0; i < POLICY_RULES; i++) p->limit[i] = (double)NAN;
  if (!path) return STATUS_CONTINUE;
  json_error_t error;
  json_t *root = json_file_load(path, JSON_REJECT_DUPLICATES, &error);
  if (!root && json_error_code(&error) == json_error_cannot_open_file)
    return fail("%s", error.text);
  int status = STATUS_CONTINUE;
  if (!json_is_object(root))
    status = fail_usage("%s is not a policy: %s, line %d", path,
                        root ? "it is not an object of JSON" : error.text, root ? 1 : error.line);
  else status = take_rules(p, root);
  json_decref(root);
  return status;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Nothing is above a limit that is not set. */
static bool above(const policy *p, policy_rule rule, double value) {
  return p->path && value > p->limit[rule];
}

static bool requires(const policy *p, policy_rule rule) {
  return p->path && !isnan(p->limit[rule]);
}

static int refuse(const policy *p, policy_rule rule, const char *flag, double value) {
  return fail_usage("the policy %s refuses --%s %.10g: its %s is %.10g", p->path, flag, value,
                    rules[rule].name, p->limit[rule]);
}

int policy_check_batch(const policy *p, const train_flags *f) {
  if (above(p, POLICY_MAX_BATCH, (double)f->batch))
    return refuse(p, POLICY_MAX_BATCH, "batch", (double)f->batch);
  const int64_t least = batch_flag_least(&f->batches);
  if (requires(p, POLICY_MIN_BATCH) && (double)least < p->limit[POLICY_MIN_BATCH])
    return refuse(p, POLICY_MIN_BATCH, "batch", (double)least);
  if (!requires(p, POLICY_SEEDS)) return STATUS_CONTINUE;
  for (int i = 0; i < p->seed_count; i++)
    if (p->seed[i] == (double)f->seed) return STATUS_CONTINUE;
  return fail_usage("the policy %s refuses --seed %" PRId64 ": its seeds do not include it",
                    p->path, f->seed);
}

static int check_validation(const policy *p, const train_flags *f) {
  const bool required =
      requires(p, POLICY_REQUIRE_VALIDATION) || requires(p, POLICY_MAX_EVAL_EVERY);
  if (required && !f->eval_every)
    return fail_usage("the policy %s refuses a run without --eval-every: its %s needs "
                      "validations during the run",
                      p->path,
                      rules[requires(p, POLICY_REQUIRE_VALIDATION) ? POLICY_REQUIRE_VALIDATION
                                                                   : POLICY_MAX_EVAL_EVERY]
                          .name);
  if (above(p, POLICY_MAX_EVAL_EVERY, (double)f->eval_every))
    return refuse(p, POLICY_MAX_EVAL_EVERY, "eval-every", (double)f->eval_every);
  return STATUS_CONTINUE;
}

static int refuse_group(const policy *p, policy_rule rule, const char *group) {
  return fail_usage("the policy %s refuses --group %s: its %s is %.10g", p->path, group,
                    rules[rule].name, p->limit[rule]);
}

/* The least factor by which --lr-scaling changes the rate: that of the smallest batch. */
static double scale(const train_flags *f) {
  const double factor = (double)batch_flag_least(&f->batches) / (double)f->rate.base_batch;
  return f->rate.scaling == AC_RATE_SCALING_LINEAR ? factor
         : f->rate.scaling == AC_RATE_SCALING_SQRT ? sqrt(factor)
                                                   : 1;
}

/* Rounding may add a little to scaled rates. */
static double rounded_off(double rate) {
  enum { ROUNDING = 1000000 };
  return rate - rate / ROUNDING;
}

/* The factor on rates of the parameters that muon leaves to adamw, if it is above 1. */
static double adamw_part(const ac_trainer_desc *trainer) {
  return fmax(1, trainer->optimizer.adamw_rate);
}

/* Schedules may rise above --lr, as with --lr-factor 3: by how much, as far as it is known. */
static double highest_rate(const ac_trainer_desc *trainer, int64_t steps) {
  enum {
    MOST = 1000000
  }; /* of a longer run the first and the last MOST; between them no update has the highest */
  double most = 0;
  for (int64_t step = 0; step < steps; step++) {
    if (step == MOST && steps - MOST > step) step = steps - MOST;
    most = fmax(most, ac_schedule_rate(&trainer->schedule, step));
  }
  return most;
}

/* Checks the highest rates that the schedule and --adamw-rate make of --lr. */
static int check_other_rates(const policy *p, const train_flags *f, const ac_trainer_desc *trainer,
                             int64_t steps) {
  const double limit = p->limit[POLICY_MAX_LR], part = fmax(1, f->adamw_rate);
  const double most = highest_rate(trainer, steps) * scale(f);
  if (rounded_off(most) > limit)
    return fail_usage("the policy %s refuses the schedule: its highest rate is %.6g, and %s is "
                      "%.10g",
                      p->path, most, rules[POLICY_MAX_LR].name, limit);
  if (rounded_off(most * part) > limit)
    return fail_usage(
        "the policy %s refuses --adamw-rate %.10g: with it the highest rate is %.6g, and "
        "its %s is %.10g",
        p->path, f->adamw_rate, most * part, rules[POLICY_MAX_LR].name, limit);
  for (int g = 0; g < trainer->group_count; g++)
    if (rounded_off(most * part * trainer->groups[g].settings.rate) > limit)
      return refuse_group(p, POLICY_MAX_LR, f->groups.list.items[g]);
  return STATUS_CONTINUE;
}

static int check_scaled_rate(const policy *p, const train_flags *f) {
  const double rate = f->rate.lr * scale(f);
  if (!above(p, POLICY_MAX_LR, rounded_off(rate))) return STATUS_CONTINUE;
  return fail_usage(
      "the policy %s refuses --lr %.10g, which --lr-scaling makes %.6g for a batch of "
      "%" PRId64 ": its %s is %.10g",
      p->path, f->rate.lr, rate, batch_flag_least(&f->batches), rules[POLICY_MAX_LR].name,
      p->limit[POLICY_MAX_LR]);
}

/* Checks rates and clips: --lr and --clip, and those of groups with their own. */
static int check_settings(const policy *p, const train_flags *f, const ac_trainer_desc *trainer) {
  if (above(p, POLICY_MAX_LR, f->rate.lr)) return refuse(p, POLICY_MAX_LR, "lr", f->rate.lr);
  const int scaled = check_scaled_rate(p, f);
  if (scaled != STATUS_CONTINUE) return scaled;
  if (requires(p, POLICY_MAX_CLIP) && f->clip_by > AC_CLIP_EACH)
    return fail_usage("the policy %s refuses --clip-by %s: its %s limits norms", p->path,
                      f->clip_by == AC_CLIP_VALUE ? "value" : "adaptive",
                      rules[POLICY_MAX_CLIP].name);
  if (above(p, POLICY_MAX_CLIP, f->clip > 0 ? f->clip : INFINITY))
    return refuse(p, POLICY_MAX_CLIP, "clip", f->clip);
  for (int g = 0; g < trainer->group_count; g++) {
    const ac_group_settings *own = &trainer->groups[g].settings;
    if (above(p, POLICY_MAX_LR, f->rate.lr * own->rate) ||
        above(p, POLICY_MAX_LR, rounded_off(f->rate.lr * own->rate * scale(f))))
      return refuse_group(p, POLICY_MAX_LR, f->groups.list.items[g]);
    if (own->clip != 0 && above(p, POLICY_MAX_CLIP, own->clip > 0 ? own->clip : INFINITY))
      return refuse_group(p, POLICY_MAX_CLIP, f->groups.list.items[g]);
  }
  return STATUS_CONTINUE;
}

int policy_check_run(const policy *p, const train_flags *f, const ac_trainer_desc *trainer,
                     int64_t steps) {
  const gradient_way *way = gradient_way_of(f->storage.gradients);
  int status = policy_check_batch(p, f);
  if (status == STATUS_CONTINUE) status = check_validation(p, f);
  if (status == STATUS_CONTINUE) status = check_settings(p, f, trainer);
  if (status == STATUS_CONTINUE && requires(p, POLICY_MAX_LR))
    status = check_other_rates(p, f, trainer, steps);
  if (status != STATUS_CONTINUE) return status;
  if (requires(p, POLICY_MAX_GRADIENT_NORM) && !way->has_norm)
    return fail_usage(
        "the policy %s refuses --gradients %s: it leaves no norm to compare with its %s", p->path,
        way->name, rules[POLICY_MAX_GRADIENT_NORM].name);
  if (above(p, POLICY_MAX_STEPS, (double)steps))
    return fail_usage("the policy %s refuses a run of %" PRId64 " steps: its %s is %.10g", p->path,
                      steps, rules[POLICY_MAX_STEPS].name, p->limit[POLICY_MAX_STEPS]);
  return STATUS_CONTINUE;
}

static int check_bytes(const policy *p, policy_rule rule, const char *flag, uint64_t bytes) {
  if (!above(p, rule, (double)bytes)) return STATUS_CONTINUE;
  const text limit = text_bytes((uint64_t)p->limit[rule]);
  return fail_usage("the policy %s refuses a plan of %s: its %s is %s; give --%s", p->path,
                    text_bytes(bytes).text, rules[rule].name, limit.text, flag);
}

int policy_check_memory(const policy *p, const ac_plan_info *plan) {
  int status = check_bytes(p, POLICY_MAX_MEMORY, "memory", plan->bytes.total);
  if (status != STATUS_CONTINUE) return status;
  return check_bytes(p, POLICY_MAX_HOST_MEMORY, "host-memory", plan->host_bytes);
}

static int end_run(const policy *p, policy_rule rule, int64_t step, const char *what,
                   double value) {
  return fail("step %" PRId64 ": the policy %s ends the run: %s %.6g is above its %s, %.10g", step,
              p->path, what, value, rules[rule].name, p->limit[rule]);
}

static double largest_part(const ac_trainer_desc *trainer) {
  double part = 1;
  for (int g = 0; g < trainer->group_count; g++)
    part = fmax(part, trainer->groups[g].settings.rate);
  return part * adamw_part(trainer);
}

/* With batches larger than the smallest, scaled rates may be larger than was known before. If a
 * window is skipped, or training goes back from it, it does not count. */
int policy_check_step(const policy *p, const ac_fit_event *event, const ac_trainer_desc *trainer,
                      double seconds) {
  const ac_update *u = &event->update;
  const double lr = u->lr * largest_part(trainer);
  if (above(p, POLICY_MAX_LR, rounded_off(lr)))
    return end_run(p, POLICY_MAX_LR, event->step, "a rate of", lr);
  const bool stays = !u->skipped && !event->went_back;
  if (stays && above(p, POLICY_MAX_GRADIENT_NORM, u->grad_norm))
    return end_run(p, POLICY_MAX_GRADIENT_NORM, event->step, "a gradient norm of", u->grad_norm);
  if (above(p, POLICY_MAX_MINUTES, seconds / 60))
    return end_run(p, POLICY_MAX_MINUTES, event->step, "a time in minutes of", seconds / 60);
  return STATUS_CONTINUE;
}

const char *policy_rule_name(policy_rule rule) {
  return rules[rule].name;
}
