#include "common/options.h"

#include "common/help.h"
#include "common/message.h"
#include "common/option_help.h"
#include "common/suggest.h"
#include "common/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What the file says, where the row does not. */
static void complete(option *row, const flag_record *r, const char *command) {
  row->record = r;
  if (!r) return;
  if (!row->argument) row->argument = r->value;
  if (!row->help) row->help = r->brief;
  if (!row->fallback) row->fallback = r->fallback;
  row->ignored = flag_record_is_ignored(r, command);
  if (!r->ranged) return;
  row->least = r->least;
  row->most = r->most;
  row->above_least = r->above_least;
  row->below_most = r->below_most;
}

void options_add(options *o, const option *rows, int count) {
  assert(o->count + count <= OPTION_ROWS);
  for (int i = 0; i < count; i++) {
    o->rows[o->count] = rows[i];
    complete(&o->rows[o->count++], flag_record_find(rows[i].name, o->command), o->command);
  }
}

void options_add_filed(options *o, const option *rows, int count) {
  for (int i = 0; i < count; i++)
    if (flag_record_find(rows[i].name, o->command)) options_add(o, &rows[i], 1);
}

static option *find(const options *o, const char *name, size_t length) {
  for (int i = 0; i < o->count; i++)
    if (strlen(o->rows[i].name) == length && !memcmp(o->rows[i].name, name, length))
      return (option *)&o->rows[i];
  return NULL;
}

option *options_find(const options *o, const char *name) {
  return find(o, name, strlen(name));
}

bool options_given(const options *o, const char *name) {
  const option *row = options_find(o, name);
  return row && row->given;
}

bool options_given_now(const options *o, const char *name) {
  return options_given(o, name) && !options_find(o, name)->recorded;
}

const char *option_choice_name(const char *choices, int index, int *length) {
  for (; index > 0 && choices; index--) {
    choices = strchr(choices, '|');
    if (choices) choices++;
  }
  *length = choices ? (int)strcspn(choices, "|") : 0;
  return choices ? choices : "";
}

/* ---- values as text -------------------------------------------------------------------------- */

static void print_value(FILE *out, const option *row) {
  int length;
  switch (row->kind) {
  case OPTION_SWITCH:
    fputs(*(bool *)row->value ? "on" : "off", out);
    break;
  case OPTION_LIST:
    for (int i = 0; i < ((option_list *)row->value)->count; i++)
      fprintf(out, "%s%s", i ? " " : "", ((option_list *)row->value)->items[i]);
    break;
  case OPTION_TEXT:
    fputs(*(const char **)row->value, out);
    break;
  case OPTION_INTEGER:
    fprintf(out, "%" PRId64, *(int64_t *)row->value);
    break;
  case OPTION_REAL:
    fprintf(out, "%g", *(double *)row->value);
    break;
  case OPTION_STAGES: {
    const option_stages *stages = row->value;
    if (stages->text) fputs(stages->text, out);
    else fprintf(out, "%" PRId64, stages->number);
    break;
  }
  case OPTION_SIZE:
    fputs(text_bytes(*(uint64_t *)row->value).text, out);
    break;
  case OPTION_CHOICE: {
    const char *name = option_choice_name(row->argument, *(int *)row->value, &length);
    fprintf(out, "%.*s", length, name);
  }
  }
}
static bool has_value(const option *row) {
  switch (row->kind) {
  case OPTION_SWITCH:
    return *(bool *)row->value;
  case OPTION_LIST:
    return ((option_list *)row->value)->count > 0;
  case OPTION_TEXT:
    return *(const char **)row->value != NULL;
  default:
    return true;
  }
}

char *options_default(const option *row) {
  if (row->fallback ? !*row->fallback : !has_value(row)) return NULL;
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  if (row->fallback) fputs(row->fallback, out);
  else print_value(out, row);
  if (fclose(out) == 0) return text;
  free(text);
  return NULL;
}

