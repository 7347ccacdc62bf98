/* A network begins with weights of another training and learns other classes. The file may be one
 * of PyTorch's: `image_weights resnet18.pth 64` takes torchvision's ResNet-18, with 64 channels at
 * first. Without arguments it makes a small file itself. */
#include "models/image_net.h"

#include <accrue/accrue.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 32, CLASSES = 3, SAMPLES = 96, BATCH = 16, STEPS = 40 };

/* ResNet-18 as published: with batch norm; its statistics stay those of the file. Pixels are
 * normalised as for ImageNet. */
static image_net shape_of(int64_t channels, int64_t classes) {
  return (image_net){.channels = 3,
                     .height = SIZE,
                     .width = SIZE,
                     .classes = classes,
                     .depth = 18,
                     .base = channels,
                     .stem = IMAGE_STEM_LARGE,
                     .norm = IMAGE_NORM_BATCH,
                     .pixels = IMAGE_PIXELS_IMAGENET,
                     .frozen_norm = true,
                     .layer_decay = 0.8};
}

/* A trainer of the network. Close what it leaves in `plan` and `graph` after it. */
static ac_status make_trainer(ac_trainer **trainer, ac_plan **plan, ac_graph **graph,
                              ac_device *device, const image_net *net) {
  const ac_plan_desc desc = {.batch = BATCH};
  ac_status status = ac_graph_create(graph);
  if (status == AC_OK) resnet_build(*graph, net);
  if (status == AC_OK) status = ac_plan_create(plan, *graph, device, &desc);
  if (status == AC_OK)
    status = ac_trainer_create(trainer, *plan, &(ac_trainer_desc){.schedule = {.lr = 2e-3}});
  return status;
}

/* A file of random weights with 10 classes, in the place of a published one. */
static ac_status write_file(const char *path, ac_device *device) {
  const image_net net = shape_of(8, 10);
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_status status = make_trainer(&trainer, &plan, &graph, device, &net);
  if (status == AC_OK) status = ac_trainer_save(trainer, path, NULL, 0);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(graph);
  return status;
}

/* What a file has: the names are those of the network's parameters. */
static ac_status show(const char *path) {
  ac_model_file *file = NULL;
  const ac_status status = ac_model_file_open(&file, path);
  if (status != AC_OK) return status;
  const ac_model_tensor *head = ac_model_file_tensor(file, ac_model_file_find(file, "fc.weight"));
  printf("%d tensors", ac_model_file_tensor_count(file));
  if (head) printf("; the last layer has %lld classes", (long long)head->shape[0]);
  printf("\n");
  ac_model_file_close(file);
  return AC_OK;
}

/* A stripe of class c is in colour c. */
static ac_status draw(void *user, const ac_sample_key *key, void *const *fields) {
  float *image = fields[0];
  const int label = (int)(key->index % CLASSES), row = (int)(key->index * 7 % (SIZE - 8));
  (void)user;
  for (int i = 0; i < 3 * SIZE * SIZE; i++) {
    const int y = i / SIZE % SIZE, colour = i / (SIZE * SIZE);
    image[i] = y >= row && y < row + 8 && colour == label ? 1.0f : 0.3f;
  }
  *(int32_t *)fields[1] = label;
  return AC_OK;
}

static bool learned;

static ac_status fine_tune(ac_trainer *trainer, const char *path, ac_dataset *data) {
  const ac_fit_desc fit = {.train = data, .validation = data, .steps = STEPS};
  ac_fit_result result;
  /* All but the last layer, which has another number of classes. */
  ac_status status = ac_trainer_load_part(trainer, path, "!fc.*", NULL);
  if (status == AC_OK) status = ac_fit(trainer, &fit, &result);
  learned = status == AC_OK && result.final.accuracy > 0.9;
  if (status == AC_OK)
    printf("after %d updates: loss %.3f, accuracy %.0f %%\n", STEPS, result.final.loss,
           100 * result.final.accuracy);
  return status;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "image_weights.safetensors";
  const image_net net = shape_of(argc > 2 ? atoi(argv[2]) : 8, CLASSES);
  const ac_callback_dataset_desc pictures = {
      .count = SAMPLES,
      .field_count = 2,
      .fields = {{"images", AC_F32, 3 * SIZE * SIZE}, {"labels", AC_I32, 1}},
      .read = draw,
      .concurrent = true};
  ac_device *device = NULL;
  ac_dataset *data = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK && argc == 1) status = write_file(path, device);
  if (status == AC_OK) status = show(path);
  if (status == AC_OK) status = ac_dataset_from_callback(&data, &pictures);
  if (status == AC_OK) status = make_trainer(&trainer, &plan, &graph, device, &net);
  if (status == AC_OK) status = fine_tune(trainer, path, data);
  if (status != AC_OK) fprintf(stderr, "image_weights: %s\n", ac_last_error());
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_dataset_free(data);
  ac_device_close(device);
  if (argc == 1) remove(path);
  return learned ? 0 : 1;
}
