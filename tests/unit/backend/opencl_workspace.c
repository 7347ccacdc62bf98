/* What convolutions and attention spread out for a GPU's matrix unit: workspace for a smaller batch
 * is never more, and it stays within bounds that follow from the op's own operands. */
#include "support/devices.h"

#ifdef AC_HAVE_OPENCL
#include "backend/device.h"
#include "backend/opencl/product/gemm.h"
#include "ops/attention/attention.h"
#include "ops/convolution/conv2d.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BATCH = 9, SHAPES = 3000, MIB = 1 << 20 };

/* One that takes all classes; nothing is run on it. */
static ac_device *open_emulated(bool emulated) {
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  cl->unit = ac_cl_unit_at(0);
  cl->unit_emulated = emulated;
  memset(cl->unit_classes, AC_CL_UNIT_TAKES, sizeof cl->unit_classes);
  return device;
}

static uint32_t seed = 1;

/* From least to most, small ones as often as large ones. */
static int64_t draw(int64_t least, int64_t most) {
  seed = seed * 1664525u + 1013904223u;
  const uint32_t bits = seed >> 8;
  const int64_t range = (most - least + 1) >> (bits % 4 * 2);
  return least + (range > 0 ? (int64_t)(bits >> 4) % range : 0);
}

static ac_operand tensor(int rank, const int64_t *dim) {
  ac_operand x = {.dtype = AC_BF16, .rank = rank, .count = 1};
  for (int i = 0; i < rank; i++) x.dim[i] = dim[i], x.count *= dim[i];
  return x;
}

static const ac_run_state state = {.training = true, .batch = 1, .loss_scale = 1};

static uint64_t bytes_of(const ac_device *device, const ac_op_args *args) {
  return device->backend->workspace(device->state, args);
}

