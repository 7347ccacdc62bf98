/* What a plan that is refused offers, held against the flags that ask for it: those of the command
 * line with those of the offer behind them are parsed and checked as if they had been given, so
 * what contradicts itself is not offered, and what follows from a flag counts. */
#include "program/setup.h"

#include "common/message.h"
#include "common/option_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 24, MOST_BYTES = 512 };

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

/* The words of the command line but for flags that the offer has instead. Returns their number. */
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

/* What the states of a run that goes on hold stays as it is stored. */
static bool goes_on(const setup *now, const setup *then) {
  const storage_flags *a = &now->flags.storage, *b = &then->flags.storage;
  return !now->flags.resume ||
         (a->weights == b->weights && a->optimizer_state == b->optimizer_state);
}

/* By the policy, if there is one: of a run all, once its steps are known; of any plan the memory
 * that it would have on the host. What it would have in all is not known here. */
static bool is_allowed(const setup *now, const setup *then, uint64_t on_host) {
  const ac_plan_info moved = {.host_bytes = on_host};
  if (policy_check_memory(&then->policy, &moved) != STATUS_CONTINUE) return false;
  return !now->steps || policy_check_run(&then->policy, &then->flags, &then->trainer, now->steps) ==
                            STATUS_CONTINUE;
}

bool setup_takes_offer(void *context, const char *flags, ac_plan_desc *desc) {
  const setup_request *request = context;
  const setup *now = request->setup;
  char text[MOST_BYTES], *more[MOST_WORDS];
  int count;
  if (strlen(flags) >= sizeof text || !cut(strcpy(text, flags), more, &count)) return false;
  setup_words words = now->words;
  words.argv = malloc((size_t)(words.argc + count + 1) * sizeof *words.argv);
  if (!words.argv) return false;
  words.argc = copy_others(now, more, count, words.argv);
  memcpy(words.argv + words.argc, more, (size_t)count * sizeof *more);
  words.argc += count;
  const bool was = message_silence(true);
  setup then;
  const uint64_t on_host = strstr(flags, "--host-memory") ? desc->host_memory : 0;
  bool takes = setup_parse_words(&then, &words) == STATUS_CONTINUE && goes_on(now, &then) &&
               is_allowed(now, &then, on_host);
  message_silence(was);
  if (takes) {
    ac_plan_desc asked = setup_describe(request, &then);
    asked.state_f32 = desc->state_f32;
    asked.frozen = desc->frozen;
    asked.memory = desc->memory;
    *desc = asked;
  }
  setup_close(&then);
  free(words.argv);
  return takes;
}
