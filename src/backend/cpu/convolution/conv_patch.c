/* Images laid out so that convolutions run over contiguous floats.
 *
 * A filling of a patch is what some rows of outputs need of some channels of a source, in float and
 * with its padding in place. Output i and tap t of an axis meet at first + i step + t spacing. So
 * if the step is 1, the factor of an output lies at the output's position in its rows, shifted by a
 * distance that depends only on the tap. Larger steps are reduced to that: the source is split into
 * one plane for each residue modulo the step, and neighbours in a plane belong to neighbouring
 * outputs. Only residues that a tap has get a plane. So a filling has for each channel:
 *
 *   plane of residue 0 | plane of residue 1 | ...
 *     each: sample 0 | sample 1 | ...
 *       each: row 0 | row 1 | ... | row n - 1 | tail, and each row of `stride` floats:
 *         zeros of the padding, values, zeros
 *
 * Rows share their padding: a row is read past its end, so the zeros that end one row begin the
 * next. All outputs of a sample are then one run over positions row * stride + column. Those beyond
 * the last column are computed without use: one in 57 for an image of 56 x 56 with a padding of 1.
 *
 * Each value of the source is copied once, or twice in a few rows between regions. A matrix of
 * columns (im2col) would hold it once for every tap.
 *
 * But small images have many positions that are not outputs: with a padding of 1 an image of 4 x 4
 * has 19 positions in its run, or two vectors. If products with these would take longer than
 * copying every value for every tap, the patch is spread out: then it holds the matrix of columns,
 * one row for each channel and tap, and the outputs of all samples of a region follow each other
 * without a gap. It is made channel by channel from the planes above.
 *
 * For products of bf16 by the CPU's own instructions an element is a pair of channels instead of a
 * float (product/dot.h). A step of these is one tap of 16 pairs, with planes that lie equally far
 * apart. If channels would leave most of a step empty, the patch is spread out, and a step is 16
 * rows of it. In that case the last channel of an odd number has its taps paired with each other.
 * Missing elements of a step are zeros.
 *
 * For gradients of weights by these instructions an element is one bf16, as it is stored. They
 * multiply pairs along the outputs, at any address, so there is nothing to copy for a tap. Pairs
 * begin at even columns, unless all outputs of a sample are one row. If their number is odd, the
 * second of the last pair lies beyond the outputs, but still in memory that is filled, and it is
 * not used.
 *
 * Bounds: a filling has PATCH_FLOATS elements of 32 bits, or what one channel or one step of pairs
 * needs, and if spread out also one line's planes. */
#include "backend/cpu/convolution/conv.h"
#include "backend/cpu/product/dot.h"

#include <string.h>

/* 512 KiB, and at most as much for sums and the weights' current block, stay in the second-level
 * cache of current cores, which has 1 to 2 MiB. Tiles read up to SLACK floats past the last
 * value. */
enum { PATCH_FLOATS = 128 << 10, SLACK = AC_CPU_TILE_WIDE };

/* Outputs of a region of small images: enough for whole tiles, and few enough for many channels in
 * a patch. If there are few channels in pairs, there may be as many outputs as fit in a quarter of
 * a patch: then each channel's outputs are written in longer runs, which is faster. */
enum { SPREAD_COLUMNS = 256, SPREAD_PAIRS = 128, MOST_SPREAD_PAIRS = 1024 };

static int64_t residue_count(const ac_conv_axis *a) {
  return ac_larger(1, ac_smaller(a->taps, ac_conv_recurrence(a->step, a->spacing)));
}

/* The source position of column q of the plane of residue number `index`. */
static int64_t position(const ac_conv_axis *a, int64_t index, int64_t q) {
  return a->first + index * a->spacing % a->step + q * a->step;
}

/* The columns [*begin, *end) of a plane, of `count`, that lie inside the source. */
static void inside(const ac_conv_axis *a, int64_t index, int64_t count, int64_t *begin,
                   int64_t *end) {
  int64_t first = position(a, index, 0);
  *begin = first < 0 ? ac_smaller(count, ac_ceil_div(-first, a->step)) : 0;
  *end = first < a->size ? ac_smaller(count, ac_ceil_div(a->size - first, a->step)) : 0;
  if (*end < *begin) *end = *begin;
}

