/* Rows of outputs of one channel, from an image as it lies: what depthwise convolutions and images
 * of one channel do without a patch, where the instruction set has masks. */
#include "backend/cpu/convolution/conv_masks.h"

#ifdef HAVE_MASKS

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

/* Some outputs at once: HEIGHT rows of them one below the other. Their rows of the source overlap,
 * so a vector of the source is loaded once for all of them. */
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
  for (int64_t j = 0;; j = ac_smaller(j + LANES, last)) {
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

/* Multiplies the same columns with as many rows of y, masked by `m`, and adds the products to the
 * sums of the taps [t, t + taps) of the kernel's rows [r, r + rows). */
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

#endif

/* ---- rows ------------------------------------------------------------------------------------ */

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
    count = ac_smaller(last - row, (v->size - 1 - bottom) / v->step + 1);
  return (ac_conv_rows){.source = source,
                        .axis = w,
                        .at = image + (top + first * v->spacing) * w->size,
                        .count = count,
                        .columns = w->outputs,
                        .row_step = v->step * w->size,
                        .distance = v->spacing * w->size,
                        .first = first,
                        .rows = ac_larger(0, end - first)};
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
