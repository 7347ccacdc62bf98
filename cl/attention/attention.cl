/* Attention without a matrix of all queries and keys (Dao et al., arXiv 2205.14135). With s_ij =
 * scale q_i k_j, capped and with a bias as in ops/attention/attention.c, for the keys j that query
 * i sees, lse_i = log sum_j exp s_ij and p_ij = exp(s_ij - lse_i):
 *
 *   y_i = sum_j p_ij u_ij v_j, where u is 1, or 0 or 1 / (1 - p) by dropout;
 *   with d_ij = u_ij dy_i v_j and D_i = dy_i y_i = sum_j p_ij d_ij, e_ij = p_ij (d_ij - D_i) scale:
 *   dq_i = sum_j e_ij k_j,  dk_j = sum_i e_ij q_i,  dv_j = sum_i p_ij u_ij dy_i.
 *
 * y is [B,Tq,H Dv], lse and D [B,H,Tq]; heads are of HEAD elements, or fewer with MASKED. Without
 * MASKED all is as in causal self-attention: a query sees the keys up to its own, and each head has
 * its own keys.
 *
 * A work-group of TX x TY items owns OWN rows of one head of one sample (queries in attention and
 * attention_query_gradient, keys in attention_key_gradient) and walks the other side's rows in
 * tiles of OTHER that the mask leaves: those between two, and with segments those of a list.
 * Products go through local memory in parts of PART head elements, a register tile of ROWS x
 * COLUMNS scores an item; the sums over the other side stay in registers, ROWS x WIDTH an item.
 * SIDE neighbours in a row of either are those of TX items, an element each; on a CPU TX is 1, and
 * they are one item's vector. Every output element has one owner, so there are no atomics and the
 * order of sums is fixed. Barriers are also between loops that differ among items and loops that
 * hold a barrier, as PoCL 3.1 would drop the former. Each of FORWARD, QUERY_GRADIENT, KEY_GRADIENT
 * and BIAS_GRADIENT compiles the kernels of one pass. Local memory: 4 STRIDE_PART (OWN + OTHER)
 * bytes and 4 STRIDE_SCORES OWN for each score matrix held (two in attention_key_gradient), at most
 * 31.5 KiB. Dtypes: storage for q, k, v, y and their gradients, float for lse, D and the bias. */
#include "product/products.h"

#define ITEMS (TX * TY)
#define OWN (TY * ROWS)
#define OTHER (SIDE * COLUMNS)
#define PART 32
#define PARTS ((HEAD + PART - 1) / PART)
#define PART_COLUMNS (PART / SIDE)
#define WIDTH (PARTS * PART_COLUMNS)
/* Of rows in local memory, in floats: a vector of four more than they hold, as in products.h,
 * except on a CPU, which has no banks: its vectors are as long as cache lines. */
#define STRIDE_PART (PART + GAP)
#define STRIDE_SCORES (OTHER + GAP)

/* tx says which of SIDE neighbours an item has: a number, on a CPU a vector of all of them, and so
 * are indices i that are made from it. GET reads elements of local memory, SET writes them;
 * GET_OTHER reads element d of rows of the other side, which lie turned on a CPU, so that a vector
 * has one of each. PLACE is where elements of a row of `end` that begins at `at` lie in global
 * memory. ANY asks whether an element is meant; on
 * a CPU that would take longer than to compute all of them, so that it says yes, and ONLY keeps
 * those that are. HAS is whether e has a bit. */
typedef WIDE(int) ints;
#ifdef IS_WIDE
#define SIDE 16
#define GAP 0
#define ACROSS as_int16(lane)
#define GET(x, i) (*(const local floats_anywhere *)((x) + (i).s0))
#define SET(x, i, v) (*(local floats_anywhere *)((x) + (i).s0) = (v))
#define GET_OTHER(x, i, d) GET(x, (d)*STRIDE_SCORES + (i))
#define PLACE(at, i, end) ((elements){(at) + (i).s0, clamp((end) - (i).s0, 0, SIDE)})
#define HAS(e, bit) (WIDE(convert_uint)((e) & (bit)) != 0)
#define ANY(condition) true
#define ONLY(condition, v) ((condition) ? (v) : (floats)0)
#else
#define SIDE TX
#define GAP 4
#define ACROSS get_local_id(0)
#define GET(x, i) (x)[i]
#define SET(x, i, v) ((x)[i] = (v))
#define GET_OTHER(x, i, d) (x)[(i)*STRIDE_PART + (d)]
#define PLACE(at, i, end) ((at) + (i))
#define HAS(e, bit) ((e) & (bit))
#define ANY(condition) (condition)
#define ONLY(condition, v) (v)
#endif

/* What dropout multiplies the weight of query i and key j with; `line`: heads before this one. */
floats kept(uint2 seed, uint sample, uint update, uint stream, uint threshold, float factor,
            ulong line, int queries, int keys, ints i, ints j) {
  if (threshold == 0) return 1;
  const WIDE(ulong) e = (line * queries + WIDE(convert_ulong)(i)) * keys + WIDE(convert_ulong)(j);
  random_words bits;
  bits.x = WIDE(convert_uint)(e / 8);
  bits.y = sample;
  bits.z = update;
  bits.w = stream;
  bits = philox(seed, bits);
  const uints low = HAS(e, 2) ? bits.y : bits.x, high = HAS(e, 2) ? bits.w : bits.z;
  return ((HAS(e, 4) ? high : low) >> 16 * WIDE(convert_uint)(e & 1) & 0xffffu) < threshold
             ? (floats)0
             : (floats)factor;
}

