/* --tensorboard DIR: a run's numbers as events that TensorBoard shows. They come as the JSON lines
 * of --metrics, so that both have the same: each number of an event is a scalar named EVENT/FIELD,
 * each word a text. Lines "step" are named train/FIELD, lines "eval" validation/FIELD. null,
 * which is not a number, is left out.
 *
 * --histograms N: weights/NAME, as the window used them, and gradients/NAME, of the window's mean
 * loss, unscaled, before clipping.
 *
 * A `tensorboard` that is NULL takes everything and writes nothing. */
#ifndef TOOLS_TENSORBOARD_TENSORBOARD_H
#define TOOLS_TENSORBOARD_TENSORBOARD_H

#include <accrue/trainer.h>
#include <jansson.h>

typedef struct tensorboard tensorboard;

typedef struct tensorboard_desc {
  const char *folder; /* NULL: nothing is written */
  int64_t done; /* windows before the first one of this file. If there are any, TensorBoard drops
                   later windows of older files in the folder */
  int64_t histograms; /* windows between histograms; 0: none */
} tensorboard_desc;

/* Begins a new file. A status of message.h: the folder cannot be written to. Later failures do not
 * disturb the run; tensorboard_close reports them once. */
int tensorboard_open(tensorboard **t, const tensorboard_desc *desc);
int tensorboard_close(tensorboard *t);
/* For a run that does not begin after all: removes the file, and the folder if it was made for it;
 * parent folders stay. */
void tensorboard_remove(tensorboard *t);

/* Takes a line of --metrics. */
void tensorboard_line(tensorboard *t, const json_t *line);

/* Markdown. */
void tensorboard_text(tensorboard *t, const char *tag, const char *text);

/* What the run is set to: numbers, texts and booleans by name, for the table of hyperparameters,
 * and the names of those that were given. Also which curves belong together. Once for each file. */
void tensorboard_settings(tensorboard *t, const json_t *settings, const json_t *given);

/* The run has ended, with success or stopped. */
void tensorboard_end(tensorboard *t, bool success);

/* An ac_decide; `user` is a `tensorboard`. Writes histograms when it is time to. */
void tensorboard_decide(void *user, ac_trainer *trainer, ac_decision *decision);

#endif
