/* The operands of the op `pointwise`, as runs of floats: any elements of the result that follow
 * each other take so many floats of an operand, repeated as NumPy does.
 *
 * What goes along with the result is read where it is, or converted. What begins again after at
 * most a block is laid out once, so long that a run can begin anywhere in it: scalars, short rows.
 * Of anything else the innermost dimension is a run in memory, or one element for a run of results:
 * a block within a run is read where it is, or filled once; others are put together from pieces. */
#ifndef AC_BACKEND_CPU_SOURCE_H
#define AC_BACKEND_CPU_SOURCE_H

#include "backend/cpu/shared/convert.h"
#include "core/half.h"
#include "ops/pointwise/repetition.h"

#include <string.h>

typedef struct source {
  const void *data;
  ac_dtype dtype;
  bool whole;
  int outer;                                     /* dimensions around a run */
  int64_t dim[AC_MAX_RANK], stride[AC_MAX_RANK]; /* their sizes, and their steps in the operand */
  int64_t run, step; /* results in a run; 1, or 0: one element for all */
  int64_t period;    /* laid out once; 0: not */
  /* The current run: its first result, its first element, its place in the outer dimensions, and
   * whether the buffer is filled with it. Blocks follow each other, so the next is found without a
   * division. */
  int64_t begin, at, place[AC_MAX_RANK];
  bool filled;
  int64_t block; /* the most elements of one */
  float *buffer; /* of a block, or of a block and a period; or NULL */
} source;

/* Runs of at least so many elements are not laid out. */
enum { SOURCE_LONG = 256 };

static inline bool source_is_long(const source *s) {
  return !s->whole && !s->period && s->run >= ac_smaller(s->block, SOURCE_LONG);
}

/* Floats of buffer that it takes for blocks of so many elements. */
static inline int64_t source_begin(source *s, const ac_operand *x, const ac_operand *result,
                                   int64_t block) {
  ac_repetition r;
  ac_repetition_of(&r, x, result);
  *s = (source){.data = x->data, .dtype = x->dtype, .block = block};
  s->whole = ac_repetition_is_none(&r);
  if (s->whole) return x->dtype == AC_F32 ? 0 : block;
  s->outer = r.rank - 1;
  for (int k = 0; k < s->outer; k++) s->dim[k] = r.dim[k], s->stride[k] = r.stride[k];
  s->run = r.dim[s->outer];
  s->step = r.stride[s->outer];
  s->begin = -s->run;
  const int64_t period = ac_repetition_period(&r);
  if (period <= block && (!source_is_long(s) || period < s->run)) s->period = period;
  return s->period ? s->period + block : block;
}

static inline float source_element(const source *s, int64_t at) {
  const void *from = ac_element(s->data, s->dtype, at);
  if (s->dtype == AC_F32) return *(const float *)from;
  const uint16_t bits = *(const uint16_t *)from;
  return s->dtype == AC_F16 ? ac_f16_to_float(bits) : ac_bf16_to_float(bits);
}

static inline void source_fill(float *to, float value, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i] = value;
}

/* Goes to the run that the result is in. */
static inline void source_find(source *s, int64_t first) {
  int64_t run = first / s->run;
  s->begin = run * s->run;
  s->at = 0;
  s->filled = false;
  for (int k = s->outer - 1; k >= 0; k--) {
    s->place[k] = run % s->dim[k];
    run /= s->dim[k];
    s->at += s->place[k] * s->stride[k];
  }
}

static inline void source_next(source *s) {
  s->begin += s->run;
  s->filled = false;
  for (int k = s->outer - 1; k >= 0; k--) {
    s->at += s->stride[k];
    if (++s->place[k] < s->dim[k]) break;
    s->at -= s->stride[k] * s->dim[k];
    s->place[k] = 0;
  }
}

/* The same for a block that may follow the last one. */
static inline void source_reach(source *s, int64_t first) {
  if (first >= s->begin && first - s->begin < s->run) return;
  if (first == s->begin + s->run && s->begin >= 0) source_next(s);
  else source_find(s, first);
}

/* From several runs. */
static inline void source_pieces(source *s, int64_t first, int64_t count, float *to) {
  source_reach(s, first);
  while (true) {
    const int64_t skip = first - s->begin, piece = ac_smaller(s->run - skip, count);
    if (!s->step) source_fill(to, source_element(s, s->at), piece);
    else if (piece < 8)
      for (int64_t i = 0; i < piece; i++) to[i] = source_element(s, s->at + skip + i);
    else ac_cpu_widen(s->dtype, ac_element(s->data, s->dtype, s->at + skip), to, piece);
    to += piece, first += piece, count -= piece;
    if (count == 0) break;
    source_next(s);
  }
  s->filled = false;
}

/* Lays out what is short, with a buffer of what source_begin said. */
static inline void source_lay_out(source *s, float *buffer, int64_t block, int64_t count) {
  s->buffer = buffer;
  if (s->period) source_pieces(s, 0, ac_smaller(s->period + block, count), buffer);
}

/* Where a block that begins here must end so that it lies in one run, if runs are long. */
static inline int64_t source_limit(source *s, int64_t first, int64_t last) {
  if (!source_is_long(s)) return last;
  source_reach(s, first);
  return ac_smaller(last, s->begin + s->run);
}

/* `count` floats for the results from `first` on. */
static inline const float *source_take(source *s, int64_t first, int64_t count) {
  if (s->period) return s->buffer + (s->period == 1 ? 0 : first % s->period);
  int64_t at = first;
  if (!s->whole) {
    source_reach(s, first);
    const int64_t skip = first - s->begin;
    if (skip + count > s->run) {
      source_pieces(s, first, count, s->buffer);
      return s->buffer;
    }
    if (!s->step) {
      if (!s->filled) source_fill(s->buffer, source_element(s, s->at), s->block);
      s->filled = true;
      return s->buffer;
    }
    at = s->at + skip;
  }
  const void *from = ac_element(s->data, s->dtype, at);
  if (s->dtype == AC_F32) return from;
  ac_cpu_widen(s->dtype, from, s->buffer, count);
  return s->buffer;
}

#endif
