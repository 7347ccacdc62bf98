/* Connectionist temporal classification (formulas and names in ops/loss/ctc_loss.c), a sample a
 * thread. Rows of states have two places more without probability, before a[t] and after b[t],
 * so that no state is a special case. A row is kept less its largest element; what was taken off is
 * added up in double.
 *
 * The workspace has for each sample its loss, then the rows: `may_skip`, which is added to what
 * comes from two states before, two rows of b, and of a two in the forward op, all of them in the
 * gradient. */
#include "backend/cpu/loss/cross_entropy.h"
#include "core/align.h"
#include "ops/loss/ctc_loss.h"

enum { PAD = 2 };

typedef struct sample {
  const float *x;
  row_extent *extents;
  const int32_t *targets;
  int64_t positions, states, classes; /* those that count */
  int32_t blank;
  float weight;
  float *may_skip, *b[2], *a; /* a: from its first row on */
  int64_t pitch, rows;        /* of a; row t is row t % rows */
} sample;

static int64_t pitch_of(const ac_op_args *args) {
  return ac_ceil_div(ac_ctc_loss_states(args) + PAD, AC_CPU_LINE) * AC_CPU_LINE;
}

static int64_t rows_of_a(const ac_op_args *args) {
  return args->op == AC_OP_ctc_loss ? 2 : ac_larger(args->in[0].dim[1], 1);
}

static uint64_t results_bytes(const ac_op_args *args) {
  return ac_align((uint64_t)args->in[0].dim[0] * sizeof(double), AC_LINE_BYTES);
}

static int64_t length_of(const ac_operand *lengths, int64_t i, int64_t most) {
  if (!lengths->count) return most;
  return ac_larger(0, ac_smaller(most, ((const int32_t *)lengths->data)[i]));
}

static sample sample_of(const ac_op_args *args, int64_t i) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  const ac_ctc_loss_attributes *attributes = args->attributes;
  const bool forward = args->op == AC_OP_ctc_loss;
  sample s = {.classes = shape.classes, .blank = attributes->blank, .pitch = pitch_of(args)};
  s.x = (const float *)args->in[0].data + i * shape.positions * shape.classes;
  s.extents = (row_extent *)(forward ? args->out[1].data : args->in[5].data);
  s.extents += i * shape.positions;
  s.targets = (const int32_t *)args->in[1].data + i * shape.targets;
  s.positions = length_of(&args->in[2], i, shape.positions);
  s.states = 2 * length_of(&args->in[3], i, shape.targets) + 1;
  s.weight = args->in[4].count ? ((const float *)args->in[4].data)[i] : 1.0f;
  s.rows = rows_of_a(args);
  float *from = (float *)((char *)args->workspace + results_bytes(args));
  s.may_skip = from + i * (3 + s.rows) * s.pitch;
  s.b[0] = s.may_skip + s.pitch;
  s.b[1] = s.b[0] + s.pitch;
  s.a = s.b[1] + s.pitch;
  return s;
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  const int64_t floats = shape.samples * (3 + rows_of_a(args)) * pitch_of(args);
  return results_bytes(args) + (uint64_t)floats * sizeof(float) +
         ac_cpu_scratch(context, args, shape.positions * shape.classes);
}

static int32_t class_of(const sample *s, int64_t state) {
  return state % 2 ? s->targets[state / 2] : s->blank;
}

/* y[t, c[s]]; the parts of log softmax are taken off one by one, as their sum would lose one. */
static float emission(const sample *s, int64_t t, int64_t state) {
  const row_extent extent = s->extents[t];
  return (s->x[t * s->classes + class_of(s, state)] - extent.max) - extent.log_sum;
}

static void find_skips(const sample *s) {
  for (int64_t j = 0; j < s->states + PAD; j++) {
    const bool may = j % 2 && j >= 3 && j < s->states && class_of(s, j) != class_of(s, j - 2) &&
                     class_of(s, j) != s->blank;
    s->may_skip[j] = may ? 0.0f : -INFINITY;
  }
}

/* log(e^a + e^b + e^c): 1 to 3 times the largest, and log_one_plus takes up to twice. */
static inline float add_three(float a, float b, float c) {
  const float largest = larger(larger(a, b), c), base = largest > -INFINITY ? largest : 0.0f;
  const float sum = exponential(a - base) + exponential(b - base) + exponential(c - base);
  const bool two = sum > 2.0f;
  const float rest = larger((two ? 0.5f * sum : sum) - 1.0f, 0.0f);
  const float log_sum = log_one_plus(rest) + (two ? 0.693147181f : 0.0f);
  return largest > -INFINITY ? base + log_sum : largest;
}

/* Takes the largest element off the row, unless there is none, and returns it. */
static double take_largest(float *row, int64_t count) {
  const float largest = row_max(row, count);
  if (largest == -INFINITY) return 0;
#pragma omp simd
  for (int64_t j = 0; j < count; j++) row[j] -= largest;
  return (double)largest;
}

