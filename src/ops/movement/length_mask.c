/* y[i, t] = 1 if t < lengths[i], else 0. */
#include "ops/movement/length_mask.h"

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

static const ac_length_mask_attributes sampled = {64};

const ac_op_desc ac_op_desc_length_mask = {
    .masks = true,
    .ids = 0,
    .id_limit = id_limit,
    .sample = {{"#R"}, {"RC"}, &sampled},
};
