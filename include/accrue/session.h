/* Sessions: forward-only use of a plan made for AC_EVALUATE or AC_PREDICT, in the memory that
 * takes. */
#ifndef ACCRUE_SESSION_H
#define ACCRUE_SESSION_H

#include <accrue/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ac_session ac_session;

/* Allocates the plan's total; parameters hold their initial values for `seed`. The plan must
 * outlive it. */
AC_API ac_status ac_session_create(ac_session **session, const ac_plan *plan, uint64_t seed);
AC_API void ac_session_free(ac_session *session);

/* As ac_trainer_load and ac_trainer_set_parameter. */
AC_API ac_status ac_session_load(ac_session *session, const char *path,
                                 const char *optional_prefix);
AC_API ac_status ac_session_set_parameter(ac_session *session, const char *name, int64_t first,
                                          int64_t count, const float *data);

/* Runs `count` samples (at most the plan's micro_batch) through an AC_PREDICT plan. */
AC_API ac_status ac_session_run(ac_session *session, int64_t count, const ac_feed *feeds,
                                int feed_count);

/* Elements [first, first + count) of a named output of the last run, as f32. */
AC_API ac_status ac_session_output(ac_session *session, const char *name, int64_t first,
                                   int64_t count, float *data);

/* Loss and accuracy of an AC_EVALUATE plan over a dataset. */
AC_API ac_status ac_session_evaluate(ac_session *session, ac_dataset *dataset, int64_t limit,
                                     ac_evaluation *result);
/* The same; `stop` (may be NULL) is asked before each micro-batch, so that a program can show how
 * far it is. Once it returns true there is no result, and *stopped is true. What would change or
 * run the session is refused meanwhile with AC_ERROR_STATE. */
AC_API ac_status ac_session_evaluate_until(ac_session *session, ac_dataset *dataset, int64_t limit,
                                           ac_stop_callback stop, void *user, ac_evaluation *result,
                                           bool *stopped);

#ifdef __cplusplus
}
#endif
#endif
