/* The values of flags as JSON, with which a run can be repeated: {"flags": {"batch": 12, ...},
 * "given": ["batch", ...]}. Values that were not given are also recorded, as defaults may change
 * from version to version. */
#ifndef TOOLS_COMMON_OPTION_RECORD_H
#define TOOLS_COMMON_OPTION_RECORD_H

#include "common/options.h"

#include <jansson.h>

/* Adds both to an object, of flags without a file of docs/flags and those that `keeps` says. False
 * for want of memory. */
bool options_record(const options *o, bool (*keeps)(const flag_record *r), json_t *record);

/* Adds the first `count` flags as a file that people write has them: "flags", which are given, and
 * "defaults", both without those that are open. `except` names flags that are left out. What is
 * about one start of the program is only there if it is given. False for want of memory. */
bool options_config(const options *o, int count, const char *except, json_t *file);

/* Whether this is a run's record, and not a file that people write: {"flags": {...}}, or flags and
 * values alone. There all flags that have a value count as given, but for those of an object
 * "defaults". */
bool options_is_record(const json_t *record);

/* Before options_parse: sets the flags of a record or of such a file, which must outlive them, but
 * for those that the command line names or contradicts, and those that stay the recorded run's own.
 * `of_pilot`: nor those that a pilot gives its runs, or ignores. `from` is the file's name for
 * messages. Returns a status of message.h. */
int options_restore(options *o, const json_t *record, const char *from, bool of_pilot, int argc,
                    char **argv);

/* Whether the command line names a flag, and its value; NULL: it does not, or the flag has no
 * value. */
bool options_named(const char *name, int argc, char **argv);
const char *options_value(const char *name, int argc, char **argv);

/* Whether a name is among others that are separated by single spaces. */
bool options_listed(const char *name, const char *names);

#endif
