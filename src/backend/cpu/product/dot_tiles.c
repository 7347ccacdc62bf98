/* Products of bf16 in AMX tiles: two by two tiles of 16 x 16 sums, two tiles of op(A) and two of
 * op(B), which are all the eight that there are. */
#include <cpuid.h>
#include <immintrin.h>

#include "backend/cpu/product/dot.h"
#include "core/platform/processors.h"

enum { TILE = 16, TILE_BYTES = 64 };

/* Bits of leaf 7's EDX, and of the state components that XCR0 enables. */
enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, XCR0_TILES = 3 << 17 };

static bool system_saves_tiles(void) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & XCR0_TILES) == XCR0_TILES;
}

bool ac_dot_tiles_available(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE)) return false;
  return system_saves_tiles() && ac_take_tiles();
}

/* What LDTILECFG reads: every tile has 16 rows of 64 bytes. It is a constant in memory, since
 * compilers know of eight of its bytes that they are read. */
static const struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} config = {
    .palette = 1,
    .row_bytes = {TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES,
                  TILE_BYTES, TILE_BYTES},
    .rows = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE},
};
_Static_assert(sizeof config == 64, "what LDTILECFG reads");

static _Thread_local int begun; /* how often, and not ended */

void ac_dot_tiles_begin(void) {
  if (begun++ == 0) _tile_loadconfig(&config);
}

void ac_dot_tiles_end(void) {
  if (--begun == 0) _tile_release();
}

/* Tiles 0 to 3 are sums, row by row; 4 and 5 are of op(A), 6 and 7 of op(B). `low` and `narrow` say
 * that one of each is enough; they are constants where this is inlined. Packed pair rows follow
 * each other; where there is a patch, it says where those of a step are, and of op(A). */
static inline __attribute__((always_inline)) void
multiply(bool low, bool narrow, int64_t steps, const uint32_t *packed_a, const uint32_t *packed_b,
         const ac_dot_patch *patch, float *sums, int64_t distance, bool add, ac_dot_fetch *fetch) {
  enum { A_ROW = TILE_BYTES, STEP = AC_DOT_PAIRS * AC_DOT_STRIP };
  const int64_t sums_row = distance * 4; /* bytes */
  const int64_t b_row = (patch ? patch->distance : AC_DOT_STRIP) * 4;
  const int64_t second = patch ? patch->second : TILE;
  float *lower_sums = sums + TILE * distance;
  if (add) {
    _tile_loadd(0, sums, sums_row);
    if (!narrow) _tile_loadd(1, sums + TILE, sums_row);
    if (!low) _tile_loadd(2, lower_sums, sums_row);
    if (!low && !narrow) _tile_loadd(3, lower_sums + TILE, sums_row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; step++) {
    const uint32_t *a = packed_a + (patch ? ac_dot_step_of(patch, step) : step) * STEP;
    const uint32_t *at = patch ? patch->at + patch->offset[step] : packed_b + step * STEP;
    _tile_loadd(4, a, A_ROW);
    _tile_loadd(6, at, b_row);
    _tile_dpbf16ps(0, 4, 6);
    if (!narrow) {
      _tile_loadd(7, at + second, b_row);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (!low) {
      _tile_loadd(5, a + TILE * AC_DOT_PAIRS, A_ROW);
      _tile_dpbf16ps(2, 5, 6);
      if (!narrow) _tile_dpbf16ps(3, 5, 7);
    }
    ac_dot_fetch_some(fetch);
  }
  _tile_stored(0, sums, sums_row);
  if (!narrow) _tile_stored(1, sums + TILE, sums_row);
  if (!low) _tile_stored(2, lower_sums, sums_row);
  if (!low && !narrow) _tile_stored(3, lower_sums + TILE, sums_row);
}

static inline __attribute__((always_inline)) void multiply_any(int64_t steps, int rows, int columns,
                                                               const uint32_t *a, const uint32_t *b,
                                                               const ac_dot_patch *patch,
                                                               float *sums, int64_t distance,
                                                               bool add, ac_dot_fetch *fetch) {
#define MULTIPLY(low, narrow) multiply(low, narrow, steps, a, b, patch, sums, distance, add, fetch)
  __asm__ volatile("" ::: "memory"); /* compilers do not know that tiles are read from memory */
  if (rows <= TILE && columns <= TILE) MULTIPLY(true, true);
  else if (rows <= TILE) MULTIPLY(true, false);
  else if (columns <= TILE) MULTIPLY(false, true);
  else MULTIPLY(false, false);
}

void ac_dot_tiles(int64_t steps, int rows, int columns, const uint32_t *a, const uint32_t *b,
                  float *sums, int64_t distance, bool add, ac_dot_fetch *fetch) {
  ac_dot_fetch_in(fetch, steps);
  multiply_any(steps, rows, columns, a, b, NULL, sums, distance, add, fetch);
}

void ac_dot_tiles_convolve(int64_t steps, int rows, int columns, const uint32_t *a,
                           const ac_dot_patch *b, float *sums, int64_t distance, bool add) {
  multiply_any(steps, rows, columns, a, NULL, b, sums, distance, add, NULL);
}
