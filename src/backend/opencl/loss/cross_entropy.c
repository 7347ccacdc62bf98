/* cross_entropy with softmax, and its gradient; also for the op that makes logits in chunks. */
#include "backend/opencl/loss/cross_entropy.h"

#include <stdio.h>

#include "backend/opencl/loss/losses.h"
#include "core/error.h"

enum { OPTIONS = 96 };
static void options_of(const ac_opencl *cl, const ac_cl_loss_rows *rows, char options[OPTIONS]) {
  const bool differ = rows->float_logits && cl->storage != AC_F32;
  char cap[32] = "";
  if (rows->soft_cap > 0) snprintf(cap, sizeof cap, " -DSOFT_CAP=%.9ef", rows->soft_cap);
  snprintf(options, OPTIONS, "%s%s%s", ac_cl_row_options(cl, rows->width),
           differ ? " -DLOGITS_F32" : "", cap);
}

ac_status ac_cl_row_losses(ac_opencl *cl, const ac_cl_loss_rows *rows, void *results) {
  char options[OPTIONS];
  options_of(cl, rows, options);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cross_entropy", "cross_entropy", options}),
                      ac_cl_rows(cl, rows->count, rows->width), AC_CL_BUFFER(rows->logits),
                      AC_CL_BUFFER(rows->targets), AC_CL_BUFFER(rows->weights),
                      AC_CL_BUFFER(rows->extents), AC_CL_BUFFER(results), AC_CL_LONG(rows->width),
                      AC_CL_LONG(rows->pitch), AC_CL_LONG(rows->first),
                      AC_CL_LONG(rows->first_logit), AC_CL_LONG(rows->first_extent),
                      AC_CL_INT(rows->attributes->ignore),
                      AC_CL_INT(rows->attributes->ignore_index), AC_CL_FLOAT(rows->smoothing));
}

ac_status ac_cl_row_gradients(ac_opencl *cl, const ac_cl_loss_rows *rows, void *dlogits,
                              float loss_scale) {
  char options[OPTIONS];
  options_of(cl, rows, options);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cross_entropy", "cross_entropy_gradient", options}),
                      ac_cl_elements(cl, rows->count * rows->width), AC_CL_BUFFER(rows->logits),
                      AC_CL_BUFFER(rows->targets), AC_CL_BUFFER(rows->weights),
                      AC_CL_BUFFER(rows->extents), AC_CL_BUFFER(dlogits), AC_CL_LONG(rows->count),
                      AC_CL_LONG(rows->width), AC_CL_LONG(rows->pitch), AC_CL_LONG(rows->first),
                      AC_CL_LONG(rows->first_logit), AC_CL_LONG(rows->first_extent),
                      AC_CL_FLOAT(loss_scale), AC_CL_INT(rows->attributes->ignore),
                      AC_CL_INT(rows->attributes->ignore_index), AC_CL_FLOAT(rows->smoothing));
}

ac_status ac_cl_narrowed_row_gradients(ac_opencl *cl, const ac_cl_loss_rows *rows,
                                       float loss_scale) {
  char options[OPTIONS];
  options_of(cl, rows, options);
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"cross_entropy", "cross_entropy_gradient_narrowed", options}),
      ac_cl_rows(cl, rows->count, rows->width), AC_CL_BUFFER(rows->logits),
      AC_CL_BUFFER(rows->targets), AC_CL_BUFFER(rows->weights), AC_CL_BUFFER(rows->extents),
      AC_CL_LONG(rows->width), AC_CL_LONG(rows->pitch), AC_CL_LONG(rows->first),
      AC_CL_LONG(rows->first_logit), AC_CL_LONG(rows->first_extent), AC_CL_FLOAT(loss_scale),
      AC_CL_INT(rows->attributes->ignore), AC_CL_INT(rows->attributes->ignore_index),
      AC_CL_FLOAT(rows->smoothing));
}

static ac_cl_loss_rows rows_of(const ac_op_args *args, const ac_operand *extents) {
  return (ac_cl_loss_rows){.attributes = args->attributes,
                           .smoothing = ac_cross_entropy_smoothing(args->attributes, args->run),
                           .logits = args->in[0].data,
                           .targets = args->in[1].data,
                           .weights = args->in[2].count ? args->in[2].data : NULL,
                           .extents = extents->data,
                           .count = ac_rows(&args->in[0]),
                           .width = ac_columns(&args->in[0]),
                           .pitch = ac_columns(&args->in[0])};
}

/* Loss, weight and weight if right of each row. */
static uint64_t forward_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 3 * sizeof(float) * (uint64_t)ac_rows(&args->in[0]);
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_loss_rows rows = rows_of(args, &args->out[1]);
  AC_TRY(ac_cl_row_losses(cl, &rows, args->workspace));
  if (!args->out[0].count) return AC_OK;
  return ac_cl_sum_losses(cl, args->workspace, rows.count, &args->out[0], args->add[0]);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_loss_rows rows = rows_of(args, &args->in[3]);
  return ac_cl_row_gradients(cl, &rows, args->out[0].data, ac_loss_scale(args));
}

const ac_cl_op ac_cl_op_cross_entropy = {.run = forward, .workspace = forward_workspace};
const ac_cl_op ac_cl_op_cross_entropy_gradient = {.run = gradient};
