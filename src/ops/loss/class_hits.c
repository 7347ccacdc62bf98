/* Hits of a classifier, as sums without a gradient: for each row with target t, weight w and
 * prediction p (the first of its largest logits)
 *   top k       weight w,                       hit if fewer than k logits come before logit t
 *   precision   weight w [p = c],               hit if t = c
 *   recall      weight w [t = c],               hit if p = c
 *   union       weight w [p = c or t = c],      hit if p = t
 * Logit j comes before t unless it is at most logit t, or if it is equal with j < t; so a NaN comes
 * before all. The sums are those of weights of hits, and of weights. */
#include "ops/loss/class_hits.h"

#include "ops/loss/loss.h"
#include "ops/words.h"

#include <accrue/metric.h>

static const char *const names[] = {"top_k_accuracy", "class_precision", "class_recall",
                                    "class_iou"};

static ac_tensor *build(ac_class_hits_kind kind, ac_tensor *logits, ac_tensor *targets,
                        int64_t number, const ac_class_desc *desc) {
  const ac_builder builder = {
      names[kind], 3, {"logits f32 [..., V]", "targets i32 [...]", "weights? f32 [...]"}};
  const ac_class_desc described = AC_DESCRIBED(ac_class_desc, desc);
  ac_tensor *operands[] = {logits, targets, described.weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  ac_shape rows = logits->shape;
  rows.rank--;
  if (logits->dtype != AC_F32 || rows.rank < 1 || targets->dtype != AC_I32 ||
      !ac_shape_equal(&targets->shape, &rows) || !ac_loss_weights_match(described.weights, &rows))
    return ac_builder_fail(graph, &builder, operands, NULL);
  const int64_t classes = ac_shape_last(&logits->shape), least = kind == AC_HITS_TOP;
  if (number < least || number > classes - 1 + least)
    return ac_builder_fail(graph, &builder, operands, "%s is %lld, not in [%lld, %lld]",
                           kind == AC_HITS_TOP ? "k" : "the class", (long long)number,
                           (long long)least, (long long)(classes - 1 + least));
  const ac_class_hits_attributes attributes = {(int32_t)kind, (int32_t)number,
                                               described.ignore_index, described.ignore};
  static const ac_shape sums = {.rank = 1, .dim = {AC_LOSS_SUMS}};
  const int node =
      ac_graph_append(graph, AC_OP_class_hits, &attributes, sizeof attributes, 3, operands);
  return ac_graph_add_output(graph, node, AC_ROLE_LOSS, AC_F32, &sums);
}

ac_tensor *ac_top_k_accuracy(ac_tensor *logits, ac_tensor *targets, int k,
                             const ac_class_desc *desc) {
  return build(AC_HITS_TOP, logits, targets, k, desc);
}

ac_tensor *ac_class_precision(ac_tensor *logits, ac_tensor *targets, int class_id,
                              const ac_class_desc *desc) {
  return build(AC_HITS_PRECISION, logits, targets, class_id, desc);
}

ac_tensor *ac_class_recall(ac_tensor *logits, ac_tensor *targets, int class_id,
                           const ac_class_desc *desc) {
  return build(AC_HITS_RECALL, logits, targets, class_id, desc);
}

ac_tensor *ac_class_iou(ac_tensor *logits, ac_tensor *targets, int class_id,
                        const ac_class_desc *desc) {
  return build(AC_HITS_UNION, logits, targets, class_id, desc);
}

/* Nothing is trained on it. */
static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  (void)d, (void)node;
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "plan: hits of a classifier have no gradient and cannot be a loss: make them a "
                 "metric (ac_graph_add_metric)");
}

static int64_t id_limit(const ac_op_args *args) {
  return ac_columns(&args->in[0]);
}

static ac_loss_rows loss_rows(const ac_op_args *args) {
  const ac_class_hits_attributes *attributes = args->attributes;
  return (ac_loss_rows){.weights = args->in[2].count ? 2 : -1,
                        .per_sample = args->in[1].count,
                        .ignore = attributes->ignore,
                        .ignore_index = attributes->ignore_index};
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_class_hits_attributes *a = args->attributes;
  static const char *const kinds[] = {"top", "precision of", "recall of", "union of"};
  ac_words_put(words, ", %s %d", kinds[a->kind], (int)a->number);
  if (a->ignore) ac_words_put(words, ", some ignored");
}

static const ac_class_hits_attributes sampled = {.kind = AC_HITS_TOP, .number = 5};

const ac_op_desc ac_op_desc_class_hits = {
    .can_add = 1,
    .sums = 1,
    .gradient = gradient,
    .flops_per_element = 2,
    .ids = 1,
    .id_limit = id_limit,
    .loss_rows = loss_rows,
    .words = words,
    .sample = {{"vV", "#v"}, {"8"}, &sampled},
};
