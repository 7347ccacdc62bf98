/* What `accrue verify` compares, in memory. */
#ifndef TOOLS_PROGRAM_VERIFICATION_H
#define TOOLS_PROGRAM_VERIFICATION_H

#include "program/verify_ranks.h"

typedef struct verification {
  setup *setup;
  int64_t updates;
  void *blocks[AC_MAX_FIELDS]; /* the samples of a window, by field */
  layout layout;
  record record;
  distances planned;
  spread spread;
  float *gradient, *weights;
  float *squares; /* of the planned way's sums of gradients, after each micro-batch; NULL: none is
                     rounded by chance */
  ac_plan *whole_plan;
  const ac_plan *plan; /* as planned: of rank 0, or the one below */
  ac_plan *alone;
  verify_ranks ranks; /* none: there is one */
} verification;

/* Whether sums of gradients are rounded by chance. */
bool verification_rounds(const verification *v);
/* Lists the trainer's parameters. A status of message.h. */
int verification_list(verification *v, ac_trainer *trainer);
/* For all that is compared of them, and for a window's samples. */
bool verification_make_room(verification *v);
bool verification_make_blocks(verification *v);
void verification_release(verification *v);

#endif
