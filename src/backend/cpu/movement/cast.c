/* Conversions between types. What needs more than one (adding, or from one of 16 bits to the other)
 * goes through floats, a block at a time. */
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/decode.h"

enum { BLOCK = 2048 };

static void to_floats(ac_dtype from, const void *x, float *y, int64_t count) {
  const uint8_t *bytes = x;
  const int32_t *integers = x;
  if (from == AC_U8) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = (float)bytes[i];
  } else if (from == AC_I32) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = (float)integers[i];
  } else {
    ac_cpu_widen(from, x, y, count);
  }
}

static void to_integers(const int64_t *x, int32_t *y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = (int32_t)x[i];
}

static void cast_block(const ac_op_args *args, int64_t first, int64_t count) {
  ac_dtype from = args->in[0].dtype, to = args->out[0].dtype;
  const void *x = ac_element(args->in[0].data, from, first);
  void *y = ac_element(args->out[0].data, to, first);
  bool mark = args->run->mark_flushed;
  float sum[BLOCK], block[BLOCK];
  to_floats(from, x, block, count);
  if (args->add[0]) {
    ac_cpu_widen(to, y, sum, count);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) block[i] = sum[i] + block[i];
  }
  ac_cpu_narrow(to, mark, block, y, count);
}

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_dtype from = args->in[0].dtype, to = args->out[0].dtype;
  const void *x = ac_element(args->in[0].data, from, first);
  void *y = ac_element(args->out[0].data, to, first);
  if (from == AC_I64) to_integers(x, y, last - first);
  else if (!args->add[0] && from == AC_F32)
    ac_cpu_narrow(to, args->run->mark_flushed, x, y, last - first);
  else if (!args->add[0] && to == AC_F32) to_floats(from, x, y, last - first);
  else
    for (int64_t i = first; i < last; i += BLOCK) cast_block(args, i, ac_smaller(BLOCK, last - i));
}

/* Blocks [first, last). */
static void blocks_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0];
  const ac_dtype to = args->out[0].dtype;
  const int64_t size = ac_blocks_elements(x->blocks), bytes = ac_blocks_bytes(x->blocks, size),
                most = BLOCK / size;
  float block[BLOCK];
  for (int64_t i = first; i < last; i += most) {
    const int64_t count = ac_smaller(most, last - i);
    void *y = ac_element(args->out[0].data, to, i * size);
    ac_cpu_decode(x->blocks, (const char *)x->data + i * bytes, count * size,
                  to == AC_F32 ? y : block);
    if (to != AC_F32) ac_cpu_narrow(to, args->run->mark_flushed, block, y, count * size);
  }
}

static void cast(const ac_cpu_context *context, const ac_op_args *args) {
  const int64_t size = ac_blocks_elements(args->in[0].blocks);
  if (size) {
    ac_cpu_for(context, args, args->out[0].count / size, size, blocks_range);
    return;
  }
  ac_cpu_for(context, args, args->out[0].count, 1, range);
}

static bool fits(const ac_op_args *args) {
  return !args->in[0].blocks || !args->add[0];
}

const ac_cpu_kernel AC_CPU_KERNEL(cast) = {.run = cast, .fits = fits};
