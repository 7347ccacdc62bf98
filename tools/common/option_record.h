/* The values of flags as JSON, with which a run can be repeated: {"flags": {"batch": 12, ...},
 * "given": ["batch", ...]}. Values that were not given are also recorded, as defaults may change
 * from version to version. */
#ifndef TOOLS_COMMON_OPTION_RECORD_H
#define TOOLS_COMMON_OPTION_RECORD_H

#include "common/options.h"

#include <jansson.h>

/* Adds both to an object. `except` names flags that are left out, separated by single spaces.
 * False: there is no memory. */
bool options_record(const options *o, const char *except, json_t *record);

/* Before options_parse: sets the flags of such a record, except flags of the command line and flags
 * in `except`, separated by single spaces. The record must outlive the flags. `from` is for
 * messages. Returns a status of message.h. */
int options_restore(options *o, const json_t *record, const char *from, const char *except,
                    int argc, char **argv);

/* Whether the command line names a flag, and its value; NULL: it does not, or the flag has no
 * value. */
bool options_named(const char *name, int argc, char **argv);
const char *options_value(const char *name, int argc, char **argv);

/* Whether a name is among others that are separated by single spaces. */
bool options_listed(const char *name, const char *names);

#endif
