/* Batch norm and its running statistics; the formulas are in ops/norm/batch_norm.c and .h.
 *
 * Sums over samples and positions are computed for a strip of neighbouring channels at a time; in a
 * sample such a strip is one run of memory. A channel belongs to one thread and is summed in the
 * order of memory, so the bits do not depend on the threads. Moments are those of the differences
 * from the channel's first element, in double. So the variance needs no second pass: the part that
 * cancels is at most the square of the element's distance from the mean, in deviations. */
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"
#include "core/align.h"
#include "ops/norm/batch_norm.h"
#include "ops/norm/channels.h"

#include <math.h>
#include <string.h>

enum { RUN = 2048, STRIP = 64, LANES = 8 };

static int64_t strip_width(const ac_channels *shape, int64_t first, int64_t last) {
  int64_t width = ac_larger(1, ac_smaller(STRIP, RUN / shape->positions));
  return ac_smaller(width, last - first);
}

/* `count` floats of x from element `at` on, converted into `scratch` if they are stored otherwise.
 */
static const float *floats_of(const ac_operand *x, int64_t at, int64_t count, float *scratch) {
  if (!x) return NULL;
  const void *from = ac_element(x->data, x->dtype, at);
  if (x->dtype == AC_F32) return from;
  ac_cpu_widen(x->dtype, from, scratch, count);
  return scratch;
}

/* Calls `visit` with the runs of channels [first, first + width), sample by sample: `count`
 * elements of each channel at x + k stride. */
typedef void (*visitor)(void *sums, const float *x, const float *dy, int64_t width, int64_t stride,
                        int64_t count);

static void visit_strip(const ac_operand *x, const ac_operand *dy, int64_t first, int64_t width,
                        visitor visit, void *sums) {
  float scratch[2][RUN];
  ac_channels shape = ac_channels_of(x ? x : dy);
  for (int64_t b = 0; b < shape.samples; b++)
    for (int64_t p = 0; p < shape.positions; p += RUN) {
      int64_t at = (b * shape.channels + first) * shape.positions + p;
      int64_t count = ac_smaller(RUN, shape.positions - p);
      int64_t all = (width - 1) * shape.positions + count;
      visit(sums, floats_of(x, at, all, scratch[0]), floats_of(dy, at, all, scratch[1]), width,
            shape.positions, count);
    }
}

static bool is_frozen(const ac_op_args *args) {
  return ((const ac_batch_norm_attributes *)args->attributes)->frozen;
}

static uint64_t scratch(const ac_cpu_context *context, const ac_op_args *args) {
  return ac_cpu_scratch(context, args, ac_channels_of(&args->in[0]).positions);
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct moments {
  bool begun;
  double shift[STRIP], sum[STRIP], squares[STRIP];
} moments;

static double lane_sum(const double v[LANES]) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

static void add_moments(const float *x, int64_t n, double shift, double *sum, double *squares) {
  double s[LANES] = {0}, q[LANES] = {0};
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
      double d = (double)x[j + l] - shift;
      s[l] += d;
      q[l] += d * d;
    }
  }
  for (int l = 0; j < n; j++, l++) {
    double d = (double)x[j] - shift;
    s[l] += d;
    q[l] += d * d;
  }
  *sum += lane_sum(s);
  *squares += lane_sum(q);
}

static void visit_moments(void *sums, const float *x, const float *dy, int64_t width,
                          int64_t stride, int64_t count) {
  moments *m = sums;
  (void)dy;
  for (int64_t k = 0; k < width && !m->begun; k++) m->shift[k] = (double)x[k * stride];
  m->begun = true;
  if (stride == 1) {
#pragma omp simd
    for (int64_t k = 0; k < width; k++) {
      double d = (double)x[k] - m->shift[k];
      m->sum[k] += d;
      m->squares[k] += d * d;
    }
    return;
  }
  for (int64_t k = 0; k < width; k++)
    add_moments(x + k * stride, count, m->shift[k], &m->sum[k], &m->squares[k]);
}

static void store_statistics(const ac_op_args *args, int64_t channel, double mean,
                             double variance) {
  double epsilon = (double)((const ac_batch_norm_attributes *)args->attributes)->epsilon;
  float *statistics = (float *)args->out[1].data + 2 * channel;
  statistics[0] = (float)mean;
  statistics[1] = (float)(1 / sqrt(variance + epsilon));
  if (args->out[2].count) ((float *)args->out[2].data)[channel] = (float)variance;
}

