/* Causal multi-head attention without a T x T matrix (Dao et al., arXiv 2205.14135). With
 * s_ij = scale q_i k_j for j <= i, lse_i = log sum_j exp s_ij and p_ij = exp(s_ij - lse_i):
 *
 *   y_i = sum_j p_ij u_ij v_j, where u is 1, or 0 or 1 / (1 - p) by dropout;
 *   with d_ij = u_ij dy_i v_j and D_i = dy_i y_i = sum_j p_ij d_ij, e_ij = p_ij (d_ij - D_i) scale:
 *   dq_i = sum_j e_ij k_j,  dk_j = sum_i e_ij q_i,  dv_j = sum_i p_ij u_ij dy_i.
 *
 * qkv is [B,T,3C], y [B,T,C], lse and D [B,H,T]; the head size is HEAD.
 *
 * A work-group of TX x TY items owns OWN rows of one head of one sample (queries in attention and
 * attention_query_gradient, keys in attention_key_gradient) and walks the other side's rows in
 * tiles of OTHER that the mask leaves. Products go through local memory in parts of PART head
 * elements, a register tile of ROWS x COLUMNS scores an item; the sums over the other side stay in
 * registers, ROWS x WIDTH an item. SIDE neighbours in a row of either are those of TX items, an
 * element each; on a CPU TX is 1, and they are one item's vector. Every output element has one
 * owner, so there are no atomics and the order of sums is fixed. Barriers are also between loops
 * that differ among items and loops that hold a barrier, as PoCL 3.1 would drop the former. Each of
 * FORWARD, QUERY_GRADIENT and KEY_GRADIENT compiles the kernels of one pass. Local memory: 4
 * STRIDE_PART (OWN + OTHER) bytes and 4 STRIDE_SCORES OWN for each score matrix held (two in
 * attention_key_gradient), at most 31.5 KiB. Dtypes: storage for qkv, y, dy and dqkv, float for lse
 * and D. */
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
 * memory. A query has SEEN the keys before it and its own. ANY asks whether an element is meant; on
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
#define SEEN(query, key) ((key) <= ((query) < t ? (query) : -1))
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
#define SEEN(query, key) ((query) < t && (key) <= (query))
#define HAS(e, bit) ((e) & (bit))
#define ANY(condition) (condition)
#define ONLY(condition, v) (v)
#endif

