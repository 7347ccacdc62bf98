/* AdamW. Folded it is AdamA: the second moment gets the squares of the micro-batches' gradients. */
#include "ops/update/fold.h"
#include "ops/update/optimizer.h"
#include "optimizer/optimizer.h"

#include <math.h>

static void arguments(const ac_step_numbers *n, void *to) {
  const ac_optimizer_desc *o = n->optimizer;
  *(ac_adamw_attributes *)to = (ac_adamw_attributes){
      .gradient_factor = (float)n->factor,
      .rate = (float)n->rate,
      .weight_decay = (float)n->weight_decay,
      .take1 = (float)(1 - o->beta1),
      .take2 = (float)(1 - o->beta2),
      .epsilon = (float)o->epsilon,
      .correction1 = (float)ac_optimizer_correction(o->beta1, n->update),
      .sqrt_correction2 = (float)sqrt(ac_optimizer_correction(o->beta2, n->update))};
}

static void fold(const ac_optimizer_desc *o, bool first, ac_fold_attributes *f) {
  f->is_average = first;
  f->take1 = (float)(1 - o->beta1);
  f->take2 = (float)(1 - o->beta2);
}

static void step_folded(void *of) {
  ac_adamw_attributes *a = of;
  a->gradient_factor = 0;
  a->take1 = a->take2 = 0;
}

static const ac_fold_rule folded = {.fold = fold, .step = step_folded};

const ac_optimizer_row ac_optimizer_row_adamw = {
    .name = "adamw",
    .words = "AdamW",
    .step = AC_OP_adamw,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_adamw_attributes),
    .part = AC_STEP_RANGE,
    .keeps_squares = true,
    .arguments = arguments,
    .beyond = ac_optimizer_corrected_beyond,
    .states = 2,
    .eight_bit = true,
    .fold = &folded,
    .rate = 1e-3,
    .beta2 = 0.999,
    .momentum = 0.9,
    .has_betas = true,
    .moves = ac_optimizer_beta1,
};
