/* Convolutions of bf16 and their input gradients with samples beside each other: an element of the
 * patch is a pair of channels at one position of the image, of LANES samples. So each position of
 * the output is a product of its own,
 *
 *   weights, by the taps that meet the image there  x  pairs at the positions that these meet
 *
 * whose columns are samples. Nothing is multiplied by padding, which is a third of all products for
 * images of 4 x 4 and a sixth for 8 x 8, nor by the gaps between rows that columns along an image
 * have, and nothing is copied for a tap. Any stride, and the gradient of any, is a matter of which
 * positions meet.
 *
 *   pack the weights: strips of rows, in steps of 16 pairs of channels for one tap
 *   for each thread's share of the rows of outputs, of a group and of LANES samples:
 *     fill the patch: position after position, each with all channels
 *     for each strip of the weights
 *       for each block of positions: for each position, sums = strip x what it meets
 *         turn the sums of each channel round, and into y with them
 *
 * Steps go by blocks of channels, and within these by taps in the order of positions, as they do in
 * planes (conv2d.c); where that way spreads its patch out, sums have another order than here.
 *
 * Workspace: the packed weights, and for each thread a patch, of at most PATCH elements, the sums
 * of a block and two numbers for each step of a region's positions. */
#include "backend/cpu/conv.h"
#include "backend/cpu/conv_lanes.h"
#include "backend/cpu/product/pairs.h"
#include "ops/conv2d.h"

#include <string.h>

/* A patch, the weights' current strip and sums stay in the second-level cache of current cores,
 * 1 to 2 MiB. BLOCK: positions whose sums wait. ROW: sums of a row of these, of which neighbours do
 * not fall on the same lines of a cache. */
enum {
  LANES = AC_DOT_LANES,
  PATCH = 160 << 10,
  BLOCK = 2 * LANES,
  ROW = BLOCK * LANES + STRIP,
  SQUARE = STRIP * PAIRS
};

/* One axis: outputs are those of the op, the source is what it reads. */
typedef struct axis {
  int64_t size, outputs, taps;
  int64_t stride, padding, dilation;
  bool transposed;
} axis;

typedef struct problem {
  const ac_op_args *args;
  const ac_operand *x, *y, *weight; /* the image that is read, and the one that is written */
  bool transposed;
  int64_t groups, samples, in, out; /* in, out: channels of a group */
  const ac_dot_class *dot;
  axis axis[2];
  int64_t taps, lines, blocks; /* lines: pairs of channels; blocks: of 16 of them */
  int64_t steps;               /* of a strip */
  int64_t distance;            /* of positions in a patch, in elements */
  int64_t rows, held;          /* of outputs in a region; positions of a patch, at most */
} problem;

/* ---- axes ------------------------------------------------------------------------------------ */

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

/* Those of all outputs; and with padding met as well. */
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
      *begin = ac_min(*begin, at);
      *end = ac_max(*end, at + 1);
    }
  if (*end == 0) *begin = 0;
}
static int64_t most_met(const axis *a, int64_t outputs) {
  int64_t reach = (a->taps - 1) * a->dilation;
  int64_t met =
      a->transposed ? (outputs - 1 + reach) / a->stride + 1 : (outputs - 1) * a->stride + reach + 1;
  return ac_min(met, a->size);
}

/* ---- problems -------------------------------------------------------------------------------- */

static problem problem_of(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_conv2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0], *weight = &args->in[1];
  problem p = {.args = args,
               .x = x,
               .y = y,
               .weight = weight,
               .transposed = args->op == AC_OP_conv2d_input_gradient,
               .groups = a->groups,
               .samples = x->dim[0],
               .in = x->dim[1] / a->groups,
               .out = y->dim[1] / a->groups,
               .dot = context->dot,
               .taps = weight->dim[2] * weight->dim[3]};
  for (int i = 0; i < 2; i++)
    p.axis[i] = (axis){.size = x->dim[2 + i],
                       .outputs = y->dim[2 + i],
                       .taps = weight->dim[2 + i],
                       .stride = a->stride[i],
                       .padding = a->padding[i],
                       .dilation = a->dilation[i],
                       .transposed = p.transposed};
  p.lines = ac_ceil_div(p.in, 2);
  p.blocks = ac_ceil_div(p.lines, PAIRS);
  p.steps = p.blocks * p.taps;
  p.distance = (p.blocks * PAIRS + 1) * LANES; /* an odd number of cache lines */
  int64_t width = p.axis[1].size * p.distance;
  for (p.rows = p.axis[0].outputs; p.rows > 1; p.rows--)
    if (most_met(&p.axis[0], p.rows) * width <= PATCH) break;
  p.rows = ac_ceil_div(p.axis[0].outputs, ac_ceil_div(p.axis[0].outputs, ac_max(1, p.rows)));
  p.held = most_met(&p.axis[0], p.rows) * p.axis[1].size;
  return p;
}

