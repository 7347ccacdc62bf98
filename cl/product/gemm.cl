/* C[M,N] = op(A)[M,K] op(B)[K,N] (+ C) (+ bias[N]), row-major and dense, for `batch` matrices at
 * fixed strides, from the elements `first` on.
 *
 * Work-group TX x TY computes a tile of C (products.h); local memory 4 * DEPTH * (TY * ROWS + 4 +
 * TX * COLUMNS * VECTOR + VECTOR) bytes, at most 16.5 KiB for the tiles that tiles.c chooses from.
 * Groups are numbered along dimension 0 alone, the one that devices do not limit.
 *
 * Every element of C is one chain of fma over k, in order, from 0 on and with zeros up to the next
 * multiple of DEPTH, then bias and what C held are added. So the tile changes no bit.
 *
 * Global memory is read and written in runs of VECTOR elements along the rows that are stored. Rows
 * of a multiple of VECTOR elements make them aligned, which on most devices is one access then
 * rather than VECTOR. VECTOR divides DEPTH and TY * ROWS.
 *
 * Compiled for TRANSPOSE_A, TRANSPOSE_B in {0, 1} (the stored matrix is then [K,M] or [N,K]).
 * Dtypes: storage for A, B and C, or float for them with A_F32, B_F32 and C_F32; float for the bias,
 * local memory and sums. */
#include "product/products.h"

/* Runs of VECTOR elements as floats, from and to anywhere or, `aligned`, multiples of VECTOR. They
 * convert as load and store do. */
#define VECTOR_OF(type) JOIN(type, VECTOR)
#define LOAD_FLOATS(p, i, aligned) \
  ((aligned) ? *(const global vector *)((p) + (i)) : JOIN(vload, VECTOR)(0, (p) + (i)))
#define STORE_FLOATS(p, i, v, aligned)              \
  if (aligned) *(global vector *)((p) + (i)) = (v); \
  else JOIN(vstore, VECTOR)(v, 0, (p) + (i))

#if defined(STORAGE_F16)
vector load_run(const global half *p, size_t i, bool aligned) {
  return aligned ? JOIN(vloada_half, VECTOR)(0, p + i) : JOIN(vload_half, VECTOR)(0, p + i);
}
void store_run(global half *p, size_t i, vector v, bool aligned) {
#ifdef MARK_FLUSHED
  const VECTOR_OF(uint) magnitude = JOIN(as_uint, VECTOR)(v) & 0x7fffffffu;
  v = magnitude > 0x33000000u ? v : JOIN(as_float, VECTOR)((magnitude != 0) << 31);
#endif
  if (aligned) JOIN(JOIN(vstorea_half, VECTOR), _rte)(v, 0, p + i);
  else JOIN(JOIN(vstore_half, VECTOR), _rte)(v, 0, p + i);
}
#elif defined(STORAGE_BF16)
vector load_run(const global ushort *p, size_t i, bool aligned) {
  const VECTOR_OF(ushort) bits =
      aligned ? *(const global VECTOR_OF(ushort) *)(p + i) : JOIN(vload, VECTOR)(0, p + i);
  return JOIN(as_float, VECTOR)(JOIN(convert_uint, VECTOR)(bits) << 16);
}
void store_run(global ushort *p, size_t i, vector v, bool aligned) {
  const VECTOR_OF(uint) bits = JOIN(as_uint, VECTOR)(v);
  const VECTOR_OF(uint) rounded =
      isnan(v) ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const VECTOR_OF(ushort) stored = JOIN(convert_ushort, VECTOR)(rounded);
  if (aligned) *(global VECTOR_OF(ushort) *)(p + i) = stored;
  else JOIN(vstore, VECTOR)(stored, 0, p + i);
}
#else
#define load_run LOAD_FLOATS
#define store_run STORE_FLOATS
#endif

#ifdef A_F32
typedef float type_a;
#define load_a LOAD_FLOAT
#define load_run_a LOAD_FLOATS
#else
typedef storage type_a;
#define load_a load
#define load_run_a load_run
#endif
#ifdef B_F32
typedef float type_b;
#define load_b LOAD_FLOAT
#define load_run_b LOAD_FLOATS
#else
typedef storage type_b;
#define load_b load
#define load_run_b load_run
#endif
#ifdef C_F32
typedef float type_c;
#define load_c LOAD_FLOAT
#define store_c STORE_FLOAT
#define load_run_c LOAD_FLOATS
#define store_run_c STORE_FLOATS
#else
typedef storage type_c;
#define load_c load
#define store_c store
#define load_run_c load_run
#define store_run_c store_run
#endif