#ifndef SCORES
/* Shapes and masks, as in ops/attention/attention.h; all of 4 bytes. Keys and values begin at
 * elements k_first and v_first of a position's. */
typedef struct {
  int queries, keys, heads, key_heads, size, values;
  int q_stride, k_stride, v_stride, k_first, v_first;
  int before, after; /* positions that a query sees before and after its own */
  int at_end, skip_padding, per_sample, bias_heads, bias_samples;
  float scale, cap;
  uint seed_low, seed_high, first_sample, update, stream, threshold;
  float factor;
} problem;

#ifdef MASKED
#define SIZE(p) (p).size
#define VALUES(p) (p).values
#define KEY_HEADS(p) (p).key_heads
#else
#define SIZE(p) HEAD
#define VALUES(p) HEAD
#define KEY_HEADS(p) (p).heads
#endif

/* The rows of a group: sample, head (of queries or of keys), first own row; and what masks need
 * of the sample. */
typedef struct {
  int b, h, first, tile;
  int length, offset; /* of keys; of query 0's position */
  int lowest, above;  /* positions of queries that are not padding: [lowest, above) */
} place;

void find_sample(const problem p, place *at, const global int *lengths) {
  at->length = lengths ? clamp(lengths[at->b], 0, p.keys) : p.keys;
  at->offset = p.at_end ? at->length - p.queries : 0;
  at->lowest = p.skip_padding ? 0 : INT_MIN;
  at->above = p.skip_padding ? at->length : INT_MAX;
}

place find_place(const problem p, int rows, int heads, const global int *lengths) {
  const int tiles = (rows + OWN - 1) / OWN;
  const size_t group = get_group_id(0), head = group / tiles;
  place at;
  at.b = (int)(head / heads);
  at.h = (int)(head - (size_t)at.b * heads);
  at.tile = (int)(group - head * tiles);
  at.first = at.tile * OWN;
  find_sample(p, &at, lengths);
  return at;
}

floats kept_at(const problem p, int b, int h, ints query, ints key) {
  const int sample = b / p.per_sample, line = b - sample * p.per_sample;
  return kept((uint2)(p.seed_low, p.seed_high), p.first_sample + sample, p.update, p.stream,
              p.threshold, p.factor, (ulong)line * p.heads + h, p.queries, p.keys, query, key);
}

/* Whether a query sees a key, if segments allow it. Nothing here is under a condition:
 * oclgrind 21.10 takes vectors of bits that are to be one of two for something else. */
ints sees(const problem p, const place at, ints query, ints key) {
#ifdef MASKED
  const ints position = query + at.offset;
  return (query < p.queries) & (key < at.length) & (key - position <= p.after) &
         (position - key <= p.before) & (position >= at.lowest) & (position < at.above);
#else
  return (query < p.queries) & (key <= query);
#endif
}

#ifdef MASKED
/* The rows [first, end) of the other side that own rows may need: keys that queries see, and
 * queries that see keys. */
int2 seen_by(const problem p, const place at, int rows) {
  const int first = max(at.first + at.offset, at.lowest);
  const int last = min(min(at.first + OWN, rows) - 1 + at.offset, at.above - 1);
  int2 seen = (int2)(0, at.length);
  if (p.before != INT_MAX) seen.x = max(seen.x, first - p.before);
  if (p.after != INT_MAX) seen.y = min(seen.y, last + p.after + 1);
  if (first > last) seen.y = 0;
  return seen;
}

int2 seen_from(const problem p, const place at) {
  const int first = at.first, last = min(at.first + OWN, at.length) - 1;
  int2 seen = (int2)(0, p.queries);
  if (p.skip_padding) seen = (int2)(-at.offset, min(p.queries, at.length - at.offset));
  if (p.after != INT_MAX) seen.x = max(seen.x, first - p.after - at.offset);
  if (p.before != INT_MAX) seen.y = min(seen.y, last + p.before - at.offset + 1);
  if (first > last) seen.y = 0;
  return seen;
}

/* Elements of lanes k, at `index`; on a CPU without a loop (philox in common.h). What is beyond the
 * end is some element: nobody sees it. */
#ifdef IS_WIDE
#define LANES_OF(type, x, index)                                      \
  type v[SIDE];                                                       \
  _Pragma("unroll") for (int k = 0; k < SIDE; k++) v[k] = (x)[index]; \
  return vload16(0, v);
#define LANE(x, end) min((x).s0 + k, (end)-1)
#define STORE_FLOATS(x, i, v) store_floats(x, i, v)
#else
#define LANES_OF(type, x, index) return (x)[index];
#define LANE(x, end) min(x, (end)-1)
#define STORE_FLOATS(x, i, v) ((x)[i] = (v))
#endif

