#include "data/picture_geometry.h"

#include "core/integers.h"

#include <string.h>

/* ---- from picture to sample ------------------------------------------------------------------ */

/* Half of an even number, or the even one of the two whole numbers next to it: as Python rounds. */
static int64_t half(int64_t number) {
  return number / 2 + (number % 2 && number / 2 % 2);
}

/* All of a picture becomes all of a sample. */
static ac_picture_geometry stretch(const ac_picture_samples *d, int64_t width, int64_t height) {
  return (ac_picture_geometry){.width = d->width,
                               .height = d->height,
                               .resampling = {.filter = d->filter,
                                              .channels = (int)d->channels,
                                              .from_width = width,
                                              .from_height = height,
                                              .box_width = width,
                                              .box_height = height,
                                              .width = d->width,
                                              .height = d->height,
                                              .result_width = d->width,
                                              .result_height = d->height}};
}

static void crop(ac_resampling *r, const ac_picture_samples *d) {
  const int64_t width = r->from_width, height = r->from_height,
                least_width = (int64_t)((double)d->width / d->crop_share),
                least_height = (int64_t)((double)d->height / d->crop_share);
  if (width * least_height <= height * least_width) {
    r->width = least_width;
    r->height = ac_larger(least_width * height / width, d->height);
  } else {
    r->height = least_height;
    r->width = ac_larger(least_height * width / height, d->width);
  }
  r->left = half(r->width - d->width);
  r->top = half(r->height - d->height);
}

/* The side that fills the sample stays; the other one is rounded to the nearest number. */
static void pad(ac_picture_geometry *g) {
  ac_resampling *r = &g->resampling;
  const int64_t width = r->from_width, height = r->from_height;
  if (width * g->height >= height * g->width)
    r->height = ac_larger((2 * height * g->width + width) / (2 * width), 1);
  else r->width = ac_larger((2 * width * g->height + height) / (2 * height), 1);
  r->result_width = r->width;
  r->result_height = r->height;
  g->margin_left = (g->width - r->width) / 2;
  g->margin_top = (g->height - r->height) / 2;
}

ac_picture_geometry ac_picture_fit_whole(const ac_picture_samples *d, int64_t width,
                                         int64_t height) {
  ac_picture_geometry g = stretch(d, width, height);
  if (d->fit == AC_PICTURE_FIT_CROP) crop(&g.resampling, d);
  if (d->fit == AC_PICTURE_FIT_PAD) pad(&g);
  return g;
}

ac_picture_geometry ac_picture_arrange(const ac_picture_samples *d, const ac_sample_key *key,
                                       int64_t width, int64_t height) {
  if (!d->changes || !d->changes->random_crop) return ac_picture_fit_whole(d, width, height);
  const ac_picture_box box = ac_picture_draw_crop(d->changes, key, width, height);
  ac_picture_geometry g = stretch(d, width, height);
  g.resampling.box_left = box.left;
  g.resampling.box_top = box.top;
  g.resampling.box_width = box.width;
  g.resampling.box_height = box.height;
  return g;
}

