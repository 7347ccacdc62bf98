/* y = x W + b + u B^T and its gradients: matrix products, each split over the threads of one
 * parallel region. Products start from the bias, so the bias needs no pass of its own; its gradient
 * is the column sums of dy. What an adapter adds, u B^T, is a second product into the same result.
 */
#include "backend/cpu/product/layer.h"
#include "ops/linear/linear.h"

static ac_matrix matrix_of(const ac_operand *x) {
  return (ac_matrix){.data = x->data, .dtype = x->dtype, .blocks = x->blocks};
}

static ac_layer layer_of(const ac_op_args *args, const ac_operand *x, const ac_operand *w,
                         const ac_operand *y, bool add) {
  return (ac_layer){.rows = ac_rows(x),
                    .in = ac_columns(x),
                    .out = ac_columns(y),
                    .in_out = ((const ac_linear_attributes *)args->attributes)->layout == AC_IN_OUT,
                    .x = matrix_of(x),
                    .w = matrix_of(w),
                    .y = matrix_of(y),
                    .add = add,
                    .round_w = w->dtype == AC_F32 && y->dtype == AC_BF16,
                    .mark = args->run->mark_flushed};
}

static ac_gemm forward_product(const ac_op_args *args) {
  ac_layer layer = layer_of(args, &args->in[0], &args->in[1], &args->out[0], false);
  return ac_layer_output(&layer);
}

/* u B^T, added to what is there. */
static ac_gemm adapter_product(const ac_op_args *args) {
  ac_layer layer = layer_of(args, &args->in[3], &args->in[4], &args->out[0], true);
  layer.in_out = false;
  return ac_layer_output(&layer);
}

static ac_gemm input_product(const ac_op_args *args) {
  ac_layer layer = layer_of(args, &args->out[0], &args->in[1], &args->in[0], args->add[0]);
  return ac_layer_input_gradient(&layer);
}

static ac_gemm weight_product(const ac_op_args *args) {
  ac_layer layer = layer_of(args, &args->in[0], &args->out[0], &args->in[1], args->add[0]);
  return ac_layer_weight_gradient(&layer);
}

/* The thread's share; `bias` (may be NULL) starts each row of C. */
static void run_share(const ac_cpu_context *context, const ac_op_args *args, const ac_gemm *product,
                      const float *bias, int thread, int team) {
  uint64_t bytes = ac_cpu_gemm_scratch(context, context->threads, product);
  ac_cpu_gemm_share(context, product, bias, args->workspace, bytes, thread, team);
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  ac_gemm product = forward_product(args);
  run_share(context, args, &product, ac_cpu_data(&args->in[2]), thread, team);
  if (!args->in[3].count) return;
  ac_cpu_barrier(team); /* a thread's scratch for this product may be another's for that one */
  product = adapter_product(args);
  run_share(context, args, &product, NULL, thread, team);
}

static void input_gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                                int team) {
  ac_gemm product = input_product(args);
  run_share(context, args, &product, NULL, thread, team);
}

/* db = column sums of dy */
static void weight_gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                                 int team) {
  const ac_operand *dy = &args->in[1], *db = &args->out[1];
  if (args->out[0].count) {
    ac_gemm product = weight_product(args);
    run_share(context, args, &product, NULL, thread, team);
  }
  if (db->count)
    ac_cpu_column_sums(ac_rows(dy), ac_columns(dy), dy->data, dy->dtype, db->data, args->add[1],
                       thread, team);
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, forward_part);
}

static void input_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, input_gradient_part);
}

static void weight_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, weight_gradient_part);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  ac_gemm product = args->op == AC_OP_linear                  ? forward_product(args)
                    : args->op == AC_OP_linear_input_gradient ? input_product(args)
                                                              : weight_product(args);
  uint64_t scratch = ac_cpu_gemm_scratch(context, context->threads, &product);
  if (args->op == AC_OP_linear && args->in[3].count) {
    product = adapter_product(args);
    const uint64_t more = ac_cpu_gemm_scratch(context, context->threads, &product);
    if (more > scratch) scratch = more;
  }
  return (uint64_t)context->threads * scratch;
}

const ac_cpu_kernel AC_CPU_KERNEL(linear) = {
    .run = forward, .workspace = workspace, .rounds = 1u << 1 | 1u << 4, .decodes = 1u << 1};
const ac_cpu_kernel AC_CPU_KERNEL(linear_input_gradient) = {
    .run = input_gradient, .workspace = workspace, .rounds = 1u << 1, .decodes = 1u << 1};
const ac_cpu_kernel AC_CPU_KERNEL(linear_weight_gradient) = {.run = weight_gradient,
                                                             .workspace = workspace};
