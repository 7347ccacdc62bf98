/* Products of a few rows with a panel that is packed once and used at every step. */
#include "backend/cpu/recurrent/recurrent.h"

/* A panel of floats is this deep while it is multiplied with all rows, so that it stays in the
 * first-level cache. */
enum { K_BLOCK = 256 };

/* `rows` is a constant where this is inlined. */
INLINE void multiply(int rows, int64_t depth, const float *a, int64_t lda, const float *panel,
                     float *c, int64_t ldc, bool add) {
  vector sum[ROWS][2];
  multiply_tile(false, rows, 2, depth, a, NULL, lda, 1, panel, NULL, sum);
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
    for (int v = 0; v < 2; v++) {
      float *to = c + i * ldc + v * VECTOR;
      store(to, add ? plus(load(to), sum[i][v]) : sum[i][v]);
    }
}

static void multiply_rows(int rows, int64_t depth, const float *a, int64_t lda, const float *panel,
                          float *c, int64_t ldc, bool add) {
#define TILE(height)                                               \
  case height:                                                     \
    if (add) multiply(height, depth, a, lda, panel, c, ldc, true); \
    else multiply(height, depth, a, lda, panel, c, ldc, false);    \
    break;
  switch (rows) { AC_CPU_TILE_HEIGHTS(TILE) }
#undef TILE
}

void ac_cpu_step_multiply(const ac_cpu_recurrence *w, const ac_cpu_step_rows *rows, int64_t row,
                          int64_t count, const float *panel, float *sums, int64_t distance,
                          bool add) {
  const int64_t pitch = ac_cpu_step_depth(w, rows->depth);
  const float *a = rows->data + row * pitch;
  if (w->pairs) {
    w->context->dot->multiply(steps_of(rows->depth), (int)count, STRIP, (const uint32_t *)a,
                              (const uint32_t *)panel, sums, distance, add, NULL);
    return;
  }
  const ac_cpu_tiles tiles = ac_cpu_tiles_of(count, ROWS);
  for (int64_t k = 0; k < rows->depth; k += K_BLOCK, add = true) {
    const int64_t depth = ac_smaller(K_BLOCK, rows->depth - k);
    int64_t first = 0;
    for (int64_t tile = 0; tile < tiles.count; tile++) {
      const int height = ac_cpu_tile_height(&tiles, tile);
      multiply_rows(height, depth, a + first * pitch + k, pitch, panel + k * COLUMNS,
                    sums + first * distance, distance, add);
      first += height;
    }
  }
}

/* ---- packing --------------------------------------------------------------------------------- */

int64_t ac_cpu_step_pack_scratch(const ac_cpu_recurrence *w) {
  return w->pairs ? PAIRS * STRIP : w->dtype == AC_F32 ? 0 : 2 * VECTOR * w->r.units;
}

static void pack_pairs(const ac_cpu_recurrence *w, bool across, int64_t row, int64_t count,
                       int half, uint32_t *panel, uint32_t *scratch) {
  const int64_t depth = across ? w->width : w->r.units;
  const operand x = {.data = ac_element(w->r.w->data, AC_BF16, across ? row : row * w->r.units),
                     .dtype = AC_BF16,
                     .distance = w->r.units,
                     .along = !across,
                     .lines = count,
                     .depth = depth};
  for (int64_t step = 0; step < steps_of(depth); step++, panel += PAIRS * STRIP) {
    pack_step(&x, 0, step * STEP, false, scratch);
    for (int p = 0; p < PAIRS; p++)
      memcpy(panel + p * STRIP + half * w->block, scratch + p * STRIP,
             (size_t)(across ? STRIP : w->block) * sizeof *panel);
  }
}

static void pack_across(const ac_cpu_recurrence *w, int64_t first, int64_t count, float *panel) {
  for (int64_t k = 0; k < w->width; k++, panel += COLUMNS) {
    ac_cpu_widen(w->dtype, ac_element(w->r.w->data, w->dtype, k * w->r.units + first), panel,
                 count);
    for (int64_t j = count; j < COLUMNS; j++) panel[j] = 0.0f;
  }
}

void ac_cpu_step_pack(const ac_cpu_recurrence *w, bool across, int64_t row, int64_t count, int half,
                      float *panel, float *scratch) {
  if (w->pairs) {
    pack_pairs(w, across, row, count, half, (uint32_t *)panel, (uint32_t *)scratch);
    return;
  }
  if (across) {
    pack_across(w, row, count, panel);
    return;
  }
  const int64_t units = w->r.units;
  const float *from =
      count ? ac_cpu_as_floats(w->dtype, w->r.w->data, row * units, scratch, count * units) : NULL;
  float *to = panel + half * VECTOR;
  if (count) transpose_rows(from, units, count, units, to, COLUMNS);
  for (int64_t j = count; j < VECTOR; j++)
    for (int64_t k = 0; k < units; k++) to[k * COLUMNS + j] = 0.0f;
}
