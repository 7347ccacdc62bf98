/* embedding: rows of a table, and their gradient summed over occurrences. */
#include "backend/opencl/shared/opencl.h"
#include "core/align.h"
#include "core/error.h"
#include "core/integers.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *table = &args->in[0], *ids = &args->in[1], *y = &args->out[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"embedding", "embedding", NULL}),
                      ac_cl_elements(cl, y->count), AC_CL_OPERAND(*table), AC_CL_OPERAND(*ids),
                      AC_CL_OPERAND(*y), AC_CL_LONG(ids->count), AC_CL_LONG(ac_columns(table)));
}

/* Each id is compared with those after it until it comes again. A launch makes about 2^35
 * comparisons, or those of one work-group: tenths of a second on a small GPU, because drivers of
 * displays end a launch that takes seconds. A test with fewer items along a dimension also has
 * fewer in a launch. */
static ac_status make_chain(ac_opencl *cl, const ac_operand *ids, const ac_cl_argument *chain,
                            const ac_cl_argument *marks) {
  const int64_t most = 16 * cl->most_items, n = ids->count,
                each = ac_ceil_div(ac_larger(most / n, 1), cl->group) * cl->group;
  for (int64_t first = 0; first < n; first += each)
    AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"embedding", "embedding_chain", NULL}),
                        ac_cl_elements(cl, ac_smaller(each, n - first)), AC_CL_OPERAND(*ids),
                        *chain, *marks, AC_CL_INT(first), AC_CL_INT(n)));
  return AC_OK;
}

/* The chain of occurrences, then the marks of those that follow another. */
static uint64_t marks_offset(int64_t n) {
  return ac_align((uint64_t)n, AC_LINE_BYTES);
}

static uint64_t gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 4 * 2 * marks_offset(args->in[0].count);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *ids = &args->in[0], *dy = &args->in[1], *dtable = &args->out[0];
  const int64_t n = ids->count;
  const ac_cl_argument chain = AC_CL_BUFFER(args->workspace);
  const ac_cl_argument marks = AC_CL_INT(marks_offset(n));
  if (!args->add[0]) AC_TRY(ac_cl_zero(cl, dtable->data, (uint64_t)dtable->count * sizeof(float)));
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"embedding", "embedding_clear", NULL}),
                      ac_cl_elements(cl, n), chain, marks, AC_CL_INT(n)));
  AC_TRY(make_chain(cl, ids, &chain, &marks));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"embedding", "embedding_gradient", NULL}),
                      ac_cl_elements(cl, dy->count), AC_CL_OPERAND(*ids), AC_CL_OPERAND(*dy), chain,
                      marks, AC_CL_OPERAND(*dtable), AC_CL_INT(n), AC_CL_LONG(ac_columns(dtable)),
                      AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_embedding = {.run = forward};
const ac_cl_op ac_cl_op_embedding_gradient = {.run = gradient, .workspace = gradient_workspace};
