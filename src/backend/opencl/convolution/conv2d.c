/* Convolution and its gradients: products that read images directly (cl/convolution/conv2d.cl),
 * with separate kernels if each group has one input channel.
 *
 * The weight gradient sums over all positions of all images, so these are cut into chunks, enough
 * of them to fill a device while their partial sums stay small. Workspace: at most PARTIAL_BYTES,
 * or one set of partial sums.
 *
 * In 16 bits a matrix unit multiplies, if there is one and there are enough channels
 * (conv2d_columns.c). */
#include "backend/opencl/convolution/conv2d.h"

#include <stdio.h>

#include "backend/opencl/product/gemm.h"
#include "backend/opencl/shared/sums.h"
#include "core/error.h"

enum { LEAST_CHUNK = 1024, MOST_CHUNKS = 64, PARTIAL_BYTES = 16 << 20 };

typedef ac_cl_conv2d shapes;

static shapes shapes_of(const ac_op_args *args, const ac_operand *x, const ac_operand *weight,
                        const ac_operand *y) {
  const ac_conv2d_attributes *a = args->attributes;
  return (shapes){.attributes = a,
                  .x = x,
                  .y = y,
                  .images = x->dim[0],
                  .in = x->dim[1] / a->groups,
                  .out = y->dim[1] / a->groups,
                  .kd = weight->count ? ac_cl_conv_depth(weight) : 0,
                  .kh = weight->count ? ac_cl_conv_side(weight, 0) : 0,
                  .kw = weight->count ? ac_cl_conv_side(weight, 1) : 0};
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct product {
  const char *kind; /* an option of the kernel */
  int64_t m, n, k, chunk, chunks;
} product;

/* Work-items on a CPU are loop iterations, and the registers are vectors. Few rows, which are
 * channels, are better all of a tile's than few of many. */
static ac_cl_tile tile_of(const ac_opencl *cl, const product *p) {
  const int edge = cl->group == 256 ? 16 : 8, most = cl->cpu ? 8 : 4;
  ac_cl_tile t = {.tx = cl->cpu ? 2 : edge,
                  .ty = cl->cpu ? 8 : edge,
                  .rows = 1,
                  .columns = cl->cpu ? 2 : 1,
                  .vector = cl->cpu ? 16 : 4};
  while (t.rows < most && t.ty * t.rows < p->m) t.rows *= 2;
  return t;
}

/* The image that taps are taken from, with `in` channels a group, and the image that positions are
 * counted in, with `out`. */
typedef struct images {
  const ac_operand *taps, *positions;
  int64_t in, out;
} images;

static ac_status multiply(ac_opencl *cl, const shapes *s, const product *p, const images *of,
                          ac_cl_argument a, ac_cl_argument bias, ac_cl_argument c, bool add) {
  const ac_cl_tile t = tile_of(cl, p);
  char tile[AC_CL_TILE_OPTIONS], options[AC_CL_TILE_OPTIONS + 48];
  ac_cl_tile_options(tile, &t);
  snprintf(options, sizeof options, "-D%s %s%s", p->kind,
           ac_cl_conv_is_of_volumes(s) ? "-DVOLUME " : "", tile);
  const int64_t groups = ac_cl_tile_count(&t, p->m, p->n) * s->attributes->groups * p->chunks;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"conv2d", "conv2d", options}),
                      ac_cl_groups(groups, t.tx, t.ty), a, AC_CL_OPERAND(*of->taps), bias, c,
                      AC_CL_INT(p->m), AC_CL_INT(p->n), AC_CL_INT(p->k), AC_CL_INT(p->chunk),
                      AC_CL_INT(add), AC_CL_GEOMETRY(s, of->taps, of->in, of->positions, of->out));
}

/* Volumes have no kernels of their own for these. */
static bool is_depthwise(const shapes *s) {
  return s->in == 1 && !ac_cl_conv_is_of_volumes(s);
}

/* All kernels for depthwise convolutions are compiled together, so all with a row group. */
static ac_cl_kernel plain_kernel(const ac_opencl *cl, const char *name, int64_t row) {
  return (ac_cl_kernel){"conv2d", name, ac_cl_row_options(cl, row)};
}

