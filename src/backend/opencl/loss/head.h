/* What ops of the output projection run: those with a loss, and those with a result for each row.
 */
#ifndef AC_OPENCL_HEAD_H
#define AC_OPENCL_HEAD_H

#include "backend/opencl/shared/opencl.h"

ac_status ac_cl_head_run(ac_opencl *cl, const ac_op_args *args);
uint64_t ac_cl_head_workspace(ac_opencl *cl, const ac_op_args *args);

#endif
