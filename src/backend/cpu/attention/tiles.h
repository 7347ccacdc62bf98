/* What attention and its gradient share: shapes, masks, and products of a block of queries with a
 * part of the keys.
 *
 * Queries come in blocks of rows and keys in parts, so that one block's scores of one part stay in
 * the cache for every length of context. A tile is what a block of queries sees of a part: only the
 * rows that see any of its keys, and only the keys between the first and the last that one of them
 * sees. Tiles without a row are left out, so that what masks hide costs nothing. Within a tile a
 * row sees an interval of keys, and of these the keys of its own segment. */
#ifndef AC_BACKEND_CPU_ATTENTION_TILES_H
#define AC_BACKEND_CPU_ATTENTION_TILES_H

#include "backend/cpu/product/dot.h"
#include "backend/cpu/product/gemm.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/random_bits.h"
#include "backend/cpu/shared/reduce.h"
#include "backend/cpu/shared/vector_math.h"
#include "core/align.h"
#include "ops/attention/attention.h"

#include <math.h>

/* Rows of a block at most, keys of one of several parts, and the longest context that is one part:
 * all its scores stay in the second-level cache. Parts are whole blocks. */
enum { MOST_ROWS = 128, PART_KEYS = 512, ONE_PART = 1024 };

/* Low blocks waste less above the diagonal, high ones use what is packed of k and v more often. */
static inline int64_t block_rows(int64_t length) {
  return length <= 128 ? 32 : length <= ONE_PART ? 64 : MOST_ROWS;
}

/* Rows of scores are padded to whole vectors, with weights of 0, and loops over a row run to its
 * end. Long rows are padded by one vector more, so that a power of two does not put all in the same
 * sets of the cache. */
enum { VECTOR = AC_CPU_LANES, LONG = 256 };

