/* y[i, :] = table[id[i], :]: dtable[v, :] = sum over i with id[i] = v of dy[i, :]. */
#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/pointwise/elementwise.h"

ac_tensor *ac_embedding(ac_tensor *table, ac_tensor *ids) {
  static const ac_builder builder = {"embedding", 2, {"table f32 [V, C]", "ids i32 [...]"}};
  ac_tensor *operands[] = {table, ids};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  if (table->dtype != AC_F32 || table->shape.rank != 2 || table->shape.batched ||
      ids->dtype != AC_I32 || ids->shape.rank >= AC_MAX_RANK)
    return ac_builder_fail(graph, &builder, operands, NULL);
  ac_shape shape = ids->shape;
  shape.dim[shape.rank++] = table->shape.dim[1];
  ac_tensor_at(graph, table->storage)->is_table = true;
  return ac_graph_emit(graph, AC_OP_embedding, NULL, 0, 2, operands, &shape);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *operands[] = {ac_tensor_at(d->graph, node->in[1]), ac_gradient_of(d, node->out[0])};
  return ac_gradient_emit(d, AC_OP_embedding_gradient, NULL, 0, 2, operands, 1, &node->in[0]);
}

static double gradient_flops(const ac_op_args *args) {
  return (double)args->in[1].count;
}

/* Only the rows of the table that are asked for move: their ids, and each row read and written. */
static double bytes(const ac_op_args *args) {
  return ac_operand_bytes(&args->in[1]) + 2 * ac_operand_bytes(&args->out[0]);
}

/* The gradient reads and adds those rows alone, but where it does not add it clears all of the
 * table first. */
static double gradient_bytes(const ac_op_args *args) {
  double rows = (double)args->in[1].count * (double)ac_dtype_bytes(args->out[0].dtype);
  if (!args->add[0]) return ac_op_operand_bytes(args);
  return ac_operand_bytes(&args->in[0]) + ac_operand_bytes(&args->in[1]) + 2 * rows;
}

static int64_t id_limit(const ac_op_args *args) {
  return args->in[0].dim[0];
}
static int64_t gradient_id_limit(const ac_op_args *args) {
  return args->out[0].dim[0];
}

const ac_op_desc ac_op_desc_embedding = {
    .copies_values = true,
    .gradient = gradient,
    .bytes = bytes,
    .ids = 1,
    .id_limit = id_limit,
    .sample = {{"VC", "#R"}, {"RC"}, NULL},
};
const ac_op_desc ac_op_desc_embedding_gradient = {
    .can_add = 1,
    .backward = true,
    .flops = gradient_flops,
    .bytes = gradient_bytes,
    .ids = 0,
    .id_limit = gradient_id_limit,
    .sample = {{"#R", "RC"}, {"VC"}, NULL},
};
