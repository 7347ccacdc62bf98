/* Runs of floats to and from their storage in 16 bits, with the bits of core/half.h. `mark` is
 * ac_run_state.mark_flushed, which concerns f16 alone; `dtype` may also be AC_F32, for a copy. */
#ifndef AC_BACKEND_CPU_CONVERT_H
#define AC_BACKEND_CPU_CONVERT_H

#include "backend/cpu/shared/kernels.h"

#define ac_cpu_widen AC_CPU_NAME(ac_cpu_widen)
#define ac_cpu_narrow AC_CPU_NAME(ac_cpu_narrow)
#define ac_cpu_accumulate AC_CPU_NAME(ac_cpu_accumulate)
#define ac_cpu_widen_rows AC_CPU_NAME(ac_cpu_widen_rows)
#define ac_cpu_narrow_rows AC_CPU_NAME(ac_cpu_narrow_rows)
#define ac_cpu_narrow_in_place AC_CPU_NAME(ac_cpu_narrow_in_place)

void ac_cpu_widen(ac_dtype dtype, const void *x, float *y, int64_t count);
void ac_cpu_narrow(ac_dtype dtype, bool mark, const float *x, void *y, int64_t count);

enum { AC_CPU_RUN = 256 };

/* y += x, rounded once; in 16 bits at most AC_CPU_RUN elements. */
void ac_cpu_accumulate(ac_dtype dtype, bool mark, const float *x, void *y, int64_t count);

/* Converts `rows` rows of `columns`, which are ldx and ldy elements apart. */
void ac_cpu_widen_rows(ac_dtype dtype, const void *x, int64_t ldx, float *y, int64_t ldy,
                       int64_t rows, int64_t columns);
void ac_cpu_narrow_rows(ac_dtype dtype, bool mark, const float *x, int64_t ldx, void *y,
                        int64_t ldy, int64_t rows, int64_t columns);

/* The floats of a row become elements in its first half. */
void ac_cpu_narrow_in_place(ac_dtype dtype, bool mark, float *x, int64_t count);

#endif
