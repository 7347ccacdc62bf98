/* What ops of the OpenCL backend store their own factors in: Muon its matrices and the head the
 * gradients of its logits in bf16, where the matrix unit takes the products, to the bit. */
#include "support/devices.h"

#ifdef AC_HAVE_OPENCL
#include "backend/device.h"
#include "backend/opencl/product/gemm.h"
#include "core/align.h"
#include "core/half.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/update/muon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static ac_device *open_emulated(void) {
  for (int i = 0; ac_cl_unit_at(i); i++) {
    ac_device *device = open_opencl_with(ac_cl_unit_at(i)->name);
    const ac_opencl *cl = device->state;
    if (cl->unit_emulated) return device;
    ac_device_close(device);
  }
  fail_msg("every unit is there");
  return NULL;
}

/* No class but those that are known is taken. */
static bool refuse(const ac_cl_tile *tile, void *result, size_t bytes) {
  (void)result, (void)bytes;
  return tile != NULL;
}

/* That class of products, and no other from now on. */
static void know(ac_device *device, ac_cl_product product) {
  ac_opencl *cl = device->state;
  bool takes;
  assert_ok(ac_cl_unit_takes_all(cl, AC_BF16, &product, 1, &takes));
  assert_true(takes);
  cl->distort = refuse;
}

static ac_operand operand(ac_dtype dtype, int64_t rows, int64_t columns) {
  const int64_t count = rows * (columns ? columns : 1);
  return (ac_operand){
      .dtype = dtype, .rank = columns ? 2 : 1, .dim = {rows, columns}, .count = count};
}

/* Runs it on what `in` and `out` hold, of outputs what they are to begin with. */
static void run(ac_device *device, ac_op_args *args, void *const *in, void *const *out) {
  enum { MOST = AC_MAX_INPUTS + AC_MAX_OUTPUTS + 1 };
  const ac_backend *backend = device->backend;
  void *view[MOST] = {NULL}, *chunk;
  uint64_t offset[MOST], total = 0, bytes[MOST] = {0};
  for (int i = 0; i < MOST; i++) {
    const ac_operand *x = i < AC_MAX_INPUTS ? &args->in[i] : &args->out[i - AC_MAX_INPUTS];
    offset[i] = total;
    if (i == MOST - 1) bytes[i] = args->workspace_bytes = backend->workspace(device->state, args);
    else bytes[i] = (uint64_t)x->count * ac_dtype_bytes(x->dtype);
    total = ac_align(total + bytes[i], device->info.alignment);
  }
  assert_ok(ac_device_allocate(device, total, &chunk));
  for (int i = 0; i < MOST; i++) {
    if (!bytes[i]) continue;
    assert_ok(backend->view(device->state, chunk, offset[i], bytes[i], &view[i]));
    void *data = i < AC_MAX_INPUTS ? in[i] : i < MOST - 1 ? out[i - AC_MAX_INPUTS] : NULL;
    if (data) assert_ok(backend->upload(device->state, view[i], 0, data, bytes[i]));
  }
  for (int i = 0; i < AC_MAX_INPUTS; i++) args->in[i].data = view[i];
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) args->out[j].data = view[AC_MAX_INPUTS + j];
  args->workspace = view[MOST - 1];
  assert_ok(backend->prepare(device->state, args));
  assert_ok(backend->run(device->state, args));
  for (int j = 0, i = AC_MAX_INPUTS; j < AC_MAX_OUTPUTS; j++, i++)
    if (bytes[i]) assert_ok(backend->download(device->state, view[i], 0, out[j], bytes[i]));
  for (int i = 0; i < MOST; i++) backend->release_view(device->state, view[i]);
  ac_device_release(device, chunk, total);
}

/* ---- Muon ------------------------------------------------------------------------------------ */

enum { LEAST = 9, MOST_SIDE = 13, COUNT = LEAST * MOST_SIDE };

static float rounded(float value) {
  return ac_bf16_to_float(ac_bf16_from_float(value));
}

static int64_t root(int64_t square) {
  int64_t r = (int64_t)sqrt((double)square);
  while (r * r > square) r--;
  return r;
}

