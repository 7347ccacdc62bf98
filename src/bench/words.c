/* Ops in words: the shapes of their operands, and what of their attributes changes the work beside
 * these. Two ops that do different work have different words. What has no part in the work is left
 * out: streams of random numbers, epsilons, factors and rates. */
#include "bench/bench.h"

#include "ops/attention.h"
#include "ops/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/gelu.h"
#include "ops/linear.h"
#include "ops/linear_cross_entropy.h"
#include "ops/matmul.h"
#include "ops/pool2d.h"
#include "ops/transpose.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct words {
  char *text;
  size_t size, used;
} words;

static void put(words *w, const char *format, ...) {
  if (w->used >= w->size) return;
  va_list list;
  va_start(list, format);
  w->used += (size_t)vsnprintf(w->text + w->used, w->size - w->used, format, list);
  va_end(list);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Only where an op's operands may be of different types does the type belong to the shape. */
static void put_operand(words *w, const ac_operand *x, char kind, bool add) {
  if (!x->count) {
    put(w, "-");
    return;
  }
  if (add) put(w, "+");
  if (!x->rank) put(w, "1");
  for (int i = 0; i < x->rank; i++) put(w, "%s%" PRId64, i ? "x" : "", x->dim[i]);
  if (kind == 'a') put(w, ":%s", ac_dtype_name(x->dtype));
}

static int present(const ac_operand *list, int most) {
  int count = 0;
  for (int i = 0; i < most; i++)
    if (list[i].count) count = i + 1;
  return count;
}

static void put_shapes(words *w, const ac_op_args *args) {
  int inputs = present(args->in, AC_MAX_INPUTS), outputs = present(args->out, AC_MAX_OUTPUTS);
  for (int i = 0; i < inputs; i++) {
    put_operand(w, &args->in[i], ac_op_input_kind(args->op, i), false);
    put(w, " ");
  }
  put(w, "->");
  for (int j = 0; j < outputs; j++) {
    put(w, " ");
    put_operand(w, &args->out[j], ac_op_output_kind(args->op, j), args->add[j]);
  }
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Where a weight is not square its shape says it. */
static void put_layout(words *w, ac_layout layout, const ac_operand *weight) {
  if (layout == AC_IN_OUT && weight->count && weight->dim[0] == weight->dim[1]) put(w, ", in-out");
}

static void put_loss(words *w, const ac_cross_entropy_attributes *a) {
  if (a->smoothing > 0) put(w, ", smoothed");
  if (a->ignore) put(w, ", some ignored");
}

static void put_pair(words *w, const char *name, const int32_t pair[2], int32_t usual) {
  if (pair[0] == usual && pair[1] == usual) return;
  put(w, ", %s %" PRId32, name, pair[0]);
  if (pair[1] != pair[0]) put(w, "x%" PRId32, pair[1]);
}

static void put_conv2d(words *w, const ac_conv2d_attributes *a) {
  put_pair(w, "stride", a->stride, 1);
  put_pair(w, "padding", a->padding, 0);
  put_pair(w, "dilation", a->dilation, 1);
}

static void put_pool2d(words *w, const ac_pool2d_attributes *a) {
  put_pair(w, "kernel", a->kernel, 1);
  put_pair(w, "stride", a->stride, 1);
  put_pair(w, "padding", a->padding, 0);
}

static void put_matmul(words *w, const ac_matmul_attributes *a) {
  if (a->transpose_a) put(w, ", a transposed");
  if (a->transpose_b) put(w, ", b transposed");
}

static void put_linear_loss(words *w, const ac_linear_cross_entropy_attributes *a,
                            const ac_operand *weight) {
  put_layout(w, a->layout, weight);
  put_loss(w, &a->loss);
}

static void put_transpose(words *w, const ac_transpose_attributes *a) {
  put(w, ", axes %" PRId32 " and %" PRId32, a->axis_a, a->axis_b);
}

/* Of what does other work then. */
static void put_evaluation(words *w, const ac_run_state *run) {
  if (!run->training) put(w, ", in evaluation");
}

static void put_dropout(words *w, float dropout, const ac_run_state *run) {
  if (!(dropout > 0)) return;
  put(w, ", dropout");
  put_evaluation(w, run);
}

/* Groups, heads and scales of size can be told from the shapes, so they have no words. */
static void put_attributes(words *w, const ac_op_args *args) {
  const void *a = args->attributes;
  switch (args->op) {
  case AC_OP_linear:
  case AC_OP_linear_input_gradient:
    put_layout(w, ((const ac_linear_attributes *)a)->layout, &args->in[1]);
    break;
  case AC_OP_linear_weight_gradient:
    put_layout(w, ((const ac_linear_attributes *)a)->layout, &args->out[0]);
    break;
  case AC_OP_matmul:
    put_matmul(w, a);
    break;
  case AC_OP_gelu:
  case AC_OP_gelu_gradient:
    if (((const ac_gelu_attributes *)a)->kind == AC_GELU_ERF) put(w, ", erf");
    break;
  case AC_OP_attention:
  case AC_OP_attention_gradient:
    put_dropout(w, ((const ac_attention_attributes *)a)->dropout, args->run);
    break;
  case AC_OP_dropout:
    if (((const ac_dropout_attributes *)a)->p > 0) put_evaluation(w, args->run);
    break;
  case AC_OP_batch_norm:
    put_evaluation(w, args->run);
    break;
  case AC_OP_transpose:
    put_transpose(w, a);
    break;
  case AC_OP_cross_entropy:
  case AC_OP_cross_entropy_gradient:
    put_loss(w, a);
    break;
  case AC_OP_linear_cross_entropy:
  case AC_OP_linear_cross_entropy_gradient:
    put_linear_loss(w, a, &args->in[1]);
    break;
  case AC_OP_conv2d:
  case AC_OP_conv2d_input_gradient:
  case AC_OP_conv2d_weight_gradient:
    put_conv2d(w, a);
    break;
  case AC_OP_max_pool2d:
  case AC_OP_max_pool2d_gradient:
  case AC_OP_average_pool2d:
  case AC_OP_average_pool2d_gradient:
    put_pool2d(w, a);
    break;
  default:
    break;
  }
}

void ac_bench_describe(char *text, size_t size, const ac_op_args *args) {
  words w = {text, size, 0};
  put_shapes(&w, args);
  put_attributes(&w, args);
}
