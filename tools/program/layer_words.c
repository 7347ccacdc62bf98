#include "program/layer_words.h"

#include "common/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const words[] = {[AC_LAYER_NO_HINT] = "none",
                                    [AC_LAYER_DEAD] = "dead",
                                    [AC_LAYER_DEAD_UNITS] = "dead units",
                                    [AC_LAYER_VANISHING] = "vanishing"};

/* False: the parameter was not measured. */
static bool look_at(const ac_trainer *trainer, int index, ac_layer_report *layer,
                    ac_tensor_info *info) {
  return ac_trainer_layer(trainer, index, layer) == AC_OK &&
         ac_trainer_parameter_info(trainer, index, info) == AC_OK;
}

json_t *layer_hints(const ac_trainer *trainer) {
  json_t *list = json_array();
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_layer_report layer;
    ac_tensor_info info;
    if (!look_at(trainer, i, &layer, &info) || layer.hint == AC_LAYER_NO_HINT) continue;
    json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "name", info.name, "hint",
                                          words[layer.hint], "units", (json_int_t)layer.units,
                                          "dead_units", (json_int_t)layer.dead_units));
  }
  return list;
}

/* The first few names of parameters with a hint. */
typedef struct names {
  char text[400];
  int count;
} names;

static void add_name(names *n, const char *name, const ac_layer_report *layer) {
  enum { SHOWN = 4 };
  const size_t used = strlen(n->text);
  char units[64] = "";
  if (layer->hint == AC_LAYER_DEAD_UNITS)
    snprintf(units, sizeof units, " (%" PRId64 " of %" PRId64 ")", layer->dead_units, layer->units);
  if (n->count < SHOWN)
    snprintf(n->text + used, sizeof n->text - used, "%s%.60s%s", n->count ? ", " : "", name, units);
  n->count++;
}

static names find(const ac_trainer *trainer, ac_layer_hint hint, int64_t *measured) {
  names n = {.count = 0};
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_layer_report layer;
    ac_tensor_info info;
    if (!look_at(trainer, i, &layer, &info) || layer.hint != hint) continue;
    add_name(&n, info.name, &layer);
    *measured = layer.measured;
  }
  const size_t used = strlen(n.text);
  if (strchr(n.text, ',') && n.count > 4)
    snprintf(n.text + used, sizeof n.text - used, " and %d more", n.count - 4);
  return n;
}

void layer_words(const ac_trainer *trainer) {
  int64_t measured = 0;
  const names dead = find(trainer, AC_LAYER_DEAD, &measured),
              units = find(trainer, AC_LAYER_DEAD_UNITS, &measured),
              small = find(trainer, AC_LAYER_VANISHING, &measured);
  if (dead.count)
    say("dead layers: no gradient in any of %" PRId64 " updates reached %s; units of a ReLU may be "
        "dead there or in later layers, or nothing uses them",
        measured, dead.text);
  if (units.count)
    say("dead units: no gradient in any of %" PRId64 " updates reached these outputs of %s; if a "
        "ReLU follows, it passes nothing on: a smaller rate, other initial weights or a leaky ReLU "
        "may help",
        measured, units.text);
  if (small.count)
    say("vanishing gradients: an element of them is 10,000 times smaller than in the median layer "
        "in %s; norms, residual connections or other initial weights may help",
        small.text);
}