static int64_t row_stride(const ac_conv_axis *a, int64_t residues, int64_t reach) {
  int64_t count = a->outputs + reach, stride = a->outputs;
  for (int64_t index = 0; index < residues; index++) {
    int64_t begin, end;
    inside(a, index, count, &begin, &end);
    stride = ac_larger(stride, ac_larger(count - begin, end));
  }
  return stride;
}

static int64_t element_bytes(const ac_conv_patch *s) {
  return s->halves ? sizeof(uint16_t) : sizeof(float);
}

/* Lines that a patch has for so many channels, and up to a whole step. */
static int64_t lines_of(const ac_conv_patch *s, int64_t channels) {
  return s->pairs ? ac_ceil_div(channels, 2) : channels;
}
static int64_t whole_steps(int64_t lines) {
  return ac_ceil_div(lines, AC_DOT_PAIRS) * AC_DOT_PAIRS;
}

/* Rows of a patch of pairs that is spread out. */
static int64_t spread_rows(const ac_conv_patch *s, int64_t channels) {
  int64_t taps = s->axis[0].taps * s->axis[1].taps;
  return channels / 2 * taps + channels % 2 * ac_ceil_div(taps, 2);
}

/* Measured: to copy a value takes as long as COPY products. */
static bool should_spread(const ac_conv_patch *s, int64_t uses) {
  enum { COPY = 48 };
  int64_t outputs = s->axis[1].outputs, rows = s->axis[0].outputs;
  if (s->rows < rows || s->axis[0].taps * s->axis[1].taps < 2) return false;
  int64_t run = (rows - 1) * s->stride + outputs;
  int64_t idle = ac_ceil_div(run, AC_CPU_VECTOR) * AC_CPU_VECTOR - rows * outputs;
  return idle * uses > COPY * rows * outputs;
}

/* The same for pairs, which are also multiplied for nothing where they do not fill a step. This
 * must not depend on the instruction set, for the order of sums does on what it chooses. */
static bool should_spread_pairs(const ac_conv_patch *s, int64_t uses) {
  enum { COPY = 8, LANES = 16 };
  int64_t outputs = s->rows * s->axis[1].outputs, lines = lines_of(s, s->channels);
  int64_t taps = s->axis[0].taps * s->axis[1].taps, run = outputs;
  if (taps > 1) run = (s->rows - 1) * s->stride + s->axis[1].outputs;
  run = ac_ceil_div(run, LANES) * LANES;
  int64_t copied = spread_rows(s, s->channels);
  return run * whole_steps(lines) * taps * uses >
         outputs * (whole_steps(copied) * uses + COPY * copied);
}

/* Floats of a filling that holds so many lines. A patch of pairs that is spread out ends with the
 * last whole step, which is far less than 16 lines where there are few channels. */
static int64_t filled(const ac_conv_patch *s, int64_t lines) {
  int64_t rows = whole_steps(spread_rows(s, s->channels));
  return s->pairs && s->spread ? ac_smaller(lines * s->line, rows * s->wide) : lines * s->line;
}

/* Fillings begin with whole steps: bits do not depend on how many there are. */
static void plan_fillings(ac_conv_patch *s, int64_t planes, int64_t taps) {
  int64_t lines = lines_of(s, s->channels), line = s->spread ? taps * s->wide : planes;
  int64_t unit = s->pairs ? AC_DOT_PAIRS : 1, units = ac_ceil_div(lines, unit);
  int64_t most = PATCH_FLOATS * (int64_t)sizeof(float) / element_bytes(s);
  int64_t fillings = ac_ceil_div(units, ac_larger(1, most / (unit * line)));
  s->line = line;
  s->held = ac_ceil_div(units, fillings) * unit * (s->pairs ? 2 : 1);
  /* Room that does not shrink when there are more samples, though fewer channels may be held. */
  s->floats = ac_larger(filled(s, unit), ac_smaller(most, filled(s, units * unit))) + SLACK;
  if (s->spread) s->floats += planes;
  if (s->halves) s->floats = ac_ceil_div(s->floats, 2);
  s->offsets = s->pairs ? ac_conv_patch_steps(s, s->channels) : s->channels * taps;
}

int64_t ac_conv_patch_steps(const ac_conv_patch *s, int64_t channels) {
  int64_t taps = s->axis[0].taps * s->axis[1].taps, lines = lines_of(s, channels);
  if (s->spread) return whole_steps(spread_rows(s, channels)) / AC_DOT_PAIRS;
  return whole_steps(lines) * taps / AC_DOT_PAIRS;
}

