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

/* UNROLL stands before loops over a work-item's array. Written out, its elements are registers; on
 * a CPU most lie in memory anyway, for each item of the group that the compiler makes a loop of.
 * UNROLL_4 stands before loops around them, which would take too many if written out in full.
 * UNROLL_SUMS and UNROLL_SUMS_2 are those of products' sums, on a CPU too: PoCL then keeps sums in
 * registers while it multiplies.
 * INLINED are functions that take such arrays, which a call would take from memory. */
#ifdef CPU
#define UNROLL
#define UNROLL_4
#else
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#endif
#define UNROLL_SUMS _Pragma("unroll")
#define UNROLL_SUMS_2 _Pragma("unroll 2")
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

#ifdef IS_WIDE
typedef struct {
  uints x, y, z, w;
} random_words;
#else
typedef uint4 random_words;
#endif

/* Philox 4x32-10, bit for bit that of src/core/random.h. */
random_words philox(uint2 key, random_words c) {
#pragma unroll 1
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

/* A parameter that is stepped, or a sum: a float, or with ROUNDED bf16, rounded up as often as it
 * is near the upper neighbour (src/core/half.h), by numbers of src/core/random.h. */
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

WIDE(ushort) bf16_by_chance(floats value, uints chance) {
  const uints bits = WIDE(as_uint)(value);
  return WIDE(convert_ushort)(
      ((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits + chance) >> 16);
}

#ifdef ROUNDED
#define rounded_t ushort
#define rounded_load bf16_load
#else
#define rounded_t float
#define rounded_load float_load
#endif

#ifndef IS_WIDE
void rounded_store(global rounded_t *x, size_t i, float value, uint2 key, uint4 counter) {
#ifdef ROUNDED
  const uint4 words = philox(key, counter + (uint4)((uint)(i / 8), 0, 0, 0));
  const uint pair = i & 4 ? (i & 2 ? words.w : words.z) : (i & 2 ? words.y : words.x);
  x[i] = bf16_by_chance(value, i & 1 ? pair >> 16 : pair & 0xffffu);
#else
  x[i] = value;
#endif
}
#endif

/* Of a parameter that is stepped, from its 8 x from-th element on; and its gradient. */
#define WEIGHT_STREAM(from, update) ((uint4)(from, 0, update, 1))
#ifdef GRADIENT_BF16
#define gradient_t ushort
#define gradient_load bf16_load
#else
#define gradient_t float
#define gradient_load float_load
#endif

/* What steps a parameter: its gradient, itself, two states and a copy, of which some may be absent,
 * what rounding by chance goes by, and the op's factors. */
#ifdef EIGHT_BIT
#define kept_t uchar
#else
#define kept_t float
#endif
#define UPDATE_OPERANDS(k)                                                                        \
  float8 factors##k, const global gradient_t *g##k, global rounded_t *p##k, global kept_t *m##k,  \
      global kept_t *v##k, global storage *w##k, long n##k, uint2 key##k, uint from##k

/* The kernels NAME, of one parameter, and NAME_each, of up to eight: each has work-groups of its
 * own, from the first-th on; those that are not there begin behind the last group. In this order
 * the arguments of NAME_each take 772 bytes of the 1,024 that every device has room for.
 * NAME_element steps an element. */
#define UPDATE_SLOT(k) UPDATE_OPERANDS(k), uint first##k
#define UPDATE_TAKE(k)     \
  if (group >= first##k) { \
    g = g##k;              \
    p = p##k;              \
    m = m##k;              \
    v = v##k;              \
    w = w##k;              \
    n = n##k;              \
    key = key##k;          \
    from = from##k;        \
    factors = factors##k;  \
    first = first##k;      \
  }
#define UPDATE_KERNELS(name)                                                                   \
  kernel WORK_GROUP(GROUP, 1) void name(UPDATE_OPERANDS(), uint update) {                      \
    const size_t i = get_global_id(0);                                                         \
    if (i < n) name##_element(g, p, m, v, w, key, from, factors, update, i);                   \
  }                                                                                            \
  kernel WORK_GROUP(GROUP, 1) void name##_each(UPDATE_SLOT(0), UPDATE_SLOT(1), UPDATE_SLOT(2), \
                                               UPDATE_SLOT(3), UPDATE_SLOT(4), UPDATE_SLOT(5), \
                                               UPDATE_SLOT(6), UPDATE_SLOT(7), uint update) {  \
    const uint group = get_group_id(0);                                                        \
    const global gradient_t *g = g0;                                                           \
    global rounded_t *p = p0;                                                                  \
    global kept_t *m = m0, *v = v0;                                                            \
    global storage *w = w0;                                                                    \
    long n = n0;                                                                               \
    uint2 key = key0;                                                                          \
    uint from = from0, first = 0;                                                              \
    float8 factors = factors0;                                                                 \
    UPDATE_TAKE(1)                                                                             \
    UPDATE_TAKE(2)                                                                             \
    UPDATE_TAKE(3)                                                                             \
    UPDATE_TAKE(4)                                                                             \
    UPDATE_TAKE(5)                                                                             \
    UPDATE_TAKE(6)                                                                             \
    UPDATE_TAKE(7)                                                                             \
    const size_t i = (size_t)(group - first) * GROUP + get_local_id(0);                        \
    if (i < n) name##_element(g, p, m, v, w, key, from, factors, update, i);                   \
  }
#define UPDATE_ELEMENT(name)                                                                     \
  void name##_element(const global gradient_t *g, global rounded_t *p, global kept_t *m,         \
                      global kept_t *v, global storage *w, uint2 key, uint from, float8 factors, \
                      uint update, size_t i)

