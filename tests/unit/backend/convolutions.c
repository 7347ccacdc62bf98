/* Generated convolutions on the CPU, and both gradients, against a plain loop: small kernels of any
 * shape, with strides, paddings, dilations and groups, in every storage type, with one to three
 * threads, and in the workspace of as many samples or of more. Values are small whole numbers, so
 * floats hold all sums exactly, in any order, and those by tiles with their quarters. They are
 * rounded once, when they are stored, and nothing but that passes. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "support/check.h"

#include "backend/device.h"
#include "core/half.h"
#include "ops/convolution/conv2d.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t seed;

static int64_t draw_below(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}
static int64_t draw_from(int64_t least, int64_t most) {
  return least + draw_below(most - least + 1);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

typedef struct convolution {
  ac_op op;
  ac_dtype dtype;
  ac_conv2d_attributes attributes;
  int64_t samples, groups, in, out; /* in, out: channels of a group */
  int64_t kernel[2], image[2], outputs[2];
  bool bias, add;
} convolution;

/* About as many channels as pairs and steps of them are made of, or any. */
static int64_t draw_channels(void) {
  static const int64_t some[] = {1, 2, 3, 8, 16, 29, 30, 31, 32, 33, 61, 64};
  return draw_below(4) ? some[draw_below(sizeof some / sizeof *some)] : draw_from(1, 70);
}

static void draw_axis(convolution *c, int i, bool one_tap) {
  ac_conv2d_attributes *a = &c->attributes;
  c->kernel[i] = one_tap ? 1 : draw_from(1, 3);
  a->stride[i] = (int32_t)(draw_below(8) ? draw_from(1, 3) : draw_from(1, 6));
  a->padding[i] = (int32_t)(draw_below(3) ? draw_from(0, 4) : 0);
  a->dilation[i] = (int32_t)draw_from(1, 2);
  c->image[i] = draw_below(2) ? draw_from(1, 5) : draw_from(1, 24);
}

static convolution draw_any(void) {
  static const ac_op ops[] = {AC_OP_conv2d, AC_OP_conv_transpose2d, AC_OP_conv2d_weight_gradient};
  static const ac_dtype dtypes[] = {AC_BF16, AC_BF16, AC_F32, AC_F16};
  convolution c = {.op = ops[draw_below(3)], .dtype = dtypes[draw_below(4)]};
  bool one_tap = draw_below(3) == 0;
  for (int i = 0; i < 2; i++) draw_axis(&c, i, one_tap);
  c.samples = draw_below(2) ? 16 * draw_from(1, 3) : draw_from(1, 48);
  c.groups = draw_below(4) ? 1 : draw_from(2, 3);
  c.in = draw_channels();
  c.out = draw_channels();
  c.bias = c.op != AC_OP_conv_transpose2d && draw_below(2);
  c.add = c.op != AC_OP_conv2d && draw_below(2);
  return c;
}

static void set_axis(convolution *c, int i, int64_t kernel, int64_t stride, int64_t padding) {
  c->kernel[i] = kernel;
  c->attributes.stride[i] = (int32_t)stride;
  c->attributes.padding[i] = (int32_t)padding;
  c->attributes.dilation[i] = 1;
}

/* What the CPU has other ways for, and what seldom comes up by itself. */
static void draw_special(convolution *c) {
  switch (draw_below(10)) {
  case 0:
  case 1: /* by tiles, in f32 */
    for (int i = 0; i < 2; i++)
      set_axis(c, i, 3, 1, draw_from(0, 2)), c->image[i] = draw_from(6, 12);
    c->samples = draw_from(3, 6), c->groups = 1;
    c->in = draw_from(16, 33), c->out = draw_from(16, 33);
    break;
  case 2: /* few weights and many outputs: samples are parted */
    for (int i = 0; i < 2; i++) set_axis(c, i, 1, 1, 0), c->image[i] = draw_from(24, 40);
    c->op = AC_OP_conv2d_weight_gradient, c->dtype = AC_BF16;
    c->samples = draw_from(2, 7), c->groups = 1;
    c->in = draw_from(8, 33), c->out = draw_from(4, 9);
    break;
  case 3: /* depthwise */
    for (int i = 0; i < 2; i++)
      set_axis(c, i, draw_from(1, 5), draw_from(1, 2), draw_from(0, 2)),
          c->image[i] = draw_from(5, 40);
    c->samples = draw_from(1, 3), c->groups = draw_from(4, 40);
    c->in = 1, c->out = draw_below(3) ? 1 : 2;
    break;
  case 4: /* rows of outputs that are whole strips */
    for (int i = 0; i < 2; i++) set_axis(c, i, 3, 1, 1);
    c->image[0] = draw_from(1, 9), c->image[1] = 32 * draw_from(1, 2);
    c->samples = draw_from(1, 2), c->groups = 1, c->out = draw_from(1, 5);
    break;
  case 5: /* more channels than are held at a time */
    set_axis(c, 0, 1, 1, 0), set_axis(c, 1, 2, 1, 0);
    for (int i = 0; i < 2; i++) c->image[i] = draw_from(36, 40);
    c->samples = 1, c->groups = 1;
    c->in = draw_from(200, 300), c->out = draw_from(1, 2);
    if (c->op == AC_OP_conv_transpose2d) c->in = draw_from(1, 2), c->out = draw_from(200, 300);
    break;
  case 6: /* one tap with a stride, along rows of any width */
    for (int i = 0; i < 2; i++) set_axis(c, i, 1, 2, draw_below(2));
    c->op = draw_below(4) ? AC_OP_conv2d : AC_OP_conv_transpose2d;
    c->image[0] = draw_from(1, 4), c->image[1] = draw_from(1, 24);
    c->samples = draw_from(14, 32), c->groups = 1;
    c->in = 16 * draw_from(1, 3), c->out = 16 * draw_from(1, 3);
    if (c->op == AC_OP_conv2d) c->add = false;
    break;
  default:
    break;
  }
}

