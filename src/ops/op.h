/* What an op is: the list of ops, what a backend is handed to run one, and what the graph knows of
 * one.
 *
 * The list is the one place where ops are named; names, dispatch tables, tests and bench are
 * generated from it. A line is a family, which is one file in src/ops, src/backend/cpu,
 * src/backend/opencl, cl and tests/ops. In the operands, `?` may be absent (count 0), `+` is added
 * to when `add` is set for that output and overwritten otherwise, and `[n]` is the leading
 * dimensions' product.
 *
 * A line's letters are the policy of mixed precision, one for each operand. Arithmetic is in float
 * throughout; a letter says how an operand is stored:
 *   s  as the plan's precision says: activations, their gradients, weights of products
 *   f  f32: biases, norms' parameters and statistics, loss sums, parameter gradients, masters
 *   i  i32: ids and counts
 *   a  any float type
 * All operands of kind s have one dtype, which is the op's storage type. */
#ifndef AC_OPS_OP_H
#define AC_OPS_OP_H

#include <accrue/graph.h>

/* clang-format off */
#define AC_OP_LIST(X)                                                                              \
  X(linear, "ssf", "s") X(linear_input_gradient, "ss", "s") X(linear_weight_gradient, "ss", "ff")  \
  X(matmul, "ss", "s")                                                                             \
  X(add, "ss", "s") X(sum_leading, "s", "f")                                                       \
  X(multiply, "ss", "s")                                                                           \
  X(scale, "s", "s")                                                                               \
  X(embedding, "si", "s") X(embedding_gradient, "is", "f")                                         \
  X(layer_norm, "sff", "sf") X(layer_norm_input_gradient, "ssff", "s")                             \
  X(layer_norm_parameter_gradient, "ssf", "ff")                                                    \
  X(rms_norm, "sf", "sf") X(rms_norm_input_gradient, "ssff", "s")                                  \
  X(rms_norm_parameter_gradient, "ssf", "f")                                                       \
  X(group_norm, "sff", "sf") X(group_norm_gradient, "ssff", "sff")                                 \
  X(batch_norm, "sffff", "sff") X(batch_norm_gradient, "ssff", "sff")                               \
  X(batch_norm_pool, "ff", "f") X(batch_norm_update, "f", "ff")                                     \
  X(weight_standardisation, "f", "sf") X(weight_standardisation_gradient, "sff", "f")              \
  X(gelu, "s", "s") X(gelu_gradient, "ss", "s")                                                    \
  X(relu, "s", "s") X(relu_gradient, "ss", "s")                                                    \
  X(silu, "s", "s") X(silu_gradient, "ss", "s")                                                    \
  X(leaky_relu, "s", "s") X(leaky_relu_gradient, "ss", "s")                                        \
  X(sigmoid, "s", "s") X(sigmoid_gradient, "ss", "s")                                              \
  X(tanh, "s", "s") X(tanh_gradient, "ss", "s")                                                    \
  X(softmax, "s", "s") X(softmax_gradient, "ss", "s")                                              \
  X(attention, "s", "sf") X(attention_gradient, "sssf", "s")                                       \
  X(dropout, "s", "s")                                                                             \
  X(transpose, "s", "s")                                                                           \
  X(cross_entropy, "sif", "ff") X(cross_entropy_gradient, "siff", "s")                             \
  X(linear_cross_entropy, "ssif", "f") X(linear_cross_entropy_gradient, "ssif", "sff")             \
  X(mean_squared_error, "sff", "f") X(mean_squared_error_gradient, "sff", "s")                     \
  X(binary_cross_entropy, "sff", "f") X(binary_cross_entropy_gradient, "sff", "s")                 \
  X(conv2d, "ssf", "s") X(conv2d_input_gradient, "ss", "s") X(conv2d_weight_gradient, "ss", "ff")  \
  X(max_pool2d, "s", "s") X(max_pool2d_gradient, "ss", "s")                                        \
  X(average_pool2d, "s", "s") X(average_pool2d_gradient, "s", "s")                                 \
  X(concat, "ssssssss", "s") X(slice, "s", "s") X(slice_gradient, "s", "s")                        \
  X(upsample_nearest2d, "s", "s") X(upsample_nearest2d_gradient, "s", "s")                         \
  X(cast, "a", "a")                                                                                \
  X(numerics, "s", "i")                                                                            \
  X(gradient_statistics, "f", "f") X(adamw, "f", "fffs") X(sgd, "f", "ffs")

