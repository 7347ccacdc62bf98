/* Metrics of a graph with several losses: each under its name, in addition to the fields that all
 * have. */
#include "support/check.h"

#include "program/metrics.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const ac_loss_mean two[] = {{.name = "pixels", .loss = 0.5, .weight = 4},
                                   {.name = "classes", .loss = 2, .weight = 8}};

static json_t *line_of(const ac_fit_event *event) {
  char path[] = "/tmp/accrue-metrics-XXXXXX", text[1024];
  const int made = mkstemp(path);
  assert_true(made >= 0);
  close(made);
  metrics m;
  metrics_open(&m, &(metrics_desc){.path = path});
  metrics_begin(&m, -1);
  metrics_fit(&m, event);
  metrics_close(&m);
  FILE *stream = fopen(path, "r");
  assert_non_null(stream);
  assert_non_null(fgets(text, sizeof text, stream));
  assert_int_equal(fgetc(stream), EOF);
  fclose(stream);
  remove(path);
  json_t *line = json_loads(text, 0, NULL);
  assert_non_null(line);
  return line;
}

static void assert_losses(json_t *line, int count) {
  json_t *losses = json_object_get(line, "losses");
  assert_true(json_real_value(json_object_get(line, "loss")) == 1.25);
  assert_int_equal(json_object_size(losses), count < 2 ? 0 : count);
  for (int k = 0; k < count && count > 1; k++)
    assert_true(json_real_value(json_object_get(losses, two[k].name)) == two[k].loss);
  json_decref(line);
}

static void each_loss_stands_under_its_name(void **state) {
  (void)state;
  for (int count = 1; count <= 2; count++) {
    ac_fit_event step = {.kind = AC_FIT_STEP, .step = 1, .samples = 4, .seconds = 1};
    step.update.loss = 1.25;
    step.update.loss_count = count;
    memcpy(step.update.losses, two, sizeof two);
    assert_losses(line_of(&step), count);
    ac_fit_event evaluation = {.kind = AC_FIT_EVALUATION, .step = 1};
    evaluation.evaluation.loss = 1.25;
    evaluation.evaluation.loss_count = count;
    memcpy(evaluation.evaluation.losses, two, sizeof two);
    assert_losses(line_of(&evaluation), count);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_loss_stands_under_its_name)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
