/* Adam-mini: AdamW with one second moment for each block. */
#include "ops/update/adam_mini.h"

#include "optimizer/nodes.h"
#include "optimizer/optimizer.h"

#include <math.h>

/* Rows are what makes one output, or one token's; of layers stored the other way it is columns. A
 * vector is one block (ops/update/adam_mini.h). */
static void keep(const ac_optimizer_desc *o, const ac_tensor *parameter, ac_stepping *s) {
  (void)o;
  const ac_shape *shape = &parameter->shape;
  ac_shape *blocks = &s->state[1].shape;
  *blocks = (ac_shape){.rank = 2, .dim = {1, 1}};
  if (shape->rank < 2) return;
  if (ac_optimizer_by_column(parameter)) blocks->dim[1] = shape->dim[1];
  else blocks->dim[0] = shape->dim[0];
}

static void arguments(const ac_step_numbers *n, void *to) {
  const ac_optimizer_desc *o = n->optimizer;
  *(ac_adam_mini_attributes *)to = (ac_adam_mini_attributes){
      .gradient_factor = (float)n->factor,
      .rate = (float)n->rate,
      .weight_decay = (float)n->weight_decay,
      .take1 = (float)(1 - o->beta1),
      .take2 = (float)(1 - o->beta2),
      .epsilon = (float)o->epsilon,
      .correction1 = (float)ac_optimizer_correction(o->beta1, n->update),
      .sqrt_correction2 = (float)sqrt(ac_optimizer_correction(o->beta2, n->update))};
}

const ac_optimizer_row ac_optimizer_row_adam_mini = {
    .name = "adam-mini",
    .words = "Adam-mini",
    .step = AC_OP_adam_mini,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_adam_mini_attributes),
    .part = AC_STEP_ROWS,
    .keeps_squares = true,
    .arguments = arguments,
    .beyond = ac_optimizer_corrected_beyond,
    .states = 2,
    .keep = keep,
    .rate = 1e-3,
    .beta2 = 0.999,
    .momentum = 0.9,
    .has_betas = true,
    .moves = ac_optimizer_beta1,
};
