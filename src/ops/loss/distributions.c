/* Losses between distributions that are logits: log softmax(x) = x - log sum exp(x). */
#include <accrue/pointwise.h>
#include <accrue/reduction.h>

#include "ops/loss/loss.h"

#include <float.h>
#include <math.h>

#define VECTORS(name, a, b, a_shape)                                      \
  {                                                                       \
    name, 3, {                                                            \
      a " f32 " a_shape, b " f32 " a_shape,                               \
          "weights? f32 [B, ...] like the rows or their first dimensions" \
    }                                                                     \
  }

ac_tensor *ac_soft_cross_entropy(ac_tensor *logits, ac_tensor *probabilities, ac_tensor *weights) {
  static const ac_builder builder =
      VECTORS("soft_cross_entropy", "logits", "probabilities", "[B, ..., V]");
  ac_tensor *operands[] = {logits, probabilities, weights};
  if (!ac_loss_vectors_match(&builder, operands, 2)) return NULL;
  ac_tensor *parts[] = {logits, ac_logsumexp(logits, AC_AXES(-1), true), probabilities};
  return ac_loss_of_rows(ac_formula(logits->graph, "c * (b - a)", parts, 3), weights,
                         ac_shape_last(&logits->shape), 1, logits);
}

ac_tensor *ac_kl_divergence(ac_tensor *logits, ac_tensor *target_logits, ac_tensor *weights,
                            float temperature) {
  static const ac_builder builder =
      VECTORS("kl_divergence", "logits", "target_logits", "[B, ..., V]");
  ac_tensor *operands[] = {logits, target_logits, weights};
  if (!ac_loss_vectors_match(&builder, operands, 2) ||
      !ac_loss_number(&builder, operands, "temperature", temperature, FLT_MIN, INFINITY))
    return NULL;
  const float inverse = 1 / temperature;
  ac_tensor *x = temperature == 1 ? logits : ac_scale(logits, inverse);
  ac_tensor *y = temperature == 1 ? target_logits : ac_scale(target_logits, inverse);
  /* a and c: logits; b and d: the logarithms of their sums. A class without probability counts for
   * nothing. */
  ac_tensor *parts[] = {x, ac_logsumexp(x, AC_AXES(-1), true), y,
                        ac_logsumexp(y, AC_AXES(-1), true)};
  ac_tensor *losses = ac_formula(
      logits->graph, "exp(c - d) * where(exp(c - d) > 0, (c - d) - (a - b), 0)", parts, 4);
  return ac_loss_of_rows(losses, weights, ac_shape_last(&logits->shape), temperature * temperature,
                         logits);
}

/* x / max(|x|, 1e-12), as PyTorch's normalize. The square is limited, because a root has no
 * derivative at 0. */
static ac_tensor *unit_vectors(ac_tensor *x) {
  ac_tensor *square = ac_sum(ac_square(x), AC_AXES(-1), true);
  ac_tensor *parts[] = {x, square};
  return ac_formula(x->graph, "a / sqrt(maximum(b, 1e-24))", parts, 2);
}

/* s[i, i] is in no row of its own, so it is a sum of products once more. */
ac_tensor *ac_contrastive_loss(ac_tensor *a, ac_tensor *b, ac_tensor *weights, float temperature) {
  static const ac_builder builder = VECTORS("contrastive_loss", "a", "b", "[B, N, D]");
  ac_tensor *operands[] = {a, b, weights};
  if (!ac_loss_vectors_match(&builder, operands, 2)) return NULL;
  if (a->shape.rank != 3) return ac_builder_fail(a->graph, &builder, operands, NULL);
  if (!ac_loss_number(&builder, operands, "temperature", temperature, FLT_MIN, INFINITY))
    return NULL;
  ac_tensor *u = ac_scale(unit_vectors(a), 1 / temperature), *v = unit_vectors(b);
  ac_tensor *scores = ac_matmul(u, v, false, true);
  ac_tensor *parts[] = {ac_logsumexp(scores, AC_AXES(2), false),
                        ac_logsumexp(scores, AC_AXES(1), false),
                        ac_sum(ac_multiply(u, v), AC_AXES(-1), false)};
  return ac_loss_of_rows(ac_formula(a->graph, "(a + b) / 2 - c", parts, 3), weights, 1, 1, a);
}
