/* Augmentation: digits are read from files of IDX, the format of MNIST, and images are shifted,
 * turned and mirrored each time they are read. With few samples a model learns them by heart; with
 * augmentation it does better on images that are not in the middle. The program writes the files
 * itself. */
#include <accrue/accrue.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 12, PIXELS = SIZE * SIZE, TRAINED = 64, TESTED = 256, CLASSES = 2 };

/* Class 0: a horizontal bar, 1: a vertical one, `off` pixels away from the middle. */
static void draw(unsigned char *image, int label, int off, uint32_t *state) {
  for (int i = 0; i < PIXELS; i++) {
    const int row = i / SIZE - SIZE / 2 - off, column = i % SIZE - SIZE / 2 - off;
    const int across = label ? column : row, along = label ? row : column;
    *state = *state * 1664525u + 1013904223u;
    image[i] = (unsigned char)((across == 0 && along > -4 && along < 4 ? 200 : 0) + (*state >> 27));
  }
}

/* Four bytes, the first one the highest. */
static void put(FILE *file, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(value >> shift & 255), file);
}

/* Images and labels: training images are in the middle, the others are not. */
static bool write_idx(const char *images, const char *labels) {
  FILE *image_file = fopen(images, "wb"), *label_file = fopen(labels, "wb");
  bool good = image_file && label_file;
  uint32_t state = 1;
  if (good) {
    put(image_file, 0x803); /* bytes in three dimensions */
    put(image_file, TRAINED + TESTED);
    put(image_file, SIZE);
    put(image_file, SIZE);
    put(label_file, 0x801); /* bytes in one dimension */
    put(label_file, TRAINED + TESTED);
    for (int i = 0; i < TRAINED + TESTED; i++) {
      unsigned char image[PIXELS];
      draw(image, i % CLASSES, i < TRAINED ? 0 : i / CLASSES % 5 - 2, &state);
      good = good && fwrite(image, PIXELS, 1, image_file) == 1;
      fputc(i % CLASSES, label_file);
    }
  }
  if (image_file) good = fclose(image_file) == 0 && good;
  if (label_file) good = fclose(label_file) == 0 && good;
  return good;
}

/* A convolution with batch norm: it looks at all samples of a micro-batch. */
static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}},
                          one = {.init = {AC_INIT_CONSTANT, .value = 1}}, mean_0 = {.frozen = true},
                          variance_1 = {.init = {AC_INIT_CONSTANT, .value = 1}, .frozen = true};
  ac_tensor *x = ac_input(graph, "images", AC_F32, AC_SHAPE(AC_BATCH, PIXELS)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH)),
            *w = ac_parameter(graph, "conv.weight", AC_SHAPE(8, 1, 3, 3), &he),
            *gamma = ac_parameter(graph, "norm.weight", AC_SHAPE(8), &one),
            *beta = ac_parameter(graph, "norm.bias", AC_SHAPE(8), NULL),
            *mean = ac_parameter(graph, "norm.running_mean", AC_SHAPE(8), &mean_0),
            *variance = ac_parameter(graph, "norm.running_var", AC_SHAPE(8), &variance_1),
            *head = ac_parameter(graph, "head.weight", AC_SHAPE(CLASSES, 8 * 5 * 5), NULL);
  x = ac_conv2d(ac_reshape(x, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)), w, NULL, NULL);
  x = ac_relu(ac_batch_norm(x, gamma, beta, mean, variance, NULL));
  x = ac_max_pool2d(x, &(ac_pool2d_desc){.kernel = {2, 2}});
  x = ac_linear(ac_reshape(x, AC_SHAPE(AC_BATCH, 0)), head, NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_cross_entropy(x, labels, NULL, NULL));
  return ac_graph_status(graph);
}

/* How often a model that was trained on `train` is right on `test`. */
static ac_status accuracy(const ac_plan *plan, ac_dataset *train, ac_dataset *test,
                          double *result) {
  const ac_fit_desc fit = {.train = train, .steps = 200, .last_window = AC_LAST_DROP};
  ac_trainer *trainer = NULL;
  ac_evaluation evaluation = {.accuracy = 0};
  ac_status status =
      ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 1, .schedule = {.lr = 0.01}});
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = ac_trainer_evaluate(trainer, test, 0, &evaluation);
  *result = evaluation.accuracy;
  ac_trainer_free(trainer);
  return status;
}

int main(void) {
  const char *images = "augment-images", *labels = "augment-labels";
  const float mean = 0.1f, deviation = 0.3f;
  ac_augmentation same = {.mean = &mean, .deviation = &deviation}; /* no change but the scale */
  ac_augmentation moved = same;
  moved.shift = 3;
  moved.flip = true;
  moved.rotation = 10;
  ac_dataset *train = NULL, *test = NULL, *plain = NULL, *augmented = NULL, *scaled = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  double without = 1, with = 0;
  int64_t shape[3] = {0};
  if (!write_idx(images, labels)) {
    perror("augment: cannot write images");
    return 1;
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_idx(&train, images, labels, 0, TRAINED);
  if (status == AC_OK) status = ac_dataset_from_idx(&test, images, labels, TRAINED, -1);
  if (status == AC_OK) status = ac_dataset_augmented(&plain, train, &same);
  if (status == AC_OK) status = ac_dataset_augmented(&augmented, train, &moved);
  if (status == AC_OK) status = ac_dataset_augmented(&scaled, test, &same);
  if (status == AC_OK && ac_dataset_image_shape(train, shape))
    printf("images of %lld x %lld x %lld, %lld classes\n", (long long)shape[0], (long long)shape[1],
           (long long)shape[2], (long long)ac_dataset_classes(train));
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  /* Unless batch_norm says otherwise, the plan does not split a batch if its samples depend on each
   * other. */
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 16});
  if (status == AC_OK) status = accuracy(plan, plain, scaled, &without);
  if (status == AC_OK) status = accuracy(plan, augmented, scaled, &with);
  if (status != AC_OK) fprintf(stderr, "augment: %s\n", ac_last_error());
  printf("accuracy %.2f without augmentation, %.2f with it\n", without, with);

  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(scaled);
  ac_dataset_free(augmented);
  ac_dataset_free(plain);
  ac_dataset_free(test);
  ac_dataset_free(train);
  ac_graph_free(graph);
  remove(images);
  remove(labels);
  return status == AC_OK && with > 0.9 && with > without + 0.1 ? 0 : 1;
}
