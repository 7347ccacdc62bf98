/* Rows of images into a stage and rows of sums into images. They are often shorter than a vector,
 * so that a call or a loop for the rest would cost more than the row: where the instruction set has
 * masks, all of a row is whole vectors of which some lanes are left out. Every second element, for
 * strides of 2, is a matter of masks too. */
#include "backend/cpu/conv.h"
#include "backend/cpu/convert.h"

enum { BLOCK = 256 };

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
    n = ac_min(BLOCK, count - j);
    for (int64_t i = 0; i < n; i++) halves[i] = x[(j + i) * step];
    ac_cpu_widen(source->dtype, halves, y + j, n);
  }
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
    n = ac_min(BLOCK, count - j);
    store_floats(c + j, bias, false, floats, 1, n);
    for (int64_t i = 0; add && i < n; i++) halves[i] = y[(j + i) * step];
    if (add) ac_cpu_accumulate(dtype, mark, floats, halves, n);
    else ac_cpu_narrow(dtype, mark, floats, halves, n);
    for (int64_t i = 0; i < n; i++) y[(j + i) * step] = halves[i];
  }
}

/* ---- masks ----------------------------------------------------------------------------------- */

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__BMI2__)
#include <immintrin.h>
#define HAVE_MASKS
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, EVEN = 0x5555 };

/* The first n lanes; and those from `begin` to before `end`. */
static inline __mmask16 lanes(int64_t n) {
  return n >= LANES ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}
static inline __mmask16 between(int64_t begin, int64_t end) {
  return (__mmask16)(lanes(end) & ~(unsigned)lanes(begin));
}

/* The mask of every second lane of two vectors, whose eight others belong to one half of `m`. */
static inline __mmask16 spread(unsigned m) {
  return (__mmask16)_pdep_u32(m & 0xff, EVEN);
}

static inline __m512 read_vector(const ac_conv_source *source, int64_t at, __mmask16 m) {
  if (source->dtype == AC_F32) return _mm512_maskz_loadu_ps(m, (const float *)source->data + at);
  __m256i halves = _mm256_maskz_loadu_epi16(m, (const uint16_t *)source->data + at);
  if (source->dtype == AC_F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

static inline __m512 read_even(const ac_conv_source *source, int64_t at, __mmask16 m) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  __m512 low = read_vector(source, at, spread(m)),
         high = read_vector(source, at + LANES, spread((unsigned)m >> 8));
  return _mm512_permutex2var_ps(low, even, high);
}

/* The next channel's row is asked for ahead: it lies too far away for the hardware to foresee. */
static void read_masked(const ac_conv_source *source, int64_t at, int64_t step, int64_t begin,
                        int64_t end, int64_t stride, float *y) {
  for (int64_t j = 0; j < stride; j += LANES) {
    __mmask16 m = between(begin - j, end - j);
    int64_t from = at + (j - begin) * step;
    __m512 v = step == 1 ? read_vector(source, from, m) : read_even(source, from, m);
    __builtin_prefetch(ac_element(source->data, source->dtype, from + source->channel));
    _mm512_mask_storeu_ps(y + j, lanes(stride - j), v);
  }
}

/* The x of some outputs from column j on and of tap t: the lanes inside of the source, where a
 * position outside is too large as an unsigned number, and the first of them in the first row. */
INLINE __mmask16 taps_inside(const ac_conv_axis *w, int64_t step, int64_t j, int64_t t) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i steps = step == 1 ? lane : _mm512_slli_epi32(lane, 1);
  int64_t column = w->first + j * step + t * w->spacing;
  __m512i position = _mm512_add_epi32(steps, _mm512_set1_epi32((int)column));
  return _mm512_cmplt_epu32_mask(position, _mm512_set1_epi32((int)w->size));
}

/* The next sample's plane is asked for ahead: planes are too short for the hardware to foresee it.
 */
INLINE void fetch_sample(ac_dtype dtype, const ac_conv_rows *f, int64_t i, int64_t j) {
  int64_t at = f->at + i * f->row_step + j * f->axis->step + f->source->sample;
  __builtin_prefetch(ac_element(f->source->data, dtype, at));
}

