#include "common/help.h"

#include "common/command_record.h"
#include "common/flag_text.h"
#include "common/roff.h"
#include "common/terminal.h"

#include <accrue/accrue.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char exit_statuses[] =
    "0 done, 1 failed while running, 2 wrong usage, 128 + N stopped by signal N.";

help_form help_asked(const char *word) {
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return HELP_TEXT;
  if (!strcmp(word, "--help=man")) return HELP_MAN;
  return strncmp(word, "--help=", 7) ? HELP_NONE : HELP_TEXT;
}

/* "accrue-train-gpt" of "train gpt". */
static void put_page_name(FILE *out, const char *command, size_t length, bool capitals) {
  fputs(capitals ? "ACCRUE" : "accrue", out);
  if (length) fputs("\\-", out);
  for (size_t i = 0; i < length; i++) {
    const char c = command[i];
    roff_put_character(out, c == ' ' ? '-' : capitals ? (char)toupper((unsigned char)c) : c);
  }
}

static void put_section(FILE *out, const char *title) {
  fprintf(out, ".SH %s\n", title);
}

int help_width(void) {
  const char *columns = getenv("COLUMNS");
  const int number = columns ? atoi(columns) : 0;
  if (number >= 20 && number <= 1000) return number;
  return isatty(STDOUT_FILENO) ? terminal_columns(STDOUT_FILENO) : 80;
}

/* ---- the head -------------------------------------------------------------------------------- */

/* The first sentence without its full stop, as the line of a catalogue. */
static void put_brief(FILE *out, const char *text) {
  const size_t length = strcspn(text, ".");
  char brief[256];
  snprintf(brief, sizeof brief, "%.*s", (int)length, text);
  brief[0] = (char)tolower((unsigned char)brief[0]);
  for (char *end = brief; (end = strchr(end, '\n'));) *end = ' ';
  roff_put(out, brief);
}

static void begin_page(help *h, const char *arguments, const char *text) {
  fputs(".TH ", h->out);
  put_page_name(h->out, h->command, strlen(h->command), true);
  fprintf(h->out, " 1 \"\" \"Accrue %s\" \"Accrue Manual\"\n", ac_version());
  fputs(".ad l\n", h->out); /* a line of one long word cannot be stretched */
  put_section(h->out, "NAME");
  put_page_name(h->out, h->command, strlen(h->command), false);
  fputs(" \\- ", h->out);
  put_brief(h->out, text);
  fputc('\n', h->out);
  put_section(h->out, "SYNOPSIS");
  fputs("\\fBaccrue", h->out);
  if (*h->command) fputc(' ', h->out);
  roff_put(h->out, h->command);
  fputs("\\fR ", h->out);
  roff_put(h->out, arguments);
  fputc('\n', h->out);
  put_section(h->out, "DESCRIPTION");
  roff_put(h->out, text);
  fputc('\n', h->out);
}

help help_begin(help_form form, const char *command, const char *arguments, const char *text) {
  help h = {.out = stdout, .form = form, .command = command, .width = help_width()};
  if (form == HELP_MAN) begin_page(&h, arguments, text);
  else {
    fprintf(h.out, "accrue %s%s%s\n\n", command, *command ? " " : "", arguments);
    flag_text_wrap(h.out, text, 0, 0, h.width);
  }
  return h;
}

/* ---- entries --------------------------------------------------------------------------------- */

void help_group(help *h, const char *title) {
  if (h->form == HELP_TEXT) {
    fprintf(h->out, "\n%s:\n", title);
    return;
  }
  if (!h->flags_begun) put_section(h->out, "OPTIONS");
  h->flags_begun = true;
  fprintf(h->out, ".SS \"%s\"\n", title);
}

static void put_entry_of_page(help *h, const help_flag *f) {
  fputs(".TP\n", h->out);
  roff_put_font(h->out, 'B', f->name);
  if (f->argument) {
    fputc(' ', h->out);
    roff_put_font(h->out, 'I', f->argument);
  }
  fputc('\n', h->out);
  if (f->long_text) {
    flag_text_put_roff(h->out, f->long_text, ".IP");
    if (f->facts && *f->facts) {
      fputs(".IP\n", h->out);
      roff_put(h->out, f->facts);
    }
    return;
  }
  roff_put(h->out, f->text);
  if (f->note) {
    fputs(" (", h->out);
    roff_put(h->out, f->note);
    fputc(')', h->out);
  }
  fputc('\n', h->out);
}

/* The value's name; choices that are too many for a line go on in the next. */
static int put_argument(help *h, const char *argument, int at, int width) {
  enum { INDENT = 6 };
  for (fputc(' ', h->out), at++; *argument;) {
    const int length = (int)strcspn(argument, "|") + (argument[strcspn(argument, "|")] == '|');
    if (at > INDENT && at + length > width) fprintf(h->out, "\n%*s", at = INDENT, "");
    fprintf(h->out, "%.*s", length, argument);
    at += length;
    argument += length;
  }
  return at;
}

