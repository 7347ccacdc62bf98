/* The flags that all kinds of model share: their defaults, their rows, and what contradicts itself
 * among them. */
#ifndef TOOLS_PROGRAM_TRAIN_FLAGS_H
#define TOOLS_PROGRAM_TRAIN_FLAGS_H

#include "program/setup.h"

void train_flags_set_defaults(setup *s);
/* With the flags of the setup's kind. */
void train_flags_add(setup *s);

/* STATUS_CONTINUE, or a status of message.h; settles what follows from flags alone, of the loss
 * scale and the schedule too. */
int train_flags_check(setup *s);
/* Whether they go with the way of gradients that was asked for. */
int train_flags_check_gradients(const setup *s);

#endif
