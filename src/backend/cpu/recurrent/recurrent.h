/* What both directions of a recurrent op share: how a team divides it, and products of a step.
 *
 * W is packed once a run, in panels for products with few rows. Samples are divided into row parts,
 * which know nothing of each other. If there are fewer samples than threads are good for, units are
 * divided as well: then the team waits after each product. Sums run in the order of k and are
 * independent of how rows and columns are divided.
 *
 * bf16 is multiplied by the CPU's own instructions if it has them (product/dot.h), everything else
 * as floats. */
#ifndef AC_BACKEND_CPU_RECURRENT_H
#define AC_BACKEND_CPU_RECURRENT_H

#include "backend/cpu/product/gemm.h"
#include "backend/cpu/product/pairs.h"
#include "backend/cpu/product/registers.h"
#include "backend/cpu/shared/convert.h"
#include "core/align.h"
#include "ops/recurrent/recurrent.h"

/* Rows that are multiplied before their sums are used, and the least rows of a part. */
enum { AC_CPU_STEP_ROWS = AC_DOT_STRIP, AC_CPU_FEW_ROWS = 8, AC_CPU_MOST_GATES = 4 };

typedef struct ac_cpu_recurrence {
  ac_recurrence r;
  const ac_cpu_context *context;
  ac_dtype dtype; /* storage */
  bool mark, pairs;
  int64_t width; /* units of all gates */
  int64_t row_parts, unit_parts;
  int64_t rows;  /* of a row part */
  int64_t room;  /* rows of it in the workspace */
  int64_t block; /* units with gates that are computed together: half a panel */
  int64_t pitch; /* of units in the workspace: whole panels */
} ac_cpu_recurrence;

static inline ac_cpu_recurrence ac_cpu_recurrence_of(const ac_cpu_context *context,
                                                     const ac_op_args *args) {
  ac_cpu_recurrence w = {.r = ac_recurrence_of(args), .context = context};
  w.dtype = w.r.y->dtype;
  w.mark = args->run->mark_flushed;
  w.pairs = context->dot && w.dtype == AC_BF16;
  w.width = w.r.gates * w.r.units;
  w.block = w.pairs ? STRIP / 2 : VECTOR;
  w.pitch = ac_ceil_div(w.r.units, 2 * w.block) * 2 * w.block;
  const int64_t samples = ac_larger(w.r.samples, 1);
  w.row_parts = ac_smaller(context->threads, ac_ceil_div(samples, AC_CPU_FEW_ROWS));
  w.unit_parts = context->threads / w.row_parts;
  w.rows = ac_ceil_div(samples, w.row_parts);
  w.room = w.pairs ? ac_ceil_div(w.rows, STRIP) * STRIP : w.rows;
  return w;
}

/* Samples [sample, sample + rows), with rows from `row` on in the workspace, and units [first,
 * last) of them. */
typedef struct ac_cpu_recurrent_part {
  int64_t sample, rows, row, first, last;
} ac_cpu_recurrent_part;

static inline int64_t ac_cpu_recurrent_parts(const ac_cpu_recurrence *w) {
  return w->row_parts * w->unit_parts;
}

/* Units are cut where panels begin. */
static inline ac_cpu_recurrent_part ac_cpu_recurrent_part_of(const ac_cpu_recurrence *w,
                                                             int64_t index) {
  ac_cpu_recurrent_part p;
  const int64_t row_part = index / w->unit_parts;
  p.sample = ac_smaller(row_part * w->rows, w->r.samples);
  p.rows = ac_smaller(w->rows, w->r.samples - p.sample);
  p.row = row_part * w->room;
  ac_cpu_share(w->r.units, 2 * w->block, (int)(index % w->unit_parts), (int)w->unit_parts, &p.first,
               &p.last);
  return p;
}

