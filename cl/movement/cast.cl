/* cast: y[i] (+)= x[i], between storage and float, one way or the other, and from bytes,
 * integers and blocks. One work-item an element, groups of GROUP. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void cast_to_float(const global storage *x, global float *y, long n,
                                               int add) {
  const size_t i = element_id();
  if (i < n) y[i] = add ? y[i] + load(x, i) : load(x, i);
}

kernel WORK_GROUP(GROUP, 1) void cast_to_storage(const global float *x, global storage *y, long n,
                                                 int add) {
  const size_t i = element_id();
  if (i < n) store(y, i, add ? load(y, i) + x[i] : x[i]);
}

kernel WORK_GROUP(GROUP, 1) void cast_bytes(const global uchar *x, global storage *y, long n,
                                            int add) {
  const size_t i = element_id();
  if (i < n) store(y, i, add ? load(y, i) + (float)x[i] : (float)x[i]);
}

kernel WORK_GROUP(GROUP, 1) void cast_integers(const global int *x, global float *y, long n,
                                               int add) {
  const size_t i = element_id();
  if (i < n) y[i] = add ? y[i] + (float)x[i] : (float)x[i];
}

/* Blocks (core/blocks.h): Q8_0, Q4_0, Q4_1, NF4, numbered from 1 on. */
constant float nf4_values[16] = {-1.0f,
                                 -0.6961928009986877f,
                                 -0.5250730514526367f,
                                 -0.39491748809814453f,
                                 -0.28444138169288635f,
                                 -0.18477343022823334f,
                                 -0.09105003625154495f,
                                 0.0f,
                                 0.07958029955625534f,
                                 0.16093020141124725f,
                                 0.24611230194568634f,
                                 0.33791524171829224f,
                                 0.44070982933044434f,
                                 0.5626170039176941f,
                                 0.7229568362236023f,
                                 1.0f};

float half_of_block(const global uchar *block, int i) {
  return vload_half(i, (const global half *)block);
}

/* Element i of a block of 2 n: one half of byte i or i - n. */
int four_bits(const global uchar *q, int i, int n) {
  return i < n ? q[i] & 15 : q[i - n] >> 4;
}

float element_of_blocks(const global uchar *x, size_t i, int blocks) {
  const int in_32 = (int)(i & 31), in_64 = (int)(i & 63);
  const global uchar *block;
  switch (blocks) {
  case 1:
    block = x + (i >> 5) * 34;
    return half_of_block(block, 0) * (float)(char)block[2 + in_32];
  case 2:
    block = x + (i >> 5) * 18;
    return half_of_block(block, 0) * (float)(four_bits(block + 2, in_32, 16) - 8);
  case 3:
    block = x + (i >> 5) * 20;
    return half_of_block(block, 0) * (float)four_bits(block + 4, in_32, 16) +
           half_of_block(block, 1);
  default:
    block = x + (i >> 6) * 36;
    return *(const global float *)block * nf4_values[four_bits(block + 4, in_64, 32)];
  }
}

kernel WORK_GROUP(GROUP, 1) void cast_blocks(const global uchar *x, global storage *y, long n,
                                             int blocks) {
  const size_t i = element_id();
  if (i < n) store(y, i, element_of_blocks(x, i, blocks));
}

/* Nothing is added to integers: `add` makes the arguments those of the others. */
kernel WORK_GROUP(GROUP, 1) void cast_to_integers(const global long *x, global int *y, long n,
                                                  int add) {
  const size_t i = element_id();
  if (i < n) y[i] = (int)x[i];
}
