/* Losses of vectors, the last dimension: of distances, angles and pairs. */
#include <accrue/pointwise.h>
#include <accrue/reduction.h>

#include "ops/loss/loss.h"

#include <math.h>

/* The sum over the last dimension of a formula of two tensors. */
static ac_tensor *row_sum(const char *formula, ac_tensor *a, ac_tensor *b) {
  ac_tensor *operands[] = {a, b};
  return ac_sum(ac_formula(a->graph, formula, operands, b ? 2 : 1), AC_AXES(-1), false);
}

ac_tensor *ac_triplet_loss(ac_tensor *anchor, ac_tensor *positive, ac_tensor *negative,
                           ac_tensor *weights, float margin) {
  static const ac_builder builder = {
      "triplet_loss",
      4,
      {"anchor f32 [B, ..., D]", "positive f32 [B, ..., D]", "negative f32 [B, ..., D]",
       "weights? f32 [B, ...] like the rows or their first dimensions"}};
  ac_tensor *operands[] = {anchor, positive, negative, weights};
  if (!ac_loss_vectors_match(&builder, operands, 3) ||
      !ac_loss_number(&builder, operands, "margin", margin, 0, INFINITY))
    return NULL;
  const char *squares = "square(a - b + 1e-6)";
  ac_tensor *distances[] = {row_sum(squares, anchor, positive), row_sum(squares, anchor, negative)};
  /* The derivative at 0 is that of PyTorch's clamp. */
  const float numbers[] = {margin, margin};
  ac_tensor *losses =
      ac_loss_formula(anchor->graph, "where(sqrt(a) - sqrt(b) + # >= 0, sqrt(a) - sqrt(b) + #, 0)",
                      distances, 2, numbers);
  return ac_loss_of_rows(losses, weights, 1, 1, anchor);
}

ac_tensor *ac_cosine_embedding_loss(ac_tensor *a, ac_tensor *b, ac_tensor *label,
                                    ac_tensor *weights, float margin) {
  static const ac_builder builder = {"cosine_embedding_loss",
                                     4,
                                     {"a f32 [B, ..., D]", "b f32 [B, ..., D]",
                                      "label f32 [B, ...]",
                                      "weights? f32 [B, ...] like label or its first dimensions"}};
  ac_tensor *operands[] = {a, b, label, weights};
  if (!ac_loss_vectors_match(&builder, operands, 2) ||
      !ac_loss_number(&builder, operands, "margin", margin, -1, 1))
    return NULL;
  ac_shape rows = a->shape;
  rows.rank--;
  if (label->dtype != AC_F32 || !ac_shape_equal(&label->shape, &rows))
    return ac_builder_fail(a->graph, &builder, operands, NULL);
  ac_tensor *sums[] = {row_sum("a * b", a, b), row_sum("square(a)", a, NULL),
                       row_sum("square(a)", b, NULL)};
  ac_tensor *cosine = ac_formula(a->graph, "a * rsqrt((b + 1e-12) * (c + 1e-12))", sums, 3);
  ac_tensor *last[] = {cosine, label};
  const float numbers[] = {margin, margin};
  ac_tensor *losses =
      ac_loss_formula(a->graph, "where(b == 1, 1 - a, 0) + where((b == -1) * (a >= #), a - #, 0)",
                      last, 2, numbers);
  return ac_loss_of_rows(losses, weights, 1, 1, a);
}
