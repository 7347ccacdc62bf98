/* Muon's step. If factors in bf16 are asked for and the device has a matrix unit that multiplies
 * them, X, A and the polynomial are bf16, and each of the products' sums in f32 is rounded once.
 * The workspace then is, with each part at a multiple of ALIGNMENT bytes:
 *
 *   | sums of squares, by group | X | next X | A | polynomial of A |
 *
 * There an iteration is three products: A, the polynomial without its first term, and the next X;
 * the first term adds X to that. Otherwise all is f32, the polynomial is (c A + b) A + a, and
 * CLBlast needs its own memory at the beginning:
 *
 *   | a product's temporary | sums of squares, by group | X | next X | A | c A + b | polynomial |
 */
#include "ops/update/muon.h"

#include "backend/opencl/product/gemm.h"
#include "backend/opencl/update/update.h"
#include "core/align.h"
#include "core/error.h"

enum { MAX_GROUPS = 256, ALIGNMENT = 256 };

/* Where the parts of the workspace begin: the sums counted in floats, the others in their own
 * elements. */
typedef struct space {
  ac_muon_matrix m;
  ac_dtype dtype; /* of the matrices */
  int64_t count;  /* of X */
  int64_t sums, x, next, gram, factor, polynomial;
  uint64_t bytes; /* from the first sum on */
} space;

static int64_t take(uint64_t *used, int64_t elements, ac_dtype dtype) {
  const uint64_t at = *used, size = ac_dtype_bytes(dtype);
  *used += ac_align((uint64_t)elements * size, ALIGNMENT);
  return (int64_t)(at / size);
}

/* From this byte on. */
static space lay(const ac_op_args *args, ac_dtype dtype, uint64_t first) {
  space s = {.m = ac_muon_matrix_of(args), .dtype = dtype, .count = args->in[0].count};
  const int64_t square = s.m.side * s.m.side;
  uint64_t end = first;
  s.sums = take(&end, MAX_GROUPS, AC_F32);
  s.x = take(&end, s.count, dtype);
  s.next = take(&end, s.count, dtype);
  s.gram = take(&end, square, dtype);
  if (dtype == AC_F32) s.factor = take(&end, square, dtype);
  s.polynomial = take(&end, square, dtype);
  s.bytes = end - first;
  return s;
}

/* ---- products -------------------------------------------------------------------------------- */

/* C [m, n] (+)= A B within the workspace. */
static ac_cl_product product(const ac_op_args *args, const space *s, int64_t a, int64_t b,
                             int64_t c, int64_t m, int64_t n, int64_t k) {
  const bool is_float = s->dtype == AC_F32;
  return (ac_cl_product){.a = args->workspace,
                         .b = args->workspace,
                         .c = args->workspace,
                         .float_a = is_float,
                         .float_b = is_float,
                         .float_c = is_float,
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
      product(args, s, s->x, s->x, s->gram, s->m.side, s->m.side, wide ? s->m.columns : s->m.rows);
  p.transpose_a = !wide;
  p.transpose_b = wide;
  return p;
}

/* (c A + b) A + a, or of bf16 c A A + b A */
static ac_cl_product polynomial_product(const ac_op_args *args, const space *s) {
  const bool blend = s->dtype == AC_BF16;
  ac_cl_product p = product(args, s, blend ? s->gram : s->factor, s->gram, s->polynomial, s->m.side,
                            s->m.side, s->m.side);
  p.add = !blend;
  p.blend = blend;
  p.alpha = ac_muon_polynomial[2];
  p.beta = ac_muon_polynomial[1];
  p.first_d = s->gram;
  return p;
}

static ac_cl_product next_product(const ac_op_args *args, const space *s) {
  const bool wide = s->m.rows <= s->m.columns;
  ac_cl_product p = product(args, s, wide ? s->polynomial : s->x, wide ? s->x : s->polynomial,
                            s->next, s->m.rows, s->m.columns, s->m.side);
  p.blend = s->dtype == AC_BF16;
  p.alpha = 1;
  p.beta = ac_muon_polynomial[0];
  p.first_d = s->x;
  return p;
}

enum { PRODUCTS = 3 };

/* bf16 where that may be and the device's unit takes all products. */
static ac_status choose_dtype(ac_opencl *cl, const ac_op_args *args, ac_dtype *dtype) {
  const ac_muon_attributes *a = args->attributes;
  const space s = lay(args, AC_BF16, 0);
  const ac_cl_product products[PRODUCTS] = {gram_product(args, &s), polynomial_product(args, &s),
                                            next_product(args, &s)};
  bool takes = false;
  *dtype = AC_F32;
  if (a->factors == AC_BF16) AC_TRY(ac_cl_unit_takes_all(cl, AC_BF16, products, PRODUCTS, &takes));
  if (takes) *dtype = AC_BF16;
  return AC_OK;
}

/* Multiplies in the matrices' type, whatever type the parameter is stored in. */
static ac_status multiply(ac_opencl *cl, const ac_op_args *args, const space *s,
                          const ac_cl_product *p) {
  const ac_dtype storage = cl->storage;
  if (s->dtype == AC_BF16) cl->storage = AC_BF16;
  const ac_status status = ac_cl_gemm(cl, p, args->workspace);
  cl->storage = storage;
  return status;
}

/* ---- workspace ------------------------------------------------------------------------------- */

static uint64_t products_workspace(ac_opencl *cl, const ac_op_args *args, const space *s) {
  const ac_cl_product products[PRODUCTS] = {gram_product(args, s), polynomial_product(args, s),
                                            next_product(args, s)};
  uint64_t most = 0;
  for (int i = 0; i < PRODUCTS; i++) {
    const uint64_t bytes = ac_cl_gemm_workspace(cl, &products[i]);
    if (bytes > most) most = bytes;
  }
  return ac_align(most, ALIGNMENT);
}

/* If the type cannot be found out, this is the workspace for f32, which is larger. */
static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  const ac_kept_error kept = ac_error_keep();
  ac_dtype dtype = AC_F32;
  if (choose_dtype(cl, args, &dtype) == AC_OK && dtype == AC_BF16) return lay(args, dtype, 0).bytes;
  ac_error_restore(&kept);
  const space s = lay(args, AC_F32, ALIGNMENT);
  return products_workspace(cl, args, &s) + s.bytes + ALIGNMENT;
}

