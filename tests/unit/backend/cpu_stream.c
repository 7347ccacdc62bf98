/* Outputs that the CPU backend writes past the caches have the bits that they have otherwise, and
 * no byte around them is touched: in every instruction set and storage type, wherever an array
 * begins in a cache line, and whatever the number of threads. */
#include "support/check.h"

#include "backend/cpu/shared/element.h"
#include "backend/device.h"
#include "core/half.h"
#include "ops/attention/softmax.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/pointwise/dropout.h"
#include "ops/pointwise/functions.h"
#include "ops/pointwise/pointwise.h"

#include <stdlib.h>

/* How many elements an operand has. */
typedef enum extent { NONE, WHOLE, PER_COLUMN, PER_ROW, TWO_PER_ROW } extent;

typedef struct example {
  ac_op op;
  const void *attributes;
  extent in[4], out[2];
  bool adds;
} example;

/* Small enough that f16 flushes much of what it gives. */
#define PROGRAM(name, operands_, number, ...)                                                     \
  static const ac_pointwise_attributes name = {                                                   \
      .program = {.operands = operands_,                                                          \
                  .constants = 1,                                                                 \
                  .steps = sizeof((ac_program_step[]){__VA_ARGS__}) / sizeof(ac_program_step),    \
                  .results = 1,                                                                   \
                  .result = {AC_FIRST_STEP +                                                      \
                             sizeof((ac_program_step[]){__VA_ARGS__}) / sizeof(ac_program_step) - \
                             1},                                                                  \
                  .constant = {number},                                                           \
                  .step = {__VA_ARGS__}}}
#define CONSTANT AC_FIRST_CONSTANT
#define FIRST AC_FIRST_STEP
PROGRAM(sum, 2, 0, {AC_FUNCTION_add, {0, 1}});
PROGRAM(product, 2, 0, {AC_FUNCTION_multiply, {0, 1}});
PROGRAM(factor, 1, 0x1p-24f, {AC_FUNCTION_multiply, {0, CONSTANT}});
PROGRAM(by_tanh, 1, 0, {AC_FUNCTION_gelu_tanh, {0}});
PROGRAM(gelu_gradient, 2, 0, {AC_FUNCTION_gelu_slope, {1}}, {AC_FUNCTION_multiply, {0, FIRST}});
PROGRAM(relu, 1, 0, {AC_FUNCTION_relu, {0}});
PROGRAM(slope, 1, 0.1f, {AC_FUNCTION_leaky_relu, {0, CONSTANT}});
PROGRAM(chain, 2, 0.5f, {AC_FUNCTION_tanh, {0}}, {AC_FUNCTION_multiply, {FIRST, 1}},
        {AC_FUNCTION_add, {FIRST + 1, CONSTANT}}, {AC_FUNCTION_sigmoid, {FIRST + 2}},
        {AC_FUNCTION_multiply, {FIRST + 3, 0}});
/* Samples shorter than what is drawn at a time, of whole blocks, and that begin anywhere in a line.
 */
static const ac_dropout_attributes short_samples = {1.0f / 3, 1, 7, 0},
                                   whole_samples = {1.0f / 3, 1, 1024, 0},
                                   odd_samples = {1.0f / 3, 1, 777, 0};
static const ac_softmax_attributes last_axis = {1, 0}, logarithm = {1, 1};
static const ac_layer_norm_attributes layer = {1e-5f};
static const ac_rms_norm_attributes rms = {1e-5f};

static const example examples[] = {
    {AC_OP_pointwise, &sum, {WHOLE, PER_COLUMN}, {WHOLE}, false},
    {AC_OP_pointwise, &product, {WHOLE, WHOLE}, {WHOLE}, false},
    {AC_OP_pointwise, &product, {WHOLE, PER_ROW}, {WHOLE}, true},
    {AC_OP_pointwise, &factor, {WHOLE}, {WHOLE}, false},
    {AC_OP_pointwise, &factor, {WHOLE}, {WHOLE}, true},
    {AC_OP_pointwise, &by_tanh, {WHOLE}, {WHOLE}, false},
    {AC_OP_pointwise, &gelu_gradient, {WHOLE, WHOLE}, {WHOLE}, false},
    {AC_OP_pointwise, &relu, {WHOLE}, {WHOLE}, false},
    {AC_OP_pointwise, &slope, {WHOLE}, {WHOLE}, false},
    {AC_OP_pointwise, &chain, {WHOLE, WHOLE}, {WHOLE}, false},
    {AC_OP_pointwise, &chain, {WHOLE, PER_COLUMN}, {WHOLE}, false},
    {AC_OP_dropout, &short_samples, {WHOLE}, {WHOLE}, false},
    {AC_OP_dropout, &whole_samples, {WHOLE}, {WHOLE}, false},
    {AC_OP_dropout, &odd_samples, {WHOLE}, {WHOLE}, false},
    {AC_OP_softmax, &last_axis, {WHOLE}, {WHOLE}, false},
    {AC_OP_softmax, &logarithm, {WHOLE}, {WHOLE}, false},
    {AC_OP_layer_norm, &layer, {WHOLE, PER_COLUMN, PER_COLUMN}, {WHOLE, TWO_PER_ROW}, false},
    {AC_OP_rms_norm, &rms, {WHOLE, PER_COLUMN}, {WHOLE, PER_ROW}, false},
    {AC_OP_rms_norm_input_gradient, &rms, {WHOLE, WHOLE, PER_ROW, PER_COLUMN}, {WHOLE}, false},
    {AC_OP_rms_norm_input_gradient, &rms, {WHOLE, WHOLE, PER_ROW, PER_COLUMN}, {WHOLE}, true},
};

