/* Parameters in groups by their names, each with a rate, a weight decay and a clip of its own. What
 * of these was changed since the trainer was made is part of its states, as one line of text. */
#ifndef AC_TRAIN_GROUPS_H
#define AC_TRAIN_GROUPS_H

#include <accrue/trainer.h>

#include "graph/graph.h"

typedef struct ac_groups {
  ac_group_settings settings[AC_MAX_GROUPS]; /* clip 0: with the others */
  int count;
  bool changed;
  int *of; /* by parameter: its group, or -1 */
} ac_groups;

/* Takes the groups of a description; release them, also after a failure. */
ac_status ac_groups_begin(ac_groups *groups, const ac_graph *graph, const ac_trainer_desc *desc);
/* Back to the description's settings. */
void ac_groups_reset(ac_groups *groups, const ac_trainer_desc *desc);
void ac_groups_release(ac_groups *groups);
ac_status ac_groups_set(ac_groups *groups, int group, const ac_group_settings *settings);

/* The settings of a parameter; NULL: it is in no group. */
const ac_group_settings *ac_groups_of(const ac_groups *groups, int parameter);
/* The group that a parameter is clipped with; AC_MAX_GROUPS: it is clipped by the norm of all
 * parameters without a clip of their group's. */
int ac_groups_clipping(const ac_groups *groups, int parameter);
/* Whether one of them has a clip. */
bool ac_groups_clip(const ac_groups *groups);

/* Writes groups as text, and reads them back: false if the text does not have as many groups. */
enum { AC_GROUPS_TEXT = AC_MAX_GROUPS * 3 * 32 };
void ac_groups_put(const ac_groups *groups, char text[AC_GROUPS_TEXT]);
bool ac_groups_get(ac_groups *groups, const char *text);

#endif
