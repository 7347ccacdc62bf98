/* What the steps of parameters share. */
#ifndef AC_BACKEND_CPU_UPDATE_H
#define AC_BACKEND_CPU_UPDATE_H

#include "backend/cpu/shared/kernels.h"

#include "backend/cpu/shared/convert.h"
#include "backend/cpu/update/eight_bit.h"
#include "backend/cpu/update/rounding.h"

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
    round_by_chance(&b->chance, 0, b->home->first + first, count, b->values,
                    (uint16_t *)b->home->out[0].data + first);
}

static inline bool is_stepped_by_blocks(const ac_op_args *args) {
  return is_rounded(&args->out[0]) || is_rounded(&args->in[0]);
}

/* Runs a range function of floats, whatever parameter and gradient are stored in. */
static inline void stepped_part(stepped_block *b, int64_t first, int64_t last, ac_cpu_range range) {
  if (!is_stepped_by_blocks(b->home)) {
    range(b->home, first, last);
    return;
  }
  for (int64_t at = first, end; at < last; at = end) {
    end = ac_smaller(last, at + AC_CPU_STEPPED);
    range(stepped_load(b, at, end - at), at, end);
    stepped_store(b, at, end - at);
  }
}

/* The same of a range alone. */
static inline void stepped_range(const ac_op_args *args, int64_t first, int64_t last,
                                 ac_cpu_range range) {
  if (!is_stepped_by_blocks(args)) {
    range(args, first, last);
    return;
  }
  stepped_block b;
  stepped_begin(&b, args);
  stepped_part(&b, first, last, range);
}

/* What only reads parameter or gradient works on runs of at most so many elements, */
static inline int64_t stepped_run(const ac_op_args *args) {
  return is_stepped_by_blocks(args) ? AC_CPU_STEPPED : INT64_MAX;
}

/* each as floats from element `first` on: its own, or copies in a block. */
static inline const float *stepped_read(const ac_operand *x, int64_t first, int64_t count,
                                        float *block) {
  if (!is_rounded(x)) return (const float *)x->data + first;
  ac_cpu_widen(AC_BF16, (const uint16_t *)x->data + first, block, count);
  return block;
}

/* An optimizer's formula for `count` elements from `first` on, with what is kept of these as
 * floats; NULL: nothing is. It leaves the working copy alone. */
typedef void ac_cpu_formula(const ac_op_args *args, int64_t first, int64_t count, float *kept0,
                            float *kept1);

/* At most; the first has a sign, the second is a mean of squares. */
enum { AC_CPU_STATES = 2 };

/* ---- blocks of 8 bits ------------------------------------------------------------------------ */

/* What is read of a block, as bytes. */
typedef struct stepped_lines {
  uintptr_t values, gradient, codes[AC_CPU_STATES];
  int64_t value_bytes, gradient_bytes; /* of an element */
} stepped_lines;

static inline stepped_lines lines_of(const ac_op_args *args, int states, int64_t block) {
  const ac_operand *p = &args->out[0], *g = &args->in[0];
  const int64_t at = block * AC_EIGHT_BIT_BLOCK;
  stepped_lines s = {
      (uintptr_t)p->data, (uintptr_t)g->data, {0}, is_rounded(p) ? 2 : 4, is_rounded(g) ? 2 : 4};
  s.values += (uintptr_t)(at * s.value_bytes);
  s.gradient += (uintptr_t)(at * s.gradient_bytes);
  for (int k = 0; k < states; k++)
    s.codes[k] = (uintptr_t)args->out[1 + k].data + (uintptr_t)(block * AC_EIGHT_BIT_BYTES);
  return s;
}

/* Starts to read elements [i, i + EIGHT_BIT_RUN) of a block that is stepped soon: memory is then
 * read while formulas are computed. Inlined always: gcc drops calls of functions that only
 * prefetch, as if they did nothing. Reading past the end is not an error. */
__attribute__((always_inline)) static inline void prefetch_run(const stepped_lines *s, int states,
                                                               int64_t i) {
  for (int64_t e = i; e < i + EIGHT_BIT_RUN; e += AC_CPU_LINE) {
    __builtin_prefetch((const void *)(s->values + (uintptr_t)(e * s->value_bytes)));
    __builtin_prefetch((const void *)(s->gradient + (uintptr_t)(e * s->gradient_bytes)));
    for (int k = 0; k < states; k++) __builtin_prefetch((const void *)(s->codes[k] + (uintptr_t)e));
  }
}

