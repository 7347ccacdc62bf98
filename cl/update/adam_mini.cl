/* adam_mini: the formulas of src/ops/update/adam_mini.h, of a matrix rows x columns.
 *
 * _rows: a work-group of ROW_GROUP items a row, which is a block. Of blocks that are columns,
 * _columns: 32 x LANES for 32 columns of a chunk of rows, sums of squares [chunks, columns] into
 * `space`; _moments: one work-item a column, and adam_mini: one an element, in groups of GROUP.
 * Local memory a float an item where it sums. Dtypes: storage for w, float for the rest; with
 * ROUNDED p is bf16, rounded by chance with key, from and update, and with GRADIENT_BF16 g is
 * bf16. */
#include "update/parameter.h"

typedef struct {
  float gradient_factor, decay, take1, step, sqrt_correction2, epsilon;
} adam_mini_factors;

/* The parameter's next value, with its first moment. */
float adam_mini_update(adam_mini_factors a, float p, float g, global float *m, float square) {
  const float moved = *m + a.take1 * (a.gradient_factor * g - *m);
  *m = moved;
  return p - a.decay * p - a.step * moved / (sqrt(square) / a.sqrt_correction2 + a.epsilon);
}

kernel WORK_GROUP(ROW_GROUP, 1) void adam_mini_rows(const global gradient_t *g,
                                                    global rounded_t *p, global float *m,
                                                    global float *v, global storage *w,
                                                    long columns, uint2 key, uint from, uint update,
                                                    float gradient_factor, float decay, float take1,
                                                    float take2, float step,
                                                    float sqrt_correction2, float epsilon) {
  const adam_mini_factors a = {gradient_factor, decay, take1, step, sqrt_correction2, epsilon};
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t i = get_group_id(0), row = i * columns;
  float square = v[i], sum = 0;
  for (size_t j = item; j < columns; j += ROW_GROUP) {
    const float d = gradient_factor * gradient_load(g, row + j);
    sum += d * d;
  }
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  square += take2 * (sum / columns - square);
  barrier(CLK_GLOBAL_MEM_FENCE); /* all have read the moment before */
  if (item == 0) v[i] = square;
  for (size_t j = row + item; j < row + columns; j += ROW_GROUP) {
    const float result =
        adam_mini_update(a, rounded_load(p, j), gradient_load(g, j), m + j, square);
    rounded_store(p, j, result, key, WEIGHT_STREAM(from, update));
    if (w) store(w, j, result);
  }
}

kernel WORK_GROUP(32, LANES) void adam_mini_columns(const global gradient_t *g,
                                                    global float *space, long rows, long columns,
                                                    long rows_per_chunk, float gradient_factor) {
  local float scratch[LANES][32];
  const int lane = get_local_id(1);
  const strip s = find_strip(rows, columns, rows_per_chunk);
  float sum = 0;
  if (s.column < columns)
    for (size_t i = s.begin + lane; i < s.end; i += LANES) {
      const float d = gradient_factor * gradient_load(g, i * columns + s.column);
      sum += d * d;
    }
  sum = lane_sum(sum, scratch);
  if (lane == 0 && s.column < columns) space[s.chunk * columns + s.column] = sum;
}

kernel WORK_GROUP(GROUP, 1) void adam_mini_moments(const global float *space, global float *v,
                                                   long rows, long columns, long chunks,
                                                   float take2) {
  const size_t j = element_id();
  if (j >= columns) return;
  float sum = 0;
  for (size_t k = 0; k < chunks; k++) sum += space[k * columns + j];
  v[j] += take2 * (sum / rows - v[j]);
}

kernel WORK_GROUP(GROUP, 1) void adam_mini(const global gradient_t *g, global rounded_t *p,
                                           global float *m, const global float *v,
                                           global storage *w, long n, long columns, uint2 key,
                                           uint from, uint update, float gradient_factor,
                                           float decay, float take1, float step,
                                           float sqrt_correction2, float epsilon) {
  const adam_mini_factors a = {gradient_factor, decay, take1, step, sqrt_correction2, epsilon};
  const size_t i = element_id();
  if (i >= n) return;
  const float square = v[i - quotient(i, columns) * columns];
  const float result = adam_mini_update(a, rounded_load(p, i), gradient_load(g, i), m + i, square);
  rounded_store(p, i, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, i, result);
}