/* Their operands:
 *   linear                         x[n,in] W b? -> y[n,out]                       y = x W + b
 *   linear_input_gradient          dy W -> dx+
 *   linear_weight_gradient         x dy -> dW?+ db?+
 *   matmul                         a b -> c+                                      over leading dimensions
 *   add                            a b -> c                                       b repeated along a
 *   sum_leading                    x[m,n] -> y[n]+
 *   multiply                       a b -> c+                                      b repeated along a
 *   scale                          x -> y+
 *   embedding                      table[V,C] ids:i32[n] -> y[n,C]
 *   embedding_gradient             ids:i32[n] dy -> dtable+
 *   layer_norm                     x gamma beta? -> y, statistics[n,2]            (mean, 1/std)
 *   layer_norm_input_gradient      dy x statistics gamma -> dx+
 *   layer_norm_parameter_gradient  dy x statistics -> dgamma?+ dbeta?+
 *   rms_norm                       x gamma -> y, statistics[n,1]                  (1/rms)
 *   rms_norm_input_gradient        dy x statistics gamma -> dx+
 *   rms_norm_parameter_gradient    dy x statistics -> dgamma+
 *   group_norm                     x[B,C,...] gamma? beta? -> y, statistics[B,G,2]  (mean, 1/std)
 *   group_norm_gradient            dy x statistics gamma? -> dx?+ dgamma?+ dbeta?+
 *   batch_norm                     x[B,C,...] gamma? beta? mean[C] variance[C]
 *                                    -> y, statistics[C,2], variance[C]?          (mean, 1/std)
 *   batch_norm_gradient            dy x statistics gamma? -> dx?+ dgamma?+ dbeta?+
 *   batch_norm_pool                statistics[C,2] variance[C] -> pooled[C,3]     (n, mean, sum of
 *                                    squares), joined to what is there if `add` is set
 *   weight_standardisation         w[O,...] -> y, statistics[O,2]                 (mean, 1/std)
 *   weight_standardisation_gradient  dy w statistics -> dw+
 *   gelu, relu, silu               x -> y
 *   gelu_, silu_gradient           dy x -> dx
 *   relu_gradient                  dy y -> dx
 *   leaky_relu, sigmoid, tanh      x -> y
 *   their gradients                dy y -> dx
 *   softmax                        x -> y                                         over the last dimension
 *   softmax_gradient               dy y -> dx
 *   attention                      qkv[B,T,3C] -> y[B,T,C], lse[B,H,T]
 *   attention_gradient             dy qkv y lse -> dqkv
 *   dropout                        x -> y                                         its own gradient
 *   transpose                      x -> y                                         its own gradient
 *   cross_entropy                  logits[n,V] targets:i32[n] weights[n]? -> sums?+, lse[n]
 *   cross_entropy_gradient         logits targets weights? lse -> dlogits
 *   linear_cross_entropy           x[n,C] W targets:i32[n] weights[n]? -> sums+
 *   linear_cross_entropy_gradient  x W targets weights? -> dx?+ dW?+ sums+
 *   mean_squared_error             prediction[B,m] target weights[B]? -> sums+
 *   mean_squared_error_gradient    prediction target weights? -> dprediction
 *   binary_cross_entropy           logits[B,m] targets weights[B]? -> sums+
 *   binary_cross_entropy_gradient  logits targets weights? -> dlogits
 *   conv2d                         x[B,Ci,H,W] W[Co,Ci/groups,kh,kw] b? -> y[B,Co,Ho,Wo]
 *   conv2d_input_gradient          dy W -> dx+
 *   conv2d_weight_gradient         x dy -> dW?+ db?+
 *   max_, average_pool2d           x[B,C,H,W] -> y[B,C,Ho,Wo]                     (family pool2d)
 *   max_pool2d_gradient            dy x -> dx+
 *   average_pool2d_gradient        dy -> dx+
 *   concat                         x ... -> y                                     up to 8, along an axis
 *   slice                          x -> y+                                        a part, along an axis
 *   slice_gradient                 dy -> dx+                                      zero outside of the part
 *   upsample_nearest2d             x[B,C,H,W] -> y[B,C,f*H,f*W]
 *   upsample_nearest2d_gradient    dy -> dx+
 *   cast                           x -> y+                                        to the dtype of y
 *   numerics                       x -> counts:i32[2]+                            (overflowed, flushed)
 * and in updates, outside of graphs, everything in place:
 *   gradient_statistics            g -> [2]
 *   adamw                          g -> p m v w?                                  w: p in 16 bits
 *   sgd                            g -> p momentum? w?
 *   batch_norm_update              pooled -> mean variance
 * where sums is [AC_LOSS_SUMS]. An op that yields sums (graph.h) beside what other ops read must be
 * able to do without them, for it may run again. Attributes stand in the header of the family's name. */
/* clang-format on */

typedef enum ac_op {
#define AC_OP_ENUM(name, in, out) AC_OP_##name,
  AC_OP_LIST(AC_OP_ENUM)
#undef AC_OP_ENUM
      AC_OP_COUNT
} ac_op;

const char *ac_op_name(ac_op op);

