/* Products of a few rows, such as those that sample a token: op(B) is read once, in its order in
 * memory, and is what takes the time. So nothing is packed. */
#ifndef AC_BACKEND_CPU_PRODUCT_FEW_ROWS_H
#define AC_BACKEND_CPU_PRODUCT_FEW_ROWS_H

#include "backend/cpu/product/gemm.h"

#define ac_cpu_few_rows AC_CPU_NAME(ac_cpu_few_rows)

enum { AC_CPU_FEW_ROWS = 8 };

/* Whether a team computes a product so, unless it is one in pairs (gemm_pairs.h): C has few rows,
 * and what of B is read at a time is not too short. Its threads share the columns. It needs no
 * scratch. */
static inline bool ac_cpu_has_few_rows(const ac_gemm *g) {
  const bool fits = !g->transpose_a && g->alpha == 1 && g->k > 0;
  return g->m <= AC_CPU_FEW_ROWS && fits && (g->transpose_b || g->n >= AC_CPU_LINE);
}

/* The product in the calling thread, as ac_cpu_gemm_stored. */
void ac_cpu_few_rows(const ac_gemm *gemm, const float *bias);

#endif
