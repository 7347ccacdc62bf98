/* The help of a command: the same calls make text for a terminal and a manual page.
 *
 * A page has its entries (flags, commands, models) under titles, and ends with the exit status and
 * related pages. All arguments are plain text: what roff would take for a command is escaped here.
 */
#ifndef TOOLS_COMMON_HELP_H
#define TOOLS_COMMON_HELP_H

#include <stdbool.h>
#include <stdio.h>

typedef enum help_form { HELP_NONE, HELP_TEXT, HELP_MAN } help_form;

/* The form that an argument asks for: --help, -h or --help=TOPIC. The topic man is the manual page.
 */
help_form help_asked(const char *word);

/* How wide text may be: COLUMNS, or the terminal of the standard output, or 80. */
int help_width(void);

enum { HELP_MOST_PAGES = 16 };

typedef struct help {
  FILE *out;
  help_form form;
  const char *command;                /* "train gpt"; "": the program itself */
  const char *pages[HELP_MOST_PAGES]; /* of the command's own commands */
  int page_count;
  int width;
  bool of_flags; /* the page ends with the flag --help; set by the caller */
  bool flags_begun, exit_told;
} help;

/* `arguments` follow the command's words ("RUN... [flags]"). `text` says what it does; its first
 * sentence names the page. */
help help_begin(help_form form, const char *command, const char *arguments, const char *text);

/* A group of flags. `name` is what is typed, `argument` (may be NULL) is the name of its value;
 * `note` (may be NULL) follows in brackets. A page of the manual has the long text and the facts in
 * place of the short one, if there are any. */
typedef struct help_flag {
  const char *name, *argument, *text, *note, *long_text, *facts;
} help_flag;
void help_group(help *h, const char *title);
void help_put_flag(help *h, const help_flag *flag);
/* Names, and nothing else of them. */
void help_put_names(help *h, const char *names);

/* The command's own commands, each with a page of its own; `title` is the page's for them. */
void help_commands(help *h, const char *title);
void help_put_command(help *h, const char *name, const char *text);

void help_paragraph(help *h, const char *text);
void help_exit_status(help *h);
void help_end(help *h);

#endif