void ac_picture_put_margins(const ac_picture_geometry *g, int channels, uint8_t fill,
                            uint8_t *pixels) {
  const ac_resampling *r = &g->resampling;
  if (r->result_width == g->width && r->result_height == g->height) return;
  const size_t row = (size_t)(r->result_width * channels), wide = (size_t)(g->width * channels),
               left = (size_t)(g->margin_left * channels);
  /* From the last row on: no row is written over before it is read. */
  for (int64_t y = g->height - 1; y >= 0; y--) {
    uint8_t *to = pixels + (size_t)y * wide;
    const int64_t from = y - g->margin_top;
    if (from < 0 || from >= r->result_height) {
      memset(to, fill, wide);
      continue;
    }
    memmove(to + left, pixels + (size_t)from * row, row);
    memset(to, fill, left);
    memset(to + left + row, fill, wide - left - row);
  }
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* The pixel of the picture, along one axis, at the centre of pixel `place` of the resized box. */
static int64_t source_of(int64_t place, int64_t box_begin, int64_t box, int64_t size) {
  return box_begin + (2 * place + 1) * box / (2 * size);
}

void ac_mask_resample(const ac_picture_geometry *g, const uint8_t *mask, uint8_t *sample) {
  const ac_resampling *r = &g->resampling;
  for (int64_t y = 0; y < r->result_height; y++) {
    const uint8_t *row =
        mask + source_of(r->top + y, r->box_top, r->box_height, r->height) * r->from_width;
    for (int64_t x = 0; x < r->result_width; x++)
      *sample++ = row[source_of(r->left + x, r->box_left, r->box_width, r->width)];
  }
  ac_picture_put_margins(g, 1, AC_MASK_IGNORED, sample - r->result_width * r->result_height);
}

/* The sample's pixel, along one axis, that shows the centre of a pixel of the picture; -1: none. */
static int64_t shown_at(int64_t place, int64_t box_begin, int64_t box, int64_t size, int64_t begin,
                        int64_t result, int64_t margin) {
  const int64_t twice = 2 * (place - box_begin) + 1;
  if (twice < 0 || twice >= 2 * box) return -1;
  const int64_t at = twice * size / (2 * box) - begin;
  return at < 0 || at >= result ? -1 : at + margin;
}

void ac_mask_restore(const ac_picture_geometry *g, const uint8_t *sample, uint8_t *mask) {
  const ac_resampling *r = &g->resampling;
  for (int64_t y = 0; y < r->from_height; y++) {
    const int64_t v =
        shown_at(y, r->box_top, r->box_height, r->height, r->top, r->result_height, g->margin_top);
    for (int64_t x = 0; x < r->from_width; x++) {
      const int64_t u = shown_at(x, r->box_left, r->box_width, r->width, r->left, r->result_width,
                                 g->margin_left);
      *mask++ = u < 0 || v < 0 ? AC_MASK_IGNORED : sample[v * g->width + u];
    }
  }
}

/* ---- polygons -------------------------------------------------------------------------------- */

/* What is left of it where sign x coordinate <= limit; Sutherland and Hodgman, CACM 1974. */
static void cut(ac_polygon *p, int axis, double sign, double limit) {
  ac_polygon left = {0};
  for (int i = 0; i < p->count && left.count + 2 <= AC_MOST_CORNERS; i++) {
    const double *a = p->corner[i], *b = p->corner[(i + 1) % p->count];
    const double beyond_a = sign * a[axis] - limit, beyond_b = sign * b[axis] - limit;
    if (beyond_a <= 0) memcpy(left.corner[left.count++], a, sizeof *left.corner);
    if ((beyond_a < 0 && beyond_b > 0) || (beyond_a > 0 && beyond_b < 0)) {
      const double share = beyond_a / (beyond_a - beyond_b);
      double *c = left.corner[left.count++];
      c[0] = a[0] + share * (b[0] - a[0]);
      c[1] = a[1] + share * (b[1] - a[1]);
    }
  }
  *p = left;
}

void ac_polygon_cut(ac_polygon *p, double left, double top, double right, double bottom) {
  cut(p, 0, -1, -left);
  cut(p, 1, -1, -top);
  cut(p, 0, 1, right);
  cut(p, 1, 1, bottom);
}

void ac_polygon_move(ac_polygon *p, const double m[6]) {
  const double determinant = m[0] * m[4] - m[1] * m[3];
  for (int i = 0; i < p->count; i++) {
    const double x = p->corner[i][0] - m[2], y = p->corner[i][1] - m[5];
    p->corner[i][0] = (m[4] * x - m[1] * y) / determinant;
    p->corner[i][1] = (m[0] * y - m[3] * x) / determinant;
  }
}

void ac_polygon_trace(ac_polygon *p, const ac_picture_geometry *g,
                      const ac_picture_changes *changes, const ac_sample_key *key) {
  const ac_resampling *r = &g->resampling;
  const double across = (double)r->box_width / (double)r->width,
               down = (double)r->box_height / (double)r->height;
  const int64_t shift_x = r->left - g->margin_left, shift_y = r->top - g->margin_top;
  const double resized[6] = {across, 0,    (double)r->box_left + across * (double)shift_x,
                             0,      down, (double)r->box_top + down * (double)shift_y};
  ac_polygon_move(p, resized);
  ac_polygon_cut(p, (double)g->margin_left, (double)g->margin_top,
                 (double)(g->margin_left + r->result_width),
                 (double)(g->margin_top + r->result_height));
  if (!changes) return;
  ac_picture_moves moves;
  ac_picture_draw_moves(changes, key, g->width, g->height, &moves);
  for (int i = 0; i < moves.count; i++) {
    ac_polygon_move(p, moves.m[i]);
    ac_polygon_cut(p, 0, 0, (double)g->width, (double)g->height);
  }
}
