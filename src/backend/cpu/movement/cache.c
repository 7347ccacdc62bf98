/* cache: rows into what is kept of earlier runs, as they lie. An item of work is a row. */
#include "backend/cpu/shared/kernels.h"

#include <string.h>

static void cache_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const int32_t *ends = args->in[1].data;
  const int64_t rows = x->dim[1], positions = y->dim[1], columns = x->count / (x->dim[0] * rows);
  const size_t bytes = (size_t)columns * ac_element_bytes(x->dtype);
  for (int64_t i = first; i < last; i++) {
    const int64_t b = i / rows, position = ends[b] - rows + i % rows;
    if (position < 0 || position >= positions) continue;
    memcpy((char *)y->data + (size_t)(b * positions + position) * bytes,
           (const char *)x->data + (size_t)i * bytes, bytes);
  }
}

static void cache(const ac_cpu_context *context, const ac_op_args *args) {
  const int64_t rows = args->in[0].dim[0] * args->in[0].dim[1];
  ac_cpu_for(context, args, rows, ac_larger(2, args->in[0].count / rows), cache_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(cache) = {.run = cache};
