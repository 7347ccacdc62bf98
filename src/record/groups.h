/* Parameters in groups by their names, each with a rate, a weight decay and a clip of its own. What
 * of these was changed since the trainer was made is part of its states. */
#ifndef AC_RECORD_GROUPS_H
#define AC_RECORD_GROUPS_H

#include <accrue/trainer.h>

#include "graph/graph.h"

#define AC_STATE_GROUPS "accrue.state.groups"

typedef struct ac_groups {
  ac_group_settings settings[AC_MAX_GROUPS];  /* clip 0: with the others */
  ac_group_settings described[AC_MAX_GROUPS]; /* as the trainer was made with */
  int count;
  bool changed; /* since; then they are part of states */
  int *of;      /* by parameter: its group, or -1 */
} ac_groups;

/* Takes the groups of a description; release them, also after a failure. */
ac_status ac_groups_begin(ac_groups *groups, const ac_graph *graph, const ac_trainer_desc *desc);
/* Back to the description's settings. */
void ac_groups_reset(ac_groups *groups);
void ac_groups_release(ac_groups *groups);
ac_status ac_groups_set(ac_groups *groups, int group, const ac_group_settings *settings);

/* The settings of a parameter; NULL: it is in no group. */
const ac_group_settings *ac_groups_of(const ac_groups *groups, int parameter);
/* The group that a parameter is clipped with; AC_MAX_GROUPS: it is clipped by the norm of all
 * parameters without a clip of their group's. */
int ac_groups_clipping(const ac_groups *groups, int parameter);
/* Whether one of them has a clip. */
bool ac_groups_clip(const ac_groups *groups);

#endif
