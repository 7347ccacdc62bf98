/* Two dimensions swapped, for the op and for others that want a matrix the other way round. */
#ifndef AC_OPENCL_TRANSPOSE_H
#define AC_OPENCL_TRANSPOSE_H

#include "backend/opencl/shared/opencl.h"

/* x[outer,a,middle,b,run] becomes y[outer,b,middle,a,run]. */
typedef struct ac_cl_swap {
  int64_t outer, a, middle, b, run;
} ac_cl_swap;

/* x and y are handles, of the storage type of the current op. */
ac_status ac_cl_transpose(ac_opencl *cl, const void *x, void *y, const ac_cl_swap *swap);

#endif