/* Segments of `count` rows; 0 if there are none. */
ints segments_of(const global int *segments, size_t base, ints row, int count) {
  if (!segments) return 0;
  LANES_OF(int, segments, base + LANE(row, count))
}
int segment_of(const global int *segments, size_t base, int row, int count) {
  return segments ? segments[base + min(row, count - 1)] : 0;
}
#define SAME(own, other) ((ints)((other) == (own)) & (ints)((other) >= 0))

/* Elements of the bias: of one query and SIDE neighbouring keys, and turned. */
size_t bias_line(const problem p, int b, int h) {
  const size_t line = (p.bias_samples ? (size_t)b * p.bias_heads : 0) + (p.bias_heads > 1 ? h : 0);
  return line * p.queries * p.keys;
}
floats bias_of_keys(const problem p, const global float *bias, size_t line, int query, ints key){
    LANES_OF(float, bias,
             line + (size_t)min(query, p.queries - 1) * p.keys + LANE(key, p.keys))} floats
    bias_of_queries(const problem p, const global float *bias, size_t line, ints query, int key){
        LANES_OF(float, bias,
                 line + (size_t)LANE(query, p.queries) * p.keys + min(key, p.keys - 1))}

/* A score from the product of query and key, without the bias; *slope: how it changes with the
 * product times the scale. */
floats capped(const problem p, floats product, floats *slope) {
  const floats s = product * p.scale;
  *slope = 1;
  if (!(p.cap > 0)) return s;
  const floats bounded = tanh(s / p.cap);
  *slope = 1 - bounded * bounded;
  return p.cap * bounded;
}

/* The tile that is visited as number n. */
#define VISITED(n) (list ? list[1 + (n)] : (n))

/* Which tiles of the other side may have segments of own rows: their number and they, for each tile
 * of own rows of each sample. One work-item a tile, groups of GROUP. */
kernel WORK_GROUP(GROUP, 1) void attention_lists(problem p, const global int *lengths,
                                                 const global int *segments,
                                                 const global int *key_segments, global int *space,
                                                 long first_list, int keys_own, long n) {
  const size_t item = element_id();
  if (item >= n) return;
  const int rows = keys_own ? p.keys : p.queries, others = keys_own ? p.queries : p.keys;
  const int most = (others + OTHER - 1) / OTHER, tiles = (rows + OWN - 1) / OWN;
  const int b = (int)quotient(item, tiles), own = (int)(item - (size_t)b * tiles) * OWN;
  place at;
  at.b = b;
  at.first = own;
  find_sample(p, &at, lengths);
  const int2 range = keys_own ? seen_from(p, at) : seen_by(p, at, rows);
  const global int *of_keys = (key_segments ? key_segments : segments) + (size_t)b * p.keys;
  const global int *of_queries = segments + (size_t)b * p.queries;
  const global int *mine = keys_own ? of_keys : of_queries;
  const global int *theirs = keys_own ? of_queries : of_keys;
  global int *list = space + first_list + item * (most + 1);
  int low = INT_MAX, high = -1, count = 0;
  for (int i = own; i < min(own + OWN, rows); i++)
    if (mine[i] >= 0) low = min(low, mine[i]), high = max(high, mine[i]);
  for (int tile = max(range.x, 0) / OTHER; tile * OTHER < range.y; tile++) {
    bool meets = false;
    for (int i = tile * OTHER; i < min(tile * OTHER + OTHER, others); i++)
      meets |= theirs[i] >= low && theirs[i] <= high;
    if (meets) list[1 + count++] = tile;
  }
  list[0] = count;
}
#else
#define VISITED(n) (n)
#endif

/* Rows of a head of `size` elements: row i begins at i stride, and there are `count`. */
typedef struct {
  const global storage *x;
  size_t stride;
  int count, size;
} matrix;

/* Defines the function NAME: rows [first, first + rows), elements [d0, d0 + PART), zero beyond what
 * there is, element d of row i at `place`. */
#define LOADER(name, place)                                                             \
  void name(local float *tile, const matrix m, int first, int rows, int d0, int item) { \
    for (int e = item; e < rows * PART; e += ITEMS) {                                   \
      const int i = e / PART, d = e - i * PART;                                         \
      tile[place] = first + i < m.count && d0 + d < m.size                              \
                        ? load(m.x, (size_t)(first + i) * m.stride + d0 + d)            \
                        : 0;                                                            \
    }                                                                                   \
  }
LOADER(load_part, i *STRIDE_PART + d)
#ifdef IS_WIDE
LOADER(load_other, d *STRIDE_SCORES + i)
#else
#define load_other load_part
#endif

/* s[i][j] = own row (ty + TY i) of a times the other row of b, of the SIDE from SIDE j on, that is
 * at tx. */
INLINED void multiply_rows(floats s[ROWS][COLUMNS], const matrix a, int first_a, const matrix b,
                           int first_b, local float *tile_a, local float *tile_b) {
  const int ty = get_local_id(1), item = ty * TX + (int)get_local_id(0);
  const ints tx = ACROSS;
  UNROLL_SUMS
  for (int i = 0; i < ROWS; i++) {
    UNROLL_SUMS
    for (int j = 0; j < COLUMNS; j++) s[i][j] = 0;
  }
  for (int d0 = 0; d0 < HEAD; d0 += PART) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_part(tile_a, a, first_a, OWN, d0, item);
    load_other(tile_b, b, first_b, OTHER, d0, item);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL_4
    for (int d = 0; d < PART; d++) {
      float u[ROWS];
      floats v[COLUMNS];
      UNROLL_SUMS
      for (int i = 0; i < ROWS; i++) u[i] = tile_a[(ty + TY * i) * STRIDE_PART + d];
      UNROLL_SUMS
      for (int j = 0; j < COLUMNS; j++) v[j] = GET_OTHER(tile_b, tx + SIDE * j, d);
      UNROLL_SUMS
      for (int i = 0; i < ROWS; i++) {
        UNROLL_SUMS
        for (int j = 0; j < COLUMNS; j++) s[i][j] = fma((floats)u[i], v[j], s[i][j]);
      }
    }
  }
}

