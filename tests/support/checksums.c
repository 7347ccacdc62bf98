#include "checksums.h"

#include "io/checksum.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct byte_range {
  json_int_t begin, end;
} byte_range;

static int compare_ranges(const void *a, const void *b) {
  const byte_range *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

/* Where the tensors of this header lie in so many bytes of data, in their order. */
static int list_ranges(json_t *root, size_t bytes, byte_range *ranges, int most) {
  const char *name;
  json_t *tensor;
  int count = 0;
  json_object_foreach(root, name, tensor) {
    const json_t *offsets = json_object_get(tensor, "data_offsets");
    const byte_range range = {json_integer_value(json_array_get(offsets, 0)),
                              json_integer_value(json_array_get(offsets, 1))};
    const bool lies = range.begin >= 0 && range.begin <= range.end && range.end <= (int64_t)bytes;
    if (json_is_array(offsets) && lies && count < most) ranges[count++] = range;
  }
  qsort(ranges, (size_t)count, sizeof *ranges, compare_ranges);
  return count;
}

static void put_digits(char *digits, uint64_t checksum) {
  char text[AC_CHECKSUM_DIGITS + 1];
  snprintf(text, sizeof text, "%016" PRIx64, checksum);
  memcpy(digits, text, AC_CHECKSUM_DIGITS);
}

/* As many as there is room for. */
static void put_tensor_digits(char *header, size_t length, const unsigned char *data,
                              size_t bytes) {
  enum { MOST = 256 };
  byte_range ranges[MOST];
  char *digits = ac_checksum_digits(header, AC_TENSOR_CHECKSUMS);
  json_t *root = digits ? json_loadb(header, length, 0, NULL) : NULL;
  const int count = list_ranges(root, bytes, ranges, MOST);
  for (int i = 0; i < count && strcspn(digits, "\"") >= AC_CHECKSUM_DIGITS; i++) {
    const byte_range *range = &ranges[i];
    put_digits(digits, XXH3_64bits(data + range->begin, (size_t)(range->end - range->begin)));
    digits += AC_CHECKSUM_DIGITS;
  }
  json_decref(root);
}

void put_checksums_right(unsigned char *file, size_t bytes) {
  uint64_t length = 0;
  for (int i = 0; i < 8 && bytes >= 8; i++) length |= (uint64_t)file[i] << 8 * i;
  if (bytes < 8 || length > bytes - 8) return;
  char *header = malloc(length + 1);
  if (!header) return;
  memcpy(header, file + 8, length);
  header[length] = 0;
  put_tensor_digits(header, length, file + 8 + length, bytes - 8 - length);
  char *digits = ac_checksum_digits(header, AC_HEADER_CHECKSUM);
  if (digits && strnlen(digits, AC_CHECKSUM_DIGITS) == AC_CHECKSUM_DIGITS)
    put_digits(digits, ac_header_checksum(file, header, length));
  memcpy(file + 8, header, length);
  free(header);
}
