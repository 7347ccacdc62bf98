/* What every kernel file begins with: storage and compute types, random numbers, reductions.
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
#ifndef AC_CL_COMMON_H
#define AC_CL_COMMON_H

/* WIDE types are vectors where an item of a CPU takes 16 neighbouring elements at a time, in blocks
 * of 8 bits and in attention, which has a HEAD; else they are scalars. */
#if (defined(EIGHT_BIT) || defined(HEAD)) && defined(CPU)
#define IS_WIDE
#define WIDE(type) type##16
#else
#define WIDE(type) type
#endif
typedef WIDE(float) floats;
typedef WIDE(uint) uints;

/* Of bf16, to nearest even; a NaN stays one. */
WIDE(ushort) bf16_nearest(floats v) {
  const uints bits = WIDE(as_uint)(v);
  return WIDE(convert_ushort)((isnan(v) ? bits | 0x400000u : bits + 0x7fff + (bits >> 16 & 1)) >>
                              16);
}

#if defined(STORAGE_F16)
typedef half storage;
float load(const global storage *p, size_t i) {
  return vload_half(i, p);
}

floats storable(floats v) {
#ifdef MARK_FLUSHED
  /* What is flushed to zero, at or below 2^-25, becomes -0; zero becomes +0. */
  const uints magnitude = WIDE(as_uint)(v) & 0x7fffffffu;
  const floats zero = WIDE(as_float)(magnitude != 0 ? (uints)0x80000000u : (uints)0);
  return magnitude <= 0x33000000u ? zero : v;
#else
  return v;
#endif
}
#elif defined(STORAGE_BF16)
typedef ushort storage;
float load(const global storage *p, size_t i) {
  return as_float((uint)p[i] << 16);
}
#define storable bf16_nearest
#else
typedef float storage;
float load(const global storage *p, size_t i) {
  return p[i];
}
#define storable(v) (v)
#endif

#ifdef IS_WIDE
/* `count` elements from the first on: 16, or what there is of them. */
typedef struct {
  size_t first;
  int count;
} elements;

constant uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

/* What is not there is zero, and is not stored. */
#define PLACES(type)                                                            \
  typedef type##16 type##s_anywhere __attribute__((aligned(sizeof(type))));     \
  type##16 load_##type##s(const global type *x, elements i) {                   \
    if (i.count == 16) return *(const global type##s_anywhere *)(x + i.first);  \
    type##16 v = 0;                                                             \
    for (int k = 0; k < i.count; k++) ((type *)&v)[k] = x[i.first + k];         \
    return v;                                                                   \
  }                                                                             \
  void store_##type##s(global type *x, elements i, type##16 v) {                \
    if (i.count == 16) *(global type##s_anywhere *)(x + i.first) = v;           \
    else                                                                        \
      for (int k = 0; k < i.count; k++) x[i.first + k] = ((const type *)&v)[k]; \
  }
PLACES(uchar)
PLACES(ushort)
PLACES(float)
#else
typedef size_t elements;
#endif

void store(global storage *p, elements i, floats v) {
#if defined(IS_WIDE) && defined(STORAGE_F16)
  ushort16 bits;
  vstore_half16_rte(storable(v), 0, (half *)&bits);
  store_ushorts((global ushort *)p, i, bits);
#elif defined(IS_WIDE) && defined(STORAGE_BF16)
  store_ushorts(p, i, storable(v));
#elif defined(IS_WIDE)
  store_floats(p, i, v);
#elif defined(STORAGE_F16)
  vstore_half_rte(storable(v), i, p);
#else
  p[i] = storable(v);
#endif
}

/* An element of what is float whatever the storage. */
#define LOAD_FLOAT(p, i) ((p)[i])
#define STORE_FLOAT(p, i, v) ((p)[i] = (v))

/* UNROLL is before loops over a work-item's array. Written out, its elements are registers; on
 * a CPU most lie in memory anyway, for each item of the group that the compiler makes a loop of.
 * UNROLL_4 is before loops around them, which would take too many if written out in full.
 * INLINED are functions that take such arrays, which a call would take from memory. */
#ifdef CPU
#define UNROLL
#define UNROLL_4
#else
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#endif
#define INLINED __attribute__((always_inline))
/* For local memory from which neighbouring elements are read as vectors. */
#define ALIGNED __attribute__((aligned(16)))

#define LANES (GROUP / 32)
#define WORK_GROUP(x, y) __attribute__((reqd_work_group_size(x, y, 1)))

/* Which of all elements an item has. Some drivers count get_global_id in 32 bits, so that ids
 * beyond 2^32 would be those of the first elements again, and take no more items along a dimension:
 * of more, slices follow each other along the last one (ac_cl_elements). */
