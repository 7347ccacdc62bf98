/* Replaces all of this folder if the build has no protobuf-c. */
#include "tensorboard/tensorboard.h"

#include "common/message.h"

int tensorboard_open(tensorboard **t, const tensorboard_desc *desc) {
  *t = NULL;
  if (!desc->folder) return STATUS_CONTINUE;
  return fail_usage("--tensorboard needs protobuf-c, which this program was built without");
}

int tensorboard_close(tensorboard *t) {
  (void)t;
  return STATUS_CONTINUE;
}

void tensorboard_remove(tensorboard *t) {
  (void)t;
}

void tensorboard_line(tensorboard *t, const json_t *line) {
  (void)t, (void)line;
}

void tensorboard_text(tensorboard *t, const char *tag, const char *text) {
  (void)t, (void)tag, (void)text;
}

void tensorboard_settings(tensorboard *t, const json_t *settings, const json_t *given) {
  (void)t, (void)settings, (void)given;
}

void tensorboard_end(tensorboard *t, bool success) {
  (void)t, (void)success;
}

void tensorboard_decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer, (void)decision;
}
