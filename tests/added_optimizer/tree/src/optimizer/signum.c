/* Signum: the sign of the momentum. Folded it is the same, apart from rounding. */
#include "ops/update/signum.h"

#include "ops/update/fold.h"
#include "optimizer/optimizer.h"

static void arguments(const ac_step_numbers *n, void *to) {
  *(ac_signum_attributes *)to = (ac_signum_attributes){.gradient_factor = (float)n->factor,
                                                       .rate = (float)n->rate,
                                                       .weight_decay = (float)n->weight_decay,
                                                       .take = (float)(1 - n->optimizer->momentum)};
}

static void fold(const ac_optimizer_desc *o, bool first, ac_fold_attributes *f) {
  f->is_average = first;
  f->take1 = (float)(1 - o->momentum);
}

static void step_folded(void *of) {
  ac_signum_attributes *a = of;
  a->gradient_factor = 0;
  a->take = 0;
}

static const ac_fold_rule folded = {.fold = fold, .step = step_folded};

const ac_optimizer_row ac_optimizer_row_signum = {
    .name = "signum",
    .words = "Signum",
    .step = AC_OP_signum,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_signum_attributes),
    .part = AC_STEP_RANGE,
    .arguments = arguments,
    .beyond = ac_optimizer_decay_beyond,
    .states = 1,
    .eight_bit = true,
    .fold = &folded,
    .rate = 1e-4,
    .beta2 = 0.999,
    .momentum = 0.9,
    .moves = ac_optimizer_momentum,
};
