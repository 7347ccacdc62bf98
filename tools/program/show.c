/* `accrue show`: a picture of training images, each as it is and as it is changed in the first
 * epochs. */
#include "program/commands.h"
#include "program/data.h"
#include "program/image_bytes.h"
#include "common/flag_rules.h"
#include "common/message.h"
#include "common/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct show {
  image_data_flags data_flags;
  ac_augmentation augmentation;
  ac_mixing mixing;
  int64_t rows, columns, seed;
  const char *out;
  train_data data;
  image_sample plain, changed;
  uint8_t *grid;
  int64_t *shown; /* the image of each row */
} show;

enum { GAP = 2, MOST_SIDE = 65535 };

/* ---- flags ----------------------------------------------------------------------------------- */

static int parse(show *s, options *o, int argc, char **argv) {
  ac_augmentation *a = &s->augmentation;
  const option augmentation[] = {
      FLAG("shift", OPTION_INTEGER, &a->shift),
      FLAG("flip", OPTION_SWITCH, &a->flip),
      FLAG("rotation", OPTION_REAL, &a->rotation),
      FLAG("scaling", OPTION_REAL, &a->scaling),
      FLAG("erase", OPTION_REAL, &a->erase_probability),
      FLAG("mixup", OPTION_REAL, &s->mixing.mixup),
      FLAG("cutmix", OPTION_REAL, &s->mixing.cutmix),
  };
  const option output[] = {
      FLAG("rows", OPTION_INTEGER, &s->rows),
      FLAG("columns", OPTION_INTEGER, &s->columns),
      FLAG("seed", OPTION_INTEGER, &s->seed),
      FLAG("out", OPTION_TEXT, &s->out),
  };
  data_add_image_options(&s->data_flags, o);
  OPTIONS_ADD(o, augmentation);
  data_add_picture_changes(&s->data_flags.pictures, o);
  OPTIONS_ADD(o, output);
  int status = options_parse(o, argc, argv);
  if (status == STATUS_CONTINUE) status = flag_rules_check(o);
  if (status == STATUS_CONTINUE && !s->out)
    return fail_usage("--out is missing: the PNG file to write");
  return status;
}

static int open_data(show *s, const options *o) {
  s->data.unlabelled = !(s->mixing.mixup > 0 || s->mixing.cutmix > 0);
  s->data.bytes = true;
  int status = data_open_image_flags(&s->data, &s->data_flags, o);
  if (status != STATUS_CONTINUE) return status;
  s->data.augmentation = s->augmentation;
  s->data.mixing = s->mixing;
  if (options_given(o, "erase")) s->data.augmentation.erase_area = 0.25;
  status = data_change(&s->data, o);
  if (status != STATUS_CONTINUE) return status;
  status = image_sample_open(&s->plain, data_plain(&s->data));
  if (status == STATUS_CONTINUE) status = image_sample_open(&s->changed, s->data.train);
  const int64_t count = ac_dataset_count(s->data.train);
  if (s->rows > count) s->rows = count;
  return status;
}

/* ---- the grid -------------------------------------------------------------------------------- */

static int64_t grid_width(const show *s) {
  return s->columns * (s->plain.width + GAP) - GAP;
}

static int64_t grid_height(const show *s) {
  return s->rows * (s->plain.height + GAP) - GAP;
}

static void put_image(show *s, const image_sample *sample, int64_t row, int64_t column) {
  for (int64_t y = 0; y < sample->height; y++)
    for (int64_t x = 0; x < sample->width; x++) {
      const int64_t at =
          (row * (sample->height + GAP) + y) * grid_width(s) + column * (sample->width + GAP) + x;
      image_sample_pixel(sample, x, y, s->grid + at * sample->channels);
    }
}

static int put_row(show *s, int64_t row) {
  ac_sample_key key = {
      .index = ac_shuffle((uint64_t)s->seed, 0, row, ac_dataset_count(s->plain.dataset)),
      .seed = (uint64_t)s->seed};
  for (int64_t column = 0; column < s->columns; column++) {
    image_sample *sample = column ? &s->changed : &s->plain;
    key.epoch = column ? column - 1 : 0;
    const int status = image_sample_read(sample, &key);
    if (status != STATUS_CONTINUE) return status;
    put_image(s, sample, row, column);
  }
  s->shown[row] = key.index;
  return STATUS_CONTINUE;
}

static void tell_row(const show *s, int64_t row) {
  const ac_pictures *list = s->data.training ? s->data.training : s->data.all;
  const int64_t index = s->shown[row];
  const char *path = ac_pictures_path(list, index),
             *name = ac_pictures_class_name(list, ac_pictures_label(list, index));
  if (path)
    message_put(stdout, "row %-4" PRId64 "%s%s%s\n", row + 1, name ? name : "", name ? "  " : "",
                path);
  else printf("row %-4" PRId64 "sample %" PRId64 "\n", row + 1, index);
}

static int put_grid(show *s) {
  if (grid_width(s) > MOST_SIDE || grid_height(s) > MOST_SIDE)
    return fail_usage("%" PRId64 " rows and %" PRId64 " columns of %" PRId64 " x %" PRId64
                      " pixels are too large for a picture",
                      s->rows, s->columns, s->plain.height, s->plain.width);
  const size_t bytes = (size_t)(grid_width(s) * grid_height(s) * s->plain.channels);
  s->grid = malloc(bytes);
  s->shown = calloc((size_t)s->rows, sizeof *s->shown);
  if (!s->grid || !s->shown) return fail("out of memory");
  for (size_t i = 0; i < bytes; i++) s->grid[i] = 255;
  int status = STATUS_CONTINUE;
  for (int64_t row = 0; row < s->rows && status == STATUS_CONTINUE; row++) status = put_row(s, row);
  if (status != STATUS_CONTINUE) return status;
  if (ac_picture_write_png(s->out, grid_width(s), grid_height(s), (int)s->plain.channels,
                           s->grid) != AC_OK)
    return fail_library();
  for (int64_t row = 0; row < s->rows; row++) tell_row(s, row);
  message_put(stdout, "%s has %" PRId64 " x %" PRId64 " pixels: each image as it is", s->out,
              grid_width(s), grid_height(s));
  if (s->columns > 1) printf(", then as it changes in %" PRId64 " epochs", s->columns - 1);
  putchar('\n');
  return STATUS_DONE;
}

int show_main(int argc, char **argv) {
  show s = {.rows = 6, .columns = 8, .augmentation = {.shift = 3, .rotation = 10, .scaling = 0.1}};
  options o = {.command = "show",
               .summary = "Writes a picture of training images, and of how they change."};
  int status = parse(&s, &o, argc, argv);
  if (status == STATUS_CONTINUE) status = open_data(&s, &o);
  if (status == STATUS_CONTINUE) status = put_grid(&s);
  image_sample_close(&s.plain);
  image_sample_close(&s.changed);
  free(s.grid);
  free(s.shown);
  data_close(&s.data);
  return status;
}
