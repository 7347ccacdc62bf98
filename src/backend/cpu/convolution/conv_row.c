/* Rows of images into a patch and rows of sums into images. They are often shorter than a vector,
 * so that a call or a loop for the rest would cost more than the row: if the instruction set has
 * masks, all of a row is whole vectors with some lanes left out. Masks also pick every second
 * element, for strides of 2. */
#include "backend/cpu/convolution/conv_masks.h"
#include "backend/cpu/shared/convert.h"

#include <string.h>

enum { BLOCK = AC_CPU_RUN };

/* ---- any step, any instruction set ----------------------------------------------------------- */

static void zero(float *y, int64_t count) {
  for (int64_t j = 0; j < count; j++) y[j] = 0;
}

/* Elements at, at + step, ... of the source, as floats. */
static void read_run(const ac_conv_source *source, int64_t at, int64_t step, float *y,
                     int64_t count) {
  if (step == 1) {
    ac_cpu_widen(source->dtype, ac_element(source->data, source->dtype, at), y, count);
    return;
  }
  if (source->dtype == AC_F32) {
    const float *x = (const float *)source->data + at;
    for (int64_t j = 0; j < count; j++) y[j] = x[j * step];
    return;
  }
  uint16_t halves[BLOCK];
  const uint16_t *x = (const uint16_t *)source->data + at;
  for (int64_t j = 0, n; j < count; j += n) {
    n = ac_smaller(BLOCK, count - j);
    for (int64_t i = 0; i < n; i++) halves[i] = x[(j + i) * step];
    ac_cpu_widen(source->dtype, halves, y + j, n);
  }
}

static void read_pairs(const uint16_t *first, const uint16_t *second, int64_t step, uint32_t *y,
                       int64_t count) {
  for (int64_t j = 0; j < count; j++)
    y[j] = first[j * step] | (second ? (uint32_t)second[j * step] << 16 : 0);
}

static void store_floats(const float *c, float bias, bool add, float *y, int64_t step,
                         int64_t count) {
  if (step != 1) {
    for (int64_t j = 0; j < count; j++) y[j * step] = (add ? y[j * step] : 0.0f) + c[j] + bias;
  } else if (add) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] += c[j] + bias;
  } else {
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[j] = c[j] + bias;
  }
}

static void store_halves(ac_dtype dtype, bool mark, const float *c, float bias, bool add,
                         uint16_t *y, int64_t step, int64_t count) {
  uint16_t halves[BLOCK];
  float floats[BLOCK];
  for (int64_t j = 0, n; j < count; j += n) {
    n = ac_smaller(BLOCK, count - j);
    store_floats(c + j, bias, false, floats, 1, n);
    for (int64_t i = 0; add && i < n; i++) halves[i] = y[(j + i) * step];
    if (add) ac_cpu_accumulate(dtype, mark, floats, halves, n);
    else ac_cpu_narrow(dtype, mark, floats, halves, n);
    for (int64_t i = 0; i < n; i++) y[(j + i) * step] = halves[i];
  }
}

/* ---- masks ----------------------------------------------------------------------------------- */

#ifdef HAVE_MASKS

/* The next channel's row is asked for ahead: it lies too far away for the hardware to foresee. */
static void read_masked(const ac_conv_source *source, int64_t at, int64_t step, int64_t begin,
                        int64_t end, int64_t stride, float *y) {
  for (int64_t j = 0; j < stride; j += LANES) {
    __mmask16 m = between(begin - j, end - j);
    int64_t from = at + (j - begin) * step;
    __m512 v = step == 1 ? read_vector(source, from, m) : read_even(source, from, m);
    for (int64_t k = 0; k < step; k++)
      __builtin_prefetch(
          ac_element(source->data, source->dtype, from + source->channel + k * LANES));
    _mm512_mask_storeu_ps(y + j, lanes(stride - j), v);
  }
}

static void read_patches_masked(const ac_conv_source *source, int64_t at, int64_t begin,
                                int64_t end, int64_t count, int64_t distance, float *y) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  for (int64_t j = 0; j < count; j += LANES) {
    int64_t first = 2 * j;
    __builtin_prefetch(ac_element(source->data, source->dtype, at + first + source->channel));
    for (int64_t t = 0; t < 4; t++, first++) {
      __m512 low = read_vector(source, at + first, between(begin - first, end - first)),
             high = read_vector(source, at + first + LANES,
                                between(begin - first - LANES, end - first - LANES));
      _mm512_mask_storeu_ps(y + t * distance + j, lanes(count - j),
                            _mm512_permutex2var_ps(low, even, high));
    }
  }
}

