/* Describes a run of an op in words, for the bench: which attributes, and whether evaluation,
 * change the work in addition to its shapes, as ", WORDS" for each. What does not change the work
 * is left out: streams of random numbers, epsilons, factors and rates; so is what can be told from
 * the shapes: groups, heads and scales of size. */
#ifndef AC_OPS_WORDS_H
#define AC_OPS_WORDS_H

#include "ops/description.h"

/* Text that is put together piece by piece; what exceeds the room is cut off. */
struct ac_words {
  char *text;
  size_t size, used;
};
void ac_words_put(ac_words *words, const char *format, ...);

/* ", NAME 2" or ", NAME 2x3", for height and width; nothing if both are the usual. */
void ac_words_put_pair(ac_words *words, const char *name, const int32_t pair[2], int32_t usual);
/* Says the layout of a square weight; the shape of any other weight shows it. */
void ac_words_put_layout(ac_words *words, ac_layout layout, const ac_operand *weight);
/* For an op that does other work in evaluation. */
void ac_words_put_evaluation(ac_words *words, const ac_run_state *run);

#endif
