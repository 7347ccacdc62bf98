/* Causal multi-head attention. For each sample and head, with q, k, v [T, d] inside qkv:
 *
 *   S = scale q k^T for j <= i,  P = softmax(S),  y = (P o mask) v
 *
 * and lse_i = log sum_j e^S_ij is kept. mask is 0 or 1 / (1 - dropout).
 * Backward, with P = e^(S - lse) computed anew and D_i = dy_i . y_i:
 *
 *   dv = (P o mask)^T dy,  dS = scale P o (mask o (dy v^T) - D),  dq = dS k,  dk = dS^T q
 *
 * Queries come in blocks of rows, and a block's scores reach to its last row: of T x T only the
 * blocks on and below the diagonal are computed, and a thread holds one block's rows by T. A thread
 * has a block of one head forward and a whole head backward, where blocks add to dk and dv: going
 * from the last block to the first, the first product writes all rows, the others add.
 *
 * Of what is stored in 16 bits, the thread's workspace holds floats: the rows that a block uses,
 * and backward a head's k and v and the sums dk and dv. */
#include "backend/cpu/convert.h"
#include "backend/cpu/product/gemm.h"
#include "backend/cpu/random_bits.h"
#include "backend/cpu/reduce.h"
#include "backend/cpu/vector_math.h"
#include "ops/attention.h"

#include <math.h>

enum { MOST_ROWS = 64 }; /* of a block */

/* Low blocks waste less above the diagonal, high ones use what is packed of k and v more often. */
static int64_t block_rows(int64_t length) {
  return length <= 128 ? 32 : MOST_ROWS;
}

/* Rows of scores are padded to whole vectors, with weights of 0, and loops over a row run to its
 * end. Long rows are padded by one vector more, so that a power of two does not put all in the same
 * sets of the cache. */
enum { VECTOR = AC_CPU_LANES, LONG = 256 };

static int64_t row_stride(int64_t reach) {
  return ac_ceil_div(reach, VECTOR) * VECTOR + (reach >= LONG ? VECTOR : 0);
}

/* The shape, and the strides of what is kept as [B, T, 3C] and [B, T, C]. */
typedef struct shape {
  int64_t batch, length, heads, size; /* B, T, H and d */
  int64_t wide, narrow;               /* 3C and C */
  int64_t rows;                       /* of a block of queries */
  ac_dtype dtype;                     /* of both */
} shape;

static shape describe(const ac_op_args *args, const ac_operand *qkv) {
  const ac_attention_attributes *attributes = args->attributes;
  shape s = {.length = qkv->dim[qkv->rank - 2],
             .heads = attributes->heads,
             .wide = ac_columns(qkv),
             .narrow = ac_columns(qkv) / 3,
             .dtype = qkv->dtype};
  s.batch = qkv->count / (s.length * s.wide);
  s.size = s.narrow / s.heads;
  s.rows = block_rows(s.length);
  return s;
}

/* The dropout masks of one head of one sample; a factor of 0 means that there is no dropout. */
typedef struct mask {
  random_mask random;
  uint32_t sample, threshold;
  int64_t origin; /* element of row 0 */
  float factor;
} mask;

static mask describe_mask(const ac_op_args *args, const shape *s, int64_t sample, int64_t head) {
  const ac_attention_attributes *attributes = args->attributes;
  const ac_run_state *run = args->run;
  if (!run->training || !(attributes->dropout > 0)) return (mask){0};
  return (mask){.random = random_mask_of(run->seed, run->update, attributes->stream),
                .sample = run->sample + (uint32_t)sample,
                .threshold = ac_dropout_threshold(attributes->dropout),
                .origin = head * s->length * s->length,
                .factor = ac_dropout_factor(attributes->dropout)};
}

/* Random bits for columns [column, column + returned) of a mask's row that starts at element
 * `start`; the first are at *offset. Columns are taken from multiples of 8 elements on. */
static int64_t mask_bits(const mask *m, int64_t start, int64_t column, int64_t end, uint16_t *bits,
                         int64_t *offset) {
  int64_t element = start + column, base = element & ~(int64_t)7;
  random_bits(bits, &m->random, m->sample, (uint32_t)(base / 8));
  *offset = element - base;
  return ac_min(end - column, AC_CPU_RANDOM_HALVES - *offset);
}

static void drop_row(const mask *m, int64_t start, float *p, int64_t n) {
  uint16_t bits[AC_CPU_RANDOM_HALVES];
  uint32_t threshold = m->threshold;
  for (int64_t column = 0, offset, count; column < n; column += count) {
    count = mask_bits(m, start, column, n, bits, &offset);
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
      float weight = p[column + j]; /* written in any case, so that it is a select */
      p[column + j] = bits[offset + j] < threshold ? 0.0f : weight;
    }
  }
}

