/* Attention (ops/attention/attention.c has the formula). A thread has a block of queries of one
 * head, and goes over the parts of the keys that it sees. Its largest score grows part by part, and
 * earlier sums are scaled by e^(old - new) (Milakov and Gimelshein, arXiv 1805.02867).
 *
 * If storage is 16 bits, the thread's workspace holds floats: the rows that a block and a part use.
 * If products of bf16 are fastest without conversion (product/gemm.h), q, k and v are not copied,
 * and weights are rounded to bf16 before they are multiplied, each row in the first half of its
 * floats.
 *
 * A single query, as where a text is continued, reads each key and each value once, where they are:
 * packing them, or copying them as floats, would take longer than the products. */
#include "backend/cpu/attention/tiles.h"

#include <float.h>

/* ---- scores ---------------------------------------------------------------------------------- */

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

static void cap_row(float *row, float cap, int64_t n) {
  const float inverted = 1 / cap;
#pragma omp simd
  for (int64_t j = 0; j < n; j++) row[j] = cap * hyperbolic_tangent(row[j] * inverted);
}

/* Keys of other segments get -inf. */
static void hide_others(float *row, const int32_t *ids, int32_t id, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    float score = row[j];
    row[j] = ids[j] == id ? score : -INFINITY;
  }
}

/* What is before `first`, and from `end` to `width`, becomes -inf. Returns the maximum; width is a
 * multiple of a vector. */
static float hide_ends(float *row, ac_attention_range seen, int64_t width) {
  for (int64_t j = 0; j < seen.first; j++) row[j] = -INFINITY;
  for (int64_t j = seen.end; j < width; j++) row[j] = -INFINITY;
  return row_max(row, width);
}

