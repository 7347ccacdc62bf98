/* What `accrue train --examples` keeps for a report: examples.json in the run's folder. */
#include "common/json_text.h"
#include "common/message.h"
#include "program/classify.h"
#include "program/examples.h"
#include "program/stop.h"
#include "program/training.h"

static ac_status predict(void *trainer, int64_t count, const ac_feed *images, int64_t elements,
                         float *logits) {
  return ac_trainer_predict(trainer, "logits", count, images, 1, elements, logits);
}

static bool is_stopped(void *user) {
  (void)user;
  return stop_signal() != 0;
}

static int write_examples(run *r, const examples *e, ac_dataset *dataset) {
  const setup *s = &r->setup;
  char path[RUN_PATH_BYTES];
  run_folder_path(&r->folder, "examples.json", path);
  json_t *object =
      json_pack("{s:s, s:s, s:I, s:I, s:o}", "run", run_record_id(&r->record), "split",
                "validation", "step", (json_int_t)r->step, "samples",
                (json_int_t)ac_dataset_count(dataset), "confusion", examples_confusion(e));
  int status = object ? examples_put(e, &s->data, dataset, s->data.class_names, object)
                      : fail("out of memory");
  if (status == STATUS_CONTINUE)
    status = examples_put_changed(&s->data, (uint64_t)s->flags.seed, object);
  if (status == STATUS_CONTINUE) status = json_text_replace(object, JSON_INDENT(1), path);
  json_decref(object);
  return status;
}

int training_keep_examples(run *r) {
  const setup *s = &r->setup;
  ac_dataset *dataset = s->data.judged ? s->data.judged : s->data.validation;
  examples e;
  if (!s->flags.examples || r->wish->pilot || !r->result.evaluated || !dataset)
    return STATUS_CONTINUE;
  int status = examples_begin(&e, s->kind->classes(s->model), s->flags.examples);
  const classification c = {.dataset = dataset,
                            .batch = ac_plan_get_info(s->plan)->micro_batch,
                            .elements = e.classes,
                            .predict = predict,
                            .model = r->trainer,
                            .stop = is_stopped,
                            .answer = examples_take,
                            .user = &e};
  if (status == STATUS_CONTINUE) status = classify(&c);
  if (status == STATUS_CONTINUE && !stop_signal()) status = write_examples(r, &e, dataset);
  examples_end(&e);
  return status;
}
