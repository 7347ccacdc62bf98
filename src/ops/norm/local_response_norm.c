/* x / (k + alpha m)^beta, with m the mean of squares over neighbouring channels, made of other ops:
 * average pooling of one image that has a row for each channel and a column for each position. Its
 * padding is as wide on both sides, so of an even size it has one window more, the last.
 *
 * Squares are scaled before they are stored, because in f16 those of 256 and more would overflow.
 * The power is exp(-beta log(.)): its base is at least k. */
#include "graph/builder.h"

#include <math.h>

ac_tensor *ac_local_response_norm(ac_tensor *x, const ac_local_response_norm_desc *desc) {
  static const ac_builder builder = {"local_response_norm", 1, {"x f32 [B, C, ...]"}};
  ac_local_response_norm_desc d = AC_DESCRIBED(ac_local_response_norm_desc, desc);
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (x->dtype != AC_F32 || x->shape.rank < 2) return ac_builder_fail(graph, &builder, &x, NULL);
  if (d.size == 0) d.size = 5;
  if (d.alpha == 0) d.alpha = 1e-4f;
  if (d.beta == 0) d.beta = 0.75f;
  if (d.k == 0) d.k = 1;
  const bool finite = isfinite(d.alpha) && isfinite(d.beta) && isfinite(d.k);
  if (d.size < 1 || !finite || d.alpha < 0 || d.k < 0)
    return ac_builder_fail(graph, &builder, &x,
                           "size %d, alpha %g, beta %g and k %g; a size is at least 1, alpha and k "
                           "are not negative",
                           d.size, (double)d.alpha, (double)d.beta, (double)d.k);
  const ac_shape whole = x->shape;
  const int64_t channels = whole.dim[1];
  const ac_shape image = {
      4,
      whole.batched,
      {whole.dim[0], 1, channels, ac_shape_count(&whole) / whole.dim[0] / channels}};
  ac_tensor *squares = ac_square(ac_scale(x, sqrtf(d.alpha)));
  if (!squares) return NULL;
  const ac_pool2d_desc neighbours = {
      .kernel = {d.size, 1}, .stride = {1, 1}, .padding = {d.size / 2, 0}};
  ac_tensor *mean = ac_average_pool2d(ac_graph_view(graph, squares, &image), &neighbours);
  if (d.size % 2 == 0) mean = ac_slice(mean, 2, 0, channels);
  if (!mean) return NULL;
  ac_tensor *base = ac_add_scalar(ac_graph_view(graph, mean, &whole), d.k);
  return ac_multiply(x, ac_exp(ac_scale(ac_log(base), -d.beta)));
}