INLINE __m512 read_tap(ac_dtype dtype, int64_t step, const ac_conv_rows *f, int64_t i, int64_t j,
                       int64_t r, int64_t t, __mmask16 m) {
  const ac_conv_source from = {f->source->data, dtype, 0, 0};
  const ac_conv_axis *w = f->axis;
  int64_t at = f->at + i * f->row_step + r * f->distance + w->first + j * step + t * w->spacing;
  return step == 1 ? read_vector(&from, at, m) : read_even(&from, at, m);
}

/* `dtype`, `step`, and `rows` and `taps` of the kernel are constants where these are inlined for
 * them. */
INLINE void filter(ac_dtype dtype, int64_t step, int64_t rows, int64_t taps, const ac_conv_rows *f,
                   const float *weights, float bias, float *c) {
  for (int64_t i = 0; i < f->count; i++, c += f->columns)
    for (int64_t j = 0; j < f->columns; j += LANES) {
      __m512 sum = _mm512_set1_ps(bias);
      fetch_sample(dtype, f, i, j);
#pragma GCC unroll 3
      for (int64_t t = 0; t < taps; t++) {
        __mmask16 m = taps_inside(f->axis, step, j, t);
        __m512 of_tap = _mm512_setzero_ps();
#pragma GCC unroll 3
        for (int64_t r = 0; r < rows; r++)
          of_tap = _mm512_fmadd_ps(_mm512_set1_ps(weights[r * taps + t]),
                                   read_tap(dtype, step, f, i, j, r, t, m), of_tap);
        sum = _mm512_add_ps(sum, of_tap);
      }
      _mm512_mask_storeu_ps(c + j, lanes(f->columns - j), sum);
    }
}

/* The taps [t, t + taps) of the kernel's rows [r, r + rows): at most 3 of each. */
INLINE void correlate(ac_dtype dtype, int64_t step, int64_t r, int64_t rows, int64_t t,
                      int64_t taps, const ac_conv_rows *f, const ac_operand *y, int64_t at,
                      float *sum, int64_t sum_step) {
  const ac_conv_source from = {y->data, dtype, 0, 0};
  __m512 sums[3][3];
  for (int a = 0; a < rows; a++)
    for (int b = 0; b < taps; b++) sums[a][b] = _mm512_setzero_ps();
  for (int64_t i = 0; i < f->count; i++, at += f->columns)
    for (int64_t j = 0; j < f->columns; j += LANES) {
      __m512 v = read_vector(&from, at + j, lanes(f->columns - j));
#pragma GCC unroll 3
      for (int b = 0; b < taps; b++) {
        __mmask16 m = taps_inside(f->axis, step, j, t + b);
#pragma GCC unroll 3
        for (int a = 0; a < rows; a++)
          sums[a][b] =
              _mm512_fmadd_ps(v, read_tap(dtype, step, f, i, j, r + a, t + b, m), sums[a][b]);
      }
    }
  for (int a = 0; a < rows; a++)
    for (int b = 0; b < taps; b++)
      sum[((r + a) * f->axis->taps + t + b) * sum_step] += _mm512_reduce_add_ps(sums[a][b]);
}

/* Kernels of 3 x 3 whose rows all meet the image are most of what there is. */
INLINE void filter_any(ac_dtype dtype, int64_t step, const ac_conv_rows *f, const float *weights,
                       float bias, float *c) {
  if (f->rows == 3 && f->axis->taps == 3) filter(dtype, step, 3, 3, f, weights, bias, c);
  else filter(dtype, step, f->rows, f->axis->taps, f, weights, bias, c);
}

INLINE void correlate_any(ac_dtype dtype, int64_t step, const ac_conv_rows *f, const ac_operand *y,
                          int64_t at, float *sum, int64_t sum_step) {
  if (f->rows == 3 && f->axis->taps == 3) {
    correlate(dtype, step, 0, 3, 0, 3, f, y, at, sum, sum_step);
    return;
  }
  for (int64_t r = 0; r < f->rows; r++)
    for (int64_t t = 0; t < f->axis->taps; t++)
      correlate(dtype, step, r, 1, t, 1, f, y, at, sum, sum_step);
}

