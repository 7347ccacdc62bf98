/* gather: what ids pick along an axis; scatter_add: sums of what has one id. */
#include "ops/movement/gather.h"

#include "backend/opencl/shared/opencl.h"
#include "core/align.h"
#include "core/error.h"
#include "core/integers.h"

/* From the id of one position to that of the next. */
static int64_t apart(const ac_gather_view *v) {
  return v->elements ? v->inner : 1;
}

static ac_status gather(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *ids = &args->in[1], *y = &args->out[0];
  const ac_gather_view v = ac_gather_view_of(x, ids, args->attributes);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"gather", "gather", NULL}), ac_cl_elements(cl, y->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*ids), AC_CL_OPERAND(*y),
                      AC_CL_LONG(y->count), AC_CL_LONG(v.count), AC_CL_LONG(v.length),
                      AC_CL_LONG(v.inner), AC_CL_LONG(apart(&v)), AC_CL_INT(v.shared));
}

/* Each id is compared with those after it until it comes again. A launch makes about 2^35
 * comparisons, or those of one work-group: tenths of a second on a small GPU, because drivers of
 * displays end a launch that takes seconds. A test with fewer items along a dimension also has
 * fewer in a launch. */
static ac_status make_chain(ac_opencl *cl, const ac_operand *ids, const ac_gather_view *v,
                            const ac_cl_argument *chain, const ac_cl_argument *marks) {
  const int64_t most = 16 * cl->most_items, n = ids->count,
                each = ac_ceil_div(ac_larger(most / v->count, 1), cl->group) * cl->group;
  for (int64_t first = 0; first < n; first += each)
    AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"gather", "scatter_chain", NULL}),
                        ac_cl_elements(cl, ac_smaller(each, n - first)), AC_CL_OPERAND(*ids),
                        *chain, *marks, AC_CL_LONG(first), AC_CL_LONG(n), AC_CL_INT(v->count),
                        AC_CL_LONG(apart(v))));
  return AC_OK;
}

/* The chain of positions, then the marks of those that follow another. */
static uint64_t marks_offset(int64_t n) {
  return ac_align((uint64_t)n, AC_LINE_BYTES);
}

static uint64_t scatter_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 4 * 2 * marks_offset(args->in[0].count);
}

static ac_status scatter_add(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *ids = &args->in[0], *x = &args->in[1], *y = &args->out[0];
  const ac_gather_view v = ac_gather_view_of(y, ids, args->attributes);
  const int64_t n = ids->count;
  const ac_cl_argument chain = AC_CL_BUFFER(args->workspace);
  const ac_cl_argument marks = AC_CL_LONG(marks_offset(n));
  if (!args->add[0]) AC_TRY(ac_cl_zero(cl, y->data, (uint64_t)y->count * sizeof(float)));
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"gather", "scatter_clear", NULL}), ac_cl_elements(cl, n),
                      chain, marks, AC_CL_LONG(n)));
  AC_TRY(make_chain(cl, ids, &v, &chain, &marks));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"gather", "scatter_add", NULL}),
                      ac_cl_elements(cl, x->count), AC_CL_OPERAND(*ids), AC_CL_OPERAND(*x), chain,
                      marks, AC_CL_OPERAND(*y), AC_CL_LONG(x->count), AC_CL_INT(v.count),
                      AC_CL_LONG(v.length), AC_CL_LONG(v.inner), AC_CL_LONG(apart(&v)),
                      AC_CL_INT(v.shared), AC_CL_INT(args->add[0]));
}

/* Positions are counted in 32 bits. */
static bool fits(const ac_op_args *args) {
  return ac_gather_view_of(&args->out[0], &args->in[0], args->attributes).count <= INT32_MAX;
}

const ac_cl_op ac_cl_op_gather = {.run = gather};
const ac_cl_op ac_cl_op_scatter_add = {
    .run = scatter_add, .workspace = scatter_workspace, .fits = fits};
