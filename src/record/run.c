#include "record/run.h"

#include "core/floats.h"

#include <math.h>
#include <string.h>

#define NUMBER(key, kind, member, most) AC_STATE_FIELD(key, kind, ac_run, member, most)
#define COUNT(key, member) NUMBER(key, AC_COUNT, member, AC_MOST_COUNT)

/* ---- the run, and its plan ------------------------------------------------------------------- */

static const ac_state_field of_run[] = {
    COUNT("version", plan.version),
    COUNT("updates", updates),
    NUMBER("seed", AC_UNSIGNED, seed, 0),
    NUMBER("optimizer", AC_COUNT, plan.optimizer, AC_OPTIMIZER_COUNT - 1),
    NUMBER("precision", AC_COUNT, plan.precision, AC_PRECISION_BF16),
    NUMBER("loss_means", AC_COUNT, plan.loss_means, AC_LOSS_MEANS_PER_SAMPLE),
    COUNT("batch", plan.batch),
    COUNT("micro_batch", plan.micro_batch),
    {0}};

static const char *check_plan(const void *record, const ac_run *run) {
  const ac_run_plan *plan = &run->plan;
  (void)record;
  if (plan->batch < 1) return "batch";
  return plan->micro_batch < 1 || plan->micro_batch > plan->batch ? "micro_batch" : NULL;
}

static void keep_plan(void *read, const void *own) {
  ((ac_run *)read)->plan = ((const ac_run *)own)->plan;
}

const ac_record ac_record_run = {.fields = of_run, .check = check_plan, .settle = keep_plan};

/* ---- its place in the data ------------------------------------------------------------------- */

static const ac_state_field of_fit[] = {
    NUMBER("fit.begun", AC_COUNT, fit.begun, 1),
    COUNT("fit.steps", fit.steps),
    COUNT("fit.updates", fit.updates),
    COUNT("fit.skipped", fit.skipped),
    COUNT("fit.samples", fit.samples),
    COUNT("fit.epoch", fit.next.epoch),
    COUNT("fit.position", fit.next.position),
    NUMBER("fit.evaluation_due", AC_COUNT, fit.evaluation_due, 1),
    /* Which a generator may have. */
    NUMBER("fit.count", AC_COUNT, fit.count, INT64_MAX),
    NUMBER("fit.seed", AC_UNSIGNED, fit.seed, 0),
    NUMBER("fit.no_shuffle", AC_COUNT, fit.no_shuffle, 1),
    {0}};

static const char *check_fit(const void *record, const ac_run *run) {
  (void)record;
  return run->fit.begun && run->fit.next.position >= run->fit.count ? "fit.position" : NULL;
}

const ac_record ac_record_fit = {.fields = of_fit, .check = check_fit};

bool ac_fingerprint_may_be(const char *text) {
  size_t length = 0;
  while (length <= AC_MAX_FINGERPRINT && text[length] >= ' ' && text[length] <= '~') length++;
  return length <= AC_MAX_FINGERPRINT && !text[length];
}

static size_t fingerprint_room(const void *record) {
  (void)record;
  return AC_MAX_FINGERPRINT + 1;
}

static void put_fingerprint(const void *record, char *text) {
  strcpy(text, ((const ac_run *)record)->fingerprint);
}

static bool get_fingerprint(void *record, const char *text) {
  if (!*text || !ac_fingerprint_may_be(text)) return false;
  strcpy(((ac_run *)record)->fingerprint, text);
  return true;
}

static bool has_fingerprint(const void *record) {
  return *((const ac_run *)record)->fingerprint;
}

static void forget_fingerprint(void *record) {
  ((ac_run *)record)->fingerprint[0] = 0;
}

static const ac_state_text fingerprint = {fingerprint_room, put_fingerprint, get_fingerprint};
static const ac_state_field of_fingerprint[] = {
    {.key = "accrue.state.fit.fingerprint", .text = &fingerprint}, {0}};
const ac_record ac_record_fingerprint = {
    .fields = of_fingerprint, .is_kept = has_fingerprint, .anew = forget_fingerprint};

/* ---- the window in progress ------------------------------------------------------------------ */

#define WEIGHTS(key_, member)                                                                     \
  {                                                                                               \
    .key = "accrue.state." key_, .head = {{.kind = AC_REAL, .offset = offsetof(ac_run, member)}}, \
    .repeated = AC_MAX_LOSSES                                                                     \
  }
static const ac_state_field of_window[] = {COUNT("window.samples", samples),
                                           COUNT("window.whole_samples", whole_samples),
                                           WEIGHTS("window.fed", fed_weight),
                                           WEIGHTS("window.whole", whole_weight),
                                           {0}};
const ac_record ac_record_window = {.fields = of_window};

void ac_run_leave_window(ac_run *run) {
  run->samples = run->whole_samples = 0;
  memset(run->fed_weight, 0, sizeof run->fed_weight);
  memset(run->whole_weight, 0, sizeof run->whole_weight);
}

static bool has_batch(const void *record) {
  const ac_run *run = record;
  return run->batch != run->plan.batch;
}

/* A run that goes on has the batch of its plan, where the other's was its plan's. */
static void forget_batch(void *record) {
  ((ac_run *)record)->batch = INT64_MAX;
}

static const char *check_batch(const void *record, const ac_run *run) {
  (void)record;
  const bool of_plan = run->batch == INT64_MAX;
  return !of_plan && (run->batch < 1 || run->batch > run->plan.batch) ? "window.batch" : NULL;
}

static void fit_batch(void *read, const void *own) {
  const int64_t most = ((const ac_run *)own)->plan.batch;
  ac_run *run = read;
  if (run->batch > most) run->batch = most;
}

static const ac_state_field of_batch[] = {COUNT("window.batch", batch), {0}};
const ac_record ac_record_window_batch = {.fields = of_batch,
                                          .is_kept = has_batch,
                                          .anew = forget_batch,
                                          .check = check_batch,
                                          .settle = fit_batch};

/* ---- groups of parameters -------------------------------------------------------------------- */

static const ac_state_rows settings = {
    .of = {{.kind = AC_REAL, .offset = offsetof(ac_group_settings, rate)},
           {.kind = AC_REAL, .offset = offsetof(ac_group_settings, weight_decay), .before = ' '},
           {.kind = AC_REAL, .offset = offsetof(ac_group_settings, clip), .before = ' '}},
    .between = ' ',
    .begin = offsetof(ac_run, groups.settings),
    .stride = sizeof(ac_group_settings),
    .count = {.kind = AC_SMALL, .offset = offsetof(ac_run, groups.count)}};
static const ac_state_field of_groups[] = {{.key = AC_STATE_GROUPS, .rows = &settings}, {0}};

static bool has_groups(const void *record) {
  return ((const ac_run *)record)->groups.changed;
}

static void reset_groups(void *record) {
  ac_groups_reset(&((ac_run *)record)->groups);
}

static void take_groups(void *record) {
  ((ac_run *)record)->groups.changed = true;
}

static const char *check_groups(const void *record, const ac_run *run) {
  (void)record;
  for (int g = 0; g < run->groups.count; g++) {
    const ac_group_settings *s = &run->groups.settings[g];
    if (!(s->rate >= 0) || !ac_is_float(s->rate) || !ac_is_float(s->weight_decay) || isnan(s->clip))
      return "groups";
  }
  return NULL;
}

const ac_record ac_record_groups = {.fields = of_groups,
                                    .of_model = true,
                                    .is_kept = has_groups,
                                    .anew = reset_groups,
                                    .came = take_groups,
                                    .check = check_groups};
