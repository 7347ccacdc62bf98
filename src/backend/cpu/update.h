/* What the steps of parameters share. */
#ifndef AC_BACKEND_CPU_UPDATE_H
#define AC_BACKEND_CPU_UPDATE_H

#include "backend/cpu/kernels.h"

#include "backend/cpu/convert.h"
#include "backend/cpu/random_bits.h"
#include "core/half.h"

#include <string.h>

/* The working copy in 16 bits, if there is one: blocks (kernels.h) let it be a copy. */
static inline void ac_cpu_copy_parameters(const ac_operand *w, const float *p, int64_t first,
                                          int64_t last) {
  if (w->count) memcpy((float *)w->data + first, p + first, (size_t)(last - first) * sizeof *p);
}

/* ---- parameters in bf16 ---------------------------------------------------------------------- */

/* An optimizer's formulas know floats alone: they run on a block of a parameter at a time. */
enum { AC_CPU_STEPPED = 1024 };

typedef struct stepped_block {
  _Alignas(64) float values[AC_CPU_STEPPED];
  ac_op_args args; /* with the block for a parameter, if that is not f32 */
  uint16_t *parameter;
  random_mask chance;
} stepped_block;

static inline bool is_rounded(const ac_op_args *args) {
  return args->out[0].dtype == AC_BF16;
}

static inline void stepped_begin(stepped_block *b, const ac_op_args *args) {
  b->args = *args;
  b->parameter = args->out[0].data;
  if (is_rounded(args))
    b->chance =
        random_mask_of(args->run->seed ^ args->name_hash, args->run->update, AC_ROUNDING_STREAM);
}

/* The arguments with which a formula steps elements [first, first + count). */
static inline const ac_op_args *stepped_load(stepped_block *b, int64_t first, int64_t count) {
  if (!is_rounded(&b->args)) return &b->args;
  ac_cpu_widen(AC_BF16, b->parameter + first, b->values, count);
  b->args.out[0].data = ac_element(b->values, AC_F32, -first);
  return &b->args;
}

static inline void stepped_store(const stepped_block *b, int64_t first, int64_t count) {
  if (!is_rounded(&b->args)) return;
  uint16_t bits[AC_CPU_RANDOM_HALVES], *p = b->parameter + first;
  const int64_t end = first + count;
  for (int64_t base = first & ~(int64_t)7; base < end; base += AC_CPU_RANDOM_HALVES) {
    const int64_t from = ac_max(first, base), to = ac_min(end, base + AC_CPU_RANDOM_HALVES);
    random_bits(bits, &b->chance, (uint32_t)(base / 8 >> 32), (uint32_t)(base / 8));
#pragma omp simd
    for (int64_t i = from; i < to; i++)
      p[i - first] = ac_bf16_by_chance(b->values[i - first], bits[i - base]);
  }
}

/* Runs a range function of floats, whatever the parameter is stored in. */
static inline void stepped_range(const ac_op_args *args, int64_t first, int64_t last,
                                 ac_cpu_range range) {
  if (!is_rounded(args)) {
    range(args, first, last);
    return;
  }
  stepped_block b;
  stepped_begin(&b, args);
  for (int64_t at = first, end; at < last; at = end) {
    end = ac_min(last, at + AC_CPU_STEPPED);
    range(stepped_load(&b, at, end - at), at, end);
    stepped_store(&b, at, end - at);
  }
}

#endif
