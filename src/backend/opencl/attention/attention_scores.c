/* Attention in bf16 by matrix units: products of whole matrices, with scores in memory in between,
 * those of some heads at a time, and of all queries or some (names are attention.cl's):
 *
 *   s = q k^T          p = softmax(scale s) u, in bf16     y = p v
 *   s = q k^T, dy v^T  p and e, in bf16                    dq = e k, dk = e^T q, dv = p^T dy
 *
 * A block of queries uses the keys up to its last query. If the queries of a head are several
 * blocks, the last block comes first, and sums of dk and dv are kept in float until the first block
 * is added.
 *
 * In f16 the values of e would be as large as the loss scale and as small as weights, so f16 is
 * left to the kernels that keep e in registers.
 *
 * Workspace, for fewer samples never more, with lines of `pitch` keys:
 *   attention      | s [pairs, rows, pitch] float | p likewise, bf16 |
 *   its gradient   | s, dy v | p, e | dk, dv [pairs, 2, positions, head_size] float, if there
 *                    are blocks |
 * It is ac_cl_unit_space at most, or what 64 queries of one head need. */
#include "backend/opencl/attention/attention.h"

#include <stdio.h>

#include "backend/opencl/product/gemm.h"
#include "core/error.h"
#include "core/integers.h"

enum {
  ROWS = 64,            /* blocks of queries are multiples of so many */
  LEAST_POSITIONS = 64, /* fewer fill no tile */
  EMULATED_ROWS = 16,   /* where the unit is emulated, which is for tests */
  EMULATED_LEAST_POSITIONS = 2
};

/* Scores of `pairs` heads, counted over all samples, from `pair` on, and of `rows` queries from
 * `row` on; `inner` of the heads are of one sample. Places are in elements of their type. */
typedef struct block {
  const ac_cl_attention *s;
  int64_t pair, pairs, inner, row, rows;
  int64_t pitch, most_rows, most_pairs;
  int64_t d_at, p_at, e_at, sums_at; /* s is first */
  uint64_t bytes;
  bool gradient;
} block;

static int64_t pairs_of(const ac_cl_attention *s) {
  return s->samples * s->heads;
}

static int64_t width_of(const ac_cl_attention *s) {
  return s->heads * s->head_size;
}

/* Bytes of the operands: qkv and y of attention; dy, qkv, y and dqkv of its gradient. */
static int64_t operand_bytes(const ac_cl_attention *s, bool gradient) {
  return (int64_t)sizeof(uint16_t) * (gradient ? 8 : 4) * s->samples * s->positions * width_of(s);
}

static bool has_blocks(const block *b) {
  return b->most_rows < b->s->positions;
}

/* The size of dk and dv of a head, in elements. */
static int64_t sums_of_pair(const block *b) {
  return b->gradient && has_blocks(b) ? 2 * b->s->positions * b->s->head_size : 0;
}

static void lay_out(block *b) {
  const int64_t scores = b->most_pairs * b->most_rows * b->pitch, matrices = b->gradient ? 2 : 1;
  b->d_at = scores;
  b->p_at = 2 * matrices * scores;
  b->e_at = b->p_at + scores;
  b->sums_at = 3 * scores;
  b->bytes = sizeof(float) * (uint64_t)(matrices * scores + b->most_pairs * sums_of_pair(b)) +
             sizeof(uint16_t) * (uint64_t)(matrices * scores);
}

/* How the work is cut. Blocks of rows, on which sums depend, are what one sample has room for;
 * there are whole samples, if there is room for one. */
