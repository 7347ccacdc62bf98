/* Runs samples of images through a classifier, which a session or a trainer computes. */
#ifndef TOOLS_PROGRAM_CLASSIFY_H
#define TOOLS_PROGRAM_CLASSIFY_H

#include <accrue/evaluation.h>

/* Is called with the logits of a sample, one for each class; label -1: the data have none. A status
 * of message.h. */
typedef int (*classify_answer)(void *user, int64_t sample, int64_t label, const float *logits);

typedef struct classification {
  ac_dataset *dataset;
  int64_t batch, classes; /* samples at once */
  /* Computes the logits of `count` samples, `elements` in all. */
  ac_status (*predict)(void *model, int64_t count, const ac_feed *images, int64_t elements,
                       float *logits);
  void *model;
  ac_stop_callback stop; /* asked before each batch; the rest is left out if it says so */
  void *stop_user;
  classify_answer answer;
  void *user;
} classification;

/* A status of message.h. */
int classify(const classification *c);

#endif
