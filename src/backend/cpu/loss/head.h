/* What ops of the output projection run: those with a loss, and those with a result for each row.
 */
#ifndef AC_BACKEND_CPU_HEAD_H
#define AC_BACKEND_CPU_HEAD_H

#include "backend/cpu/shared/kernels.h"

#define ac_cpu_head_run AC_CPU_NAME(ac_cpu_head_run)
#define ac_cpu_head_workspace AC_CPU_NAME(ac_cpu_head_workspace)

void ac_cpu_head_run(const ac_cpu_context *context, const ac_op_args *args);
uint64_t ac_cpu_head_workspace(const ac_cpu_context *context, const ac_op_args *args);

#endif
