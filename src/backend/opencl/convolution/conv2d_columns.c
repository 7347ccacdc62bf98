/* Convolutions by matrix units: products of matrices with factors that are spread out in memory
 * (im2col), some positions at a time. In images x[n,g,c], y[n,g,o] of groups g of channels, for all
 * groups at once:
 *
 *   y[o, position]   = W[o, tap]   columns of x[tap, position]
 *   dx[c, position]  = W'[c, tap]  columns of dy[tap, position]    W'[g,c,o,r,t] = W[g,o,c,r,t]
 *   dW[o, tap]      += dy[o, position] columns of x[tap, position]^T
 *
 * where C's positions are pixels of whole images, in their order in memory (gemm.h). dW's sums over
 * positions are cut into chunks of CHUNK, so that there are enough work-groups. There are partial
 * sums for some chunks at a time; the sums of later chunks are added to these.
 *
 * Workspace, for a smaller batch never more:
 *   y   | columns |
 *   dx  | W' | columns |
 *   dW  | partial sums [slots, |W|], if there is more than one slot | columns | dy's columns |
 * Columns have at most ac_cl_unit_space bytes, or 64 positions; W' is as large as W. If the unit is
 * emulated, which is for tests, chunks are shorter, so that small images have several. */
#include "backend/opencl/convolution/conv2d.h"

#include "backend/opencl/movement/permute.h"
#include "backend/opencl/product/gemm.h"
#include "backend/opencl/shared/sums.h"
#include "core/error.h"
#include "core/integers.h"

enum {
  PARTIAL_BYTES = 16 << 20,
  CHUNK = 1024,
  EMULATED_CHUNK = 64,
  MOST_SLOTS = 64,
  POSITIONS = 64,     /* lines of columns are multiples of so many */
  LEAST_CHANNELS = 16 /* rows of C: fewer waste too much of a tile */
};

static int64_t round_up(int64_t n, int64_t unit) {
  return ac_ceil_div(n, unit) * unit;
}

static int64_t area_of(const ac_cl_conv2d *s) {
  return s->kd * s->kh * s->kw;
}

static int64_t pixels_of(const ac_operand *images) {
  return ac_cl_conv_pixels(images);
}

static int64_t weights_of(const ac_cl_conv2d *s) {
  return s->attributes->groups * s->out * s->in * area_of(s);
}

static int64_t operand_bytes(const ac_cl_conv2d *s) {
  return (int64_t)sizeof(uint16_t) * (s->x->count + s->y->count + weights_of(s));
}

/* How many positions the columns of so many rows hold at most. */
static int64_t most_positions(const ac_opencl *cl, const ac_cl_conv2d *s, int64_t rows) {
  const int64_t bytes = ac_cl_unit_space(cl, operand_bytes(s));
  const int64_t most = bytes / (int64_t)sizeof(uint16_t) / rows / POSITIONS * POSITIONS;
  return ac_larger(most, POSITIONS);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Columns of an image: which one, and how they are found; for positions of `positions`. */
typedef struct columns {
  const ac_cl_conv2d *s;
  const ac_operand *from, *positions;
  int64_t in; /* channels a group of `from` */
  bool of_gradient;
  int64_t rows; /* of all groups */
} columns;

/* Spreads `blocks` of `length` positions, from `begin` on, into `workspace` from element `first`
 * on. */
static ac_status spread(ac_opencl *cl, const columns *c, void *workspace, int64_t first,
                        int64_t blocks, int64_t length, int64_t begin) {
  static const char *const kinds[2][2] = {
      {"-DCOLUMNS", "-DCOLUMNS -DINPUT_GRADIENT"},
      {"-DCOLUMNS -DVOLUME", "-DCOLUMNS -DINPUT_GRADIENT -DVOLUME"}};
  const char *options = kinds[ac_cl_conv_is_of_volumes(c->s)][c->of_gradient];
  const int64_t items = blocks * c->rows * (length / 8);
  const int64_t end = c->s->images * pixels_of(c->positions);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"conv2d", "columns", options}), ac_cl_elements(cl, items),
                      AC_CL_OPERAND(*c->from), AC_CL_BUFFER(workspace), AC_CL_LONG(items),
                      AC_CL_LONG(first), AC_CL_INT(c->rows), AC_CL_INT(length), AC_CL_INT(begin),
                      AC_CL_INT(end), AC_CL_GEOMETRY(c->s, c->from, c->in, c->positions, 0));
}

