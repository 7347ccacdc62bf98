/* A pixel of the result is a weighted sum of source pixels around its place. The filter is as wide
 * as two (bilinear: a triangle) or four pixels (bicubic: Keys' kernel with a = -1/2) of the larger
 * of the two pictures, so that a smaller picture sees all pixels of a larger one. Weights are
 * computed in double, divided by their sum, and rounded to 22 bits after the point; sums are whole
 * numbers. Rows first, then columns, with bytes between them. But columns come first if the height
 * loses more than twice as many pixels as the width. A direction that does not change its size is
 * left out. This is what Pillow 13 computes. (Versions before it begin with rows, so their pixels
 * of pictures that become much flatter differ by rounding.)
 *
 * Only what is asked for is computed: columns of the result's width, from those rows that the
 * result's rows look at. Cost: width x rows x (weights of a pixel), then width x height x weights.
 */
#include "image/resample.h"

#include <math.h>
#include <string.h>

enum { FRACTION_BITS = 32 - 8 - 2 };

/* The weights of one direction: those of result pixel i begin at weights + i * most. */
typedef struct axis {
  int64_t count, most;
  int64_t *first; /* source pixel */
  int64_t *used;  /* how many */
  int32_t *weights;
} axis;

static double triangle(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

static double keys(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static double reach(ac_picture_filter filter, int64_t from, int64_t to) {
  const double scale = (double)from / (double)to;
  return (filter == AC_PICTURE_BICUBIC ? 2.0 : 1.0) * (scale < 1 ? 1 : scale);
}

static int64_t most_weights(ac_picture_filter filter, int64_t from, int64_t to) {
  return (int64_t)ceil(reach(filter, from, to)) * 2 + 1;
}

/* Pixel `place` of `to` that `from` pixels become. */
static void weigh(axis *axis, int64_t i, ac_picture_filter filter, int64_t from, int64_t to,
                  int64_t place, double *exact) {
  const double scale = (double)from / (double)to, width = scale < 1 ? 1 : scale,
               support = reach(filter, from, to), centre = ((double)place + 0.5) * scale;
  int64_t first = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
  if (first < 0) first = 0;
  if (end > from) end = from;
  double sum = 0;
  for (int64_t x = 0; x < end - first; x++) {
    const double at = ((double)(x + first) - centre + 0.5) * (1.0 / width);
    exact[x] = filter == AC_PICTURE_BICUBIC ? keys(at) : triangle(at);
    sum += exact[x];
  }
  int32_t *weights = axis->weights + i * axis->most;
  for (int64_t x = 0; x < end - first; x++) {
    if (sum != 0) exact[x] /= sum;
    const double rounding = exact[x] < 0 ? -0.5 : 0.5;
    weights[x] = (int32_t)(rounding + exact[x] * (1 << FRACTION_BITS));
  }
  axis->first[i] = first;
  axis->used[i] = end - first;
}

static uint8_t to_byte(int32_t sum) {
  const int32_t value = sum >> FRACTION_BITS;
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* What the room is divided into. */
typedef struct parts {
  bool across, down; /* which directions change */
  bool down_first;
  int64_t most[2];
  uint64_t exact, bounds[2], weights[2], between, total;
} parts;

static uint64_t add(parts *p, uint64_t bytes) {
  const uint64_t at = p->total;
  p->total += (bytes + 7) / 8 * 8;
  return at;
}

static parts divide(const ac_resampling *r) {
  parts p = {.across = r->box_width != r->width,
             .down = r->box_height != r->height,
             .most = {most_weights(r->filter, r->box_width, r->width),
                      most_weights(r->filter, r->box_height, r->height)}};
  const int64_t counts[2] = {r->result_width, r->result_height};
  p.exact = add(&p, (uint64_t)(p.most[0] > p.most[1] ? p.most[0] : p.most[1]) * sizeof(double));
  for (int d = 0; d < 2; d++) {
    p.bounds[d] = add(&p, 2 * (uint64_t)counts[d] * sizeof(int64_t));
    p.weights[d] = add(&p, (uint64_t)(counts[d] * p.most[d]) * sizeof(int32_t));
  }
  p.down_first = p.across && p.down && r->height < r->box_height &&
                 r->box_height - r->height > 2 * (r->box_width - r->width);
  /* What either order needs, so that a part of a picture never needs more than all of it. */
  const int64_t rows = r->box_height * r->result_width;
  p.between = add(&p, (uint64_t)(r->channels * (rows > r->box_width ? rows : r->box_width)));
  return p;
}

uint64_t ac_resample_room(const ac_resampling *r) {
  return divide(r).total;
}

static axis make_axis(const ac_resampling *r, const parts *p, int d, char *room) {
  axis made = {.count = d ? r->result_height : r->result_width, .most = p->most[d]};
  made.first = (int64_t *)(void *)(room + p->bounds[d]);
  made.used = made.first + made.count;
  made.weights = (int32_t *)(void *)(room + p->weights[d]);
  const int64_t from = d ? r->box_height : r->box_width, to = d ? r->height : r->width,
                begin = d ? r->top : r->left;
  for (int64_t i = 0; i < made.count; i++)
    if (d ? p->down : p->across)
      weigh(&made, i, r->filter, from, to, begin + i, (double *)(void *)(room + p->exact));
    else made.first[i] = begin + i, made.used[i] = 1;
  return made;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void filter_row(const axis *across, const uint8_t *row, int channels, uint8_t *to) {
  for (int64_t i = 0; i < across->count; i++, to += channels) {
    const int32_t *weights = across->weights + i * across->most;
    const uint8_t *pixel = row + across->first[i] * channels;
    int32_t sum[3] = {1 << (FRACTION_BITS - 1), 1 << (FRACTION_BITS - 1), 1 << (FRACTION_BITS - 1)};
    if (channels == 3)
      for (int64_t x = 0; x < across->used[i]; x++, pixel += 3) {
        sum[0] += pixel[0] * weights[x];
        sum[1] += pixel[1] * weights[x];
        sum[2] += pixel[2] * weights[x];
      }
    else
      for (int64_t x = 0; x < across->used[i]; x++) sum[0] += pixel[x] * weights[x];
    for (int c = 0; c < channels; c++) to[c] = to_byte(sum[c]);
  }
}

/* `width` bytes of a row of the result, from rows that are `stride` apart. */
static void filter_column(const int32_t *weights, int64_t used, const uint8_t *rows, int64_t width,
                          int64_t stride, uint8_t *to) {
  enum { PIECE = 256 };
  int32_t sum[PIECE];
  for (int64_t begin = 0; begin < width; begin += PIECE) {
    const int64_t count = width - begin < PIECE ? width - begin : PIECE;
    for (int64_t x = 0; x < count; x++) sum[x] = 1 << (FRACTION_BITS - 1);
    for (int64_t y = 0; y < used; y++) {
      const uint8_t *row = rows + y * stride + begin;
      for (int64_t x = 0; x < count; x++) sum[x] += row[x] * weights[y];
    }
    for (int64_t x = 0; x < count; x++) to[begin + x] = to_byte(sum[x]);
  }
}

static const uint8_t *row_of(const ac_resampling *r, const uint8_t *from, int64_t y) {
  return from + ((r->box_top + y) * r->from_width + r->box_left) * r->channels;
}

static void across_first(const ac_resampling *r, const parts *p, const axis *across,
                         const axis *down, const uint8_t *from, uint8_t *between, uint8_t *to) {
  const int64_t stride = r->result_width * r->channels, last = down->count - 1;
  const int64_t first_row = down->first[0], end = down->first[last] + down->used[last];
  for (int64_t y = first_row; y < end; y++) {
    const uint8_t *row = row_of(r, from, y);
    uint8_t *target = between + (y - first_row) * stride;
    if (p->across) filter_row(across, row, r->channels, target);
    else memcpy(target, row + r->left * r->channels, (size_t)stride);
  }
  for (int64_t i = 0; i < down->count; i++, to += stride) {
    const uint8_t *rows = between + (down->first[i] - first_row) * stride;
    if (p->down)
      filter_column(down->weights + i * down->most, down->used[i], rows, stride, stride, to);
    else memcpy(to, rows, (size_t)stride);
  }
}

/* Both directions change. One row between the two is enough. */
static void down_first(const ac_resampling *r, const axis *across, const axis *down,
                       const uint8_t *from, uint8_t *between, uint8_t *to) {
  const int64_t channels = r->channels, last = across->count - 1;
  const int64_t first = across->first[0] * channels,
                count = (across->first[last] + across->used[last]) * channels - first;
  for (int64_t i = 0; i < down->count; i++, to += r->result_width * channels) {
    filter_column(down->weights + i * down->most, down->used[i],
                  row_of(r, from, down->first[i]) + first, count, r->from_width * channels,
                  between + first);
    filter_row(across, between, r->channels, to);
  }
}

void ac_resample(const ac_resampling *r, const uint8_t *from, void *room, uint8_t *to) {
  const parts p = divide(r);
  const axis across = make_axis(r, &p, 0, room), down = make_axis(r, &p, 1, room);
  uint8_t *between = (uint8_t *)room + p.between;
  if (p.down_first) down_first(r, &across, &down, from, between, to);
  else across_first(r, &p, &across, &down, from, between, to);
}
