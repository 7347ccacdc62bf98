/* Along an axis: gather is y[o, i, c] = x[o, id[o, i], c], or with an id for each element,
 * x[o, id[o, i, c], c]; scatter_add is its transpose, y[o, v, c] = the sum of x[o, i, c] over all i
 * with id[o, i] = v, in the order of i. Each is the gradient of the other. Rows of a table, of
 * which one belongs to each id (an embedding), and rows that are the same for all o
 * (index_select) are cases of it. */
#include "ops/movement/gather.h"

#include <accrue/movement.h>

#include "graph/differentiate.h"
#include "ops/movement/move.h"
#include "ops/words.h"

/* ---- builders -------------------------------------------------------------------------------- */

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
  const ac_gather_attributes attributes = {.length = table->shape.dim[0], .table = true};
  return ac_graph_emit(graph, AC_OP_gather, &attributes, sizeof attributes, 2, operands, &shape);
}

/* What ids pick along axis `at` of a shape: whole rows, if ids has the axes before and one more, or
 * single elements, if it has all axes. False if the shapes do not go together. */
static bool match(const ac_shape *x, const ac_shape *ids, int at, ac_gather_attributes *a) {
  if (at > 0 && x->batched != ids->batched) return false;
  for (int d = 0; d < at; d++)
    if (x->dim[d] != ids->dim[d]) return false;
  *a = (ac_gather_attributes){.axis = at};
  if (ids->rank == at + 1) return true;
  if (ids->rank != x->rank || (at == 0 && ids->batched)) return false;
  a->elements = true;
  for (int d = at + 1; d < x->rank; d++)
    if (x->dim[d] != ids->dim[d]) return false;
  return true;
}

/* The shape with what ids have in the place of axis `at`. */
static ac_shape picked(const ac_shape *x, const ac_shape *ids, int at) {
  ac_shape shape = *x;
  shape.dim[at] = ids->dim[at];
  shape.batched = x->batched || ids->batched;
  return shape;
}

ac_tensor *ac_gather(ac_tensor *x, ac_tensor *ids, int axis) {
  static const ac_builder builder = {"gather", 2, {"x f32 or i32", "ids i32"}};
  ac_tensor *operands[] = {x, ids};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const int at = ac_shape_axis(&x->shape, axis);
  ac_gather_attributes attributes;
  if (!ac_is_moved(x) || ids->dtype != AC_I32)
    return ac_builder_fail(graph, &builder, operands, NULL);
  if (!ac_is_axis(&x->shape, at))
    return ac_builder_fail(graph, &builder, operands,
                           "there is no axis %d; give one after the "
                           "batch",
                           axis);
  if (!match(&x->shape, &ids->shape, at, &attributes))
    return ac_builder_fail(graph, &builder, operands,
                           "ids must have the axes of x before axis %d, then one more, and then "
                           "all axes of x after it or none",
                           axis);
  attributes.length = x->shape.dim[at];
  const ac_shape shape = picked(&x->shape, &ids->shape, at);
  return ac_emit_moved(graph, AC_OP_gather, &attributes, sizeof attributes, 2, operands, &shape);
}

ac_tensor *ac_index_select(ac_tensor *x, ac_tensor *ids, int axis) {
  static const ac_builder builder = {"index_select", 2, {"x f32 or i32", "ids i32 [n]"}};
  ac_tensor *operands[] = {x, ids};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const int at = ac_shape_axis(&x->shape, axis);
  if (!ac_is_moved(x) || ids->dtype != AC_I32 || ids->shape.rank != 1)
    return ac_builder_fail(graph, &builder, operands, NULL);
  if (!ac_is_axis(&x->shape, at))
    return ac_builder_fail(graph, &builder, operands,
                           "there is no axis %d; give one after the "
                           "batch",
                           axis);
  if (ids->shape.batched)
    return ac_builder_fail(
        graph, &builder, operands,
        "ids have the batch, but they are the same for each sample (see gather)");
  const ac_gather_attributes attributes = {.axis = at, .length = x->shape.dim[at], .shared = true};
  ac_shape shape = x->shape;
  shape.dim[at] = ids->shape.dim[0];
  return ac_emit_moved(graph, AC_OP_gather, &attributes, sizeof attributes, 2, operands, &shape);
}