static block cut(const ac_opencl *cl, const ac_cl_attention *s, bool gradient) {
  block b = {.s = s, .gradient = gradient, .pitch = ac_ceil_div(s->positions, 8) * 8};
  const int64_t each = (gradient ? 2 : 1) * (int64_t)(sizeof(float) + sizeof(uint16_t)) * b.pitch;
  ac_cl_attention one = *s;
  one.samples = 1;
  const int64_t unit = cl->unit_emulated ? EMULATED_ROWS : ROWS,
                rows = ac_cl_unit_space(cl, operand_bytes(&one, gradient)) / each;
  b.most_rows = ac_smaller(s->positions, ac_larger(rows / unit, 1) * unit);
  const int64_t of_pair = each * b.most_rows + (int64_t)sizeof(float) * sums_of_pair(&b);
  b.most_pairs = ac_larger(ac_cl_unit_space(cl, operand_bytes(s, gradient)) / of_pair, 1);
  if (b.most_pairs > s->heads) b.most_pairs -= b.most_pairs % s->heads;
  b.most_pairs = ac_smaller(b.most_pairs, pairs_of(s));
  lay_out(&b);
  return b;
}

/* Takes the pairs from `pair` on; false after the last. */
static bool take_pairs(block *b, int64_t pair) {
  const int64_t heads = b->s->heads;
  if (pair >= pairs_of(b->s)) return false;
  b->pair = pair;
  b->pairs = ac_smaller(b->most_pairs, pairs_of(b->s) - pair);
  if (b->most_pairs < heads) b->pairs = ac_smaller(b->pairs, heads - pair % heads);
  b->inner = ac_smaller(b->pairs, heads);
  return true;
}

static void take_rows(block *b, int64_t row) {
  b->row = row;
  b->rows = ac_smaller(b->most_rows, b->s->positions - row);
}

/* The keys that its queries have seen. */
static int64_t keys_of(const block *b) {
  return b->row + b->rows;
}

/* ---- matrices -------------------------------------------------------------------------------- */

typedef struct matrix {
  const void *data;
  int64_t first, pitch, step[2];
  bool is_float;
} matrix;

/* Position `row` and those after it, of each head in [samples, positions, width], from that column
 * on. */
static matrix of_heads(const block *b, const void *data, int64_t width, int64_t column,
                       int64_t row) {
  const ac_cl_attention *s = b->s;
  const int64_t sample = b->pair / s->heads, head = b->pair % s->heads;
  return (matrix){.data = data,
                  .first = (sample * s->positions + row) * width + column + head * s->head_size,
                  .pitch = width,
                  .step = {s->head_size, s->positions * width}};
}

enum { QUERIES, KEYS, VALUES };

static matrix part_of(const block *b, const void *qkv, int part, int64_t row) {
  const int64_t width = width_of(b->s);
  return of_heads(b, qkv, 3 * width, part * width, row);
}

static matrix scores_at(const block *b, const void *workspace, int64_t first, bool is_float) {
  const int64_t each = b->rows * b->pitch;
  return (matrix){.data = workspace,
                  .first = first,
                  .pitch = b->pitch,
                  .step = {each, b->inner * each},
                  .is_float = is_float};
}

/* C (+)= op(A) op(B) for each head. */
typedef struct call {
  matrix a, b, c;
  bool transpose_a, transpose_b, add;
  int64_t m, n, k;
} call;

static ac_status multiply(ac_opencl *cl, const block *b, call x) {
  return ac_cl_gemm(cl,
                    &(ac_cl_product){.a = x.a.data,
                                     .b = x.b.data,
                                     .c = (void *)x.c.data,
                                     .transpose_a = x.transpose_a,
                                     .transpose_b = x.transpose_b,
                                     .add = x.add,
                                     .batched = true,
                                     .float_c = x.c.is_float,
                                     .m = x.m,
                                     .n = x.n,
                                     .k = x.k,
                                     .batch = b->pairs,
                                     .first_a = x.a.first,
                                     .first_b = x.b.first,
                                     .first_c = x.c.first,
                                     .pitch_a = x.a.pitch,
                                     .pitch_b = x.b.pitch,
                                     .pitch_c = x.c.pitch,
                                     .inner = b->inner,
                                     .step_a = {x.a.step[0], x.a.step[1]},
                                     .step_b = {x.b.step[0], x.b.step[1]},
                                     .step_c = {x.c.step[0], x.c.step[1]}},
                    NULL);
}

