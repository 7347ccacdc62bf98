/* Command-line flags from a table: the rows parse the flags, check their values and print --help.
 *
 * Flags are long and take their value as `--name value` or `--name=value`; one that is
 * given twice is refused, unless it is a list. A row points to the variable it sets, which holds
 * the default beforehand, so the help cannot disagree with the program. */
#ifndef TOOLS_COMMON_OPTIONS_H
#define TOOLS_COMMON_OPTIONS_H

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

typedef struct option {
  const char *name; /* without the dashes */
  const char *argument;
  option_kind kind;
  void *value;
  const char *help;
  const char *fallback; /* the default in words, if the value does not tell; "" shows none */
  double least, most;   /* of integers and reals, inclusive; most <= least: no upper limit */
  bool above_least;     /* `least` itself is out of range */
  bool below_most;      /* so is `most` */
  const char *group;    /* set by options_add */
  bool given;           /* set by options_parse, or by a record */
  bool recorded;        /* given only in a record */
  bool ignored;         /* set by options_ignore */
} option;

enum { OPTION_ROWS = 128 };

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

/* Rows that several commands have. */
#define OPTION_DEVICE(to)                                                        \
  {                                                                              \
    "device", "NAME", OPTION_TEXT, to,                                           \
        .help = "auto, cpu, opencl, opencl:N or opencl:TEXT; see accrue devices" \
  }
#define OPTION_THREADS(to)                                                                   \
  {                                                                                          \
    "threads", "N", OPTION_INTEGER, to, .help = "of the CPU", .fallback = "all", .least = 1, \
                                        .most = 1024                                         \
  }

#define OPTIONS_ADD(o, group, rows) options_add(o, group, rows, (int)(sizeof rows / sizeof *rows))
void options_add(options *o, const char *group, const option *rows, int count);

/* These flags, separated by single spaces, are parsed and checked as before, but the help lists
 * them under "without effect". Unknown names are ignored. */
void options_ignore(options *o, const char *names);

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

/* STATUS_CONTINUE, or STATUS_USAGE if both flags were given. */
int options_exclude(const options *o, const char *a, const char *b);

/* The word for a choice's value. The string is `argument`'s, `*length` bytes of it. */
const char *option_choice_name(const char *choices, int index, int *length);

#endif
