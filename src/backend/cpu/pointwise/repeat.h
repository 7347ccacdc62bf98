/* Ops on an operand and another that is repeated along it. */
#ifndef AC_BACKEND_CPU_REPEAT_H
#define AC_BACKEND_CPU_REPEAT_H

#include "backend/cpu/shared/kernels.h"

/* Elements that follow each other in all three. */
typedef void (*ac_cpu_run)(const ac_op_args *args, const float *a, const float *b, float *c,
                           int64_t count);

/* Elements [first, last) of the output, in runs that end where the second input does. `run` is a
 * constant where this is inlined. */
static inline __attribute__((always_inline)) void
ac_cpu_for_runs(const ac_op_args *args, int64_t first, int64_t last, ac_cpu_run run) {
  const float *a = args->in[0].data, *b = args->in[1].data;
  float *c = args->out[0].data;
  int64_t period = args->in[1].count;
  for (int64_t begin = first; begin < last;) {
    int64_t offset = begin % period, end = ac_min(last, begin - offset + period);
    run(args, a + begin, b + offset, c + begin, end - begin);
    begin = end;
  }
}

#endif
