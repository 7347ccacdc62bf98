/* The steps of parameters that use the kernels of cl/update/parameter.h. */
#include "backend/opencl/update/update.h"

#include "core/integers.h"

#include <string.h>

/* Arguments of a kernel for one parameter, with its first work-group for one of several. */
enum { ONE = 9, EACH = ONE + 1 };

static void fill(ac_cl_argument arguments[ONE], const ac_op_args *args, const ac_cl_step *step) {
  const ac_operand *const kept = args->out + 1;
  float factors[AC_CL_FACTORS] = {0};
  step->factors(args, factors);
  const ac_cl_argument own[ONE] = {
      AC_CL_FLOATS(factors),
      AC_CL_OPERAND(args->in[0]),
      AC_CL_OPERAND(args->out[0]),
      AC_CL_OPERAND(kept[0]),
      step->states > 1 ? AC_CL_OPERAND(kept[1]) : AC_CL_BUFFER(NULL),
      AC_CL_OPERAND(kept[step->states]),
      AC_CL_LONG(args->in[0].count),
      AC_CL_OWN_ROUNDING(args),
  };
  memcpy(arguments, own, sizeof own);
}

static ac_cl_grid grid_of(const ac_opencl *cl, const ac_op_args *args) {
  const int64_t count = args->in[0].count, blocks = ac_eight_bit_blocks(count);
  if (!ac_cl_is_eight_bit(args)) return ac_cl_elements(cl, count);
  return cl->cpu ? ac_cl_groups(ac_ceil_div(blocks, AC_CL_BLOCKS), 1, 1)
                 : ac_cl_groups(blocks, AC_CL_BLOCK_GROUP, 1);
}

ac_status ac_cl_update(ac_opencl *cl, const ac_op_args *args, const ac_cl_step *step) {
  ac_cl_argument arguments[ONE + 1];
  fill(arguments, args, step);
  arguments[ONE] = AC_CL_UINT(args->run->update);
  return ac_cl_launch(cl, ac_cl_update_kernel(args, step->file, step->name), grid_of(cl, args),
                      arguments, ONE + 1);
}

bool ac_cl_update_joins(const ac_opencl *cl, const ac_op_args *args) {
  return !ac_cl_is_eight_bit(args) && args->in[0].count <= ac_cl_small(cl);
}

ac_status ac_cl_update_each(ac_opencl *cl, const ac_op_args *const *args, int count,
                            const ac_cl_step *step) {
  enum { ARGUMENTS = AC_CL_JOINED * EACH + 1 };
  ac_cl_argument arguments[ARGUMENTS];
  int64_t groups = 0;
  for (int i = 0; i < AC_CL_JOINED; i++) {
    /* After the last there are no groups. */
    fill(&arguments[i * EACH], args[i < count ? i : 0], step);
    arguments[i * EACH + ONE] = AC_CL_UINT(groups);
    if (i < count) groups += ac_ceil_div(args[i]->in[0].count, cl->group);
  }
  arguments[ARGUMENTS - 1] = AC_CL_UINT(args[0]->run->update);
  return ac_cl_launch(cl, ac_cl_update_kernel(args[0], step->file, step->each),
                      ac_cl_groups(groups, cl->group, 1), arguments, ARGUMENTS);
}
