/* C[M,N] = alpha op(A)[M,K] op(B)[K,N] (+ beta D[M,N]) (+ bias[N]) as gemm.cl has it with alpha and
 * beta 1 and C in D's place, for A and B of 16 bits, by the matrix units of GPUs: with these
 * instructions a sub-group multiplies fragments of A and B and adds to a fragment of sums. The
 * elements are in the registers of its lanes. Rows of A, B, C and D as stored begin `pitch` elements
 * apart. D begins to_d elements after C; with beta 0 it is not read.
 *
 * Of several products matrices lie `step` elements apart, `inner` of them, and then `outer` ones.
 *
 * With C_IMAGES the columns are pixels of images one after the other, the first of them pixel
 * `place`; an image has `pixels` of them, begins `image` elements after the one before it and has
 * the rows as channels. The bias is one of rows then.
 *
 * A work-group of GROUPS_M x GROUPS_N sub-groups computes a tile of C; each sub-group has
 * FRAGMENTS_M x FRAGMENTS_N fragments of it. Local memory 80 * (TILE_M + TILE_N) bytes: words of two
 * neighbours along k, the first in the lower half, in lines of DEPTH elements and 16 bytes more, so
 * that eight lines begin in different banks.
 *
 * An element of C is a chain of steps of 16 along k, in order, from 0 on and with zeros up to the
 * next multiple of DEPTH, then bias and beta D are added. So the tile changes no bit. How a
 * unit rounds and orders the sums within a step is its own: a numeric class.
 *
 * With AHEAD, of UNIT_MMA alone, tiles of later DEPTHs come into local memory while one is
 * multiplied: then it takes 64 * (AHEAD + 1) * (TILE_M + TILE_N) bytes, and TILE_M and TILE_N are
 * multiples of 64, FRAGMENTS_N is even.
 *
 * Compiled for one unit, UNIT_MMA, UNIT_DPAS, UNIT_WMMA or UNIT_MFMA, for TRANSPOSE_A and
 * TRANSPOSE_B in {0, 1} and for C in storage or, with C_F32, float. With EMULATED, lanes exchange
 * fragments through local memory, on any device: the same index arithmetic, and products fused and
 * in order, which gives gemm.cl's bits. */
#include "common.h"
#include "product/unit_maps.h"

/* Arrays as vectors and back, without addresses, which would keep them in memory. */
#define EIGHT(x) (x)[0], (x)[1], (x)[2], (x)[3], (x)[4], (x)[5], (x)[6], (x)[7]
#define PUT_FOUR(x, v) (x)[0] = (v).s0, (x)[1] = (v).s1, (x)[2] = (v).s2, (x)[3] = (v).s3
#define PUT_EIGHT(x, v) \
  PUT_FOUR(x, v), (x)[4] = (v).s4, (x)[5] = (v).s5, (x)[6] = (v).s6, (x)[7] = (v).s7

/* ---- one step -------------------------------------------------------------------------------- */

#if defined(EMULATED)
/* The same maps from the other side, written for themselves: which lane has an element, in which
 * register. Of two copies it looks at one for even and at the other for odd pairs. */
#if defined(UNIT_MMA)
#define A_PLACE(row, pair) ((row) % 8 * 4 + (pair) % 4) * A_WORDS + (row) / 8 + 2 * ((pair) / 4)
#define B_PLACE(pair, column) ((column)*4 + (pair) % 4) * B_WORDS + (pair) / 4
#define C_PLACE(row, column) ((row) % 8 * 4 + (column) / 2) * SUMS + (row) / 8 * 2 + (column) % 2
#elif defined(UNIT_DPAS)
#define A_PLACE(row, pair) (pair) * A_WORDS + (row)
#define B_PLACE(pair, column) (column) * B_WORDS + (pair)
#define C_PLACE(row, column) (column) * SUMS + (row)
#elif defined(UNIT_WMMA)
#define A_PLACE(row, pair) ((row) + (pair) % 2 * 16) * A_WORDS + (pair)
#define B_PLACE(pair, column) ((column) + (pair) % 2 * 16) * B_WORDS + (pair)
#define C_PLACE(row, column) ((column) + (row) % 2 * 16) * SUMS + (row) / 2
#elif defined(UNIT_MFMA)
#define A_PLACE(row, pair) ((row) + (pair) / 2 * 16) * A_WORDS + (pair) % 2
#define B_PLACE(pair, column) ((column) + (pair) / 2 * 16) * B_WORDS + (pair) % 2
#define C_PLACE(row, column) ((column) + (row) / 4 * 16) * SUMS + (row) % 4
#endif

