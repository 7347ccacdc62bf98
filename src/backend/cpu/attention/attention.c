/* Causal multi-head attention. For each sample and head, with q, k, v [T, d] inside qkv:
 *
 *   S = scale q k^T for j <= i,  P = softmax(S),  y = (P o mask) v
 *
 * and lse_i = log sum_j e^S_ij is kept. mask is 0 or 1 / (1 - dropout).
 * Backward, with P = e^(S - lse) computed anew and D_i = dy_i . y_i:
 *
 *   dv = (P o mask)^T dy,  dS = scale P o (mask o (dy v^T) - D),  dq = dS k,  dk = dS^T q
 *
 * Queries come in blocks of rows and keys in parts, so that one block's scores of one part stay in
 * the cache for every length of context. Of T x T only the blocks on and below the diagonal are
 * computed. Forward, a thread has a block of one head. Its largest score grows part by part, and
 * earlier sums are scaled by e^(old - new) (Milakov and Gimelshein, arXiv 1805.02867). Backward, a
 * thread has a whole head, part by part, and within a part blocks add to dk and dv: going from the
 * last block to the first, the first product writes all rows, the others add. The first part writes
 * dq, the others add.
 *
 * If storage is 16 bits, the thread's workspace holds floats: the rows that a block and a part use;
 * backward also the sums dk and dv of a part and, if there are several parts, dq of a head. If
 * products of bf16 are fastest without conversion (product/gemm.h), q, k, v and dy are not copied,
 * and P o mask and dS are rounded to bf16 before they are multiplied, each row in the first half of
 * its floats. */
#include "backend/cpu/product/dot.h"
#include "backend/cpu/product/gemm.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/random_bits.h"
#include "backend/cpu/shared/reduce.h"
#include "backend/cpu/shared/vector_math.h"
#include "core/align.h"
#include "ops/attention/attention.h"

#include <float.h>
#include <math.h>

/* Rows of a block at most, keys of one of several parts, and the longest context that is one part:
 * all its scores stay in the second-level cache. Parts are whole blocks. */
enum { MOST_ROWS = 128, PART_KEYS = 512, ONE_PART = 1024 };

/* Low blocks waste less above the diagonal, high ones use what is packed of k and v more often. */
static int64_t block_rows(int64_t length) {
  return length <= 128 ? 32 : length <= ONE_PART ? 64 : MOST_ROWS;
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
  int64_t rows, keys;                 /* of a block of queries, and of a part */
  ac_dtype dtype;                     /* of both */
  ac_dtype factors;                   /* of what is multiplied: dtype, or f32 */
} shape;