/* What dropout multiplies the weight of query i and key j with. */
floats kept(uint2 seed, uint sample, uint update, uint stream, uint threshold, float factor, int h,
            int t, ints i, ints j) {
  if (threshold == 0) return 1;
  const WIDE(ulong) e = ((ulong)h * t + WIDE(convert_ulong)(i)) * t + WIDE(convert_ulong)(j);
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
typedef struct {
  int b, h, first; /* sample, head, first own row */
} place;

place find_place(int t, int heads) {
  const int tiles = (t + OWN - 1) / OWN;
  const size_t group = get_group_id(0), head = group / tiles;
  place at;
  at.b = (int)(head / heads);
  at.h = (int)(head - (size_t)at.b * heads);
  at.first = (int)(group - head * tiles) * OWN;
  return at;
}

/* Defines the function NAME: rows [first, first + rows) of x, elements [d0, d0 + PART), zero
 * outside [0, t) and [0, HEAD), element d of row i at `place`. */
#define LOADER(name, place)                                                                        \
  void name(local float *tile, const global storage *x, size_t stride, int first, int rows, int t, \
            int d0, int item) {                                                                    \
    for (int e = item; e < rows * PART; e += ITEMS) {                                              \
      const int i = e / PART, d = e - i * PART;                                                    \
      tile[place] =                                                                                \
          first + i < t && d0 + d < HEAD ? load(x, (size_t)(first + i) * stride + d0 + d) : 0;     \
    }                                                                                              \
  }
LOADER(load_part, i *STRIDE_PART + d)
#ifdef IS_WIDE
LOADER(load_other, d *STRIDE_SCORES + i)
#else
#define load_other load_part
#endif

/* s[i][j] = own row (ty + TY i) of a times the other row of b, of the SIDE from SIDE j on, that is
 * at tx. */
INLINED void multiply_rows(floats s[ROWS][COLUMNS], const global storage *a, size_t stride_a,
                           int first_a, const global storage *b, size_t stride_b, int first_b,
                           int t, local float *tile_a, local float *tile_b) {
  const int ty = get_local_id(1), item = ty * TX + (int)get_local_id(0);
  const ints tx = ACROSS;
  UNROLL_SUMS
  for (int i = 0; i < ROWS; i++) {
    UNROLL_SUMS
    for (int j = 0; j < COLUMNS; j++) s[i][j] = 0;
  }
  for (int d0 = 0; d0 < HEAD; d0 += PART) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_part(tile_a, a, stride_a, first_a, OWN, t, d0, item);
    load_other(tile_b, b, stride_b, first_b, OTHER, t, d0, item);
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
INLINED void add_products(floats sum[ROWS][WIDTH], local const float *p, const global storage *b,
                          size_t stride, int first, int t, local float *tile) {
  const int ty = get_local_id(1), item = ty * TX + (int)get_local_id(0);
  const ints tx = ACROSS;
  UNROLL_SUMS
  for (int part = 0; part < PARTS; part++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_part(tile, b, stride, first, OTHER, t, part * PART, item);
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

/* Own rows of `sum`, row i times factor[i], into x. */
INLINED void store_sum(floats sum[ROWS][WIDTH], const float factor[ROWS], global storage *x,
                       size_t stride, int first, int t) {
  const int ty = get_local_id(1);
  const ints tx = ACROSS;
  RESULTS(floats, WIDTH, results, sum)
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    const int row = first + ty + TY * i;
    UNROLL
    for (int c = 0; c < WIDTH; c++) {
      const ints d = c / PART_COLUMNS * PART + tx + SIDE * (c % PART_COLUMNS);
      if (row < t && ANY(d < HEAD))
        store(x, PLACE(row * stride, d, HEAD), results[i][c] * factor[i]);
    }
  }
}

#ifdef FORWARD
kernel WORK_GROUP(TX, TY) void attention(const global storage *qkv, global storage *y,
                                         global float *lse, int t, int heads, float scale,
                                         uint2 seed, uint first_sample, uint update, uint stream,
                                         uint threshold, float factor) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float p[OWN * STRIDE_SCORES] ALIGNED;
  local float share[OWN * (SIDE + 1)], largest[OWN], total[OWN], shrink[OWN];
  const int ty = get_local_id(1), item = ty * TX + (int)get_local_id(0);
  const ints tx = ACROSS;
  const place at = find_place(t, heads);
  const size_t c = (size_t)heads * HEAD;
  const global storage *q = qkv + (size_t)at.b * t * 3 * c + (size_t)at.h * HEAD;
  for (int i = item; i < OWN; i += ITEMS) {
    largest[i] = -INFINITY;
    total[i] = 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  floats sum[ROWS][WIDTH];
  clear_sum(sum);

  for (int first = 0; first < t && first < at.first + OWN; first += OTHER) {
    floats sum_s[ROWS][COLUMNS];
    multiply_rows(sum_s, q, 3 * c, at.first, q + c, 3 * c, first, t, tile_own, tile_other);
    RESULTS(floats, COLUMNS, s, sum_s)
    /* The largest score of each row so far, and by what its sums shrink if it has grown. */
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      floats most = -INFINITY;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        s[i][j] = first + tx + SIDE * j <= row ? s[i][j] * scale : (floats)-INFINITY;
        most = fmax(most, s[i][j]);
      }
      SET(share, own * (SIDE + 1) + tx, most);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < OWN; i += ITEMS) {
      float most = largest[i];
      for (int k = 0; k < SIDE; k++) most = fmax(most, share[i * (SIDE + 1) + k]);
      shrink[i] = most == -INFINITY ? 1 : exp(largest[i] - most);
      largest[i] = most;
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
        SET(p, own * STRIDE_SCORES + other,
            w * kept(seed, first_sample + at.b, update, stream, threshold, factor, at.h, t, row,
                     first + other));
      }
      SET(share, own * (SIDE + 1) + tx, part);
#ifdef CPU /* Only loops that are written out may name sums. */
    }
    UNROLL_SUMS
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i;
#endif
      UNROLL_SUMS
      for (int k = 0; k < WIDTH; k++) sum[i][k] *= shrink[own];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < OWN; i += ITEMS) {
      float part = 0;
      for (int k = 0; k < SIDE; k++) part += share[i * (SIDE + 1) + k];
      total[i] = total[i] * shrink[i] + part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    add_products(sum, p, q + 2 * c, 3 * c, first, t, tile_other);
  }

  /* Results. */
  float inverse[ROWS];
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL
  for (int i = 0; i < ROWS; i++) inverse[i] = 1 / total[ty + TY * i];
  store_sum(sum, inverse, y + (size_t)at.b * t * c + (size_t)at.h * HEAD, c, at.first, t);
  for (int i = item; i < OWN; i += ITEMS)
    if (at.first + i < t)
      lse[((size_t)at.b * heads + at.h) * t + at.first + i] = largest[i] + log(total[i]);
}
#endif

