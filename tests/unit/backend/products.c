/* Numeric classes of products of bf16 (backend/cpu/product/dot.h): the hardware's instructions give
 * the bits of their emulation, and whole products give those of the sums that the class defines,
 * whatever their shape, storage, scratch and instruction set. */
#include "support/check.h"

#define AC_CPU_ISA base
#include "backend/cpu/product/gemm_pairs.h"
#include "backend/device.h"
#include "core/half.h"
#include "ops/attention/attention.h"
#include "ops/convolution/conv2d.h"
#include "ops/linear/linear.h"
#include "ops/linear/matmul.h"
#include "ops/loss/linear_cross_entropy.h"

#include <math.h>
#include <stdlib.h>

static uint32_t seed = 1;

static uint32_t draw(void) {
  seed = seed * 1664525u + 1013904223u;
  return seed >> 8;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* How large values are: near 1; such that products come near the least normal number and below, or
 * near the largest; any value, also infinities and NaNs. */
typedef enum range { NEAR_ONE, SMALL, LARGE, ANY, RANGES } range;

static uint16_t draw_bf16(range range) {
  uint32_t bits = draw() & 0xffff, exponent = draw();
  uint32_t low = range == NEAR_ONE ? 124 + exponent % 6
                 : range == SMALL  ? 58 + exponent % 12
                                   : 186 + exponent % 8;
  if (range == SMALL && exponent % 31 == 0) low = 0; /* subnormal */
  return (uint16_t)(range == ANY ? bits : (bits & 0x807f) | low << 7);
}

static bool same(float x, float y) {
  return ac_float_bits(x) == ac_float_bits(y) || (isnan(x) && isnan(y));
}

/* ---- hardware against emulation -------------------------------------------------------------- */

enum {
  STEPS = 3,
  PACKED = STEPS * AC_DOT_STRIP * AC_DOT_PAIRS,
  SUMS = AC_DOT_STRIP * AC_DOT_STRIP
};

typedef struct strips {
  _Alignas(64) uint32_t a[PACKED], b[PACKED];
  _Alignas(64) float sums[SUMS], expected[SUMS];
} strips;

static void fill(strips *s, range range) {
  for (int i = 0; i < PACKED; i++) {
    s->a[i] = draw_bf16(range) | (uint32_t)draw_bf16(range) << 16;
    s->b[i] = draw_bf16(range) | (uint32_t)draw_bf16(range) << 16;
  }
  for (int i = 0; i < SUMS; i++) {
    uint32_t bits = (uint32_t)draw_bf16(NEAR_ONE) << 16 | (draw() & 0xffff);
    if (range == SMALL) bits = (bits & 0x80ffffffu); /* some subnormal, some just above */
    if (range == ANY) bits = draw() << 8 ^ draw();
    s->sums[i] = s->expected[i] = ac_float_from_bits(bits);
  }
}

static void compare_strips(const ac_dot_class *hardware, const ac_dot_class *emulation, int rows,
                           int columns, range range, bool add) {
  static strips s;
  fill(&s, range);
  int64_t steps = 1 + draw() % STEPS;
  ac_dot_begin(hardware); /* twice, as around products and around each */
  ac_dot_begin(hardware);
  ac_dot_end(hardware);
  const ac_dot_lines lines = {(const char *)s.b, AC_DOT_LINE, 1, 0, draw() % 100};
  ac_dot_fetch fetch = {lines, {lines, lines}, 0};
  hardware->multiply(steps, rows, columns, s.a, s.b, s.sums, AC_DOT_STRIP, add, &fetch);
  ac_dot_end(hardware);
  if (fetch.written.count + fetch.read[0].count + fetch.read[1].count != 0)
    fail_msg("%s, %d x %d, %lld steps: not all of 3 x %lld lines were asked for", hardware->text,
             rows, columns, (long long)steps, (long long)lines.count);
  emulation->multiply(steps, rows, columns, s.a, s.b, s.expected, AC_DOT_STRIP, add, NULL);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      if (!same(s.sums[i * AC_DOT_STRIP + j], s.expected[i * AC_DOT_STRIP + j]))
        fail_msg("%s, %d x %d, %lld steps: [%d][%d] is %a, emulated %a", hardware->text, rows,
                 columns, (long long)steps, i, j, (double)s.sums[i * AC_DOT_STRIP + j],
                 (double)s.expected[i * AC_DOT_STRIP + j]);
}

/* Lines are asked for row by row, from any of a row's on. */
static void lines_in_rows(void **state) {
  (void)state;
  static const char memory[4 * 1000];
  static const int expected[] = {64, 128, 1000, 1064, 1128, 2000, 2064};
  ac_dot_lines lines = {memory, 1000, 3, 1, 7};
  for (int i = 0; i < 7; i++) assert_int_equal(ac_dot_next_line(&lines) - memory, expected[i]);
  assert_int_equal(lines.count, 0);
}

/* Op(B) in a patch, at any address. Of its last step only a few pairs may count. */
static void compare_patches(const ac_dot_class *hardware, const ac_dot_class *emulation, int rows,
                            int columns, range range, bool add) {
  enum { MOST_DISTANCE = 200, MOST_OFFSET = 900, MOST_SECOND = 500 };
  static uint32_t patch[MOST_OFFSET + AC_DOT_PAIRS * MOST_DISTANCE + MOST_SECOND + AC_DOT_LANES];
  static strips s;
  fill(&s, range);
  for (size_t i = 0; i < sizeof patch / sizeof *patch; i++)
    patch[i] = draw_bf16(range) | (uint32_t)draw_bf16(range) << 16;
  int32_t offset[STEPS], of[STEPS];
  for (int i = 0; i < STEPS; i++) offset[i] = (int32_t)(draw() % MOST_OFFSET);
  for (int i = 0; i < STEPS; i++) of[i] = (int32_t)(draw() % STEPS);
  int64_t steps = 1 + draw() % STEPS;
  int pairs = (int)(draw() % AC_DOT_PAIRS);
  int64_t second = draw() % 2 ? AC_DOT_LANES : draw() % MOST_SECOND;
  ac_dot_patch b = {patch, offset, 1 + draw() % MOST_DISTANCE, draw() % 2 ? of : NULL,
                    pairs, second};
  for (int i = 0; pairs && i < AC_DOT_STRIP; i++)
    for (int p = pairs; p < AC_DOT_PAIRS; p++)
      s.a[(ac_dot_step_of(&b, steps - 1) * AC_DOT_STRIP + i) * AC_DOT_PAIRS + p] = 0;
  ac_dot_begin(hardware);
  hardware->convolve(steps, rows, columns, s.a, &b, s.sums, AC_DOT_STRIP, add);
  ac_dot_end(hardware);
  emulation->convolve(steps, rows, columns, s.a, &b, s.expected, AC_DOT_STRIP, add);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      if (!same(s.sums[i * AC_DOT_STRIP + j], s.expected[i * AC_DOT_STRIP + j]))
        fail_msg("%s, %d x %d in a patch: [%d][%d] is %a, emulated %a", hardware->text, rows,
                 columns, i, j, (double)s.sums[i * AC_DOT_STRIP + j],
                 (double)s.expected[i * AC_DOT_STRIP + j]);
}

/* The same where op(A) lies in a patch of halves, at any address: of the emulation, packed. Rows
 * that were not asked for stay as they are. */
static void compare_images(const ac_dot_class *hardware, const ac_dot_class *emulation, int rows,
                           int columns, range range, bool add) {
  enum { MOST_OFFSET = 900, MOST_PLACE = 500, SQUARE = AC_DOT_STRIP * AC_DOT_PAIRS };
  static uint16_t patch[MOST_OFFSET + MOST_PLACE + 2];
  static strips s;
  fill(&s, range);
  for (size_t i = 0; i < sizeof patch / sizeof *patch; i++) patch[i] = draw_bf16(range);
  int64_t steps = 1 + draw() % STEPS;
  int32_t offset[AC_DOT_STRIP], place[STEPS * AC_DOT_PAIRS];
  for (int i = 0; i < rows; i++) offset[i] = (int32_t)(draw() % MOST_OFFSET);
  for (int p = 0; p < STEPS * AC_DOT_PAIRS; p++) place[p] = (int32_t)(draw() % MOST_PLACE);
  for (int i = 0; i < rows; i++)
    for (int p = 0; p < steps * AC_DOT_PAIRS; p++)
      memcpy(&s.a[p / AC_DOT_PAIRS * SQUARE + i * AC_DOT_PAIRS + p % AC_DOT_PAIRS],
             patch + offset[i] + place[p], sizeof *s.a);
  ac_dot_image a = {patch, offset, place};
  ac_dot_begin(hardware);
  hardware->correlate(steps, rows, columns, &a, s.b, s.sums, AC_DOT_STRIP, add);
  ac_dot_end(hardware);
  for (int i = rows * AC_DOT_STRIP; i < SUMS; i++)
    if (ac_float_bits(s.sums[i]) != ac_float_bits(s.expected[i]))
      fail_msg("%s, %d x %d of an image: [%d] has changed", hardware->text, rows, columns, i);
  emulation->multiply(steps, rows, columns, s.a, s.b, s.expected, AC_DOT_STRIP, add, NULL);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      if (!same(s.sums[i * AC_DOT_STRIP + j], s.expected[i * AC_DOT_STRIP + j]))
        fail_msg("%s, %d x %d of an image: [%d][%d] is %a, emulated %a", hardware->text, rows,
                 columns, i, j, (double)s.sums[i * AC_DOT_STRIP + j],
                 (double)s.expected[i * AC_DOT_STRIP + j]);
}

static void hardware_gives_the_bits_of_its_emulation(void **state) {
  (void)state;
  const ac_dot_class *hardware, *emulation;
  for (int class = 0; ac_dot_class_at(class, &hardware, &emulation); class ++) {
    print_message("%s: %s\n", emulation->name, hardware ? "in hardware" : "not on this machine");
    for (int i = 0; hardware && i < 400; i++) {
      int rows = 1 + (int)(draw() % AC_DOT_STRIP), columns = 1 + (int)(draw() % AC_DOT_STRIP);
      compare_strips(hardware, emulation, rows, columns, (range)(i % RANGES), i / RANGES % 2);
      compare_patches(hardware, emulation, rows, columns, (range)(i % RANGES), i / RANGES % 2);
      if (hardware->correlate)
        compare_images(hardware, emulation, rows, columns, (range)(i % RANGES), i / RANGES % 2);
    }
  }
}

/* ---- whole products -------------------------------------------------------------------------- */

static uint16_t *draw_matrix(int64_t count, range range) {
  uint16_t *x = aligned_alloc(64, (size_t)(count * 2 + 63) / 64 * 64);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) x[i] = draw_bf16(range);
  return x;
}

