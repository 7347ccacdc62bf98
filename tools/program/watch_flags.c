#include "program/watch_flags.h"

#include "common/message.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void watch_defaults(watch_flags *flags) {
  *flags = (watch_flags){.spike_deviations = 10, .spike_rate = 0.5, .good_every = 100};
}

void watch_add_options(watch_flags *f, options *o) {
  const option rows[] = {
      FLAG("on-spike", OPTION_CHOICE, &f->on_spike),
      FLAG("spike-deviations", OPTION_REAL, &f->spike_deviations),
      FLAG("spike-rate", OPTION_REAL, &f->spike_rate),
      FLAG("good-every", OPTION_INTEGER, &f->good_every),
      FLAG("layers-every", OPTION_INTEGER, &f->layers_every),
  };
  OPTIONS_ADD(o, rows);
}

int watch_check(const watch_flags *f, const gradient_way *way) {
  if (f->on_spike == AC_SPIKE_SKIP && !way->can_skip)
    return fail_usage("--on-spike skip has nothing to skip with --gradients %s: its updates begin "
                      "before all of a batch is known; give back or tell",
                      way->name);
  return STATUS_CONTINUE;
}

void watch_describe(const watch_flags *f, ac_trainer_desc *trainer) {
  trainer->spikes = (ac_spike_desc){.policy = (ac_spike_policy)f->on_spike,
                                    .deviations = f->spike_deviations,
                                    .back_rate = f->spike_rate};
  trainer->layers_every = f->layers_every;
}

void watch_say_spike(const watch_flags *f, const ac_fit_event *event) {
  const ac_update *u = &event->update;
  const bool by_loss = u->loss > u->spike.loss_limit;
  char then[96] = "";
  if (event->went_back)
    snprintf(then, sizeof then, "; back to the state of step %" PRId64 ", at %g of the rate",
             event->back_to, f->spike_rate);
  else if (u->skipped) snprintf(then, sizeof then, "; the update is skipped");
  say("step %" PRId64 ": a spike: the %s %.4g is above %.4g%s%s", event->step,
      by_loss ? "loss" : "gradient's norm", by_loss ? u->loss : u->grad_norm,
      by_loss ? u->spike.loss_limit : u->spike.norm_limit, then,
      u->spike.begins_anew ? "; after so many in a row what is usual is learned anew" : "");
}
