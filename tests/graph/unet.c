/* A U-Net computes what milesial/Pytorch-UNet computes, also of images with odd sides: logits,
 * losses, intersections over union and gradients (tests/vectors/unet.py). */
#include "support/check.h"

#include "models/image_net.h"
#include "program/image_weights.h"
#include "support/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 4, CLASSES = 3, MOST_ELEMENTS = 1 << 16 };

typedef struct unet_case {
  const char *name;
  image_net net;
} unet_case;

static const unet_case cases[] = {{"batch",
                                   {.channels = 3,
                                    .height = 13,
                                    .width = 10,
                                    .classes = CLASSES,
                                    .depth = 2,
                                    .base = 4,
                                    .norm = IMAGE_NORM_BATCH}},
                                  {"group",
                                   {.channels = 3,
                                    .height = 9,
                                    .width = 11,
                                    .classes = CLASSES,
                                    .depth = 1,
                                    .base = 8,
                                    .norm = IMAGE_NORM_GROUP,
                                    .loss = IMAGE_LOSS_BOTH}}};

typedef struct run {
  const unet_case *of;
  ac_model_file *file;
  ac_graph *graph;
  ac_device *device;
  float *images;
  int32_t *masks;
} run;

/* A tensor of the case, as floats. */
static float *wanted(const run *r, const char *kind, const char *name, int64_t *count) {
  char full[160];
  snprintf(full, sizeof full, "%s/%s%s", r->of->name, kind, name);
  const int index = ac_model_file_find(r->file, full);
  if (index < 0) fail_msg("there is no %s", full);
  const ac_model_tensor *tensor = ac_model_file_tensor(r->file, index);
  *count = 1;
  for (int d = 0; d < tensor->rank; d++) *count *= tensor->shape[d];
  assert_true(*count <= MOST_ELEMENTS);
  float *data = malloc((size_t)*count * sizeof *data);
  assert_non_null(data);
  assert_ok(ac_model_file_read(r->file, index, 0, *count, data));
  return data;
}

static void check(const char *what, const float *got, const float *expected, int64_t count,
                  double tolerance) {
  double largest = 0;
  for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)expected[i]));
  for (int64_t i = 0; i < count; i++)
    if (!(fabs((double)got[i] - (double)expected[i]) <= tolerance * fmax(largest, 1e-3)))
      fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, (double)got[i],
               (double)expected[i]);
}

static void fill(const run *r, ac_trainer *trainer) {
  for (int p = 0; p < ac_trainer_parameter_count(trainer); p++) {
    ac_tensor_info info;
    int64_t count;
    assert_ok(ac_trainer_parameter_info(trainer, p, &info));
    float *data = wanted(r, "weight.", info.name, &count);
    assert_ok(ac_trainer_set_parameter(trainer, p, 0, count, data));
    free(data);
  }
}

static void check_logits(const run *r, ac_trainer *trainer) {
  const ac_feed feed = {"images", r->images};
  int64_t count;
  float *expected = wanted(r, "", "logits", &count), *got = malloc((size_t)count * sizeof *got);
  assert_non_null(got);
  assert_ok(ac_trainer_predict(trainer, "logits", SAMPLES, &feed, 1, count, got));
  check("logits", got, expected, count, 1e-4);
  free(got);
  free(expected);
}

static void check_iou(const run *r, ac_trainer *trainer) {
  const int64_t pixels = r->of->net.height * r->of->net.width;
  const ac_field fields[] = {{"images", AC_F32, 3 * pixels}, {"masks", AC_I32, pixels}};
  const void *const data[] = {r->images, r->masks};
  ac_dataset *dataset;
  ac_evaluation result;
  int64_t count;
  float *expected = wanted(r, "", "iou", &count), got[CLASSES];
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 2, fields, data));
  assert_ok(ac_trainer_evaluate(trainer, dataset, 0, &result));
  assert_int_equal(result.metric_count, CLASSES);
  for (int c = 0; c < CLASSES; c++) got[c] = (float)result.metrics[c].value;
  check("intersections over union", got, expected, count, 1e-6);
  free(expected);
  ac_dataset_free(dataset);
}

