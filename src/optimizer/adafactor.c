/* Adafactor: of a matrix, second moments of its rows and its columns. */
#include "ops/update/adafactor.h"

#include "optimizer/optimizer.h"

#include <math.h>

static void keep(const ac_optimizer_desc *o, const ac_tensor *parameter, ac_stepping *s) {
  (void)o;
  const ac_shape *shape = &parameter->shape;
  const int64_t rows = shape->dim[0];
  if (shape->rank < 2) return;
  s->states = 2;
  s->state[0].shape = (ac_shape){.rank = 1, .dim = {rows}};
  s->state[1].shape = (ac_shape){.rank = 1, .dim = {ac_shape_count(shape) / rows}};
}

static void arguments(const ac_step_numbers *n, void *to) {
  *(ac_adafactor_attributes *)to =
      (ac_adafactor_attributes){.gradient_factor = (float)n->factor,
                                .rate = (float)n->rate,
                                .weight_decay = (float)n->weight_decay,
                                .relative = (float)fmin(n->rate, 1 / sqrt(n->update)),
                                .blend = (float)pow(n->update, -0.8),
                                .epsilon1 = 0x1p-23f,
                                .epsilon2 = 1e-3f,
                                .threshold = 1};
}

const ac_optimizer_row ac_optimizer_row_adafactor = {
    .name = "adafactor",
    .words = "Adafactor",
    .step = AC_OP_adafactor,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_adafactor_attributes),
    .part = AC_STEP_WHOLE,
    .keeps_squares = true,
    .arguments = arguments,
    .beyond = ac_optimizer_decay_beyond,
    .states = 1,
    .keep = keep,
    .rate = 1e-2,
    .beta2 = 0.999,
    .momentum = 0.9,
};
