#include "common/option_help.h"

#include "common/flag_text.h"
#include "common/help.h"
#include "common/message.h"
#include "common/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCREEN = 14 }; /* flags that a screen has room for */

/* ---- facts ----------------------------------------------------------------------------------- */

/* A list as "a, b, c"; `dashes` before each. */
static void put_list(FILE *out, const char *list, const char *dashes) {
  const char *word, *before = "";
  for (size_t length; (length = flag_words_next(&list, &word)); before = ", ")
    fprintf(out, "%s%s%.*s", before, dashes, (int)length, word);
}

/* Of bench-gemm the command is "bench gemm"; other hyphens are of a name. */
static void put_commands(FILE *out, const char *list) {
  const char *word, *before = "";
  for (size_t length; (length = flag_words_next(&list, &word)); before = ", ") {
    const bool two = length > 6 && !memcmp(word, "bench-", 6);
    if (two) fprintf(out, "%sbench %.*s", before, (int)length - 6, word + 6);
    else fprintf(out, "%s%.*s", before, (int)length, word);
  }
}

/* "--schedule step or cyclic, --optimizer sgd" of "schedule=step|cyclic optimizer=sgd". */
static void put_needs(FILE *out, const char *list) {
  const char *word, *before = "";
  for (size_t length; (length = flag_words_next(&list, &word)); before = ", and ") {
    fprintf(out, "%s--", before);
    for (size_t i = 0; i < length; i++) {
      if (word[i] == '|') fputs(" or ", out);
      else fputc(word[i] == '=' ? ' ' : word[i], out);
    }
  }
}

static void put_range(FILE *out, const flag_record *r) {
  if (r->most > r->least)
    fprintf(out, "Range: %s %.15g %s %.15g.\n", r->above_least ? "above" : "from", r->least,
            r->below_most ? "to below" : "to", r->most);
  else if (r->least != 0 || r->above_least)
    fprintf(out, "Range: %s %.15g.\n", r->above_least ? "above" : "at least", r->least);
}

/* What else there is to know, a sentence a line. `row` may be NULL. Free it; NULL for want of
 * memory. */
static char *facts_of(const flag_record *r, const option *row) {
  char *text = NULL, *fallback = row ? options_default(row) : NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  if (fallback || (!row && r->fallback))
    fprintf(out, "Default: %s.\n", row ? fallback : r->fallback);
  if (r->ranged) put_range(out, r);
  if (r->repeats) fputs("It can be given several times.\n", out);
  if (r->needs) fputs("It needs ", out), put_needs(out, r->needs), fputs(".\n", out);
  if (r->excludes) fputs("It excludes ", out), put_list(out, r->excludes, "--"), fputs(".\n", out);
  if (r->ignored_by)
    fputs("It is accepted without effect by ", out), put_commands(out, r->ignored_by),
        fputs(".\n", out);
  if (r->see) fputs("See also ", out), put_list(out, r->see, "--"), fputs(".\n", out);
  free(fallback);
  if (fclose(out) == 0) return text;
  free(text);
  return NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_flag(help *h, const option *row) {
  char name[64], *fallback = options_default(row);
  char *facts = row->record && h->form == HELP_MAN ? facts_of(row->record, row) : NULL;
  snprintf(name, sizeof name, "--%s", row->name);
  help_put_flag(h, &(help_flag){name, row->argument, row->help ? row->help : "", fallback,
                                row->record ? row->record->text : NULL, facts});
  free(facts);
  free(fallback);
}

/* NULL is the group of flags that have no file. */
static bool is_in(const option *row, const char *group) {
  const char *own = row->record ? row->record->group : NULL;
  return own && group ? !strcmp(own, group) : own == group;
}

static int count_in(const options *o, const char *group, bool ignored) {
  int count = 0;
  for (int i = 0; i < o->count; i++)
    count += is_in(&o->rows[i], group) && o->rows[i].ignored == ignored;
  return count;
}

static void put_group(help *h, const options *o, const char *group, const char *title) {
  if (!count_in(o, group, false)) return;
  help_group(h, title);
  for (int i = 0; i < o->count; i++)
    if (is_in(&o->rows[i], group) && !o->rows[i].ignored) put_flag(h, &o->rows[i]);
}

/* Those without effect, of a group or of all ("*"). */
static void put_ignored(help *h, const options *o, const char *group) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return;
  int count = 0;
  for (int i = 0; i < o->count; i++)
    if (o->rows[i].ignored && (!strcmp(group, "*") || is_in(&o->rows[i], group)))
      fprintf(out, "%s--%s", count++ ? " " : "", o->rows[i].name);
  if (fclose(out) == 0 && count) {
    help_group(h, "Accepted, as accrue train has them, but without effect");
    help_put_names(h, text);
  }
  free(text);
}

