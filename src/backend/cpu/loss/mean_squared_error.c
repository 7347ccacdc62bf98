/* A sample's loss is the mean over its m elements of (prediction - target)^2;
 * dprediction = weight scale 2 / m (prediction - target). Samples' sums are added up in double, in
 * order. */
#include "backend/cpu/loss/loss.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"

static double squared_distance(const float *p, const float *t, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
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

/* The same of a prediction in 16 bits: its pieces are those of the sum, so the bits are the same.
 */
static double stored_distance(const void *p, ac_dtype dtype, const float *t, int64_t n) {
  float piece[AC_CPU_CHUNK];
  double total = 0;
  for (int64_t j = 0; j < n; j += AC_CPU_CHUNK) {
    int64_t count = ac_smaller(AC_CPU_CHUNK, n - j);
    ac_cpu_widen(dtype, ac_element(p, dtype, j), piece, count);
    total += squared_distance(piece, t + j, count);
  }
  return total;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  int64_t size = args->in[0].count / sample_count(args);
  double *sums = args->workspace;
  ac_dtype dtype = args->in[0].dtype;
  for (int64_t i = first; i < last; i++) {
    const void *p = ac_element(args->in[0].data, dtype, i * size);
    const float *t = (const float *)args->in[1].data + i * size;
    sums[i] = dtype == AC_F32 ? squared_distance(p, t, size) : stored_distance(p, dtype, t, size);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  int64_t samples = sample_count(args), size = args->in[0].count / samples;
  ac_cpu_for(context, args, samples, ac_larger(2, size), forward_range);
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

static inline void distance_gradient(const float *p, const float *t, float *d, int64_t count,
                                     float factor) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) d[j] = factor == 0.0f ? 0.0f : factor * (p[j] - t[j]);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  sample_gradients(args, first, last, 2.0, distance_gradient);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(mean_squared_error) = {.run = forward,
                                                         .workspace = forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(mean_squared_error_gradient) = {.run = gradient};
