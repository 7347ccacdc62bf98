/* The flags of loss scaling. */
#ifndef TOOLS_PROGRAM_LOSS_SCALE_H
#define TOOLS_PROGRAM_LOSS_SCALE_H

#include "common/options.h"

#include <accrue/loss_scaling.h>
#include <accrue/storage.h>

typedef struct loss_scale_flags {
  const char *scale; /* "none", "dynamic" or a number; NULL: as the precision wants it */
  double initial, growth, backoff, floor;
  int64_t interval;
  bool replay;
} loss_scale_flags;

void loss_scale_defaults(loss_scale_flags *flags);
void loss_scale_add_options(loss_scale_flags *flags, options *o);

/* After the flags were parsed. A status of message.h. */
int loss_scale_resolve(const loss_scale_flags *flags, ac_precision precision,
                       ac_loss_scaling_desc *desc);
/* What --loss-scale means where it is not given. */
const char *loss_scale_implied(ac_precision precision);

#endif