/* Floats in 8 bits, in blocks with a scale: src/core/eight_bit.h. On a GPU a work-group of
 * EIGHT_BIT_GROUP items has a block, each item the elements item, item + EIGHT_BIT_GROUP, ...; on a
 * CPU a work-group is one item, which has EIGHT_BIT_BLOCKS one after the other, in vectors.
 *
 * Magnitudes belong to ranges: the first becomes zero, seven are decades, the last becomes one.
 * With N = 2^(range - 1) the value of a code is base + slope z, where z is 2 |code - 127| + 1 of a
 * signed code and code + 3/2 of an unsigned one: from 2 N to 4 N, so its exponent says the range.
 * The other way round, the position of x is how far its signed code is from zero's, and one more
 * than its unsigned one. Divided by N, or by 2 N without a sign, it is rise x + 8/9 and less than
 * two: N is put into its exponent, and the whole part is taken. A range ends at its border,
 * half-way between two values. What differs by range is a table, a GPU's in local memory, a CPU's
 * in registers: selects would take more than twice the instructions, too many for what is read
 * meanwhile. */
#ifdef EIGHT_BIT
#define EIGHT_BIT_BLOCK 256
#define EIGHT_BIT_BYTES (EIGHT_BIT_BLOCK + 4)
#ifdef CPU
#define EIGHT_BIT_GROUP 1
#define EIGHT_BIT_BLOCKS 8
#define EIGHT_BIT_SHARE (EIGHT_BIT_BLOCK / 16)
#else
#define EIGHT_BIT_GROUP 64
#define EIGHT_BIT_SHARE (EIGHT_BIT_BLOCK / EIGHT_BIT_GROUP)
#endif

/* Columns: base, slope; rise; border of signed codes, of unsigned ones. */
#define EIGHT_BIT_RANGES 9
#define EIGHT_BIT_COLUMNS 5
#define EIGHT_BIT_TABLE (EIGHT_BIT_COLUMNS * EIGHT_BIT_RANGES)

#define EIGHT_BIT_DECADE(n, unit, border, unsigned_border) \
  -0.8f * (unit), 0.45f * (unit) / (n), 1 / (0.9f * (unit)), border, unsigned_border
