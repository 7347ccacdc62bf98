/* Where cl/product/unit_maps.h has the elements of fragments, as a function UNIT_maps: included
 * once for each unit, with UNIT, its name, and the option that the kernel is compiled with. */
#include "../../../cl/product/unit_maps.h"

#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)
static void JOIN(UNIT, _maps)(unit_maps *maps) {
  *maps = (unit_maps){.lanes = UNIT_LANES,
                      .m = UNIT_M,
                      .n = UNIT_N,
                      .words_a = A_WORDS,
                      .words_b = B_WORDS,
                      .sums = SUMS};
  for (int lane = 0; lane < UNIT_LANES; lane++) {
    for (int r = 0; r < A_WORDS; r++)
      maps->a[lane][r] = (place){A_ROW(lane, r), 2 * A_PAIR(lane, r)};
    for (int r = 0; r < B_WORDS; r++)
      maps->b[lane][r] = (place){2 * B_PAIR(lane, r), B_COLUMN(lane, r)};
    for (int r = 0; r < SUMS; r++) maps->c[lane][r] = (place){C_ROW(lane, r), C_COLUMN(lane, r)};
  }
}

#undef UNIT
#undef UNIT_MMA
#undef UNIT_DPAS
#undef UNIT_WMMA
#undef UNIT_MFMA
#undef UNIT_PAIRS
#undef UNIT_LANES
#undef UNIT_COPIES
#undef UNIT_M
#undef UNIT_N
#undef A_ROW
#undef A_PAIR
#undef B_PAIR
#undef B_COLUMN
#undef C_ROW
#undef C_COLUMN
#undef A_WORDS
#undef B_WORDS
#undef SUMS
#undef JOIN
#undef JOIN_NAMES
