/* Connectionist temporal classification; formulas and names are in src/ops/loss/ctc_loss.c. The
 * states of a sample are the blank and the classes of its target in turn. Rows of states a[t] and
 * b[t] are kept less their largest element.
 *
 *   ctc_extents   a work-group a position: the largest logit, and the log of its sum
 *   ctc_forward   a work-group a sample: all a[t], or with `rows` 2 the last two; the sample's
 *                 (loss, weight, 0) for losses.cl's sum_losses, and the factor of its gradient: 0
 *                 where it has none, NaN where no path has the target
 *   ctc_backward  a work-group a sample: a[t] becomes the posteriors of the states
 *   ctc_gradient  a work-group a position: dlogits. The first state of a class sums for all of its
 *                 class, in their order.
 *
 * `room` begins with the samples' losses; factors, a and b follow from first_factor, first_a and
 * first_b on. Work-groups of ROW_GROUP items; local memory 4 * ROW_GROUP bytes. Dtypes: storage for
 * logits and dlogits, int for targets and lengths, float for the rest. */
#include "common.h"

/* What is of sample n: `length` positions and `states` states count. */
typedef struct {
  const global int *targets;
  int length, states, blank;
} sample;

int length_of(const global int *lengths, size_t n, int most) {
  return lengths ? clamp(lengths[n], 0, most) : most;
}

sample find_sample(size_t n, const global int *targets, const global int *lengths,
                   const global int *target_lengths, int positions, int most, int blank) {
  sample s;
  s.targets = targets + n * most;
  s.length = length_of(lengths, n, positions);
  s.states = 2 * length_of(target_lengths, n, most) + 1;
  s.blank = blank;
  return s;
}

int class_of(sample s, int state) {
  return state & 1 ? s.targets[state >> 1] : s.blank;
}

/* Whether a path may go from two states before to this one. */
bool may_skip(sample s, int state) {
  return state >= 3 && state & 1 && state < s.states && class_of(s, state) != s.blank &&
         class_of(s, state) != class_of(s, state - 2);
}

float add_three(float a, float b, float c) {
  const float largest = fmax(fmax(a, b), c);
  if (largest == -INFINITY) return largest;
  return largest + log(exp(a - largest) + exp(b - largest) + exp(c - largest));
}

/* Each item has taken the largest of its states: takes the largest of all off the row. */
float take_largest(global float *row, int states, float own, local float *scratch, int item) {
  const float largest = group_max(own, scratch, item, ROW_GROUP);
  if (largest != -INFINITY)
    for (int j = item; j < states; j += ROW_GROUP) row[j] -= largest;
  barrier(CLK_GLOBAL_MEM_FENCE);
  return largest == -INFINITY ? 0 : largest;
}

kernel WORK_GROUP(ROW_GROUP, 1) void ctc_extents(const global storage *logits,
                                                 global float *extents, int classes) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * classes;
  float largest = -INFINITY, sum = 0;
  for (int j = item; j < classes; j += ROW_GROUP) largest = fmax(largest, load(logits, row + j));
  largest = group_max(largest, scratch, item, ROW_GROUP);
  for (int j = item; j < classes; j += ROW_GROUP) sum += exp(load(logits, row + j) - largest);
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  if (item) return;
  extents[2 * n] = largest;
  extents[2 * n + 1] = log(sum);
}

float emission(const global storage *logits, const global float *extents, sample s, size_t row,
               int classes, int state) {
  const float z = load(logits, row * classes + class_of(s, state));
  return (z - extents[2 * row]) - extents[2 * row + 1];
}

kernel WORK_GROUP(ROW_GROUP,
                  1) void ctc_forward(const global storage *logits, const global int *targets,
                                      const global int *lengths, const global int *target_lengths,
                                      const global float *weights, const global float *extents,
                                      global float *room, long first_factor, long first_a,
                                      int positions, int classes, int most, int blank,
                                      int zero_infinity, int rows, float loss_scale) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), pitch = 2 * (size_t)most + 1;
  const sample s = find_sample(n, targets, lengths, target_lengths, positions, most, blank);
  float off = 0, lost = 0; /* what was taken off the rows, and what that sum lost (Kahan) */
  global float *a = room + first_a + n * rows * pitch;
  for (int t = 0; t < s.length; t++) {
    const global float *before = a + (t + rows - 1) % rows * pitch;
    global float *now = a + t % rows * pitch;
    float own = -INFINITY;
    for (int j = item; j < s.states; j += ROW_GROUP) {
      float v = j < 2 ? 0 : -INFINITY;
      if (t > 0)
        v = add_three(before[j], j > 0 ? before[j - 1] : -INFINITY,
                      may_skip(s, j) ? before[j - 2] : -INFINITY);
      v += emission(logits, extents, s, n * positions + t, classes, j);
      now[j] = v;
      own = fmax(own, v);
    }
    const float taken = take_largest(now, s.states, own, scratch, item) - lost, sum = off + taken;
    lost = (sum - off) - taken;
    off = sum;
  }
  if (item) return;
  float total = s.states > 1 ? -INFINITY : 0;
  if (s.length > 0) {
    const global float *end = a + (s.length - 1) % rows * pitch + s.states;
    total = off + (add_three(end[-1], s.states > 1 ? end[-2] : -INFINITY, -INFINITY) - lost);
  }
  const float w = weights ? weights[n] : 1;
  const bool none = total == -INFINITY, zero = w == 0 || (none && zero_infinity);
  room[3 * n] = zero ? 0 : -w * total;
  room[3 * n + 1] = w;
  room[3 * n + 2] = 0;
  room[first_factor + n] = zero ? 0 : none ? NAN : w * loss_scale;
}

