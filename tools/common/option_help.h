/* What --help says of a command's flags: the common ones and the groups on one screen, a group, a
 * flag, or all. */
#ifndef TOOLS_COMMON_OPTION_HELP_H
#define TOOLS_COMMON_OPTION_HELP_H

#include "common/options.h"

/* argv[0] is the word that asks for help, and the next may say of what. STATUS_DONE, or
 * STATUS_USAGE after one sentence. */
int option_help(const options *o, char **argv, int argc);

/* Prints every flag of that name, or a group, of a command with all of its models; NULL: of any
 * command. False: there is none, and nothing is printed. */
bool option_help_of(const char *word, const char *command);

#endif
