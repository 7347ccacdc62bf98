/* Training in 16 bits: the same small network in f32, in f16 with a loss scale that finds its size
 * by itself, and with weights in bf16 alone. Losses are alike; the bytes are not. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 256, HIDDEN = 128, UPDATES = 50 };

static float x[POINTS][3]; /* the third number is 1: a bias for the first layer */
static int32_t labels[POINTS];

static ac_tensor *matrix(ac_graph *graph, const char *name, int64_t out, int64_t in) {
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  return ac_parameter(graph, name, AC_SHAPE(out, in), &he);
}

/* The logits are multiplied by 8: large numbers show what loss scaling does. */
static ac_status describe(ac_graph *graph) {
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 3)),
            *classes = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *h = ac_relu(ac_linear(in, matrix(graph, "first", HIDDEN, 3), NULL, AC_OUT_IN));
  h = ac_relu(ac_linear(h, matrix(graph, "second", HIDDEN, HIDDEN), NULL, AC_OUT_IN));
  h = ac_linear(h, matrix(graph, "last", 2, HIDDEN), NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_cross_entropy(ac_scale(h, 8), classes, NULL, NULL));
  return ac_graph_status(graph);
}

/* Which values did not fit into 16 bits: only with ac_plan_desc.debug_numerics. */
static void print_numerics(const ac_trainer *trainer) {
  for (int i = 0; i < ac_trainer_numerics_count(trainer); i++) {
    ac_numerics n;
    if (ac_trainer_numerics(trainer, i, &n) == AC_OK && n.overflowed > 0)
      printf("  %s%s: %lld of %lld values were too large\n", n.op, n.backward ? " (backward)" : "",
             (long long)n.overflowed, (long long)n.values);
  }
}

static ac_status train(const ac_graph *graph, ac_device *device, const ac_plan_desc *policy,
                       const char *name, double *loss) {
  /* In f16 the scale of the loss is dynamic by default. It starts too high here on purpose. */
  const ac_trainer_desc training = {
      .seed = 1, .schedule = {.lr = 2e-3}, .loss_scaling = {.scale = 1 << 24, .interval = 50}};
  const ac_feed feeds[] = {{"x", x}, {"labels", labels}};
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_update update = {.loss = INFINITY};
  int skipped = 0;
  ac_status status = ac_plan_create(&plan, graph, device, policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  for (int made = 0; made < UPDATES && status == AC_OK;) {
    status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, &update);
    if (status == AC_OK && update.stuck) status = AC_ERROR_NOT_FINITE; /* no scale helps */
    if (update.skipped) skipped++; /* nothing was changed, and the scale is lower: try again */
    else made++;
  }
  if (status == AC_OK) {
    printf("%s: loss %.4f, %llu bytes, loss scale %.0f, %d updates skipped\n", name, update.loss,
           (unsigned long long)ac_plan_get_info(plan)->bytes.total, update.loss_scale, skipped);
    print_numerics(trainer);
    *loss = update.loss;
  }
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return status;
}

/* Finds the op with a result that is not finite, for example when `stuck` is true. */
static ac_status find_nonfinite(const ac_graph *graph, ac_device *device, bool *found) {
  static const float weight = 1e30f;
  const ac_feed feeds[] = {{"x", x}, {"labels", labels}};
  char text[80] = "";
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_status status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 8});
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, NULL);
  for (int i = 0; i < 2 && status == AC_OK; i++) /* two weights that are much too large */
    status = ac_trainer_set_parameter(
        trainer, ac_trainer_find_parameter(trainer, i ? "first" : "second"), 0, 1, &weight);
  if (status == AC_OK)
    status = ac_trainer_locate_nonfinite(trainer, 8, feeds, 2, text, sizeof text);
  if (status == AC_OK) printf("not finite first: %s\n", text);
  *found = text[0] != '\0';
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return status;
}

int main(void) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  double f32 = INFINITY, f16 = INFINITY, bf16 = INFINITY;
  bool found = false;
  for (int i = 0; i < POINTS; i++) {
    const double angle = i * 2.399963, radius = 1 + i % 2;
    labels[i] = i % 2;
    x[i][0] = (float)(radius * cos(angle));
    x[i][1] = (float)(radius * sin(angle));
    x[i][2] = 1;
  }
  const ac_plan_desc single = {.batch = POINTS, .micro_batch = 64},
                     half = {.batch = POINTS,
                             .micro_batch = 64,
                             .precision = AC_PRECISION_F16,
                             .debug_numerics = true},
                     brain = {.batch = POINTS,
                              .micro_batch = 64,
                              .precision = AC_PRECISION_BF16,
                              .weights = AC_WEIGHTS_BF16};
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = train(graph, device, &single, "f32", &f32);
  if (status == AC_OK) status = train(graph, device, &half, "f16", &f16);
  if (status == AC_OK) status = train(graph, device, &brain, "bf16 weights", &bf16);
  if (status == AC_OK) status = find_nonfinite(graph, device, &found);
  if (status != AC_OK) fprintf(stderr, "sixteen_bits: %s\n", ac_last_error());
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && f32 < 0.1 && f16 < 0.1 && bf16 < 0.1 && found ? 0 : 1;
}
