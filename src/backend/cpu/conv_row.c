/* Rows of images into a patch and rows of sums into images. They are often shorter than a vector,
 * so that a call or a loop for the rest would cost more than the row: where the instruction set has
 * masks, all of a row is whole vectors of which some lanes are left out. Every second element, for
 * strides of 2, is a matter of masks too. */
#include "backend/cpu/conv.h"
#include "backend/cpu/convert.h"

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
    n = ac_min(BLOCK, count - j);
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
    for (int64_t k = 0; k < step; k++)
      __builtin_prefetch(
          ac_element(source->data, source->dtype, from + source->channel + k * LANES));
    _mm512_mask_storeu_ps(y + j, lanes(stride - j), v);
  }
}

static void read_windows_masked(const ac_conv_source *source, int64_t at, int64_t begin,
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

/* Pairs [j, to) of a row whose elements begin and end there; 0 outside. */
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

/* The x of some outputs from column j on and of tap t: the lanes inside of the source, where a
 * position outside is too large as an unsigned number, and the first of them in the first row. */
INLINE __mmask16 taps_inside(const ac_conv_axis *w, int64_t step, int64_t j, int64_t t) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i steps = step == 1 ? lane : _mm512_slli_epi32(lane, 1);
  int64_t column = w->first + j * step + t * w->spacing;
  __m512i position = _mm512_add_epi32(steps, _mm512_set1_epi32((int)column));
  return _mm512_cmplt_epu32_mask(position, _mm512_set1_epi32((int)w->size));
}

/* The vector at element `at` of a row, and the next ones or every second one. A load with a mask
 * takes the units that multiply as well: one without is for `whole` vectors. */
INLINE __m512 read_tap(ac_dtype dtype, int64_t step, const void *row, int64_t at, bool whole,
                       __mmask16 m) {
  const ac_conv_source from = {row, dtype, 0, 0};
  if (whole && dtype == AC_F32) return _mm512_loadu_ps(ac_element(row, dtype, at));
  return step == 1 ? read_vector(&from, at, m) : read_even(&from, at, m);
}

/* Lets the compiler keep a vector in a register rather than load it again for each use; and an
 * address, so that a few and their distance reach all rows, rather than one for each row. */
INLINE __m512 kept(__m512 v) {
  __asm__("" : "+v"(v));
  return v;
}
INLINE uintptr_t kept_address(uintptr_t at) {
  __asm__("" : "+r"(at));
  return at;
}

/* Up to six rows of vectors so many bytes apart. */
typedef struct row_addresses {
  uintptr_t first, fourth, distance;
} row_addresses;

INLINE row_addresses rows_from(const void *first, int64_t distance, int64_t bytes) {
  uintptr_t at = kept_address((uintptr_t)first), d = (uintptr_t)(distance * bytes);
  return (row_addresses){at, kept_address(at + 3 * d), d};
}
INLINE void *row_at(const row_addresses *rows, int64_t q) {
  return (void *)(q < 3 ? rows->first + (uintptr_t)q * rows->distance
                        : rows->fourth + (uintptr_t)(q - 3) * rows->distance);
}

/* Whether there are 16 outputs from column j on that all meet the source with every tap. */
static inline bool is_whole(const ac_conv_rows *f, int64_t step, int64_t j) {
  const ac_conv_axis *w = f->axis;
  int64_t from = w->first + j;
  return step == 1 && j + LANES <= f->columns && from >= 0 &&
         from + LANES - 1 + (w->taps - 1) * w->spacing < w->size;
}

/* Some outputs at once: HEIGHT rows of them one below the other, whose rows of the source overlap,
 * so that a vector of the source is loaded once for all of them. */
enum { HEIGHT = 4 };

/* Weights, or sums, of a kernel of at most 3 x 3, in registers. */
typedef struct kernel {
  __m512 of[3][3];
} kernel;

/* Asks for the same rows `next` bytes later: images are too short for the hardware to foresee the
 * next one, and a store waits for the line that it changes as a load does. */
INLINE void fetch_rows(const row_addresses *rows, int64_t height, int64_t next) {
#pragma GCC unroll 4
  for (int64_t h = 0; h < height; h++)
    __builtin_prefetch((const void *)((uintptr_t)row_at(rows, h) + (uintptr_t)next));
}

/* Columns [j, j + 16) of `height` rows of outputs, one below the other; `whole` if no lane is
 * outside of the source. Here and below `dtype`, `step`, `height`, and `rows` and `taps` of the
 * kernel are constants where it is inlined for them. */
