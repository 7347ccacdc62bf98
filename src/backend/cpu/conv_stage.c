/* Images laid out so that convolutions run over contiguous floats.
 *
 * A filling of a stage is what some rows of outputs need of some channels of a source, in float and
 * with its padding in place. Output i and tap t of an axis meet at first + i step + t spacing. So
 * where the step is 1, an output's position in its rows, shifted by a distance that is the tap's
 * alone, is where its factor lies. Larger steps are led back to that: the source is dealt out into
 * one plane for each residue modulo the step, in which neighbours are neighbouring outputs'. Only
 * residues that a tap has get a plane. For each channel, then, of a filling:
 *
 *   plane of residue 0 | plane of residue 1 | ...
 *     each: sample 0 | sample 1 | ...
 *       each: row 0 | row 1 | ... | row n - 1 | tail, and each row of `stride` floats:
 *         zeros of the padding, values, zeros
 *
 * Rows share their padding: the zeros that end one begin the next, as they are read past its end.
 * All outputs of a sample are then one run over positions row * stride + column; those beyond the
 * last column are computed for nothing, one in 57 for an image of 56 x 56 with a padding of 1.
 *
 * Bounds: a filling has STAGE_FLOATS, or what one channel needs. Each value of the source is copied
 * once, a few rows at the seams between regions twice, where a matrix of columns (im2col) would
 * hold it once for every tap. */
#include "backend/cpu/conv.h"
#include "backend/cpu/convert.h"

/* 512 KiB beside as much or less for sums and the weights' current block stay in the second-level
 * cache of current cores, 1 to 2 MiB. Tiles read up to SLACK floats behind the last value. */
enum { STAGE_FLOATS = 128 << 10, SLACK = AC_CONV_WIDE, BLOCK = 256 };

static int64_t residue_count(const ac_conv_axis *a) {
  int64_t x = a->step, y = a->spacing;
  while (y) {
    int64_t rest = x % y;
    x = y, y = rest;
  }
  return ac_max(1, ac_min(a->taps, a->step / x));
}

/* The source position of column q of the plane of residue number `index`. */
static int64_t position(const ac_conv_axis *a, int64_t index, int64_t q) {
  return a->first + index * a->spacing % a->step + q * a->step;
}

/* The columns [*begin, *end) of a plane, of `count`, that lie inside the source. */
static void inside(const ac_conv_axis *a, int64_t index, int64_t count, int64_t *begin,
                   int64_t *end) {
  int64_t first = position(a, index, 0);
  *begin = first < 0 ? ac_min(count, ac_ceil_div(-first, a->step)) : 0;
  *end = first < a->size ? ac_min(count, ac_ceil_div(a->size - first, a->step)) : 0;
  if (*end < *begin) *end = *begin;
}

static int64_t row_stride(const ac_conv_axis *a, int64_t residues, int64_t reach) {
  int64_t count = a->outputs + reach, stride = a->outputs;
  for (int64_t index = 0; index < residues; index++) {
    int64_t begin, end;
    inside(a, index, count, &begin, &end);
    stride = ac_max(stride, ac_max(count - begin, end));
  }
  return stride;
}

void ac_conv_stage_plan(ac_conv_stage *s, int64_t samples, int64_t columns) {
  for (int i = 0; i < 2; i++) {
    const ac_conv_axis *a = &s->axis[i];
    s->residues[i] = residue_count(a);
    s->reach[i] = a->taps ? (a->taps - 1) * a->spacing / a->step : 0;
  }
  s->stride = row_stride(&s->axis[1], s->residues[1], s->reach[1]);
  s->rows = ac_max(1, ac_min(s->axis[0].outputs, columns / s->stride));
  s->samples = 1;
  if (s->rows == s->axis[0].outputs)
    s->samples = ac_max(1, ac_min(samples, columns / (s->rows * s->stride)));
  int64_t tail = s->axis[1].outputs + s->reach[1] - s->stride;
  s->sample = (s->rows + s->reach[0]) * s->stride + ac_max(0, tail);
  s->plane = s->samples * s->sample;
  int64_t channel = s->residues[0] * s->residues[1] * s->plane;
  int64_t fillings = ac_ceil_div(s->channels, ac_max(1, STAGE_FLOATS / channel));
  s->held = ac_ceil_div(s->channels, fillings);
  /* Room that does not shrink when there are more samples, though fewer channels may be held. */
  s->floats = ac_max(channel, ac_min(STAGE_FLOATS, s->channels * channel)) + SLACK;
  s->offsets = s->channels * s->axis[0].taps * s->axis[1].taps;
}

