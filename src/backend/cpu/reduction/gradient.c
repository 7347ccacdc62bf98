/* reduce_gradient: dx = dy times the derivative of the result by each element. What belongs to the
 * results is spread over their elements first, in blocks that stay in the nearest cache. */
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/vector_math.h"
#include "ops/reduction/reduce.h"

#include <string.h>

enum { BLOCK = 256 };

typedef struct block {
  float x[BLOCK], dy[BLOCK], y[BLOCK], kept[BLOCK], dx[BLOCK];
} block;

static void spread(const ac_operand *from, int64_t place, bool along, float *to, int64_t count) {
  if (!from->count) return;
  const float *value = (const float *)from->data + place;
  if (along) memcpy(to, value, (size_t)count * sizeof *to);
  else
    for (int64_t j = 0; j < count; j++) to[j] = *value;
}

static inline float sign_of(float x) {
  return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
}

/* Of each element. */
#define EACH(value)                                                           \
  {                                                                           \
    _Pragma("omp simd") for (int64_t j = 0; j < count; j++) {                 \
      const float x = b->x[j], dy = b->dy[j], y = b->y[j], kept = b->kept[j]; \
      (void)x, (void)y, (void)kept;                                           \
      b->dx[j] = value;                                                       \
    }                                                                         \
    break;                                                                    \
  }

static void derive(const ac_reduce_attributes *a, block *b, int64_t count) {
  const float divisor = a->divisor;
  switch ((ac_reduce_kind)a->kind) {
  case AC_REDUCE_SUM:
    EACH(dy / divisor)
  case AC_REDUCE_ABSOLUTES:
    EACH(dy * sign_of(x))
  case AC_REDUCE_SQUARES:
    EACH(y > 0 ? dy * (x / y) : y == 0 ? 0.0f : y)
  case AC_REDUCE_POWERS:
    for (int64_t j = 0; j < count; j++) {
      const float x = b->x[j], y = b->y[j];
      b->dx[j] = y == 0 ? 0 : b->dy[j] * sign_of(x) * powf(fabsf(x) / y, a->power - 1);
    }
    break;
  case AC_REDUCE_MAX:
  case AC_REDUCE_MIN:
    EACH(x == y ? dy * kept : 0.0f)
  case AC_REDUCE_LARGEST:
    EACH(fabsf(x) == y ? dy * kept * sign_of(x) : 0.0f)
  case AC_REDUCE_LOGSUMEXP:
    EACH(y == -INFINITY ? 0.0f : dy * exponential(x - y))
  case AC_REDUCE_VARIANCE:
    EACH(dy * (2.0f * (x - kept) / divisor))
  }
}

/* Elements [first, last) of dx. */
static void range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *x = &args->in[1];
  const ac_reduction r = ac_reduction_of(&args->out[0], a->axes);
  const ac_reduced_axes results = ac_reduction_results(&args->out[0], a->axes);
  block b;
  memset(&b, 0, sizeof b);
  for (int64_t at = first; at < last;) {
    const int64_t count = ac_smaller(BLOCK, last - at);
    for (int64_t held = 0; held < count;) {
      const int64_t run = (at + held) / r.run, within = at + held - run * r.run;
      const int64_t part = ac_smaller(r.run - within, count - held);
      const int64_t place = ac_reduced_offset(&results, run) + (r.run_kept ? within : 0);
      spread(&args->in[0], place, r.run_kept, b.dy + held, part);
      spread(&args->in[2], place, r.run_kept, b.y + held, part);
      spread(&args->in[3], place, r.run_kept, b.kept + held, part);
      held += part;
    }
    if (x->count) ac_cpu_widen(x->dtype, ac_element(x->data, x->dtype, at), b.x, count);
    derive(a, &b, count);
    float *dx = (float *)args->out[0].data + at;
    if (args->add[0]) {
#pragma omp simd
      for (int64_t j = 0; j < count; j++) dx[j] += b.dx[j];
    } else {
      memcpy(dx, b.dx, (size_t)count * sizeof *dx);
    }
    at += count;
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, range);
}

const ac_cpu_kernel AC_CPU_KERNEL(reduce_gradient) = {.run = gradient};
