/* The flags that all kinds of model share: their defaults, their rows, and what contradicts itself
 * among them. */
#ifndef TOOLS_PROGRAM_TRAIN_FLAGS_H
#define TOOLS_PROGRAM_TRAIN_FLAGS_H

#include "program/setup.h"

/* What flags say of how the program is started, and not of the run; and of where flags come from.
 * All of them together are in no run's record. */
#define START_FLAGS "resume resume-or-start overwrite quiet json"
#define CONFIG_FLAGS "config print-config preset"

/* Without effect on a pilot; its runs take none of them from a file. */
#define PILOT_IGNORED \
  "metrics tensorboard histograms resume resume-or-start overwrite keep keep-best"

void train_flags_set_defaults(setup *s);
/* With the flags of the setup's kind. */
void train_flags_add(setup *s);
/* Flags without effect on a verb are accepted all the same. */
void train_flags_ignore(options *o, const char *verb);

/* Settles what follows from flags alone, also of the loss scale and the schedule. Returns
 * STATUS_CONTINUE, or a status of message.h. */
int train_flags_check(setup *s);
/* Whether they are possible with the given way of gradients. */
int train_flags_check_gradients(const setup *s);

#endif
