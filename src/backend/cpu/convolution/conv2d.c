/* Convolution and its input gradient, which is the transposed convolution, both as products of the
 * weights with images as they lie in a patch (conv_patch.c):
 *
 *   for each thread's share of output rows, by regions of rows (or of several small images)
 *     for each block of rows of the weights
 *       for each block of channels of the source: fill the patch
 *         for each DEPTH of channels and taps, for each tile of sums: += weights x patch
 *       sums, with the bias, into y
 *
 * so a product's left operand is [out, channels x taps], and its right one is never written to
 * memory, except for small images. A kernel of 1 x 1 is a plain product. The input gradient is the
 * convolution of dy with the kernel turned round and its channels exchanged. With a stride, its
 * outputs fall into stride x stride phases. Each phase has taps of its own and is such a
 * convolution of step 1; nothing is multiplied by the zeros between. For it the weights are copied
 * in the order of phases.
 *
 * If x and the weights are bf16 and the CPU multiplies that (product/dot.h), the patch holds pairs
 * of channels, and the weights are copied as packed strips in the order of its steps. If rows of
 * outputs are whole strips, each is multiplied separately, without the gap between rows and without
 * the taps that would meet padding above or below.
 *
 * If a group has one channel of the source (depthwise), there is little to multiply, and copying
 * would take longer than that: if the CPU has masks, rows of outputs are computed directly from the
 * image.
 *
 * Kernels of 3 x 3 with a stride of 1 and enough channels are computed by tiles (winograd.h),
 * except for bf16 that the CPU multiplies. Otherwise, if there are many samples and a stride or
 * much padding, columns are samples (conv_lanes.h).
 *
 * Workspace: the copied weights, and for each thread a patch (conv_patch.c), of 512 KiB or what one
 * channel, or one step of pairs, needs for one row of outputs, or of a small image for all of them,
 * and sums, of 256 KiB or as many such rows as a tile has. */
#include "backend/cpu/convolution/conv.h"
#include "backend/cpu/convolution/conv_volume.h"
#include "backend/cpu/convolution/conv_lanes.h"
#include "backend/cpu/convolution/winograd.h"
#include "backend/cpu/product/pairs.h"
#include "backend/cpu/shared/convert.h"
#include "core/half.h"
#include "ops/convolution/conv2d.h"

#include <string.h>

/* Sums of a region, and columns of one. A region's weights pass by once for all its columns; more
 * columns than this gain nothing, and depthwise regions should stay in the first-level cache. */
enum { SUM_FLOATS = 64 << 10, MOST_COLUMNS = 4096, DEPTH = 256 };

typedef struct problem {
  const ac_op_args *args;
  const ac_conv2d_attributes *attributes;
  const ac_operand *x, *y, *weight; /* the image that is read, and the one that is written */
  bool transposed;                  /* the input gradient */
  int64_t groups, samples, in, out; /* in, out: channels of a group */
  int64_t kernel[2];
  const ac_dot_class *dot; /* multiplies, if not NULL, what is packed */
  int64_t unit[2];         /* rows and columns of a tile of sums */
  float *copied;    /* weights as floats in the order of phases; NULL: as they are, or packed */
  uint32_t *packed; /* or in strips */
} problem;

/* One phase of the outputs, or all of them: along each axis outputs start + i * stride, and of the
 * kernel's elements tap + t * tap_step. */
typedef struct phase {
  ac_conv_patch patch;
  int64_t start[2], stride[2], tap[2], tap_step[2];
  int64_t depth;   /* of the product */
  int64_t strip;   /* pairs of a strip of packed weights */
  int64_t block;   /* rows of the weights at a time */
  int64_t sums;    /* floats */
  int64_t weights; /* where the phase's weights begin */
  bool by_rows;    /* a run is a row of outputs */
  int64_t height;  /* rows of the weights in a tile, at most, and where they begin in it */
  int32_t row[AC_CPU_TILE_ROWS];
} phase;

