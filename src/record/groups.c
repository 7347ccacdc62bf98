#include "record/groups.h"

#include "core/error.h"
#include "core/floats.h"
#include "core/platform/patterns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ac_status ac_groups_set(ac_groups *groups, int group, const ac_group_settings *settings) {
  if (group < 0 || group >= groups->count)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: group %d of %d", group, groups->count);
  if (!ac_is_float(settings->rate) || !ac_is_float(settings->weight_decay) || isnan(settings->clip))
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "trainer: a setting of group %d is not finite: rate %g, weight decay %g and clip "
        "%g must be, and the first two at most 3.4e38",
        group, settings->rate, settings->weight_decay, settings->clip);
  if (settings->clip > 0 && settings->clip < (double)FLT_MIN)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: clip %g of group %d leaves nothing of a gradient",
                   settings->clip, group);
  ac_group_settings *own = &groups->settings[group];
  *own = *settings;
  own->rate = own->rate < 0 ? 0 : own->rate > 0 ? own->rate : 1;
  return AC_OK;
}

bool ac_parameter_group_matches(const ac_parameter_group *group, const char *name) {
  return group && group->patterns && name && ac_patterns_match(group->patterns, name);
}

static ac_status find_members(ac_groups *groups, const ac_graph *graph, const char *patterns,
                              int group) {
  char pattern[AC_PATTERN_BYTES];
  while (ac_pattern_next(&patterns, pattern)) {
    bool any = false;
    for (int i = 0; i < graph->parameter_count; i++) {
      if (!ac_patterns_match(pattern, ac_tensor_at(graph, graph->parameters[i])->name)) continue;
      any = true;
      if (groups->of[i] < 0) groups->of[i] = group;
    }
    if (!any)
      return ac_fail(AC_ERROR_ARGUMENT, "trainer: no parameter's name matches \"%s\" of group %d",
                     pattern, group);
  }
  return AC_OK;
}

ac_status ac_groups_begin(ac_groups *groups, const ac_graph *graph, const ac_trainer_desc *desc) {
  if (desc->group_count < 0 || desc->group_count > AC_MAX_GROUPS)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: %d groups of parameters; there are at most %d",
                   desc->group_count, AC_MAX_GROUPS);
  groups->count = desc->group_count;
  groups->of = malloc(((size_t)graph->parameter_count + 1) * sizeof *groups->of);
  if (!groups->of) return ac_fail(AC_ERROR_MEMORY, "no memory for groups of parameters");
  for (int i = 0; i < graph->parameter_count; i++) groups->of[i] = -1;
  for (int g = 0; g < groups->count; g++) {
    if (!desc->groups[g].patterns)
      return ac_fail(AC_ERROR_ARGUMENT, "trainer: group %d has no patterns", g);
    AC_TRY(find_members(groups, graph, desc->groups[g].patterns, g));
    AC_TRY(ac_groups_set(groups, g, &desc->groups[g].settings));
  }
  memcpy(groups->described, groups->settings, sizeof groups->described);
  return AC_OK;
}

void ac_groups_reset(ac_groups *groups) {
  memcpy(groups->settings, groups->described, sizeof groups->settings);
  groups->changed = false;
}

void ac_groups_release(ac_groups *groups) {
  free(groups->of);
}

const ac_group_settings *ac_groups_of(const ac_groups *groups, int parameter) {
  const int group = groups->of[parameter];
  return group < 0 ? NULL : &groups->settings[group];
}

int ac_groups_clipping(const ac_groups *groups, int parameter) {
  const ac_group_settings *own = ac_groups_of(groups, parameter);
  return own && own->clip != 0 ? groups->of[parameter] : AC_MAX_GROUPS;
}

bool ac_groups_clip(const ac_groups *groups) {
  for (int g = 0; g < groups->count; g++)
    if (groups->settings[g].clip > 0) return true;
  return false;
}
