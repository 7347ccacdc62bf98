/* What the steps of parameters share. */
#ifndef AC_BACKEND_CPU_UPDATE_H
#define AC_BACKEND_CPU_UPDATE_H

#include "backend/cpu/kernels.h"

#include "backend/cpu/convert.h"
#include "backend/cpu/rounding.h"

#include <string.h>

/* The working copy in 16 bits, if there is one: blocks (kernels.h) let it be a copy. */
static inline void ac_cpu_copy_parameters(const ac_operand *w, const float *p, int64_t first,
                                          int64_t last) {
  if (w->count) memcpy((float *)w->data + first, p + first, (size_t)(last - first) * sizeof *p);
}

/* ---- operands in bf16 ------------------------------------------------------------------------ */

/* An optimizer's formulas know floats alone: they run on a block of parameter and gradient at a
 * time. */
enum { AC_CPU_STEPPED = 1024 };

typedef struct stepped_block {
  _Alignas(64) float values[AC_CPU_STEPPED], gradient[AC_CPU_STEPPED];
  ac_op_args args; /* with blocks for what is not f32 */
  const ac_op_args *home;
  random_mask chance;
} stepped_block;

static inline bool is_rounded(const ac_operand *x) {
  return x->dtype == AC_BF16;
}

static inline void stepped_begin(stepped_block *b, const ac_op_args *args) {
  b->args = *args;
  b->home = args;
  if (is_rounded(&args->out[0])) b->chance = rounding_of(args, AC_WEIGHT_STREAM);
}

static inline void stepped_widen(const ac_operand *home, ac_operand *copy, float *block,
                                 int64_t first, int64_t count) {
  if (!is_rounded(home)) return;
  ac_cpu_widen(AC_BF16, (const uint16_t *)home->data + first, block, count);
  copy->data = ac_element(block, AC_F32, -first);
}

/* The arguments with which a formula steps elements [first, first + count). */
static inline const ac_op_args *stepped_load(stepped_block *b, int64_t first, int64_t count) {
  stepped_widen(&b->home->out[0], &b->args.out[0], b->values, first, count);
  stepped_widen(&b->home->in[0], &b->args.in[0], b->gradient, first, count);
  return &b->args;
}

static inline void stepped_store(const stepped_block *b, int64_t first, int64_t count) {
  if (is_rounded(&b->home->out[0]))
    round_by_chance(&b->chance, 0, first, count, b->values,
                    (uint16_t *)b->home->out[0].data + first);
}

/* Runs a range function of floats, whatever parameter and gradient are stored in. */
static inline void stepped_range(const ac_op_args *args, int64_t first, int64_t last,
                                 ac_cpu_range range) {
  if (!is_rounded(&args->out[0]) && !is_rounded(&args->in[0])) {
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
