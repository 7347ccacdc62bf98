/* What a classifier of images answered on all samples of a dataset: counts of labels against
 * answers, and the images with the largest and the smallest losses, for `accrue report`. */
#ifndef TOOLS_PROGRAM_EXAMPLES_H
#define TOOLS_PROGRAM_EXAMPLES_H

#include "program/classify.h"
#include "program/data.h"

#include <jansson.h>

/* With more classes nobody reads a confusion matrix. Its bytes grow with the square of the classes.
 */
enum { EXAMPLES_MOST_CONFUSED = 1000 };

typedef struct example {
  int64_t sample, label, answer;
  double loss, probability; /* cross-entropy; that of the answer */
} example;

typedef struct examples {
  int64_t classes, most; /* of each kind; 0: none */
  int64_t met;           /* samples so far */
  int64_t *confusion;    /* [label, answer]; NULL: there are too many classes */
  example *worst, *best; /* the first is the worst, and the best */
} examples;

/* A status of message.h; examples_end is needed in any case. */
int examples_begin(examples *e, int64_t classes, int64_t most);
void examples_end(examples *e);

/* A classify_answer; `user` is the examples. */
int examples_take(void *user, const classify_sample *sample, const float *logits);

/* Rows of counts. NULL: out of memory. */
json_t *examples_confusion(const examples *e);

/* Adds the images to an object, as "worst" and "best", with the file and the names of the classes
 * if they are known. `class_names` is one a line, or NULL: those of the pictures. */
int examples_put(const examples *e, const train_data *data, ac_dataset *dataset,
                 const char *class_names, json_t *object);

/* Adds "changed": some of the images that train, each as it is and as it changes in the first
 * epochs. */
int examples_put_changed(const train_data *data, uint64_t seed, json_t *object);

#endif
