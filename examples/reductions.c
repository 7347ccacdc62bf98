/* Reductions: results over axes of a tensor. A network that classifies by distance: each class has
 * a point, and a sample belongs to the class of the nearest point. It is trained by the distances
 * alone, and then says which classes are the likeliest. */
#include <accrue/accrue.h>
#include <stdio.h>

enum { CLASSES = 4, WIDTH = 2, SAMPLES = 64, UPDATES = 60 };

#define TRY(call)                               \
  do {                                          \
    if ((call) != AC_OK) {                      \
      fprintf(stderr, "%s\n", ac_last_error()); \
      goto done;                                \
    }                                           \
  } while (0)

/* Samples lie around one of four corners. */
static void draw(float *x, int32_t *label) {
  for (int i = 0; i < SAMPLES; i++) {
    const int c = label[i] = i % CLASSES;
    x[2 * i] = (c % 2 ? 1.0f : -1.0f) + 0.3f * (float)(i % 5 - 2) / 2;
    x[2 * i + 1] = (c / 2 ? 1.0f : -1.0f) + 0.3f * (float)(i % 3 - 1);
  }
}

/* The nearer a point is, the higher is the score of its class: -|x - p|^2 = 2 x p - |p|^2 - |x|^2.
 * The last term is the same for each class, so it is left out. */
static ac_tensor *scores(ac_graph *graph, ac_tensor *x) {
  const ac_parameter_desc drawn = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.5f}};
  ac_tensor *points = ac_parameter(graph, "points", AC_SHAPE(CLASSES, WIDTH), &drawn);
  ac_tensor *squares = ac_sum(ac_multiply(points, points), AC_AXES(1), false);
  ac_tensor *product = ac_linear(x, points, NULL, AC_OUT_IN);
  return ac_add(ac_scale(product, 2), ac_scale(squares, -1));
}

/* What can be said about a tensor of scores [B, CLASSES]. */
static void name_outputs(ac_graph *graph, ac_tensor *x, ac_tensor *y) {
  ac_tensor *likeliest, *logs = ac_log_softmax(y, -1);
  ac_graph_set_output(graph, "two likeliest", ac_top_k(ac_softmax_over(y, -1), 2, &likeliest));
  ac_graph_set_output(graph, "their classes", likeliest);
  ac_graph_set_output(graph, "class", ac_argmax(y, -1, false));
  ac_graph_set_output(graph, "best logarithm", ac_max(logs, AC_AXES(-1), false));
  ac_graph_set_output(graph, "worst logarithm", ac_min(logs, AC_AXES(-1), false));
  ac_graph_set_output(graph, "normaliser", ac_logsumexp(y, AC_AXES(-1), false));
  ac_graph_set_output(graph, "length", ac_norm(x, 2, AC_AXES(-1), false));
  ac_graph_set_output(graph, "mean", ac_mean(x, AC_ALL_AXES, false));
  ac_graph_set_output(graph, "variance", ac_variance(x, false, AC_ALL_AXES, false));
  ac_graph_set_output(graph, "up to here", ac_cumulative_sum(ac_softmax_over(y, -1), -1));
}

static const struct {
  const char *name;
  int count; /* a sample */
} outputs[] = {{"class", 1},      {"two likeliest", 2},  {"their classes", 2},
               {"up to here", 4}, {"best logarithm", 1}, {"worst logarithm", 1},
               {"normaliser", 1}, {"length", 1},         {"mean", 1},
               {"variance", 1}};

static ac_status print(ac_session *session) {
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    float value[4];
    const ac_status status =
        ac_session_output(session, outputs[i].name, 0, outputs[i].count, value);
    if (status != AC_OK) return status;
    printf("%-16s", outputs[i].name);
    for (int k = 0; k < outputs[i].count; k++) printf(" %7.3f", (double)value[k]);
    printf("\n");
  }
  return AC_OK;
}

int main(void) {
  float x[SAMPLES * WIDTH], points[CLASSES * WIDTH], found[SAMPLES];
  int32_t label[SAMPLES];
  int right = 0;
  ac_graph *training = NULL, *using = NULL;
  ac_device *device = NULL;
  ac_plan *plan = NULL, *predicting = NULL;
  ac_trainer *trainer = NULL;
  ac_session *session = NULL;
  draw(x, label);

  TRY(ac_graph_create(&training));
  ac_tensor *in = ac_input(training, "x", AC_F32, AC_SHAPE(AC_BATCH, WIDTH));
  ac_tensor *labels = ac_input(training, "label", AC_I32, AC_SHAPE(AC_BATCH));
  ac_graph_set_loss(training, ac_cross_entropy(scores(training, in), labels, NULL, NULL));
  TRY(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  TRY(ac_plan_create(&plan, training, device, &(ac_plan_desc){.batch = SAMPLES}));
  TRY(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.1}}));
  const ac_feed feeds[] = {{"x", x}, {"label", label}};
  for (int i = 0; i < UPDATES; i++) {
    TRY(ac_trainer_accumulate(trainer, SAMPLES, feeds, 2));
    TRY(ac_trainer_update(trainer, NULL));
  }
  TRY(ac_trainer_get_parameter(trainer, 0, 0, CLASSES * WIDTH, points));

  TRY(ac_graph_create(&using));
  in = ac_input(using, "x", AC_F32, AC_SHAPE(AC_BATCH, WIDTH));
  name_outputs(using, in, scores(using, in));
  const ac_plan_desc predict = {.purpose = AC_PREDICT, .batch = SAMPLES};
  TRY(ac_plan_create(&predicting, using, device, &predict));
  TRY(ac_session_create(&session, predicting, 0));
  TRY(ac_session_set_parameter(session, "points", 0, CLASSES * WIDTH, points));
  TRY(ac_session_run(session, SAMPLES, feeds, 1));
  TRY(print(session));
  TRY(ac_session_output(session, "class", 0, SAMPLES, found));
  for (int i = 0; i < SAMPLES; i++) right += found[i] == (float)label[i];
  printf("%d of %d samples are in the right class\n", right, SAMPLES);

done:
  ac_session_free(session);
  ac_trainer_free(trainer);
  ac_plan_free(predicting);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(using);
  ac_graph_free(training);
  return right == SAMPLES ? 0 : 1;
}