/* Where lanes are filled so well that less is multiplied than with all the padding: by a sixteenth
 * where there is no stride, for then columns along the image cost little else. Kernels of one tap
 * meet no padding, and the patch would hold more than they need. */
static bool takes(const ac_cpu_context *context, const ac_op_args *args, int64_t samples) {
  enum { ALL = 16, MOST = 15 };
  const ac_conv2d_attributes *a = args->attributes;
  if (!context->dot || args->in[0].dtype != AC_BF16 || args->in[1].dtype != AC_BF16) return false;
  if (!args->in[0].count || !args->in[1].count || !args->out[0].count) return false;
  problem p = problem_of(context, args);
  if (p.taps == 1 || p.blocks * PAIRS * 8 > p.lines * 9 || p.held * p.distance > PATCH)
    return false;
  int64_t lanes = ac_ceil_div(samples, LANES) * LANES;
  int64_t met = meetings(&p.axis[0]) * meetings(&p.axis[1]);
  int64_t all = meetings_with_padding(&p.axis[0]) * meetings_with_padding(&p.axis[1]);
  bool dense = a->stride[0] == 1 && a->stride[1] == 1;
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
static int64_t place_steps(const problem *p) {
  const axis *v = &p->axis[0];
  int64_t most = 0;
  for (int64_t i = 0; i < v->outputs; i++) most = ac_max(most, taps_met(v, i));
  return ac_conv_lines(p->rows * most * meetings(&p->axis[1]) * p->blocks);
}

/* A thread's part: the patch, sums, where each position's steps begin, and two numbers of each. */
static int64_t share_floats(const problem *p) {
  return ac_conv_lines(p->held * p->distance) + STRIP * ROW + ac_conv_lines(places(p) + 1) +
         2 * place_steps(p);
}

/* Of all numbers of samples up to this one whole lanes are the likeliest to go this way. */
int64_t ac_conv_lanes_floats(const ac_cpu_context *context, const ac_op_args *args) {
  if (!takes(context, args, ac_min(args->in[0].dim[0], LANES))) return 0;
  problem p = problem_of(context, args);
  return packed_floats(&p) + context->threads * share_floats(&p);
}

/* ---- pairs turned round ---------------------------------------------------------------------- */

/* Up to 16 rows of up to 16 columns of elements, and as many of second ones; rows lie `distance`
 * apart. The last `rows` may have no second ones. */
typedef struct square {
  const uint16_t *first;
  int64_t second; /* elements from the first */
  int64_t distance;
  int64_t rows, seconds, columns;
} square;

#if defined(AC_CPU_HAVE_SHUFFLES) && defined(__AVX512F__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__)
#include <immintrin.h>
#define INLINE static inline __attribute__((always_inline))

INLINE vector halves_at(const uint16_t *x, __mmask16 m) {
  return (vector)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, x));
}

/* `columns` is a constant where this is inlined. */
INLINE void turn_square(const square *s, int64_t columns, uint32_t *to, int64_t distance) {
  const __mmask16 m = (__mmask16)((1u << columns) - 1);
  vector v[PAIRS];
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) {
    v[i] = (vector){0};
    if (i >= s->rows) continue;
    const uint16_t *row = s->first + i * s->distance;
    v[i] = halves_at(row, m);
    if (i < s->seconds) v[i] |= halves_at(row + s->second, m) << 16;
  }
  turn(v);
#pragma GCC unroll 16
  for (int k = 0; k < PAIRS; k++)
    if (k < columns) memcpy(to + k * distance, &v[k], sizeof v[k]);
}