kernel WORK_GROUP(ROW_GROUP,
                  1) void ctc_backward(const global storage *logits, const global int *targets,
                                       const global int *lengths, const global int *target_lengths,
                                       const global float *extents, global float *room,
                                       long first_a, long first_b, int positions, int classes,
                                       int most, int blank) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), pitch = 2 * (size_t)most + 1;
  const sample s = find_sample(n, targets, lengths, target_lengths, positions, most, blank);
  global float *a = room + first_a + n * positions * pitch, *b = room + first_b + 2 * n * pitch;
  for (int t = s.length - 1; t >= 0; t--) {
    global float *now = b + (t & 1) * pitch, *posterior = a + t * pitch;
    const global float *next = b + (~t & 1) * pitch;
    float own = -INFINITY;
    for (int j = item; j < s.states; j += ROW_GROUP) {
      float v = j >= s.states - 2 ? 0 : -INFINITY;
      if (t < s.length - 1)
        v = add_three(next[j], j + 1 < s.states ? next[j + 1] : -INFINITY,
                      may_skip(s, j + 2) ? next[j + 2] : -INFINITY);
      posterior[j] += v;
      own = fmax(own, posterior[j]);
      now[j] = v;
    }
    const float largest = group_max(own, scratch, item, ROW_GROUP);
    float sum = 0, highest = -INFINITY;
    for (int j = item; j < s.states; j += ROW_GROUP) sum += exp(posterior[j] - largest);
    sum = group_sum(sum, scratch, item, ROW_GROUP);
    for (int j = item; j < s.states; j += ROW_GROUP) {
      posterior[j] = exp(posterior[j] - largest) / sum;
      now[j] += emission(logits, extents, s, n * positions + t, classes, j);
      highest = fmax(highest, now[j]);
    }
    take_largest(now, s.states, highest, scratch, item);
  }
}

kernel WORK_GROUP(ROW_GROUP,
                  1) void ctc_gradient(const global storage *logits, const global int *targets,
                                       const global int *lengths, const global int *target_lengths,
                                       const global float *extents, const global float *room,
                                       global storage *dlogits, long first_factor, long first_a,
                                       int positions, int classes, int most, int blank) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0), n = row / positions, pitch = 2 * (size_t)most + 1;
  const sample s = find_sample(n, targets, lengths, target_lengths, positions, most, blank);
  const global float *g = room + first_a + row * pitch;
  const float factor = row - n * positions < (size_t)s.length ? room[first_factor + n] : 0;
  const float2 extent = vload2(row, extents);
  for (int v = item; v < classes; v += ROW_GROUP) {
    const float z = load(logits, row * classes + v);
    store(dlogits, row * classes + v, factor == 0 ? 0 : factor * exp((z - extent.x) - extent.y));
  }
  if (factor == 0) return; /* all items */
  float blanks = 0;
  for (int j = item; j < s.states; j += ROW_GROUP)
    if (class_of(s, j) == blank) blanks += g[j];
  barrier(CLK_GLOBAL_MEM_FENCE);
  blanks = group_sum(blanks, scratch, item, ROW_GROUP);
  for (int j = item ? 2 * item - 1 : 0; j < s.states; j += item ? 2 * (ROW_GROUP - 1) : s.states) {
    const int v = class_of(s, j);
    float sum = 0;
    bool first = true;
    for (int k = 1; k < j && first; k += 2) first = class_of(s, k) != v;
    if (!first || (j > 0 && v == blank)) continue;
    for (int k = j; k < s.states && j > 0; k += 2)
      if (class_of(s, k) == v) sum += g[k];
    const float z = load(logits, row * classes + v);
    const float posterior = j > 0 ? sum : blanks;
    store(dlogits, row * classes + v, factor * (exp((z - extent.x) - extent.y) - posterior));
  }
}
