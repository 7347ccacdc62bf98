#include "common/option_record.h"

#include "common/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command line ------------------------------------------------------------------------ */

static const char *word_of(const char *name, int argc, char **argv, int *index) {
  const size_t length = strlen(name);
  for (int i = 0; i < argc; i++)
    if (!strncmp(argv[i], "--", 2) && !strncmp(argv[i] + 2, name, length) &&
        (!argv[i][2 + length] || argv[i][2 + length] == '=')) {
      *index = i;
      return argv[i] + 2 + length;
    }
  return NULL;
}

bool options_named(const char *name, int argc, char **argv) {
  int index;
  return word_of(name, argc, argv, &index);
}

const char *options_value(const char *name, int argc, char **argv) {
  int index;
  const char *rest = word_of(name, argc, argv, &index);
  if (!rest) return NULL;
  if (*rest) return rest + 1;
  return index + 1 < argc ? argv[index + 1] : NULL;
}

/* ---- recording ------------------------------------------------------------------------------- */

bool options_listed(const char *name, const char *names) {
  const size_t length = strlen(name);
  for (const char *at = names; (at = strstr(at, name)); at += length)
    if ((at == names || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
  return false;
}

static json_t *text_of(const option *row, const char *text) {
  json_t *value = text ? json_string(text) : json_null();
  if (value) return value;
  say("--%s is not UTF-8, so the run's record cannot repeat it", row->name);
  return json_null();
}

static json_t *list_of(const option *row) {
  const option_list *list = row->value;
  json_t *items = json_array();
  for (int i = 0; i < list->count; i++) json_array_append_new(items, text_of(row, list->items[i]));
  return items;
}

/* Whether a number is a default outside of its flag's range: nobody gave it. */
static bool is_open(const option *row, double value) {
  return row->fallback && !options_in_range(row, value);
}

static json_t *value_of(const option *row) {
  int length;
  const char *text;
  switch (row->kind) {
  case OPTION_SWITCH:
    return json_boolean(*(const bool *)row->value);
  case OPTION_INTEGER:
    if (is_open(row, (double)*(const int64_t *)row->value)) return json_null();
    return json_integer(*(const int64_t *)row->value);
  case OPTION_STAGES:
    text = ((const option_stages *)row->value)->text;
    return text ? json_string(text) : json_integer(((const option_stages *)row->value)->number);
  case OPTION_REAL:
    return is_open(row, *(const double *)row->value) ? json_null()
                                                     : json_real(*(const double *)row->value);
  case OPTION_SIZE:
    if (!*(const uint64_t *)row->value) return json_null();
    return json_integer((json_int_t) * (const uint64_t *)row->value);
  case OPTION_CHOICE:
    text = option_choice_name(row->argument, *(const int *)row->value, &length);
    return json_stringn(text, (size_t)length);
  case OPTION_TEXT:
    return text_of(row, *(const char *const *)row->value);
  case OPTION_LIST:
    return list_of(row);
  }
  return json_null();
}

bool options_record(const options *o, bool (*keeps)(const flag_record *r), json_t *record) {
  json_t *flags = json_object(), *given = json_array();
  bool good = json_object_set_new(record, "flags", flags) == 0 &&
              json_object_set_new(record, "given", given) == 0;
  for (int i = 0; i < o->count && good; i++) {
    const option *row = &o->rows[i];
    if (row->record && !keeps(row->record)) continue;
    good = json_object_set_new(flags, row->name, value_of(row)) == 0;
    if (row->given) good = good && json_array_append_new(given, json_string(row->name)) == 0;
  }
  return good;
}

/* ---- restoring ------------------------------------------------------------------------------- */

static bool set_choice(const option *row, const char *name) {
  int length;
  for (int i = 0; name && *option_choice_name(row->argument, i, &length); i++) {
    const char *choice = option_choice_name(row->argument, i, &length);
    if ((size_t)length != strlen(name) || memcmp(choice, name, (size_t)length) != 0) continue;
    *(int *)row->value = i;
    return true;
  }
  return false;
}

/* The range of a flag, and its default, which may lie outside. */
static bool is_allowed(const option *row, double value, double fallback) {
  return value == fallback || options_in_range(row, value);
}

/* A JSON number, or a text if it cannot be one. */
static bool take_stages(const option *row, const json_t *value) {
  option_stages *stages = row->value;
  const char *text = json_string_value(value);
  stages->text = text && strpbrk(text, "@,") ? text : NULL;
  if (stages->text) return true;
  if (!json_is_integer(value) || !options_in_range(row, json_number_value(value))) return false;
  stages->number = json_integer_value(value);
  return true;
}

static bool take_list(const option *row, const json_t *value) {
  option_list *list = row->value;
  list->count = 0;
  if (!json_is_array(value) || json_array_size(value) > OPTION_LIST_MOST) return false;
  for (size_t i = 0; i < json_array_size(value); i++) {
    const char *item = json_string_value(json_array_get(value, i));
    if (!item) return false;
    list->items[list->count++] = item;
  }
  return true;
}

/* Whether a flag may have no value: its default has none. */
static bool is_left_open(const option *row) {
  switch (row->kind) {
  case OPTION_INTEGER:
    return is_open(row, (double)*(const int64_t *)row->value);
  case OPTION_REAL:
    return is_open(row, *(const double *)row->value);
  case OPTION_SIZE:
    return !*(const uint64_t *)row->value;
  default:
    return false;
  }
}

/* False: the flag does not allow the value. Null means no text, which some flags always have, or a
 * number that was left open. */
static bool take(const option *row, const json_t *value) {
  const double number = json_number_value(value);
  if (json_is_null(value) && row->kind != OPTION_TEXT) return is_left_open(row);
  switch (row->kind) {
  case OPTION_SWITCH:
    *(bool *)row->value = json_is_true(value);
    return json_is_boolean(value);
  case OPTION_INTEGER:
    if (!json_is_integer(value) || !is_allowed(row, number, (double)*(int64_t *)row->value))
      return false;
    *(int64_t *)row->value = json_integer_value(value);
    return true;
  case OPTION_STAGES:
    return take_stages(row, value);
  case OPTION_REAL:
    if (!json_is_number(value) || !is_allowed(row, number, *(double *)row->value)) return false;
    *(double *)row->value = number;
    return true;
  case OPTION_SIZE:
    *(uint64_t *)row->value = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
  case OPTION_CHOICE:
    return set_choice(row, json_string_value(value));
  case OPTION_TEXT:
    if (json_is_null(value)) return !*(const char **)row->value;
    *(const char **)row->value = json_string_value(value);
    return json_is_string(value);
  case OPTION_LIST:
    return take_list(row, value);
  }
  return false;
}

static option *find(options *o, const char *name) {
  for (int i = 0; i < o->count; i++)
    if (!strcmp(o->rows[i].name, name)) return &o->rows[i];
  return NULL;
}

/* Whether a flag that excludes this one, or is excluded by it, is named. */
static bool is_excluded(const options *o, const option *row,
                        bool (*is_named)(const char *name, const void *by), const void *by) {
  if (!row->record) return false;
  for (int i = 0; i < o->count; i++) {
    const option *other = &o->rows[i];
    if (!other->record || !is_named(other->name, by)) continue;
    if (flag_words_have(row->record->excludes, other->name, strlen(other->name)) ||
        flag_words_have(other->record->excludes, row->name, strlen(row->name)))
      return true;
  }
  return false;
}

typedef struct command_line {
  int argc;
  char **argv;
} command_line;

static bool is_typed(const char *name, const void *by) {
  const command_line *line = by;
  return options_named(name, line->argc, line->argv);
}

static bool is_in_record(const char *name, const void *by) {
  size_t index;
  json_t *given;
  json_array_foreach(json_object_get(by, "given"), index, given) {
    if (json_is_string(given) && !strcmp(json_string_value(given), name)) return true;
  }
  return false;
}

/* What another run has written stays that run's, unless what it belongs to is asked for. */
static bool stays(const option *row, const command_line *line) {
  const flag_record *r = row->record;
  if (!r || r->record == FLAG_RECORD_KEPT) return false;
  if (r->record != FLAG_RECORD_OWN) return true;
  return is_typed("config", line) && !(r->needs && is_typed(r->needs, line));
}

static bool is_replaced(const options *o, const option *row, const command_line *line) {
  return is_typed(row->name, line) || is_excluded(o, row, is_typed, line);
}

int options_restore(options *o, const json_t *record, const char *from, int argc, char **argv) {
  const command_line line = {argc, argv};
  const json_t *flags = json_object_get(record, "flags");
  if (!json_is_object(flags)) return fail_usage("%s holds no flags of a run", from);
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)flags, name, value) {
    const option *row = find(o, name);
    if (!row) return fail_usage("%s has the unknown flag --%.64s", from, name);
    if (stays(row, &line) || is_replaced(o, row, &line)) continue;
    /* It has no value, as the record has another in its place. */
    if (is_excluded(o, row, is_in_record, record)) continue;
    if (!take(row, value)) return fail_usage("%s has a wrong value for --%s", from, row->name);
  }
  size_t index;
  json_array_foreach(json_object_get(record, "given"), index, value) {
    option *row = json_is_string(value) ? find(o, json_string_value(value)) : NULL;
    if (!row || stays(row, &line)) continue;
    if (!is_replaced(o, row, &line)) row->given = row->recorded = true;
  }
  return STATUS_CONTINUE;
}
