/* y = x, or y + x, rounded by chance where y is bf16: gradients that are added up in 16 bits
 * (graph/precision.c). To the nearest, a small x would be lost in a large y each time; by chance it
 * is counted as often as it should be, and the mean of what is rounded is right. */
#include "ops/update/rounded_sum.h"

#include "core/random.h"
#include "graph/builder.h"

int ac_append_rounded_sum(ac_graph *graph, uint32_t stream, ac_tensor *x) {
  const ac_rounded_sum_attributes attributes = {stream};
  return ac_graph_append(graph, AC_OP_rounded_sum, &attributes, sizeof attributes, 1, &x);
}

static const ac_rounded_sum_attributes example = {AC_GRADIENT_STREAM};

const ac_op_desc ac_op_desc_rounded_sum = {
    .can_add = 1,
    .backward = true,
    .flops_per_element = 1,
    .sample = {{"n"}, {"n"}, &example},
};
