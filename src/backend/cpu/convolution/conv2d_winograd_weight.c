/* The gradient of the weights of a convolution of 3 x 3 by tiles (winograd.h).
 *
 *   for each task: a part of the tiles, and of the channels of x
 *     for each block of TILES
 *       V[point][in][TILES] = the transformed patches of x
 *       W[point][panel][TILES][PANEL channels] = the transformed tiles of dy
 *       for each point: M[point][in][out] += V x W
 *   dW (+)= M of all parts of the tiles, in their order, transformed
 *
 * Parts of the tiles have sums of their own. If these are large, channels are split instead, and
 * each thread transforms all of dy. Tasks depend on the device's threads and on shapes.
 *
 * Workspace: M, 16/9 of dW with its channels in whole panels, for each part of the tiles, and each
 * thread's V and W. */
#include "backend/cpu/convolution/winograd.h"
#include "backend/cpu/product/registers.h"
#include "backend/cpu/product/transpose.h"
#include "ops/convolution/conv2d.h"

enum {
  POINTS = AC_WINOGRAD_POINTS,
  PANEL = AC_WINOGRAD_PANEL,
  TAPS = 9,
  TILES = 64,
  RUN = 16,               /* tiles of dy that are read at a time */
  MOST_SHARED = 128 * 128 /* elements of a point, for tiles to be parted */
};

typedef struct problem {
  const ac_op_args *args;
  const ac_operand *x, *dy;
  int64_t in, out;
  int64_t padding[2];
  ac_winograd_grid grid;
  int64_t tile_parts, channel_parts;
  int64_t share;   /* channels of a part */
  int64_t width;   /* of rows of M */
  int64_t row;     /* distance of rows of V */
  int64_t v, w, m; /* distances of points */
} problem;

static problem problem_of(const ac_op_args *args, int threads) {
  const ac_conv2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *dy = &args->in[1];
  problem p = {.args = args,
               .x = x,
               .dy = dy,
               .in = x->dim[1],
               .out = dy->dim[1],
               .padding = {a->padding[0], a->padding[1]},
               .grid = ac_winograd_grid_of(dy)};
  bool shared = p.in * p.out <= MOST_SHARED;
  p.tile_parts = shared ? ac_smaller(threads, p.grid.count) : 1;
  p.channel_parts = shared ? 1 : ac_smaller(threads, p.in);
  p.share = ac_ceil_div(p.in, p.channel_parts);
  p.width = ac_ceil_div(p.out, PANEL) * PANEL;
  p.row = ac_winograd_apart(TILES);
  p.v = ac_winograd_apart(p.share * p.row);
  p.w = ac_winograd_apart(p.width * TILES);
  p.m = ac_winograd_apart(p.in * p.width);
  return p;
}

int64_t ac_winograd_correlate_floats(const ac_op_args *args, int threads) {
  problem p = problem_of(args, threads);
  return POINTS * (p.tile_parts * p.m + threads * (p.v + p.w));
}

/* ---- dy -------------------------------------------------------------------------------------- */

/* quads[(2 r + s) * RUN + l]: the elements of tiles first + l of one channel. */
static void read_quads(const problem *p, int64_t channel, int64_t first, int64_t count,
                       float *quads) {
  const ac_operand *dy = p->dy;
  const ac_winograd_grid *g = &p->grid;
  int64_t height = dy->dim[2], width = dy->dim[3], of_image = g->rows * g->columns;
  const ac_conv_source source = {.data = dy->data, .dtype = dy->dtype, .channel = height * width};
  for (int64_t l = 0, n; l < count; l += n) {
    int64_t tile = first + l, image = tile / of_image, i = tile % of_image / g->columns;
    int64_t j = tile % g->columns;
    n = ac_smaller(g->columns - j, count - l);
    int64_t at = ((image * dy->dim[1] + channel) * height + 2 * i) * width + 2 * j;
    for (int64_t k = 0; k < 4; k++) {
      bool there = 2 * i + k / 2 < height;
      int64_t inside = there ? ac_smaller(n, (width - 2 * j - k % 2 + 1) / 2) : 0;
      ac_conv_read_row(&source, at + k / 2 * width + k % 2, 2, 0, inside, n, quads + k * RUN + l);
    }
  }
}

/* A y */
INLINE void transform_outputs(const vector y[2], vector w[4]) {
  w[0] = y[0];
  w[1] = plus(y[0], y[1]);
  w[2] = minus(y[0], y[1]);
  w[3] = scaled(y[1], -1.0f);
}

/* One vector of channels of a tile. Its elements are `distance` apart. */
INLINE void transform_quad(const float *quad, int64_t distance, float *to, int64_t points) {
  vector rows[4][2], w[4];
#pragma GCC unroll 2
  for (int s = 0; s < 2; s++) {
    vector column[2] = {load(quad + s * distance), load(quad + (2 + s) * distance)};
    transform_outputs(column, w);
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) rows[r][s] = w[r];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) {
    transform_outputs(rows[r], w);
#pragma GCC unroll 4
    for (int s = 0; s < 4; s++) store(to + (4 * r + s) * points, w[s]);
  }
}

/* W of some tiles, at most RUN, for `channels` channels of one panel. */
static void transform_run(const problem *p, int64_t channel, int64_t channels, int64_t first,
                          int64_t count, float *to) {
  float quads[PANEL][4 * RUN], across[4][RUN * PANEL];
  for (int64_t o = 0; o < channels; o++) read_quads(p, channel + o, first, count, quads[o]);
  for (int k = 0; k < 4; k++) {
    transpose_rows(quads[0] + k * RUN, 4 * RUN, channels, count, across[k], PANEL);
    if (channels < PANEL) clear_columns(across[k], count, channels, PANEL);
  }
  for (int64_t l = 0; l < count * PANEL; l += VECTOR)
    transform_quad(across[0] + l, RUN * PANEL, to + l, p->w);
}