/* Groups of one channel go without products. Weights are stored as images are. */
static const ac_dot_class *dot_for(const ac_cpu_context *context, const ac_op_args *args,
                                   int64_t channels) {
  return args->in[0].dtype == AC_BF16 && channels > 1 ? context->dot : NULL;
}

static problem problem_of(const ac_cpu_context *context, const ac_op_args *args) {
  bool transposed = args->op == AC_OP_conv_transpose2d;
  const ac_conv2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0], *weight = &args->in[1];
  problem p = {.args = args,
               .attributes = a,
               .x = x,
               .y = y,
               .weight = weight,
               .transposed = transposed,
               .groups = a->groups,
               .samples = x->dim[0],
               .in = x->dim[1] / a->groups,
               .out = y->dim[1] / a->groups,
               .kernel = {weight->dim[2], weight->dim[3]}};
  p.dot = dot_for(context, args, p.in);
  p.unit[0] = p.dot ? STRIP : AC_CPU_TILE_ROWS;
  p.unit[1] = p.dot ? STRIP : AC_CPU_VECTOR;
  if (p.dot) p.packed = args->workspace;
  else if (transposed || weight->dtype != AC_F32) p.copied = args->workspace;
  return p;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void forward_axis(const problem *p, int i, phase *f) {
  const ac_conv2d_attributes *a = p->attributes;
  f->stride[i] = f->tap_step[i] = 1;
  f->patch.axis[i] = (ac_conv_axis){.size = p->x->dim[2 + i],
                                    .outputs = p->y->dim[2 + i],
                                    .taps = p->kernel[i],
                                    .first = -a->padding[i],
                                    .step = a->stride[i],
                                    .spacing = a->dilation[i]};
}

/* Output h = start + i * stride meets the taps r for which h + padding - r * dilation is a multiple
 * of the stride. These are `tap_step` apart. From the last tap to the first, the source's positions
 * grow. */
static void transposed_axis(const problem *p, int i, int64_t start, phase *f) {
  const ac_conv2d_attributes *a = p->attributes;
  int64_t stride = a->stride[i], dilation = a->dilation[i];
  int64_t apart = ac_conv_recurrence(stride, dilation), taps = 0, last = 0;
  for (int64_t r = 0; r < p->kernel[i]; r++)
    if ((start + a->padding[i] - r * dilation) % stride == 0) last = r, taps++;
  f->start[i] = start;
  f->stride[i] = stride;
  f->tap[i] = last;
  f->tap_step[i] = -apart;
  f->patch.axis[i] =
      (ac_conv_axis){.size = p->x->dim[2 + i],
                     .outputs = ac_ceil_div(p->y->dim[2 + i] - start, stride),
                     .taps = taps,
                     .first = taps ? (start + a->padding[i] - last * dilation) / stride : 0,
                     .step = 1,
                     .spacing = apart * dilation / stride};
}

static int64_t most_columns(const problem *p) {
  int64_t least =
      p->dot ? ac_smaller(STRIP, p->out) : p->out; /* rows that sums must have room for */
  return ac_smaller(MOST_COLUMNS, SUM_FLOATS / least);
}

static void plan_phase(const problem *p, phase *f) {
  ac_conv_patch *s = &f->patch;
  s->channels = p->in;
  s->pairs = p->dot;
  ac_conv_patch_plan(s, p->samples, most_columns(p), p->out);
  int64_t outputs = s->axis[1].outputs;
  f->by_rows = p->dot && !s->spread && s->stride > outputs && outputs % STRIP == 0;
  f->depth = p->in * s->axis[0].taps * s->axis[1].taps;
  f->height = f->depth <= INT32_MAX / AC_CPU_TILE_ROWS ? AC_CPU_TILE_ROWS : 1;
  for (int64_t i = 0; i < f->height; i++) f->row[i] = (int32_t)(i * f->depth);
  int64_t width = s->spread ? ac_ceil_div(s->wide, p->unit[1]) * p->unit[1]
                            : s->samples * (s->rows * s->stride + p->unit[1]);
  int64_t most = ac_larger(1, SUM_FLOATS / width / p->unit[0]) * p->unit[0];
  f->block = ac_smaller(p->out, most);
  int64_t rows = p->dot ? strips_of(p->out) * STRIP : p->out;
  f->sums = ac_smaller(rows * width, ac_larger(SUM_FLOATS, p->unit[0] * width));
  f->strip = p->dot ? ac_conv_patch_steps(s, p->in) * STRIP * PAIRS : 0;
}