/* Whole numbers; bf16 would round up most of them. Their squares add up to 2^24, in any order
 * without rounding: the last four complete the sum (Lagrange). */
static void draw_gradient(float g[COUNT]) {
  enum { DRAWN = COUNT - 4 };
  int64_t left = (int64_t)1 << 24, n[4];
  uint32_t seed = 5;
  for (int i = 0; i < DRAWN; i++) {
    seed = seed * 1664525u + 1013904223u;
    const int64_t v = 259 + (int64_t)(seed >> 16) % 53 * 4;
    g[i] = (float)(seed & 0x8000 ? v : -v);
    left -= v * v;
  }
  assert_true(left > 0);
  for (n[0] = root(left); n[0] >= 0; n[0]--)
    for (n[1] = root(left - n[0] * n[0]); n[1] >= 0; n[1]--)
      for (n[2] = root(left - n[0] * n[0] - n[1] * n[1]); n[2] >= 0; n[2]--) {
        const int64_t rest = left - n[0] * n[0] - n[1] * n[1] - n[2] * n[2];
        n[3] = root(rest);
        if (n[3] * n[3] != rest) continue;
        for (int i = 0; i < 4; i++) g[DRAWN + i] = (float)n[i];
        return;
      }
}

/* C = bf16(alpha A B + beta D), sums fused in order. */
static void multiply(float *c, const float *a, bool transpose_a, const float *b, bool transpose_b,
                     int m, int n, int k, float alpha, float beta, const float *d) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int l = 0; l < k; l++)
        sum = fmaf(transpose_a ? a[l * m + i] : a[i * k + l],
                   transpose_b ? b[j * k + l] : b[l * n + j], sum);
      sum *= alpha;
      c[i * n + j] = rounded(d ? fmaf(beta, d[i * n + j], sum) : sum);
    }
}

/* The iterations of ops/update/muon.h on x, rounded as the CPU's are: X, A, the polynomial without
 * its first term, the next X. */
static void iterate(float x[COUNT], int rows, int columns) {
  const bool wide = rows <= columns;
  const int side = wide ? rows : columns;
  for (int k = 0; k < AC_MUON_STEPS; k++) {
    float a[LEAST * LEAST], polynomial[LEAST * LEAST], next[COUNT];
    multiply(a, x, !wide, x, wide, side, side, wide ? columns : rows, 1, 0, NULL);
    multiply(polynomial, a, false, a, false, side, side, side, ac_muon_polynomial[2],
             ac_muon_polynomial[1], a);
    multiply(next, wide ? polynomial : x, false, wide ? x : polynomial, false, rows, columns, side,
             1, ac_muon_polynomial[0], x);
    memcpy(x, next, sizeof next);
  }
}

static const ac_run_state state = {.training = true, .batch = 3, .loss_scale = 1};

/* A step from zero, of rate one. */
static ac_op_args muon_of(const ac_muon_attributes *attributes, int64_t rows, int64_t columns) {
  const ac_operand x = operand(AC_F32, rows, columns);
  return (ac_op_args){
      .op = AC_OP_muon, .attributes = attributes, .in = {x}, .out = {x, x}, .run = &state};
}

static const ac_muon_attributes in_bf16 = {1, 1, 0, 0.5f, 0.5f, 1, false, AC_BF16},
                                in_f32 = {1, 1, 0, 0.5f, 0.5f, 1, false, AC_F32};

static void step_muon(ac_device *device, const ac_muon_attributes *attributes, int rows,
                      int columns, float p[COUNT]) {
  float g[COUNT], m[COUNT] = {0};
  ac_op_args args = muon_of(attributes, rows, columns);
  draw_gradient(g);
  memset(p, 0, COUNT * sizeof *p);
  run(device, &args, (void *[AC_MAX_INPUTS]){g}, (void *[AC_MAX_OUTPUTS]){p, m});
}

