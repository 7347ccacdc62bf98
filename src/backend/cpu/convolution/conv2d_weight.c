/* The gradients of a convolution's weights and bias. Transposed, [channels x taps, out], the former
 * is a product of the image, as it lies in a patch (conv_patch.c), with dy laid out with channels
 * last: row (c, r, t) of the left operand is the image from that tap's offset on.
 *
 *   for each task: a part of the channels of a group, and of the samples
 *     for each region of outputs, fill the patch
 *       for each panel of dy, some outputs by some channels: sums of all rows += image x panel
 *   dW (+)= the sums of all parts of the samples, in their order, transposed
 *
 * If image and dy are bf16 and the CPU multiplies that (product/dot.h), the patch holds bf16, and
 * its regions have about DEPTH outputs; all channels of dy are packed for these. The image's rows
 * are multiplied directly from the patch, or packed strip by strip. If samples are not split into
 * parts, sums are written to dW as soon as they are final.
 *
 * Samples are split into parts only if the channels do not yield a task for each thread, or if
 * there is little to multiply with what a task packs. Tasks depend on the device's threads and on
 * shapes, not on timing, and so do the bits. Groups with few output channels (depthwise ones have
 * one) take dot products along the image instead.
 *
 * The panel has zeros at positions of the patch that are not outputs. These zeros are multiplied
 * with values of the image: so an infinity in the image also makes NaNs of elements of dW that do
 * not depend on it.
 *
 * Kernels of 3 x 3 with a stride of 1 and enough channels are computed by tiles (winograd.h).
 *
 * Workspace: sums as large as dW, for each part of the samples, or none where all outputs are one
 * depth in bf16; and for each thread a patch and a panel, or what is packed. */
#include "backend/cpu/convolution/conv.h"
#include "backend/cpu/convolution/conv_volume.h"
#include "backend/cpu/convolution/winograd.h"
#include "backend/cpu/product/pairs.h"
#include "backend/cpu/product/transpose.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"
#include "ops/convolution/conv2d.h"

#include <string.h>

/* DEPTH: about the number of outputs in a region of bf16. So many pairs of them are multiplied at a
 * time, and a part of the samples has at least twice as many. Groups of fewer output channels than
 * FEW take dot products. */
enum {
  DEPTH = 512,
  DEPTH_PAIRS = DEPTH / 2,
  PANEL_DEPTH = 256,
  PANEL = PANEL_DEPTH * AC_CPU_TILE_COLUMNS,
  TILE = STRIP * STRIP,
  COLUMNS = 4096,
  FEW = 4,
  LEAST_CHANNELS = 4
};

typedef struct problem {
  const ac_op_args *args;
  const ac_operand *x, *dy, *dw, *db;
  int64_t groups, samples, in, out; /* in, out: channels of a group */
  int64_t depth;                    /* in x taps: rows of sums of a group */
  int64_t width;                    /* columns of sums; `slab` of them are neighbours */
  int64_t slab;
  int64_t channel_parts, sample_parts;
  const ac_dot_class *dot; /* multiplies bf16, if not NULL */
  int64_t pairs, packed;   /* then: of outputs of a region, in whole steps, and of a packed strip */
  bool sums;               /* there are some in memory, which outlive a tile */
  ac_conv_patch patch;
} problem;

/* Each part of the channels packs all of dy. With few rows of sums that takes longer than the
 * products, so samples are parted, if each part has enough outputs. */
static bool should_part_samples(const problem *p, int64_t parts) {
  enum { SHALLOW = 64 };
  int64_t outputs = p->samples / parts * p->dy->dim[2] * p->dy->dim[3];
  return p->depth <= SHALLOW && outputs >= 2 * DEPTH;
}