ac_tensor *ac_scatter_add(ac_tensor *values, ac_tensor *ids, int axis, int64_t length) {
  static const ac_builder builder = {"scatter_add", 2, {"values f32", "ids i32"}};
  ac_tensor *operands[] = {values, ids};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const int at = ac_shape_axis(&values->shape, axis);
  ac_gather_attributes attributes;
  if (values->dtype != AC_F32 || ids->dtype != AC_I32)
    return ac_builder_fail(graph, &builder, operands, NULL);
  if (!ac_is_axis(&values->shape, at))
    return ac_builder_fail(graph, &builder, operands,
                           "there is no axis %d; give one after the "
                           "batch",
                           axis);
  if (!match(&values->shape, &ids->shape, at, &attributes) ||
      ids->shape.batched != values->shape.batched || ids->shape.dim[at] != values->shape.dim[at])
    return ac_builder_fail(graph, &builder, operands,
                           "ids must have the axes of values up to axis %d, and then all after it "
                           "or none",
                           axis);
  if (length < 1 || length > INT32_MAX)
    return ac_builder_fail(graph, &builder, operands, "a result of %lld along axis %d",
                           (long long)length, axis);
  attributes.length = length;
  ac_shape shape = values->shape;
  shape.dim[at] = length;
  ac_tensor *in[] = {ids, values};
  return ac_graph_emit(graph, AC_OP_scatter_add, &attributes, sizeof attributes, 2, in, &shape);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static ac_status gather_gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *operands[] = {ac_tensor_at(d->graph, node->in[1]), ac_gradient_of(d, node->out[0])};
  return ac_gradient_emit(d, AC_OP_scatter_add, node->attributes, sizeof(ac_gather_attributes), 2,
                          operands, 1, &node->in[0]);
}

static ac_status scatter_gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(d->graph, node->in[0])};
  return ac_gradient_emit(d, AC_OP_gather, node->attributes, sizeof(ac_gather_attributes), 2,
                          operands, 1, &node->in[1]);
}

/* ---- description ----------------------------------------------------------------------------- */

static double scatter_flops(const ac_op_args *args) {
  return (double)args->in[1].count;
}

/* Only the rows that are asked for move: their ids, and each row read and written. */
static double gather_bytes(const ac_op_args *args) {
  return ac_operand_bytes(&args->in[1]) + 2 * ac_operand_bytes(&args->out[0]);
}

/* It reads and adds those rows alone, but where it does not add it clears all others first. */
static double scatter_bytes(const ac_op_args *args) {
  const double rows = (double)args->in[1].count * (double)ac_dtype_bytes(args->out[0].dtype);
  if (!args->add[0]) return ac_op_operand_bytes(args);
  return ac_operand_bytes(&args->in[0]) + ac_operand_bytes(&args->in[1]) + 2 * rows;
}

static const ac_gather_attributes *attributes_of(const ac_op_args *args) {
  return args->attributes;
}
static int64_t gather_limit(const ac_op_args *args) {
  return args->in[0].dim[attributes_of(args)->axis];
}
/* While the node is built, it has no result yet. */
static int64_t scatter_limit(const ac_op_args *args) {
  const ac_gather_attributes *a = attributes_of(args);
  return args->out[0].count ? args->out[0].dim[a->axis] : a->length;
}

static const char *gather_title(const void *attributes) {
  return ((const ac_gather_attributes *)attributes)->table ? "embedding" : "gather";
}
/* Of elements: shapes do not tell where there are as many. */
static void words(ac_words *words, const ac_op_args *args) {
  const ac_gather_attributes *a = args->attributes;
  if (!a->table) ac_words_put(words, ", axis %d", (int)a->axis);
  if (a->elements) ac_words_put(words, ", by element");
  if (a->shared) ac_words_put(words, ", same ids");
}

/* Ids below the fewest entries that a sample has (ops/sample.c). */
static const ac_gather_attributes sampled = {.length = 128, .table = true};

const ac_op_desc ac_op_desc_gather = {
    .copies_values = true,
    .gradient = gather_gradient,
    .bytes = gather_bytes,
    .ids = 1,
    .id_limit = gather_limit,
    .title = gather_title,
    .words = words,
    .sample = {{"VC", "#R"}, {"RC"}, &sampled},
};
const ac_op_desc ac_op_desc_scatter_add = {
    .can_add = 1,
    .gradient = scatter_gradient,
    .flops = scatter_flops,
    .bytes = scatter_bytes,
    .ids = 0,
    .id_limit = scatter_limit,
    .words = words,
    .sample = {{"#R", "RC"}, {"VC"}, &sampled},
};
