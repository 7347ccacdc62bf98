/* What every kernel file begins with: storage and compute types, random numbers, reductions, tiles.
 *
 * Activations and weights are `storage`, read and written through load and store; arithmetic is in
 * float. Statistics, losses, parameter gradients and optimizer state are float whatever the storage
 * is, unless a kernel's options say otherwise (ROUNDED, GRADIENT_BF16, EIGHT_BIT, FACTORS_BF16).
 * Compile with STORAGE_F16 or STORAGE_BF16 for 16-bit storage, with neither for float; vload_half
 * and vstore_half are core OpenCL and need no extension. MARK_FLUSHED makes stores to f16 leave a
 * trace of what they flush to zero, for numerics.cl to count.
 *
 * GROUP, 256 or 64, is the work-group size of kernels over independent elements; kernels over
 * columns take 32 x LANES, with as many items. Files are compiled without -cl-finite-math-only and
 * -cl-fast-relaxed-math: infinities and NaNs are meant. */

float bf16_load(const global ushort *x, size_t i) {
  return as_float((uint)x[i] << 16);
}

/* To nearest even; a NaN stays one. */
void bf16_store(global ushort *x, size_t i, float v) {
  const uint bits = as_uint(v);
  x[i] = isnan(v) ? (ushort)(bits >> 16 | 64) : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#if defined(STORAGE_F16)
typedef half storage;
float load(const global storage *p, size_t i) {
  return vload_half(i, p);
}
void store(global storage *p, size_t i, float v) {
#ifdef MARK_FLUSHED
  /* What is flushed to zero, at or below 2^-25, becomes -0; zero becomes +0. */
  const uint magnitude = as_uint(v) & 0x7fffffffu;
  if (magnitude <= 0x33000000u) v = as_float(magnitude ? 0x80000000u : 0);
#endif
  vstore_half_rte(v, i, p);
}
#elif defined(STORAGE_BF16)
typedef ushort storage;
float load(const global storage *p, size_t i) {
  return bf16_load(p, i);
}
void store(global storage *p, size_t i, float v) {
  bf16_store(p, i, v);
}
#else
typedef float storage;
float load(const global storage *p, size_t i) {
  return p[i];
}
void store(global storage *p, size_t i, float v) {
  p[i] = v;
}
#endif

/* An element of what is float whatever the storage. */
#define LOAD_FLOAT(p, i) ((p)[i])
#define STORE_FLOAT(p, i, v) ((p)[i] = (v))

/* UNROLL stands before loops over a work-item's array. Written out, its elements are registers; on
 * a CPU they lie in memory anyway, for each item of the group that the compiler makes a loop of.
 * UNROLL_2 and UNROLL_4 stand before loops around them, which would take too many if written out in
 * full.
 * INLINED are functions that take such arrays, which a call would take from memory. */
#ifdef CPU
#define UNROLL
#define UNROLL_2
#define UNROLL_4
#else
#define UNROLL _Pragma("unroll")
#define UNROLL_2 _Pragma("unroll 2")
#define UNROLL_4 _Pragma("unroll 4")
#endif
#define INLINED __attribute__((always_inline))
/* For local memory of which neighbouring elements are read as vectors. */
#define ALIGNED __attribute__((aligned(16)))

#define LANES (GROUP / 32)
#define WORK_GROUP(x, y) __attribute__((reqd_work_group_size(x, y, 1)))

/* i % n, in 32 bits where that is enough: 64-bit division is slow on most devices. */
size_t modulo(size_t i, size_t n) {
  return (i | n) >> 32 ? i % n : (size_t)((uint)i % (uint)n);
}

size_t quotient(size_t i, size_t n) {
  return (i | n) >> 32 ? i / n : (size_t)((uint)i / (uint)n);
}

/* Philox 4x32-10, bit for bit that of src/core/random.h. */
uint4 philox(uint2 key, uint4 c) {
#pragma unroll 1
  for (int round = 0; round < 10; round++) {
    uint n0 = mul_hi(0xCD9E8D57u, c.z) ^ c.y ^ key.x, n2 = mul_hi(0xD2511F53u, c.x) ^ c.w ^ key.y;
    c = (uint4)(n0, 0xCD9E8D57u * c.z, n2, 0xD2511F53u * c.x);
    key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

/* Reductions over a work-group of `size` items, a power of two, in a fixed order. `scratch` holds
 * `size` elements and may be used again at once. Every item must call them, and every item gets the
 * result. */
float group_sum(float v, local float *scratch, int item, int size) {
  scratch[item] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = size / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) scratch[item] += scratch[item + half_size];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float sum = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

float group_max(float v, local float *scratch, int item, int size) {
  scratch[item] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = size / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) scratch[item] = fmax(scratch[item], scratch[item + half_size]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float largest = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}

/* A parameter that is stepped, or a sum: a float, or with ROUNDED bf16, rounded up as often as it
 * is near the upper neighbour (src/core/half.h), by numbers of src/core/random.h. */
#ifdef ROUNDED
#define rounded_t ushort
#define rounded_load bf16_load

void rounded_store(global ushort *x, size_t i, float value, uint2 key, uint4 counter) {
  const uint4 words = philox(key, counter + (uint4)((uint)(i / 8), 0, 0, 0));
  const uint pair = i & 4 ? (i & 2 ? words.w : words.z) : (i & 2 ? words.y : words.x);
  const uint bits = as_uint(value), chance = i & 1 ? pair >> 16 : pair & 0xffffu;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  x[i] = (ushort)((nan ? bits | 0x400000u : bits + chance) >> 16);
}
#else
#define rounded_t float

float rounded_load(const global float *x, size_t i) {
  return x[i];
}

void rounded_store(global float *x, size_t i, float value, uint2 key, uint4 counter) {
  x[i] = value;
}
#endif

/* Of a parameter that is stepped, from its 8 x from-th element on; and its gradient. */
#define WEIGHT_STREAM(from, update) ((uint4)(from, 0, update, 1))
#ifdef GRADIENT_BF16
#define gradient_t ushort
#define gradient_load bf16_load
#else
#define gradient_t float

float gradient_load(const global float *g, size_t i) {
  return g[i];
}
#endif

/* Floats in 8 bits, in blocks with a scale: src/core/eight_bit.h. A work-group of EIGHT_BIT_GROUP
 * items has a block, each item the elements item, item + EIGHT_BIT_GROUP, ...
 *
 * Magnitudes belong to ranges: the first becomes zero, seven are decades, the last becomes one.
 * With N = 2^(range - 1) the value of a code is base + slope z, where z is 2 |code - 127| + 1 of a
 * signed code and code + 3/2 of an unsigned one: from 2 N to 4 N, so its exponent says the range.
 * The other way round, how far the code of x is from zero's is the whole part of rise x + shift,
 * and at most that of 2.25 shift + rest, which lies half below the next range's first. A range ends
 * at its border, half-way between two values. What differs by range is a table in local memory:
 * selects would take more than twice the instructions, too many for what GPUs read meanwhile. */
#ifdef EIGHT_BIT
#define EIGHT_BIT_BLOCK 256
#define EIGHT_BIT_BYTES (EIGHT_BIT_BLOCK + 4)
#define EIGHT_BIT_GROUP 64
#define EIGHT_BIT_SHARE (EIGHT_BIT_BLOCK / EIGHT_BIT_GROUP)

/* Columns: base, slope; rise, shift of signed codes; rise, shift of unsigned ones; border of signed
 * ones, of unsigned ones. */
#define EIGHT_BIT_RANGES 9
#define EIGHT_BIT_COLUMNS 8
#define EIGHT_BIT_TABLE (EIGHT_BIT_COLUMNS * EIGHT_BIT_RANGES)

#define EIGHT_BIT_DECADE(n, unit, border, unsigned_border)                                    \
  -0.8f * (unit), 0.45f * (unit) / (n), (n) / (0.9f * (unit)), (n) * (8 / 9.0f),              \
      2 * (n) / (0.9f * (unit)), 2 * (n) * (8 / 9.0f) - 1, border, unsigned_border
/* A decade that ends half-way to the one above; of what has no sign the parts are halves. */
#define EIGHT_BIT_BELOW(n, unit) \
  EIGHT_BIT_DECADE(n, unit, (unit) * (1 + 0.9f / (n)), (unit) * (1 + 0.45f / (n)))

/* Without a sign only zero itself becomes zero. In the last range all is beyond the most. */
constant float eight_bit_ranges[EIGHT_BIT_TABLE] = {
    0, 0, 0, 0, 0, 0, 0.275e-6f, 0,
    EIGHT_BIT_BELOW(1.0f, 1e-6f),
    EIGHT_BIT_BELOW(2.0f, 1e-5f),
    EIGHT_BIT_BELOW(4.0f, 1e-4f),
    EIGHT_BIT_BELOW(8.0f, 1e-3f),
    EIGHT_BIT_BELOW(16.0f, 1e-2f),
    EIGHT_BIT_BELOW(32.0f, 1e-1f),
    EIGHT_BIT_DECADE(64.0f, 1.0f, 1 - 0.225f / 64, 1 - 0.225f / 128),
    1, 0, 256, 129 / 2.25f, 512, 254.75f / 2.25f, INFINITY, INFINITY};

/* How many of n elements the group's block has; and WEIGHT_STREAM from its first one on. */
int eight_bit_count(long n) {
  return (int)min(n - (long)get_group_id(0) * EIGHT_BIT_BLOCK, (long)EIGHT_BIT_BLOCK);
}
#define EIGHT_BIT_STREAM(from, update) \
  WEIGHT_STREAM((from) + (uint)get_group_id(0) * (EIGHT_BIT_BLOCK / 8), update)

/* Every item must call it. */
void eight_bit_begin(local float *table) {
  for (int k = get_local_id(0); k < EIGHT_BIT_TABLE; k += EIGHT_BIT_GROUP)
    table[k] = eight_bit_ranges[k];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

/* One comparison on a CPU, where fmin and fmax are several; b is no NaN, or is passed over. */
#ifdef CPU
float smaller(float a, float b) {
  return b < a ? b : a;
}

float larger(float a, float b) {
  return b > a ? b : a;
}
#else
#define smaller fmin
#define larger fmax
#endif

float with_sign(float magnitude, float of) {
  return as_float(as_uint(magnitude) | (as_uint(of) & 0x80000000u));
}

#define EIGHT_BIT_AT(range, column) table[EIGHT_BIT_COLUMNS * (range) + (column)]

float eight_bit_decode(const local float *table, uchar code, int is_signed) {
  const float distance = 2 * (float)code - 254;
  const float z = is_signed ? fabs(distance) + 1 : (float)code + 1.5f;
  const int range = (int)(as_uint(z) >> 23) - 127;
  const float value = EIGHT_BIT_AT(range, 0) + EIGHT_BIT_AT(range, 1) * z;
  return is_signed ? with_sign(value, distance) : value;
}

/* Of a value in [-1, 1], or [0, 1] if it has no sign; what is beyond counts as its end. An octave,
 * counted from 2^-23, has at most one border, and 77 / 256 of it plus one half has the range before
 * or behind it in its whole part. */
uchar eight_bit_encode(const local float *table, float x, int is_signed) {
  const float size = larger(is_signed ? 0x1p-23f : 0.325e-6f, smaller(1, fabs(x)));
  const int octave = (int)(as_uint(size) >> 23) - (127 - 23), near = (octave * 77 + 128) >> 8;
  const int range = near + (size >= EIGHT_BIT_AT(near, is_signed ? 6 : 7));
  const float rise = EIGHT_BIT_AT(range, is_signed ? 2 : 4),
              shift = EIGHT_BIT_AT(range, is_signed ? 3 : 5);
  const float part = smaller(size * rise + shift, 2.25f * shift + (is_signed ? -0.5f : 0.75f));
  if (!is_signed) return (uchar)(x > 0 ? (int)part : 0);
  return (uchar)((int)larger(with_sign(part, x), -127) + 127);
}

float eight_bit_scale(const global uchar *block) {
  return *(const global float *)(block + EIGHT_BIT_BLOCK);
}

/* The scale of a block whose magnitudes are at most `most` in what the item has of it. Every item
 * must call it. */
float eight_bit_next_scale(float most, local float *scratch) {
  const int item = get_local_id(0);
  scratch[item] = most;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < 8) {
    UNROLL
    for (int k = 8; k < EIGHT_BIT_GROUP; k += 8) most = larger(most, scratch[item + k]);
    scratch[item] = most;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL
  for (int k = 0; k < 8; k++) most = larger(most, scratch[k]);
  most = smaller(most, 0x1p126f);
  return most < 0x1p-126f ? 0 : most;
}

/* The block becomes the group's values. All must have read its scale before. */
INLINED void eight_bit_store(const local float *table, global uchar *block,
                             const float values[EIGHT_BIT_SHARE], float scale, int is_signed) {
  const int item = get_local_id(0);
  const float inverse = scale > 0 ? 1 / scale : 0;
  UNROLL
  for (int k = 0; k < EIGHT_BIT_SHARE; k++)
    block[item + k * EIGHT_BIT_GROUP] = eight_bit_encode(table, values[k] * inverse, is_signed);
  if (item == 0) *(global float *)(block + EIGHT_BIT_BLOCK) = scale;
}

/* Moves what an element is counted from to the group's block; `left` is how many of n it has. */
#define EIGHT_BIT_MOVE(g, p, w, n)                \
  const size_t block = get_group_id(0);           \
  const int left = eight_bit_count(n);            \
  g += block * EIGHT_BIT_BLOCK;                   \
  p += block * EIGHT_BIT_BLOCK;                   \
  if (w) w += block * EIGHT_BIT_BLOCK

/* The kernel of an optimizer that keeps one number an element, in m: `next` is the parameter's next
 * value, from `before`, `gradient` and `kept`, which it changes. It uses the kernel's arguments. */
#define EIGHT_BIT_STEP(m, next)                                                      \
  local float table[EIGHT_BIT_TABLE] ALIGNED;                                        \
  local float scratch[EIGHT_BIT_GROUP];                                              \
  float values[EIGHT_BIT_SHARE], most = 0;                                           \
  EIGHT_BIT_MOVE(g, p, w, n);                                                        \
  m += block * EIGHT_BIT_BYTES;                                                      \
  const float scale = eight_bit_scale(m);                                            \
  eight_bit_begin(table);                                                            \
  UNROLL                                                                             \
  for (int k = 0; k < EIGHT_BIT_SHARE; k++) {                                        \
    const int i = (int)get_local_id(0) + k * EIGHT_BIT_GROUP;                        \
    float kept = 0;                                                                  \
    if (i < left) {                                                                  \
      kept = eight_bit_decode(table, m[i], 1) * scale;                               \
      const float before = rounded_load(p, i), gradient = gradient_load(g, i);       \
      const float after = next;                                                      \
      rounded_store(p, i, after, key, EIGHT_BIT_STREAM(from, update));               \
      if (w) store(w, i, after);                                                     \
    }                                                                                \
    values[k] = kept;                                                                \
    most = larger(most, fabs(kept));                                                 \
  }                                                                                  \
  eight_bit_store(table, m, values, eight_bit_next_scale(most, scratch), 1)
#endif

/* Defines the function NAME of rows of TYPE: (mean, 1 / std) of the `width` elements from x[row]
 * on, for a work-group of ROW_GROUP items; each gets the result, and the first keeps it in
 * statistics[n]. */
#define ROW_STATISTICS(name, type, load)                                                           \
  float2 name(const global type *x, size_t row, size_t width, float epsilon, local float *scratch, \
              int item, global float *statistics, size_t n) {                                      \
    float sum = 0, squares = 0;                                                                    \
    for (size_t j = item; j < width; j += ROW_GROUP) sum += load(x, row + j);                      \
    const float mean = group_sum(sum, scratch, item, ROW_GROUP) / width;                           \
    for (size_t j = item; j < width; j += ROW_GROUP) {                                             \
      const float d = load(x, row + j) - mean;                                                     \
      squares += d * d;                                                                            \
    }                                                                                              \
    const float r = 1 / sqrt(group_sum(squares, scratch, item, ROW_GROUP) / width + epsilon);      \
    if (item == 0) {                                                                               \
      statistics[2 * n] = mean;                                                                    \
      statistics[2 * n + 1] = r;                                                                   \
    }                                                                                              \
    return (float2)(mean, r);                                                                      \
  }

/* What a work-group of 32 x LANES items sums, of a matrix m x n in chunks of rows: the rows
 * [begin, end) of 32 neighbouring columns, of which one is the item's. */
typedef struct {
  size_t chunk, column, begin, end;
} strip;

strip find_strip(long m, long n, long rows_per_chunk) {
  const size_t tiles = (n + 31) / 32, group = get_group_id(0);
  strip s;
  s.chunk = quotient(group, tiles);
  s.column = (group - s.chunk * tiles) * 32 + get_local_id(0);
  s.begin = s.chunk * rows_per_chunk;
  s.end = min((ulong)(s.begin + rows_per_chunk), (ulong)m);
  return s;
}

/* The sum over the lanes of a column. */
float lane_sum(float v, local float (*scratch)[32]) {
  const int tx = get_local_id(0), lane = get_local_id(1);
  scratch[lane][tx] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    if (lane < half_size) scratch[lane][tx] += scratch[lane + half_size][tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return scratch[0][tx];
}

/* Tiles of products C = A B. Work-group TX x TY has the sums of a tile of TILE_M x TILE_N elements,
 * ROWS x COLUMNS vectors a work-item in registers, and walks the inner dimension in steps of DEPTH
 * through local memory. An item's rows are neighbours, which it reads as vectors; its own vectors
 * of columns lie TX apart, so that neighbours read neighbouring words of local memory and write
 * neighbouring elements of C. */
#ifdef VECTOR
#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)
typedef JOIN(float, VECTOR) vector;

#define TILE_M (TY * ROWS)
#define TILE_N (TX * COLUMNS * VECTOR)
/* Of rows of the tiles of A and B, in floats: a vector more than their length, so that they begin
 * in different banks. */
#define STRIDE_A (TILE_M + 4)
#define STRIDE_B (TILE_N + VECTOR)
#define TILE_A local float tile_a[DEPTH][STRIDE_A] ALIGNED
#define TILE_B local vector tile_b[DEPTH * STRIDE_B / VECTOR]

INLINED void clear_sums(vector sum[ROWS][COLUMNS]) {
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    UNROLL
    for (int j = 0; j < COLUMNS; j++) sum[i][j] = 0;
  }
}

/* Adds what one step contributes. */
INLINED void multiply_tiles(vector sum[ROWS][COLUMNS], local float (*tile_a)[STRIDE_A],
                            const local vector *tile_b) {
  const int tx = get_local_id(0), ty = get_local_id(1);
  UNROLL_2
  for (int p = 0; p < DEPTH; p++) {
    vector y[COLUMNS];
    UNROLL
    for (int j = 0; j < COLUMNS; j++) y[j] = tile_b[p * (STRIDE_B / VECTOR) + tx + TX * j];
    UNROLL
    for (int i = 0; i < ROWS; i++) {
      const float x = tile_a[p][ty * ROWS + i];
      UNROLL
      for (int j = 0; j < COLUMNS; j++) sum[i][j] = fma((vector)x, y[j], sum[i][j]);
    }
  }
}
#endif
