/* The k largest elements of each row of C, the largest one first, and where they were: of equal
 * ones the first one comes first, and a NaN is larger than any number. dx[ids[m]] = dy[m], 0
 * elsewhere.
 */
#include <accrue/reduction.h>

#include "graph/builder.h"
#include "graph/differentiate.h"

ac_tensor *ac_top_k(ac_tensor *x, int64_t k, ac_tensor **ids) {
  static const ac_builder builder = {"top_k", 1, {"x f32 [..., C]"}};
  if (ids) *ids = NULL;
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (x->dtype != AC_F32) return ac_builder_fail(graph, &builder, &x, NULL);
  if (x->shape.batched && x->shape.rank < 2)
    return ac_builder_fail(graph, &builder, &x, "the batch is the only dimension of x");
  const int64_t columns = ac_shape_last(&x->shape);
  if (k < 1 || k > columns || columns > INT32_MAX)
    return ac_builder_fail(graph, &builder, &x, "cannot take the %lld largest of %lld",
                           (long long)k, (long long)columns);
  ac_shape shape = x->shape;
  shape.dim[shape.rank - 1] = k;
  ac_tensor *y = ac_graph_emit(graph, AC_OP_top_k, NULL, 0, 1, &x, &shape);
  if (!y) return NULL;
  ac_tensor *places = ac_graph_add_output(graph, y->producer, AC_ROLE_ACTIVATION, AC_I32, &shape);
  if (!places) return NULL;
  if (ids) *ids = places;
  return y;
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(d->graph, node->out[1])};
  return ac_gradient_emit(d, AC_OP_top_k_gradient, NULL, 0, 2, operands, 1, &node->in[0]);
}

static int64_t id_bound(const ac_op_args *args) {
  return ac_columns(&args->in[0]);
}
static int64_t gradient_id_limit(const ac_op_args *args) {
  return ac_columns(&args->out[0]);
}

const ac_op_desc ac_op_desc_top_k = {
    .copies_values = true,
    .gradient = gradient,
    .flops_per_element = 1,
    .id_bound = id_bound,
    .sample = {{"RC"}, {"R8", "#R8"}, NULL},
};
const ac_op_desc ac_op_desc_top_k_gradient = {
    .can_add = 1,
    .backward = true,
    .copies_values = true,
    .flops_per_element = 1,
    .ids = 1,
    .id_limit = gradient_id_limit,
    .sample = {{"R8", "#R8"}, {"RC"}, NULL},
};
