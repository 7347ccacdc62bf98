/* A generative adversarial network (arXiv 1406.2661). A discriminator learns to tell points of a
 * ring from generated ones, and a generator learns to fool it. Each has a trainer of its own:
 *
 *   judge    points -> d -> real or not                        trains d.*
 *   artist   noise -> g -> "fakes" -> d -> taken for real       trains g.*, shares d.* with the
 * judge
 *
 * There is one copy of d.*: the artist's plan names them as `shared` and `frozen`. What the judge
 * is fed comes from the artist by ac_trainer_predict, in the memory that it trains in. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOISE = 2, WIDTH = 32, BATCH = 64, UPDATES = 1500, SHOWN = 512 };

static ac_tensor *discriminate(ac_graph *graph, ac_tensor *x) {
  x = ac_leaky_relu(ac_dense(graph, "d.1", x, WIDTH, NULL), 0.2f);
  x = ac_leaky_relu(ac_dense(graph, "d.2", x, WIDTH, NULL), 0.2f);
  return ac_dense(graph, "d.3", x, 1, NULL);
}

static void describe_judge(ac_graph *graph) {
  ac_tensor *points = ac_input(graph, "points", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *real = ac_input(graph, "real", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_graph_set_loss(graph, ac_binary_cross_entropy(discriminate(graph, points), real, NULL));
}

static void describe_artist(ac_graph *graph) {
  ac_tensor *noise = ac_input(graph, "noise", AC_F32, AC_SHAPE(AC_BATCH, NOISE)),
            *wish = ac_input(graph, "wish", AC_F32, AC_SHAPE(AC_BATCH, 1)), *x = noise;
  x = ac_relu(ac_dense(graph, "g.1", x, WIDTH, NULL));
  x = ac_relu(ac_dense(graph, "g.2", x, WIDTH, NULL));
  x = ac_dense(graph, "g.3", x, 2, NULL);
  ac_graph_set_output(graph, "fakes", x);
  ac_graph_set_loss(graph, ac_binary_cross_entropy(discriminate(graph, x), wish, NULL));
}

/* Uniform in [-1, 1). */
static float draw(void) {
  static uint32_t state = 7;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / (1 << 23) - 1;
}

static void draw_noise(float *noise, int count) {
  for (int i = 0; i < count * NOISE; i++) noise[i] = draw();
}

/* A ring with the radius 1 and some width. */
static void draw_ring(float *points, int count) {
  for (int i = 0; i < count; i++) {
    const double angle = 3.14159265 * (double)draw(), radius = 1 + 0.05 * (double)draw();
    points[2 * i] = (float)(radius * cos(angle));
    points[2 * i + 1] = (float)(radius * sin(angle));
  }
}

static ac_status update_both(ac_trainer *judge, ac_trainer *artist) {
  static float points[2 * BATCH][2], real[2 * BATCH], noise[BATCH * NOISE], wish[BATCH];
  const ac_feed judged[] = {{"points", points}, {"real", real}},
                made[] = {{"noise", noise}, {"wish", wish}};
  for (int i = 0; i < BATCH; i++) real[i] = wish[i] = 1;
  draw_ring(points[0], BATCH);
  draw_noise(noise, BATCH);
  ac_status status = ac_trainer_predict(artist, "fakes", BATCH, made, 1, 2 * BATCH, points[BATCH]);
  if (status == AC_OK) status = ac_trainer_accumulate(judge, 2 * BATCH, judged, 2);
  if (status == AC_OK) status = ac_trainer_update(judge, NULL);
  draw_noise(noise, BATCH);
  if (status == AC_OK) status = ac_trainer_accumulate(artist, BATCH, made, 2);
  if (status == AC_OK) status = ac_trainer_update(artist, NULL);
  return status;
}

/* How far from the middle generated points are, and into how many eighths of the circle they fall.
 */
static ac_status look(ac_trainer *artist, double *radius, int *eighths) {
  static float points[SHOWN][2], noise[SHOWN * NOISE];
  const ac_feed feed = {"noise", noise};
  draw_noise(noise, SHOWN);
  const ac_status status =
      ac_trainer_predict(artist, "fakes", SHOWN, &feed, 1, 2 * SHOWN, points[0]);
  int hits[8] = {0};
  *radius = 0, *eighths = 0;
  for (int i = 0; i < SHOWN; i++) {
    const double x = (double)points[i][0], y = (double)points[i][1];
    *radius += sqrt(x * x + y * y) / SHOWN;
    hits[(int)floor((atan2(y, x) + 3.14159265) / 6.2831854 * 8) & 7]++;
  }
  for (int i = 0; i < 8; i++) *eighths += hits[i] > SHOWN / 80;
  return status;
}

typedef struct side {
  ac_graph *graph;
  ac_plan *plan;
  ac_trainer *trainer;
} side;

static ac_status begin(side *s, void (*describe)(ac_graph *graph), ac_device *device,
                       const ac_plan_desc *policy, ac_trainer *share) {
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 2e-3}, .share = share};
  ac_status status = ac_graph_create(&s->graph);
  if (status == AC_OK) describe(s->graph);
  if (status == AC_OK) status = ac_plan_create(&s->plan, s->graph, device, policy);
  if (status == AC_OK) status = ac_trainer_create(&s->trainer, s->plan, &desc);
  return status;
}

static void end(side *s) {
  ac_trainer_free(s->trainer);
  ac_plan_free(s->plan);
  ac_graph_free(s->graph);
}

int main(void) {
  const ac_optimizer_desc adam = {.kind = AC_ADAMW, .beta1 = 0.5};
  const ac_plan_desc judges = {.batch = 2 * BATCH, .optimizer = adam},
                     makes = {.batch = BATCH, .optimizer = adam, .shared = "d.*", .frozen = "d.*"};
  side judge = {0}, artist = {0};
  ac_device *device = NULL;
  double radius = 0;
  int eighths = 0;
  ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = begin(&judge, describe_judge, device, &judges, NULL);
  if (status == AC_OK) status = begin(&artist, describe_artist, device, &makes, judge.trainer);
  for (int i = 1; i <= UPDATES && status == AC_OK; i++) {
    status = update_both(judge.trainer, artist.trainer);
    if (status == AC_OK && i % 250 == 0) status = look(artist.trainer, &radius, &eighths);
    if (status == AC_OK && i % 250 == 0)
      printf("update %4d: mean radius %.3f, %d of 8 eighths of the ring\n", i, radius, eighths);
  }
  if (status != AC_OK) fprintf(stderr, "gan: %s\n", ac_last_error());
  end(&artist); /* before the trainer that it shares with */
  end(&judge);
  ac_device_close(device);
  return status == AC_OK && radius > 0.85 && radius < 1.15 && eighths >= 6 ? 0 : 1;
}
