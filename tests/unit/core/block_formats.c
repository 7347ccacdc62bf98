/* Rows rounded to blocks against tests/vectors/weights_in_blocks.safetensors, by the packages gguf
 * and bitsandbytes, and what no reference has: rows that are not finite. */
#include "support/check.h"

#include "core/blocks.h"
#include "io/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define VECTORS ACCRUE_TEST_VECTORS "/weights_in_blocks.safetensors"
enum { ROWS = 8, COLUMNS = 128, COUNT = ROWS * COLUMNS };

static const ac_blocks all[] = {AC_BLOCKS_Q8_0, AC_BLOCKS_Q4_0, AC_BLOCKS_Q4_1, AC_BLOCKS_NF4};

static ac_model_file *vectors;

static int open_vectors(void **state) {
  (void)state;
  return ac_model_file_open(&vectors, VECTORS) != AC_OK;
}

static int close_vectors(void **state) {
  (void)state;
  ac_model_file_close(vectors);
  return 0;
}

static void read_floats(const char *name, int64_t count, float *to) {
  const int index = ac_model_file_find(vectors, name);
  if (index < 0) fail_msg("no %s", name);
  assert_ok(ac_model_file_read(vectors, index, 0, count, to));
}

static void read_bytes(const char *name, int64_t count, unsigned char *to) {
  const int index = ac_model_file_find(vectors, name);
  if (index < 0) fail_msg("no %s", name);
  assert_ok(ac_model_file_read_stored(vectors, index, 0, count, to));
}

/* NF4's layout is our own: codes and scales are compared. */
static void compare_nf4(const unsigned char *made) {
  unsigned char codes[COUNT];
  float scales[COUNT / 64];
  read_bytes("nf4.codes", COUNT, codes);
  read_floats("nf4.scales", COUNT / 64, scales);
  for (int b = 0; b < COUNT / 64; b++, made += 36) {
    assert_memory_equal(made, &scales[b], sizeof *scales);
    for (int i = 0; i < 32; i++) {
      assert_int_equal(made[4 + i] & 15, codes[b * 64 + i]);
      assert_int_equal(made[4 + i] >> 4, codes[b * 64 + 32 + i]);
    }
  }
}

static void rows_become_the_blocks_of_the_references(void **state) {
  (void)state;
  float x[COUNT], want[COUNT], got[COUNT];
  unsigned char made[COUNT * 2], bytes[COUNT * 2];
  read_floats("x", COUNT, x);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    const size_t size = (size_t)ac_blocks_bytes(all[k], COUNT);
    char name[32];
    snprintf(name, sizeof name, "%s.bytes", ac_blocks_name(all[k]));
    ac_blocks_encode(all[k], x, COUNT, made);
    if (all[k] == AC_BLOCKS_NF4) {
      compare_nf4(made);
    } else {
      read_bytes(name, (int64_t)size, bytes);
      assert_memory_equal(made, bytes, size);
    }
    read_floats(ac_blocks_name(all[k]), COUNT, want);
    ac_blocks_decode(all[k], made, COUNT, got);
    for (int i = 0; i < COUNT; i++) assert_true(got[i] == want[i]);
  }
}

/* Each element of such a block is a NaN, and no other block is touched. */
static void blocks_that_are_not_finite_decode_to_nan(void **state) {
  (void)state;
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    for (int b = 0; b < 3; b++) {
      float x[COLUMNS], got[COLUMNS];
      unsigned char made[COLUMNS * 2];
      const int size = ac_blocks_elements(all[k]);
      for (int i = 0; i < COLUMNS; i++) x[i] = (float)(i % 7) - 3;
      x[size + 5] = bad[b];
      ac_blocks_encode(all[k], x, COLUMNS, made);
      ac_blocks_decode(all[k], made, COLUMNS, got);
      for (int i = 0; i < COLUMNS; i++)
        assert_int_equal(isnan(got[i]) != 0, i >= size && i < 2 * size);
    }
}

/* Scales that are not normal floats, and the largest ones. */
static void the_smallest_and_the_largest_are_rounded(void **state) {
  (void)state;
  const float extremes[] = {0x1p-149f, 0x1p-126f, 0x1p127f, 3e38f};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    for (int e = 0; e < 4; e++) {
      float x[64], got[64];
      unsigned char made[128];
      for (int i = 0; i < 64; i++) x[i] = i % 2 ? extremes[e] : -extremes[e];
      ac_blocks_encode(all[k], x, 64, made);
      ac_blocks_decode(all[k], made, 64, got);
      for (int i = 0; i < 64 && e < 2; i++) assert_true(fabsf(got[i]) <= 0x1p-126f);
    }
}

static void sizes(void **state) {
  (void)state;
  assert_int_equal(ac_blocks_bytes(AC_BLOCKS_Q8_0, 64), 68);
  assert_int_equal(ac_blocks_bytes(AC_BLOCKS_Q4_0, 64), 36);
  assert_int_equal(ac_blocks_bytes(AC_BLOCKS_Q4_1, 64), 40);
  assert_int_equal(ac_blocks_bytes(AC_BLOCKS_NF4, 64), 36);
  assert_int_equal(ac_blocks_bytes(AC_BLOCKS_NF4, 32), 0);
  assert_int_equal(ac_blocks_bytes(AC_BLOCKS_NONE, 64), 0);
  assert_int_equal(ac_blocks_elements((ac_blocks)9), 0);
  assert_string_equal(ac_blocks_name((ac_blocks)9), "unknown");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_become_the_blocks_of_the_references),
      cmocka_unit_test(blocks_that_are_not_finite_decode_to_nan),
      cmocka_unit_test(the_smallest_and_the_largest_are_rounded),
      cmocka_unit_test(sizes),
  };
  return cmocka_run_group_tests(tests, open_vectors, close_vectors);
}
