/* Products of operands that are all bf16, by the instructions that the CPU has for them. */
#ifndef AC_BACKEND_CPU_PRODUCT_GEMM_PAIRS_H
#define AC_BACKEND_CPU_PRODUCT_GEMM_PAIRS_H

#include "backend/cpu/product/dot.h"
#include "backend/cpu/product/gemm.h"

#define ac_cpu_gemm_in_pairs AC_CPU_NAME(ac_cpu_gemm_in_pairs)
#define ac_cpu_gemm_pairs AC_CPU_NAME(ac_cpu_gemm_pairs)
#define ac_cpu_gemm_pairs_scratch AC_CPU_NAME(ac_cpu_gemm_pairs_scratch)

/* Whether the device computes this product so: by types alone. */
bool ac_cpu_gemm_in_pairs(const ac_cpu_context *context, const ac_gemm *gemm);

/* Like ac_cpu_gemm_stored. Scratch has at least what a product of one strip needs; the best size is
 * that of ac_cpu_gemm_pairs_scratch. */
void ac_cpu_gemm_pairs(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias,
                       void *scratch, uint64_t scratch_bytes);
uint64_t ac_cpu_gemm_pairs_scratch(const ac_gemm *gemm); /* never less for a larger product */

#endif