static inline int64_t row_stride(int64_t reach) {
  return ac_ceil_div(reach, VECTOR) * VECTOR + (reach >= LONG ? VECTOR : 0);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

typedef struct shape {
  const ac_op_args *args;
  const ac_attention_attributes *attributes;
  ac_attention_shape of;
  const ac_operand *q, *k, *v; /* with these operands, k and v also where all are in q */
  int64_t k_first, v_first;    /* elements before the first key and value */
  const ac_operand *bias, *lengths, *segments, *key_segments; /* NULL: none */
  int64_t group;                                              /* heads that share keys */
  int64_t rows, part; /* of a block of queries, and keys of a part */
  ac_dtype dtype;     /* of what is stored */
  ac_dtype factors;   /* of what is multiplied: dtype, or f32 */
  /* The last block sees every key, and every query one of the first part: whatever else adds to
   * gradients comes after these. */
  bool whole;
} shape;

static inline const ac_operand *present(const ac_operand *x) {
  return x->count ? x : NULL;
}

static inline bool sees_whole(const shape *s) {
  const ac_attention_attributes *a = s->attributes;
  if (s->lengths || s->segments || a->window || a->skip_padding) return false;
  if (!a->causal || s->of.queries == s->of.keys) return true;
  return a->at_end == (s->of.queries < s->of.keys);
}

/* `first` is the operand that holds the queries, `bias` the one with the bias. */
static inline shape describe(const ac_cpu_context *context, const ac_op_args *args, int first,
                             int bias) {
  const ac_operand *in = args->in;
  const ac_attention_attributes *a = args->attributes;
  shape s = {.args = args,
             .attributes = a,
             .of = ac_attention_shape_of(a, &in[first], &in[first + 1], &in[first + 2], &in[bias]),
             .q = &in[first],
             .k = &in[first + 1],
             .v = &in[first + 2],
             .bias = present(&in[bias]),
             .lengths = present(&in[bias + 1]),
             .segments = present(&in[bias + 2]),
             .key_segments = present(&in[bias + 3]),
             .group = a->heads / a->key_heads,
             .dtype = in[first].dtype,
             .factors = ac_cpu_factor_dtype(context, in[first].dtype)};
  if (!s.key_segments) s.key_segments = s.segments;
  if (s.of.packed) {
    s.k = s.v = s.q;
    s.k_first = s.of.heads * s.of.size;
    s.v_first = s.k_first + s.of.key_heads * s.of.size;
  }
  s.rows = ac_smaller(block_rows(s.of.keys), s.of.queries);
  s.part = s.of.keys <= ONE_PART ? s.of.keys : PART_KEYS;
  s.whole = sees_whole(&s);
  return s;
}

static inline bool has_parts(const shape *s) {
  return s->part < s->of.keys;
}

/* Elements from one row of y and dy to the next. */
static inline int64_t y_stride(const shape *s) {
  return s->of.heads * s->of.values;
}

/* Where queries, keys, values and results of a head begin, of row b. */
static inline int64_t q_place(const shape *s, int64_t b, int64_t head) {
  return b * s->of.queries * s->of.q_stride + head * s->of.size;
}
static inline int64_t k_place(const shape *s, int64_t b, int64_t head) {
  return s->k_first + b * s->of.keys * s->of.k_stride + head / s->group * s->of.size;
}
static inline int64_t v_place(const shape *s, int64_t b, int64_t head) {
  return s->v_first + b * s->of.keys * s->of.v_stride + head / s->group * s->of.values;
}
static inline int64_t y_place(const shape *s, int64_t b, int64_t head) {
  return b * s->of.queries * y_stride(s) + head * s->of.values;
}
static inline int64_t lse_place(const shape *s, int64_t b, int64_t head) {
  return (b * s->of.heads + head) * s->of.queries;
}
static inline int64_t bias_place(const shape *s, int64_t b, int64_t head) {
  return b * s->of.bias_batch + head * s->of.bias_head;
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* The dropout masks of one head of one row of B; a factor of 0 means that there is no dropout. */
typedef struct mask {
  random_mask random;
  uint32_t sample, threshold;
  int64_t origin; /* element of the first query and key */
  float factor;
} mask;

static inline mask describe_mask(const shape *s, int64_t b, int64_t head) {
  const ac_attention_attributes *a = s->attributes;
  const ac_run_state *run = s->args->run;
  if (!run->training || !(a->dropout > 0)) return (mask){0};
  const int64_t sample = b / a->per_sample, row = b % a->per_sample;
  return (mask){.random = random_mask_of(run->seed, run->update, a->stream),
                .sample = run->sample + (uint32_t)sample,
                .threshold = ac_dropout_threshold(a->dropout),
                .origin = (row * s->of.heads + head) * s->of.queries * s->of.keys,
                .factor = ac_dropout_factor(a->dropout)};
}

/* Random bits for columns [column, column + returned) of a mask's row that starts at element
 * `start`; the first are at *offset. Columns are taken from multiples of 8 elements on. */
static inline int64_t mask_bits(const mask *m, int64_t start, int64_t column, int64_t end,
                                uint16_t *bits, int64_t *offset) {
  int64_t element = start + column, base = element & ~(int64_t)7;
  random_bits(bits, &m->random, m->sample, (uint32_t)(base / 8));
  *offset = element - base;
  return ac_smaller(end - column, AC_CPU_RANDOM_HALVES - *offset);
}

/* ---- heads and tiles ------------------------------------------------------------------------- */

/* What one head of one row of B sees. */
typedef struct sight {
  int64_t length;                         /* keys that are there */
  const float *bias;                      /* [Tq, Tk], or NULL */
  const int32_t *segments, *key_segments; /* of this row, or NULL */
  mask mask;
} sight;

static inline sight sight_of(const shape *s, int64_t b, int64_t head) {
  sight v = {.length = s->of.keys, .mask = describe_mask(s, b, head)};
  if (s->lengths) {
    const int32_t length = ((const int32_t *)s->lengths->data)[b];
    v.length = ac_larger(0, ac_smaller(length, s->of.keys));
  }
  if (s->bias) v.bias = (const float *)s->bias->data + bias_place(s, b, head);
  if (s->segments) {
    v.segments = (const int32_t *)s->segments->data + b * s->of.queries;
    v.key_segments = (const int32_t *)s->key_segments->data + b * s->of.keys;
  }
  return v;
}

/* Queries [first, first + count) and keys [key, key + keys): scores [count, keys] in rows that are
 * row_stride(keys) apart. `mixed`: there are several segments. */
typedef struct tile {
  int64_t first, count, key, keys;
  bool mixed;
} tile;

/* The keys of [key, end) that a query sees by all but segments. */
static inline ac_attention_range seen_of(const shape *s, const sight *v, int64_t query, int64_t key,
                                         int64_t end) {
  ac_attention_range seen = ac_attention_seen(s->attributes, s->of.queries, v->length, query);
  seen.first = ac_smaller(ac_larger(seen.first, key), end);
  seen.end = ac_larger(ac_smaller(seen.end, end), seen.first);
  return seen;
}

/* The same for row r of a tile, from its first key on. */
static inline ac_attention_range seen_by(const shape *s, const sight *v, tile of, int64_t r) {
  ac_attention_range seen = seen_of(s, v, of.first + r, of.key, of.key + of.keys);
  return (ac_attention_range){seen.first - of.key, seen.end - of.key};
}

/* Leaves out keys at both ends that are in no segment from the least to the largest of the queries,
 * and finds out whether all are in one. Padding is in none. */
static inline tile trim_segments(const sight *v, tile of) {
  int32_t least = INT32_MAX, most = -1;
  bool padding = false;
  for (int64_t r = 0; r < of.count; r++) {
    const int32_t id = v->segments[of.first + r];
    padding |= id < 0;
    if (id >= 0 && id < least) least = id;
    if (id > most) most = id;
  }
  const int32_t *ids = v->key_segments;
  int64_t key = of.key, end = of.key + of.keys;
  while (key < end && (ids[key] < least || ids[key] > most)) key++;
  while (end > key && (ids[end - 1] < least || ids[end - 1] > most)) end--;
  of.mixed = padding || least != most;
  for (int64_t j = key; j < end && !of.mixed; j++) of.mixed = ids[j] != least;
  of.key = key;
  of.keys = end - key;
  if (key == end) of.count = 0;
  return of;
}

/* What the queries [first, first + count) see of the keys [key, end); no rows if it is nothing. */
static inline tile tile_of(const shape *s, const sight *v, int64_t first, int64_t count,
                           int64_t key, int64_t end) {
  int64_t last = first + count;
  ac_attention_range begin = {0, 0}, final = {0, 0};
  /* Both ends of what a query sees grow with the query. */
  for (; first < last; first++) {
    begin = seen_of(s, v, first, key, end);
    if (begin.first < begin.end) break;
  }
  for (; first < last; last--) {
    final = seen_of(s, v, last - 1, key, end);
    if (final.first < final.end) break;
  }
  tile of = {first, last - first, begin.first, final.end - begin.first, false};
  return of.count > 0 && v->segments ? trim_segments(v, of) : of;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows of one head, or of scores. */
typedef struct rows {
  void *at;
  int64_t ld;
  ac_dtype dtype;
} rows;

static inline float *float_row(rows x, int64_t row) {
  return (float *)x.at + row * x.ld;
}

static inline rows rows_from(rows x, int64_t row) {
  return (rows){ac_element(x.at, x.dtype, row * x.ld), x.ld, x.dtype};
}

/* Floats of room for `count` rows that are written, and for those that are multiplied. */
static inline int64_t room_for(const shape *s, int64_t count, int64_t size) {
  return s->dtype == AC_F32 ? 0 : count * size;
}
static inline int64_t factor_room(const shape *s, int64_t count, int64_t size) {
  return s->dtype == s->factors ? 0 : count * size;
}

static inline rows stored_rows(const shape *s, const void *x, int64_t ld, int64_t first) {
  return (rows){ac_element(x, s->dtype, first * ld), ld, s->dtype};
}

/* Room for rows [first, first + count) of what is stored at x, where they are to be written as
 * floats. */
static inline rows take_rows(const shape *s, const void *x, int64_t ld, int64_t first,
                             int64_t count, int64_t size, float **room) {
  if (s->dtype == AC_F32) return stored_rows(s, x, ld, first);
  rows r = {*room, size, AC_F32};
  *room += room_for(s, count, size);
  return r;
}

/* Reads those rows as factors of products. */
static inline rows read_rows(const shape *s, const void *x, int64_t ld, int64_t first,
                             int64_t count, int64_t size, float **room) {
  rows stored = stored_rows(s, x, ld, first);
  if (s->dtype == s->factors) return stored;
  rows r = take_rows(s, x, ld, first, count, size, room);
  ac_cpu_widen_rows(s->dtype, stored.at, ld, r.at, r.ld, count, size);
  return r;
}

/* Brings home rows that were written. */
static inline void store_rows(const shape *s, rows r, void *x, int64_t ld, int64_t first,
                              int64_t count, int64_t size) {
  if (s->dtype != AC_F32)
    ac_cpu_narrow_rows(s->dtype, s->args->run->mark_flushed, r.at, r.ld,
                       ac_element(x, s->dtype, first * ld), ld, count, size);
}

static inline void scale_row(float *row, float factor, int64_t size) {
#pragma omp simd
  for (int64_t j = 0; j < size; j++) row[j] *= factor;
}

static inline void clear_row(float *row, int64_t size) {
#pragma omp simd
  for (int64_t j = 0; j < size; j++) row[j] = 0;
}

static inline void clear_rows(rows x, int64_t first, int64_t count, int64_t size) {
  for (int64_t r = first; r < first + count; r++) clear_row(float_row(x, r), size);
}

/* One row as floats, in `room` unless they lie there. */
static inline const float *widen_row(rows x, int64_t row, int64_t size, float *room) {
  const void *at = ac_element(x.at, x.dtype, row * x.ld);
  if (x.dtype == AC_F32) return at;
  ac_cpu_widen(x.dtype, at, room, size);
  return room;
}

/* `count` rows of scores become factors of products. */
static inline rows round_scores(const shape *s, rows scores, int64_t count) {
  if (s->factors == AC_F32) return scores;
  for (int64_t r = 0; r < count; r++)
    ac_cpu_narrow_in_place(s->factors, false, float_row(scores, r), scores.ld);
  return (rows){scores.at, 2 * scores.ld, s->factors};
}

static inline void add_row(float *row, const float *other, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) row[j] += other[j];
}

/* ---- products -------------------------------------------------------------------------------- */

/* A thread: its floats in the workspace, and after them its scratch for products. */
typedef struct worker {
  const ac_cpu_context *context;
  float *floats;
  void *scratch;
  uint64_t scratch_bytes;
} worker;

/* scores = scale a b^T for rows a of the tile's queries and b of its keys, of `size` columns */
static inline ac_gemm rows_product(tile of, int64_t size, float scale, rows a, rows b,
                                   rows scores) {
  return (ac_gemm){.transpose_b = true,
                   .m = of.count,
                   .n = of.keys,
                   .k = size,
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
static inline ac_gemm scores_product(tile of, int64_t size, bool across, rows scores, rows b,
                                     rows to, bool add) {
  return (ac_gemm){.transpose_a = across,
                   .m = across ? of.keys : of.count,
                   .n = size,
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

static inline void multiply(const worker *w, ac_gemm product) {
  ac_cpu_gemm_stored(w->context, &product, NULL, w->scratch, w->scratch_bytes);
}

/* Bytes of a thread's scratch. Whole blocks and parts take the most. */
static inline uint64_t scratch_bytes(const ac_cpu_context *context, const shape *s, bool backward) {
  const tile last = {.count = s->rows, .keys = s->part};
  const int64_t size = s->of.size, values = s->of.values;
  rows factors = {.dtype = s->factors}, result = {.dtype = AC_F32};
  const ac_gemm products[] = {rows_product(last, size, 1, factors, factors, result),
                              scores_product(last, values, false, factors, factors, result, false),
                              rows_product(last, values, 1, factors, factors, result),
                              scores_product(last, size, false, factors, factors, result, false),
                              scores_product(last, size, true, factors, factors, result, true),
                              scores_product(last, values, true, factors, factors, result, true)};
  uint64_t most = 0;
  for (int i = 0; i < (backward ? 6 : 2); i++)
    most = ac_larger_bytes(most, ac_cpu_gemm_scratch(context, 1, &products[i]));
  return most;
}

/* Bytes of a thread that has so many floats in the workspace. */
static inline uint64_t worker_bytes(int64_t floats, uint64_t scratch) {
  return ac_align((uint64_t)floats * sizeof(float), AC_LINE_BYTES) + scratch;
}

static inline worker worker_of(const ac_cpu_context *context, const ac_op_args *args,
                               int64_t floats, uint64_t scratch, int thread) {
  uint64_t bytes = worker_bytes(floats, scratch);
  char *begin = (char *)args->workspace + (uint64_t)thread * bytes;
  return (worker){context, (float *)begin, begin + bytes - scratch, scratch};
}

#endif
