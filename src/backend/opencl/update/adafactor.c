/* Adafactor's step. The workspace: squares by row [R], factors [2], and partial sums of columns
 * [chunks, C]. */
#include "ops/update/adafactor.h"

#include "backend/opencl/shared/sums.h"
#include "backend/opencl/update/update.h"
#include "core/error.h"

enum { FACTORS = 2 };

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  const int64_t rows = ac_adafactor_rows(args), columns = args->in[0].count / rows;
  return sizeof(float) * (uint64_t)(rows + FACTORS + ac_cl_most_chunks(rows) * columns);
}

static ac_cl_kernel kernel(const ac_opencl *cl, const ac_op_args *args, const char *name,
                           int64_t columns) {
  return ac_cl_row_update_kernel(cl, args, "adafactor", name, columns);
}

static ac_status take_moments(ac_opencl *cl, const ac_op_args *args, int64_t rows,
                              int64_t columns) {
  const ac_adafactor_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  const ac_operand r = args->out[2].count ? args->out[1] : (ac_operand){.count = 0};
  const ac_cl_chunks chunks = ac_cl_row_chunks(rows);
  AC_TRY(AC_CL_LAUNCH(cl, kernel(cl, args, "adafactor_rows", columns),
                      ac_cl_rows(cl, rows, columns), AC_CL_OPERAND(*g), AC_CL_OPERAND(args->out[0]),
                      AC_CL_OPERAND(r), AC_CL_BUFFER(args->workspace), AC_CL_LONG(columns),
                      AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->blend)));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(cl, args, "adafactor_columns", columns),
                      ac_cl_groups((columns + 31) / 32 * chunks.count, 32, ac_cl_lanes(cl)),
                      AC_CL_OPERAND(*g), AC_CL_BUFFER(args->workspace), AC_CL_LONG(rows),
                      AC_CL_LONG(columns), AC_CL_LONG(chunks.rows),
                      AC_CL_FLOAT(a->gradient_factor)));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(cl, args, "adafactor_column_moments", columns),
                      ac_cl_elements(cl, columns), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(*ac_adafactor_columns(args)), AC_CL_LONG(rows),
                      AC_CL_LONG(columns), AC_CL_LONG(chunks.count), AC_CL_FLOAT(a->blend)));
  return AC_CL_LAUNCH(cl, kernel(cl, args, "adafactor_factors", columns),
                      ac_cl_groups(1, cl->group, 1), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(r), AC_CL_LONG(rows), AC_CL_LONG(columns),
                      AC_CL_FLOAT(a->epsilon1), AC_CL_FLOAT(a->epsilon2), AC_CL_FLOAT(a->relative));
}

static ac_status adafactor(ac_opencl *cl, const ac_op_args *args) {
  const ac_adafactor_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0], *c = ac_adafactor_columns(args);
  const ac_operand r = args->out[2].count ? args->out[1] : (ac_operand){.count = 0};
  const int64_t rows = ac_adafactor_rows(args), columns = g->count / rows;
  const float least = a->epsilon1 * a->epsilon1;
  AC_TRY(take_moments(cl, args, rows, columns));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(cl, args, "adafactor_size", columns),
                      ac_cl_rows(cl, rows, columns), AC_CL_OPERAND(*g), AC_CL_OPERAND(r),
                      AC_CL_OPERAND(*c), AC_CL_BUFFER(args->workspace), AC_CL_LONG(rows),
                      AC_CL_LONG(columns), AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(least)));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(cl, args, "adafactor_limit", columns),
                      ac_cl_groups(1, cl->group, 1), AC_CL_BUFFER(args->workspace),
                      AC_CL_LONG(rows), AC_CL_LONG(columns), AC_CL_FLOAT(a->threshold)));
  return AC_CL_LAUNCH(
      cl, kernel(cl, args, "adafactor", columns), ac_cl_elements(cl, g->count), AC_CL_OPERAND(*g),
      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(r), AC_CL_OPERAND(*c), AC_CL_OPERAND(args->out[3]),
      AC_CL_BUFFER(args->workspace), AC_CL_LONG(rows), AC_CL_LONG(columns), AC_CL_ROUNDING(args),
      AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->rate * a->weight_decay), AC_CL_FLOAT(least));
}

const ac_cl_op ac_cl_op_adafactor = {.run = adafactor, .workspace = workspace};
