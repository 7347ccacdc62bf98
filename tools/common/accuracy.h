/* The accuracy that is reported of an evaluation. */
#ifndef TOOLS_COMMON_ACCURACY_H
#define TOOLS_COMMON_ACCURACY_H

#include <accrue/evaluation.h>

/* The graph's metric "accuracy" if it has one, as that of preferences has; else that of its loss.
 */
double accuracy_of(const ac_evaluation *evaluation);

/* The mean of the metrics "iou_0", "iou_1" and so on of the classes that the data have; NaN: there
 * are none. */
double mean_iou_of(const ac_evaluation *evaluation);

#endif
