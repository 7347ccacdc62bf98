/* The output projection fused with softmax cross-entropy, a chunk of rows at a time:
 *   z = x W^T | rows' losses | sums += | z becomes dz | dW += dz^T x | dx = dz W
 * dx may lie in x's place, because its rows are written after dW is done with those of x.
 *
 * The chunk lies at the workspace's end, since CLBlast wants its own memory at the beginning:
 *
 *   | (loss, weight, weight if right) and (largest, log of the sum) of each row, or a product's
 *     temporary | z, dz |
 *
 * Log-probabilities of rows are made in the same way; their gradients come in place of weights.
 *
 * No product runs between the rows' losses and dz. z is float whatever the storage, and so is dz
 * unless storage is bf16 and the device's matrix unit takes all three products: then dz is rounded
 * to bf16, once, each row in the first half of its logits. Its rows begin at multiples of 16 bytes,
 * because the unit reads these faster. With f16 dz stays float: its largest values are the loss
 * scale, which may be too large for f16, and most values are far smaller. */
#include "ops/loss/linear_log_probability.h"

#include "backend/opencl/loss/cross_entropy.h"
#include "backend/opencl/loss/head.h"
#include "backend/opencl/loss/losses.h"
#include "backend/opencl/product/layer.h"
#include "core/error.h"
#include "core/integers.h"

/* Sizes in floats. */
enum {
  RESULTS = 3,    /* of a row: for its sums, */
  EXTENT = 2,     /* and for its gradient */
  ALIGNMENT = 64, /* z begins at multiples of it */
  ROW = 4         /* and its rows, where they have gaps, at multiples of this */
};

typedef struct chunk {
  const ac_op_args *args;
  int64_t first, count, width, classes, pitch, first_logit; /* pitch: of z */
  bool out_in;
  bool narrow; /* dz is bf16 */
} chunk;

static int64_t largest_pitch(int64_t classes) {
  return (classes + ROW - 1) / ROW * ROW;
}

static chunk chunk_of(const ac_op_args *args, bool narrow, int64_t first) {
  const ac_linear_cross_entropy_attributes *attributes = args->attributes;
  const int64_t rows = ac_rows(&args->in[0]), most = ac_linear_cross_entropy_chunk(args);
  chunk c = {.args = args,
             .first = first,
             .count = rows - first < most ? rows - first : most,
             .width = ac_columns(&args->in[0]),
             .classes = ac_linear_cross_entropy_classes(args),
             .out_in = attributes->layout == AC_OUT_IN,
             .narrow = narrow};
  c.pitch = narrow ? largest_pitch(c.classes) : c.classes;
  c.first_logit = ((int64_t)(args->workspace_bytes / sizeof(float)) - most * c.pitch) &
                  ~(int64_t)(ALIGNMENT - 1);
  return c;
}

static ac_cl_matrix logits_of(const chunk *c) {
  return (ac_cl_matrix){
      .data = c->args->workspace, .first = c->first_logit, .is_float = true, .pitch = c->pitch};
}

/* dz, which has taken z's place. */
static ac_cl_matrix gradients_of(const chunk *c) {
  ac_cl_matrix dz = logits_of(c);
  if (c->narrow) dz.first *= 2, dz.is_float = false, dz.pitch = 2 * c->pitch;
  return dz;
}

/* The chunk's rows of the layer that yields the logits, y. */
static ac_cl_layer layer_of(const chunk *c, const ac_operand *x, ac_cl_matrix w, ac_cl_matrix y,
                            bool add) {
  return (ac_cl_layer){.rows = c->count,
                       .in = c->width,
                       .out = c->classes,
                       .out_in = c->out_in,
                       .x = {.data = x->data, .first = c->first * c->width},
                       .w = w,
                       .y = y,
                       .add = add};
}

static ac_cl_product logits_product(const chunk *c) {
  const ac_cl_matrix w = {.data = c->args->in[1].data};
  const ac_cl_layer layer = layer_of(c, &c->args->in[0], w, logits_of(c), false);
  return ac_cl_layer_output(&layer);
}

static ac_cl_product weight_product(const chunk *c) {
  const ac_cl_matrix dw = {.data = c->args->out[1].data, .is_float = true};
  const bool add = c->args->add[1] || c->first > 0;
  const ac_cl_layer layer = layer_of(c, &c->args->in[0], dw, gradients_of(c), add);
  return ac_cl_layer_weight_gradient(&layer);
}

static ac_cl_product input_product(const chunk *c) {
  const ac_cl_matrix w = {.data = c->args->in[1].data};
  const ac_cl_layer layer = layer_of(c, &c->args->out[0], w, gradients_of(c), c->args->add[0]);
  return ac_cl_layer_input_gradient(&layer);
}

static bool is_gradient(const ac_op_args *args) {
  return args->op == AC_OP_linear_cross_entropy_gradient || ac_head_has_row_gradients(args);
}

