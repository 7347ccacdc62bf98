/* Convolutions and their input gradients with neighbouring samples: a line of the patch is one
 * channel (for bf16 a pair of channels) at one position of the image, of LANES samples. So each
 * position of the output is a product of its own,
 *
 *   weights, by the taps that meet the image there  x  lines at the positions that these meet
 *
 * with samples as columns. Nothing is multiplied by padding, which would be a third of all products
 * for images of 4 x 4 and a sixth for 8 x 8, nor by the gaps between rows that columns along an
 * image have, and nothing is copied for a tap. A stride, also in a gradient, only changes which
 * positions meet; positions that a kernel of 1 x 1 never meets are left out.
 *
 *   pack the weights: strips of rows, in steps of 16 lines for one tap
 *   for each thread's share of the rows of outputs, of a group and of LANES samples:
 *     fill the patch: position after position, each with all channels
 *     for each strip of the weights
 *       for each block of positions: for each two that meet the same taps, or one that is left
 *         alone, sums = strip x what they meet
 *         turn the sums of each channel round, and into y with them
 *
 * Steps run over blocks of channels, and within these over taps in the order of positions, like
 * those of pairs in planes (conv2d.c). In conv2d.c sums have another order for floats, and if the
 * patch is spread out.
 *
 * Workspace: the packed weights, and for each thread a patch, of at most PATCH elements, the sums
 * of a block, two numbers for each step of a region's positions, and three for each position. */
#include "backend/cpu/convolution/conv.h"
#include "backend/cpu/convolution/conv_lanes.h"
#include "backend/cpu/convolution/conv_square.h"
#include "backend/cpu/product/indirect.h"
#include "backend/cpu/product/pairs.h"
#include "backend/cpu/shared/convert.h"
#include "ops/convolution/conv2d.h"

#include <string.h>

/* A patch, the weights' current strip and sums stay in the second-level cache of current cores, 1
 * to 2 MiB. BLOCK: positions with sums that wait. ROW: sums of a row of these, chosen so that
 * neighbours do not fall on the same lines of a cache. AHEAD: lines of a patch that are asked for
 * before they are read. */
enum {
  PATCH = 160 << 10,
  BLOCK = 4 * LANES,
  ROW = BLOCK * LANES + STRIP,
  SQUARE = STRIP * PAIRS,
  AHEAD = 2
};

/* Positions start + i * every of an image. */
typedef struct kept {
  int64_t start, every;
} kept;

/* One axis: outputs are those of the op, the source is what it reads. A single tap meets one
 * position of the larger image in each stride; the others are left out. */
typedef struct axis {
  int64_t size, outputs, taps;
  int64_t stride, padding, dilation;
  kept read, written; /* where source and outputs lie in their images */
  bool transposed;
} axis;

typedef struct problem {
  const ac_op_args *args;
  const ac_operand *x, *y, *weight; /* the image that is read, and the one that is written */
  bool transposed;
  int64_t groups, samples, in, out; /* in, out: channels of a group */
  const ac_dot_class *dot;          /* of bf16; NULL: floats */
  ac_dot_convolve *convolve;
  int64_t together; /* channels of a line */
  axis axis[2];
  int64_t taps, lines, blocks; /* lines: of a position; blocks: of 16 lines */
  int64_t steps;               /* of a strip */
  int64_t distance;            /* of positions in a patch, in elements */
  int64_t rows, held;          /* of outputs in a region; positions of a patch, at most */
} problem;

/* ---- axes ------------------------------------------------------------------------------------ */

static int64_t place(const kept *k, int64_t i) {
  return k->start + i * k->every;
}

/* Leaves out what a single tap never meets: where i * stride - padding is a position of the larger
 * image, it is number i - ceil(padding / stride) of those that stay. */
static void leave_out(axis *a) {
  if (a->taps != 1 || a->stride == 1) return;
  int64_t *larger = a->transposed ? &a->outputs : &a->size;
  int64_t before = ac_ceil_div(a->padding, a->stride);
  kept k = {before * a->stride - a->padding, a->stride};
  *(a->transposed ? &a->written : &a->read) = k;
  *larger = ac_larger(0, ac_ceil_div(*larger - k.start, k.every));
  a->padding = before;
  a->stride = 1;
}

