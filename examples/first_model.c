#include <accrue/accrue.h>
#include <stdio.h>

static bool report(void *user, const ac_fit_event *event) {
  (void)user;
  if (event->kind == AC_FIT_EVALUATION)
    printf("update %lld: validation loss %.3f, accuracy %.3f\n", (long long)event->step,
           event->evaluation.loss, event->evaluation.accuracy);
  return true; /* go on */
}

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t in, int64_t out) {
  ac_parameter_desc he = AC_DEFAULTS;
  he.init.kind = AC_INIT_KAIMING_NORMAL;
  return ac_linear(x, ac_parameter(graph, name, AC_SHAPE(out, in), &he), NULL, AC_OUT_IN);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "mnist"; /* with MNIST's files */
  ac_graph *graph = NULL;
  ac_graph_create(&graph);
  ac_tensor *x = ac_input(graph, "images", AC_F32, AC_SHAPE(AC_BATCH, 784));
  ac_tensor *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *hidden = ac_relu(layer(graph, "w1", x, 784, 256));
  ac_tensor *logits = layer(graph, "w2", hidden, 256, 10);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, labels, NULL, NULL));

  ac_plan_desc policy = AC_DEFAULTS;
  policy.batch = 256;          /* samples an update */
  policy.memory = 8 << 20;     /* bytes in all */
  policy.whole_windows = true; /* ac_fit's are; to know it spares memory */
  ac_dataset *train = NULL, *validation = NULL;
  ac_device *device = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  bool good = !ac_dataset_mnist_folder(&train, &validation, folder) &&
              !ac_device_open(&device, NULL) && !ac_plan_create(&plan, graph, device, &policy) &&
              !ac_trainer_create(&trainer, plan, NULL); /* AdamW at a rate of 1e-3 */
  if (good) {
    ac_fit_desc fit = AC_DEFAULTS;
    fit.train = train;
    fit.validation = validation;
    fit.epochs = 5;
    fit.eval_every = ac_dataset_count(train) / policy.batch; /* about an epoch */
    fit.callback = report;
    good = !ac_fit(trainer, &fit, NULL) && !ac_trainer_save(trainer, "digits.safetensors", NULL, 0);
  }
  if (!good) fprintf(stderr, "%s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(validation);
  ac_dataset_free(train);
  ac_graph_free(graph);
  return good ? 0 : 1;
}
