/* dropout: y = factor x where the element's random bits reach `threshold`, else 0, with
 * factor = 1 / (1 - p). The bits of element e of a sample are 16-bit half e % 8 of philox(seed; e /
 * 8, sample, update, stream), whatever the micro-batch; if samples are dropped `whole`, those
 * of element 0 are all elements'. y may be x. One work-item a block of eight
 * elements of one sample, groups of GROUP. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void dropout(const global storage *x, global storage *y, long samples,
                                         long blocks, long n, uint2 seed, uint first_sample,
                                         uint update, uint stream, uint threshold, float factor,
                                         int whole) {
  const size_t i = element_id();
  if (i >= samples * blocks) return;
  const size_t sample = quotient(i, blocks), block = i - sample * blocks;
  const uint4 bits =
      philox(seed, (uint4)(whole ? 0 : (uint)block, first_sample + (uint)sample, update, stream));
  const uint word[4] = {bits.x, bits.y, bits.z, bits.w};
  UNROLL
  for (int k = 0; k < 8; k++) {
    if (block * 8 + k >= n) continue;
    const size_t at = sample * n + block * 8 + k;
    const uint drawn = whole ? word[0] : word[k / 2] >> 16 * (k % 2);
    store(y, at, (drawn & 0xffffu) < threshold ? 0 : load(x, at) * factor);
  }
}