/* Rows of queries times those of keys or values. */
static ac_status multiply_rows(ac_opencl *cl, const block *b, matrix rows, matrix keys,
                               matrix scores) {
  return multiply(cl, b,
                  (call){.a = rows,
                         .b = keys,
                         .c = scores,
                         .transpose_b = true,
                         .m = b->rows,
                         .n = keys_of(b),
                         .k = b->s->head_size});
}

/* Weights times rows of keys or values. */
static ac_status add_rows(ac_opencl *cl, const block *b, matrix weights, matrix keys, matrix to) {
  return multiply(
      cl, b,
      (call){
          .a = weights, .b = keys, .c = to, .m = b->rows, .n = b->s->head_size, .k = keys_of(b)});
}

/* Weights turned times rows of queries, which add to what later blocks have left. */
static ac_status add_turned(ac_opencl *cl, const block *b, matrix weights, matrix rows, matrix to) {
  return multiply(cl, b,
                  (call){.a = weights,
                         .b = rows,
                         .c = to,
                         .transpose_a = true,
                         .add = keys_of(b) < b->s->positions,
                         .m = keys_of(b),
                         .n = b->s->head_size,
                         .k = b->rows});
}

/* ---- passes ---------------------------------------------------------------------------------- */

enum { OPTIONS = 48 };
static const char *options_of(const ac_opencl *cl, const block *b, char options[OPTIONS]) {
  snprintf(options, OPTIONS, "-DSCORES %s", ac_cl_row_options(cl, b->s->positions));
  return options;
}

static ac_cl_grid lines_of(const ac_opencl *cl, const block *b) {
  return ac_cl_rows(cl, b->pairs * b->rows, b->s->positions);
}

#define WHICH_SCORES(b, args)                                                                 \
  AC_CL_INT((b)->s->positions), AC_CL_INT((b)->s->heads), AC_CL_INT(keys_of(b)),              \
      AC_CL_INT((b)->pitch), AC_CL_INT((b)->rows), AC_CL_INT((b)->row), AC_CL_INT((b)->pair), \
      AC_CL_MASK(args)

static ac_status run_forward(ac_opencl *cl, const block *b, const ac_op_args *args) {
  const ac_operand *qkv = &args->in[0], *y = &args->out[0], *lse = &args->out[1];
  const matrix s = scores_at(b, args->workspace, 0, true);
  const matrix p = scores_at(b, args->workspace, b->p_at, false);
  char options[OPTIONS];
  AC_TRY(multiply_rows(cl, b, part_of(b, qkv->data, QUERIES, b->row),
                       part_of(b, qkv->data, KEYS, 0), s));
  AC_TRY(AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"attention", "attention_weights", options_of(cl, b, options)}),
      lines_of(cl, b), AC_CL_BUFFER(args->workspace), AC_CL_BUFFER(args->workspace),
      AC_CL_OPERAND(*lse), AC_CL_LONG(b->p_at), WHICH_SCORES(b, args)));
  return add_rows(cl, b, p, part_of(b, qkv->data, VALUES, 0),
                  of_heads(b, y->data, width_of(b->s), 0, b->row));
}

/* Where dk or dv of the heads go: to their places, or to sums. */
static matrix sums_of(const block *b, const ac_op_args *args, int part) {
  if (!has_blocks(b)) return part_of(b, args->out[0].data, part, 0);
  const int64_t each = sums_of_pair(b);
  return (matrix){.data = args->workspace,
                  .first = b->sums_at + (part - KEYS) * each / 2,
                  .pitch = b->s->head_size,
                  .step = {each, b->inner * each},
                  .is_float = true};
}

