/* channel_gradient_sums: of images [B, C, S], the sums over the samples of a chunk, and over
 * positions, of dy and of dy h, h = (x - mean) r, for each channel: partial [2, chunks, C]. The
 * statistics (mean, r) are those of the channel, [C,2], or with groups > 0 those of its group in
 * the chunk's only sample, [B, groups, 2]. Without x the second sum is 0.
 *
 * A work-group of ROW_GROUP items a channel of a chunk; local memory 4 * ROW_GROUP bytes. Dtypes:
 * storage for dy and x, float for the rest. */
#include "common.h"

kernel WORK_GROUP(ROW_GROUP,
                  1) void channel_gradient_sums(const global storage *dy, const global storage *x,
                                                const global float *statistics,
                                                global float *partial, long samples, long channels,
                                                long positions, long samples_per_chunk, long chunks,
                                                long groups) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t group = get_group_id(0), chunk = quotient(group, channels);
  const size_t channel = group - chunk * channels, first = chunk * samples_per_chunk;
  const size_t count = min((ulong)samples_per_chunk, (ulong)(samples - first)) * positions;
  const size_t which = groups ? first * groups + quotient(channel * groups, channels) : channel;
  const float mean = statistics[2 * which], r = statistics[2 * which + 1];
  float sum = 0, sum_h = 0;
  for (size_t e = item; e < count; e += ROW_GROUP) {
    const size_t sample = quotient(e, positions), position = e - sample * positions;
    const size_t at = ((first + sample) * channels + channel) * positions + position;
    const float d = load(dy, at);
    sum += d;
    if (x) sum_h += d * ((load(x, at) - mean) * r);
  }
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  sum_h = group_sum(sum_h, scratch, item, ROW_GROUP);
  if (item) return;
  partial[group] = sum;
  partial[chunks * channels + group] = sum_h;
}
