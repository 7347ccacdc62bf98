/* Attention and its gradient: launches and tile shapes of cl/attention/attention.cl. In bf16 a
 * matrix unit multiplies where there is one and all is as in causal self-attention
 * (attention_scores.c). Segments make a launch more, of lists of the tiles that have to be visited.
 *
 * Workspace: attention      | lists of keys |
 *            its gradient   | D | lists of keys | lists of queries | */
#include "backend/opencl/attention/attention.h"

#include <stdio.h>

#include "backend/opencl/product/gemm.h"
#include "core/error.h"

/* The kernels' type of this name. */
typedef struct problem {
  int32_t queries, keys, heads, key_heads, size, values;
  int32_t q_stride, k_stride, v_stride, k_first, v_first;
  int32_t before, after, at_end, skip_padding, per_sample, bias_heads, bias_samples;
  float scale, cap;
  uint32_t seed_low, seed_high, first_sample, update, stream, threshold;
  float factor;
} problem;

/* An op's operands by what they are, its shapes and how it is cut. */
typedef struct call {
  const ac_op_args *args;
  const ac_attention_attributes *a;
  const ac_operand *q, *k, *v, *bias, *lengths, *segments, *key_segments;
  ac_attention_shape s;
  bool masked;      /* not as in causal self-attention */
  int tx, ty, rows; /* work-items along each side of a group, and rows of each */
  int own, other;   /* rows of a tile */
} call;

/* Whether it is causal self-attention of as many heads, without any other mask. */
static bool is_plain(const call *c) {
  return c->s.packed && c->a->causal && !c->a->window && !(c->a->soft_cap > 0) &&
         c->a->key_heads == c->a->heads && !c->a->at_end && !c->a->skip_padding &&
         !c->bias->count && !c->lengths->count && !c->segments->count;
}

static call call_of(const ac_opencl *cl, const ac_op_args *args) {
  const bool backward = args->op == AC_OP_attention_gradient;
  const ac_operand *q = &args->in[backward ? 1 : 0], *masks = &args->in[backward ? 6 : 3];
  call c = {.args = args,
            .a = args->attributes,
            .q = q,
            .k = q[1].count ? q + 1 : q,
            .v = q[1].count ? q + 2 : q,
            .bias = masks,
            .lengths = masks + 1,
            .segments = masks + 2,
            .key_segments = masks + 3};
  c.s = ac_attention_shape_of(c.a, q, q + 1, q + 2, masks);
  c.masked = !is_plain(&c);
  if (!cl) return c;
  c.ty = cl->group == 256 ? 16 : 8;
  /* An item of a CPU has vectors. */
  c.tx = cl->cpu ? 1 : c.ty;
  /* Wide heads leave fewer registers for rows, and so do masks on a GPU. */
  c.rows = ac_larger(c.s.size, c.s.values) <= 64 && (cl->cpu || !c.masked) ? 4 : 2;
  c.own = c.ty * c.rows;
  c.other = 2 * (cl->cpu ? 16 : c.tx);
  return c;
}

static problem problem_of(const call *c) {
  const ac_attention_shape *s = &c->s;
  const ac_run_state *run = c->args->run;
  /* One as large as all positions is none. */
  const int32_t window = c->a->window < s->queries + s->keys ? c->a->window : 0;
  const float dropout = run->training ? c->a->dropout : 0;
  const int64_t after_q = s->packed ? s->heads * s->size : 0;
  return (problem){.queries = (int32_t)s->queries,
                   .keys = (int32_t)s->keys,
                   .heads = (int32_t)s->heads,
                   .key_heads = (int32_t)s->key_heads,
                   .size = (int32_t)s->size,
                   .values = (int32_t)s->values,
                   .q_stride = (int32_t)s->q_stride,
                   .k_stride = (int32_t)s->k_stride,
                   .v_stride = (int32_t)s->v_stride,
                   .k_first = (int32_t)after_q,
                   .v_first = (int32_t)(s->packed ? after_q + s->key_heads * s->size : 0),
                   .before = window ? window - 1 : INT32_MAX,
                   .after = c->a->causal ? 0
                            : window     ? window - 1
                                         : INT32_MAX,
                   .at_end = c->a->at_end,
                   .skip_padding = c->a->skip_padding,
                   .per_sample = c->a->per_sample,
                   .bias_heads = s->bias_head ? (int32_t)s->heads : 1,
                   .bias_samples = s->bias_batch != 0,
                   .scale = c->a->scale,
                   .cap = c->a->soft_cap,
                   .seed_low = (uint32_t)run->seed,
                   .seed_high = (uint32_t)(run->seed >> 32),
                   .first_sample = run->sample,
                   .update = run->update,
                   .stream = c->a->stream,
                   .threshold = ac_dropout_threshold(dropout),
                   .factor = ac_dropout_factor(dropout)};
}

