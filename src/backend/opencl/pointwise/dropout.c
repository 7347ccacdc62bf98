/* dropout: masks that are a function of seed, update, sample and element alone. */
#include "ops/pointwise/dropout.h"

#include "backend/opencl/shared/opencl.h"
#include "core/random.h"

static ac_status dropout(ac_opencl *cl, const ac_op_args *args) {
  const ac_dropout_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  const ac_run_state *run = args->run;
  if (!cl->preparing && !run->training)
    return ac_cl_copy(cl, args->out[0].data, x->data,
                      (uint64_t)x->count * ac_dtype_bytes(x->dtype));
  const int64_t samples = x->count / a->elements_per_sample;
  const int64_t blocks = (a->elements_per_sample + 7) / 8;
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"dropout", "dropout", NULL}), ac_cl_elements(cl, samples * blocks),
      AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(samples), AC_CL_LONG(blocks),
      AC_CL_LONG(a->elements_per_sample), AC_CL_SEED(run->seed), AC_CL_UINT(run->sample),
      AC_CL_UINT(run->update), AC_CL_UINT(a->stream), AC_CL_UINT(ac_dropout_threshold(a->p)),
      AC_CL_FLOAT(ac_dropout_factor(a->p)), AC_CL_INT(a->whole));
}

const ac_cl_op ac_cl_op_dropout = {.run = dropout};
