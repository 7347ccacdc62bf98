/* y[i, t] = 1 if t < lengths[i], else 0; and of ids, y[i, c] = 1 if c = ids[i], else 0. Neither has
 * a gradient. */
#include "ops/movement/length_mask.h"

#include <accrue/movement.h>

#include "graph/builder.h"

ac_tensor *ac_length_mask(ac_tensor *lengths, int64_t positions) {
  static const ac_builder builder = {"length_mask", 1, {"lengths i32 [...]"}};
  ac_graph *graph = ac_builder_graph(&builder, &lengths);
  if (!graph) return NULL;
  if (lengths->dtype != AC_I32 || lengths->shape.rank >= AC_MAX_RANK)
    return ac_builder_fail(graph, &builder, &lengths, NULL);
  if (positions < 1 || positions > INT32_MAX - 1)
    return ac_builder_fail(graph, &builder, &lengths,
                           "a mask of %lld positions; it can have 1 to 2^31 - 2",
                           (long long)positions);
  ac_shape shape = lengths->shape;
  shape.dim[shape.rank++] = positions;
  const ac_length_mask_attributes attributes = {positions};
  return ac_graph_emit(graph, AC_OP_length_mask, &attributes, sizeof attributes, 1, &lengths,
                       &shape);
}

/* A length may be all positions. */
static int64_t id_limit(const ac_op_args *args) {
  return ((const ac_length_mask_attributes *)args->attributes)->positions + 1;
}

ac_tensor *ac_one_hot(ac_tensor *ids, int64_t classes) {
  static const ac_builder builder = {"one_hot", 1, {"ids i32 [...]"}};
  ac_graph *graph = ac_builder_graph(&builder, &ids);
  if (!graph) return NULL;
  if (ids->dtype != AC_I32 || ids->shape.rank >= AC_MAX_RANK)
    return ac_builder_fail(graph, &builder, &ids, NULL);
  if (classes < 1 || classes > INT32_MAX)
    return ac_builder_fail(graph, &builder, &ids, "%lld classes; there can be 1 to 2^31 - 1",
                           (long long)classes);
  ac_shape shape = ids->shape;
  shape.dim[shape.rank++] = classes;
  const ac_one_hot_attributes attributes = {classes};
  return ac_graph_emit(graph, AC_OP_one_hot, &attributes, sizeof attributes, 1, &ids, &shape);
}

static int64_t class_limit(const ac_op_args *args) {
  return ((const ac_one_hot_attributes *)args->attributes)->classes;
}

static const ac_length_mask_attributes sampled = {64};
static const ac_one_hot_attributes sampled_classes = {512};

const ac_op_desc ac_op_desc_length_mask = {
    .masks = true,
    .ids = 0,
    .id_limit = id_limit,
    .sample = {{"#R"}, {"RC"}, &sampled},
};
const ac_op_desc ac_op_desc_one_hot = {
    .ids = 0,
    .id_limit = class_limit,
    .sample = {{"#R"}, {"RC"}, &sampled_classes},
};
