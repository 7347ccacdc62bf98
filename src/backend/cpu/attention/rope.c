/* Rotary position embeddings. What turns how far is a table in the workspace; sines and cosines of
 * a position are computed once, by the thread that has its row, and used for all its heads.
 *
 * A turn is counted in fractions of 2^64 (ac_rope_turn), and the product with a position kept to
 * 2^-32: nothing is rounded, however large the position. The nearest quarter turn is taken off,
 * and polynomials, fitted to 2e-9, give sine and cosine of what is left, at most an eighth. */
#include "ops/attention/rope.h"

#include "backend/cpu/shared/convert.h"

#include <string.h>

/* Of one thread: cosines and sines of a position, and elements of a head as floats. */
typedef struct row {
  float *cosines, *sines, *head;
} row;

static int64_t padded(int64_t floats) {
  return ac_ceil_div(floats, AC_CPU_LINE) * AC_CPU_LINE;
}

static int64_t pairs_of(const ac_op_args *args) {
  return ((const ac_rope_attributes *)args->attributes)->dimensions / 2;
}

static int64_t row_floats(const ac_op_args *args) {
  const int64_t width = ac_op_storage(args) == AC_F32 ? 0 : ac_rope_shape_of(args).width;
  return 2 * padded(pairs_of(args)) + padded(width);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  return (uint64_t)(2 * padded(pairs_of(args)) + context->threads * row_floats(args)) *
         sizeof(float);
}

static row row_of(const ac_op_args *args, int thread) {
  const int64_t table = padded(pairs_of(args));
  float *own = (float *)args->workspace + 2 * table + thread * row_floats(args);
  return (row){own, own + table, own + 2 * table};
}

static void fill_table(const ac_op_args *args) {
  uint32_t *high = args->workspace, *low = high + padded(pairs_of(args));
  for (int64_t i = 0; i < pairs_of(args); i++) {
    const uint64_t turn = ac_rope_turn(args->attributes, i);
    high[i] = (uint32_t)(turn >> 32);
    low[i] = (uint32_t)turn;
  }
}

static void find_angles(const uint32_t *high, const uint32_t *low, uint32_t position,
                        bool backwards, float *cosines, float *sines, int64_t pairs) {
  const float sign = backwards ? -1.0f : 1.0f;
#pragma omp simd
  for (int64_t i = 0; i < pairs; i++) {
    const uint32_t turned = high[i] * position + (uint32_t)((uint64_t)low[i] * position >> 32);
    const uint32_t quarters = (turned + (1u << 29)) >> 30;
    const float x =
        (float)(int32_t)(turned - (quarters << 30)) * 1.46291807927e-9f; /* 2 pi 2^-32 */
    const float square = x * x;
    const float odd = (-1.949563524e-4f * square + 8.331978655e-3f) * square - 1.666665067e-1f;
    const float even = (2.443845059e-5f * square - 1.388736751e-3f) * square + 4.166664687e-2f;
    const float s = x * square * odd + x;
    const float c = square * square * even + (1.0f - 0.5f * square);
    const float along = quarters & 1 ? s : c, across = quarters & 1 ? c : s;
    cosines[i] = (quarters + 1) & 2 ? -along : along;
    sines[i] = sign * (quarters & 2 ? -across : across);
  }
}

static void turn_halves(const float *x, float *y, const float *cosines, const float *sines,
                        int64_t pairs) {
#pragma omp simd
  for (int64_t i = 0; i < pairs; i++) {
    const float a = x[i], b = x[i + pairs];
    y[i] = a * cosines[i] - b * sines[i];
    y[i + pairs] = b * cosines[i] + a * sines[i];
  }
}

static void turn_neighbours(const float *x, float *y, const float *cosines, const float *sines,
                            int64_t pairs) {
#pragma omp simd
  for (int64_t i = 0; i < pairs; i++) {
    const float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cosines[i] - b * sines[i];
    y[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

/* A head, with the first element `at`. In 16 bits all of it passes through the thread's memory, so
 * that a mark (ac_run_state.mark_flushed) on what does not turn is not taken for one of this op. */
static void turn_head(const ac_op_args *args, const row *r, int64_t at) {
  const ac_rope_attributes *a = args->attributes;
  const int64_t pairs = a->dimensions / 2, width = ac_rope_shape_of(args).width;
  const ac_dtype dtype = args->in[0].dtype;
  const void *from = ac_element(args->in[0].data, dtype, at);
  void *to = ac_element(args->out[0].data, dtype, at);
  const bool narrow = dtype != AC_F32;
  if (narrow) ac_cpu_widen(dtype, from, r->head, width);
  const float *x = narrow ? r->head : from;
  float *y = narrow ? r->head : to;
  if (a->interleaved) turn_neighbours(x, y, r->cosines, r->sines, pairs);
  else turn_halves(x, y, r->cosines, r->sines, pairs);
  if (narrow) ac_cpu_narrow(dtype, args->run->mark_flushed, y, to, width);
  else if (x != y) memcpy(y + 2 * pairs, x + 2 * pairs, (size_t)(width - 2 * pairs) * sizeof *y);
}

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  const ac_rope_attributes *a = args->attributes;
  const ac_rope_shape s = ac_rope_shape_of(args);
  const int32_t *positions = ac_cpu_data(&args->in[1]);
  const uint32_t *high = args->workspace, *low = high + padded(pairs_of(args));
  const row r = row_of(args, thread);
  int64_t first, last;
  (void)context;
  ac_cpu_share(s.rows, 1, thread, team, &first, &last);
  for (int64_t n = first; n < last; n++) {
    const int64_t position = a->offset + (positions ? positions[n] : n % s.positions);
    find_angles(high, low, (uint32_t)position, a->backwards, r.cosines, r.sines, a->dimensions / 2);
    for (int64_t h = 0; h < s.heads; h++) turn_head(args, &r, (n * s.heads + h) * s.width);
  }
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  fill_table(args);
  ac_cpu_parallel_for(context, args, args->in[0].count, part);
}

const ac_cpu_kernel AC_CPU_KERNEL(rope) = {.run = run, .workspace = workspace};
