/* The ops of an update. They belong to no graph: a trainer runs them on parameters, gradients and
 * moments. */
#include "ops/optimizer.h"

static double statistics_flops(const ac_op_args *args) {
  return 3.0 * (double)args->in[0].count;
}
static double adamw_flops(const ac_op_args *args) {
  return 14.0 * (double)args->in[0].count;
}
static double sgd_flops(const ac_op_args *args) {
  return 6.0 * (double)args->in[0].count;
}

/* Parameter and moments are read and written; the copy in 16 bits, which comes last, is written. */
static double update_bytes(const ac_op_args *args) {
  double bytes = ac_op_operand_bytes(args);
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    if (args->out[i].dtype == AC_F32) bytes += ac_operand_bytes(&args->out[i]);
  return bytes;
}

const ac_op_desc ac_op_desc_gradient_statistics = {.name = "gradient_statistics",
                                                   .flops = statistics_flops};
const ac_op_desc ac_op_desc_adamw = {.name = "adamw", .flops = adamw_flops, .bytes = update_bytes};
const ac_op_desc ac_op_desc_sgd = {.name = "sgd", .flops = sgd_flops, .bytes = update_bytes};