/* Row r of products becomes one of scores; returns the largest. */
static float finish_row(const shape *s, const sight *v, tile of, int64_t r, float *row) {
  const int64_t query = of.first + r;
  ac_attention_range seen = seen_by(s, v, of, r);
  if (s->attributes->soft_cap > 0) cap_row(row, s->attributes->soft_cap, of.keys);
  if (v->bias) add_row(row, v->bias + query * s->of.keys + of.key, of.keys);
  if (of.mixed && v->segments[query] < 0) seen.end = seen.first;
  else if (of.mixed) hide_others(row, v->key_segments + of.key, v->segments[query], of.keys);
  return hide_ends(row, seen, row_stride(of.keys));
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

/* ---- blocks ---------------------------------------------------------------------------------- */

/* What is known of a block's rows after some parts: the largest scores, and the sums of weights. It
 * begins with a finite score, for a part of -inf to add nothing. */
typedef struct progress {
  int64_t first; /* query of the first row */
  bool begun;    /* y has sums of some part */
  float max[MOST_ROWS], sum[MOST_ROWS];
} progress;

static void begin_progress(progress *so_far, int64_t first, int64_t count) {
  so_far->first = first;
  so_far->begun = false;
  for (int64_t r = 0; r < count; r++) {
    so_far->max[r] = -FLT_MAX;
    so_far->sum[r] = 0;
  }
}

/* The scores of a tile become weights, still to be divided by the sum; y's rows of the parts before
 * are scaled to the largest scores that are known now. `y` are the tile's rows. */
static void weigh_scores(const shape *s, const sight *v, tile of, float *scores, rows y,
                         progress *so_far) {
  const int64_t stride = row_stride(of.keys), at = of.first - so_far->first;
  float *known = so_far->max + at, *sums = so_far->sum + at;
  float max[MOST_ROWS], factor[MOST_ROWS];
  /* Several loops, so that the short chains of dependent operations of many rows overlap. */
  for (int64_t r = 0; r < of.count; r++) max[r] = finish_row(s, v, of, r, scores + r * stride);
  for (int64_t r = 0; r < of.count; r++) {
    max[r] = larger(max[r], known[r]);
    factor[r] = exponential(known[r] - max[r]);
  }
  for (int64_t r = 0; r < of.count; r++) {
    float sum = exponentiate(scores + r * stride, max[r], stride);
    sums[r] = sums[r] * factor[r] + sum;
    known[r] = max[r];
  }
  for (int64_t r = 0; r < of.count && so_far->begun; r++)
    scale_row(float_row(y, r), factor[r], s->of.values);
  const mask *m = &v->mask;
  for (int64_t r = 0; r < of.count && m->factor > 0; r++)
    drop_row(m, m->origin + (of.first + r) * s->of.keys + of.key, scores + r * stride,
             seen_by(s, v, of, r).end);
}

/* The block of one head of one row of B that a thread has. */
typedef struct block {
  const void *k, *v;
  sight sight;
  int64_t first, count;
  rows q, y;
  float *room; /* for the keys and values of a part */
} block;

/* ---- a single query -------------------------------------------------------------------------- */

/* Rows of its keys and values are widened one at a time, if they have no more elements. */
enum { ONE_QUERY_SIZE = 512 };

static bool has_one_query(const shape *s) {
  return s->of.queries == 1 && s->of.size <= ONE_QUERY_SIZE && s->of.values <= ONE_QUERY_SIZE;
}

static void score_keys(const shape *s, const block *own, tile of, float *scores) {
  float query_room[ONE_QUERY_SIZE], room[ONE_QUERY_SIZE];
  const float *query = widen_row(own->q, 0, s->of.size, query_room);
  const rows keys = stored_rows(s, own->k, s->of.k_stride, of.key);
  for (int64_t j = 0; j < of.keys; j++)
    scores[j] =
        s->attributes->scale * row_dot(query, widen_row(keys, j, s->of.size, room), s->of.size);
}

static void add_values(const shape *s, const block *own, tile of, const float *weights, float *y) {
  float room[ONE_QUERY_SIZE];
  const rows values = stored_rows(s, own->v, s->of.v_stride, of.key);
  for (int64_t j = 0; j < of.keys; j++) {
    const float *value = widen_row(values, j, s->of.values, room);
    const float weight = weights[j];
#pragma omp simd
    for (int64_t i = 0; i < s->of.values; i++) y[i] += weight * value[i];
  }
}

static void forward_query(const worker *w, const shape *s, const block *own, tile of,
                          progress *so_far) {
  float *y = float_row(own->y, 0);
  score_keys(s, own, of, w->floats);
  weigh_scores(s, &own->sight, of, w->floats, own->y, so_far);
  if (!so_far->begun) clear_row(y, s->of.values);
  add_values(s, own, of, w->floats, y);
  so_far->begun = true;
}

/* ---- many ------------------------------------------------------------------------------------ */

/* What one tile adds to y. */
static void forward_tile(const worker *w, const shape *s, const block *own, tile of,
                         progress *so_far) {
  float *room = own->room;
  const int64_t at = of.first - own->first;
  rows scores = {w->floats, row_stride(of.keys), AC_F32}, y = rows_from(own->y, at);
  rows k = read_rows(s, own->k, s->of.k_stride, of.key, of.keys, s->of.size, &room);
  rows v = read_rows(s, own->v, s->of.v_stride, of.key, of.keys, s->of.values, &room);
  /* Rows that come later begin from nothing. */
  if (!so_far->begun && of.count < own->count) {
    clear_rows(own->y, 0, own->count, s->of.values);
    so_far->begun = true;
  }
  multiply(w, rows_product(of, s->of.size, s->attributes->scale, rows_from(own->q, at), k, scores));
  weigh_scores(s, &own->sight, of, scores.at, y, so_far);
  scores = round_scores(s, scores, of.count);
  multiply(w, scores_product(of, s->of.values, false, scores, v, y, so_far->begun));
  so_far->begun = true;
}

/* Divides by the sums. A row that has seen nothing is 0. */
static void finish_block(const shape *s, const block *own, const progress *so_far, float *lse) {
  const float keep = own->sight.mask.factor > 0 ? own->sight.mask.factor : 1.0f;
  for (int64_t r = 0; r < own->count; r++) {
    const float sum = so_far->sum[r];
    if (!so_far->begun || sum == 0) clear_row(float_row(own->y, r), s->of.values);
    else scale_row(float_row(own->y, r), keep / sum, s->of.values);
    lse[r] = sum == 0 ? AC_ATTENTION_UNSEEN : so_far->max[r] + logf(sum);
  }
}

static void forward_block(const worker *w, const shape *s, int64_t b, int64_t head, int64_t first) {
  const ac_op_args *args = s->args;
  const void *q = ac_element(s->q->data, s->dtype, q_place(s, b, head));
  void *out = ac_element(args->out[0].data, s->dtype, y_place(s, b, head));
  float *lse = (float *)args->out[1].data + lse_place(s, b, head) + first;
  block own = {.k = ac_element(s->k->data, s->dtype, k_place(s, b, head)),
               .v = ac_element(s->v->data, s->dtype, v_place(s, b, head)),
               .sight = sight_of(s, b, head),
               .first = first,
               .count = ac_smaller(s->rows, s->of.queries - first),
               .room = w->floats + s->rows * row_stride(s->part)};
  const tile all = tile_of(s, &own.sight, first, own.count, 0, s->of.keys);
  if (all.count) own.q = read_rows(s, q, s->of.q_stride, first, own.count, s->of.size, &own.room);
  own.y = take_rows(s, out, y_stride(s), first, own.count, s->of.values, &own.room);
  progress so_far;
  begin_progress(&so_far, first, own.count);
  for (int64_t key = all.key; all.count && key < all.key + all.keys; key += s->part) {
    const int64_t end = ac_smaller(key + s->part, all.key + all.keys);
    const tile of = tile_of(s, &own.sight, first, own.count, key, end);
    if (of.count && has_one_query(s)) forward_query(w, s, &own, of, &so_far);
    else if (of.count) forward_tile(w, s, &own, of, &so_far);
  }
  finish_block(s, &own, &so_far, lse);
  store_rows(s, own.y, out, y_stride(s), first, own.count, s->of.values);
}

/* ---- the op ---------------------------------------------------------------------------------- */

static shape forward_shape(const ac_cpu_context *context, const ac_op_args *args) {
  return describe(context, args, 0, 3);
}

/* Floats of workspace of a thread: scores, q and y of the block, k and v of the part. */
static int64_t forward_floats(const shape *s) {
  return s->rows * row_stride(s->part) + factor_room(s, s->rows + s->part, s->of.size) +
         factor_room(s, s->part, s->of.values) + room_for(s, s->rows, s->of.values);
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  shape s = forward_shape(context, args);
  int64_t blocks = ac_ceil_div(s.of.queries, s.rows), items = s.of.batch * s.of.heads * blocks;
  worker w =
      worker_of(context, args, forward_floats(&s), scratch_bytes(context, &s, false), thread);
  ac_dot_begin(context->dot);
  for (int64_t item = thread; item < items; item += team) {
    /* Every other head from its last block, for later blocks are longer if it is causal. */
    int64_t head = item / blocks, turn = item % blocks, own = head % 2 ? blocks - 1 - turn : turn;
    forward_block(&w, &s, head / s.of.heads, head % s.of.heads, own * s.rows);
  }
  ac_dot_end(context->dot);
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, forward_part);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = forward_shape(context, args);
  uint64_t scratch = scratch_bytes(context, &s, false);
  return (uint64_t)context->threads * worker_bytes(forward_floats(&s), scratch);
}

const ac_cpu_kernel AC_CPU_KERNEL(attention) = {.run = forward, .workspace = forward_workspace};
