/* Products of bf16 by BFMMLA, which multiplies two rows by two columns over four of k: four rows by
 * eight columns of sums in registers. FPCR.EBF stays 0, as it is in every new process. */
#include <arm_neon.h>
#include <stddef.h>

#include "backend/cpu/product/dot.h"
#include "core/platform/processors.h"

enum { ROWS = 4, COLUMNS = 8, BLOCKS = COLUMNS / 2 };

bool ac_dot_bfmmla_available(void) {
  return ac_has_bfmmla();
}

/* Pairs p and p + 1 of rows `row` and `row` + 1. */
static inline bfloat16x8_t rows_at(const uint32_t *a, int row, int p) {
  const uint32_t *from = a + row * AC_DOT_PAIRS + p;
  return vreinterpretq_bf16_u32(vcombine_u32(vld1_u32(from), vld1_u32(from + AC_DOT_PAIRS)));
}

/* Pairs p and p + 1 of columns 0 to 3 from `b` on, two columns in each vector; the rows of pairs
 * are `distance` apart. */
static inline void columns_at(const uint32_t *b, int64_t distance, bfloat16x8_t to[2]) {
  uint32x4_t first = vld1q_u32(b), second = vld1q_u32(b + distance);
  to[0] = vreinterpretq_bf16_u32(vzip1q_u32(first, second));
  to[1] = vreinterpretq_bf16_u32(vzip2q_u32(first, second));
}

/* Sums of two rows by two columns are in one register. */
static inline float32x4_t load_block(const float *sums, int64_t distance) {
  return vcombine_f32(vld1_f32(sums), vld1_f32(sums + distance));
}
static inline void store_block(float *sums, int64_t distance, float32x4_t block) {
  vst1_f32(sums, vget_low_f32(block));
  vst1_f32(sums + distance, vget_high_f32(block));
}

/* Packed pair rows follow each other; where there is a patch, it says where those of a step are,
 * and of op(A), and `b` is the first of the columns in it. */
static inline __attribute__((always_inline)) void
multiply_block(int64_t steps, const uint32_t *packed_a, const uint32_t *b,
               const ac_dot_patch *patch, float *sums, int64_t distance, bool add) {
  enum { STEP = AC_DOT_PAIRS * AC_DOT_STRIP };
  const int64_t b_distance = patch ? patch->distance : AC_DOT_STRIP;
  float32x4_t sum[2][BLOCKS];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < BLOCKS; j++)
      sum[i][j] = add ? load_block(sums + 2 * i * distance + 2 * j, distance) : vdupq_n_f32(0);
  for (int64_t step = 0; step < steps; step++) {
    const uint32_t *a = packed_a + (patch ? ac_dot_step_of(patch, step) : step) * STEP;
    const uint32_t *at = b + (patch ? patch->offset[step] : step * STEP);
    for (int p = 0; p < AC_DOT_PAIRS; p += 2, at += 2 * b_distance) {
      bfloat16x8_t x[2] = {rows_at(a, 0, p), rows_at(a, 2, p)}, y[BLOCKS];
      columns_at(at, b_distance, y);
      columns_at(at + 4, b_distance, y + 2);
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < BLOCKS; j++) sum[i][j] = vbfmmlaq_f32(sum[i][j], x[i], y[j]);
    }
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < BLOCKS; j++)
      store_block(sums + 2 * i * distance + 2 * j, distance, sum[i][j]);
}

void ac_dot_bfmmla(int64_t steps, int rows, int columns, const uint32_t *a, const uint32_t *b,
                   float *sums, int64_t distance, bool add, ac_dot_fetch *fetch) {
  ac_dot_fetch_in(fetch, (rows + ROWS - 1) / ROWS * ((columns + COLUMNS - 1) / COLUMNS));
  for (int i = 0; i < rows; i += ROWS)
    for (int j = 0; j < columns; j += COLUMNS) {
      ac_dot_fetch_some(fetch);
      multiply_block(steps, a + i * AC_DOT_PAIRS, b + j, NULL, sums + i * distance + j, distance,
                     add);
    }
}

_Static_assert(AC_DOT_LANES % COLUMNS == 0, "a block's columns are neighbours in a patch");

void ac_dot_bfmmla_convolve(int64_t steps, int rows, int columns, const uint32_t *a,
                            const ac_dot_patch *b, float *sums, int64_t distance, bool add) {
  for (int i = 0; i < rows; i += ROWS)
    for (int j = 0; j < columns; j += COLUMNS)
      multiply_block(steps, a + i * AC_DOT_PAIRS, b->at + ac_dot_column_in(b, j), b,
                     sums + i * distance + j, distance, add);
}
