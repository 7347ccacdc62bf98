/* What ids pick along an axis, and the transpose of that, a sum.
 *
 * In the sum several positions may hold one id. The work is divided by what is added to, so that no
 * two threads add to the same element, and each element gets its terms in the order of positions:
 * no atomics are needed, and the number of threads changes no bit. Threads share the indices before
 * the axis; or, if these are few, the elements after it; or, if these are few as well, the axis
 * itself, and then each looks at all ids for its own. */
#include "ops/movement/gather.h"

#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/decode.h"

#include <string.h>

static ac_gather_view view_of(const ac_op_args *args, const ac_operand *whole,
                              const ac_operand *ids) {
  return ac_gather_view_of(whole, ids, args->attributes);
}

/* The ids from those of row number o * count + i on. */
static const int32_t *ids_of(const ac_gather_view *v, const ac_operand *ids, int64_t row) {
  const int64_t at = v->shared ? row % v->count : row;
  return (const int32_t *)ids->data + at * (v->elements ? v->inner : 1);
}

/* ---- gather ---------------------------------------------------------------------------------- */

/* A few elements: a call of memcpy would take longer than they do. Floats may be rounded. */
static void copy_row(const ac_op_args *args, const void *x, void *y, int64_t count) {
  const ac_dtype from = args->in[0].dtype, to = args->out[0].dtype;
  const size_t size = ac_element_bytes(from);
  if (from != to) ac_cpu_narrow(to, args->run->mark_flushed, x, y, count);
  else if (count <= 16 && size == 4)
    for (int64_t c = 0; c < count; c++) ((uint32_t *)y)[c] = ((const uint32_t *)x)[c];
  else memcpy(y, x, (size_t)count * size);
}

/* Elements [first, first + count) of a table in blocks. */
static void decode_row(const ac_op_args *args, int64_t first, void *y, int64_t count) {
  const ac_operand *x = &args->in[0];
  const ac_dtype to = args->out[0].dtype;
  float block[AC_CPU_RUN];
  if (to == AC_F32) {
    ac_cpu_decode_from(x->blocks, x->data, first, count, y);
    return;
  }
  for (int64_t c = 0, n; c < count; c += n) {
    n = ac_smaller(AC_CPU_RUN, count - c);
    ac_cpu_decode_from(x->blocks, x->data, first + c, n, block);
    ac_cpu_narrow(to, args->run->mark_flushed, block, ac_element(y, to, c), n);
  }
}

static void pick_rows(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_gather_view v = view_of(args, x, &args->in[1]);
  for (int64_t row = first; row < last;) {
    const int64_t outer = row / v.count, end = ac_smaller(last, (outer + 1) * v.count);
    const int32_t *ids = ids_of(&v, &args->in[1], row);
    for (; row < end; row++) {
      const int64_t from = (outer * v.length + *ids++) * v.inner;
      void *to = ac_element(y->data, y->dtype, row * v.inner);
      if (x->blocks) decode_row(args, from, to, v.inner);
      else copy_row(args, ac_element(x->data, x->dtype, from), to, v.inner);
    }
  }
}

/* y[e] = x[stride id[e] + step e]. Where the axis is the last one, the offset is the id, and
 * compilers gather several at a time. */
#define PICK(name, type)                                                                  \
  static void name(const type *restrict x, const int32_t *restrict ids, type *restrict y, \
                   int64_t count, int64_t stride, int64_t step) {                         \
    if (stride == 1 && !step)                                                             \
      for (int64_t e = 0; e < count; e++) y[e] = x[ids[e]];                               \
    else                                                                                  \
      for (int64_t e = 0; e < count; e++) y[e] = x[ids[e] * stride + e * step];           \
  }
PICK(pick_words, uint32_t)
PICK(pick_halves, uint16_t)

static void pick(const ac_op_args *args, const void *x, const int32_t *ids, void *y, int64_t count,
                 int64_t stride, int64_t step) {
  const ac_dtype from = args->in[0].dtype, to = args->out[0].dtype;
  if (from != to) {
    float block[AC_CPU_RUN];
    for (int64_t e = 0, n; e < count; e += n) {
      n = ac_smaller(AC_CPU_RUN, count - e);
      for (int64_t k = 0; k < n; k++)
        block[k] = ((const float *)x)[ids[e + k] * stride + (e + k) * step];
      ac_cpu_narrow(to, args->run->mark_flushed, block, ac_element(y, to, e), n);
    }
  } else if (ac_element_bytes(from) == 4) {
    pick_words(x, ids, y, count, stride, step);
  } else {
    pick_halves(x, ids, y, count, stride, step);
  }
}

/* Single elements, each with its id: by rows, or all of one index before the axis. */
static void pick_elements(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_gather_view v = view_of(args, x, &args->in[1]);
  for (int64_t row = first, n; row < last; row += n) {
    const int64_t outer = row / v.count;
    n = v.inner > 1 ? 1 : ac_smaller(last, (outer + 1) * v.count) - row;
    pick(args, ac_element(x->data, x->dtype, outer * v.length * v.inner),
         ids_of(&v, &args->in[1], row), ac_element(y->data, y->dtype, row * v.inner), n * v.inner,
         v.inner, v.inner > 1);
  }
}