static ac_status by_unit(ac_opencl *cl, const shapes *s, const ac_op_args *args, bool *take) {
  return ac_cl_columns_take(cl, s, args->op, cl->storage, take);
}

/* `plain` without a unit. */
static uint64_t workspace(ac_opencl *cl, const shapes *s, const ac_op_args *args, uint64_t plain) {
  bool unit;
  const ac_status status = by_unit(cl, s, args, &unit);
  return ac_cl_unit_bytes(status, unit, plain, ac_cl_columns_workspace(cl, s, args->op));
}

/* ---- forward, and transposed ----------------------------------------------------------------- */

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const shapes s = shapes_of(args, &args->in[0], &args->in[1], &args->out[0]);
  if (is_depthwise(&s))
    return AC_CL_LAUNCH(cl, plain_kernel(cl, "depthwise", 1), ac_cl_elements(cl, s.y->count),
                        AC_CL_OPERAND(*s.x), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                        AC_CL_OPERAND(*s.y), AC_CL_LONG(s.y->count), AC_CL_INT(args->add[0]),
                        AC_CL_GEOMETRY(&s, s.x, s.in, s.y, s.out));
  bool unit;
  AC_TRY(by_unit(cl, &s, args, &unit));
  if (unit) return ac_cl_columns_forward(cl, &s, args);
  const int64_t k = s.in * s.kd * s.kh * s.kw;
  const product p = {"FORWARD", s.out, s.images * ac_cl_conv_pixels(s.y), k, k, 1};
  const images of = {s.x, s.y, s.in, s.out};
  return multiply(cl, &s, &p, &of, AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                  AC_CL_OPERAND(*s.y), args->add[0]);
}

static uint64_t forward_workspace(ac_opencl *cl, const ac_op_args *args) {
  const shapes s = shapes_of(args, &args->in[0], &args->in[1], &args->out[0]);
  return workspace(cl, &s, args, 0);
}

static ac_status transposed(ac_opencl *cl, const ac_op_args *args) {
  const shapes s = shapes_of(args, &args->out[0], &args->in[1], &args->in[0]);
  if (is_depthwise(&s))
    return AC_CL_LAUNCH(cl, plain_kernel(cl, "depthwise_input_gradient", 1),
                        ac_cl_elements(cl, s.x->count), AC_CL_OPERAND(*s.y),
                        AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(*s.x),
                        AC_CL_LONG(s.x->count), AC_CL_INT(args->add[0]),
                        AC_CL_GEOMETRY(&s, s.x, s.in, s.y, s.out));
  bool unit;
  AC_TRY(by_unit(cl, &s, args, &unit));
  if (unit) return ac_cl_columns_transposed(cl, &s, args);
  const int64_t k = s.out * s.kd * s.kh * s.kw;
  const product p = {"INPUT_GRADIENT", s.in, s.images * ac_cl_conv_pixels(s.x), k, k, 1};
  const images of = {s.y, s.x, s.out, s.in};
  return multiply(cl, &s, &p, &of, AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                  AC_CL_OPERAND(*s.x), args->add[0]);
}

static uint64_t transposed_workspace(ac_opencl *cl, const ac_op_args *args) {
  const shapes s = shapes_of(args, &args->out[0], &args->in[1], &args->in[0]);
  return workspace(cl, &s, args, 0);
}

/* ---- the weight's gradient ------------------------------------------------------------------- */

/* Into how many chunks the positions may be cut. */
static int64_t most_chunks(const shapes *s, const ac_operand *weight) {
  const int64_t positions = s->images * ac_cl_conv_pixels(s->y);
  int64_t most = PARTIAL_BYTES / ((int64_t)sizeof(float) * weight->count);
  if (most > MOST_CHUNKS) most = MOST_CHUNKS;
  if (most > positions / LEAST_CHUNK) most = positions / LEAST_CHUNK;
  return most < 1 ? 1 : most;
}

