/* The transforms of winograd.h. Tiles, or channels, that lie side by side are a vector's lanes. */
#include "backend/cpu/convolution/winograd.h"

#include "backend/cpu/product/registers.h"
#include "backend/cpu/product/transpose.h"
#include "backend/cpu/shared/convert.h"
#include "ops/convolution/conv2d.h"

enum { POINTS = AC_WINOGRAD_POINTS, PANEL = AC_WINOGRAD_PANEL, TAPS = 9 };

/* Transforms pay from about so many channels on, those of weights from so many tiles: estimates. */
enum { LEAST_CHANNELS = 16, LEAST_TILES = 32 };

bool ac_winograd_takes(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_conv2d_attributes *a = args->attributes;
  bool weights = args->op == AC_OP_conv2d_weight_gradient;
  bool input = args->op == AC_OP_conv_transpose2d;
  const ac_operand *kernel = weights ? &args->out[0] : &args->in[1];
  const ac_operand *x = input ? &args->out[0] : &args->in[0];
  const ac_operand *y = weights ? &args->in[1] : input ? &args->in[0] : &args->out[0];
  if (!kernel->count || a->groups != 1) return false;
  for (int i = 0; i < 2; i++)
    if (kernel->dim[2 + i] != 3 || a->stride[i] != 1 || a->dilation[i] != 1 || a->padding[i] > 2 ||
        x->dim[2 + i] < 2 || y->dim[2 + i] < 2)
      return false;
  if (context->dot && args->in[0].dtype == AC_BF16 && args->in[1].dtype == AC_BF16) return false;
  return kernel->dim[0] >= LEAST_CHANNELS && kernel->dim[1] >= LEAST_CHANNELS &&
         ac_winograd_grid_of(y).count >= LEAST_TILES;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* B' d */
INLINE void transform_image(const vector d[4], vector v[4]) {
  v[0] = minus(d[0], d[2]);
  v[1] = plus(d[1], d[2]);
  v[2] = minus(d[2], d[1]);
  v[3] = minus(d[1], d[3]);
}

/* One vector of patches. Their elements are PANEL apart. */
INLINE void transform_patch(const float *patch, float *to, int64_t points) {
  vector rows[4][4], column[4], v[4];
#pragma GCC unroll 4
  for (int t = 0; t < 4; t++) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) column[r] = load(patch + (4 * r + t) * PANEL);
    transform_image(column, v);
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) rows[r][t] = v[r];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) {
    transform_image(rows[r], v);
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++) store(to + (4 * r + t) * points, v[t]);
  }
}

/* Row r of the patches of `count` tiles from column `column` of the grid on. */
static void read_patch_row(const ac_conv_source *source, int64_t width, int64_t at, int64_t from,
                           int64_t count, bool there, float *patch) {
  int64_t begin = there ? -from : 0, end = there ? width - from : 0;
  ac_conv_read_patches(source, at + from, begin, end, count, PANEL, patch);
}

/* The patches of one channel and panel. */
static void read_patches(const ac_winograd_grid *g, const ac_operand *x, const int64_t padding[2],
                         int64_t channel, int64_t first, int64_t count, float *patch) {
  int64_t height = x->dim[2], width = x->dim[3], of_image = g->rows * g->columns;
  const ac_conv_source source = {.data = x->data, .dtype = x->dtype, .channel = height * width};
  for (int64_t l = 0, n; l < count; l += n) {
    int64_t tile = first + l, image = tile / of_image, i = tile % of_image / g->columns;
    int64_t j = tile % g->columns, at = (image * x->dim[1] + channel) * height;
    n = ac_smaller(g->columns - j, count - l);
    for (int64_t r = 0; r < 4; r++) {
      int64_t row = 2 * i - padding[0] + r;
      bool there = row >= 0 && row < height;
      read_patch_row(&source, width, (at + (there ? row : 0)) * width, 2 * j - padding[1], n, there,
                     patch + 4 * r * PANEL + l);
    }
  }
  if (count < PANEL) clear_columns(patch, POINTS, count, PANEL);
}

void ac_winograd_images(const ac_winograd_grid *g, const ac_operand *x, const int64_t padding[2],
                        int64_t channel, int64_t channels, int64_t first, int64_t count,
                        const ac_winograd_patches *w) {
  enum { TOGETHER = 4 }; /* a patch is read some time after its parts are written */
  float patch[TOGETHER][POINTS * PANEL];
  for (int64_t c = 0; c < channels; c += TOGETHER)
    for (int64_t p = 0; p * PANEL < count; p++) {
      int64_t some = ac_smaller(TOGETHER, channels - c),
              tiles = ac_smaller(PANEL, count - p * PANEL);
      float *to = w->to + p * w->panels + c * w->channels;
      for (int64_t i = 0; i < some; i++)
        read_patches(g, x, padding, channel + c + i, first + p * PANEL, tiles, patch[i]);
      for (int64_t i = 0; i < some; i++)
        for (int64_t l = 0; l < PANEL; l += VECTOR)
          transform_patch(patch[i] + l, to + i * w->channels + l, w->points);
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* G g */
INLINE void transform_kernel(const vector g[3], vector u[4]) {
  vector outer = scaled(plus(g[0], g[2]), 0.5f), middle = scaled(g[1], 0.5f);
  u[0] = g[0];
  u[1] = plus(outer, middle);
  u[2] = minus(outer, middle);
  u[3] = g[2];
}

/* One vector of kernels, taps[tap * VECTOR + l]. */
INLINE void transform_kernels(const float *taps, bool turned, float *u, int64_t points) {
  vector rows[4][3], column[3], v[4];
#pragma GCC unroll 4
  for (int t = 0; t < 3; t++) {
#pragma GCC unroll 4
    for (int r = 0; r < 3; r++) {
      int tap = 3 * r + t;
      column[r] = load(taps + (turned ? TAPS - 1 - tap : tap) * VECTOR);
    }
    transform_kernel(column, v);
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) rows[r][t] = v[r];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) {
    transform_kernel(rows[r], v);
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++) store(u + (4 * r + t) * points, v[t]);
  }
}