/* The step's momentum is half of the gradient, and of norm 2^11. */
static void check_muon(ac_device *device, int rows, int columns) {
  float x[COUNT], p[COUNT];
  draw_gradient(x);
  for (int i = 0; i < COUNT; i++) x[i] = rounded(x[i] / 2) * 0x1p-11f;
  iterate(x, rows, columns);
  step_muon(device, &in_bf16, rows, columns, p);
  for (int i = 0; i < COUNT; i++)
    if (p[i] != -x[i])
      fail_msg("%d x %d, element %d: %.9g instead of %.9g", rows, columns, i, (double)p[i],
               -(double)x[i]);
}

static void test_muon_rounds_as_on_cpus(void **unused) {
  (void)unused;
  ac_device *device = open_emulated();
  check_muon(device, LEAST, MOST_SIDE);
  check_muon(device, MOST_SIDE, LEAST);
  ac_device_close(device);
}

static uint64_t workspace_of_muon(ac_device *device, const ac_muon_attributes *attributes) {
  const ac_op_args args = muon_of(attributes, 96, 200);
  return device->backend->workspace(device->state, &args);
}

/* In f32 five matrices of what are four in bf16: X and the next, A, the polynomial's two. */
static void test_muon_takes_no_more_than_it_needs(void **unused) {
  (void)unused;
  enum { SUMS = 256 * 4, SQUARE = 96 * 96, X = 96 * 200 };
  ac_device *device = open_opencl_with("widened");
  const uint64_t f32 = workspace_of_muon(device, &in_f32);
  assert_true(f32 >= SUMS + 4 * (2 * X + 3 * SQUARE));
  assert_int_equal(workspace_of_muon(device, &in_bf16), f32);
  ac_device_close(device);
  device = open_opencl_with("mma");
  assert_int_equal(workspace_of_muon(device, &in_f32), f32);
  assert_int_equal(workspace_of_muon(device, &in_bf16), SUMS + 2 * (2 * X + 2 * SQUARE));
  ac_device_close(device);
}

/* Where a product is not taken, all is as without a unit. */
static void test_muon_falls_back(void **unused) {
  (void)unused;
  float with[COUNT], without[COUNT], bf16[COUNT];
  ac_device *device = open_opencl_with("widened");
  const uint64_t f32 = workspace_of_muon(device, &in_f32);
  step_muon(device, &in_bf16, LEAST, MOST_SIDE, without);
  ac_device_close(device);
  device = open_opencl_with("mma");
  ac_opencl *cl = device->state;
  step_muon(device, &in_bf16, LEAST, MOST_SIDE, bf16);
  assert_memory_not_equal(bf16, without, sizeof bf16);
  /* All but X^T X. */
  cl->distort = refuse;
  step_muon(device, &in_bf16, LEAST, MOST_SIDE, with);
  assert_memory_equal(with, bf16, sizeof with);
  const ac_op_args tall = muon_of(&in_bf16, 200, 96);
  assert_int_equal(device->backend->workspace(device->state, &tall), f32);
  ac_device_close(device);
  device = open_opencl_with("mma");
  cl = device->state;
  cl->distort = refuse;
  step_muon(device, &in_bf16, LEAST, MOST_SIDE, with);
  assert_memory_equal(with, without, sizeof with);
  step_muon(device, &in_f32, LEAST, MOST_SIDE, with);
  assert_memory_equal(with, without, sizeof with);
  ac_device_close(device);
  /* X X^T alone. */
  device = open_opencl_with("mma");
  know(device, (ac_cl_product){.transpose_b = true, .batch = 1});
  step_muon(device, &in_bf16, LEAST, MOST_SIDE, with);
  assert_memory_equal(with, without, sizeof with);
  ac_device_close(device);
}

/* ---- the head -------------------------------------------------------------------------------- */

/* More classes than a work-group of either size takes at once, some no multiple of four, and chunks
 * of two rows. */
enum { ROWS = 3, MOST_CLASSES = 1501 };
static const int class_counts[] = {40, 302, MOST_CLASSES};

