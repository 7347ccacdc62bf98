/* The flags that all kinds of model share: their defaults, their rows, and what contradicts itself
 * among them. */
#ifndef TOOLS_PROGRAM_TRAIN_FLAGS_H
#define TOOLS_PROGRAM_TRAIN_FLAGS_H

#include "program/setup.h"

void train_flags_set_defaults(setup *s);
/* With the flags of the setup's kind. */
void train_flags_add(setup *s);

/* Settles what follows from flags alone, also of the loss scale and the schedule. Returns
 * STATUS_CONTINUE, or a status of message.h. */
int train_flags_check(setup *s);
/* Whether they go with the way of gradients that was asked for. */
int train_flags_check_gradients(const setup *s);

#endif
