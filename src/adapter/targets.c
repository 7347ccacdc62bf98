#include "adapter/targets.h"

#include "core/platform/patterns.h"

#include <math.h>
#include <string.h>

/* Past this a matrix is not small in any sense, and sizes stay far from overflow. */
enum { MOST_RANK = 1 << 20 };

static bool is_amount(double x) {
  return isfinite(x) && x >= 0;
}

const char *ac_lora_fault(const ac_lora_desc *desc) {
  if (desc->rank < 0 || desc->rank > MOST_RANK) return "the rank must be from 0 to 1048576";
  if (!is_amount(desc->alpha)) return "alpha must be finite and not negative";
  if (!(desc->dropout >= 0 && desc->dropout < 1)) return "dropout must be at least 0 and below 1";
  if (desc->module_count < 0 || (desc->module_count && !desc->modules))
    return "module_count does not fit modules";
  for (int i = 0; i < desc->module_count; i++) {
    const ac_lora_module *m = &desc->modules[i];
    if (!m->name || !*m->name) return "a module has no name";
    if (m->rank < 0 || m->rank > MOST_RANK || !is_amount(m->alpha))
      return "a module's rank must be from 0 to 1048576, and its alpha finite and not negative";
    if (!m->rank && !desc->rank) return "a module has no rank, nor has the description";
  }
  return NULL;
}

/* Whether it is the end of the name, after a dot or as a whole. */
static bool is_end(const char *word, const char *name) {
  const size_t all = strlen(name), part = strlen(word);
  return part && part <= all && !strcmp(name + all - part, word) &&
         (part == all || name[all - part - 1] == '.');
}

static bool is_target(const char *targets, const char *name) {
  if (!targets) return true;
  char pattern[AC_PATTERN_BYTES];
  while (ac_pattern_next(&targets, pattern))
    if (ac_pattern_matches(pattern, name) || (!strpbrk(pattern, "*?[") && is_end(pattern, name)))
      return true;
  return false;
}

ac_lora_choice ac_lora_choose(const ac_lora_desc *desc, const char *name) {
  ac_lora_choice choice = {0, 0, 0};
  const ac_lora_module *own = NULL;
  for (int i = 0; i < desc->module_count && !own; i++)
    if (!strcmp(desc->modules[i].name, name)) own = &desc->modules[i];
  if (!own && (!desc->rank || !is_target(desc->targets, name))) return choice;
  choice.rank = own && own->rank ? own->rank : desc->rank;
  choice.alpha = own && own->alpha > 0 ? own->alpha : desc->alpha;
  if (choice.alpha == 0) choice.alpha = 2 * (double)choice.rank;
  const double rank = (double)choice.rank;
  choice.scale = choice.alpha / (desc->rank_stabilised ? sqrt(rank) : rank);
  return choice;
}