/* A step at rate 1 takes the gradient from each parameter. */
static void check_gradients(const run *r, ac_trainer *trainer) {
  const ac_feed feeds[] = {{"images", r->images}, {"masks", r->masks}};
  ac_update update;
  int64_t count;
  float *losses = wanted(r, "", "losses", &count);
  assert_ok(ac_trainer_accumulate(trainer, SAMPLES, feeds, 2));
  assert_ok(ac_trainer_update(trainer, &update));
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)losses[i];
  assert_true(fabs(update.loss - sum) <= 1e-5 * sum);
  free(losses);
  for (int p = 0; p < ac_trainer_parameter_count(trainer); p++) {
    ac_tensor_info info;
    int64_t elements;
    assert_ok(ac_trainer_parameter_info(trainer, p, &info));
    if (strstr(info.name, "running_")) continue;
    float *gradient = wanted(r, "gradient.", info.name, &count),
          *before = wanted(r, "weight.", info.name, &elements),
          *after = malloc((size_t)elements * sizeof *after);
    assert_non_null(after);
    assert_int_equal(count, elements);
    assert_ok(ac_trainer_get_parameter(trainer, p, 0, elements, after));
    for (int64_t i = 0; i < elements; i++) after[i] = before[i] - after[i];
    check(info.name, after, gradient, count, 1e-4);
    free(gradient);
    free(before);
    free(after);
  }
}

static void compare(const unet_case *of, ac_model_file *file) {
  run r = {.of = of, .file = file};
  int64_t count;
  ac_plan *plan;
  ac_trainer *trainer;
  r.images = wanted(&r, "", "images", &count);
  float *masks = wanted(&r, "", "masks", &count);
  r.masks = malloc((size_t)count * sizeof *r.masks);
  assert_non_null(r.masks);
  for (int64_t i = 0; i < count; i++) r.masks[i] = (int32_t)masks[i];
  free(masks);
  assert_ok(ac_graph_create(&r.graph));
  unet_build(r.graph, &of->net);
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  assert_ok(ac_plan_create(&plan, r.graph, r.device,
                           &(ac_plan_desc){.batch = SAMPLES, .optimizer = {.kind = AC_SGD}}));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 1}}));
  fill(&r, trainer);
  check_logits(&r, trainer);
  check_iou(&r, trainer);
  check_gradients(&r, trainer);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(r.device);
  ac_graph_free(r.graph);
  free(r.images);
  free(r.masks);
}

static void unets_are_those_of_pytorch(void **state) {
  (void)state;
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, ACCRUE_TEST_VECTORS "/unet.safetensors"));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) compare(&cases[i], file);
  ac_model_file_close(file);
}

/* A file without a description is recognised by its tensors. */
static void shapes_are_told_by_tensors(void **state) {
  (void)state;
  const image_net *net = &cases[0].net;
  const test_path path = in_folder("model");
  image_net found = {0};
  bool guessed = true;
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_model_file *file;
  assert_ok(ac_graph_create(&graph));
  unet_build(graph, net);
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = SAMPLES}));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 1}}));
  assert_ok(ac_trainer_save(trainer, path.text, NULL, 0));
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(image_weights_adopt(&unet_family, &found, file, path.text, &guessed), -1);
  ac_model_file_close(file);
  assert_int_equal(found.base, net->base);
  assert_int_equal(found.depth, net->depth);
  assert_int_equal(found.classes, CLASSES);
  assert_false(guessed);
  assert_int_equal(found.norm, IMAGE_NORM_BATCH);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unets_are_those_of_pytorch),
      cmocka_unit_test(shapes_are_told_by_tensors),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
