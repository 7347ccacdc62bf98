/* Packing: which lengths share a sample. */
#ifndef AC_CHAT_PACK_H
#define AC_CHAT_PACK_H

#include <accrue/base.h>

/* Best fit by decreasing length: from the longest to the shortest (of equal ones the first before
 * the others), each goes into the sample with the least room that is enough, and of equal ones into
 * the one made last. It needs at most 11/9 of the least number of samples, and one more (Johnson
 * 1973).
 *
 * sample_of[i] gets the sample of lengths[i], each in [1, context]; *samples: how many there are.
 * Samples are numbered in the order of the first length in each. `count` lengths take O(count log
 * count) time, and 12 bytes each besides 9 bytes for each of the context. */
ac_status ac_chat_pack(const int32_t *lengths, int64_t count, int64_t context, int64_t *sample_of,
                       int64_t *samples);

#endif