void options_value_text(const option *row, char *text, size_t size) {
  *text = 0;
  FILE *out = has_value(row) ? fmemopen(text, size, "w") : NULL;
  if (out) {
    print_value(out, row);
    fclose(out);
    text[size - 1] = 0;
  } else if (row->implied) snprintf(text, size, "%s", row->implied);
}

enum { SETTINGS_COLUMN = 35 }; /* where values begin */

char *options_settings(const options *o) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  for (int i = 0; i < o->count; i++) {
    const option *row = &o->rows[i];
    if (row->ignored) continue;
    const bool in_words = row->fallback && !row->given;
    fprintf(out, "    --%-*s", SETTINGS_COLUMN - 4, row->name);
    if (in_words) fputs(row->fallback, out);
    else if (has_value(row)) print_value(out, row);
    fputc('\n', out);
  }
  if (fclose(out) == 0) return text;
  free(text);
  return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* More than the row's type can hold, if the row itself has no upper bound. */
static int beyond(const option *row, const char *value, const char *most) {
  return fail_usage("--%s %s is out of range: it must be at most %s", row->name, value, most);
}

static int out_of_range(const option *row, const char *value) {
  const char *from = row->above_least ? "above" : "at least";
  if (row->most <= row->least)
    return fail_usage("--%s %s is out of range: it must be %s %g", row->name, value, from,
                      row->least);
  return fail_usage("--%s %s is out of range: it must be %s %.15g and %s %.15g", row->name, value,
                    from, row->least, row->below_most ? "below" : "at most", row->most);
}

bool options_in_range(const option *row, double value) {
  if (value < row->least || (row->above_least && value == row->least)) return false;
  if (row->most <= row->least) return true;
  return row->below_most ? value < row->most : value <= row->most;
}

typedef enum integer_fault {
  INTEGER_GOOD,
  INTEGER_NONE,
  INTEGER_HUGE,
  INTEGER_RANGE
} integer_fault;

/* INTEGER_HUGE: too large, and the row itself has no upper bound. */
static integer_fault read_integer(const option *row, const char *text, int64_t *to) {
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (end == text || *end || text[strspn(text, "+-0123456789")]) return INTEGER_NONE;
  if (errno == ERANGE && number > 0 && row->most <= row->least) return INTEGER_HUGE;
  if (errno == ERANGE || !options_in_range(row, (double)number)) return INTEGER_RANGE;
  *to = number;
  return INTEGER_GOOD;
}

bool options_read_integer(const option *row, const char *text, int64_t *number) {
  return read_integer(row, text, number) == INTEGER_GOOD;
}

static int set_integer(const option *row, const char *value, int64_t *to) {
  switch (read_integer(row, value, to)) {
  case INTEGER_GOOD:
    return STATUS_CONTINUE;
  case INTEGER_NONE:
    return fail_usage("--%s %s is not a whole number", row->name, value);
  case INTEGER_HUGE:
    return beyond(row, value, "9223372036854775807");
  case INTEGER_RANGE:
    break;
  }
  return out_of_range(row, value);
}

static int set_stages(const option *row, const char *value) {
  option_stages *stages = row->value;
  stages->text = strpbrk(value, "@,") ? value : NULL;
  return stages->text ? STATUS_CONTINUE : set_integer(row, value, &stages->number);
}

static int set_real(const option *row, const char *value) {
  char *end;
  double number = strtod(value, &end);
  /* The character set excludes what strtod takes in addition to decimal numbers: hexadecimal,
   * infinity, nan. */
  if (end == value || *end || value[strspn(value, "+-.0123456789eE")])
    return fail_usage("--%s %s is not a number", row->name, value);
  if (isinf(number) && number > 0 && row->most <= row->least)
    return beyond(row, value, "1.797693134862315e308");
  if (!isfinite(number) || !options_in_range(row, number)) return out_of_range(row, value);
  *(double *)row->value = number;
  return STATUS_CONTINUE;
}