static ac_operand matrix(void *data, ac_dtype dtype, int64_t rows, int64_t columns) {
  ac_operand x = {.data = data, .dtype = dtype, .rank = 2, .count = rows * columns};
  x.dim[0] = rows, x.dim[1] = columns;
  return x;
}

typedef struct product {
  int64_t m, n, k;
  bool transpose_a, transpose_b, add;
  ac_dtype c_dtype;
} product;

/* Element (i, j) as the class defines it, from one row and one column of a strip. */
static float expected_sum(const ac_dot_class *class, const product *p, const uint16_t *a,
                          const uint16_t *b, int64_t i, int64_t j) {
  int64_t steps = (p->k + AC_DOT_STEP - 1) / AC_DOT_STEP;
  uint32_t *x = calloc((size_t)steps * AC_DOT_STRIP * AC_DOT_PAIRS, sizeof *x),
           *y = calloc((size_t)steps * AC_DOT_STRIP * AC_DOT_PAIRS, sizeof *y);
  assert_non_null(x);
  assert_non_null(y);
  for (int64_t k = 0; k < p->k; k++) {
    int64_t step = k / AC_DOT_STEP, pair = k % AC_DOT_STEP / 2;
    int shift = k % 2 ? 16 : 0;
    x[step * AC_DOT_STRIP * AC_DOT_PAIRS + pair] |=
        (uint32_t)a[p->transpose_a ? k * p->m + i : i * p->k + k] << shift;
    y[(step * AC_DOT_PAIRS + pair) * AC_DOT_STRIP] |=
        (uint32_t)b[p->transpose_b ? j * p->k + k : k * p->n + j] << shift;
  }
  float sum;
  class->multiply(steps, 1, 1, x, y, &sum, AC_DOT_STRIP, false, NULL);
  free(x);
  free(y);
  return sum;
}

