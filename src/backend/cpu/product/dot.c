/* Which numeric class products of bf16 have on this machine. */
#include "backend/cpu/product/dot.h"

#include <string.h>

typedef struct entry {
  ac_dot_class emulation, hardware;
  bool (*available)(void); /* NULL: not in this build */
} entry;

#define EMULATED(name) \
  { #name, "emulated " #name, ac_dot_##name##_emulated, NULL, NULL, true }

/* From the best down. */
static const entry entries[] = {
    {.emulation = EMULATED(tiles),
#ifdef AC_CPU_HAVE_DOT_TILES
     .hardware = {"tiles", "AMX tiles", ac_dot_tiles, ac_dot_tiles_begin, ac_dot_tiles_end, false},
     .available = ac_dot_tiles_available
#endif
    },
    {.emulation = EMULATED(vdpbf16ps),
#ifdef AC_CPU_HAVE_DOT_VDPBF16PS
     .hardware = {"vdpbf16ps", "AVX512-BF16", ac_dot_vdpbf16ps, NULL, NULL, false},
     .available = ac_dot_vdpbf16ps_available
#endif
    },
    {.emulation = EMULATED(bfmmla),
#ifdef AC_CPU_HAVE_DOT_BFMMLA
     .hardware = {"bfmmla", "BFMMLA", ac_dot_bfmmla, NULL, NULL, false},
     .available = ac_dot_bfmmla_available
#endif
    },
};
enum { COUNT = sizeof entries / sizeof *entries };

static bool is_here(const entry *e) {
  return e->available && e->available();
}

const ac_dot_class *ac_dot_choose(const char *name) {
  for (int i = 0; i < COUNT; i++) {
    const entry *e = &entries[i];
    if (name && strcmp(name, e->emulation.name) != 0) continue;
    if (is_here(e)) return &e->hardware;
    if (name) return &e->emulation;
  }
  return NULL;
}

bool ac_dot_class_at(int index, const ac_dot_class **hardware, const ac_dot_class **emulation) {
  if (index >= COUNT) return false;
  *hardware = is_here(&entries[index]) ? &entries[index].hardware : NULL;
  *emulation = &entries[index].emulation;
  return true;
}