/* Elements for 16 lanes, every `step`-th, in their lower halves. */
INLINE __m512i read_halves(const uint16_t *x, int64_t step, __mmask16 m) {
  const __m512i low = _mm512_set1_epi32(0xffff);
  if (step == 1) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, x));
  return _mm512_and_si512(low, _mm512_maskz_loadu_epi16(_pdep_u32(m, 0x55555555), x));
}

/* Pairs [j, to) of a row with elements from `begin` to `end`; 0 outside. */
INLINE void read_pairs_masked(const uint16_t *x, int64_t second, int64_t step, int64_t begin,
                              int64_t end, int64_t j, int64_t to, uint32_t *y) {
  for (; j < to; j += LANES) {
    __mmask16 m = between(begin - j, end - j);
    const uint16_t *from = x + (j - begin) * step;
    __m512i v = read_halves(from, step, m);
    if (second) v = _mm512_or_si512(v, _mm512_slli_epi32(read_halves(from + second, step, m), 16));
    _mm512_mask_storeu_epi32(y + j, lanes(to - j), v);
  }
}

/* Whole vectors of pairs, as many as there are; returns how many elements these take. The next
 * channels' rows are asked for ahead. */
INLINE int64_t read_whole_pairs(const uint16_t *x, int64_t second, int64_t step, int64_t count,
                                uint32_t *y) {
  int64_t j = 0;
  for (; j + LANES <= count; j += LANES) {
    const uint16_t *from = x + j * step;
    __m512i v = read_halves(from, step, 0xffff);
    if (second) {
      v = _mm512_or_si512(v, _mm512_slli_epi32(read_halves(from + second, step, 0xffff), 16));
      __builtin_prefetch(from + 2 * second);
      __builtin_prefetch(from + 3 * second);
    }
    _mm512_storeu_si512(y + j, v);
  }
  return j;
}

INLINE void read_pairs_of(const uint16_t *x, int64_t second, int64_t step, int64_t begin,
                          int64_t end, int64_t stride, uint32_t *y) {
  int64_t j = 0;
  if (end - begin >= LANES) {
    read_pairs_masked(x, second, step, begin, end, 0, begin, y);
    j = begin + read_whole_pairs(x, second, step, end - begin, y + begin);
  }
  read_pairs_masked(x, second, step, begin, end, j, stride, y);
}

/* The first n of 32 lanes, and every second of 64. */
INLINE __mmask32 half_lanes(int64_t n) {
  return _bzhi_u32(UINT32_MAX, n >= 2 * LANES ? 2 * LANES : n <= 0 ? 0 : (unsigned)n);
}
INLINE __m512i read_even_halves(const uint16_t *x, __mmask32 m) {
  const __m512i even = _mm512_or_si512(
      _mm512_slli_epi32(
          _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62), 16),
      _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60));
  uint64_t every_second = _pdep_u64(m, 0x5555555555555555);
  __m512i low = _mm512_maskz_loadu_epi16((__mmask32)every_second, x),
          high = _mm512_maskz_loadu_epi16((__mmask32)(every_second >> 32), x + 2 * LANES);
  return _mm512_permutex2var_epi16(low, even, high);
}

INLINE void read_halves_masked(const uint16_t *x, int64_t ahead, int64_t step, int64_t begin,
                               int64_t end, int64_t rows, int64_t distance, int64_t stride,
                               uint16_t *y) {
  for (int64_t j = 0; j < stride; j += 2 * LANES) {
    const __mmask32 m = half_lanes(end - j) & ~half_lanes(begin - j), to = half_lanes(stride - j);
    const uint16_t *from = x + (j - begin) * step;
    for (int64_t i = 0; i < rows; i++, from += distance) {
      __m512i v = step == 1 ? _mm512_maskz_loadu_epi16(m, from) : read_even_halves(from, m);
      __builtin_prefetch(from + ahead);
      _mm512_mask_storeu_epi16(y + i * stride + j, to, v);
    }
  }
}

static inline void store_vector(float *y, __mmask16 m, __m512 v, bool add) {
  if (add) v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, y), v);
  _mm512_mask_storeu_ps(y, m, v);
}

INLINE void store_masked(const float *c, float bias, bool add, float *y, int64_t step,
                         int64_t count) {
  for (int64_t j = 0; j < count; j += LANES) {
    __mmask16 m = lanes(count - j);
    __m512 v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, c + j), _mm512_set1_ps(bias));
    if (step == 1) {
      store_vector(y + j, m, v, add);
      continue;
    }
    __m512 high = _mm512_shuffle_f32x4(v, v, 0xee);
    store_vector(y + 2 * j, spread(m), _mm512_maskz_expand_ps(EVEN, v), add);
    store_vector(y + 2 * j + LANES, spread((unsigned)m >> 8), _mm512_maskz_expand_ps(EVEN, high),
                 add);
  }
}

