/* y = x / (1 - p), or 0 where the element's random bits are below p 2^16; a copy when not training.
 * The mask is a function of (seed, stream, update, sample, element) alone, so it is drawn again in
 * the backward pass. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/random_bits.h"
#include "backend/cpu/stream.h"
#include "ops/dropout.h"

#include <string.h>

static inline void apply(const uint16_t *bits, uint32_t threshold, float factor, const float *x,
                         float *y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float scaled = x[i] * factor; /* in any case, so that it is a select */
    y[i] = bits[i] < threshold ? 0.0f : scaled;
  }
}

/* Elements [begin, end) of one sample. */
static void drop(const ac_run_state *run, const ac_dropout_attributes *attributes, uint32_t sample,
                 int64_t begin, int64_t end, const float *x, float *y) {
  uint32_t threshold = ac_dropout_threshold(attributes->p);
  uint16_t bits[AC_CPU_RANDOM_HALVES];
  float factor = ac_dropout_factor(attributes->p);
  for (int64_t base = begin & ~(int64_t)7; base < end; base += AC_CPU_RANDOM_HALVES) {
    random_bits(bits, run->seed, (uint32_t)(base / 8), sample, run->update, attributes->stream);
    int64_t from = ac_max(begin, base), to = ac_min(end, base + AC_CPU_RANDOM_HALVES);
    if (to - from ==
        AC_CPU_RANDOM_HALVES) /* a constant count makes the common case one straight line */
      apply(bits, threshold, factor, x + base, y + base, AC_CPU_RANDOM_HALVES);
    else apply(bits + (from - base), threshold, factor, x + from, y + from, to - from);
  }
}

static void drop_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_dropout_attributes *attributes = args->attributes;
  int64_t size = attributes->elements_per_sample;
  for (int64_t begin = first; begin < last;) {
    int64_t sample = begin / size, origin = sample * size, end = ac_min(last, origin + size);
    drop(args->run, attributes, args->run->sample + (uint32_t)sample, begin - origin, end - origin,
         (const float *)args->in[0].data + origin, (float *)args->out[0].data + origin);
    begin = end;
  }
}

AC_CPU_STREAMED(drop_streamed, drop_range, AC_CPU_RANDOM_HALVES, 1)

static void copy_range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_dtype dtype = args->in[0].dtype;
  memcpy(ac_element(args->out[0].data, dtype, first), ac_element(args->in[0].data, dtype, first),
         (size_t)(last - first) * ac_element_bytes(dtype));
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_dropout_attributes *attributes = args->attributes;
  if (args->run->training && attributes->p > 0)
    ac_cpu_for_elements(context, args, drop_range, drop_streamed);
  else if (args->in[0].data != args->out[0].data)
    ac_cpu_for(context, args, args->out[0].count, 1, copy_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(dropout) = {run, NULL};
