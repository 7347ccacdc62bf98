#include "program/verify_json.h"

#include "common/json_text.h"
#include "common/message.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* JSON has no NaN and no infinity. */
static json_t *number(double x) {
  return isfinite(x) ? json_real(x) : json_null();
}

static json_t *plan_of(const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I}", "ranks", info->ranks, "effective_batch",
                   (json_int_t)info->batch, "micro_batch", (json_int_t)info->micro_batch,
                   "accumulation_steps", (json_int_t)info->accumulation_steps, "recomputed_ops",
                   (json_int_t)info->recomputed_ops, "planned_bytes",
                   (json_int_t)info->bytes.total);
}

static json_t *gradients_of(const verify_end *e) {
  const ac_precision precision = ac_plan_get_info(e->planned)->precision;
  json_t *list = json_array();
  for (int i = 0; i < e->layout->parameters; i++) {
    if (!e->layout->trained[i]) continue;
    const gradient_row row =
        verify_gradient(e->layout, e->record, e->distances, precision, e->spread, i);
    json_array_append_new(
        list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "name", e->layout->names[i],
                        "difference", number(row.difference), "by_rounding",
                        e->spread ? number(e->spread->gradient[i]) : json_null(), "unexplained",
                        number(row.unexplained), "allowed", number(row.allowed), "share",
                        number(row.share), "allowed_share", number(row.allowed_share), "same",
                        row.same ? 1 : 0));
  }
  return list;
}

static json_t *comparison(double difference, double allowed, bool different) {
  return json_pack("{s:o, s:o, s:b}", "difference", number(difference), "allowed", number(allowed),
                   "same", different ? 0 : 1);
}

/* Both ways' number of a window. */
static json_t *with_both(json_t *row, double whole, double planned) {
  json_object_set_new(row, "whole", number(whole));
  json_object_set_new(row, "planned", number(planned));
  return row;
}

/* Layers that look at all samples of a micro-batch. */
static json_t *coupled_layers(const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  json_t *list = json_array();
  for (int64_t i = 0; i < info->steps; i++) {
    ac_plan_step step;
    if (ac_plan_get_step(plan, i, &step) != AC_OK || !step.couples_samples || step.backward)
      continue;
    json_array_append_new(list, json_pack("{s:s, s:s}", "scope", step.scope, "op", step.op));
  }
  return list;
}

int verify_json_put(const verify_end *e) {
  const record *r = e->record;
  const distances *d = e->distances;
  const window_row rows = verify_windows(r, d, ac_plan_get_info(e->planned)->precision, e->spread);
  const ac_update *whole = &r->updates[r->windows - 1], *planned = &d->updates[r->windows - 1];
  json_t *weight = comparison(rows.weight, rows.allowed_weight, e->verdict.weight),
         *loss = comparison(rows.loss, rows.allowed_loss, e->verdict.loss);
  json_t *object =
      json_pack("{s:b, s:I, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "same",
                verdict_same(&e->verdict) ? 1 : 0, "updates", (json_int_t)r->windows, "whole",
                plan_of(e->whole), "planned", plan_of(e->planned), "different_gradients",
                e->verdict.gradients, "gradients", gradients_of(e), "weight",
                with_both(weight, whole->weight, planned->weight), "loss",
                with_both(loss, whole->loss, planned->loss), "weights_after_update",
                comparison(rows.updates, rows.allowed_updates, e->verdict.weights),
                "coupled_layers", coupled_layers(e->planned));
  char *text = object ? json_text_short(object, JSON_INDENT(2)) : NULL;
  const bool good = text && printf("%s\n", text) > 0;
  free(text);
  json_decref(object);
  return good ? STATUS_CONTINUE : fail("cannot write the result");
}
