/* --group 'PATTERNS:lr=X,decay=X,clip=X': groups of parameters with settings of their own. */
#ifndef TOOLS_PROGRAM_GROUPS_H
#define TOOLS_PROGRAM_GROUPS_H

#include "common/options.h"

#include <accrue/trainer.h>

typedef struct group_flags {
  option_list list;
  char patterns[AC_MAX_GROUPS][256];
} group_flags;

/* Sets the trainer's groups. The flags keep their patterns. Returns a status of message.h. */
int groups_resolve(group_flags *flags, ac_trainer_desc *trainer);

#endif
