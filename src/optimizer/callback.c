/* An optimizer of the caller's own: what it keeps, and what it is told (window/callback.c calls
 * it). Its settings have AdamW's defaults. */
#include "optimizer/optimizer.h"

static void keep(const ac_optimizer_desc *o, const ac_tensor *parameter, ac_stepping *s) {
  (void)parameter;
  s->states = o->callback_states;
}

static void arguments(const ac_step_numbers *n, void *to) {
  *(ac_callback_arguments *)to = (ac_callback_arguments){n->rate, n->weight_decay};
}

const ac_optimizer_row ac_optimizer_row_callback = {
    .name = "callback",
    .words = "a callback",
    .step = AC_OP_clip,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_callback_arguments),
    .hands_over = true,
    .part = AC_STEP_WHOLE,
    .arguments = arguments,
    .keep = keep,
    .rate = 1e-3,
    .beta2 = 0.999,
    .momentum = 0.9,
    .has_betas = true,
};
