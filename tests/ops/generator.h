/* How ops take part in random graphs (tests/random): each family's file says which results its op
 * can be applied to, applies it with attributes, parameters and further operands drawn at random,
 * and says how the gradients of the op follow from that of its result.
 *
 * A graph is drawn step by step, and every step has random numbers of its own. What it reads is
 * chosen among the results of earlier steps by a hash of (step, result), the largest one winning:
 * so a graph from which a step is taken out stays nearly the same, and graphs shrink well. */
#ifndef AC_TESTS_OPS_GENERATOR_H
#define AC_TESTS_OPS_GENERATOR_H

#include "case.h"
#include "graph/graph.h"

enum { OP_DRAW_RESULTS = 64, OP_DRAW_LEAVES = 96, OP_DRAW_INPUTS = 8, OP_DRAW_ELEMENTS = 600 };

/* An input (as ops take it), a constant or a parameter with the values it is given: uniform in
 * [low, high), in a share of 1 / `rare` of the places `special` instead (rare 0: nowhere). */
typedef struct op_drawn_leaf {
  ac_tensor *tensor;
  double low, high, special;
  int rare;
} op_drawn_leaf;

typedef struct op_drawn_result {
  ac_tensor *tensor;
  uint64_t origin; /* the key of the step that it comes from */
  bool used;
} op_drawn_result;

/* A graph while it is drawn. */
typedef struct op_draw {
  ac_graph *graph;
  uint64_t key, state; /* of the step */
  int names;           /* of leaves that the step has made */
  bool loss;           /* inputs are kept back for the loss */
  op_drawn_result results[OP_DRAW_RESULTS];
  int result_count;
  op_drawn_leaf leaves[OP_DRAW_LEAVES];
  int leaf_count;
} op_draw;

/* How far ops are from deciding otherwise: an input of ReLU from 0, the largest element of a patch
 * from the second largest. Elements that are equal to the bit are copies of one value, or zeros,
 * and stay equal. */
typedef struct op_ties {
  double unit; /* rounding of what is stored */
  double *distances;
  int count, room;
  struct op_call *calls; /* of the rows that a loss classifies, in their order */
  int call_count, call_room;
} op_ties;

/* What is called: by a loss the class of a row, or the signs of its logits as a number; by an op
 * that finds ids, one of these; by a metric, whether a row is a hit. */
typedef enum op_call_kind { OP_CALL_CLASS = 0, OP_CALL_ID, OP_CALL_HIT } op_call_kind;
typedef struct op_call {
  uint64_t chosen;
  double weight; /* of the row, in a loss */
  bool close;    /* another rounding of the row's logits might choose otherwise */
  op_call_kind kind;
} op_call;

void op_ties_add(op_ties *ties, double distance);
/* Of every element of the first input from 0. */
void op_ties_at_zero(op_ties *ties, const ac_op_args *args);
/* The largest of a row's logits, rounding being that of what they are sums of. */
void op_ties_classify(op_ties *ties, const double *x, int64_t count, double weight);
void op_ties_call(op_ties *ties, op_call call);
/* Which element has a rank among `count`, `step` apart, the largest being 0: results jump where
 * another one comes in its place. */
void op_ties_find(op_ties *ties, const double *x, int64_t count, int64_t step, int64_t rank);
void op_ties_free(op_ties *ties);
/* 1 without weights. */
double op_weight_of(const ac_operand *weights, int64_t row);

typedef struct op_generator {
  /* Whether the op can be applied to a result of this shape; NULL: graphs do not have the family's
   * ops, which are added by plans and updates. */
  bool (*takes)(const ac_shape *x);
  /* Applies it and returns the result, or NULL if there is no further operand that it needs. */
  ac_tensor *(*build)(op_draw *d, ac_tensor *x);
  bool loss;
  /* The gradient kernels, as of the family's cases; `of` may name each input once. */
  const op_gradient *gradients;
  int gradient_count;
  /* Where they depend on the node; `attributes` is room for theirs. Returns how many there are. */
  int (*choose)(const ac_op_args *forward, op_gradient *list, op_attributes *attributes);
  /* Adds what a run of the forward op decides; NULL: nothing. */
  void (*ties)(op_ties *ties, const ac_op_args *args);
  /* Rounds what the forward op has computed as a kernel may, where inputs that are off each by
   * itself do not explain it: for example a mean, which moves a whole row. By up to `unit`. */
  void (*round)(const ac_op_args *args, double unit, uint64_t key);
} op_generator;