static float *row_of_a(const sample *s, int64_t t) {
  return s->a + t % s->rows * s->pitch + PAD;
}

/* All rows of a; returns the logarithm of the target's probability. */
static double forward_states(const sample *s) {
  double off = 0;
  find_skips(s);
  for (int64_t t = 0; t < s->positions; t++) {
    float *now = row_of_a(s, t);
    now[-1] = now[-2] = -INFINITY;
    for (int64_t j = 0; j < s->states; j++) now[j] = emission(s, t, j);
    if (t == 0) {
      for (int64_t j = 2; j < s->states; j++) now[j] = -INFINITY;
    } else {
      const float *before = row_of_a(s, t - 1), *may_skip = s->may_skip;
#pragma omp simd
      for (int64_t j = 0; j < s->states; j++)
        now[j] += add_three(before[j], before[j - 1], before[j - 2] + may_skip[j]);
    }
    off += take_largest(now, s->states);
  }
  if (!s->positions) return s->states > 1 ? -(double)INFINITY : 0;
  const float *end = row_of_a(s, s->positions - 1) + s->states;
  return off + (double)add_three(end[-1], s->states > 1 ? end[-2] : -INFINITY, -INFINITY);
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  const ac_ctc_loss_attributes *attributes = args->attributes;
  double *results = args->workspace;
  for (int64_t i = first; i < last; i++) {
    const sample s = sample_of(args, i);
    for (int64_t t = 0; t < shape.positions; t++) {
      const float *x = s.x + t * s.classes, max = row_max(x, s.classes);
      s.extents[t] = (row_extent){max, logf(exponential_sum(x, max, s.classes))};
    }
    results[i] = args->out[0].count ? -forward_states(&s) : 0;
    if (attributes->zero_infinity && results[i] == (double)INFINITY) results[i] = 0;
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  ac_cpu_for_floats(context, args, shape.samples, shape.positions * shape.classes, forward_range);
  if (!args->out[0].count) return;
  const double *results = args->workspace;
  double loss = 0, weight = 0;
  for (int64_t i = 0; i < shape.samples; i++) {
    const double w = (double)sample_of(args, i).weight;
    if (w != 0) loss += w * results[i];
    weight += w;
  }
  store_loss_sums(args->out[0].data, args->add[0], loss, weight, 0);
}

/* b[t] from b[t+1], or at the end. */
static void step_back(const sample *s, int64_t t, float *now, float *next) {
  if (t == s->positions - 1) {
    for (int64_t j = 0; j < s->states; j++) now[j] = j >= s->states - 2 ? 0.0f : -INFINITY;
    return;
  }
  const float *may_skip = s->may_skip;
  for (int64_t j = 0; j < s->states; j++) next[j] += emission(s, t + 1, j);
  next[s->states] = next[s->states + 1] = -INFINITY;
#pragma omp simd
  for (int64_t j = 0; j < s->states; j++)
    now[j] = add_three(next[j], next[j + 1], next[j + 2] + may_skip[j + 2]);
  take_largest(now, s->states);
}

/* The gradient of position t. Its row of a becomes the posteriors. */
static void position_gradient(const sample *s, int64_t t, const float *b, float factor, float *dx) {
  float *a = row_of_a(s, t);
  for (int64_t j = 0; j < s->states; j++) a[j] += b[j];
  const float max = row_max(a, s->states), sum = exponential_sum(a, max, s->states);
  const float *x = s->x + t * s->classes;
  const row_extent extent = s->extents[t];
#pragma omp simd
  for (int64_t v = 0; v < s->classes; v++)
    dx[v] = factor * exponential((x[v] - extent.max) - extent.log_sum);
  for (int64_t j = 0; j < s->states; j++)
    dx[class_of(s, j)] -= factor * (exponential(a[j] - max) / sum);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  const ac_ctc_loss_attributes *attributes = args->attributes;
  const int64_t size = shape.positions * shape.classes;
  for (int64_t i = first; i < last; i++) {
    const sample s = sample_of(args, i);
    float *dx = (float *)args->out[0].data + i * size;
    const bool possible = s.weight != 0.0f && forward_states(&s) > -(double)INFINITY;
    const bool zero = s.weight == 0.0f || attributes->zero_infinity;
    const int64_t counted = possible || !zero ? s.positions * s.classes : 0;
    for (int64_t e = 0; e < size; e++) dx[e] = e < counted && !possible ? NAN : 0.0f;
    for (int64_t t = s.positions - 1; possible && t >= 0; t--) {
      step_back(&s, t, s.b[t % 2], s.b[1 - t % 2]);
      position_gradient(&s, t, s.b[t % 2], s.weight * ac_loss_scale(args), dx + t * s.classes);
    }
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  ac_cpu_for_floats(context, args, shape.samples, shape.positions * shape.classes, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(ctc_loss) = {.run = forward, .workspace = workspace};
const ac_cpu_kernel AC_CPU_KERNEL(ctc_loss_gradient) = {.run = gradient, .workspace = workspace};