static ac_device *open_with(const char *class, int threads) {
  ac_device *device;
  setenv("ACCRUE_PRODUCTS", class, 1);
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = threads}));
  unsetenv("ACCRUE_PRODUCTS");
  return device;
}

static void check_product(const ac_dot_class *class, const product *p, int threads) {
  range range = draw() % 4 ? NEAR_ONE : SMALL;
  uint16_t *a = draw_matrix(p->m * p->k, range), *b = draw_matrix(p->k * p->n, range);
  size_t bytes = (size_t)(p->m * p->n) * ac_dtype_bytes(p->c_dtype);
  char *c = aligned_alloc(64, (bytes + 63) / 64 * 64), *before = malloc(bytes);
  assert_non_null(c);
  assert_non_null(before);
  for (int64_t i = 0; i < p->m * p->n; i++)
    ac_float_write(p->c_dtype, c, i, ac_bf16_to_float(draw_bf16(range)));
  memcpy(before, c, bytes);

  const ac_run_state state = {.training = true, .loss_scale = 1};
  const ac_matmul_attributes attributes = {.transpose_a = p->transpose_a,
                                           .transpose_b = p->transpose_b};
  ac_op_args args = {.op = AC_OP_matmul, .attributes = &attributes, .run = &state};
  args.in[0] = p->transpose_a ? matrix(a, AC_BF16, p->k, p->m) : matrix(a, AC_BF16, p->m, p->k);
  args.in[1] = p->transpose_b ? matrix(b, AC_BF16, p->n, p->k) : matrix(b, AC_BF16, p->k, p->n);
  args.out[0] = matrix(c, p->c_dtype, p->m, p->n);
  args.add[0] = p->add;
  ac_device *device = open_with(class->name, threads);
  args.workspace_bytes = device->backend->workspace(device->state, &args);
  args.workspace = aligned_alloc(64, args.workspace_bytes / 64 * 64 + 64);
  assert_non_null(args.workspace);
  assert_ok(device->backend->run(device->state, &args));

  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      if (p->m * p->n > 400 && draw() % (uint32_t)(p->m * p->n / 200)) continue;
      int64_t at = i * p->n + j;
      float sum = expected_sum(class, p, a, b, i, j), result;
      if (p->add) sum += ac_float_read(p->c_dtype, before, at);
      ac_float_write(p->c_dtype, before, at, sum);
      sum = ac_float_read(p->c_dtype, before, at);
      result = ac_float_read(p->c_dtype, c, at);
      if (!same(result, sum))
        fail_msg("%s, %d threads, [%lld, %lld, %lld]%s%s%s into %s: [%lld][%lld] is %a, not %a",
                 class->text, threads, (long long)p->m, (long long)p->n, (long long)p->k,
                 p->transpose_a ? ", A transposed" : "", p->transpose_b ? ", B transposed" : "",
                 p->add ? ", added" : "", ac_dtype_name(p->c_dtype), (long long)i, (long long)j,
                 (double)result, (double)sum);
    }
  ac_device_close(device);
  free(args.workspace);
  free(a);
  free(b);
  free(c);
  free(before);
}