/* The letter of an input or output in AC_OP_LIST; 0 beyond those the op has. */
char ac_op_input_kind(ac_op op, int input);
char ac_op_output_kind(ac_op op, int output);

enum { AC_MAX_INPUTS = 8, AC_MAX_OUTPUTS = 4, AC_MAX_ATTRIBUTE_BYTES = 64 };

/* Loss sums on the device, each kept as an unevaluated sum of two floats (hi + lo, Knuth's TwoSum),
 * so that adding many micro-batches loses nothing: {loss, weight, weight of rows classified right,
 * unused}. */
enum { AC_LOSS_SUMS = 8 };

/* ---- what a backend is handed ---------------------------------------------------------------- */

/* A tensor at run time: concrete shape, and the backend's own handle of its memory (a pointer on
 * the CPU, a sub-buffer on OpenCL). count == 0: absent. Where only shapes matter (costs,
 * workspace), data is NULL. */
typedef struct ac_operand {
  void *data;
  ac_dtype dtype;
  int rank;
  int64_t dim[AC_MAX_RANK];
  int64_t count; /* product of dim */
} ac_operand;

/* What changes from run to run. `sample` and `update` key random numbers. */
typedef struct ac_run_state {
  bool training; /* dropout drops */
  uint64_t seed;
  uint32_t update;  /* updates made so far: a skipped window draws the same again */
  uint32_t sample;  /* position of the micro-batch's first sample in the effective batch */
  int64_t batch;    /* samples in this micro-batch */
  float loss_scale; /* factor of the loss gradient */
  /* Stores to f16 leave a trace for the op numerics: what is flushed to zero becomes -0, what is
   * zero +0. */
  bool mark_flushed;
} ac_run_state;

typedef struct ac_op_args {
  ac_op op;
  const void *attributes; /* the op's struct from its header in src/ops; NULL if it has none */
  ac_operand in[AC_MAX_INPUTS];
  ac_operand out[AC_MAX_OUTPUTS];
  bool add[AC_MAX_OUTPUTS]; /* add to the output instead of overwriting it; only for `+` outputs */
  void *workspace;          /* handle of ac_backend.workspace bytes; NULL if 0 */
  size_t workspace_bytes;
  const ac_run_state *run;
} ac_op_args;

/* The storage type: that of the operands of kind s present, f32 if there are none. */
ac_dtype ac_op_storage(const ac_op_args *args);
/* Whether all operands present have dtypes of their kinds, and those of kind s the same one. */
bool ac_op_dtypes_valid(const ac_op_args *args);

/* Rows and columns of an operand seen as a matrix over its last dimension. */
static inline int64_t ac_columns(const ac_operand *x) {
  return x->rank ? x->dim[x->rank - 1] : 1;
}
static inline int64_t ac_rows(const ac_operand *x) {
  int64_t columns = ac_columns(x);
  return columns ? x->count / columns : 0;
}

/* ---- what the graph knows of an op ----------------------------------------------------------- */

typedef struct ac_node ac_node;
typedef struct ac_differentiation ac_differentiation;

/* Work of one run: floating-point operations and the bytes that must move at least. */
typedef struct ac_cost {
  double flops, bytes;
} ac_cost;

typedef struct ac_op_desc {
  const char *name;
  /* Bit i: input i may share memory with output 0, if it is not used afterwards. */
  unsigned in_place;
  /* Bit j: output j can be added to (`+` above). */
  unsigned can_add;
  /* The result for one sample depends on the other samples of the micro-batch (batch statistics),
   * so that splitting a batch changes it. */
  bool couples_samples;
  /* Its results are values of its inputs as they are stored, moved or picked out. */
  bool moves;
  /* Appends the ops that compute the gradients of the node's inputs; NULL: no gradient. */
  ac_status (*gradient)(ac_differentiation *d, const ac_node *node);
  /* Appends to a graph that is differentiated what has to run once for each micro-batch even if the
   * node runs again, or is no part of what has a gradient; it runs if the node does. NULL: nothing.
   */
  ac_status (*once)(ac_differentiation *d, const ac_node *node);
  /* From concrete shapes (data handles unset). NULL: no flops. */
  double (*flops)(const ac_op_args *args);
  /* Bytes that must move at least. NULL: every operand moves once, twice where it is added to. */
  double (*bytes)(const ac_op_args *args);
} ac_op_desc;

const ac_op_desc *ac_op_describe(ac_op op);

/* Flops and bytes by the op's own counts. */
ac_cost ac_op_cost(const ac_op_args *args);

/* Bytes of all operands present, each moved once, twice where added to. */
double ac_op_operand_bytes(const ac_op_args *args);
static inline double ac_operand_bytes(const ac_operand *x) {
  return (double)x->count * (double)ac_dtype_bytes(x->dtype);
}

#endif
