/* Flags with which a plan that was refused could fit. The library offers descriptions, and this
 * file translates them to flags. The words of the command line, followed by the flags of an offer,
 * are parsed and checked as if they had been given. So contradictions are not offered, and what
 * follows from a flag counts. */
#include "program/setup.h"

#include "common/message.h"
#include "common/option_record.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 24, MOST_BYTES = 512, MOST_OFFERS = 16 };

/* ---- flags and words ------------------------------------------------------------------------- */

/* Each relief, in the order in which flags are given. NULL: there is no flag. */
static const struct {
  unsigned relief;
  const char *flags, *what;
} rows[] = {
    {AC_RELIEF_NO_READ_AHEAD, "--read-ahead 0", "nothing read ahead"},
    {AC_RELIEF_GRADIENTS_AUTO, "--gradients auto", "no buffer for gradients"},
    {AC_RELIEF_GRADIENTS_SHARDED, "--gradients sharded", "gradients divided among ranks"},
    {AC_RELIEF_WORKING_COPIES_AUTO, "--working-copies auto", "no working copies of weights"},
    {AC_RELIEF_STATE_SPACE_AUTO, "--optimizer-state-in auto", NULL},
    {AC_RELIEF_HOST_MEMORY, "--host-memory", "optimizer state in host memory"},
    {AC_RELIEF_EXACT_BATCH_NORM, "--batch-norm exact", "batch norm over several micro-batches"},
    {AC_RELIEF_MICRO_BATCH_NORM, "--batch-norm micro", "batch norm sees one micro-batch"},
    {AC_RELIEF_MICRO_BATCH_1, "--micro-batch 1", "one sample at a time"},
    {AC_RELIEF_RECOMPUTE_AUTO, "--recompute auto", "recomputation as needed"},
    {AC_RELIEF_NO_HINTS, NULL, NULL},
    {AC_RELIEF_GRADIENTS_FOLDED, "--gradients folded --clip 0",
     "gradients folded into the optimizer's state"},
    {AC_RELIEF_PRECISION_F16, "--precision f16", "precision f16"},
    {AC_RELIEF_STATE_8BIT, "--optimizer-state 8bit --state-f32 ''", "optimizer state in 8 bits"},
    {AC_RELIEF_WEIGHTS_BF16, "--precision bf16 --weights bf16", "weights in bf16"},
    {AC_RELIEF_GRADIENTS_LOCAL, "--gradients fused-local", "each weight clipped and stepped alone"},
    {AC_RELIEF_GRADIENTS_BF16, "--gradients bf16", "gradients in bf16"},
};

static void append(char text[MOST_BYTES], const char *between, const char *more) {
  const size_t used = strlen(text);
  snprintf(text + used, MOST_BYTES - used, "%s%s", used ? between : "", more);
}

/* False: some of the reliefs have no flag. */
static bool flags_of(unsigned reliefs, const ac_plan_desc *desc, char flags[MOST_BYTES]) {
  char bytes[32];
  flags[0] = 0;
  snprintf(bytes, sizeof bytes, "%" PRIu64, desc->host_memory);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!(reliefs & rows[i].relief)) continue;
    if (!rows[i].flags) return false;
    append(flags, " ", rows[i].flags);
    if (rows[i].relief == AC_RELIEF_HOST_MEMORY) append(flags, " ", bytes);
    if (rows[i].relief == AC_RELIEF_GRADIENTS_FOLDED && desc->optimizer.kind == AC_MUON)
      append(flags, " ", "--no-nesterov");
  }
  return true;
}

/* `fused`: whether the flags take a batch at once. */
static void words_of(unsigned reliefs, const ac_plan_desc *desc, bool whole,
                     char words[MOST_BYTES]) {
  words[0] = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!(reliefs & rows[i].relief) || !rows[i].what) continue;
    const bool split = whole && rows[i].relief == AC_RELIEF_GRADIENTS_AUTO;
    append(words, ", ", split ? "gradients in micro-batches" : rows[i].what);
  }
  if ((reliefs & AC_RELIEF_GRADIENTS_FOLDED) && desc->optimizer.kind == AC_ADAMW)
    append(words, " ", "(AdamA, an approximation)");
}

/* ---- whether the program takes an offer ------------------------------------------------------ */

/* Cuts a text at its spaces; '' is an empty word. False: there is no room. */
static bool cut(char text[MOST_BYTES], char *words[MOST_WORDS], int *count) {
  char *rest;
  *count = 0;
  for (char *w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
    if (*count == MOST_WORDS) return false;
    words[(*count)++] = strcmp(w, "''") ? w : w + 2;
  }
  return true;
}

/* The words of the command line without the flags that the offer replaces. Returns their number. */
static int copy_others(const setup *now, char **more, int count, char **to) {
  char **words = now->words.argv, name[64];
  int copied = 0;
  for (int i = 0; i < now->words.argc; i++) {
    const bool is_flag = !strncmp(words[i], "--", 2);
    const size_t length = is_flag ? strcspn(words[i] + 2, "=") : 0;
    snprintf(name, sizeof name, "%.*s", (int)length, is_flag ? words[i] + 2 : "");
    const option *row = is_flag ? options_find(&now->options, name) : NULL;
    const bool replaced = row && row->kind != OPTION_LIST && options_named(name, count, more);
    const bool has_value = row && row->kind != OPTION_SWITCH && !words[i][2 + length];
    if (!replaced) to[copied++] = words[i];
    else i += has_value;
  }
  return copied;
}