void help_put_flag(help *h, const help_flag *f) {
  if (h->form == HELP_MAN) {
    put_entry_of_page(h, f);
    return;
  }
  const int width = h->width ? h->width : 80, column = width < 60 ? 8 : 27;
  int used = fprintf(h->out, "  %s", f->name);
  if (f->argument) used = put_argument(h, f->argument, used, width);
  char text[512];
  snprintf(text, sizeof text, "%s%s%s%s", f->text, f->note ? " (" : "", f->note ? f->note : "",
           f->note ? ")" : "");
  if (used > column - 1) fprintf(h->out, "\n%*s", column, "");
  else fprintf(h->out, "%*s", column - used, "");
  flag_text_wrap(h->out, text, column, column, width);
}

void help_put_names(help *h, const char *names) {
  if (h->form == HELP_MAN) {
    roff_put(h->out, names);
    fputc('\n', h->out);
    return;
  }
  fputs("  ", h->out);
  flag_text_wrap(h->out, names, 2, 2, h->width);
}

static void put_marked_section(help *h, const char *title, const char *text) {
  if (!text) return;
  put_section(h->out, title);
  flag_text_put_roff(h->out, text, ".PP");
}

void help_commands(help *h, const char *title) {
  if (h->form == HELP_TEXT) fputc('\n', h->out);
  else put_section(h->out, title);
}

void help_put_command(help *h, const char *name, const char *text) {
  if (h->page_count < HELP_MOST_PAGES) h->pages[h->page_count++] = name;
  if (h->form == HELP_MAN) {
    put_entry_of_page(h, &(help_flag){.name = name, .text = text});
    return;
  }
  const int used = fprintf(h->out, "  %-10s ", name);
  flag_text_wrap(h->out, text, used, 13, h->width);
}

void help_paragraph(help *h, const char *text) {
  if (h->form == HELP_TEXT) {
    fputc('\n', h->out);
    flag_text_wrap(h->out, text, 0, 0, h->width);
    return;
  }
  fputs(".PP\n", h->out);
  roff_put(h->out, text);
  fputc('\n', h->out);
}

/* ---- the end --------------------------------------------------------------------------------- */

void help_exit_status(help *h) {
  h->exit_told = true;
  if (h->form == HELP_TEXT) {
    const int used = fprintf(h->out, "Exit status: ");
    flag_text_wrap(h->out, exit_statuses, used, 0, h->width);
    return;
  }
  put_section(h->out, "\"EXIT STATUS\"");
  fprintf(h->out, "%s\n", exit_statuses);
}

static void put_reference(help *h, const char *command, size_t length, const char *own,
                          bool *first) {
  if (!*first) fputs(",\n", h->out);
  *first = false;
  fputs("\\fB", h->out);
  put_page_name(h->out, command, length, false);
  if (own) {
    fputs("\\-", h->out);
    roff_put(h->out, own);
  }
  fputs("\\fR(1)", h->out);
}

/* The pages of the parent commands, and of its own commands. */
static void put_see_also(help *h) {
  bool first = true;
  const size_t length = strlen(h->command);
  if (!length && !h->page_count) return;
  put_section(h->out, "\"SEE ALSO\"");
  if (length) put_reference(h, "", 0, NULL, &first);
  for (size_t i = 0; i < length; i++)
    if (h->command[i] == ' ') put_reference(h, h->command, i, NULL, &first);
  for (int i = 0; i < h->page_count; i++) put_reference(h, h->command, length, h->pages[i], &first);
  fputc('\n', h->out);
}

/* In text it is separate and belongs to no group. */
static void put_help_flag(help *h) {
  if (h->form == HELP_MAN) help_group(h, "Help");
  else fputc('\n', h->out);
  help_put_flag(h, &(help_flag){.name = "--help",
                                .argument = "[GROUP|FLAG|all]",
                                .text = "this text, or more; --help=man: a page of the manual"});
}

/* What the command's file of docs/commands says. */
static void put_sections(help *h) {
  const command_record *r = command_record_find(h->command);
  if (!r) return;
  put_marked_section(h, "EXAMPLES", r->examples);
  put_marked_section(h, "FILES", r->files);
  put_marked_section(h, "ENVIRONMENT", r->environment);
}

void help_end(help *h) {
  if (h->of_flags) put_help_flag(h);
  if (h->form != HELP_MAN) return;
  put_sections(h);
  if (!h->exit_told) help_exit_status(h);
  put_see_also(h);
}
