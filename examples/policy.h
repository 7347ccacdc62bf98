/* What the recipes of policies share: a learner, an action that is drawn, and a few updates that
 * must have the losses and gradients of PyTorch with the same batch (tests/vectors/policies.py).
 */
#ifndef POLICY_H
#define POLICY_H

#include "recipe.h"

static inline ac_status make_learner(ac_learner **learner, const ac_graph *graph, int64_t batch,
                                     ac_optimizer_desc optimizer, double rate) {
  ac_learner_desc desc = AC_DEFAULTS;
  desc.device = (ac_device_desc){.name = "cpu", .threads = 1};
  desc.plan.batch = batch;
  desc.plan.optimizer = optimizer;
  desc.trainer.seed = 1;
  desc.trainer.schedule.lr = rate;
  return ac_learner_create(learner, graph, &desc);
}

/* An action, by the logarithms of the probabilities of `count`. */
static inline int draw_action(const float *logs, int count) {
  double rest = ((double)draw() + 1) / 2;
  for (int action = 0; action < count - 1; action++) {
    rest -= exp((double)logs[action]);
    if (rest < 0) return action;
  }
  return count - 1;
}

/* What an update says in PyTorch, in double. */
typedef struct expected_update {
  double loss, grad_norm;
} expected_update;

/* Plain SGD, always with the batch where `feeds` point. */
static inline ac_status check_updates(const ac_graph *graph, int64_t batch, double rate,
                                      const ac_feed *feeds, int feed_count,
                                      const expected_update *expected, int count) {
  const ac_optimizer_desc sgd = {.kind = AC_SGD, .sgd_no_momentum = true};
  ac_learner *learner = NULL;
  ac_status status = make_learner(&learner, graph, batch, sgd, rate);
  ac_trainer *trainer = ac_learner_trainer(learner);
  if (status == AC_OK) status = draw_parameters(trainer, graph);
  for (int i = 0; i < count && status == AC_OK; i++) {
    ac_update u;
    status = ac_trainer_accumulate(trainer, batch, feeds, feed_count);
    if (status == AC_OK) status = ac_trainer_update(trainer, &u);
    if (status != AC_OK) break;
    printf("update %d: loss %.6f, norm of the gradient %.6f\n", i, u.loss, u.grad_norm);
    if (fabs(u.loss - expected[i].loss) > 1e-5 ||
        fabs(u.grad_norm - expected[i].grad_norm) > 1e-5) {
      fprintf(stderr, "PyTorch has %.6f and %.6f\n", expected[i].loss, expected[i].grad_norm);
      status = AC_ERROR_STATE;
    }
  }
  ac_learner_free(learner);
  return status;
}

#endif