/* Sizes around strips, panels, steps, their parts and depths; one that has several blocks of each.
 */
static void products_are_the_sums_that_their_class_defines(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 1, 1},   {1, 33, 31},  {17, 16, 32},  {33, 65, 33},
                                     {31, 7, 63}, {64, 129, 2}, {33, 64, 257}, {40, 130, 830}};
  static const char *const isas[] = {"base", "v3", "v4"};
  const ac_dot_class *hardware, *emulation;
  for (int class = 0; ac_dot_class_at(class, &hardware, &emulation); class ++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int kind = 0; kind < 16; kind++) {
        setenv("ACCRUE_ISA", isas[(kind + (int)s) % 3], 1);
        check_product(emulation,
                      &(product){sizes[s][0], sizes[s][1], sizes[s][2], kind & 1, kind & 2,
                                 kind & 4, kind & 8 ? AC_F32 : AC_BF16},
                      1 + (int)(draw() % 3));
      }
  unsetenv("ACCRUE_ISA");
}

/* ---- scratch --------------------------------------------------------------------------------- */

enum { GUARD = 64 };

/* The product with `room` bytes of scratch; it touches no further bytes. */
static void multiply_within(const ac_cpu_context *context, const ac_gemm *gemm, const float *bias,
                            uint64_t room) {
  char *scratch = aligned_alloc(64, (size_t)(room + GUARD + 63) / 64 * 64);
  assert_non_null(scratch);
  memset(scratch, 0x5a, (size_t)room + GUARD);
  ac_cpu_gemm_pairs(context, gemm, bias, scratch, room);
  for (int i = 0; i < GUARD; i++) assert_int_equal(scratch[room + (uint64_t)i], 0x5a);
  free(scratch);
}