#ifdef STORAGE_F16
float unit_value(uint bits) {
  const ushort half_bits = (ushort)bits;
  return vload_half(0, (const half *)&half_bits);
}
#else
float unit_value(uint bits) {
  return as_float(bits << 16);
}
#endif

/* A sub-group's registers, lane by lane. */
typedef struct {
  uint a[UNIT_LANES * A_WORDS], b[UNIT_LANES * B_WORDS];
  float sums[UNIT_LANES * SUMS];
} unit_registers;

float unit_sum(const local unit_registers *all, int row, int column) {
  float sum = all->sums[C_PLACE(row, column)];
  for (int pair = 0; pair < UNIT_PAIRS; pair++) {
    const uint x = all->a[A_PLACE(row, pair)], y = all->b[B_PLACE(pair, column)];
    sum = fma(unit_value(x & 0xffffu), unit_value(y & 0xffffu), sum);
    sum = fma(unit_value(x >> 16), unit_value(y >> 16), sum);
  }
  return sum;
}

/* Each lane computes some sums, whosever they are. */
INLINED void multiply(float sums[SUMS], const uint a[A_WORDS], const uint b[B_WORDS], int lane,
                      local unit_registers *all) {
  for (int r = 0; r < A_WORDS; r++) all->a[lane * A_WORDS + r] = a[r];
  for (int r = 0; r < B_WORDS; r++) all->b[lane * B_WORDS + r] = b[r];
  for (int r = 0; r < SUMS; r++) all->sums[lane * SUMS + r] = sums[r];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = lane; e < UNIT_M * UNIT_N; e += UNIT_LANES) {
    const int row = e / UNIT_N, column = e % UNIT_N;
    all->sums[C_PLACE(row, column)] = unit_sum(all, row, column);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int r = 0; r < SUMS; r++) sums[r] = all->sums[lane * SUMS + r];
}
#define REGISTERS local unit_registers registers[GROUPS_M * GROUPS_N]
#define MULTIPLY(sums, a, b) multiply(sums, a, b, lane, &registers[sub_group])
#define SUB_GROUPS

#else
#ifdef STORAGE_F16
#define UNIT_TYPE(bf16, f16) f16
#else
#define UNIT_TYPE(bf16, f16) bf16
#endif

#if defined(UNIT_MMA)
/* ASM is what the compiler calls it, asm or __asm__. */
#define SUB_GROUPS
INLINED void multiply(float c[SUMS], const uint a[A_WORDS], const uint b[B_WORDS]) {
  ASM volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32." UNIT_TYPE(
          "bf16.bf16", "f16.f16") ".f32 "
                                  "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#elif defined(UNIT_DPAS)
#define SUB_GROUPS __attribute__((intel_reqd_sub_group_size(UNIT_LANES)))
#define DPAS \
  UNIT_TYPE(intel_sub_group_bf16_bf16_matrix_mad_k16, intel_sub_group_f16_f16_matrix_mad_k16)
__attribute__((overloadable)) float8 DPAS(int8 a, int8 b, float8 c);
INLINED void multiply(float c[SUMS], const uint a[A_WORDS], const uint b[B_WORDS]) {
  const float8 sums = DPAS((int8)(EIGHT(a)), (int8)(EIGHT(b)), (float8)(EIGHT(c)));
  PUT_EIGHT(c, sums);
}

