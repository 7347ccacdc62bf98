/* Classes of pixels: what a model of kind->segments answers, and how good its answers are. */
#ifndef TOOLS_PROGRAM_SEGMENTS_H
#define TOOLS_PROGRAM_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* The likeliest class of each pixel, of equal ones the smaller: logits are [classes, pixels]. False
 * if one of them is not finite. */
bool segments_answer(const float *logits, int64_t classes, int64_t pixels, uint8_t *answer);

/* Counts pixels in confusion [classes, classes]: by their class in the mask, then by the answer.
 * Ignored ones are left out. */
void segments_count(const int32_t *mask, const uint8_t *answer, int64_t pixels, int64_t classes,
                    int64_t *confusion);

/* Of the pixels with this class or this answer, the share with both; NaN if there are none. */
double segments_iou(const int64_t *confusion, int64_t classes, int64_t class);
/* The mean over the classes that have one; NaN if none has. */
double segments_mean_iou(const int64_t *confusion, int64_t classes);

#endif