/* Blocks are what scratch has room for: more of them, the same bits. */
static void less_scratch_gives_the_same_bits(void **state) {
  (void)state;
  enum { M = 70, N = 290, K = 1100 };
  const ac_cpu_context context = {.threads = 1, .dot = ac_dot_choose("vdpbf16ps")};
  uint16_t *a = draw_matrix(M * K, NEAR_ONE), *b = draw_matrix(K * N, NEAR_ONE);
  static uint16_t c[M * N], expected[M * N];
  static float bias[N];
  for (int i = 0; i < N; i++) bias[i] = ac_bf16_to_float(draw_bf16(NEAR_ONE));
  ac_gemm gemm = {.m = M,
                  .n = N,
                  .k = K,
                  .alpha = 0.5f,
                  .a = a,
                  .b = b,
                  .c = c,
                  .lda = K,
                  .ldb = N,
                  .ldc = N,
                  .a_dtype = AC_BF16,
                  .b_dtype = AC_BF16,
                  .c_dtype = AC_BF16};
  const uint64_t full = ac_cpu_gemm_pairs_scratch(&gemm);
  multiply_within(&context, &gemm, bias, full);
  memcpy(expected, c, sizeof c);
  for (int part = 2; part <= 4; part++) {
    memset(c, 0x5a, sizeof c);
    multiply_within(&context, &gemm, bias, full * (uint64_t)(6 - part) / 5);
    assert_memory_equal(c, expected, sizeof c);
  }
  free(a);
  free(b);
}

static ac_gemm sized(int64_t m, int64_t n, int64_t k) {
  return (ac_gemm){.m = m, .n = n, .k = k, .a_dtype = AC_BF16, .b_dtype = AC_BF16};
}

/* A plan counts the scratch of its largest micro-batch. The rows may be m or k of a product. */
static void smaller_products_take_no_more_scratch(void **state) {
  (void)state;
  static const int64_t sizes[] = {1,   31,  32,  33,  64,  96,  127,  129,  160,  192,
                                  255, 289, 511, 512, 513, 544, 1023, 1024, 1025, 5000};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < SIZES; i++)
    for (int j = 0; j < SIZES; j++) {
      uint64_t below[3] = {0};
      for (int l = 0; l < SIZES; l++) {
        const ac_gemm products[] = {sized(sizes[l], sizes[i], sizes[j]),
                                    sized(sizes[i], sizes[l], sizes[j]),
                                    sized(sizes[i], sizes[j], sizes[l])};
        for (int size = 0; size < 3; size++) {
          uint64_t bytes = ac_cpu_gemm_pairs_scratch(&products[size]);
          if (bytes < below[size])
            fail_msg("[%lld, %lld, %lld] takes %llu bytes, with a smaller %c %llu",
                     (long long)products[size].m, (long long)products[size].n,
                     (long long)products[size].k, (unsigned long long)bytes, "mnk"[size],
                     (unsigned long long)below[size]);
          below[size] = bytes;
        }
      }
    }
}