/* to[k * distance + i] = the pair in row i and column k, or 0, for all 16 rows. */
static void turn_pairs(const square *s, uint32_t *to, int64_t distance) {
  if (s->columns == 16) turn_square(s, 16, to, distance);
  else if (s->columns == 9) turn_square(s, 9, to, distance);
  else turn_square(s, s->columns, to, distance);
}

/* to[s * distance + k] = sums[k * LANES + s] for 16 of either. */
static void turn_sums(const float *sums, float *to, int64_t distance) {
  vector v[LANES];
#pragma GCC unroll 16
  for (int k = 0; k < LANES; k++) memcpy(&v[k], sums + k * LANES, sizeof v[k]);
  turn(v);
#pragma GCC unroll 16
  for (int s = 0; s < LANES; s++) memcpy(to + s * distance, &v[s], sizeof v[s]);
}

#else

static void turn_pairs(const square *s, uint32_t *to, int64_t distance) {
  for (int64_t k = 0; k < s->columns; k++, to += distance)
    for (int64_t i = 0; i < PAIRS; i++) {
      const uint16_t *from = s->first + (i < s->rows ? i * s->distance + k : 0);
      uint32_t pair = i < s->rows ? from[0] : 0;
      if (i < s->seconds) pair |= (uint32_t)from[s->second] << 16;
      to[i] = pair;
    }
}

static void turn_sums(const float *sums, float *to, int64_t distance) {
  for (int64_t s = 0; s < LANES; s++)
    for (int64_t k = 0; k < LANES; k++) to[s * distance + k] = sums[k * LANES + s];
}

#endif

/* ---- weights --------------------------------------------------------------------------------- */

/* One row of a group's weights as its part of a strip: for each block of channels and each tap, 16
 * pairs. Channels of the source are `next` apart. */
static void pack_row(const problem *p, const uint16_t *from, int64_t next, uint32_t *to) {
  for (int64_t block = 0; block < p->blocks; block++)
    for (int64_t tap = 0; tap < p->taps; tap += PAIRS) {
      int64_t channel = block * 2 * PAIRS, channels = p->in - channel;
      square s = {.first = from + channel * next + tap,
                  .second = next,
                  .distance = 2 * next,
                  .rows = ac_min(PAIRS, (channels + 1) / 2),
                  .seconds = ac_min(PAIRS, channels / 2),
                  .columns = ac_min(PAIRS, p->taps - tap)};
      turn_pairs(&s, to + (block * p->taps + tap) * SQUARE, SQUARE);
    }
}

