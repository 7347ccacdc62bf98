/* The builders of leaves: inputs, parameters and constants. */
#include "core/blocks.h"
#include "core/elements.h"
#include "core/error.h"
#include "core/integers.h"
#include "core/utf8.h"
#include "graph/builder.h"
#include "graph/init.h"
#include "graph/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ac_tensor *add_leaf(ac_graph *graph, const ac_builder *builder, ac_role role,
                           const char *name, ac_dtype dtype, int rank, const int64_t *dim) {
  if (!ac_builder_begin(graph, builder, NULL)) return NULL;
  if (!name || !*name) return ac_builder_fail(graph, builder, NULL, "it has no name");
  int other;
  if (!ac_graph_find_leaf(graph, role, name, &other)) return ac_graph_out_of_memory(graph);
  if (other >= 0) return ac_builder_fail(graph, builder, NULL, "\"%s\" exists already", name);
  ac_shape shape;
  const bool input = role == AC_ROLE_INPUT;
  if (!ac_shape_parse(&shape, rank, dim) || (shape.batched && !input))
    return ac_builder_fail(graph, builder, NULL,
                           "the shape of \"%s\" must have 1 to %d positive dimensions, %s, and at "
                           "most 2^%d elements%s",
                           name, AC_MAX_RANK,
                           input ? "the first may be the batch" : "not contain the batch",
                           AC_MAX_ELEMENTS_LOG2, input ? " a sample" : "");
  ac_tensor *tensor = ac_graph_new_tensor(graph, role, dtype, &shape);
  if (!tensor) return NULL;
  tensor->name = strdup(name);
  return tensor->name ? tensor : ac_graph_out_of_memory(graph);
}

/* Names that model and state files use themselves: for their metadata, and for all that states hold
 * in addition to parameters. */
static const char metadata_name[] = "__metadata__", state_prefix[] = "accrue/";

/* Files hold parameters under their names, so a name that cannot be in a file is refused here. */
static bool check_parameter_name(ac_graph *graph, const ac_builder *builder, const char *name) {
  const int index = graph->parameter_count;
  if (!name) return true; /* refused as one that is missing */
  if (!ac_is_utf8(name))
    ac_builder_fail(graph, builder, NULL,
                    "the name of parameter %d is not UTF-8, and no file could hold it", index);
  else if (strlen(name) > AC_MAX_NAME)
    ac_builder_fail(graph, builder, NULL, "the name of parameter %d has %zu bytes, more than %d",
                    index, strlen(name), AC_MAX_NAME);
  else if (!strcmp(name, metadata_name) || !strncmp(name, state_prefix, strlen(state_prefix)))
    ac_builder_fail(graph, builder, NULL,
                    "\"%s\" is a name that model and state files have for themselves; take one "
                    "that is not %s and does not begin with %s",
                    name, metadata_name, state_prefix);
  return graph->status == AC_OK;
}

/* What ops take of an input is another tensor where another type is fed. */
static ac_tensor *converted(ac_graph *graph, ac_tensor *input) {
  if (input->dtype == AC_F32 || input->dtype == AC_I32) return input;
  const ac_dtype dtype = input->dtype == AC_I64 ? AC_I32 : AC_F32;
  const int node = ac_graph_append(graph, AC_OP_cast, NULL, 0, 1, &input);
  ac_tensor *taken = ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, dtype, &input->shape);
  if (!taken) return NULL;
  taken->fed = input->id;
  taken->name = strdup(input->name);
  return taken->name ? taken : ac_graph_out_of_memory(graph);
}

ac_tensor *ac_input(ac_graph *graph, const char *name, ac_dtype dtype, int rank,
                    const int64_t *shape) {
  if (!AC_GIVEN(graph)) return NULL;
  static const ac_builder builder = {.name = "input"};
  if ((unsigned)dtype >= AC_DTYPE_COUNT)
    return ac_builder_fail(graph, &builder, NULL, "\"%s\" has the unknown dtype %d",
                           name ? name : "", (int)dtype);
  ac_tensor *tensor = add_leaf(graph, &builder, AC_ROLE_INPUT, name, dtype, rank, shape);
  if (!tensor || !ac_graph_list(graph, &graph->inputs, &graph->input_count, tensor->id))
    return NULL;
  if (ac_is_integer(dtype)) tensor->fed_by = 1u << ((graph->input_count - 1) & 31);
  return converted(graph, tensor);
}

/* The caller's values are gone when a trainer wants them. */
static bool keep_array(ac_graph *graph, const ac_builder *builder, ac_tensor *tensor) {
  const float *values = tensor->desc.init.values;
  const int64_t count = ac_shape_count(&tensor->shape);
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(values[i]))
      return ac_builder_fail(graph, builder, NULL, "\"%s\": element %lld of its values is %g",
                             tensor->name, (long long)i, (double)values[i]);
  tensor->values = ac_block_create((size_t)count * sizeof *values);
  if (!tensor->values) return ac_graph_out_of_memory(graph);
  memcpy(tensor->values->data, values, (size_t)count * sizeof *values);
  tensor->desc.init.values = NULL;
  return true;
}