typedef enum size_fault {
  SIZE_GOOD,
  SIZE_OF_NOTHING,
  SIZE_UNIT,
  SIZE_SMALL,
  SIZE_LARGE
} size_fault;

/* *unit: its place in the text. */
static size_fault read_size(const char *text, uint64_t *bytes, const char **unit) {
  static const struct {
    const char *unit;
    double bytes;
  } units[] = {{"", 1},          {"B", 1},       {"KiB", 1024},       {"K", 1024},
               {"MiB", 1048576}, {"M", 1048576}, {"GiB", 1073741824}, {"G", 1073741824},
               {"TiB", 0x1p40},  {"T", 0x1p40}};
  size_t digits = strspn(text, ".0123456789");
  char *end;
  double number = strtod(text, &end);
  *unit = end;
  if (!digits || end != text + digits) return SIZE_OF_NOTHING;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(end, units[i].unit)) continue;
    double product = number * units[i].bytes;
    if (!(product >= 1)) return SIZE_SMALL;
    if (product > 9e18) return SIZE_LARGE;
    *bytes = (uint64_t)product;
    return SIZE_GOOD;
  }
  return SIZE_UNIT;
}

bool options_read_size(const char *text, uint64_t *bytes) {
  const char *unit;
  return read_size(text, bytes, &unit) == SIZE_GOOD;
}

static int set_size(const option *row, const char *value) {
  const char *unit;
  switch (read_size(value, row->value, &unit)) {
  case SIZE_GOOD:
    return STATUS_CONTINUE;
  case SIZE_OF_NOTHING:
    return fail_usage("--%s %s is not a size such as 64M or 1.5GiB", row->name, value);
  case SIZE_SMALL:
    return fail_usage("--%s %s is less than one byte", row->name, value);
  case SIZE_LARGE:
    return fail_usage("--%s %s is more than any machine has", row->name, value);
  case SIZE_UNIT:
    break;
  }
  return fail_usage("--%s %s has the unknown unit %s; use K, M, G or T, or KiB, MiB, GiB or TiB",
                    row->name, value, unit);
}

static bool is_choice(const option *row, const char *value) {
  int length;
  for (int i = 0; *option_choice_name(row->argument, i, &length); i++)
    if ((size_t)length == strlen(value) &&
        !memcmp(option_choice_name(row->argument, i, &length), value, (size_t)length))
      return true;
  return false;
}

/* "A, B or C" of "A|B|C". */
static void write_choices(const char *argument, char *text, size_t size) {
  const char *name;
  size_t used = 0;
  int length, next;
  text[0] = 0;
  for (int i = 0; *(name = option_choice_name(argument, i, &length)) && used < size; i++) {
    const bool last = !*option_choice_name(argument, i + 1, &next);
    const char *between = i == 0 ? "" : last ? " or " : ", ";
    used += (size_t)snprintf(text + used, size - used, "%s%.*s", between, length, name);
  }
}

static int unknown_choice(const option *row, const char *value) {
  char choices[256];
  write_choices(row->argument, choices, sizeof choices);
  const char *known = suggest_value(value);
  const bool meant = known && is_choice(row, known);
  return fail_usage("--%s %s is unknown: it must be one of %s%s%s%s", row->name, value, choices,
                    meant ? "; did you mean " : "", meant ? known : "", meant ? "?" : "");
}

static int set_choice(const option *row, const char *value) {
  int length;
  for (int i = 0; *option_choice_name(row->argument, i, &length); i++) {
    const char *name = option_choice_name(row->argument, i, &length);
    if ((size_t)length == strlen(value) && !memcmp(name, value, (size_t)length)) {
      *(int *)row->value = i;
      return STATUS_CONTINUE;
    }
  }
  return unknown_choice(row, value);
}

