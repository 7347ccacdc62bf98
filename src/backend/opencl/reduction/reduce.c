/* reduce, and its gradient. */
#include "ops/reduction/reduce.h"

#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

/* Fewer work-groups are made more, by cutting the elements of a result into slices, of so many for
 * each item at least. Fewer elements of a result are not worth a work-group. */
enum { GROUPS = 256, LEAST_OF_ITEM = 16, LONG = 64, FEW_RESULTS = 16 };

typedef struct launch {
  ac_reduction axes;
  int64_t results, elements, groups, slices, length;
  bool columns;
} launch;

static launch launch_of(const ac_opencl *cl, const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  launch l = {.axes = ac_reduction_whole(&args->in[0], a->axes)};
  l.results = l.axes.kept.count;
  l.elements = l.axes.reduced.count;
  const bool few = l.results < FEW_RESULTS && l.elements >= cl->group * LEAST_OF_ITEM;
  l.columns = l.elements < LONG || (l.axes.run_kept && !few);
  const int64_t groups = l.columns ? ac_ceil_div(l.results, 32) : l.results;
  const int64_t least = (l.columns ? ac_cl_lanes(cl) : cl->group) * LEAST_OF_ITEM;
  const int64_t most = groups < GROUPS ? ac_ceil_div(GROUPS, groups) : 1;
  l.length = ac_ceil_div(l.elements, ac_larger(1, ac_smaller(most, l.elements / least)));
  l.slices = ac_ceil_div(l.elements, l.length);
  l.groups = groups * l.slices;
  return l;
}

/* Of three floats for each result of each slice. */
static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  const int64_t least = ac_cl_lanes(cl) * LEAST_OF_ITEM;
  return 3 * sizeof(float) *
         (uint64_t)ac_smaller(args->in[0].count / least, (int64_t)2 * GROUPS * 32);
}

/* Kernels are compiled for one storage type. */
static const char *options_of(const ac_opencl *cl, const ac_operand *x) {
  return x->count && x->dtype != cl->storage ? "-DX_FLOAT" : NULL;
}

#define PARAMETERS(args, a, results)                                        \
  AC_CL_INT((a)->kind), AC_CL_FLOAT((a)->divisor), AC_CL_FLOAT((a)->power), \
      AC_CL_OPERAND((args)->out[0]), AC_CL_OPERAND((args)->out[1]),         \
      AC_CL_BUFFER((args)->workspace), AC_CL_INT((args)->add[0]), AC_CL_LONG(results)
#define AXES(x)                                                                         \
  AC_CL_LONG((x).rank > 0 ? (x).dim[0] : 1), AC_CL_LONG((x).rank > 1 ? (x).dim[1] : 1), \
      AC_CL_LONG((x).stride[0]), AC_CL_LONG((x).stride[1]), AC_CL_LONG((x).stride[2])

static ac_status reduce_by(ac_opencl *cl, const ac_op_args *args, const launch *l, bool columns) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_cl_kernel kernel = {"reduce", columns ? "reduce_columns" : "reduce_rows", NULL};
  return AC_CL_LAUNCH(cl, kernel,
                      columns ? ac_cl_groups(l->groups, 32, ac_cl_lanes(cl))
                              : ac_cl_groups(l->groups, cl->group, 1),
                      PARAMETERS(args, a, l->results), AC_CL_OPERAND(args->in[0]),
                      AXES(l->axes.kept), AXES(l->axes.reduced), AC_CL_LONG(l->elements),
                      AC_CL_LONG(l->length));
}

/* A smaller batch may take the other kernel. */
static ac_status reduce(ac_opencl *cl, const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  const launch l = launch_of(cl, args);
  cl->storage = args->in[0].dtype;
  if (l.columns || cl->preparing) AC_TRY(reduce_by(cl, args, &l, true));
  if (!l.columns || cl->preparing) AC_TRY(reduce_by(cl, args, &l, false));
  if (l.slices == 1 && !cl->preparing) return AC_OK;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"reduce", "reduce_join", NULL}),
                      ac_cl_elements(cl, l.results), PARAMETERS(args, a, l.results),
                      AC_CL_OPERAND(args->in[0]), AXES(l.axes.kept), AC_CL_LONG(l.slices));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *dx = &args->out[0];
  const ac_reduction r = ac_reduction_of(dx, a->axes);
  const ac_reduced_axes outer = ac_reduction_results(dx, a->axes);
  int64_t dim[AC_MAX_RANK] = {r.run, 1, 1, 1, 1, 1}, stride[AC_MAX_RANK] = {r.run_kept};
  for (int k = 0; k < outer.rank; k++) dim[k + 1] = outer.dim[k], stride[k + 1] = outer.stride[k];
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"reduce", "reduce_gradient", options_of(cl, &args->in[1])}),
      ac_cl_elements(cl, dx->count), AC_CL_INT(a->kind), AC_CL_FLOAT(a->divisor),
      AC_CL_FLOAT(a->power), AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]),
      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(*dx),
      AC_CL_INT(args->add[0]), AC_CL_LONG(dx->count), AC_CL_LONG(dim[0]), AC_CL_LONG(dim[1]),
      AC_CL_LONG(dim[2]), AC_CL_LONG(dim[3]), AC_CL_LONG(dim[4]), AC_CL_LONG(stride[0]),
      AC_CL_LONG(stride[1]), AC_CL_LONG(stride[2]), AC_CL_LONG(stride[3]), AC_CL_LONG(stride[4]),
      AC_CL_LONG(stride[5]));
}

/* x is stored like dx, or as floats. */
static bool fits(const ac_op_args *args) {
  const ac_operand *x = &args->in[1];
  return !x->count || x->dtype == AC_F32 || x->dtype == args->out[0].dtype;
}

const ac_cl_op ac_cl_op_reduce = {.run = reduce, .workspace = workspace};
const ac_cl_op ac_cl_op_reduce_gradient = {.run = gradient, .fits = fits};