static inline void store_vector(float *y, __mmask16 m, __m512 v, bool add) {
  if (add) v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, y), v);
  _mm512_mask_storeu_ps(y, m, v);
}

static void store_masked(const float *c, float bias, bool add, float *y, int64_t step,
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

bool ac_conv_can_filter(const ac_conv_axis *w) {
#ifdef HAVE_MASKS
  int64_t last = w->outputs * w->step + w->taps * w->spacing;
  return w->step <= 2 && w->size < INT32_MAX / 2 && w->first > INT32_MIN / 2 &&
         last < INT32_MAX / 2;
#else
  (void)w;
  return false;
#endif
}

ac_conv_rows ac_conv_rows_from(const ac_conv_axis *axes, const ac_conv_source *source,
                               int64_t image, int64_t row, int64_t last) {
  const ac_conv_axis *v = &axes[0], *w = &axes[1];
  int64_t top = v->first + row * v->step, bottom = top + (v->taps - 1) * v->spacing;
  int64_t first = top < 0 ? ac_min(v->taps, ac_ceil_div(-top, v->spacing)) : 0;
  int64_t end = top < v->size ? ac_min(v->taps, ac_ceil_div(v->size - top, v->spacing)) : 0;
  int64_t count = 1;
  if (v->taps == 0) count = last - row;
  else if (first == 0 && end == v->taps)
    count = ac_min(last - row, (v->size - 1 - bottom) / v->step + 1);
  return (ac_conv_rows){.source = source,
                        .axis = w,
                        .at = image + (top + first * v->spacing) * w->size,
                        .count = count,
                        .columns = w->outputs,
                        .row_step = v->step * w->size,
                        .distance = v->spacing * w->size,
                        .first = first,
                        .rows = ac_max(0, end - first)};
}

/* Calls it with the storage and the step as constants. */
#define FOR_EACH_KIND(call)                                                         \
  bool plain = rows->source->dtype == AC_F32, half = rows->source->dtype == AC_F16; \
  bool single = rows->axis->step == 1;                                              \
  if (plain && single) call(AC_F32, 1);                                             \
  else if (plain) call(AC_F32, 2);                                                  \
  else if (half && single) call(AC_F16, 1);                                         \
  else if (half) call(AC_F16, 2);                                                   \
  else if (single) call(AC_BF16, 1);                                                \
  else call(AC_BF16, 2);

void ac_conv_filter(const ac_conv_rows *rows, const float *weights, float bias, float *c) {
#ifdef HAVE_MASKS
#define FILTER(dtype, step) filter_any(dtype, step, rows, weights, bias, c)
  FOR_EACH_KIND(FILTER)
#else
  (void)rows, (void)weights, (void)bias, (void)c;
#endif
}

void ac_conv_correlate(const ac_conv_rows *rows, const ac_operand *y, int64_t at, float *sum,
                       int64_t step) {
#ifdef HAVE_MASKS
#define CORRELATE(dtype, step_) correlate_any(dtype, step_, rows, y, at, sum, step)
  FOR_EACH_KIND(CORRELATE)
#else
  (void)rows, (void)y, (void)at, (void)sum, (void)step;
#endif
}

void ac_conv_store_row(const ac_run_state *run, const float *c, float bias, bool add,
                       const ac_operand *y, int64_t at, int64_t step, int64_t count) {
  if (y->dtype != AC_F32) {
    store_halves(y->dtype, run->mark_flushed, c, bias, add, (uint16_t *)y->data + at, step, count);
    return;
  }
  float *to = (float *)y->data + at;
#ifdef HAVE_MASKS
  if (step <= 2) {
    store_masked(c, bias, add, to, step, count);
    return;
  }
#endif
  store_floats(c, bias, add, to, step, count);
}