/* Names that people use for a GPU. */
static int check_device(const option *row, const char *value) {
  static const char *const others[] = {"cuda", "gpu", "hip", "metal", "nvidia", "rocm", "vulkan"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const size_t length = strlen(others[i]);
    if (!strcmp(row->name, "device") && !strncasecmp(value, others[i], length) &&
        (!value[length] || value[length] == ':'))
      return fail_usage("--device %s is unknown: Accrue reaches GPUs through OpenCL; use --device "
                        "opencl, or see accrue devices",
                        value);
  }
  return STATUS_CONTINUE;
}

static int add_item(const option *row, const char *value) {
  option_list *list = row->value;
  if (list->count == OPTION_LIST_MOST)
    return fail_usage("--%s is given more than %d times", row->name, (int)OPTION_LIST_MOST);
  list->items[list->count++] = value;
  return STATUS_CONTINUE;
}

int options_set(option *row, const char *value) {
  if (row->given && !row->recorded && row->kind != OPTION_LIST)
    return fail_usage("--%s is given twice; give it once", row->name);
  row->given = true;
  row->recorded = false;
  switch (row->kind) {
  case OPTION_SWITCH:
    *(bool *)row->value = true;
    return STATUS_CONTINUE;
  case OPTION_TEXT:
    *(const char **)row->value = value;
    return check_device(row, value);
  case OPTION_LIST:
    return check_device(row, value) == STATUS_CONTINUE ? add_item(row, value) : STATUS_USAGE;
  case OPTION_INTEGER:
    return set_integer(row, value, row->value);
  case OPTION_STAGES:
    return set_stages(row, value);
  case OPTION_REAL:
    return set_real(row, value);
  case OPTION_SIZE:
    return set_size(row, value);
  case OPTION_CHOICE:
    return set_choice(row, value);
  }
  return STATUS_CONTINUE;
}

/* ---- parsing --------------------------------------------------------------------------------- */

const option *options_near(const options *o, const char *name, size_t length) {
  const char *known = suggest_flag(name, length);
  const option *near = known ? options_find(o, known) : NULL;
  int least = near ? 0 : 3;
  for (int i = 0; i < o->count; i++) {
    int d = suggest_distance(name, length, o->rows[i].name);
    if (d < least) least = d, near = &o->rows[i];
  }
  return near;
}

static int unknown_flag(const options *o, const char *name, size_t length) {
  const option *near = options_near(o, name, length);
  if (near)
    return fail_usage("unknown flag --%.*s; did you mean --%s?", (int)length, name, near->name);
  return fail_usage("unknown flag --%.*s; accrue %s --help lists the flags", (int)length, name,
                    o->command);
}

static int unexpected(const options *o, const char *word) {
  static const char *const files[] = {"data", "model"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (options_find(o, files[i]) && !options_given(o, files[i]))
      return fail_usage("unexpected argument %s; accrue %s takes flags only: did you mean --%s %s?",
                        word, o->command, files[i], word);
  return fail_usage("unexpected argument %s; accrue %s takes flags only", word, o->command);
}

int options_parse(options *o, int argc, char **argv) {
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    if (help_asked(word)) return option_help(o, argv + i, argc - i);
    if (strncmp(word, "--", 2) && o->words) {
      o->words[o->word_count++] = word;
      continue;
    }
    if (strncmp(word, "--", 2)) return unexpected(o, word);
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    option *row = find(o, name, length);
    if (!row) return unknown_flag(o, name, length);

    const char *value = equals ? equals + 1 : NULL;
    if (row->kind == OPTION_SWITCH) {
      if (value) return fail_usage("--%s takes no value", row->name);
    } else if (!value) {
      if (i + 1 >= argc || !strncmp(argv[i + 1], "--", 2))
        return fail_usage("--%s needs a value", row->name);
      value = argv[++i];
    }
    int status = options_set(row, value);
    if (status != STATUS_CONTINUE) return status;
  }
  return STATUS_CONTINUE;
}
