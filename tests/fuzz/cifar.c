/* CIFAR: the first byte chooses among the formats, the rest is the file. So that a fuzzer needs no
 * 3073 bytes for a record, its bit 2 has the rest unrolled: each byte becomes 128 of the file.
 */
#include "images.h"

#include <string.h>

enum { UNROLL = 128 };

static void run(const uint8_t *data, size_t bytes) {
  static uint8_t unrolled[UNROLL * 4096];
  if (!bytes) return;
  const uint8_t *file = data + 1;
  size_t length = bytes - 1;
  if (data[0] & 4) {
    if (length > sizeof unrolled / UNROLL) length = sizeof unrolled / UNROLL;
    for (size_t i = 0; i < length; i++) memset(unrolled + i * UNROLL, file[i], UNROLL);
    file = unrolled;
    /* Complete records where there is one. */
    size_t record = data[0] & 1 ? 3074 : 3073;
    length *= UNROLL;
    if (length >= record && !(data[0] & 8)) length -= length % record;
  }
  const char *path = fuzz_file(0, file, length);
  ac_dataset *dataset;
  ac_status status = data[0] & 1 ? ac_dataset_from_cifar100(&dataset, path, data[0] & 2, 0, -1)
                                 : ac_dataset_from_cifar10(&dataset, path, 0, -1);
  check_images(status, dataset);
}

static void seeds(fuzz_take take) {
  uint8_t input[1 + 2 * 3074] = {0};
  for (uint8_t kind = 0; kind < 8; kind++) {
    size_t length = (kind & 1 ? 2 * 3074 : 2 * 3073) / (kind & 4 ? UNROLL : 1) + 1;
    for (size_t i = 1; i < sizeof input; i++) input[i] = (uint8_t)(i % 7);
    input[0] = kind;
    take(input, 1 + length - !(kind & 4));
    if (!(kind & 4)) fuzz_take_gzip(take, input, length, 1);
  }
}

const fuzz_format fuzz_cifar = {"cifar", run, seeds};