/* The bits of ac_bf16_from_float in the upper halves. */
INLINE __m512i round_halves(__m512 v) {
  __m512i bits = _mm512_castps_si512(v), even = _mm512_srli_epi32(bits, 16);
  __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  even = _mm512_and_si512(even, _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
  return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}

/* Every second element of bf16, with a mask. */
static void store_halves_apart(const float *c, float bias, bool add, uint16_t *y, int64_t count) {
  for (int64_t j = 0; j < count; j += LANES, y += 2 * LANES) {
    __mmask16 m = lanes(count - j);
    __m512 v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, c + j), _mm512_set1_ps(bias));
    if (add) {
      __m512i old = _mm512_slli_epi32(read_halves(y, 2, m), 16);
      v = _mm512_add_ps(_mm512_castsi512_ps(old), v);
    }
    __m512i halves = _mm512_srli_epi32(round_halves(v), 16);
    _mm512_mask_storeu_epi16(y, _pdep_u32(m, 0x55555555), halves);
  }
}

/* Neighbours of bf16: a line at a time where that is `whole`, for a store with a mask takes longer.
 */
INLINE void store_line(const float *c, __m512 bias, bool add, bool whole, __mmask32 m,
                       uint16_t *y) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i upper = _mm512_add_epi32(_mm512_set1_epi32(3 << 16 | 1),
                                         _mm512_mullo_epi32(lane, _mm512_set1_epi32(4 << 16 | 4)));
  __m512 low = _mm512_maskz_loadu_ps(whole ? 0xffff : (__mmask16)m, c),
         high = _mm512_maskz_loadu_ps(whole ? 0xffff : (__mmask16)(m >> 16), c + LANES);
  low = _mm512_add_ps(low, bias);
  high = _mm512_add_ps(high, bias);
  if (add) {
    __m512i old = whole ? _mm512_loadu_si512(y) : _mm512_maskz_loadu_epi16(m, y);
    __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(old)),
            second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(old, 1));
    low = _mm512_add_ps(_mm512_castsi512_ps(_mm512_slli_epi32(first, 16)), low);
    high = _mm512_add_ps(_mm512_castsi512_ps(_mm512_slli_epi32(second, 16)), high);
  }
  __m512i halves = _mm512_permutex2var_epi16(round_halves(low), upper, round_halves(high));
  if (whole) _mm512_storeu_si512(y, halves);
  else _mm512_mask_storeu_epi16(y, m, halves);
}

static void store_halves_together(const float *c, float bias, bool add, uint16_t *y,
                                  int64_t count) {
  const __m512 b = _mm512_set1_ps(bias);
  int64_t j = 0;
  for (; j + 2 * LANES <= count; j += 2 * LANES) {
    if (add) store_line(c + j, b, true, true, 0, y + j);
    else store_line(c + j, b, false, true, 0, y + j);
  }
  if (j < count) store_line(c + j, b, add, false, half_lanes(count - j), y + j);
}

#endif

/* ---- rows ------------------------------------------------------------------------------------ */

void ac_conv_read_row(const ac_conv_source *source, int64_t at, int64_t step, int64_t begin,
                      int64_t end, int64_t stride, float *y) {
#ifdef HAVE_MASKS
  if (step <= 2) {
    read_masked(source, at, step, begin, end, stride, y);
    return;
  }
#endif
  zero(y, begin);
  read_run(source, at, step, y + begin, end - begin);
  zero(y + end, stride - end);
}

void ac_conv_read_patches(const ac_conv_source *source, int64_t at, int64_t begin, int64_t end,
                          int64_t count, int64_t distance, float *y) {
#ifdef HAVE_MASKS
  read_patches_masked(source, at, begin, end, count, distance, y);
#else
  for (int64_t t = 0; t < 4; t++, y += distance) {
    int64_t first = ac_smaller(count, begin > t ? (begin - t + 1) / 2 : 0);
    int64_t last = ac_larger(first, ac_smaller(count, end > t ? (end - t + 1) / 2 : 0));
    zero(y, first);
    read_run(source, at + 2 * first + t, 2, y + first, last - first);
    zero(y + last, count - last);
  }
#endif
}