/* Blocks do not reach from one row into the next, and nothing can be added to them. */
static bool check_blocks(ac_graph *graph, const ac_builder *builder, const char *name,
                         const ac_parameter_desc *desc, int rank, const int64_t *dim) {
  const ac_block_format *format = ac_blocks_format(desc->blocks);
  if (desc->blocks == AC_BLOCKS_NONE || !name) return true;
  if (!format)
    ac_builder_fail(graph, builder, NULL, "\"%s\" has the unknown blocks %d", name,
                    (int)desc->blocks);
  else if (!desc->frozen)
    ac_builder_fail(graph, builder, NULL,
                    "\"%s\" is kept in blocks (%s) and is not frozen, but blocks cannot be trained",
                    name, ac_blocks_name(desc->blocks));
  else if (rank != 2 || !dim || dim[1] <= 0 || dim[1] % format->elements)
    ac_builder_fail(graph, builder, NULL,
                    "\"%s\" is kept in blocks (%s), so it must be a matrix with rows of a multiple "
                    "of %d elements",
                    name, ac_blocks_name(desc->blocks), format->elements);
  return graph->status == AC_OK;
}

ac_tensor *ac_parameter(ac_graph *graph, const char *name, int rank, const int64_t *shape,
                        const ac_parameter_desc *desc) {
  if (!AC_GIVEN(graph)) return NULL;
  static const ac_builder builder = {.name = "parameter"};
  ac_parameter_desc described = AC_DESCRIBED(ac_parameter_desc, desc);
  char reason[160];
  if (!ac_init_resolve(&described.init, rank, reason, sizeof reason))
    return ac_builder_fail(graph, &builder, NULL, "\"%s\": %s", name ? name : "", reason);
  if (graph->status == AC_OK && !check_parameter_name(graph, &builder, name)) return NULL;
  if (graph->status == AC_OK && !check_blocks(graph, &builder, name, &described, rank, shape))
    return NULL;
  if (!(described.rate >= 0) || isinf(described.rate))
    return ac_builder_fail(
        graph, &builder, NULL,
        "\"%s\": its rate of %g is not a positive, finite part of the schedule's", name ? name : "",
        described.rate);
  ac_tensor *tensor = add_leaf(graph, &builder, AC_ROLE_PARAMETER, name, AC_F32, rank, shape);
  if (!tensor) return NULL;
  tensor->desc = described;
  if (described.init.kind == AC_INIT_ARRAY && !keep_array(graph, &builder, tensor)) return NULL;
  tensor->requires_gradient = !tensor->desc.frozen;
  tensor->parameter = graph->parameter_count;
  void *listed = ac_graph_list(graph, &graph->parameters, &graph->parameter_count, tensor->id);
  return listed ? tensor : NULL;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Element i as it is kept; false: a NaN, or an integer beyond 32 bits. */
static bool keep_value(const ac_tensor *tensor, ac_dtype given, const void *data, int64_t i) {
  unsigned char *to = tensor->values->data + (size_t)i * sizeof(float);
  if (tensor->dtype == AC_F32) {
    const float x = ac_number_at(given, data, i);
    memcpy(to, &x, sizeof x);
    return !isnan(x);
  }
  const int64_t wide = ac_integer_at(given, data, i);
  const int32_t integer = (int32_t)wide;
  memcpy(to, &integer, sizeof integer);
  return wide == integer;
}

/* One above the largest; ids are not negative, so no table is large enough for one that is. */
static int64_t bound_of(const ac_tensor *tensor, int64_t count) {
  const int32_t *values = (const int32_t *)(const void *)tensor->values->data;
  int64_t bound = 0;
  for (int64_t i = 0; i < count; i++)
    bound = ac_larger(bound, values[i] < 0 ? INT64_MAX : (int64_t)values[i] + 1);
  return bound;
}

static ac_tensor *keep_values(ac_graph *graph, const ac_builder *builder, ac_tensor *tensor,
                              ac_dtype given, const void *data) {
  const int64_t count = ac_shape_count(&tensor->shape);
  if ((uint64_t)count > SIZE_MAX / 2 / sizeof(float) ||
      !(tensor->values = ac_block_create((size_t)count * sizeof(float))))
    return ac_graph_fail(graph, AC_ERROR_MEMORY, "no memory for the values of constant \"%s\"",
                         tensor->name);
  for (int64_t i = 0; i < count; i++)
    if (!keep_value(tensor, given, data, i))
      return ac_builder_fail(graph, builder, NULL, "\"%s\": its element %lld %s", tensor->name,
                             (long long)i,
                             tensor->dtype == AC_F32 ? "is not a number" : "exceeds 32 bits");
  if (tensor->dtype == AC_I32) tensor->id_bound = bound_of(tensor, count);
  return tensor;
}

ac_tensor *ac_constant(ac_graph *graph, const char *name, ac_dtype dtype, int rank,
                       const int64_t *shape, const void *data) {
  if (!AC_GIVEN(graph)) return NULL;
  static const ac_builder builder = {.name = "constant"};
  if ((unsigned)dtype >= AC_DTYPE_COUNT)
    return ac_builder_fail(graph, &builder, NULL, "\"%s\" has the unknown dtype %d",
                           name ? name : "", (int)dtype);
  ac_tensor *tensor = add_leaf(graph, &builder, AC_ROLE_CONSTANT, name,
                               ac_is_integer(dtype) ? AC_I32 : AC_F32, rank, shape);
  if (!tensor) return NULL;
  if (!data) return ac_builder_fail(graph, &builder, NULL, "\"%s\" has no data", name);
  return keep_values(graph, &builder, tensor, dtype, data);
}