static ac_operand image(int64_t samples, int64_t channels, int64_t size) {
  ac_operand x = {.dtype = AC_BF16, .rank = 4, .count = samples * channels * size * size};
  x.dim[0] = samples, x.dim[1] = channels, x.dim[2] = x.dim[3] = size;
  return x;
}

static uint64_t convolution_bytes(ac_device *device, bool input_gradient, int64_t samples,
                                  int64_t channels, int64_t out, int64_t size,
                                  const ac_conv2d_attributes *a, int64_t kernel) {
  int64_t size_out = (size + 2 * a->padding[0] - kernel) / a->stride[0] + 1;
  ac_operand x = image(samples, channels, size), y = image(samples, out, size_out);
  const ac_run_state state = {.training = true, .loss_scale = 1};
  ac_op_args args = {
      .op = input_gradient ? AC_OP_conv_transpose2d : AC_OP_conv2d, .attributes = a, .run = &state};
  args.in[0] = input_gradient ? y : x;
  args.in[1] = image(out, channels, kernel);
  args.out[0] = input_gradient ? x : y;
  return device->backend->workspace(device->state, &args);
}

/* Nor do convolutions of fewer samples: a last micro-batch may have any number. */
static void smaller_convolutions_take_no_more_workspace(void **state) {
  (void)state;
  ac_device *device = open_with("tiles", 2);
  for (int i = 0; i < 3000; i++) {
    static const int64_t widths[] = {2, 3, 4, 17, 48, 64, 96, 200, 512};
    int64_t channels = widths[draw() % 9], out = widths[draw() % 9], kernel = 1 + 2 * (draw() % 3);
    int64_t size = kernel + draw() % 50, stride = 1 + draw() % 2;
    const ac_conv2d_attributes a = {.stride = {stride, stride},
                                    .padding = {kernel / 2, kernel / 2},
                                    .dilation = {1, 1},
                                    .groups = 1};
    uint64_t below[2] = {0};
    for (int64_t samples = 1; samples <= 40; samples++)
      for (int gradient = 0; gradient < 2; gradient++) {
        uint64_t bytes =
            convolution_bytes(device, gradient, samples, channels, out, size, &a, kernel);
        if (bytes < below[gradient])
          fail_msg(
              "%lld samples of %lld to %lld channels, %lld x %lld, kernel %lld, stride %lld%s: "
              "%llu bytes, %llu with fewer",
              (long long)samples, (long long)channels, (long long)out, (long long)size,
              (long long)size, (long long)kernel, (long long)stride,
              gradient ? ", input gradient" : "", (unsigned long long)bytes,
              (unsigned long long)below[gradient]);
        below[gradient] = bytes;
      }
  }
  ac_device_close(device);
}

/* ---- ops that round what they compute -------------------------------------------------------- */

static ac_operand draw_operand(ac_dtype dtype, int64_t rows, int64_t columns) {
  ac_operand x = matrix(NULL, dtype, rows, columns);
  size_t bytes = (size_t)x.count * ac_dtype_bytes(dtype);
  x.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  assert_non_null(x.data);
  for (int64_t i = 0; i < x.count; i++)
    if (dtype == AC_I32) ((int32_t *)x.data)[i] = (int32_t)(draw() % 8);
    else ac_float_write(dtype, x.data, i, ac_bf16_to_float(draw_bf16(NEAR_ONE)));
  return x;
}

static void run_op(ac_op_args *args, int threads) {
  ac_device *device = open_with("tiles", threads);
  args->workspace_bytes = device->backend->workspace(device->state, args);
  args->workspace = aligned_alloc(64, args->workspace_bytes / 64 * 64 + 64);
  assert_non_null(args->workspace);
  assert_ok(device->backend->run(device->state, args));
  ac_device_close(device);
  free(args->workspace);
}

/* Runs the op once with each number of threads and, where they are named, instruction set; its
 * outputs have the same bits each time. */