/* Tap k, in the order of positions, of a kernel. */
static int64_t tap_of(const axis *a, int64_t k) {
  return a->transposed ? a->taps - 1 - k : k;
}

/* The position of the source where an output meets a tap, or -1. */
static int64_t position(const axis *a, int64_t output, int64_t tap) {
  int64_t at = output * a->stride - a->padding + tap * a->dilation;
  if (a->transposed) {
    at = output + a->padding - tap * a->dilation;
    if (at % a->stride != 0) return -1;
    at /= a->stride;
  }
  return at >= 0 && at < a->size ? at : -1;
}

/* The taps that an output meets. */
static int64_t taps_met(const axis *a, int64_t output) {
  int64_t count = 0;
  for (int64_t tap = 0; tap < a->taps; tap++) count += position(a, output, tap) >= 0;
  return count;
}

/* Meetings of all outputs with taps; the second also counts padding. */
static int64_t meetings(const axis *a) {
  int64_t count = 0;
  for (int64_t i = 0; i < a->outputs; i++) count += taps_met(a, i);
  return count;
}
static int64_t meetings_with_padding(const axis *a) {
  return (a->transposed ? a->size : a->outputs) * a->taps;
}

/* The positions [*begin, *end) that outputs [first, last) meet, and how many these are at most for
 * so many outputs. */
static void source_of(const axis *a, int64_t first, int64_t last, int64_t *begin, int64_t *end) {
  *begin = a->size, *end = 0;
  for (int64_t i = first; i < last; i++)
    for (int64_t tap = 0; tap < a->taps; tap++) {
      int64_t at = position(a, i, tap);
      if (at < 0) continue;
      *begin = ac_smaller(*begin, at);
      *end = ac_larger(*end, at + 1);
    }
  if (*end == 0) *begin = 0;
}
static int64_t most_met(const axis *a, int64_t outputs) {
  int64_t reach = (a->taps - 1) * a->dilation;
  int64_t met =
      a->transposed ? (outputs - 1 + reach) / a->stride + 1 : (outputs - 1) * a->stride + reach + 1;
  return ac_smaller(met, a->size);
}

/* ---- problems -------------------------------------------------------------------------------- */

static problem problem_of(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_conv2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0], *weight = &args->in[1];
  problem p = {.args = args,
               .x = x,
               .y = y,
               .weight = weight,
               .transposed = args->op == AC_OP_conv_transpose2d,
               .groups = a->groups,
               .samples = x->dim[0],
               .in = x->dim[1] / a->groups,
               .out = y->dim[1] / a->groups,
               .dot = x->dtype == AC_BF16 ? context->dot : NULL,
               .taps = weight->dim[2] * weight->dim[3]};
  for (int i = 0; i < 2; i++) {
    p.axis[i] = (axis){.size = x->dim[2 + i],
                       .outputs = y->dim[2 + i],
                       .taps = weight->dim[2 + i],
                       .stride = a->stride[i],
                       .padding = a->padding[i],
                       .dilation = a->dilation[i],
                       .read = {0, 1},
                       .written = {0, 1},
                       .transposed = p.transposed};
    if (!p.transposed || !args->in[2].count) leave_out(&p.axis[i]); /* a bias is met everywhere */
  }
  p.convolve = p.dot ? p.dot->convolve : ac_cpu_convolve;
  p.together = p.dot ? 2 : 1;
  p.lines = ac_ceil_div(p.in, p.together);
  p.blocks = ac_ceil_div(p.lines, PAIRS);
  p.steps = p.blocks * p.taps;
  p.distance = (p.blocks * PAIRS + 1) * LANES; /* an odd number of cache lines */
  if (!p.axis[0].outputs) return p;
  int64_t width = p.axis[1].size * p.distance;
  for (p.rows = p.axis[0].outputs; p.rows > 1; p.rows--)
    if (most_met(&p.axis[0], p.rows) * width <= PATCH) break;
  p.rows = ac_ceil_div(p.axis[0].outputs, ac_ceil_div(p.axis[0].outputs, ac_larger(1, p.rows)));
  p.held = most_met(&p.axis[0], p.rows) * p.axis[1].size;
  return p;
}

