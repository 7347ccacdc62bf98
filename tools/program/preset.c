#include "program/preset.h"

#include "common/message.h"
#include "common/suggest.h"

#include <stdio.h>
#include <string.h>

static void list_names(const char *kind, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < model_preset_count && used < size; i++)
    if (!strcmp(model_presets[i].kind, kind))
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                               model_presets[i].name);
}

/* In the place of the default; what is given on the command line replaces it. */
static option *propose(options *o, const char *name) {
  option *row = options_find(o, name);
  row->given = row->recorded = true;
  return row;
}

static void set_number(options *o, const char *name, int64_t value) {
  *(int64_t *)propose(o, name)->value = value;
}

/* Bytes are what a text is learned as without --vocab. */
static void apply_gpt(options *o, const gpt_config *c) {
  set_number(o, "layers", c->layers);
  set_number(o, "heads", c->heads);
  set_number(o, "width", c->width);
  set_number(o, "context", c->context);
  if (c->vocab != PRESET_BYTE_VOCAB) set_number(o, "vocab", c->vocab);
}

static int unknown(const char *kind, const char *name, const char *where) {
  char names[256];
  const char *near = NULL;
  int least = 3;
  for (int i = 0; i < model_preset_count; i++) {
    if (strcmp(model_presets[i].kind, kind) != 0) continue;
    const int d = suggest_distance(name, strlen(name), model_presets[i].name);
    if (d < least) least = d, near = model_presets[i].name;
  }
  list_names(kind, names, sizeof names);
  return fail_usage("%s--preset %s is unknown; %s%s%s%s has %s", where, name,
                    near ? "did you mean " : "", near ? near : "", near ? "? " : "", kind, names);
}

/* Of what a kind has, and a preset says. */
static void apply_number(options *o, const char *name, int64_t value) {
  if (value && options_find(o, name)) set_number(o, name, value);
}

static void apply_choice(options *o, const char *name, int value) {
  if (value && options_find(o, name)) *(int *)propose(o, name)->value = value;
}

static void apply_net(options *o, const image_net *net) {
  apply_number(o, "depth", net->depth);
  apply_number(o, "width", net->base);
  apply_number(o, "heads", net->heads);
  apply_number(o, "patch", net->patch);
  apply_choice(o, "stem", net->stem);
  apply_choice(o, "norm", net->norm);
  apply_choice(o, "variant", net->variant);
  apply_choice(o, "pixels", net->pixels);
}

int preset_apply(options *o, const char *kind, const char *name, const char *where) {
  const model_preset *preset = model_preset_find(name);
  if (!preset) return unknown(kind, name, where);
  if (strcmp(preset->kind, kind) != 0)
    return fail_usage("%s--preset %s is a shape of the model %s, not of %s", where, name,
                      preset->kind, kind);
  if (!strcmp(kind, "gpt")) apply_gpt(o, &preset->gpt);
  else if (!strcmp(kind, "mlp")) *(const char **)propose(o, "hidden")->value = preset->hidden;
  else apply_net(o, &preset->net);
  return STATUS_CONTINUE;
}

const model_preset *preset_given(const options *o) {
  const option *row = options_find(o, "preset"); /* eval and its like have none */
  const char *name = row ? *(const char *const *)row->value : NULL;
  return name ? model_preset_find(name) : NULL;
}
