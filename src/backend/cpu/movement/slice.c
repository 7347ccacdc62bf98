/* Parts of a tensor, also beyond its ends, and their gradient.
 *
 * slice: an item of work is an index of the last axis of the part, with its `inner` elements. Those
 * of a row that lie within x are one run if they follow each other there.
 *
 * slice_gradient: a window of a row of dx, as long as what is added up on the stack. It is the sum
 * over all rows of dy that were taken from this row of x, in their order, and in these over the
 * elements that were taken from the window. */
#include "ops/movement/slice.h"

#include "backend/cpu/shared/convert.h"

#include <string.h>

/* ---- elements as they are stored ------------------------------------------------------------- */

static void fill(void *y, size_t size, uint32_t bits, int64_t count) {
  uint32_t *words = y;
  uint16_t *halves = y;
  if (size == 4)
    for (int64_t i = 0; i < count; i++) words[i] = bits;
  else
    for (int64_t i = 0; i < count; i++) halves[i] = (uint16_t)bits;
}

/* y[i] = x[i * step] */
static void copy_steps(const void *x, int64_t step, void *y, size_t size, int64_t count) {
  if (size == 4) {
    const uint32_t *from = x;
    uint32_t *to = y;
    if (step == -1)
      for (int64_t i = 0; i < count; i++) to[i] = from[-i];
    else
      for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
  } else {
    const uint16_t *from = x;
    uint16_t *to = y;
    if (step == -1)
      for (int64_t i = 0; i < count; i++) to[i] = from[-i];
    else
      for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
  }
}

/* y += x, rounded once; both as they are stored. */
static void add(ac_dtype dtype, bool mark, const void *x, void *y, int64_t count) {
  float floats[AC_CPU_RUN];
  if (dtype == AC_F32) {
    ac_cpu_accumulate(AC_F32, false, x, y, count);
    return;
  }
  for (int64_t i = 0, n; i < count; i += n) {
    n = ac_smaller(AC_CPU_RUN, count - i);
    ac_cpu_widen(dtype, ac_element(x, dtype, i), floats, n);
    ac_cpu_accumulate(dtype, mark, floats, ac_element(y, dtype, i), n);
  }
}

/* What an earlier op flushed and marked there is not to be counted again as this op's. */
static void unmark(const ac_op_args *args, void *y, int64_t count) {
  uint16_t *bits = y;
  if (args->out[0].dtype != AC_F16 || !args->run->mark_flushed) return;
  for (int64_t i = 0; i < count; i++) bits[i] = bits[i] == 0x8000 ? 0 : bits[i];
}

/* ---- slice ----------------------------------------------------------------------------------- */

typedef struct slicing {
  const ac_op_args *args;
  ac_sliced_axes axes;
  int32_t outside;
  ac_dtype dtype;
  size_t size;   /* bytes of an element */
  uint32_t bits; /* of the value outside */
} slicing;

static uint32_t bits_of(ac_dtype dtype, float value) {
  uint32_t bits = 0;
  if (dtype != AC_I32) ac_cpu_narrow(dtype, false, &value, &bits, 1);
  if (ac_element_bytes(dtype) == 2) {
    uint16_t half;
    memcpy(&half, &bits, sizeof half);
    bits = half;
  }
  return bits;
}

static slicing slicing_of(const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  const ac_dtype dtype = args->out[0].dtype;
  return (slicing){args,
                   ac_sliced_axes_of(&args->in[0], &args->out[0], a),
                   a->outside,
                   dtype,
                   ac_element_bytes(dtype),
                   bits_of(dtype, a->value)};
}

static void put_outside(const slicing *s, void *y, int64_t count) {
  uint32_t block[AC_CPU_RUN];
  if (!s->args->add[0]) fill(y, s->size, s->bits, count);
  else if (!s->bits) unmark(s->args, y, count);
  else
    for (int64_t i = 0; i < count; i += AC_CPU_RUN) {
      const int64_t n = ac_smaller(AC_CPU_RUN, count - i);
      fill(block, s->size, s->bits, n);
      add(s->dtype, s->args->run->mark_flushed, block, ac_element(y, s->dtype, i), n);
    }
}

