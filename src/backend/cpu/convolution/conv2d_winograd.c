/* Convolutions of 3 x 3, and their input gradients, by tiles (winograd.h). The input gradient is
 * the convolution of dy with the kernels turned round and their channels exchanged.
 *
 *   U[point][out][in] = the transformed weights, shared by all threads
 *   for each thread's share of the tiles, by blocks
 *     V[point][panel][in][PANEL tiles] = the transformed patches of the block
 *     for each block of output channels
 *       for each point: M[point][panel][out][PANEL tiles] = U x V
 *       outputs of M, with the bias, into y
 *
 * DEPTH channels of a panel of V stay in the first-level cache at a time. A block's V and M stay in
 * the second-level one, for up to 128 channels. Sums run in the order of channels and do not depend
 * on the blocks. If there are fewer panels than threads, output channels are also shared out.
 *
 * Workspace: U, 16/9 of the weights, and each thread's V and M. */
#include "backend/cpu/convolution/winograd.h"
#include "ops/convolution/conv2d.h"

/* Tiles of a block, and output channels. */
enum {
  POINTS = AC_WINOGRAD_POINTS,
  PANEL = AC_WINOGRAD_PANEL,
  TILES = 64,
  PANELS = TILES / PANEL,
  CHANNELS = 64,
  DEPTH = 128
};

typedef struct problem {
  const ac_op_args *args;
  const ac_operand *x, *y, *weight, *bias;
  bool turned;
  int64_t in, out;
  int64_t padding[2];
  ac_winograd_grid grid;
  int64_t stride;  /* of rows of U */
  int64_t u, v, m; /* distances of points */
} problem;

static problem problem_of(const ac_op_args *args) {
  const ac_conv2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  bool turned = args->op == AC_OP_conv_transpose2d;
  problem p = {.args = args,
               .x = x,
               .y = y,
               .weight = &args->in[1],
               .bias = &args->in[2],
               .turned = turned,
               .in = x->dim[1],
               .out = y->dim[1],
               .grid = ac_winograd_grid_of(y)};
  for (int i = 0; i < 2; i++) p.padding[i] = turned ? 2 - a->padding[i] : a->padding[i];
  p.stride = ac_winograd_apart(p.in);
  p.u = ac_winograd_apart(p.out * p.stride);
  p.v = ac_winograd_apart(p.in * TILES);
  p.m = ac_winograd_apart(ac_smaller(p.out, CHANNELS) * TILES);
  return p;
}

int64_t ac_winograd_convolve_floats(const ac_op_args *args, int threads) {
  problem p = problem_of(args);
  return POINTS * (p.u + threads * (p.v + p.m));
}

typedef struct work {
  const problem *p;
  const float *u;
  float *v, *m;
  int64_t tile, tiles; /* of the block */
  int64_t channel, channels;
  int32_t row[AC_CPU_TILE_ROWS], offset[DEPTH];
} work;

/* What `depth` channels from k on add to one point of a panel. */
static void multiply_panel(const work *w, int64_t k, int64_t depth, const float *u, const float *v,
                           float *m, int vectors) {
  ac_cpu_tiles tiles = ac_cpu_tiles_of(w->channels, AC_CPU_TILE_ROWS);
  for (int64_t tile = 0; tile < tiles.count; tile++) {
    int height = ac_cpu_tile_height(&tiles, tile);
    ac_cpu_multiply_tile(height, vectors, depth, u + k, w->row, v + k * PANEL, w->offset, m, PANEL,
                         k > 0);
    u += height * w->p->stride;
    m += height * PANEL;
  }
}

static void multiply_point(const work *w, int point) {
  const problem *p = w->p;
  const float *u = w->u + point * p->u + w->channel * p->stride;
  for (int64_t k = 0; k < p->in; k += DEPTH)
    for (int64_t panel = 0; panel * PANEL < w->tiles; panel++)
      multiply_panel(w, k, ac_smaller(DEPTH, p->in - k), u,
                     w->v + point * p->v + panel * p->in * PANEL,
                     w->m + point * p->m + panel * w->channels * PANEL,
                     w->tiles - panel * PANEL > AC_CPU_VECTOR ? 2 : 1);
}

static void store_channel(const work *w, int64_t i) {
  const problem *p = w->p;
  int64_t channel = w->channel + i;
  float bias = p->bias->count ? ((const float *)p->bias->data)[channel] : 0.0f;
  for (int64_t panel = 0; panel * PANEL < w->tiles; panel++)
    ac_winograd_outputs(&p->grid, p->args, channel, bias, w->tile + panel * PANEL,
                        ac_smaller(PANEL, w->tiles - panel * PANEL),
                        w->m + (panel * w->channels + i) * PANEL, p->m);
}

/* Output channels [first, last) of a block of tiles. */
static void run_block(work *w, int64_t first, int64_t last) {
  const problem *p = w->p;
  const ac_winograd_patches patches = {w->v, p->v, p->in * PANEL, PANEL};
  ac_winograd_images(&p->grid, p->x, p->padding, 0, p->in, w->tile, w->tiles, &patches);
  for (w->channel = first; w->channel < last; w->channel += w->channels) {
    w->channels = ac_smaller(CHANNELS, last - w->channel);
    for (int point = 0; point < POINTS; point++) multiply_point(w, point);
    for (int64_t i = 0; i < w->channels; i++) store_channel(w, i);
  }
}

/* A thread's share of the panels, in the order of parts of the channels. */
static void run_share(work *w, int thread, int team) {
  const problem *p = w->p;
  int64_t panels = ac_ceil_div(p->grid.count, PANEL), at, last;
  int64_t parts = ac_ceil_div(team, panels), share = ac_ceil_div(p->out, parts);
  ac_cpu_share(parts * panels, 1, thread, team, &at, &last);
  for (int64_t count; at < last; at += count) {
    int64_t panel = at % panels, first = ac_smaller(p->out, at / panels * share);
    count = ac_smaller(ac_smaller(PANELS, last - at), panels - panel);
    w->tile = panel * PANEL;
    w->tiles = ac_smaller(count * PANEL, p->grid.count - w->tile);
    run_block(w, first, ac_smaller(p->out, first + share));
  }
}

void ac_winograd_convolve(const ac_op_args *args, int thread, int team) {
  problem p = problem_of(args);
  float *u = args->workspace, *own = u + POINTS * (p.u + thread * (p.v + p.m));
  ac_winograd_weights(p.weight, p.turned, u, p.u, p.stride, thread, team);
  ac_cpu_barrier(team);
  work w = {.p = &p, .u = u, .v = own, .m = own + POINTS * p.v};
  for (int i = 0; i < AC_CPU_TILE_ROWS; i++) w.row[i] = (int32_t)(i * p.stride);
  for (int k = 0; k < DEPTH; k++) w.offset[k] = k * PANEL;
  run_share(&w, thread, team);
}