static void transform_gradient(const problem *p, int64_t first, int64_t count, float *w) {
  for (int64_t channel = 0; channel < p->out; channel += PANEL)
    for (int64_t l = 0; l < count; l += RUN)
      transform_run(p, channel, ac_smaller(PANEL, p->out - channel), first + l,
                    ac_smaller(RUN, count - l), w + channel * TILES + l * PANEL);
}

/* ---- sums ------------------------------------------------------------------------------------ */

typedef struct task {
  const problem *p;
  float *v, *w, *m;
  int32_t row[AC_CPU_TILE_ROWS], offset[TILES];
} task;

/* What `count` tiles add to the sums of channels [first, first + rows) in one point. */
static void multiply_point(const task *t, int point, int64_t first, int64_t rows, int64_t count,
                           bool add) {
  const problem *p = t->p;
  ac_cpu_tiles tiles = ac_cpu_tiles_of(rows, AC_CPU_TILE_ROWS);
  for (int64_t column = 0; column < p->out; column += PANEL) {
    const float *v = t->v + point * p->v, *w = t->w + point * p->w + column * TILES;
    float *m = t->m + point * p->m + first * p->width + column;
    for (int64_t tile = 0; tile < tiles.count; tile++) {
      int height = ac_cpu_tile_height(&tiles, tile);
      ac_cpu_multiply_tile(height, p->out - column > AC_CPU_VECTOR ? 2 : 1, count, v, t->row, w,
                           t->offset, m, p->width, add);
      v += height * p->row;
      m += height * p->width;
    }
  }
}

/* Task `index`, in the order of parts of the tiles and of the channels. */
static void run_task(task *t, float *sums, int64_t index) {
  const problem *p = t->p;
  int64_t part = index / p->channel_parts, share = index % p->channel_parts * p->share;
  int64_t first = ac_smaller(p->in, share), rows = ac_smaller(p->share, p->in - first);
  int64_t begin = p->grid.count * part / p->tile_parts;
  int64_t end = p->grid.count * (part + 1) / p->tile_parts;
  const ac_winograd_patches patches = {t->v, p->v, PANEL, p->row};
  t->m = sums + part * POINTS * p->m;
  for (int64_t tile = begin; tile < end; tile += TILES) {
    int64_t count = ac_smaller(TILES, end - tile);
    ac_winograd_images(&p->grid, p->x, p->padding, first, rows, tile, count, &patches);
    transform_gradient(p, tile, count, t->w);
    for (int point = 0; point < POINTS; point++)
      multiply_point(t, point, first, rows, count, tile > begin);
  }
}

/* ---- results --------------------------------------------------------------------------------- */

/* G' m */
INLINE void transform_points(const vector m[4], vector g[3]) {
  vector both = scaled(plus(m[1], m[2]), 0.5f);
  g[0] = plus(m[0], both);
  g[1] = scaled(minus(m[1], m[2]), 0.5f);
  g[2] = plus(both, m[3]);
}

/* taps[tap * VECTOR + l] of one vector of output channels. */
static void transform_sums(const problem *p, const float *m, float *taps) {
  vector rows[3][4], column[4], g[3];
#pragma GCC unroll 4
  for (int t = 0; t < 4; t++) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
      const float *at = m + (4 * r + t) * p->m;
      column[r] = load(at);
      for (int64_t part = 1; part < p->tile_parts; part++)
        column[r] = plus(column[r], load(at + part * POINTS * p->m));
    }
    transform_points(column, g);
#pragma GCC unroll 4
    for (int r = 0; r < 3; r++) rows[r][t] = g[r];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 3; r++) {
    transform_points(rows[r], g);
#pragma GCC unroll 4
    for (int t = 0; t < 3; t++) store(taps + (3 * r + t) * VECTOR, g[t]);
  }
}

static void write_share(const problem *p, const float *sums, int thread, int team) {
  float taps[TAPS * VECTOR], kernels[VECTOR * TAPS], *dw = p->args->out[0].data;
  bool add = p->args->add[0];
  int64_t first, last;
  ac_cpu_share(p->out, VECTOR, thread, team, &first, &last);
  for (int64_t o = first; o < last; o += VECTOR)
    for (int64_t c = 0; c < p->in; c++) {
      int64_t count = ac_smaller(VECTOR, last - o), distance = p->in * TAPS;
      float *to = dw + (o * p->in + c) * TAPS;
      transform_sums(p, sums + c * p->width + o, taps);
      transpose_rows(taps, VECTOR, TAPS, count, add ? kernels : to, add ? TAPS : distance);
      for (int64_t i = 0; add && i < count; i++)
        for (int64_t k = 0; k < TAPS; k++) to[i * distance + k] += kernels[i * TAPS + k];
    }
}

void ac_winograd_correlate(const ac_cpu_context *context, const ac_op_args *args, int thread,
                           int team) {
  problem p = problem_of(args, context->threads);
  float *sums = args->workspace;
  float *own = sums + POINTS * (p.tile_parts * p.m + thread * (p.v + p.w));
  task t = {.p = &p, .v = own, .w = own + POINTS * p.v};
  for (int i = 0; i < AC_CPU_TILE_ROWS; i++) t.row[i] = (int32_t)(i * p.row);
  for (int k = 0; k < TILES; k++) t.offset[k] = k * PANEL;
  int64_t first, last;
  ac_cpu_share(p.tile_parts * p.channel_parts, 1, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) run_task(&t, sums, i);
  ac_cpu_barrier(team);
  write_share(&p, sums, thread, team);
}
