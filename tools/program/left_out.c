#include "program/left_out.h"

#include "common/message.h"
#include "common/outputs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_own(const left_out *l, const char *path) {
  for (int i = 0; i < LEFT_OUT_OUTPUTS; i++) {
    const char *output = l->outputs[i];
    if (output && access(output, F_OK) == 0 && outputs_same(output, path)) return true;
  }
  return false;
}

bool left_out_takes(void *user, const char *path, bool is_folder) {
  left_out *l = user;
  const bool written = is_folder ? outputs_is_of_run(path) : outputs_is_written(path);
  if (!written && !is_own(l, path)) return true;
  if (!l->count++) snprintf(l->first, sizeof l->first, "%s", path);
  return false;
}

int left_out_check(const left_out *l, const char *folder) {
  if (outputs_is_of_run(folder))
    return fail("%s is the folder of a run, and its files are not text to learn from; give the "
                "folder of the text with --data, and another folder for the run with --out",
                folder);
  if (is_own(l, folder))
    return fail_usage("the run would write its files into %s, which --data reads as text; give "
                      "another folder",
                      folder);
  return STATUS_CONTINUE;
}

void left_out_say(const left_out *l, const char *folder) {
  static _Thread_local char said[sizeof l->first]; /* ranks may be threads, most of them silent */
  char more[48] = "";
  if (!l->count || !strcmp(said, l->first)) return;
  if (l->count > 1) snprintf(more, sizeof more, " and %d more", l->count - 1);
  say("left out of the data in %s, as runs have written it: %s%s", folder, l->first, more);
  memcpy(said, l->first, sizeof said);
}
