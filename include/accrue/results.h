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
 * with and without this call. But an input without a batch that is fed keeps this value, also for
 * what a window in progress has still to come.
 *
 * A window in progress is left as it is, or the call is refused with AC_ERROR_STATE: if the plan
 * has the window's gradients or samples in the memory that this needs (ac_plan_desc.whole_windows).
 * AC_ERROR_ARGUMENT for a name that the graph does not have, another number of elements, and feeds
 * that are refused as by ac_trainer_accumulate. */
AC_API ac_status ac_trainer_predict(ac_trainer *trainer, const char *name, int64_t count,
                                    const ac_feed *feeds, int feed_count, int64_t elements,
                                    float *data);

/* ---- tensors of windows ---------------------------------------------------------------------- */

/** What a watched tensor holds in one micro-batch of a window. */
typedef struct ac_tensor_view {
  const char *name; /**< As given to ac_graph_set_output. */
  int64_t update;   /**< Updates made before this window. */
  int64_t first;    /**< Place of the first sample in its window, from 0. */
  int64_t count;    /**< Samples. */
  int64_t elements; /**< Of one sample; if the tensor has no batch, of all. */
  bool batched;     /**< It has a batch. */
  /** The elements, one sample after another, as f32. Valid until the callback returns. */
  const float *data;
} ac_tensor_view;

/** Receives what a watched tensor holds. It may read parameters, but not change or run the trainer:
 * such calls are refused with AC_ERROR_STATE, and ac_trainer_discard does nothing. */
typedef void (*ac_tensor_callback)(void *user, const ac_tensor_view *view);

/** Limit of ac_trainer_watch_tensor. */
enum {
  AC_MAX_WATCHED = 16 /**< Most tensors that are watched at once. */
};

/** Has `callback` called with what a named tensor (ac_graph_set_output) holds in every micro-batch
 * of the windows from now on, right after it is computed, as training computes it: with dropout,
 * and with the statistics of the micro-batch, or of the window with exact batch norm. It is called
 * once for each micro-batch, also where the tensor is computed again for the backward pass.
 * Micro-batches come in the order of their samples. If ac_fit runs a window again, so does this.
 * NULL for `callback`: the tensor is watched no more.
 *
 * Nothing of the window changes but its time. On the host a watched tensor takes 4 bytes for each
 * element of a micro-batch. On the device it takes none.
 *
 * AC_ERROR_ARGUMENT for a name that the graph does not have. AC_ERROR_STATE if no loss depends on
 * the tensor, so that windows do not compute it (ac_trainer_predict does), if AC_MAX_WATCHED others
 * are watched, and within a callback. */
AC_API ac_status ac_trainer_watch_tensor(ac_trainer *trainer, const char *name,
                                         ac_tensor_callback callback, void *user);

/** Where ac_keep_tensor puts what it receives. */
typedef struct ac_tensor_buffer {
  float *data;      /**< Room for the samples of a window, one after another. */
  int64_t elements; /**< How many elements there is room for. What is beyond is left out. */
} ac_tensor_buffer;

/** A callback for ac_trainer_watch_tensor: copies each sample of the window to its place in a
 * buffer. `buffer` is an ac_tensor_buffer. */
AC_API void ac_keep_tensor(void *buffer, const ac_tensor_view *view);

/* ---- weights of two trainers ----------------------------------------------------------------- */

/** Moves parameters of one trainer towards those of another: p = p + rate (q - p). With the rate 1
 * they are copied. This is how a target network or a teacher follows the network that is trained.
 * To use the parameters themselves in both, share them: ac_plan_desc.shared.
 *
 * A parameter of `to` with a name that begins with `to_prefix` follows the one of `from` that has
 * `from_prefix` in its place. Others stay as they are. NULL is the prefix "". Both trainers may be
 * the same: ac_trainer_copy_weights(t, "target.", t, "online.", 0.005). Running statistics are
 * parameters. Copies in 16 bits follow; optimizer state does not change.
 *
 * AC_ERROR_ARGUMENT if no parameter follows another, if shapes differ, for a rate outside [0, 1],
 * and for one between 0 and 1 if a parameter of `to` is kept in 16 bits alone (ac_plan_desc.frozen,
 * AC_WEIGHTS_BF16), where small steps would be lost. AC_ERROR_STATE where parameters cannot be
 * written (ac_trainer_set_parameter). */
AC_API ac_status ac_trainer_copy_weights(ac_trainer *to, const char *to_prefix, ac_trainer *from,
                                         const char *from_prefix, double rate);

#ifdef __cplusplus
}
#endif
#endif
