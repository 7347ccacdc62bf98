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
#ifndef AC_CL_EIGHT_BIT_H
#define AC_CL_EIGHT_BIT_H

#include "update/parameter.h"

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

/* Without a sign only zero itself becomes zero. The code of one is for sizes up to a little above
 * it: no size reaches its borders. They are not INFINITY, as NVIDIA's compiler does not take that
 * for a constant. */
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

/* One comparison on a CPU, where fmin and fmax are several; b is not NaN, or is ignored. */
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

/* The table, and after it scratch for each state. */
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
 * or after it in its whole part. */
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
 * `kept`; it changes the last two. It uses the kernel's arguments. */
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

#endif
