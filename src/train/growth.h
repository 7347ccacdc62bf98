/* Batches that grow by the gradient noise scale: a schedule of batches that is written while a run
 * goes on, a row whenever it doubles them. It is part of states, as one line of text. */
#ifndef AC_TRAIN_GROWTH_H
#define AC_TRAIN_GROWTH_H

#include <accrue/fit.h>

typedef struct ac_growth {
  int count; /* of stages; 0: batches do not grow */
  ac_batch_stage stages[AC_MAX_BATCH_STAGES];
  int64_t measured; /* windows with measured noise before the last stage */
} ac_growth;

/* Refuses what makes no sense, and where the noise scale cannot be known. */
ac_status ac_growth_check(const ac_trainer *trainer, const ac_fit_desc *desc);
/* For a fit that begins, or goes on with the schedule so far; fails if the plan is too small for
 * that. */
ac_status ac_growth_begin(ac_trainer *trainer, const ac_fit_desc *desc);
/* After an update, with so many windows over. The batch that follows if it grows now, or 0. */
int64_t ac_growth_take(ac_trainer *trainer, const ac_batch_growth *wish, int64_t windows);
/* After a state was loaded without its place in the data: keeps this schedule as well. */
void ac_growth_keep(ac_trainer *trainer, const ac_growth *growth);

/* "32@0,64@120 45": batches at windows, then what was measured before the last. False if a text is
 * none of batches of at most `most` after so many measurements. */
enum { AC_GROWTH_TEXT = (AC_MAX_BATCH_STAGES + 1) * 44 };
void ac_growth_put(const ac_growth *growth, char text[AC_GROWTH_TEXT]);
bool ac_growth_get(ac_growth *growth, const char *text, int64_t most, int64_t measured);

#endif
