/* Flags about watching a run, and what is said of spikes. */
#ifndef TOOLS_PROGRAM_WATCH_FLAGS_H
#define TOOLS_PROGRAM_WATCH_FLAGS_H

#include "common/storage.h"

#include <accrue/accrue.h>

typedef struct watch_flags {
  int on_spike; /* ac_spike_policy */
  double spike_deviations, spike_rate;
  int64_t good_every;
  int64_t layers_every;
} watch_flags;

void watch_defaults(watch_flags *flags);
void watch_add_options(watch_flags *flags, options *o);
/* Refuses a policy that this way to keep gradients cannot follow, with a status of message.h. */
int watch_check(const watch_flags *flags, const gradient_way *way);
void watch_describe(const watch_flags *flags, ac_trainer_desc *trainer);

/* Says how a window was a spike, and what followed. */
void watch_say_spike(const watch_flags *flags, const ac_fit_event *event);

#endif