void ac_conv_read_pairs(const ac_conv_source *source, int64_t at, bool second, int64_t step,
                        int64_t begin, int64_t end, int64_t stride, uint32_t *y) {
  const uint16_t *x = (const uint16_t *)source->data + at;
  int64_t apart = second ? source->channel : 0;
#ifdef HAVE_MASKS
  if (step == 1) {
    read_pairs_of(x, apart, 1, begin, end, stride, y);
    return;
  }
  if (step == 2) {
    read_pairs_of(x, apart, 2, begin, end, stride, y);
    return;
  }
#endif
  memset(y, 0, (size_t)begin * sizeof *y);
  read_pairs(x, second ? x + apart : NULL, step, y + begin, end - begin);
  memset(y + end, 0, (size_t)(stride - end) * sizeof *y);
}

void ac_conv_read_halves(const ac_conv_source *source, int64_t at, int64_t step, int64_t begin,
                         int64_t end, int64_t rows, int64_t distance, int64_t stride, uint16_t *y) {
  const uint16_t *x = (const uint16_t *)source->data + at;
#ifdef HAVE_MASKS
  if (step == 1) {
    read_halves_masked(x, source->channel, 1, begin, end, rows, distance, stride, y);
    return;
  }
  if (step == 2) {
    read_halves_masked(x, source->channel, 2, begin, end, rows, distance, stride, y);
    return;
  }
#endif
  for (int64_t i = 0; i < rows; i++, x += distance, y += stride) {
    memset(y, 0, (size_t)ac_smaller(begin, stride) * sizeof *y);
    for (int64_t j = begin; j < end; j++) y[j] = x[(j - begin) * step];
    memset(y + end, 0, (size_t)(stride - end) * sizeof *y);
  }
}

/* y[j] = the lower halves of first[j] and second[j]; the upper ones are 0. */
static void join_halves(const uint32_t *first, const uint32_t *second, uint32_t *y, int64_t count) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) y[j] = first[j] | second[j] << 16;
}

void ac_conv_copy_rows(const float *from, const float *with, int64_t stride, float *to,
                       int64_t rows, int64_t columns) {
  if (with) {
    for (int64_t i = 0; i < rows; i++, from += stride, with += stride, to += columns)
      join_halves((const uint32_t *)from, (const uint32_t *)with, (uint32_t *)to, columns);
    return;
  }
#ifdef HAVE_MASKS
  if (columns <= LANES) {
    __mmask16 m = lanes(columns);
    for (int64_t i = 0; i < rows; i++, from += stride, to += columns)
      _mm512_mask_storeu_ps(to, m, _mm512_maskz_loadu_ps(m, from));
    return;
  }
#endif
  for (int64_t i = 0; i < rows; i++, from += stride, to += columns)
    memcpy(to, from, (size_t)columns * sizeof *to);
}

static void store_row(const ac_run_state *run, const float *c, float bias, bool add,
                      const ac_operand *y, int64_t at, int64_t step, int64_t count) {
  void *to = ac_element(y->data, y->dtype, at);
  if (y->dtype == AC_F32) store_floats(c, bias, add, to, step, count);
  else store_halves(y->dtype, run->mark_flushed, c, bias, add, to, step, count);
}

#ifdef HAVE_MASKS
/* `step` and `add` are constants where this is inlined. */
INLINE void store_rows_masked(const float *c, int64_t apart, int64_t rows, float bias, bool add,
                              float *y, int64_t distance, int64_t step, int64_t count) {
  for (int64_t i = 0; i < rows; i++, c += apart, y += distance)
    store_masked(c, bias, add, y, step, count);
}
#endif

/* Short rows are quicker without a call and its questions for each. */
void ac_conv_store_rows(const ac_run_state *run, const float *c, int64_t apart, int64_t rows,
                        float bias, bool add, const ac_operand *y, int64_t at, int64_t distance,
                        int64_t step, int64_t count) {
#ifdef HAVE_MASKS
  if (y->dtype == AC_F32 && step <= 2) {
    float *to = (float *)y->data + at;
    if (step == 2) store_rows_masked(c, apart, rows, bias, add, to, distance, 2, count);
    else if (add) store_rows_masked(c, apart, rows, bias, true, to, distance, 1, count);
    else store_rows_masked(c, apart, rows, bias, false, to, distance, 1, count);
    return;
  }
  if (y->dtype == AC_BF16 && step <= 2) {
    uint16_t *to = (uint16_t *)y->data + at;
    for (int64_t i = 0; i < rows; i++, c += apart, to += distance) {
      if (step == 1) store_halves_together(c, bias, add, to, count);
      else store_halves_apart(c, bias, add, to, count);
    }
    return;
  }
#endif
  for (int64_t i = 0; i < rows; i++, c += apart, at += distance)
    store_row(run, c, bias, add, y, at, step, count);
}
