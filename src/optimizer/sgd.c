/* SGD, with and without momentum. */
#include "ops/update/fold.h"
#include "ops/update/optimizer.h"
#include "optimizer/optimizer.h"

static void keep(const ac_optimizer_desc *o, const ac_tensor *parameter, ac_stepping *s) {
  (void)parameter;
  if (o->sgd_no_momentum) s->states = 0;
}

static void arguments(const ac_step_numbers *n, void *to) {
  *(ac_sgd_attributes *)to = (ac_sgd_attributes){.gradient_factor = (float)n->factor,
                                                 .rate = (float)n->rate,
                                                 .weight_decay = (float)n->weight_decay,
                                                 .momentum = (float)n->optimizer->momentum,
                                                 .nesterov = n->optimizer->nesterov};
}

static double moves(const ac_optimizer_desc *o) {
  return o->sgd_no_momentum ? 0 : o->momentum;
}

static const char *refuses(const ac_optimizer_desc *o) {
  return o->sgd_no_momentum
             ? "SGD without momentum keeps nothing that gradients could be folded into"
             : NULL;
}

static bool looks_ahead(const ac_optimizer_desc *o) {
  return o->nesterov;
}

static void fold(const ac_optimizer_desc *o, bool first, ac_fold_attributes *f) {
  if (first) f->keep1 = (float)o->momentum;
}

static void step_folded(void *of) {
  ac_sgd_attributes *a = of;
  a->gradient_factor = 1;
  a->first = true;
}

static const ac_fold_rule folded = {
    .refuses = refuses, .looks_ahead = looks_ahead, .fold = fold, .step = step_folded};

const ac_optimizer_row ac_optimizer_row_sgd = {
    .name = "sgd",
    .words = "SGD",
    .step = AC_OP_sgd,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_sgd_attributes),
    .part = AC_STEP_RANGE,
    .arguments = arguments,
    .states = 1,
    .eight_bit = true,
    .keep = keep,
    .fold = &folded,
    .rate = 0.1,
    .beta2 = 0.999,
    .momentum = 0.9,
    .moves = moves,
};
