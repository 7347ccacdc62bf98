/* What the steps of parameters share. */
#ifndef AC_BACKEND_CPU_UPDATE_H
#define AC_BACKEND_CPU_UPDATE_H

#include "backend/cpu/kernels.h"

#include <string.h>

/* The working copy in 16 bits, if there is one: blocks (kernels.h) let it be a copy. */
static inline void ac_cpu_copy_parameters(const ac_operand *w, const float *p, int64_t first,
                                          int64_t last) {
  if (w->count) memcpy((float *)w->data + first, p + first, (size_t)(last - first) * sizeof *p);
}

#endif
