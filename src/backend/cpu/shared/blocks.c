/* Kernels written for floats, run on operands of 16 bits, and on operands too large for any cache.
 *
 * 16 bits. A thread works on its share block by block. The block's elements of each such operand
 * are converted into scratch (those of an output only if it is added to). The kernel runs on a copy
 * of the arguments with shifted handles, so that its own indices fall into the scratch. Then
 * outputs are converted back. A block stays in the nearest cache all the time, so only 16 bits an
 * element move from and to memory.
 *
 * Operands of kind s have `weight` elements for each item, or they are an input that is repeated,
 * which is periodic in the elements. A short period is converted once; a long one limits the
 * blocks. Scratch is on the stack, or at the end of the workspace if an item is longer than a
 * block.
 *
 * Streaming. An ordinary store to a line that is not in a cache reads the line first. That is a
 * third of the traffic of an op that reads one array and writes another. If an op's operands are
 * together larger than the last-level cache, an output has left the cache before anything reads it.
 * So it is computed into scratch as above, also in 32 bits, and its blocks are copied past the
 * caches. Functions of single elements in 32 bits need no blocks (stream.h). */
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/stream.h"

#include <string.h>

/* Floats: a block at most, and all blocks of a thread, which is 32 KiB of stack. Every operand that
 * an op can have has its place. */
enum { BLOCK = 2048, SCRATCH = 4 * BLOCK, MOST_OPERANDS = AC_MAX_INPUTS + AC_MAX_OUTPUTS };
_Static_assert(AC_MAX_OUTPUTS *BLOCK <= SCRATCH, "streamed outputs have whole blocks");

/* If more than four operands are converted, blocks are shorter. */
static int64_t block_of(int operands) {
  return ac_smaller(BLOCK, SCRATCH / ac_larger(operands, 1) / 64 * 64);
}

/* Elements of a block if items are short: it then fits in the nearest cache together with what is
 * prefetched, and its turns are so short that memory is never idle. A streamed block has so few
 * lines that its stores leave room for pending loads. */
enum { SHORT_BLOCK = 256, STREAMED_BLOCK = 128, BLOCKS_AHEAD = 2 };
_Static_assert(MOST_OPERANDS *SHORT_BLOCK <= SCRATCH, "all operands have short blocks");

/* ---- stores past the caches ------------------------------------------------------------------ */

static uint64_t operand_bytes(const ac_operand *x) {
  return (uint64_t)x->count * ac_element_bytes(x->dtype);
}

/* Whether it is an output that no cache holds: what is read too is in one when it is written. */
bool ac_cpu_is_cold(const ac_op_args *args, int output) {
  const ac_operand *x = &args->out[output];
  if (!x->count || ac_op_output_kind(args->op, output) != 's' || args->add[output]) return false;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (args->in[i].count && args->in[i].data == x->data) return false;
  return true;
}

