/* Choosing a token by logits. */
#ifndef AC_GENERATE_SAMPLING_H
#define AC_GENERATE_SAMPLING_H

#include <accrue/generate.h>

/* A token that can be drawn: its logit, then its probability times a constant. */
typedef struct ac_candidate {
  uint32_t token;
  float value;
} ac_candidate;

/* Whether all settings can be followed. */
ac_status ac_sampling_check(const ac_sampling *sampling);

/* Lowers the logits of tokens that were written. `text` has `count` of them, `marks` a bool for
 * each token, all false, as it is afterwards. */
void ac_sampling_penalise(const ac_sampling *sampling, float *logits, const uint32_t *text,
                          int64_t count, bool *marks);

/* The token that `at` in [0, 1) draws. `room` has as many elements as there are logits, which are
 * finite. */
uint32_t ac_sampling_choose(const ac_sampling *sampling, const float *logits, int64_t count,
                            double at, ac_candidate *room);

#endif
