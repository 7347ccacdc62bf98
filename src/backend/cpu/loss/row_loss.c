/* The sum of losses that were computed for each row, and its gradient. Losses may have any sign and
 * nearly cancel out, so pieces of rows are added up in double; the pieces are the same for any
 * number of threads, and are added in order. */
#include "backend/cpu/loss/loss.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"

typedef struct piece {
  double loss, weight;
} piece;

static int64_t rows_per_weight(const ac_op_args *args, int64_t rows, int input) {
  return args->in[input].count ? rows / args->in[input].count : rows;
}

static int64_t piece_count(const ac_op_args *args) {
  return ac_ceil_div(args->in[0].count, AC_CPU_CHUNK);
}

/* In lanes of double, so that the compiler vectorises it. */
static double plain_sum(const float *x, int64_t count) {
  double sum[AC_CPU_LANES] = {0}, total = 0;
  int64_t j = 0;
  for (; j + AC_CPU_LANES <= count; j += AC_CPU_LANES) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_LANES; l++) sum[l] += (double)x[j + l];
  }
  for (int l = 0; j < count; j++, l++) sum[l] += (double)x[j];
  for (int l = 0; l < AC_CPU_LANES; l++) total += sum[l];
  return total;
}

/* Each row with a weight of its own; what weighs nothing may be NaN. */
static piece weighted_sum(const float *x, const float *w, int64_t count) {
  double loss[AC_CPU_LANES] = {0}, weight[AC_CPU_LANES] = {0};
  piece total = {0, 0};
  int64_t j = 0;
  for (; j + AC_CPU_LANES <= count; j += AC_CPU_LANES) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_LANES; l++) {
      loss[l] += w[j + l] == 0.0f ? 0.0 : (double)w[j + l] * (double)x[j + l];
      weight[l] += (double)w[j + l];
    }
  }
  for (int l = 0; j < count; j++, l++) {
    loss[l] += w[j] == 0.0f ? 0.0 : (double)w[j] * (double)x[j];
    weight[l] += (double)w[j];
  }
  for (int l = 0; l < AC_CPU_LANES; l++) {
    total.loss += loss[l];
    total.weight += weight[l];
  }
  return total;
}

/* Runs of rows that share a weight. */
static piece shared_sum(const float *x, const float *w, int64_t per_weight, int64_t first,
                        int64_t count) {
  piece total = {0, 0};
  for (int64_t j = 0; j < count;) {
    const int64_t i = (first + j) / per_weight;
    const int64_t run = ac_min(count - j, (i + 1) * per_weight - (first + j));
    if (w[i] != 0.0f) total.loss += (double)w[i] * plain_sum(x + j, run);
    total.weight += (double)w[i] * (double)run;
    j += run;
  }
  return total;
}

static void forward_range(const ac_op_args *args, int64_t begin, int64_t end) {
  const int64_t rows = args->in[0].count, per_weight = rows_per_weight(args, rows, 1);
  const ac_dtype dtype = args->in[0].dtype;
  const float *weights = ac_cpu_data(&args->in[1]);
  piece *pieces = args->workspace;
  float widened[AC_CPU_CHUNK];
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i * AC_CPU_CHUNK, count = ac_min(AC_CPU_CHUNK, rows - first);
    const float *x = ac_element(args->in[0].data, dtype, first);
    if (dtype != AC_F32) ac_cpu_widen(dtype, x, widened, count), x = widened;
    if (!weights) pieces[i] = (piece){plain_sum(x, count), (double)count};
    else if (per_weight == 1) pieces[i] = weighted_sum(x, weights + first, count);
    else pieces[i] = shared_sum(x, weights, per_weight, first, count);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  const int64_t count = piece_count(args);
  ac_cpu_for(context, args, count, AC_CPU_CHUNK, forward_range);
  const piece *pieces = args->workspace;
  piece total = {0, 0};
  for (int64_t i = 0; i < count; i++) {
    total.loss += pieces[i].loss;
    total.weight += pieces[i].weight;
  }
  store_loss_sums(args->out[0].data, args->add[0], total.loss, total.weight, 0);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  return (uint64_t)piece_count(args) * sizeof(piece);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float scale = ac_loss_scale(args), *weights = ac_cpu_data(&args->in[0]);
  const int64_t per_weight = rows_per_weight(args, args->out[0].count, 0);
  float *d = args->out[0].data;
  if (weights && per_weight == 1) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) d[i] = scale * weights[i];
    return;
  }
  for (int64_t begin = first; begin < last;) {
    const int64_t i = begin / per_weight, end = ac_min(last, (i + 1) * per_weight);
    const float own = weights ? scale * weights[i] : scale;
    for (; begin < end; begin++) d[begin] = own;
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(row_loss) = {.run = forward, .workspace = forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(row_loss_gradient) = {.run = gradient};