/* One by one. */
static void decode_elements(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_gather_view v = view_of(args, x, &args->in[1]);
  for (int64_t row = first; row < last; row++) {
    const int64_t outer = row / v.count * v.length * v.inner;
    const int32_t *ids = ids_of(&v, &args->in[1], row);
    for (int64_t c = 0; c < v.inner; c++)
      decode_row(args, outer + ids[c] * v.inner + c,
                 ac_element(y->data, y->dtype, row * v.inner + c), 1);
  }
}

static void gather(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_gather_view v = view_of(args, &args->in[0], &args->in[1]);
  const bool single = v.elements || v.inner == 1;
  ac_cpu_for(context, args, v.outer * v.count, v.inner,
             !single              ? pick_rows
             : args->in[0].blocks ? decode_elements
                                  : pick_elements);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* What a thread adds to: indices before, on and after the axis. */
typedef struct part {
  int64_t outer, outer_end, row, row_end, c, c_end;
} part;

static part part_of(const ac_gather_view *v, int thread, int team) {
  part p = {0, v->outer, 0, v->length, 0, v->inner};
  if (v->outer >= team) ac_cpu_share(v->outer, 1, thread, team, &p.outer, &p.outer_end);
  else if (v->inner >= (int64_t)AC_CPU_LINE * team)
    ac_cpu_share(v->inner, AC_CPU_LINE, thread, team, &p.c, &p.c_end);
  else ac_cpu_share(v->length, 1, thread, team, &p.row, &p.row_end);
  return p;
}

static void clear(const ac_gather_view *v, const part *p, float *y) {
  for (int64_t o = p->outer; o < p->outer_end; o++) {
    float *to = y + o * v->length * v->inner;
    if (p->c_end - p->c == v->inner) {
      memset(to + p->row * v->inner, 0, (size_t)((p->row_end - p->row) * v->inner) * sizeof *to);
      continue;
    }
    for (int64_t row = p->row; row < p->row_end && p->c < p->c_end; row++)
      memset(to + row * v->inner + p->c, 0, (size_t)(p->c_end - p->c) * sizeof *to);
  }
}

static void add_floats(const float *x, float *y, int64_t count) {
#pragma omp simd
  for (int64_t c = 0; c < count; c++) y[c] += x[c];
}

/* y += x, which may be stored in 16 bits. */
static void add_row(const void *x, ac_dtype dtype, float *y, int64_t count) {
  float block[AC_CPU_RUN];
  if (dtype == AC_F32) {
    add_floats(x, y, count);
    return;
  }
  for (int64_t c = 0, n; c < count; c += n) {
    n = ac_smaller(AC_CPU_RUN, count - c);
    ac_cpu_widen(dtype, ac_element(x, dtype, c), block, n);
    add_floats(block, y + c, n);
  }
}

/* y[stride id[e] + step e] += x[e] for ids of the part's rows. */
static void add_elements(const part *p, const void *x, ac_dtype dtype, const int32_t *ids, float *y,
                         int64_t count, int64_t stride, int64_t step) {
  float block[AC_CPU_RUN];
  const bool all = p->row == 0 && p->row_end == INT64_MAX;
  for (int64_t e = 0, n; e < count; e += n) {
    const float *from = ac_element(x, dtype, e);
    n = ac_smaller(AC_CPU_RUN, count - e);
    if (dtype != AC_F32) {
      ac_cpu_widen(dtype, from, block, n);
      from = block;
    }
    for (int64_t k = 0; k < n; k++) {
      const int32_t id = ids[e + k];
      if (all || (id >= p->row && id < p->row_end)) y[id * stride + (e + k) * step] += from[k];
    }
  }
}

static void scatter_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  (void)context;
  const ac_operand *ids = &args->in[0], *x = &args->in[1], *y = &args->out[0];
  const ac_gather_view v = view_of(args, y, ids);
  part p = part_of(&v, thread, team);
  if (!args->add[0]) clear(&v, &p, y->data);
  const int64_t columns = p.c_end - p.c;
  if (columns <= 0 || p.row >= p.row_end) return;
  const bool all = p.row == 0 && p.row_end == v.length;
  part rows = p;
  if (all) rows.row_end = INT64_MAX;
  for (int64_t o = p.outer; o < p.outer_end; o++) {
    float *to = (float *)y->data + o * v.length * v.inner;
    const int64_t row = o * v.count;
    const int32_t *id = ids_of(&v, ids, row);
    if (v.inner == 1) {
      add_elements(&rows, ac_element(x->data, x->dtype, row), x->dtype, id, to, v.count, 1, 0);
      continue;
    }
    for (int64_t i = 0; i < v.count; i++) {
      const void *from = ac_element(x->data, x->dtype, (row + i) * v.inner + p.c);
      if (v.elements)
        add_elements(&rows, from, x->dtype, id + i * v.inner + p.c, to + p.c, columns, v.inner, 1);
      else if (all || (id[i] >= p.row && id[i] < p.row_end))
        add_row(from, x->dtype, to + id[i] * v.inner + p.c, columns);
    }
  }
}

static void scatter_add(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[1].count + args->out[0].count, scatter_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(gather) = {.run = gather, .rounds = 1u << 0, .decodes = 1u << 0};
const ac_cpu_kernel AC_CPU_KERNEL(scatter_add) = {.run = scatter_add};
