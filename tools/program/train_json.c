#include "program/train_json.h"

#include "common/accuracy.h"
#include "common/json_text.h"
#include "common/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define INTEGER(x) json_integer((json_int_t)(x))

/* JSON has no NaN and no infinity. */
static json_t *number(double x) {
  return isfinite(x) ? json_real(x) : json_null();
}

static json_t *name(const char *path) {
  return path ? json_text_name(path) : json_null();
}

static json_t *plan_of(const setup *s) {
  const ac_plan_info *plan = ac_plan_get_info(s->plan);
  return json_pack(
      "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "device",
      ac_device_get_info(s->device)->id, "precision", ac_precision_name(plan->precision),
      "effective_batch", INTEGER(plan->batch), "micro_batch", INTEGER(plan->micro_batch),
      "accumulation_steps", INTEGER(plan->accumulation_steps), "recomputed_ops",
      INTEGER(plan->recomputed_ops), "parameter_count", INTEGER(plan->parameter_count),
      "frozen_count", INTEGER(plan->frozen_count), "budget_bytes", INTEGER(plan->budget_bytes),
      "host_bytes", INTEGER(plan->host_bytes), "read_ahead_bytes", INTEGER(plan->read_ahead_bytes),
      "library_bytes", INTEGER(plan->library_bytes));
}

int train_json_put(const train_end *end) {
  const setup *s = end->setup;
  const ac_fit_result *fit = end->fit;
  const bool evaluated = fit->evaluated;
  json_t *object = json_pack(
      "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}",
      "outcome", end->outcome, "model", s->kind->name, "run", end->run, "folder", name(end->folder),
      "weights", name(end->weights), "state", name(end->state), "steps", INTEGER(end->step),
      "updates", INTEGER(fit->updates), "skipped", INTEGER(fit->skipped), "epochs",
      INTEGER(fit->epochs), "samples", INTEGER(fit->samples), "loss_per", data_loss_unit(&s->data),
      "train_loss", number(end->loss), "val_loss", number(evaluated ? fit->final.loss : NAN),
      "val_accuracy", number(evaluated ? accuracy_of(&fit->final) : NAN), "seconds",
      number(end->seconds), "planned_bytes", INTEGER(ac_plan_get_info(s->plan)->bytes.total),
      "peak_bytes", INTEGER(ac_device_peak_bytes(s->device)));
  if (object && evaluated && !isnan(mean_iou_of(&fit->final)))
    json_object_set_new(object, "val_mean_iou", json_real(mean_iou_of(&fit->final)));
  if (object && json_object_set_new(object, "plan", plan_of(s)) != 0) {
    json_decref(object);
    object = NULL;
  }
  char *text = object ? json_text_short(object, JSON_INDENT(2)) : NULL;
  const bool good = text && printf("%s\n", text) > 0;
  free(text);
  json_decref(object);
  return good ? STATUS_CONTINUE : fail("cannot write the result");
}
