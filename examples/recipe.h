/* What the recipes of losses share: numbers that another program can draw alike, windows of plain
 * SGD, and the loss that PyTorch reaches with the same numbers (tests/vectors/recipes.py). */
#ifndef RECIPE_H
#define RECIPE_H

#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

static uint32_t recipe_state = 1;
static ac_trainer *recipe_trainer; /* while one trains */

/* Uniform in [-1, 1). */
static inline float draw(void) {
  recipe_state = recipe_state * 1664525u + 1013904223u;
  return (float)(recipe_state >> 8) / (1 << 23) - 1;
}

/* Draws every parameter, half as large. */
static inline ac_status draw_parameters(ac_trainer *trainer, const ac_graph *graph) {
  float values[2048];
  for (int i = 0; i < ac_graph_parameter_count(graph); i++) {
    ac_tensor_info info;
    int64_t count = 1;
    ac_graph_parameter(graph, i, &info);
    for (int d = 0; d < info.rank; d++) count *= info.shape[d];
    for (int64_t e = 0; e < count; e++) values[e] = draw() / 2;
    const ac_status status = ac_trainer_set_parameter(trainer, i, 0, count, values);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* Trains: `fill` writes the samples of a window to where `feeds` point. Returns main's value: 0 if
 * the last window's loss is `expected`, PyTorch's in double. */
static inline int train_recipe(const char *name, ac_graph *graph, int64_t batch, int updates,
                               double rate, const ac_feed *feeds, int feed_count,
                               void (*fill)(void), double expected) {
  ac_learner *learner = NULL;
  ac_update update = {.loss = 0};
  ac_learner_desc desc = AC_DEFAULTS;
  desc.device = (ac_device_desc){.name = "cpu", .threads = 1};
  desc.plan.batch = batch;
  desc.plan.optimizer = (ac_optimizer_desc){.kind = AC_SGD, .sgd_no_momentum = true};
  desc.trainer.schedule.lr = rate;
  ac_status status = ac_learner_create(&learner, graph, &desc);
  ac_trainer *trainer = recipe_trainer = ac_learner_trainer(learner);
  if (status == AC_OK) status = draw_parameters(trainer, graph);
  for (int i = 0; i < updates && status == AC_OK; i++) {
    fill();
    status = ac_trainer_accumulate(trainer, batch, feeds, feed_count);
    if (status == AC_OK) status = ac_trainer_update(trainer, &update);
    if (status == AC_OK && i == 0) printf("%s: loss %.6f", name, update.loss);
  }
  if (status == AC_OK) printf(", after %d updates %.6f\n", updates, update.loss);
  else fprintf(stderr, "%s: %s\n", name, ac_last_error());
  ac_learner_free(learner);
  ac_graph_free(graph);
  return status == AC_OK && fabs(update.loss - expected) <= 1e-4 * fabs(expected) ? 0 : 1;
}

#endif