/* Elements of the copied weights of a phase. */
static int64_t copied_of(const problem *p, const phase *f) {
  return p->groups * (p->dot ? strips_of(p->out) * f->strip : p->out * f->depth);
}

/* Moves to the next phase, from one of zeros to the first; false after the last one. */
static bool next_phase(const problem *p, phase *f) {
  int64_t start[2] = {f->start[0], f->start[1]};
  int64_t weights = f->weights + copied_of(p, f);
  bool begun = f->stride[0] > 0;
  if (!p->transposed) {
    if (begun) return false;
    for (int i = 0; i < 2; i++) forward_axis(p, i, f);
  } else {
    if (begun && ++start[1] >= ac_smaller(p->attributes->stride[1], p->y->dim[3]))
      start[1] = 0, start[0]++;
    if (start[0] >= ac_smaller(p->attributes->stride[0], p->y->dim[2])) return false;
    for (int i = 0; i < 2; i++) transposed_axis(p, i, start[i], f);
  }
  f->weights = weights;
  plan_phase(p, f);
  return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* All threads' weights, and a thread's part of the workspace: the largest patch, sums and offsets
 * of all phases. */
typedef struct memory {
  int64_t copied, filling, sums, offsets; /* floats, and as many integers of 32 bits */
} memory;

static memory memory_of(const problem *p) {
  memory m = {0};
  phase f = {.depth = 0};
  while (next_phase(p, &f)) {
    m.filling = ac_larger(m.filling, ac_conv_lines(f.patch.floats));
    m.sums = ac_larger(m.sums, ac_conv_lines(f.sums));
    m.offsets = ac_larger(m.offsets, ac_conv_lines(f.patch.offsets));
    if (p->dot) m.copied += copied_of(p, &f);
  }
  if (!p->dot && (p->transposed || p->weight->dtype != AC_F32))
    m.copied = ac_conv_lines(p->weight->count);
  return m;
}

static int64_t memory_share(const memory *m) {
  return m->filling + m->sums + m->offsets;
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  if (ac_conv_is_of_volumes(args)) return ac_conv_volume_workspace(context, args);
  problem p = problem_of(context, args);
  memory m = memory_of(&p);
  int64_t floats = m.copied + context->threads * memory_share(&m);
  if (ac_winograd_takes(context, args))
    floats = ac_larger(floats, ac_winograd_convolve_floats(args, context->threads));
  floats = ac_larger(floats, ac_conv_lanes_floats(context, args));
  return sizeof(float) * (uint64_t)floats;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* An element of weights in 16 bits. */
static float half_at(const ac_operand *weight, int64_t i) {
  uint16_t half = ((const uint16_t *)weight->data)[i];
  return weight->dtype == AC_F16 ? ac_f16_to_float(half) : ac_bf16_to_float(half);
}

/* The elements of a kernel that a phase has, in its order, from the element at `at` on. */
static void copy_taps(const phase *f, const ac_operand *weight, int64_t at, float *to) {
  const ac_conv_axis *h = &f->patch.axis[0], *w = &f->patch.axis[1];
  int64_t row = f->tap_step[0] * weight->dim[3], column = f->tap_step[1];
  const float *floats = weight->dtype == AC_F32 ? weight->data : NULL;
  for (int64_t r = 0; r < h->taps; r++)
    for (int64_t t = 0; t < w->taps; t++) {
      int64_t from = at + r * row + t * column;
      *to++ = floats ? floats[from] : half_at(weight, from);
    }
}

/* Rows [row, row + count) of a group's weights in a phase: [channels of the source, taps] each. For
 * the input gradient several together, for what they take of a channel lies side by side. */
static void copy_rows(const problem *p, const phase *f, int64_t group, int64_t row, int64_t count,
                      float *to) {
  if (!p->transposed) {
    int64_t at = (group * p->out + row) * f->depth;
    const void *from = ac_element(p->weight->data, p->weight->dtype, at);
    ac_cpu_widen(p->weight->dtype, from, to, count * f->depth);
    return;
  }
  int64_t area = p->kernel[0] * p->kernel[1], first = f->tap[0] * p->kernel[1] + f->tap[1];
  int64_t taps = p->in ? f->depth / p->in : 0, next = 4 * p->out * area;
  for (int64_t o = 0; o < p->in; o++, to += taps) {
    int64_t at = ((group * p->in + o) * p->out + row) * area + first;
    for (int64_t i = 0; i < count; i++, at += area) {
      /* Some channels ahead, too far away for the hardware to foresee; a call for each element
       * would take longer than it spares. */
      if (area > 4) __builtin_prefetch(ac_element(p->weight->data, p->weight->dtype, at + next));
      copy_taps(f, p->weight, at, to + i * f->depth);
    }
  }
}

/* A strip of weights, rows [row, row + rows) of a group, in the order of the patch's steps. */
static void pack_strip(const problem *p, const phase *f, int64_t group, int64_t row, int64_t rows,
                       uint32_t *to) {
  const ac_conv_axis *h = &f->patch.axis[0], *w = &f->patch.axis[1];
  int64_t area = p->kernel[0] * p->kernel[1], of_group = group * p->in * p->out * area;
  int64_t row_step = p->transposed ? area : p->in * area;
  int64_t next = p->transposed ? p->out * area : area; /* the next channel of the source */
  int64_t first = f->tap[0] * p->kernel[1] + f->tap[1];
  const uint16_t *all = (const uint16_t *)p->weight->data + of_group + row * row_step + first;
  for (int64_t c = 0; c < p->in; c += 2)
    for (int64_t r = 0; r < h->taps; r++)
      for (int64_t t = 0; t < w->taps; t++) {
        ac_conv_place at = ac_conv_patch_place_of(&f->patch, c, r * w->taps + t);
        int64_t tap = r * f->tap_step[0] * p->kernel[1] + t * f->tap_step[1];
        const uint16_t *from = all + c * next + tap;
        uint32_t *pair = to + at.pair / PAIRS * STRIP * PAIRS + at.pair % PAIRS;
        bool second = c + 1 < p->in;
        for (int64_t i = 0; i < rows; i++, from += row_step)
          pair[i * PAIRS] |=
              second ? from[0] | (uint32_t)from[next] << 16 : (uint32_t)from[0] << 16 * at.half;
      }
}

static void pack_weights(const problem *p, int thread, int team) {
  int64_t strips = strips_of(p->out), first, last;
  phase f = {.depth = 0};
  ac_cpu_share(p->groups * strips, 1, thread, team, &first, &last);
  while (next_phase(p, &f))
    for (int64_t i = first; i < last; i++) {
      int64_t row = i % strips * STRIP, rows = ac_smaller(STRIP, p->out - row);
      uint32_t *to = p->packed + f.weights + i * f.strip;
      memset(to, 0, (size_t)f.strip * sizeof *to);
      pack_strip(p, &f, i / strips, row, rows, to);
    }
}

static void copy_weights(const problem *p, int thread, int team) {
  enum { TOGETHER = 32 };
  phase f = {.depth = 0};
  while (next_phase(p, &f)) {
    int64_t first, last;
    ac_cpu_share(p->groups * p->out, TOGETHER, thread, team, &first, &last);
    for (int64_t i = first, count; i < last; i += count) {
      int64_t row = i % p->out;
      count = ac_smaller(ac_smaller(TOGETHER, last - i), p->out - row);
      copy_rows(p, &f, i / p->out, row, count, p->copied + f.weights + i * f.depth);
    }
  }
}

/* ---- products -------------------------------------------------------------------------------- */

/* A thread's work on one region: output channels [first, first + rows) of a group. */
typedef struct work {
  const problem *p;
  const phase *f;
  ac_conv_region region;
  int64_t group, first, rows;
  int64_t runs, length, width; /* of the region; width: `length` in whole vectors */
  float *filling, *sums;
  const int32_t *offset;
} work;

static float bias_of(const work *w, int64_t channel) {
  const ac_operand *bias = &w->p->args->in[2];
  if (!bias->count) return 0.0f;
  return ((const float *)bias->data)[w->group * w->p->out + channel];
}

/* The place of an output channel's row of the phase in its image of a sample. */
static int64_t row_of(const work *w, int64_t sample, int64_t channel, int64_t row) {
  const ac_operand *y = w->p->y;
  int64_t image = (sample * y->dim[1] + w->group * w->p->out + channel) * y->dim[2];
  return (image + w->f->start[0] + row * w->f->stride[0]) * y->dim[3] + w->f->start[1];
}

/* Prefetches the memory that the sums of `rows` rows from `row` and of some columns of a run will
 * be written to, if rows and columns of outputs follow each other. Then memory works while products
 * are computed. This helps only if there are few products for each output. */
static void fetch_outputs(const work *w, int64_t run, int64_t row, int64_t rows, int64_t column,
                          int64_t columns) {
  enum { SHALLOW = 256 };
  const ac_conv_patch *s = &w->f->patch;
  const ac_operand *y = w->p->y;
  if (w->f->depth > SHALLOW || w->f->by_rows || w->f->stride[0] != 1 || w->f->stride[1] != 1)
    return;
  int64_t pixels = y->dim[2] * y->dim[3], of_sample = w->region.rows * s->pitch;
  int64_t sample = w->region.sample + run + column / of_sample, rest = column % of_sample;
  int64_t at = row_of(w, sample, w->first + row, w->region.row + rest / s->pitch) + rest % s->pitch;
  int64_t apart = AC_DOT_LINE / (int64_t)ac_dtype_bytes(y->dtype);
  for (int64_t i = 0; i < rows; i++, at += pixels)
    for (int64_t j = 0; j < columns; j += apart)
      __builtin_prefetch(ac_element(y->data, y->dtype, at + j), 1);
}

/* Sums of one run (+)= rows of weights x the patch's values from depth k on. */
static void multiply_run(const work *w, int64_t run, const float *a, int64_t k, int64_t depth,
                         bool add) {
  const float *b = w->filling + run * w->f->patch.sample;
  float *c = w->sums + run * w->width;
  int64_t lda = w->f->depth, ldc = w->runs * w->width;
  const int32_t *offset = w->offset + k;
  if (w->rows == 1) {
    ac_cpu_multiply_row(w->length, depth, a, b, offset, c, add);
    return;
  }
  ac_cpu_tiles tiles = ac_cpu_tiles_of(w->rows, w->f->height);
  for (int64_t column = 0; column < w->length; column += AC_CPU_TILE_COLUMNS) {
    int vectors = w->length - column > AC_CPU_VECTOR ? 2 : 1;
    const float *row = a;
    float *to = c + column;
    for (int64_t tile = 0, first = 0; tile < tiles.count; tile++) {
      int height = ac_cpu_tile_height(&tiles, tile);
      fetch_outputs(w, run, first, height, column, vectors * AC_CPU_VECTOR);
      ac_cpu_multiply_tile(height, vectors, depth, row, w->f->row, b + column, offset, to, ldc,
                           add);
      first += height;
      row += height * lda;
      to += height * ldc;
    }
  }
}

static const float *weights_of(const work *w, int64_t channel) {
  const problem *p = w->p;
  const float *all = p->copied ? p->copied + w->f->weights : p->weight->data;
  return all + (w->group * p->out + channel) * w->f->depth;
}

/* Steps that a run meets one after the other, of all, in which they recur: a row of outputs goes
 * without the taps that lie above the source or below it, unless that were all. */
typedef struct met {
  int64_t first, count, period;
} met;

static met met_by(const work *w, int64_t run) {
  const ac_conv_axis *h = &w->f->patch.axis[0];
  int64_t across = w->f->patch.axis[1].taps, first, end;
  int64_t steps = ac_conv_patch_steps(&w->f->patch, w->region.channels);
  if (!w->f->by_rows) return (met){0, steps, steps};
  ac_conv_taps_met(h, h->first + (w->region.row + run % w->region.rows) * h->step, &first, &end);
  if (end - first == h->taps || first >= end) return (met){0, steps, steps};
  return (met){first * across, (end - first) * across, h->taps * across};
}

/* Where a run begins in the filling. */
static const float *run_at(const work *w, int64_t run) {
  const ac_conv_patch *s = &w->f->patch;
  if (!w->f->by_rows) return w->filling + run * s->sample;
  return w->filling + run / w->region.rows * s->sample + run % w->region.rows * s->stride;
}

/* What the channels in the patch, from `channel` of the group on, add to the sums: by products of
 * pairs, a strip of rows with all columns, for it is the smaller one. */
static void multiply_packed(const work *w, int64_t channel) {
  const problem *p = w->p;
  const ac_conv_patch *s = &w->f->patch;
  int64_t steps = ac_conv_patch_steps(s, w->region.channels), ldc = w->runs * w->width;
  int64_t strip = w->group * strips_of(p->out) + w->first / STRIP;
  int last = ac_conv_patch_last(s, w->region.channels);
  const uint32_t *a = p->packed + w->f->weights + strip * w->f->strip +
                      ac_conv_patch_steps(s, channel) * STRIP * PAIRS;
  for (int64_t row = 0; row < w->rows; row += STRIP, a += w->f->strip)
    for (int64_t run = 0; run < w->runs; run++) {
      const met m = met_by(w, run);
      const uint32_t *from = (const uint32_t *)run_at(w, run);
      for (int64_t column = 0; column < w->length; column += STRIP) {
        int rows = (int)ac_smaller(STRIP, w->rows - row);
        int columns = (int)ac_smaller(STRIP, w->length - column);
        float *sums = w->sums + row * ldc + run * w->width + column;
        fetch_outputs(w, run, row, rows, column, columns);
        for (int64_t at = m.first; at < steps; at += m.period) {
          ac_dot_patch b = {.at = from + column,
                            .offset = w->offset + at,
                            .distance = ac_conv_patch_distance(s),
                            .pairs = last,
                            .second = AC_DOT_LANES};
          p->dot->convolve(m.count, rows, columns, a + at * STRIP * PAIRS, &b, sums, ldc,
                           channel > 0 || at > m.first);
        }
      }
    }
}

/* The same by products of floats. */
static void multiply_channels(const work *w, int64_t channel) {
  const ac_conv_patch *s = &w->f->patch;
  int64_t taps = s->axis[0].taps * s->axis[1].taps, count = w->region.channels * taps;
  int64_t steps = ac_ceil_div(count, DEPTH), begin = channel * taps;
  const float *a = weights_of(w, w->first) + begin;
  for (int64_t step = 0; step < steps; step++) {
    int64_t k = count * step / steps, depth = count * (step + 1) / steps - k;
    for (int64_t run = 0; run < w->runs; run++)
      multiply_run(w, run, a + k, k, depth, begin + k > 0);
  }
}

/* `rows` rows of the phase, `apart` in `c`, into those of y from element `at` on. */
static void store_rows(const work *w, const float *c, int64_t apart, int64_t rows, float bias,
                       int64_t at, int64_t count) {
  const ac_op_args *args = w->p->args;
  const int64_t *stride = w->f->stride;
  ac_conv_store_rows(args->run, c, apart, rows, bias, args->add[0], w->p->y, at,
                     stride[0] * w->p->y->dim[3], stride[1], count);
}

/* A region's sums for one row of the weights. */
static void store_sums(const work *w, int64_t row) {
  int64_t count = w->f->patch.axis[1].outputs, rows = w->region.rows;
  int64_t stride = w->f->by_rows ? count : w->f->patch.pitch;
  bool dense = count == stride && w->f->stride[0] == 1 && w->f->stride[1] == 1;
  for (int64_t n = 0; n < w->region.samples; n++) {
    const float *c = w->sums + row * w->runs * w->width;
    c += w->runs > 1 && !w->f->by_rows ? n * w->width : n * rows * stride;
    int64_t at = row_of(w, w->region.sample + n, w->first + row, w->region.row);
    store_rows(w, c, stride, dense ? 1 : rows, bias_of(w, w->first + row), at,
               dense ? rows * count : count);
  }
}

static ac_conv_source source_of(const problem *p) {
  int64_t pixels = p->x->dim[2] * p->x->dim[3];
  return (ac_conv_source){
      .data = p->x->data, .dtype = p->x->dtype, .sample = p->x->dim[1] * pixels, .channel = pixels};
}

static void run_region(work *w, int64_t first, int64_t last) {
  const problem *p = w->p;
  const ac_conv_patch *s = &w->f->patch;
  ac_conv_source source = source_of(p);
  w->runs = w->f->by_rows ? w->region.samples * w->region.rows : ac_conv_runs(s, &w->region);
  w->length = w->f->by_rows ? s->axis[1].outputs : ac_conv_run_length(s, &w->region);
  w->width = ac_ceil_div(w->length, p->unit[1]) * p->unit[1];
  for (w->first = first; w->first < last; w->first += w->rows) {
    w->rows = ac_smaller(w->f->block, last - w->first);
    if (w->f->depth == 0)
      memset(w->sums, 0, (size_t)(w->rows * w->runs * w->width) * sizeof *w->sums);
    for (int64_t c = 0; c < p->in && w->f->depth; c += s->held) {
      w->region.channels = ac_smaller(s->held, p->in - c);
      w->region.channel = w->group * p->in + c;
      if (w->first == first || s->held < p->in)
        ac_conv_patch_fill(s, &source, &w->region, w->filling);
      if (p->dot) multiply_packed(w, c);
      else multiply_channels(w, c);
    }
    for (int64_t row = 0; row < w->rows; row++) store_sums(w, row);
  }
}

/* Some of the rows of outputs [row, last) of one channel; returns how many. They go straight to y
 * where that takes them as they are. */
static int64_t filter_rows(const work *w, int64_t sample, int64_t channel, int64_t row,
                           int64_t last) {
  const problem *p = w->p;
  const phase *f = w->f;
  ac_conv_source source = source_of(p);
  int64_t image = sample * source.sample + w->group * source.channel;
  ac_conv_rows rows = ac_conv_rows_from(f->patch.axis, &source, image, row, last);
  bool dense = f->stride[0] == 1 && f->stride[1] == 1;
  bool direct = dense && p->y->dtype == AC_F32 && !p->args->add[0];
  const float *weights = weights_of(w, channel) + rows.first * f->patch.axis[1].taps;
  float *y = p->y->data, bias = bias_of(w, channel);
  int64_t at = row_of(w, sample, channel, row), all = rows.count * rows.columns;
  rows.next_x = ac_conv_next(p->x, p->groups, sample);
  rows.next_y = direct ? ac_conv_next(p->y, p->groups, sample) : 0;
  ac_conv_filter(&rows, weights, bias, direct ? y + at : w->sums);
  if (direct) return rows.count;
  store_rows(w, w->sums, rows.columns, dense ? 1 : rows.count, 0, at, dense ? all : rows.columns);
  return rows.count;
}

/* Computes a region without a patch, if a group has one channel of the source. */
static void filter_region(const work *w, int64_t first, int64_t last) {
  int64_t end = w->region.row + w->region.rows;
  for (int64_t n = w->region.sample; n < w->region.sample + w->region.samples; n++)
    for (int64_t channel = first; channel < last; channel++)
      for (int64_t i = w->region.row; i < end;) i += filter_rows(w, n, channel, i, end);
}

/* One thread's share of a phase's output rows, in the order of parts of the channels, groups,
 * samples and rows. There are several parts where there are fewer images than threads. */
static void run_phase(work *w, int thread, int team) {
  const problem *p = w->p;
  const ac_conv_patch *s = &w->f->patch;
  int64_t height = s->axis[0].outputs, images = p->groups * p->samples;
  int64_t parts = ac_smaller(ac_ceil_div(team, images), ac_ceil_div(p->out, p->unit[0]));
  int64_t at, last, share = ac_ceil_div(p->out, parts);
  if (p->dot) share = strips_of(share) * STRIP;
  bool filter = p->in == 1 && ac_conv_can_filter(&s->axis[1]);
  ac_cpu_share(parts * images * height, 1, thread, team, &at, &last);
  while (at < last) {
    int64_t image = at / height, sample = image % p->samples;
    w->group = image / p->samples % p->groups;
    w->region = (ac_conv_region){.sample = sample, .samples = 1, .row = at % height};
    w->region.rows = ac_smaller(ac_smaller(s->rows, height - w->region.row), last - at);
    if (w->region.rows == height)
      w->region.samples =
          ac_smaller(ac_smaller(s->samples, p->samples - sample), (last - at) / height);
    int64_t first = ac_smaller(p->out, image / images * share),
            end = ac_smaller(p->out, first + share);
    if (filter) filter_region(w, first, end);
    else run_region(w, first, end);
    at += w->region.samples * w->region.rows;
  }
}

void ac_conv_images_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  if (ac_winograd_takes(context, args)) {
    ac_winograd_convolve(args, thread, team);
    return;
  }
  if (ac_conv_lanes_takes(context, args)) {
    ac_conv_lanes_convolve(context, args, thread, team);
    return;
  }
  problem p = problem_of(context, args);
  memory m = memory_of(&p);
  float *own = (float *)args->workspace + m.copied + thread * memory_share(&m);
  int32_t *offset = (int32_t *)(own + m.filling + m.sums);
  if (p.dot) pack_weights(&p, thread, team);
  if (p.copied) copy_weights(&p, thread, team);
  if (p.dot || p.copied) ac_cpu_barrier(team);
  ac_dot_begin(p.dot);
  phase f = {.depth = 0};
  work w = {.p = &p, .f = &f, .filling = own, .sums = own + m.filling, .offset = offset};
  while (next_phase(&p, &f)) {
    /* Nothing meets these outputs. */
    if (p.transposed && f.depth == 0 && args->add[0] && !args->in[2].count) continue;
    ac_conv_patch_offsets(&f.patch, offset);
    run_phase(&w, thread, team);
  }
  ac_dot_end(p.dot);
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args,
                  ac_conv_is_of_volumes(args) ? ac_conv_volume_part : ac_conv_images_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(conv2d) = {.run = run, .workspace = workspace};
const ac_cpu_kernel AC_CPU_KERNEL(conv_transpose2d) = {.run = run, .workspace = workspace};