static problem problem_with(const ac_cpu_context *context, const ac_op_args *args,
                            bool may_part_samples) {
  const ac_conv2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *dy = &args->in[1], *dw = &args->out[0];
  problem p = {.args = args,
               .x = x,
               .dy = dy,
               .dw = dw,
               .db = &args->out[1],
               .groups = a->groups,
               .samples = x->dim[0],
               .in = x->dim[1] / a->groups,
               .out = dy->dim[1] / a->groups};
  if (!dw->count) return p;
  if (x->dtype == AC_BF16 && p.out >= FEW) p.dot = context->dot;
  int64_t threads = context->threads, enough = ac_ceil_div(threads, p.groups);
  p.depth = p.in * dw->dim[2] * dw->dim[3];
  p.channel_parts = ac_smaller(enough, ac_larger(1, p.in / LEAST_CHANNELS));
  if (may_part_samples && should_part_samples(&p, enough)) p.channel_parts = 1;
  p.sample_parts = ac_smaller(p.samples, ac_ceil_div(threads, p.groups * p.channel_parts));
  p.width = p.out < FEW ? p.out : ac_ceil_div(p.out, AC_CPU_VECTOR) * AC_CPU_VECTOR;
  if (p.dot) p.width = strips_of(p.out) * STRIP;
  p.slab = p.dot ? STRIP : p.width;
  p.sums = true;
  for (int i = 0; i < 2; i++)
    p.patch.axis[i] = (ac_conv_axis){.size = x->dim[2 + i],
                                     .outputs = dy->dim[2 + i],
                                     .taps = dw->dim[2 + i],
                                     .first = -a->padding[i],
                                     .step = a->stride[i],
                                     .spacing = a->dilation[i]};
  p.patch.channels = ac_ceil_div(p.in, p.channel_parts);
  p.patch.halves = p.dot;
  ac_conv_patch_plan(&p.patch, p.samples, p.dot ? DEPTH : COLUMNS, p.out);
  if (p.dot) {
    ac_conv_region most = {.samples = p.patch.samples, .rows = p.patch.rows};
    p.pairs = ac_ceil_div(ac_conv_patch_pairs(&p.patch, &most), PAIRS) * PAIRS;
    p.packed = ac_smaller(DEPTH_PAIRS, p.pairs) * STRIP;
    p.sums = p.sample_parts > 1 || most.samples < p.samples ||
             most.rows < p.patch.axis[0].outputs || p.pairs > DEPTH_PAIRS;
  }
  return p;
}

static problem problem_of(const ac_cpu_context *context, const ac_op_args *args) {
  return problem_with(context, args, true);
}

static int64_t sum_floats(const problem *p) {
  if (!p->sums) return 0;
  return ac_conv_lines(p->groups * p->depth * p->width);
}

/* Where the sum in this row and column of a group's lies. */
static float *sums_at(const problem *p, float *sums, int64_t group, int64_t row, int64_t column) {
  int64_t before = column / p->slab * p->slab;
  return sums + (group * p->width + before) * p->depth + row * p->slab + column - before;
}

/* A tile of sums, and what a thread packs: all strips of dy and, if need be, one of the image. Or a
 * panel. */
static int64_t packed_floats(const problem *p) {
  if (!p->dot) return PANEL;
  return TILE + (strips_of(p->out) + (p->dot->correlate ? 0 : 1)) * p->packed;
}

/* Where pairs of outputs are, or rows of a panel. */
static int64_t place_floats(const problem *p) {
  return p->dot ? p->pairs : PANEL_DEPTH;
}

/* A thread's part: the patch, with its offsets, and what is packed, with its places. */
static int64_t share_floats(const problem *p) {
  return ac_conv_lines(p->patch.floats) + ac_conv_lines(p->patch.offsets) + packed_floats(p) +
         place_floats(p);
}

static int64_t floats_of(const ac_cpu_context *context, const problem *p) {
  return p->sample_parts * sum_floats(p) + context->threads * share_floats(p);
}

/* Enough also for fewer samples, which may be split into parts in the other way. */
static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  if (ac_conv_is_of_volumes(args)) return ac_conv_volume_workspace(context, args);
  if (!args->out[0].count) return 0;
  problem p = problem_of(context, args), other = problem_with(context, args, false);
  int64_t floats = ac_larger(floats_of(context, &p), floats_of(context, &other));
  if (ac_winograd_takes(context, args))
    floats = ac_larger(floats, ac_winograd_correlate_floats(args, context->threads));
  return sizeof(float) * (uint64_t)floats;
}

/* ---- panels ---------------------------------------------------------------------------------- */

typedef struct task {
  const problem *p;
  ac_conv_region region; /* channels are those of the group */
  int64_t group;
  float *sums, *filling;
  int32_t *offset;
  float *panel;
  int32_t *panel_offset;
  float *tile; /* in the panel's place, with what is packed: strips of dy, and one of the image */
  uint32_t *packed, *strip;
  int32_t *place;
  bool add; /* to sums that are there */
} task;

