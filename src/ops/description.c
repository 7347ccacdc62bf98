#include "ops/description.h"

#define AC_OP_DECLARE(name, in, out) extern const ac_op_desc ac_op_desc_##name;
AC_OP_LIST(AC_OP_DECLARE)
#undef AC_OP_DECLARE

static const ac_op_desc *const descriptions[AC_OP_COUNT] = {
#define AC_OP_ENTRY(name, in, out) [AC_OP_##name] = &ac_op_desc_##name,
    AC_OP_LIST(AC_OP_ENTRY)
#undef AC_OP_ENTRY
};

const ac_op_desc *ac_op_describe(ac_op op) {
  return descriptions[op];
}

const char *ac_op_title(ac_op op, const void *attributes) {
  const ac_op_desc *desc = ac_op_describe(op);
  return desc->title && attributes ? desc->title(attributes) : ac_op_name(op);
}

bool ac_op_couples_samples(ac_op op, const void *attributes) {
  const ac_op_desc *desc = ac_op_describe(op);
  return desc->couples_samples || (desc->couples && desc->couples(attributes));
}

double ac_op_operand_bytes(const ac_op_args *args) {
  double bytes = 0;
  for (int i = 0; i < AC_MAX_INPUTS; i++) bytes += ac_operand_bytes(&args->in[i]);
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    bytes += (args->add[i] ? 2 : 1) * ac_operand_bytes(&args->out[i]);
  return bytes;
}

static double bytes_of(const ac_op_desc *desc, const ac_op_args *args) {
  return desc->bytes ? desc->bytes(args) : ac_op_operand_bytes(args);
}

static double flops_of(const ac_op_desc *desc, const ac_op_args *args) {
  return desc->flops ? desc->flops(args) : desc->flops_per_element * (double)args->in[0].count;
}

ac_cost ac_op_cost(const ac_op_args *args) {
  const ac_op_desc *desc = ac_op_describe(args->op);
  return (ac_cost){flops_of(desc, args), bytes_of(desc, args)};
}

ac_cost ac_op_work(const ac_op_args *args) {
  const ac_op_desc *desc = ac_op_describe(args->op);
  const bool arithmetic = desc->bound != AC_BOUND_BY_BYTES;
  return (ac_cost){arithmetic ? flops_of(desc, args) : 0, bytes_of(desc, args)};
}
