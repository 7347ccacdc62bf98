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
      FLAG("loss-scale", OPTION_TEXT, &f->scale),
      FLAG("loss-scale-init", OPTION_REAL, &f->initial),
      FLAG("loss-scale-growth", OPTION_REAL, &f->growth),
      FLAG("loss-scale-interval", OPTION_INTEGER, &f->interval),
      FLAG("loss-scale-backoff", OPTION_REAL, &f->backoff),
      FLAG("loss-scale-floor", OPTION_REAL, &f->floor),
      FLAG("replay", OPTION_SWITCH, &f->replay),
  };
  OPTIONS_ADD(o, rows);
}

static bool parse_number(const char *text, double *number) {
  char *end;
  *number = strtod(text, &end);
  /* Decimal numbers only: strtod takes more. */
  return end != text && !*end && !text[strspn(text, "+-.0123456789eE")] && *number >= LEAST &&
         *number <= MOST;
}

const char *loss_scale_implied(ac_precision precision) {
  return precision == AC_PRECISION_F16 ? "dynamic" : "none";
}

static int parse_kind(const char *text, ac_precision precision, ac_loss_scaling_desc *desc) {
  if (!text) text = loss_scale_implied(precision);
  if (!strcmp(text, "none")) desc->kind = AC_LOSS_SCALING_NONE;
  else if (!strcmp(text, "dynamic")) desc->kind = AC_LOSS_SCALING_DYNAMIC;
  else if (parse_number(text, &desc->scale)) desc->kind = AC_LOSS_SCALING_STATIC;
  else
    return fail_usage("--loss-scale %s is out of range: it must be none, dynamic or a number from "
                      "%g to %g",
                      text, LEAST, MOST);
  return STATUS_CONTINUE;
}

int loss_scale_resolve(const loss_scale_flags *f, ac_precision precision,
                       ac_loss_scaling_desc *desc) {
  *desc = (ac_loss_scaling_desc){.scale = f->initial,
                                 .growth = f->growth,
                                 .backoff = f->backoff,
                                 .interval = f->interval,
                                 .floor = f->floor};
  int status = parse_kind(f->scale, precision, desc);
  if (status != STATUS_CONTINUE) return status;
  if (desc->kind == AC_LOSS_SCALING_DYNAMIC && f->initial < f->floor)
    return fail_usage("--loss-scale-init %g is below --loss-scale-floor %g", f->initial, f->floor);
  return STATUS_CONTINUE;
}
