/* Several losses: one network says for a point which quarter it is in, how far it is from the
 * middle, and two yes-or-no facts. Each loss has a name and a factor, and is reported by itself.
 * Where the distance of a point was not measured, it has a weight of 0 in that loss alone. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 64, HIDDEN = 48, UPDATES = 400 };

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *in, int64_t from,
                        int64_t to) {
  char text[32];
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  snprintf(text, sizeof text, "%s.weight", name);
  ac_tensor *w = ac_parameter(graph, text, AC_SHAPE(to, from), &he);
  snprintf(text, sizeof text, "%s.bias", name);
  return ac_linear(in, w, ac_parameter(graph, text, AC_SHAPE(to), NULL), AC_OUT_IN);
}

/* Each loss is built directly after what it reads: then nothing has to be kept for it. */
static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *quarter = ac_input(graph, "quarter", AC_I32, AC_SHAPE(AC_BATCH)),
            *distance = ac_input(graph, "distance", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *measured = ac_input(graph, "measured", AC_F32, AC_SHAPE(AC_BATCH)),
            *facts = ac_input(graph, "facts", AC_F32, AC_SHAPE(AC_BATCH, 2));
  ac_tensor *body = ac_leaky_relu(layer(graph, "body", x, 2, HIDDEN), 0.1f);
  ac_tensor *head = layer(graph, "quarter", body, HIDDEN, 4);
  ac_graph_add_loss(graph, "quarter", ac_cross_entropy(head, quarter, NULL, NULL), 1);
  head = layer(graph, "distance", body, HIDDEN, 1);
  ac_graph_add_loss(graph, "distance", ac_mean_squared_error(head, distance, measured), 4);
  head = layer(graph, "facts", body, HIDDEN, 2);
  ac_graph_add_loss(graph, "facts", ac_binary_cross_entropy(head, facts, NULL), 1);
  return ac_graph_status(graph);
}

typedef struct points {
  float x[POINTS][2], distance[POINTS], measured[POINTS], facts[POINTS][2];
  int32_t quarter[POINTS];
} points;

/* Points of the square [-1, 1] x [-1, 1]. Every other distance is not measured, and wrong. */
static void make_points(points *p, uint32_t *state) {
  for (int i = 0; i < POINTS; i++) {
    for (int k = 0; k < 2; k++) {
      *state = *state * 1664525u + 1013904223u;
      p->x[i][k] = (float)(*state >> 8) / (1 << 23) - 1;
    }
    p->quarter[i] = (p->x[i][0] > 0) + 2 * (p->x[i][1] > 0);
    p->measured[i] = (float)(i % 2);
    p->distance[i] = i % 2 ? hypotf(p->x[i][0], p->x[i][1]) : -100;
    p->facts[i][0] = p->x[i][0] > p->x[i][1];
    p->facts[i][1] = p->x[i][0] + p->x[i][1] > 0;
  }
}

/* A window comes in two halves here. Then what each loss weighs in the whole window has to be said
 * before the first half, in the order of ac_graph_add_loss. */
static ac_status train(ac_trainer *trainer, ac_update *result) {
  static points p;
  const double weights[] = {2 * POINTS, POINTS, 2 * POINTS}; /* half of the distances count */
  const ac_feed feeds[] = {{"x", p.x},
                           {"quarter", p.quarter},
                           {"distance", p.distance},
                           {"measured", p.measured},
                           {"facts", p.facts}};
  uint32_t state = 3;
  for (int update = 1; update <= UPDATES; update++) {
    ac_status status = ac_trainer_begin_window(trainer, 2 * POINTS, weights, 3);
    for (int half = 0; half < 2 && status == AC_OK; half++) {
      make_points(&p, &state);
      status = ac_trainer_accumulate(trainer, POINTS, feeds, 5);
    }
    if (status == AC_OK) status = ac_trainer_update(trainer, result);
    if (status != AC_OK) return status;
    if (update % 100 != 0) continue;
    printf("update %d: all %.4f", update, result->loss);
    for (int i = 0; i < result->loss_count; i++)
      printf(", %s %.4f (accuracy %.2f)", result->losses[i].name, result->losses[i].loss,
             result->losses[i].accuracy);
    printf("\n");
  }
  return AC_OK;
}

int main(void) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_update last = {.loss_count = 0};
  const ac_plan_desc policy = {.batch = 2 * POINTS, .loss_means = AC_LOSS_MEANS_GIVEN};
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 0.01}};

  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = train(trainer, &last);
  if (status != AC_OK) fprintf(stderr, "several_losses: %s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  /* The total is the sum of factor x mean, and each loss has become small. */
  const ac_loss_mean *l = last.losses;
  return status == AC_OK && last.loss_count == 3 && l[0].accuracy > 0.9 && l[1].loss < 0.02 &&
                 l[2].accuracy > 0.85 &&
                 fabs(last.loss - (l[0].loss + 4 * l[1].loss + l[2].loss)) < 1e-5
             ? 0
             : 1;
}