INLINE void filter_block(ac_dtype dtype, int64_t step, int64_t height, int64_t rows, int64_t taps,
                         bool whole, const ac_conv_rows *f, const kernel *k, __m512 bias,
                         const void *x, int64_t j, float *y) {
  int64_t bytes = (int64_t)ac_element_bytes(dtype), spacing = f->axis->spacing;
  const void *block = ac_element(x, dtype, j * step);
  row_addresses from = rows_from(block, f->distance, bytes);
  row_addresses to = rows_from(y + j, f->columns, sizeof *y);
  __m512 sum[HEIGHT];
  __mmask16 inside[3];
  fetch_rows(&from, height, f->next_x * bytes);
  fetch_rows(&to, height, f->next_y * (int64_t)sizeof *y);
#pragma GCC unroll 4
  for (int64_t t = 0; t < taps; t++) inside[t] = whole ? 0xffff : taps_inside(f->axis, step, j, t);
#pragma GCC unroll 4
  for (int64_t h = 0; h < height; h++) sum[h] = bias;
#pragma GCC unroll 8
  for (int64_t q = 0; q < height + rows - 1; q++)
#pragma GCC unroll 4
    for (int64_t t = 0; t < taps; t++) {
      __m512 v = kept(read_tap(dtype, step, row_at(&from, q), t * spacing, whole, inside[t]));
#pragma GCC unroll 4
      for (int64_t r = 0; r < rows; r++)
        if (q >= r && q - r < height) sum[q - r] = _mm512_fmadd_ps(k->of[r][t], v, sum[q - r]);
    }
#pragma GCC unroll 4
  for (int64_t h = 0; h < height; h++)
    _mm512_mask_storeu_ps(row_at(&to, h), whole ? 0xffff : lanes(f->columns - j), sum[h]);
}

/* The last vector of a row begins earlier rather than to be cut, where there is a whole one. */
INLINE void filter_rows(ac_dtype dtype, int64_t step, int64_t height, int64_t rows, int64_t taps,
                        const ac_conv_rows *f, const kernel *k, __m512 bias, int64_t i, float *y) {
  const void *x = ac_element(f->source->data, dtype, f->at + i * f->row_step + f->axis->first);
  int64_t last = f->columns > LANES ? f->columns - LANES : 0;
  for (int64_t j = 0;; j = ac_min(j + LANES, last)) {
    if (is_whole(f, step, j))
      filter_block(dtype, step, height, rows, taps, true, f, k, bias, x, j, y);
    else filter_block(dtype, step, height, rows, taps, false, f, k, bias, x, j, y);
    if (j == last) return;
  }
}

INLINE void filter_small(ac_dtype dtype, int64_t step, int64_t rows, int64_t taps,
                         const ac_conv_rows *f, const float *w, float bias, float *c) {
  const ac_conv_rows own = *f; /* which no store changes */
  __m512 b = _mm512_set1_ps(bias);
  kernel k;
  int64_t i = 0;
#pragma GCC unroll 4
  for (int64_t r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int64_t t = 0; t < taps; t++) k.of[r][t] = _mm512_set1_ps(w[r * taps + t]);
  if (rows == 3 && own.row_step == own.distance)
    for (; i + HEIGHT <= own.count; i += HEIGHT)
      filter_rows(dtype, step, HEIGHT, rows, taps, &own, &k, b, i, c + i * own.columns);
  for (; i < own.count; i++)
    filter_rows(dtype, step, 1, rows, taps, &own, &k, b, i, c + i * own.columns);
}

/* Kernels of any size. */
static void filter(ac_dtype dtype, int64_t step, const ac_conv_rows *f, const float *w, float bias,
                   float *c) {
  const ac_conv_axis *axis = f->axis;
  for (int64_t i = 0; i < f->count; i++, c += f->columns)
    for (int64_t j = 0; j < f->columns; j += LANES) {
      int64_t at = f->at + i * f->row_step + axis->first + j * step;
      __m512 sum = _mm512_set1_ps(bias);
      for (int64_t t = 0; t < axis->taps; t++) {
        __mmask16 m = taps_inside(axis, step, j, t);
        for (int64_t r = 0; r < f->rows; r++) {
          int64_t tap = at + r * f->distance + t * axis->spacing;
          sum = _mm512_fmadd_ps(_mm512_set1_ps(w[r * axis->taps + t]),
                                read_tap(dtype, step, f->source->data, tap, false, m), sum);
        }
      }
      _mm512_mask_storeu_ps(c + j, lanes(f->columns - j), sum);
    }
}

/* The same columns times as many rows of y, of which `m` counts: what that adds to the sums of the
 * taps [t, t + taps) of the kernel's rows [r, r + rows). */
INLINE void correlate_block(ac_dtype dtype, int64_t step, int64_t height, int64_t rows, int64_t t,
                            int64_t taps, bool whole, const ac_conv_rows *f, const void *x,
                            const void *y, __mmask16 m, int64_t j, kernel *sums) {
  int64_t bytes = (int64_t)ac_element_bytes(dtype), spacing = f->axis->spacing;
  const void *block = ac_element(x, dtype, j * step), *other = ac_element(y, dtype, j);
  row_addresses from = rows_from(block, f->distance, bytes);
  row_addresses of = rows_from(other, f->columns, bytes);
  __m512 v[HEIGHT];
  __mmask16 inside[3];
  fetch_rows(&from, height, f->next_x * bytes);
  fetch_rows(&of, height, f->next_y * bytes);
#pragma GCC unroll 4
  for (int64_t b = 0; b < taps; b++)
    inside[b] = whole ? 0xffff : (__mmask16)(m & taps_inside(f->axis, step, j, t + b));
#pragma GCC unroll 4
  for (int64_t h = 0; h < height; h++) v[h] = read_tap(dtype, 1, row_at(&of, h), 0, false, m);
#pragma GCC unroll 8
  for (int64_t q = 0; q < height + rows - 1; q++)
#pragma GCC unroll 4
    for (int64_t b = 0; b < taps; b++) {
      __m512 u = kept(read_tap(dtype, step, row_at(&from, q), b * spacing, whole, inside[b]));
#pragma GCC unroll 4
      for (int64_t a = 0; a < rows; a++)
        if (q >= a && q - a < height) sums->of[a][b] = _mm512_fmadd_ps(v[q - a], u, sums->of[a][b]);
    }
}

