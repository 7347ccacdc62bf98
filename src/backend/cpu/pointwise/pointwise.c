/* Programs of functions of elements.
 *
 * A thread goes over its share of the results in blocks that stay in the nearest cache. For each
 * step there is a loop over the block's elements, one for each function of the table, which reads
 * and writes buffers: the values of a step take one from when they are computed until nothing reads
 * them any more. Operands are read where they are if they are floats (source.h), and results are
 * computed in their place; in 16 bits both are converted. Results that no cache would hold are
 * written past the caches, from their buffer (blocks.c says why). So memory moves operands and
 * results once, however many steps there are. */
#include "ops/pointwise/pointwise.h"

#include "backend/cpu/pointwise/source.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/stream.h"
#include "backend/cpu/shared/vector_functions.h"
#include "ops/pointwise/functions.h"

/* ---- functions ------------------------------------------------------------------------------- */

typedef void (*loop)(const float *x, const float *y, const float *z, float *to, int64_t count);

#define READ_1 const float a = x[i];
#define READ_2 READ_1 const float b = y[i];
#define READ_3 READ_2 const float c = z[i];

#define LOOP(name, operands, text, form, ...)                                        \
  static void name##_loop(const float *x, const float *y, const float *z, float *to, \
                          int64_t count) {                                           \
    (void)x, (void)y, (void)z;                                                       \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                        \
      READ_##operands to[i] = form;                                                  \
    }                                                                                \
  }
AC_FUNCTION_LIST(LOOP)
#undef LOOP

static const loop loops[AC_FUNCTION_COUNT] = {
#define ENTRY(name, ...) [AC_FUNCTION_##name] = name##_loop,
    AC_FUNCTION_LIST(ENTRY)
#undef ENTRY
};

/* ---- buffers --------------------------------------------------------------------------------- */

/* Elements of a block, and of one that is written past the caches: so few lines that its stores
 * leave room for pending loads. Floats of all buffers of a thread, which are 64 KiB of its stack.
 */
enum {
  BLOCK = AC_CPU_RUN,
  LONG_BLOCK = 1024,
  STREAMED_BLOCK = 128,
  SCRATCH = 16384,
  BLOCKS_AHEAD = 2
};
enum { VALUES = AC_FIRST_STEP + AC_PROGRAM_STEPS };

/* A program with its operands, in one thread. */
typedef struct job {
  const ac_op_args *args;
  const ac_program *program;
  ac_dtype dtype;
  bool streamed, cold[AC_PROGRAM_RESULTS]; /* some results, and each, past the caches */
  int64_t block;
  source source[AC_PROGRAM_OPERANDS];
  const float *value[VALUES];      /* of the block */
  float *buffer[AC_PROGRAM_STEPS]; /* of a step's results; NULL: in their place */
  int8_t home[AC_PROGRAM_STEPS];   /* then which output */
} job;

/* The last step that reads a value, or that there is none after it. */
static void find_last(const ac_program *p, uint8_t last[VALUES]) {
  memset(last, 0, VALUES);
  for (int s = 0; s < p->steps; s++)
    for (int k = 0; k < ac_functions[p->step[s].function].operands; k++)
      last[p->step[s].in[k]] = (uint8_t)s;
  for (int j = 0; j < p->results; j++) last[p->result[j]] = AC_PROGRAM_STEPS;
}

/* An output takes the place of an operand: whether a later step still reads that operand. */
static bool overwrites(const job *w, int output, int step, const uint8_t last[VALUES]) {
  for (int i = 0; i < w->program->operands; i++)
    if (w->args->in[i].count && w->args->in[i].data == w->args->out[output].data && last[i] > step)
      return true;
  return false;
}

/* The output that a step computes in its place; -1: none. */
static int home_of(const job *w, int step, const uint8_t last[VALUES]) {
  if (w->dtype != AC_F32) return -1;
  for (int j = 0; j < w->program->results; j++)
    if (w->program->result[j] == AC_FIRST_STEP + step && w->args->out[j].count &&
        !w->args->add[j] && !w->cold[j] && !overwrites(w, j, step, last))
      return j;
  return -1;
}

/* Gives each step's results a buffer of `slots`, the same as others' where these are no longer
 * read. Returns how many there are. */
static int share_buffers(const job *w, int8_t home[AC_PROGRAM_STEPS],
                         uint8_t slot[AC_PROGRAM_STEPS]) {
  const ac_program *p = w->program;
  uint8_t last[VALUES], spare[AC_PROGRAM_STEPS];
  int slots = 0, spares = 0;
  find_last(p, last);
  for (int s = 0; s < p->steps; s++) {
    for (int k = 0; k < ac_functions[p->step[s].function].operands; k++) {
      const int v = p->step[s].in[k], from = v - AC_FIRST_STEP;
      if (from < 0 || last[v] != s || home[from] >= 0) continue;
      last[v] = 0; /* given back once */
      spare[spares++] = slot[from];
    }
    home[s] = (int8_t)home_of(w, s, last);
    if (home[s] >= 0) continue;
    slot[s] = spares ? spare[--spares] : (uint8_t)slots++;
  }
  return slots;
}

