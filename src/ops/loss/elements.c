/* Losses that are a formula of each element, and a mean over each sample. */
#include <accrue/pointwise.h>

#include "ops/loss/loss.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what losses of other ops share ---------------------------------------------------------- */

/* All of the first one's shape. */
static bool are_alike(ac_tensor *const *operands, int count) {
  const ac_shape *shape = &operands[0]->shape;
  bool good = shape->batched;
  for (int i = 0; i < count; i++)
    good &= operands[i]->dtype == AC_F32 && ac_shape_equal(&operands[i]->shape, shape);
  return good;
}

static bool matched(bool good, const ac_builder *builder, ac_tensor *const *operands) {
  if (!good) ac_builder_fail(operands[0]->graph, builder, operands, NULL);
  return good;
}

bool ac_loss_elements_match(const ac_builder *builder, ac_tensor *const *operands, int count) {
  if (!ac_builder_graph(builder, operands)) return false;
  ac_shape samples = operands[0]->shape;
  samples.rank = 1;
  return matched(are_alike(operands, count) && ac_loss_weights_match(operands[count], &samples),
                 builder, operands);
}

bool ac_loss_vectors_match(const ac_builder *builder, ac_tensor *const *operands, int count) {
  if (!ac_builder_graph(builder, operands)) return false;
  ac_shape rows = operands[0]->shape;
  rows.rank--;
  return matched(rows.rank >= 1 && are_alike(operands, count) &&
                     ac_loss_weights_lead(operands[builder->count - 1], &rows),
                 builder, operands);
}

bool ac_loss_number(const ac_builder *builder, ac_tensor *const *operands, const char *name,
                    float value, float low, float high) {
  if (value >= low && value <= high && !isinf(value)) return true;
  char range[64];
  if (low == -INFINITY) snprintf(range, sizeof range, "at most %g", (double)high);
  else if (high == INFINITY) snprintf(range, sizeof range, "finite and at least %g", (double)low);
  else snprintf(range, sizeof range, "in [%g, %g]", (double)low, (double)high);
  if (low == FLT_MIN) snprintf(range, sizeof range, "finite and positive");
  ac_builder_fail(operands[0]->graph, builder, operands, "%s is %g, but must be %s", name,
                  (double)value, range);
  return false;
}

/* A float as a fraction of whole numbers, exactly, and as every locale writes it. The power of two
 * is in two parts, as all of it may be too large for a float. */
static int write_number(char *to, size_t size, float value) {
  int power;
  const double whole = ldexp(frexp((double)value, &power), 24);
  power -= 24;
  const char by = power < 0 ? '/' : '*';
  const int half = abs(power) / 2;
  return snprintf(to, size, "(%.0f %c %.0f %c %.0f)", whole, by, ldexp(1, half), by,
                  ldexp(1, abs(power) - half));
}

ac_tensor *ac_loss_formula(ac_graph *graph, const char *formula, ac_tensor *const *operands,
                           int count, const float *numbers) {
  char text[AC_MAX_FORMULA_BYTES + 1];
  size_t used = 0;
  for (const char *c = formula; *c && used < AC_MAX_FORMULA_BYTES; c++) {
    if (*c != '#') text[used++] = *c;
    else used += (size_t)write_number(text + used, sizeof text - used, *numbers++);
  }
  text[used] = 0;
  return ac_formula(graph, text, operands, count);
}

ac_tensor *ac_loss_of_elements(const char *formula, ac_tensor *const *operands, int count,
                               const float *numbers) {
  ac_graph *graph = operands[0]->graph;
  ac_shape sample = operands[0]->shape;
  const int64_t elements = ac_shape_count(&sample) / sample.dim[0];
  return ac_loss_of_rows(ac_loss_formula(graph, formula, operands, count, numbers), operands[count],
                         elements, 1 / (float)elements, operands[0]);
}

/* ---- the losses ------------------------------------------------------------------------------ */

#define SAMPLES(name, a, b)                                    \
  {                                                            \
    name, 3, {                                                 \
      a " f32 [B, ...]", b " f32 [B, ...]", "weights? f32 [B]" \
    }                                                          \
  }