/* A block that is stepped: floats in place, or copies of what is not f32 or not whole; a copy has
 * zeros after the end. */
typedef struct stepped_codes {
  _Alignas(64) float kept[AC_CPU_STATES][AC_EIGHT_BIT_BLOCK];
  _Alignas(64) float copies[2][AC_EIGHT_BIT_BLOCK];
  float *values, *gradient;
  uint8_t *codes[AC_CPU_STATES];
  int64_t at, count;
} stepped_codes;

static inline float *floats_of_block(const ac_operand *x, int64_t at, int64_t count, float *copy) {
  if (count == AC_EIGHT_BIT_BLOCK && !is_rounded(x)) return (float *)x->data + at;
  if (is_rounded(x)) ac_cpu_widen(AC_BF16, (const uint16_t *)x->data + at, copy, count);
  else memcpy(copy, (const float *)x->data + at, (size_t)count * sizeof *copy);
  memset(copy + count, 0, (size_t)(AC_EIGHT_BIT_BLOCK - count) * sizeof *copy);
  return copy;
}

static inline void block_load(stepped_codes *s, const ac_op_args *args, int states, int64_t block) {
  s->at = block * AC_EIGHT_BIT_BLOCK;
  s->count = ac_smaller(AC_EIGHT_BIT_BLOCK, args->in[0].count - s->at);
  s->values = floats_of_block(&args->out[0], s->at, s->count, s->copies[0]);
  s->gradient = floats_of_block(&args->in[0], s->at, s->count, s->copies[1]);
  for (int k = 0; k < states; k++) {
    s->codes[k] = (uint8_t *)args->out[1 + k].data + block * AC_EIGHT_BIT_BYTES;
    if (s->count < AC_EIGHT_BIT_BLOCK)
      memset(s->codes[k] + s->count, ac_eight_bit_zero(k == 0),
             (size_t)(AC_EIGHT_BIT_BLOCK - s->count));
  }
}

/* A block of nothing but zeros. */
static inline void block_load_none(stepped_codes *s, uint8_t codes[][AC_EIGHT_BIT_BYTES]) {
  memset(s->kept, 0, sizeof s->kept);
  memset(s->copies, 0, sizeof s->copies);
  s->values = s->copies[0];
  s->gradient = s->copies[1];
  for (int k = 0; k < AC_CPU_STATES; k++) s->codes[k] = codes[k];
}

/* Parameter and working copy. */
static inline void block_store(const stepped_codes *s, const ac_op_args *args, int states,
                               const random_mask *chance) {
  const ac_operand *p = &args->out[0], *w = &args->out[1 + states];
  if (is_rounded(p))
    round_by_chance(chance, 0, args->first + s->at, s->count, s->values,
                    (uint16_t *)p->data + s->at);
  else if (s->values == s->copies[0])
    memcpy((float *)p->data + s->at, s->values, (size_t)s->count * sizeof *s->values);
  if (w->count)
    ac_cpu_narrow(w->dtype, args->run->mark_flushed, s->values,
                  ac_element(w->data, w->dtype, s->at), s->count);
}

/* Blocks of 8 bits. Each is read and written once, a run of elements at a time: with vectors a run
 * is decoded, stepped and compared in registers, because formulas are inlined with that constant
 * count. At the same time the block before is finished: its second formula, and its codes, because
 * its scale is known by then. So the CPU always has work that does not wait. There is a block of
 * zeros before the first and after the last, because a condition for each run would cost more.
 * `attributes` are a copy of the caller's, so that the compiler knows that no store changes
 * them. */