/* Lays out the buffers of all values for blocks of so many elements; false if they do not fit. */
static bool lay_out(job *w, float *scratch, int64_t block) {
  const ac_program *p = w->program;
  uint8_t slot[AC_PROGRAM_STEPS];
  int64_t used = 0, size[AC_PROGRAM_OPERANDS];
  w->block = block;
  for (int i = 0; i < p->operands; i++)
    used += size[i] = source_begin(&w->source[i], &w->args->in[i], &w->args->out[0], block);
  const int slots = share_buffers(w, w->home, slot);
  if (used + (p->constants + slots) * block > SCRATCH) return false;
  for (int s = 0; s < p->steps; s++)
    w->buffer[s] = w->home[s] < 0 ? scratch + slot[s] * block : NULL;
  scratch += slots * block;
  for (int k = 0; k < p->constants; k++, scratch += block) {
    source_fill(scratch, p->constant[k], block);
    w->value[AC_FIRST_CONSTANT + k] = scratch;
  }
  for (int i = 0; i < p->operands; scratch += size[i++])
    source_lay_out(&w->source[i], scratch, block, w->args->out[0].count);
  return true;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Asks for what the block [first, last) of each operand becomes some blocks later, up to element
 * `end`. Of what is written past the caches the first operand is left to the stores, which ask for
 * it as they go. */
static inline __attribute__((always_inline)) void fetch_ahead(const job *w, int64_t first,
                                                              int64_t last, int64_t end) {
  const int64_t bytes = (int64_t)ac_element_bytes(w->dtype);
  const int64_t ahead = w->streamed ? AC_CPU_AHEAD : BLOCKS_AHEAD * (last - first) * bytes;
  const int64_t count = ac_smaller((last - first) * bytes, (end - first) * bytes - ahead);
  if (!w->streamed && w->dtype == AC_F32) return;
  for (int i = w->streamed ? 1 : 0; i < w->program->operands; i++) {
    if (!w->source[i].whole || !w->args->in[i].count) continue;
    const uintptr_t from =
        (uintptr_t)ac_element(w->source[i].data, w->dtype, first) + (uintptr_t)ahead;
    for (int64_t at = 0; at < count; at += 64)
      __builtin_prefetch((const void *)(from + (uintptr_t)at));
  }
}

/* Results that lie in a buffer. */
static void store(const job *w, int output, const float *values, int64_t first, int64_t count) {
  const ac_operand *x = &w->args->out[output];
  const bool mark = w->args->run->mark_flushed;
  void *home = ac_element(x->data, w->dtype, first);
  if (w->args->add[output]) {
    ac_cpu_accumulate(w->dtype, mark, values, home, count);
    return;
  }
  if (!w->cold[output]) {
    ac_cpu_narrow(w->dtype, mark, values, home, count);
    return;
  }
  uint16_t narrowed[BLOCK];
  const void *from = values;
  if (w->dtype != AC_F32) {
    ac_cpu_narrow(w->dtype, mark, values, narrowed, count);
    from = narrowed;
  }
  const source *input = &w->source[0];
  const bool along = w->program->operands && input->whole;
  ac_cpu_stream_bytes(from, home, (size_t)count * ac_element_bytes(w->dtype),
                      along ? ac_element(input->data, w->dtype, first) : from);
}

static void run_block(job *w, int64_t first, int64_t count) {
  const ac_program *p = w->program;
  for (int i = 0; i < p->operands; i++) w->value[i] = source_take(&w->source[i], first, count);
  for (int s = 0; s < p->steps; s++) {
    const uint8_t *in = p->step[s].in;
    float *to = w->buffer[s];
    if (!to) to = (float *)w->args->out[w->home[s]].data + first;
    loops[p->step[s].function](w->value[in[0]], w->value[in[1]], w->value[in[2]], to, count);
    w->value[AC_FIRST_STEP + s] = to;
  }
  /* The first output may have the place of an operand that another is a copy of. */
  for (int j = p->results - 1; j >= 0; j--) {
    const int step = p->result[j] - AC_FIRST_STEP;
    if (!w->args->out[j].count || (step >= 0 && w->home[step] == j)) continue;
    store(w, j, w->value[p->result[j]], first, count);
  }
}

/* One thread's elements. */
static void run_share(job *w, int64_t first, int64_t last) {
  for (int64_t at = first, end; at < last; at = end) {
    end = ac_smaller(last, at + w->block);
    for (int i = 0; i < w->program->operands; i++) end = source_limit(&w->source[i], at, end);
    fetch_ahead(w, at, end, last);
    run_block(w, at, end - at);
  }
  if (w->streamed) ac_cpu_stream_fence();
}

/* Where one step reads and writes floats in their places, blocks may be long. */
static int64_t first_block(const job *w, int64_t count) {
  if (w->streamed) return STREAMED_BLOCK;
  const bool in_place = w->dtype == AC_F32 && w->program->steps == 1 && !w->args->add[0];
  return in_place ? ac_smaller(LONG_BLOCK, ac_ceil_div(count, 64) * 64) : BLOCK;
}

static void run_part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  _Alignas(64) float scratch[SCRATCH];
  int64_t first, last;
  ac_cpu_share(args->out[0].count, 64, thread, team, &first, &last);
  if (first >= last) return;
  job w = {.args = args,
           .program = &((const ac_pointwise_attributes *)args->attributes)->program,
           .dtype = ac_op_storage(args),
           .streamed = ac_cpu_is_streamed(context, args, 1)};
  for (int j = 0; j < w.program->results; j++) w.cold[j] = w.streamed && ac_cpu_is_cold(args, j);
  for (int64_t block = first_block(&w, last - first); !lay_out(&w, scratch, block);) block /= 2;
  run_share(&w, first, last);
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->out[0].count, run_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(pointwise) = {.run = run};
