#define _XOPEN_SOURCE 700 /* nftw */

#include "files.h"

#include <ftw.h>
#include <zlib.h>

char test_folder[256];

int make_test_folder(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(test_folder, sizeof test_folder, "%.200s/accrue-test-XXXXXX",
           base && *base ? base : "/tmp");
  return mkdtemp(test_folder) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk) {
  (void)info, (void)type, (void)walk;
  return remove(path);
}

int remove_test_folder(void **state) {
  (void)state;
  return nftw(test_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

test_path in_folder(const char *name) {
  test_path path;
  snprintf(path.text, sizeof path.text, "%s/%s", test_folder, name);
  return path;
}

void write_file(const char *path, const void *data, size_t bytes) {
  FILE *stream = fopen(path, "wb");
  assert_non_null(stream);
  assert_int_equal(fwrite(data, 1, bytes, stream), bytes);
  assert_int_equal(fclose(stream), 0);
}

void write_gzip(const char *path, const void *data, size_t bytes) {
  gzFile stream = gzopen(path, "wb");
  assert_non_null(stream);
  assert_int_equal(gzwrite(stream, data, (unsigned)bytes), bytes);
  assert_int_equal(gzclose(stream), Z_OK);
}

unsigned char *read_file(const char *path, size_t *bytes) {
  FILE *stream = fopen(path, "rb");
  assert_non_null(stream);
  assert_int_equal(fseek(stream, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(stream);
  rewind(stream);
  unsigned char *data = malloc(*bytes + 1);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, *bytes, stream), *bytes);
  fclose(stream);
  return data;
}

uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}
