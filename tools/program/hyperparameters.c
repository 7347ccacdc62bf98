#include "program/hyperparameters.h"

#include "common/option_record.h"

#include <string.h>

#define LEFT_OUT                                                                           \
  "out metrics tensorboard histograms noise-scale noise-layers save-every save-minutes "   \
  "keep keep-best grace max-minutes policy loader-threads read-ahead layers-every device " \
  "threads data images labels debug-numerics"

/* "A; B" */
static json_t *joined(const json_t *list) {
  char text[1024] = "";
  size_t index;
  json_t *item;
  json_array_foreach((json_t *)list, index, item) {
    const char *word = json_string_value(item);
    const size_t used = strlen(text);
    if (word) snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "", word);
  }
  return *text ? json_string(text) : NULL;
}

json_t *hyperparameters(const json_t *record, const ac_plan_info *plan) {
  const char *name;
  json_t *value, *settings = json_pack("{s:O, s:I, s:I}", "model", json_object_get(record, "model"),
                                       "parameter_count", (json_int_t)plan->parameter_count,
                                       "micro-batch", (json_int_t)plan->micro_batch);
  json_object_foreach(json_object_get(record, "flags"), name, value) {
    if (options_listed(name, LEFT_OUT) || json_is_null(value)) continue;
    json_t *setting = json_is_array(value) ? joined(value) : json_incref(value);
    if (setting) json_object_set_new(settings, name, setting);
  }
  return settings;
}
