/* Runs samples of images through a classifier, which a session or a trainer computes. */
#ifndef TOOLS_PROGRAM_CLASSIFY_H
#define TOOLS_PROGRAM_CLASSIFY_H

#include <accrue/evaluation.h>

typedef struct classify_sample {
  int64_t index;
  int64_t label;       /* -1: the data have none */
  const int32_t *mask; /* the class of each pixel; NULL: the data have none */
} classify_sample;

/* Is called with the logits of a sample. A status of message.h. */
typedef int (*classify_answer)(void *user, const classify_sample *sample, const float *logits);

typedef struct classification {
  ac_dataset *dataset;
  int64_t batch, elements; /* samples at once; logits of a sample: of classes, or of pixels */
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
