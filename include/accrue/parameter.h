/** @file
 * The parameters of a trainer: reading and writing them, with what the optimizer keeps for them,
 * and model files of all of them or of a part. */
#ifndef ACCRUE_PARAMETER_H
#define ACCRUE_PARAMETER_H

#include <accrue/model_file.h>
#include <accrue/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How many parameters the graph has. */
AC_API int ac_trainer_parameter_count(const ac_trainer *trainer);

/** Describes a parameter. Indices are in the graph's order. */
AC_API ac_status ac_trainer_parameter_info(const ac_trainer *trainer, int index,
                                           ac_tensor_info *info);

/** The index of the parameter with this name. -1 if there is none. */
AC_API int ac_trainer_find_parameter(const ac_trainer *trainer, const char *name);

/** Reads elements [first, first + count) of a parameter. */
AC_API ac_status ac_trainer_get_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, float *data);

/** Writes elements [first, first + count) of a parameter. AC_ERROR_STATE during a decision. Also,
 * as for ac_trainer_load, in a window with an update that computes its gradients again, or that
 * folds them (AC_GRADIENTS_FUSED, AC_GRADIENTS_FOLDED). */
AC_API ac_status ac_trainer_set_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, const float *data);

/* ---- model files ----------------------------------------------------------------------------- */

/** Saves all parameters under their names. ac_model_file_write says what may be at the path, for
 * this and the other functions that save. If a parameter is not finite nothing is written: the old
 * file stays, and AC_ERROR_NOT_FINITE names the parameter. */
AC_API ac_status ac_trainer_save(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                                 int metadata_count);

/** Loads all parameters. The file must have each one with its exact shape (but see
 * ac_parameter_desc.first_rows), under its own name or its name without `optional_prefix` (NULL:
 * none). Other tensors in the file, of any dtype, are ignored:
 * PyTorch's `num_batches_tracked`, for example. This is checked before the first parameter changes.
 * If reading fails afterwards, the trainer cannot be used until all parameters or a state are
 * loaded. */
AC_API ac_status ac_trainer_load(ac_trainer *trainer, const char *path,
                                 const char *optional_prefix);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** Like ac_trainer_save, but only parameters with names that match `pattern`, as in a shell: `*`
 * any characters, `?` one, `[...]` one of these. Several patterns may be given, with commas between
 * them. One that begins with `!` leaves out what it matches: "!head.*" is all but the head.
 * AC_ERROR_ARGUMENT if no parameter is left. */
AC_API ac_status ac_trainer_save_part(ac_trainer *trainer, const char *path, const char *pattern,
                                      const ac_metadata *metadata, int metadata_count);

/** Like ac_trainer_load, but only parameters with names that match `pattern`, which is as for
 * ac_trainer_save_part: "!*.running_mean,!*.running_variance" leaves the running statistics of
 * batch norms as they are, so that the file need not have them. */
AC_API ac_status ac_trainer_load_part(ac_trainer *trainer, const char *path, const char *pattern,
                                      const char *optional_prefix);

/** With ac_plan_desc.average: exchanges averages and trained parameters, in their own memory. While
 * averages are in use, evaluation, saving a model and reading parameters use them. Training,
 * changing parameters, and states are then AC_ERROR_STATE.
 *
 * Running statistics and frozen parameters have no average and stay as they are. Before the first
 * update averages are zero and cannot be used. AC_ERROR_STATE with a window in progress. When
 * averages are no longer in use, everything is as before, to the bit. If that fails the trainer
 * cannot be used until a state is loaded. */
AC_API ac_status ac_trainer_use_average(ac_trainer *trainer, bool average);

/** How many states the optimizer keeps for each trained parameter, in f32. AdamW: the first and the
 * second moment. SGD and Lion: the momentum. Adafactor: second moments of a matrix's rows and of
 * its columns, or of a vector's elements. Muon: the momentum of a matrix, and AdamW's for other
 * parameters. Adam-mini: the first moment, and the second moment of each block.
 * AC_OPTIMIZER_CALLBACK: its own. */
AC_API int ac_trainer_state_count(const ac_trainer *trainer);

/** Reads elements [first, first + count) of a parameter's state. */
AC_API ac_status ac_trainer_get_state(ac_trainer *trainer, int index, int state, int64_t first,
                                      int64_t count, float *data);

/** Writes elements [first, first + count) of a parameter's state. State in 8 bits is rounded,
 * together with the other elements of its blocks of 256. */
AC_API ac_status ac_trainer_set_state(ac_trainer *trainer, int index, int state, int64_t first,
                                      int64_t count, const float *data);

/** Sets how many updates were made so far (ac_progress.updates). The learning rate of the next
 * update, its random numbers, and the bias correction of AdamW and Adam-mini depend on it. So set
 * it if you set moments of another run. Otherwise they are corrected as in a first update, which is
 * far too large or too small.
 *
 * If no update was made before, averages (ac_plan_desc.average) begin as copies of the parameters;
 * so set parameters first. AC_ERROR_ARGUMENT: below 0, or above INT64_MAX / 2. AC_ERROR_STATE with
 * a window in progress, during a decision, and while averages are in use. */
AC_API ac_status ac_trainer_set_updates(ac_trainer *trainer, int64_t updates);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
