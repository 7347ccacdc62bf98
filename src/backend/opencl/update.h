/* What the steps of parameters share whose states may be in blocks of 8 bits: a work-item an
 * element, or a work-group a block. */
#ifndef AC_BACKEND_OPENCL_UPDATE_H
#define AC_BACKEND_OPENCL_UPDATE_H

#include "backend/opencl/stepped.h"
#include "core/eight_bit.h"

static inline bool ac_cl_is_eight_bit(const ac_op_args *args) {
  return args->out[1].count && args->out[1].dtype == AC_U8;
}

static inline ac_cl_kernel ac_cl_update_kernel(const ac_op_args *args, const char *file,
                                               const char *name) {
  return (ac_cl_kernel){file, name, ac_cl_step_options(args)};
}

static inline ac_cl_grid ac_cl_update_grid(const ac_opencl *cl, const ac_op_args *args) {
  const int64_t count = args->in[0].count;
  return ac_cl_is_eight_bit(args) ? ac_cl_groups(ac_eight_bit_blocks(count), cl->group, 1)
                                  : ac_cl_elements(cl, count);
}

#endif
