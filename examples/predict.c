/* Prediction: one part of a program trains a model and saves it; another one loads the file into a
 * session, which needs less memory than training, and predicts. A third measures loss and accuracy.
 */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 512, CLASSES = 3, HIDDEN = 32, ROWS = 16 };

static float x[POINTS][2];
static int32_t labels[POINTS];

/* Three rings around the middle. */
static void make_points(void) {
  for (int i = 0; i < POINTS; i++) {
    const double angle = i * 2.399963, noise = 0.2 * sin(i * 12.9898);
    labels[i] = i % CLASSES;
    x[i][0] = (float)((labels[i] + noise) * cos(angle));
    x[i][1] = (float)((labels[i] + noise) * sin(angle));
  }
}

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *in, int64_t from,
                        int64_t to) {
  char text[32];
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  snprintf(text, sizeof text, "%s.weight", name);
  ac_tensor *w = ac_parameter(graph, text, AC_SHAPE(to, from), &he);
  snprintf(text, sizeof text, "%s.bias", name);
  return ac_linear(in, w, ac_parameter(graph, text, AC_SHAPE(to), NULL), AC_OUT_IN);
}

/* One graph for training, evaluation and prediction: it has a loss and a named output. */
static ac_status describe(ac_graph *graph) {
  ac_tensor *points = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *classes = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH)),
            *hidden = ac_relu(layer(graph, "first", points, 2, HIDDEN)),
            *logits = layer(graph, "last", hidden, HIDDEN, CLASSES);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, classes, NULL, NULL));
  ac_graph_set_output(graph, "probabilities", ac_softmax(logits));
  return ac_graph_status(graph);
}

static ac_status train(const ac_graph *graph, ac_device *device, ac_dataset *data,
                       const char *path) {
  const ac_plan_desc policy = {.batch = 64};
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 0.01}};
  const ac_fit_desc fit = {.train = data, .steps = 300};
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = ac_trainer_save(trainer, path, NULL, 0);
  if (status == AC_OK)
    printf("training took %llu bytes\n", (unsigned long long)ac_plan_get_info(plan)->bytes.total);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return status;
}

/* A program that predicts often keeps the session and repeats only run and output. */
static ac_status predict(const ac_graph *graph, ac_device *device, const char *path,
                         float result[ROWS][CLASSES]) {
  const ac_plan_desc policy = {.purpose = AC_PREDICT, .batch = ROWS, .micro_batch = ROWS};
  const ac_feed feed = {"x", x};
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_session_create(&session, plan, 0);
  if (status == AC_OK) status = ac_session_load(session, path, NULL);
  if (status == AC_OK) status = ac_session_run(session, ROWS, &feed, 1);
  if (status == AC_OK)
    status = ac_session_output(session, "probabilities", 0, ROWS * CLASSES, result[0]);
  if (status == AC_OK)
    printf("prediction took %llu bytes\n", (unsigned long long)ac_plan_get_info(plan)->bytes.total);
  ac_session_free(session);
  ac_plan_free(plan);
  return status;
}

/* The program is asked before each micro-batch whether to stop. */
static bool count_to_ten(void *user) {
  return ++*(int *)user > 10;
}

static ac_status evaluate(const ac_graph *graph, ac_device *device, ac_dataset *data,
                          const char *path, ac_evaluation *result) {
  const ac_plan_desc policy = {.purpose = AC_EVALUATE, .batch = ROWS, .micro_batch = ROWS};
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  bool stopped = false;
  int asked = 0;
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_session_create(&session, plan, 0);
  if (status == AC_OK) status = ac_session_load(session, path, NULL);
  if (status == AC_OK)
    status = ac_session_evaluate_until(session, data, 0, count_to_ten, &asked, result, &stopped);
  if (status == AC_OK && stopped) printf("stopped after 10 micro-batches of %d samples\n", ROWS);
  if (status == AC_OK) status = ac_session_evaluate(session, data, 0, result); /* all of them */
  ac_session_free(session);
  ac_plan_free(plan);
  return status;
}

int main(void) {
  static const ac_field fields[] = {{"x", AC_F32, 2}, {"labels", AC_I32, 1}};
  const void *arrays[] = {x, labels};
  const char *path = "predict.safetensors";
  float result[ROWS][CLASSES] = {{0}};
  ac_evaluation evaluation = {.accuracy = 0};
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  make_points();
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_memory(&data, POINTS, 2, fields, arrays);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = train(graph, device, data, path);
  if (status == AC_OK) status = predict(graph, device, path, result);
  if (status == AC_OK) status = evaluate(graph, device, data, path, &evaluation);
  if (status != AC_OK) fprintf(stderr, "predict: %s\n", ac_last_error());

  int right = 0;
  for (int i = 0; i < ROWS; i++) right += result[i][labels[i]] > 0.5f;
  printf("%d of %d predictions are right; accuracy %.3f of %.0f samples\n", right, ROWS,
         evaluation.accuracy, evaluation.weight);
  remove(path);
  ac_dataset_free(data);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && right >= ROWS - 1 && evaluation.accuracy > 0.95 ? 0 : 1;
}