int ac_conv_patch_last(const ac_conv_patch *s, int64_t channels) {
  return s->spread ? (int)(spread_rows(s, channels) % AC_DOT_PAIRS) : 0;
}

ac_conv_place ac_conv_patch_place_of(const ac_conv_patch *s, int64_t channel, int64_t tap) {
  int64_t taps = s->axis[0].taps * s->axis[1].taps, line = channel / 2, half = channel % 2;
  if (!s->spread)
    return (ac_conv_place){(line / AC_DOT_PAIRS * taps + tap) * AC_DOT_PAIRS + line % AC_DOT_PAIRS,
                           half};
  if (half == 0 && channel + 1 == s->channels)
    return (ac_conv_place){line * taps + tap / 2, tap % 2};
  return (ac_conv_place){line * taps + tap, half};
}

/* Few enough to hold all channels, so that no filling is made again for other rows of weights, and
 * nothing is packed again that they are multiplied with. */
static int64_t samples_held(const ac_conv_patch *s) {
  int64_t sample = s->residues[0] * s->residues[1] * s->sample;
  if (s->halves) return ac_larger(1, (2 * PATCH_FLOATS / s->channels - 2) / sample);
  return ac_larger(1, PATCH_FLOATS / (whole_steps(lines_of(s, s->channels)) * (sample + 32)));
}

/* Columns of a row of outputs for pairs along them: even, unless rows and samples follow each other
 * without a gap. */
static int64_t paired_pitch(const ac_conv_patch *s) {
  const ac_conv_axis *w = &s->axis[1];
  bool dense = s->stride == w->outputs && s->reach[0] == 0 && s->reach[1] == 0;
  return dense ? w->outputs : ac_ceil_div(w->outputs, 2) * 2;
}

/* An odd number of cache lines, so that rows so far apart lie in different sets of a cache. */
static int64_t odd_lines(int64_t count) {
  return ac_ceil_div(count, 32) * 32 + 16;
}

static int64_t spread_pairs(const ac_conv_patch *s) {
  int64_t room = PATCH_FLOATS / 4 / ac_larger(1, whole_steps(spread_rows(s, s->channels)));
  return ac_larger(SPREAD_PAIRS, ac_smaller(MOST_SPREAD_PAIRS, room));
}

void ac_conv_patch_plan(ac_conv_patch *s, int64_t samples, int64_t columns, int64_t uses) {
  for (int i = 0; i < 2; i++) {
    const ac_conv_axis *a = &s->axis[i];
    s->residues[i] = residue_count(a);
    s->reach[i] = a->taps ? (a->taps - 1) * a->spacing / a->step : 0;
  }
  s->stride = row_stride(&s->axis[1], s->residues[1], s->reach[1]);
  s->rows = ac_larger(1, ac_smaller(s->axis[0].outputs, columns / s->stride));
  if (!s->halves) s->spread = s->pairs ? should_spread_pairs(s, uses) : should_spread(s, uses);
  s->pitch = s->halves ? paired_pitch(s) : s->spread ? s->axis[1].outputs : s->stride;
  if (s->spread) columns = ac_smaller(columns, s->pairs ? spread_pairs(s) : SPREAD_COLUMNS);
  if (s->pairs) s->rows = ac_larger(1, ac_smaller(s->rows, columns / s->pitch));
  if (s->halves) s->rows = ac_larger(1, ac_smaller(s->axis[0].outputs, columns / s->pitch));
  s->samples = 1;
  if (s->rows == s->axis[0].outputs)
    s->samples = ac_larger(1, ac_smaller(samples, columns / (s->rows * s->pitch)));
  int64_t tail = s->axis[1].outputs + s->reach[1] - s->stride;
  s->sample = (s->rows + s->reach[0]) * s->stride + ac_larger(0, tail);
  if ((s->pairs && !s->spread) || s->halves) s->samples = ac_smaller(s->samples, samples_held(s));
  s->plane = s->samples * s->sample;
  int64_t planes = s->residues[0] * s->residues[1] * s->plane;
  int64_t taps = s->axis[0].taps * s->axis[1].taps;
  s->wide = ac_conv_lines(s->samples * s->rows * s->pitch);
  if (s->pairs) s->wide = odd_lines(s->wide), planes = odd_lines(planes);
  if (s->halves) planes = (planes / 2 + 1) * 2;
  plan_fillings(s, planes, taps);
}

