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
 * registers, ROWS x WIDTH an item. Every output element has one owner, so there are no atomics and
 * the order of sums is fixed. Barriers also stand between loops that differ among items and loops
 * that hold a barrier, where PoCL 3.1 would drop the former. Each of FORWARD, QUERY_GRADIENT and
 * KEY_GRADIENT compiles the kernels of one pass. Local memory: 4 STRIDE_PART (OWN + OTHER) bytes
 * and 4 STRIDE_SCORES OWN for each score matrix held (two in attention_key_gradient), at most 31.5
 * KiB. Dtypes: storage for qkv, y, dy and dqkv, float for lse and D. */

#define ITEMS (TX * TY)
#define OWN (TY * ROWS)
#define OTHER (TX * COLUMNS)
#define PART 32
#define PARTS ((HEAD + PART - 1) / PART)
#define PART_COLUMNS (PART / TX)
#define WIDTH (PARTS * PART_COLUMNS)
/* Of rows in local memory, in floats: a vector of four more than they hold, as in common.cl. */
#define STRIDE_PART (PART + 4)
#define STRIDE_SCORES (OTHER + 4)

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

/* Rows [first, first + rows) of x, elements [d0, d0 + PART), zero outside [0, t) and [0, HEAD). */
void load_part(local float *tile, const global storage *x, size_t stride, int first, int rows,
               int t, int d0, int item) {
  for (int e = item; e < rows * PART; e += ITEMS) {
    const int i = e / PART, d = e - i * PART;
    tile[i * STRIDE_PART + d] =
        first + i < t && d0 + d < HEAD ? load(x, (size_t)(first + i) * stride + d0 + d) : 0;
  }
}

/* s[i][j] = own row (ty + TY i) of a times other row (tx + TX j) of b. */
INLINED void multiply_rows(float s[ROWS][COLUMNS], const global storage *a, size_t stride_a,
                           int first_a, const global storage *b, size_t stride_b, int first_b,
                           int t, local float *tile_a, local float *tile_b) {
  const int tx = get_local_id(0), ty = get_local_id(1), item = ty * TX + tx;
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    UNROLL
    for (int j = 0; j < COLUMNS; j++) s[i][j] = 0;
  }
  for (int d0 = 0; d0 < HEAD; d0 += PART) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_part(tile_a, a, stride_a, first_a, OWN, t, d0, item);
    load_part(tile_b, b, stride_b, first_b, OTHER, t, d0, item);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL_4
    for (int d = 0; d < PART; d++) {
      float u[ROWS], v[COLUMNS];
      UNROLL
      for (int i = 0; i < ROWS; i++) u[i] = tile_a[(ty + TY * i) * STRIDE_PART + d];
      UNROLL
      for (int j = 0; j < COLUMNS; j++) v[j] = tile_b[(tx + TX * j) * STRIDE_PART + d];
      UNROLL
      for (int i = 0; i < ROWS; i++) {
        UNROLL
        for (int j = 0; j < COLUMNS; j++) s[i][j] = fma(u[i], v[j], s[i][j]);
      }
    }
  }
}

/* sum[i][.] += sum over the other rows j of p[own row i][j] b[j][.]; column c of part P is element
 * P PART + tx + TX c. */
INLINED void add_products(float sum[ROWS][WIDTH], local const float *p, const global storage *b,
                          size_t stride, int first, int t, local float *tile) {
  const int tx = get_local_id(0), ty = get_local_id(1), item = ty * TX + tx;
#pragma unroll
  for (int part = 0; part < PARTS; part++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_part(tile, b, stride, first, OTHER, t, part * PART, item);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL_4
    for (int j = 0; j < OTHER; j++) {
      UNROLL
      for (int i = 0; i < ROWS; i++) {
        const float weight = p[(ty + TY * i) * STRIDE_SCORES + j];
        UNROLL
        for (int c = 0; c < PART_COLUMNS; c++)
          sum[i][part * PART_COLUMNS + c] =
              fma(weight, tile[j * STRIDE_PART + tx + TX * c], sum[i][part * PART_COLUMNS + c]);
      }
    }
  }
}

INLINED void clear_sum(float sum[ROWS][WIDTH]) {
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    UNROLL
    for (int c = 0; c < WIDTH; c++) sum[i][c] = 0;
  }
}