/* to[j * width + l] = dy of channel l at element at + j, for `count` pixels, and 0 from the last
 * channel on; channels are `pixels` apart. */
static void pack_pixels(const ac_operand *dy, int64_t at, int64_t pixels, int64_t channels,
                        int64_t count, float *to, int64_t width) {
  enum { TOGETHER = 4 };
  float floats[TOGETHER * PANEL_DEPTH];
  const void *from = ac_element(dy->data, dy->dtype, at);
  if (width == 1) {
    ac_cpu_widen(dy->dtype, from, to, count);
    return;
  }
  if (dy->dtype == AC_F32) {
    transpose_rows(from, pixels, channels, count, to, width);
  } else {
    for (int64_t l = 0; l < channels; l += TOGETHER) {
      int64_t n = ac_smaller(TOGETHER, channels - l);
      ac_cpu_widen_rows(dy->dtype, ac_element(from, dy->dtype, l * pixels), pixels, floats,
                        PANEL_DEPTH, n, count);
      transpose_rows(floats, PANEL_DEPTH, n, count, to + l, width);
    }
  }
  clear_columns(to, count, channels, width);
}

/* How many of the `count` positions from `begin` on, in a run that begins with the given sample,
 * are neighbours in dy, and where channel `first` has them. Or how many are not outputs; then
 * `from` is -1. */
static int64_t piece_of_run(const task *t, int64_t sample, int64_t begin, int64_t count,
                            int64_t first, int64_t *from) {
  const problem *p = t->p;
  const ac_operand *dy = p->dy;
  int64_t stride = p->patch.pitch, columns = dy->dim[3], rows = t->region.rows;
  if (stride == columns) { /* an image without gaps is one long row */
    stride = columns = rows * dy->dim[3];
    rows = 1;
  }
  int64_t row = begin / stride, column = begin % stride;
  int64_t image = (sample + row / rows) * dy->dim[1] + t->group * p->out + first;
  *from = (image * dy->dim[2] + t->region.row + row % rows) * dy->dim[3] + column;
  if (column >= columns) *from = -1;
  return ac_smaller(count, (column < columns ? columns : stride) - column);
}

/* panel[e][l] = dy of channel `first` + l at position `begin` + e of a run; 0 if that is not an
 * output. Rows of the panel are `width` apart; their columns from `channels` on are 0. If there is
 * more than one column, there are at most PANEL_DEPTH rows. */
static void pack(const task *t, int64_t sample, int64_t begin, int64_t count, int64_t first,
                 int64_t channels, int64_t width) {
  const ac_operand *dy = t->p->dy;
  for (int64_t e = 0, n, at; e < count; e += n) {
    float *to = t->panel + e * width;
    n = piece_of_run(t, sample, begin + e, count - e, first, &at);
    if (at < 0) memset(to, 0, (size_t)(n * width) * sizeof *to);
    else pack_pixels(dy, at, dy->dim[2] * dy->dim[3], channels, n, to, width);
  }
}

/* to[l * STEP + e] = dy of channel `first` + l in bf16, at position `begin` + e of the region, for
 * a step that is filled up with zeros. */
