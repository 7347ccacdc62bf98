/* The table of op cases: which ops are run, on which shapes, with which values, and what the result
 * should be.
 *
 * A family file (linear.c, attention.c, ...) holds, for the ops of one family of the list,
 *   - cases: a forward op with its attributes, the shapes and value ranges of its operands, and a
 * list that says how the gradient kernels are fed from it;
 *   - references: every op as the plainest possible loop in double, and the error a float kernel
 * may make;
 *   - how random graphs take the op (generator.h). Nothing here knows of checks, so a bench can run
 * over the same table.
 *
 * A reference is handed the same ac_op_args as a backend, with host memory for handles: double for
 * float operands, int32_t for integers. It overwrites its outputs; adding is left to the caller. */
#ifndef AC_TESTS_OPS_CASE_H
#define AC_TESTS_OPS_CASE_H

#include <accrue/device.h>

#include "op_attributes.h" /* the union op_attributes, made of the headers in src/ops */

typedef enum op_fill {
  OP_UNIFORM = 0, /* in [low, high); integers too */
  OP_NOT_ZERO,    /* the same, but at least 1/16 away from 0 */
  OP_SOMETIMES,   /* the same, but `special` in about one of three places */
  OP_BLOCKS,      /* bytes of blocks of 8 bits: any codes, with scales in [low, high) */
  OP_LOSS_SUMS    /* an output of pairs (hi, lo); only their sums mean something */
} op_fill;

/* An operand before the batch is known: dim[0] < 0 is the batch times -dim[0]. rank 0: absent. */
typedef struct op_operand_spec {
  ac_dtype dtype;
  int rank;
  int64_t dim[AC_MAX_RANK];
  op_fill fill;
  double low, high, special;
} op_operand_spec;

#define OP_RANK(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define OP_RANGE(low_, high_, ...)                                                    \
  {                                                                                   \
    .dtype = AC_F32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .low = low_, \
    .high = high_                                                                     \
  }
/* What an optimizer keeps of n elements in 8 bits. */
#define OP_EIGHT_BIT(low_, high_, n)                                                            \
  {                                                                                             \
    .dtype = AC_U8, .rank = 2, .dim = {((n) + 255) / 256, 260}, .fill = OP_BLOCKS, .low = low_, \
    .high = high_                                                                               \
  }
#define OP_F32(...) OP_RANGE(-1, 1, __VA_ARGS__)
/* A parameter that is rounded by chance. */
#define OP_ROUNDED(...) \
  { .dtype = AC_BF16, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .low = -1, .high = 1 }
#define OP_IDS(limit, ...) \
  { .dtype = AC_I32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .high = limit }
#define OP_BATCH(k) AC_BATCH_TIMES(k)

/* Where a gradient kernel's input comes from: an input or output of the forward op, or the gradient
 * of one of its results (op_case.results). */
typedef struct op_source {
  enum { OP_NONE = 0, OP_FROM_INPUT, OP_FROM_OUTPUT, OP_FROM_GRADIENT } from;
  int index;
} op_source;

#define OP_INPUT(i) \
  { OP_FROM_INPUT, i }
#define OP_OUTPUT(i) \
  { OP_FROM_OUTPUT, i }
#define OP_DY_OF(j) \
  { OP_FROM_GRADIENT, j }
#define OP_DY OP_DY_OF(0)

/* A gradient kernel: output j is the gradient of the forward op's input `of[j]`, or once more the
 * forward op's output 0. */
enum { OP_AGAIN = -1 };
typedef struct op_gradient {
  ac_op op;
  const op_attributes *attributes; /* NULL: the forward op's */
  op_source in[AC_MAX_INPUTS];
  int of[AC_MAX_OUTPUTS];
  int outputs;
  bool optional; /* any gradient of an input may be absent */
  bool like_dy;  /* results have the shape of dy, to be summed over what a smaller operand lacks */
  bool exact;    /* values of dy are picked out, and nothing is rounded */
} op_gradient;

typedef struct op_case {
  const char *name;
  ac_op op;
  op_attributes attributes;
  int64_t batch;
  op_operand_spec in[AC_MAX_INPUTS], out[AC_MAX_OUTPUTS];
  const op_gradient *gradients;
  int gradient_count;
  int results;     /* so many outputs, the first ones, have gradients; 0: one */
  bool evaluation; /* run with training off */
  bool halves;     /* only in 16-bit storage */
} op_case;

/* What a float kernel may be off by, in units of FLT_EPSILON: `relative` times the value, plus
 * `absolute`. */
typedef struct op_tolerance {
  double relative, absolute;
} op_tolerance;

typedef struct op_reference {
  void (*compute)(const ac_op_args *args);
  op_tolerance (*tolerance)(const ac_op_args *args, int output);
  bool attributes; /* the op has a struct of them */
  bool in_out;     /* outputs are read before they are written */
} op_reference;

#define OP_REFERENCE(name, in, out) extern const op_reference op_reference_##name;
AC_OP_LIST(OP_REFERENCE)
#undef OP_REFERENCE
const op_reference *op_reference_of(ac_op op);

struct op_vector; /* a case read from tests/vectors */
typedef struct op_family {
  const char *name;
  const op_case *cases;
  int case_count;
  /* Sets op, attributes and gradients of a case that comes from a file; NULL: no file. */
  void (*from_vector)(op_case *result, const struct op_vector *vector);
  /* What fits no table: special values, properties over several runs. May be NULL. */
  void (*special)(ac_device *device);
  void (*special_host)(void); /* the same without a device */
} op_family;

#define OP_FAMILY(folder, name) extern const op_family op_family_##name;
AC_OP_FAMILY_LIST(OP_FAMILY)
#undef OP_FAMILY

/* ---- for references -------------------------------------------------------------------------- */

static inline double *op_reals(const ac_operand *x) {
  return (double *)x->data;
}
static inline const int32_t *op_integers(const ac_operand *x) {
  return (const int32_t *)x->data;
}

/* An element of what is moved, floats or integers. */
static inline double op_value(const ac_operand *x, int64_t e) {
  return x->dtype == AC_I32 ? (double)op_integers(x)[e] : op_reals(x)[e];
}

/* Which element of an operand is repeated, as NumPy does, to be element e of y. */
int64_t op_repeated_element(const ac_operand *x, const ac_operand *y, int64_t e);

/* Largest magnitude of an operand, at least 1 so that errors of small values are measured
 * against 1. */
double op_largest(const ac_operand *x);

/* Rounding error of a float sum of `terms` products of factors at most 1 in magnitude, in units of
 * FLT_EPSILON. For uniform factors added one after the other its standard deviation is 0.047 terms,
 * and up to three times that where the sum itself comes out large; half of `terms` is four of
 * those. */
static inline double op_sum_error(int64_t terms) {
  return 4 + (double)terms / 2;
}

/* What rounding a factor to bf16 costs, relative to it and in units of FLT_EPSILON: 2^-8 where the
 * device that is compared multiplies bf16 in a class of its own and the factor's partner `other`
 * is stored in bf16; else 0. */
double op_factor_error(const ac_operand *other);

/* Math functions of OpenCL 1.2 are off by up to 5 ulp (exp 3, tanh 5, erf 16, division 2.5). */
enum { OP_MATH_ERROR = 8 };

#endif