/* False where the kernel does not fit into the image. */
static bool find_outputs(convolution *c) {
  const ac_conv2d_attributes *a = &c->attributes;
  for (int i = 0; i < 2; i++) {
    int64_t span = (c->kernel[i] - 1) * a->dilation[i] + 1;
    int64_t rest = c->image[i] + 2 * a->padding[i] - span;
    if (rest < 0) return false;
    c->outputs[i] = rest / a->stride[i] + 1;
  }
  return true;
}

static int64_t products_of(const convolution *c) {
  return c->samples * c->groups * c->in * c->out * c->outputs[0] * c->outputs[1] * c->kernel[0] *
         c->kernel[1];
}

/* Of numbers up to 3, so many products add up to less than 2^24, which floats hold exactly. */
enum { MOST_PRODUCTS = 1000000, FEW_PRODUCTS = 300000 };

static convolution draw_convolution(int64_t most_products) {
  for (;;) {
    convolution c = draw_any();
    draw_special(&c);
    c.attributes.groups = (int32_t)c.groups;
    if (find_outputs(&c) && products_of(&c) <= most_products) return c;
  }
}

/* ---- operands -------------------------------------------------------------------------------- */

/* What lies around elements and workspace, and must stay there. */
enum { FILL = 0x5b, LINE = 64 };

/* Elements or workspace in pages of their own, between two that must not even be read: sanitizers
 * do not see vectors that are loaded with masks. */
typedef struct buffer {
  unsigned char *pages, *data;
  size_t page, held, bytes; /* held: by the pages between */
} buffer;

/* `data` is a multiple of 64, and either the first or in the last line of its pages. */
static buffer make_buffer(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), lines = (bytes + LINE - 1) / LINE * LINE;
  buffer b = {.page = page, .held = (lines + page - 1) / page * page, .bytes = bytes};
  b.pages = mmap(NULL, b.held + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(b.pages != MAP_FAILED);
  assert_int_equal(mprotect(b.pages + page, b.held, PROT_READ | PROT_WRITE), 0);
  memset(b.pages + page, FILL, b.held);
  b.data = b.pages + page + (seed >> 63 ? b.held - lines : 0);
  return b;
}

static void drop_buffer(const buffer *b, const char *what) {
  for (unsigned char *at = b->pages + b->page; at < b->pages + b->page + b->held; at++)
    if (*at != FILL && (at < b->data || at >= b->data + b->bytes))
      fail_msg("%s: written to, %d bytes from its first", what, (int)(at - b->data));
  munmap(b->pages, b->held + 2 * b->page);
}

typedef struct operand {
  ac_operand x;
  buffer memory;
} operand;

static operand make_operand(ac_dtype dtype, int rank, const int64_t dim[]) {
  operand o = {.x = {.dtype = dtype, .rank = rank, .count = 1}};
  for (int i = 0; i < rank; i++) o.x.dim[i] = dim[i], o.x.count *= dim[i];
  o.memory = make_buffer((size_t)o.x.count * ac_dtype_bytes(dtype));
  o.x.data = o.memory.data;
  for (int64_t i = 0; i < o.x.count; i++)
    ac_float_write(dtype, o.x.data, i, (float)draw_from(-3, 3));
  return o;
}

/* Those of one convolution and its gradients; `dw` and `db` are f32 always. */
typedef struct operands {
  operand x, weight, y, bias, dw, db;
} operands;

