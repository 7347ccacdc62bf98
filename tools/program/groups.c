#include "program/groups.h"

#include "common/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The library must not take a zero of a group for its default. */
static double or_off(double x) {
  return x == 0 ? -1 : x;
}

/* One of "lr=X", "decay=X", "clip=X" at *text. *text then points after it and its comma. */
static bool take_setting(const char **text, ac_group_settings *settings) {
  const struct {
    const char *name;
    double *value;
  } all[] = {
      {"lr=", &settings->rate}, {"decay=", &settings->weight_decay}, {"clip=", &settings->clip}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const size_t length = strlen(all[i].name);
    if (strncmp(*text, all[i].name, length) != 0) continue;
    char *end;
    const double value = strtod(*text + length, &end);
    if (end == *text + length || (*end && *end != ',') || !(value >= 0) || isinf(value))
      return false;
    *all[i].value = or_off(value);
    *text = *end ? end + 1 : end;
    return *end != ',' || **text;
  }
  return false;
}

static int resolve(const char *item, char patterns[256], ac_parameter_group *group) {
  const char *colon = strrchr(item, ':'), *text = colon ? colon + 1 : "";
  const size_t length = colon ? (size_t)(colon - item) : 0;
  bool good = length > 0 && length < 256 && *text;
  *group = (ac_parameter_group){.patterns = patterns};
  while (good && *text) good = take_setting(&text, &group->settings);
  if (!good)
    return fail_usage("--group %s is not PATTERNS:SETTINGS, such as '*.bias:decay=0' or "
                      "'*.wte.*,*.wpe.*:lr=0.1,clip=1'",
                      item);
  memcpy(patterns, item, length);
  patterns[length] = 0;
  return STATUS_CONTINUE;
}

int groups_resolve(group_flags *flags, ac_trainer_desc *trainer) {
  trainer->group_count = flags->list.count;
  int status = STATUS_CONTINUE;
  for (int i = 0; i < flags->list.count && status == STATUS_CONTINUE; i++)
    status = resolve(flags->list.items[i], flags->patterns[i], &trainer->groups[i]);
  return status;
}
