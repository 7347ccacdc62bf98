/* Command-line flags from a table: the rows parse the flags, check their values and print --help.
 * A row has a name and a variable; all else that is said of a flag is in its file of docs/flags.
 *
 * Flags are long and take their value as `--name value` or `--name=value`; one that is
 * given twice is refused, unless it is a list. A row points to the variable it sets, which holds
 * the default beforehand, so the help cannot disagree with the program. */
#ifndef TOOLS_COMMON_OPTIONS_H
#define TOOLS_COMMON_OPTIONS_H

#include "common/flag_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
  OPTION_SWITCH,  /* bool; takes no value */
  OPTION_TEXT,    /* const char * */
  OPTION_LIST,    /* option_list: every value counts, in the order given */
  OPTION_INTEGER, /* int64_t */
  OPTION_REAL,    /* double */
  OPTION_SIZE,    /* uint64_t bytes, given as 65536, 64K, 64KiB, 1.5GiB */
  OPTION_STAGES,  /* option_stages: a whole number, or a schedule of them with an @ or a comma */
  OPTION_CHOICE   /* int: position in `argument`, which lists the choices: "constant|cosine" */
} option_kind;

typedef struct option_stages {
  int64_t number;
  const char *text; /* the text of the schedule, not parsed yet; NULL: the number counts */
} option_stages;

enum { OPTION_LIST_MOST = 8 };
typedef struct option_list {
  const char *items[OPTION_LIST_MOST];
  int count;
} option_list;

/* Rows have a name, a kind and a variable. All else is as the flag's file of docs/flags says,
 * unless the row itself says it: what depends on a state, and flags that have no file. */
typedef struct option {
  const char *name; /* without the dashes */
  const char
      *argument; /* what --help calls the value; of a choice all of them, "constant|cosine" */
  option_kind kind;
  void *value;
  const char *help;
  const char *fallback;      /* the default in words, if the value does not tell; "" shows none */
  double least, most;        /* of integers and reals, inclusive; most <= least: no upper limit */
  bool above_least;          /* `least` itself is out of range */
  bool below_most;           /* so is `most` */
  const flag_record *record; /* set by options_add; NULL: there is no file */
  bool ignored;              /* set by options_add: accepted without effect */
  const char *implied;       /* a value that is meant where none is given, for flag_rules_check */
  bool given;                /* set by options_parse, or as it was in a record */
  bool recorded;             /* given in a record alone */
} option;

/* FLAG("lr", OPTION_REAL, &flags.lr), or with more members after the variable. */
#define FLAG(flag_name, flag_kind, ...) \
  { .name = flag_name, .kind = flag_kind, .value = __VA_ARGS__ }

enum { OPTION_ROWS = 192 };

typedef struct options {
  const char *command; /* "train gpt" */
  const char *summary; /* what it does, for --help */
  /* Arguments that are not flags, as the help calls them, and room for the largest number of them;
   * NULL: flags only. */
  const char *arguments, **words;
  int word_count; /* set by options_parse */
  option rows[OPTION_ROWS];
  int count;
} options;

#define OPTIONS_ADD(o, rows) options_add(o, rows, (int)(sizeof rows / sizeof *rows))
void options_add(options *o, const option *rows, int count);

/* The same for those rows that docs/flags gives to the command. */
#define OPTIONS_ADD_FILED(o, rows) options_add_filed(o, rows, (int)(sizeof rows / sizeof *rows))
void options_add_filed(options *o, const option *rows, int count);

/* STATUS_CONTINUE; STATUS_DONE after printing the help; STATUS_USAGE after one sentence on stderr.
 * argv[0] is the first argument after the command's own words. */
int options_parse(options *o, int argc, char **argv);

/* Sets a flag to what the command line, or a text for it, says. A status of message.h. */
int options_set(option *row, const char *value);

/* The flag that somebody may have meant; NULL: none comes near. */
const option *options_near(const options *o, const char *name, size_t length);

/* A whole number as the flag takes it, and in its range: also for what files say. False: it is not
 * such a number, and *number is left alone. */
bool options_read_integer(const option *row, const char *text, int64_t *number);

/* Of integers and reals. */
bool options_in_range(const option *row, double value);

bool options_given(const options *o, const char *name);
/* Given by the user now, not by a record: if a flag of a record has no meaning with a new flag,
 * that is not the user's mistake. */
bool options_given_now(const options *o, const char *name);
/* NULL: there is no such flag. */
option *options_find(const options *o, const char *name);

/* 65536, 64K, 64KiB, 1.5GiB; false: it is not such a size. */
bool options_read_size(const char *text, uint64_t *bytes);

/* All flags but the ignored ones, each with its value on a line that Markdown shows unchanged.
 * The caller frees it; NULL for want of memory. */
char *options_settings(const options *o);

/* The value as it would be typed, or what it is implied to be; "" if it has none. */
void options_value_text(const option *row, char *text, size_t size);

/* The default as --help shows it; NULL: none is shown, or there is no memory for it. Free it. */
char *options_default(const option *row);

/* The word for a choice's value. The string is `argument`'s, `*length` bytes of it. */
const char *option_choice_name(const char *choices, int index, int *length);

#endif