void ac_conv_stage_offsets(const ac_conv_stage *s, int32_t *offset) {
  const ac_conv_axis *h = &s->axis[0], *w = &s->axis[1];
  for (int64_t c = 0; c < s->held; c++)
    for (int64_t r = 0; r < h->taps; r++)
      for (int64_t t = 0; t < w->taps; t++) {
        int64_t plane = (c * s->residues[0] + r % s->residues[0]) * s->residues[1];
        plane += t % s->residues[1];
        int64_t row = r * h->spacing / h->step, column = t * w->spacing / w->step;
        *offset++ = (int32_t)(plane * s->plane + row * s->stride + column);
      }
}

/* ---- filling --------------------------------------------------------------------------------- */

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

static void zero(float *y, int64_t count) {
  for (int64_t j = 0; j < count; j++) y[j] = 0;
}

/* The rows of one sample's part of a plane of residues (a, b). `at` is where the channel begins. */
static void fill_plane(const ac_conv_stage *s, const ac_conv_source *source, int64_t at,
                       const ac_conv_region *region, int64_t a, int64_t b, float *y) {
  const ac_conv_axis *h = &s->axis[0], *w = &s->axis[1];
  int64_t rows = region->rows + s->reach[0], count = w->outputs + s->reach[1];
  int64_t begin, end, left = position(w, b, 0);
  inside(w, b, count, &begin, &end);
  bool whole = end - begin == s->stride && w->step == 1 && h->step == 1 && w->size == s->stride;
  for (int64_t q = 0; q < rows; q++, y += s->stride) {
    int64_t row = position(h, a, region->row + q);
    if (row < 0 || row >= h->size) {
      zero(y, s->stride);
      continue;
    }
    if (whole) {
      int64_t run = ac_min(rows - q, h->size - row);
      read_run(source, at + row * w->size, 1, y, run * s->stride);
      q += run - 1, y += (run - 1) * s->stride;
      continue;
    }
    zero(y, begin);
    read_run(source, at + row * w->size + left + begin * w->step, w->step, y + begin, end - begin);
    zero(y + end, s->stride - end);
  }
  zero(y, ac_max(0, count - s->stride));
}

void ac_conv_stage_fill(const ac_conv_stage *s, const ac_conv_source *source,
                        const ac_conv_region *region, float *filling) {
  for (int64_t c = 0; c < region->channels; c++)
    for (int64_t a = 0; a < s->residues[0]; a++)
      for (int64_t b = 0; b < s->residues[1]; b++, filling += s->plane)
        for (int64_t n = 0; n < region->samples; n++) {
          int64_t at =
              (region->sample + n) * source->sample + (region->channel + c) * source->channel;
          fill_plane(s, source, at, region, a, b, filling + n * s->sample);
        }
}

/* ---- results --------------------------------------------------------------------------------- */

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

void ac_conv_store(const ac_run_state *run, const float *c, float bias, bool add, void *data,
                   ac_dtype dtype, int64_t at, int64_t step, int64_t count) {
  if (dtype == AC_F32) {
    store_floats(c, bias, add, (float *)data + at, step, count);
    return;
  }
  uint16_t *y = (uint16_t *)data + at, halves[BLOCK];
  float floats[BLOCK];
  for (int64_t j = 0, n; j < count; j += n) {
    n = ac_min(BLOCK, count - j);
    for (int64_t i = 0; add && i < n; i++) halves[i] = y[(j + i) * step];
    if (add) ac_cpu_widen(dtype, halves, floats, n);
    store_floats(c + j, bias, add, floats, 1, n);
    ac_cpu_narrow(dtype, run->mark_flushed, floats, halves, n);
    for (int64_t i = 0; i < n; i++) y[(j + i) * step] = halves[i];
  }
}