/* Whether there are outputs to stream. */
bool ac_cpu_is_streamed(const ac_cpu_context *context, const ac_op_args *args, int64_t weight) {
  if (!context->cache_bytes || weight > BLOCK) return false;
  uint64_t bytes = 0;
  bool cold = false;
  for (int i = 0; i < AC_MAX_INPUTS; i++) bytes += operand_bytes(&args->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    bytes += operand_bytes(&args->out[j]);
    cold = cold || ac_cpu_is_cold(args, j);
  }
  return cold && bytes > context->cache_bytes;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct blocked {
  ac_operand *copy; /* in the kernel's arguments */
  const void *home; /* the handle that it replaces */
  float *scratch;
  bool load, store; /* before and after the kernel */
  bool along;       /* goes along with the items */
  bool streamed;    /* its store */
} blocked;

typedef struct blocks {
  ac_op_args args;
  ac_dtype dtype;
  int count;
  int64_t block;
  blocked operand[MOST_OPERANDS];
  const ac_operand *input; /* the first, if it goes along with the items; otherwise NULL */
} blocks;

static void enter(blocks *s, ac_operand *x, char kind, blocked how, int64_t elements) {
  if (kind != 's' || !x->count || (s->dtype == AC_F32 && !how.streamed)) return;
  how.copy = x;
  how.home = x->data;
  how.along = x->count == elements;
  s->operand[s->count++] = how;
}

/* `elements` in all items. */
static void begin(blocks *s, const ac_op_args *args, int64_t elements, bool streamed) {
  s->args = *args;
  s->dtype = ac_op_storage(args);
  s->count = 0;
  s->input = args->in[0].count == elements ? &args->in[0] : NULL;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    enter(s, &s->args.in[i], ac_op_input_kind(args->op, i), (blocked){.load = true}, elements);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    enter(s, &s->args.out[j], ac_op_output_kind(args->op, j),
          (blocked){
              .load = args->add[j], .store = true, .streamed = streamed && ac_cpu_is_cold(args, j)},
          elements);
  s->block = block_of(s->count);
}

/* Lets element `first` of the operand be the scratch's first. */
static void shift(blocked *x, int64_t first) {
  x->copy->data = ac_element(x->scratch, AC_F32, -first);
}

static void load(const blocks *s, blocked *x, int64_t first, int64_t count) {
  ac_cpu_widen(s->dtype, ac_element(x->home, s->dtype, first), x->scratch, count);
}

/* Where a block that starts with this element must end on account of repeated operands. */
static int64_t limit(const blocks *s, int64_t first, int64_t last) {
  for (int k = 0; k < s->count; k++) {
    int64_t period = s->operand[k].copy->count;
    if (!s->operand[k].along && period > s->block)
      last = ac_smaller(last, first - first % period + period);
  }
  return last;
}

static void store(const blocks *s, const blocked *x, int64_t first, int64_t count) {
  void *home = ac_element(x->home, s->dtype, first);
  bool mark = s->args.run->mark_flushed;
  if (!x->streamed) {
    ac_cpu_narrow(s->dtype, mark, x->scratch, home, count);
    return;
  }
  uint16_t narrowed[BLOCK];
  const void *from = x->scratch;
  if (s->dtype != AC_F32) {
    ac_cpu_narrow(s->dtype, mark, x->scratch, narrowed, count);
    from = narrowed;
  }
  const char *input = s->input ? ac_element(s->input->data, s->input->dtype, first) : from;
  ac_cpu_stream_bytes(from, home, (size_t)count * ac_element_bytes(s->dtype), input);
}

/* Elements [first, last), which are whole items. */
static void run_block(blocks *s, int64_t first, int64_t last, int64_t weight, ac_cpu_range range) {
  for (int k = 0; k < s->count; k++) {
    blocked *x = &s->operand[k];
    int64_t period = x->copy->count, start = x->along ? first : first % period;
    if (!x->along && period <= s->block) continue;
    shift(x, start);
    if (x->load) load(s, x, start, last - first);
  }
  range(&s->args, first / weight, last / weight);
  for (int k = 0; k < s->count; k++)
    if (s->operand[k].store) store(s, &s->operand[k], first, last - first);
}

/* Asks for what the block [first, last) of each input but the first becomes some blocks later, up
 * to element `end`: between bursts of stores the hardware alone asks too late. */
static inline __attribute__((always_inline)) void
fetch_streamed(const ac_op_args *args, int64_t elements, int64_t first, int64_t last, int64_t end) {
  for (int i = 1; i < AC_MAX_INPUTS; i++) {
    const ac_operand *x = &args->in[i];
    if (x->count != elements) continue;
    const int64_t bytes = ac_element_bytes(x->dtype);
    const int64_t count = ac_smaller((last - first) * bytes, (end - first) * bytes - AC_CPU_AHEAD);
    const char *from = ac_element(x->data, x->dtype, first);
    for (int64_t at = 0; at < count; at += 64) ac_cpu_fetch_ahead(from + at);
  }
}

/* The same for all that is converted, including results, up to element `end`. */
static inline __attribute__((always_inline)) void fetch_ahead(const blocks *s, int64_t first,
                                                              int64_t last, int64_t end) {
  const int64_t bytes = ac_element_bytes(s->dtype), ahead = BLOCKS_AHEAD * (last - first);
  const int64_t count = ac_smaller(last - first, end - first - ahead);
  for (int k = 0; k < s->count; k++) {
    const blocked *x = &s->operand[k];
    if (!x->along) continue;
    const uintptr_t from = (uintptr_t)x->home + (uintptr_t)((first + ahead) * bytes),
                    to = from + (uintptr_t)(ac_larger(0, count) * bytes);
    for (uintptr_t line = from; line < to; line += 64) __builtin_prefetch((const void *)line);
  }
}

/* One thread's items [first, last). */
static void run_share(const ac_op_args *args, int64_t count, int64_t weight, ac_cpu_range range,
                      int64_t first, int64_t last, float *scratch, int64_t room, bool streamed) {
  blocks s;
  begin(&s, args, count * weight, streamed);
  for (int k = 0; k < s.count; k++) {
    blocked *x = &s.operand[k];
    x->scratch = scratch + k * room;
    if (x->along || x->copy->count > s.block) continue;
    shift(x, 0);
    load(&s, x, 0, x->copy->count);
  }
  int64_t step = ac_larger(1, (streamed ? STREAMED_BLOCK : SHORT_BLOCK) / weight) * weight;
  for (int64_t at = first * weight, end; at < last * weight; at = end) {
    end = limit(&s, at, ac_smaller(last * weight, at + step));
    if (streamed) fetch_streamed(args, count * weight, at, end, last * weight);
    else if (step <= BLOCK) fetch_ahead(&s, at, end, last * weight);
    run_block(&s, at, end, weight, range);
  }
  if (streamed) ac_cpu_stream_fence();
}

static int operand_count(const ac_op_args *args) {
  blocks s;
  begin(&s, args, 0, false);
  return s.count;
}

uint64_t ac_cpu_scratch(const ac_cpu_context *context, const ac_op_args *args, int64_t weight) {
  if (ac_op_storage(args) == AC_F32) return 0;
  int operands = operand_count(args);
  if (weight <= block_of(operands)) return 0;
  int64_t room = ac_ceil_div(weight, AC_CPU_LINE) * AC_CPU_LINE;
  return (uint64_t)(context->threads * operands * room) * sizeof(float);
}

static void run_thread(const ac_cpu_context *context, const ac_op_args *args, int64_t count,
                       int64_t weight, ac_cpu_range range, bool streamed, int thread, int team) {
  _Alignas(64) float block[SCRATCH];
  int64_t first, last;
  ac_cpu_share(count, weight == 1 ? 64 : 1, thread, team, &first, &last);
  if (first >= last) return;
  uint64_t bytes = ac_cpu_scratch(context, args, weight), own = bytes / (uint64_t)context->threads;
  char *end = (char *)args->workspace + args->workspace_bytes;
  float *scratch = bytes ? (float *)(end - bytes + (uint64_t)thread * own) : block;
  int operands = operand_count(args);
  int64_t room = bytes ? (int64_t)(own / sizeof(float)) / operands : block_of(operands);
  run_share(args, count, weight, range, first, last, scratch, room, streamed);
}

void ac_cpu_for_floats(const ac_cpu_context *context, const ac_op_args *args, int64_t count,
                       int64_t weight, ac_cpu_range range) {
  bool streamed = ac_cpu_is_streamed(context, args, weight);
  if (ac_op_storage(args) == AC_F32 && !streamed) {
    ac_cpu_for(context, args, count, weight, range);
    return;
  }
#ifdef _OPENMP
  if (context->threads > 1 && count > 1 && count * weight > context->serial) {
#pragma omp parallel num_threads(context->threads)
    run_thread(context, args, count, weight, range, streamed, omp_get_thread_num(),
               omp_get_num_threads());
    return;
  }
#endif
  run_thread(context, args, count, weight, range, streamed, 0, 1);
}

void ac_cpu_for_elements(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range range,
                         ac_cpu_range streamed) {
  bool streams = ac_op_storage(args) == AC_F32 && (uintptr_t)args->out[0].data % 64 == 0 &&
                 ac_cpu_is_cold(args, 0) && ac_cpu_is_streamed(context, args, 1);
  if (streams) ac_cpu_for(context, args, args->out[0].count, 1, streamed);
  else ac_cpu_for_floats(context, args, args->out[0].count, 1, range);
}
