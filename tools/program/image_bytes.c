#include "program/image_bytes.h"

#include "common/base64.h"
#include "common/message.h"

#include <accrue/pictures.h>
#include <stdlib.h>
#include <string.h>

int image_sample_open(image_sample *s, ac_dataset *dataset) {
  int64_t shape[3];
  *s = (image_sample){.dataset = dataset};
  if (!ac_dataset_image_shape(dataset, shape)) return fail("the data holds no images");
  s->channels = shape[0];
  s->height = shape[1];
  s->width = shape[2];
  for (int f = 0; f < ac_dataset_field_count(dataset); f++) {
    const ac_field *field = ac_dataset_field(dataset, f);
    if (!strcmp(field->name, "images")) s->images = f;
    s->fields[f] = malloc((size_t)field->elements * ac_dtype_bytes(field->dtype));
    if (!s->fields[f]) return fail("out of memory");
  }
  return STATUS_CONTINUE;
}

void image_sample_close(image_sample *s) {
  for (int f = 0; f < AC_MAX_FIELDS; f++) free(s->fields[f]);
  *s = (image_sample){0};
}

int image_sample_read(image_sample *s, const ac_sample_key *key) {
  return ac_dataset_read(s->dataset, key, s->fields) == AC_OK ? STATUS_CONTINUE : fail_library();
}

static uint8_t to_byte(float value) {
  const float scaled = value * 255 + 0.5f;
  return (uint8_t)(scaled < 0 ? 0 : scaled > 255 ? 255 : scaled);
}

void image_sample_pixel(const image_sample *s, int64_t x, int64_t y, uint8_t *to) {
  const bool bytes = ac_dataset_field(s->dataset, s->images)->dtype == AC_U8;
  for (int64_t c = 0; c < s->channels; c++) {
    const int64_t at = (c * s->height + y) * s->width + x;
    to[c] = bytes ? ((const uint8_t *)s->fields[s->images])[at]
                  : to_byte(((const float *)s->fields[s->images])[at]);
  }
}

/* The mean of `by` x `by` pixels. */
static void put_mean(const image_sample *s, int64_t x, int64_t y, int64_t by, uint8_t *to) {
  int64_t sums[3] = {0};
  uint8_t pixel[3];
  for (int64_t i = 0; i < by * by; i++) {
    image_sample_pixel(s, x * by + i % by, y * by + i / by, pixel);
    for (int64_t c = 0; c < s->channels; c++) sums[c] += pixel[c];
  }
  for (int64_t c = 0; c < s->channels; c++) to[c] = (uint8_t)((sums[c] + by * by / 2) / (by * by));
}

json_t *image_sample_png(const image_sample *s, int64_t side) {
  const int64_t longer = s->width > s->height ? s->width : s->height,
                by = longer > side ? (longer + side - 1) / side : 1;
  const int64_t width = s->width / by ? s->width / by : 1,
                height = s->height / by ? s->height / by : 1;
  const int channels = (int)s->channels;
  const int64_t within = s->width < by || s->height < by ? 1 : by;
  const uint64_t most = ac_picture_png_bytes(width, height, channels);
  uint8_t *pixels = malloc((size_t)(width * height * channels)), *png = malloc((size_t)most + 1);
  uint64_t bytes = 0;
  bool good = pixels && png;
  for (int64_t i = 0; good && i < width * height; i++)
    put_mean(s, i % width, i / width, within, pixels + i * channels);
  if (!good) fail("out of memory");
  else if (ac_picture_encode_png(png, most, &bytes, width, height, channels, pixels) != AC_OK)
    good = false, fail_library();
  char *text = good ? base64_text(png, (size_t)bytes) : NULL;
  json_t *value = text ? json_string(text) : NULL;
  if (good && !value) fail("out of memory");
  free(text);
  free(png);
  free(pixels);
  return value;
}
