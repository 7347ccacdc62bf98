/* C[M,N] = op(A)[M,K] op(B)[K,N] (+ C) (+ bias[N]), row-major and dense, for `batch` matrices at
 * fixed strides, from the elements `first` on.
 *
 * Work-group TX x TY computes a tile of (TY * ROWS) x (TX * COLUMNS * VECTOR) elements, ROWS x
 * COLUMNS vectors a work-item in registers, walking K in steps of DEPTH through local memory: 4 *
 * DEPTH * (TY * ROWS + 1 + TX * COLUMNS * VECTOR + VECTOR) bytes, at most 16.4 KiB for the tiles
 * that gemm.c chooses. Items own rows and vectors that lie TY and TX apart, so that neighbours read
 * neighbouring words of local memory and write neighbouring elements of C. Groups are numbered
 * along dimension 0 alone, the one that devices do not limit.
 *
 * Compiled for TRANSPOSE_A, TRANSPOSE_B in {0, 1} (the stored matrix is then [K,M] or [N,K]).
 * Dtypes: storage for A, B and C, or float for those of which A_F32, B_F32 and C_F32 say so; float
 * for the bias. */

#define LOAD_FLOAT(p, i) ((p)[i])
#define STORE_FLOAT(p, i, v) ((p)[i] = (v))
#ifdef A_F32
typedef float type_a;
#define load_a LOAD_FLOAT
#else
typedef storage type_a;
#define load_a load
#endif
#ifdef B_F32
typedef float type_b;
#define load_b LOAD_FLOAT
#else
typedef storage type_b;
#define load_b load
#endif
#ifdef C_F32
typedef float type_c;
#define load_c LOAD_FLOAT
#define store_c STORE_FLOAT
#else
typedef storage type_c;
#define load_c load
#define store_c store
#endif

#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)
typedef JOIN(float, VECTOR) vector;

#define TILE_M (TY * ROWS)
#define TILE_N (TX * COLUMNS * VECTOR)
/* Of a row of the tile of B, in floats: a vector more than its length, so that rows begin in
 * different banks. */
#define STRIDE_B (TILE_N + VECTOR)

kernel WORK_GROUP(TX, TY) void gemm(const global type_a *a, const global type_b *b,
                                    const global float *bias, global type_c *c, int m, int n, int k,
                                    long stride_a, long stride_b, long stride_c, long first_a,
                                    long first_b, long first_c, int add) {
  local float tile_a[DEPTH][TILE_M + 1];
  local vector tile_b[DEPTH * STRIDE_B / VECTOR];
  local float *b_elements = (local float *)tile_b;
  const int tx = get_local_id(0), ty = get_local_id(1), item = ty * TX + tx;
  const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
  const size_t group = get_group_id(0), matrix = group / ((size_t)tiles_m * tiles_n);
  const int tile = (int)(group - matrix * tiles_m * tiles_n);
  const int tile_row = tile / tiles_n, tile_column = tile - tile_row * tiles_n;
  const int row0 = tile_row * TILE_M, column0 = tile_column * TILE_N;
  a += first_a + matrix * stride_a;
  b += first_b + matrix * stride_b;
  c += first_c + matrix * stride_c;

  vector sum[ROWS][COLUMNS];
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) sum[i][j] = 0;

  for (int k0 = 0; k0 < k; k0 += DEPTH) {
    for (int e = item; e < TILE_M * DEPTH; e += TX * TY) {
#if TRANSPOSE_A
      const int p = e / TILE_M, i = e - p * TILE_M;
      const size_t at = (size_t)(k0 + p) * m + row0 + i;
#else
      const int i = e / DEPTH, p = e - i * DEPTH;
      const size_t at = (size_t)(row0 + i) * k + k0 + p;
#endif
      tile_a[p][i] = row0 + i < m && k0 + p < k ? load_a(a, at) : 0;
    }
    for (int e = item; e < TILE_N * DEPTH; e += TX * TY) {
#if TRANSPOSE_B
      const int j = e / DEPTH, p = e - j * DEPTH;
      const size_t at = (size_t)(column0 + j) * k + k0 + p;
#else
      const int p = e / TILE_N, j = e - p * TILE_N;
      const size_t at = (size_t)(k0 + p) * n + column0 + j;
#endif
      b_elements[p * STRIDE_B + j] = column0 + j < n && k0 + p < k ? load_b(b, at) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int p = 0; p < DEPTH; p++) {
      vector y[COLUMNS];
      for (int j = 0; j < COLUMNS; j++) y[j] = tile_b[p * (STRIDE_B / VECTOR) + tx + TX * j];
      for (int i = 0; i < ROWS; i++) {
        const float x = tile_a[p][ty + TY * i];
        for (int j = 0; j < COLUMNS; j++) sum[i][j] = fma((vector)x, y[j], sum[i][j]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  for (int i = 0; i < ROWS; i++) {
    const int row = row0 + ty + TY * i;
    for (int j = 0; j < COLUMNS; j++) {
      float lanes[VECTOR];
      JOIN(vstore, VECTOR)(sum[i][j], 0, lanes);
      for (int l = 0; l < VECTOR; l++) {
        const int column = column0 + (tx + TX * j) * VECTOR + l;
        if (row >= m || column >= n) continue;
        const size_t at = (size_t)row * n + column;
        float v = lanes[l];
        if (bias) v += bias[column];
        if (add) v += load_c(c, at);
        store_c(c, at, v);
      }
    }
  }
}
