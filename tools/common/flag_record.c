#include "common/flag_record.h"

#include <string.h>

size_t flag_words_next(const char **list, const char **word) {
  if (!*list) return 0;
  *word = *list + strspn(*list, " ");
  const size_t length = strcspn(*word, " ");
  *list = *word + length;
  return length;
}

bool flag_words_have(const char *list, const char *word, size_t length) {
  const char *at;
  for (size_t l; (l = flag_words_next(&list, &at));)
    if (l == length && !memcmp(at, word, length)) return true;
  return false;
}

/* "train" of "train gpt", and "bench-gemm" of "bench gemm", which has no model. */
static size_t command_word(const char *command, char *word, size_t size, const char **model) {
  size_t length = strcspn(command, " ");
  *model = command[length] ? command + length + 1 : NULL;
  if (length == 5 && !memcmp(command, "bench", 5)) length = strlen(command), *model = NULL;
  if (length >= size) length = size - 1;
  memcpy(word, command, length);
  word[length] = 0;
  for (size_t i = 0; i < length; i++)
    if (word[i] == ' ') word[i] = '-';
  return length;
}

bool flag_record_is_of(const flag_record *r, const char *command) {
  char word[32];
  const char *model;
  const size_t length = command_word(command, word, sizeof word, &model);
  return flag_words_have(r->commands, word, length) &&
         (!r->models || !model || flag_words_have(r->models, model, strlen(model)));
}

bool flag_record_is_ignored(const flag_record *r, const char *command) {
  char word[32];
  const char *model;
  const size_t length = command_word(command, word, sizeof word, &model);
  return flag_words_have(r->ignored_by, word, length);
}

const flag_record *flag_record_find(const char *name, const char *command) {
  for (int i = 0; i < flag_record_count; i++)
    if (!strcmp(flag_records[i].name, name) && flag_record_is_of(&flag_records[i], command))
      return &flag_records[i];
  return NULL;
}

const flag_group *flag_group_find(const char *name) {
  for (int i = 0; i < flag_group_count; i++)
    if (!strcmp(flag_groups[i].name, name)) return &flag_groups[i];
  return NULL;
}