#elif defined(UNIT_WMMA)
#define SUB_GROUPS
#ifdef STORAGE_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
typedef UNIT_TYPE(short, half) factors __attribute__((ext_vector_type(16)));
#define WMMA \
  UNIT_TYPE(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32)
INLINED void multiply(float c[SUMS], const uint a[A_WORDS], const uint b[B_WORDS]) {
  const uint8 x = (uint8)(EIGHT(a)), y = (uint8)(EIGHT(b));
  const float8 sums =
      WMMA(__builtin_astype(x, factors), __builtin_astype(y, factors), (float8)(EIGHT(c)));
  PUT_EIGHT(c, sums);
}

#elif defined(UNIT_MFMA)
#define SUB_GROUPS
#ifdef STORAGE_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
typedef UNIT_TYPE(short, half) factors __attribute__((ext_vector_type(4)));
#define MFMA \
  UNIT_TYPE(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k, __builtin_amdgcn_mfma_f32_16x16x16f16)
INLINED void multiply(float c[SUMS], const uint a[A_WORDS], const uint b[B_WORDS]) {
  const uint2 x = (uint2)(a[0], a[1]), y = (uint2)(b[0], b[1]);
  const float4 sums = MFMA(__builtin_astype(x, factors), __builtin_astype(y, factors),
                           (float4)(c[0], c[1], c[2], c[3]), 0, 0, 0);
  PUT_FOUR(c, sums);
}
#endif
#define REGISTERS
#define MULTIPLY(sums, a, b) multiply(sums, a, b)
#endif

/* ---- tiles ----------------------------------------------------------------------------------- */

#define TILE_M (GROUPS_M * FRAGMENTS_M * UNIT_M)
#define TILE_N (GROUPS_N * FRAGMENTS_N * UNIT_N)
#define ITEMS (GROUPS_M * GROUPS_N * UNIT_LANES)
#define DEPTH 32
#define STRIDE (DEPTH / 2 + 4) /* of a line, in words */
#define BAND 8                 /* rows of tiles */

/* A matrix: `lines` rows of A or columns of B, of k elements. The elements of a line are next to each
 * other; with `across` those of all lines are. */
typedef struct {
  const global ushort *x;
  int lines, k;
  uint pitch;
} operand;

/* A CPU may not mind addresses that are not aligned; emulated, nothing is read there, which tests see. */
#ifdef EMULATED
#define IS_SHIFTED(p, bytes) ((size_t)(p) % (bytes) != 0)
#else
#define IS_SHIFTED(p, bytes) false
#endif

#ifndef AHEAD
/* Whether all its rows begin at multiples of so many elements: a head's may not where those of all
 * heads do. */
bool rows_are_aligned(operand from, uint elements) {
  return from.pitch % elements == 0 && (size_t)from.x % (elements * sizeof(ushort)) == 0;
}

/* Runs of eight elements along k. */
INLINED void fill_along(local uint *tile, int tile_lines, operand from, int first, int k0,
                        int item) {
  const bool aligned = rows_are_aligned(from, 8);
  for (int e = item; e < tile_lines * (DEPTH / 8); e += ITEMS) {
    const int line = e / (DEPTH / 8), p = e % (DEPTH / 8) * 8;
    const int left = first + line < from.lines ? from.k - k0 - p : 0;
    const global ushort *run = from.x + (size_t)(first + line) * from.pitch + k0 + p;
    ushort8 v = 0;
    if (left >= 8) v = aligned ? *(const global ushort8 *)run : vload8(0, run);
    else if (left > 0) {
      ushort lane[8];
      UNROLL
      for (int l = 0; l < 8; l++) lane[l] = l < left ? run[l] : 0;
      v = (ushort8)(EIGHT(lane));
    }
    *(local uint4 *)(tile + line * STRIDE + p / 2) = as_uint4(v);
  }
}