__attribute__((always_inline)) static inline void
ac_cpu_step_blocks(const ac_op_args *args, const void *attributes, int states, ac_cpu_formula *step,
                   ac_cpu_formula *then, int64_t first, int64_t last) {
  const bool by_runs = (int)EIGHT_BIT_RUN < (int)AC_EIGHT_BIT_BLOCK;
  const eight_bit_tables with_sign = eight_bit_tables_of(true),
                         without = eight_bit_tables_of(false);
  uint8_t no_codes[AC_CPU_STATES][AC_EIGHT_BIT_BYTES] = {{0}};
  random_mask chance = {0};
  if (is_rounded(&args->out[0])) chance = rounding_of(args, AC_WEIGHT_STREAM);
  stepped_codes sides[2], none, *before = &none;
  block_load_none(&none, no_codes);
  eight_bit_writer out0 = eight_bit_end_none(no_codes[0]), out1 = eight_bit_end_none(no_codes[1]);
  for (int64_t block = first; block <= last; block++) {
    stepped_codes *now = block < last ? &sides[block % 2] : &none;
    const bool is_stepped = by_runs || now != &none, is_stored = by_runs || before != &none;
    if (now != &none) block_load(now, args, states, block);
    ac_op_args own = *args, own_before; /* operands of formulas begin with the block */
    own.attributes = attributes;
    own_before = own;
    own.out[0].data = now->values;
    own.in[0].data = now->gradient;
    own_before.out[0].data = before->values;
    const stepped_lines ahead = lines_of(args, states, block + 2);
    eight_bit_reader in0 = eight_bit_begin(&with_sign, now->codes[0]), in1;
    if (states > 1) in1 = eight_bit_begin(&without, now->codes[1]);
    for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i += EIGHT_BIT_RUN) {
      if (is_stepped) {
        /* Its own, so that a compiler keeps it in registers. */
        _Alignas(64) float kept[AC_CPU_STATES][EIGHT_BIT_RUN];
        prefetch_run(&ahead, states, i);
        eight_bit_load(&in0, i, true, kept[0]);
        if (states > 1) eight_bit_load(&in1, i, false, kept[1]);
        step(&own, i, EIGHT_BIT_RUN, kept[0], kept[1]);
        eight_bit_compare(&in0, kept[0]);
        if (states > 1) eight_bit_compare(&in1, kept[1]);
        for (int k = 0; k < states; k++) memcpy(now->kept[k] + i, kept[k], sizeof kept[k]);
      }
      if (then && is_stored)
        then(&own_before, i, EIGHT_BIT_RUN, before->kept[0] + i, before->kept[1] + i);
    }
    eight_bit_prepare(&out0, before->kept[0]);
    if (states > 1) eight_bit_prepare(&out1, before->kept[1]);
    for (int i = 0; i < AC_EIGHT_BIT_BLOCK && is_stored; i += EIGHT_BIT_STORED) {
      eight_bit_store(&with_sign, &out0, i, true, before->kept[0] + i);
      if (states > 1) eight_bit_store(&without, &out1, i, false, before->kept[1] + i);
    }
    if (before != &none) block_store(before, args, states, &chance);
    out0 = eight_bit_end(&in0, now->codes[0]);
    if (states > 1) out1 = eight_bit_end(&in1, now->codes[1]);
    before = now;
  }
}

/* ---- in optimizer.c -------------------------------------------------------------------------- */

#define ac_cpu_step_floats AC_CPU_NAME(ac_cpu_step_floats)
#define ac_cpu_run_formula AC_CPU_NAME(ac_cpu_run_formula)

/* The formula for elements and their working copy. Outputs are the parameter, `states` of what is
 * kept, and the copy. */
void ac_cpu_step_floats(const ac_op_args *args, int states, ac_cpu_formula *step, int64_t first,
                        int64_t last);

/* One of these, as states are stored. */
void ac_cpu_run_formula(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range floats,
                        ac_cpu_range blocks);

/* The kernel of an op that is the formula NAME_step and nothing else. Blocks of 8 bits may have it
 * as two, `step` and `then`; `then` runs some elements later. Roots and quotients take long, and
 * other work is done meanwhile. If there is only one formula, `then` is NULL. */
#define AC_CPU_OPTIMIZER(name, states, step, then)                                          \
  static void name##_f32(const ac_op_args *args, int64_t first, int64_t last) {             \
    ac_cpu_step_floats(args, states, name##_step, first, last);                             \
  }                                                                                         \
  static void name##_floats(const ac_op_args *args, int64_t first, int64_t last) {          \
    stepped_range(args, first, last, name##_f32);                                           \
  }                                                                                         \
  static __attribute__((flatten)) void name##_blocks(const ac_op_args *args, int64_t first, \
                                                     int64_t last) {                        \
    const ac_##name##_attributes own = *(const ac_##name##_attributes *)args->attributes;   \
    ac_cpu_step_blocks(args, &own, states, step, then, first, last);                        \
  }                                                                                         \
  static void name(const ac_cpu_context *context, const ac_op_args *args) {                 \
    ac_cpu_run_formula(context, args, name##_floats, name##_blocks);                        \
  }                                                                                         \
  const ac_cpu_kernel AC_CPU_KERNEL(name) = {.run = name};

#endif
