/* The sum of losses that were computed for each row, and its gradient. Losses may have any sign and
 * nearly cancel out, so pieces of rows are added up in double; the pieces are the same for any
 * number of threads, and are added in order. */
#include "backend/cpu/loss/loss.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"
#include "ops/loss/row_loss.h"

typedef struct piece {
  double loss, weight;
} piece;

static ac_row_loss_shape shape_of(const ac_op_args *args) {
  const bool forward = args->op == AC_OP_row_loss;
  const ac_operand *elements = forward ? &args->in[0] : &args->out[0];
  return ac_row_loss_shape_of(args, elements->count, &args->in[forward ? 1 : 0]);
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

/* Each element with a weight of its own; what weighs nothing may be NaN. */
static double weighted_sum(const float *x, const float *w, int64_t count) {
  double sum[AC_CPU_LANES] = {0}, total = 0;
  int64_t j = 0;
  for (; j + AC_CPU_LANES <= count; j += AC_CPU_LANES) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_LANES; l++)
      sum[l] += w[j + l] == 0.0f ? 0.0 : (double)w[j + l] * (double)x[j + l];
  }
  for (int l = 0; j < count; j++, l++) sum[l] += w[j] == 0.0f ? 0.0 : (double)w[j] * (double)x[j];
  for (int l = 0; l < AC_CPU_LANES; l++) total += sum[l];
  return total;
}

/* Runs of elements that share a weight. */
static double shared_sum(const float *x, const float *w, int64_t per_weight, int64_t first,
                         int64_t count) {
  double total = 0;
  for (int64_t j = 0; j < count;) {
    const int64_t i = (first + j) / per_weight;
    const int64_t run = ac_smaller(count - j, (i + 1) * per_weight - (first + j));
    if (w[i] != 0.0f) total += (double)w[i] * plain_sum(x + j, run);
    j += run;
  }
  return total;
}

static void forward_range(const ac_op_args *args, int64_t begin, int64_t end) {
  const ac_row_loss_shape shape = shape_of(args);
  const int64_t n = args->in[0].count;
  const ac_dtype dtype = args->in[0].dtype;
  const float *weights = ac_cpu_data(&args->in[1]);
  piece *pieces = args->workspace;
  float widened[AC_CPU_CHUNK];
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i * AC_CPU_CHUNK, count = ac_smaller(AC_CPU_CHUNK, n - first);
    const int64_t weighed = ac_larger(0, ac_smaller(AC_CPU_CHUNK, shape.weights - first));
    const float *x = ac_element(args->in[0].data, dtype, first);
    if (dtype != AC_F32) ac_cpu_widen(dtype, x, widened, count), x = widened;
    pieces[i].weight = weighed ? plain_sum(weights + first, weighed) : 0;
    pieces[i].loss = !weights ? plain_sum(x, count)
                     : shape.per_weight == 1
                         ? weighted_sum(x, weights + first, count)
                         : shared_sum(x, weights, shape.per_weight, first, count);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  const int64_t count = piece_count(args);
  ac_cpu_for(context, args, count, AC_CPU_CHUNK, forward_range);
  const ac_row_loss_attributes *attributes = args->attributes;
  const ac_row_loss_shape shape = shape_of(args);
  const piece *pieces = args->workspace;
  piece total = {0, 0};
  for (int64_t i = 0; i < count; i++) {
    total.loss += pieces[i].loss;
    total.weight += pieces[i].weight;
  }
  const double weight = shape.weights ? total.weight : 1;
  store_loss_sums(args->out[0].data, args->add[0], total.loss * (double)attributes->factor,
                  weight * (double)shape.rows_per_weight, 0);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  return (uint64_t)piece_count(args) * sizeof(piece);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_row_loss_attributes *attributes = args->attributes;
  const float scale = ac_loss_scale(args) * attributes->factor;
  const float *weights = ac_cpu_data(&args->in[0]);
  const int64_t per_weight = shape_of(args).per_weight;
  float *d = args->out[0].data;
  if (weights && per_weight == 1) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) d[i] = scale * weights[i];
    return;
  }
  for (int64_t begin = first; begin < last;) {
    const int64_t i = begin / per_weight, end = ac_smaller(last, (i + 1) * per_weight);
    const float own = weights ? scale * weights[i] : scale;
    for (; begin < end; begin++) d[begin] = own;
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(row_loss) = {.run = forward, .workspace = forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(row_loss_gradient) = {.run = gradient};
