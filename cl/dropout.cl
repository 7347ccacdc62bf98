/* dropout: y = factor x where the element's random bits reach `threshold`, else 0, with
 * factor = 1 / (1 - p). The bits of element e of a sample are word e % 4 of philox(seed; e / 4,
 * sample, update, stream), whatever the micro-batch. y may be x. One work-item a block of four
 * elements of one sample, groups of GROUP. Dtypes: storage. */

kernel WORK_GROUP(GROUP, 1) void dropout(const global storage *x, global storage *y, long samples,
                                         long blocks, long n, uint2 seed, uint first_sample,
                                         uint update, uint stream, uint threshold, float factor) {
  const size_t i = get_global_id(0);
  if (i >= samples * blocks) return;
  const size_t sample = quotient(i, blocks), block = i - sample * blocks;
  const uint4 bits =
      philox(seed, (uint4)((uint)block, first_sample + (uint)sample, update, stream));
  const uint word[4] = {bits.x, bits.y, bits.z, bits.w};
  for (int k = 0; k < 4 && block * 4 + k < n; k++) {
    const size_t at = sample * n + block * 4 + k;
    store(y, at, word[k] < threshold ? 0 : load(x, at) * factor);
  }
}
