/* A sample's loss is the mean over its m elements of (prediction - target)^2;
 * dprediction = weight scale 2 / m (prediction - target). Samples' sums are added up in double, in
 * order. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/loss.h"
#include "backend/cpu/reduce.h"

static int64_t sample_count(const ac_op_args *args) {
  return args->in[0].rank ? args->in[0].dim[0] : 1;
}

static double sample_weight(const ac_op_args *args, int64_t sample) {
  const float *weights = args->in[2].data;
  return args->in[2].count ? (double)weights[sample] : 1.0;
}

static double squared_distance(const float *p, const float *t, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_min(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        float difference = p[j + l] - t[j + l];
        sum.v[l] += difference * difference;
      }
    }
    for (int l = 0; j < end; j++, l++) sum.v[l] += (p[j] - t[j]) * (p[j] - t[j]);
    total += (double)lanes_sum(sum);
  }
  return total;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  int64_t size = args->in[0].count / sample_count(args);
  double *sums = args->workspace;
  for (int64_t i = first; i < last; i++) {
    const float *p = (const float *)args->in[0].data + i * size;
    const float *t = (const float *)args->in[1].data + i * size;
    sums[i] = squared_distance(p, t, size);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  int64_t samples = sample_count(args), size = args->in[0].count / samples;
  ac_cpu_for(context, args, samples, ac_max(2, size), forward_range);
  const double *sums = args->workspace;
  double loss = 0, weight = 0;
  for (int64_t i = 0; i < samples; i++) {
    double w = sample_weight(args, i);
    if (w == 0) continue;
    loss += w * sums[i] / (double)size;
    weight += w;
  }
  store_loss_sums(args->out[0].data, args->add[0], loss, weight, 0);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  return (uint64_t)sample_count(args) * sizeof(double);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  int64_t size = args->in[0].count / sample_count(args);
  for (int64_t i = first; i < last; i++) {
    const float *p = (const float *)args->in[0].data + i * size;
    const float *t = (const float *)args->in[1].data + i * size;
    float *d = (float *)args->out[0].data + i * size;
    double weight = sample_weight(args, i);
    float factor = (float)(weight * (double)args->run->loss_scale * 2.0 / (double)size);
#pragma omp simd
    for (int64_t j = 0; j < size; j++) d[j] = factor == 0.0f ? 0.0f : factor * (p[j] - t[j]);
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  int64_t samples = sample_count(args);
  ac_cpu_for(context, args, samples, ac_max(2, args->in[0].count / samples), gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(mean_squared_error) = {forward, forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(mean_squared_error_gradient) = {gradient, NULL};
