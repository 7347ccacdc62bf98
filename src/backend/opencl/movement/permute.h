/* Axes in another order, for the op and for others that want weights so. */
#ifndef AC_OPENCL_PERMUTE_H
#define AC_OPENCL_PERMUTE_H

#include "backend/opencl/shared/opencl.h"

/* Axes of a result, the last one first, with the strides that they have in x. */
typedef struct ac_cl_axes {
  int rank;
  int64_t dim[8], stride[8];
} ac_cl_axes;

/* y: as many elements as the axes have. x and y are handles, of the storage type of the current op.
 */
ac_status ac_cl_permute(ac_opencl *cl, const void *x, void *y, const ac_cl_axes *axes);

#endif
