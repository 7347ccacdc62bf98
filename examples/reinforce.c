/* REINFORCE (Williams 1992): a policy draws one of three actions, and only the reward of that one
 * is known. The loss of a draw is -advantage log p(action), of either sign, where the advantage is
 * the reward less the mean reward of the window. */
#include "recipe.h"

enum { DRAWS = 64, FEATURES = 2, ACTIONS = 3, UPDATES = 200 };

static float x[DRAWS][FEATURES], chosen[DRAWS][ACTIONS], advantage[DRAWS];

static float reward(const float *at, int action) {
  const int best = at[0] > 0.25f ? 0 : at[1] > 0 ? 1 : 2;
  return action == best ? 1 : 0;
}

/* An action, drawn from what the policy says of each. */
static int draw_action(const float *logits) {
  double share[ACTIONS], sum = 0, place;
  for (int a = 0; a < ACTIONS; a++) sum += share[a] = exp((double)logits[a]);
  place = ((double)draw() + 1) / 2 * sum;
  int action = 0;
  while (action < ACTIONS - 1 && place >= share[action]) place -= share[action++];
  return action;
}

static void fill(void) {
  float logits[DRAWS][ACTIONS], mean = 0;
  const ac_feed feeds[] = {{"x", x}};
  for (int i = 0; i < DRAWS; i++)
    for (int k = 0; k < FEATURES; k++) x[i][k] = draw();
  if (ac_trainer_predict(recipe_trainer, "logits", DRAWS, feeds, 1, DRAWS * ACTIONS, logits[0]))
    return; /* the window's own error follows */
  for (int i = 0; i < DRAWS; i++) {
    const int action = draw_action(logits[i]);
    for (int a = 0; a < ACTIONS; a++) chosen[i][a] = a == action;
    advantage[i] = reward(x[i], action);
    mean += advantage[i] / DRAWS;
  }
  for (int i = 0; i < DRAWS; i++) advantage[i] -= mean;
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *taken = ac_input(graph, "chosen", AC_F32, AC_SHAPE(AC_BATCH, ACTIONS)),
            *better = ac_input(graph, "advantage", AC_F32, AC_SHAPE(AC_BATCH));
  ac_tensor *hidden = ac_tanh(ac_dense(graph, "hidden", in, 16, NULL));
  ac_tensor *logits = ac_dense(graph, "out", hidden, ACTIONS, NULL);
  ac_graph_set_output(graph, "logits", logits);
  ac_tensor *log_p = ac_sum(ac_multiply(taken, ac_log_softmax(logits, -1)), AC_AXES(-1), false);
  ac_graph_set_loss(graph, ac_loss(ac_scale(ac_multiply(better, log_p), -1), NULL));
  const ac_feed feeds[] = {{"x", x}, {"chosen", chosen}, {"advantage", advantage}};
  return train_recipe("reinforce", graph, DRAWS, UPDATES, 1, feeds, 3, fill, -0.0889473934);
}