#ifdef QUERY_GRADIENT
/* D. One work-item a row of a head, groups of GROUP. */
kernel WORK_GROUP(GROUP, 1) void attention_row_products(const global storage *dy,
                                                        const global storage *y,
                                                        global float *product, long rows, int t,
                                                        int heads) {
  const size_t e = element_id();
  if (e >= rows) return;
  const size_t head = quotient(e, t), i = e - head * t, b = quotient(head, heads);
  const size_t at = ((b * t + i) * heads + (head - b * heads)) * HEAD;
  float sum = 0;
  /* By itself Intel's CPU runtime fuses or not, and differently where a vector of items is not
   * full. */
  for (int d = 0; d < HEAD; d++) sum = fma(load(dy, at + d), load(y, at + d), sum);
  product[e] = sum;
}

kernel WORK_GROUP(TX, TY) void attention_query_gradient(
    const global storage *dy, const global storage *qkv, const global float *lse,
    const global float *product, global storage *dqkv, int t, int heads, float scale, uint2 seed,
    uint first_sample, uint update, uint stream, uint threshold, float factor) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float e[OWN * STRIDE_SCORES] ALIGNED;
  const int ty = get_local_id(1);
  const ints tx = ACROSS;
  const place at = find_place(t, heads);
  const size_t c = (size_t)heads * HEAD, rows = ((size_t)at.b * heads + at.h) * t;
  const size_t head = (size_t)at.b * t * 3 * c + (size_t)at.h * HEAD;
  const global storage *q = qkv + head;
  dy += (size_t)at.b * t * c + (size_t)at.h * HEAD;
  float one[ROWS];
  floats sum[ROWS][WIDTH];
  UNROLL
  for (int i = 0; i < ROWS; i++) one[i] = 1;
  clear_sum(sum);

  for (int first = 0; first < t && first < at.first + OWN; first += OTHER) {
    floats sum_s[ROWS][COLUMNS], sum_d[ROWS][COLUMNS];
    multiply_rows(sum_s, q, 3 * c, at.first, q + c, 3 * c, first, t, tile_own, tile_other);
    multiply_rows(sum_d, dy, c, at.first, q + 2 * c, 3 * c, first, t, tile_own, tile_other);
    RESULTS(floats, COLUMNS, s, sum_s)
    RESULTS(floats, COLUMNS, d, sum_d)
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      /* Read here, not before the loop: Intel's CPU runtime 2026.2 loses private arrays that are
       * set before a loop with barriers and read in it. */
      const float row_lse = row < t ? lse[rows + row] : 0;
      const float row_product = row < t ? product[rows + row] : 0;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        const ints other = tx + SIDE * j;
        floats v = 0;
        if (ANY(SEEN(row, first + other))) {
          const floats u = kept(seed, first_sample + at.b, update, stream, threshold, factor, at.h,
                                t, row, first + other);
          v = ONLY(SEEN(row, first + other),
                   exp(s[i][j] * scale - row_lse) * (u * d[i][j] - row_product) * scale);
        }
        SET(e, own * STRIDE_SCORES + other, v);
      }
    }
    add_products(sum, e, q + c, 3 * c, first, t, tile_other);
  }
  store_sum(sum, one, dqkv + head, 3 * c, at.first, t);
}
#endif