ac_plan_desc setup_describe(const setup_request *request, const setup *flags) {
  ac_plan_desc desc = setup_plan_desc(flags);
  if (!desc.micro_batch) desc.micro_batch = request->micro_batch;
  if (request->change) request->change(&desc);
  return desc;
}

/* The states of a run that is resumed keep their storage. */
static bool goes_on(const setup *now, const setup *then) {
  const storage_flags *a = &now->flags.storage, *b = &then->flags.storage;
  return !now->flags.resume ||
         (a->weights == b->weights && a->optimizer_state == b->optimizer_state);
}

/* Checks the policy, if there is one: for a run all rules, if its updates are known; for any plan
 * only the rule for memory on the host. Memory in all is not known here. */
static bool is_allowed(const setup *now, const setup *then, uint64_t on_host) {
  const ac_plan_info moved = {.host_bytes = on_host};
  if (policy_check_memory(&then->policy, &moved) != STATUS_CONTINUE) return false;
  return !now->steps || policy_check_run(&then->policy, &then->flags, &then->trainer, now->steps) ==
                            STATUS_CONTINUE;
}

static bool takes_offer(void *context, unsigned reliefs, ac_plan_desc *desc) {
  const setup_request *request = context;
  const setup *now = request->setup;
  char text[MOST_BYTES], *more[MOST_WORDS];
  int count;
  if (!flags_of(reliefs, desc, text) || !cut(text, more, &count)) return false;
  setup_words words = now->words;
  words.argv = malloc((size_t)(words.argc + count + 1) * sizeof *words.argv);
  if (!words.argv) return false;
  words.argc = copy_others(now, more, count, words.argv);
  memcpy(words.argv + words.argc, more, (size_t)count * sizeof *more);
  words.argc += count;
  const bool was = message_silence(true);
  setup then;
  const uint64_t on_host = reliefs & AC_RELIEF_HOST_MEMORY ? desc->host_memory : 0;
  bool takes = setup_parse_words(&then, &words) == STATUS_CONTINUE && goes_on(now, &then) &&
               is_allowed(now, &then, on_host);
  message_silence(was);
  if (takes) {
    ac_plan_desc asked = setup_describe(request, &then);
    asked.optimizer.state_f32 = desc->optimizer.state_f32;
    asked.frozen = desc->frozen;
    asked.memory = desc->memory;
    *desc = asked;
  }
  setup_close(&then);
  free(words.argv);
  return takes;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Rounded up to a tenth of its unit, so that --memory takes it as it is printed. */
static const char *needed(char *text, size_t size, uint64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (unit < 3 && bytes >> (10 * (unit + 2))) unit++;
  const uint64_t one = UINT64_C(1) << (10 * (unit + 1));
  const uint64_t tenths = bytes / one * 10 + (bytes % one * 10 + one - 1) / one;
  snprintf(text, size, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[unit]);
  return text;
}

static void print_table(const ac_plan_offer *list, int count, const ac_plan_desc *asked) {
  const bool whole = gradient_way_of(asked->gradients)->one_micro_batch;
  char flags[MOST_BYTES], words[MOST_BYTES], amount[48], bytes[32];
  int width = 5;
  for (int i = 0; i < count; i++) {
    flags_of(list[i].reliefs, &list[i].desc, flags);
    if ((int)strlen(flags) > width) width = (int)strlen(flags);
  }
  say("Less would do with one of these (the flags are for this command):");
  say("%14s  %-4s  %-*s  %s", "needs", "fits", width, "flags", "what changes");
  for (int i = 0; i < count; i++) {
    const ac_plan_offer *x = &list[i];
    flags_of(x->reliefs, &x->desc, flags);
    words_of(x->reliefs, &x->desc, whole, words);
    snprintf(amount, sizeof amount, "%s%s", x->at_most ? "<= " : "",
             needed(bytes, sizeof bytes, x->bytes));
    const bool fits = asked->memory && x->bytes <= asked->memory;
    say("%14s  %-4s  %-*s  %s", amount, fits ? "yes" : "no", width, flags, words);
  }
}

static bool any_fits(const ac_plan_offer *list, int count, uint64_t memory) {
  for (int i = 0; i < count; i++)
    if (list[i].bytes <= memory) return true;
  return false;
}

/* Advice that is not an offer, as it trains something else. */
static void print_ways_out(const setup *s, const ac_plan_desc *asked, bool offered) {
  const bool other = asked->optimizer.kind != AC_ADAFACTOR && !s->flags.resume;
  say("%sWhat else needs less: %s%s%sa smaller model.", offered ? "None of these fits. " : "",
      asked->batch > 1 ? "a smaller --batch, " : "",
      s->trainer.states_without_frozen ? "--base q4_0, a smaller --context or --lora, " : "",
      other ? "--optimizer adafactor (with --precision bf16 --weights bf16 least of all), " : "");
}

void setup_print_offers(const setup_request *request, const ac_graph *graph) {
  const setup *s = request->setup;
  ac_plan_offer list[MOST_OFFERS];
  int count = 0;
  ac_plan_desc desc = setup_describe(request, s);
  desc.offers = takes_offer;
  desc.offers_context = (void *)(uintptr_t)request;
  /* A budget beyond the machine's memory is refused for that, however little is needed. */
  const uint64_t has = ac_device_get_info(s->device)->memory_bytes;
  if (has && desc.memory > has) return;
  if (ac_plan_offers(graph, s->device, &desc, list, MOST_OFFERS, &count) != AC_OK) return;
  if (count > MOST_OFFERS) count = MOST_OFFERS;
  if (count) print_table(list, count, &desc);
  if (desc.memory && !any_fits(list, count, desc.memory)) print_ways_out(s, &desc, count > 0);
}
