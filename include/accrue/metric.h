/** @file
 * Metrics: numbers that are reported with the losses, and that nothing is trained on. A metric is
 * made of the sums of a loss (ac_loss makes them of any tensor of one number a row): a weighted sum
 * and its weight, over a window or a dataset, however that is split.
 *
 *     ac_tensor *top = ac_top_k_accuracy(logits, labels, 5, NULL);
 *     ac_graph_add_metric(graph, "top5", top, AC_METRIC_MEAN);
 *     ac_graph_add_metric(graph, "perplexity", loss, AC_METRIC_EXP);
 *     ac_graph_add_metric(graph, "hits", ac_loss(ac_equal(a, b), NULL), AC_METRIC_MEAN); */
#ifndef ACCRUE_METRIC_H
#define ACCRUE_METRIC_H

#include <accrue/loss.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a metric makes of its sums. */
typedef enum ac_metric_kind {
  AC_METRIC_MEAN = 0, /**< The mean by weight. */
  AC_METRIC_EXP,      /**< exp(mean): perplexity, if the mean is in nats. */
  AC_METRIC_ROOT,     /**< sqrt(mean): of squared errors. NaN if the mean is negative. */
  AC_METRIC_RIGHT     /**< The weighted share of rows that are classified right. */
} ac_metric_kind;

/** Limit of ac_graph_add_metric. */
enum {
  AC_MAX_METRICS = 32 /**< Most metrics of a graph. */
};

/** One metric of a graph, over a window or a dataset. */
typedef struct ac_metric {
  const char *name; /**< As given to ac_graph_add_metric. It belongs to the graph. */
  double value;     /**< As its kind says. NaN without weight. */
  double weight;    /**< The weight of the sum. */
} ac_metric;

/** Reports the sums of a loss under a name, in ac_evaluation.metrics and ac_update.metrics. `sums`
 * is what a loss (or ac_loss) yields. It may be one of the graph's losses, or it is computed
 * forward only and never differentiated. Several metrics may use the same sums. Names are UTF-8, of
 * at most AC_MAX_NAME bytes, and differ from those of the graph's losses and other metrics.
 *
 * What is computed for a metric takes time and memory of windows as well. A metric that is not
 * finite changes nothing. */
AC_API void ac_graph_add_metric(ac_graph *graph, const char *name, ac_tensor *sums,
                                ac_metric_kind kind);

/* ---- of classifiers -------------------------------------------------------------------------- */

/** Settings of a metric of a classifier. */
typedef struct ac_class_desc {
  ac_tensor *weights;   /**< Of rows: f32 [...], finite and >= 0. NULL: ones. */
  bool ignore;          /**< Rows with the target `ignore_index` have no weight. */
  int32_t ignore_index; /**< Such as -100 or -1. */
} ac_class_desc;

/** Sums of the share of rows with a target among the k largest logits. logits are f32 [..., V],
 * targets i32 [...]; 1 <= k <= V. Of equal logits the first one is larger. Like the others here it
 * has no gradient, so it can be a metric and no loss. `desc` may be NULL. */
AC_API ac_tensor *ac_top_k_accuracy(ac_tensor *logits, ac_tensor *targets, int k,
                                    const ac_class_desc *desc);
/** Sums of the precision of a class: of the rows that are classified as it (it is the first of the
 * largest logits), the share with this target. */
AC_API ac_tensor *ac_class_precision(ac_tensor *logits, ac_tensor *targets, int class_id,
                                     const ac_class_desc *desc);
/** Sums of the recall of a class: of the rows with this target, the share that is classified as it.
 */
AC_API ac_tensor *ac_class_recall(ac_tensor *logits, ac_tensor *targets, int class_id,
                                  const ac_class_desc *desc);
/** Sums of the intersection over union of a class: of the rows that have this target or are
 * classified as it, the share with both. In a segmentation a row is a pixel. */
AC_API ac_tensor *ac_class_iou(ac_tensor *logits, ac_tensor *targets, int class_id,
                               const ac_class_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
