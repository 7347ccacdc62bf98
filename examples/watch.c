/* Watching a run: a program writes its own metrics, one line of JSON for each update, and sees
 * which layers learn, which are dead, and how large a batch is worth its cost (gradient noise
 * scale). */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 512, HIDDEN = 16, STEPS = 60 };

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *in, int64_t from, int64_t to,
                        float bias) {
  char text[32];
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}},
                          constant = {.init = {AC_INIT_CONSTANT, .value = bias}};
  snprintf(text, sizeof text, "%s.weight", name);
  ac_tensor *w = ac_parameter(graph, text, AC_SHAPE(to, from), &he);
  snprintf(text, sizeof text, "%s.bias", name);
  return ac_linear(in, w, ac_parameter(graph, text, AC_SHAPE(to), &constant), AC_OUT_IN);
}

/* The layer "off" is made wrong on purpose: with a bias of -100 none of its units is ever active.
 */
static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *good = ac_relu(layer(graph, "on", x, 2, HIDDEN, 0)),
            *dead = ac_relu(layer(graph, "off", x, 2, HIDDEN, -100));
  ac_tensor *logits = layer(graph, "last", ac_add(good, dead), HIDDEN, 2, 0);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, labels, NULL, NULL));
  return ac_graph_status(graph);
}

/* Numbers that are not known yet are NaN, which JSON does not have. */
static void number(FILE *file, const char *name, double value) {
  if (isfinite(value)) fprintf(file, ", \"%s\": %.6g", name, value);
}

static bool write_metrics(void *user, const ac_fit_event *event) {
  FILE *file = user;
  if (event->kind != AC_FIT_STEP) return true;
  const ac_update *update = &event->update;
  fprintf(file, "{\"update\": %lld", (long long)update->update);
  number(file, "loss", update->loss);
  number(file, "lr", update->lr);
  number(file, "grad_norm", update->grad_norm);
  number(file, "noise_scale", update->noise_scale);
  fprintf(file, "}\n");
  return !ferror(file); /* false stops the run */
}

static const char *hint_text(ac_layer_hint hint) {
  switch (hint) {
  case AC_LAYER_DEAD:
    return ", dead";
  case AC_LAYER_DEAD_UNITS:
    return ", has dead units";
  case AC_LAYER_VANISHING:
    return ", gradient vanishes";
  default:
    return "";
  }
}

/* Counts the layers that never learn. */
static ac_status report(ac_trainer *trainer, int *dead) {
  ac_tensor_info info;
  ac_layer_report layer;
  ac_noise_scale noise;
  *dead = 0;
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_status status = ac_trainer_parameter_info(trainer, i, &info);
    if (status == AC_OK) status = ac_trainer_layer(trainer, i, &layer);
    if (status == AC_OK) status = ac_trainer_noise_scale_of(trainer, i, &noise);
    if (status != AC_OK) return status;
    printf("%-12s gradient %.1e, an update changes %.1e of it%s\n", info.name, layer.gradient_norm,
           layer.update_ratio, hint_text(layer.hint));
    *dead += layer.hint == AC_LAYER_DEAD;
  }
  ac_status status = ac_trainer_noise_scale(trainer, &noise);
  if (status == AC_OK)
    printf("batches of up to about %.0f samples save updates (measured %lld times)\n", noise.batch,
           (long long)noise.windows);
  return status;
}

int main(void) {
  static float x[POINTS][2];
  static int32_t labels[POINTS];
  static const ac_field fields[] = {{"x", AC_F32, 2}, {"labels", AC_I32, 1}};
  const void *arrays[] = {x, labels};
  const ac_trainer_desc training = {.seed = 1,
                                    .schedule = {.lr = 0.01},
                                    .noise_every = 2,
                                    .noise_layers = true,
                                    .layers_every = 5};
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  int dead = 0, lines = 0;
  FILE *metrics = tmpfile(); /* a real program names a file */
  for (int i = 0; i < POINTS; i++) {
    const double angle = i * 2.399963;
    labels[i] = i % 5 ? i % 2 : (i + 1) % 2; /* some are wrong: noise */
    x[i][0] = (float)((1 + i % 2) * cos(angle));
    x[i][1] = (float)((1 + i % 2) * sin(angle));
  }
  if (!metrics) {
    perror("watch: cannot open a temporary file");
    return 1;
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_memory(&data, POINTS, 2, fields, arrays);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  /* The noise scale compares micro-batches, so a window needs more than one. */
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 64, .micro_batch = 16});
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  const ac_fit_desc fit = {
      .train = data, .steps = STEPS, .callback = write_metrics, .user = metrics};
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = report(trainer, &dead);
  if (status != AC_OK) fprintf(stderr, "watch: %s\n", ac_last_error());
  rewind(metrics);
  for (char line[256]; fgets(line, sizeof line, metrics);)
    if (lines++ % 20 == 19) fputs(line, stdout);
  fclose(metrics);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(data);
  ac_graph_free(graph);
  return status == AC_OK && dead == 2 && lines == STEPS ? 0 : 1; /* off.weight and off.bias */
}