/* One after the other, so that a case has the same values whatever compiles this. */
static operands make_operands(const convolution *c) {
  const int64_t x[] = {c->samples, c->groups * c->in, c->image[0], c->image[1]};
  const int64_t w[] = {c->groups * c->out, c->in, c->kernel[0], c->kernel[1]};
  const int64_t y[] = {c->samples, c->groups * c->out, c->outputs[0], c->outputs[1]};
  operands o;
  o.x = make_operand(c->dtype, 4, x);
  o.weight = make_operand(c->dtype, 4, w);
  o.y = make_operand(c->dtype, 4, y);
  o.bias = make_operand(AC_F32, 1, w);
  o.dw = make_operand(AC_F32, 4, w);
  o.db = make_operand(AC_F32, 1, w);
  return o;
}

static void drop_operands(operands *o) {
  drop_buffer(&o->x.memory, "x"), drop_buffer(&o->weight.memory, "weight");
  drop_buffer(&o->y.memory, "y"), drop_buffer(&o->bias.memory, "bias");
  drop_buffer(&o->dw.memory, "dw"), drop_buffer(&o->db.memory, "db");
}

/* What the op writes. */
static int outputs_of(const convolution *c, operands *o, operand *written[2]) {
  written[0] = c->op == AC_OP_conv2d ? &o->y : c->op == AC_OP_conv_transpose2d ? &o->x : &o->dw;
  written[1] = &o->db;
  return c->op == AC_OP_conv2d_weight_gradient && c->bias ? 2 : 1;
}

static ac_op_args arguments_of(const convolution *c, const operands *o, const ac_run_state *run) {
  ac_op_args args = {.op = c->op, .attributes = &c->attributes, .run = run};
  args.add[0] = args.add[1] = c->add;
  if (c->op == AC_OP_conv2d) {
    args.in[0] = o->x.x, args.in[1] = o->weight.x, args.out[0] = o->y.x;
    if (c->bias) args.in[2] = o->bias.x;
  } else if (c->op == AC_OP_conv_transpose2d) {
    args.in[0] = o->y.x, args.in[1] = o->weight.x, args.out[0] = o->x.x;
  } else {
    args.in[0] = o->x.x, args.in[1] = o->y.x, args.out[0] = o->dw.x;
    if (c->bias) args.out[1] = o->db.x;
  }
  return args;
}

/* ---- the plain loop -------------------------------------------------------------------------- */

static double at(const operand *o, int64_t i) {
  return ac_float_read(o->x.dtype, o->x.data, i);
}

/* One element of y with all that it meets: sums are those of what the op writes. */
static void meet(const convolution *c, const operands *o, int64_t sample, int64_t channel,
                 int64_t row, int64_t column, double *sums, double *bias_sums) {
  const ac_conv2d_attributes *a = &c->attributes;
  int64_t y = ((sample * c->groups * c->out + channel) * c->outputs[0] + row) * c->outputs[1];
  int64_t group = channel / c->out;
  y += column;
  if (c->op == AC_OP_conv2d && c->bias) sums[y] += at(&o->bias, channel);
  if (c->op == AC_OP_conv2d_weight_gradient) bias_sums[channel] += at(&o->y, y);
  for (int64_t i = 0; i < c->in; i++)
    for (int64_t r = 0; r < c->kernel[0]; r++)
      for (int64_t t = 0; t < c->kernel[1]; t++) {
        int64_t down = row * a->stride[0] - a->padding[0] + r * a->dilation[0];
        int64_t across = column * a->stride[1] - a->padding[1] + t * a->dilation[1];
        if (down < 0 || down >= c->image[0] || across < 0 || across >= c->image[1]) continue;
        int64_t x = ((sample * c->groups + group) * c->in + i) * c->image[0] + down;
        int64_t w = ((channel * c->in + i) * c->kernel[0] + r) * c->kernel[1] + t;
        x = x * c->image[1] + across;
        if (c->op == AC_OP_conv2d) sums[y] += at(&o->x, x) * at(&o->weight, w);
        else if (c->op == AC_OP_conv_transpose2d) sums[x] += at(&o->y, y) * at(&o->weight, w);
        else sums[w] += at(&o->x, x) * at(&o->y, y);
      }
}

static double *sums_of(const operand *written, bool add) {
  double *sums = calloc((size_t)written->x.count, sizeof *sums);
  assert_non_null(sums);
  for (int64_t i = 0; add && i < written->x.count; i++) sums[i] = at(written, i);
  return sums;
}