/* sum[i][.] += sum over the other rows j of p[own row i][j] b[j][.]; column c of part P is
 * the element at tx of the SIDE from P PART + SIDE c on. */
INLINED void add_products(floats sum[ROWS][WIDTH], local const float *p, const matrix b, int first,
                          local float *tile) {
  const int ty = get_local_id(1), item = ty * TX + (int)get_local_id(0);
  const ints tx = ACROSS;
  UNROLL_SUMS
  for (int part = 0; part < PARTS; part++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_part(tile, b, first, OTHER, part * PART, item);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL_4
    for (int j = 0; j < OTHER; j++) {
      UNROLL_SUMS
      for (int i = 0; i < ROWS; i++) {
        const float weight = p[(ty + TY * i) * STRIDE_SCORES + j];
        UNROLL_SUMS
        for (int c = 0; c < PART_COLUMNS; c++)
          sum[i][part * PART_COLUMNS + c] =
              fma((floats)weight, GET(tile, j * STRIDE_PART + tx + SIDE * c),
                  sum[i][part * PART_COLUMNS + c]);
      }
    }
  }
}

INLINED void clear_sum(floats sum[ROWS][WIDTH]) {
  UNROLL_SUMS
  for (int i = 0; i < ROWS; i++) {
    UNROLL_SUMS
    for (int c = 0; c < WIDTH; c++) sum[i][c] = 0;
  }
}

/* Own rows of `sum`, row i times factor[i], into x, of `count` rows of `size` elements. */
INLINED void store_sum(floats sum[ROWS][WIDTH], const float factor[ROWS], global storage *x,
                       size_t stride, int first, int count, int size) {
  const int ty = get_local_id(1);
  const ints tx = ACROSS;
  RESULTS(floats, WIDTH, results, sum)
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    const int row = first + ty + TY * i;
    UNROLL
    for (int c = 0; c < WIDTH; c++) {
      const ints d = c / PART_COLUMNS * PART + tx + SIDE * (c % PART_COLUMNS);
      if (row < count && ANY(d < size))
        store(x, PLACE(row * stride, d, size), results[i][c] * factor[i]);
    }
  }
}

#define MASKS                                                                                 \
  problem p, const global float *bias, const global int *lengths, const global int *segments, \
      const global int *key_segments, const global int *space, long first_list

/* Matrices of a sample and a head of queries, or of keys. */
matrix queries_of(const problem p, const global storage *q, int b, int h) {
  return (matrix){q + (size_t)b * p.queries * p.q_stride + (size_t)h * SIZE(p), p.q_stride,
                  p.queries, SIZE(p)};
}
matrix keys_of(const problem p, const global storage *k, int b, int h) {
  return (matrix){k + (size_t)b * p.keys * p.k_stride + p.k_first + (size_t)h * SIZE(p), p.k_stride,
                  p.keys, SIZE(p)};
}
matrix values_of(const problem p, const global storage *v, int b, int h) {
  return (matrix){v + (size_t)b * p.keys * p.v_stride + p.v_first + (size_t)h * VALUES(p),
                  p.v_stride, p.keys, VALUES(p)};
}
/* Of y and dy. */
matrix results_of(const problem p, const global storage *y, int b, int h) {
  const size_t stride = (size_t)p.heads * VALUES(p);
  return (matrix){y + (size_t)b * p.queries * stride + (size_t)h * VALUES(p), stride, p.queries,
                  VALUES(p)};
}

/* What masks need in addition to the place, and the tiles [begin, end) to visit. */
#ifdef MASKED
#define SAMPLE_MASKS(sample)                                          \
  const global int *of_keys = key_segments ? key_segments : segments; \
  const size_t query_base = (size_t)(sample)*p.queries, key_base = (size_t)(sample)*p.keys;
#define BEGIN(range, rows, others)                                                       \
  const int most = ((others) + OTHER - 1) / OTHER, tiles = ((rows) + OWN - 1) / OWN;     \
  const global int *list =                                                               \
      segments ? space + first_list + ((size_t)at.b * tiles + at.tile) * (most + 1) : 0; \
  const int2 seen = range;                                                               \
  const int begin = list ? 0 : max(seen.x, 0) / OTHER,                                   \
            end = list ? list[0] : (seen.y + OTHER - 1) / OTHER;
#endif

