/* What ends a window, as nodes of a graph. */
#ifndef AC_OPTIMIZER_NODES_H
#define AC_OPTIMIZER_NODES_H

#include "optimizer/optimizer.h"

ac_stepping ac_optimizer_stepping(const ac_plan_desc *desc, const ac_tensor *parameter);

/* Whether what makes one output of a layer is a column, as of what is stored [in, out]. */
bool ac_optimizer_by_column(const ac_tensor *parameter);

/* What Muon may keep its products' factors in (ops/update/muon.h). */
static inline ac_dtype ac_optimizer_factors(ac_precision precision) {
  return precision == AC_PRECISION_BF16 ? AC_BF16 : AC_F32;
}

/* Appends to a differentiated and stored graph what ends a window, parameter by parameter: the
 * statistics of each gradient, what clips it if that is an op, and its step. Or, if gradients are
 * folded: what folds the gradient into the parameter's state, then the statistics of that state,
 * and the step. */
ac_status ac_optimizer_append(ac_graph *graph, const ac_plan_desc *desc, bool folds);

#endif