static void compare_runs(ac_op_args *args, int runs, const int *threads, const char *const *isas) {
  enum { MOST = 1 << 18 };
  static char first[AC_MAX_OUTPUTS][MOST];
  for (int i = 0; i < runs; i++) {
    if (isas) setenv("ACCRUE_ISA", isas[i], 1);
    run_op(args, threads[i]);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      size_t bytes = (size_t)args->out[j].count * ac_dtype_bytes(args->out[j].dtype);
      assert_true(bytes <= MOST);
      if (i > 0) assert_memory_equal(args->out[j].data, first[j], bytes);
      else if (bytes) memcpy(first[j], args->out[j].data, bytes);
    }
  }
  if (isas) unsetenv("ACCRUE_ISA");
}

static void compare_teams(ac_op_args *args) {
  compare_runs(args, 2, (const int[]){1, 3}, NULL);
}

static void free_operands(ac_op_args *args) {
  for (int i = 0; i < AC_MAX_INPUTS; i++) free(args->in[i].data);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) free(args->out[j].data);
}

static ac_operand sequence(ac_dtype dtype, int64_t length, int64_t columns) {
  ac_operand x = draw_operand(dtype, length, columns);
  x.rank = 3, x.dim[0] = 1, x.dim[1] = length, x.dim[2] = columns;
  return x;
}

static void any_team_gives_the_same_bits(void **state) {
  (void)state;
  enum { T = 70, C = 36, HEADS = 3, CLASSES = 40 };
  const ac_run_state run = {.training = true, .loss_scale = 1};
  const ac_attention_attributes attention = {
      .heads = HEADS, .scale = 0.05f, .key_heads = HEADS, .causal = 1, .per_sample = 1};
  ac_op_args args = {.op = AC_OP_attention, .attributes = &attention, .run = &run};
  args.in[0] = sequence(AC_BF16, T, 3 * C);
  args.out[0] = sequence(AC_BF16, T, C);
  args.out[1] = sequence(AC_F32, HEADS, T);
  compare_teams(&args);

  ac_op_args gradient = {.op = AC_OP_attention_gradient, .attributes = &attention, .run = &run};
  gradient.in[0] = sequence(AC_BF16, T, C);
  gradient.in[1] = args.in[0], gradient.in[4] = args.out[0], gradient.in[5] = args.out[1];
  gradient.out[0] = sequence(AC_BF16, T, 3 * C);
  compare_teams(&gradient);
  free_operands(&gradient);

  const ac_linear_cross_entropy_attributes head = {.layout = AC_OUT_IN,
                                                   .chunk_bytes = 33 * CLASSES * 4};
  args = (ac_op_args){.op = AC_OP_linear_cross_entropy_gradient, .attributes = &head, .run = &run};
  args.in[0] = draw_operand(AC_BF16, T, C);
  args.in[1] = draw_operand(AC_BF16, CLASSES, C);
  args.in[2] = draw_operand(AC_I32, T, 1);
  args.out[0] = draw_operand(AC_BF16, T, C);
  args.out[1] = draw_operand(AC_F32, CLASSES, C);
  args.out[2] = draw_operand(AC_F32, AC_LOSS_SUMS, 1);
  compare_teams(&args);
  free_operands(&args);
}

static ac_operand draw_images(int64_t samples, int64_t channels, int64_t height, int64_t width) {
  ac_operand x = draw_operand(AC_BF16, samples * channels, height * width);
  x.rank = 4;
  x.dim[0] = samples, x.dim[1] = channels, x.dim[2] = height, x.dim[3] = width;
  return x;
}

typedef struct convolution {
  int64_t samples, in, out, height, width, groups, stride, dilation;
} convolution;

/* 3 x 3, with a padding that is the dilation. */
static void compare_convolution(const convolution *c) {
  static const int threads[] = {1, 3, 2};
  static const char *const isas[] = {"base", "v4", "v3"};
  const ac_run_state run = {.training = true, .loss_scale = 1};
  const ac_conv2d_attributes attributes = {.stride = {c->stride, c->stride},
                                           .padding = {c->dilation, c->dilation},
                                           .dilation = {c->dilation, c->dilation},
                                           .groups = c->groups};
  int64_t height = (c->height - 1) / c->stride + 1, width = (c->width - 1) / c->stride + 1;
  ac_op_args args = {.op = AC_OP_conv2d, .attributes = &attributes, .run = &run};
  args.in[0] = draw_images(c->samples, c->in, c->height, c->width);
  args.in[1] = draw_images(c->out, c->in / c->groups, 3, 3);
  args.out[0] = draw_images(c->samples, c->out, height, width);
  compare_runs(&args, 3, threads, isas);
  ac_op_args gradient = args;
  gradient.op = AC_OP_conv_transpose2d;
  gradient.in[0] = args.out[0], gradient.out[0] = args.in[0];
  compare_runs(&gradient, 3, threads, isas);
  free_operands(&args);
}