/* A decade that ends half-way to the one above; of what has no sign the parts are halves. */
#define EIGHT_BIT_BELOW(n, unit) \
  EIGHT_BIT_DECADE(n, unit, (unit) * (1 + 0.9f / (n)), (unit) * (1 + 0.45f / (n)))

/* Without a sign only zero itself becomes zero. What becomes one becomes little above it; no size is
 * as much as its borders, which are no INFINITY, as that is no constant to NVIDIA's compiler. */
#define EIGHT_BIT_ZERO 0, 0, 0, 0.275e-6f, 0
#define EIGHT_BIT_ONE 1, 0, 0.112f, 2, 2
constant float eight_bit_ranges[EIGHT_BIT_TABLE] = {
    EIGHT_BIT_ZERO,
    EIGHT_BIT_BELOW(1.0f, 1e-6f),
    EIGHT_BIT_BELOW(2.0f, 1e-5f),
    EIGHT_BIT_BELOW(4.0f, 1e-4f),
    EIGHT_BIT_BELOW(8.0f, 1e-3f),
    EIGHT_BIT_BELOW(16.0f, 1e-2f),
    EIGHT_BIT_BELOW(32.0f, 1e-1f),
    EIGHT_BIT_DECADE(64.0f, 1.0f, 1 - 0.225f / 64, 1 - 0.225f / 128),
    EIGHT_BIT_ONE};

/* One comparison on a CPU, where fmin and fmax are several; b is no NaN, or is passed over. */
#ifdef CPU
floats smaller(floats a, floats b) {
  return b < a ? b : a;
}

floats larger(floats a, floats b) {
  return b > a ? b : a;
}
#else
#define smaller fmin
#define larger fmax
#endif

/* What each form has of its own: which blocks a group has, the k-th share that an item has of one
 * with `left` elements, numbers by which a share is rounded, what a table says of ranges, and the
 * largest of all that a group has. */
#ifdef CPU
#define EIGHT_BIT_EACH_BLOCK                                                               \
  const size_t begin = get_group_id(0) * EIGHT_BIT_BLOCKS,                                 \
               end = min(begin + EIGHT_BIT_BLOCKS, ((size_t)n - 1) / EIGHT_BIT_BLOCK + 1); \
  for (size_t block = begin; block < end; block++)

elements eight_bit_place(int k, int left) {
  return (elements){16 * k, left == EIGHT_BIT_BLOCK ? 16 : clamp(left - 16 * k, 0, 16)};
}
#define EIGHT_BIT_PLACE elements
#define EIGHT_BIT_HAS(i, left) ((i).count > 0)
/* Compiled twice, where nothing is missing without its conditions. */
#define EIGHT_BIT_WHOLE(left, shares) \
  if (left == EIGHT_BIT_BLOCK) {      \
    const int left = EIGHT_BIT_BLOCK; \
    shares                            \
  } else {                            \
    shares                            \
  }
#define EIGHT_BIT_CODES(block, k) ((global uchars_anywhere *)(block))[k]

float16 eight_bit_cut(float16 v, elements i) {
  if (i.count == 16) return v;
  return lane < (uint)i.count ? v : 0;
}

#ifdef ROUNDED
#define EIGHT_BIT_ROUNDING(counter)    \
  uint16 chance[EIGHT_BIT_BLOCK / 32]; \
  eight_bit_chances(chance, key, counter)

void eight_bit_chances(uint16 *chance, uint2 key, uint4 counter) {
  for (int half_block = 0; half_block < 2; half_block++) {
    random_words words = {counter.x + 16 * half_block + lane, counter.y, counter.z, counter.w};
    words = philox(key, words);
    for (int c = 0; c < 16; c++)
      for (int word = 0; word < 4; word++)
        ((uint *)chance)[64 * half_block + 4 * c + word] = ((const uint *)&words)[16 * word + c];
  }
}
#define EIGHT_BIT_PUT(x, i, v) \
  store_ushorts(x, i, bf16_by_chance(v, convert_uint16(((const ushort16 *)chance)[(i).first / 16])))
