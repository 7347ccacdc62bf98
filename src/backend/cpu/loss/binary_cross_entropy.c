/* A sample's loss is the mean over its m logits z with targets t of
 * max(z, 0) - z t + log(1 + e^-|z|);  dz = weight scale / m (sigmoid(z) - t). A sample counts as
 * right if each of its logits is: z >= 0 where t >= 1/2, z < 0 elsewhere. Samples' sums are added
 * up in double, in order. */
#include "backend/cpu/loss/loss.h"
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/reduce.h"
#include "backend/cpu/shared/vector_math.h"
#include "core/align.h"

typedef struct sample_result {
  double loss;   /* sum over the elements */
  int64_t wrong; /* how many are on the wrong side */
} sample_result;

static inline float element_loss(float z, float t) {
  float magnitude = z < 0.0f ? -z : z;
  return (z > 0.0f ? z : 0.0f) - z * t + log_one_plus(exponential(-magnitude));
}

static inline int wrong(float z, float t) {
  return (z >= 0.0f) != (t >= 0.5f);
}

static sample_result sample_loss(const float *z, const float *t, int64_t n) {
  sample_result result = {0, 0};
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    int32_t count = 0;
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd reduction(+ : count)
      for (int l = 0; l < AC_CPU_LANES; l++) {
        sum.v[l] += element_loss(z[j + l], t[j + l]);
        count += wrong(z[j + l], t[j + l]);
      }
    }
    for (int l = 0; j < end; j++, l++) {
      sum.v[l] += element_loss(z[j], t[j]);
      count += wrong(z[j], t[j]);
    }
    result.loss += (double)lanes_sum(sum);
    result.wrong += count;
  }
  return result;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  int64_t size = args->in[0].count / sample_count(args);
  sample_result *results = args->workspace;
  for (int64_t i = first; i < last; i++)
    results[i] = sample_loss((const float *)args->in[0].data + i * size,
                             (const float *)args->in[1].data + i * size, size);
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  int64_t samples = sample_count(args), size = args->in[0].count / samples;
  ac_cpu_for_floats(context, args, samples, size, forward_range);
  const sample_result *results = args->workspace;
  double loss = 0, weight = 0, right = 0;
  for (int64_t i = 0; i < samples; i++) {
    double w = sample_weight(args, i);
    if (w == 0) continue;
    loss += w * results[i].loss / (double)size;
    weight += w;
    right += results[i].wrong ? 0 : w;
  }
  store_loss_sums(args->out[0].data, args->add[0], loss, weight, right);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  uint64_t results = (uint64_t)sample_count(args) * sizeof(sample_result);
  return ac_align(results, AC_LINE_BYTES) +
         ac_cpu_scratch(context, args, args->in[0].count / sample_count(args));
}

static inline void logit_gradient(const float *z, const float *t, float *dz, int64_t count,
                                  float factor) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) {
    float complement, s = sigmoid(z[j], &complement);
    dz[j] = factor == 0.0f ? 0.0f : factor * (s - t[j]);
  }
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  sample_gradients(args, first, last, 1.0, logit_gradient);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(binary_cross_entropy) = {.run = forward,
                                                           .workspace = forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(binary_cross_entropy_gradient) = {.run = gradient};
