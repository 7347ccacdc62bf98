/* y = x / (1 - p), or 0 where the element's random bits are below p 2^16; a copy when not training.
 * The mask is a function of (seed, stream, update, sample, element) alone, so it is drawn again in
 * the backward pass. Of samples that are dropped whole it is one of (seed, stream, update, sample).
 */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/random_bits.h"
#include "backend/cpu/shared/stream.h"
#include "ops/pointwise/dropout.h"

#include <string.h>

static inline void apply(const uint16_t *bits, uint32_t threshold, float factor, const float *x,
                         float *y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float scaled = x[i] * factor; /* in any case, so that it is a select */
    y[i] = bits[i] < threshold ? 0.0f : scaled;
  }
}

/* A whole block: a constant count makes the common case one straight line. */
static inline void apply_block(const uint16_t *bits, uint32_t threshold, float factor,
                               const float *x, float *y, bool streamed) {
  if (!streamed) {
    apply(bits, threshold, factor, x, y, AC_CPU_RANDOM_HALVES);
    return;
  }
  _Alignas(64) float results[AC_CPU_RANDOM_HALVES];
  apply(bits, threshold, factor, x, results, AC_CPU_RANDOM_HALVES);
  for (int i = 0; i < AC_CPU_RANDOM_HALVES; i += AC_CPU_LINE) {
    ac_cpu_fetch_ahead(x + i);
    ac_cpu_stream_line(results + i, y + i);
  }
}

/* Elements [begin, end) of one sample; streamed if blocks begin with cache lines. */
static inline void drop(const random_mask *mask, float p, uint32_t sample, int64_t begin,
                        int64_t end, const float *x, float *y, bool streamed) {
  uint32_t threshold = ac_dropout_threshold(p);
  uint16_t bits[AC_CPU_RANDOM_HALVES];
  streamed = streamed && (uintptr_t)(y + (begin & ~(int64_t)7)) % 64 == 0;
  float factor = ac_dropout_factor(p);
  for (int64_t base = begin & ~(int64_t)7; base < end; base += AC_CPU_RANDOM_HALVES) {
    int64_t from = ac_larger(begin, base), to = ac_smaller(end, base + AC_CPU_RANDOM_HALVES);
    random_bits(bits, mask, sample, (uint32_t)(base / 8));
    if (to - from < AC_CPU_RANDOM_HALVES)
      apply(bits + (from - base), threshold, factor, x + from, y + from, to - from);
    else apply_block(bits, threshold, factor, x + base, y + base, streamed);
  }
}

/* The same of a sample that is dropped or kept whole. */
static inline void drop_whole(const ac_op_args *args, uint32_t sample, int64_t count,
                              const float *x, float *y) {
  const ac_dropout_attributes *a = args->attributes;
  const ac_run_state *run = args->run;
  const ac_philox_block block = ac_philox(run->seed, 0, sample, run->update, a->stream);
  if (ac_dropout_bits(&block, 0) < ac_dropout_threshold(a->p)) {
    memset(y, 0, (size_t)count * sizeof *y);
    return;
  }
  const float factor = ac_dropout_factor(a->p);
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor;
}

static inline void drop_elements(const ac_op_args *args, int64_t first, int64_t last,
                                 bool streamed) {
  const ac_dropout_attributes *attributes = args->attributes;
  const ac_run_state *run = args->run;
  const random_mask mask = random_mask_of(run->seed, run->update, attributes->stream);
  int64_t size = attributes->elements_per_sample;
  for (int64_t begin = first; begin < last;) {
    int64_t sample = begin / size, origin = sample * size, end = ac_smaller(last, origin + size);
    const float *x = (const float *)args->in[0].data + origin;
    float *y = (float *)args->out[0].data + origin;
    if (attributes->whole)
      drop_whole(args, run->sample + (uint32_t)sample, end - begin, x + (begin - origin),
                 y + (begin - origin));
    else
      drop(&mask, attributes->p, run->sample + (uint32_t)sample, begin - origin, end - origin, x, y,
           streamed);
    begin = end;
  }
}

static void drop_range(const ac_op_args *args, int64_t first, int64_t last) {
  drop_elements(args, first, last, false);
}

static void drop_streamed(const ac_op_args *args, int64_t first, int64_t last) {
  drop_elements(args, first, last, true);
  ac_cpu_stream_fence();
}

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

const ac_cpu_kernel AC_CPU_KERNEL(dropout) = {.run = run};