/* True if lanes are filled so well that less is multiplied than with all the padding: without a
 * stride by at least a sixteenth, because then columns along the image cost little else. Kernels of
 * one tap without a stride leave nothing out. With a stride, rows of their outputs are read as fast
 * from planes, without turning anything: those of pairs if they are whole vectors, those of floats
 * if they are not short. The same is true of kernels of width 1 and any height, with a stride
 * across, if 16 bits become floats. */
static bool takes(const ac_cpu_context *context, const ac_op_args *args, int64_t samples) {
  enum { ALL = 16, MOST = 15 };
  const ac_conv2d_attributes *a = args->attributes;
  if (!args->in[0].count || !args->in[1].count || !args->out[0].count) return false;
  problem p = problem_of(context, args);
  bool dense = a->stride[0] == 1 && a->stride[1] == 1;
  int64_t width = p.axis[1].outputs;
  bool rows = !p.transposed && (p.dot ? width % LANES == 0 : width > LANES / 4);
  if (!p.dot && p.x->dtype != AC_F32 && p.axis[1].read.every > 1) return false;
  if (p.taps == 1 && (dense || rows)) return false;
  if (!p.axis[0].outputs || !p.axis[1].outputs || !p.axis[0].size || !p.axis[1].size) return false;
  if (p.blocks * PAIRS * 8 > p.lines * 9 || p.held * p.distance > PATCH) return false;
  int64_t lanes = ac_ceil_div(samples, LANES) * LANES;
  int64_t met = meetings(&p.axis[0]) * meetings(&p.axis[1]);
  int64_t all = meetings_with_padding(&p.axis[0]) * meetings_with_padding(&p.axis[1]);
  return met * lanes * ALL <= all * samples * (dense ? MOST : ALL);
}