static void pack_weights(const problem *p, uint32_t *packed, int thread, int team) {
  int64_t strips = strips_of(p->out), first, last;
  int64_t row_step = (p->transposed ? 1 : p->in) * p->taps;
  int64_t next = (p->transposed ? p->out : 1) * p->taps;
  ac_cpu_share(p->groups * strips * STRIP, STRIP, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) {
    int64_t group = i / (strips * STRIP), row = i % (strips * STRIP);
    const uint16_t *weights = (const uint16_t *)p->weight->data + group * p->in * p->out * p->taps;
    uint32_t *to = packed + i / STRIP * p->steps * SQUARE + i % STRIP * PAIRS;
    if (row < p->out) pack_row(p, weights + row * row_step, next, to);
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
  int64_t group, sample, samples;
  int64_t row, rows;
  int64_t source; /* the first position of the patch */
} work;

/* Positions [first, last) of all channels into the patch. */
static void fill_patch(const work *w, int64_t first, int64_t last) {
  const problem *p = w->p;
  int64_t pixels = p->x->dim[2] * p->x->dim[3], whole = p->blocks * PAIRS;
  const uint16_t *x = (const uint16_t *)p->x->data;
  x += (w->sample * p->x->dim[1] + w->group * p->in) * pixels;
  for (int64_t line = 0; line < p->lines; line++)
    for (int64_t at = first; at < last; at += LANES) {
      square s = {.first = x + 2 * line * pixels + at,
                  .second = pixels,
                  .distance = p->x->dim[1] * pixels,
                  .rows = w->samples,
                  .seconds = 2 * line + 1 < p->in ? w->samples : 0,
                  .columns = ac_min(LANES, last - at)};
      turn_pairs(&s, w->patch + (at - first) * p->distance + line * LANES, p->distance);
    }
  size_t rest = (size_t)((whole - p->lines) * LANES) * sizeof *w->patch;
  for (int64_t at = first; rest && at < last; at++)
    memset(w->patch + (at - first) * p->distance + p->lines * LANES, 0, rest);
}

/* The steps of the output in a row and a column, behind `count` others; returns how many there are
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

static void prepare(work *w) {
  const problem *p = w->p;
  int64_t width = p->axis[1].size, columns = p->axis[1].outputs, first, last, count = 0;
  source_of(&p->axis[0], w->row, w->row + w->rows, &first, &last);
  w->source = first * width;
  fill_patch(w, w->source, last * width);
  for (int64_t i = 0; i < w->rows * columns; i++) {
    w->begin[i] = (int32_t)count;
    count = add_steps(w, w->row + i / columns, i % columns, count);
  }
  w->begin[w->rows * columns] = (int32_t)count;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Sums of a channel at positions [first, first + count) of the region into y. */
static void store_channel(const work *w, const float *sums, int64_t channel, int64_t first,
                          int64_t count) {
  const problem *p = w->p;
  const ac_operand *bias = &p->args->in[2], *y = p->y;
  float turned[LANES * BLOCK];
  for (int64_t at = 0; at < count; at += LANES) turn_sums(sums + at * LANES, turned + at, BLOCK);
  channel += w->group * p->out;
  float b = p->transposed || !bias->count ? 0.0f : ((const float *)bias->data)[channel];
  for (int64_t s = 0; s < w->samples; s++) {
    int64_t image = ((w->sample + s) * y->dim[1] + channel) * y->dim[2] * y->dim[3];
    ac_conv_store_row(p->args->run, turned + s * BLOCK, b, p->args->add[0], y,
                      image + w->row * y->dim[3] + first, 1, count);
  }
}

/* Output channels [first, last), where strips begin, of a region. */
static void multiply(const work *w, int64_t first, int64_t last) {
  const problem *p = w->p;
  int64_t all = w->rows * p->axis[1].outputs, strips = strips_of(p->out);
  for (int64_t row = first; row < last; row += STRIP) {
    const uint32_t *a = w->packed + (w->group * strips + row / STRIP) * p->steps * SQUARE;
    int64_t rows = ac_min(STRIP, last - row);
    for (int64_t at = 0; at < all; at += BLOCK) {
      int64_t count = ac_min(BLOCK, all - at);
      for (int64_t i = 0; i < count; i++) {
        int64_t begin = w->begin[at + i], steps = w->begin[at + i + 1] - begin;
        ac_dot_patch b = {w->patch, w->offset + begin, LANES, w->of + begin, 0};
        p->dot->convolve(steps, (int)rows, LANES, a, &b, w->sums + i * LANES, ROW, false);
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
  w.of = w.begin + ac_conv_lines(places(&p) + 1);
  w.offset = w.of + place_steps(&p);
  pack_weights(&p, packed, thread, team);
  ac_cpu_barrier(team);
  ac_dot_begin(p.dot);
  /* In the order of parts of the channels, groups, samples and rows. There are several parts where
   * there are fewer images than threads. */
  int64_t height = p.axis[0].outputs, sets = ac_ceil_div(p.samples, LANES);
  int64_t images = p.groups * sets, strips = strips_of(p.out);
  int64_t parts = ac_min(ac_ceil_div(team, images), strips);
  int64_t share = ac_ceil_div(strips, parts) * STRIP, at, last;
  ac_cpu_share(parts * images * height, 1, thread, team, &at, &last);
  for (; at < last; at += w.rows) {
    int64_t image = at / height, first = ac_min(p.out, image / images * share);
    w.group = image / sets % p.groups;
    w.sample = image % sets * LANES;
    w.samples = ac_min(LANES, p.samples - w.sample);
    w.row = at % height;
    w.rows = ac_min(ac_min(p.rows, height - w.row), last - at);
    prepare(&w);
    multiply(&w, first, ac_min(p.out, first + share));
  }
  ac_dot_end(p.dot);
}
