/* Ops that treat each channel of each image by itself: [B, C, H, W] is B x C planes. */
#ifndef AC_BACKEND_CPU_PLANES_H
#define AC_BACKEND_CPU_PLANES_H

#include "backend/cpu/shared/kernels.h"

/* One plane, as floats: `in` are those of the inputs, `out` that of output 0, which is added to if
 * args->add[0]. */
typedef void (*ac_cpu_plane)(const ac_op_args *args, const float *const *in, float *out);

#define ac_cpu_for_planes AC_CPU_NAME(ac_cpu_for_planes)
#define ac_cpu_planes_workspace AC_CPU_NAME(ac_cpu_planes_workspace)

/* Calls `plane` for all planes; `weight` is the elements of work in one. The workspace is that of
 * ac_cpu_planes_workspace. */
void ac_cpu_for_planes(const ac_cpu_context *context, const ac_op_args *args, int64_t weight,
                       ac_cpu_plane plane);
uint64_t ac_cpu_planes_workspace(const ac_cpu_context *context, const ac_op_args *args);

#endif