bool ac_conv_lanes_takes(const ac_cpu_context *context, const ac_op_args *args) {
  return takes(context, args, args->in[0].dim[0]);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t packed_floats(const problem *p) {
  return p->groups * strips_of(p->out) * p->steps * SQUARE;
}

/* Positions of a region, and steps of all of them at most: with a stride, outputs of the input
 * gradient meet few of the taps. */
static int64_t places(const problem *p) {
  return p->rows * p->axis[1].outputs;
}
static int64_t whole_blocks(const problem *p) {
  return ac_ceil_div(places(p), BLOCK) * BLOCK;
}
static int64_t place_steps(const problem *p) {
  const axis *v = &p->axis[0];
  int64_t most = 0;
  for (int64_t i = 0; i < v->outputs; i++) most = ac_larger(most, taps_met(v, i));
  return ac_conv_lines(p->rows * most * meetings(&p->axis[1]) * p->blocks);
}

/* A thread's part: the patch, sums, where each position's steps begin, its mate and its slot, and
 * two numbers of each step. */
static int64_t share_floats(const problem *p) {
  return ac_conv_lines(p->held * p->distance) + STRIP * ROW + ac_conv_lines(places(p) + 1) +
         2 * whole_blocks(p) + 2 * place_steps(p);
}

/* Among all numbers of samples up to this one, whole lanes are the most likely to be computed
 * here. */
int64_t ac_conv_lanes_floats(const ac_cpu_context *context, const ac_op_args *args) {
  if (!takes(context, args, ac_smaller(args->in[0].dim[0], LANES))) return 0;
  problem p = problem_of(context, args);
  return packed_floats(&p) + context->threads * share_floats(&p);
}

/* ---- elements -------------------------------------------------------------------------------- */

/* A square of 16 bits with neighbouring columns becomes one of floats. */
static void turn_widened(ac_dtype dtype, const square *s, float *to, int64_t distance) {
  float floats[LANES * LANES];
  square wide = {floats, 0, s->columns, s->rows, 0, s->columns, 1};
  if (s->distance == s->columns) ac_cpu_widen(dtype, s->first, floats, s->rows * s->columns);
  else ac_cpu_widen_rows(dtype, s->first, s->distance, floats, s->columns, s->rows, s->columns);
  turn_floats(&wide, to, distance);
}

static void turn_elements(const problem *p, const square *s, uint32_t *to, int64_t distance) {
  if (p->dot) turn_pairs(s, to, distance);
  else if (p->x->dtype == AC_F32) turn_floats(s, (float *)to, distance);
  else turn_widened(p->x->dtype, s, (float *)to, distance);
}

/* Up to 16 lines of `channels` channels, `next` apart, that begin at an element of the weights. */
static square lines_at(const problem *p, int64_t at, int64_t next, int64_t channels) {
  return (square){.first = ac_element(p->weight->data, p->weight->dtype, at),
                  .second = next,
                  .distance = p->together * next,
                  .rows = ac_smaller(PAIRS, ac_ceil_div(channels, p->together)),
                  .seconds = ac_smaller(PAIRS, channels / 2),
                  .step = 1};
}

/* One row of a group's weights, from element `at` on, as its part of a strip: for each block of
 * channels and each tap, 16 lines. Channels of the source are `next` apart. */
static void pack_row(const problem *p, int64_t at, int64_t next, uint32_t *to) {
  if (next == 1) { /* one tap: channels are neighbours already, and so are their pairs */
    const int64_t most = p->together * PAIRS;
    for (int64_t c = 0; c < p->in; c += most, to += SQUARE) {
      const void *from = ac_element(p->weight->data, p->weight->dtype, at + c);
      int64_t count = ac_smaller(most, p->in - c);
      if (count < most) memset(to, 0, PAIRS * sizeof *to);
      if (p->dot) memcpy(to, from, (size_t)count * sizeof(uint16_t));
      else ac_cpu_widen(p->weight->dtype, from, (float *)to, count);
    }
    return;
  }
  for (int64_t block = 0; block < p->blocks; block++)
    for (int64_t tap = 0; tap < p->taps; tap += PAIRS) {
      int64_t channel = block * p->together * PAIRS;
      square s = lines_at(p, at + channel * next + tap, next, p->in - channel);
      s.columns = ac_smaller(PAIRS, p->taps - tap);
      turn_elements(p, &s, to + (block * p->taps + tap) * SQUARE, SQUARE);
    }
}

/* Up to 16 rows with one tap, from weights that have rows side by side. */
static void pack_columns(const problem *p, int64_t at, int64_t rows, uint32_t *to) {
  for (int64_t block = 0; block < p->blocks; block++) {
    int64_t channel = block * p->together * PAIRS;
    square s = lines_at(p, at + channel * p->out, p->out, p->in - channel);
    s.columns = rows;
    turn_elements(p, &s, to + block * SQUARE, PAIRS);
  }
}

static void pack_weights(const problem *p, uint32_t *packed, int thread, int team) {
  int64_t strips = strips_of(p->out), first, last;
  int64_t row_step = (p->transposed ? 1 : p->in) * p->taps;
  int64_t next = (p->transposed ? p->out : 1) * p->taps;
  ac_cpu_share(p->groups * strips * STRIP, STRIP, thread, team, &first, &last);
  bool side_by_side = p->transposed && p->taps == 1;
  for (int64_t i = first, rows; i < last; i += rows) {
    int64_t group = i / (strips * STRIP), row = i % (strips * STRIP);
    rows = side_by_side && row < p->out ? ac_smaller(PAIRS, p->out - row) : 1;
    int64_t weights = group * p->in * p->out * p->taps;
    uint32_t *to = packed + i / STRIP * p->steps * SQUARE + i % STRIP * PAIRS;
    if (rows > 1) pack_columns(p, weights + row, rows, to);
    else if (row < p->out) pack_row(p, weights + row * row_step, next, to);
    else
      for (int64_t step = 0; step < p->steps; step++)
        memset(to + step * SQUARE, 0, PAIRS * sizeof *to);
  }
}

/* ---- images ---------------------------------------------------------------------------------- */

/* A thread's memory, and its work: rows [row, row + rows) of outputs, of some samples of a group.
 */
typedef struct work {
  const problem *p;
  const uint32_t *packed;
  uint32_t *patch;
  float *sums;
  int32_t *begin, *of, *offset; /* of each position, its steps; their numbers, where they lie */
  int32_t *mate, *slot;         /* of each position, see pair_up */
  int64_t group, sample, samples;
  int64_t row, rows;
  int64_t source; /* the first position of the patch */
} work;

/* Prefetches the elements of a square that lies so many elements after this one; the hardware does
 * not predict strides from sample to sample. */
static void fetch_square(const problem *p, const square *s, int64_t further) {
  for (int64_t i = 0; i < s->rows; i++, further += s->distance) {
    __builtin_prefetch(ac_element(s->first, p->x->dtype, further));
    if (p->dot) __builtin_prefetch(ac_element(s->first, p->x->dtype, further + s->second));
  }
}

/* `count` positions of a line into the patch, the first one as its number `first`; they follow each
 * other, with what is left out between them, from element `at` of a channel on. */
static void fill_run(const work *w, int64_t line, int64_t at, int64_t first, int64_t count) {
  const problem *p = w->p;
  int64_t pixels = p->x->dim[2] * p->x->dim[3], step = p->axis[1].read.every;
  at += (w->sample * p->x->dim[1] + w->group * p->in + p->together * line) * pixels;
  for (int64_t i = 0; i < count; i += LANES) {
    square s = {.first = ac_element(p->x->data, p->x->dtype, at + i * step),
                .second = pixels,
                .distance = p->x->dim[1] * pixels,
                .rows = w->samples,
                .seconds = 2 * line + 1 < p->in ? w->samples : 0,
                .columns = ac_smaller(LANES, count - i),
                .step = step};
    fetch_square(p, &s, AHEAD * p->together * pixels);
    turn_elements(p, &s, w->patch + (first + i) * p->distance + line * LANES, p->distance);
  }
}

/* Rows [first, last) of the source into the patch. */
static void fill_patch(const work *w, int64_t first, int64_t last) {
  const problem *p = w->p;
  const axis *v = &p->axis[0], *h = &p->axis[1];
  int64_t whole = p->blocks * PAIRS, width = h->size, all = (last - first) * width;
  bool dense = v->read.every == 1 && h->read.every == 1;
  for (int64_t line = 0; line < p->lines; line++)
    for (int64_t row = first; row < last; row += dense ? last - first : 1)
      fill_run(w, line, place(&v->read, row) * p->x->dim[3] + h->read.start, (row - first) * width,
               dense ? all : width);
  size_t rest = (size_t)((whole - p->lines) * LANES) * sizeof *w->patch;
  for (int64_t at = 0; rest && at < all; at++)
    memset(w->patch + at * p->distance + p->lines * LANES, 0, rest);
}

/* Adds the steps of the output in a row and a column to `count` others; returns how many there are
 * then. */
static int64_t add_steps(const work *w, int64_t row, int64_t column, int64_t count) {
  const problem *p = w->p;
  const axis *v = &p->axis[0], *h = &p->axis[1];
  for (int64_t block = 0; block < p->blocks; block++)
    for (int64_t r = 0; r < v->taps; r++) {
      int64_t down = position(v, row, tap_of(v, r));
      for (int64_t t = 0; t < h->taps && down >= 0; t++) {
        int64_t across = position(h, column, tap_of(h, t));
        if (across < 0) continue;
        int64_t at = down * h->size + across - w->source;
        w->of[count] = (int32_t)(block * p->taps + tap_of(v, r) * h->taps + tap_of(h, t));
        w->offset[count++] = (int32_t)(at * p->distance + block * PAIRS * LANES);
      }
    }
  return count;
}

/* Whether two positions meet the same taps. */
static bool alike(const work *w, int64_t i, int64_t k) {
  int64_t steps = w->begin[i + 1] - w->begin[i];
  const int32_t *of = w->of;
  return w->begin[k + 1] - w->begin[k] == steps &&
         !memcmp(of + w->begin[i], of + w->begin[k], (size_t)steps * sizeof *of);
}

/* Two positions of a block that meet the same taps are columns of one product: the weights are read
 * once for both, and with more sums to each load the CPU has enough to multiply. The first of them
 * has the other one for its mate, the other none (-1), and those left alone have themselves. Sums
 * are in slots; those of pairs are neighbours. */
static void pair_up(work *w, int64_t first, int64_t count) {
  int32_t *mate = w->mate + first, *slot = w->slot + first, next = 0;
  for (int32_t i = 0; i < BLOCK; i++) mate[i] = slot[i] = -1;
  for (int32_t i = 0; i < count; i++) {
    if (slot[i] >= 0) continue;
    mate[i] = i;
    slot[i] = next++;
    int64_t k = i + 1;
    while (k < count && (slot[k] >= 0 || !alike(w, first + i, first + k))) k++;
    if (k == count) continue;
    mate[i] = (int32_t)k;
    slot[k] = next++;
  }
  for (int64_t i = count; i < BLOCK; i++) slot[i] = 0; /* turned with others, and not stored */
}

static void prepare(work *w) {
  const problem *p = w->p;
  int64_t width = p->axis[1].size, columns = p->axis[1].outputs, first, last, count = 0;
  source_of(&p->axis[0], w->row, w->row + w->rows, &first, &last);
  w->source = first * width;
  fill_patch(w, first, last);
  for (int64_t i = 0; i < w->rows * columns; i++) {
    w->begin[i] = (int32_t)count;
    count = add_steps(w, w->row + i / columns, i % columns, count);
  }
  w->begin[w->rows * columns] = (int32_t)count;
  for (int64_t at = 0; at < w->rows * columns; at += BLOCK)
    pair_up(w, at, ac_smaller(BLOCK, w->rows * columns - at));
}

/* ---- products -------------------------------------------------------------------------------- */

/* Output positions [first, first + count) of the region, in runs that lie in a row of the image or,
 * where nothing is left out, follow each other: the next run has *count positions from element *at
 * of a channel on. */
static void next_run(const work *w, int64_t first, int64_t last, int64_t *at, int64_t *count) {
  const axis *v = &w->p->axis[0], *h = &w->p->axis[1];
  int64_t row = first / h->outputs, column = first % h->outputs, width = w->p->y->dim[3];
  bool whole = v->written.every == 1 && h->written.every == 1;
  *at = place(&v->written, w->row + row) * width + place(&h->written, column);
  *count = whole ? last - first : ac_smaller(last - first, h->outputs - column);
}

/* Sums of a channel at positions [first, first + count) of the region into y. */
static void store_channel(const work *w, const float *sums, int64_t channel, int64_t first,
                          int64_t count) {
  const problem *p = w->p;
  const ac_operand *bias = &p->args->in[2], *y = p->y;
  float turned[LANES * BLOCK];
  for (int64_t at = 0; at < count; at += LANES)
    turn_sums(sums, w->slot + first + at, turned + at, BLOCK);
  channel += w->group * p->out;
  float b = !bias->count ? 0.0f : ((const float *)bias->data)[channel];
  int64_t step = p->axis[1].written.every, pixels = y->dim[2] * y->dim[3], at, run;
  for (int64_t i = 0; i < count; i += run) {
    next_run(w, first + i, first + count, &at, &run);
    at += (w->sample * y->dim[1] + channel) * pixels;
    ac_conv_store_rows(p->args->run, turned + i, BLOCK, w->samples, b, p->args->add[0], y, at,
                       y->dim[1] * pixels, step, run);
  }
}

/* Prefetches part `part` of so many parts of the memory that the sums of `rows` channels at `count`
 * positions will be written to. Then memory works while products are computed. */
static void fetch_outputs(const work *w, int64_t channel, int64_t rows, int64_t first,
                          int64_t count, int64_t part, int64_t parts) {
  const ac_operand *y = w->p->y;
  int64_t pixels = y->dim[2] * y->dim[3], size = (int64_t)ac_dtype_bytes(y->dtype);
  int64_t step = w->p->axis[1].written.every, at, run;
  int64_t begin = channel + rows * part / parts, end = channel + rows * (part + 1) / parts;
  for (int64_t i = 0; i < count; i += run) {
    next_run(w, first + i, first + count, &at, &run);
    for (int64_t c = begin; c < end; c++)
      for (int64_t s = 0; s < w->samples; s++) {
        int64_t image = (w->sample + s) * y->dim[1] + w->group * w->p->out + c;
        const char *from = (const char *)y->data + (image * pixels + at) * size;
        for (int64_t line = 0; line < run * step * size; line += AC_DOT_LINE)
          __builtin_prefetch(from + line, 1);
      }
  }
}

/* Zeros into the rows of y that hold the outputs of a region, between which some are left out. */
static void clear_outputs(const work *w, int64_t channel, int64_t rows) {
  const problem *p = w->p;
  const ac_operand *y = p->y;
  const kept *v = &p->axis[0].written;
  if ((v->every == 1 && p->axis[1].written.every == 1) || p->args->add[0]) return;
  int64_t width = y->dim[3], height = y->dim[2];
  int64_t first = w->row ? place(v, w->row) : 0, end = w->row + w->rows;
  int64_t last = end < p->axis[0].outputs ? place(v, end) : height;
  for (int64_t s = w->sample; s < w->sample + w->samples; s++)
    for (int64_t c = channel; c < channel + rows; c++) {
      int64_t image = s * y->dim[1] + w->group * p->out + c;
      memset(ac_element(y->data, y->dtype, (image * height + first) * width), 0,
             (size_t)((last - first) * width) * ac_dtype_bytes(y->dtype));
    }
}

/* Output channels [first, last), where strips begin, of a region. */
static void multiply(const work *w, int64_t first, int64_t last) {
  const problem *p = w->p;
  int64_t all = w->rows * p->axis[1].outputs, strips = strips_of(p->out);
  for (int64_t row = first; row < last; row += STRIP) {
    const uint32_t *a = w->packed + (w->group * strips + row / STRIP) * p->steps * SQUARE;
    int64_t rows = ac_smaller(STRIP, last - row);
    clear_outputs(w, row, rows);
    for (int64_t at = 0; at < all; at += BLOCK) {
      int64_t count = ac_smaller(BLOCK, all - at);
      for (int64_t i = 0; i < count; i++) {
        fetch_outputs(w, row, rows, at, count, i, count);
        int64_t mate = w->mate[at + i];
        if (mate < 0) continue;
        int64_t begin = w->begin[at + i], steps = w->begin[at + i + 1] - begin;
        int64_t second = steps ? w->offset[w->begin[at + mate]] - w->offset[begin] : 0;
        ac_dot_patch b = {.at = w->patch,
                          .offset = w->offset + begin,
                          .distance = LANES,
                          .of = w->of + begin,
                          .second = second};
        p->convolve(steps, (int)rows, mate == i ? LANES : 2 * LANES, a, &b,
                    w->sums + w->slot[at + i] * LANES, ROW, false);
      }
      for (int64_t i = 0; i < rows; i++) store_channel(w, w->sums + i * ROW, row + i, at, count);
    }
  }
}

void ac_conv_lanes_convolve(const ac_cpu_context *context, const ac_op_args *args, int thread,
                            int team) {
  problem p = problem_of(context, args);
  uint32_t *packed = args->workspace;
  float *own = (float *)args->workspace + packed_floats(&p) + thread * share_floats(&p);
  work w = {.p = &p, .packed = packed, .patch = (uint32_t *)own};
  w.sums = own + ac_conv_lines(p.held * p.distance);
  w.begin = (int32_t *)(w.sums + STRIP * ROW);
  w.mate = w.begin + ac_conv_lines(places(&p) + 1);
  w.slot = w.mate + whole_blocks(&p);
  w.of = w.slot + whole_blocks(&p);
  w.offset = w.of + place_steps(&p);
  pack_weights(&p, packed, thread, team);
  ac_cpu_barrier(team);
  ac_dot_begin(p.dot);
  /* Ordered by parts of the channels, groups, samples and rows. There are several parts if there
   * are fewer images than threads. */
  int64_t height = p.axis[0].outputs, sets = ac_ceil_div(p.samples, LANES);
  int64_t images = p.groups * sets, strips = strips_of(p.out);
  int64_t parts = ac_smaller(ac_ceil_div(team, images), strips);
  int64_t share = ac_ceil_div(strips, parts) * STRIP, at, last;
  ac_cpu_share(parts * images * height, 1, thread, team, &at, &last);
  for (; at < last; at += w.rows) {
    int64_t image = at / height, first = ac_smaller(p.out, image / images * share);
    w.group = image / sets % p.groups;
    w.sample = image % sets * LANES;
    w.samples = ac_smaller(LANES, p.samples - w.sample);
    w.row = at % height;
    w.rows = ac_smaller(ac_smaller(p.rows, height - w.row), last - at);
    prepare(&w);
    multiply(&w, first, ac_smaller(p.out, first + share));
  }
  ac_dot_end(p.dot);
}
