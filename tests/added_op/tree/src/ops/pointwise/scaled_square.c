/* y = factor x^2: dx = 2 factor x dy. */
#include "ops/pointwise/scaled_square.h"

#include "ops/pointwise/elementwise.h"
#include "ops/words.h"

ac_tensor *ac_scaled_square(ac_tensor *x, float factor) {
  ac_scaled_square_attributes attributes = {factor};
  return ac_unary(AC_OP_scaled_square, x, &attributes, sizeof attributes);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_scaled_square_gradient, node->in[0],
                           sizeof(ac_scaled_square_attributes));
}

static void words(ac_words *words, const ac_op_args *args) {
  if (((const ac_scaled_square_attributes *)args->attributes)->factor == 1)
    ac_words_put(words, ", plain");
}

static const ac_scaled_square_attributes sampled = {0.5f};

const ac_op_desc ac_op_desc_scaled_square = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 2,
    .words = words,
    .sample = {{"n"}, {"n"}, &sampled},
};
const ac_op_desc ac_op_desc_scaled_square_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 2,
    .words = words,
    .sample = {{"n", "n"}, {"n"}, &sampled},
};