#define OP_GENERATOR(folder, name) extern const op_generator op_generator_##name;
AC_OP_FAMILY_LIST(OP_GENERATOR)
#undef OP_GENERATOR

/* ---- for the families ------------------------------------------------------------------------ */

/* In [0, n). */
int op_draw_below(op_draw *d, int n);
bool op_draw_one_in(op_draw *d, int n);
/* In [1, most], and in one of three cases 1: what is degenerate comes up on purpose. */
int op_draw_size(op_draw *d, int most);
double op_draw_between(op_draw *d, double low, double high);
uint64_t op_draw_hash(uint64_t a, uint64_t b);
/* Drawn by a hash: in [-1, 1). */
double op_draw_sign(uint64_t hash);
/* By how much a norm's results of row `n` are off, before gamma, if the mean is rounded: the second
 * result has mean and r of each row. */
double op_draw_rounded_mean(const ac_op_args *args, int64_t n, double unit, uint64_t key);

/* A parameter with values in [low, high): mostly a new one, sometimes one that is there, seen in
 * this shape. op_draw_weight: as large as suits a sum of `terms` products. */
ac_tensor *op_draw_parameter(op_draw *d, double low, double high, int rank, const int64_t *dim);
ac_tensor *op_draw_weight(op_draw *d, int64_t terms, int rank, const int64_t *dim);
ac_tensor *op_draw_vector(op_draw *d, double low, double high, int64_t count);
/* The same or NULL, each half of the time. */
ac_tensor *op_draw_maybe_vector(op_draw *d, double low, double high, int64_t count);
/* A frozen one. */
ac_tensor *op_draw_frozen(op_draw *d, double low, double high, int64_t count);
/* A frozen matrix in blocks, in a format that its columns are whole blocks of: 32 or 64. */
ac_tensor *op_draw_blocks(op_draw *d, double bound, int64_t rows, int64_t columns);
/* Adds an input and returns its leaf; NULL if the graph has no room for more. It may be fed in
 * another type that has such values, so these are rounded to it. */
op_drawn_leaf *op_draw_input(op_draw *d, ac_dtype dtype, const ac_shape *shape, double low,
                             double high);

/* The same of numbers that may be fed as bytes. */
op_drawn_leaf *op_draw_numbers(op_draw *d, const ac_shape *shape);
/* A constant, an input without the batch or a parameter, with values in [low, high). */
ac_tensor *op_draw_unbatched(op_draw *d, double low, double high, int rank, const int64_t *dim);
/* The type in which an input is fed; else its own. */
ac_dtype op_fed_dtype(const ac_tensor *tensor);

/* A result of as many elements, seen in this shape; NULL if there is none. */
ac_tensor *op_draw_result(op_draw *d, const ac_shape *shape);
/* The same tensor in another shape. */
ac_tensor *op_draw_view(ac_tensor *x, const ac_shape *shape);
/* An operand with the shape of x or of its last dimensions: a result, x itself or a parameter. */
ac_tensor *op_draw_broadcast(op_draw *d, ac_tensor *x, double low, double high);
/* A divisor of n. */
int op_draw_divisor(op_draw *d, int64_t n);

bool op_takes_all(const ac_shape *x);
bool op_takes_batched(const ac_shape *x);
bool op_takes_rows(const ac_shape *x); /* a last dimension that is not the batch, of one or more */
/* The same for a norm: the deviations of two elements from their mean are +1 and -1 whatever they
 * are, and their gradient nothing but rounding. */
bool op_takes_norm(const ac_shape *x);
bool op_takes_images(const ac_shape *x); /* [B, C, H, W] */

#define OP_GRADIENTS(list) .gradients = list, .gradient_count = sizeof(list) / sizeof *(list)

#endif
