/* batch_norm of images [B, C, S]: y = gamma h + beta, h = (x - mean) r, r = 1 / sqrt(var + epsilon)
 * over the samples and positions of each channel; statistics [C,2] keeps (mean, r), kept [C] var.
 * gamma, beta and kept may be NULL. Chunks of samples leave (mean, sum of squared differences from
 * it) of each channel in `partial` [2, chunks, C], and batch_norm_statistics joins these in order;
 * in evaluation batch_norm_running takes the running mean and variance instead. Gradient: dx (+)=
 * gamma r (dy - mean(dy) - h mean(dy h)); dx may be dy; dgamma (+)= sum of dy h, dbeta (+)= sum of
 * dy. The sums come in chunks from channel_sums.cl, `sums` [2, chunks, C]; batch_norm_totals adds
 * them up and leaves the two means in the first chunk's place. batch_norm_pool joins a
 * micro-batch's statistics to the window's [C,3], batch_norm_update moves the running ones; the
 * formulas are in src/ops/norm/batch_norm.h.
 *
 * If a window's batch norm is exact, batch_norm_gather_moments joins a micro-batch's chunks to the
 * window's [C,3], batch_norm_settle makes (mean, r) of these, batch_norm_gather_sums adds the sums
 * of dy and of dy h to the window's [C,2], and the last two kernels use them.
 *
 * batch_norm_moments: a work-group of ROW_GROUP items a channel of a chunk, local memory
 * 4 * ROW_GROUP bytes. The others: one work-item a channel or an element, groups of GROUP. Dtypes:
 * storage for x, y, dy, dx; float for the rest. */
#include "common.h"

kernel WORK_GROUP(ROW_GROUP, 1) void batch_norm_moments(const global storage *x,
                                                        global float *partial, long samples,
                                                        long channels, long positions,
                                                        long samples_per_chunk, long chunks) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t group = get_group_id(0), chunk = quotient(group, channels);
  const size_t channel = group - chunk * channels, first = chunk * samples_per_chunk;
  const size_t count = min((ulong)samples_per_chunk, (ulong)(samples - first)) * positions;
  float mean = 0, squares = 0;
  for (int pass = 0; pass < 2; pass++) {
    float sum = 0;
    for (size_t e = item; e < count; e += ROW_GROUP) {
      const size_t sample = quotient(e, positions), position = e - sample * positions;
      const size_t at = ((first + sample) * channels + channel) * positions + position;
      const float d = load(x, at) - mean;
      sum += pass ? d * d : d;
    }
    sum = group_sum(sum, scratch, item, ROW_GROUP);
    if (pass) squares = sum;
    else mean = sum / count;
  }
  if (item) return;
  partial[group] = mean;
  partial[chunks * channels + group] = squares;
}

/* Joins (n2, mean2, squares2) to (n, mean, squares). */
void join(float *n, float *mean, float *squares, float n2, float mean2, float squares2) {
  const float apart = mean2 - *mean, total = *n + n2, share = n2 / total;
  *squares += squares2 + apart * apart * *n * share;
  *mean += apart * share;
  *n = total;
}

