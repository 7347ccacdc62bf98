#include "image/colour.h"

#include <math.h>
#include <string.h>

static int64_t count_of(const ac_pixels *p) {
  return p->width * p->height;
}

static uint8_t grey_of(const uint8_t *pixel, int channels) {
  if (channels == 1) return *pixel;
  return (uint8_t)((19595u * pixel[0] + 38470u * pixel[1] + 7471u * pixel[2] + 0x8000) >> 16);
}

static uint8_t clip(int value) {
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* ---- between two pictures -------------------------------------------------------------------- */

/* From a (factor 0) to b (factor 1), cut to whole numbers. */
static uint8_t blend(uint8_t a, uint8_t b, float factor) {
  const float value = (float)a + factor * (float)((int)b - (int)a);
  return (uint8_t)(value <= 0 ? 0 : value >= 255 ? 255 : (int)value);
}

void ac_picture_brightness(const ac_pixels *p, float factor) {
  for (int64_t i = 0; i < count_of(p) * p->channels; i++) p->data[i] = blend(0, p->data[i], factor);
}

void ac_picture_contrast(const ac_pixels *p, float factor) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count_of(p); i++) sum += grey_of(p->data + i * p->channels, p->channels);
  const uint8_t mean = (uint8_t)((double)sum / (double)count_of(p) + 0.5);
  for (int64_t i = 0; i < count_of(p) * p->channels; i++)
    p->data[i] = blend(mean, p->data[i], factor);
}

void ac_picture_saturation(const ac_pixels *p, float factor) {
  for (int64_t i = 0; i < count_of(p); i++) {
    uint8_t *pixel = p->data + i * p->channels;
    const uint8_t grey = grey_of(pixel, p->channels);
    for (int c = 0; c < p->channels; c++) pixel[c] = blend(grey, pixel[c], factor);
  }
}

/* The mean of a pixel and its eight neighbours, itself five times; the edge stays as it is. */
static uint8_t smooth(const uint8_t *at, int64_t row, int64_t step) {
  const float side = 1.0f / 13, middle = 5.0f / 13;
  float sum = 0.5f;
  sum += (float)at[row - step] * side + (float)at[row] * side + (float)at[row + step] * side;
  sum += (float)at[-step] * side + (float)at[0] * middle + (float)at[step] * side;
  sum += (float)at[-row - step] * side + (float)at[-row] * side + (float)at[step - row] * side;
  return clip((int)sum);
}

void ac_picture_sharpness(const ac_pixels *p, float factor, uint8_t *room) {
  const int64_t step = p->channels, row = p->width * step;
  memcpy(room, p->data, (size_t)(row * p->height));
  for (int64_t y = 1; y + 1 < p->height; y++)
    for (int64_t x = step; x < row - step; x++) {
      const int64_t i = y * row + x;
      p->data[i] = blend(smooth(room + i, row, step), room[i], factor);
    }
}

/* ---- hue ------------------------------------------------------------------------------------- */

static void to_hsv(const uint8_t *rgb, uint8_t *hsv) {
  const uint8_t r = rgb[0], g = rgb[1], b = rgb[2];
  const uint8_t most = r > g ? (r > b ? r : b) : (g > b ? g : b),
                least = r < g ? (r < b ? r : b) : (g < b ? g : b);
  hsv[0] = hsv[1] = 0;
  hsv[2] = most;
  if (most == least) return;
  const float range = (float)(most - least), s = range / (float)most;
  const float rc = (float)(most - r) / range, gc = (float)(most - g) / range,
              bc = (float)(most - b) / range;
  float h = r == most   ? bc - gc
            : g == most ? (float)(2.0 + (double)rc - (double)bc)
                        : (float)(4.0 + (double)gc - (double)rc);
  h = (float)fmod((double)h / 6.0 + 1.0, 1.0);
  hsv[0] = clip((int)((double)h * 255.0));
  hsv[1] = clip((int)((double)s * 255.0));
}

static void to_rgb(const uint8_t *hsv, uint8_t *rgb) {
  const uint8_t v = hsv[2];
  if (!hsv[1]) {
    rgb[0] = rgb[1] = rgb[2] = v;
    return;
  }
  const int sector = (int)floor((double)hsv[0] * 6.0 / 255.0);
  const float f = (float)((double)hsv[0] * 6.0 / 255.0 - (double)sector),
              fs = (float)((double)hsv[1] / 255.0);
  const uint8_t low = clip((int)round((double)v * (1.0 - (double)fs))),
                falling = clip((int)round((double)v * (1.0 - (double)(fs * f)))),
                rising = clip((int)round((double)v * (1.0 - (double)fs * (1.0 - (double)f))));
  const uint8_t ways[6][3] = {{v, rising, low},  {falling, v, low}, {low, v, rising},
                              {low, falling, v}, {rising, low, v},  {v, low, falling}};
  memcpy(rgb, ways[sector % 6], 3);
}