static void put(const slicing *s, const void *x, void *y, int64_t count) {
  if (s->args->add[0]) add(s->dtype, s->args->run->mark_flushed, x, y, count);
  else memcpy(y, x, (size_t)count * s->size);
}

/* Elements that lie `step` apart. */
static void put_steps(const slicing *s, const char *x, int64_t step, char *y, int64_t count) {
  uint32_t block[AC_CPU_RUN];
  if (!s->args->add[0]) {
    copy_steps(x, step, y, s->size, count);
    return;
  }
  for (int64_t i = 0, n; i < count; i += n) {
    n = ac_smaller(AC_CPU_RUN, count - i);
    copy_steps(ac_element(x, s->dtype, i * step), step, block, s->size, n);
    add(s->dtype, s->args->run->mark_flushed, block, ac_element(y, s->dtype, i), n);
  }
}

/* Indices [i, end) of the last axis, all within x or all outside. x: its row; y: index i. */
static void put_indices(const slicing *s, const char *x, char *y, int64_t i, int64_t end) {
  const ac_sliced_axis *a = &s->axes.axis[s->axes.rank - 1];
  const int64_t inner = s->axes.inner, at = a->first + i * a->step;
  const bool within = at >= 0 && at < a->whole;
  if (i >= end) return;
  if (within && a->step == 1) {
    put(s, ac_element(x, s->dtype, at * inner), y, (end - i) * inner);
  } else if (within && inner == 1) {
    put_steps(s, ac_element(x, s->dtype, at), a->step, y, end - i);
  } else if (!within && s->outside == AC_OUTSIDE_VALUE) {
    put_outside(s, y, (end - i) * inner);
  } else if (!within && inner == 1) { /* backwards, or the same again */
    put_steps(s, ac_element(x, s->dtype, ac_sliced_index(a, s->outside, i)),
              s->outside == AC_OUTSIDE_REFLECTED ? -1 : 0, y, end - i);
  } else {
    for (; i < end; i++, y += (size_t)inner * s->size)
      put(s, ac_element(x, s->dtype, ac_sliced_index(a, s->outside, i) * inner), y, inner);
  }
}

/* Where row number `row` of the part begins in x, in elements; -1: outside. */
static int64_t row_of_whole(const slicing *s, int64_t row) {
  const ac_sliced_axes *axes = &s->axes;
  int64_t at = 0, stride = axes->axis[axes->rank - 1].whole * axes->inner;
  for (int d = axes->rank - 2; d >= 0; d--) {
    const ac_sliced_axis *a = &axes->axis[d];
    const int64_t index = ac_sliced_index(a, s->outside, row % a->part);
    if (index < 0) return -1;
    at += index * stride;
    stride *= a->whole;
    row /= a->part;
  }
  return at;
}

static void slice_range(const ac_op_args *args, int64_t first, int64_t last) {
  const slicing s = slicing_of(args);
  const ac_sliced_axis *a = &s.axes.axis[s.axes.rank - 1];
  const int64_t inner = s.axes.inner;
  int64_t before = 0, behind = a->part; /* indices in between lie within x */
  if (a->step == 1) before = -a->first, behind = a->whole - a->first;
  if (a->step == -1) before = a->first - a->whole + 1, behind = a->first + 1;
  before = ac_smaller(a->part, ac_larger(0, before));
  behind = ac_larger(before, ac_smaller(a->part, behind));
  for (int64_t item = first; item < last;) {
    const int64_t row = item / a->part, i = item - row * a->part,
                  end = ac_smaller(a->part, i + last - item);
    const int64_t from = row_of_whole(&s, row);
    char *y = ac_element(args->out[0].data, s.dtype, item * inner);
    item += end - i;
    if (from < 0) {
      put_outside(&s, y, (end - i) * inner);
      continue;
    }
    const char *x = ac_element(args->in[0].data, s.dtype, from);
    const int64_t cut = ac_larger(i, ac_smaller(end, before)),
                  rest = ac_larger(cut, ac_smaller(end, behind));
    put_indices(&s, x, y, i, cut);
    put_indices(&s, x, y + (size_t)((cut - i) * inner) * s.size, cut, rest);
    put_indices(&s, x, y + (size_t)((rest - i) * inner) * s.size, rest, end);
  }
}

