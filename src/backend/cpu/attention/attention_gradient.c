/* The gradient of attention (ops/attention/attention.c has the formula): weights are computed anew
 * from lse, tile by tile (tiles.h).
 *
 * A thread has the heads that share keys, one after the other, and of each head part by part of the
 * keys. Within a part blocks of queries add to dk and dv, from the last block to the first. If the
 * masks leave whole blocks out, all sums begin as zeros. Otherwise the last block writes the rows
 * of dk and dv that the others add to, and the first part those of dq.
 *
 * The gradient of a bias is a sum over samples, and over heads that share it, so it is computed in
 * another pass, in which a thread has a block of its rows. That needs the first two of the five
 * products once more, and no room.
 *
 * If storage is 16 bits, the thread's workspace holds floats: the rows that a block and a part use;
 * the sums dk and dv of a part or, if heads share them, of all keys; if there are several parts, dq
 * of a head. If products of bf16 are fastest without conversion (product/gemm.h), q, k, v and dy
 * are not copied, and weights and gradients of scores are rounded to bf16 before they are
 * multiplied, each row in the first half of its floats. */
#include "backend/cpu/attention/tiles.h"

/* ---- scores ---------------------------------------------------------------------------------- */

/* Caps a row; `slope` gets 1 - tanh^2. */
static void cap_row(float *row, float *slope, float cap, int64_t n) {
  const float inverted = 1 / cap;
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    float t = hyperbolic_tangent(row[j] * inverted);
    row[j] = cap * t;
    slope[j] = 1 - t * t;
  }
}

static void multiply_row(float *row, const float *other, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) row[j] *= other[j];
}

/* Keys of other segments have no part in either. */
static void clear_others(float *p, float *ds, const int32_t *ids, int32_t id, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    float weight = p[j], gradient = ds[j];
    p[j] = ids[j] == id ? weight : 0.0f;
    ds[j] = ids[j] == id ? gradient : 0.0f;
  }
}

/* Turns a row of scores into weights (dropout applied) and one of dy v^T into their gradients;
 * outside of what is seen both are 0. */
