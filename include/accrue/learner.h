/** @file
 * A learner owns a device, a plan and a trainer: one object for programs that need no more of these
 * than to make them, to fit, and to free them.
 *
 *     ac_learner_desc desc = AC_DEFAULTS;
 *     desc.plan.batch = 256;
 *     desc.plan.memory = 8 << 20;
 *     ac_learner_create(&learner, graph, &desc);
 *     ac_learner_fit(learner, train, validation, 5, &result);
 *     ac_learner_free(learner); */
#ifndef ACCRUE_LEARNER_H
#define ACCRUE_LEARNER_H

#include <accrue/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A device, a plan and a trainer. */
typedef struct ac_learner ac_learner;

/** What each of the three should be. */
typedef struct ac_learner_desc {
  ac_device_desc device; /**< As for ac_device_open. */
  /** As for ac_plan_create, with the purpose AC_TRAIN. `whole_windows` is always set: windows are
   * those of ac_fit, or one call of ac_trainer_accumulate each. */
  ac_plan_desc plan;
  ac_trainer_desc trainer; /**< As for ac_trainer_create. */
} ac_learner_desc;

/** Opens the device, makes the plan and creates the trainer. It needs `plan.batch`. The graph may
 * be freed afterwards. Fails as these three do, and with AC_ERROR_ARGUMENT if the plan's purpose is
 * another one; then nothing is left open. */
AC_API ac_status ac_learner_create(ac_learner **learner, const ac_graph *graph,
                                   const ac_learner_desc *desc);
/** Frees the trainer and the plan, and closes the device. */
AC_API void ac_learner_free(ac_learner *learner);

/** Trains for so many epochs: ac_fit with this data and its defaults. `validation` and `result` may
 * be NULL. */
AC_API ac_status ac_learner_fit(ac_learner *learner, ac_dataset *train, ac_dataset *validation,
                                int64_t epochs, ac_fit_result *result);

/** Its trainer, for ac_fit and everything else. It belongs to the learner. NULL for NULL. */
AC_API ac_trainer *ac_learner_trainer(const ac_learner *learner);
/** Its plan, to read. It belongs to the learner. NULL for NULL. */
AC_API const ac_plan *ac_learner_plan(const ac_learner *learner);
/** Its device, also for further plans. It belongs to the learner. NULL for NULL. */
AC_API ac_device *ac_learner_device(const ac_learner *learner);

#ifdef __cplusplus
}
#endif
#endif