#ifdef KEY_GRADIENT
kernel WORK_GROUP(TX, TY) void attention_key_gradient(
    const global storage *dy, const global storage *qkv, const global float *lse,
    const global float *product, global storage *dqkv, int t, int heads, float scale, uint2 seed,
    uint first_sample, uint update, uint stream, uint threshold, float factor) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float p[OWN * STRIDE_SCORES] ALIGNED, e[OWN * STRIDE_SCORES] ALIGNED;
  const int ty = get_local_id(1);
  const ints tx = ACROSS;
  const place at = find_place(t, heads);
  const size_t c = (size_t)heads * HEAD, rows = ((size_t)at.b * heads + at.h) * t;
  const size_t head = (size_t)at.b * t * 3 * c + (size_t)at.h * HEAD;
  const global storage *q = qkv + head;
  dy += (size_t)at.b * t * c + (size_t)at.h * HEAD;
  float one[ROWS];
  floats sum_k[ROWS][WIDTH], sum_v[ROWS][WIDTH];
  UNROLL
  for (int i = 0; i < ROWS; i++) one[i] = 1;
  clear_sum(sum_k);
  clear_sum(sum_v);

  for (int first = at.first / OTHER * OTHER; first < t; first += OTHER) {
    floats sum_s[ROWS][COLUMNS], sum_d[ROWS][COLUMNS];
    multiply_rows(sum_s, q + c, 3 * c, at.first, q, 3 * c, first, t, tile_own, tile_other);
    multiply_rows(sum_d, q + 2 * c, 3 * c, at.first, dy, c, first, t, tile_own, tile_other);
    RESULTS(floats, COLUMNS, s, sum_s)
    RESULTS(floats, COLUMNS, d, sum_d)
    UNROLL
    for (int j = 0; j < COLUMNS; j++) {
      const ints other = tx + SIDE * j, query = first + other;
      const floats row_lse = ANY(query < t) ? float_load(lse, PLACE(rows, query, t)) : (floats)0;
      const floats row_product =
          ANY(query < t) ? float_load(product, PLACE(rows, query, t)) : (floats)0;
      UNROLL
      for (int i = 0; i < ROWS; i++) {
        const int own = ty + TY * i, key = at.first + own;
        floats weight = 0, v = 0;
        if (ANY(SEEN(query, key))) {
          const floats u = kept(seed, first_sample + at.b, update, stream, threshold, factor, at.h,
                                t, query, key);
          const floats share = exp(s[i][j] * scale - row_lse);
          weight = ONLY(SEEN(query, key), share * u);
          v = ONLY(SEEN(query, key), share * (u * d[i][j] - row_product) * scale);
        }
        SET(p, own * STRIDE_SCORES + other, weight);
        SET(e, own * STRIDE_SCORES + other, v);
      }
    }
    add_products(sum_v, p, dy, c, first, t, tile_other);
    add_products(sum_k, e, q, 3 * c, first, t, tile_other);
  }
  store_sum(sum_k, one, dqkv + head + c, 3 * c, at.first, t);
  store_sum(sum_v, one, dqkv + head + 2 * c, 3 * c, at.first, t);
}
#endif

#else
/* ---- by matrix units ------------------------------------------------------------------------- */

/* Between products that a matrix unit makes (attention_scores.c): a work-group of ROW_GROUP items
 * for each of `rows` queries, from first_row on, of each of some heads, from first_pair (sample *
 * heads + head) on, with the keys before `keys`. `space` begins with scores [pair,row,pitch], before
 * they are scaled, dy v likewise begins at element first_d, both float; weights p u at first_p and e
 * at first_e of it in storage, in lines of the same pitch. Local memory 4 * ROW_GROUP bytes. */
#define WHICH_SCORES                                                                               \
  int t, int heads, int keys, int pitch, int rows, int first_row, int first_pair, float scale,     \
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
  kept(seed, first_sample + (l).b, update, stream, threshold, factor, (l).h, t, (l).i, j)

kernel WORK_GROUP(ROW_GROUP, 1) void attention_weights(const global float *space,
                                                       global storage *p, global float *lse,
                                                       long first_p, WHICH_SCORES) {
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
