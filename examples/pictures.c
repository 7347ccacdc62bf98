/* Pictures in files: a list names them and their classes, and a dataset decodes, resizes and
 * changes them when they are read. The graph takes bytes, and the device makes floats of them. The
 * program writes the pictures and the list itself. */
#include <accrue/accrue.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 120, MOST = 64, SIZE = 24, CLASSES = 2 };

static const char *const list_path = "pictures-list.csv";

static void name_picture(char *path, size_t bytes, int i) {
  snprintf(path, bytes, "pictures-%03d.png", i);
}

/* Stripes that run across (class "lying") or down ("upright"), in any colours, of any size. */
static ac_status write_picture(const char *path, int upright, uint32_t *state) {
  static uint8_t pixels[3 * MOST * MOST];
  uint32_t drawn[8];
  for (int i = 0; i < 8; i++) drawn[i] = (*state = *state * 1664525u + 1013904223u) >> 16;
  const int width = 32 + (int)(drawn[0] % 32), height = 32 + (int)(drawn[1] % 32);
  for (int i = 0; i < width * height; i++) {
    const int along = (upright ? i % width : i / width) + (int)(drawn[2] % 16);
    for (int c = 0; c < 3; c++)
      pixels[3 * i + c] = (uint8_t)(drawn[3 + c] % 100 + (along % 16 < 8 ? 120 : 0));
  }
  return ac_picture_write_png(path, width, height, 3, pixels);
}

static ac_status write_pictures(void) {
  ac_status status = AC_OK;
  uint32_t state = 1;
  FILE *list = fopen(list_path, "w");
  if (!list) return AC_ERROR_IO;
  fprintf(list, "path,class\n");
  for (int i = 0; i < COUNT && status == AC_OK; i++) {
    char path[64];
    name_picture(path, sizeof path, i);
    fprintf(list, "%s,%s\n", path, i % 2 ? "upright" : "lying");
    status = write_picture(path, i % 2, &state);
  }
  return fclose(list) == 0 ? status : AC_ERROR_IO;
}

static void remove_pictures(void) {
  for (int i = 0; i < COUNT; i++) {
    char path[64];
    name_picture(path, sizeof path, i);
    remove(path);
  }
  remove(list_path);
}

/* Bytes go to the device, a quarter of what floats would take, and become numbers from 0 to 1
 * there. */
static ac_status describe(ac_graph *graph) {
  ac_tensor *bytes = ac_input(graph, "images", AC_U8, AC_SHAPE(AC_BATCH, 3, SIZE, SIZE)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *x = ac_scale(bytes, 1.0f / 255);
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  ac_tensor *w = ac_parameter(graph, "conv.weight", AC_SHAPE(8, 3, 5, 5), &he);
  x = ac_relu(ac_conv2d(x, w, NULL, &(ac_conv2d_desc){.stride = {2, 2}}));
  x = ac_dense(graph, "head", ac_reshape(x, AC_SHAPE(AC_BATCH, 0)), CLASSES, NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(x, labels, NULL, NULL));
  return ac_graph_status(graph);
}

static void tell(void *user, const char *path, const char *sentence) {
  (void)user, (void)path;
  fprintf(stderr, "left out: %s\n", sentence);
}

/* What trains is cut at random, mirrored and recoloured; what validates is the middle. */
static ac_status open_data(ac_dataset **train, ac_dataset **validation) {
  const ac_pictures_desc how = {.bad = AC_BAD_PICTURES_SKIP, .report = tell};
  const ac_picture_changes changes = {.random_crop = true,
                                      .crop_area = {0.5, 1},
                                      .flip = true,
                                      .brightness = 0.3,
                                      .contrast = 0.3,
                                      .saturation = 0.3};
  ac_picture_samples samples = {.height = SIZE, .dtype = AC_U8, .filter = AC_PICTURE_BICUBIC};
  ac_pictures *all = NULL, *four_fifths = NULL, *fifth = NULL;
  ac_status status = ac_pictures_open(&all, NULL, list_path, &how);
  if (status == AC_OK) status = ac_pictures_fold(&four_fifths, &fifth, all, 1, 5);
  if (status == AC_OK)
    printf("%lld pictures: %lld train, %lld validate; classes %s and %s\n",
           (long long)ac_pictures_count(all), (long long)ac_pictures_count(four_fifths),
           (long long)ac_pictures_count(fifth), ac_pictures_class_name(all, 0),
           ac_pictures_class_name(all, 1));
  if (status == AC_OK) status = ac_dataset_from_pictures(validation, fifth, &samples);
  samples.changes = &changes;
  if (status == AC_OK) status = ac_dataset_from_pictures(train, four_fifths, &samples);
  ac_pictures_free(fifth);
  ac_pictures_free(four_fifths);
  ac_pictures_free(all); /* datasets keep what they need */
  return status;
}

int main(void) {
  ac_dataset *train = NULL, *validation = NULL;
  ac_graph *graph = NULL;
  ac_learner *learner = NULL;
  ac_evaluation evaluation = {.accuracy = 0};
  ac_learner_desc desc = AC_DEFAULTS;
  desc.device = (ac_device_desc){.name = "cpu", .threads = 1};
  desc.plan.batch = 16;
  desc.plan.read_ahead = 1; /* a batch is decoded while the device works */
  desc.trainer.schedule.lr = 3e-3;
  ac_status status = write_pictures();
  if (status == AC_OK) status = open_data(&train, &validation);
  if (status == AC_OK) status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_learner_create(&learner, graph, &desc);
  ac_trainer *trainer = ac_learner_trainer(learner);
  const ac_fit_desc fit = {.train = train, .epochs = 20, .loader_threads = 2};
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = ac_trainer_evaluate(trainer, validation, 0, &evaluation);
  if (status != AC_OK) fprintf(stderr, "pictures: %s\n", ac_last_error());
  printf("accuracy %.2f\n", evaluation.accuracy);

  ac_learner_free(learner);
  ac_graph_free(graph);
  ac_dataset_free(validation);
  ac_dataset_free(train);
  remove_pictures();
  return status == AC_OK && evaluation.accuracy > 0.9 ? 0 : 1;
}
