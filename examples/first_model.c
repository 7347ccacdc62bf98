#include <accrue/accrue.h>
#include <stdio.h>

int main(int argc, char **argv) {
  ac_graph *graph = NULL;
  ac_dataset *train = NULL, *validation = NULL;
  ac_learner *learner = NULL;
  ac_fit_result result;

  ac_graph_create(&graph);
  ac_tensor *x = ac_input(graph, "images", AC_F32, AC_SHAPE(AC_BATCH, 784));
  ac_tensor *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  x = ac_relu(ac_dense(graph, "fc1", x, 256, NULL));
  x = ac_dense(graph, "fc2", x, 10, NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(x, labels, NULL, NULL));

  ac_learner_desc desc = AC_DEFAULTS;                /* AdamW at a rate of 1e-3 */
  desc.plan.batch = 256;                             /* samples an update */
  desc.plan.memory = 8 << 20;                        /* bytes in all */
  const char *folder = argc > 1 ? argv[1] : "mnist"; /* with MNIST's files */
  bool good = !ac_dataset_mnist_folder(&train, &validation, folder) &&
              !ac_learner_create(&learner, graph, &desc) &&
              !ac_learner_fit(learner, train, validation, 5, &result) &&
              !ac_trainer_save(ac_learner_trainer(learner), "digits.safetensors", NULL, 0);
  if (good) printf("loss %.3f, accuracy %.3f\n", result.final.loss, result.final.accuracy);
  else fprintf(stderr, "%s\n", ac_last_error());

  ac_learner_free(learner);
  ac_dataset_free(validation);
  ac_dataset_free(train);
  ac_graph_free(graph);
  return good ? 0 : 1;
}
