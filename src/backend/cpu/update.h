/* What the steps of parameters share. */
#ifndef AC_BACKEND_CPU_UPDATE_H
#define AC_BACKEND_CPU_UPDATE_H

#include "backend/cpu/kernels.h"

#include <string.h>

/* The working copy in 16 bits, if there is one: blocks (kernels.h) let it be a copy. */
static inline void ac_cpu_copy_parameters(const ac_operand *w, const float *p, int64_t first,
                                          int64_t last) {
  if (w->count) memcpy((float *)w->data + first, p + first, (size_t)(last - first) * sizeof *p);
}

/* An optimizer's formula for `count` elements from `first` on, with what is kept of these as
 * floats; NULL: nothing is. It leaves the working copy alone. */
typedef void ac_cpu_formula(const ac_op_args *args, int64_t first, int64_t count, float *kept0,
                            float *kept1);

/* ---- in optimizer.c -------------------------------------------------------------------------- */

#define ac_cpu_step_floats AC_CPU_NAME(ac_cpu_step_floats)
#define ac_cpu_step_blocks AC_CPU_NAME(ac_cpu_step_blocks)
#define ac_cpu_run_formula AC_CPU_NAME(ac_cpu_run_formula)

/* The formula for elements, or for blocks of 8 bits, and their working copy. Outputs are the
 * parameter, `states` of what is kept, and the copy. */
void ac_cpu_step_floats(const ac_op_args *args, int states, ac_cpu_formula *step, int64_t first,
                        int64_t last);
void ac_cpu_step_blocks(const ac_op_args *args, int states, ac_cpu_formula *step, int64_t first,
                        int64_t last);

/* One of these, as states are stored. */
void ac_cpu_run_formula(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range floats,
                        ac_cpu_range blocks);

/* The kernel of an op that is the formula NAME_step and nothing else. */
#define AC_CPU_OPTIMIZER(name, states)                                             \
  static void name##_floats(const ac_op_args *args, int64_t first, int64_t last) { \
    ac_cpu_step_floats(args, states, name##_step, first, last);                    \
  }                                                                                \
  static void name##_blocks(const ac_op_args *args, int64_t first, int64_t last) { \
    ac_cpu_step_blocks(args, states, name##_step, first, last);                    \
  }                                                                                \
  static void name(const ac_cpu_context *context, const ac_op_args *args) {        \
    ac_cpu_run_formula(context, args, name##_floats, name##_blocks);               \
  }                                                                                \
  const ac_cpu_kernel AC_CPU_KERNEL(name) = {name, NULL};

#endif