static columns columns_of_x(const ac_cl_conv2d *s) {
  return (columns){s, s->x, s->y, s->in, false, s->attributes->groups * s->in * area_of(s)};
}

static columns columns_of_dy(const ac_cl_conv2d *s) {
  return (columns){s, s->y, s->x, s->out, true, s->attributes->groups * s->out * area_of(s)};
}

/* ---- y and dx -------------------------------------------------------------------------------- */

/* The product with images as C; m channels a group, k taps. */
static ac_cl_product product_of_images(const columns *c, int64_t m) {
  const int64_t groups = c->s->attributes->groups, pixels = pixels_of(c->positions);
  return (ac_cl_product){.batched = groups > 1,
                         .images = true,
                         .pixels = pixels,
                         .image = groups * m * pixels,
                         .m = m,
                         .k = c->rows / groups,
                         .batch = groups};
}

static ac_status multiply_images(ac_opencl *cl, const columns *c, ac_cl_product product,
                                 void *workspace, int64_t first) {
  const int64_t end = c->s->images * pixels_of(c->positions),
                most = most_positions(cl, c->s, c->rows);
  product.b = workspace;
  product.first_b = first;
  for (int64_t begin = 0; begin < end; begin += most) {
    product.place = begin;
    product.n = ac_smaller(most, end - begin);
    product.pitch_b = round_up(product.n, POSITIONS);
    AC_TRY(spread(cl, c, workspace, first, 1, product.pitch_b, begin));
    AC_TRY(ac_cl_gemm(cl, &product, workspace));
  }
  return AC_OK;
}

static uint64_t bytes_for_images(const ac_opencl *cl, const columns *c) {
  const int64_t end = c->s->images * pixels_of(c->positions);
  return sizeof(uint16_t) * (uint64_t)(c->rows * ac_smaller(most_positions(cl, c->s, c->rows),
                                                            round_up(end, POSITIONS)));
}

ac_status ac_cl_columns_forward(ac_opencl *cl, const ac_cl_conv2d *s, const ac_op_args *args) {
  const columns c = columns_of_x(s);
  ac_cl_product product = product_of_images(&c, s->out);
  product.a = args->in[1].data;
  product.c = args->out[0].data;
  product.bias = args->in[2].count ? args->in[2].data : NULL;
  product.add = args->add[0];
  return multiply_images(cl, &c, product, args->workspace, 0);
}

static int64_t turned_weights(const ac_cl_conv2d *s) {
  return round_up(weights_of(s), POSITIONS);
}

/* [groups, out, in, area] as [groups, in, out, area]. */
static ac_status turn_weights(ac_opencl *cl, const ac_cl_conv2d *s, const ac_op_args *args) {
  const int64_t area = area_of(s), in = s->in, out = s->out;
  const ac_cl_axes axes = {
      4, {area, out, in, s->attributes->groups, 1, 1, 1, 1}, {1, in * area, area, out * in * area}};
  return ac_cl_permute(cl, args->in[1].data, args->workspace, &axes);
}

ac_status ac_cl_columns_transposed(ac_opencl *cl, const ac_cl_conv2d *s, const ac_op_args *args) {
  const columns c = columns_of_dy(s);
  ac_cl_product product = product_of_images(&c, s->in);
  product.a = args->workspace;
  product.c = args->out[0].data;
  product.bias = args->in[2].count ? args->in[2].data : NULL;
  product.add = args->add[0];
  AC_TRY(turn_weights(cl, s, args));
  return multiply_images(cl, &c, product, args->workspace, turned_weights(s));
}

/* ---- dW -------------------------------------------------------------------------------------- */

typedef struct chunks {
  columns x, y; /* dy's are those of one tap */
  ac_cl_conv2d unmoved;
  int64_t length, count, slots;
} chunks;