ac_tensor *ac_l1_loss(ac_tensor *prediction, ac_tensor *target, ac_tensor *weights) {
  static const ac_builder builder = SAMPLES("l1_loss", "prediction", "target");
  ac_tensor *operands[] = {prediction, target, weights};
  if (!ac_loss_elements_match(&builder, operands, 2)) return NULL;
  return ac_loss_of_elements("abs(a - b)", operands, 2, NULL);
}

ac_tensor *ac_huber_loss(ac_tensor *prediction, ac_tensor *target, ac_tensor *weights,
                         float delta) {
  static const ac_builder builder = SAMPLES("huber_loss", "prediction", "target");
  ac_tensor *operands[] = {prediction, target, weights};
  const float numbers[] = {delta, delta, delta};
  if (!ac_loss_elements_match(&builder, operands, 2) ||
      !ac_loss_number(&builder, operands, "delta", delta, FLT_MIN, INFINITY))
    return NULL;
  return ac_loss_of_elements("where(abs(a - b) <= #, square(a - b) / 2, # * (abs(a - b) - # / 2))",
                             operands, 2, numbers);
}

ac_tensor *ac_hinge_loss(ac_tensor *prediction, ac_tensor *target, ac_tensor *weights,
                         float margin) {
  static const ac_builder builder = SAMPLES("hinge_loss", "prediction", "target");
  ac_tensor *operands[] = {prediction, target, weights};
  if (!ac_loss_elements_match(&builder, operands, 2) ||
      !ac_loss_number(&builder, operands, "margin", margin, 0, INFINITY))
    return NULL;
  return ac_loss_of_elements("relu(# - a * b)", operands, 2, &margin);
}

/* The cross-entropy is t softplus(-z) + (1 - t) softplus(z), and 1 - p_t is t (1 - p) + (1 - t) p:
 * nothing cancels where the logit is large. */
ac_tensor *ac_focal_loss(ac_tensor *logits, ac_tensor *targets, ac_tensor *weights, float alpha,
                         float gamma) {
  static const ac_builder builder = SAMPLES("focal_loss", "logits", "targets");
  ac_tensor *operands[] = {logits, targets, weights};
  if (!ac_loss_elements_match(&builder, operands, 2) ||
      !ac_loss_number(&builder, operands, "alpha", alpha, -INFINITY, 1) ||
      !ac_loss_number(&builder, operands, "gamma", gamma, 0, INFINITY))
    return NULL;
  /* alpha_t = one b + other (1 - b), where both are 1 if alpha is negative. */
  const float numbers[] = {alpha < 0 ? 1 : alpha, alpha < 0 ? 1 : 1 - alpha, gamma};
  return ac_loss_of_elements(
      "(# * b + # * (1 - b)) * (b * sigmoid(-a) + (1 - b) * sigmoid(a)) ^ # * "
      "(b * softplus(-a) + (1 - b) * softplus(a))",
      operands, 2, numbers);
}

ac_tensor *ac_gaussian_nll(ac_tensor *mean, ac_tensor *target, ac_tensor *variance,
                           ac_tensor *weights) {
  static const ac_builder builder = {
      "gaussian_nll",
      4,
      {"mean f32 [B, ...]", "target f32 [B, ...]", "variance f32 [B, ...]", "weights? f32 [B]"}};
  ac_tensor *operands[] = {mean, target, variance, weights};
  if (!ac_loss_elements_match(&builder, operands, 3)) return NULL;
  /* The gradient of a limited variance is that at the limit, as in PyTorch. */
  const float least[] = {1e-6f, 1e-6f, 1e-6f, 1e-6f};
#define LIMITED "where(c < #, # + (c - stop_gradient(c)), c)"
  return ac_loss_of_elements("(log(" LIMITED ") + square(a - b) / " LIMITED ") / 2", operands, 3,
                             least);
#undef LIMITED
}

ac_tensor *ac_poisson_nll(ac_tensor *log_rate, ac_tensor *target, ac_tensor *weights) {
  static const ac_builder builder = SAMPLES("poisson_nll", "log_rate", "target");
  ac_tensor *operands[] = {log_rate, target, weights};
  if (!ac_loss_elements_match(&builder, operands, 2)) return NULL;
  return ac_loss_of_elements("exp(a) - b * a", operands, 2, NULL);
}
