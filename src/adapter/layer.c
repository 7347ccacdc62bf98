/* A linear layer with an adapter: y = x W + bias + scale * dropout(x) A^T B^T.
 *
 *     low = scale * dropout(x) A^T    [..., rank]    two small ops
 *     y = x W + bias + low B^T        [..., out]     one op (ops/linear/adapted.h)
 *
 * So the only results that are stored in addition to the layer's own are of the rank's size and,
 * with dropout, one of x's.
 *
 * With DoRA the product of x' = dropout(x) is then multiplied by the magnitudes over the norms of V
 * = W + scale B A. What is trained is the change of each magnitude since the beginning, when it was
 * the norm of W's row, so that zeros begin whatever W is:
 *
 *     h = (|W| + change) / |V| - 1 = ratio + change * inverse    [out], by ac_row_norms
 *     z = x' W + bias + low B^T
 *     y = z + h (z - bias) + (x - x') W
 *
 * The last term is there with dropout alone: the part of the base sees x whole, as in PEFT. */
#include "adapter/targets.h"

#include "graph/builder.h"
#include "graph/names.h"
#include "ops/linear/adapted.h"

#include <accrue/reduction.h>
#include <stdio.h>
#include <string.h>

/* The longest of their parts, the dot and the end of a text. */
enum { LONGEST_PART = 32 };

static ac_tensor *parameter(ac_graph *graph, const char *name, const char *part, int rank,
                            const int64_t *shape, ac_init init) {
  char whole[AC_MAX_NAME + LONGEST_PART];
  int found = -1;
  snprintf(whole, sizeof whole, "%s.%s", name, part);
  if (graph->status != AC_OK) return NULL;
  if (!ac_graph_find_leaf(graph, AC_ROLE_PARAMETER, whole, &found))
    return ac_graph_out_of_memory(graph);
  if (found >= 0) return ac_tensor_at(graph, found); /* of an earlier layer of this name */
  return ac_parameter(graph, whole, rank, shape, &(ac_parameter_desc){.init = init});
}

/* The same sentence as ac_linear's for what does not fit, before parameters are made of it. */
static bool is_layer(const ac_tensor *x, const ac_tensor *weight, ac_layout layout) {
  return x->dtype == AC_F32 && x->shape.rank > 0 && weight->shape.rank == 2 &&
         (layout == AC_OUT_IN || layout == AC_IN_OUT) &&
         weight->shape.dim[layout == AC_OUT_IN] == ac_shape_last(&x->shape);
}

/* z + h (z - bias), h = ratio + change * inverse. */
static ac_tensor *scaled(ac_graph *graph, ac_tensor *z, ac_tensor *ratio, ac_tensor *change,
                         ac_tensor *inverse, ac_tensor *bias) {
  /* Read as it is by a sum of one row: functions of elements would ask for a copy of the parameter
   * in 16 bits, which those that share it without DoRA do not have. */
  if (bias) bias = ac_sum(ac_reshape(bias, AC_SHAPE(1, bias->shape.dim[0])), AC_AXES(0), false);
  ac_tensor *operands[] = {z, ratio, change, inverse, bias};
  return bias ? ac_formula(graph, "a + (b + c * d) * (a - e)", operands, 5)
              : ac_formula(graph, "a + (b + c * d) * a", operands, 4);
}

ac_tensor *ac_lora_linear(ac_graph *graph, const char *name, ac_tensor *x, ac_tensor *weight,
                          ac_tensor *bias, ac_layout layout, const ac_lora_desc *desc) {
  static const ac_builder builder = {
      "lora_linear",
      3,
      {"x f32 [..., in]", "weight f32 [out, in] or [in, out]", "bias? f32 [out]"}};
  ac_tensor *operands[] = {x, weight, bias};
  if (!AC_GIVEN(graph) || !ac_builder_begin(graph, &builder, operands)) return NULL;
  const ac_lora_desc d = AC_DESCRIBED(ac_lora_desc, desc);
  const char *fault = ac_lora_fault(&d);
  if (fault) return ac_builder_fail(graph, &builder, operands, "%s", fault);
  if (!name || !*name) return ac_builder_fail(graph, &builder, operands, "the layer has no name");
  const ac_lora_choice choice = ac_lora_choose(&d, name);
  if (!choice.rank) return ac_linear(x, weight, bias, layout);
  if (!is_layer(x, weight, layout)) return ac_builder_fail(graph, &builder, operands, NULL);
  if (strlen(name) > AC_MAX_NAME - LONGEST_PART)
    return ac_builder_fail(graph, &builder, operands,
                           "the name has %zu bytes; an adapter's may have %d", strlen(name),
                           AC_MAX_NAME - LONGEST_PART);
  const int64_t in = ac_shape_last(&x->shape), out = weight->shape.dim[layout == AC_IN_OUT];
  ac_tensor *a = parameter(graph, name, AC_LORA_A, AC_SHAPE(choice.rank, in),
                           (ac_init){.kind = AC_INIT_DEFAULT}),
            *b = parameter(graph, name, AC_LORA_B, AC_SHAPE(out, choice.rank),
                           (ac_init){.kind = AC_INIT_ZERO});
  ac_tensor *dropped = d.dropout > 0 ? ac_dropout(x, (float)d.dropout) : x;
  ac_tensor *low = ac_scale(ac_linear(dropped, a, NULL, AC_OUT_IN), (float)choice.scale);
  if (!d.dora) return ac_linear_adapted(x, weight, bias, layout, low, b);
  ac_tensor *z = ac_linear_adapted(dropped, weight, bias, layout, low, b);
  ac_tensor *change = parameter(graph, name, AC_LORA_MAGNITUDE, AC_SHAPE(out),
                                (ac_init){.kind = AC_INIT_ZERO}),
            *inverse;
  ac_tensor *ratio = ac_row_norms(weight, a, b, layout, (float)choice.scale, &inverse);
  ac_tensor *y = scaled(graph, z, ratio, change, inverse, bias);
  if (dropped == x) return y;
  return ac_add(y, ac_linear(ac_subtract(x, dropped), weight, NULL, layout));
}