#else
#define EIGHT_BIT_ROUNDING(counter)
#define EIGHT_BIT_PUT(x, i, v) store_floats(x, i, v)
#endif

typedef constant float *eight_bit_table;
#define EIGHT_BIT_SHARED(states) const eight_bit_table table = eight_bit_ranges
#define eight_bit_begin(table)

#define EIGHT_BIT_COLUMN(k)                                                                       \
  (float16)(table[k], table[5 + (k)], table[10 + (k)], table[15 + (k)], table[20 + (k)],          \
            table[25 + (k)], table[30 + (k)], table[35 + (k)], table[40 + (k)], 0, 0, 0, 0, 0, 0, \
            0)
/* One instruction where the compiler knows one; PoCL's shuffle goes through memory. */
#ifdef __clang__
#define EIGHT_BIT_AT(range, k) __builtin_shufflevector(EIGHT_BIT_COLUMN(k), as_uint16(range))
#else
#define EIGHT_BIT_AT(range, k) shuffle(EIGHT_BIT_COLUMN(k), as_uint16(range))
#endif

float eight_bit_most(float16 most, eight_bit_table table, int state) {
  const float8 of_8 = max(most.lo, most.hi);
  const float4 of_4 = max(of_8.lo, of_8.hi);
  const float2 of_2 = max(of_4.lo, of_4.hi);
  return max(of_2.x, of_2.y);
}
#else
#define EIGHT_BIT_EACH_BLOCK const size_t block = get_group_id(0);
#define eight_bit_place(k, left) ((int)get_local_id(0) + (k)*EIGHT_BIT_GROUP)
#define EIGHT_BIT_PLACE int
#define EIGHT_BIT_HAS(i, left) ((i) < (left))
#define EIGHT_BIT_WHOLE(left, shares) shares
#define EIGHT_BIT_CODES(block, k) (block)[eight_bit_place(k, 0)]
#define eight_bit_cut(v, i) (v)
#define EIGHT_BIT_ROUNDING(counter) const uint4 chance = counter
#define EIGHT_BIT_PUT(x, i, v) rounded_store(x, i, v, key, chance)

/* The table, and behind it scratch for each state. */
typedef local float *eight_bit_table;
#define EIGHT_BIT_SHARED(states) \
  local float table[EIGHT_BIT_TABLE + (states)*EIGHT_BIT_GROUP] ALIGNED
#define EIGHT_BIT_AT(range, k) table[EIGHT_BIT_COLUMNS * (range) + (k)]

