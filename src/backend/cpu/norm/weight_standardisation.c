/* Rows of w, one for each output, are standardised: y = (w - mean) r;
 * dw = r (dy - mean(dy) - y mean(dy y)). */
#include "backend/cpu/norm/norm.h"
#include "ops/norm/weight_standardisation.h"

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  float epsilon = ((const ac_weight_standardisation_attributes *)args->attributes)->epsilon;
  float *statistics = args->out[1].data;
  int64_t size = ac_weight_row(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *w = (const float *)args->in[0].data + i * size;
    float *y = (float *)args->out[0].data + i * size;
    row_scale s = row_statistics(w, size, epsilon, statistics + 2 * i);
#pragma omp simd
    for (int64_t j = 0; j < size; j++) y[j] = (w[j] - s.mean) * s.inverse;
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->in[0].dim[0], ac_weight_row(&args->in[0]), forward_range);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *statistics = args->in[2].data;
  int64_t size = ac_weight_row(&args->in[1]);
  for (int64_t i = first; i < last; i++) {
    const float *dy = (const float *)args->in[0].data + i * size;
    const float *w = (const float *)args->in[1].data + i * size;
    float *dw = (float *)args->out[0].data + i * size;
    float mean = statistics[2 * i], inverse = statistics[2 * i + 1];
    double sum = 0, centred = 0;
    row_gradient_sums(dy, w, mean, size, &sum, &centred);
    float mean_dy = (float)(sum / (double)size);
    float share = (float)(centred / (double)size) * inverse * inverse;
    if (args->add[0]) {
#pragma omp simd
      for (int64_t j = 0; j < size; j++)
        dw[j] += inverse * (dy[j] - mean_dy - (w[j] - mean) * share);
    } else {
#pragma omp simd
      for (int64_t j = 0; j < size; j++)
        dw[j] = inverse * (dy[j] - mean_dy - (w[j] - mean) * share);
    }
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->in[1].dim[0], ac_weight_row(&args->in[1]), gradient_range);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  bool backward = args->op == AC_OP_weight_standardisation_gradient;
  return ac_cpu_scratch(context, args, ac_weight_row(&args->in[backward]));
}

const ac_cpu_kernel AC_CPU_KERNEL(weight_standardisation) = {.run = forward,
                                                             .workspace = workspace};
const ac_cpu_kernel AC_CPU_KERNEL(weight_standardisation_gradient) = {.run = gradient,
                                                                      .workspace = workspace};
