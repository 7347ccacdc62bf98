/* Each pixel becomes a square of f x f: y[n,c,i,j] = x[n,c,i/f,j/f]; dx[n,c,h,w] = sum of dy over
 * its square. */
#include "ops/convolution/upsample_nearest2d.h"

#include "graph/builder.h"
#include "graph/differentiate.h"

ac_tensor *ac_upsample_nearest2d(ac_tensor *x, int factor) {
  static const ac_builder builder = {
      "upsample_nearest2d", 1, {"x f32 [B, channels, height, width]"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  ac_shape shape = x->shape;
  if (factor < 1)
    return ac_builder_fail(graph, &builder, &x, "the factor is %d, not at least 1", factor);
  if (x->dtype != AC_F32 || shape.rank != 4) return ac_builder_fail(graph, &builder, &x, NULL);
  for (int i = 2; i < 4; i++) {
    if (shape.dim[i] > AC_MAX_ELEMENTS / factor)
      return ac_builder_fail(graph, &builder, &x, "a factor of %d is beyond any device", factor);
    shape.dim[i] *= factor;
  }
  ac_upsample_nearest2d_attributes attributes = {factor};
  return ac_graph_emit(graph, AC_OP_upsample_nearest2d, &attributes, sizeof attributes, 1, &x,
                       &shape);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_upsample_nearest2d_gradient, node->attributes,
                          sizeof(ac_upsample_nearest2d_attributes), 1, &dy, 1, &node->in[0]);
}

static const ac_upsample_nearest2d_attributes sampled = {2};

const ac_op_desc ac_op_desc_upsample_nearest2d = {
    .copies_values = true,
    .gradient = gradient,
    .sample = {{"8kss"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_upsample_nearest2d_gradient = {
    .can_add = 1,
    .backward = true,
    .flops_per_element = 1,
    .sample = {{"8kSS"}, {"8kss"}, &sampled},
};
