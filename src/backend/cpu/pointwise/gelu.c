/* GELU, y = x Phi(x), exactly or with Phi approximated by a tanh.
 *
 * tanh: 0.5 (1 + tanh u) = s = sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3), so y = x s and
 *   dy/dx = s + x s (1 - s) 2u'.  With e = e^-|2u| and r = 1 / (1 + e), s is e r for negative x and
 *   else r, and s (1 - s) = e r^2: nothing cancels. x is multiplied with what vanishes first.
 *
 * erf: with the tail q = Phi(-|x|), Phi(x) is q or 1 - q, and
 *   dy/dx = Phi(x) + x phi(x),  phi(x) = e^(-x^2/2) / sqrt(2 pi). */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/stream.h"
#include "backend/cpu/shared/vector_math.h"
#include "ops/pointwise/gelu.h"

#include <math.h>

#define TWO_ROOT 1.5957691216057308f /* 2 sqrt(2/pi) */
#define CUBIC 0.044715f

/* e^-|2u|, given x^2; 0 if x is NaN, so that only products with x are NaN. */
static inline float tanh_decay(float x, float square) {
  const float root = TWO_ROOT * 1.4426950408889634f;
  return two_to_minus(x * (root + root * CUBIC * square));
}

static inline float normal_distribution(float x, float density) {
  float tail = normal_tail(fabsf(x), density);
  return x < 0.0f ? tail : 1.0f - tail;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data;
  if (((const ac_gelu_attributes *)args->attributes)->kind == AC_GELU_TANH) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
      float v = x[i], e = tanh_decay(v, v * v), small = v * e;
      y[i] = inverse(1.0f + e) * (v < 0.0f ? small : v);
    }
  } else {
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
      float v = x[i];
      y[i] = v * normal_distribution(v, exponential(-0.5f * (v * v)));
    }
  }
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *dy = args->in[0].data, *x = args->in[1].data;
  float *dx = args->out[0].data;
  if (((const ac_gelu_attributes *)args->attributes)->kind == AC_GELU_TANH) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
      float v = x[i], square = v * v, e = tanh_decay(v, square), r = inverse(1.0f + e), q = e * r;
      float slope = TWO_ROOT + 3.0f * TWO_ROOT * CUBIC * square;
      dx[i] = dy[i] * ((v < 0.0f ? q : r) + v * (q * r) * slope);
    }
  } else {
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
      float v = x[i], density = exponential(-0.5f * (v * v));
      dx[i] = dy[i] * (normal_distribution(v, density) + v * density * 0.39894228f);
    }
  }
}

AC_CPU_ELEMENTWISE(gelu, forward_range, 1)
AC_CPU_ELEMENTWISE(gelu_gradient, gradient_range, 2)