/* ---- screens --------------------------------------------------------------------------------- */

/* Whether training has no flags of this group. */
static bool is_own(const char *group) {
  for (int i = 0; i < flag_record_count; i++)
    if (!strcmp(flag_records[i].group, group) &&
        flag_words_have(flag_records[i].commands, "train", 5))
      return false;
  return true;
}

/* The groups in the order in which they are shown: those of a command itself come first. */
static const flag_group *next_group(int *at) {
  for (; *at < 2 * flag_group_count; (*at)++) {
    const flag_group *group = &flag_groups[*at % flag_group_count];
    if (is_own(group->name) == (*at < flag_group_count)) return (*at)++, group;
  }
  return NULL;
}

static void put_all(help *h, const options *o) {
  const flag_group *group;
  for (int at = 0; (group = next_group(&at));) put_group(h, o, group->name, group->title);
  put_group(h, o, NULL, "Other");
  put_ignored(h, o, "*");
}

static void put_groups(help *h, const options *o) {
  fputs("\nGroups; --help GROUP lists the flags of one:\n", h->out);
  const flag_group *group;
  for (int at = 0; (group = next_group(&at));) {
    if (!count_in(o, group->name, false) && !count_in(o, group->name, true)) continue;
    const int used = fprintf(h->out, "  %-14s", group->name);
    flag_text_wrap(h->out, group->about, used, 16, h->width);
  }
}

static int count_shown(const options *o) {
  int count = 0;
  for (int i = 0; i < o->count; i++) count += !o->rows[i].ignored;
  return count;
}

static void put_screen(help *h, const options *o) {
  if (count_shown(o) <= SCREEN) {
    put_all(h, o);
    h->of_flags = true;
    return;
  }
  fputs("\nCommon flags:\n", h->out);
  const flag_group *group;
  for (int at = 0; (group = next_group(&at));)
    for (int i = 0; i < o->count; i++) {
      const option *row = &o->rows[i];
      if (is_in(row, group->name) && row->record->common && !row->ignored) put_flag(h, row);
    }
  put_groups(h, o);
  fputc('\n', h->out);
  flag_text_wrap(h->out, "--help all lists all flags, and --help --NAME tells more of one.", 0, 0,
                 h->width);
}

/* ---- one flag -------------------------------------------------------------------------------- */

static void put_page(const flag_record *r, const option *row) {
  const int width = help_width();
  char *facts = facts_of(r, row);
  const flag_group *group = flag_group_find(r->group);
  printf("--%s%s%s\n", r->name, r->value ? " " : "", r->value ? r->value : "");
  printf("    ");
  flag_text_wrap(stdout, r->brief, 4, 4, width);
  fputc('\n', stdout);
  flag_text_put(stdout, r->text, 0, width);
  fputc('\n', stdout);
  for (char *line = facts, *end; line && *line; line = end + 1) {
    if ((end = strchr(line, '\n'))) *end = 0;
    flag_text_wrap(stdout, line, 0, 0, width);
    if (!end) break;
  }
  if (row) {
    printf("Group: %s.\n", group ? group->name : r->group);
  } else {
    fputs("Commands: ", stdout);
    put_commands(stdout, r->commands);
    if (r->models) fputs("; models: ", stdout), put_list(stdout, r->models, "");
    printf(". Group: %s.\n", r->group);
  }
  free(facts);
}

/* Whether the list has the command, or one of its commands: bench has bench-gemm. */
static bool lists_command(const char *list, const char *command) {
  const size_t length = strlen(command);
  const char *word;
  for (size_t n; list && (n = flag_words_next(&list, &word));)
    if (n >= length && !memcmp(word, command, length) &&
        (n == length || (!strcmp(command, "bench") && word[length] == '-')))
      return true;
  return false;
}

