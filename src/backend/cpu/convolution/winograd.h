/* The parts of convolutions of 3 x 3 that are computed by tiles of 2 x 2 outputs, after Winograd:
 * F(2 x 2, 3 x 3) of Lavin and Gray, arXiv 1509.09308. A tile takes 16 products for each pair of
 * channels instead of 36.
 *
 *   y  = A' [(G g G') (B' d B)] A      d: the 4 x 4 patch of the tile, g: the kernel
 *   dg = G' [(A dy A') (B' d B)] G     summed over tiles before the outer transforms
 *
 * where the product in brackets is one of elements, or points, and X' is X transposed:
 *
 *        1  0 -1  0           1    0    0          1  0
 *   B' = 0  1  1  0      G = 1/2  1/2  1/2     A = 1  1
 *        0 -1  1  0          1/2 -1/2  1/2         1 -1
 *        0  1  0 -1           0    0    1          0 -1
 *
 * Over all channels each point is a matrix product. The tiles of all images, one after the other,
 * are its columns, or what it sums over.
 *
 * A value that is not finite reaches all outputs of its patches, and other outputs of their tiles
 * become NaN. The same is true of the gradients. */
#ifndef AC_BACKEND_CPU_WINOGRAD_H
#define AC_BACKEND_CPU_WINOGRAD_H

#include "backend/cpu/convolution/conv.h"

enum { AC_WINOGRAD_POINTS = 16, AC_WINOGRAD_PANEL = AC_CPU_TILE_COLUMNS };

/* Tiles of images, in the order of samples, rows and columns. */
typedef struct ac_winograd_grid {
  int64_t rows, columns; /* of an image */
  int64_t count;         /* of all images */
} ac_winograd_grid;

static inline ac_winograd_grid ac_winograd_grid_of(const ac_operand *y) {
  ac_winograd_grid g = {ac_ceil_div(y->dim[2], 2), ac_ceil_div(y->dim[3], 2), 0};
  g.count = y->dim[0] * g.rows * g.columns;
  return g;
}

/* A distance for so many floats: not a multiple of whole pages, so that points and rows do not
 * fall on the same lines of a cache. */
static inline int64_t ac_winograd_apart(int64_t floats) {
  return ac_conv_lines(floats) + AC_CPU_LINE;
}

#define ac_winograd_takes AC_CPU_NAME(ac_winograd_takes)
#define ac_winograd_images AC_CPU_NAME(ac_winograd_images)
#define ac_winograd_weights AC_CPU_NAME(ac_winograd_weights)
#define ac_winograd_outputs AC_CPU_NAME(ac_winograd_outputs)
#define ac_winograd_convolve AC_CPU_NAME(ac_winograd_convolve)
#define ac_winograd_convolve_floats AC_CPU_NAME(ac_winograd_convolve_floats)
#define ac_winograd_correlate AC_CPU_NAME(ac_winograd_correlate)
#define ac_winograd_correlate_floats AC_CPU_NAME(ac_winograd_correlate_floats)

/* Whether a convolution or a gradient of one is best computed so. It depends on shapes and storage
 * alone, and if it holds, it does of every larger shape. */
bool ac_winograd_takes(const ac_cpu_context *context, const ac_op_args *args);

/* ---- transforms ------------------------------------------------------------------------------ */

/* Where transformed patches go: that of channel c and tile l of panel p at
 * to[point * points + p * panels + c * channels + l]. */
typedef struct ac_winograd_patches {
  float *to;
  int64_t points, panels, channels;
} ac_winograd_patches;

/* The patches of channels [channel, channel + channels) in tiles [first, first + count). The first
 * tile of an image begins `padding` before the image. Tiles that the last panel lacks are zero. */
void ac_winograd_images(const ac_winograd_grid *g, const ac_operand *x, const int64_t padding[2],
                        int64_t channel, int64_t channels, int64_t first, int64_t count,
                        const ac_winograd_patches *patches);

/* u[point * points + row * stride + k] of a thread's share of the rows: kernels of weights [rows,
 * depth, 3, 3], or of [depth, rows, 3, 3], `turned` round. After the last k there are zeros, up to
 * a multiple of vectors. */
void ac_winograd_weights(const ac_operand *weight, bool turned, float *u, int64_t points,
                         int64_t stride, int thread, int team);

/* Outputs of one channel of y, in tiles [first, first + count) of one panel, from their points
 * m[point * points + l]. */
void ac_winograd_outputs(const ac_winograd_grid *g, const ac_op_args *args, int64_t channel,
                         float bias, int64_t first, int64_t count, const float *m, int64_t points);

/* ---- convolutions ---------------------------------------------------------------------------- */

/* A thread's share of a convolution, or of its input gradient, and the workspace in floats. */
void ac_winograd_convolve(const ac_op_args *args, int thread, int team);
int64_t ac_winograd_convolve_floats(const ac_op_args *args, int threads);

/* The same for the gradient of the weights. */
void ac_winograd_correlate(const ac_cpu_context *context, const ac_op_args *args, int thread,
                           int team);
int64_t ac_winograd_correlate_floats(const ac_op_args *args, int threads);

#endif