ushort4 load_across(operand from, int line, int k, bool aligned) {
  const int left = k < from.k ? from.lines - line : 0;
  const global ushort *run = from.x + (size_t)k * from.pitch + line;
  if (left > 0 && aligned && IS_SHIFTED(run, 8)) return 0;
  if (left >= 4) return aligned ? *(const global ushort4 *)run : vload4(0, run);
  ushort4 v = 0;
  if (left > 0) v.x = run[0];
  if (left > 1) v.y = run[1];
  if (left > 2) v.z = run[2];
  return v;
}

/* Runs of four lines, of two neighbours along k. Of 32 items four read 32 bytes next to each other
 * and eight have neighbouring words of local memory. */
INLINED void fill_across(local uint *tile, int tile_lines, operand from, int first, int k0,
                         int item) {
  const bool aligned = rows_are_aligned(from, 4);
  for (int e = item; e < tile_lines / 4 * (DEPTH / 2); e += ITEMS) {
    const int block = e / 32, blocks = tile_lines / 16;
    const int line = block % blocks * 16 + e % 4 * 4, pair = block / blocks * 8 + e / 4 % 8;
    const int k = k0 + 2 * pair;
    const uint4 v = convert_uint4(load_across(from, first + line, k, aligned)) |
                    convert_uint4(load_across(from, first + line, k + 1, aligned)) << 16;
    local uint *word = tile + line * STRIDE + pair;
    word[0] = v.x;
    word[STRIDE] = v.y;
    word[2 * STRIDE] = v.z;
    word[3 * STRIDE] = v.w;
  }
}

#if TRANSPOSE_A
#define fill_a fill_across
#else
#define fill_a fill_along
#endif
#if TRANSPOSE_B
#define fill_b fill_along
#else
#define fill_b fill_across
#endif

#define TILES 1
#define TILE_WORDS(lines) ((lines)*STRIDE)
#else
/* AHEAD steps are on their way from global to local memory while one is multiplied, in chunks of 16
 * bytes, eight elements, which must be aligned: pitches and places are multiples of eight. Chunks
 * of one line or, across, of one k, are next to each other, in such an order that eight that are
 * read together, of neighbouring lines or k's, are in different banks. */
/* So that chunks stay in their row; fragments of B are read in pairs. */
#if TILE_M % 64 || TILE_N % 64 || FRAGMENTS_N % 2
#error "with AHEAD, TILE_M and TILE_N are multiples of 64 and FRAGMENTS_N is even"
#endif
#define TILES (AHEAD + 1)
#define TILE_WORDS(lines) ((lines) * (DEPTH / 2))
#define CHUNKS (DEPTH / 8)
#define PLACE_ALONG(line, chunk) ((line)*CHUNKS + ((chunk) ^ (line) / 2 % CHUNKS))
#define PLACE_ACROSS(k, chunk, tile_lines) ((k) * ((tile_lines) / 8) + ((chunk) ^ (k) % 8))

#ifdef EMULATED
typedef local uint *tile_place;
#define TILE_AT(tile) (tile)
INLINED void fetch(tile_place tile, int place, const global ushort *from, int count) {
  if (IS_SHIFTED(from, 16)) count = 0;
  for (int e = 0; e < 8; e += 2) {
    const uint low = e < count ? from[e] : 0, high = e + 1 < count ? from[e + 1] : 0;
    tile[4 * place + e / 2] = low | high << 16;
  }
}

/* Of each matrix a lane has two elements next to each other in the row of lane / 4, or below each
 * other in the column. */
#define READ_MATRICES(x, transposed, tile, PLACE)                                              \
  for (int q = 0; q < 4; q++) {                                                                \
    const int first = 8 * q + (transposed ? lane % 4 * 2 : lane / 4);                          \
    const local ushort *row = (const local ushort *)((tile) + 4 * PLACE(first));               \
    const local ushort *next = (const local ushort *)((tile) + 4 * PLACE(first + transposed)); \
    (x)[q] = transposed ? row[lane / 4] | (uint)next[lane / 4] << 16                           \
                        : row[lane % 4 * 2] | (uint)next[lane % 4 * 2 + 1] << 16;              \
  }
