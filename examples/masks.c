/* The class of each pixel, from pictures with masks: a list names both, and a dataset crops and
 * mirrors them alike. A small network learns them, and the mask of a new picture is written as a
 * file. A box around the object goes through the same geometry. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 64, WIDTH = 56, HEIGHT = 44, SIZE = 32, CLASSES = 2, CHANNELS = 8 };

static const char *const folders[] = {"masks-pictures", "masks-masks"};

static void name_file(char path[64], int of_mask, int i) {
  snprintf(path, 64, "%s/%02d.png", folders[of_mask], i);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* A disc in noise, which is class 1 in the mask. Nobody can tell to which side its border belongs,
 * so that is ignored. */
static ac_status write_picture(int i, uint32_t *state, float box[4]) {
  static uint8_t pixels[WIDTH * HEIGHT], mask[WIDTH * HEIGHT];
  char path[64];
  uint32_t drawn[3];
  for (int k = 0; k < 3; k++) drawn[k] = (*state = *state * 1664525u + 1013904223u) >> 16;
  const int radius = 8 + (int)(drawn[0] % 8), x = radius + (int)drawn[1] % (WIDTH - 2 * radius),
            y = radius + (int)drawn[2] % (HEIGHT - 2 * radius);
  for (int p = 0; p < WIDTH * HEIGHT; p++) {
    const double distance = hypot(p % WIDTH - x, p / WIDTH - y) - radius;
    mask[p] = distance < -1 ? 1 : distance < 1 ? AC_MASK_IGNORED : 0;
    *state = *state * 1664525u + 1013904223u;
    pixels[p] = (uint8_t)((distance < 0 ? 120 : 80) + (int)(*state >> 26));
  }
  const float around[4] = {(float)(x - radius), (float)(y - radius), (float)(x + radius + 1),
                           (float)(y + radius + 1)};
  for (int k = 0; k < 4; k++) box[k] = around[k];
  name_file(path, 0, i);
  const ac_status status = ac_picture_write_png(path, WIDTH, HEIGHT, 1, pixels);
  name_file(path, 1, i);
  return status == AC_OK ? ac_mask_write_png(path, WIDTH, HEIGHT, mask) : status;
}

static ac_status write_pictures(float boxes[COUNT][4]) {
  ac_status status = AC_OK;
  uint32_t state = 1;
  mkdir(folders[0], 0777);
  mkdir(folders[1], 0777);
  for (int i = 0; i < COUNT && status == AC_OK; i++) status = write_picture(i, &state, boxes[i]);
  return status;
}

static void remove_pictures(void) {
  for (int i = 0; i < 2 * COUNT; i++) {
    char path[64];
    name_file(path, i % 2, i / 2);
    remove(path);
  }
  rmdir(folders[0]);
  rmdir(folders[1]);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* What trains is cut at random and mirrored, with its mask; what validates is padded to a square.
 */
static ac_status open_data(ac_pictures **fifth, ac_dataset **train, ac_dataset **validation) {
  const ac_pictures_desc how = {.masks = folders[1]};
  const ac_picture_changes changes = {.random_crop = true, .crop_area = {0.5, 1}, .flip = true};
  ac_picture_samples samples = {.height = SIZE, .channels = 1, .fit = AC_PICTURE_FIT_PAD};
  ac_pictures *all = NULL, *rest = NULL;
  ac_status status = ac_pictures_open(&all, NULL, folders[0], &how);
  if (status == AC_OK) status = ac_pictures_fold(&rest, fifth, all, 1, 5);
  if (status == AC_OK)
    printf("%lld pictures with masks of %lld classes\n", (long long)ac_pictures_count(all),
           (long long)ac_pictures_classes(all));
  if (status == AC_OK) status = ac_dataset_from_pictures(validation, *fifth, &samples);
  samples.changes = &changes;
  if (status == AC_OK) status = ac_dataset_from_pictures(train, rest, &samples);
  ac_pictures_free(rest);
  ac_pictures_free(all);
  return status;
}

/* ---- the network ----------------------------------------------------------------------------- */

/* Down to half the size and up again, joined with what it had at full size. */
static ac_status describe(ac_graph *graph) {
  const ac_conv2d_layer_desc same = {.convolution = {.same = true}},
                             half = {.convolution = {.stride = {2, 2}, .padding = {1, 1}}};
  const ac_conv_transpose2d_layer_desc twice = {.convolution = {.stride = {2, 2}}};
  ac_tensor *images = ac_input(graph, "images", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)),
            *masks = ac_input(graph, "masks", AC_I32, AC_SHAPE(AC_BATCH, SIZE, SIZE));
  ac_tensor *full = ac_relu(ac_conv2d_layer(graph, "in", images, CHANNELS, 3, &same));
  ac_tensor *x = ac_relu(ac_conv2d_layer(graph, "down", full, 2 * CHANNELS, 3, &half));
  x = ac_relu(ac_conv2d_layer(graph, "deep", x, 2 * CHANNELS, 5, &same));
  x = ac_relu(ac_conv_transpose2d_layer(graph, "up", x, CHANNELS, 2, &twice));
  ac_tensor *parts[] = {full, x};
  x = ac_conv2d_layer(graph, "out", ac_concat(graph, parts, 2, 1), CLASSES, 3, &same);
  ac_graph_set_output(graph, "logits", x);
  ac_tensor *rows = ac_permute(x, AC_AXES(0, 2, 3, 1)); /* a row for each pixel */
  const ac_cross_entropy_desc loss = {.ignore = true, .ignore_index = AC_MASK_IGNORED};
  const ac_class_desc counted = {.ignore = true, .ignore_index = AC_MASK_IGNORED};
  ac_graph_set_loss(graph, ac_cross_entropy(rows, masks, NULL, &loss));
  ac_graph_add_metric(graph, "iou", ac_class_iou(rows, masks, 1, &counted), AC_METRIC_MEAN);
  return ac_graph_status(graph);
}