/* What is spread out, in addition to what one product of the least size takes. */
static void check_bounds(uint64_t bytes, uint64_t least_product, const ac_op_args *args,
                         bool emulated) {
  uint64_t operands = 0;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (args->in[i].dtype != AC_F32) operands += 2 * (uint64_t)args->in[i].count;
  for (int i = 0; i < AC_MAX_OUTPUTS; i++) operands += 2 * (uint64_t)args->out[i].count;
  const uint64_t unit = emulated ? (uint64_t)2 << 10 : (uint64_t)MIB,
                 least = emulated ? 4 * unit : unit;
  uint64_t most = 2 * operands < least ? least : 2 * operands;
  if (most > 32 * unit) most = 32 * unit;
  if (bytes > most + least_product)
    fail_msg("%s: %llu bytes of workspace for operands of %llu", ac_op_name(args->op),
             (unsigned long long)bytes, (unsigned long long)operands);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

typedef struct convolution {
  ac_conv2d_attributes a;
  int64_t in, out, size, kernel; /* channels of a group */
} convolution;

static convolution draw_convolution(void) {
  convolution c = {.in = draw(2, 600), .out = draw(16, 600), .kernel = draw(1, 7)};
  c.a.groups = (int32_t)draw(1, 4);
  c.size = draw(c.kernel, 60);
  for (int i = 0; i < 2; i++) {
    c.a.stride[i] = (int32_t)draw(1, 3);
    c.a.dilation[i] = 1;
  }
  return c;
}

static ac_op_args convolution_of(const convolution *c, ac_op op, int64_t batch) {
  const int64_t g = c->a.groups, to = (c->size - c->kernel) / c->a.stride[0] + 1,
                across = (c->size - c->kernel) / c->a.stride[1] + 1;
  const ac_operand x = tensor(4, (int64_t[]){batch, g * c->in, c->size, c->size}),
                   y = tensor(4, (int64_t[]){batch, g * c->out, to, across}),
                   w = tensor(4, (int64_t[]){g * c->out, c->in, c->kernel, c->kernel});
  ac_op_args args = {.op = op, .attributes = &c->a, .run = &state, .in = {x, w}, .out = {y}};
  if (op == AC_OP_conv_transpose2d) args.in[0] = y, args.out[0] = x;
  if (op == AC_OP_conv2d_weight_gradient) {
    args.in[1] = y;
    args.out[0] = w;
    args.out[0].dtype = AC_F32;
  }
  return args;
}

/* 64 positions of columns of x or dy, or both; the weights turned, or 64 sets of partial sums, of
 * 16 MiB at most. */
static uint64_t least_of_convolution(const convolution *c) {
  const uint64_t area = (uint64_t)(c->kernel * c->kernel),
                 channels = (uint64_t)((c->in + c->out) * c->a.groups);
  return 2 * 64 * channels * (area + 1) + 2 * (uint64_t)(c->a.groups * c->in * c->out) * area +
         16 * MIB + 1024;
}

static void check_convolutions(const ac_device *device, bool emulated) {
  static const ac_op ops[] = {AC_OP_conv2d, AC_OP_conv_transpose2d, AC_OP_conv2d_weight_gradient};
  for (int number = 0; number < SHAPES; number++) {
    const convolution c = draw_convolution();
    const ac_op op = ops[number % 3];
    uint64_t before = 0;
    for (int64_t batch = 1; batch <= MOST_BATCH; batch++) {
      const ac_op_args args = convolution_of(&c, op, batch);
      const uint64_t bytes = bytes_of(device, &args);
      if (bytes < before)
        fail_msg("%s of %lld to %lld, %lld x %lld of %lld: %llu bytes for %lld, %llu for one less",
                 ac_op_name(op), (long long)c.in, (long long)c.out, (long long)c.kernel,
                 (long long)c.kernel, (long long)c.size, (unsigned long long)bytes,
                 (long long)batch, (unsigned long long)before);
      if (c.in >= 16) assert_true(bytes > 0);
      check_bounds(bytes, least_of_convolution(&c), &args, emulated);
      before = bytes;
    }
  }
}

/* ---- attention ------------------------------------------------------------------------------- */

static ac_op_args attention_of(const ac_attention_attributes *a, int64_t positions, int64_t size,
                               bool gradient, int64_t batch) {
  const int64_t width = a->heads * size;
  const ac_operand qkv = tensor(3, (int64_t[]){batch, positions, 3 * width}),
                   y = tensor(3, (int64_t[]){batch, positions, width});
  ac_operand lse = tensor(3, (int64_t[]){batch, a->heads, positions});
  lse.dtype = AC_F32;
  ac_op_args args = {.op = gradient ? AC_OP_attention_gradient : AC_OP_attention,
                     .attributes = a,
                     .run = &state,
                     .in = {qkv},
                     .out = {y, lse}};
  if (gradient) {
    args.in[0] = y, args.in[1] = qkv, args.in[4] = y, args.in[5] = lse;
    args.out[0] = qkv;
    args.out[1] = (ac_operand){.count = 0};
  }
  return args;
}

/* The scores of 64 queries, and sums. */
static uint64_t least_of_attention(int64_t positions, int64_t size) {
  const uint64_t t = (uint64_t)positions, pitch = (t + 7) / 8 * 8, rows = t < 64 ? t : 64;
  return 12 * rows * pitch + 8 * t * (uint64_t)size;
}

static void check_attention(const ac_device *device, bool emulated) {
  for (int number = 0; number < SHAPES; number++) {
    const int32_t heads = (int32_t)draw(1, 40);
    const ac_attention_attributes a = {
        .heads = heads, .scale = 1, .key_heads = heads, .causal = 1, .per_sample = 1};
    const int64_t positions = draw(64, 4000), size = draw(1, 256);
    const bool gradient = number % 2;
    uint64_t before = 0;
    for (int64_t batch = 1; batch <= MOST_BATCH; batch++) {
      const ac_op_args args = attention_of(&a, positions, size, gradient, batch);
      const uint64_t bytes = bytes_of(device, &args);
      if (bytes < before)
        fail_msg("%s of %lld positions, %d heads of %lld: %llu bytes for %lld, %llu for one less",
                 ac_op_name(args.op), (long long)positions, (int)a.heads, (long long)size,
                 (unsigned long long)bytes, (long long)batch, (unsigned long long)before);
      assert_true(bytes > 0);
      check_bounds(bytes, least_of_attention(positions, size), &args, emulated);
      before = bytes;
    }
  }
}

static void test_workspaces(void **unused) {
  (void)unused;
  for (int emulated = 0; emulated < 2; emulated++) {
    ac_device *device = open_emulated(emulated);
    check_convolutions(device, emulated);
    check_attention(device, emulated);
    ac_device_close(device);
  }
}

/* Nothing is too little where it is not known which way an op goes. */
static void test_what_is_not_known(void **unused) {
  (void)unused;
  assert_int_equal(ac_cl_unit_bytes(AC_OK, true, 7, 5), 5);
  assert_int_equal(ac_cl_unit_bytes(AC_OK, false, 7, 9), 7);
  assert_int_equal(ac_cl_unit_bytes(AC_ERROR_DEVICE, false, 7, 9), 9);
  assert_int_equal(ac_cl_unit_bytes(AC_ERROR_DEVICE, true, 7, 5), 7);
}
#else
static void test_what_is_not_known(void **unused) {
  (void)unused;
  skip();
}

static void test_workspaces(void **unused) {
  (void)unused;
  skip();
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_workspaces),
                                     cmocka_unit_test(test_what_is_not_known)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
