/* Files in a folder of text that are not text to learn from: what this run writes, the folders of
 * other runs and pilots, and what runs and reports have written elsewhere. Without this a model in
 * the folder of its data would be part of the data of the next run, and a run could not go on, as
 * its own states would have changed its data. */
#ifndef TOOLS_PROGRAM_LEFT_OUT_H
#define TOOLS_PROGRAM_LEFT_OUT_H

#include <stdbool.h>

enum { LEFT_OUT_OUTPUTS = 4 };

typedef struct left_out {
  const char *outputs[LEFT_OUT_OUTPUTS]; /* of this run; NULL: none */
  int count;
  char first[256]; /* name of the first that was left out */
} left_out;

/* As ac_takes_path of a `left_out`, with which ac_tokens_from_text_where reads a folder. */
bool left_out_takes(void *user, const char *path, bool is_folder);

/* Refuses a folder that is the folder of a run, or of this run. A status of message.h. */
int left_out_check(const left_out *l, const char *folder);

/* Says in one line what was left out; the same line once. */
void left_out_say(const left_out *l, const char *folder);

#endif
