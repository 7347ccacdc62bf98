#include "support/picture_results.h"

ac_model_file *expected_pictures;

int open_expected(void **state) {
  if (make_test_folder(state) != 0) return 1;
  return ac_model_file_open(&expected_pictures, VECTORS "/pictures.safetensors") != AC_OK;
}

int close_expected(void **state) {
  ac_model_file_close(expected_pictures);
  return remove_test_folder(state);
}

result find_result(const char *name) {
  const int index = ac_model_file_find(expected_pictures, name);
  if (index < 0) fail_msg("there is no result %s", name);
  const ac_model_tensor *tensor = ac_model_file_tensor(expected_pictures, index);
  result r = {.height = tensor->shape[0], .width = tensor->shape[1], .count = 1};
  for (int d = 0; d < tensor->rank; d++) r.count *= tensor->shape[d];
  r.values = malloc((size_t)r.count * sizeof *r.values);
  assert_non_null(r.values);
  assert_ok(ac_model_file_read(expected_pictures, index, 0, r.count, r.values));
  return r;
}

unsigned char *read_vector(const char *name, size_t *bytes) {
  char path[600];
  snprintf(path, sizeof path, VECTORS "/pictures/%s", name);
  return read_file(path, bytes);
}

/* PNG and WebP are lossless or exactly defined. Decoders of JPEG may round the inverse transform
 * and the colours in another way; Pillow brings one of its own. */
static int tolerance(const char *name) {
  return strstr(name, ".jpg") ? 1 : 0;
}

void compare_pixels(const char *name, const result *r, const uint8_t *pixels) {
  for (int64_t i = 0; i < r->count; i++)
    if (abs((int)r->values[i] - pixels[i]) > tolerance(name))
      fail_msg("%s: value %lld is %d, Pillow has %g", name, (long long)i, pixels[i],
               (double)r->values[i]);
}