/* The maximum of row[0, visible), of which at least [0, sure) is visible; the rest of the row
 * becomes -inf. Both `sure` and `width` are multiples of a vector. */
static float mask_row(float *row, int64_t sure, int64_t visible, int64_t width) {
  float max = sure > 0 ? row_max(row, sure) : row[0];
  for (int64_t j = visible; j < width; j++) row[j] = -INFINITY;
  return larger(max, row_max(row + sure, width - sure));
}

/* e^(x - max) in place; returns the sum. n is a multiple of a vector. */
static float exponentiate(float *x, float max, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_min(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    for (; j < end; j += VECTOR) {
#pragma omp simd
      for (int l = 0; l < VECTOR; l++) {
        float weight = exponential(x[j + l] - max);
        x[j + l] = weight;
        sum.v[l] += weight;
      }
    }
    total += (double)lanes_sum(sum);
  }
  return (float)total;
}

/* ---- rows as floats -------------------------------------------------------------------------- */

/* Rows of d columns of one head. */
typedef struct rows {
  float *at;
  int64_t ld;
} rows;

/* Floats of room for `count` rows; those in f32 are used where they lie. */
static int64_t room_for(const shape *s, int64_t count) {
  return s->dtype == AC_F32 ? 0 : count * s->size;
}

/* Takes room for rows [first, first + count) of what is stored at x, where they are to be
 * written. */
static rows take_rows(const shape *s, const void *x, int64_t ld, int64_t first, int64_t count,
                      float **room) {
  if (s->dtype == AC_F32) return (rows){ac_element(x, s->dtype, first * ld), ld};
  rows r = {*room, s->size};
  *room += room_for(s, count);
  return r;
}

/* The same of rows that are to be read. */
static rows read_rows(const shape *s, const void *x, int64_t ld, int64_t first, int64_t count,
                      float **room) {
  rows r = take_rows(s, x, ld, first, count, room);
  if (s->dtype != AC_F32)
    ac_cpu_widen_rows(s->dtype, ac_element(x, s->dtype, first * ld), ld, r.at, r.ld, count,
                      s->size);
  return r;
}

/* Brings home rows that were written. */
static void store_rows(const shape *s, const ac_op_args *args, rows r, void *x, int64_t ld,
                       int64_t first, int64_t count) {
  if (s->dtype != AC_F32)
    ac_cpu_narrow_rows(s->dtype, args->run->mark_flushed, r.at, r.ld,
                       ac_element(x, s->dtype, first * ld), ld, count, s->size);
}

/* ---- products -------------------------------------------------------------------------------- */

/* What is multiplied of a block of `count` queries that reaches to row `reach`: its scores
 * [count, reach], whose rows are row_stride(reach) apart, and rows of d columns. */
typedef struct block {
  int64_t count, reach, size;
} block;

/* scores = scale a b^T for rows a of the block and b of what it reaches to */
static void multiply_rows(const ac_cpu_context *context, block of, float scale, rows a, rows b,
                          float *scores) {
  ac_gemm product = {.transpose_b = true,
                     .m = of.count,
                     .n = of.reach,
                     .k = of.size,
                     .alpha = scale,
                     .a = a.at,
                     .lda = a.ld,
                     .b = b.at,
                     .ldb = b.ld,
                     .c = scores,
                     .ldc = row_stride(of.reach)};
  ac_cpu_gemm(context, &product, NULL);
}

/* to = scores b for the rows of the block or, `across`, scores^T b for those that it reaches to,
 * which may be added */
