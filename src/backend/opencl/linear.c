/* linear: products with a weight stored [out,in] or [in,out], and column sums for the bias. */
#include "ops/linear.h"

#include "backend/opencl/gemm.h"
#include "core/error.h"

static bool out_in(const ac_op_args *args) {
  return ((const ac_linear_attributes *)args->attributes)->layout == AC_OUT_IN;
}

static ac_cl_product forward_product(const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *w = &args->in[1], *bias = &args->in[2], *y = &args->out[0];
  return (ac_cl_product){.a = x->data,
                         .b = w->data,
                         .bias = bias->count ? bias->data : NULL,
                         .c = y->data,
                         .transpose_b = out_in(args),
                         .m = ac_rows(x),
                         .n = ac_columns(y),
                         .k = ac_columns(x),
                         .batch = 1};
}

uint64_t ac_cl_linear_workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = forward_product(args);
  return ac_cl_gemm_workspace(cl, &product);
}

ac_status ac_cl_linear(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = forward_product(args);
  return ac_cl_gemm(cl, &product, args->workspace);
}

static ac_cl_product input_product(const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *w = &args->in[1], *dx = &args->out[0];
  return (ac_cl_product){.a = dy->data,
                         .b = w->data,
                         .c = dx->data,
                         .transpose_b = !out_in(args),
                         .add = args->add[0],
                         .m = ac_rows(dy),
                         .n = ac_columns(dx),
                         .k = ac_columns(dy),
                         .batch = 1};
}

uint64_t ac_cl_linear_input_gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = input_product(args);
  return ac_cl_gemm_workspace(cl, &product);
}

ac_status ac_cl_linear_input_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = input_product(args);
  return ac_cl_gemm(cl, &product, args->workspace);
}

/* dW = dy' x for [out,in], x' dy for [in,out]. */
static ac_cl_product weight_product(const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *dy = &args->in[1];
  const ac_operand *a = out_in(args) ? dy : x, *b = out_in(args) ? x : dy;
  return (ac_cl_product){.a = a->data,
                         .b = b->data,
                         .c = args->out[0].data,
                         .transpose_a = true,
                         .float_c = true,
                         .add = args->add[0],
                         .m = ac_columns(a),
                         .n = ac_columns(b),
                         .k = ac_rows(x),
                         .batch = 1};
}

uint64_t ac_cl_linear_weight_gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[1];
  const ac_cl_product product = weight_product(args);
  uint64_t gemm = args->out[0].count ? ac_cl_gemm_workspace(cl, &product) : 0;
  uint64_t sums = args->out[1].count ? ac_cl_column_sums_workspace(ac_rows(dy), ac_columns(dy)) : 0;
  return gemm > sums ? gemm : sums;
}

ac_status ac_cl_linear_weight_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[1];
  const ac_cl_product product = weight_product(args);
  if (args->out[0].count) AC_TRY(ac_cl_gemm(cl, &product, args->workspace));
  if (!args->out[1].count) return AC_OK;
  return ac_cl_column_sums(cl, dy->data, ac_rows(dy), ac_columns(dy), args->out[1].data,
                           args->add[1], args->workspace);
}
