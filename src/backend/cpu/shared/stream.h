/* Stores past the caches, for arrays that no cache would keep (see blocks.c). */
#ifndef AC_BACKEND_CPU_STREAM_H
#define AC_BACKEND_CPU_STREAM_H

#include "backend/cpu/shared/kernels.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif
#include <string.h>

/* Bytes that inputs are asked for before they are needed: between such stores the hardware alone
 * asks too late. */
enum { AC_CPU_AHEAD = 8192 };

/* Copies 64 bytes to where a cache line begins. */
static inline void ac_cpu_stream_line(const void *from, void *to) {
#if defined(__AVX512F__)
  _mm512_stream_si512((__m512i *)to, _mm512_loadu_si512(from));
#elif defined(__SSE2__)
  for (int i = 0; i < 4; i++)
    _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
#else
  memcpy(to, from, 64);
#endif
}

/* Inlined always: gcc drops calls of functions that only prefetch, as if they did nothing. */
static inline __attribute__((always_inline)) void ac_cpu_fetch_ahead(const void *from) {
#ifdef __SSE2__
  _mm_prefetch((const char *)((uintptr_t)from + AC_CPU_AHEAD), _MM_HINT_T0);
#else
  (void)from;
#endif
}

/* Orders streamed stores before whatever tells other threads that they are done. */
static inline void ac_cpu_stream_fence(void) {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/* Copies a block from a cache past the caches. With each line that it writes it prefetches one of
 * `input`, some blocks ahead: loads and stores share the buffers to memory best if they take turns.
 */
static inline void ac_cpu_stream_bytes(const void *source, void *target, size_t bytes,
                                       const char *input) {
  const char *from = source;
  char *to = target, *end = to + bytes;
  size_t head = (size_t)(-(uintptr_t)to & 63);
  if (head > bytes) head = bytes;
  memcpy(to, from, head);
  for (from += head, to += head; end - to >= 64; from += 64, to += 64, input += 64) {
    ac_cpu_fetch_ahead(input);
    ac_cpu_stream_line(from, to);
  }
  memcpy(to, from, (size_t)(end - to));
}

/* Elements [first, last) of a range function for single elements, a cache line at a time; the first
 * output is at the beginning of a line. The range function is inlined with that constant count, so
 * that its results go from registers to memory. The first `inputs` operands are fetched ahead. */
static inline __attribute__((always_inline)) void
ac_cpu_stream(const ac_op_args *args, int64_t first, int64_t last, ac_cpu_range range, int inputs) {
  _Alignas(64) float results[AC_CPU_LINE];
  ac_op_args own = *args;
  float *y = args->out[0].data;
  int64_t at = first;
  for (; last - at >= AC_CPU_LINE; at += AC_CPU_LINE) {
    for (int i = 0; i < inputs; i++) ac_cpu_fetch_ahead((const float *)args->in[i].data + at);
    own.out[0].data = ac_element(results, AC_F32, -at);
    range(&own, at, at + AC_CPU_LINE);
    ac_cpu_stream_line(results, y + at);
  }
  if (at < last) range(args, at, last);
  ac_cpu_stream_fence();
}

/* Defines the kernel of an op on single elements: `range` computes them, and of its operands the
 * first `inputs` go along with the output. */
#define AC_CPU_ELEMENTWISE(op, range, inputs)                                               \
  static __attribute__((flatten)) void op##_streamed(const ac_op_args *args, int64_t first, \
                                                     int64_t last) {                        \
    ac_cpu_stream(args, first, last, range, inputs);                                        \
  }                                                                                         \
  static void op##_run(const ac_cpu_context *context, const ac_op_args *args) {             \
    ac_cpu_for_elements(context, args, range, op##_streamed);                               \
  }                                                                                         \
  const ac_cpu_kernel AC_CPU_KERNEL(op) = {.run = op##_run};

#endif
