/* A device, a plan and a trainer in one object. Only public functions are used. */
#include <accrue/learner.h>

#include "core/error.h"

#include <stdlib.h>

struct ac_learner {
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
};

static ac_status make(ac_learner *l, const ac_graph *graph, const ac_learner_desc *desc) {
  AC_TRY(ac_device_open(&l->device, &desc->device));
  AC_TRY(ac_plan_create(&l->plan, graph, l->device, &desc->plan));
  return ac_trainer_create(&l->trainer, l->plan, &desc->trainer);
}

ac_status ac_learner_create(ac_learner **learner, const ac_graph *graph,
                            const ac_learner_desc *desc) {
  AC_CREATES(learner);
  AC_REQUIRE(graph);
  ac_learner_desc described = AC_DESCRIBED(ac_learner_desc, desc);
  described.plan.whole_windows = true;
  if (described.plan.purpose != AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "ac_learner_create: the plan's purpose is not AC_TRAIN");
  ac_learner *l = calloc(1, sizeof *l);
  if (!l) return ac_fail(AC_ERROR_MEMORY, "no memory for a learner");
  const ac_status status = make(l, graph, &described);
  if (status == AC_OK) *learner = l;
  else ac_learner_free(l);
  return status;
}

void ac_learner_free(ac_learner *learner) {
  if (!learner) return;
  ac_trainer_free(learner->trainer);
  ac_plan_free(learner->plan);
  ac_device_close(learner->device);
  free(learner);
}

ac_status ac_learner_fit(ac_learner *learner, ac_dataset *train, ac_dataset *validation,
                         int64_t epochs, ac_fit_result *result) {
  AC_REQUIRE(learner, train);
  const ac_fit_desc fit = {.train = train, .validation = validation, .epochs = epochs};
  return ac_fit(learner->trainer, &fit, result);
}

ac_trainer *ac_learner_trainer(const ac_learner *learner) {
  return learner ? learner->trainer : NULL;
}

const ac_plan *ac_learner_plan(const ac_learner *learner) {
  return learner ? learner->plan : NULL;
}

ac_device *ac_learner_device(const ac_learner *learner) {
  return learner ? learner->device : NULL;
}