/* Where the values that meet a tap at output position 0 lie in the planes of a channel. */
static int64_t offset_of(const ac_conv_patch *s, int64_t r, int64_t t) {
  const ac_conv_axis *h = &s->axis[0], *w = &s->axis[1];
  int64_t plane = r % s->residues[0] * s->residues[1] + t % s->residues[1];
  int64_t row = r * h->spacing / h->step, column = t * w->spacing / w->step;
  return plane * s->plane + row * s->stride + column;
}

static void step_offsets(const ac_conv_patch *s, int32_t *offset) {
  int64_t columns = s->axis[1].taps, taps = s->axis[0].taps * columns;
  int64_t steps = ac_conv_patch_steps(s, ac_smaller(s->held, s->channels));
  for (int64_t i = 0; i < steps; i++) {
    int64_t lines = i / taps * AC_DOT_PAIRS * s->line, tap = i % taps;
    if (s->spread) offset[i] = (int32_t)(i * AC_DOT_PAIRS * s->wide);
    else offset[i] = (int32_t)(lines + offset_of(s, tap / columns, tap % columns));
  }
}

void ac_conv_patch_offsets(const ac_conv_patch *s, int32_t *offset) {
  if (s->pairs) {
    step_offsets(s, offset);
    return;
  }
  int64_t rows = s->axis[0].taps, columns = s->axis[1].taps, taps = rows * columns;
  for (int64_t c = 0; c < s->held; c++)
    for (int64_t k = 0; k < taps; k++) {
      int64_t in_planes = c * s->line + offset_of(s, k / columns, k % columns);
      *offset++ = (int32_t)(s->spread ? (c * taps + k) * s->wide : in_planes);
    }
}

int64_t ac_conv_patch_pairs(const ac_conv_patch *s, const ac_conv_region *region) {
  return ac_ceil_div(region->samples * region->rows * s->pitch, 2);
}

void ac_conv_patch_places(const ac_conv_patch *s, const ac_conv_region *region, int32_t *place) {
  int64_t pairs = ac_conv_patch_pairs(s, region), column = 0, row = 0, sample = 0;
  for (int64_t i = 0; i < pairs; i++) {
    place[i] = (int32_t)(sample * s->sample + row * s->stride + column);
    column += 2;
    if (column >= s->pitch) column -= s->pitch, row++;
    if (row >= region->rows) row -= region->rows, sample++;
  }
}

/* ---- filling --------------------------------------------------------------------------------- */

/* The columns of a plane that lie inside the source, and where the first of them does. */
typedef struct columns {
  int64_t begin, end, first;
} columns;

static columns columns_of(const ac_conv_patch *s, int64_t b) {
  const ac_conv_axis *w = &s->axis[1];
  columns c;
  inside(w, b, w->outputs + s->reach[1], &c.begin, &c.end);
  c.first = position(w, b, c.begin);
  return c;
}

/* Rows of a plane of halves from one at position `row` of the source on: as many as are all inside
 * of it or all outside. Returns how many. */
static int64_t fill_halves(const ac_conv_patch *s, const ac_conv_source *source, int64_t at,
                           int64_t row, int64_t rows, const columns *c, uint16_t *y) {
  const ac_conv_axis *h = &s->axis[0], *w = &s->axis[1];
  if (row < 0) rows = ac_smaller(rows, ac_ceil_div(-row, h->step));
  else if (row < h->size) rows = ac_smaller(rows, ac_ceil_div(h->size - row, h->step));
  if (row < 0 || row >= h->size) memset(y, 0, (size_t)(rows * s->stride) * sizeof *y);
  else
    ac_conv_read_halves(source, at + row * w->size + c->first, w->step, c->begin, c->end, rows,
                        h->step * w->size, s->stride, y);
  return rows;
}

/* The rows of one sample's part of a plane of residue a. `at` is where the channel begins. Of
 * halves one more is cleared, which the last pair may have; what is filled next may overwrite it.
 */
static void fill_plane_of_halves(const ac_conv_patch *s, const ac_conv_source *source, int64_t at,
                                 const ac_conv_region *region, int64_t a, const columns *c,
                                 uint16_t *y) {
  const ac_conv_axis *h = &s->axis[0], *w = &s->axis[1];
  int64_t rows = region->rows + s->reach[0], row = position(h, a, region->row);
  for (int64_t q = 0, run; q < rows; q += run, row += run * h->step, y += run * s->stride)
    run = fill_halves(s, source, at, row, rows - q, c, y);
  int64_t tail = ac_larger(0, w->outputs + s->reach[1] - s->stride) + 1;
  for (int64_t j = 0; j < tail; j++) y[j] = 0;
}