#ifdef FORWARD
kernel WORK_GROUP(TX, TY) void attention(const global storage *queries, const global storage *keys,
                                         const global storage *values, global storage *y,
                                         global float *lse, MASKS) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float weights[OWN * STRIDE_SCORES] ALIGNED;
  local float share[OWN * (SIDE + 1)], largest[OWN], total[OWN], shrink[OWN];
  const int ty = get_local_id(1), item = ty * TX + (int)get_local_id(0);
  const ints tx = ACROSS;
  const place at = find_place(p, p.queries, p.heads, lengths);
  const int key_head = at.h / (p.heads / KEY_HEADS(p));
  const matrix q = queries_of(p, queries, at.b, at.h), k = keys_of(p, keys, at.b, key_head),
               v = values_of(p, values, at.b, key_head), to = results_of(p, y, at.b, at.h);
#ifdef MASKED
  SAMPLE_MASKS(at.b)
  BEGIN(seen_by(p, at, p.queries), p.queries, p.keys)
  const size_t line = bias_line(p, at.b, at.h);
#else
  const int begin = 0, end = (min(at.first + OWN, p.queries) + OTHER - 1) / OTHER;
#endif
  for (int i = item; i < OWN; i += ITEMS) {
    largest[i] = -INFINITY;
    total[i] = 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  floats sum[ROWS][WIDTH];
  clear_sum(sum);

  for (int n = begin; n < end; n++) {
    const int first = VISITED(n) * OTHER;
    floats sum_s[ROWS][COLUMNS];
    multiply_rows(sum_s, q, at.first, k, first, tile_own, tile_other);
    RESULTS(floats, COLUMNS, s, sum_s)
    /* The largest score of each row so far, and by what its sums shrink if it has grown. */
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      floats most_of_row = -INFINITY;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
#ifdef MASKED
        const ints key = first + tx + SIDE * j;
        floats slope, score = capped(p, s[i][j], &slope);
        if (bias) score += bias_of_keys(p, bias, line, row, key);
        const ints yes =
            sees(p, at, row, key) & SAME(segment_of(segments, query_base, row, p.queries),
                                         segments_of(of_keys, key_base, key, p.keys));
        s[i][j] = yes ? score : (floats)-INFINITY;
#else
        s[i][j] = first + tx + SIDE * j <= row ? s[i][j] * p.scale : (floats)-INFINITY;
#endif
        most_of_row = fmax(most_of_row, s[i][j]);
      }
      SET(share, own * (SIDE + 1) + tx, most_of_row);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < OWN; i += ITEMS) {
      float now = largest[i];
      for (int x = 0; x < SIDE; x++) now = fmax(now, share[i * (SIDE + 1) + x]);
      shrink[i] = now == -INFINITY ? 1 : exp(largest[i] - now);
      largest[i] = now;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Weights, those that dropout keeps times v, and the sums of all. */
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      floats part = 0;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        const ints other = tx + SIDE * j;
        const floats w = s[i][j] == -INFINITY ? (floats)0 : exp(s[i][j] - largest[own]);
        part += w;
        SET(weights, own * STRIDE_SCORES + other, w * kept_at(p, at.b, at.h, row, first + other));
      }
      SET(share, own * (SIDE + 1) + tx, part);
#ifdef CPU /* Only loops that are written out may name sums. */
    }
    UNROLL_SUMS
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i;
#endif
      UNROLL_SUMS
      for (int c = 0; c < WIDTH; c++) sum[i][c] *= shrink[own];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < OWN; i += ITEMS) {
      float part = 0;
      for (int x = 0; x < SIDE; x++) part += share[i * (SIDE + 1) + x];
      total[i] = total[i] * shrink[i] + part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    add_products(sum, weights, v, first, tile_other);
  }

  /* Results; 0 of a query that has seen nothing. */
  float inverse[ROWS];
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    const float all = total[ty + TY * i];
    inverse[i] = all == 0 ? 0 : 1 / all;
  }
  store_sum(sum, inverse, (global storage *)to.x, to.stride, at.first, p.queries, VALUES(p));
  for (int i = item; i < OWN; i += ITEMS)
    if (at.first + i < p.queries)
      lse[((size_t)at.b * p.heads + at.h) * p.queries + at.first + i] =
          total[i] == 0 ? 0 : largest[i] + log(total[i]);
}
#endif

#ifdef QUERY_GRADIENT
/* D. One work-item a row of a head, groups of GROUP. */
kernel WORK_GROUP(GROUP, 1) void attention_row_products(const global storage *dy,
                                                        const global storage *y,
                                                        global float *product, long rows,
                                                        int queries, int heads, int size) {
#ifdef MASKED
  const int values = size;
#else
  const int values = HEAD;
#endif
  const size_t e = element_id();
  if (e >= rows) return;
  const size_t head = quotient(e, queries), i = e - head * queries, b = quotient(head, heads);
  const size_t at = ((b * queries + i) * heads + (head - b * heads)) * values;
  float sum = 0;
  /* By itself Intel's CPU runtime fuses or not, and differently where a vector of items is not
   * full. */
  for (int d = 0; d < values; d++) sum = fma(load(dy, at + d), load(y, at + d), sum);
  product[e] = sum;
}