/* Joins (n, mean, squares) to what is pooled of a channel. */
static void join(const ac_op_args *args, int64_t channel, double n, double mean, double squares) {
  float *pooled = (float *)args->out[0].data + 3 * channel;
  double total = n;
  if (args->add[0]) {
    double before = (double)pooled[0], apart = mean - (double)pooled[1];
    total += before;
    mean = (double)pooled[1] + apart * n / total;
    squares += (double)pooled[2] + apart * apart * before * n / total;
  }
  pooled[0] = (float)total;
  pooled[1] = (float)mean;
  pooled[2] = (float)squares;
}

/* Of channels [first, last) of a micro-batch: into statistics, or joined to the window's. */
static void moments_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const double n = (double)(shape.samples * shape.positions);
  const bool joins = args->op == AC_OP_batch_norm_moments;
  for (int64_t c = first, width; c < last; c += width) {
    moments m = {0};
    width = strip_width(&shape, c, last);
    visit_strip(&args->in[0], NULL, c, width, visit_moments, &m);
    for (int64_t k = 0; k < width; k++) {
      const double offset = m.sum[k] / n, mean = m.shift[k] + offset;
      double variance = m.squares[k] / n - offset * offset;
      if (variance < 0) variance = 0;
      if (joins) join(args, c + k, n, mean, n * variance);
      else store_statistics(args, c + k, mean, variance);
    }
  }
}

static void running_statistics(const ac_op_args *args) {
  const float *mean = args->in[3].data, *variance = args->in[4].data;
  for (int64_t c = 0; c < args->in[3].count; c++)
    store_statistics(args, c, (double)mean[c], (double)variance[c]);
}

/* (mean, r) of each channel. */
static const float *statistics_of(const ac_op_args *args) {
  return args->op == AC_OP_batch_norm ? args->out[1].data : args->in[3].data;
}

/* Channels [channel, channel + count) of a sample, of one position each. */
static void normalise_channels(const ac_op_args *args, int64_t channel, int64_t count,
                               const float *x, float *y) {
  const float *gamma = ac_cpu_data(&args->in[1]), *beta = ac_cpu_data(&args->in[2]);
  const float *statistics = statistics_of(args) + 2 * channel;
#pragma omp simd
  for (int64_t j = 0; j < count; j++) {
    float factor = gamma ? statistics[2 * j + 1] * gamma[channel + j] : statistics[2 * j + 1];
    y[j] = (x[j] - statistics[2 * j]) * factor + (beta ? beta[channel + j] : 0.0f);
  }
}

/* Items are the channels of the samples. */
static void normalise_range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_channels shape = ac_channels_of(&args->in[0]);
  const float *gamma = ac_cpu_data(&args->in[1]), *beta = ac_cpu_data(&args->in[2]);
  const float *statistics = statistics_of(args);
  for (int64_t i = first, count; i < last; i += count) {
    int64_t c = i % shape.channels, n = shape.positions;
    const float *x = (const float *)args->in[0].data + i * n;
    float *y = (float *)args->out[0].data + i * n;
    count = n == 1 ? ac_smaller(last - i, shape.channels - c) : 1;
    if (n == 1) {
      normalise_channels(args, c, count, x, y);
      continue;
    }
    float mean = statistics[2 * c], factor = statistics[2 * c + 1] * (gamma ? gamma[c] : 1.0f);
    float offset = beta ? beta[c] : 0.0f;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * factor + offset;
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_channels shape = ac_channels_of(&args->in[0]);
  if (args->run->training && !is_frozen(args))
    ac_cpu_for(context, args, shape.channels, shape.samples * shape.positions, moments_range);
  else running_statistics(args);
  ac_cpu_for_floats(context, args, shape.samples * shape.channels, shape.positions,
                    normalise_range);
}

/* ---- gradient -------------------------------------------------------------------------------- */

typedef struct gradient_sums {
  double plain[STRIP], centred[STRIP];
  float mean[STRIP];
} gradient_sums;

static void visit_gradient(void *sums, const float *x, const float *dy, int64_t width,
                           int64_t stride, int64_t count) {
  gradient_sums *g = sums;
  if (!x) {
    for (int64_t k = 0; k < width; k++) g->plain[k] += (double)row_sum(dy + k * stride, count);
    return;
  }
  if (stride == 1) {
#pragma omp simd
    for (int64_t k = 0; k < width; k++) {
      g->plain[k] += (double)dy[k];
      g->centred[k] += (double)(dy[k] * (x[k] - g->mean[k]));
    }
    return;
  }
  for (int64_t k = 0; k < width; k++)
    row_gradient_sums(dy + k * stride, x + k * stride, g->mean[k], count, &g->plain[k],
                      &g->centred[k]);
}

