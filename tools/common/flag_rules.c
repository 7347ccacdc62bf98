#include "common/flag_rules.h"

#include "common/message.h"

#include <stdio.h>
#include <string.h>

static option *find(const options *o, const char *word, size_t length) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)length, word);
  return options_find(o, name);
}

static int check_excludes(const options *o, const option *row) {
  const char *list = row->record->excludes, *word;
  for (size_t length; (length = flag_words_next(&list, &word));) {
    const option *other = find(o, word, length);
    if (other && other->given)
      return fail_usage("--%s and --%s contradict each other; give one of them", row->name,
                        other->name);
  }
  return STATUS_CONTINUE;
}

/* "a, b or c" of "a|b|c". */
static void words_of(const char *choices, size_t length, char *text, size_t size) {
  size_t used = 0;
  const char *last = NULL;
  text[0] = 0;
  for (size_t i = 0; i < length; i++)
    if (choices[i] == '|') last = choices + i;
  for (size_t i = 0; i < length && used + 8 < size; i++) {
    if (choices[i] != '|') text[used++] = choices[i];
    else
      used += (size_t)snprintf(text + used, size - used, "%s", choices + i == last ? " or " : ", ");
  }
  text[used < size ? used : size - 1] = 0;
}

static bool has_choice(const char *choices, size_t length, const char *value) {
  const size_t wanted = strlen(value);
  for (size_t i = 0, end; i <= length; i = end + 1) {
    for (end = i; end < length && choices[end] != '|'; end++) {
    }
    if (end - i == wanted && !memcmp(choices + i, value, wanted)) return true;
  }
  return false;
}

/* One condition: "tensorboard" or "schedule=step|cyclic". */
static int check_need(const options *o, const option *row, const char *need, size_t length) {
  char value[64], words[256];
  const size_t name = strcspn(need, "= ");
  const option *other = find(o, need, name < length ? name : length);
  if (!other) return STATUS_CONTINUE;
  if (name >= length) {
    if (other->given) return STATUS_CONTINUE;
    return fail_usage("--%s has no meaning without --%s", row->name, other->name);
  }
  const char *choices = need + name + 1;
  const size_t rest = length - name - 1;
  options_value_text(other, value, sizeof value);
  if (has_choice(choices, rest, value)) return STATUS_CONTINUE;
  words_of(choices, rest, words, sizeof words);
  if (!memchr(choices, '|', rest))
    return fail_usage("--%s has no meaning without --%s %s", row->name, other->name, words);
  return fail_usage("--%s has no meaning with --%s %s; it is for %s", row->name, other->name, value,
                    words);
}

static int check_needs(const options *o, const option *row) {
  const char *list = row->record->needs, *need;
  int status = STATUS_CONTINUE;
  for (size_t length; status == STATUS_CONTINUE && (length = flag_words_next(&list, &need));)
    status = check_need(o, row, need, length);
  return status;
}

int flag_rules_check(const options *o) {
  int status = STATUS_CONTINUE;
  for (int i = 0; i < o->count && status == STATUS_CONTINUE; i++) {
    const option *row = &o->rows[i];
    if (!row->record || !row->given) continue;
    status = check_excludes(o, row);
    if (status == STATUS_CONTINUE && !row->recorded) status = check_needs(o, row);
  }
  return status;
}