kernel WORK_GROUP(TX, TY) void attention_query_gradient(
    const global storage *dy, const global storage *queries, const global storage *keys,
    const global storage *values, const global float *lse, const global float *product,
    global storage *dq, MASKS) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float e[OWN * STRIDE_SCORES] ALIGNED;
  const int ty = get_local_id(1);
  const ints tx = ACROSS;
  const place at = find_place(p, p.queries, p.heads, lengths);
  const int key_head = at.h / (p.heads / KEY_HEADS(p));
  const size_t rows = ((size_t)at.b * p.heads + at.h) * p.queries;
  const matrix q = queries_of(p, queries, at.b, at.h), k = keys_of(p, keys, at.b, key_head),
               v = values_of(p, values, at.b, key_head), of_dy = results_of(p, dy, at.b, at.h);
#ifdef MASKED
  SAMPLE_MASKS(at.b)
  BEGIN(seen_by(p, at, p.queries), p.queries, p.keys)
  const size_t line = bias_line(p, at.b, at.h);
#else
  const int begin = 0, end = (min(at.first + OWN, p.queries) + OTHER - 1) / OTHER;
#endif
  float one[ROWS];
  floats sum[ROWS][WIDTH];
  UNROLL
  for (int i = 0; i < ROWS; i++) one[i] = 1;
  clear_sum(sum);

  for (int n = begin; n < end; n++) {
    const int first = VISITED(n) * OTHER;
    floats sum_s[ROWS][COLUMNS], sum_d[ROWS][COLUMNS];
    multiply_rows(sum_s, q, at.first, k, first, tile_own, tile_other);
    multiply_rows(sum_d, of_dy, at.first, v, first, tile_own, tile_other);
    RESULTS(floats, COLUMNS, s, sum_s)
    RESULTS(floats, COLUMNS, d, sum_d)
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      /* Read here, not before the loop: Intel's CPU runtime 2026.2 loses private arrays that are
       * set before a loop with barriers and read in it. */
      const float row_lse = row < p.queries ? lse[rows + row] : 0;
      const float row_product = row < p.queries ? product[rows + row] : 0;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        const ints other = tx + SIDE * j, key = first + other;
        floats v_e = 0;
#ifdef MASKED
        floats slope, score = capped(p, s[i][j], &slope);
        if (bias) score += bias_of_keys(p, bias, line, row, key);
        const ints yes =
            sees(p, at, row, key) & SAME(segment_of(segments, query_base, row, p.queries),
                                         segments_of(of_keys, key_base, key, p.keys));
        const floats u = kept_at(p, at.b, at.h, row, key);
        v_e =
            yes ? exp(score - row_lse) * (u * d[i][j] - row_product) * slope * p.scale : (floats)0;
#else
        if (ANY(sees(p, at, row, key))) {
          const floats u = kept_at(p, at.b, at.h, row, key);
          v_e = ONLY(sees(p, at, row, key),
                     exp(s[i][j] * p.scale - row_lse) * (u * d[i][j] - row_product) * p.scale);
        }
#endif
        SET(e, own * STRIDE_SCORES + other, v_e);
      }
    }
    add_products(sum, e, k, first, tile_other);
  }
  store_sum(sum, one, (global storage *)queries_of(p, dq, at.b, at.h).x, p.q_stride, at.first,
            p.queries, SIZE(p));
}
#endif

#ifdef KEY_GRADIENT
/* dk and dv, one of them may be absent; for all heads of queries that share a head of keys. */
kernel WORK_GROUP(TX, TY) void attention_key_gradient(
    const global storage *dy, const global storage *queries, const global storage *keys,
    const global storage *values, const global float *lse, const global float *product,
    global storage *dk, global storage *dv, MASKS) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float weights[OWN * STRIDE_SCORES] ALIGNED, e[OWN * STRIDE_SCORES] ALIGNED;
  const int ty = get_local_id(1);
  const ints tx = ACROSS;
  const place at = find_place(p, p.keys, KEY_HEADS(p), lengths);
  const matrix k = keys_of(p, keys, at.b, at.h), v = values_of(p, values, at.b, at.h);
#ifdef MASKED
  SAMPLE_MASKS(at.b)
  BEGIN(seen_from(p, at), p.keys, p.queries)
  const int sharing = p.heads / p.key_heads, each = max(end - begin, 0), visits = sharing * each;
#else
  const int begin = at.first / OTHER, visits = (p.queries + OTHER - 1) / OTHER - begin;