#define AWAIT_STEP
#define END_OF_STEP
#else
typedef uint tile_place;
#define TILE_AT(tile) ((uint)(size_t)(tile))
/* A chunk's first `count` elements, up to eight, and zeros. */
INLINED void fetch(tile_place tile, int place, const global ushort *from, int count) {
  ASM volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(tile + 16 * place), "l"(from), "r"(2 * count)
               : "memory");
}

/* 16 x 16 elements as four matrices of 8 x 8; eight lanes each say where the rows of one are. */
#define LDMATRIX(x, transposed, place)                                                       \
  ASM volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0,%1,%2,%3}, [%4];" \
               : "=r"((x)[0]), "=r"((x)[1]), "=r"((x)[2]), "=r"((x)[3])                      \
               : "r"(place)                                                                  \
               : "memory")
#define READ_MATRICES(x, transposed, tile, PLACE)                   \
  if (transposed) LDMATRIX(x, ".trans", (tile) + 16 * PLACE(lane)); \
  else LDMATRIX(x, "", (tile) + 16 * PLACE(lane))
#define AWAIT_STEP ASM volatile("cp.async.wait_group %0;" : : "n"(AHEAD - 1) : "memory")
#define END_OF_STEP ASM volatile("cp.async.commit_group;" : : : "memory")
#endif

/* All items have as many. What does not depend on k0 stays the same from step to step. Where nothing
 * is left of a chunk its address may be outside of the matrix, and nothing is read there. */
#if TILE_M * CHUNKS % ITEMS || TILE_N * CHUNKS % ITEMS
#error "with AHEAD, all items fetch equally many chunks of a tile"
#endif
INLINED void fetch_along(tile_place tile, int tile_lines, operand from, int first, int k0,
                         int item) {
  UNROLL
  for (int begin = 0; begin < tile_lines * CHUNKS; begin += ITEMS) {
    const int e = begin + item, line = e / CHUNKS, chunk = e % CHUNKS;
    const int left = (first + line < from.lines ? from.k : 0) - 8 * chunk;
    const size_t row = (size_t)(first + line) * from.pitch + 8 * chunk;
    fetch(tile, PLACE_ALONG(line, chunk), from.x + row + k0, clamp(left - k0, 0, 8));
  }
}

INLINED void fetch_across(tile_place tile, int tile_lines, operand from, int first, int k0,
                          int item) {
  UNROLL
  for (int begin = 0; begin < tile_lines * CHUNKS; begin += ITEMS) {
    const int e = begin + item, row = e / (tile_lines / 8), chunk = e % (tile_lines / 8);
    const int line = first + 8 * chunk, count = clamp(from.lines - line, 0, 8);
    const size_t at = (size_t)row * from.pitch + line;
    fetch(tile, PLACE_ACROSS(row, chunk, tile_lines), from.x + at + (size_t)k0 * from.pitch,
          row < from.k - k0 ? count : 0);
  }
}

/* Where the row of eight elements is for which a lane is asked, of 16 lines from `line` on and of
 * 16 k's from 2 * pair on. Lanes 8 to 15 are asked for the next eight lines of A, but the next
 * eight k's of B. */
#define A_NEXT(lane) ((lane) % 16 / 8)
#define A_BEYOND(lane) ((lane) / 16)
#define B_NEXT(lane) ((lane) / 16)
#define B_BEYOND(lane) ((lane) % 16 / 8)
#define ROW_ALONG(next, beyond, lane) PLACE_ALONG(line + next * 8 + (lane) % 8, pair / 4 + beyond)
#define ROW_ACROSS(next, beyond, lane, tile_lines) \
  PLACE_ACROSS(pair * 2 + beyond * 8 + (lane) % 8, line / 8 + next, tile_lines)
