/* matmul: one product, or a batch of them over the leading dimensions. */
#include "ops/linear/matmul.h"

#include "backend/opencl/product/gemm.h"

static ac_cl_product product_of(const ac_op_args *args) {
  const ac_matmul_attributes *t = args->attributes;
  const ac_operand *a = &args->in[0], *b = &args->in[1], *c = &args->out[0];
  const int64_t m = c->dim[c->rank - 2], n = c->dim[c->rank - 1];
  const int64_t k = a->dim[a->rank - (t->transpose_a ? 2 : 1)];
  return (ac_cl_product){.a = a->data,
                         .b = b->data,
                         .c = c->data,
                         .transpose_a = t->transpose_a,
                         .transpose_b = t->transpose_b,
                         .add = args->add[0],
                         .batched = c->rank > 2,
                         .m = m,
                         .n = n,
                         .k = k,
                         .batch = c->count / (m * n)};
}

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = product_of(args);
  return ac_cl_gemm_workspace(cl, &product);
}

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_product product = product_of(args);
  return ac_cl_gemm(cl, &product, args->workspace);
}

const ac_cl_op ac_cl_op_matmul = {.run = run, .workspace = workspace};