void ac_picture_hue(const ac_pixels *p, double turn) {
  const uint8_t steps = (uint8_t)(int)(turn * 255);
  if (p->channels == 1) return;
  for (int64_t i = 0; i < count_of(p); i++) {
    uint8_t hsv[3];
    to_hsv(p->data + 3 * i, hsv);
    hsv[0] = (uint8_t)(hsv[0] + steps);
    to_rgb(hsv, p->data + 3 * i);
  }
}

/* ---- tables ---------------------------------------------------------------------------------- */

void ac_picture_posterize(const ac_pixels *p, int bits) {
  const uint8_t kept = (uint8_t)(0xff << (8 - bits));
  for (int64_t i = 0; i < count_of(p) * p->channels; i++) p->data[i] &= kept;
}

void ac_picture_solarize(const ac_pixels *p, double threshold) {
  for (int64_t i = 0; i < count_of(p) * p->channels; i++)
    if (p->data[i] >= threshold) p->data[i] = (uint8_t)(255 - p->data[i]);
}

static void count_values(const ac_pixels *p, int c, int64_t counts[256]) {
  memset(counts, 0, 256 * sizeof *counts);
  for (int64_t i = 0; i < count_of(p); i++) counts[p->data[i * p->channels + c]]++;
}

static void look_up(const ac_pixels *p, int c, const uint8_t table[256]) {
  for (int64_t i = 0; i < count_of(p); i++) {
    uint8_t *value = p->data + i * p->channels + c;
    *value = table[*value];
  }
}

void ac_picture_autocontrast(const ac_pixels *p) {
  for (int c = 0; c < p->channels; c++) {
    int64_t counts[256];
    uint8_t table[256];
    int low = 0, high = 255;
    count_values(p, c, counts);
    while (low < 255 && !counts[low]) low++;
    while (high > 0 && !counts[high]) high--;
    if (high <= low) continue;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    for (int v = 0; v < 256; v++) table[v] = clip((int)(v * scale + offset));
    look_up(p, c, table);
  }
}

void ac_picture_equalize(const ac_pixels *p) {
  for (int c = 0; c < p->channels; c++) {
    int64_t counts[256];
    uint8_t table[256];
    int last = 255;
    count_values(p, c, counts);
    while (last > 0 && !counts[last]) last--;
    const int64_t step = (count_of(p) - counts[last]) / 255;
    if (!step) continue;
    int64_t sum = step / 2;
    for (int v = 0; v < 256; sum += counts[v++])
      table[v] = (uint8_t)(sum / step < 255 ? sum / step : 255);
    look_up(p, c, table);
  }
}

/* ---- places ---------------------------------------------------------------------------------- */

void ac_picture_mirror(const ac_pixels *p) {
  const int channels = p->channels;
  for (int64_t y = 0; y < p->height; y++) {
    uint8_t *row = p->data + y * p->width * channels;
    for (int64_t a = 0, b = p->width - 1; a < b; a++, b--)
      for (int c = 0; c < channels; c++) {
        const uint8_t value = row[a * channels + c];
        row[a * channels + c] = row[b * channels + c];
        row[b * channels + c] = value;
      }
  }
}

/* Places have 16 bits after the point, and are added up along rows and columns. */
static int64_t fixed(double value) {
  return (int64_t)floor(value * 65536.0 + 0.5);
}

void ac_picture_transform(const ac_pixels *p, const double m[6], uint8_t fill, uint8_t *room) {
  const size_t bytes = (size_t)p->channels;
  memcpy(room, p->data, (size_t)count_of(p) * bytes);
  const int64_t across[2] = {fixed(m[0]), fixed(m[3])}, down[2] = {fixed(m[1]), fixed(m[4])};
  int64_t row[2] = {fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), fixed(m[5] + m[3] * 0.5 + m[4] * 0.5)};
  uint8_t *to = p->data;
  for (int64_t y = 0; y < p->height; y++, row[0] += down[0], row[1] += down[1]) {
    int64_t at[2] = {row[0], row[1]};
    for (int64_t x = 0; x < p->width; x++, to += bytes, at[0] += across[0], at[1] += across[1]) {
      const int64_t u = at[0] >> 16, v = at[1] >> 16;
      if (u >= 0 && u < p->width && v >= 0 && v < p->height)
        memcpy(to, room + (size_t)(v * p->width + u) * bytes, bytes);
      else memset(to, fill, bytes);
    }
  }
}
