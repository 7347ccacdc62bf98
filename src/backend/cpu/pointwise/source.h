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
  int64_t held;      /* the run that the buffer is filled with; -1: none */
  int64_t block;     /* the most elements of one */
  float *buffer;     /* of a block, or of a block and a period; or NULL */
} source;

/* Floats of buffer that it takes for blocks of so many elements. */
static inline int64_t source_begin(source *s, const ac_operand *x, const ac_operand *result,
                                   int64_t block) {
  ac_repetition r;
  ac_repetition_of(&r, x, result);
  *s = (source){.data = x->data, .dtype = x->dtype, .held = -1, .block = block};
  s->whole = ac_repetition_is_none(&r);
  if (s->whole) return x->dtype == AC_F32 ? 0 : block;
  s->outer = r.rank - 1;
  for (int k = 0; k < s->outer; k++) s->dim[k] = r.dim[k], s->stride[k] = r.stride[k];
  s->run = r.dim[s->outer];
  s->step = r.stride[s->outer];
  const int64_t period = ac_repetition_period(&r);
  const bool short_run = s->run < block;
  if (period <= block && (short_run || period < s->run)) s->period = period;
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

/* Where the run begins, and what its place in each outer dimension is. */
static inline int64_t source_place(const source *s, int64_t run, int64_t place[AC_MAX_RANK]) {
  int64_t at = 0;
  for (int k = s->outer - 1; k >= 0; k--) {
    place[k] = run % s->dim[k];
    run /= s->dim[k];
    at += place[k] * s->stride[k];
  }
  return at;
}

/* The next run. */
static inline int64_t source_next(const source *s, int64_t at, int64_t place[AC_MAX_RANK]) {
  for (int k = s->outer - 1; k >= 0; k--) {
    at += s->stride[k];
    if (++place[k] < s->dim[k]) break;
    at -= s->stride[k] * s->dim[k];
    place[k] = 0;
  }
  return at;
}

/* From several runs. */
static inline void source_pieces(const source *s, int64_t first, int64_t count, float *to) {
  int64_t place[AC_MAX_RANK], skip = first % s->run;
  int64_t at = source_place(s, first / s->run, place);
  while (count > 0) {
    const int64_t piece = ac_min(s->run - skip, count);
    if (!s->step) source_fill(to, source_element(s, at), piece);
    else if (piece < 8)
      for (int64_t i = 0; i < piece; i++) to[i] = source_element(s, at + skip + i);
    else ac_cpu_widen(s->dtype, ac_element(s->data, s->dtype, at + skip), to, piece);
    to += piece, count -= piece, skip = 0;
    at = source_next(s, at, place);
  }
}

/* Lays out what is short, with a buffer of what source_begin said. */
static inline void source_lay_out(source *s, float *buffer, int64_t block, int64_t count) {
  s->buffer = buffer;
  if (s->period) source_pieces(s, 0, ac_min(s->period + block, count), buffer);
}

/* Where a block that begins here must end so that it lies in one run, if runs are long. */
static inline int64_t source_limit(const source *s, int64_t first, int64_t last, int64_t block) {
  if (s->whole || s->period || s->run < block) return last;
  return ac_min(last, first - first % s->run + s->run);
}

/* `count` floats for the results from `first` on. */
static inline const float *source_take(source *s, int64_t first, int64_t count) {
  if (s->period) return s->buffer + first % s->period;
  int64_t at = first;
  if (!s->whole) {
    int64_t place[AC_MAX_RANK];
    const int64_t run = first / s->run, skip = first - run * s->run;
    if (skip + count > s->run) {
      source_pieces(s, first, count, s->buffer);
      s->held = -1;
      return s->buffer;
    }
    at = source_place(s, run, place) + skip;
    if (!s->step) {
      if (run != s->held) source_fill(s->buffer, source_element(s, at - skip), s->block);
      s->held = run;
      return s->buffer;
    }
  }
  const void *from = ac_element(s->data, s->dtype, at);
  if (s->dtype == AC_F32) return from;
  ac_cpu_widen(s->dtype, from, s->buffer, count);
  return s->buffer;
}

#endif