#endif
  float one[ROWS];
  floats sum_k[ROWS][WIDTH], sum_v[ROWS][WIDTH];
  UNROLL
  for (int i = 0; i < ROWS; i++) one[i] = 1;
  clear_sum(sum_k);
  clear_sum(sum_v);

  for (int n = 0; n < visits; n++) {
#ifdef MASKED
    const int h = at.h * sharing + n / each, first = VISITED(begin + n % each) * OTHER;
    const size_t line = bias_line(p, at.b, h);
#else
    const int h = at.h, first = (begin + n) * OTHER;
#endif
    const size_t rows = ((size_t)at.b * p.heads + h) * p.queries;
    const matrix q = queries_of(p, queries, at.b, h), of_dy = results_of(p, dy, at.b, h);
    floats sum_s[ROWS][COLUMNS], sum_d[ROWS][COLUMNS];
    multiply_rows(sum_s, k, at.first, q, first, tile_own, tile_other);
    multiply_rows(sum_d, v, at.first, of_dy, first, tile_own, tile_other);
    RESULTS(floats, COLUMNS, s, sum_s)
    RESULTS(floats, COLUMNS, d, sum_d)
    UNROLL
    for (int j = 0; j < COLUMNS; j++) {
      const ints other = tx + SIDE * j, query = first + other;
      const floats row_lse =
          ANY(query < p.queries) ? float_load(lse, PLACE(rows, query, p.queries)) : (floats)0;
      const floats row_product =
          ANY(query < p.queries) ? float_load(product, PLACE(rows, query, p.queries)) : (floats)0;
      UNROLL
      for (int i = 0; i < ROWS; i++) {
        const int own = ty + TY * i, key = at.first + own;
        floats weight = 0, v_e = 0;
#ifdef MASKED
        floats slope, score = capped(p, s[i][j], &slope);
        if (bias) score += bias_of_queries(p, bias, line, query, key);
        const ints yes =
            sees(p, at, query, key) & SAME(segment_of(of_keys, key_base, key, p.keys),
                                           segments_of(segments, query_base, query, p.queries));
        const floats u = kept_at(p, at.b, h, query, key);
        const floats share = yes ? exp(score - row_lse) : (floats)0;
        weight = share * u;
        v_e = share * (u * d[i][j] - row_product) * slope * p.scale;
#else
        if (ANY(sees(p, at, query, key))) {
          const floats u = kept_at(p, at.b, h, query, key);
          const floats share = exp(s[i][j] * p.scale - row_lse);
          weight = ONLY(sees(p, at, query, key), share * u);
          v_e = ONLY(sees(p, at, query, key), share * (u * d[i][j] - row_product) * p.scale);
        }
#endif
        SET(weights, own * STRIDE_SCORES + other, weight);
        SET(e, own * STRIDE_SCORES + other, v_e);
      }
    }
    add_products(sum_v, weights, of_dy, first, tile_other);
    add_products(sum_k, e, q, first, tile_other);
  }
  store_sum(sum_k, one, (global storage *)keys_of(p, dk, at.b, at.h).x, p.k_stride, at.first,
            dk ? p.keys : 0, SIZE(p));
  store_sum(sum_v, one, (global storage *)values_of(p, dv, at.b, at.h).x, p.v_stride, at.first,
            dv ? p.keys : 0, VALUES(p));
}
#endif

#ifdef BIAS_GRADIENT
/* The gradient of the bias: a work-group for each tile of OWN queries and OTHER keys of each of its
 * matrices, for all samples and heads that share it. */
kernel WORK_GROUP(TX, TY) void attention_bias_gradient(
    const global storage *dy, const global storage *queries, const global storage *keys,
    const global storage *values, const global float *lse, const global float *product,
    global float *dbias, int batch, int add, MASKS) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float sum[OWN * STRIDE_SCORES] ALIGNED;
  const int ty = get_local_id(1);
  const ints tx = ACROSS;
  const int key_tiles = (p.keys + OTHER - 1) / OTHER, tiles = (p.queries + OWN - 1) / OWN;
  const size_t group = get_group_id(0), above = group / key_tiles, matrix_id = above / tiles;
  const int first_key = (int)(group - above * key_tiles) * OTHER;
  const int own_first = (int)(above - matrix_id * tiles) * OWN;
  const int first_b = p.bias_samples ? (int)(matrix_id / p.bias_heads) : 0;
  const int first_h = p.bias_heads > 1 ? (int)(matrix_id % p.bias_heads) : 0;
  const int heads = p.bias_heads > 1 ? 1 : p.heads;
  const int visits = (p.bias_samples ? 1 : batch) * heads;
  const size_t line = matrix_id * p.queries * p.keys;
  UNROLL
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++)
      SET(sum, (ty + TY * i) * STRIDE_SCORES + tx + SIDE * j, (floats)0);

  for (int n = 0; n < visits; n++) {
    place at;
    at.b = first_b + n / heads;
    at.h = first_h + n % heads;
    at.first = own_first;
    find_sample(p, &at, lengths);
    const int key_head = at.h / (p.heads / p.key_heads);
    const size_t rows = ((size_t)at.b * p.heads + at.h) * p.queries;
    SAMPLE_MASKS(at.b)
    floats sum_s[ROWS][COLUMNS], sum_d[ROWS][COLUMNS];
    multiply_rows(sum_s, queries_of(p, queries, at.b, at.h), at.first,
                  keys_of(p, keys, at.b, key_head), first_key, tile_own, tile_other);
    multiply_rows(sum_d, results_of(p, dy, at.b, at.h), at.first,
                  values_of(p, values, at.b, key_head), first_key, tile_own, tile_other);
    RESULTS(floats, COLUMNS, s, sum_s)
    RESULTS(floats, COLUMNS, d, sum_d)
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      const float row_lse = row < p.queries ? lse[rows + row] : 0;
      const float row_product = row < p.queries ? product[rows + row] : 0;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        const ints other = tx + SIDE * j, key = first_key + other, to = own * STRIDE_SCORES + other;
        floats slope, score = capped(p, s[i][j], &slope);
        score += bias_of_keys(p, bias, line, row, key);
        const ints yes =
            sees(p, at, row, key) & SAME(segment_of(segments, query_base, row, p.queries),
                                         segments_of(of_keys, key_base, key, p.keys));
        const floats u = kept_at(p, at.b, at.h, row, key);
        SET(sum, to,
            GET(sum, to) + (yes ? exp(score - row_lse) * (u * d[i][j] - row_product) : (floats)0));
      }
    }
  }
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    const int own = ty + TY * i, row = own_first + own;
    for (int j = 0; j < COLUMNS; j++) {
      const ints other = tx + SIDE * j, key = first_key + other;
      const elements to = PLACE(line + (size_t)row * p.keys, key, p.keys);
      if (row < p.queries && ANY(key < p.keys)) {
        const floats so_far = float_load(dbias, to);
        const floats more = GET(sum, own * STRIDE_SCORES + other);
        STORE_FLOATS(dbias, to, add ? so_far + more : more);
      }
    }
  }
}
#endif

