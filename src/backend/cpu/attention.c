/* Causal multi-head attention. For each sample and head, with q, k, v [T, d] inside qkv:
 *
 *   S = scale q k^T for j <= i,  P = softmax(S),  y = (P o mask) v
 *
 * and lse_i = log sum_j e^S_ij is kept. mask is 0 or 1 / (1 - dropout).
 * Backward, with P = e^(S - lse) computed anew and D_i = dy_i . y_i:
 *
 *   dv = (P o mask)^T dy,  dS = scale P o (mask o (dy v^T) - D),  dq = dS k,  dk = dS^T q
 *
 * Queries come in blocks of rows, and a block's scores reach to its last row: of T x T only the
 * blocks on and below the diagonal are computed, and a thread holds one block's rows by T. A thread
 * has a block of one head forward and a whole head backward, where blocks add to dk and dv: going
 * from the last block to the first, the first product writes all rows, the others add. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/random_bits.h"
#include "backend/cpu/reduce.h"
#include "backend/cpu/vector_math.h"
#include "ops/attention.h"

#include <math.h>

enum { MOST_ROWS = 64 }; /* of a block */

/* Low blocks waste less above the diagonal, high ones use what is packed of k and v more often. */
static int64_t block_rows(int64_t length) {
  return length <= 128 ? 32 : MOST_ROWS;
}

/* Rows of scores are padded to whole vectors, with weights of 0, and loops over a row run to its
 * end. Long rows are padded by one vector more, lest a power of two puts all rows in the same sets
 * of the cache. */
enum { VECTOR = AC_CPU_LANES, LONG = 256 };

static int64_t row_stride(int64_t reach) {
  return ac_ceil_div(reach, VECTOR) * VECTOR + (reach >= LONG ? VECTOR : 0);
}

/* The shape, and the strides of what is kept as [B, T, 3C] and [B, T, C]. */
typedef struct shape {
  int64_t batch, length, heads, size; /* B, T, H and d */
  int64_t wide, narrow;               /* 3C and C */
  int64_t rows;                       /* of a block of queries */
} shape;

static shape describe(const ac_op_args *args, const ac_operand *qkv) {
  const ac_attention_attributes *attributes = args->attributes;
  shape s = {.length = qkv->dim[qkv->rank - 2],
             .heads = attributes->heads,
             .wide = ac_columns(qkv),
             .narrow = ac_columns(qkv) / 3};
  s.batch = qkv->count / (s.length * s.wide);
  s.size = s.narrow / s.heads;
  s.rows = block_rows(s.length);
  return s;
}

/* The dropout masks of one head of one sample; a factor of 0 means that there is no dropout. */
typedef struct mask {
  uint64_t seed;
  uint32_t sample, update, stream, threshold;
  int64_t origin; /* element of row 0 */
  float factor;
} mask;

static mask describe_mask(const ac_op_args *args, const shape *s, int64_t sample, int64_t head) {
  const ac_attention_attributes *attributes = args->attributes;
  const ac_run_state *run = args->run;
  if (!run->training || !(attributes->dropout > 0)) return (mask){0};
  return (mask){.seed = run->seed,
                .sample = run->sample + (uint32_t)sample,
                .update = run->update,
                .stream = attributes->stream,
                .threshold = ac_dropout_threshold(attributes->dropout),
                .origin = head * s->length * s->length,
                .factor = 1.0f / (1.0f - attributes->dropout)};
}

/* Random words for columns [*column, *column + returned) of a mask's row that starts at element
 * `start`; the first is at *offset. Columns are taken from multiples of 4 elements on. */
static int64_t mask_words(const mask *m, int64_t start, int64_t column, int64_t end,
                          uint32_t *words, int64_t *offset) {
  int64_t element = start + column, base = element & ~(int64_t)3;
  random_words(words, m->seed, (uint32_t)(base / 4), m->sample, m->update, m->stream);
  *offset = element - base;
  return ac_min(end - column, AC_CPU_RANDOM_WORDS - *offset);
}

static void drop_row(const mask *m, int64_t start, float *p, int64_t n) {
  uint32_t words[AC_CPU_RANDOM_WORDS], threshold = m->threshold;
  for (int64_t column = 0, offset, count; column < n; column += count) {
    count = mask_words(m, start, column, n, words, &offset);
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
      float weight = p[column + j]; /* written in any case, so that it is a select */
      p[column + j] = words[offset + j] < threshold ? 0.0f : weight;
    }
  }
}

/* The maximum of row[0, visible), of which at least [0, sure) is visible; the rest of the row
 * becomes -inf. Both `sure` and `width` are multiples of a vector. */
static float mask_row(float *row, int64_t sure, int64_t visible, int64_t width) {
  float max = sure > 0 ? row_max(row, sure) : row[0];
  for (int64_t j = visible; j < width; j++) row[j] = -INFINITY;
  return larger(max, row_max(row + sure, width - sure));
}