/* Own rows of `sum`, row i times factor[i], into x. */
INLINED void store_sum(float sum[ROWS][WIDTH], const float factor[ROWS], global storage *x,
                       size_t stride, int first, int t) {
  const int tx = get_local_id(0), ty = get_local_id(1);
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    const int row = first + ty + TY * i;
    UNROLL
    for (int c = 0; c < WIDTH; c++) {
      const int d = c / PART_COLUMNS * PART + tx + TX * (c % PART_COLUMNS);
      if (row < t && d < HEAD) store(x, row * stride + d, sum[i][c] * factor[i]);
    }
  }
}

/* What dropout multiplies the weight of query i and key j with. */
float kept(uint2 seed, uint sample, uint update, uint stream, uint threshold, float factor, int h,
           int t, int i, int j) {
  if (threshold == 0) return 1;
  const ulong e = ((ulong)h * t + i) * t + j;
  const uint4 bits = philox(seed, (uint4)((uint)(e / 8), sample, update, stream));
  const uint low = e & 2 ? bits.y : bits.x, high = e & 2 ? bits.w : bits.z;
  return ((e & 4 ? high : low) >> 16 * (e & 1) & 0xffffu) < threshold ? 0 : factor;
}

#ifdef FORWARD
kernel WORK_GROUP(TX, TY) void attention(const global storage *qkv, global storage *y,
                                         global float *lse, int t, int heads, float scale,
                                         uint2 seed, uint first_sample, uint update, uint stream,
                                         uint threshold, float factor) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float p[OWN * STRIDE_SCORES] ALIGNED;
  local float share[OWN * (TX + 1)], largest[OWN], total[OWN], shrink[OWN];
  const int tx = get_local_id(0), ty = get_local_id(1), item = ty * TX + tx;
  const place at = find_place(t, heads);
  const size_t c = (size_t)heads * HEAD;
  const global storage *q = qkv + (size_t)at.b * t * 3 * c + (size_t)at.h * HEAD;
  for (int i = item; i < OWN; i += ITEMS) {
    largest[i] = -INFINITY;
    total[i] = 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum[ROWS][WIDTH];
  clear_sum(sum);

  for (int first = 0; first < t && first < at.first + OWN; first += OTHER) {
    float s[ROWS][COLUMNS];
    multiply_rows(s, q, 3 * c, at.first, q + c, 3 * c, first, t, tile_own, tile_other);
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      float most = -INFINITY;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        s[i][j] = first + tx + TX * j <= row ? s[i][j] * scale : -INFINITY;
        most = fmax(most, s[i][j]);
      }
      share[own * (TX + 1) + tx] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < OWN; i += ITEMS) {
      float most = largest[i];
      for (int k = 0; k < TX; k++) most = fmax(most, share[i * (TX + 1) + k]);
      shrink[i] = most == -INFINITY ? 1 : exp(largest[i] - most);
      largest[i] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      float part = 0;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        const int other = tx + TX * j;
        const float w = s[i][j] == -INFINITY ? 0 : exp(s[i][j] - largest[own]);
        part += w;
        p[own * STRIDE_SCORES + other] = w * kept(seed, first_sample + at.b, update, stream,
                                                  threshold, factor, at.h, t, row, first + other);
      }
      share[own * (TX + 1) + tx] = part;
      UNROLL
      for (int k = 0; k < WIDTH; k++) sum[i][k] *= shrink[own];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < OWN; i += ITEMS) {
      float part = 0;
      for (int k = 0; k < TX; k++) part += share[i * (TX + 1) + k];
      total[i] = total[i] * shrink[i] + part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    add_products(sum, p, q + 2 * c, 3 * c, first, t, tile_other);
  }

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
  const size_t e = get_global_id(0);
  if (e >= rows) return;
  const size_t head = quotient(e, t), i = e - head * t, b = quotient(head, heads);
  const size_t at = ((b * t + i) * heads + (head - b * heads)) * HEAD;
  float sum = 0;
  for (int d = 0; d < HEAD; d++) sum += load(dy, at + d) * load(y, at + d);
  product[e] = sum;
}