/* Every item must call it. */
void eight_bit_begin(eight_bit_table table) {
  for (int k = get_local_id(0); k < EIGHT_BIT_TABLE; k += EIGHT_BIT_GROUP)
    table[k] = eight_bit_ranges[k];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

/* Every item must call it. */
float eight_bit_most(float most, eight_bit_table table, int state) {
  local float *scratch = table + EIGHT_BIT_TABLE + state * EIGHT_BIT_GROUP;
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
  return most;
}
#endif

floats with_sign(floats magnitude, floats of) {
  return WIDE(as_float)(WIDE(as_uint)(magnitude) | (WIDE(as_uint)(of) & 0x80000000u));
}

INLINED floats eight_bit_decode(eight_bit_table table, WIDE(uchar) code, int is_signed) {
  const floats distance = 2 * WIDE(convert_float)(code) - 254;
  const floats z = is_signed ? fabs(distance) + 1 : WIDE(convert_float)(code) + 1.5f;
  const WIDE(int) range = WIDE(as_int)(WIDE(as_uint)(z) >> 23) - 127;
  const floats value = EIGHT_BIT_AT(range, 0) + EIGHT_BIT_AT(range, 1) * z;
  return is_signed ? with_sign(value, distance) : value;
}

/* Of a value in [-1, 1], or [0, 1] if it has no sign; what is beyond counts as its end. An octave,
 * counted from 2^-23, has at most one border, and 77 / 256 of it plus one half has the range before
 * or behind it in its whole part. */
INLINED WIDE(uchar) eight_bit_encode(eight_bit_table table, floats x, int is_signed) {
  const floats size = larger(is_signed ? 0x1p-23f : 0.325e-6f, smaller(1, fabs(x)));
  const WIDE(int) octave = WIDE(as_int)(WIDE(as_uint)(size) >> 23) - (127 - 23),
                  near = (octave * 77 + 128) >> 8;
  const floats border = EIGHT_BIT_AT(near, is_signed ? 3 : 4);
  /* One more from the border on, by bits: oclgrind makes 256 of a vector's comparison. */
  const WIDE(int) below = (WIDE(as_int)(size) - WIDE(as_int)(border)) >> 31,
                  range = near + 1 + below;
  const floats part = smaller(size * EIGHT_BIT_AT(range, 2) + 8 / 9.0f, 0x1.fffffep0f);
  const WIDE(int) doublings = is_signed ? range - 1 : range;
  const floats position = WIDE(as_float)(WIDE(as_int)(part) + doublings * (1 << 23));
  if (!is_signed) return WIDE(convert_uchar)(x > 0 ? WIDE(convert_int)(position) - 1 : 0);
  return WIDE(convert_uchar)(WIDE(convert_int)(larger(with_sign(position, x), -127)) + 127);
}

/* What is kept of a block: its scale, and an item's shares as they become, with the largest of them
 * without its sign. */
typedef struct {
  global uchar *block;
  float scale;
  floats values[EIGHT_BIT_SHARE];
} eight_bit_kept;

INLINED void eight_bit_open(eight_bit_kept *kept, global uchar *block) {
  kept->block = block;
  kept->scale = *(const global float *)(block + EIGHT_BIT_BLOCK);
}

INLINED floats eight_bit_load(const eight_bit_kept *kept, eight_bit_table table, int k,
                              int is_signed) {
  return eight_bit_decode(table, EIGHT_BIT_CODES(kept->block, k), is_signed) * kept->scale;
}

INLINED floats eight_bit_keep(eight_bit_kept *kept, int k, floats value, floats most) {
  kept->values[k] = value;
  return larger(most, fabs(value));
}

/* The block's next scale, which all have read before. Every item must call it. */
INLINED float eight_bit_next_scale(floats most, eight_bit_table table, int state) {
  const float scale = fmin(eight_bit_most(most, table, state), 0x1p126f);
  return scale < 0x1p-126f ? 0 : scale;
}

INLINED void eight_bit_store(const eight_bit_kept *kept, eight_bit_table table, float scale,
                             int is_signed) {
  const float inverse = scale > 0 ? 1 / scale : 0;
  UNROLL
  for (int k = 0; k < EIGHT_BIT_SHARE; k++)
    EIGHT_BIT_CODES(kept->block, k) = eight_bit_encode(table, kept->values[k] * inverse, is_signed);
  if (get_local_id(0) == 0) *(global float *)(kept->block + EIGHT_BIT_BLOCK) = scale;
}

/* The shares of a block. */
#define EIGHT_BIT_SHARES(states, next)                                                    \
  UNROLL                                                                                  \
  for (int k = 0; k < EIGHT_BIT_SHARE; k++) {                                             \
    const EIGHT_BIT_PLACE i = eight_bit_place(k, left);                                   \
    floats signed_kept = 0, kept = 0;                                                     \
    if (EIGHT_BIT_HAS(i, left)) {                                                         \
      signed_kept = eight_bit_load(&first, table, k, 1);                                  \
      if (states > 1) kept = eight_bit_load(&second, table, k, 0);                        \
      const floats before = rounded_load(p + at, i), gradient = gradient_load(g + at, i); \
      const floats after = next;                                                          \
      EIGHT_BIT_PUT(p + at, i, after);                                                    \
      if (w) store(w + at, i, after);                                                     \
    }                                                                                     \
    most1 = eight_bit_keep(&first, k, eight_bit_cut(signed_kept, i), most1);              \
    if (states > 1) most2 = eight_bit_keep(&second, k, eight_bit_cut(kept, i), most2);    \
  }

/* The kernel of an optimizer that keeps `states` numbers an element: one with a sign in m, and one
 * without in v. `next` is the parameter's next value, from `before`, `gradient`, `signed_kept` and
 * `kept`, of which it changes the last two. It uses the kernel's arguments. */
#define EIGHT_BIT_STEP(states, m, v, next)                                  \
  EIGHT_BIT_SHARED(states);                                                 \
  EIGHT_BIT_EACH_BLOCK {                                                    \
    const size_t at = block * EIGHT_BIT_BLOCK;                              \
    const int left = (int)min(n - (long)at, (long)EIGHT_BIT_BLOCK);         \
    float scale1, scale2;                                                   \
    floats most1 = 0, most2 = 0;                                            \
    eight_bit_kept first, second;                                           \
    eight_bit_open(&first, (m) + block * EIGHT_BIT_BYTES);                  \
    if (states > 1) eight_bit_open(&second, (v) + block * EIGHT_BIT_BYTES); \
    eight_bit_begin(table);                                                 \
    EIGHT_BIT_ROUNDING(WEIGHT_STREAM(from + (uint)(at / 8), update));       \
    EIGHT_BIT_WHOLE(left, EIGHT_BIT_SHARES(states, next))                   \
    scale1 = eight_bit_next_scale(most1, table, 0);                         \
    if (states > 1) scale2 = eight_bit_next_scale(most2, table, 1);         \
    eight_bit_store(&first, table, scale1, 1);                              \
    if (states > 1) eight_bit_store(&second, table, scale2, 0);             \
  }
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
  UNROLL_SUMS
  for (int i = 0; i < ROWS; i++) {
    UNROLL_SUMS
    for (int j = 0; j < COLUMNS; j++) sum[i][j] = 0;
  }
}