#else
/* ---- by matrix units ------------------------------------------------------------------------- */

/* Between products that a matrix unit makes (attention_scores.c): a work-group of ROW_GROUP items
 * for each of `rows` queries, from first_row on, of each of some heads, from first_pair (sample *
 * heads + head) on, with the keys before `keys`. `space` begins with scores [pair,row,pitch],
 * before they are scaled, dy v likewise begins at element first_d, both float; weights p u at
 * first_p and e at first_e of it in storage, in lines of the same pitch. Local memory 4 * ROW_GROUP
 * bytes. */
#define WHICH_SCORES                                                                           \
  int t, int heads, int keys, int pitch, int rows, int first_row, int first_pair, float scale, \
      uint2 seed, uint first_sample, uint update, uint stream, uint threshold, float factor

typedef struct {
  int b, h, i;  /* sample, head, query */
  size_t e, at; /* of lse and D; of the line's beginning in scores */
} line;

line find_line(int t, int heads, int rows, int pitch, int first_row, int first_pair) {
  const size_t group = get_group_id(0), pair = quotient(group, rows);
  line l;
  l.i = first_row + (int)(group - pair * rows);
  l.b = (first_pair + (int)pair) / heads;
  l.h = first_pair + (int)pair - l.b * heads;
  l.e = (first_pair + pair) * t + l.i;
  l.at = group * pitch;
  return l;
}

#define KEPT(l, j) \
  kept(seed, first_sample + (l).b, update, stream, threshold, factor, (l).h, t, t, (l).i, j)

kernel WORK_GROUP(ROW_GROUP, 1) void attention_weights(const global float *space, global storage *p,
                                                       global float *lse, long first_p,
                                                       WHICH_SCORES) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const line l = find_line(t, heads, rows, pitch, first_row, first_pair);
  const global float *s = space + l.at;
  p += first_p + l.at;
  float largest = -INFINITY, total = 0;
  for (int j = item; j <= l.i; j += ROW_GROUP) largest = fmax(largest, s[j] * scale);
  largest = group_max(largest, scratch, item, ROW_GROUP);
  for (int j = item; j <= l.i; j += ROW_GROUP) total += exp(s[j] * scale - largest);
  total = group_sum(total, scratch, item, ROW_GROUP);
  for (int j = item; j < keys; j += ROW_GROUP)
    store(p, j, j <= l.i ? exp(s[j] * scale - largest) / total * KEPT(l, j) : 0);
  if (item == 0) lse[l.e] = largest + log(total);
}

/* `size` is the head's. */
kernel WORK_GROUP(ROW_GROUP, 1) void attention_weights_gradient(
    const global float *space, global storage *weights, const global float *lse,
    const global storage *dy, const global storage *y, long first_d, long first_p, long first_e,
    int size, WHICH_SCORES) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const line l = find_line(t, heads, rows, pitch, first_row, first_pair);
  const global float *s = space + l.at, *d = space + first_d + l.at;
  global storage *p = weights + first_p + l.at, *e = weights + first_e + l.at;
  const size_t row = (((size_t)l.b * t + l.i) * heads + l.h) * size;
  float product = 0;
  for (int k = item; k < size; k += ROW_GROUP) product += load(dy, row + k) * load(y, row + k);
  product = group_sum(product, scratch, item, ROW_GROUP);
  const float row_lse = lse[l.e];
  for (int j = item; j < keys; j += ROW_GROUP) {
    const bool seen = j <= l.i;
    const float share = seen ? exp(s[j] * scale - row_lse) : 0, u = seen ? KEPT(l, j) : 0;
    store(p, j, share * u);
    store(e, j, seen ? share * (u * d[j] - product) * scale : 0);
  }
}

/* dk and dv [pair,2,t,size] of some heads, from first_pair on, from element `first` of `space` on,
 * into their places in dqkv. One work-item an element, groups of GROUP. */
kernel WORK_GROUP(GROUP, 1) void attention_store_sums(const global float *space,
                                                      global storage *dqkv, long n, long first,
                                                      int t, int heads, int size, int first_pair) {
  const size_t k = element_id();
  if (k >= n) return;
  const size_t i = quotient(k, size), half_pair = quotient(i, t), part = 1 + half_pair % 2;
  const size_t pair = first_pair + half_pair / 2, b = quotient(pair, heads);
  const size_t row = (b * t + i - half_pair * t) * 3 + part;
  store(dqkv, (row * heads + pair - b * heads) * size + k - i * size, space[first + k]);
}
#endif
