#include "common/option_record.h"

#include "common/json_text.h"
#include "common/message.h"

#include <math.h>
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

/* ---- configurations -------------------------------------------------------------------------- */

/* In the largest unit that tells it in a few digits, or in bytes. */
static json_t *size_of(uint64_t bytes) {
  static const struct {
    const char *unit;
    double bytes;
  } units[] = {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}};
  char text[40];
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    uint64_t again;
    const double count = (double)bytes / units[i].bytes;
    snprintf(text, sizeof text, "%.6g%s", count, units[i].unit);
    if (count >= 1 && options_read_size(text, &again) && again == bytes) return json_string(text);
  }
  return json_integer((json_int_t)bytes);
}

/* Without a fraction where there is none: 10, not 1e1. */
static json_t *setting_of(const option *row) {
  if (row->kind == OPTION_SIZE && *(const uint64_t *)row->value)
    return size_of(*(const uint64_t *)row->value);
  if (row->kind != OPTION_REAL) return value_of(row);
  const double x = *(const double *)row->value;
  return x == floor(x) && fabs(x) < 1e15 ? json_integer((json_int_t)x) : value_of(row);
}

static bool is_out_of_range(const option *row) {
  if (row->kind == OPTION_INTEGER)
    return !options_in_range(row, (double)*(const int64_t *)row->value);
  return row->kind == OPTION_REAL && !options_in_range(row, *(const double *)row->value);
}

static bool is_empty(const option *row, const json_t *value) {
  return json_is_null(value) || (row->kind == OPTION_LIST && !json_array_size(value)) ||
         (row->kind == OPTION_SWITCH && json_is_false(value) && row->given);
}

