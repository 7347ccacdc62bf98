#include "ops/op.h"

#define AC_OP_DECLARE(name) extern const ac_op_desc ac_op_desc_##name;
AC_OP_LIST(AC_OP_DECLARE)
#undef AC_OP_DECLARE

static const ac_op_desc *const descriptions[AC_OP_COUNT] = {
#define AC_OP_ENTRY(name) [AC_OP_##name] = &ac_op_desc_##name,
    AC_OP_LIST(AC_OP_ENTRY)
#undef AC_OP_ENTRY
};

const ac_op_desc *ac_op_describe(ac_op op) {
  return descriptions[op];
}

const char *ac_op_name(ac_op op) {
  return descriptions[op]->name;
}

static double operand_bytes(const ac_operand *x, bool present) {
  return present ? (double)x->count * (double)ac_dtype_bytes(x->dtype) : 0;
}

ac_cost ac_op_cost(const ac_op_args *args) {
  const ac_op_desc *desc = ac_op_describe(args->op);
  ac_cost cost = {desc->flops ? desc->flops(args) : 0, 0};
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    cost.bytes += operand_bytes(&args->in[i], args->in[i].count > 0);
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    cost.bytes += (args->add[i] ? 2 : 1) * operand_bytes(&args->out[i], args->out[i].count > 0);
  return cost;
}
