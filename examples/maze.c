/* REINFORCE: a policy learns the ways through a maze; Williams 1992. A row is a step of an episode,
 * and its loss is -log p(action) times the advantage of that action. Advantages are numbers of
 * either sign, so they are a factor and no weight. */
#include "policy.h"

enum { SIDE = 5, CELLS = SIDE * SIDE, GOAL = 4, WAYS = 74, HIDDEN = 16, ACTIONS = 4 };
enum { WALKERS = 32, STEPS = 24, ROWS = WALKERS * STEPS, UPDATES = 60 };

static const char maze[] = "....." /* the goal is at the end */
                           ".###."
                           "...#."
                           ".#..."
                           ".#.#.";

static int32_t place[ROWS];
static float chosen[ROWS][ACTIONS], advantage[ROWS];
static const ac_feed feeds[] = {{"place", place}, {"chosen", chosen}, {"advantage", advantage}};

static ac_status describe(ac_graph *graph) {
  ac_tensor *at = ac_input(graph, "place", AC_I32, AC_SHAPE(AC_BATCH)),
            *one = ac_input(graph, "chosen", AC_F32, AC_SHAPE(AC_BATCH, ACTIONS)),
            *better = ac_input(graph, "advantage", AC_F32, AC_SHAPE(AC_BATCH));
  ac_tensor *hidden = ac_tanh(ac_embedding_layer(graph, "places", at, CELLS, HIDDEN, NULL)),
            *logs = ac_log_softmax(ac_dense(graph, "out", hidden, ACTIONS, NULL), -1);
  ac_graph_set_output(graph, "logs", logs);
  ac_tensor *taken = ac_sum(ac_multiply(logs, one), AC_AXES(-1), false);
  ac_graph_set_loss(graph, ac_loss(ac_scale(ac_multiply(taken, better), -1), NULL));
  return ac_graph_status(graph);
}

/* Up, right, down, left. A step into a wall leads nowhere. */
static int32_t move(int32_t from, int action) {
  static const int across[] = {0, 1, 0, -1}, down[] = {-1, 0, 1, 0};
  const int x = from % SIDE + across[action], y = from / SIDE + down[action];
  if (x < 0 || y < 0 || x >= SIDE || y >= SIDE || maze[y * SIDE + x] == '#') return from;
  return y * SIDE + x;
}

/* Episodes from places that are drawn. The return of a step is 0.9 to the power of how many more it
 * took to the goal. Its advantage is what it is above the usual one of its place. */
static ac_status walk(ac_trainer *trainer, int *rows) {
  static float logs[WALKERS][ACTIONS], usual[CELLS];
  int walker[ROWS], moment[ROWS], arrived[WALKERS] = {0};
  int32_t at[WALKERS];
  const ac_feed feed = {"place", at};
  ac_status status = AC_OK;
  for (int w = 0; w < WALKERS; w++) {
    do at[w] = (int32_t)((draw() + 1) / 2 * CELLS);
    while (maze[at[w]] == '#' || at[w] == GOAL);
  }
  *rows = 0;
  for (int t = 0; t < STEPS && status == AC_OK; t++) {
    status = ac_trainer_predict(trainer, "logs", WALKERS, &feed, 1, WALKERS * ACTIONS, logs[0]);
    for (int w = 0; w < WALKERS; w++) {
      if (at[w] == GOAL) continue;
      const int action = draw_action(logs[w], ACTIONS), row = (*rows)++;
      walker[row] = w, moment[row] = t, place[row] = at[w];
      for (int a = 0; a < ACTIONS; a++) chosen[row][a] = (float)(a == action);
      at[w] = move(at[w], action);
      if (at[w] == GOAL) arrived[w] = t;
    }
  }
  for (int row = 0; row < *rows; row++) {
    const int w = walker[row];
    const float gain = at[w] == GOAL ? powf(0.9f, (float)(arrived[w] - moment[row])) : 0;
    advantage[row] = gain - usual[place[row]];
    usual[place[row]] += advantage[row] / 20;
  }
  return status;
}

/* The steps from all cells together, with the most probable action in each; the fewest are WAYS. */
static ac_status measure(ac_trainer *trainer, int *steps) {
  static float logs[CELLS][ACTIONS];
  int32_t cells[CELLS];
  const ac_feed feed = {"place", cells};
  for (int c = 0; c < CELLS; c++) cells[c] = c;
  const ac_status status =
      ac_trainer_predict(trainer, "logs", CELLS, &feed, 1, CELLS * ACTIONS, logs[0]);
  *steps = 0;
  for (int c = 0; c < CELLS; c++) {
    if (maze[c] == '#') continue;
    int32_t at = c;
    for (int t = 0; t < STEPS && at != GOAL; t++, ++*steps) {
      int best = 0;
      for (int a = 1; a < ACTIONS; a++)
        if (logs[at][a] > logs[at][best]) best = a;
      at = move(at, best);
    }
  }
  return status;
}

static ac_status train(ac_trainer *trainer, int *steps) {
  ac_status status = AC_OK;
  for (int update = 0; update <= UPDATES && status == AC_OK; update++) {
    int rows = 0;
    status = walk(trainer, &rows);
    if (status == AC_OK && update % 15 == 0) {
      status = measure(trainer, steps);
      printf("update %2d: episodes of %.1f steps, %d steps from all cells\n", update,
             rows / (double)WALKERS, *steps);
    }
    /* A window has as many rows as there were steps. */
    if (status == AC_OK) status = ac_trainer_accumulate(trainer, rows, feeds, 3);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
  }
  return status;
}

static ac_status check(const ac_graph *graph) {
  static const expected_update expected[] = {{0.3982054, 0.0394335},
                                             {0.3871897, 0.0312723},
                                             {0.3799606, 0.0268914},
                                             {0.3744936, 0.0241319},
                                             {0.3700284, 0.0222595}};
  for (int row = 0; row < ROWS; row++) {
    place[row] = row % CELLS;
    advantage[row] = draw() + 0.25f;
    for (int a = 0; a < ACTIONS; a++) chosen[row][a] = (float)(a == row / 3 % ACTIONS);
  }
  return check_updates(graph, ROWS, 8, feeds, 3, expected, 5);
}

int main(void) {
  ac_graph *graph = NULL;
  ac_learner *learner = NULL;
  int steps = 0;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = check(graph);
  if (status == AC_OK)
    status = make_learner(&learner, graph, ROWS, (ac_optimizer_desc){.kind = AC_ADAMW}, 0.05);
  if (status == AC_OK) status = train(ac_learner_trainer(learner), &steps);
  if (status != AC_OK) fprintf(stderr, "maze: %s\n", ac_last_error());
  ac_learner_free(learner);
  ac_graph_free(graph);
  return status == AC_OK && steps <= WAYS * 1.25 ? 0 : 1;
}
