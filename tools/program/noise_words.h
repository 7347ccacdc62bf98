/* What the gradient noise scale says about a run's batch, in words. */
#ifndef TOOLS_PROGRAM_NOISE_WORDS_H
#define TOOLS_PROGRAM_NOISE_WORDS_H

#include <accrue/accrue.h>

/* Values of --noise-scale. ON says why, if nothing is known. */
enum { NOISE_AUTO, NOISE_ON, NOISE_OFF };

/* Writes a line to stderr. `batch`: samples of a batch at the end of the run. With AUTO it writes
 * only if the scale is known better than by its own size. `tokens`: of a sample; 0: samples have
 * none. */
void noise_words(const ac_trainer *trainer, const ac_plan_info *plan, int64_t batch, int64_t tokens,
                 int wanted);

#endif
