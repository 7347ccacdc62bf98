/* Which numeric class products of bf16 have on this machine.
 *
 * Instructions are used only after they have given the emulation's bits here, on values near 1 and
 * near the least normal number: a virtual machine may emulate them in a way of its own. */
#include "backend/cpu/product/dot.h"

#include <string.h>

#include "core/platform/threads.h"

typedef struct entry {
  ac_dot_class emulation, hardware;
  bool (*available)(void); /* NULL: not in this build */
  bool (*pays)(void);      /* NULL: wherever it is available */
} entry;

#define EMULATED(name_)                                                              \
  .name = #name_, .text = "emulated " #name_, .multiply = ac_dot_##name_##_emulated, \
  .convolve = ac_dot_##name_##_emulated_convolve, .emulated = true
#define HARDWARE(name_, text_) \
  .name = #name_, .text = text_, .multiply = ac_dot_##name_, .convolve = ac_dot_##name_##_convolve

/* A step of tiles takes 64 cycles and reads 4 KiB, for which the second-level cache needs more: 16
 * KiB of op(A) leave room in the first for as much of op(B) that passes by. */
enum { TILES_STEPS = 8 };

/* From the best down. */
static const entry entries[] = {
    {.emulation = {EMULATED(tiles), .steps = TILES_STEPS},
#ifdef AC_CPU_HAVE_DOT_TILES
     .hardware = {HARDWARE(tiles, "AMX tiles"), .begin = ac_dot_tiles_begin,
                  .end = ac_dot_tiles_end, .steps = TILES_STEPS},
     .available = ac_dot_tiles_available
#endif
    },
    {.emulation = {EMULATED(vdpbf16ps)},
#ifdef AC_CPU_HAVE_DOT_VDPBF16PS
     .hardware = {HARDWARE(vdpbf16ps, "AVX512-BF16"), .correlate = ac_dot_vdpbf16ps_correlate},
     .available = ac_dot_vdpbf16ps_available,
     .pays = ac_dot_vdpbf16ps_pays
#endif
    },
    {.emulation = {EMULATED(bfmmla)},
#ifdef AC_CPU_HAVE_DOT_BFMMLA
     .hardware = {HARDWARE(bfmmla, "BFMMLA")},
     .available = ac_dot_bfmmla_available
#endif
    },
};
enum { COUNT = sizeof entries / sizeof *entries };

/* ---- acceptance ------------------------------------------------------------------------------ */

enum {
  STEPS = 2,
  PACKED = STEPS * AC_DOT_STRIP * AC_DOT_PAIRS,
  SUMS = AC_DOT_STRIP * AC_DOT_STRIP
};

typedef struct sample {
  _Alignas(64) uint32_t a[PACKED], b[PACKED];
  _Alignas(64) float sums[2][SUMS];
} sample;

/* Two bf16 of any sign and mantissa, with exponents from `least` to `least` + 7. */
static uint32_t draw_pair(uint32_t *seed, uint32_t least) {
  uint32_t pair = 0;
  for (int i = 0; i < 2; i++) {
    *seed = *seed * 1664525u + 1013904223u;
    uint32_t bits = *seed >> 8;
    pair = pair << 16 | (bits & 0x807f) | (least + (bits >> 16 & 7)) << 7;
  }
  return pair;
}

static bool gives_its_bits(const entry *e, uint32_t least) {
  static sample s; /* one thread at a time is here */
  uint32_t seed = least;
  for (int i = 0; i < PACKED; i++) {
    s.a[i] = draw_pair(&seed, least);
    s.b[i] = draw_pair(&seed, least);
  }
  for (int add = 0; add < 2; add++) {
    ac_dot_begin(&e->hardware);
    e->hardware.multiply(STEPS, AC_DOT_STRIP, AC_DOT_STRIP, s.a, s.b, s.sums[0], AC_DOT_STRIP, add,
                         NULL);
    ac_dot_end(&e->hardware);
    e->emulation.multiply(STEPS, AC_DOT_STRIP, AC_DOT_STRIP, s.a, s.b, s.sums[1], AC_DOT_STRIP, add,
                          NULL);
    if (memcmp(s.sums[0], s.sums[1], sizeof s.sums[0]) != 0) return false;
  }
  return true;
}

static bool accepted[COUNT];
static ac_once asked;

static void ask(void) {
  enum { NEAR_ONE = 124, NEAR_LEAST = 60 }; /* exponents: of products, twice as far from 127 */
  for (int i = 0; i < COUNT; i++) {
    const entry *e = &entries[i];
    accepted[i] = e->available && e->available() && gives_its_bits(e, NEAR_ONE) &&
                  gives_its_bits(e, NEAR_LEAST);
  }
}

static bool is_here(const entry *e) {
  ac_call_once(&asked, ask);
  return accepted[e - entries];
}

/* ---- choosing -------------------------------------------------------------------------------- */

const ac_dot_class *ac_dot_choose(const char *name) {
  for (int i = 0; i < COUNT; i++) {
    const entry *e = &entries[i];
    if (name && strcmp(name, e->emulation.name) != 0) continue;
    if (name) return is_here(e) ? &e->hardware : &e->emulation;
    if ((!e->pays || e->pays()) && is_here(e)) return &e->hardware;
  }
  return NULL;
}

bool ac_dot_class_at(int index, const ac_dot_class **hardware, const ac_dot_class **emulation) {
  if (index >= COUNT) return false;
  const entry *e = &entries[index];
  *hardware = is_here(e) ? &e->hardware : NULL;
  *emulation = &e->emulation;
  return true;
}
