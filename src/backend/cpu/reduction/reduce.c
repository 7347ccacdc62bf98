/* reduce.
 *
 * A task is a part of the elements of one result or, where neighbouring elements are of
 * neighbouring results, of a strip of these. Where there are few results, the elements of each are
 * cut into slices. Their states wait in the workspace until all are there. How depends on the shape
 * alone, so the bits do not depend on the threads. */
#include "backend/cpu/reduction/blocks.h"
#include "backend/cpu/shared/convert.h"

#include <string.h>

/* Fewer tasks are cut into slices, of so many elements at least. */
enum { TASKS = 32, SLICE = 1 << 14 };

/* How the elements of a strip come together. */
typedef enum way {
  ONE,    /* no strip: the run is of one result */
  ROWED,  /* rows of a strip are neighbours in memory */
  TURNED, /* of short runs, each of one result, rows are made */
  NARROW  /* of few results: their elements are gathered, each one's by themselves */
} way;
enum { SHORT = 32, FEW = 16 };

typedef struct work {
  const ac_op_args *args;
  const ac_reduce_attributes *how;
  form form;
  ac_reduction axes;
  way way;
  int64_t results, strips; /* of a unit's neighbours, in so many strips */
  int64_t units;           /* of what a task makes part of */
  int64_t slices, length;  /* a slice is of so many elements, or rows of a strip */
} work;

static work work_of(const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  work w = {
      .args = args, .how = a, .form = form_of(a), .axes = ac_reduction_of(&args->in[0], a->axes)};
  const ac_reduction *r = &w.axes;
  if (w.form == LARGEST && !args->out[1].count) w.form = MOST;
  if (!r->run_kept) w.way = r->reduced.rank == 0 && r->run <= SHORT ? TURNED : ONE;
  else w.way = r->run < FEW && r->reduced.count >= BLOCK / FEW ? NARROW : ROWED;
  w.results = w.way == ONE ? 1 : w.way == TURNED ? r->kept.count : r->run;
  w.strips = ac_ceil_div(w.results, STRIP);
  w.units = w.way == TURNED ? w.strips : r->kept.count * w.strips;
  const int64_t length = ac_reduction_length(r), elements = length * ac_smaller(w.results, STRIP);
  int64_t slices = w.units < TASKS ? ac_ceil_div(TASKS, w.units) : 1;
  slices = w.way == TURNED ? 1 : ac_larger(1, ac_smaller(slices, elements / SLICE));
  w.length = ac_ceil_div(length, slices);
  w.slices = ac_larger(1, ac_ceil_div(length, w.length));
  return w;
}

/* There are less than 2 TASKS slices. Each has SLICE elements at least, but for those of the last,
 * narrow strip of several. */
static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const work w = work_of(args);
  const int64_t most = ac_smaller(2 * (args->in[0].count / SLICE), 2 * TASKS);
  return (uint64_t)most * (w.axes.run_kept ? sizeof(strip) : sizeof(state));
}

/* Elements as floats, mapped, in `buffer` if it is not enough to point at them. */
static const float *elements_at(const work *w, int64_t from, int64_t count, float *buffer) {
  const ac_operand *x = &w->args->in[0];
  const void *elements = ac_element(x->data, x->dtype, from);
  if (x->dtype == AC_F32 && !is_mapped(w->how)) return elements;
  ac_cpu_widen(x->dtype, elements, buffer, count);
  map(w->how, buffer, count);
  return buffer;
}

/* ---- one result ------------------------------------------------------------------------------ */

/* Elements [first, last) of a result that begins at `base`. Short runs are put together. */
static void reduce_elements(const work *w, int64_t base, int64_t first, int64_t last, state *s) {
  const int64_t run = w->axes.run;
  _Alignas(64) float buffer[BLOCK];
  int64_t held = 0;
  *s = state_begin(w->form);
  for (int64_t at = first; at < last;) {
    const int64_t step = at / run, within = at - step * run;
    const int64_t from = base + ac_reduced_offset(&w->axes.reduced, step) + within;
    const int64_t count = ac_smaller(ac_smaller(run - within, last - at), BLOCK - held);
    const float *x = elements_at(w, from, count, buffer + held);
    at += count;
    if (!held && (count >= BLOCK / 8 || at == last)) {
      state_add(w->form, s, x, count);
      continue;
    }
    if (x != buffer + held) memcpy(buffer + held, x, (size_t)count * sizeof *x);
    held += count;
    if (held < BLOCK && at < last) continue;
    state_add(w->form, s, buffer, held);
    held = 0;
  }
}

static void store_result(const work *w, int64_t at, const state *s) {
  const ac_op_args *args = w->args;
  float *y = args->out[0].data, *kept = args->out[1].data;
  const float result = state_result(s, w->how);
  y[at] = args->add[0] ? y[at] + result : result;
  if (args->out[1].count) kept[at] = state_kept(w->form, s);
}

/* ---- a strip of results ---------------------------------------------------------------------- */

