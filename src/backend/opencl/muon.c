/* Muon's step. The workspace, in floats, each part from a multiple of 64 on; CLBlast wants its own
 * memory at the beginning:
 *
 *   | a product's temporary | sums of squares, by group | X | next X | A | c A + b | polynomial |
 */
#include "ops/muon.h"

#include "backend/opencl/product/gemm.h"
#include "backend/opencl/update.h"
#include "core/align.h"
#include "core/error.h"

enum { MAX_GROUPS = 256, ALIGNMENT = 64 };

typedef struct space {
  ac_muon_matrix m;
  int64_t count; /* of X */
  int64_t sums, x, next, gram, factor, polynomial, floats;
} space;

static int64_t take(int64_t *used, int64_t floats) {
  const int64_t at = *used;
  *used += (int64_t)ac_align((uint64_t)floats, ALIGNMENT);
  return at;
}

/* From this float on. */
static space lay(const ac_op_args *args, int64_t first) {
  space s = {.m = ac_muon_matrix_of(args), .count = args->in[0].count};
  const int64_t square = s.m.side * s.m.side;
  int64_t end = first;
  s.sums = take(&end, MAX_GROUPS);
  s.x = take(&end, s.count);
  s.next = take(&end, s.count);
  s.gram = take(&end, square);
  s.factor = take(&end, square);
  s.polynomial = take(&end, square);
  s.floats = end - first;
  return s;
}

/* C [m, n] (+)= A B within the workspace. */
static ac_cl_product product(const ac_op_args *args, int64_t a, int64_t b, int64_t c, int64_t m,
                             int64_t n, int64_t k) {
  return (ac_cl_product){.a = args->workspace,
                         .b = args->workspace,
                         .c = args->workspace,
                         .float_a = true,
                         .float_b = true,
                         .float_c = true,
                         .m = m,
                         .n = n,
                         .k = k,
                         .batch = 1,
                         .first_a = a,
                         .first_b = b,
                         .first_c = c};
}

static ac_cl_product gram_product(const ac_op_args *args, const space *s) {
  const bool wide = s->m.rows <= s->m.columns;
  ac_cl_product p =
      product(args, s->x, s->x, s->gram, s->m.side, s->m.side, wide ? s->m.columns : s->m.rows);
  p.transpose_a = !wide;
  p.transpose_b = wide;
  return p;
}

static ac_cl_product square_product(const ac_op_args *args, const space *s) {
  ac_cl_product p =
      product(args, s->factor, s->gram, s->polynomial, s->m.side, s->m.side, s->m.side);
  p.add = true;
  return p;
}

static ac_cl_product next_product(const ac_op_args *args, const space *s) {
  const bool wide = s->m.rows <= s->m.columns;
  return product(args, wide ? s->polynomial : s->x, wide ? s->x : s->polynomial, s->next, s->m.rows,
                 s->m.columns, s->m.side);
}

static uint64_t products_workspace(ac_opencl *cl, const ac_op_args *args, const space *s) {
  const ac_cl_product products[] = {gram_product(args, s), square_product(args, s),
                                    next_product(args, s)};
  uint64_t most = 0;
  for (int i = 0; i < 3; i++) {
    const uint64_t bytes = ac_cl_gemm_workspace(cl, &products[i]);
    if (bytes > most) most = bytes;
  }
  return ac_align(most, ALIGNMENT * sizeof(float));
}

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  const space s = lay(args, ALIGNMENT);
  return products_workspace(cl, args, &s) + sizeof(float) * (uint64_t)(s.floats + ALIGNMENT);
}

static ac_cl_kernel kernel(const ac_op_args *args, const char *name) {
  return ac_cl_update_kernel(args, "muon", name);
}

/* The update, of norm one. */
static ac_status take_momentum(ac_opencl *cl, const ac_op_args *args, const space *s) {
  const ac_muon_attributes *a = args->attributes;
  const int64_t all = (s->count + cl->group - 1) / cl->group,
                groups = all < MAX_GROUPS ? all : MAX_GROUPS;
  AC_TRY(AC_CL_LAUNCH(cl, kernel(args, "muon_momentum"), ac_cl_groups(groups, cl->group, 1),
                      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(s->sums), AC_CL_LONG(s->x),
                      AC_CL_LONG(s->count), AC_CL_FLOAT(a->gradient_factor),
                      AC_CL_FLOAT(1 - a->momentum), AC_CL_FLOAT(a->nesterov ? a->momentum : 1)));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(args, "muon_norm"), ac_cl_groups(1, cl->group, 1),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(s->sums), AC_CL_INT(groups),
                      AC_CL_FLOAT(AC_MUON_EPSILON)));
  return AC_CL_LAUNCH(cl, kernel(args, "muon_normalise"), ac_cl_elements(cl, s->count),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(s->sums), AC_CL_LONG(s->x),
                      AC_CL_LONG(s->count));
}

static ac_status iterate(ac_opencl *cl, const ac_op_args *args, const space *s) {
  const ac_cl_product gram = gram_product(args, s), square = square_product(args, s),
                      next = next_product(args, s);
  AC_TRY(ac_cl_gemm(cl, &gram, args->workspace));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(args, "muon_polynomial"),
                      ac_cl_elements(cl, s->m.side * s->m.side), AC_CL_BUFFER(args->workspace),
                      AC_CL_LONG(s->gram), AC_CL_LONG(s->factor), AC_CL_LONG(s->polynomial),
                      AC_CL_LONG(s->m.side), AC_CL_FLOAT(ac_muon_polynomial[0]),
                      AC_CL_FLOAT(ac_muon_polynomial[1]), AC_CL_FLOAT(ac_muon_polynomial[2])));
  AC_TRY(ac_cl_gemm(cl, &square, args->workspace));
  return ac_cl_gemm(cl, &next, args->workspace);
}

static ac_status muon(ac_opencl *cl, const ac_op_args *args) {
  const ac_muon_attributes *a = args->attributes;
  const int64_t floats = (int64_t)(args->workspace_bytes / sizeof(float)),
                first = (floats - lay(args, 0).floats) & ~(int64_t)(ALIGNMENT - 1);
  space s = lay(args, first);
  AC_TRY(take_momentum(cl, args, &s));
  for (int k = 0; k < AC_MUON_STEPS; k++) {
    AC_TRY(iterate(cl, args, &s));
    const int64_t x = s.x;
    s.x = s.next;
    s.next = x;
  }
  return AC_CL_LAUNCH(cl, kernel(args, "muon"), ac_cl_elements(cl, s.count),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[2]),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(s.x), AC_CL_LONG(s.count),
                      AC_CL_ROUNDING(args), AC_CL_FLOAT(a->rate * a->weight_decay),
                      AC_CL_FLOAT(a->rate * a->scale));
}

const ac_cl_op ac_cl_op_muon = {.run = muon, .workspace = workspace};