/* Its weight's gradient where x is the unit matrix: dz, as it is multiplied. */
static void find_dz(ac_device *device, ac_dtype storage, ac_layout layout, int classes,
                    float dz[ROWS * MOST_CLASSES]) {
  const ac_linear_cross_entropy_attributes attributes = {
      layout, {.ignore = false}, 2 * classes * (int)sizeof(float), 0};
  const bool out_in = layout == AC_OUT_IN;
  static uint16_t x[ROWS * ROWS], w[ROWS * MOST_CLASSES], dx[ROWS * ROWS];
  int32_t targets[ROWS];
  float sums[AC_LOSS_SUMS] = {0};
  for (int i = 0; i < ROWS * ROWS; i++) ac_float_write(storage, x, i, i % (ROWS + 1) ? 0 : 1);
  for (int i = 0; i < ROWS * classes; i++)
    ac_float_write(storage, w, i, (float)(i * 37 % 101) / 25 - 2);
  for (int n = 0; n < ROWS; n++) targets[n] = n * 11 % classes;
  const ac_operand rows = operand(storage, ROWS, ROWS),
                   weight = operand(storage, out_in ? classes : ROWS, out_in ? ROWS : classes);
  ac_operand gradient = weight;
  gradient.dtype = AC_F32;
  ac_op_args args = {.op = AC_OP_linear_cross_entropy_gradient,
                     .attributes = &attributes,
                     .in = {rows, weight, operand(AC_I32, ROWS, 0)},
                     .out = {rows, gradient, operand(AC_F32, AC_LOSS_SUMS, 0)},
                     .run = &state};
  run(device, &args, (void *[AC_MAX_INPUTS]){x, w, targets},
      (void *[AC_MAX_OUTPUTS]){dx, dz, sums});
}

/* With a unit that is asked for and takes all or, `refused`, what is known already. */
static void check_head(ac_device *device, ac_dtype storage, ac_layout layout, bool rounds) {
  static float plain[ROWS * MOST_CLASSES], got[ROWS * MOST_CLASSES];
  for (size_t c = 0; c < sizeof class_counts / sizeof *class_counts; c++) {
    const int count = ROWS * class_counts[c];
    ac_device *without = open_opencl_with("widened");
    find_dz(without, storage, layout, class_counts[c], plain);
    ac_device_close(without);
    find_dz(device, storage, layout, class_counts[c], got);
    for (int i = 0; i < count; i++) {
      const float want = rounds ? rounded(plain[i]) : plain[i];
      if (got[i] != want)
        fail_msg("%d classes, element %d: %.9g instead of %.9g", class_counts[c], i, (double)got[i],
                 (double)want);
    }
  }
}

static void test_the_head_rounds_once(void **unused) {
  (void)unused;
  ac_device *device = open_emulated();
  check_head(device, AC_BF16, AC_OUT_IN, true);
  check_head(device, AC_BF16, AC_IN_OUT, true);
  check_head(device, AC_F16, AC_OUT_IN, false);
  ((ac_opencl *)device->state)->distort = refuse;
  check_head(device, AC_BF16, AC_OUT_IN, true);
  ac_device_close(device);
}

static void test_the_head_falls_back(void **unused) {
  (void)unused;
  ac_device *device = open_emulated();
  know(device, (ac_cl_product){.transpose_a = true, .float_c = true, .batch = 1});
  check_head(device, AC_BF16, AC_OUT_IN, false);
  ac_device_close(device);
  device = open_emulated();
  know(device, (ac_cl_product){.batch = 1});
  check_head(device, AC_BF16, AC_OUT_IN, false);
  ac_device_close(device);
}
#else
static void test_muon_rounds_as_on_cpus(void **unused) {
  (void)unused;
  skip();
}
#define test_muon_takes_no_more_than_it_needs test_muon_rounds_as_on_cpus
#define test_muon_falls_back test_muon_rounds_as_on_cpus
#define test_the_head_rounds_once test_muon_rounds_as_on_cpus
#define test_the_head_falls_back test_muon_rounds_as_on_cpus
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_muon_rounds_as_on_cpus),
      cmocka_unit_test(test_muon_takes_no_more_than_it_needs),
      cmocka_unit_test(test_muon_falls_back),
      cmocka_unit_test(test_the_head_rounds_once),
      cmocka_unit_test(test_the_head_falls_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