/* e^(x - max) in place; returns the sum. n is a multiple of a vector. */
static float exponentiate(float *x, float max, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_min(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    for (; j < end; j += VECTOR) {
#pragma omp simd
      for (int l = 0; l < VECTOR; l++) {
        float weight = exponential(x[j + l] - max);
        x[j + l] = weight;
        sum.v[l] += weight;
      }
    }
    total += (double)lanes_sum(sum);
  }
  return (float)total;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void forward_block(const ac_cpu_context *context, const ac_op_args *args, const shape *s,
                          int64_t sample, int64_t head, int64_t first, float *scores) {
  const ac_attention_attributes *attributes = args->attributes;
  const float *q = (const float *)args->in[0].data + sample * s->length * s->wide + head * s->size;
  const float *k = q + s->narrow, *v = k + s->narrow;
  float *y = (float *)args->out[0].data + (sample * s->length + first) * s->narrow + head * s->size;
  float *lse = (float *)args->out[1].data + (sample * s->heads + head) * s->length;
  int64_t rows = ac_min(s->rows, s->length - first), reach = first + rows,
          stride = row_stride(reach);
  mask m = describe_mask(args, s, sample, head);
  float max[MOST_ROWS], sum[MOST_ROWS];

  ac_gemm product = {.transpose_b = true,
                     .m = rows,
                     .n = reach,
                     .k = s->size,
                     .alpha = attributes->scale,
                     .a = q + first * s->wide,
                     .lda = s->wide,
                     .b = k,
                     .ldb = s->wide,
                     .c = scores,
                     .ldc = stride};
  AC_CPU_NAME(ac_cpu_gemm)(context, &product, NULL);
  /* Three loops, so that the short chains of dependent operations of many rows overlap. */
  for (int64_t r = 0; r < rows; r++)
    max[r] = mask_row(scores + r * stride, first, first + r + 1, stride);
  for (int64_t r = 0; r < rows; r++) sum[r] = exponentiate(scores + r * stride, max[r], stride);
  for (int64_t r = 0; r < rows && m.factor > 0; r++)
    drop_row(&m, m.origin + (first + r) * s->length, scores + r * stride, first + r + 1);
  product = (ac_gemm){.m = rows,
                      .n = s->size,
                      .k = reach,
                      .alpha = 1,
                      .a = scores,
                      .lda = stride,
                      .b = v,
                      .ldb = s->wide,
                      .c = y,
                      .ldc = s->narrow};
  AC_CPU_NAME(ac_cpu_gemm)(context, &product, NULL);
  for (int64_t r = 0; r < rows; r++) {
    float factor = (m.factor > 0 ? m.factor : 1.0f) / sum[r];
    lse[first + r] = max[r] + logf(sum[r]);
#pragma omp simd
    for (int64_t j = 0; j < s->size; j++) y[r * s->narrow + j] *= factor;
  }
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  shape s = describe(args, &args->in[0]);
  int64_t blocks = ac_ceil_div(s.length, s.rows), items = s.batch * s.heads * blocks;
  float *scores = (float *)args->workspace + thread * s.rows * row_stride(s.length);
  for (int64_t item = thread; item < items; item += team) {
    /* Every other head from its last block, for later blocks are longer. */
    int64_t head = item / blocks, turn = item % blocks, block = head % 2 ? blocks - 1 - turn : turn;
    forward_block(context, args, &s, head / s.heads, head % s.heads, block * s.rows, scores);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, forward_part);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = describe(args, &args->in[0]);
  return (uint64_t)(context->threads * s.rows * row_stride(s.length)) * sizeof(float);
}

/* ---- backward -------------------------------------------------------------------------------- */

typedef struct head_view {
  const float *q, *k, *v, *y, *dy, *lse;
  float *dq, *dk, *dv;
  mask mask;
} head_view;

static head_view describe_head(const ac_op_args *args, const shape *s, int64_t sample,
                               int64_t head) {
  int64_t wide = sample * s->length * s->wide + head * s->size;
  int64_t narrow = sample * s->length * s->narrow + head * s->size;
  head_view h = {.q = (const float *)args->in[1].data + wide,
                 .y = (const float *)args->in[2].data + narrow,
                 .dy = (const float *)args->in[0].data + narrow,
                 .lse = (const float *)args->in[3].data + (sample * s->heads + head) * s->length,
                 .dq = (float *)args->out[0].data + wide,
                 .mask = describe_mask(args, s, sample, head)};
  h.k = h.q + s->narrow;
  h.v = h.k + s->narrow;
  h.dk = h.dq + s->narrow;
  h.dv = h.dk + s->narrow;
  return h;
}

/* Turns a row of scores into weights (mask applied) and one of dy v^T into dS; beyond `visible`
 * both are 0. */
static void gradient_row(const mask *m, int64_t start, float *p, float *ds, float lse, float dot,
                         float scale, int64_t visible, int64_t width) {
  if (!(m->factor > 0)) {
    int seen = (int)visible, count = (int)width;
#pragma omp simd
    for (int j = 0; j < count; j++) {
      float weight = exponential(p[j] - lse), gradient = weight * (ds[j] - dot) * scale;
      p[j] = j < seen ? weight : 0.0f;
      ds[j] = j < seen ? gradient : 0.0f;
    }
    return;
  }
  uint32_t words[AC_CPU_RANDOM_WORDS];
  for (int64_t column = 0, offset, step; column < width; column += step) {
    step = mask_words(m, start, column, width, words, &offset);
    float *weights = p + column, *gradients = ds + column;
    int seen = (int)(visible - column), count = (int)step;
#pragma omp simd
    for (int j = 0; j < count; j++) {
      float factor = words[offset + j] < m->threshold ? 0.0f : m->factor;
      float weight = exponential(weights[j] - lse);
      float gradient = weight * (gradients[j] * factor - dot) * scale;
      weights[j] = j < seen ? weight * factor : 0.0f;
      gradients[j] = j < seen ? gradient : 0.0f;
    }
  }
}

static void backward_block(const ac_cpu_context *context, const shape *s, const head_view *h,
                           float scale, int64_t first, float *p, float *ds) {
  int64_t rows = ac_min(s->rows, s->length - first), reach = first + rows,
          stride = row_stride(reach), d = s->size;
  const float *q = h->q + first * s->wide, *dy = h->dy + first * s->narrow,
              *y = h->y + first * s->narrow;
  float beta = reach < s->length ? 1.0f : 0.0f, dot[MOST_ROWS];
  ac_gemm scores = {.transpose_b = true,
                    .m = rows,
                    .n = reach,
                    .k = d,
                    .alpha = scale,
                    .a = q,
                    .lda = s->wide,
                    .b = h->k,
                    .ldb = s->wide,
                    .c = p,
                    .ldc = stride};
  AC_CPU_NAME(ac_cpu_gemm)(context, &scores, NULL);
  ac_gemm weights = scores;
  weights.alpha = 1;
  weights.a = dy, weights.lda = s->narrow;
  weights.b = h->v;
  weights.c = ds;
  AC_CPU_NAME(ac_cpu_gemm)(context, &weights, NULL);

  for (int64_t r = 0; r < rows; r++) dot[r] = row_dot(dy + r * s->narrow, y + r * s->narrow, d);
  for (int64_t r = 0; r < rows; r++)
    gradient_row(&h->mask, h->mask.origin + (first + r) * s->length, p + r * stride,
                 ds + r * stride, h->lse[first + r], dot[r], scale, first + r + 1, stride);

  ac_gemm product = {.m = rows,
                     .n = d,
                     .k = reach,
                     .alpha = 1,
                     .a = ds,
                     .lda = stride,
                     .b = h->k,
                     .ldb = s->wide,
                     .c = h->dq + first * s->wide,
                     .ldc = s->wide};
  AC_CPU_NAME(ac_cpu_gemm)(context, &product, NULL);
  product = (ac_gemm){.transpose_a = true,
                      .m = reach,
                      .n = d,
                      .k = rows,
                      .alpha = 1,
                      .beta = beta,
                      .a = ds,
                      .lda = stride,
                      .b = q,
                      .ldb = s->wide,
                      .c = h->dk,
                      .ldc = s->wide};
  AC_CPU_NAME(ac_cpu_gemm)(context, &product, NULL);
  product.a = p;
  product.b = dy, product.ldb = s->narrow;
  product.c = h->dv;
  AC_CPU_NAME(ac_cpu_gemm)(context, &product, NULL);
}

static void backward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                          int team) {
  shape s = describe(args, &args->in[1]);
  float scale = ((const ac_attention_attributes *)args->attributes)->scale;
  int64_t items = s.batch * s.heads, stride = row_stride(s.length);
  float *p = (float *)args->workspace + thread * 2 * s.rows * stride, *ds = p + s.rows * stride;
  for (int64_t item = thread; item < items; item += team) {
    head_view h = describe_head(args, &s, item / s.heads, item % s.heads);
    for (int64_t block = ac_ceil_div(s.length, s.rows) - 1; block >= 0; block--)
      backward_block(context, &s, &h, scale, block * s.rows, p, ds);
  }
}

static void backward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, backward_part);
}

static uint64_t backward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  shape s = describe(args, &args->in[1]);
  return (uint64_t)(context->threads * 2 * s.rows * row_stride(s.length)) * sizeof(float);
}

const ac_cpu_kernel AC_CPU_KERNEL(attention) = {forward, forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(attention_gradient) = {backward, backward_workspace};
