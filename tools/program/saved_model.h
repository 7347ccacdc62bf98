/* A saved model that a command runs over data. The file says what the model is, and a pass needs
 * only the memory of a forward pass. `accrue eval` and `accrue predict` share this. */
#ifndef TOOLS_PROGRAM_SAVED_MODEL_H
#define TOOLS_PROGRAM_SAVED_MODEL_H

#include "common/help.h"
#include "common/progress.h"
#include "program/classify.h"
#include "program/model_path.h"
#include "program/setup.h"

typedef struct saved_command {
  const char *name;    /* "eval" */
  const char *summary; /* for --help of one kind of model */
  const char *general; /* for --help of all kinds */
  bool images_alone;   /* the command is for models of images, and needs no labels */
} saved_command;

typedef struct saved_model {
  const saved_command *command;
  setup setup; /* kind, model, data and device; no plan */
  const char *model;
  char path[MODEL_PATH_BYTES];
  int split; /* 0: validation, 1: train, 2: all, for commands that offer it */
  int64_t batch;
  bool json;
  ac_dataset *dataset;
  char *class_names; /* one a line; NULL: the file does not name them */
  uint64_t bytes;    /* planned, of the largest pass */
  progress progress;
  int64_t done, step; /* samples of the pass that runs, and of each call of saved_model_show */
} saved_model;

/* Parses the flags, opens data and device. `more` adds the command's own flags. A status of
 * message.h; STATUS_DONE: the help was printed. */
int saved_model_open(saved_model *m, const saved_command *command, int argc, char **argv,
                     void (*more)(saved_model *m, options *o));
void saved_model_close(saved_model *m);

/* Shows the progress of a pass. Always false: as an ac_stop_callback it never stops. */
bool saved_model_show(void *model);

typedef struct saved_pass {
  ac_graph *graph;
  ac_plan *plan;
  ac_session *session;
} saved_pass;

/* Plans. Without a given budget it uses no more memory than the model's training. */
int saved_pass_open(saved_model *m, ac_purpose purpose, saved_pass *pass);
void saved_pass_close(saved_pass *pass);

/* Runs every sample of the data through a model with `elements` logits for each. */
int saved_model_classify(saved_model *m, int64_t elements, classify_answer answer, void *user);

#endif
