/* linear: products with a weight stored [out,in] or [in,out], the product of an adapter added to
 * the result, and column sums for the bias. */
#include "ops/linear/linear.h"

#include "backend/opencl/product/layer.h"
#include "backend/opencl/shared/sums.h"
#include "core/error.h"

static ac_cl_layer layer_of(const ac_op_args *args, const ac_operand *x, ac_cl_matrix w,
                            const ac_operand *y, bool add) {
  return (ac_cl_layer){.rows = ac_rows(x),
                       .in = ac_columns(x),
                       .out = ac_columns(y),
                       .out_in =
                           ((const ac_linear_attributes *)args->attributes)->layout == AC_OUT_IN,
                       .x = {.data = x->data},
                       .w = w,
                       .y = {.data = y->data},
                       .add = add};
}

static ac_cl_product forward_product(const ac_op_args *args) {
  const ac_operand *bias = &args->in[2];
  const ac_cl_matrix w = {.data = args->in[1].data};
  const ac_cl_layer layer = layer_of(args, &args->in[0], w, &args->out[0], false);
  ac_cl_product product = ac_cl_layer_output(&layer);
  product.bias = bias->count ? bias->data : NULL;
  return product;
}

/* u B^T, added to what is there. */
static ac_cl_product adapter_product(const ac_op_args *args) {
  const ac_cl_matrix w = {.data = args->in[4].data};
  ac_cl_layer layer = layer_of(args, &args->in[3], w, &args->out[0], true);
  layer.out_in = true;
  return ac_cl_layer_output(&layer);
}

static uint64_t forward_workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = forward_product(args), more = adapter_product(args);
  const uint64_t bytes = ac_cl_gemm_workspace(cl, &product),
                 adapter = args->in[3].count ? ac_cl_gemm_workspace(cl, &more) : 0;
  return adapter > bytes ? adapter : bytes;
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = forward_product(args), more = adapter_product(args);
  AC_TRY(ac_cl_gemm(cl, &product, args->workspace));
  return args->in[3].count ? ac_cl_gemm(cl, &more, args->workspace) : AC_OK;
}

static ac_cl_product input_product(const ac_op_args *args) {
  const ac_cl_matrix w = {.data = args->in[1].data};
  const ac_cl_layer layer = layer_of(args, &args->out[0], w, &args->in[0], args->add[0]);
  return ac_cl_layer_input_gradient(&layer);
}

static uint64_t input_gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = input_product(args);
  return ac_cl_gemm_workspace(cl, &product);
}

static ac_status input_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = input_product(args);
  return ac_cl_gemm(cl, &product, args->workspace);
}

static ac_cl_product weight_product(const ac_op_args *args) {
  const ac_cl_matrix dw = {.data = args->out[0].data, .is_float = true};
  const ac_cl_layer layer = layer_of(args, &args->in[0], dw, &args->in[1], args->add[0]);
  return ac_cl_layer_weight_gradient(&layer);
}

static uint64_t weight_gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[1];
  const ac_cl_product product = weight_product(args);
  uint64_t gemm = args->out[0].count ? ac_cl_gemm_workspace(cl, &product) : 0;
  uint64_t sums = args->out[1].count ? ac_cl_column_sums_workspace(ac_rows(dy), ac_columns(dy)) : 0;
  return gemm > sums ? gemm : sums;
}

static ac_status weight_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[1];
  const ac_cl_product product = weight_product(args);
  if (args->out[0].count) AC_TRY(ac_cl_gemm(cl, &product, args->workspace));
  if (!args->out[1].count) return AC_OK;
  return ac_cl_column_sums(cl, dy->data, ac_rows(dy), ac_columns(dy), args->out[1].data,
                           args->add[1], args->workspace);
}

const ac_cl_op ac_cl_op_linear = {.run = forward, .workspace = forward_workspace};
const ac_cl_op ac_cl_op_linear_input_gradient = {.run = input_gradient,
                                                 .workspace = input_gradient_workspace};
const ac_cl_op ac_cl_op_linear_weight_gradient = {.run = weight_gradient,
                                                  .workspace = weight_gradient_workspace};