/* taps[tap * VECTOR + l] of `count` kernels that begin at element at + l * distance. */
static void read_kernels(const ac_operand *weight, int64_t at, int64_t distance, int64_t count,
                         float *taps) {
  float floats[VECTOR * TAPS];
  const float *from = (const float *)weight->data + at;
  if (weight->dtype != AC_F32) {
    ac_cpu_widen_rows(weight->dtype, ac_element(weight->data, weight->dtype, at), distance, floats,
                      TAPS, count, TAPS);
    from = floats;
    distance = TAPS;
  }
  transpose_rows(from, distance, count, TAPS, taps, VECTOR);
  if (count < VECTOR) clear_columns(taps, TAPS, count, VECTOR);
}

void ac_winograd_weights(const ac_operand *weight, bool turned, float *u, int64_t points,
                         int64_t stride, int thread, int team) {
  int64_t rows = weight->dim[turned], depth = weight->dim[!turned], first, last;
  int64_t blocks = ac_ceil_div(depth, VECTOR);
  float taps[TAPS * VECTOR];
  ac_cpu_share(rows, 1, thread, team, &first, &last);
  /* Follows the order in which weights are stored. */
  for (int64_t i = 0; i < blocks * (last - first); i++) {
    int64_t row = first + (turned ? i % (last - first) : i / blocks);
    int64_t k = (turned ? i / (last - first) : i % blocks) * VECTOR;
    int64_t at = (turned ? k * rows + row : row * depth + k) * TAPS;
    read_kernels(weight, at, turned ? rows * TAPS : TAPS, ac_smaller(VECTOR, depth - k), taps);
    float *to = u + row * stride + k;
    if (turned) transform_kernels(taps, true, to, points);
    else transform_kernels(taps, false, to, points);
  }
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* A' m */
INLINE void transform_points(const vector m[4], vector y[2]) {
  vector both = plus(m[1], m[2]), other = minus(m[1], m[2]);
  y[0] = plus(m[0], both);
  y[1] = minus(other, m[3]);
}

/* y[(2 r + s) * PANEL + l] of one vector of tiles. */
INLINE void transform_outputs(const float *m, int64_t points, float *y) {
  vector rows[2][4], column[4], v[2];
#pragma GCC unroll 4
  for (int t = 0; t < 4; t++) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) column[r] = load(m + (4 * r + t) * points);
    transform_points(column, v);
    rows[0][t] = v[0];
    rows[1][t] = v[1];
  }
#pragma GCC unroll 2
  for (int r = 0; r < 2; r++) {
    transform_points(rows[r], v);
    store(y + 2 * r * PANEL, v[0]);
    store(y + (2 * r + 1) * PANEL, v[1]);
  }
}

/* y[2 l + s] = x[s * PANEL + l] */
static void interleave(const float *x, float *y) {
  for (int l = 0; l < PANEL; l++) {
    y[2 * l] = x[l];
    y[2 * l + 1] = x[PANEL + l];
  }
}

void ac_winograd_outputs(const ac_winograd_grid *g, const ac_op_args *args, int64_t channel,
                         float bias, int64_t first, int64_t count, const float *m, int64_t points) {
  const ac_operand *y = &args->out[0];
  float tiles[4 * PANEL], rows[2][2 * PANEL];
  int64_t height = y->dim[2], width = y->dim[3], of_image = g->rows * g->columns;
  for (int64_t l = 0; l < PANEL; l += VECTOR) transform_outputs(m + l, points, tiles + l);
  for (int r = 0; r < 2; r++) interleave(tiles + 2 * r * PANEL, rows[r]);
  for (int64_t l = 0, n; l < count; l += n) {
    int64_t tile = first + l, image = tile / of_image, i = tile % of_image / g->columns;
    int64_t j = tile % g->columns;
    n = ac_smaller(g->columns - j, count - l);
    int64_t at = ((image * y->dim[1] + channel) * height + 2 * i) * width + 2 * j;
    int64_t columns = ac_smaller(2 * n, width - 2 * j);
    ac_conv_store_rows(args->run, rows[0] + 2 * l, 2 * PANEL, ac_smaller(2, height - 2 * i), bias,
                       args->add[0], y, at, width, 1, columns);
  }
}
