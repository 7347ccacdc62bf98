/* Proximal policy optimization: a cart learns to balance a pole; arXiv 1707.06347. Its graph has
 * three losses: the clipped ratio of the new policy to the one that drew the actions, the error of
 * the predicted returns, and the entropy. Each batch is used for several updates. */
#include "policy.h"

enum { STATE = 4, HIDDEN = 32, ACTIONS = 2 };
enum { CARTS = 16, STEPS = 32, ROWS = CARTS * STEPS, BATCHES = 50, SHOWN = 10, EPOCHS = 8 };

/* ---- the graph ------------------------------------------------------------------------------- */

static float state[ROWS + CARTS][STATE], chosen[ROWS][ACTIONS], old[ROWS], advantage[ROWS],
    gain[ROWS];
static const ac_feed feeds[] = {
    {"state", state}, {"chosen", chosen}, {"old", old}, {"advantage", advantage}, {"gain", gain}};

/* -min(r A, clip(r, 0.8, 1.2) A), where r is p(action) / p_old(action). */
static ac_tensor *clipped(ac_tensor *log_taken, ac_tensor *log_old, ac_tensor *better) {
  ac_tensor *ratio = ac_exp(ac_subtract(log_taken, log_old)), *near = ac_clamp(ratio, 0.8f, 1.2f);
  return ac_scale(ac_minimum(ac_multiply(ratio, better), ac_multiply(near, better)), -1);
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "state", AC_F32, AC_SHAPE(AC_BATCH, STATE)),
            *one = ac_input(graph, "chosen", AC_F32, AC_SHAPE(AC_BATCH, ACTIONS)),
            *before = ac_input(graph, "old", AC_F32, AC_SHAPE(AC_BATCH)),
            *better = ac_input(graph, "advantage", AC_F32, AC_SHAPE(AC_BATCH)),
            *target = ac_input(graph, "gain", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_tensor *body = ac_tanh(ac_dense(graph, "actor.body", x, HIDDEN, NULL)),
            *logs = ac_log_softmax(ac_dense(graph, "actor.out", body, ACTIONS, NULL), -1),
            *taken = ac_sum(ac_multiply(logs, one), AC_AXES(-1), false);
  ac_graph_set_output(graph, "logs", logs);
  ac_graph_add_loss(graph, "policy", ac_loss(clipped(taken, before, better), NULL), 1);
  ac_tensor *order = ac_sum(ac_multiply(ac_exp(logs), logs), AC_AXES(-1), false);
  ac_graph_add_loss(graph, "order", ac_loss(order, NULL), 0.01); /* minus the entropy */

  ac_tensor *critic = ac_tanh(ac_dense(graph, "critic.body", x, HIDDEN, NULL)),
            *value = ac_dense(graph, "critic.out", critic, 1, NULL);
  ac_graph_set_output(graph, "value", value);
  ac_graph_add_loss(graph, "value", ac_huber_loss(value, target, NULL, 1), 0.5);
  return ac_graph_status(graph);
}

/* ---- the cart -------------------------------------------------------------------------------- */

/* 0.02 s of a cart with a pole that is pushed by 10 N; Barto, Sutton and Anderson 1983. The state
 * is position, speed, angle, and speed of the angle. False: it fell, and a new one was set up. */