enum { OPTIONS = 128 };
static void options_of(char options[OPTIONS], const call *c, const char *pass) {
  snprintf(options, OPTIONS, "-DTX=%d -DTY=%d -DROWS=%d -DCOLUMNS=2 -DHEAD=%d -D%s%s", c->tx, c->ty,
           c->rows, (int)ac_larger(c->s.size, c->s.values), pass, c->masked ? " -DMASKED" : "");
}

static ac_cl_attention attention_of(const call *c) {
  return (ac_cl_attention){.samples = c->s.batch,
                           .positions = c->s.queries,
                           .heads = c->s.heads,
                           .head_size = c->s.size};
}

/* Whether a matrix unit takes it. Its kernels count samples by rows of B, which dropout must not do
 * where a sample has several: rows of neighbouring samples would have the same masks. */
static ac_status take_unit(ac_opencl *cl, const call *c, const ac_cl_attention *whole, bool *take) {
  *take = false;
  if (c->masked || (c->a->dropout > 0 && c->a->per_sample > 1)) return AC_OK;
  return ac_cl_scores_take(cl, whole, c->args->op, cl->storage, take);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Elements of the lists of the tiles of `rows`, of those of `others`. */
static int64_t list_size(const call *c, int64_t rows, int64_t others) {
  if (!c->segments->count) return 0;
  return c->s.batch * ac_ceil_div(rows, c->own) * (ac_ceil_div(others, c->other) + 1);
}

static ac_status fill_list(ac_opencl *cl, const call *c, const char *options, int64_t first,
                           bool keys_own) {
  const int64_t tiles = c->s.batch * ac_ceil_div(keys_own ? c->s.keys : c->s.queries, c->own);
  const problem p = problem_of(c);
  if (!c->segments->count) return AC_OK;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_lists", options}),
                      ac_cl_elements(cl, tiles), AC_CL_LARGE_OF(p), AC_CL_OPERAND(*c->lengths),
                      AC_CL_OPERAND(*c->segments), AC_CL_OPERAND(*c->key_segments),
                      AC_CL_BUFFER(c->args->workspace), AC_CL_LONG(first), AC_CL_INT(keys_own),
                      AC_CL_LONG(tiles));
}

/* What masks need; `first`: of the list in the workspace. */
#define MASKS(c, p, first)                                                  \
  AC_CL_LARGE_OF(p), AC_CL_OPERAND(*(c).bias), AC_CL_OPERAND(*(c).lengths), \
      AC_CL_OPERAND(*(c).segments), AC_CL_OPERAND(*(c).key_segments),       \
      AC_CL_BUFFER((c).segments->count ? (c).args->workspace : NULL), AC_CL_LONG(first)

/* A work-group for each tile of rows of each head of each sample. */
static ac_cl_grid tiles_of(const call *c, int64_t rows, int64_t heads) {
  return ac_cl_groups(ac_ceil_div(rows, c->own) * heads * c->s.batch, c->tx, c->ty);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const call c = call_of(cl, args);
  const ac_cl_attention whole = attention_of(&c);
  const problem p = problem_of(&c);
  bool unit;
  AC_TRY(take_unit(cl, &c, &whole, &unit));
  if (unit) return ac_cl_scores_forward(cl, &whole, args);
  char options[OPTIONS];
  options_of(options, &c, "FORWARD");
  AC_TRY(fill_list(cl, &c, options, 0, false));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention", options}),
                      tiles_of(&c, c.s.queries, c.s.heads), AC_CL_OPERAND(*c.q),
                      AC_CL_OPERAND(*c.k), AC_CL_OPERAND(*c.v), AC_CL_OPERAND(args->out[0]),
                      AC_CL_OPERAND(args->out[1]), MASKS(c, p, 0));
}

/* `plain` without a unit. */
static uint64_t workspace(ac_opencl *cl, const call *c, uint64_t plain) {
  const ac_cl_attention whole = attention_of(c);
  bool unit;
  const ac_status status = take_unit(cl, c, &whole, &unit);
  if (!unit && status == AC_OK) return plain;
  return ac_cl_unit_bytes(status, unit, plain, ac_cl_scores_workspace(cl, &whole, c->args->op));
}

static uint64_t forward_workspace(ac_opencl *cl, const ac_op_args *args) {
  const call c = call_of(cl, args);
  return workspace(cl, &c, sizeof(int32_t) * (uint64_t)list_size(&c, c.s.queries, c.s.keys));
}

/* Where D, of each row of each head, and the lists are. */
static uint64_t gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  const call c = call_of(cl, args);
  return workspace(cl, &c,
                   sizeof(float) *
                       (uint64_t)(args->in[5].count + list_size(&c, c.s.queries, c.s.keys) +
                                  list_size(&c, c.s.keys, c.s.queries)));
}

