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
/* Whether they are possible with the given way of gradients. */
int train_flags_check_gradients(const setup *s);

#endif