static void compute(const convolution *c, operands *o, double *sums[2]) {
  operand *written[2];
  outputs_of(c, o, written);
  for (int i = 0; i < 2; i++) sums[i] = sums_of(written[i], c->add);
  for (int64_t n = 0; n < c->samples; n++)
    for (int64_t k = 0; k < c->groups * c->out; k++)
      for (int64_t row = 0; row < c->outputs[0]; row++)
        for (int64_t column = 0; column < c->outputs[1]; column++)
          meet(c, o, n, k, row, column, sums[0], sums[1]);
}

/* ---- the device's ---------------------------------------------------------------------------- */

/* In the workspace of `more` further samples. Unless the op adds, its output begins as NaN. */
static void run(const ac_device *device, const convolution *c, operands *o, int64_t more) {
  const ac_run_state state = {.training = true, .batch = c->samples, .loss_scale = 1};
  ac_op_args args = arguments_of(c, o, &state), planned = args;
  ac_operand *images[] = {&planned.in[0],
                          c->op == AC_OP_conv2d_weight_gradient ? &planned.in[1] : &planned.out[0]};
  for (int i = 0; i < 2; i++) {
    images[i]->count = images[i]->count / c->samples * (c->samples + more);
    images[i]->dim[0] = c->samples + more;
  }
  operand *written[2];
  int outputs = outputs_of(c, o, written);
  for (int i = 0; i < outputs && !c->add; i++)
    memset(written[i]->memory.data, 0xff, written[i]->memory.bytes);
  assert_true(device->backend->supports(device->state, &args));
  args.workspace_bytes = device->backend->workspace(device->state, &planned);
  assert_true(args.workspace_bytes >= device->backend->workspace(device->state, &args));
  buffer workspace = make_buffer(args.workspace_bytes);
  memset(workspace.data, 0xff, workspace.bytes);
  args.workspace = workspace.bytes ? workspace.data : NULL;
  assert_ok(device->backend->run(device->state, &args));
  drop_buffer(&workspace, "workspace");
}

static void compare(const convolution *c, const operand *written, const double *sums,
                    const char *what) {
  for (int64_t i = 0; i < written->x.count; i++) {
    float stored;
    ac_float_write(written->x.dtype, &stored, 0, (float)sums[i]);
    double expected = ac_float_read(written->x.dtype, &stored, 0);
    if (at(written, i) == expected) continue;
    const ac_conv2d_attributes *a = &c->attributes;
    fail_msg("%s: %s of %s, [%d] is %g, not %g: %d samples, %d groups of %d and %d channels, image "
             "%d x %d, kernel %d x %d, stride %d, %d, padding %d, %d, dilation %d, %d, %s",
             what, ac_op_name(c->op), ac_dtype_name(c->dtype), (int)i, at(written, i), expected,
             (int)c->samples, (int)c->groups, (int)c->in, (int)c->out, (int)c->image[0],
             (int)c->image[1], (int)c->kernel[0], (int)c->kernel[1], a->stride[0], a->stride[1],
             a->padding[0], a->padding[1], a->dilation[0], a->dilation[1],
             c->add ? "added" : "written");
  }
}

static void check(int threads, const char *what, int64_t most_products) {
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = threads}));
  convolution c = draw_convolution(most_products);
  operands o = make_operands(&c);
  double *sums[2];
  compute(&c, &o, sums);
  run(device, &c, &o, draw_below(2) ? draw_from(1, 20) : 0);
  operand *written[2];
  int outputs = outputs_of(&c, &o, written);
  for (int i = 0; i < outputs; i++) compare(&c, written[i], sums[i], what);
  for (int i = 0; i < 2; i++) free(sums[i]);
  drop_operands(&o);
  ac_device_close(device);
}

/* Classes that the CPU does not have are emulated, which takes longer. NULL: what the CPU is given
 * anyway. */
static void check_class(const char *class, int cases, int64_t most_products) {
  char what[64];
  if (class) setenv("ACCRUE_PRODUCTS", class, 1);
  for (int i = 0; i < cases; i++) {
    seed = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
    snprintf(what, sizeof what, "case %d, products: %s", i, class ? class : "as found");
    check(1 + i % 3, what, most_products);
  }
  if (class) unsetenv("ACCRUE_PRODUCTS");
}

static void are_those_of_a_plain_loop(void **state) {
  (void)state;
  check_class(NULL, 1000, MOST_PRODUCTS);
}
static void so_they_are_by_every_class_of_products(void **state) {
  (void)state;
  static const char *const classes[] = {"tiles", "vdpbf16ps", "bfmmla", "widened"};
  for (int i = 0; i < 4; i++) check_class(classes[i], 300, FEW_PRODUCTS);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(are_those_of_a_plain_loop),
                                     cmocka_unit_test(so_they_are_by_every_class_of_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
