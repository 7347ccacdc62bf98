/* transpose: swaps two dimensions. */
#include "ops/movement/transpose.h"

#include "backend/opencl/movement/transpose.h"

static int64_t product(const ac_operand *x, int first, int end) {
  int64_t n = 1;
  for (int i = first; i < end; i++) n *= x->dim[i];
  return n;
}

ac_status ac_cl_transpose(ac_opencl *cl, const void *x, void *y, const ac_cl_swap *s) {
  const int64_t count = s->outer * s->a * s->middle * s->b * s->run;
  if (s->run > 1)
    return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"transpose", "transpose_runs", NULL}),
                        ac_cl_elements(cl, count), AC_CL_BUFFER(x), AC_CL_BUFFER(y),
                        AC_CL_LONG(count), AC_CL_LONG(s->a), AC_CL_LONG(s->middle),
                        AC_CL_LONG(s->b), AC_CL_LONG(s->run));
  const int64_t tiles = (s->a + 31) / 32 * ((s->b + 31) / 32) * s->outer * s->middle;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"transpose", "transpose_tile", NULL}),
                      ac_cl_groups(tiles, 32, ac_cl_lanes(cl)), AC_CL_BUFFER(x), AC_CL_BUFFER(y),
                      AC_CL_LONG(s->a), AC_CL_LONG(s->middle), AC_CL_LONG(s->b));
}

static ac_status transpose(ac_opencl *cl, const ac_op_args *args) {
  const ac_transpose_attributes *t = args->attributes;
  const ac_operand *x = &args->in[0];
  const ac_cl_swap swap = {product(x, 0, t->axis_a), x->dim[t->axis_a],
                           product(x, t->axis_a + 1, t->axis_b), x->dim[t->axis_b],
                           product(x, t->axis_b + 1, x->rank)};
  return ac_cl_transpose(cl, x->data, args->out[0].data, &swap);
}

const ac_cl_op ac_cl_op_transpose = {.run = transpose};