size_t element_id(void) {
  return ((size_t)get_group_id(2) * get_num_groups(0) + get_group_id(0)) * get_local_size(0) +
         get_local_id(0);
}

/* i % n, in 32 bits where that is enough: 64-bit division is slow on most devices. */
size_t modulo(size_t i, size_t n) {
  return (i | n) >> 32 ? i % n : (size_t)((uint)i % (uint)n);
}

size_t quotient(size_t i, size_t n) {
  return (i | n) >> 32 ? i / n : (size_t)((uint)i / (uint)n);
}

#ifdef IS_WIDE
typedef struct {
  uints x, y, z, w;
} random_words;
#else
typedef uint4 random_words;
#endif

/* Philox 4x32-10, bit for bit that of src/core/random.h. Its rounds are written out on a CPU: in a
 * kernel that has barriers PoCL 3.1 adds its own to each innermost loop that all items enter alike,
 * also to one under a condition, and the first item of the group then repeats what loops around the
 * condition add up. */
random_words philox(uint2 key, random_words c) {
#ifdef CPU
#pragma unroll
#else
#pragma unroll 1
#endif
  for (int round = 0; round < 10; round++) {
    const uints n0 = mul_hi((uints)0xCD9E8D57u, c.z) ^ c.y ^ key.x,
                n2 = mul_hi((uints)0xD2511F53u, c.x) ^ c.w ^ key.y;
    c.y = 0xCD9E8D57u * c.z;
    c.w = 0xD2511F53u * c.x;
    c.x = n0;
    c.z = n2;
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

/* Elements of what is float, or bf16, whatever the storage. */
floats float_load(const global float *x, elements i) {
#ifdef IS_WIDE
  return load_floats(x, i);
#else
  return x[i];
#endif
}

floats bf16_load(const global ushort *x, elements i) {
#ifdef IS_WIDE
  const ushort16 bits = load_ushorts(x, i);
#else
  const ushort bits = x[i];
#endif
  return WIDE(as_float)(WIDE(convert_uint)(bits) << 16);
}

#ifndef IS_WIDE
void bf16_store(global ushort *x, size_t i, float v) {
  x[i] = bf16_nearest(v);
}
#endif

/* What is beyond 2^64 or far below 2^-64 is multiplied with one of these before it is squared, if
 * the plain squares do not fit into a float. Powers of two lose nothing. */
#define DOWN 0x1p-96f
#define UP 0x1p96f

/* Defines the function NAME of rows of TYPE: (mean, 1 / std) of the `width` elements from x[row]
 * on, for a work-group of ROW_GROUP items; each gets the result, and the first keeps it in
 * statistics[n]. NAME_scaled: (mean, sum of squares) of the elements times `scale`. */
#define ROW_STATISTICS(name, type, load)                                                           \
  float2 name##_scaled(const global type *x, size_t row, size_t width, float scale,                \
                       local float *scratch, int item) {                                           \
    float sum = 0, squares = 0;                                                                    \
    for (size_t j = item; j < width; j += ROW_GROUP) sum += load(x, row + j) * scale;              \
    const float mean = group_sum(sum, scratch, item, ROW_GROUP) / width;                           \
    for (size_t j = item; j < width; j += ROW_GROUP) {                                             \
      const float d = load(x, row + j) * scale - mean;                                             \
      squares += d * d;                                                                            \
    }                                                                                              \
    return (float2)(mean, group_sum(squares, scratch, item, ROW_GROUP));                           \
  }                                                                                                \
  float2 name(const global type *x, size_t row, size_t width, float epsilon, local float *scratch, \
              int item, global float *statistics, size_t n) {                                      \
    float2 s = name##_scaled(x, row, width, 1, scratch, item);                                     \
    float r = 1 / sqrt(s.y / width + epsilon);                                                     \
    if (!(s.y <= MAXFLOAT)) {                                                                      \
      s = name##_scaled(x, row, width, DOWN, scratch, item);                                       \
      r = DOWN / sqrt(s.y / width);                                                                \
      s.x *= UP;                                                                                   \
    }                                                                                              \
    if (item == 0) {                                                                               \
      statistics[2 * n] = s.x;                                                                     \
      statistics[2 * n + 1] = r;                                                                   \
    }                                                                                              \
    return (float2)(s.x, r);                                                                       \
  }

/* What a work-group of 32 x LANES items sums, of a matrix m x n in chunks of rows: the rows
 * [begin, end) of 32 neighbouring columns; one column is the item's. */
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

#endif
