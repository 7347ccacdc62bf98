#include <accrue/accrue.h>
#include <stdio.h>

int main(int argc, char **argv) { /* IDX images and labels, such as MNIST's */
  if (argc != 3) return 2;
  ac_graph *graph = NULL;
  ac_graph_create(&graph);
  ac_tensor *x = ac_input(graph, "images", AC_F32, 2, (int64_t[]){AC_BATCH, 784});
  ac_tensor *labels = ac_input(graph, "labels", AC_I32, 1, (int64_t[]){AC_BATCH});
  ac_parameter_desc he = {.init = {AC_INIT_KAIMING_NORMAL}};
  ac_tensor *w1 = ac_parameter(graph, "w1", 2, (int64_t[]){256, 784}, &he);
  ac_tensor *w2 = ac_parameter(graph, "w2", 2, (int64_t[]){10, 256}, &he);
  ac_tensor *hidden = ac_relu(ac_linear(x, w1, NULL, AC_OUT_IN));
  ac_tensor *logits = ac_linear(hidden, w2, NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, labels, NULL, NULL));

  ac_device *device = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_dataset *digits = NULL;
  /* Samples an update, bytes in all; ac_fit's windows are whole, and to know it spares memory. */
  ac_plan_desc policy = {.batch = 256, .memory = 8 << 20, .whole_windows = true};
  ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 1e-3}};
  ac_fit_result result = {0};
  bool good = !ac_dataset_from_idx(&digits, argv[1], argv[2], 0, -1) &&
              !ac_device_open(&device, NULL) && !ac_plan_create(&plan, graph, device, &policy) &&
              !ac_trainer_create(&trainer, plan, &training) &&
              !ac_fit(trainer, &(ac_fit_desc){.train = digits, .epochs = 5}, &result) &&
              !ac_trainer_save(trainer, "digits.safetensors", NULL, 0);
  if (good) printf("%lld updates\n", (long long)result.steps);
  else fprintf(stderr, "%s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(digits);
  ac_graph_free(graph);
  return good ? 0 : 1;
}
