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
      {"on-spike", "off|tell|skip|back", OPTION_CHOICE, &f->on_spike,
       .help = "where a batch's loss or gradient is far beyond those before it: say so, skip the "
               "update too, or go back to the last good state at a smaller rate"},
      {"spike-deviations", "K", OPTION_REAL, &f->spike_deviations,
       .help = "robust deviations above the median of the last 64 batches that make a spike",
       .above_least = true},
      {"spike-rate", "X", OPTION_REAL, &f->spike_rate,
       .help = "what going back multiplies rates by, for good", .most = 1, .above_least = true},
      {"good-every", "N", OPTION_INTEGER, &f->good_every,
       .help = "updates between good states to go back to", .least = 1},
      {"layers-every", "K", OPTION_INTEGER, &f->layers_every,
       .help = "updates between measurements of each layer: norms of gradients and weights, and "
               "what an update changes; at the end hints on dead layers",
       .fallback = "none", .least = 1},
  };
  OPTIONS_ADD(o, "Watching", rows);
}

int watch_check(const watch_flags *f, const options *o, ac_gradients gradients) {
  const bool folded = gradients == AC_GRADIENTS_FOLDED,
             local = gradients == AC_GRADIENTS_FUSED_LOCAL;
  if (options_given_now(o, "spike-deviations") && f->on_spike == AC_SPIKE_IGNORE)
    return fail_usage("--spike-deviations has no meaning without --on-spike");
  if (options_given_now(o, "spike-rate") && f->on_spike != AC_SPIKE_BACK)
    return fail_usage("--spike-rate has no meaning without --on-spike back");
  if (options_given_now(o, "good-every") && f->on_spike != AC_SPIKE_BACK)
    return fail_usage("--good-every has no meaning without --on-spike back");
  if (f->on_spike == AC_SPIKE_SKIP && (folded || local))
    return fail_usage("--on-spike skip has nothing to skip with --gradients %s: its updates begin "
                      "before all of a batch is known; give back or tell",
                      folded ? "folded" : "fused-local");
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