/* Joins the chunks of a channel, in order. */
void join_chunks(float *n, float *mean, float *squares, const global float *partial, size_t c,
                 long samples, long channels, long positions, long samples_per_chunk, long chunks) {
  for (size_t k = 0; k < chunks; k++) {
    const size_t first = k * samples_per_chunk;
    const size_t count = min((ulong)samples_per_chunk, (ulong)(samples - first)) * positions;
    join(n, mean, squares, count, partial[k * channels + c], partial[(chunks + k) * channels + c]);
  }
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_statistics(const global float *partial,
                                                       global float *statistics, global float *kept,
                                                       long samples, long channels, long positions,
                                                       long samples_per_chunk, long chunks,
                                                       float epsilon) {
  const size_t c = element_id();
  if (c >= channels) return;
  float n = 0, mean = 0, squares = 0;
  join_chunks(&n, &mean, &squares, partial, c, samples, channels, positions, samples_per_chunk,
              chunks);
  statistics[2 * c] = mean;
  statistics[2 * c + 1] = 1 / sqrt(squares / n + epsilon);
  if (kept) kept[c] = squares / n;
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_running(const global float *mean,
                                                    const global float *variance,
                                                    global float *statistics, global float *kept,
                                                    long channels, float epsilon) {
  const size_t c = element_id();
  if (c >= channels) return;
  statistics[2 * c] = mean[c];
  statistics[2 * c + 1] = 1 / sqrt(variance[c] + epsilon);
  if (kept) kept[c] = variance[c];
}

kernel WORK_GROUP(GROUP, 1) void batch_norm(const global storage *x, const global float *gamma,
                                            const global float *beta,
                                            const global float *statistics, global storage *y,
                                            long n, long channels, long positions) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t c = modulo(quotient(e, positions), channels);
  const float h = (load(x, e) - statistics[2 * c]) * statistics[2 * c + 1];
  store(y, e, h * (gamma ? gamma[c] : 1) + (beta ? beta[c] : 0));
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_totals(global float *sums, global float *dgamma,
                                                   global float *dbeta, long channels, long chunks,
                                                   float count, int frozen, int add_gamma,
                                                   int add_beta) {
  const size_t c = element_id();
  if (c >= channels) return;
  global float *sums_h = sums + chunks * channels;
  float sum = 0, sum_h = 0;
  const bool summed = !frozen || dgamma || dbeta;
  for (size_t k = 0; k < chunks && summed; k++) {
    sum += sums[k * channels + c];
    sum_h += sums_h[k * channels + c];
  }
  if (dgamma) dgamma[c] = add_gamma ? dgamma[c] + sum_h : sum_h;
  if (dbeta) dbeta[c] = add_beta ? dbeta[c] + sum : sum;
  sums[c] = frozen ? 0 : sum / count;
  sums_h[c] = frozen ? 0 : sum_h / count;
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_input_gradient(
    const global storage *dy, const global storage *x, const global float *statistics,
    const global float *gamma, const global float *sums, global storage *dx, long n, long channels,
    long positions, long chunks, int add) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t c = modulo(quotient(e, positions), channels);
  const float r = statistics[2 * c + 1], h = x ? (load(x, e) - statistics[2 * c]) * r : 0;
  const float centred = load(dy, e) - sums[c] - h * sums[chunks * channels + c];
  const float d = (gamma ? gamma[c] : 1) * r * centred;
  store(dx, e, add ? load(dx, e) + d : d);
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_pool(const global float *statistics,
                                                 const global float *variance, global float *pooled,
                                                 long channels, float count, int add) {
  const size_t c = element_id();
  if (c >= channels) return;
  float n = add ? pooled[3 * c] : 0, mean = add ? pooled[3 * c + 1] : 0;
  float squares = add ? pooled[3 * c + 2] : 0;
  join(&n, &mean, &squares, count, statistics[2 * c], count * variance[c]);
  pooled[3 * c] = n;
  pooled[3 * c + 1] = mean;
  pooled[3 * c + 2] = squares;
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_update(const global float *pooled, global float *mean,
                                                   global float *variance, long channels,
                                                   float momentum) {
  const size_t c = element_id();
  if (c >= channels) return;
  const float n = pooled[3 * c];
  mean[c] += momentum * (pooled[3 * c + 1] - mean[c]);
  if (n > 1) variance[c] += momentum * (pooled[3 * c + 2] / (n - 1) - variance[c]);
}

/* ---- over a window: sums of micro-batches are joined in their order ---- */

kernel WORK_GROUP(GROUP, 1) void batch_norm_gather_moments(const global float *partial,
                                                           global float *pooled, long samples,
                                                           long channels, long positions,
                                                           long samples_per_chunk, long chunks,
                                                           int add) {
  const size_t c = element_id();
  if (c >= channels) return;
  float n = add ? pooled[3 * c] : 0, mean = add ? pooled[3 * c + 1] : 0;
  float squares = add ? pooled[3 * c + 2] : 0;
  join_chunks(&n, &mean, &squares, partial, c, samples, channels, positions, samples_per_chunk,
              chunks);
  pooled[3 * c] = n;
  pooled[3 * c + 1] = mean;
  pooled[3 * c + 2] = squares;
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_settle(const global float *pooled,
                                                   global float *statistics, long channels,
                                                   float epsilon) {
  const size_t c = element_id();
  if (c >= channels) return;
  statistics[2 * c] = pooled[3 * c + 1];
  statistics[2 * c + 1] = 1 / sqrt(pooled[3 * c + 2] / pooled[3 * c] + epsilon);
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_gather_sums(const global float *partial,
                                                        global float *sums, long channels,
                                                        long chunks, int add) {
  const size_t c = element_id();
  if (c >= channels) return;
  float sum = add ? sums[2 * c] : 0, sum_h = add ? sums[2 * c + 1] : 0;
  for (size_t k = 0; k < chunks; k++) {
    sum += partial[k * channels + c];
    sum_h += partial[(chunks + k) * channels + c];
  }
  sums[2 * c] = sum;
  sums[2 * c + 1] = sum_h;
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_window_input_gradient(
    const global storage *dy, const global storage *x, const global float *statistics,
    const global float *gamma, const global float *sums, const global float *pooled,
    global storage *dx, long n, long channels, long positions, int add) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t c = modulo(quotient(e, positions), channels);
  const float r = statistics[2 * c + 1], h = (load(x, e) - statistics[2 * c]) * r;
  const float count = pooled[3 * c];
  const float centred = load(dy, e) - sums[2 * c] / count - h * (sums[2 * c + 1] / count);
  const float d = (gamma ? gamma[c] : 1) * r * centred;
  store(dx, e, add ? load(dx, e) + d : d);
}

kernel WORK_GROUP(GROUP, 1) void batch_norm_window_parameter_gradient(const global float *sums,
                                                                      global float *dgamma,
                                                                      global float *dbeta,
                                                                      long channels, int counts,
                                                                      int add_gamma, int add_beta) {
  const size_t c = element_id();
  if (c >= channels) return;
  const float sum = counts ? sums[2 * c] : 0, sum_h = counts ? sums[2 * c + 1] : 0;
  if (dgamma) dgamma[c] = add_gamma ? dgamma[c] + sum_h : sum_h;
  if (dbeta) dbeta[c] = add_beta ? dbeta[c] + sum : sum;
}