/* The workspace may be larger than what was asked for. */
static space find_space(const ac_op_args *args, ac_dtype dtype) {
  if (dtype == AC_BF16) return lay(args, dtype, 0);
  const uint64_t bytes = lay(args, dtype, 0).bytes;
  return lay(args, dtype, (args->workspace_bytes - bytes) & ~(uint64_t)(ALIGNMENT - 1));
}

/* ---- the step -------------------------------------------------------------------------------- */

static ac_cl_kernel kernel(const ac_op_args *args, const space *s, const char *name) {
  static const char *const bf16[2][2] = {
      {"-DFACTORS_BF16", "-DFACTORS_BF16 -DGRADIENT_BF16"},
      {"-DFACTORS_BF16 -DROUNDED", "-DFACTORS_BF16 -DROUNDED -DGRADIENT_BF16"}};
  ac_cl_kernel k = ac_cl_update_kernel(args, "muon", name);
  if (s->dtype == AC_BF16)
    k.options = bf16[args->out[0].dtype == AC_BF16][args->in[0].dtype == AC_BF16];
  return k;
}

/* The update, of norm one. */
static ac_status take_momentum(ac_opencl *cl, const ac_op_args *args, const space *s) {
  const ac_muon_attributes *a = args->attributes;
  const int64_t all = (s->count + cl->group - 1) / cl->group,
                groups = all < MAX_GROUPS ? all : MAX_GROUPS;
  AC_TRY(AC_CL_LAUNCH(cl, kernel(args, s, "muon_momentum"), ac_cl_groups(groups, cl->group, 1),
                      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_BUFFER(args->workspace), AC_CL_BUFFER(args->workspace),
                      AC_CL_LONG(s->sums), AC_CL_LONG(s->x), AC_CL_LONG(s->count),
                      AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->take),
                      AC_CL_FLOAT(a->nesterov ? a->momentum : 1)));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(args, s, "muon_norm"), ac_cl_groups(1, cl->group, 1),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(s->sums), AC_CL_INT(groups),
                      AC_CL_FLOAT(AC_MUON_EPSILON)));
  return AC_CL_LAUNCH(cl, kernel(args, s, "muon_normalise"), ac_cl_elements(cl, s->count),
                      AC_CL_BUFFER(args->workspace), AC_CL_BUFFER(args->workspace),
                      AC_CL_LONG(s->sums), AC_CL_LONG(s->x), AC_CL_LONG(s->count));
}

/* What the polynomial's product in f32 begins from. */
static ac_status begin_polynomial(ac_opencl *cl, const ac_op_args *args, const space *s) {
  return AC_CL_LAUNCH(cl, kernel(args, s, "muon_polynomial"),
                      ac_cl_elements(cl, s->m.side * s->m.side), AC_CL_BUFFER(args->workspace),
                      AC_CL_LONG(s->gram), AC_CL_LONG(s->factor), AC_CL_LONG(s->polynomial),
                      AC_CL_LONG(s->m.side), AC_CL_FLOAT(ac_muon_polynomial[0]),
                      AC_CL_FLOAT(ac_muon_polynomial[1]), AC_CL_FLOAT(ac_muon_polynomial[2]));
}

static ac_status iterate(ac_opencl *cl, const ac_op_args *args, const space *s) {
  const ac_cl_product gram = gram_product(args, s), polynomial = polynomial_product(args, s),
                      next = next_product(args, s);
  AC_TRY(multiply(cl, args, s, &gram));
  if (s->dtype == AC_F32) AC_TRY(begin_polynomial(cl, args, s));
  AC_TRY(multiply(cl, args, s, &polynomial));
  return multiply(cl, args, s, &next);
}

static ac_status muon(ac_opencl *cl, const ac_op_args *args) {
  const ac_muon_attributes *a = args->attributes;
  ac_dtype dtype;
  AC_TRY(choose_dtype(cl, args, &dtype));
  space s = find_space(args, dtype);
  AC_TRY(take_momentum(cl, args, &s));
  for (int k = 0; k < AC_MUON_STEPS; k++) {
    AC_TRY(iterate(cl, args, &s));
    const int64_t x = s.x;
    s.x = s.next;
    s.next = x;
  }
  return AC_CL_LAUNCH(cl, kernel(args, &s, "muon"), ac_cl_elements(cl, s.count),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[2]),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(s.x), AC_CL_LONG(s.count),
                      AC_CL_ROUNDING(args), AC_CL_FLOAT(a->rate * a->weight_decay),
                      AC_CL_FLOAT(a->rate * a->scale));
}

const ac_cl_op ac_cl_op_muon = {.run = muon, .workspace = workspace};
