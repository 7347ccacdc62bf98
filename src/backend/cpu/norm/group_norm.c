/* A sample's group of channels is a row of neighbours, and one thread normalises it: the mean, the
 * variance from the centred row, then a pass for each channel.
 *
 * The gradient (formulas in ops/norm/group_norm.c) first sums dy and dy h of each channel of the
 * row into the workspace, [B, C] pairs before the scratch that blocks need there; their sums
 * weighted by gamma are what dx needs, and their sums over the samples, in order, are dbeta and
 * dgamma. */
#include "backend/cpu/norm/norm.h"
#include "core/align.h"
#include "ops/norm/channels.h"
#include "ops/norm/group_norm.h"

/* The rows: B G of them, with `channels` channels of `positions` elements each. */
typedef struct rows {
  int64_t count, groups, channels, positions;
  float epsilon;
} rows;

static rows rows_of(const ac_op_args *args) {
  const ac_group_norm_attributes *attributes = args->attributes;
  ac_channels shape = ac_channels_of(&args->in[0]);
  return (rows){shape.samples * attributes->groups, attributes->groups,
                shape.channels / attributes->groups, shape.positions, attributes->epsilon};
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  rows r = rows_of(args);
  const float *gamma = ac_cpu_data(&args->in[1]), *beta = ac_cpu_data(&args->in[2]);
  float *statistics = args->out[1].data;
  int64_t size = r.channels * r.positions;
  for (int64_t i = first; i < last; i++) {
    int64_t channel = i % r.groups * r.channels;
    const float *x = (const float *)args->in[0].data + i * size;
    float *y = (float *)args->out[0].data + i * size;
    row_scale s = row_statistics(x, size, r.epsilon, statistics + 2 * i);
    for (int64_t k = 0; k < r.channels; k++, channel++, x += r.positions, y += r.positions) {
      float factor = gamma ? s.inverse * gamma[channel] : s.inverse;
      float offset = beta ? beta[channel] : 0.0f;
#pragma omp simd
      for (int64_t j = 0; j < r.positions; j++) y[j] = (x[j] - s.mean) * factor + offset;
    }
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  rows r = rows_of(args);
  ac_cpu_for_floats(context, args, r.count, r.channels * r.positions, forward_range);
}

static uint64_t scratch(const ac_cpu_context *context, const ac_op_args *args) {
  rows r = rows_of(args);
  return ac_cpu_scratch(context, args, r.channels * r.positions);
}

/* Sums of dy, and of dy h, over a channel of one sample. */
typedef struct channel_sums {
  float plain, normalised;
} channel_sums;

static void input_gradient(const float *dy, const float *x, float *dx, int64_t count, float factor,
                           float mean, float constant, float share, float down, bool add) {
  if (add) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
      dx[j] += factor * dy[j] - constant - (x[j] - mean) * down * share;
  } else {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
      dx[j] = factor * dy[j] - constant - (x[j] - mean) * down * share;
  }
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  rows r = rows_of(args);
  const float *statistics = args->in[2].data, *gamma = ac_cpu_data(&args->in[3]);
  channel_sums *sums = args->workspace;
  int64_t n = r.positions, size = r.channels * n;
  for (int64_t i = first; i < last; i++) {
    const float *dy = (const float *)args->in[0].data + i * size;
    const float *x = (const float *)args->in[1].data + i * size;
    const float *weights = gamma ? gamma + i % r.groups * r.channels : NULL;
    float mean = statistics[2 * i], inverse = statistics[2 * i + 1];
    double total = 0, total_normalised = 0;
    for (int64_t k = 0; k < r.channels; k++) {
      double plain = 0, centred = 0, weight = weights ? (double)weights[k] : 1;
      row_gradient_sums(dy + k * n, x + k * n, mean, n, &plain, &centred);
      sums[i * r.channels + k] = (channel_sums){(float)plain, (float)centred * inverse};
      total += weight * plain;
      total_normalised += weight * centred * (double)inverse;
    }
    if (!args->out[0].count) continue;
    float *dx = (float *)args->out[0].data + i * size;
    float constant = (float)(total / (double)size) * inverse;
    /* If x is so large that the square of `inverse` is below floats, x - mean takes one of them. */
    bool large = inverse < 0x1p-40f;
    float down = large ? inverse : 1.0f;
    float share = (float)(total_normalised / (double)size) * (large ? 1.0f : inverse) * inverse;
    for (int64_t k = 0; k < r.channels; k++) {
      float factor = weights ? inverse * weights[k] : inverse;
      input_gradient(dy + k * n, x + k * n, dx + k * n, n, factor, mean, constant, share, down,
                     args->add[0]);
    }
  }
}

static void parameter_range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_channels shape = ac_channels_of(&args->in[0]);
  const channel_sums *sums = args->workspace;
  for (int64_t c = first; c < last; c++) {
    double plain = 0, normalised = 0;
    for (int64_t b = 0; b < shape.samples; b++) {
      plain += (double)sums[b * shape.channels + c].plain;
      normalised += (double)sums[b * shape.channels + c].normalised;
    }
    store_sum(args, 1, c, normalised);
    store_sum(args, 2, c, plain);
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  rows r = rows_of(args);
  ac_channels shape = ac_channels_of(&args->in[0]);
  ac_cpu_for_floats(context, args, r.count, r.channels * r.positions, gradient_range);
  if (args->out[1].count || args->out[2].count)
    ac_cpu_for(context, args, shape.channels, shape.samples, parameter_range);
}

static uint64_t gradient_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  ac_channels shape = ac_channels_of(&args->in[0]);
  uint64_t sums = (uint64_t)(shape.samples * shape.channels) * sizeof(channel_sums);
  return ac_align(sums, AC_LINE_BYTES) + scratch(context, args);
}

const ac_cpu_kernel AC_CPU_KERNEL(group_norm) = {.run = forward, .workspace = scratch};
const ac_cpu_kernel AC_CPU_KERNEL(group_norm_gradient) = {.run = gradient,
                                                          .workspace = gradient_workspace};
