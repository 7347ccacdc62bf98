/* reduce, and its gradient.
 *
 * A task is a part of the elements of one result or, where neighbouring elements are of
 * neighbouring results, of a strip of these. Where there are few results, the elements of each are
 * cut into slices, whose states wait in the workspace until all are there. How depends on the shape
 * alone, so the bits do not depend on the threads. */
#include "backend/cpu/reduction/blocks.h"
#include "backend/cpu/shared/convert.h"

#include <string.h>

/* Fewer tasks are cut into slices, of so many elements at least. */
enum { TASKS = 32, SLICE = 1 << 14 };

typedef struct work {
  const ac_op_args *args;
  ac_reduction axes;
  int64_t strips;         /* of a run of results; 1 where the run is of one */
  int64_t units;          /* of what a task makes part of */
  int64_t slices, length; /* a slice is of so many elements, or rows of a strip */
} work;

static work work_of(const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  work w = {.args = args, .axes = ac_reduction_of(&args->in[0], a->axes)};
  const ac_reduction *r = &w.axes;
  w.strips = r->run_kept ? ac_ceil_div(r->run, STRIP) : 1;
  w.units = r->kept.count * w.strips;
  const int64_t length = ac_reduction_length(r);
  const int64_t elements = length * (r->run_kept ? ac_min(r->run, STRIP) : 1);
  int64_t slices = w.units < TASKS ? ac_ceil_div(TASKS, w.units) : 1;
  slices = ac_max(1, ac_min(slices, elements / SLICE));
  w.length = ac_ceil_div(length, slices);
  w.slices = ac_max(1, ac_ceil_div(length, w.length));
  return w;
}

/* There are less than 2 TASKS slices. Each has SLICE elements at least, but for those of the last,
 * narrow strip of several. */
static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const work w = work_of(args);
  const int64_t most = ac_min(2 * (args->in[0].count / SLICE), 2 * TASKS);
  const size_t slot = w.axes.run_kept ? sizeof(strip) : sizeof(state);
  return (uint64_t)most * slot;
}

/* ---- one result ------------------------------------------------------------------------------ */

/* Elements [first, last) of a result, whose first one is at `base`. */
static void reduce_elements(const work *w, int64_t base, int64_t first, int64_t last, state *s) {
  const ac_operand *x = &w->args->in[0];
  const int64_t run = w->axes.run;
  _Alignas(64) float buffer[BLOCK];
  int64_t held = 0;
  state_begin(s);
  for (int64_t at = first; at < last;) {
    const int64_t step = at / run, within = at - step * run;
    const int64_t from = base + ac_reduced_offset(&w->axes.reduced, step) + within;
    const int64_t count = ac_min(ac_min(run - within, last - at), BLOCK - held);
    const void *elements = ac_element(x->data, x->dtype, from);
    at += count;
    if (!held && x->dtype == AC_F32 && (count >= BLOCK / 8 || at == last)) {
      state_add(s, elements, count);
      continue;
    }
    ac_cpu_widen(x->dtype, elements, buffer + held, count);
    held += count;
    if (held < BLOCK && at < last) continue;
    state_add(s, buffer, held);
    held = 0;
  }
  if (held) state_add(s, buffer, held);
}

static void store_result(const work *w, int64_t at, const state *s) {
  const ac_op_args *args = w->args;
  float *y = args->out[0].data;
  const float result = state_result(s, args->attributes);
  y[at] = args->add[0] ? y[at] + result : result;
}

/* ---- a strip of results ---------------------------------------------------------------------- */

/* Rows [first, last) of a strip of results, the first one of which is at `base`. */
static void reduce_rows(const work *w, int64_t base, int64_t width, int64_t first, int64_t last,
                        strip *s) {
  const ac_operand *x = &w->args->in[0];
  _Alignas(64) float buffer[BLOCK];
  const float *row[ROWS];
  strip_begin(s, width);
  for (int64_t at = first; at < last; at += ROWS) {
    const int64_t rows = ac_min(ROWS, last - at);
    for (int64_t i = 0; i < rows; i++) {
      const int64_t from = base + ac_reduced_offset(&w->axes.reduced, at + i);
      row[i] = ac_element(x->data, x->dtype, from);
      if (x->dtype == AC_F32) continue;
      ac_cpu_widen(x->dtype, row[i], buffer + i * STRIP, width);
      row[i] = buffer + i * STRIP;
    }
    strip_add(s, row, rows, width);
  }
}

