#include "common/help.h"

#include <accrue/accrue.h>
#include <ctype.h>
#include <string.h>

static const char exit_statuses[] =
    "0 done, 1 failed while running, 2 wrong usage, 128 + N stopped by signal N.";

help_form help_asked(const char *word) {
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return HELP_TEXT;
  return strcmp(word, "--help=man") ? HELP_NONE : HELP_MAN;
}

/* ---- roff ------------------------------------------------------------------------------------ */

/* roff may turn a plain `-` into a hyphen and a quote into a curly one, and then they cannot be
 * copied to a command line. A choice of many words may break after each word. */
static void put_roff_character(FILE *out, char c) {
  switch (c) {
  case '\\':
    fputs("\\e", out);
    break;
  case '-':
    fputs("\\-", out);
    break;
  case '\'':
    fputs("\\(aq", out);
    break;
  case '"':
    fputs("\\(dq", out);
    break;
  case '`':
    fputs("\\(ga", out);
    break;
  case '^':
    fputs("\\(ha", out);
    break;
  case '~':
    fputs("\\(ti", out);
    break;
  case '|':
    fputs("|\\:", out);
    break;
  default:
    fputc(c, out);
  }
}

/* At the beginning of a line a point would be a command of roff. Line breaks in the text only
 * belong to the source; the page fills its lines itself. */
static void put_roff(FILE *out, const char *text) {
  bool begins = true;
  for (; *text; text++) {
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
    put_roff_character(out, *text);
    begins = *text == '\n';
  }
}

static void put_font(FILE *out, char font, const char *text) {
  fprintf(out, "\\f%c", font);
  put_roff(out, text);
  fputs("\\fR", out);
}

/* "accrue-train-gpt" of "train gpt". */
static void put_page_name(FILE *out, const char *command, size_t length, bool capitals) {
  fputs(capitals ? "ACCRUE" : "accrue", out);
  if (length) fputs("\\-", out);
  for (size_t i = 0; i < length; i++) {
    const char c = command[i];
    put_roff_character(out, c == ' ' ? '-' : capitals ? (char)toupper((unsigned char)c) : c);
  }
}

static void put_section(FILE *out, const char *title) {
  fprintf(out, ".SH %s\n", title);
}

/* ---- the head -------------------------------------------------------------------------------- */

/* The first sentence without its full stop, as the line of a catalogue. */
static void put_brief(FILE *out, const char *text) {
  const size_t length = strcspn(text, ".\n");
  char brief[256];
  snprintf(brief, sizeof brief, "%.*s", (int)length, text);
  brief[0] = (char)tolower((unsigned char)brief[0]);
  put_roff(out, brief);
}

static void begin_page(help *h, const char *arguments, const char *text) {
  fputs(".TH ", h->out);
  put_page_name(h->out, h->command, strlen(h->command), true);
  fprintf(h->out, " 1 \"\" \"Accrue %s\" \"Accrue Manual\"\n", ac_version());
  put_section(h->out, "NAME");
  put_page_name(h->out, h->command, strlen(h->command), false);
  fputs(" \\- ", h->out);
  put_brief(h->out, text);
  fputc('\n', h->out);
  put_section(h->out, "SYNOPSIS");
  fputs("\\fBaccrue", h->out);
  if (*h->command) fputc(' ', h->out);
  put_roff(h->out, h->command);
  fputs("\\fR ", h->out);
  put_roff(h->out, arguments);
  fputc('\n', h->out);
  put_section(h->out, "DESCRIPTION");
  put_roff(h->out, text);
  fputc('\n', h->out);
}

help help_begin(help_form form, const char *command, const char *arguments, const char *text) {
  help h = {.out = stdout, .form = form, .command = command};
  if (form == HELP_MAN) begin_page(&h, arguments, text);
  else fprintf(h.out, "accrue %s%s%s\n\n%s\n", command, *command ? " " : "", arguments, text);
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
  put_font(h->out, 'B', f->name);
  if (f->argument) {
    fputc(' ', h->out);
    put_font(h->out, 'I', f->argument);
  }
  fputc('\n', h->out);
  put_roff(h->out, f->text);
  if (f->note) {
    fputs(" (", h->out);
    put_roff(h->out, f->note);
    fputc(')', h->out);
  }
  fputc('\n', h->out);
}

void help_put_flag(help *h, const help_flag *f) {
  enum { COLUMN = 35 };
  if (h->form == HELP_MAN) {
    put_entry_of_page(h, f);
    return;
  }
  const int width =
      fprintf(h->out, "  %s%s%s", f->name, f->argument ? " " : "", f->argument ? f->argument : "");
  if (width > COLUMN - 1) fprintf(h->out, "\n%*s", COLUMN, "");
  else fprintf(h->out, "%*s", COLUMN - width, "");
  fputs(f->text, h->out);
  if (f->note) fprintf(h->out, " (%s)", f->note);
  fputc('\n', h->out);
}

void help_put_names(help *h, const char *lines) {
  if (h->form == HELP_MAN) put_roff(h->out, lines + strspn(lines, " "));
  else fputs(lines, h->out);
  fputc('\n', h->out);
}

void help_commands(help *h, const char *title) {
  if (h->form == HELP_TEXT) fputc('\n', h->out);
  else put_section(h->out, title);
}

void help_put_command(help *h, const char *name, const char *text) {
  if (h->page_count < HELP_MOST_PAGES) h->pages[h->page_count++] = name;
  if (h->form == HELP_MAN) put_entry_of_page(h, &(help_flag){.name = name, .text = text});
  else fprintf(h->out, "  %-10s %s\n", name, text);
}

void help_paragraph(help *h, const char *text) {
  if (h->form == HELP_TEXT) {
    fprintf(h->out, "\n%s\n", text);
    return;
  }
  fputs(".PP\n", h->out);
  put_roff(h->out, text);
  fputc('\n', h->out);
}

/* ---- the end --------------------------------------------------------------------------------- */

void help_exit_status(help *h) {
  h->exit_told = true;
  if (h->form == HELP_TEXT) {
    fprintf(h->out, "Exit status: %s\n", exit_statuses);
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
    put_roff(h->out, own);
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
  help_put_flag(
      h, &(help_flag){.name = "--help", .text = "this text; --help=man: as a page of the manual"});
}

void help_end(help *h) {
  if (h->of_flags) put_help_flag(h);
  if (h->form != HELP_MAN) return;
  if (!h->exit_told) help_exit_status(h);
  put_see_also(h);
}
