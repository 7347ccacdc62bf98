/* Causal attention and its gradient: launches and tile shapes of cl/attention/attention.cl. In bf16
 * a matrix unit multiplies where there is one (attention_scores.c). */
#include "backend/opencl/attention/attention.h"

#include <stdio.h>

#include "backend/opencl/product/gemm.h"
#include "core/error.h"

static ac_cl_attention attention_of(const ac_operand *qkv, const ac_attention_attributes *a) {
  const int64_t positions = qkv->dim[qkv->rank - 2];
  return (ac_cl_attention){.samples = qkv->count / (ac_columns(qkv) * positions),
                           .positions = positions,
                           .heads = a->heads,
                           .head_size = ac_columns(qkv) / 3 / a->heads};
}

typedef struct shape {
  int64_t samples, positions, heads, head_size;
  int tx, ty, rows; /* work-items along each side of a group, and rows of each */
} shape;

static shape shape_of(const ac_opencl *cl, const ac_cl_attention *a) {
  shape s = {.samples = a->samples,
             .positions = a->positions,
             .heads = a->heads,
             .head_size = a->head_size,
             .ty = cl->group == 256 ? 16 : 8};
  /* An item of a CPU has vectors. */
  s.tx = cl->cpu ? 1 : s.ty;
  /* Wide heads leave fewer registers for rows. */
  s.rows = s.head_size <= 64 ? 4 : 2;
  return s;
}

enum { OPTIONS = 128 };
static void options_of(char options[OPTIONS], const shape *s, const char *pass) {
  snprintf(options, OPTIONS, "-DTX=%d -DTY=%d -DROWS=%d -DCOLUMNS=2 -DHEAD=%d -D%s", s->tx, s->ty,
           s->rows, (int)s->head_size, pass);
}

/* A work-group for each tile of rows of each head of each sample. */
static ac_cl_grid tiles_of(const shape *s) {
  const int64_t rows = (int64_t)s->ty * s->rows;
  return ac_cl_groups((s->positions + rows - 1) / rows * s->heads * s->samples, s->tx, s->ty);
}

#define MASKED_ARGUMENTS(s, args) AC_CL_INT((s).positions), AC_CL_INT((s).heads), AC_CL_MASK(args)

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_cl_attention whole = attention_of(&args->in[0], args->attributes);
  bool unit;
  AC_TRY(ac_cl_scores_take(cl, &whole, args->op, cl->storage, &unit));
  if (unit) return ac_cl_scores_forward(cl, &whole, args);
  const shape s = shape_of(cl, &whole);
  char forward[OPTIONS];
  options_of(forward, &s, "FORWARD");
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention", forward}), tiles_of(&s),
                      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->out[0]),
                      AC_CL_OPERAND(args->out[1]), MASKED_ARGUMENTS(s, args));
}

/* `plain` without a unit. */
static uint64_t workspace(ac_opencl *cl, const ac_op_args *args, const ac_operand *qkv,
                          uint64_t plain) {
  const ac_cl_attention whole = attention_of(qkv, args->attributes);
  bool unit;
  const ac_status status = ac_cl_scores_take(cl, &whole, args->op, cl->storage, &unit);
  return ac_cl_unit_bytes(status, unit, plain, ac_cl_scores_workspace(cl, &whole, args->op));
}

static uint64_t forward_workspace(ac_opencl *cl, const ac_op_args *args) {
  return workspace(cl, args, &args->in[0], 0);
}

/* dy y of each row of each head. */
static uint64_t gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  return workspace(cl, args, &args->in[1], sizeof(float) * (uint64_t)args->in[5].count);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *qkv = &args->in[1], *y = &args->in[4], *lse = &args->in[5],
                   *dqkv = &args->out[0];
  const ac_cl_attention whole = attention_of(qkv, args->attributes);
  bool unit;
  AC_TRY(ac_cl_scores_take(cl, &whole, args->op, cl->storage, &unit));
  if (unit) return ac_cl_scores_gradient(cl, &whole, args);
  const shape s = shape_of(cl, &whole);
  char query[OPTIONS], key[OPTIONS];
  options_of(query, &s, "QUERY_GRADIENT");
  options_of(key, &s, "KEY_GRADIENT");
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_row_products", query}),
                      ac_cl_elements(cl, lse->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*y),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(lse->count), AC_CL_INT(s.positions),
                      AC_CL_INT(s.heads)));
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_query_gradient", query}),
                      tiles_of(&s), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*qkv), AC_CL_OPERAND(*lse),
                      AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(*dqkv),
                      MASKED_ARGUMENTS(s, args)));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_key_gradient", key}),
                      tiles_of(&s), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*qkv), AC_CL_OPERAND(*lse),
                      AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(*dqkv),
                      MASKED_ARGUMENTS(s, args));
}

/* Registers hold the sums of a head of this size at most, of queries, keys and values in one
 * tensor, without masks; `first` is the first of these operands. */
static bool fits(const ac_op_args *args, int first, int masks) {
  const ac_attention_attributes *a = args->attributes;
  bool plain = a->causal && !a->window && !(a->soft_cap > 0) && a->key_heads == a->heads &&
               !args->in[first + 1].count && !a->at_end && !a->skip_padding;
  for (int i = masks; i < masks + 4; i++) plain = plain && !args->in[i].count;
  return plain && ac_columns(&args->in[first]) / 3 / a->heads <= 256;
}

static bool forward_fits(const ac_op_args *args) {
  return fits(args, 0, 3);
}

static bool gradient_fits(const ac_op_args *args) {
  return fits(args, 1, 6);
}

const ac_cl_op ac_cl_op_attention = {
    .run = forward, .workspace = forward_workspace, .fits = forward_fits};
const ac_cl_op ac_cl_op_attention_gradient = {
    .run = gradient, .workspace = gradient_workspace, .fits = gradient_fits};
