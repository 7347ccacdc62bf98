/* What docs/commands says of every command, as a table that is made at build time. The texts are
 * Markdown. */
#ifndef TOOLS_COMMON_COMMAND_RECORD_H
#define TOOLS_COMMON_COMMAND_RECORD_H

typedef struct command_record {
  const char *name, *brief;
  const char *examples, *files, *environment;
} command_record;

extern const command_record command_records[];
extern const int command_record_count;

/* Of "train gpt" that of train, and of "" that of the program. NULL: there is none. */
const command_record *command_record_find(const char *command);

#endif