#if TRANSPOSE_A
#define fetch_a fetch_across
#define ROW_OF_A(lane) ROW_ACROSS(A_NEXT(lane), A_BEYOND(lane), lane, TILE_M)
#else
#define fetch_a fetch_along
#define ROW_OF_A(lane) ROW_ALONG(A_NEXT(lane), A_BEYOND(lane), lane)
#endif
#if TRANSPOSE_B
#define fetch_b fetch_along
#define ROW_OF_B(lane) ROW_ALONG(B_NEXT(lane), B_BEYOND(lane), lane)
#else
#define fetch_b fetch_across
#define ROW_OF_B(lane) ROW_ACROSS(B_NEXT(lane), B_BEYOND(lane), lane, TILE_N)
#endif
/* A step's tiles of A and B; nothing beyond the last one, but a group of copies all the same. */
#define FETCH(step)                                                                           \
  {                                                                                           \
    if ((step) < steps) {                                                                     \
      fetch_a(TILE_AT(tile_a + (step) % TILES * TILE_WORDS(TILE_M)), TILE_M, from_a, row0,    \
              (step)*DEPTH, item);                                                            \
      fetch_b(TILE_AT(tile_b + (step) % TILES * TILE_WORDS(TILE_N)), TILE_N, from_b, column0, \
              (step)*DEPTH, item);                                                            \
    }                                                                                         \
    END_OF_STEP;                                                                              \
  }

INLINED void read_a(uint x[4], tile_place tile, int line, int pair, int lane) {
  READ_MATRICES(x, TRANSPOSE_A, tile, ROW_OF_A);
}
INLINED void read_b(uint x[4], tile_place tile, int line, int pair, int lane) {
  READ_MATRICES(x, !TRANSPOSE_B, tile, ROW_OF_B);
}
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

#ifdef C_IMAGES
/* Pixels of whole images, and those of the last. */
#define PLACE_OF(column) \
  ((place + (column)) / pixels * (size_t)(image - pixels) + (place + (column)))
#define BIAS_OF(row, column) (matrix * m + (row))
#else
#define PLACE_OF(column) (column)
#define BIAS_OF(row, column) (column)
#endif