static void copy_outputs(const task *t, int64_t begin, int64_t count, int64_t first,
                         int64_t channels, uint16_t *to) {
  const ac_operand *dy = t->p->dy;
  const uint16_t *halves = dy->data;
  int64_t pixels = dy->dim[2] * dy->dim[3];
  for (int64_t e = 0, n, at; e < STEP; e += n) {
    n = STEP - e, at = -1;
    if (e < count) n = piece_of_run(t, t->region.sample, begin + e, count - e, first, &at);
    for (int64_t l = 0; l < channels; l++) {
      uint16_t *row = to + l * STEP + e;
      if (at < 0) memset(row, 0, (size_t)n * sizeof *row);
      else memcpy(row, halves + at + l * pixels, (size_t)n * sizeof *row);
    }
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* All rows of the patch's channels x one panel of `width` columns. */
static void multiply_panel(const task *t, const float *image, int64_t count, int64_t width,
                           float *sums) {
  const problem *p = t->p;
  int64_t rows = t->region.channels * p->patch.axis[0].taps * p->patch.axis[1].taps;
  ac_cpu_tiles tiles = ac_cpu_tiles_of(rows, AC_CPU_TILE_ROWS);
  for (int64_t tile = 0, row = 0; tile < tiles.count; tile++) {
    int height = ac_cpu_tile_height(&tiles, tile);
    ac_cpu_multiply_tile(height, (int)(width / AC_CPU_VECTOR), count, image, t->offset + row,
                         t->panel, t->panel_offset, sums + row * p->width, p->width, true);
    row += height;
  }
}

static void multiply_run(const task *t, int64_t sample, const float *image, int64_t length,
                         float *sums) {
  const problem *p = t->p;
  int64_t steps = ac_ceil_div(length, PANEL_DEPTH);
  for (int64_t first = 0; first < p->width; first += AC_CPU_TILE_COLUMNS) {
    int64_t width = ac_smaller(AC_CPU_TILE_COLUMNS, p->width - first);
    for (int e = 0; e < PANEL_DEPTH; e++) t->panel_offset[e] = (int32_t)(e * width);
    for (int64_t step = 0; step < steps; step++) {
      int64_t begin = length * step / steps, end = length * (step + 1) / steps;
      pack(t, sample, begin, end - begin, first, ac_smaller(width, p->out - first), width);
      multiply_panel(t, image + begin, end - begin, width, sums + first);
    }
  }
}

/* Strips of the pairs of outputs [begin, begin + count) of the region, for all output channels. */
static void pack_outputs(const task *t, int64_t begin, int64_t count) {
  const problem *p = t->p;
  const uint16_t *halves = p->dy->data;
  uint16_t rows[STRIP * STEP];
  int64_t all = t->region.samples * t->region.rows * p->patch.pitch;
  int64_t end = ac_smaller(2 * (begin + count), all);
  for (int64_t first = 0; first < p->out; first += STRIP) {
    int64_t channels = ac_smaller(STRIP, p->out - first), at;
    uint32_t *to = t->packed + first / STRIP * p->packed;
    for (int64_t k = 2 * begin; k < end; k += STEP, to += PAIRS * STRIP) {
      int64_t rest = ac_smaller(STEP, end - k);
      int64_t together = piece_of_run(t, t->region.sample, k, rest, first, &at);
      operand x = {.data = rows,
                   .dtype = AC_BF16,
                   .distance = STEP,
                   .along = true,
                   .lines = channels,
                   .depth = STEP};
      if (at < 0 || together < STEP) copy_outputs(t, k, rest, first, channels, rows);
      else x.data = halves + at, x.distance = p->dy->dim[2] * p->dy->dim[3];
      pack_step(&x, 0, 0, false, to);
    }
  }
}

/* How many of a step's pairs are neighbours, everywhere in the step: a power of two. Between rows
 * and samples places grow by whatever lies between these. */
static int pairs_beside(const int32_t *place) {
  int together = PAIRS;
  for (int p = 1; p < PAIRS; p++)
    while (p % together && place[p] != place[p - 1] + 2) together /= 2;
  return together;
}

/* A step of `rows` rows of the image; `together` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void pack_rows(const ac_dot_image *image, int64_t rows,
                                                            const int32_t *place, int together,
                                                            uint32_t *to) {
  for (int64_t i = 0; i < rows; i++, to += PAIRS) {
    const uint16_t *row = image->at + image->offset[i];
#pragma GCC unroll 16
    for (int p = 0; p < PAIRS; p += together)
      memcpy(to + p, row + place[p], (size_t)together * sizeof *to);
  }
}

/* A strip of `rows` rows of the image, where products want it packed. */
static void pack_image(const ac_dot_image *image, int64_t rows, int64_t steps, uint32_t *strip) {
  const int32_t *place = image->place;
  for (int64_t step = 0; step < steps; step++, place += PAIRS, strip += STRIP * PAIRS) {
    switch (pairs_beside(place)) {
    case 16:
      pack_rows(image, rows, place, 16, strip);
      break;
    case 8:
      pack_rows(image, rows, place, 8, strip);
      break;
    case 4:
      pack_rows(image, rows, place, 4, strip);
      break;
    case 2:
      pack_rows(image, rows, place, 2, strip);
      break;
    default:
      pack_rows(image, rows, place, 1, strip);
      break;
    }
  }
}

/* Sums (+)= a strip of `rows` rows of the image x a packed one of dy. What multiplies packed strips
 * may compute more rows than there are, so that one that is not whole has the tile for its sums. */
static void multiply_strips(const task *t, const ac_dot_image *image, int64_t steps, int rows,
                            int columns, const uint32_t *outputs, float *sums) {
  const ac_dot_class *dot = t->p->dot;
  size_t bytes = (size_t)(rows * STRIP) * sizeof *sums;
  if (dot->correlate) {
    dot->correlate(steps, rows, columns, image, outputs, sums, STRIP, t->add);
  } else if (rows == STRIP || sums == t->tile) {
    dot->multiply(steps, rows, columns, t->strip, outputs, sums, STRIP, t->add, NULL);
  } else {
    if (t->add) memcpy(t->tile, sums, bytes);
    dot->multiply(steps, rows, columns, t->strip, outputs, t->tile, STRIP, t->add, NULL);
    memcpy(sums, t->tile, bytes);
  }
}

/* dW[o][k] (+)= sums[k][o] for a tile of them; `at` is the first of dW. */
static void write_tile(const problem *p, const float *sums, int64_t rows, int64_t columns,
                       int64_t at) {
  float turned[TILE], *dw = (float *)p->dw->data + at;
  transpose_rows(sums, STRIP, rows, columns, turned, STRIP);
  for (int64_t o = 0; o < columns; o++, dw += p->depth) {
    const float *from = turned + o * STRIP;
    if (p->args->add[0]) {
#pragma omp simd
      for (int64_t k = 0; k < rows; k++) dw[k] += from[k];
    } else {
      memcpy(dw, from, (size_t)rows * sizeof *dw);
    }
  }
}

/* Asks for what write_tile writes. */
static void fetch_tile(const problem *p, int64_t columns, int64_t at) {
  const float *dw = (const float *)p->dw->data + at;
  for (int64_t o = 0; o < columns; o++, dw += p->depth) {
    __builtin_prefetch(dw, 1);
    __builtin_prefetch(dw + STRIP / 2, 1);
  }
}

/* What pairs of outputs [begin, begin + count) of the region, which are packed, add to the sums of
 * all rows of the patch's channels, from row `row` of the group on. */
static void multiply_pairs(const task *t, int64_t begin, int64_t count, int64_t row, bool last) {
  const problem *p = t->p;
  int64_t rows = t->region.channels * p->patch.axis[0].taps * p->patch.axis[1].taps;
  int64_t end = row + rows, steps = ac_ceil_div(count, PAIRS);
  ac_dot_image image = {(const uint16_t *)t->filling, t->offset, t->place + begin};
  for (; row < end; row += STRIP, image.offset += STRIP) {
    int64_t height = ac_smaller(STRIP, end - row);
    if (!p->dot->correlate) pack_image(&image, height, steps, t->strip);
    for (int64_t first = 0; first < p->out; first += STRIP) {
      int64_t columns = ac_smaller(STRIP, p->out - first);
      int64_t at = (t->group * p->out + first) * p->depth + row;
      float *sums = p->sums ? sums_at(p, t->sums, t->group, row, first) : t->tile;
      if (last) fetch_tile(p, columns, at);
      multiply_strips(t, &image, steps, (int)height, (int)columns,
                      t->packed + first / STRIP * p->packed, sums);
      if (last) write_tile(p, sums, height, columns, at);
    }
  }
}

/* A region of channels [first, last) of the group. Pairs that fill up the last step meet zeros and,
 * of the image, what the first pair does. */
static void multiply_region(task *t, const ac_conv_source *source, int64_t first, int64_t last) {
  const problem *p = t->p;
  const ac_conv_patch *s = &p->patch;
  int64_t taps = s->axis[0].taps * s->axis[1].taps, pairs = ac_conv_patch_pairs(s, &t->region);
  ac_conv_patch_places(s, &t->region, t->place);
  for (int64_t i = pairs; i % PAIRS; i++) t->place[i] = 0;
  bool ends = s->axis[0].outputs == t->region.row + t->region.rows &&
              p->samples == t->region.sample + t->region.samples && p->sample_parts == 1;
  for (int64_t begin = 0; begin < pairs; begin += DEPTH_PAIRS, t->add = true) {
    int64_t count = ac_smaller(DEPTH_PAIRS, pairs - begin);
    pack_outputs(t, begin, count);
    for (int64_t c = first; c < last; c += s->held) {
      t->region.channels = ac_smaller(s->held, last - c);
      t->region.channel = t->group * p->in + c;
      if (begin == 0 || s->held < last - first)
        ac_conv_patch_fill(s, source, &t->region, t->filling);
      multiply_pairs(t, begin, count, c * taps, ends && begin + count == pairs);
    }
  }
}

static void dot_run(const task *t, int64_t sample, const float *image, int64_t length,
                    float *sums) {
  const problem *p = t->p;
  int64_t rows = t->region.channels * p->patch.axis[0].taps * p->patch.axis[1].taps;
  for (int64_t channel = 0; channel < p->out; channel++)
    for (int64_t begin = 0; begin < length; begin += PANEL) {
      int64_t count = ac_smaller(PANEL, length - begin);
      pack(t, sample, begin, count, channel, 1, 1);
      ac_cpu_dots(rows, count, t->panel, image + begin, t->offset, sums + channel, p->width);
    }
}

/* Without a patch, where a group has one channel. */
static void correlate_region(const task *t, const ac_conv_source *source) {
  const problem *p = t->p;
  const ac_conv_axis *axis = p->patch.axis;
  int64_t end = t->region.row + t->region.rows, taps = axis[1].taps;
  for (int64_t n = t->region.sample; n < t->region.sample + t->region.samples; n++)
    for (int64_t o = 0; o < p->out; o++)
      for (int64_t row = t->region.row; row < end;) {
        int64_t image = n * source->sample + t->group * source->channel;
        ac_conv_rows rows = ac_conv_rows_from(axis, source, image, row, end);
        int64_t at = (n * p->dy->dim[1] + t->group * p->out + o) * p->dy->dim[2] + row;
        float *sums = t->sums + (t->group * p->depth + rows.first * taps) * p->width + o;
        rows.next_x = ac_conv_next(p->x, p->groups, n);
        rows.next_y = ac_conv_next(p->dy, p->groups, n);
        ac_conv_correlate(&rows, p->dy, at * p->dy->dim[3], sums, p->width);
        row += rows.count;
      }
}

static void run_region(task *t, int64_t first, int64_t last) {
  const problem *p = t->p;
  const ac_conv_patch *s = &p->patch;
  int64_t pixels = p->x->dim[2] * p->x->dim[3], taps = s->axis[0].taps * s->axis[1].taps;
  ac_conv_source source = {
      .data = p->x->data, .dtype = p->x->dtype, .sample = p->x->dim[1] * pixels, .channel = pixels};
  if (p->in == 1 && p->out < FEW && ac_conv_can_filter(&s->axis[1])) {
    correlate_region(t, &source);
    return;
  }
  if (p->dot) {
    multiply_region(t, &source, first, last);
    return;
  }
  int64_t runs = ac_conv_runs(s, &t->region), length = ac_conv_run_length(s, &t->region);
  for (int64_t c = first; c < last; c += s->held) {
    t->region.channels = ac_smaller(s->held, last - c);
    t->region.channel = t->group * p->in + c;
    ac_conv_patch_fill(s, &source, &t->region, t->filling);
    float *sums = t->sums + (t->group * p->in + c) * taps * p->width;
    for (int64_t run = 0; run < runs; run++) {
      const float *image = t->filling + run * s->sample;
      if (p->out < FEW) dot_run(t, t->region.sample + run, image, length, sums);
      else multiply_run(t, t->region.sample + run, image, length, sums);
    }
  }
}

/* Task `index`, in the order of parts of samples, groups and parts of channels. */
static void run_task(task *t, int64_t index) {
  const problem *p = t->p;
  const ac_conv_patch *s = &p->patch;
  int64_t part = index % p->channel_parts, share = s->channels;
  int64_t first = ac_smaller(p->in, part * share), last = ac_smaller(p->in, first + share);
  int64_t of_samples = index / p->channel_parts / p->groups;
  int64_t sample = p->samples * of_samples / p->sample_parts;
  int64_t end = p->samples * (of_samples + 1) / p->sample_parts;
  float *all = t->sums;
  if (first == last) return;
  t->add = false;
  t->group = index / p->channel_parts % p->groups;
  t->sums = all + of_samples * sum_floats(p);
  int64_t begin = (t->group * p->in + first) * p->depth / p->in * p->width;
  int64_t count = (last - first) * p->depth / p->in * p->width;
  if (!p->dot) memset(t->sums + begin, 0, (size_t)count * sizeof *t->sums);
  for (int64_t n = sample; n < end; n += t->region.samples) {
    t->region.sample = n;
    t->region.samples = ac_smaller(s->samples, end - n);
    for (int64_t row = 0; row < s->axis[0].outputs; row += s->rows) {
      t->region.row = row;
      t->region.rows = ac_smaller(s->rows, s->axis[0].outputs - row);
      run_region(t, first, last);
    }
  }
  t->sums = all;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Output channels [first, last) of a group: dW[o][k] (+)= sums[part][k][o]. */
static void write_weights(const problem *p, float *sums, int64_t group, int64_t first,
                          int64_t last) {
  float *dw = p->dw->data;
  bool add = p->args->add[0];
  if (!add && p->sample_parts == 1) {
    transpose_rows(sums_at(p, sums, group, 0, first), p->slab, p->depth, last - first,
                   dw + (group * p->out + first) * p->depth, p->depth);
    return;
  }
  for (int64_t k = 0; k < p->depth; k++)
    for (int64_t o = first; o < last; o++) {
      const float *from = sums_at(p, sums, group, k, o);
      float *to = dw + (group * p->out + o) * p->depth + k, sum = add ? *to : 0.0f;
      for (int64_t part = 0; part < p->sample_parts; part++) sum += from[part * sum_floats(p)];
      *to = sum;
    }
}

static void write_share(const problem *p, float *sums, int thread, int team) {
  enum { BLOCK = 16 };
  int64_t blocks = ac_ceil_div(p->out, BLOCK), begin, end;
  ac_cpu_share(p->groups * blocks, 1, thread, team, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i % blocks * BLOCK;
    write_weights(p, sums, i / blocks, first, ac_smaller(p->out, first + BLOCK));
  }
}

/* The sum of one channel of one image. */
static double plane_sum(const ac_operand *dy, int64_t at, int64_t count) {
  if (dy->dtype == AC_F32) return (double)row_sum((const float *)dy->data + at, count);
  float floats[AC_CPU_CHUNK];
  double sum = 0;
  for (int64_t j = 0, n; j < count; j += n) {
    n = ac_smaller(AC_CPU_CHUNK, count - j);
    ac_cpu_widen(dy->dtype, ac_element(dy->data, dy->dtype, at + j), floats, n);
    sum += (double)row_sum(floats, n);
  }
  return sum;
}

static void bias_gradient(const problem *p, int thread, int team) {
  const ac_operand *dy = p->dy;
  int64_t channels = dy->dim[1], pixels = dy->dim[2] * dy->dim[3], first, last;
  float *db = p->db->data;
  ac_cpu_share(channels, 1, thread, team, &first, &last);
  for (int64_t c = first; c < last; c++) {
    double sum = 0;
    for (int64_t n = 0; n < p->samples; n++)
      sum += plane_sum(dy, (n * channels + c) * pixels, pixels);
    db[c] = (p->args->add[1] ? db[c] : 0.0f) + (float)sum;
  }
}

void ac_conv_weight_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  problem p = problem_of(context, args);
  if (p.db->count) bias_gradient(&p, thread, team);
  if (!p.dw->count) return;
  if (ac_winograd_takes(context, args)) {
    ac_winograd_correlate(context, args, thread, team);
    return;
  }
  float *sums = args->workspace;
  float *own = sums + p.sample_parts * sum_floats(&p) + thread * share_floats(&p);
  task t = {.p = &p, .sums = sums, .filling = own};
  t.panel = own + ac_conv_lines(p.patch.floats);
  t.tile = t.panel;
  t.packed = (uint32_t *)(t.tile + TILE);
  t.strip = t.packed + strips_of(p.out) * p.packed;
  t.place = t.panel_offset = (int32_t *)(t.panel + packed_floats(&p));
  t.offset = t.place + place_floats(&p);
  ac_conv_patch_offsets(&p.patch, t.offset);
  int64_t first, last;
  ac_cpu_share(p.sample_parts * p.groups * p.channel_parts, 1, thread, team, &first, &last);
  ac_dot_begin(p.dot);
  for (int64_t i = first; i < last; i++) run_task(&t, i);
  ac_dot_end(p.dot);
  if (p.dot && p.sample_parts == 1) return;
  ac_cpu_barrier(team);
  write_share(&p, sums, thread, team);
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args,
                  ac_conv_is_of_volumes(args) ? ac_conv_volume_part : ac_conv_weight_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(conv2d_weight_gradient) = {.run = run, .workspace = workspace};