static bool is_of_command(const flag_record *r, const char *command) {
  return !command || lists_command(r->commands, command) || lists_command(r->ignored_by, command);
}

static bool has_flags_of(const char *group, const char *command) {
  for (int i = 0; i < flag_record_count; i++)
    if (!strcmp(flag_records[i].group, group) && is_of_command(&flag_records[i], command))
      return true;
  return false;
}

bool option_help_of(const char *word, const char *command) {
  const char *name = word + strspn(word, "-");
  int found = 0;
  for (int i = 0; i < flag_record_count; i++) {
    if (strcmp(flag_records[i].name, name) != 0 || !is_of_command(&flag_records[i], command))
      continue;
    if (found++) fputc('\n', stdout);
    put_page(&flag_records[i], NULL);
  }
  /* A group may have the name of a flag. */
  const flag_group *group = found && name != word ? NULL : flag_group_find(name);
  if (!group || !has_flags_of(name, command)) return found > 0;
  if (found) fputc('\n', stdout);
  printf("%s: %s\n\n", group->title, group->about);
  help h = {.out = stdout, .form = HELP_TEXT, .command = "", .width = help_width()};
  for (int i = 0; i < flag_record_count; i++) {
    const flag_record *r = &flag_records[i];
    char shown[64];
    snprintf(shown, sizeof shown, "--%s", r->name);
    if (!strcmp(r->group, name) && is_of_command(r, command))
      help_put_flag(&h, &(help_flag){.name = shown, .argument = r->value, .text = r->brief});
  }
  return true;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static int unknown(const options *o, const char *word, bool flag) {
  const char *near = NULL;
  const size_t length = strlen(word);
  int least = 3;
  for (int g = 0; g < flag_group_count && !flag; g++) {
    const char *name = flag_groups[g].name;
    if (!count_in(o, name, false) && !count_in(o, name, true)) continue;
    const int d = suggest_distance(word, length, name);
    if (d < least) least = d, near = name;
  }
  for (int i = 0; i < o->count; i++) {
    const int d = suggest_distance(word, length, o->rows[i].name);
    if (d < least) least = d, near = o->rows[i].name;
  }
  if (!near && suggest_flag(word, length) && options_find(o, suggest_flag(word, length)))
    near = suggest_flag(word, length);
  if (near)
    return fail_usage("--help %s: there is no such group or flag; did you mean %s?", word, near);
  return fail_usage("--help %s: there is no such group or flag; accrue %s --help lists the groups",
                    word, o->command);
}

static int put_topic(const options *o, const char *word) {
  const bool flag = !strncmp(word, "--", 2);
  const flag_group *group = flag ? NULL : flag_group_find(word);
  if (group && (count_in(o, word, false) || count_in(o, word, true))) {
    help h = {.out = stdout, .form = HELP_TEXT, .command = o->command, .width = help_width()};
    printf("accrue %s, %s: %s\n", o->command, group->name, group->about);
    put_group(&h, o, word, group->title);
    put_ignored(&h, o, word);
    printf("\n--help --NAME tells more of one.\n");
    return STATUS_DONE;
  }
  const option *row = options_find(o, flag ? word + 2 : word);
  if (!row) return unknown(o, flag ? word + 2 : word, flag);
  if (row->record) {
    put_page(row->record, row);
    return STATUS_DONE;
  }
  help h = {.out = stdout, .form = HELP_TEXT, .command = o->command, .width = help_width()};
  put_flag(&h, row);
  return STATUS_DONE;
}

int option_help(const options *o, char **argv, int argc) {
  const help_form form = help_asked(argv[0]);
  const char *equals = strchr(argv[0], '=');
  const char *topic = form == HELP_MAN ? NULL : equals ? equals + 1 : argc > 1 ? argv[1] : NULL;
  if (topic && strcmp(topic, "all") != 0 && *topic) return put_topic(o, topic);
  char arguments[64];
  snprintf(arguments, sizeof arguments, "%s%s[flags]", o->arguments ? o->arguments : "",
           o->arguments ? " " : "");
  help h = help_begin(form, o->command, arguments, o->summary);
  h.of_flags = topic || form == HELP_MAN;
  if (h.of_flags) put_all(&h, o);
  else put_screen(&h, o);
  help_end(&h);
  return STATUS_DONE;
}
