/* A program that trains a model and uses it.
 *
 *   my_model       trains, prints accuracy and saves model.safetensors
 *   my_model X Y   loads it and says whether the point (X, Y) is inside a circle of radius 0.6 */
#include <accrue/accrue.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const path = "model.safetensors";

/* The model: inputs, parameters, a loss for training and an output for prediction. */
static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t in, int64_t out) {
  char weight[64], bias[64];
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  ac_tensor *w = ac_parameter(graph, weight, AC_SHAPE(out, in), &he);
  return ac_linear(x, w, ac_parameter(graph, bias, AC_SHAPE(out), NULL), AC_OUT_IN);
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *hidden = ac_relu(layer(graph, "first", x, 2, 64));
  ac_tensor *logits = layer(graph, "last", hidden, 64, 2);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, labels, NULL, NULL));
  ac_graph_set_output(graph, "probabilities", ac_softmax(logits));
  return ac_graph_status(graph);
}

/* The data: sample `key->index`. Your own would be read from a file or made from memory. */
static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  uint32_t state = (uint32_t)key->index * 2654435761u + 1;
  float *x = fields[0];
  (void)user;
  for (int i = 0; i < 2; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / (1 << 23) - 1; /* in [-1, 1) */
  }
  *(int32_t *)fields[1] = x[0] * x[0] + x[1] * x[1] < 0.36f;
  return AC_OK;
}

static ac_status train(const ac_graph *graph, ac_device *device) {
  const ac_callback_dataset_desc samples = {.count = 4000,
                                            .field_count = 2,
                                            .fields = {{"x", AC_F32, 2}, {"labels", AC_I32, 1}},
                                            .read = read_sample,
                                            .concurrent = true};
  const ac_plan_desc policy = {.batch = 64, .memory = 1 << 20, .whole_windows = true};
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 0.01}};
  ac_dataset *all = NULL, *first = NULL, *last = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_fit_result result;
  ac_status status = ac_dataset_from_callback(&all, &samples);
  if (status == AC_OK) status = ac_dataset_slice(&first, all, 0, 3000);
  if (status == AC_OK) status = ac_dataset_slice(&last, all, 3000, 4000);
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  const ac_fit_desc fit = {.train = first, .validation = last, .epochs = 10};
  if (status == AC_OK) status = ac_fit(trainer, &fit, &result);
  if (status == AC_OK) status = ac_trainer_save(trainer, path, NULL, 0);
  if (status == AC_OK)
    printf("accuracy %.3f on new points, %llu bytes of memory; saved %s\n", result.final.accuracy,
           (unsigned long long)ac_plan_get_info(plan)->bytes.total, path);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_dataset_free(last);
  ac_dataset_free(first);
  ac_dataset_free(all);
  return status;
}

static ac_status predict(const ac_graph *graph, ac_device *device, const float x[2]) {
  const ac_plan_desc policy = {.purpose = AC_PREDICT};
  float probabilities[2];
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_session_create(&session, plan, 0);
  if (status == AC_OK) status = ac_session_load(session, path, NULL);
  if (status == AC_OK) status = ac_session_run(session, 1, &(ac_feed){"x", x}, 1);
  if (status == AC_OK) status = ac_session_output(session, "probabilities", 0, 2, probabilities);
  if (status == AC_OK)
    printf("%s (probability %.3f)\n", probabilities[1] > 0.5f ? "inside" : "outside",
           (double)probabilities[probabilities[1] > 0.5f]);
  ac_session_free(session);
  ac_plan_free(plan);
  return status;
}

static bool read_number(const char *text, float *number) {
  char *end;
  *number = strtof(text, &end);
  return end != text && !*end;
}

int main(int argc, char **argv) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  float x[2] = {0};
  if (argc != 1 && (argc != 3 || !read_number(argv[1], &x[0]) || !read_number(argv[2], &x[1]))) {
    fprintf(stderr, "usage: %s [X Y], where X and Y are numbers\n", argv[0]);
    return 2;
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  /* A larger model is faster with all cores (threads 0), or on a GPU (name "auto"). */
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK && argc == 1) status = train(graph, device);
  else if (status == AC_OK) status = predict(graph, device, x);
  if (status != AC_OK) fprintf(stderr, "my_model: %s\n", ac_last_error());
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK ? 0 : 1;
}