SUB_GROUPS kernel WORK_GROUP(ITEMS, 1) void unit_gemm(
    const global ushort *a, const global ushort *b, const global float *bias, global type_c *c,
    int m, int n, int k, int inner, long step_a, long step_b, long step_c, long outer_a,
    long outer_b, long outer_c, long first_a, long first_b, long first_c, long to_d, uint pitch_a,
    uint pitch_b, uint pitch_c, int place, int pixels, long image, float alpha, float beta) {
  local uint tile_a[TILES * TILE_WORDS(TILE_M)] ALIGNED;
  local uint tile_b[TILES * TILE_WORDS(TILE_N)] ALIGNED;
  REGISTERS;
  const int item = get_local_id(0), lane = item % UNIT_LANES, sub_group = item / UNIT_LANES;
  const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
  const size_t group = get_group_id(0), matrix = group / ((size_t)tiles_m * tiles_n);
  const int tile = (int)(group - matrix * tiles_m * tiles_n);
  /* Which tile: down bands of some rows of tiles, so that tiles at work share what they read. */
  const int band = tile / (BAND * tiles_n), in_band = tile - band * BAND * tiles_n;
  const int rows = min(BAND, tiles_m - band * BAND);
  const int tile_row = band * BAND + in_band % rows, tile_column = in_band / rows;
  const int row0 = tile_row * TILE_M, column0 = tile_column * TILE_N;
  const int own_row = sub_group / GROUPS_N * (FRAGMENTS_M * UNIT_M);
  const int own_column = sub_group % GROUPS_N * (FRAGMENTS_N * UNIT_N);
  const size_t outer = matrix / inner, in_outer = matrix - outer * inner;
  const operand from_a = {a + first_a + outer * outer_a + in_outer * step_a, m, k, pitch_a};
  const operand from_b = {b + first_b + outer * outer_b + in_outer * step_b, n, k, pitch_b};
  c += first_c + outer * outer_c + in_outer * step_c;

  float sum[FRAGMENTS_M][FRAGMENTS_N][SUMS];
  UNROLL
  for (int i = 0; i < FRAGMENTS_M; i++) {
    UNROLL
    for (int j = 0; j < FRAGMENTS_N; j++) {
      UNROLL
      for (int r = 0; r < SUMS; r++) sum[i][j][r] = 0;
    }
  }

  /* Products of steps that are fetched ahead, or are read when they are due. */
#ifdef AHEAD
  const int steps = (k + DEPTH - 1) / DEPTH;
  for (int step = 0; step < AHEAD; step++) FETCH(step);
  for (int step = 0; step < steps; step++) {
    AWAIT_STEP;
    barrier(CLK_LOCAL_MEM_FENCE); /* all have fetched this step, and are done with the last one */
    FETCH(step + AHEAD);
    const tile_place of_a = TILE_AT(tile_a + step % TILES * TILE_WORDS(TILE_M));
    const tile_place of_b = TILE_AT(tile_b + step % TILES * TILE_WORDS(TILE_N));
    UNROLL
    for (int pair = 0; pair < DEPTH / 2; pair += UNIT_PAIRS) {
      uint y[FRAGMENTS_N / 2][4];
      UNROLL
      for (int j = 0; j < FRAGMENTS_N / 2; j++)
        read_b(y[j], of_b, own_column + j * 2 * UNIT_N, pair, lane);
      UNROLL
      for (int i = 0; i < FRAGMENTS_M; i++) {
        uint x[4];
        read_a(x, of_a, own_row + i * UNIT_M, pair, lane);
        UNROLL
        for (int j = 0; j < FRAGMENTS_N; j++) MULTIPLY(sum[i][j], x, y[j / 2] + j % 2 * 2);
      }
    }
  }
#else
  for (int k0 = 0; k0 < k; k0 += DEPTH) {
    fill_a(tile_a, TILE_M, from_a, row0, k0, item);
    fill_b(tile_b, TILE_N, from_b, column0, k0, item);
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Steps written out side by side would take too many registers. */
    _Pragma("unroll 1") for (int pair = 0; pair < DEPTH / 2; pair += UNIT_PAIRS) {
      uint y[FRAGMENTS_N][B_WORDS];
      UNROLL
      for (int j = 0; j < FRAGMENTS_N; j++) {
        UNROLL
        for (int r = 0; r < B_WORDS; r++)
          y[j][r] = tile_b[(own_column + j * UNIT_N + B_COLUMN(lane, r)) * STRIDE + pair +
                           B_PAIR(lane, r)];
      }
      UNROLL
      for (int i = 0; i < FRAGMENTS_M; i++) {
        uint x[A_WORDS];
        UNROLL
        for (int r = 0; r < A_WORDS; r++)
          x[r] = tile_a[(own_row + i * UNIT_M + A_ROW(lane, r)) * STRIDE + pair + A_PAIR(lane, r)];
        UNROLL
        for (int j = 0; j < FRAGMENTS_N; j++) MULTIPLY(sum[i][j], x, y[j]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif

  /* Results. */
  UNROLL
  for (int i = 0; i < FRAGMENTS_M; i++) {
    UNROLL
    for (int j = 0; j < FRAGMENTS_N; j++) {
      UNROLL
      for (int r = 0; r < SUMS; r++) {
        const int row = row0 + own_row + i * UNIT_M + C_ROW(lane, r);
        const int column = column0 + own_column + j * UNIT_N + C_COLUMN(lane, r);
        if (row < m && column < n) {
          const size_t at = (size_t)row * pitch_c + PLACE_OF(column);
          float v = alpha * sum[i][j][r];
          if (bias) v += bias[BIAS_OF(row, column)];
          if (beta != 0) v = fma(beta, load_c(c, at + to_d), v);
          store_c(c, at, v);
        }
      }
    }
  }
}