static void slice(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  const ac_sliced_axes axes = ac_sliced_axes_of(&args->in[0], &args->out[0], a);
  ac_cpu_for(context, args, args->out[0].count / axes.inner, axes.inner, slice_range);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* Of a row of dx: indices [j, j + indices) of its last axis, and [c, c + width) of the elements of
 * each. */
typedef struct window {
  int64_t j, indices, c, width;
} window;

enum { WINDOW = 512 };

/* Windows that an axis, or the inner elements of an index, are cut into. */
static int64_t indices_of(const ac_sliced_axes *axes) {
  return ac_larger(1, WINDOW / axes->inner);
}
static int64_t windows_of(const ac_sliced_axes *axes) {
  return ac_ceil_div(axes->axis[axes->rank - 1].whole, indices_of(axes)) *
         ac_ceil_div(axes->inner, WINDOW);
}

/* sum += the inner elements of index i of a row of dy that lie in the window. */
static void add_index(const slicing *s, const window *w, const void *dy, int64_t i, int64_t j,
                      float *sum) {
  float block[WINDOW];
  const float *x = ac_element(dy, s->dtype, i * s->axes.inner + w->c);
  if (s->dtype != AC_F32) {
    ac_cpu_widen(s->dtype, x, block, w->width);
    x = block;
  }
#pragma omp simd
  for (int64_t c = 0; c < w->width; c++) sum[(j - w->j) * w->width + c] += x[c];
}

/* Those of indices that follow each other in x as well. */
static void add_run(const slicing *s, const window *w, const void *dy, int64_t i, int64_t j,
                    int64_t count, float *sum) {
  const window all = {j, count, 0, count * w->width};
  const int64_t inner = s->axes.inner;
  if (w->width == inner) {
    slicing flat = *s;
    flat.axes.inner = 1;
    add_index(&flat, &all, ac_element(dy, s->dtype, i * inner), 0, j, sum + (j - w->j) * w->width);
  } else {
    add_index(s, w, dy, i, j, sum);
  }
}

/* Indices of the part that steps take from [j, end): [*first, *last). */
static void steps_within(const ac_sliced_axis *a, int64_t j, int64_t end, int64_t *first,
                         int64_t *last) {
  const int64_t step = a->step > 0 ? a->step : -a->step,
                begin = a->step > 0 ? j - a->first : a->first - end + 1, length = end - j;
  *first = begin > 0 ? ac_smaller(a->part, ac_ceil_div(begin, step)) : 0;
  *last = begin + length > 0 ? ac_smaller(a->part, ac_ceil_div(begin + length, step)) : 0;
}

/* A row of dy, if every step-th element of x was taken. */
static void add_steps(const slicing *s, const window *w, const void *dy, float *sum) {
  const ac_sliced_axis *a = &s->axes.axis[s->axes.rank - 1];
  int64_t i, last;
  steps_within(a, w->j, w->j + w->indices, &i, &last);
  if (s->axes.inner > 1) {
    for (; i < last; i++) add_index(s, w, dy, i, a->first + i * a->step, sum);
  } else if (i < last) {
    float block[WINDOW];
    ac_cpu_widen(s->dtype, ac_element(dy, s->dtype, i), block, last - i);
    float *to = sum + a->first + i * a->step - w->j;
    for (int64_t k = 0; k < last - i; k++) to[k * a->step] += block[k];
  }
}

/* The next index of the part, from i on, that was taken from index j; the part's length: none. */
static int64_t next_taken(const ac_sliced_axis *a, int32_t outside, int64_t j, int64_t i) {
  if (a->step != 1) {
    const int64_t at = (j - a->first) / a->step;
    return at >= i && at < a->part && a->first + at * a->step == j ? at : a->part;
  }
  for (; i < a->part; i++) {
    const int64_t at = a->first + i;
    if (at < 0 || at >= a->whole) {
      if (ac_sliced_index(a, outside, i) == j) return i;
    } else if (j >= at) {
      return ac_smaller(a->part, j - a->first);
    } else {
      i = a->whole - a->first - 1;
    }
  }
  return a->part;
}

/* A row of dy. */
static void add_row(const slicing *s, const window *w, const void *dy, float *sum) {
  const ac_sliced_axis *a = &s->axes.axis[s->axes.rank - 1];
  const int64_t end = w->j + w->indices, first = ac_larger(w->j, a->first),
                last = ac_smaller(end, a->first + a->part);
  if (a->step != 1) {
    add_steps(s, w, dy, sum);
    return;
  }
  if (first < last) add_run(s, w, dy, first - a->first, first, last - first, sum);
  for (int64_t i = 0; i < a->part; i++) { /* outside */
    if (i == ac_larger(0, -a->first)) i = ac_larger(i, a->whole - a->first);
    if (i >= a->part) break;
    const int64_t j = ac_sliced_index(a, s->outside, i);
    if (j >= w->j && j < end) add_index(s, w, dy, i, j, sum);
  }
}

/* Adds the rows of dy that were taken from the row of dx with these indices, as to axes from d on;
 * `row` is what earlier axes make of the number of the row. */
static void add_rows(const slicing *s, const window *w, const int64_t *index, int d, int64_t row,
                     float *sum) {
  const ac_sliced_axis *a = &s->axes.axis[d];
  if (d == s->axes.rank - 1) {
    add_row(s, w, ac_element(s->args->in[0].data, s->dtype, row * a->part * s->axes.inner), sum);
    return;
  }
  for (int64_t i = 0; (i = next_taken(a, s->outside, index[d], i)) < a->part; i++)
    add_rows(s, w, index, d + 1, row * a->part + i, sum);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_slice_attributes *attributes = args->attributes;
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  const slicing s = {args,      ac_sliced_axes_of(dx, dy, attributes), attributes->outside,
                     dx->dtype, ac_element_bytes(dx->dtype),           0};
  const ac_sliced_axes *axes = &s.axes;
  const int64_t length = axes->axis[axes->rank - 1].whole, most = indices_of(axes),
                parts = ac_ceil_div(axes->inner, WINDOW), windows = windows_of(axes);
  const bool mark = args->run->mark_flushed;
  float sum[WINDOW];
  for (int64_t item = first; item < last; item++) {
    const int64_t row = item / windows, k = item % windows;
    window w = {.j = k / parts * most, .c = k % parts * WINDOW};
    w.indices = ac_smaller(most, length - w.j);
    w.width = ac_smaller(WINDOW, axes->inner - w.c);
    int64_t index[AC_MAX_RANK], rest = row;
    for (int d = axes->rank - 2; d >= 0; d--) {
      index[d] = rest % axes->axis[d].whole;
      rest /= axes->axis[d].whole;
    }
    const int64_t count = w.indices * w.width;
    memset(sum, 0, (size_t)count * sizeof *sum);
    add_rows(&s, &w, index, 0, 0, sum);
    void *to = ac_element(dx->data, dx->dtype, (row * length + w.j) * axes->inner + w.c);
    if (!args->add[0]) ac_cpu_narrow(dx->dtype, mark, sum, to, count);
    else
      for (int64_t i = 0; i < count; i += AC_CPU_RUN)
        ac_cpu_accumulate(dx->dtype, mark, sum + i, ac_element(to, dx->dtype, i),
                          ac_smaller(AC_CPU_RUN, count - i));
  }
}

static void slice_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  const ac_sliced_axes axes = ac_sliced_axes_of(&args->out[0], &args->in[0], a);
  const int64_t rows = args->out[0].count / axes.inner / axes.axis[axes.rank - 1].whole;
  ac_cpu_for(context, args, rows * windows_of(&axes), WINDOW, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(slice) = {.run = slice};
const ac_cpu_kernel AC_CPU_KERNEL(slice_gradient) = {.run = slice_gradient};
