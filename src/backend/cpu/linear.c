/* y = x W + b and its gradients: three matrix products, each split over the threads of one parallel
 * region. Products start from the bias, which costs no pass of its own; its gradient is the column
 * sums of dy. */
#include "backend/cpu/kernels.h"

#include "ops/linear.h"

static bool in_out(const ac_op_args *args) {
  return ((const ac_linear_attributes *)args->attributes)->layout == AC_IN_OUT;
}

static ac_gemm forward_product(const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
  int64_t in = ac_columns(x), out = ac_columns(y);
  return (ac_gemm){.transpose_b = !in_out(args),
                   .m = ac_rows(x),
                   .n = out,
                   .k = in,
                   .alpha = 1,
                   .a = x->data,
                   .lda = in,
                   .a_dtype = x->dtype,
                   .b = w->data,
                   .ldb = in_out(args) ? out : in,
                   .b_dtype = w->dtype,
                   .c = y->data,
                   .ldc = out,
                   .c_dtype = y->dtype,
                   .mark = args->run->mark_flushed};
}

/* dx = dy W^T, W as [in, out] */
static ac_gemm input_product(const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *w = &args->in[1], *dx = &args->out[0];
  int64_t in = ac_columns(dx), out = ac_columns(dy);
  return (ac_gemm){.transpose_b = in_out(args),
                   .m = ac_rows(dy),
                   .n = in,
                   .k = out,
                   .alpha = 1,
                   .beta = args->add[0] ? 1 : 0,
                   .a = dy->data,
                   .lda = out,
                   .a_dtype = dy->dtype,
                   .b = w->data,
                   .ldb = in_out(args) ? out : in,
                   .b_dtype = w->dtype,
                   .c = dx->data,
                   .ldc = in,
                   .c_dtype = dx->dtype,
                   .mark = args->run->mark_flushed};
}

/* dW = x^T dy ([in, out]) or dy^T x ([out, in]) */
static ac_gemm weight_product(const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *dy = &args->in[1];
  const ac_operand *left = in_out(args) ? x : dy, *right = in_out(args) ? dy : x;
  int64_t m = ac_columns(left), n = ac_columns(right);
  return (ac_gemm){.transpose_a = true,
                   .m = m,
                   .n = n,
                   .k = ac_rows(x),
                   .alpha = 1,
                   .beta = args->add[0] ? 1 : 0,
                   .a = left->data,
                   .lda = m,
                   .a_dtype = left->dtype,
                   .b = right->data,
                   .ldb = n,
                   .b_dtype = right->dtype,
                   .c = args->out[0].data,
                   .ldc = n};
}

/* One thread's tile of the product; `bias` (may be NULL) starts each row of C. */
static void run_tile(const ac_cpu_context *context, const ac_op_args *args, const ac_gemm *gemm,
                     const float *bias, int thread, int team) {
  ac_gemm_tile tile = ac_gemm_split(gemm->m, gemm->n, thread, team);
  ac_gemm part = ac_gemm_part(gemm, &tile);
  uint64_t bytes = ac_cpu_gemm_scratch(context->threads, gemm);
  char *scratch = (char *)args->workspace + (uint64_t)thread * bytes;
  ac_cpu_gemm_stored(context, &part, bias ? bias + tile.n0 : NULL, scratch, bytes);
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  ac_gemm product = forward_product(args);
  run_tile(context, args, &product, args->in[2].count ? args->in[2].data : NULL, thread, team);
}

static void input_gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                                int team) {
  ac_gemm product = input_product(args);
  run_tile(context, args, &product, NULL, thread, team);
}

/* db = column sums of dy */
static void weight_gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                                 int team) {
  const ac_operand *dy = &args->in[1], *db = &args->out[1];
  if (args->out[0].count) {
    ac_gemm product = weight_product(args);
    run_tile(context, args, &product, NULL, thread, team);
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
  return (uint64_t)context->threads * ac_cpu_gemm_scratch(context->threads, &product);
}

const ac_cpu_kernel AC_CPU_KERNEL(linear) = {forward, workspace};
const ac_cpu_kernel AC_CPU_KERNEL(linear_input_gradient) = {input_gradient, workspace};
const ac_cpu_kernel AC_CPU_KERNEL(linear_weight_gradient) = {weight_gradient, workspace};