/* dx = factor (dy - constant - (x - mean) share): three floats of each channel, in the workspace,
 * before the scratch that blocks need there.
 */
typedef struct coefficients {
  float *factor, *constant, *share;
} coefficients;

static coefficients coefficients_of(const ac_op_args *args) {
  int64_t channels = args->in[0].dim[1];
  float *at = args->workspace;
  return (coefficients){at, at + channels, at + 2 * channels};
}

static void sums_range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_channels shape = ac_channels_of(&args->in[0]);
  const bool frozen = is_frozen(args), gathers = args->op == AC_OP_batch_norm_sums;
  const float *statistics = args->in[2].data;
  const float *gamma = gathers ? NULL : ac_cpu_data(&args->in[3]);
  coefficients to = {NULL, NULL, NULL};
  if (!gathers) to = coefficients_of(args);
  double n = (double)(shape.samples * shape.positions);
  for (int64_t c = first, width; c < last; c += width) {
    gradient_sums g = {.mean = {0}};
    width = strip_width(&shape, c, last);
    for (int64_t k = 0; k < width; k++) g.mean[k] = statistics[2 * (c + k)];
    if (args->out[1].count || args->out[2].count || !frozen)
      visit_strip(args->in[1].count ? &args->in[1] : NULL, &args->in[0], c, width, visit_gradient,
                  &g);
    for (int64_t k = 0; k < width; k++) {
      float inverse = statistics[2 * (c + k) + 1];
      if (gathers) {
        store_sum(args, 0, 2 * (c + k), g.plain[k]);
        store_sum(args, 0, 2 * (c + k) + 1, g.centred[k] * (double)inverse);
        continue;
      }
      store_sum(args, 1, c + k, g.centred[k] * (double)inverse);
      store_sum(args, 2, c + k, g.plain[k]);
      to.factor[c + k] = gamma ? inverse * gamma[c + k] : inverse;
      to.constant[c + k] = frozen ? 0 : (float)(g.plain[k] / n);
      to.share[c + k] = frozen ? 0 : (float)(g.centred[k] / n * (double)inverse * (double)inverse);
    }
  }
}

static void input_gradient(const float *dy, const float *x, float *dx, int64_t n, float factor,
                           float constant, float share, float mean, bool add) {
  if (add) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) dx[j] += factor * (dy[j] - constant - (x[j] - mean) * share);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) dx[j] = factor * (dy[j] - constant - (x[j] - mean) * share);
  }
}

/* Channels of one position each. */
static void input_gradient_channels(const ac_op_args *args, int64_t channel, int64_t count,
                                    const float *dy, const float *x, float *dx) {
  const float *statistics = (const float *)args->in[2].data + 2 * channel;
  coefficients from = coefficients_of(args);
  bool add = args->add[0];
#pragma omp simd
  for (int64_t j = 0; j < count; j++) {
    float centred = dy[j] - from.constant[channel + j];
    float d =
        from.factor[channel + j] * (centred - (x[j] - statistics[2 * j]) * from.share[channel + j]);
    dx[j] = add ? dx[j] + d : d;
  }
}

/* With frozen statistics, which does not need x. */
static void scale_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const int64_t n = shape.positions;
  const bool add = args->add[0];
  for (int64_t i = first, count; i < last; i += count) {
    const int64_t c = i % shape.channels;
    const float *dy = (const float *)args->in[0].data + i * n;
    const float *factor = coefficients_of(args).factor + c;
    float *dx = (float *)args->out[0].data + i * n;
    count = n == 1 ? ac_smaller(last - i, shape.channels - c) : 1;
    if (n == 1) {
#pragma omp simd
      for (int64_t j = 0; j < count; j++) dx[j] = (add ? dx[j] : 0.0f) + factor[j] * dy[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < n; j++) dx[j] = (add ? dx[j] : 0.0f) + *factor * dy[j];
    }
  }
}

static void input_gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_channels shape = ac_channels_of(&args->in[0]);
  const float *statistics = args->in[2].data;
  coefficients from = coefficients_of(args);
  for (int64_t i = first, count; i < last; i += count) {
    int64_t c = i % shape.channels, n = shape.positions;
    const float *dy = (const float *)args->in[0].data + i * n;
    const float *x = (const float *)args->in[1].data + i * n;
    float *dx = (float *)args->out[0].data + i * n;
    count = n == 1 ? ac_smaller(last - i, shape.channels - c) : 1;
    if (n == 1) input_gradient_channels(args, c, count, dy, x, dx);
    else
      input_gradient(dy, x, dx, n, from.factor[c], from.constant[c], from.share[c],
                     statistics[2 * c], args->add[0]);
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_channels shape = ac_channels_of(&args->in[0]);
  ac_cpu_for(context, args, shape.channels, shape.samples * shape.positions, sums_range);
  if (args->out[0].count)
    ac_cpu_for_floats(context, args, shape.samples * shape.channels, shape.positions,
                      is_frozen(args) ? scale_range : input_gradient_range);
}