static bool push(float s[STATE], int action) {
  const double angle = (double)s[2], turn = (double)s[3], force = action ? 10 : -10;
  const double a = (force + 0.05 * turn * turn * sin(angle)) / 1.1;
  const double bend =
      (9.8 * sin(angle) - cos(angle) * a) / (0.5 * (4.0 / 3 - 0.1 * cos(angle) * cos(angle) / 1.1));
  const double faster[] = {(double)s[1], a - 0.05 * bend * cos(angle) / 1.1, turn, bend};
  for (int k = 0; k < STATE; k++) s[k] += (float)(0.02 * faster[k]);
  if (fabsf(s[0]) <= 2.4f && fabsf(s[2]) <= 0.2094f) return true;
  for (int k = 0; k < STATE; k++) s[k] = draw() / 20;
  return false;
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* From the last moment backwards: advantages are sums of surprises, by 0.95 * 0.99 less for each
 * step; arXiv 1506.02438. */
static void judge(const float value[ROWS + CARTS], const bool stands[ROWS]) {
  double mean = 0, square = 0;
  for (int row = ROWS - 1; row >= 0; row--) {
    const float later = stands[row] ? 0.99f * value[row + CARTS] : 0;
    advantage[row] = 1 + later - value[row];
    if (stands[row] && row + CARTS < ROWS) advantage[row] += 0.95f * 0.99f * advantage[row + CARTS];
    gain[row] = advantage[row] + value[row];
    mean += (double)advantage[row] / ROWS;
    square += (double)advantage[row] * (double)advantage[row] / ROWS;
  }
  for (int row = 0; row < ROWS; row++)
    advantage[row] = (float)(((double)advantage[row] - mean) / (sqrt(square - mean * mean) + 1e-8));
}

/* Rows are steps, and in each of these the carts. */
static ac_status drive(ac_trainer *trainer, int *falls) {
  static float logs[CARTS][ACTIONS], value[ROWS + CARTS];
  static bool stands[ROWS];
  ac_status status = AC_OK;
  *falls = 0;
  for (int first = 0; first < ROWS && status == AC_OK; first += CARTS) {
    const ac_feed now = {"state", state[first]};
    status = ac_trainer_predict(trainer, "logs", CARTS, &now, 1, CARTS * ACTIONS, logs[0]);
    for (int c = 0; c < CARTS; c++) {
      const int row = first + c, action = draw_action(logs[c], ACTIONS);
      for (int a = 0; a < ACTIONS; a++) chosen[row][a] = (float)(a == action);
      for (int k = 0; k < STATE; k++) state[row + CARTS][k] = state[row][k];
      old[row] = logs[c][action];
      stands[row] = push(state[row + CARTS], action);
      *falls += !stands[row];
    }
  }
  if (status == AC_OK)
    status = ac_trainer_predict(trainer, "value", ROWS + CARTS, feeds, 1, ROWS + CARTS, value);
  judge(value, stands);
  return status;
}

static ac_status train(ac_trainer *trainer, int *fallen) {
  ac_status status = AC_OK;
  for (int batch = 1; batch <= BATCHES && status == AC_OK; batch++) {
    int falls = 0;
    if (batch % SHOWN == 1) *fallen = 0;
    status = drive(trainer, &falls);
    *fallen += falls;
    if (batch % SHOWN == 0)
      printf("batches to %d: a pole fell every %d steps\n", batch,
             SHOWN * ROWS / (*fallen ? *fallen : 1));
    for (int epoch = 0; epoch < EPOCHS && status == AC_OK; epoch++) {
      status = ac_trainer_accumulate(trainer, ROWS, feeds, 5);
      if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
    }
    /* The next batch goes on where this one ends. */
    for (int c = 0; c < CARTS; c++)
      for (int k = 0; k < STATE; k++) state[c][k] = state[ROWS + c][k];
  }
  return status;
}

static ac_status check(const ac_graph *graph) {
  static const expected_update expected[] = {{0.8994133, 0.2526473},
                                             {0.8556791, 0.1153326},
                                             {0.8452685, 0.0721468},
                                             {0.8407612, 0.0512207},
                                             {0.8387037, 0.0276710}};
  for (int row = 0; row < ROWS; row++) {
    for (int k = 0; k < STATE; k++) state[row][k] = draw();
    for (int a = 0; a < ACTIONS; a++) chosen[row][a] = (float)(a == row / 3 % ACTIONS);
    old[row] = draw() / 2 - 0.75f;
    advantage[row] = draw();
    gain[row] = 4 * draw();
  }
  return check_updates(graph, ROWS, 1, feeds, 5, expected, 5);
}

int main(void) {
  ac_graph *graph = NULL;
  ac_learner *learner = NULL;
  int fallen = ROWS;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = check(graph);
  for (int c = 0; c < CARTS; c++)
    for (int k = 0; k < STATE; k++) state[c][k] = draw() / 20;
  if (status == AC_OK)
    status = make_learner(&learner, graph, ROWS, (ac_optimizer_desc){.kind = AC_ADAMW}, 0.01);
  if (status == AC_OK) status = train(ac_learner_trainer(learner), &fallen);
  if (status != AC_OK) fprintf(stderr, "ppo: %s\n", ac_last_error());
  ac_learner_free(learner);
  ac_graph_free(graph);
  return status == AC_OK && fallen <= SHOWN * ROWS / 64 ? 0 : 1;
}