static ac_status run_gradient(ac_opencl *cl, const block *b, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *qkv = &args->in[1], *y = &args->in[4], *lse = &args->in[5];
  const matrix s = scores_at(b, args->workspace, 0, true),
               d = scores_at(b, args->workspace, b->d_at, true),
               p = scores_at(b, args->workspace, b->p_at, false),
               e = scores_at(b, args->workspace, b->e_at, false),
               q = part_of(b, qkv->data, QUERIES, b->row), k = part_of(b, qkv->data, KEYS, 0),
               rows_of_dy = of_heads(b, dy->data, width_of(b->s), 0, b->row);
  char options[OPTIONS];
  AC_TRY(multiply_rows(cl, b, q, k, s));
  AC_TRY(multiply_rows(cl, b, rows_of_dy, part_of(b, qkv->data, VALUES, 0), d));
  AC_TRY(AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"attention", "attention_weights_gradient", options_of(cl, b, options)}),
      lines_of(cl, b), AC_CL_BUFFER(args->workspace), AC_CL_BUFFER(args->workspace),
      AC_CL_OPERAND(*lse), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*y), AC_CL_LONG(b->d_at),
      AC_CL_LONG(b->p_at), AC_CL_LONG(b->e_at), AC_CL_INT(b->s->head_size), WHICH_SCORES(b, args)));
  AC_TRY(add_turned(cl, b, p, rows_of_dy, sums_of(b, args, VALUES)));
  AC_TRY(add_turned(cl, b, e, q, sums_of(b, args, KEYS)));
  return add_rows(cl, b, e, k, part_of(b, args->out[0].data, QUERIES, b->row));
}

static ac_status store_sums(ac_opencl *cl, const block *b, const ac_op_args *args) {
  const int64_t n = b->pairs * sums_of_pair(b);
  char options[OPTIONS];
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"attention", "attention_store_sums", options_of(cl, b, options)}),
      ac_cl_elements(cl, n), AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(args->out[0]),
      AC_CL_LONG(n), AC_CL_LONG(b->sums_at), AC_CL_INT(b->s->positions), AC_CL_INT(b->s->heads),
      AC_CL_INT(b->s->head_size), AC_CL_INT(b->pair));
}

/* The queries of the block's heads, the last ones first. */
static ac_status run_rows(ac_opencl *cl, block *b, const ac_op_args *args) {
  const int64_t last = (b->s->positions - 1) / b->most_rows * b->most_rows;
  for (int64_t row = last; row >= 0; row -= b->most_rows) {
    take_rows(b, row);
    AC_TRY(b->gradient ? run_gradient(cl, b, args) : run_forward(cl, b, args));
  }
  return b->gradient && has_blocks(b) ? store_sums(cl, b, args) : AC_OK;
}

static ac_status run(ac_opencl *cl, const ac_cl_attention *s, const ac_op_args *args,
                     bool gradient) {
  block b = cut(cl, s, gradient);
  for (int64_t pair = 0; take_pairs(&b, pair); pair += b.pairs) AC_TRY(run_rows(cl, &b, args));
  return AC_OK;
}

ac_status ac_cl_scores_forward(ac_opencl *cl, const ac_cl_attention *s, const ac_op_args *args) {
  return run(cl, s, args, false);
}

ac_status ac_cl_scores_gradient(ac_opencl *cl, const ac_cl_attention *s, const ac_op_args *args) {
  return run(cl, s, args, true);
}

/* ---- the choice ------------------------------------------------------------------------------ */

ac_status ac_cl_scores_take(ac_opencl *cl, const ac_cl_attention *s, ac_op op, ac_dtype storage,
                            bool *take) {
  const int64_t fewest = cl->unit_emulated ? EMULATED_LEAST_POSITIONS : LEAST_POSITIONS;
  *take = storage == AC_BF16 && s->positions >= fewest;
  if (!*take) return AC_OK;
  /* Scores, sums of rows; and turned, into float where there are blocks. */
  const block b = cut(cl, s, op == AC_OP_attention_gradient);
  const ac_cl_product products[] = {{.transpose_b = true, .float_c = true},
                                    {.batch = 1},
                                    {.transpose_a = true, .float_c = has_blocks(&b)}};
  return ac_cl_unit_takes_all(cl, storage, products, b.gradient ? 3 : 2, take);
}

uint64_t ac_cl_scores_workspace(const ac_opencl *cl, const ac_cl_attention *s, ac_op op) {
  return cut(cl, s, op == AC_OP_attention_gradient).bytes;
}