/* A run with only its first `left` elements; the others are zeros. */
#define FILL_RUN(v, load, load_run, p, at, left, aligned)                           \
  vector v;                                                                         \
  if ((left) >= VECTOR) v = load_run(p, at, aligned);                               \
  else {                                                                            \
    float lanes[VECTOR];                                                            \
    UNROLL                                                                          \
    for (int l = 0; l < VECTOR; l++) lanes[l] = l < (left) ? load(p, (at) + l) : 0; \
    v = JOIN(vload, VECTOR)(0, lanes);                                              \
  }

kernel WORK_GROUP(TX, TY) void gemm(const global type_a *a, const global type_b *b,
                                    const global float *bias, global type_c *c, int m, int n, int k,
                                    long stride_a, long stride_b, long stride_c, long first_a,
                                    long first_b, long first_c, int add) {
  TILE_A;
  TILE_B;
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

  const bool aligned_a = (TRANSPOSE_A ? m : k) % VECTOR == 0;
  const bool aligned_b = (TRANSPOSE_B ? k : n) % VECTOR == 0;
  const bool aligned_c = n % VECTOR == 0;

  vector sum[ROWS][COLUMNS];
  clear_sums(sum);

  for (int k0 = 0; k0 < k; k0 += DEPTH) {
    /* The tile of a. */
    for (int e = item; e < TILE_M * DEPTH / VECTOR; e += TX * TY) {
      float lanes[VECTOR];
#if TRANSPOSE_A
      const int p = e / (TILE_M / VECTOR), i = (e - p * (TILE_M / VECTOR)) * VECTOR;
      const int left = k0 + p < k ? m - row0 - i : 0;
      const size_t at = (size_t)(k0 + p) * m + row0 + i;
#else
      const int i = e / (DEPTH / VECTOR), p = (e - i * (DEPTH / VECTOR)) * VECTOR;
      const int left = row0 + i < m ? k - k0 - p : 0;
      const size_t at = (size_t)(row0 + i) * k + k0 + p;
#endif
      FILL_RUN(v, load_a, load_run_a, a, at, left, aligned_a)
      JOIN(vstore, VECTOR)(v, 0, lanes);
      UNROLL
      for (int l = 0; l < VECTOR; l++)
#if TRANSPOSE_A
        tile_a[p][i + l] = lanes[l];
#else
        tile_a[p + l][i] = lanes[l];
#endif
    }
    /* The tile of b. */
    for (int e = item; e < TILE_N * DEPTH / VECTOR; e += TX * TY) {
#if TRANSPOSE_B
      const int j = e / (DEPTH / VECTOR), p = (e - j * (DEPTH / VECTOR)) * VECTOR;
      const int left = column0 + j < n ? k - k0 - p : 0;
      const size_t at = (size_t)(column0 + j) * k + k0 + p;
      FILL_RUN(v, load_b, load_run_b, b, at, left, aligned_b)
      float lanes[VECTOR];
      JOIN(vstore, VECTOR)(v, 0, lanes);
      UNROLL
      for (int l = 0; l < VECTOR; l++) b_elements[(p + l) * STRIDE_B + j] = lanes[l];
#else
      const int p = e / (TILE_N / VECTOR), j = e - p * (TILE_N / VECTOR);
      const int left = k0 + p < k ? n - column0 - j * VECTOR : 0;
      const size_t at = (size_t)(k0 + p) * n + column0 + j * VECTOR;
      FILL_RUN(v, load_b, load_run_b, b, at, left, aligned_b)
      tile_b[p * (STRIDE_B / VECTOR) + j] = v;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    multiply_tiles(sum, tile_a, tile_b);
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  /* Results: the bias, what is there already, whole runs and the last elements of a row. */
  RESULTS(vector, COLUMNS, results, sum)
  if (bias) {
    UNROLL
    for (int j = 0; j < COLUMNS; j++) {
      const int column = column0 + (tx + TX * j) * VECTOR;
      FILL_RUN(v, LOAD_FLOAT, LOAD_FLOATS, bias, column, n - column, false)
      UNROLL
      for (int i = 0; i < ROWS; i++) results[i][j] += v;
    }
  }
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    const int row = row0 + ty * ROWS + i;
    UNROLL
    for (int j = 0; j < COLUMNS; j++) {
      const int column = column0 + (tx + TX * j) * VECTOR;
      const size_t at = (size_t)row * n + column;
      const int left = row < m ? n - column : 0;
      if (add) {
        FILL_RUN(v, load_c, load_run_c, c, at, left, aligned_c)
        results[i][j] += v;
      }
      if (left >= VECTOR) {
        store_run_c(c, at, results[i][j], aligned_c);
      } else {
        float lanes[VECTOR];
        JOIN(vstore, VECTOR)(results[i][j], 0, lanes);
        UNROLL
        for (int l = 0; l < VECTOR; l++)
          if (l < left) store_c(c, at + l, lanes[l]);
      }
    }
  }
}