bool options_config(const options *o, int count, const char *except, json_t *file) {
  json_t *flags = json_object(), *defaults = json_object();
  bool good = json_object_set_new(file, "flags", flags) == 0 &&
              json_object_set_new(file, "defaults", defaults) == 0;
  for (int i = 0; i < count && good; i++) {
    const option *row = &o->rows[i];
    if (options_listed(row->name, except) || is_out_of_range(row)) continue;
    const bool starts = row->record && row->record->record == FLAG_RECORD_NEVER;
    if (starts && !row->given) continue;
    json_t *value = setting_of(row);
    if (is_empty(row, value)) json_decref(value);
    else good = json_object_set_new(row->given ? flags : defaults, row->name, value) == 0;
  }
  return good;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *wanted(const option *row) {
  switch (row->kind) {
  case OPTION_SWITCH:
    return "true or false";
  case OPTION_INTEGER:
    return "a whole number";
  case OPTION_STAGES:
    return "a whole number, or a schedule such as \"32@0,128@500\"";
  case OPTION_REAL:
    return "a number";
  case OPTION_SIZE:
    return "a size such as \"1.5GiB\", or a whole number of bytes";
  case OPTION_CHOICE:
  case OPTION_TEXT:
    return "a text";
  case OPTION_LIST:
    return "a list of at most 8 texts";
  }
  return "";
}

static int refuse(const option *row, const json_t *value) {
  const char *choices = row->kind == OPTION_CHOICE ? row->argument : NULL;
  char *text = json_text_short(value, JSON_ENCODE_ANY | JSON_COMPACT);
  fail_usage("%.60s is not allowed: it must be %s%s%s", text ? text : "", wanted(row),
             choices ? ", one of " : "", choices ? choices : "");
  free(text);
  return STATUS_USAGE;
}

static bool is_of_kind(const option *row, const json_t *value) {
  switch (row->kind) {
  case OPTION_SWITCH:
    return json_is_boolean(value);
  case OPTION_INTEGER:
    return json_is_integer(value);
  case OPTION_STAGES:
    return json_is_integer(value) ||
           (json_is_string(value) && strpbrk(json_string_value(value), "@,"));
  case OPTION_REAL:
    return json_is_number(value);
  case OPTION_SIZE:
    return json_is_integer(value) || json_is_string(value);
  case OPTION_CHOICE:
  case OPTION_TEXT:
    return json_is_string(value);
  case OPTION_LIST:
    return json_is_array(value) && json_array_size(value) <= OPTION_LIST_MOST;
  }
  return false;
}

/* Texts stay the file's. */
static int set_text(option *row, const json_t *value) {
  if (json_is_string(value)) return options_set(row, json_string_value(value));
  char *text = json_text_short(value, JSON_ENCODE_ANY | JSON_COMPACT);
  const int status = text ? options_set(row, text) : fail("out of memory");
  free(text);
  return status;
}

static int set_list(option *row, const json_t *value) {
  size_t index;
  json_t *item;
  ((option_list *)row->value)->count = 0;
  json_array_foreach((json_t *)value, index, item) {
    if (!json_is_string(item)) return refuse(row, value);
    const int status = options_set(row, json_string_value(item));
    if (status != STATUS_CONTINUE) return status;
  }
  return STATUS_CONTINUE;
}

static int set_value(option *row, const json_t *value) {
  if (!is_of_kind(row, value)) return refuse(row, value);
  if (row->kind == OPTION_LIST) return set_list(row, value);
  if (row->kind != OPTION_SWITCH) return set_text(row, value);
  *(bool *)row->value = json_is_true(value);
  return STATUS_CONTINUE;
}

/* What older versions recorded of a flag that had no value: a number just beyond its range. */
static bool is_none(const option *row, const json_t *now, const json_t *value) {
  const double number = json_number_value(value);
  if (!json_is_null(now) || !json_is_number(value)) return false;
  if (row->kind == OPTION_SIZE) return number == 0;
  if (row->kind != OPTION_REAL) return number == row->least - 1;
  return row->above_least && row->least == 0 ? number == 0 : number == -1 && row->least == 0;
}

/* A default is kept, even if it may lie out of the flag's range, or be open: null. */
static int take(option *row, const json_t *value, const char *where) {
  const char *before = message_where(where);
  const bool given = row->given, recorded = row->recorded;
  json_t *now = value_of(row);
  const bool same = json_equal(now, value) || is_none(row, now, value);
  const int status = same ? STATUS_CONTINUE : set_value(row, value);
  json_decref(now);
  row->given = given;
  row->recorded = recorded;
  message_where(before);
  return status;
}

/* ---- restoring ------------------------------------------------------------------------------- */

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

bool options_is_record(const json_t *record) {
  return json_object_get(record, "given") || json_object_get(record, "id");
}

/* Where flags come from. */
typedef struct reading {
  options *options;
  const json_t *record;
  const char *from, *key; /* the file, and the key of the object in it with a dot, or "" */
  bool given;             /* its flags count as given */
  bool of_pilot;          /* a run of a pilot, which gives it some flags itself */
  command_line line;
} reading;

/* A path that another run writes to is not taken over, unless the flag that it belongs to is given.
 * This holds for records of runs only: a file that people write belongs to no run. */
static bool stays(const reading *r, const option *row) {
  const flag_record *f = row->record;
  if (!f) return false;
  if (r->of_pilot && (f->pilot == FLAG_PILOT_OWN || flag_words_have(f->ignored_by, "pilot", 5)))
    return true;
  if (f->record == FLAG_RECORD_KEPT || !options_is_record(r->record)) return false;
  if (f->record != FLAG_RECORD_OWN) return true;
  return is_typed("config", &r->line) && !(f->needs && is_typed(f->needs, &r->line));
}

static bool is_replaced(const options *o, const option *row, const command_line *line) {
  return is_typed(row->name, line) || is_excluded(o, row, is_typed, line);
}

static int unknown_key(const options *o, const char *where, const char *name) {
  const char *word = strncmp(name, "--", 2) ? name : name + 2;
  const option *near = options_near(o, word, strlen(word));
  if (near)
    return fail_usage("%s is not a flag of accrue %s; did you mean %s?", where, o->command,
                      near->name);
  return fail_usage("%s is not a flag of accrue %s; --help all lists the flags", where, o->command);
}

enum { WHERE_BYTES = 4600 };

static int read_flag(const reading *r, const char *name, const json_t *value) {
  char where[WHERE_BYTES];
  option *row = find(r->options, name);
  snprintf(where, sizeof where, "%s: %s%.64s", r->from, r->key, name);
  if (!row) return unknown_key(r->options, where, name);
  if (stays(r, row) || is_replaced(r->options, row, &r->line)) return STATUS_CONTINUE;
  /* It has no value, as the record has another in its place. */
  if (is_excluded(r->options, row, is_in_record, r->record)) return STATUS_CONTINUE;
  const int status = take(row, value, where);
  if (status != STATUS_CONTINUE) return status;
  if (r->given && !json_is_null(value) && !json_is_false(value))
    row->given = true, row->recorded = false;
  return STATUS_CONTINUE;
}

static int read_flags(const reading *r, const json_t *flags) {
  const char *name;
  json_t *value;
  if (!json_is_object(flags))
    return fail_usage("%s: %.*s must be an object: flags and their values", r->from,
                      (int)strcspn(r->key, "."), r->key);
  json_object_foreach((json_t *)flags, name, value) {
    const bool other = !*r->key && options_listed(name, "model $schema");
    const int status = other ? STATUS_CONTINUE : read_flag(r, name, value);
    if (status != STATUS_CONTINUE) return status;
  }
  return STATUS_CONTINUE;
}

/* Of a record, which is the program's own, or of a file with flags of their own. */
static int check_keys(const json_t *record, const char *from) {
  const char *const known = options_is_record(record) ? "" : "model flags defaults $schema";
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)record, name, value) {
    if (*known && !options_listed(name, known))
      return fail_usage("%s: %.64s is unknown next to flags; put it into flags, or take it out",
                        from, name);
  }
  return STATUS_CONTINUE;
}

int options_restore(options *o, const json_t *record, const char *from, bool of_pilot, int argc,
                    char **argv) {
  const json_t *flags = json_object_get(record, "flags"),
               *defaults = json_object_get(record, "defaults");
  const bool plain = !flags && !defaults && !options_is_record(record);
  reading r = {.options = o,
               .record = record,
               .from = from,
               .key = plain ? "" : "flags.",
               .given = !options_is_record(record),
               .of_pilot = of_pilot,
               .line = {argc, argv}};
  int status = plain ? STATUS_CONTINUE : check_keys(record, from);
  if (status == STATUS_CONTINUE && (plain || flags || !defaults))
    status = read_flags(&r, plain ? record : flags);
  r.key = "defaults.";
  r.given = false;
  if (status == STATUS_CONTINUE && defaults) status = read_flags(&r, defaults);
  if (status != STATUS_CONTINUE) return status;
  size_t index;
  json_t *value;
  json_array_foreach(json_object_get(record, "given"), index, value) {
    option *row = json_is_string(value) ? find(o, json_string_value(value)) : NULL;
    if (!row || stays(&r, row)) continue;
    if (!is_replaced(o, row, &r.line)) row->given = row->recorded = true;
  }
  return STATUS_CONTINUE;
}
