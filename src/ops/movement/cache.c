/* Rows that stay from one run to the next, such as keys and values of a text that is continued:
 * y[b, ends[b] - n + i, ...] = x[b, i, ...]; rows that would be before the first are left out, and
 * what other rows of y held they still hold. y is a cell of its own, which nothing but this op
 * writes, so it has no gradient and only plans that predict have it. */
#include <accrue/attention.h>

#include "core/utf8.h"
#include "graph/builder.h"
#include "graph/names.h"

#include <string.h>

/* What is wrong with a cache of these rows; NULL: nothing. */
static const char *wrong(ac_graph *graph, const ac_tensor *rows, const char *name,
                         int64_t positions) {
  int other;
  if (!name || !*name || !ac_is_utf8(name)) return "it has no name, or one that is not UTF-8";
  if (!ac_graph_find_leaf(graph, AC_ROLE_CACHE, name, &other)) return "there is no memory";
  if (other >= 0) return "a cache of this name exists already";
  if (positions < rows->shape.dim[1] || positions > INT32_MAX - 1)
    return "it must have room for all rows, and at most 2^31 - 2";
  return NULL;
}

ac_tensor *ac_cache(ac_tensor *rows, const char *name, ac_tensor *ends, int64_t positions) {
  static const ac_builder builder = {"cache", 2, {"rows f32 [B, n, ...]", "ends i32 [B]"}};
  ac_tensor *operands[] = {rows, ends};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  ac_shape shape = rows->shape;
  if (rows->dtype != AC_F32 || shape.rank < 2 || ends->dtype != AC_I32 || ends->shape.rank != 1 ||
      ends->shape.batched != shape.batched || ends->shape.dim[0] != shape.dim[0])
    return ac_builder_fail(graph, &builder, operands, NULL);
  const char *reason = wrong(graph, rows, name, positions);
  if (reason)
    return ac_builder_fail(graph, &builder, operands, "\"%s\" of %lld positions: %s",
                           name ? name : "", (long long)positions, reason);
  shape.dim[1] = positions;
  if (ac_shape_count(&shape) > AC_MAX_ELEMENTS)
    return ac_builder_fail(graph, &builder, operands, "\"%s\" is beyond any device", name);
  const int node = ac_graph_append(graph, AC_OP_cache, NULL, 0, 2, operands);
  ac_tensor *cache = ac_graph_add_output(graph, node, AC_ROLE_CACHE, AC_F32, &shape);
  if (!cache) return NULL;
  cache->requires_gradient = false;
  cache->name = strdup(name);
  return cache->name ? cache : ac_graph_out_of_memory(graph);
}

/* ---- description ----------------------------------------------------------------------------- */

/* Only the rows move. */
static double bytes(const ac_op_args *args) {
  return 2 * ac_operand_bytes(&args->in[0]) + ac_operand_bytes(&args->in[1]);
}

/* An end may be after the last position. While the node is built, it has no result yet. */
static int64_t limit(const ac_op_args *args) {
  return args->out[0].count ? args->out[0].dim[1] + 1 : INT32_MAX;
}

const ac_op_desc ac_op_desc_cache = {
    .bytes = bytes,
    .ids = 1,
    .id_limit = limit,
    .sample = {{"BTD", "#B"}, {"BTD"}},
};
