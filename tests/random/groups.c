/* Groups of parameters, drawn by name, so that other graphs of the recipe have the same: one with a
 * rate, a weight decay and, where something is clipped, a clip of its own, and one that stays. */
#include "random.h"

#include <string.h>

int random_group_of(const random_choice *choice, const random_graph *g, int p) {
  const char *name = ac_tensor_at(g->graph, g->graph->parameters[p])->name;
  const uint64_t drawn = op_draw_hash(g->recipe.key + 1, op_seed(name)) % 3;
  if (!choice->level[RANDOM_groups]) return -1;
  return drawn < RANDOM_GROUPS ? (int)drawn : -1;
}

ac_group_settings random_group_settings(int group, double clip) {
  if (group == 0) return (ac_group_settings){.rate = 0.5, .weight_decay = 0.03, .clip = clip / 2};
  return (ac_group_settings){.rate = group < 0 ? 1 : -1};
}

/* Those that have members. */
void random_groups(const random_choice *choice, const random_graph *g, random_names *names,
                   ac_trainer_desc *desc) {
  const double clip = desc->optimizer.clip;
  desc->group_count = 0;
  for (int group = 0; group < RANDOM_GROUPS; group++) {
    char *text = names->text[group];
    size_t used = 0;
    for (int p = 0; p < g->graph->parameter_count; p++) {
      const char *name = ac_tensor_at(g->graph, g->graph->parameters[p])->name;
      if (random_group_of(choice, g, p) != group) continue;
      used +=
          (size_t)snprintf(text + used, sizeof names->text[0] - used, used ? ",%s" : "%s", name);
      if (used >= sizeof names->text[0]) used = sizeof names->text[0] - 1;
    }
    if (used)
      desc->groups[desc->group_count++] =
          (ac_parameter_group){text, random_group_settings(group, clip)};
  }
}
