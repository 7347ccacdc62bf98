/** @file
 * Results of a trainer: what named tensors hold (ac_graph_set_output). Predictions are computed in
 * the trainer's own memory, as evaluations are, so they take no more than its plan. */
#ifndef ACCRUE_RESULTS_H
#define ACCRUE_RESULTS_H

#include <accrue/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Computes a named tensor (ac_graph_set_output) of `count` samples, forward only and without
 * dropout. Any number is accepted: as many as fit run at once.
 *
 * `data` receives the elements of all samples, one sample after another, as f32; numbers that are
 * integers are converted. `elements` says how many it has room for. That must be as many as there
 * are: those of one sample times `count`, or those of the tensor if it has no batch.
 *
 * Inputs that the tensor depends on need a feed, and no others: predictions need no targets. The
 * parameters are those of the last update, or their averages (ac_trainer_use_average). Running
 * statistics are used and stay as they are, and so does all else: the next window has the same bits
 * with and without this call.
 *
 * A window in progress is left as it is, or the call is refused with AC_ERROR_STATE: if the plan
 * has the window's gradients or samples in the memory that this needs (ac_plan_desc.whole_windows).
 * AC_ERROR_ARGUMENT for a name that the graph does not have, another number of elements, and feeds
 * that are refused as by ac_trainer_accumulate. */
AC_API ac_status ac_trainer_predict(ac_trainer *trainer, const char *name, int64_t count,
                                    const ac_feed *feeds, int feed_count, int64_t elements,
                                    float *data);

#ifdef __cplusplus
}
#endif
#endif
