/* What docs/flags says of every flag, as a table that is made at build time: which commands and
 * models take it, its default, range, group and text, and what it needs and contradicts. Rows of
 * options.h point to the variables. */
#ifndef TOOLS_COMMON_FLAG_RECORD_H
#define TOOLS_COMMON_FLAG_RECORD_H

#include <stdbool.h>
#include <stddef.h>

/* What run.json keeps of a flag. */
typedef enum flag_record_kept {
  FLAG_RECORD_KEPT,
  FLAG_RECORD_OWN,   /* another run does not take it over */
  FLAG_RECORD_PLACE, /* nor does the same run when it goes on: its folder may have been moved */
  FLAG_RECORD_NEVER  /* it is about one start of the program only */
} flag_record_kept;

/* Whether a pilot can try values of it. */
typedef enum flag_pilot {
  FLAG_PILOT_AXIS,
  FLAG_PILOT_NO, /* it is the same in all runs */
  FLAG_PILOT_OWN /* the pilot sets it for each run */
} flag_pilot;

/* Lists are words that are separated by single spaces. NULL: the file does not say. */
typedef struct flag_record {
  const char *file; /* without .md */
  const char *name, *value, *group;
  const char *commands, *models; /* a command of two words has a hyphen: bench-gemm */
  const char *fallback;          /* the default in words */
  const char *ignored_by;        /* commands */
  const char *needs;             /* FLAG or FLAG=CHOICE|CHOICE */
  const char *excludes, *see;
  const char *brief, *text;
  double least, most; /* as those of an option, if it is ranged */
  bool ranged, above_least, below_most;
  bool repeats, common, plan_free, not_compared;
  flag_record_kept record;
  flag_pilot pilot;
} flag_record;

typedef struct flag_group {
  const char *name, *title, *about;
} flag_group;

extern const flag_record flag_records[];
extern const int flag_record_count;
extern const flag_group flag_groups[];
extern const int flag_group_count;

/* The flag of a command such as "train gpt"; NULL: docs/flags has none. */
const flag_record *flag_record_find(const char *name, const char *command);

bool flag_record_is_of(const flag_record *r, const char *command);
bool flag_record_is_ignored(const flag_record *r, const char *command);

/* NULL: there is none. */
const flag_group *flag_group_find(const char *name);

/* Whether `length` characters are a word of a list, which may be NULL. */
bool flag_words_have(const char *list, const char *word, size_t length);

/* The next word of a list at *list, which moves to the one after it; 0: there is none. */
size_t flag_words_next(const char **list, const char **word);

#endif
