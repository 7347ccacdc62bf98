/* Convolutions of volumes [n, channels, depth, height, width], by convolutions of images. An output
 * plane is the result of one image. Its channels are the planes that it meets: channel c at tap j
 * of the depth is channel c * taps + j. So the weights [out, channels, taps, height, width] are
 * those of images as they lie, all sums are one product's, and nothing is rounded between.
 *
 *   for each phase of the depth (a transposed convolution has as many as its stride)
 *     for each block of output planes
 *       copy the planes that they meet, zeros outside of the volume
 *       convolve them as images, into the block's planes
 *       copy these to where they belong
 *
 * A transposed convolution takes the taps in front of the channels, so its weights are copied,
 * those of a phase. The gradient of weights copies planes of dy, and adds each block to the sums.
 *
 * Workspace: both images of a block, of BLOCK_BYTES or one output plane's, the weights of a phase,
 * and what the images' convolution takes. */
#include "backend/cpu/convolution/conv_volume.h"

#include "backend/cpu/convolution/conv.h"
#include "ops/convolution/conv2d.h"

#include <string.h>

enum { BLOCK_BYTES = 4 << 20 };

/* Images are read from `from`, and what they give is in the planes of `to`. */
typedef struct problem {
  const ac_op_args *args;
  const ac_conv2d_attributes *attributes;
  const ac_operand *from, *to, *weight;
  bool transposed, of_weight;
  int64_t samples, taps;       /* of the whole kernel's depth */
  int64_t block;               /* images */
  size_t plane_from, plane_to; /* bytes */
} problem;

/* Output planes start + i * every; they meet the taps tap + j * apart. */
typedef struct phase {
  int64_t start, every, outputs;
  int64_t tap, apart, taps;
} phase;

/* Phase `index` of the depth; false after the last one. */
static bool phase_at(const problem *p, int64_t index, phase *f) {
  const ac_conv2d_attributes *a = p->attributes;
  const int64_t depth = p->to->dim[2];
  if (!p->transposed) {
    *f = (phase){0, 1, depth, 0, 1, p->taps};
    return index == 0;
  }
  const int64_t stride = a->depth_stride, dilation = a->depth_dilation;
  if (index >= ac_smaller(stride, depth)) return false;
  *f = (phase){.start = index, .every = stride, .outputs = ac_ceil_div(depth - index, stride)};
  f->apart = ac_conv_recurrence(stride, dilation);
  for (int64_t r = p->taps - 1; r >= 0; r--)
    if ((index + a->depth_padding - r * dilation) % stride == 0) f->tap = r, f->taps++;
  return true;
}

/* Taps of an image: planes that meet none have one of zeros. */
static int64_t taps_of(const phase *f) {
  return ac_larger(1, f->taps);
}

/* The plane of `from` that output i of a phase meets with its tap j, or -1. */
static int64_t plane_met(const problem *p, const phase *f, int64_t i, int64_t j) {
  const ac_conv2d_attributes *a = p->attributes;
  const int64_t reach = (f->tap + j * f->apart) * a->depth_dilation;
  if (j >= f->taps) return -1;
  int64_t at = i * a->depth_stride - a->depth_padding + reach;
  if (p->transposed) {
    at = f->start + i * f->every + a->depth_padding - reach;
    at = at < 0 ? -1 : at / a->depth_stride;
  }
  return at < p->from->dim[2] ? ac_larger(-1, at) : -1;
}