kernel WORK_GROUP(TX, TY) void attention_query_gradient(
    const global storage *dy, const global storage *qkv, const global float *lse,
    const global float *product, global storage *dqkv, int t, int heads, float scale, uint2 seed,
    uint first_sample, uint update, uint stream, uint threshold, float factor) {
  local float tile_own[OWN * STRIDE_PART] ALIGNED, tile_other[OTHER * STRIDE_PART] ALIGNED;
  local float e[OWN * STRIDE_SCORES] ALIGNED;
  const int tx = get_local_id(0), ty = get_local_id(1);
  const place at = find_place(t, heads);
  const size_t c = (size_t)heads * HEAD, rows = ((size_t)at.b * heads + at.h) * t;
  const size_t head = (size_t)at.b * t * 3 * c + (size_t)at.h * HEAD;
  const global storage *q = qkv + head;
  dy += (size_t)at.b * t * c + (size_t)at.h * HEAD;
  float one[ROWS], sum[ROWS][WIDTH];
  UNROLL
  for (int i = 0; i < ROWS; i++) one[i] = 1;
  clear_sum(sum);

  for (int first = 0; first < t && first < at.first + OWN; first += OTHER) {
    float s[ROWS][COLUMNS], d[ROWS][COLUMNS];
    multiply_rows(s, q, 3 * c, at.first, q + c, 3 * c, first, t, tile_own, tile_other);
    multiply_rows(d, dy, c, at.first, q + 2 * c, 3 * c, first, t, tile_own, tile_other);
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const int own = ty + TY * i, row = at.first + own;
      /* Read here, not before the loop: Intel's CPU runtime 2026.2 loses private arrays that are
       * set before a loop with barriers and read in it. */
      const float row_lse = row < t ? lse[rows + row] : 0;
      const float row_product = row < t ? product[rows + row] : 0;
      UNROLL
      for (int j = 0; j < COLUMNS; j++) {
        const int other = tx + TX * j;
        float v = 0;
        if (row < t && first + other <= row) {
          const float u = kept(seed, first_sample + at.b, update, stream, threshold, factor, at.h,
                               t, row, first + other);
          v = exp(s[i][j] * scale - row_lse) * (u * d[i][j] - row_product) * scale;
        }
        e[own * STRIDE_SCORES + other] = v;
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
  const int tx = get_local_id(0), ty = get_local_id(1);
  const place at = find_place(t, heads);
  const size_t c = (size_t)heads * HEAD, rows = ((size_t)at.b * heads + at.h) * t;
  const size_t head = (size_t)at.b * t * 3 * c + (size_t)at.h * HEAD;
  const global storage *q = qkv + head;
  dy += (size_t)at.b * t * c + (size_t)at.h * HEAD;
  float one[ROWS], sum_k[ROWS][WIDTH], sum_v[ROWS][WIDTH];
  UNROLL
  for (int i = 0; i < ROWS; i++) one[i] = 1;
  clear_sum(sum_k);
  clear_sum(sum_v);

  for (int first = at.first / OTHER * OTHER; first < t; first += OTHER) {
    float s[ROWS][COLUMNS], d[ROWS][COLUMNS];
    multiply_rows(s, q + c, 3 * c, at.first, q, 3 * c, first, t, tile_own, tile_other);
    multiply_rows(d, q + 2 * c, 3 * c, at.first, dy, c, first, t, tile_own, tile_other);
    UNROLL
    for (int j = 0; j < COLUMNS; j++) {
      const int other = tx + TX * j, query = first + other;
      const float row_lse = query < t ? lse[rows + query] : 0;
      const float row_product = query < t ? product[rows + query] : 0;
      UNROLL
      for (int i = 0; i < ROWS; i++) {
        const int own = ty + TY * i, key = at.first + own;
        float weight = 0, v = 0;
        if (query < t && key <= query) {
          const float u = kept(seed, first_sample + at.b, update, stream, threshold, factor, at.h,
                               t, query, key);
          const float share = exp(s[i][j] * scale - row_lse);
          weight = share * u;
          v = share * (u * d[i][j] - row_product) * scale;
        }
        p[own * STRIDE_SCORES + other] = weight;
        e[own * STRIDE_SCORES + other] = v;
      }
    }
    add_products(sum_v, p, dy, c, first, t, tile_other);
    add_products(sum_k, e, q, 3 * c, first, t, tile_other);
  }
  store_sum(sum_k, one, dqkv + head + c, 3 * c, at.first, t);
  store_sum(sum_v, one, dqkv + head + 2 * c, 3 * c, at.first, t);
}
#endif
