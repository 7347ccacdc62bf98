/* `accrue show`: a picture of training images, each as it is and as it is changed in the first
 * epochs. */
#include "program/commands.h"
#include "program/data.h"
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
  int64_t shape[3]; /* channels, height and width of a sample */
  void *fields[AC_MAX_FIELDS];
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
  s->data.unlabelled = true;
  int status = data_open_image_flags(&s->data, &s->data_flags, o);
  if (status != STATUS_CONTINUE) return status;
  s->data.augmentation = s->augmentation;
  s->data.mixing = s->mixing;
  if (options_given(o, "erase")) s->data.augmentation.erase_area = 0.25;
  status = data_change(&s->data, o);
  if (status != STATUS_CONTINUE) return status;
  const ac_dataset *train = s->data.train;
  if (!ac_dataset_image_shape(train, s->shape)) return fail("the data holds no images");
  if (s->rows > ac_dataset_count(train)) s->rows = ac_dataset_count(train);
  for (int f = 0; f < ac_dataset_field_count(train); f++) {
    const ac_field *field = ac_dataset_field(train, f);
    s->fields[f] = malloc((size_t)field->elements * ac_dtype_bytes(field->dtype));
    if (!s->fields[f]) return fail("out of memory");
  }
  return STATUS_CONTINUE;
}

/* ---- the grid -------------------------------------------------------------------------------- */

static int64_t grid_width(const show *s) {
  return s->columns * (s->shape[2] + GAP) - GAP;
}

static int64_t grid_height(const show *s) {
  return s->rows * (s->shape[1] + GAP) - GAP;
}

static uint8_t to_byte(float value) {
  const float scaled = value * 255 + 0.5f;
  return (uint8_t)(scaled < 0 ? 0 : scaled > 255 ? 255 : scaled);
}

static void put_image(show *s, int64_t row, int64_t column) {
  const float *image = s->fields[0];
  const int64_t channels = s->shape[0], height = s->shape[1], width = s->shape[2];
  for (int64_t y = 0; y < height; y++)
    for (int64_t x = 0; x < width; x++) {
      const int64_t at = (row * (height + GAP) + y) * grid_width(s) + column * (width + GAP) + x;
      for (int64_t c = 0; c < channels; c++)
        s->grid[at * channels + c] = to_byte(image[(c * height + y) * width + x]);
    }
}

static int put_row(show *s, int64_t row) {
  ac_dataset *plain = s->data.plain     ? s->data.plain
                      : s->data.unmixed ? s->data.unmixed
                                        : s->data.train;
  ac_sample_key key = {.index = ac_shuffle((uint64_t)s->seed, 0, row, ac_dataset_count(plain)),
                       .seed = (uint64_t)s->seed};
  for (int64_t column = 0; column < s->columns; column++) {
    key.epoch = column ? column - 1 : 0;
    if (ac_dataset_read(column ? s->data.train : plain, &key, s->fields) != AC_OK)
      return fail_library();
    put_image(s, row, column);
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
                      s->rows, s->columns, s->shape[1], s->shape[2]);
  const size_t bytes = (size_t)(grid_width(s) * grid_height(s) * s->shape[0]);
  s->grid = malloc(bytes);
  s->shown = calloc((size_t)s->rows, sizeof *s->shown);
  if (!s->grid || !s->shown) return fail("out of memory");
  for (size_t i = 0; i < bytes; i++) s->grid[i] = 255;
  int status = STATUS_CONTINUE;
  for (int64_t row = 0; row < s->rows && status == STATUS_CONTINUE; row++) status = put_row(s, row);
  if (status != STATUS_CONTINUE) return status;
  if (ac_picture_write_png(s->out, grid_width(s), grid_height(s), (int)s->shape[0], s->grid) !=
      AC_OK)
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
  for (int f = 0; f < AC_MAX_FIELDS; f++) free(s.fields[f]);
  free(s.grid);
  free(s.shown);
  data_close(&s.data);
  return status;
}