/* The same of floats or pairs. */
static void fill_plane(const ac_conv_patch *s, const ac_conv_source *source, int64_t at,
                       bool second, const ac_conv_region *region, int64_t a, const columns *c,
                       float *y) {
  const ac_conv_axis *h = &s->axis[0], *w = &s->axis[1];
  int64_t rows = region->rows + s->reach[0], row = position(h, a, region->row);
  bool dense = c->end - c->begin == w->size && w->size == s->stride && h->step == 1 && w->step == 1;
  for (int64_t q = 0, run; q < rows; q += run, row += run * h->step, y += run * s->stride) {
    bool there = row >= 0 && row < h->size;
    run = there && dense ? ac_smaller(rows - q, h->size - row) : 1;
    int64_t begin = there ? c->begin : 0, end = there ? c->end + (run - 1) * s->stride : 0;
    int64_t first = at + row * w->size + c->first, stride = run * s->stride;
    if (s->pairs)
      ac_conv_read_pairs(source, first, second, w->step, begin, end, stride, (uint32_t *)y);
    else ac_conv_read_row(source, first, w->step, begin, end, stride, y);
  }
  int64_t tail = w->outputs + s->reach[1] - s->stride;
  for (int64_t j = 0; j < tail; j++) y[j] = 0;
}

/* A line: a channel, or a pair, which may lack the second one. */
static void fill_line(const ac_conv_patch *s, const ac_conv_source *source,
                      const ac_conv_region *region, int64_t channel, bool second, char *planes) {
  int64_t bytes = element_bytes(s);
  for (int64_t a = 0; a < s->residues[0]; a++)
    for (int64_t b = 0; b < s->residues[1]; b++, planes += s->plane * bytes) {
      columns inner = columns_of(s, b);
      int64_t at = region->sample * source->sample + channel * source->channel;
      for (int64_t n = 0; n < region->samples; n++, at += source->sample)
        if (s->halves)
          fill_plane_of_halves(s, source, at, region, a, &inner,
                               (uint16_t *)planes + n * s->sample);
        else fill_plane(s, source, at, second, region, a, &inner, (float *)planes + n * s->sample);
    }
}

/* Writes the rows of one line's taps, or, for an odd channel, of pairs of taps. Returns the place
 * after them. */
static float *spread_line(const ac_conv_patch *s, const ac_conv_region *region, bool second,
                          const float *planes, float *to) {
  int64_t columns = s->axis[1].taps, taps = s->axis[0].taps * columns;
  int64_t sample = region->rows * s->pitch, together = s->pairs && !second ? 2 : 1;
  for (int64_t k = 0; k < taps; k += together, to += s->wide) {
    const float *from = planes + offset_of(s, k / columns, k % columns);
    bool paired = together > 1 && k + 1 < taps;
    int64_t other = paired ? offset_of(s, (k + 1) / columns, (k + 1) % columns) : 0;
    const float *with = paired ? planes + other : NULL;
    for (int64_t n = 0; n < region->samples; n++)
      ac_conv_copy_rows(from + n * s->sample, paired ? with + n * s->sample : NULL, s->stride,
                        to + n * sample, region->rows, s->pitch);
  }
  return to;
}

void ac_conv_patch_fill(const ac_conv_patch *s, const ac_conv_source *source,
                        const ac_conv_region *region, void *filling) {
  int64_t together = s->pairs ? 2 : 1;
  float *to = filling, *planes = to + filled(s, lines_of(s, s->held)) + SLACK;
  for (int64_t c = 0; c < region->channels; c += together) {
    bool second = c + 1 < region->channels;
    fill_line(s, source, region, region->channel + c, second, (char *)(s->spread ? planes : to));
    if (s->spread) to = spread_line(s, region, second, planes, to);
    else to += s->halves ? s->line / 2 : s->line;
  }
  if (!s->pairs) return;
  int64_t rows = ac_conv_patch_steps(s, region->channels) * AC_DOT_PAIRS;
  int64_t taps = s->axis[0].taps * s->axis[1].taps;
  float *end = (float *)filling + (s->spread ? rows * s->wide : rows / taps * s->line);
  memset(to, 0, (size_t)(end - to) * sizeof *to);
}