static uint64_t gradient_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  uint64_t bytes = 3 * (uint64_t)args->in[0].dim[1] * sizeof(float);
  return ac_align(bytes, AC_LINE_BYTES) + scratch(context, args);
}

/* ---- running statistics ---------------------------------------------------------------------- */

static void pool(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const ac_batch_norm_pool_attributes *a = args->attributes;
  const float *statistics = args->in[0].data, *variance = args->in[1].data;
  const double n = (double)(args->run->batch * a->per_sample);
  for (int64_t c = 0; c < args->in[0].dim[0]; c++)
    join(args, c, n, (double)statistics[2 * c], n * (double)variance[c]);
}

static void update(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  float momentum = ((const ac_batch_norm_update_attributes *)args->attributes)->momentum;
  float *mean = args->out[0].data, *variance = args->out[1].data;
  for (int64_t c = 0; c < args->in[0].dim[0]; c++) {
    const float *pooled = (const float *)args->in[0].data + 3 * c;
    mean[c] += momentum * (pooled[1] - mean[c]);
    if (pooled[0] > 1.0f) variance[c] += momentum * (pooled[2] / (pooled[0] - 1.0f) - variance[c]);
  }
}

/* ---- over a window --------------------------------------------------------------------------- */

static void gather_moments(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  ac_cpu_for(context, args, shape.channels, shape.samples * shape.positions, moments_range);
}

/* Those of the window or, in evaluation, the running ones. */
static void settle_statistics(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const double epsilon = (double)((const ac_batch_norm_attributes *)args->attributes)->epsilon;
  const float *pooled = args->in[0].data, *mean = args->in[1].data, *variance = args->in[2].data;
  float *statistics = args->out[0].data;
  for (int64_t c = 0; c < args->in[1].count; c++) {
    const bool measured = args->run->training;
    const double v =
        measured ? (double)pooled[3 * c + 2] / (double)pooled[3 * c] : (double)variance[c];
    statistics[2 * c] = measured ? pooled[3 * c + 1] : mean[c];
    statistics[2 * c + 1] = (float)(1 / sqrt(v + epsilon));
  }
}

static void apply(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  ac_cpu_for_floats(context, args, shape.samples * shape.channels, shape.positions,
                    normalise_range);
}

static void gather_sums(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  ac_cpu_for(context, args, shape.channels, shape.samples * shape.positions, sums_range);
}

static void window_input_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const float *statistics = args->in[2].data, *gamma = ac_cpu_data(&args->in[3]);
  const float *sums = args->in[4].data, *pooled = args->in[5].data;
  const coefficients to = coefficients_of(args);
  for (int64_t c = 0; c < shape.channels; c++) {
    const float inverse = statistics[2 * c + 1], n = pooled[3 * c];
    to.factor[c] = gamma ? inverse * gamma[c] : inverse;
    to.constant[c] = sums[2 * c] / n;
    to.share[c] = sums[2 * c + 1] / n * inverse;
  }
  ac_cpu_for_floats(context, args, shape.samples * shape.channels, shape.positions,
                    input_gradient_range);
}

static void window_parameter_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const float *sums = args->in[0].data;
  const bool counts = !args->run->counts_elsewhere;
  for (int64_t c = 0; c < args->in[0].dim[0]; c++) {
    store_sum(args, 0, c, counts ? (double)sums[2 * c + 1] : 0);
    store_sum(args, 1, c, counts ? (double)sums[2 * c] : 0);
  }
}

const ac_cpu_kernel AC_CPU_KERNEL(batch_norm) = {.run = forward, .workspace = scratch};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_gradient) = {.run = gradient,
                                                          .workspace = gradient_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_pool) = {.run = pool};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_update) = {.run = update};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_moments) = {.run = gather_moments};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_statistics) = {.run = settle_statistics};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_apply) = {.run = apply, .workspace = scratch};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_sums) = {.run = gather_sums};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_input_gradient) = {.run = window_input_gradient,
                                                                .workspace = gradient_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(batch_norm_parameter_gradient) = {
    .run = window_parameter_gradient};
