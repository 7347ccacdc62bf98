/* y = x W + b and its gradients: three matrix products, each split over the threads of one parallel
 * region. Products start from the bias, which costs no pass of its own; its gradient is the column
 * sums of dy. */
#include "backend/cpu/kernels.h"

#include "ops/linear.h"

static bool in_out(const ac_op_args *args) {
  return ((const ac_linear_attributes *)args->attributes)->layout == AC_IN_OUT;
}

/* One thread's tile of the product; `bias` (may be NULL) starts each row of C. */
static void run_tile(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias,
                     int thread, int team) {
  ac_gemm_tile tile = ac_gemm_split(gemm->m, gemm->n, thread, team);
  ac_gemm part = ac_gemm_part(gemm, &tile);
  AC_CPU_NAME(ac_cpu_gemm)(context, &part, bias ? bias + tile.n0 : NULL);
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const float *bias = args->in[2].count ? args->in[2].data : NULL;
  int64_t in = ac_columns(x), out = ac_columns(y);
  ac_gemm gemm = {.transpose_b = !in_out(args),
                  .m = ac_rows(x),
                  .n = out,
                  .k = in,
                  .alpha = 1,
                  .beta = 0,
                  .a = x->data,
                  .lda = in,
                  .b = args->in[1].data,
                  .ldb = in_out(args) ? out : in,
                  .c = y->data,
                  .ldc = out};
  run_tile(context, &gemm, bias, thread, team);
}

/* dx = dy W^T, W as [in, out] */
static void input_gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                                int team) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  int64_t in = ac_columns(dx), out = ac_columns(dy);
  ac_gemm gemm = {.transpose_b = in_out(args),
                  .m = ac_rows(dy),
                  .n = in,
                  .k = out,
                  .alpha = 1,
                  .beta = args->add[0] ? 1 : 0,
                  .a = dy->data,
                  .lda = out,
                  .b = args->in[1].data,
                  .ldb = in_out(args) ? out : in,
                  .c = dx->data,
                  .ldc = in};
  run_tile(context, &gemm, NULL, thread, team);
}

/* dW = x^T dy ([in, out]) or dy^T x ([out, in]);  db = column sums of dy */
static void weight_gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                                 int team) {
  const ac_operand *x = &args->in[0], *dy = &args->in[1];
  if (args->out[0].count) {
    const ac_operand *left = in_out(args) ? x : dy, *right = in_out(args) ? dy : x;
    int64_t m = ac_columns(left), n = ac_columns(right);
    ac_gemm gemm = {.transpose_a = true,
                    .m = m,
                    .n = n,
                    .k = ac_rows(x),
                    .alpha = 1,
                    .beta = args->add[0] ? 1 : 0,
                    .a = left->data,
                    .lda = m,
                    .b = right->data,
                    .ldb = n,
                    .c = args->out[0].data,
                    .ldc = n};
    run_tile(context, &gemm, NULL, thread, team);
  }
  if (args->out[1].count) AC_CPU_NAME(ac_cpu_column_sums)
  (ac_rows(dy), ac_columns(dy), dy->data, args->out[1].data, args->add[1], thread, team);
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

const ac_cpu_kernel AC_CPU_KERNEL(linear) = {forward, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(linear_input_gradient) = {input_gradient, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(linear_weight_gradient) = {weight_gradient, NULL};