static void gradient_row(const mask *m, int64_t start, float *p, float *ds, float lse, float dot,
                         float scale, ac_attention_range range, int64_t width) {
  const unsigned seen = (unsigned)(range.end - range.first);
  if (!(m->factor > 0)) {
    int first = (int)range.first, count = (int)width;
#pragma omp simd
    for (int j = 0; j < count; j++) {
      float weight = exponential(p[j] - lse), gradient = weight * (ds[j] - dot) * scale;
      p[j] = (unsigned)(j - first) < seen ? weight : 0.0f;
      ds[j] = (unsigned)(j - first) < seen ? gradient : 0.0f;
    }
    return;
  }
  uint16_t bits[AC_CPU_RANDOM_HALVES];
  for (int64_t column = 0, offset, step; column < width; column += step) {
    step = mask_bits(m, start, column, width, bits, &offset);
    float *weights = p + column, *gradients = ds + column;
    int first = (int)(range.first - column), count = (int)step;
#pragma omp simd
    for (int j = 0; j < count; j++) {
      float factor = bits[offset + j] < m->threshold ? 0.0f : m->factor;
      float weight = exponential(weights[j] - lse);
      float gradient = weight * (gradients[j] * factor - dot) * scale;
      weights[j] = (unsigned)(j - first) < seen ? weight * factor : 0.0f;
      gradients[j] = (unsigned)(j - first) < seen ? gradient : 0.0f;
    }
  }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* One head of one row of B, as stored. */
typedef struct head_view {
  const void *q, *k, *v, *y, *dy;
  const float *lse;
  sight sight;
  float *p, *ds, *slope, *room;
} head_view;

static head_view view_of(const worker *w, const shape *s, int64_t b, int64_t head) {
  const ac_op_args *args = s->args;
  const int64_t scores = s->rows * row_stride(s->part);
  head_view h = {.q = ac_element(s->q->data, s->dtype, q_place(s, b, head)),
                 .k = ac_element(s->k->data, s->dtype, k_place(s, b, head)),
                 .v = ac_element(s->v->data, s->dtype, v_place(s, b, head)),
                 .y = ac_element(args->in[4].data, s->dtype, y_place(s, b, head)),
                 .dy = ac_element(args->in[0].data, s->dtype, y_place(s, b, head)),
                 .lse = (const float *)args->in[5].data + lse_place(s, b, head),
                 .sight = sight_of(s, b, head),
                 .p = w->floats,
                 .ds = w->floats + scores,
                 .slope = w->floats + 2 * scores,
                 .room = w->floats + 2 * scores};
  if (s->attributes->soft_cap > 0) h.room += row_stride(s->part);
  return h;
}

/* Row r of products becomes one of scores. */
static void finish_row(const shape *s, const head_view *h, tile of, int64_t r, float *row) {
  if (s->attributes->soft_cap > 0) cap_row(row, h->slope, s->attributes->soft_cap, of.keys);
  if (h->sight.bias) add_row(row, h->sight.bias + (of.first + r) * s->of.keys + of.key, of.keys);
}

/* What multiplies the gradients of scores in the end. */
static float scale_of(const shape *s, bool of_bias) {
  return of_bias ? 1 : s->attributes->scale;
}

/* Products p become weights, and ds, which is dy v^T, the gradients of what the weights are made
 * of: of the products or, `of_bias`, of what is added to them. `room` is for two rows. */
static void gradient_rows(const shape *s, const head_view *h, tile of, bool of_bias, rows dy,
                          rows p, rows ds, float *room) {
  const sight *v = &h->sight;
  const bool slope = s->attributes->soft_cap > 0 && !of_bias;
  rows y = stored_rows(s, h->y, y_stride(s), of.first);
  for (int64_t r = 0; r < of.count; r++) {
    const int64_t query = of.first + r, values = s->of.values;
    const float *own = widen_row(dy, r, values, room),
                *other = widen_row(y, r, values, room + values);
    float *weights = float_row(p, r), *gradients = float_row(ds, r);
    finish_row(s, h, of, r, weights);
    ac_attention_range seen = seen_by(s, v, of, r);
    if (of.mixed && v->segments[query] < 0) seen.end = seen.first;
    gradient_row(&v->mask, v->mask.origin + query * s->of.keys + of.key, weights, gradients,
                 h->lse[query], row_dot(own, other, values), scale_of(s, of_bias), seen, p.ld);
    if (slope) multiply_row(gradients, h->slope, of.keys);
    if (of.mixed)
      clear_others(weights, gradients, v->key_segments + of.key, v->segments[query], of.keys);
  }
}

/* Rows of a tile's queries, as factors. */
typedef struct query_rows {
  rows q, dy;
} query_rows;

static query_rows read_queries(const shape *s, const head_view *h, tile of, float **room) {
  query_rows own;
  own.q = read_rows(s, h->q, s->of.q_stride, of.first, of.count, s->of.size, room);
  own.dy = read_rows(s, h->dy, y_stride(s), of.first, of.count, s->of.values, room);
  return own;
}

/* Weights and gradients of a tile, from rows k and v of its keys. */
static void tile_gradients(const worker *w, const shape *s, const head_view *h, tile of,
                           bool of_bias, query_rows own, rows k, rows v, rows p, rows ds,
                           float *room) {
  multiply(w, rows_product(of, s->of.size, s->attributes->scale, own.q, k, p));
  multiply(w, rows_product(of, s->of.values, 1, own.dy, v, ds));
  gradient_rows(s, h, of, of_bias, own.dy, p, ds, room);
}

/* ---- dq, dk and dv --------------------------------------------------------------------------- */

/* Where gradients go: to the outputs, or into the one of q. Any may be absent. */
typedef struct targets {
  void *q, *k, *v; /* of a head; NULL: absent */
} targets;

static targets targets_of(const shape *s, int64_t b, int64_t head) {
  const ac_operand *out = s->args->out;
  const ac_operand *k = s->of.packed ? &out[0] : &out[1], *v = s->of.packed ? &out[0] : &out[2];
  targets t = {NULL, NULL, NULL};
  if (out[0].count) t.q = ac_element(out[0].data, s->dtype, q_place(s, b, head));
  if (k->count) t.k = ac_element(k->data, s->dtype, k_place(s, b, head));
  if (v->count) t.v = ac_element(v->data, s->dtype, v_place(s, b, head));
  return t;
}

/* One part of the keys: what blocks share to multiply and to add to. */
typedef struct part_view {
  int64_t key, end;
  rows k, v, dk, dv;
} part_view;

/* The sums of the heads that share keys, and what is there for one head. */
typedef struct sums {
  targets to;
  rows q;         /* dq of all rows, if there are parts */
  rows dk, dv;    /* of all keys, if several heads share them */
  bool add;       /* heads before have added to dk and dv */
  float *of_part; /* room for the rows of a part */
} sums;

/* Room for dq's rows of a block: those of the head's sums, or such as `room` is for. */
static rows gradient_of_queries(const shape *s, const sums *to, int64_t first, int64_t count,
                                float **room) {
  if (!has_parts(s)) return take_rows(s, to->to.q, s->of.q_stride, first, count, s->of.size, room);
  return rows_from(to->q, first);
}

/* What a tile adds to the three gradients; `dq` are the tile's rows. */
static void backward_tile(const worker *w, const shape *s, const head_view *h, const sums *to,
                          const part_view *part, tile of, rows dq, float *room) {
  const int64_t at = of.key - part->key, size = s->of.size, values = s->of.values;
  const rows k = rows_from(part->k, at), v = rows_from(part->v, at);
  rows p = {h->p, row_stride(of.keys), AC_F32}, ds = {h->ds, row_stride(of.keys), AC_F32};
  query_rows own = read_queries(s, h, of, &room);
  tile_gradients(w, s, h, of, false, own, k, v, p, ds, room);
  p = round_scores(s, p, of.count);
  ds = round_scores(s, ds, of.count);
  const bool add = !s->whole || to->add || of.first + of.count < s->of.queries;
  const bool add_q = !s->whole || of.key > 0;
  if (to->to.q) multiply(w, scores_product(of, size, false, ds, k, dq, add_q));
  if (to->to.k)
    multiply(w, scores_product(of, size, true, ds, own.q, rows_from(part->dk, at), add));
  if (to->to.v)
    multiply(w, scores_product(of, values, true, p, own.dy, rows_from(part->dv, at), add));
}

static void backward_block(const worker *w, const shape *s, const head_view *h, const sums *to,
                           const part_view *part, int64_t first, float *room) {
  const int64_t count = ac_smaller(s->rows, s->of.queries - first), size = s->of.size;
  const tile of = tile_of(s, &h->sight, first, count, part->key, part->end);
  if (!of.count && has_parts(s)) return;
  rows dq = {NULL, 0, AC_F32};
  if (to->to.q) dq = gradient_of_queries(s, to, first, count, &room);
  if (to->to.q && !s->whole && !has_parts(s)) clear_rows(dq, 0, count, size);
  if (of.count) {
    rows own = to->to.q ? rows_from(dq, of.first - first) : dq;
    backward_tile(w, s, h, to, part, of, own, room);
  }
  if (to->to.q && !has_parts(s)) store_rows(s, dq, to->to.q, s->of.q_stride, first, count, size);
}

/* Rows of a part, from `key` on, of sums over all keys, or of such as are written part by part. */
static rows part_rows(const shape *s, rows all, void *x, int64_t ld, int64_t key, int64_t count,
                      int64_t size, float **room) {
  if (s->group > 1) return rows_from(all, key);
  return take_rows(s, x, ld, key, count, size, room);
}

static void backward_keys(const worker *w, const shape *s, const head_view *h, const sums *to,
                          int64_t key) {
  const int64_t keys = ac_smaller(s->part, s->of.keys - key), size = s->of.size,
                values = s->of.values, k_stride = s->of.k_stride, v_stride = s->of.v_stride;
  const targets *t = &to->to;
  float *room = to->of_part;
  part_view part = {.key = key, .end = key + keys};
  part.k = read_rows(s, h->k, k_stride, key, keys, size, &room);
  part.v = read_rows(s, h->v, v_stride, key, keys, values, &room);
  if (t->k) part.dk = part_rows(s, to->dk, t->k, k_stride, key, keys, size, &room);
  if (t->v) part.dv = part_rows(s, to->dv, t->v, v_stride, key, keys, values, &room);
  if (t->k && !s->whole && !to->add) clear_rows(part.dk, 0, keys, size);
  if (t->v && !s->whole && !to->add) clear_rows(part.dv, 0, keys, values);
  int64_t last = (s->of.queries - 1) / s->rows * s->rows;
  for (int64_t first = last; first >= 0; first -= s->rows)
    backward_block(w, s, h, to, &part, first, room);
  if (s->group > 1) return;
  if (t->k) store_rows(s, part.dk, t->k, k_stride, key, keys, size);
  if (t->v) store_rows(s, part.dv, t->v, v_stride, key, keys, values);
}

static void backward_head(const worker *w, const shape *s, sums *to, int64_t b, int64_t head,
                          float *room) {
  head_view h = view_of(w, s, b, head);
  const int64_t queries = s->of.queries, size = s->of.size;
  to->to = targets_of(s, b, head);
  if (to->to.q && has_parts(s)) {
    to->q = take_rows(s, to->to.q, s->of.q_stride, 0, queries, size, &room);
    if (!s->whole) clear_rows(to->q, 0, queries, size);
  }
  to->of_part = room;
  for (int64_t key = 0; key < s->of.keys; key += s->part) backward_keys(w, s, &h, to, key);
  if (to->to.q && has_parts(s)) store_rows(s, to->q, to->to.q, s->of.q_stride, 0, queries, size);
}

/* The heads that share keys. */
static void backward_group(const worker *w, const shape *s, int64_t b, int64_t keys_of) {
  const int64_t first = keys_of * s->group, keys = s->of.keys, size = s->of.size,
                values = s->of.values;
  const targets t = targets_of(s, b, first);
  float *room = view_of(w, s, b, first).room;
  sums to = {.add = false};
  if (s->group > 1 && t.k) to.dk = take_rows(s, t.k, s->of.k_stride, 0, keys, size, &room);
  if (s->group > 1 && t.v) to.dv = take_rows(s, t.v, s->of.v_stride, 0, keys, values, &room);
  for (int64_t head = first; head < first + s->group; head++) {
    backward_head(w, s, &to, b, head, room);
    to.add = true;
  }
  if (s->group > 1 && t.k) store_rows(s, to.dk, t.k, s->of.k_stride, 0, keys, size);
  if (s->group > 1 && t.v) store_rows(s, to.dv, t.v, s->of.v_stride, 0, keys, values);
}

/* ---- the gradient of the bias ---------------------------------------------------------------- */

/* What one head of one row of B adds to rows [first, first + count) of a bias. */
static void bias_of_head(const worker *w, const shape *s, int64_t b, int64_t head, int64_t first,
                         int64_t count, float *out) {
  head_view h = view_of(w, s, b, head);
  for (int64_t key = 0; key < s->of.keys; key += s->part) {
    const int64_t end = ac_smaller(key + s->part, s->of.keys);
    const tile of = tile_of(s, &h.sight, first, count, key, end);
    if (!of.count) continue;
    float *room = h.room;
    rows k = read_rows(s, h.k, s->of.k_stride, of.key, of.keys, s->of.size, &room);
    rows v = read_rows(s, h.v, s->of.v_stride, of.key, of.keys, s->of.values, &room);
    rows p = {h.p, row_stride(of.keys), AC_F32}, ds = {h.ds, row_stride(of.keys), AC_F32};
    query_rows own = read_queries(s, &h, of, &room);
    tile_gradients(w, s, &h, of, true, own, k, v, p, ds, room);
    for (int64_t r = 0; r < of.count; r++)
      add_row(out + (of.first - first + r) * s->of.keys + of.key, float_row(ds, r), of.keys);
  }
}

/* A block of rows of one bias: a sum over those that share it. */
static void bias_block(const worker *w, const shape *s, int64_t b, int64_t head, int64_t first) {
  const ac_op_args *args = s->args;
  const int64_t count = ac_smaller(s->rows, s->of.queries - first), keys = s->of.keys;
  float *out = (float *)args->out[3].data + bias_place(s, b, head) + first * keys;
  if (!args->add[3])
    for (int64_t r = 0; r < count; r++) clear_row(out + r * keys, keys);
  const int64_t last = s->of.bias_batch ? b + 1 : s->of.batch,
                last_head = s->of.bias_head ? head + 1 : s->of.heads;
  for (; b < last; b++)
    for (int64_t h = head; h < last_head; h++) bias_of_head(w, s, b, h, first, count, out);
}

static void bias_part(const worker *w, const shape *s, int thread, int team) {
  const int64_t blocks = ac_ceil_div(s->of.queries, s->rows),
                heads = s->of.bias_head ? s->of.heads : 1,
                items = (s->of.bias_batch ? s->of.batch : 1) * heads * blocks;
  for (int64_t item = thread; item < items; item += team) {
    const int64_t bias = item / blocks, turn = item % blocks,
                  block = bias % 2 ? blocks - 1 - turn : turn;
    bias_block(w, s, bias / heads, bias % heads, block * s->rows);
  }
}

/* ---- the op ---------------------------------------------------------------------------------- */

static shape backward_shape(const ac_cpu_context *context, const ac_op_args *args) {
  return describe(context, args, 1, 6);
}

/* Floats of workspace of a thread: scores and their gradients of a block, slopes of a cap, sums of
 * dk and dv, k and v of a part, q, dy and dq of a block, or dq of a head, and two rows. */
static int64_t backward_floats(const shape *s) {
  const int64_t size = s->of.size, values = s->of.values,
                keys = s->group > 1 ? s->of.keys : s->part,
                queries = has_parts(s) ? s->of.queries : s->rows;
  return (2 * s->rows + (s->attributes->soft_cap > 0)) * row_stride(s->part) +
         factor_room(s, s->part + s->rows, size) + factor_room(s, s->part + s->rows, values) +
         room_for(s, keys + queries, size) + room_for(s, keys + 2, values);
}

static void backward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                          int team) {
  shape s = backward_shape(context, args);
  const ac_operand *out = args->out;
  int64_t items = s.of.batch * s.of.key_heads;
  worker w =
      worker_of(context, args, backward_floats(&s), scratch_bytes(context, &s, true), thread);
  ac_dot_begin(context->dot);
  if (out[0].count || out[1].count || out[2].count)
    for (int64_t item = thread; item < items; item += team)
      backward_group(&w, &s, item / s.of.key_heads, item % s.of.key_heads);
  if (out[3].count) bias_part(&w, &s, thread, team);
  ac_dot_end(context->dot);
}

static void backward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, backward_part);
}

static uint64_t backward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = backward_shape(context, args);
  uint64_t scratch = scratch_bytes(context, &s, true);
  return (uint64_t)context->threads * worker_bytes(backward_floats(&s), scratch);
}

const ac_cpu_kernel AC_CPU_KERNEL(attention_gradient) = {.run = backward,
                                                         .workspace = backward_workspace};