/* How many of the op's positions count. */
static inline int64_t ac_cpu_recurrent_length(const ac_cpu_recurrence *w, const ac_op_args *args,
                                              int64_t sample) {
  const ac_recurrent_attributes *a = args->attributes;
  if (!w->r.lengths->count) return w->r.positions;
  const int64_t length = ((const int32_t *)w->r.lengths->data)[sample] - a->first;
  return ac_larger(0, ac_smaller(length, w->r.positions));
}

/* The next `count` floats of a workspace. */
static inline float *ac_cpu_take(float **from, int64_t count) {
  float *taken = *from;
  *from += ac_ceil_div(count, AC_CPU_LINE) * AC_CPU_LINE;
  return taken;
}

/* `count` elements as floats: those in memory, or converted into `scratch`. */
static inline const float *ac_cpu_as_floats(ac_dtype dtype, const void *x, int64_t first,
                                            float *scratch, int64_t count) {
  const void *from = ac_element(x, dtype, first);
  if (dtype == AC_F32) return from;
  ac_cpu_widen(dtype, from, scratch, count);
  return scratch;
}

/* ---- step_product.c ----------------------------------------------------------------------------
 */

#define ac_cpu_step_multiply AC_CPU_NAME(ac_cpu_step_multiply)
#define ac_cpu_step_pack AC_CPU_NAME(ac_cpu_step_pack)
#define ac_cpu_step_pack_scratch AC_CPU_NAME(ac_cpu_step_pack_scratch)

/* The left operand: rows of floats, or chunks of pairs as dot.h has them. */
typedef struct ac_cpu_step_rows {
  float *data;
  int64_t depth;
} ac_cpu_step_rows;

/* Floats, or pairs, of all rows in the workspace, and of a panel. */
static inline int64_t ac_cpu_step_depth(const ac_cpu_recurrence *w, int64_t depth) {
  return w->pairs ? steps_of(depth) * PAIRS : ac_ceil_div(depth, AC_CPU_LINE) * AC_CPU_LINE;
}
static inline int64_t ac_cpu_step_panel(const ac_cpu_recurrence *w, int64_t depth) {
  return (w->pairs ? steps_of(depth) * PAIRS : depth) * 2 * w->block;
}

/* A panel for sums over `depth`: its columns from `half` blocks on are `count` rows of W from `row`
 * on, each along the depth, or, `across`, columns of W. */
void ac_cpu_step_pack(const ac_cpu_recurrence *w, bool across, int64_t row, int64_t count, int half,
                      float *panel, float *scratch);
int64_t ac_cpu_step_pack_scratch(const ac_cpu_recurrence *w);

/* Sets elements [first, first + count) of a row, from floats, and from what they are stored as. */
static inline void ac_cpu_step_put(const ac_cpu_recurrence *w, const ac_cpu_step_rows *rows,
                                   int64_t row, int64_t first, int64_t count, const float *floats,
                                   const void *stored) {
  if (!w->pairs) {
    memcpy(rows->data + row * ac_cpu_step_depth(w, rows->depth) + first, floats,
           (size_t)count * sizeof *floats);
    return;
  }
  uint16_t *to = (uint16_t *)(rows->data + row / STRIP * STRIP * ac_cpu_step_depth(w, rows->depth));
  const uint16_t *from = stored;
  while (count > 0) {
    const int64_t within = first % STEP, some = ac_smaller(STEP - within, count);
    memcpy(to + (first / STEP * STRIP + row % STRIP) * STEP + within, from,
           (size_t)some * sizeof *from);
    first += some, from += some, count -= some;
  }
}

/* sums = or += rows x panel, for up to AC_CPU_STEP_ROWS rows from `row` on, a multiple of it within
 * a part; rows of sums are `distance` apart. */
void ac_cpu_step_multiply(const ac_cpu_recurrence *w, const ac_cpu_step_rows *rows, int64_t row,
                          int64_t count, const float *panel, float *sums, int64_t distance,
                          bool add);

#endif
