/* y = x in another type: f32 and the types of 16 bits into each other, bytes and 32-bit integers
 * into floats, 64-bit integers into 32-bit ones. Inputs of a graph that are fed in another type
 * begin with it (graph/leaves.c), and it is where a tensor's dtype is not the one that an op wants
 * (graph/precision.c). No input has a gradient, and precision comes after differentiation, so it
 * needs no gradient rule.
 * It also decodes weights in blocks, which are frozen. */
#include "ops/description.h"

const ac_op_desc ac_op_desc_cast = {
    .can_add = 1,
    .converts = true,
    .sample = {{"n"}, {"n"}, NULL},
};
