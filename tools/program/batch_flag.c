#include "program/batch_flag.h"

#include "common/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  ac_batch_unit unit;
  int64_t factor;
  bool tokens;
} units[] = {{"", AC_BATCH_FROM_STEP, 1, false},
             {"ep", AC_BATCH_FROM_EPOCH, 1, false},
             {"samples", AC_BATCH_FROM_SAMPLE, 1, false},
             {"tok", AC_BATCH_FROM_SAMPLE, 1, true},
             {"ktok", AC_BATCH_FROM_SAMPLE, 1000, true},
             {"Mtok", AC_BATCH_FROM_SAMPLE, 1000000, true},
             {"Gtok", AC_BATCH_FROM_SAMPLE, 1000000000, true}};

/* A whole number of at most `most`; -1: there is none. Moves `text` to the end of it. */
static int64_t take_number(const char **text, int64_t most) {
  char *end;
  if (**text < '0' || **text > '9') return -1;
  const long long number = strtoll(*text, &end, 10);
  *text = end;
  return number <= most ? number : -1;
}

static bool take_unit(const char **text, ac_batch_stage *stage, bool *tokens) {
  const size_t length = strcspn(*text, ",");
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strlen(units[i].name) != length || memcmp(units[i].name, *text, length) != 0) continue;
    stage->unit = units[i].unit;
    stage->from *= units[i].factor;
    *tokens = units[i].tokens;
    *text += length;
    return true;
  }
  return false;
}

/* One stage, BATCH@FROM[UNIT]. The first stage may leave out @0. */
static bool take_stage(const char **text, batch_flag *f) {
  ac_batch_stage *stage = &f->stages[f->count];
  const int64_t most = 1 << 30, furthest = INT64_MAX / 2000000000;
  *stage = (ac_batch_stage){.batch = take_number(text, most)};
  f->counts_tokens[f->count] = false;
  if (stage->batch < 1) return false;
  if (**text != '@') return f->count++ == 0;
  ++*text;
  stage->from = take_number(text, furthest);
  return stage->from >= 0 && take_unit(text, stage, &f->counts_tokens[f->count++]);
}

/* FROM..MOST@noise. */
static int parse_growth(batch_flag *f, int64_t *largest) {
  const char *text = f->given.text;
  const int64_t most = 1 << 30, from = take_number(&text, most);
  const bool dots = !strncmp(text, "..", 2);
  if (dots) text += 2;
  const int64_t to = dots ? take_number(&text, most) : -1;
  if (from < 1 || to < 1 || strcmp(text, "@noise") != 0)
    return fail_usage("--batch %s is not a growth such as 32..1024@noise", f->given.text);
  if (from >= to)
    return fail_usage("--batch %s does not grow: %lld is not above %lld", f->given.text,
                      (long long)to, (long long)from);
  f->grow_from = from;
  *largest = to;
  return STATUS_CONTINUE;
}

/* Beginnings must rise. Only beginnings in the same unit can be compared; tokens and samples are
 * different units. */
static int check_rise(const batch_flag *f) {
  if (f->stages[0].from != 0)
    return fail_usage("--batch %s says no batch for the beginning; start it with %lld@0",
                      f->given.text, (long long)f->stages[0].batch);
  for (int i = 1; i < f->count; i++)
    for (int k = 0; k < i; k++) {
      const bool same =
          f->stages[i].unit == f->stages[k].unit && f->counts_tokens[i] == f->counts_tokens[k];
      if (f->stages[i].from == 0 || (same && f->stages[i].from <= f->stages[k].from))
        return fail_usage("--batch %s does not rise: %lld begins no later than %lld", f->given.text,
                          (long long)f->stages[i].batch, (long long)f->stages[k].batch);
    }
  return STATUS_CONTINUE;
}

int batch_flag_parse(batch_flag *f, int64_t *largest) {
  const char *text = f->given.text;
  f->count = 0;
  f->grow_from = 0;
  *largest = f->given.number;
  if (!text) return STATUS_CONTINUE;
  if (strstr(text, "..")) return parse_growth(f, largest);
  for (bool more = true; more; more = *text++ == ',') {
    if (f->count == AC_MAX_BATCH_STAGES)
      return fail_usage("--batch has more than %d stages", AC_MAX_BATCH_STAGES);
    if (!take_stage(&text, f) || (*text && *text != ','))
      return fail_usage("--batch %s is not a schedule such as 32@0,128@500,512@2ep,1024@10Mtok",
                        f->given.text);
  }
  *largest = 0;
  for (int i = 0; i < f->count; i++)
    if (f->stages[i].batch > *largest) *largest = f->stages[i].batch;
  return check_rise(f);
}

/* Tokens that rise may not rise when counted in samples of several tokens, and some stages may be
 * given in samples. */
static int check_samples(const batch_flag *f, int64_t per_sample) {
  for (int i = 1; i < f->count; i++)
    for (int k = 0; k < i; k++)
      if (f->stages[i].unit == AC_BATCH_FROM_SAMPLE && f->stages[k].unit == AC_BATCH_FROM_SAMPLE &&
          f->stages[i].from <= f->stages[k].from)
        return fail_usage("--batch %s does not rise when counted in samples of %lld tokens: %lld "
                          "begins no later than %lld",
                          f->given.text, (long long)per_sample, (long long)f->stages[i].batch,
                          (long long)f->stages[k].batch);
  return STATUS_CONTINUE;
}

int batch_flag_count_tokens(batch_flag *f, const train_data *data) {
  const int64_t per_sample = data->tokens_per_sample;
  for (int i = 0; i < f->count; i++) {
    if (!f->counts_tokens[i]) continue;
    if (!per_sample)
      return fail_usage("--batch %s counts tokens, but the data have none; count updates, epochs "
                        "(2ep) or samples (60000samples)",
                        f->given.text);
    f->stages[i].from = (f->stages[i].from + per_sample - 1) / per_sample;
    f->counts_tokens[i] = false;
  }
  return check_samples(f, per_sample);
}

const char *batch_flag_grown(const ac_trainer *trainer, char text[BATCH_FLAG_TEXT]) {
  ac_batch_stage stages[AC_MAX_BATCH_STAGES];
  int count;
  size_t used = 0;
  if (ac_trainer_get_growth(trainer, stages, &count) != AC_OK || !count) return NULL;
  for (int i = 0; i < count; i++)
    used += (size_t)snprintf(text + used, BATCH_FLAG_TEXT - used, "%s%" PRId64 "@%" PRId64,
                             i ? "," : "", stages[i].batch, stages[i].from);
  return text;
}

int64_t batch_flag_first(const batch_flag *f) {
  return f->grow_from ? f->grow_from : f->count ? f->stages[0].batch : f->given.number;
}

int64_t batch_flag_least(const batch_flag *f) {
  int64_t least = batch_flag_first(f);
  for (int i = 0; i < f->count; i++)
    if (f->stages[i].batch < least) least = f->stages[i].batch;
  return least;
}