static void multiply_scores(const ac_cpu_context *context, block of, bool across,
                            const float *scores, rows b, rows to, bool add) {
  ac_gemm product = {.transpose_a = across,
                     .m = across ? of.reach : of.count,
                     .n = of.size,
                     .k = across ? of.count : of.reach,
                     .alpha = 1,
                     .beta = add ? 1.0f : 0.0f,
                     .a = scores,
                     .lda = row_stride(of.reach),
                     .b = b.at,
                     .ldb = b.ld,
                     .c = to.at,
                     .ldc = to.ld};
  ac_cpu_gemm(context, &product, NULL);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Scores of `count` rows from `first` on become weights, still to be divided by sum[]. */
static void weigh_scores(const mask *m, const shape *s, int64_t first, int64_t count, float *scores,
                         float *max, float *sum) {
  int64_t stride = row_stride(first + count);
  /* Three loops, so that the short chains of dependent operations of many rows overlap. */
  for (int64_t r = 0; r < count; r++)
    max[r] = mask_row(scores + r * stride, first, first + r + 1, stride);
  for (int64_t r = 0; r < count; r++) sum[r] = exponentiate(scores + r * stride, max[r], stride);
  for (int64_t r = 0; r < count && m->factor > 0; r++)
    drop_row(m, m->origin + (first + r) * s->length, scores + r * stride, first + r + 1);
}

static void forward_block(const ac_cpu_context *context, const ac_op_args *args, const shape *s,
                          int64_t sample, int64_t head, int64_t first, float *scores) {
  int64_t wide = sample * s->length * s->wide + head * s->size,
          narrow = sample * s->length * s->narrow + head * s->size;
  const void *qkv = ac_element(args->in[0].data, s->dtype, wide);
  void *out = ac_element(args->out[0].data, s->dtype, narrow);
  float *lse = (float *)args->out[1].data + (sample * s->heads + head) * s->length;
  int64_t count = ac_min(s->rows, s->length - first), reach = first + count;
  float *room = scores + s->rows * row_stride(s->length), max[MOST_ROWS], sum[MOST_ROWS];
  rows q = read_rows(s, qkv, s->wide, first, count, &room);
  rows k = read_rows(s, ac_element(qkv, s->dtype, s->narrow), s->wide, 0, reach, &room);
  rows v = read_rows(s, ac_element(qkv, s->dtype, 2 * s->narrow), s->wide, 0, reach, &room);
  rows y = take_rows(s, out, s->narrow, first, count, &room);
  mask m = describe_mask(args, s, sample, head);

  block of = {count, reach, s->size};
  multiply_rows(context, of, ((const ac_attention_attributes *)args->attributes)->scale, q, k,
                scores);
  weigh_scores(&m, s, first, count, scores, max, sum);
  multiply_scores(context, of, false, scores, v, y, false);
  for (int64_t r = 0; r < count; r++) {
    float factor = (m.factor > 0 ? m.factor : 1.0f) / sum[r];
    lse[first + r] = max[r] + logf(sum[r]);
#pragma omp simd
    for (int64_t j = 0; j < s->size; j++) y.at[r * y.ld + j] *= factor;
  }
  store_rows(s, args, y, out, s->narrow, first, count);
}

/* Floats of workspace of a thread: a block's scores, q and y of the block, k and v. */
static int64_t forward_room(const shape *s) {
  return s->rows * row_stride(s->length) + 2 * room_for(s, s->rows) + 2 * room_for(s, s->length);
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  shape s = describe(args, &args->in[0]);
  int64_t blocks = ac_ceil_div(s.length, s.rows), items = s.batch * s.heads * blocks;
  float *scores = (float *)args->workspace + thread * forward_room(&s);
  for (int64_t item = thread; item < items; item += team) {
    /* Every other head from its last block, for later blocks are longer. */
    int64_t head = item / blocks, turn = item % blocks, block = head % 2 ? blocks - 1 - turn : turn;
    forward_block(context, args, &s, head / s.heads, head % s.heads, block * s.rows, scores);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, forward_part);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = describe(args, &args->in[0]);
  return (uint64_t)(context->threads * forward_room(&s)) * sizeof(float);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* One head: what blocks share as floats, the rest as stored. */
typedef struct head_view {
  rows k, v, dk, dv;
  const void *q, *y, *dy;
  void *dq;
  const float *lse;
  mask mask;
  float *p, *ds, *room; /* room for the rows of a block */
} head_view;

static head_view begin_head(const ac_op_args *args, const shape *s, int64_t sample, int64_t head,
                            float *workspace) {
  int64_t wide = sample * s->length * s->wide + head * s->size;
  int64_t narrow = sample * s->length * s->narrow + head * s->size;
  int64_t scores = s->rows * row_stride(s->length), T = s->length;
  head_view h = {.q = ac_element(args->in[1].data, s->dtype, wide),
                 .y = ac_element(args->in[2].data, s->dtype, narrow),
                 .dy = ac_element(args->in[0].data, s->dtype, narrow),
                 .dq = ac_element(args->out[0].data, s->dtype, wide),
                 .lse = (const float *)args->in[3].data + (sample * s->heads + head) * T,
                 .mask = describe_mask(args, s, sample, head),
                 .p = workspace,
                 .ds = workspace + scores,
                 .room = workspace + 2 * scores};
  h.k = read_rows(s, ac_element(h.q, s->dtype, s->narrow), s->wide, 0, T, &h.room);
  h.v = read_rows(s, ac_element(h.q, s->dtype, 2 * s->narrow), s->wide, 0, T, &h.room);
  h.dk = take_rows(s, ac_element(h.dq, s->dtype, s->narrow), s->wide, 0, T, &h.room);
  h.dv = take_rows(s, ac_element(h.dq, s->dtype, 2 * s->narrow), s->wide, 0, T, &h.room);
  return h;
}

static void end_head(const ac_op_args *args, const shape *s, const head_view *h) {
  store_rows(s, args, h->dk, ac_element(h->dq, s->dtype, s->narrow), s->wide, 0, s->length);
  store_rows(s, args, h->dv, ac_element(h->dq, s->dtype, 2 * s->narrow), s->wide, 0, s->length);
}

/* Turns a row of scores into weights (mask applied) and one of dy v^T into dS; beyond `visible`
 * both are 0. */
static void gradient_row(const mask *m, int64_t start, float *p, float *ds, float lse, float dot,
                         float scale, int64_t visible, int64_t width) {
  if (!(m->factor > 0)) {
    int seen = (int)visible, count = (int)width;
#pragma omp simd
    for (int j = 0; j < count; j++) {
      float weight = exponential(p[j] - lse), gradient = weight * (ds[j] - dot) * scale;
      p[j] = j < seen ? weight : 0.0f;
      ds[j] = j < seen ? gradient : 0.0f;
    }
    return;
  }
  uint16_t bits[AC_CPU_RANDOM_HALVES];
  for (int64_t column = 0, offset, step; column < width; column += step) {
    step = mask_bits(m, start, column, width, bits, &offset);
    float *weights = p + column, *gradients = ds + column;
    int seen = (int)(visible - column), count = (int)step;
#pragma omp simd
    for (int j = 0; j < count; j++) {
      float factor = bits[offset + j] < m->threshold ? 0.0f : m->factor;
      float weight = exponential(weights[j] - lse);
      float gradient = weight * (gradients[j] * factor - dot) * scale;
      weights[j] = j < seen ? weight * factor : 0.0f;
      gradients[j] = j < seen ? gradient : 0.0f;
    }
  }
}

static void backward_block(const ac_cpu_context *context, const ac_op_args *args, const shape *s,
                           const head_view *h, int64_t first) {
  float scale = ((const ac_attention_attributes *)args->attributes)->scale, dot[MOST_ROWS];
  int64_t count = ac_min(s->rows, s->length - first), reach = first + count,
          stride = row_stride(reach), d = s->size;
  float *room = h->room;
  rows q = read_rows(s, h->q, s->wide, first, count, &room);
  rows dy = read_rows(s, h->dy, s->narrow, first, count, &room);
  rows y = read_rows(s, h->y, s->narrow, first, count, &room);
  rows dq = take_rows(s, h->dq, s->wide, first, count, &room);
  block of = {count, reach, d};
  multiply_rows(context, of, scale, q, h->k, h->p);
  multiply_rows(context, of, 1, dy, h->v, h->ds);
  for (int64_t r = 0; r < count; r++) dot[r] = row_dot(dy.at + r * dy.ld, y.at + r * y.ld, d);
  for (int64_t r = 0; r < count; r++)
    gradient_row(&h->mask, h->mask.origin + (first + r) * s->length, h->p + r * stride,
                 h->ds + r * stride, h->lse[first + r], dot[r], scale, first + r + 1, stride);
  bool add = reach < s->length;
  multiply_scores(context, of, false, h->ds, h->k, dq, false);
  multiply_scores(context, of, true, h->ds, q, h->dk, add);
  multiply_scores(context, of, true, h->p, dy, h->dv, add);
  store_rows(s, args, dq, h->dq, s->wide, first, count);
}

/* Floats of workspace of a thread: scores and their gradients of a block, k, v, dk, dv of a head,
 * and q, dy, y, dq of a block. */
static int64_t backward_room(const shape *s) {
  return 2 * s->rows * row_stride(s->length) + 4 * room_for(s, s->length) +
         4 * room_for(s, s->rows);
}

static void backward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                          int team) {
  shape s = describe(args, &args->in[1]);
  int64_t items = s.batch * s.heads;
  float *workspace = (float *)args->workspace + thread * backward_room(&s);
  for (int64_t item = thread; item < items; item += team) {
    head_view h = begin_head(args, &s, item / s.heads, item % s.heads, workspace);
    for (int64_t block = ac_ceil_div(s.length, s.rows) - 1; block >= 0; block--)
      backward_block(context, args, &s, &h, block * s.rows);
    end_head(args, &s, &h);
  }
}

static void backward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, backward_part);
}

static uint64_t backward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = describe(args, &args->in[1]);
  return (uint64_t)(context->threads * backward_room(&s)) * sizeof(float);
}

const ac_cpu_kernel AC_CPU_KERNEL(attention) = {forward, forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(attention_gradient) = {backward, backward_workspace};