/* ---- results --------------------------------------------------------------------------------- */

/* The mask of the first picture that validates, as large as the picture. */
static ac_status write_answer(ac_trainer *trainer, const ac_pictures *list, ac_dataset *data) {
  static float image[SIZE * SIZE], logits[CLASSES * SIZE * SIZE];
  static int32_t mask[SIZE * SIZE];
  static uint8_t answer[SIZE * SIZE], restored[WIDTH * HEIGHT];
  const ac_feed feed = {"images", image};
  int64_t width = 0, height = 0, found = 0;
  ac_status status = ac_pictures_size(list, 0, &width, &height);
  if (status == AC_OK)
    status = ac_dataset_read(data, &(ac_sample_key){0}, (void *const[]){image, mask});
  if (status == AC_OK)
    status = ac_trainer_predict(trainer, "logits", 1, &feed, 1, CLASSES * SIZE * SIZE, logits);
  for (int p = 0; p < SIZE * SIZE; p++) answer[p] = logits[SIZE * SIZE + p] > logits[p];
  if (status == AC_OK) status = ac_dataset_restore_mask(data, 0, answer, restored);
  if (status == AC_OK) status = ac_mask_write_png("masks-answer.png", width, height, restored);
  for (int64_t p = 0; p < width * height; p++) found += restored[p] == 1;
  if (status == AC_OK)
    printf("%s: %lld of %lld pixels are of class 1\n", ac_pictures_path(list, 0), (long long)found,
           (long long)(width * height));
  remove("masks-answer.png");
  return status;
}

/* Where the box of a picture is in its sample. */
static ac_status map_box(const ac_pictures *list, const ac_dataset *data, float (*boxes)[4]) {
  int number = 0;
  float mapped[4];
  sscanf(ac_pictures_path(list, 0), "masks-pictures/%d", &number);
  const float *box = boxes[number];
  const ac_status status = ac_dataset_map_boxes(data, &(ac_sample_key){0}, 1, box, mapped);
  if (status == AC_OK)
    printf("its box from (%.0f, %.0f) to (%.0f, %.0f) is from (%.1f, %.1f) to (%.1f, %.1f) in the "
           "sample\n",
           (double)box[0], (double)box[1], (double)box[2], (double)box[3], (double)mapped[0],
           (double)mapped[1], (double)mapped[2], (double)mapped[3]);
  return status;
}

int main(void) {
  static float boxes[COUNT][4];
  ac_pictures *list = NULL;
  ac_dataset *train = NULL, *validation = NULL;
  ac_graph *graph = NULL;
  ac_learner *learner = NULL;
  ac_evaluation evaluation = {.accuracy = 0};
  ac_learner_desc desc = AC_DEFAULTS;
  desc.device = (ac_device_desc){.name = "cpu", .threads = 1};
  desc.plan.batch = 8;
  desc.trainer.schedule.lr = 5e-3;
  ac_status status = write_pictures(boxes);
  if (status == AC_OK) status = open_data(&list, &train, &validation);
  if (status == AC_OK) status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_learner_create(&learner, graph, &desc);
  ac_trainer *trainer = ac_learner_trainer(learner);
  const ac_fit_desc fit = {.train = train, .epochs = 20};
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = ac_trainer_evaluate(trainer, validation, 0, &evaluation);
  const double iou = status == AC_OK ? evaluation.metrics[0].value : 0;
  printf("pixels that are right %.2f, intersection over union of class 1 %.2f\n",
         evaluation.accuracy, iou);
  if (status == AC_OK) status = write_answer(trainer, list, validation);
  if (status == AC_OK) status = map_box(list, validation, boxes);
  if (status != AC_OK) fprintf(stderr, "masks: %s\n", ac_last_error());

  ac_learner_free(learner);
  ac_graph_free(graph);
  ac_dataset_free(validation);
  ac_dataset_free(train);
  ac_pictures_free(list);
  remove_pictures();
  return status == AC_OK && iou > 0.8 ? 0 : 1;
}
