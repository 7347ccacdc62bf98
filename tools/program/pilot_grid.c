#include "program/pilot_grid.h"

#include "common/message.h"
#include "common/suggest.h"

#include <stdlib.h>
#include <string.h>

/* The flag of an axis or an ablation; NULL, after a message, if there is none. */
static const option *find_flag(const options *o, const char *own, const char *name) {
  const option *row = options_find(o, name);
  const flag_record *r = row ? row->record : NULL;
  if (r && !row->ignored && r->pilot == FLAG_PILOT_AXIS) return row;
  if (r && !row->ignored &&
      (r->pilot == FLAG_PILOT_OWN || flag_words_have(r->commands, "train", 5))) {
    fail_usage("--%s %s: that is the same in all runs, or set by the pilot", own, name);
    return NULL;
  }
  const char *known = row ? NULL : suggest_flag(name, strlen(name));
  fail_usage("--%s %s: accrue train has no such flag for a grid%s%s%s", own, name,
             known ? "; did you mean " : "", known ? known : "", known ? "?" : "");
  return NULL;
}

static int set_value(grid_setting *s, const option *row, const char *own, const char *value) {
  s->flag = row->name;
  s->is_switch = row->kind == OPTION_SWITCH;
  s->value = value;
  if (!s->is_switch) return STATUS_CONTINUE;
  if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
    return fail_usage("--%s %s: a switch is on or off, not %s", own, row->name, value);
  if (!strcmp(value, "off")) s->value = NULL;
  return STATUS_CONTINUE;
}

/* Numbers may be written in several ways. */
static bool is_same(const option *row, const grid_setting *a, const grid_setting *b) {
  if (!a->value || !b->value) return a->value == b->value;
  if (!strcmp(a->value, b->value)) return true;
  if (row->kind != OPTION_INTEGER && row->kind != OPTION_REAL) return false;
  char *ends[2];
  const bool same = strtod(a->value, &ends[0]) == strtod(b->value, &ends[1]);
  return same && !*ends[0] && !*ends[1];
}

static int add_axis(grid *g, const options *o, const char *text) {
  grid_axis *a = &g->axes[g->axis_count++];
  if (!(a->text = strdup(text))) return fail("out of memory");
  char *equals = strchr(a->text, '=');
  if (!equals || equals == a->text || !equals[1])
    return fail_usage("--grid %s is not of the form FLAG=VALUE,VALUE,...", text);
  *equals = 0;
  a->name = a->text;
  const option *row = find_flag(o, "grid", a->name);
  if (!row) return STATUS_USAGE;
  for (int i = 0; i + 1 < g->axis_count; i++)
    if (!strcmp(g->axes[i].name, a->name))
      return fail_usage("--grid has two axes of --%s", a->name);
  const char *separator = strchr(equals + 1, ';') ? ";" : ",";
  for (char *value = equals + 1, *next; value; value = next) {
    if ((next = strstr(value, separator))) *next++ = 0;
    if (!*value) return fail_usage("--grid %s has an empty value", text);
    if (a->count == GRID_MOST_VALUES)
      return fail_usage("--grid %s has more than %d values", a->name, (int)GRID_MOST_VALUES);
    grid_setting *s = &a->settings[a->count++];
    s->label = value;
    int status = set_value(s, row, "grid", value);
    if (status != STATUS_CONTINUE) return status;
    for (int i = 0; i + 1 < a->count; i++)
      if (is_same(row, &a->settings[i], s))
        return fail_usage("--grid %s has the same value twice: %s and %s", a->name,
                          a->settings[i].label, value);
  }
  return STATUS_CONTINUE;
}

static bool has_choice(const option *row, const char *name) {
  int length;
  for (int i = 0; *option_choice_name(row->argument, i, &length); i++)
    if ((size_t)length == strlen(name) &&
        !strncmp(option_choice_name(row->argument, i, &length), name, (size_t)length))
      return true;
  return false;
}

/* The value that switches a flag off; NULL: the flag does not tell. */
static const char *value_of_off(const option *row) {
  switch (row->kind) {
  case OPTION_SWITCH:
    return "off";
  case OPTION_INTEGER:
  case OPTION_REAL:
    return options_in_range(row, 0) ? "0" : NULL;
  case OPTION_CHOICE:
    return has_choice(row, "none") ? "none" : has_choice(row, "off") ? "off" : NULL;
  case OPTION_TEXT:
  case OPTION_LIST:
  case OPTION_SIZE:
  case OPTION_STAGES:
    break;
  }
  return NULL;
}

/* `text` is the axis' own copy of "FLAG" or "FLAG=VALUE". */
static int add_ablation(grid_axis *a, const options *o, char *text) {
  char *equals = strchr(text, '=');
  if (equals) *equals = 0;
  const option *row = find_flag(o, "ablate", text);
  if (!row) return STATUS_USAGE;
  const char *value = equals ? equals + 1 : value_of_off(row);
  if (!value)
    return fail_usage("--ablate %s does not tell what switched off means; give %s=VALUE", text,
                      text);
  if (row->kind == OPTION_SWITCH && !row->given)
    return fail_usage("--ablate %s: it is not switched on", text);
  grid_setting *s = &a->settings[a->count++];
  s->label = text;
  int status = set_value(s, row, "ablate", value);
  for (int i = 1; i + 1 < a->count && status == STATUS_CONTINUE; i++)
    if (a->settings[i].flag == s->flag && is_same(row, &a->settings[i], s))
      status = fail_usage("--ablate %s is given twice", text);
  return status;
}

/* First with all settings, then without one at a time. */
static int add_ablations(grid *g, const options *o, const option_list *list) {
  grid_axis *a = &g->axes[g->axis_count++];
  size_t room = 1;
  for (int i = 0; i < list->count; i++) room += strlen(list->items[i]) + 1;
  if (!(a->text = malloc(room))) return fail("out of memory");
  a->name = "without";
  a->settings[a->count++].label = "nothing";
  char *at = a->text;
  for (int i = 0; i < list->count; i++) {
    strcpy(at, list->items[i]);
    char *text = at;
    at += strlen(at) + 1;
    int status = add_ablation(a, o, text);
    if (status != STATUS_CONTINUE) return status;
  }
  return STATUS_CONTINUE;
}

int grid_make(grid *g, const options *o, const option_list *axes, const option_list *ablations) {
  int status = STATUS_CONTINUE;
  *g = (grid){.cells = 1};
  for (int i = 0; i < axes->count && status == STATUS_CONTINUE; i++)
    status = add_axis(g, o, axes->items[i]);
  if (status == STATUS_CONTINUE && ablations->count) status = add_ablations(g, o, ablations);
  for (int i = 0; i < g->axis_count && status == STATUS_CONTINUE; i++)
    if ((g->cells *= g->axes[i].count) > GRID_MOST_CELLS)
      status = fail_usage("a grid may have at most %d cells", (int)GRID_MOST_CELLS);
  return status;
}

void grid_free(grid *g) {
  for (int i = 0; i < g->axis_count; i++) free(g->axes[i].text);
}

const grid_setting *grid_setting_of(const grid *g, int cell, int axis) {
  for (int i = g->axis_count - 1; i > axis; i--) cell /= g->axes[i].count;
  return &g->axes[axis].settings[cell % g->axes[axis].count];
}