INLINE void correlate_rows(ac_dtype dtype, int64_t step, int64_t height, int64_t r, int64_t rows,
                           int64_t t, int64_t taps, const ac_conv_rows *f, const ac_operand *y,
                           int64_t at, int64_t i, kernel *sums) {
  const void *x =
      ac_element(f->source->data, dtype,
                 f->at + i * f->row_step + r * f->distance + f->axis->first + t * f->axis->spacing);
  const void *v = ac_element(y->data, dtype, at + i * f->columns);
  for (int64_t j = 0; j < f->columns; j += LANES) {
    __mmask16 m = lanes(f->columns - j);
    if (is_whole(f, step, j))
      correlate_block(dtype, step, height, rows, t, taps, true, f, x, v, m, j, sums);
    else correlate_block(dtype, step, height, rows, t, taps, false, f, x, v, m, j, sums);
  }
}

/* The taps [t, t + taps) of the kernel's rows [r, r + rows): at most 3 of each. */
INLINE void correlate(ac_dtype dtype, int64_t step, int64_t r, int64_t rows, int64_t t,
                      int64_t taps, const ac_conv_rows *f, const ac_operand *y, int64_t at,
                      float *sum, int64_t sum_step) {
  kernel sums;
  int64_t i = 0;
#pragma GCC unroll 4
  for (int64_t a = 0; a < rows; a++)
#pragma GCC unroll 4
    for (int64_t b = 0; b < taps; b++) sums.of[a][b] = _mm512_setzero_ps();
  if (rows != 2 && f->row_step == f->distance)
    for (; i + HEIGHT <= f->count; i += HEIGHT)
      correlate_rows(dtype, step, HEIGHT, r, rows, t, taps, f, y, at, i, &sums);
  for (; i < f->count; i++) correlate_rows(dtype, step, 1, r, rows, t, taps, f, y, at, i, &sums);
  for (int64_t a = 0; a < rows; a++)
    for (int64_t b = 0; b < taps; b++)
      sum[((r + a) * f->axis->taps + t + b) * sum_step] += _mm512_reduce_add_ps(sums.of[a][b]);
}

/* Whether so many rows of a kernel three wide meet the image: at its edge, one row of outputs high,
 * two of three do. Kernels of 3 x 3 are most of what there is. */
static inline bool is_small(const ac_conv_rows *f, int64_t rows) {
  return f->rows == rows && f->axis->taps == 3;
}

INLINE void filter_any(ac_dtype dtype, int64_t step, const ac_conv_rows *f, const float *w,
                       float bias, float *c) {
  if (is_small(f, 3)) filter_small(dtype, step, 3, 3, f, w, bias, c);
  else if (is_small(f, 2)) filter_small(dtype, step, 2, 3, f, w, bias, c);
  else filter(dtype, step, f, w, bias, c);
}

INLINE void correlate_any(ac_dtype dtype, int64_t step, const ac_conv_rows *f, const ac_operand *y,
                          int64_t at, float *sum, int64_t sum_step) {
  if (is_small(f, 3)) {
    correlate(dtype, step, 0, 3, 0, 3, f, y, at, sum, sum_step);
    return;
  }
  if (is_small(f, 2)) {
    correlate(dtype, step, 0, 2, 0, 3, f, y, at, sum, sum_step);
    return;
  }
  for (int64_t r = 0; r < f->rows; r++) {
    int64_t t = 0;
    for (; t + 3 <= f->axis->taps; t += 3)
      correlate(dtype, step, r, 1, t, 3, f, y, at, sum, sum_step);
    for (; t < f->axis->taps; t++) correlate(dtype, step, r, 1, t, 1, f, y, at, sum, sum_step);
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

void ac_conv_read_windows(const ac_conv_source *source, int64_t at, int64_t begin, int64_t end,
                          int64_t count, int64_t distance, float *y) {
#ifdef HAVE_MASKS
  read_windows_masked(source, at, begin, end, count, distance, y);
#else
  for (int64_t t = 0; t < 4; t++, y += distance) {
    int64_t first = ac_min(count, begin > t ? (begin - t + 1) / 2 : 0);
    int64_t last = ac_max(first, ac_min(count, end > t ? (end - t + 1) / 2 : 0));
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
    memset(y, 0, (size_t)ac_min(begin, stride) * sizeof *y);
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
  int64_t first, end, count = 1;
  ac_conv_taps_met(v, top, &first, &end);
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
