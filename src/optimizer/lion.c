/* Lion. */
#include "ops/update/lion.h"
#include "optimizer/optimizer.h"

static void arguments(const ac_step_numbers *n, void *to) {
  const ac_optimizer_desc *o = n->optimizer;
  *(ac_lion_attributes *)to = (ac_lion_attributes){.gradient_factor = (float)n->factor,
                                                   .rate = (float)n->rate,
                                                   .weight_decay = (float)n->weight_decay,
                                                   .beta1 = (float)o->beta1,
                                                   .take1 = (float)(1 - o->beta1),
                                                   .take2 = (float)(1 - o->beta2)};
}

const ac_optimizer_row ac_optimizer_row_lion = {
    .name = "lion",
    .words = "Lion",
    .step = AC_OP_lion,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_lion_attributes),
    .part = AC_STEP_RANGE,
    .arguments = arguments,
    .beyond = ac_optimizer_decay_beyond,
    .states = 1,
    .eight_bit = true,
    .rate = 1e-4,
    .beta2 = 0.99,
    .momentum = 0.9,
    .has_betas = true,
    .moves = ac_optimizer_beta1,
};
