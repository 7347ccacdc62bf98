/* Muon: the matrices of hidden layers, by their orthogonal momentum. */
#include "ops/update/muon.h"

#include "core/error.h"
#include "core/floats.h"
#include "ops/update/fold.h"
#include "optimizer/nodes.h"
#include "optimizer/optimizer.h"

/* The rates of its author's examples. */
static const double original_rate = 0.02, original_adamw_rate = 0.015;

/* Its author advises to leave tables and the last layer before a loss to AdamW; a batch touches
 * only a few rows of a table. */
static bool is_hidden_matrix(const ac_tensor *parameter) {
  return parameter->matrix != AC_NO_MATRIX && parameter->shape.rank >= 2 && !parameter->is_table &&
         !parameter->is_head;
}

static void prepare(ac_precision precision, void *of) {
  ((ac_muon_attributes *)of)->factors = ac_optimizer_factors(precision);
}

/* What its steps are multiplied with in addition to the rate. */
static double scale_of(const ac_optimizer_desc *o, const ac_tensor *parameter) {
  const double first = (double)parameter->shape.dim[0],
               rest = (double)ac_shape_count(&parameter->shape) / first;
  if (o->muon_scale == AC_MUON_MATCH_ADAMW) return 0.2 * sqrt(fmax(first, rest));
  return sqrt(fmax(1, parameter->matrix == AC_MATRIX_IN_OUT ? rest / first : first / rest));
}

static void arguments(const ac_step_numbers *n, void *to) {
  const ac_optimizer_desc *o = n->optimizer;
  *(ac_muon_attributes *)to = (ac_muon_attributes){.gradient_factor = (float)n->factor,
                                                   .rate = (float)n->rate,
                                                   .weight_decay = (float)n->weight_decay,
                                                   .momentum = (float)o->momentum,
                                                   .take = (float)(1 - o->momentum),
                                                   .scale = (float)scale_of(o, n->parameter),
                                                   .nesterov = !o->muon_no_nesterov};
  prepare(n->precision, to);
}

static const char *beyond(const ac_step_numbers *n, double *value) {
  const char *decay = ac_optimizer_decay_beyond(n, value);
  if (decay) return decay;
  const double scale = scale_of(n->optimizer, n->parameter);
  *value = n->rate * scale;
  return isfinite((float)n->rate * (float)scale) ? NULL : "learning rate times the scale";
}

static ac_status check(ac_optimizer_desc *o, double *rate) {
  const bool original = o->muon_scale == AC_MUON_ORIGINAL;
  if (!original && o->muon_scale != AC_MUON_MATCH_ADAMW)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: unknown scale of Muon's steps %d",
                   (int)o->muon_scale);
  o->adamw_rate = ac_or_default(o->adamw_rate, original ? original_adamw_rate : 1);
  if (!ac_is_float(o->adamw_rate) || !(o->momentum < 1))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: for Muon the rate of AdamW %g must be finite and the momentum %g "
                   "below 1",
                   o->adamw_rate, o->momentum);
  if (*rate == 0 && original) *rate = original_rate;
  return AC_OK;
}

static bool looks_ahead(const ac_optimizer_desc *o) {
  return !o->muon_no_nesterov;
}

static void fold(const ac_optimizer_desc *o, bool first, ac_fold_attributes *f) {
  f->is_average = first;
  f->take1 = (float)(1 - o->momentum);
}

static void step_folded(void *of) {
  ac_muon_attributes *a = of;
  a->gradient_factor = 1;
  a->momentum = 0;
  a->take = 1;
}

static const ac_fold_rule folded = {.looks_ahead = looks_ahead, .fold = fold, .step = step_folded};

const ac_optimizer_row ac_optimizer_row_muon = {
    .name = "muon",
    .words = "Muon",
    .step = AC_OP_muon,
    .argument_bytes = AC_STEP_ARGUMENTS(ac_muon_attributes),
    .part = AC_STEP_WHOLE,
    .keeps_squares = true,
    .steps = is_hidden_matrix,
    .prepare = prepare,
    .arguments = arguments,
    .beyond = beyond,
    .states = 1,
    .fold = &folded,
    .rate = 1e-3,
    .beta2 = 0.999,
    .momentum = 0.95,
    .has_betas = true,
    .check = check,
    .moves = ac_optimizer_momentum,
};