/* Spread out; in planes, in two fillings; in planes of groups; by rows of outputs; with samples
 * next to each other, in fewer sets than threads, with a stride, in groups. */
static void any_team_and_instruction_set_convolves_with_the_same_bits(void **state) {
  (void)state;
  static const convolution convolutions[] = {
      {3, 37, 35, 6, 9, 1, 1, 1},  {1, 40, 9, 10, 200, 1, 2, 1}, {2, 64, 18, 13, 20, 2, 1, 2},
      {2, 32, 32, 6, 32, 1, 1, 2}, {5, 32, 7, 4, 13, 1, 1, 1},   {15, 61, 72, 4, 5, 1, 1, 1},
      {32, 32, 31, 7, 5, 1, 2, 1}, {30, 64, 64, 4, 4, 2, 1, 1}};
  for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++)
    compare_convolution(&convolutions[i]);
}

/* A sum of zeros and what it is added to, a negative zero, is a positive one. Rows of outputs that
 * meet no tap follow the same rule, wherever a thread's share of them begins. */
static void any_team_adds_zeros_with_the_same_bits(void **state) {
  (void)state;
  enum { SAMPLES = 16, CHANNELS = 32, WIDTH = 8, ROWS = 3, STRIDE = 8 };
  const ac_run_state run = {.training = true, .loss_scale = 1};
  const ac_conv2d_attributes attributes = {
      .stride = {STRIDE, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
  ac_op_args args = {.op = AC_OP_conv_transpose2d, .attributes = &attributes, .run = &run};
  args.in[0] = draw_images(SAMPLES, CHANNELS, ROWS, WIDTH);
  args.in[1] = draw_images(CHANNELS, CHANNELS, 3, 3);
  args.out[0] = draw_images(SAMPLES, CHANNELS, (ROWS - 1) * STRIDE + 1, WIDTH);
  args.add[0] = true;
  memset(args.in[0].data, 0, (size_t)args.in[0].count * sizeof(uint16_t));
  uint16_t *out = args.out[0].data;
  for (int threads = 1; threads <= 5; threads++) {
    for (int64_t i = 0; i < args.out[0].count; i++) out[i] = 0x8000;
    run_op(&args, threads);
    for (int64_t i = 0; i < args.out[0].count; i++) assert_int_equal(out[i], 0);
  }
  free_operands(&args);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Each class by name; another name finds none. */
static void a_class_is_found_by_its_name(void **state) {
  (void)state;
  const ac_dot_class *hardware, *emulation;
  for (int class = 0; ac_dot_class_at(class, &hardware, &emulation); class ++) {
    assert_ptr_equal(ac_dot_choose(emulation->name), hardware ? hardware : emulation);
    ac_device *device = open_with(emulation->name, 1);
    assert_string_equal(device->info.bf16_products, (hardware ? hardware : emulation)->text);
    ac_device_close(device);
  }
  assert_null(ac_dot_choose("widened"));
  ac_device *device = open_with("widened", 1);
  assert_string_equal(device->info.bf16_products, "as floats");
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_in_rows),
      cmocka_unit_test(a_class_is_found_by_its_name),
      cmocka_unit_test(hardware_gives_the_bits_of_its_emulation),
      cmocka_unit_test(products_are_the_sums_that_their_class_defines),
      cmocka_unit_test(less_scratch_gives_the_same_bits),
      cmocka_unit_test(smaller_products_take_no_more_scratch),
      cmocka_unit_test(smaller_convolutions_take_no_more_workspace),
      cmocka_unit_test(any_team_gives_the_same_bits),
      cmocka_unit_test(any_team_and_instruction_set_convolves_with_the_same_bits),
      cmocka_unit_test(any_team_adds_zeros_with_the_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
