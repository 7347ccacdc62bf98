/* Pictures: a file in memory, as it is. What is let through is decoded in both numbers of channels,
 * turned, and resized. A PNG file is decoded as a mask as well. */
#include "fuzz.h"

#include "image/decode.h"
#include "image/resample.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PIXELS = 1 << 20 }; /* of what is decoded here, so that inputs are many */

static void resize(const uint8_t *from, int64_t width, int64_t height, int channels, int seed) {
  uint8_t to[3 * 24 * 24];
  const ac_resampling r = {.filter = seed % 2 ? AC_PICTURE_BICUBIC : AC_PICTURE_BILINEAR,
                           .channels = channels,
                           .from_width = width,
                           .from_height = height,
                           .box_left = width / 3,
                           .box_top = height / 4,
                           .box_width = width - width / 3,
                           .box_height = height - height / 4,
                           .width = 24,
                           .height = 30,
                           .top = 3,
                           .result_width = 24,
                           .result_height = 24};
  void *room = malloc((size_t)ac_resample_room(&r));
  ac_resample(&r, from, room, to);
  free(room);
}

static void run_mask(const ac_picture_file *file, const ac_picture_info *info) {
  if (info->format != AC_PICTURE_PNG || info->width * info->height > MOST_PIXELS) return;
  uint8_t *ids = malloc((size_t)(info->width * info->height));
  if (ac_png_decode_mask(file, info, ids) != AC_OK) fuzz_check_sentence();
  free(ids);
}

static void run(const uint8_t *data, size_t bytes) {
  const ac_picture_file file = {.path = "picture", .data = data, .bytes = bytes};
  ac_picture_info info;
  if (ac_picture_inspect(&file, &info) != AC_OK) {
    fuzz_check_sentence();
    return;
  }
  FUZZ_CHECK(info.width > 0 && info.height > 0 && info.orientation >= 1 && info.orientation <= 8);
  const int reduction = ac_picture_reduction(&info, 16, 16);
  const int64_t width = ac_picture_reduced(info.width, reduction),
                height = ac_picture_reduced(info.height, reduction);
  if (width * height > MOST_PIXELS) return;
  uint8_t *pixels = malloc((size_t)(3 * width * height)),
          *turned = malloc((size_t)(3 * width * height));
  const int channels = bytes % 2 ? 3 : 1;
  if (ac_picture_decode(&file, &info, reduction, channels, pixels) != AC_OK) fuzz_check_sentence();
  else {
    ac_picture_orient(pixels, width, height, channels, info.orientation, turned);
    if (info.orientation > 4) resize(turned, height, width, channels, (int)(bytes / 2));
    else resize(turned, width, height, channels, (int)(bytes / 2));
  }
  free(pixels);
  free(turned);
  run_mask(&file, &info);
}

/* Files of tests/vectors, if the fuzzer runs in the root of the source. */
static void seeds(fuzz_take take) {
  static const char *const names[] = {
      "colour.jpg",   "progressive.jpg", "inks.jpg",       "turned6.jpg",     "grey.jpg",
      "palette.png",  "bits.png",        "deep.png",       "turned.png",      "interlaced.png",
      "palette4.png", "grey.png",        "grey_alpha.png", "transparent.png", "alpha.png",
      "colour.webp",  "lossless.webp",   "turned.webp",    "alpha.webp"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[200];
    static uint8_t data[1 << 14];
    snprintf(path, sizeof path, "tests/vectors/pictures/%s", names[i]);
    FILE *file = fopen(path, "rb");
    if (!file) continue;
    take(data, fread(data, 1, sizeof data, file));
    fclose(file);
  }
}

const fuzz_format fuzz_pictures = {"pictures", run, seeds};
