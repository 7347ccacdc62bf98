/* What ends a window, as nodes of a graph. */
#ifndef AC_OPS_UPDATE_H
#define AC_OPS_UPDATE_H

#include <accrue/plan.h>

#include "graph/graph.h"
#include "ops/description.h"

enum { AC_MAX_STATES = AC_MAX_CALLBACK_STATES };

/* How one parameter is stepped: by which op, and what is kept for it from window to window. */
typedef struct ac_stepping {
  ac_op op;   /* of a caller's own optimizer: what leaves the gradient to step by */
  bool folds; /* what is folded goes into its first state, by which it is then stepped */
  int states;
  struct {
    ac_dtype dtype;
    ac_shape shape;
  } state[AC_MAX_STATES];
} ac_stepping;
ac_stepping ac_optimizer_stepping(const ac_plan_desc *desc, const ac_tensor *parameter);

/* Whether what makes one output of a layer is a column, as of what is stored [in, out]. */
bool ac_optimizer_by_column(const ac_tensor *parameter);

/* What Muon may keep its products' factors in (ops/update/muon.h). */
static inline ac_dtype ac_optimizer_factors(const ac_plan_desc *desc) {
  return desc->precision == AC_PRECISION_BF16 ? AC_BF16 : AC_F32;
}

/* Appends to a differentiated and stored graph what ends a window, parameter by parameter: the
 * statistics of each gradient, what clips it if that is an op, and its step. Or, if gradients are
 * folded: what folds the gradient into the parameter's state, then the statistics of that state,
 * and the step. */
ac_status ac_optimizer_append(ac_graph *graph, const ac_plan_desc *desc, bool folds);

/* Bytes of a step: parameter and states are read and written; the copy in 16 bits is written. */
double ac_update_bytes(const ac_op_args *args);

#endif
