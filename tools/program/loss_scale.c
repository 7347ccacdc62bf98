#include "program/loss_scale.h"

#include "common/message.h"

#include <stdlib.h>
#include <string.h>

/* The library's limits. */
#define LEAST 1e-18
#define MOST 3.4e38

void loss_scale_defaults(loss_scale_flags *flags) {
  *flags = (loss_scale_flags){
      .initial = 65536, .growth = 2, .backoff = 0.5, .floor = 1, .interval = 2000};
}

void loss_scale_add_options(loss_scale_flags *f, options *o) {
  const option rows[] = {
      {"loss-scale", "none|dynamic|X", OPTION_TEXT, &f->scale,
       .help = "keeps small gradients from vanishing in 16 bits", .fallback = "dynamic for f16"},
      {"loss-scale-init", "X", OPTION_REAL, &f->initial, .help = "a dynamic scale at the start",
       .least = LEAST, .most = MOST},
      {"loss-scale-growth", "X", OPTION_REAL, &f->growth, .help = "its factor upwards", .least = 1,
       .above_least = true},
      {"loss-scale-interval", "N", OPTION_INTEGER, &f->interval,
       .help = "updates in a row before it grows", .least = 1},
      {"loss-scale-backoff", "X", OPTION_REAL, &f->backoff, .help = "its factor at an overflow",
       .least = 0, .most = 1, .above_least = true, .below_most = true},
      {"loss-scale-floor", "X", OPTION_REAL, &f->floor, .help = "it is never lower", .least = LEAST,
       .most = MOST},
      {"replay", NULL, OPTION_SWITCH, &f->replay,
       .help = "run a window that overflows again at the lower scale, instead of skipping it"},
  };
  OPTIONS_ADD(o, "Loss scale", rows);
}

static bool parse_number(const char *text, double *number) {
  char *end;
  *number = strtod(text, &end);
  /* Decimal numbers only: strtod takes more. */
  return end != text && !*end && !text[strspn(text, "+-.0123456789eE")] && *number >= LEAST &&
         *number <= MOST;
}

static int parse_kind(const char *text, ac_precision precision, ac_loss_scaling_desc *desc) {
  if (!text)
    desc->kind = precision == AC_PRECISION_F16 ? AC_LOSS_SCALING_DYNAMIC : AC_LOSS_SCALING_NONE;
  else if (!strcmp(text, "none")) desc->kind = AC_LOSS_SCALING_NONE;
  else if (!strcmp(text, "dynamic")) desc->kind = AC_LOSS_SCALING_DYNAMIC;
  else if (parse_number(text, &desc->scale)) desc->kind = AC_LOSS_SCALING_STATIC;
  else
    return fail_usage("--loss-scale %s is out of range: it must be none, dynamic or a number from "
                      "%g to %g",
                      text, LEAST, MOST);
  return STATUS_CONTINUE;
}

int loss_scale_resolve(const loss_scale_flags *f, const options *o, ac_precision precision,
                       ac_loss_scaling_desc *desc) {
  static const char *const dynamic[] = {"loss-scale-init",     "loss-scale-growth",
                                        "loss-scale-interval", "loss-scale-backoff",
                                        "loss-scale-floor",    "replay"};
  *desc = (ac_loss_scaling_desc){.scale = f->initial,
                                 .growth = f->growth,
                                 .backoff = f->backoff,
                                 .interval = f->interval,
                                 .floor = f->floor};
  int status = parse_kind(f->scale, precision, desc);
  if (status != STATUS_CONTINUE) return status;
  for (size_t i = 0; i < sizeof dynamic / sizeof *dynamic; i++)
    if (desc->kind != AC_LOSS_SCALING_DYNAMIC && options_given(o, dynamic[i]))
      return fail_usage("--%s has no meaning without --loss-scale dynamic", dynamic[i]);
  if (desc->kind == AC_LOSS_SCALING_DYNAMIC && f->initial < f->floor)
    return fail_usage("--loss-scale-init %g is below --loss-scale-floor %g", f->initial, f->floor);
  return STATUS_CONTINUE;
}