static int64_t strip_width(const work *w, int64_t strip) {
  return ac_min(STRIP, w->axes.run - strip * STRIP);
}

static void store_strip(const work *w, int64_t unit, const strip *s) {
  const int64_t kept = unit / w->strips, number = unit % w->strips;
  const int64_t at = kept * w->axes.run + number * STRIP, width = strip_width(w, number);
  for (int64_t j = 0; j < width; j++) {
    const state one = {s->a[j]};
    store_result(w, at + j, &one);
  }
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void run_strip(const work *w, int64_t unit, int64_t slice, strip *s) {
  const int64_t kept = unit / w->strips, number = unit % w->strips;
  const int64_t base = ac_reduced_offset(&w->axes.kept, kept) + number * STRIP;
  const int64_t first = slice * w->length, last = first + w->length;
  reduce_rows(w, base, strip_width(w, number), first, ac_min(last, ac_reduction_length(&w->axes)),
              s);
}

static void run_result(const work *w, int64_t unit, int64_t slice, state *s) {
  const int64_t first = slice * w->length, last = first + w->length;
  reduce_elements(w, ac_reduced_offset(&w->axes.kept, unit), first,
                  ac_min(last, ac_reduction_length(&w->axes)), s);
}

static void run_task(const work *w, int64_t unit, int64_t slice) {
  const int64_t slot = unit * w->slices + slice;
  if (w->axes.run_kept) {
    strip own, *s = w->slices > 1 ? (strip *)w->args->workspace + slot : &own;
    run_strip(w, unit, slice, s);
    if (w->slices == 1) store_strip(w, unit, s);
  } else {
    state own, *s = w->slices > 1 ? (state *)w->args->workspace + slot : &own;
    run_result(w, unit, slice, s);
    if (w->slices == 1) store_result(w, unit, s);
  }
}

static void join_slices(const work *w, int64_t unit) {
  if (w->axes.run_kept) {
    strip *s = (strip *)w->args->workspace + unit * w->slices;
    const int64_t width = strip_width(w, unit % w->strips);
    for (int64_t i = 1; i < w->slices; i++) strip_join(s, s + i, width);
    store_strip(w, unit, s);
  } else {
    state *s = (state *)w->args->workspace + unit * w->slices;
    for (int64_t i = 1; i < w->slices; i++) state_join(s, s[i]);
    store_result(w, unit, s);
  }
}

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  (void)context;
  const work w = work_of(args);
  int64_t first, last;
  ac_cpu_share(w.units * w.slices, 1, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) run_task(&w, i / w.slices, i % w.slices);
  if (w.slices == 1) return;
  ac_cpu_barrier(team);
  ac_cpu_share(w.units, 1, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) join_slices(&w, i);
}

static void reduce(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[0].count, part);
}

/* ---- the gradient ---------------------------------------------------------------------------- */

static void spread_one(float value, float *dx, int64_t count, bool add) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) dx[j] = add ? dx[j] + value : value;
}

static void spread_many(float factor, const float *dy, float *dx, int64_t count, bool add) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) dx[j] = add ? dx[j] + factor * dy[j] : factor * dy[j];
}

/* Elements [first, last) of dx, in runs. */
static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_reduction r = ac_reduction_of(&args->out[0], a->axes);
  const ac_reduced_axes results = ac_reduction_results(&args->out[0], a->axes);
  const float factor = 1.0f / a->divisor;
  for (int64_t at = first; at < last;) {
    const int64_t number = at / r.run, within = at - number * r.run;
    const int64_t count = ac_min(r.run - within, last - at);
    const float *dy = (const float *)args->in[0].data + ac_reduced_offset(&results, number);
    float *dx = (float *)args->out[0].data + at;
    if (r.run_kept) spread_many(factor, dy + within, dx, count, args->add[0]);
    else spread_one(factor * *dy, dx, count, args->add[0]);
    at += count;
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(reduce) = {.run = reduce, .workspace = workspace};
const ac_cpu_kernel AC_CPU_KERNEL(reduce_gradient) = {.run = gradient};