static shape describe(const ac_cpu_context *context, const ac_op_args *args,
                      const ac_operand *qkv) {
  const ac_attention_attributes *attributes = args->attributes;
  shape s = {.length = qkv->dim[qkv->rank - 2],
             .heads = attributes->heads,
             .wide = ac_columns(qkv),
             .narrow = ac_columns(qkv) / 3,
             .dtype = qkv->dtype,
             .factors = ac_cpu_factor_dtype(context, qkv->dtype)};
  s.batch = qkv->count / (s.length * s.wide);
  s.size = s.narrow / s.heads;
  s.rows = block_rows(s.length);
  s.keys = s.length <= ONE_PART ? s.length : PART_KEYS;
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
  return ac_smaller(end - column, AC_CPU_RANDOM_HALVES - *offset);
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

/* The maximum of row[0, visible); the rest of the row becomes -inf. `sure` is at most `visible`.
 * Both `sure` and `width` are multiples of a vector. */
static float mask_row(float *row, int64_t sure, int64_t visible, int64_t width) {
  float max = sure > 0 ? row_max(row, sure) : row[0];
  for (int64_t j = visible; j < width; j++) row[j] = -INFINITY;
  return larger(max, row_max(row + sure, width - sure));
}

/* e^(x - max) in place; returns the sum. n is a multiple of a vector. */
static float exponentiate(float *x, float max, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
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

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows of one head, or of scores. */
typedef struct rows {
  void *at;
  int64_t ld;
  ac_dtype dtype;
} rows;

static float *float_row(rows x, int64_t row) {
  return (float *)x.at + row * x.ld;
}

/* Floats of room for `count` rows that are written, and for those that are multiplied. */
static int64_t room_for(const shape *s, int64_t count) {
  return s->dtype == AC_F32 ? 0 : count * s->size;
}
static int64_t factor_room(const shape *s, int64_t count) {
  return s->dtype == s->factors ? 0 : count * s->size;
}

static rows stored_rows(const shape *s, const void *x, int64_t ld, int64_t first) {
  return (rows){ac_element(x, s->dtype, first * ld), ld, s->dtype};
}

/* Room for rows [first, first + count) of what is stored at x, where they are to be written as
 * floats. */
static rows take_rows(const shape *s, const void *x, int64_t ld, int64_t first, int64_t count,
                      float **room) {
  if (s->dtype == AC_F32) return stored_rows(s, x, ld, first);
  rows r = {*room, s->size, AC_F32};
  *room += room_for(s, count);
  return r;
}

/* Reads those rows as factors of products. */
static rows read_rows(const shape *s, const void *x, int64_t ld, int64_t first, int64_t count,
                      float **room) {
  rows stored = stored_rows(s, x, ld, first);
  if (s->dtype == s->factors) return stored;
  rows r = take_rows(s, x, ld, first, count, room);
  ac_cpu_widen_rows(s->dtype, stored.at, ld, r.at, r.ld, count, s->size);
  return r;
}

/* Brings home rows that were written. */
static void store_rows(const shape *s, const ac_op_args *args, rows r, void *x, int64_t ld,
                       int64_t first, int64_t count) {
  if (s->dtype != AC_F32)
    ac_cpu_narrow_rows(s->dtype, args->run->mark_flushed, r.at, r.ld,
                       ac_element(x, s->dtype, first * ld), ld, count, s->size);
}

static void scale_row(float *row, float factor, int64_t size) {
#pragma omp simd
  for (int64_t j = 0; j < size; j++) row[j] *= factor;
}

/* One row as floats, in `room` unless they lie there. */
static const float *widen_row(const shape *s, rows x, int64_t row, float *room) {
  const void *at = ac_element(x.at, x.dtype, row * x.ld);
  if (x.dtype == AC_F32) return at;
  ac_cpu_widen(x.dtype, at, room, s->size);
  return room;
}

/* `count` rows of scores become factors of products. */
static rows round_scores(const shape *s, rows scores, int64_t count) {
  if (s->factors == AC_F32) return scores;
  for (int64_t r = 0; r < count; r++)
    ac_cpu_narrow_in_place(s->factors, false, float_row(scores, r), scores.ld);
  return (rows){scores.at, 2 * scores.ld, s->factors};
}

/* ---- products -------------------------------------------------------------------------------- */

/* A thread: its floats in the workspace, and after them its scratch for products. */
typedef struct worker {
  const ac_cpu_context *context;
  const ac_op_args *args;
  float *floats;
  void *scratch;
  uint64_t scratch_bytes;
} worker;

/* `count` queries, from `first` on, and those keys of a part, from `key` on, that they reach: their
 * scores [count, keys] in rows that are row_stride(keys) apart, and rows of d columns. */
typedef struct block {
  int64_t first, count, key, keys, size;
} block;

/* The block from `first` on with the part from `key` on, which it reaches. */
static block block_of(const shape *s, int64_t first, int64_t key) {
  int64_t count = ac_smaller(s->rows, s->length - first);
  return (block){first, count, key, ac_smaller(s->keys, first + count - key), s->size};
}

/* How many of the keys the first query sees, and how many query `row` of the block sees. */
static int64_t seen_by_all(block of) {
  return ac_smaller(of.first - of.key, of.keys);
}
static int64_t seen_by(block of, int64_t row) {
  return ac_smaller(of.first + row + 1 - of.key, of.keys);
}

/* scores = scale a b^T for rows a of the block's queries and b of its keys */
static ac_gemm rows_product(block of, float scale, rows a, rows b, rows scores) {
  return (ac_gemm){.transpose_b = true,
                   .m = of.count,
                   .n = of.keys,
                   .k = of.size,
                   .alpha = scale,
                   .a = a.at,
                   .lda = a.ld,
                   .a_dtype = a.dtype,
                   .b = b.at,
                   .ldb = b.ld,
                   .b_dtype = b.dtype,
                   .c = scores.at,
                   .ldc = scores.ld};
}

/* to = scores b for the queries or, `across`, scores^T b for the keys, which may be added */
static ac_gemm scores_product(block of, bool across, rows scores, rows b, rows to, bool add) {
  return (ac_gemm){.transpose_a = across,
                   .m = across ? of.keys : of.count,
                   .n = of.size,
                   .k = across ? of.count : of.keys,
                   .alpha = 1,
                   .beta = add ? 1.0f : 0.0f,
                   .a = scores.at,
                   .lda = scores.ld,
                   .a_dtype = scores.dtype,
                   .b = b.at,
                   .ldb = b.ld,
                   .b_dtype = b.dtype,
                   .c = to.at,
                   .ldc = to.ld};
}

static void multiply(const worker *w, ac_gemm product) {
  ac_cpu_gemm_stored(w->context, &product, NULL, w->scratch, w->scratch_bytes);
}

/* Bytes of a thread's scratch. Whole blocks and parts take the most. */
static uint64_t scratch_bytes(const ac_cpu_context *context, const shape *s, bool backward) {
  block last = {.count = ac_smaller(s->rows, s->length), .keys = s->keys, .size = s->size};
  rows factors = {.dtype = s->factors}, result = {.dtype = AC_F32};
  const ac_gemm products[] = {rows_product(last, 1, factors, factors, result),
                              scores_product(last, false, factors, factors, result, false),
                              scores_product(last, true, factors, factors, result, true)};
  uint64_t most = 0;
  for (int i = 0; i < (backward ? 3 : 2); i++) {
    uint64_t bytes = ac_cpu_gemm_scratch(context, 1, &products[i]);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Bytes of a thread that has so many floats in the workspace. */
static uint64_t worker_bytes(int64_t floats, uint64_t scratch) {
  return ac_align((uint64_t)floats * sizeof(float), AC_LINE_BYTES) + scratch;
}

static worker worker_of(const ac_cpu_context *context, const ac_op_args *args, int64_t floats,
                        uint64_t scratch, int thread) {
  uint64_t bytes = worker_bytes(floats, scratch);
  char *begin = (char *)args->workspace + (uint64_t)thread * bytes;
  return (worker){context, args, (float *)begin, begin + bytes - scratch, scratch};
}

/* ---- forward --------------------------------------------------------------------------------- */

/* What is known of a block's rows after some parts: the largest scores, and the sums of weights. It
 * begins with a finite score, for a part of -inf to add nothing. */
typedef struct progress {
  float max[MOST_ROWS], sum[MOST_ROWS];
} progress;

static void begin_progress(progress *so_far, int64_t count) {
  for (int64_t r = 0; r < count; r++) {
    so_far->max[r] = -FLT_MAX;
    so_far->sum[r] = 0;
  }
}

/* The scores of a part become weights, still to be divided by the sum; y's rows of the parts before
 * are scaled to the largest scores that are known now. */
static void weigh_scores(const mask *m, const shape *s, block of, float *scores, rows y,
                         progress *so_far) {
  int64_t stride = row_stride(of.keys);
  float max[MOST_ROWS], factor[MOST_ROWS];
  /* Several loops, so that the short chains of dependent operations of many rows overlap. */
  for (int64_t r = 0; r < of.count; r++)
    max[r] = mask_row(scores + r * stride, seen_by_all(of), seen_by(of, r), stride);
  for (int64_t r = 0; r < of.count; r++) {
    max[r] = larger(max[r], so_far->max[r]);
    factor[r] = exponential(so_far->max[r] - max[r]);
  }
  for (int64_t r = 0; r < of.count; r++) {
    float sum = exponentiate(scores + r * stride, max[r], stride);
    so_far->sum[r] = so_far->sum[r] * factor[r] + sum;
    so_far->max[r] = max[r];
  }
  for (int64_t r = 0; r < of.count && of.key > 0; r++)
    scale_row(float_row(y, r), factor[r], s->size);
  for (int64_t r = 0; r < of.count && m->factor > 0; r++)
    drop_row(m, m->origin + (of.first + r) * s->length + of.key, scores + r * stride,
             seen_by(of, r));
}

/* What one part of the keys adds to y. `qkv` is the head's, `room` for the part's k and v. */
static void forward_keys(const worker *w, const shape *s, const mask *m, block of, const void *qkv,
                         rows q, rows y, float *room, progress *so_far) {
  float scale = ((const ac_attention_attributes *)w->args->attributes)->scale;
  const void *keys = ac_element(qkv, s->dtype, s->narrow);
  const void *values = ac_element(qkv, s->dtype, 2 * s->narrow);
  rows scores = {w->floats, row_stride(of.keys), AC_F32};
  rows k = read_rows(s, keys, s->wide, of.key, of.keys, &room);
  rows v = read_rows(s, values, s->wide, of.key, of.keys, &room);
  multiply(w, rows_product(of, scale, q, k, scores));
  weigh_scores(m, s, of, scores.at, y, so_far);
  multiply(w, scores_product(of, false, round_scores(s, scores, of.count), v, y, of.key > 0));
}

static void forward_block(const worker *w, const shape *s, int64_t sample, int64_t head,
                          int64_t first) {
  const ac_op_args *args = w->args;
  int64_t wide = sample * s->length * s->wide + head * s->size,
          narrow = sample * s->length * s->narrow + head * s->size;
  const void *qkv = ac_element(args->in[0].data, s->dtype, wide);
  void *out = ac_element(args->out[0].data, s->dtype, narrow);
  float *lse = (float *)args->out[1].data + (sample * s->heads + head) * s->length;
  int64_t count = ac_smaller(s->rows, s->length - first);
  float *room = w->floats + s->rows * row_stride(s->keys);
  rows q = read_rows(s, qkv, s->wide, first, count, &room);
  rows y = take_rows(s, out, s->narrow, first, count, &room);
  mask m = describe_mask(args, s, sample, head);
  progress so_far;

  begin_progress(&so_far, count);
  for (int64_t key = 0; key < first + count; key += s->keys)
    forward_keys(w, s, &m, block_of(s, first, key), qkv, q, y, room, &so_far);
  for (int64_t r = 0; r < count; r++) {
    scale_row(float_row(y, r), (m.factor > 0 ? m.factor : 1.0f) / so_far.sum[r], s->size);
    lse[first + r] = so_far.max[r] + logf(so_far.sum[r]);
  }
  store_rows(s, args, y, out, s->narrow, first, count);
}

/* Floats of workspace of a thread: scores, q and y of the block, k and v of the part. */
static int64_t forward_floats(const shape *s) {
  return s->rows * row_stride(s->keys) + factor_room(s, s->rows + 2 * s->keys) +
         room_for(s, s->rows);
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  shape s = describe(context, args, &args->in[0]);
  int64_t blocks = ac_ceil_div(s.length, s.rows), items = s.batch * s.heads * blocks;
  worker w =
      worker_of(context, args, forward_floats(&s), scratch_bytes(context, &s, false), thread);
  ac_dot_begin(context->dot);
  for (int64_t item = thread; item < items; item += team) {
    /* Every other head from its last block, for later blocks are longer. */
    int64_t head = item / blocks, turn = item % blocks, block = head % 2 ? blocks - 1 - turn : turn;
    forward_block(&w, &s, head / s.heads, head % s.heads, block * s.rows);
  }
  ac_dot_end(context->dot);
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, forward_part);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = describe(context, args, &args->in[0]);
  uint64_t scratch = scratch_bytes(context, &s, false);
  return (uint64_t)context->threads * worker_bytes(forward_floats(&s), scratch);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* One head: as stored, and dq where several parts add to it. */
typedef struct head_view {
  const void *q, *k, *v, *y, *dy;
  void *dq, *dk, *dv;
  const float *lse;
  mask mask;
  float *p, *ds, *room; /* room for the rows of a part and of a block */
  rows sums;            /* dq of all rows, if s->keys < s->length */
} head_view;

/* One part of the keys: what blocks share to multiply and to add to. */
typedef struct part_view {
  rows k, v, dk, dv;
  float *room; /* for the rows of a block */
} part_view;

static bool has_parts(const shape *s) {
  return s->keys < s->length;
}

static head_view begin_head(const worker *w, const shape *s, int64_t sample, int64_t head) {
  const ac_op_args *args = w->args;
  int64_t wide = sample * s->length * s->wide + head * s->size;
  int64_t narrow = sample * s->length * s->narrow + head * s->size;
  int64_t scores = s->rows * row_stride(s->keys), T = s->length;
  char *q = ac_element(args->in[1].data, s->dtype, wide);
  char *dq = ac_element(args->out[0].data, s->dtype, wide);
  head_view h = {.q = q,
                 .k = ac_element(q, s->dtype, s->narrow),
                 .v = ac_element(q, s->dtype, 2 * s->narrow),
                 .y = ac_element(args->in[4].data, s->dtype, narrow),
                 .dy = ac_element(args->in[0].data, s->dtype, narrow),
                 .dq = dq,
                 .dk = ac_element(dq, s->dtype, s->narrow),
                 .dv = ac_element(dq, s->dtype, 2 * s->narrow),
                 .lse = (const float *)args->in[5].data + (sample * s->heads + head) * T,
                 .mask = describe_mask(args, s, sample, head),
                 .p = w->floats,
                 .ds = w->floats + scores,
                 .room = w->floats + 2 * scores};
  if (has_parts(s)) h.sums = take_rows(s, h.dq, s->wide, 0, T, &h.room);
  return h;
}

static part_view begin_part(const shape *s, const head_view *h, int64_t key, int64_t keys) {
  part_view part = {.room = h->room};
  part.k = read_rows(s, h->k, s->wide, key, keys, &part.room);
  part.v = read_rows(s, h->v, s->wide, key, keys, &part.room);
  part.dk = take_rows(s, h->dk, s->wide, key, keys, &part.room);
  part.dv = take_rows(s, h->dv, s->wide, key, keys, &part.room);
  return part;
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

/* Scores p become weights and ds, which is dy v^T, their gradients, row by row. `room` is for two
 * rows of d columns. */
static void gradient_rows(const shape *s, const head_view *h, block of, float scale, rows dy,
                          rows p, rows ds, float *room) {
  rows y = stored_rows(s, h->y, s->narrow, of.first);
  for (int64_t r = 0; r < of.count; r++) {
    const float *own = widen_row(s, dy, r, room), *other = widen_row(s, y, r, room + s->size);
    gradient_row(&h->mask, h->mask.origin + (of.first + r) * s->length + of.key, float_row(p, r),
                 float_row(ds, r), h->lse[of.first + r], row_dot(own, other, s->size), scale,
                 seen_by(of, r), p.ld);
  }
}

/* dq's rows of a block: those of the head's sums, or such as `room` is for. */
static rows gradient_of_queries(const shape *s, const head_view *h, block of, float **room) {
  if (!has_parts(s)) return take_rows(s, h->dq, s->wide, of.first, of.count, room);
  return (rows){float_row(h->sums, of.first), h->sums.ld, AC_F32};
}

static void backward_block(const worker *w, const shape *s, const head_view *h,
                           const part_view *part, block of) {
  float scale = ((const ac_attention_attributes *)w->args->attributes)->scale;
  float *room = part->room;
  rows q = read_rows(s, h->q, s->wide, of.first, of.count, &room);
  rows dy = read_rows(s, h->dy, s->narrow, of.first, of.count, &room);
  rows dq = gradient_of_queries(s, h, of, &room);
  rows p = {h->p, row_stride(of.keys), AC_F32}, ds = {h->ds, row_stride(of.keys), AC_F32};
  multiply(w, rows_product(of, scale, q, part->k, p));
  multiply(w, rows_product(of, 1, dy, part->v, ds));
  gradient_rows(s, h, of, scale, dy, p, ds, room);
  p = round_scores(s, p, of.count);
  ds = round_scores(s, ds, of.count);
  bool add = of.first + of.count < s->length;
  multiply(w, scores_product(of, false, ds, part->k, dq, of.key > 0));
  multiply(w, scores_product(of, true, ds, q, part->dk, add));
  multiply(w, scores_product(of, true, p, dy, part->dv, add));
  if (!has_parts(s)) store_rows(s, w->args, dq, h->dq, s->wide, of.first, of.count);
}

static void backward_keys(const worker *w, const shape *s, const head_view *h, int64_t key) {
  int64_t keys = ac_smaller(s->keys, s->length - key);
  part_view part = begin_part(s, h, key, keys);
  int64_t last = (s->length - 1) / s->rows * s->rows;
  for (int64_t first = last; first >= key; first -= s->rows)
    backward_block(w, s, h, &part, block_of(s, first, key));
  store_rows(s, w->args, part.dk, h->dk, s->wide, key, keys);
  store_rows(s, w->args, part.dv, h->dv, s->wide, key, keys);
}

/* Floats of workspace of a thread: scores and their gradients of a block, k, v, dk, dv of a part,
 * q, dy and dq of a block, or dq of a head, and two rows. */
static int64_t backward_floats(const shape *s) {
  return 2 * s->rows * row_stride(s->keys) + factor_room(s, 2 * (s->keys + s->rows)) +
         room_for(s, 2 * s->keys + (has_parts(s) ? s->length : s->rows) + 2);
}

static void backward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                          int team) {
  shape s = describe(context, args, &args->in[1]);
  int64_t items = s.batch * s.heads;
  worker w =
      worker_of(context, args, backward_floats(&s), scratch_bytes(context, &s, true), thread);
  ac_dot_begin(context->dot);
  for (int64_t item = thread; item < items; item += team) {
    head_view h = begin_head(&w, &s, item / s.heads, item % s.heads);
    for (int64_t key = 0; key < s.length; key += s.keys) backward_keys(&w, &s, &h, key);
    if (has_parts(&s)) store_rows(&s, args, h.sums, h.dq, s.wide, 0, s.length);
  }
  ac_dot_end(context->dot);
}

static void backward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, backward_part);
}

static uint64_t backward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = describe(context, args, &args->in[1]);
  uint64_t scratch = scratch_bytes(context, &s, true);
  return (uint64_t)context->threads * worker_bytes(backward_floats(&s), scratch);
}

const ac_cpu_kernel AC_CPU_KERNEL(attention) = {.run = forward, .workspace = forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(attention_gradient) = {.run = backward,
                                                         .workspace = backward_workspace};
