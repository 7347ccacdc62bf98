/* ids[o, i] = the first j with the largest x[o, j, i]; a NaN is larger than any number. */
#include <accrue/reduction.h>

#include "graph/builder.h"
#include "ops/reduction/along.h"
#include "ops/reduction/reduction.h"
#include "ops/words.h"

ac_tensor *ac_argmax(ac_tensor *x, int axis, bool keep) {
  static const ac_builder builder = {"argmax", 1, {"x f32"}};
  uint32_t bits;
  ac_graph *graph = ac_axes_begin(&builder, x, 1, &axis, &bits);
  if (!graph) return NULL;
  const int at = ac_shape_axis(&x->shape, axis);
  if (x->shape.dim[at] > INT32_MAX)
    return ac_builder_fail(graph, &builder, &x, "axis %d is longer than an i32 counts", axis);
  const ac_argmax_attributes a = {at};
  const ac_shape shape = ac_shape_reduced(&x->shape, bits, keep);
  const int node = ac_graph_append(graph, AC_OP_argmax, &a, sizeof a, 1, &x);
  return ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, AC_I32, &shape);
}

static int64_t id_bound(const ac_op_args *args) {
  const ac_argmax_attributes *a = args->attributes;
  return args->in[0].dim[a->axis];
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_argmax_attributes *a = args->attributes;
  ac_words_put(words, ", over %d", (int)a->axis);
}

static const ac_argmax_attributes sampled = {1};

const ac_op_desc ac_op_desc_argmax = {
    .flops_per_element = 1,
    .id_bound = id_bound,
    .words = words,
    .sample = {{"RC"}, {"#R"}, &sampled},
};
