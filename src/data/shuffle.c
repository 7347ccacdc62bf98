/* A permutation of [0, count) without a table: a Feistel network over the smallest 2^bits >= count,
 * followed again and again until the value is below count (cycle walking, as in Black and Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002).
 *
 * The bits are split into a left and a right half, which may differ by one bit. A round xors a
 * random function of one half into the other, which is its own inverse, so the network is a
 * bijection of [0, 2^bits). Walking the cycle from a point below count comes back to one at the
 * latest at that point itself, and maps two points to two, so the whole is a bijection of [0,
 * count). As 2^bits < 2 count, it takes fewer than two walks on average: about ROUNDS to 2 ROUNDS
 * calls of Philox for a position. */
#include "core/random.h"

#include <accrue/dataset.h>

/* Counter word 3; apart from the stream numbers of dropout, which share the key. */
#define SHUFFLE_STREAM 0x53480000u

static uint64_t permute(uint64_t seed, uint64_t epoch, uint64_t value, int bits) {
  int low_bits = bits / 2, high_bits = bits - low_bits;
  uint64_t low_mask = ((uint64_t)1 << low_bits) - 1, high_mask = ((uint64_t)1 << high_bits) - 1;
  uint64_t low = value & low_mask, high = value >> low_bits;
  uint32_t rounds = bits < 8 ? 16 : 8;
  for (uint32_t round = 0; round < rounds; round++) {
    uint32_t input = (uint32_t)(round % 2 ? high : low);
    uint32_t mixed =
        ac_philox(seed, input, (uint32_t)epoch, (uint32_t)(epoch >> 32), SHUFFLE_STREAM + round)
            .v[0];
    if (round % 2) low ^= mixed & low_mask;
    else high ^= mixed & high_mask;
  }
  return high << low_bits | low;
}

int64_t ac_shuffle(uint64_t seed, int64_t epoch, int64_t position, int64_t count) {
  if (position < 0 || position >= count) return -1;
  int bits = 0;
  while ((uint64_t)(count - 1) >> bits) bits++;
  uint64_t value = (uint64_t)position;
  do value = permute(seed, (uint64_t)epoch, value, bits);
  while (value >= (uint64_t)count);
  return (int64_t)value;
}