static product weight_product(const shapes *s, const ac_operand *weight) {
  const int64_t k = s->images * ac_cl_conv_pixels(s->y), most = most_chunks(s, weight);
  const int64_t chunk = (k + most - 1) / most;
  return (product){"WEIGHT_GRADIENT",      s->out, s->in * s->kd * s->kh * s->kw, k, chunk,
                   (k + chunk - 1) / chunk};
}

static uint64_t weight_gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *weight = &args->out[0];
  const shapes s = shapes_of(args, &args->in[0], weight, &args->in[1]);
  if (!weight->count || is_depthwise(&s)) return 0;
  return workspace(cl, &s, args,
                   sizeof(float) * (uint64_t)(weight->count * most_chunks(&s, weight)));
}

static ac_status bias_gradient(ac_opencl *cl, const shapes *s, const ac_operand *db, bool add) {
  const int64_t pixels = ac_cl_conv_pixels(s->y);
  return AC_CL_LAUNCH(cl, plain_kernel(cl, "channel_sums", pixels),
                      ac_cl_rows(cl, s->y->dim[1], pixels), AC_CL_OPERAND(*s->y),
                      AC_CL_OPERAND(*db), AC_CL_INT(s->images), AC_CL_INT(s->y->dim[1]),
                      AC_CL_INT(pixels), AC_CL_INT(add));
}

static ac_status depthwise_gradient(ac_opencl *cl, const shapes *s, const ac_operand *dw,
                                    bool add) {
  const int64_t pixels = ac_cl_conv_pixels(s->y);
  return AC_CL_LAUNCH(cl, plain_kernel(cl, "depthwise_weight_gradient", pixels),
                      ac_cl_rows(cl, dw->count, pixels), AC_CL_OPERAND(*s->x), AC_CL_OPERAND(*s->y),
                      AC_CL_OPERAND(*dw), AC_CL_INT(s->images), AC_CL_INT(add),
                      AC_CL_GEOMETRY(s, s->x, s->in, s->y, s->out));
}

static ac_status weight_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dw = &args->out[0], *db = &args->out[1];
  const shapes s = shapes_of(args, &args->in[0], dw, &args->in[1]);
  if (db->count) AC_TRY(bias_gradient(cl, &s, db, args->add[1]));
  if (!dw->count) return AC_OK;
  if (is_depthwise(&s)) return depthwise_gradient(cl, &s, dw, args->add[0]);
  bool unit;
  AC_TRY(by_unit(cl, &s, args, &unit));
  if (unit) return ac_cl_columns_weight_gradient(cl, &s, args);
  const product p = weight_product(&s, dw);
  const images of = {s.x, s.y, s.in, s.out};
  AC_TRY(multiply(cl, &s, &p, &of, AC_CL_OPERAND(*s.y), AC_CL_BUFFER(NULL),
                  AC_CL_BUFFER(args->workspace), false));
  return ac_cl_add_chunks(cl, args->workspace, 0, p.chunks, dw->count, dw->data, args->add[0]);
}

/* ---- what kernels can count ------------------------------------------------------------------ */

/* Whether counts fit in 32 bits: the positions of all images and the terms of their sums. The terms
 * are the weights of an output, or in some passes those of an input. */
static bool counts_fit(const ac_operand *image, const ac_operand *weight) {
  for (int i = 0; i < 2 && weight->count; i++)
    if (weight->count / weight->dim[i] > INT32_MAX / 2) return false;
  return image->count / image->dim[1] <= INT32_MAX / 2;
}

static bool fits(const ac_op_args *args) {
  return counts_fit(&args->out[0], &args->in[1]);
}

static bool weight_gradient_fits(const ac_op_args *args) {
  return counts_fit(&args->in[1], &args->out[0]);
}

const ac_cl_op ac_cl_op_conv2d = {.run = forward, .workspace = forward_workspace, .fits = fits};
const ac_cl_op ac_cl_op_conv_transpose2d = {
    .run = transposed, .workspace = transposed_workspace, .fits = fits};
const ac_cl_op ac_cl_op_conv2d_weight_gradient = {
    .run = weight_gradient, .workspace = weight_gradient_workspace, .fits = weight_gradient_fits};