/* Rows [first, last) of a strip of results that begins at `base`. */
static void reduce_rows(const work *w, int64_t base, int64_t width, int64_t first, int64_t last,
                        strip *s) {
  _Alignas(64) float buffer[BLOCK];
  const float *row[ROWS];
  for (int64_t at = first; at < last; at += ROWS) {
    const int64_t rows = ac_smaller(ROWS, last - at);
    for (int64_t i = 0; i < rows; i++) {
      const int64_t from = base + ac_reduced_offset(&w->axes.reduced, at + i);
      row[i] = elements_at(w, from, width, buffer + i * STRIP);
    }
    strip_add(w->form, s, row, rows, width);
  }
}

/* The same of runs of `last` elements, one after the other, each of one result. */
static void reduce_turned(const work *w, int64_t base, int64_t width, int64_t last, strip *s) {
  _Alignas(64) float buffer[SHORT * STRIP], turned[ROWS * STRIP];
  const float *row[ROWS], *x = elements_at(w, base, width * last, buffer);
  for (int64_t i = 0; i < ROWS; i++) row[i] = turned + i * STRIP;
  for (int64_t at = 0; at < last; at += ROWS) {
    const int64_t rows = ac_smaller(ROWS, last - at);
    for (int64_t i = 0; i < rows; i++) {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) turned[i * STRIP + j] = x[j * last + at + i];
    }
    strip_add(w->form, s, row, rows, width);
  }
}

/* The same as reduce_rows of a strip of all results of a short run. Rows that are neighbours in
 * memory are turned together. */
static void reduce_narrow(const work *w, int64_t base, int64_t width, int64_t first, int64_t last,
                          strip *s) {
  enum { TOGETHER = 256 };
  _Alignas(64) float buffer[FEW * TOGETHER], turned[TOGETHER];
  const int64_t dim = w->axes.reduced.dim[0];
  state one[FEW];
  for (int64_t j = 0; j < width; j++) one[j] = (state){s->a[j], s->b[j], s->n};
  for (int64_t at = first; at < last;) {
    const int64_t rows = ac_smaller(ac_smaller(TOGETHER, last - at), dim - at % dim);
    const int64_t from = base + ac_reduced_offset(&w->axes.reduced, at);
    const float *x = elements_at(w, from, rows * width, buffer);
    for (int64_t j = 0; j < width; j++) {
#pragma omp simd
      for (int64_t i = 0; i < rows; i++) turned[i] = x[i * width + j];
      state_add(w->form, &one[j], turned, rows);
    }
    at += rows;
  }
  for (int64_t j = 0; j < width; j++) s->a[j] = one[j].a, s->b[j] = one[j].b;
  s->n = one[0].n;
}

static int64_t strip_width(const work *w, int64_t strip) {
  return ac_smaller(STRIP, w->results - strip * STRIP);
}

static void store_strip(const work *w, int64_t unit, const strip *s) {
  const int64_t kept = unit / w->strips, number = unit % w->strips;
  const int64_t at = kept * w->results + number * STRIP, width = strip_width(w, number);
  for (int64_t j = 0; j < width; j++) {
    const state one = {s->a[j], s->b[j], s->n};
    store_result(w, at + j, &one);
  }
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void run_strip(const work *w, int64_t unit, int64_t first, int64_t last, strip *s) {
  const int64_t kept = unit / w->strips, number = unit % w->strips;
  const int64_t width = strip_width(w, number);
  const int64_t base = ac_reduced_offset(&w->axes.kept, kept) + number * STRIP;
  strip_begin(w->form, s, width);
  if (w->way == TURNED) reduce_turned(w, unit * STRIP * last, width, last, s);
  else if (w->way == NARROW) reduce_narrow(w, base, width, first, last, s);
  else reduce_rows(w, base, width, first, last, s);
}

static void run_task(const work *w, int64_t unit, int64_t slice) {
  const int64_t slot = unit * w->slices + slice, first = slice * w->length;
  const int64_t last = ac_smaller(first + w->length, ac_reduction_length(&w->axes));
  if (w->way == ONE) {
    state own, *s = w->slices > 1 ? (state *)w->args->workspace + slot : &own;
    reduce_elements(w, ac_reduced_offset(&w->axes.kept, unit), first, last, s);
    if (w->slices == 1) store_result(w, unit, s);
  } else {
    strip own, *s = w->slices > 1 ? (strip *)w->args->workspace + slot : &own;
    run_strip(w, unit, first, last, s);
    if (w->slices == 1) store_strip(w, unit, s);
  }
}

static void join_slices(const work *w, int64_t unit) {
  if (w->way == ONE) {
    state *s = (state *)w->args->workspace + unit * w->slices;
    for (int64_t i = 1; i < w->slices; i++) state_join(w->form, s, s[i]);
    store_result(w, unit, s);
  } else {
    strip *s = (strip *)w->args->workspace + unit * w->slices;
    const int64_t width = strip_width(w, unit % w->strips);
    for (int64_t i = 1; i < w->slices; i++) strip_join(w->form, s, s + i, width);
    store_strip(w, unit, s);
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

const ac_cpu_kernel AC_CPU_KERNEL(reduce) = {.run = reduce, .workspace = workspace};
