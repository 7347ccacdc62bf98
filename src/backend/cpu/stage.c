/* Kernels written for floats, run on operands of 16 bits. A thread goes through its share block by
 * block: of each such operand the block's elements are converted into scratch (of an output only if
 * it is added to), the kernel runs on a copy of the arguments whose handles are shifted, so that
 * its own indices fall into the scratch, and outputs are converted back. A block lies in the
 * nearest cache throughout, so what moves from and to memory is 16 bits an element.
 *
 * Operands of kind s either go along with the items, `weight` elements an item, or (an input that
 * is repeated) are periodic in the elements; a short period is converted once, a long one bounds
 * the blocks. Scratch is on the stack, or at the end of the workspace where an item is longer than
 * a block. */
#include "backend/cpu/convert.h"

enum { BLOCK = 2048, MOST_STAGED = 3 };

typedef struct staged {
  ac_operand *copy; /* in the kernel's arguments */
  const void *home; /* what it stands for */
  float *scratch;
  bool load, store; /* before and after the kernel */
  bool along;       /* goes along with the items */
} staged;

typedef struct stage {
  ac_op_args args;
  ac_dtype dtype;
  int count;
  staged operand[MOST_STAGED];
} stage;

static void enter(stage *s, ac_operand *x, char kind, bool load, bool store, int64_t elements) {
  if (kind != 's' || !x->count) return;
  s->operand[s->count++] = (staged){
      .copy = x, .home = x->data, .load = load, .store = store, .along = x->count == elements};
}

/* `elements` in all items. */
static void begin(stage *s, const ac_op_args *args, int64_t elements) {
  s->args = *args;
  s->dtype = ac_op_storage(args);
  s->count = 0;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    enter(s, &s->args.in[i], ac_op_input_kind(args->op, i), true, false, elements);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    enter(s, &s->args.out[j], ac_op_output_kind(args->op, j), args->add[j], true, elements);
}

/* Lets element `first` of the operand be the scratch's first. */
static void shift(staged *x, int64_t first) {
  x->copy->data = ac_element(x->scratch, AC_F32, -first);
}

static void load(const stage *s, staged *x, int64_t first, int64_t count) {
  ac_cpu_widen(s->dtype, ac_element(x->home, s->dtype, first), x->scratch, count);
}

/* Where a block that starts with this element must end on account of repeated operands. */
static int64_t limit(const stage *s, int64_t first, int64_t last) {
  for (int k = 0; k < s->count; k++) {
    int64_t period = s->operand[k].copy->count;
    if (!s->operand[k].along && period > BLOCK)
      last = ac_min(last, first - first % period + period);
  }
  return last;
}

/* Elements [first, last), which are whole items. */
static void run_block(stage *s, int64_t first, int64_t last, int64_t weight, ac_cpu_range range) {
  for (int k = 0; k < s->count; k++) {
    staged *x = &s->operand[k];
    int64_t period = x->copy->count, start = x->along ? first : first % period;
    if (!x->along && period <= BLOCK) continue;
    shift(x, start);
    if (x->load) load(s, x, start, last - first);
  }
  range(&s->args, first / weight, last / weight);
  for (int k = 0; k < s->count; k++) {
    const staged *x = &s->operand[k];
    if (x->store)
      ac_cpu_narrow(s->dtype, s->args.run->mark_flushed, x->scratch,
                    ac_element(x->home, s->dtype, first), last - first);
  }
}

/* One thread's items [first, last). */
static void run_share(const ac_op_args *args, int64_t count, int64_t weight, ac_cpu_range range,
                      int64_t first, int64_t last, float *scratch, int64_t room) {
  stage s;
  begin(&s, args, count * weight);
  for (int k = 0; k < s.count; k++) {
    staged *x = &s.operand[k];
    x->scratch = scratch + k * room;
    if (x->along || x->copy->count > BLOCK) continue;
    shift(x, 0);
    load(&s, x, 0, x->copy->count);
  }
  int64_t step = ac_max(1, BLOCK / weight) * weight;
  for (int64_t at = first * weight, end; at < last * weight; at = end) {
    end = limit(&s, at, ac_min(last * weight, at + step));
    run_block(&s, at, end, weight, range);
  }
}

static int staged_count(const ac_op_args *args) {
  stage s;
  begin(&s, args, 0);
  return s.count;
}

uint64_t ac_cpu_staging(const ac_cpu_context *context, const ac_op_args *args, int64_t weight) {
  if (ac_op_storage(args) == AC_F32 || weight <= BLOCK) return 0;
  int64_t room = ac_ceil_div(weight, AC_CPU_LINE) * AC_CPU_LINE;
  return (uint64_t)(context->threads * staged_count(args) * room) * sizeof(float);
}

static void run_thread(const ac_cpu_context *context, const ac_op_args *args, int64_t count,
                       int64_t weight, ac_cpu_range range, int thread, int team) {
  _Alignas(64) float block[MOST_STAGED * BLOCK];
  int64_t first, last;
  ac_cpu_share(count, weight == 1 ? 64 : 1, thread, team, &first, &last);
  if (first >= last) return;
  uint64_t bytes = ac_cpu_staging(context, args, weight), own = bytes / (uint64_t)context->threads;
  char *end = (char *)args->workspace + args->workspace_bytes;
  float *scratch = bytes ? (float *)(end - bytes + (uint64_t)thread * own) : block;
  int64_t room = bytes ? (int64_t)(own / sizeof(float)) / staged_count(args) : BLOCK;
  run_share(args, count, weight, range, first, last, scratch, room);
}

void ac_cpu_for_staged(const ac_cpu_context *context, const ac_op_args *args, int64_t count,
                       int64_t weight, ac_cpu_range range) {
#ifdef _OPENMP
  if (context->threads > 1 && count > 1 && count * weight > AC_CPU_SERIAL) {
#pragma omp parallel num_threads(context->threads)
    run_thread(context, args, count, weight, range, omp_get_thread_num(), omp_get_num_threads());
    return;
  }
#endif
  run_thread(context, args, count, weight, range, 0, 1);
}
