/* op(a)[..., M, K] op(b)[..., K, N], one product for each index of the leading dimensions. Threads
 * share out the products if there are enough of them, else the tiles of each. */
#include "backend/cpu/product/dot.h"
#include "backend/cpu/product/gemm.h"
#include "ops/linear/matmul.h"

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
                  .a_dtype = a->dtype,
                  .b = b->data,
                  .ldb = ac_columns(b),
                  .b_dtype = b->dtype,
                  .c = c->data,
                  .ldc = ac_columns(c),
                  .c_dtype = c->dtype,
                  .mark = args->run->mark_flushed};
  return gemm;
}

static ac_gemm product(const ac_gemm *first, int64_t index) {
  ac_gemm gemm = *first;
  gemm.a = ac_element(gemm.a, gemm.a_dtype, index * gemm.m * gemm.k);
  gemm.b = ac_element(gemm.b, gemm.b_dtype, index * gemm.k * gemm.n);
  gemm.c = ac_element(gemm.c, gemm.c_dtype, index * gemm.m * gemm.n);
  return gemm;
}

static int64_t product_count(const ac_op_args *args, const ac_gemm *gemm) {
  return args->out[0].count / (gemm->m * gemm->n);
}

/* Bytes of one thread's scratch. */
static uint64_t scratch_bytes(const ac_cpu_context *context, const ac_op_args *args) {
  ac_gemm gemm = describe(args);
  bool whole = product_count(args, &gemm) >= context->threads;
  return ac_cpu_gemm_scratch(context, whole ? 1 : context->threads, &gemm);
}

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  ac_gemm first = describe(args);
  int64_t count = product_count(args, &first);
  uint64_t bytes = scratch_bytes(context, args);
  char *scratch = (char *)args->workspace + (uint64_t)thread * bytes;
  bool whole = count >= team;
  ac_dot_begin(context->dot);
  for (int64_t i = whole ? thread : 0; i < count; i += whole ? team : 1) {
    ac_gemm gemm = product(&first, i);
    if (whole) ac_cpu_gemm_stored(context, &gemm, NULL, scratch, bytes);
    else ac_cpu_gemm_share(context, &gemm, NULL, args->workspace, bytes, thread, team);
  }
  ac_dot_end(context->dot);
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, part);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  return (uint64_t)context->threads * scratch_bytes(context, args);
}

const ac_cpu_kernel AC_CPU_KERNEL(matmul) = {.run = run, .workspace = workspace};