static problem problem_of(const ac_op_args *args) {
  const bool of_weight = args->op == AC_OP_conv2d_weight_gradient;
  problem p = {.args = args,
               .attributes = args->attributes,
               .from = &args->in[0],
               .to = of_weight ? &args->in[1] : &args->out[0],
               .weight = of_weight ? &args->out[0] : &args->in[1],
               .transposed = args->op == AC_OP_conv_transpose2d,
               .of_weight = of_weight,
               .samples = args->in[0].dim[0]};
  const size_t bytes = ac_dtype_bytes(p.from->dtype);
  p.taps = p.weight->count ? p.weight->dim[2] : 1;
  p.plane_from = (size_t)(p.from->dim[3] * p.from->dim[4]) * bytes;
  p.plane_to = (size_t)(p.to->dim[3] * p.to->dim[4]) * bytes;
  int64_t most = 1;
  phase f;
  for (int64_t i = 0; phase_at(&p, i, &f); i++) most = ac_larger(most, f.taps);
  const int64_t image =
      p.from->dim[1] * most * (int64_t)p.plane_from + p.to->dim[1] * (int64_t)p.plane_to;
  p.block = ac_larger(1, BLOCK_BYTES / ac_larger(1, image));
  return p;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t lines(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/* The bytes of a block's images, and of the weights of a phase. */
typedef struct memory {
  size_t from, to, weights;
} memory;

static memory memory_of(const problem *p) {
  memory m = {0};
  phase f;
  for (int64_t i = 0; phase_at(p, i, &f); i++) {
    const size_t images = (size_t)ac_smaller(p->block, p->samples * f.outputs);
    const size_t channels = (size_t)(p->from->dim[1] * taps_of(&f));
    const size_t from = lines(images * channels * p->plane_from);
    const size_t to = lines(images * (size_t)p->to->dim[1] * p->plane_to);
    m.from = from > m.from ? from : m.from;
    m.to = to > m.to ? to : m.to;
  }
  if (p->transposed) m.weights = lines((size_t)p->weight->count * ac_dtype_bytes(p->weight->dtype));
  return m;
}

/* The convolution of `images` images of a phase. */
static ac_op_args of_images(const problem *p, const phase *f, int64_t images,
                            ac_conv2d_attributes *attributes) {
  ac_op_args args = *p->args;
  const ac_operand *w = p->weight;
  *attributes = *p->attributes;
  args.attributes = attributes;
  ac_operand from = {
      .dtype = p->from->dtype,
      .rank = 4,
      .dim = {images, p->from->dim[1] * taps_of(f), p->from->dim[3], p->from->dim[4]}};
  ac_operand to = {.dtype = p->to->dtype,
                   .rank = 4,
                   .dim = {images, p->to->dim[1], p->to->dim[3], p->to->dim[4]}};
  ac_operand weight = {.data = w->data, .dtype = w->dtype, .rank = 4, .count = w->count};
  if (p->transposed) {
    weight.dim[0] = from.dim[1];
    weight.dim[1] = w->dim[1];
  } else if (w->count) {
    weight.dim[0] = w->dim[0];
    weight.dim[1] = w->dim[1] * w->dim[2];
  }
  weight.dim[2] = w->count ? w->dim[3] : 0;
  weight.dim[3] = w->count ? w->dim[4] : 0;
  if (w->count) weight.count = weight.dim[0] * weight.dim[1] * weight.dim[2] * weight.dim[3];
  from.count = from.dim[0] * from.dim[1] * from.dim[2] * from.dim[3];
  to.count = to.dim[0] * to.dim[1] * to.dim[2] * to.dim[3];
  args.in[0] = from;
  args.in[1] = p->of_weight ? to : weight;
  args.out[0] = p->of_weight ? weight : to;
  return args;
}

static uint64_t workspace_of_images(const ac_cpu_context *context, const ac_op_args *args) {
  if (args->op == AC_OP_conv2d_weight_gradient)
    return AC_CPU_KERNEL(conv2d_weight_gradient).workspace(context, args);
  return AC_CPU_KERNEL(conv2d).workspace(context, args);
}

uint64_t ac_conv_volume_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  const problem p = problem_of(args);
  const memory m = memory_of(&p);
  uint64_t most = 0;
  phase f;
  for (int64_t i = 0; phase_at(&p, i, &f); i++) {
    ac_conv2d_attributes attributes;
    const ac_op_args images =
        of_images(&p, &f, ac_smaller(p.block, p.samples * f.outputs), &attributes);
    const uint64_t bytes = workspace_of_images(context, &images);
    most = bytes > most ? bytes : most;
  }
  return m.from + m.to + m.weights + most;
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* A thread's share of the planes that images [first, first + count) of a phase meet. */
static void gather(const problem *p, const phase *f, int64_t first, int64_t count, char *to,
                   int thread, int team) {
  const int64_t channels = p->from->dim[1], taps = taps_of(f);
  int64_t begin, end;
  ac_cpu_share(count * channels, 1, thread, team, &begin, &end);
  for (int64_t k = begin; k < end; k++) {
    const int64_t image = first + k / channels, channel = k % channels;
    const int64_t sample = image / f->outputs, i = image % f->outputs;
    const char *from = (const char *)p->from->data +
                       (size_t)((sample * channels + channel) * p->from->dim[2]) * p->plane_from;
    char *planes = to + (size_t)(k * taps) * p->plane_from;
    for (int64_t j = 0; j < taps; j++, planes += p->plane_from) {
      const int64_t at = plane_met(p, f, i, j);
      if (at < 0) memset(planes, 0, p->plane_from);
      else memcpy(planes, from + (size_t)at * p->plane_from, p->plane_from);
    }
  }
}

/* The same of the planes that they are the results of: into the block, or out of it. */
static void copy_planes(const problem *p, const phase *f, int64_t first, int64_t count, char *block,
                        bool out, int thread, int team) {
  const int64_t channels = p->to->dim[1];
  int64_t begin, end;
  ac_cpu_share(count * channels, 1, thread, team, &begin, &end);
  for (int64_t k = begin; k < end; k++) {
    const int64_t image = first + k / channels, channel = k % channels;
    const int64_t sample = image / f->outputs, at = f->start + image % f->outputs * f->every;
    const size_t plane = (size_t)((sample * channels + channel) * p->to->dim[2] + at);
    char *in_volume = (char *)p->to->data + plane * p->plane_to;
    char *in_block = block + (size_t)k * p->plane_to;
    memcpy(out ? in_volume : in_block, out ? in_block : in_volume, p->plane_to);
  }
}

/* w[o][j][c] = W[o][c][tap j] for a thread's share of the rows. */
static void copy_weights(const problem *p, const phase *f, char *w, int thread, int team) {
  const ac_operand *weight = p->weight;
  const int64_t in = weight->dim[1], taps = taps_of(f);
  const size_t kernel = (size_t)(weight->dim[3] * weight->dim[4]) * ac_dtype_bytes(weight->dtype);
  int64_t begin, end;
  ac_cpu_share(weight->dim[0], 1, thread, team, &begin, &end);
  for (int64_t o = begin; o < end; o++)
    for (int64_t j = 0; j < taps; j++)
      for (int64_t c = 0; c < in; c++) {
        const int64_t tap = j < f->taps ? f->tap + j * f->apart : 0;
        const size_t from = (size_t)((o * in + c) * p->taps + tap);
        memcpy(w + (size_t)((o * taps + j) * in + c) * kernel,
               (const char *)weight->data + from * kernel, kernel);
      }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void run_phase(const ac_cpu_context *context, const problem *p, const phase *f, int thread,
                      int team) {
  const ac_op_args *args = p->args;
  const memory m = memory_of(p);
  char *from = args->workspace, *to = from + m.from, *weights = to + m.to;
  const int64_t all = p->samples * f->outputs;
  if (p->transposed) copy_weights(p, f, weights, thread, team);
  for (int64_t first = 0, count; first < all; first += count) {
    ac_conv2d_attributes attributes;
    count = ac_smaller(p->block, all - first);
    ac_op_args images = of_images(p, f, count, &attributes);
    images.workspace = weights + m.weights;
    images.workspace_bytes = args->workspace_bytes - m.from - m.to - m.weights;
    images.in[0].data = from;
    if (p->of_weight) images.in[1].data = to;
    else images.out[0].data = to;
    if (p->transposed) images.in[1].data = weights;
    gather(p, f, first, count, from, thread, team);
    if (p->of_weight || args->add[0]) copy_planes(p, f, first, count, to, false, thread, team);
    ac_cpu_barrier(team);
    if (p->of_weight) {
      for (int i = 0; i < 2; i++) images.add[i] = args->add[i] || first > 0;
      ac_conv_weight_part(context, &images, thread, team);
    } else {
      ac_conv_images_part(context, &images, thread, team);
    }
    ac_cpu_barrier(team);
    if (!p->of_weight) {
      copy_planes(p, f, first, count, to, true, thread, team);
      ac_cpu_barrier(team);
    }
  }
}

void ac_conv_volume_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  const problem p = problem_of(args);
  phase f;
  for (int64_t i = 0; phase_at(&p, i, &f); i++) run_phase(context, &p, &f, thread, team);
}
