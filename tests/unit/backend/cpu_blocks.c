/* Kernels for floats on operands of 16 bits, with more of them than any kernel takes today: every
 * operand that an op can have finds its place. */
#include "support/check.h"

#include "backend/cpu/shared/kernels.h"
#include "core/half.h"

#include <pthread.h>
#include <stdlib.h>

enum { PARTS = 8, ROWS = 37 };

/* y = the sum of all inputs, weighted so that no two can be mistaken for each other. */
static int64_t columns;
static void sum_inputs(const ac_op_args *args, int64_t first, int64_t last) {
  float *y = args->out[0].data;
  for (int64_t i = first * columns; i < last * columns; i++) {
    y[i] = 0;
    for (int k = 0; k < PARTS; k++) y[i] += (float)(1 << k) * ((const float *)args->in[k].data)[i];
  }
}

static ac_operand make_operand(float value) {
  ac_operand x = {.dtype = AC_F16, .rank = 2, .dim = {ROWS, columns}, .count = ROWS * columns};
  x.data = aligned_alloc(64, ((size_t)x.count * 2 + 63) / 64 * 64);
  assert_non_null(x.data);
  for (int64_t i = 0; i < x.count; i++) ac_float_write(AC_F16, x.data, i, value * (float)(i % 3));
  return x;
}

static void add_parts(int threads) {
  const ac_run_state state = {.batch = ROWS};
  const ac_cpu_context context = {.threads = threads};
  ac_op_args args = {.op = AC_OP_concat, .run = &state}; /* the op with the most operands */
  for (int k = 0; k < PARTS; k++) args.in[k] = make_operand(k % 2 ? 1 : -1);
  args.out[0] = make_operand(0);
  args.workspace_bytes = ac_cpu_scratch(&context, &args, columns);
  args.workspace = aligned_alloc(64, args.workspace_bytes + 64);
  assert_non_null(args.workspace);
  ac_cpu_for_floats(&context, &args, ROWS, columns, sum_inputs);
  for (int64_t i = 0; i < args.out[0].count; i++) /* 2 + 8 + 32 + 128 - 1 - 4 - 16 - 64 = 85 */
    assert_true(ac_float_read(AC_F16, args.out[0].data, i) == 85.0f * (float)(i % 3));
  for (int k = 0; k < PARTS; k++) free(args.in[k].data);
  free(args.out[0].data);
  free(args.workspace);
}

/* Rows of a part of a block, of a block, and longer, which lie in the workspace. A block is shorter
 * where there are many operands: rows of 900 are longer, of 896 are not. */
static void every_operand_finds_its_place(void **state) {
  (void)state;
  const int64_t widths[] = {1, 300, 896, 900, 2048, 5000};
  for (int w = 0; w < 6; w++)
    for (int threads = 1; threads <= 2; threads++) {
      columns = widths[w];
      add_parts(threads);
    }
}

static void *add_rows(void *user) {
  (void)user;
  columns = 1;
  add_parts(1);
  return NULL;
}

/* Some C libraries give a thread 128 KiB. */
static void a_small_stack_is_enough(void **state) {
  (void)state;
  pthread_attr_t attributes;
  pthread_t thread;
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, 80 << 10), 0);
  assert_int_equal(pthread_create(&thread, &attributes, add_rows, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_operand_finds_its_place),
                                     cmocka_unit_test(a_small_stack_is_enough)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
