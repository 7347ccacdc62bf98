/** @file
 * Sessions: forward passes only, with a plan made for AC_EVALUATE or AC_PREDICT. A session takes
 * less memory than a trainer. */
#ifndef ACCRUE_SESSION_H
#define ACCRUE_SESSION_H

#include <accrue/evaluation.h>
#include <accrue/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A model that is ready for evaluation or prediction. */
typedef struct ac_session ac_session;

/** Allocates the plan's total. Parameters have their initial values for `seed`. The plan must
 * outlive the session. */
AC_API ac_status ac_session_create(ac_session **session, const ac_plan *plan, uint64_t seed);
/** Like ac_session_create, for a plan that shares parameters with a trainer (ac_plan_desc.shared),
 * such as one that predicts while it trains. The trainer must outlive the session, and what it
 * changes, the session uses from then on. `trainer` may be NULL if the plan shares none. */
AC_API ac_status ac_session_create_shared(ac_session **session, const ac_plan *plan, uint64_t seed,
                                          const ac_trainer *trainer);
/** Frees a session. */
AC_API void ac_session_free(ac_session *session);

/** Loads all parameters from a model file, like ac_trainer_load. */
AC_API ac_status ac_session_load(ac_session *session, const char *path,
                                 const char *optional_prefix);
/** Sets elements [first, first + count) of a parameter, like ac_trainer_set_parameter. */
AC_API ac_status ac_session_set_parameter(ac_session *session, const char *name, int64_t first,
                                          int64_t count, const float *data);

/** Like ac_session_load, but only parameters with names that match `pattern`, like
 * ac_trainer_load_part. */
AC_API ac_status ac_session_load_part(ac_session *session, const char *path, const char *pattern,
                                      const char *optional_prefix);
/** Sets an input without the batch, like ac_trainer_set_input. */
AC_API ac_status ac_session_set_input(ac_session *session, const char *name, const void *data);

/** Runs `count` samples through an AC_PREDICT plan. Any number is accepted. It is split into
 * micro-batches of the plan's size; then all outputs are kept in host memory, as f32, until the
 * next run. */
AC_API ac_status ac_session_run(ac_session *session, int64_t count, const ac_feed *feeds,
                                int feed_count);

/** Copies elements [first, first + count) of a named output of the last run to `data`, as f32.
 * Ids are exact up to 2^24. */
AC_API ac_status ac_session_output(ac_session *session, const char *name, int64_t first,
                                   int64_t count, float *data);

/** Runs samples as far as one named output, and copies it: like ac_trainer_predict. Only inputs
 * that it depends on need a feed, and nothing is kept: ac_session_output has nothing to read then.
 */
AC_API ac_status ac_session_predict(ac_session *session, const char *name, int64_t count,
                                    const ac_feed *feeds, int feed_count, int64_t elements,
                                    float *data);

/** Loss and accuracy over a dataset, with an AC_EVALUATE plan. It uses at most `limit` samples (0:
 * all), from the first on. */
AC_API ac_status ac_session_evaluate(ac_session *session, ac_dataset *dataset, int64_t limit,
                                     ac_evaluation *result);
/** Like ac_session_evaluate. `stop` (may be NULL) is asked before each micro-batch, so that a
 * program can show progress. If it returns true there is no result, and *stopped is true. Calls
 * that would change or run the session meanwhile are refused with AC_ERROR_STATE. */
AC_API ac_status ac_session_evaluate_until(ac_session *session, ac_dataset *dataset, int64_t limit,
                                           ac_stop_callback stop, void *user, ac_evaluation *result,
                                           bool *stopped);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** Copies elements [first, first + count) of a parameter to `data`, as the session computes with
 * them: rounded to 16 bits or to blocks if it has them so. */
AC_API ac_status ac_session_get_parameter(ac_session *session, const char *name, int64_t first,
                                          int64_t count, float *data);

/** Like ac_session_create_shared, for a plan that shares parameters or caches (ac_cache) with
 * another session, such as one that reads a prompt in parts and one that continues it token by
 * token. `other` must outlive the session. Of parameters, only those of `other` can be loaded or
 * set. */
AC_API ac_status ac_session_create_with(ac_session **session, const ac_plan *plan, uint64_t seed,
                                        const ac_session *other);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