/* Adds what one step contributes. */
INLINED void multiply_tiles(vector sum[ROWS][COLUMNS], local float (*tile_a)[STRIDE_A],
                            const local vector *tile_b) {
  const int tx = get_local_id(0), ty = get_local_id(1);
  UNROLL_SUMS_2
  for (int p = 0; p < DEPTH; p++) {
    vector y[COLUMNS];
    UNROLL_SUMS
    for (int j = 0; j < COLUMNS; j++) y[j] = tile_b[p * (STRIDE_B / VECTOR) + tx + TX * j];
    UNROLL_SUMS
    for (int i = 0; i < ROWS; i++) {
      const float x = tile_a[p][ty * ROWS + i];
      UNROLL_SUMS
      for (int j = 0; j < COLUMNS; j++) sum[i][j] = fma((vector)x, y[j], sum[i][j]);
    }
  }
}
#endif

/* Sums that are final, under another name. Loops that are not written out go over these: sums that
 * a loop indexes by its variable would lie in memory from the beginning, and written out, with all
 * that they store, such loops take PoCL minutes to compile. */
#ifdef CPU
#define RESULTS(type, columns, results, sum)                           \
  type results[ROWS][columns];                                         \
  UNROLL_SUMS                                                          \
  for (int i = 0; i < ROWS; i++) {                                     \
    UNROLL_SUMS                                                        \
    for (int j = 0; j < (columns); j++) (results)[i][j] = (sum)[i][j]; \
  }
#else
#define RESULTS(type, columns, results, sum) type(*results)[columns] = sum;
#endif