static void cut(const ac_opencl *cl, chunks *c, const ac_cl_conv2d *s) {
  static const ac_conv2d_attributes one_tap = {
      {1, 1}, {0, 0}, {1, 1}, .groups = 1, .depth_stride = 1, .depth_dilation = 1};
  const int64_t positions = s->images * pixels_of(s->y);
  c->unmoved = (ac_cl_conv2d){&one_tap, s->y, s->y, s->images, s->y->dim[1], s->y->dim[1], 1, 1, 1};
  c->x = columns_of_x(s);
  c->y = columns_of_x(&c->unmoved);
  const int64_t most = most_positions(cl, s, c->x.rows + c->y.rows);
  const int64_t longest = cl->unit_emulated ? EMULATED_CHUNK : CHUNK;
  c->length = ac_smaller(ac_smaller(longest, most), round_up(positions, POSITIONS));
  c->count = ac_ceil_div(positions, c->length);
  c->slots = ac_smaller(ac_smaller(MOST_SLOTS, most / c->length), c->count);
  const int64_t partial = PARTIAL_BYTES / (int64_t)sizeof(float) / weights_of(s);
  c->slots = ac_smaller(c->slots, ac_larger(partial, 1));
}

static int64_t partial_sums(const chunks *c) {
  return c->slots > 1 ? round_up(c->slots * weights_of(c->x.s), POSITIONS) : 0;
}

static uint64_t bytes_for_weight(const ac_opencl *cl, const ac_cl_conv2d *s) {
  chunks c;
  cut(cl, &c, s);
  return sizeof(float) * (uint64_t)partial_sums(&c) +
         sizeof(uint16_t) * (uint64_t)(c.slots * (c.x.rows + c.y.rows) * c.length);
}

static ac_cl_product product_of_weight(const chunks *c) {
  const ac_cl_conv2d *s = c->x.s;
  return (ac_cl_product){.transpose_b = true,
                         .batched = true,
                         .float_c = true,
                         .m = s->out,
                         .n = s->in * area_of(s),
                         .k = c->length};
}

ac_status ac_cl_columns_weight_gradient(ac_opencl *cl, const ac_cl_conv2d *s,
                                        const ac_op_args *args) {
  chunks c;
  cut(cl, &c, s);
  const ac_operand *dw = &args->out[0];
  const bool whole = c.slots == 1; /* the sums themselves, not parts of them */
  ac_cl_product product = product_of_weight(&c);
  product.a = product.b = args->workspace;
  product.c = whole ? dw->data : args->workspace;
  product.first_b = 2 * partial_sums(&c);
  product.first_a = product.first_b + c.slots * c.x.rows * c.length;
  for (int64_t done = 0; done < c.count; done += c.slots) {
    const int64_t blocks = ac_smaller(c.slots, c.count - done), begin = done * c.length;
    AC_TRY(spread(cl, &c.x, args->workspace, product.first_b, blocks, c.length, begin));
    AC_TRY(spread(cl, &c.y, args->workspace, product.first_a, blocks, c.length, begin));
    product.batch = blocks * s->attributes->groups;
    product.add = done > 0 || (whole && args->add[0]);
    AC_TRY(ac_cl_gemm(cl, &product, args->workspace));
  }
  if (whole) return AC_OK;
  return ac_cl_add_chunks(cl, args->workspace, 0, c.slots, dw->count, dw->data, args->add[0]);
}

/* ---- the choice ------------------------------------------------------------------------------ */

ac_status ac_cl_columns_take(ac_opencl *cl, const ac_cl_conv2d *s, ac_op op, ac_dtype storage,
                             bool *take) {
  const int64_t channels = op == AC_OP_conv_transpose2d ? s->in : s->out;
  *take = storage != AC_F32 && s->in > 1 && channels >= LEAST_CHANNELS;
  if (!*take) return AC_OK;
  ac_cl_product product = {.images = true};
  if (op == AC_OP_conv2d_weight_gradient)
    product = (ac_cl_product){.transpose_b = true, .float_c = true};
  return ac_cl_unit_takes_all(cl, storage, &product, 1, take);
}

uint64_t ac_cl_columns_workspace(const ac_opencl *cl, const ac_cl_conv2d *s, ac_op op) {
  if (op == AC_OP_conv2d_weight_gradient) return bytes_for_weight(cl, s);
  const columns c = op == AC_OP_conv2d ? columns_of_x(s) : columns_of_dy(s);
  const uint64_t turned = op == AC_OP_conv2d ? 0 : (uint64_t)turned_weights(s);
  return sizeof(uint16_t) * turned + bytes_for_images(cl, &c);
}