/* y = weight log p - less of the chunk's rows. */
static ac_status store_log_probabilities(ac_opencl *cl, const chunk *c) {
  const ac_op_args *args = c->args;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"linear_log_probability", "store_rows", NULL}),
                      ac_cl_elements(cl, c->count), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->in[4]), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(c->count),
                      AC_CL_LONG(c->first));
}

/* All, whichever gradient is wanted, so that dz does not depend on it. */
static ac_status choose_narrow(ac_opencl *cl, const ac_op_args *args, bool *narrow) {
  *narrow = false;
  if (!is_gradient(args) || cl->storage != AC_BF16) return AC_OK;
  const chunk c = chunk_of(args, true, 0);
  const ac_cl_product products[] = {logits_product(&c), weight_product(&c), input_product(&c)};
  return ac_cl_unit_takes_all(cl, AC_BF16, products, 3, narrow);
}

static ac_status run_chunk(ac_opencl *cl, const chunk *c) {
  const ac_op_args *args = c->args;
  const ac_linear_cross_entropy_attributes *attributes = args->attributes;
  const int sums = is_gradient(args) ? 2 : 0;
  const ac_cl_loss_rows rows = {.attributes = &attributes->loss,
                                .smoothing =
                                    ac_cross_entropy_smoothing(&attributes->loss, args->run),
                                .logits = args->workspace,
                                .targets = args->in[2].data,
                                .weights = args->in[3].count ? args->in[3].data : NULL,
                                .extents = args->workspace,
                                .count = c->count,
                                .width = c->classes,
                                .pitch = c->pitch,
                                .first = c->first,
                                .first_logit = c->first_logit,
                                .first_extent = RESULTS * c->count,
                                .float_logits = true,
                                .soft_cap = attributes->soft_cap};
  const ac_cl_product logits = logits_product(c);
  AC_TRY(ac_cl_gemm(cl, &logits, args->workspace));
  AC_TRY(ac_cl_row_losses(cl, &rows, args->workspace));
  if (!ac_head_has_rows(args))
    AC_TRY(ac_cl_sum_losses(cl, args->workspace, c->count, &args->out[sums],
                            args->add[sums] || c->first > 0));
  else if (!is_gradient(args)) AC_TRY(store_log_probabilities(cl, c));
  if (!is_gradient(args)) return AC_OK;
  const float scale = ac_head_has_rows(args) ? -1 : ac_loss_scale(args);
  AC_TRY(c->narrow ? ac_cl_narrowed_row_gradients(cl, &rows, scale)
                   : ac_cl_row_gradients(cl, &rows, args->workspace, scale));
  const ac_cl_product weight = weight_product(c), input = input_product(c);
  if (args->out[1].count) AC_TRY(ac_cl_gemm(cl, &weight, args->workspace));
  return args->out[0].count ? ac_cl_gemm(cl, &input, args->workspace) : AC_OK;
}

/* The last chunk may be shorter and need other kernels, so it is also prepared. */
ac_status ac_cl_head_run(ac_opencl *cl, const ac_op_args *args) {
  const int64_t rows = ac_rows(&args->in[0]), most = ac_linear_cross_entropy_chunk(args);
  bool narrow;
  AC_TRY(choose_narrow(cl, args, &narrow));
  for (int64_t first = 0; first < rows; first += most) {
    const chunk c = chunk_of(args, narrow, first);
    AC_TRY(run_chunk(cl, &c));
  }
  return AC_OK;
}

/* The workspace of the first chunk, as if it began within x and dx like the later ones. It does not
 * depend on how dz is stored: CLBlast takes no product with 16-bit storage. */
uint64_t ac_cl_head_workspace(ac_opencl *cl, const ac_op_args *args) {
  chunk c = chunk_of(args, false, 0);
  c.first = c.first_logit = ALIGNMENT;
  const ac_cl_product logits = logits_product(&c), weight = weight_product(&c),
                      input = input_product(&c);
  uint64_t bytes = (RESULTS + EXTENT) * sizeof(float) * (uint64_t)c.count;
  bytes = ac_larger_bytes(bytes, ac_cl_gemm_workspace(cl, &logits));
  if (is_gradient(args) && args->out[1].count)
    bytes = ac_larger_bytes(bytes, ac_cl_gemm_workspace(cl, &weight));
  if (is_gradient(args) && args->out[0].count)
    bytes = ac_larger_bytes(bytes, ac_cl_gemm_workspace(cl, &input));
  return bytes + sizeof(float) * (uint64_t)(c.count * largest_pitch(c.classes) + ALIGNMENT);
}

const ac_cl_op ac_cl_op_linear_cross_entropy = {.run = ac_cl_head_run,
                                                .workspace = ac_cl_head_workspace};
const ac_cl_op ac_cl_op_linear_cross_entropy_gradient = {.run = ac_cl_head_run,
                                                         .workspace = ac_cl_head_workspace};