static ac_status query_gradient(ac_opencl *cl, const call *c) {
  const ac_operand *dy = &c->args->in[0], *lse = &c->args->in[5], *dq = &c->args->out[0];
  const problem p = problem_of(c);
  char options[OPTIONS];
  options_of(options, c, "QUERY_GRADIENT");
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_row_products", options}),
                      ac_cl_elements(cl, lse->count), AC_CL_OPERAND(*dy),
                      AC_CL_OPERAND(c->args->in[4]), AC_CL_BUFFER(c->args->workspace),
                      AC_CL_LONG(lse->count), AC_CL_INT(p.queries), AC_CL_INT(p.heads),
                      AC_CL_INT(p.values)));
  if (!dq->count) return AC_OK;
  AC_TRY(fill_list(cl, c, options, lse->count, false));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_query_gradient", options}),
                      tiles_of(c, c->s.queries, c->s.heads), AC_CL_OPERAND(*dy),
                      AC_CL_OPERAND(*c->q), AC_CL_OPERAND(*c->k), AC_CL_OPERAND(*c->v),
                      AC_CL_OPERAND(*lse), AC_CL_BUFFER(c->args->workspace), AC_CL_OPERAND(*dq),
                      MASKS(*c, p, lse->count));
}

static ac_status key_gradient(ac_opencl *cl, const call *c) {
  const ac_operand *dy = &c->args->in[0], *lse = &c->args->in[5], *out = c->args->out,
                   *dk = &out[c->s.packed ? 0 : 1], *dv = &out[c->s.packed ? 0 : 2];
  const int64_t first = lse->count + list_size(c, c->s.queries, c->s.keys);
  const problem p = problem_of(c);
  char options[OPTIONS];
  if (!dk->count && !dv->count) return AC_OK;
  options_of(options, c, "KEY_GRADIENT");
  AC_TRY(fill_list(cl, c, options, first, true));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_key_gradient", options}),
                      tiles_of(c, c->s.keys, c->s.key_heads), AC_CL_OPERAND(*dy),
                      AC_CL_OPERAND(*c->q), AC_CL_OPERAND(*c->k), AC_CL_OPERAND(*c->v),
                      AC_CL_OPERAND(*lse), AC_CL_BUFFER(c->args->workspace), AC_CL_OPERAND(*dk),
                      AC_CL_OPERAND(*dv), MASKS(*c, p, first));
}

static ac_status bias_gradient(ac_opencl *cl, const call *c) {
  const ac_operand *dy = &c->args->in[0], *lse = &c->args->in[5], *dbias = &c->args->out[3];
  const problem p = problem_of(c);
  char options[OPTIONS];
  if (!dbias->count) return AC_OK;
  options_of(options, c, "BIAS_GRADIENT");
  const int64_t matrices = (p.bias_samples ? c->s.batch : 1) * p.bias_heads;
  const int64_t tiles = ac_ceil_div(c->s.queries, c->own) * ac_ceil_div(c->s.keys, c->other);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"attention", "attention_bias_gradient", options}),
                      ac_cl_groups(matrices * tiles, c->tx, c->ty), AC_CL_OPERAND(*dy),
                      AC_CL_OPERAND(*c->q), AC_CL_OPERAND(*c->k), AC_CL_OPERAND(*c->v),
                      AC_CL_OPERAND(*lse), AC_CL_BUFFER(c->args->workspace), AC_CL_OPERAND(*dbias),
                      AC_CL_INT(c->s.batch), AC_CL_INT(c->args->add[3]), MASKS(*c, p, 0));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const call c = call_of(cl, args);
  const ac_cl_attention whole = attention_of(&c);
  bool unit;
  AC_TRY(take_unit(cl, &c, &whole, &unit));
  if (unit) return ac_cl_scores_gradient(cl, &whole, args);
  AC_TRY(query_gradient(cl, &c));
  AC_TRY(key_gradient(cl, &c));
  return bias_gradient(cl, &c);
}

/* Registers hold the sums of a head of this size at most; sums of positions are of 32 bits. */
static bool fits(const ac_op_args *args) {
  const call c = call_of(NULL, args);
  return ac_larger(c.s.size, c.s.values) <= 256 && c.s.q_stride <= INT32_MAX &&
         c.s.k_stride <= INT32_MAX && c.s.v_stride <= INT32_MAX && c.s.queries < 1 << 29 &&
         c.s.keys < 1 << 29;
}

const ac_cl_op ac_cl_op_attention = {.run = forward, .workspace = forward_workspace, .fits = fits};
const ac_cl_op ac_cl_op_attention_gradient = {
    .run = gradient, .workspace = gradient_workspace, .fits = fits};
