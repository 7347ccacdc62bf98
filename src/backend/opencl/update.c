#include "backend/opencl/update.h"

#include "core/integers.h"

/* Arguments of a kernel for one parameter, and behind those of all. */
enum { EACH = 10, ARGUMENTS = AC_CL_JOINED * EACH + 1 };

static int64_t groups_of(const ac_opencl *cl, const ac_op_args *args) {
  const int64_t count = args->in[0].count;
  if (!ac_cl_is_eight_bit(args)) return ac_ceil_div(count, cl->group);
  return ac_ceil_div(ac_eight_bit_blocks(count), cl->cpu ? AC_CL_BLOCKS : 1);
}

/* Without `args`: of a parameter that is not there, which begins where all groups end. */
static void fill_slot(ac_cl_argument slot[EACH], const ac_op_args *args, int states,
                      int64_t first_group, ac_cl_update_factors *factors) {
  static const ac_op_args absent;
  float f[AC_CL_FACTORS] = {0};
  const bool is_there = args != NULL;
  if (is_there) factors(args, f);
  else args = &absent;
  const ac_operand *const kept = args->out + 1;
  slot[0] = AC_CL_OPERAND(args->in[0]);
  slot[1] = AC_CL_OPERAND(args->out[0]);
  slot[2] = AC_CL_OPERAND(kept[0]);
  slot[3] = states > 1 ? AC_CL_OPERAND(kept[1]) : AC_CL_BUFFER(NULL);
  slot[4] = AC_CL_OPERAND(kept[states]);
  slot[5] = AC_CL_LONG(args->in[0].count);
  slot[6] = AC_CL_SEED(is_there ? args->run->seed ^ args->name_hash : 0);
  slot[7] = AC_CL_UINT(args->first / 8);
  slot[8] = AC_CL_UINT(first_group);
  slot[9] = AC_CL_FLOATS(f);
}

ac_status ac_cl_update(ac_opencl *cl, const char *file, const char *name,
                       const ac_op_args *const *args, int count, int states,
                       ac_cl_update_factors *factors) {
  ac_cl_argument arguments[ARGUMENTS];
  int64_t groups = 0;
  for (int i = 0; i < AC_CL_JOINED; i++) {
    const ac_op_args *own = i < count ? args[i] : NULL;
    fill_slot(&arguments[i * EACH], own, states, groups, factors);
    if (own) groups += groups_of(cl, own);
  }
  arguments[ARGUMENTS - 1] = AC_CL_UINT(args[0]->run->update);
  const int items = !ac_cl_is_eight_bit(args[0]) ? cl->group : cl->cpu ? 1 : AC_CL_BLOCK_GROUP;
  return ac_cl_launch(cl, ac_cl_update_kernel(args[0], file, name), ac_cl_groups(groups, items, 1),
                      arguments, ARGUMENTS);
}
