/* A gradient clipped before its step. */
#include "ops/update/clip.h"

#include "backend/opencl/shared/opencl.h"

static ac_cl_kernel kernel(const ac_opencl *cl, const char *name, int64_t columns) {
  return (ac_cl_kernel){"clip", name, ac_cl_row_options(cl, columns)};
}

static ac_status clip(ac_opencl *cl, const ac_op_args *args) {
  const ac_clip_attributes *a = args->attributes;
  const ac_clip_matrix m = ac_clip_matrix_of(args);
  const ac_operand *g = &args->in[0], *p = &args->in[1], *y = &args->out[0];
  if (!a->adaptive)
    return AC_CL_LAUNCH(cl, kernel(cl, "clip_value", m.columns), ac_cl_elements(cl, g->count),
                        AC_CL_OPERAND(*g), AC_CL_OPERAND(*y), AC_CL_LONG(g->count),
                        AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->limit));
  if (a->by_column)
    return AC_CL_LAUNCH(cl, kernel(cl, "clip_columns", m.columns), ac_cl_elements(cl, m.columns),
                        AC_CL_OPERAND(*g), AC_CL_OPERAND(*p), AC_CL_OPERAND(*y), AC_CL_LONG(m.rows),
                        AC_CL_LONG(m.columns), AC_CL_FLOAT(a->gradient_factor),
                        AC_CL_FLOAT(a->limit));
  return AC_CL_LAUNCH(cl, kernel(cl, "clip_rows", m.columns), ac_cl_rows(cl, m.rows, m.columns),
                      AC_CL_OPERAND(*g), AC_CL_OPERAND(*p), AC_CL_OPERAND(*y),
                      AC_CL_LONG(m.columns), AC_CL_FLOAT(a->gradient_factor),
                      AC_CL_FLOAT(a->limit));
}

const ac_cl_op ac_cl_op_clip = {.run = clip};