/* Of nothing much, of no whole lines, of rows longer than a block and as long, of shares for a
 * team. */
static const int64_t sizes[][2] = {{1, 1}, {5, 63}, {3, 2500}, {8, 2048}, {131, 100}};

/* ---- arrays ---------------------------------------------------------------------------------- */

enum { GUARD = 256 }; /* bytes before and after an array */

typedef struct array {
  unsigned char *memory;
  size_t bytes;
} array;

/* An operand with an array that begins `offset` elements into a cache line. The same seed gives the
 * same memory. */
static array make_array(ac_operand *x, extent extent, char letter, ac_dtype storage, int64_t rows,
                        int64_t columns, int64_t offset, uint32_t seed) {
  array a = {0};
  if (extent == NONE) return a;
  const bool one = extent == PER_COLUMN, whole = extent == WHOLE;
  *x = (ac_operand){.dtype = letter == 's' ? storage : AC_F32, .rank = one ? 1 : 2};
  x->dim[0] = one ? columns : rows;
  x->dim[1] = whole ? columns : extent == TWO_PER_ROW ? 2 : 1;
  x->count = x->dim[0] * (one ? 1 : x->dim[1]);
  const size_t size = ac_dtype_bytes(x->dtype);
  a.bytes = ((size_t)(x->count + offset) * size + 2 * GUARD + 63) / 64 * 64;
  a.memory = aligned_alloc(64, a.bytes);
  assert_non_null(a.memory);
  memset(a.memory, 0x5a, a.bytes);
  x->data = a.memory + GUARD + (size_t)offset * size;
  for (int64_t i = 0; i < x->count; i++) {
    seed = seed * 1664525u + 1013904223u;
    ac_float_write(x->dtype, x->data, i, (float)(seed >> 8) * 0x1p-23f - 1);
  }
  return a;
}

/* Runs the example on a fresh copy of its operands; `out` receives its outputs. */
static void run(ac_device *device, const example *e, ac_dtype storage, bool mark, int64_t rows,
                int64_t columns, int64_t offset, array out[2]) {
  const ac_run_state state = {
      .training = true, .seed = 3, .batch = rows, .loss_scale = 1, .mark_flushed = mark};
  ac_op_args args = {.op = e->op, .attributes = e->attributes, .run = &state};
  array in[4];
  for (int i = 0; i < 4; i++)
    in[i] = make_array(&args.in[i], e->in[i], ac_op_input_kind(e->op, i), storage, rows, columns,
                       offset, 1 + (uint32_t)i);
  for (int j = 0; j < 2; j++)
    out[j] = make_array(&args.out[j], e->out[j], ac_op_output_kind(e->op, j), storage, rows,
                        columns, offset, 7);
  args.add[0] = e->adds;
  args.workspace_bytes = device->backend->workspace(device->state, &args);
  args.workspace = aligned_alloc(64, args.workspace_bytes / 64 * 64 + 64);
  assert_non_null(args.workspace);
  assert_ok(device->backend->run(device->state, &args));
  free(args.workspace);
  for (int i = 0; i < 4; i++) free(in[i].memory);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void compare(ac_device *device[2], const example *e, ac_dtype storage, bool mark,
                    const int64_t size[2], int64_t offset) {
  array out[2][2];
  for (int d = 0; d < 2; d++) run(device[d], e, storage, mark, size[0], size[1], offset, out[d]);
  for (int j = 0; j < 2; j++) {
    if (out[0][j].memory && memcmp(out[0][j].memory, out[1][j].memory, out[0][j].bytes) != 0)
      fail_msg("%s, %s, %s, %lld x %lld from element %lld on: output %d differs",
               device[0]->info.driver, ac_op_name(e->op), ac_dtype_name(storage),
               (long long)size[0], (long long)size[1], (long long)offset, j);
    for (int d = 0; d < 2; d++) free(out[d][j].memory);
  }
}

static ac_device *open_device(const char *stream, int threads) {
  ac_device *device;
  setenv("ACCRUE_CPU_STREAM", stream, 1);
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = threads}));
  unsetenv("ACCRUE_CPU_STREAM");
  return device;
}

static void compare_all(int threads) {
  ac_device *device[2] = {open_device("0", threads), open_device("1", threads)};
  for (size_t e = 0; e < sizeof examples / sizeof *examples; e++)
    for (ac_dtype storage = AC_F32; storage <= AC_BF16; storage++)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int64_t offset = 0; offset < 8; offset += 7) {
          compare(device, &examples[e], storage, false, sizes[s], offset);
          if (storage == AC_F16) compare(device, &examples[e], storage, true, sizes[s], offset);
        }
  for (int d = 0; d < 2; d++) ac_device_close(device[d]);
}

/* Those that the machine does not have come out as the best that it has. */
static void streams_change_no_bit(void **state) {
  (void)state;
  static const char *const isas[] = {"base", "v3", "v4"};
  for (int i = 0; i < 3; i++) {
    setenv("ACCRUE_ISA", isas[i], 1);
    for (int threads = 1; threads <= 3; threads += 2) compare_all(threads);
  }
  unsetenv("ACCRUE_ISA");
}

/* What kernels take an element's bytes to be, without a call. */
static void elements_have_the_bytes_of_their_dtype(void **state) {
  (void)state;
  for (int dtype = 0; dtype < AC_DTYPE_COUNT; dtype++)
    assert_int_equal(ac_element_bytes((ac_dtype)dtype), ac_dtype_bytes((ac_dtype)dtype));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(elements_have_the_bytes_of_their_dtype),
                                     cmocka_unit_test(streams_change_no_bit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
