/* op(a)[..., M, K] op(b)[..., K, N], one product for each index of the leading dimensions. Threads
 * share out the products if there are enough of them, else the tiles of each. */
#include "backend/cpu/kernels.h"
#include "ops/matmul.h"

static ac_gemm describe(const ac_op_args *args) {
  const ac_matmul_attributes *attributes = args->attributes;
  const ac_operand *a = &args->in[0], *b = &args->in[1], *c = &args->out[0];
  ac_gemm gemm = {.transpose_a = attributes->transpose_a,
                  .transpose_b = attributes->transpose_b,
                  .m = c->dim[c->rank - 2],
                  .n = c->dim[c->rank - 1],
                  .k = a->dim[a->rank - (attributes->transpose_a ? 2 : 1)],
                  .alpha = 1,
                  .beta = args->add[0] ? 1 : 0,
                  .a = a->data,
                  .lda = ac_columns(a),
                  .b = b->data,
                  .ldb = ac_columns(b),
                  .c = c->data,
                  .ldc = ac_columns(c)};
  return gemm;
}

static ac_gemm product(const ac_gemm *first, int64_t index) {
  ac_gemm gemm = *first;
  gemm.a += index * gemm.m * gemm.k;
  gemm.b += index * gemm.k * gemm.n;
  gemm.c += index * gemm.m * gemm.n;
  return gemm;
}

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  ac_gemm first = describe(args);
  int64_t count = args->out[0].count / (first.m * first.n);
  if (count >= team) {
    for (int64_t i = thread; i < count; i += team) {
      ac_gemm gemm = product(&first, i);
      AC_CPU_NAME(ac_cpu_gemm)(context, &gemm, NULL);
    }
    return;
  }
  ac_gemm_tile tile = ac_gemm_split(first.m, first.n, thread, team);
  for (int64_t i = 0; i < count; i++) {
    ac_gemm gemm = product(&first, i), own = ac_gemm_part(&gemm, &tile);
    AC_CPU_NAME(ac_cpu_gemm)(context, &own, NULL);
  }
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, part);
}

const ac_cpu_kernel AC_CPU_KERNEL(matmul) = {run, NULL};
