/* IDX: two bytes say how long the file of images is, the rest is that of labels. */
#include "images.h"

#include <string.h>

static void run(const uint8_t *data, size_t bytes) {
  if (bytes < 2) return;
  size_t images = (size_t)data[0] | (size_t)data[1] << 8;
  if (images > bytes - 2) images = bytes - 2;
  ac_dataset *dataset;
  ac_status status =
      ac_dataset_from_idx(&dataset, fuzz_file(0, data + 2, images),
                          fuzz_file(1, data + 2 + images, bytes - 2 - images), 0, -1);
  check_images(status, dataset);
}

static void seeds(fuzz_take take) {
  enum { COUNT = 4, PIXELS = 6, IMAGES = 16 + COUNT * PIXELS };
  static const uint8_t images[16] = {0, 0, 8, 3, 0, 0, 0, COUNT, 0, 0, 0, 3, 0, 0, 0, 2};
  static const uint8_t labels[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT, 1, 0, 2, 1};
  uint8_t input[2 + IMAGES + sizeof labels] = {IMAGES};
  memcpy(input + 2, images, sizeof images);
  for (int i = 0; i < COUNT * PIXELS; i++) input[2 + sizeof images + i] = (uint8_t)(11 * i);
  memcpy(input + 2 + IMAGES, labels, sizeof labels);
  take(input, sizeof input);
  input[0] = 0xff, input[1] = 0xff; /* all of it images, so the gzip data is one file */
  fuzz_take_gzip(take, input, 2 + IMAGES, 2);
}

const fuzz_format fuzz_idx = {"idx", run, seeds};
