/* IDX: bytes 0 and 1 say how long the file of images is, the rest after byte 2 is that of labels.
 * Files must be just as long as their headers say, which a fuzzer rarely hits upon; so bit 0 of
 * byte 2 has the number of labels put right, and bit 1 that of the images. */
#include "images.h"

#include <string.h>

enum { LONGEST = 1 << 14 };

static uint64_t word(const uint8_t *at) {
  return (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
}

static void put_right(uint8_t *file, size_t bytes, size_t header) {
  if (bytes < header) return;
  uint64_t each = header == 16 ? word(file + 8) * word(file + 12) : 1;
  size_t count = each ? (size_t)((bytes - header) / each) : 0;
  for (int i = 0; i < 4; i++) file[4 + i] = (uint8_t)(count >> (24 - 8 * i));
}

static void run(const uint8_t *data, size_t bytes) {
  static uint8_t file[LONGEST];
  if (bytes < 3 || bytes - 3 > LONGEST) return;
  memcpy(file, data + 3, bytes - 3);
  size_t images = (size_t)data[0] | (size_t)data[1] << 8;
  if (images > bytes - 3) images = bytes - 3;
  size_t labels = bytes - 3 - images;
  if (data[2] & 1) put_right(file + images, labels, 8);
  if (data[2] & 2) put_right(file, images, 16);
  ac_dataset *dataset;
  ac_status status = ac_dataset_from_idx(&dataset, fuzz_file(0, file, images),
                                         fuzz_file(1, file + images, labels), 0, -1);
  check_images(status, dataset);
}

static void seeds(fuzz_take take) {
  enum { COUNT = 4, PIXELS = 6, IMAGES = 16 + COUNT * PIXELS };
  static const uint8_t images[16] = {0, 0, 8, 3, 0, 0, 0, COUNT, 0, 0, 0, 3, 0, 0, 0, 2};
  static const uint8_t labels[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT, 1, 0, 2, 1};
  uint8_t input[3 + IMAGES + sizeof labels] = {IMAGES};
  memcpy(input + 3, images, sizeof images);
  for (int i = 0; i < COUNT * PIXELS; i++) input[3 + sizeof images + i] = (uint8_t)(11 * i);
  memcpy(input + 3 + IMAGES, labels, sizeof labels);
  for (uint8_t repair = 0; repair < 4; repair++) {
    input[2] = repair;
    take(input, sizeof input);
  }
  input[0] = 0xff, input[1] = 0xff, input[2] = 0; /* all images: the gzip data is one file */
  fuzz_take_gzip(take, input, 3 + IMAGES, 3);
}

const fuzz_format fuzz_idx = {"idx", run, seeds};
