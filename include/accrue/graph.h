/** @file
 * Graphs: the description of a model. Building one needs no device and allocates no tensor data.
 *
 * Builders (functions that add an op) return a handle, so that model code reads like mathematics.
 * The first failure stays with the graph. Every later builder then returns NULL, and accepts NULL
 * tensors. ac_graph_status, or making a plan, reports the first failure. Its sentence names the
 * builder, the scope, and each tensor that the builder was given. A handle belongs to its graph.
 *
 * Shapes are row-major, with the last dimension contiguous. A graph has one symbolic dimension, the
 * micro-batch, which always comes first. Write AC_BATCH for it. Write AC_BATCH_TIMES(k) if each
 * sample has k rows: [B, T, C] seen as [B*T, C] has the first dimension AC_BATCH_TIMES(T). In the
 * shapes below B is the batch, T a position, C a channel, and `...` any dimensions. */
#ifndef ACCRUE_GRAPH_H
#define ACCRUE_GRAPH_H

#include <accrue/storage.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The description of a model. */
typedef struct ac_graph ac_graph;
/** A handle of a tensor in a graph: an input, a constant, a parameter or the result of an op. */
typedef struct ac_tensor ac_tensor;

/** Most dimensions of a tensor. */
#define AC_MAX_RANK 6
/** The dimension of the micro-batch, in a shape. */
#define AC_BATCH ((int64_t)-1)
/** The micro-batch times k, in a shape. */
#define AC_BATCH_TIMES(k) (-(int64_t)(k))

/** @def AC_SHAPE
 * The two arguments `rank, shape` of ac_input, ac_parameter, ac_constant and ac_reshape, in C and
 * C++: `ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 784))`. The array lives as long as the
 * call. */
#ifdef __cplusplus
extern "C++" { /* also where a caller's extern "C" is around this header */
template <int rank> struct ac_dimensions {
  int64_t dim[rank];
  operator const int64_t *() const { return dim; }
};
template <typename... T> ac_dimensions<static_cast<int>(sizeof...(T))> ac_dimensions_of(T... dim) {
  return {{static_cast<int64_t>(dim)...}};
}
}
#define AC_SHAPE(...)                                                        \
  static_cast<int>(sizeof(ac_dimensions_of(__VA_ARGS__)) / sizeof(int64_t)), \
      static_cast<const int64_t *>(ac_dimensions_of(__VA_ARGS__))
#else
#define AC_SHAPE(...)                                                                  \
  (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { \
    __VA_ARGS__                                                                        \
  }
#endif

/** Creates an empty graph. */
AC_API ac_status ac_graph_create(ac_graph **graph);
/** Frees a graph. */
AC_API void ac_graph_free(ac_graph *graph);

/** AC_OK, or the first failure of a builder. */
AC_API ac_status ac_graph_status(const ac_graph *graph);
/** The sentence about the first failure of a builder. "" if there is none. */
AC_API const char *ac_graph_message(const ac_graph *graph);

/** Gives a name, such as "h.0.attn", to every op that is built from here on. Messages and reports
 * use it. NULL ends it. */
AC_API void ac_graph_scope(ac_graph *graph, const char *scope);

/* ---- leaves ---------------------------------------------------------------------------------- */

/** How initial values are made. They are drawn by a counter-based generator from (seed, parameter
 * name), so they do not depend on the order of parameters or on the backend.
 *
 * Fans are as in PyTorch: for a shape [out, in, ...], fan_in = in * rest and fan_out = out * rest.
 * Set `in_out` if a matrix is stored as [in, out]. */
typedef enum ac_init_kind {
  /** Without an initialiser: a tensor of rank 2 and more is uniform in +-1 / sqrt(fan_in), as the
   * weights of PyTorch's linear and convolutional layers are; a vector is zeros. */
  AC_INIT_DEFAULT = 0,
  AC_INIT_ZERO,            /**< Zeros. */
  AC_INIT_CONSTANT,        /**< `value`. */
  AC_INIT_NORMAL,          /**< Normal, with `mean` and standard deviation `deviation`. */
  AC_INIT_UNIFORM,         /**< Uniform in [low, high). */
  AC_INIT_KAIMING_NORMAL,  /**< Normal, deviation gain / sqrt(fan_in); arXiv 1502.01852. */
  AC_INIT_KAIMING_UNIFORM, /**< Uniform in +-gain * sqrt(3 / fan_in). */
  /** Normal, deviation gain * sqrt(2 / (fan_in + fan_out)); Glorot and Bengio 2010. */
  AC_INIT_XAVIER_NORMAL,
  AC_INIT_XAVIER_UNIFORM, /**< Uniform in +-gain * sqrt(6 / (fan_in + fan_out)). */
  /** Normal, with `mean` and `deviation`, given that the value is in [low, high]. low = high = 0:
   * within two deviations of the mean. */
  AC_INIT_TRUNCATED_NORMAL,
  /** gain * a random matrix with orthonormal rows or, if it has more rows than columns, columns. A
   * shape [out, in, ...] is a matrix [out, in * rest]; rank at least 2; arXiv 1312.6120. It takes
   * rows * columns * min(rows, columns) multiplications and host memory for a copy in double. */
  AC_INIT_ORTHOGONAL,
  AC_INIT_IDENTITY, /**< gain * ones on the diagonal of a matrix (rank 2), zeros elsewhere. */
  AC_INIT_ARRAY     /**< `values`. */
} ac_init_kind;

/** Initial values of a parameter. Refused are numbers that are not finite, a negative deviation or
 * gain, a normal distribution with deviation 0, a uniform or truncated one with `low` not below
 * `high`, one truncated to less than a millionth of its values, and any number other than 0 that
 * the kind does not use. */
typedef struct ac_init {
  ac_init_kind kind; /**< How they are made. */
  float value;       /**< For AC_INIT_CONSTANT. */
  float mean;        /**< For AC_INIT_NORMAL and AC_INIT_TRUNCATED_NORMAL. */
  float deviation;   /**< For AC_INIT_NORMAL and AC_INIT_TRUNCATED_NORMAL. */
  float low;         /**< For AC_INIT_UNIFORM and AC_INIT_TRUNCATED_NORMAL. */
  float high;        /**< For AC_INIT_UNIFORM and AC_INIT_TRUNCATED_NORMAL. */
  float gain;        /**< 0: for Kaiming sqrt(2), which suits ReLU; for the others 1. */
  bool in_out;       /**< The matrix is stored as [in, out]. */
  /** For AC_INIT_ARRAY: as many finite numbers as the parameter has elements, row-major. They are
   * copied. */
  const float *values;
} ac_init;

/** What a parameter is like. */
typedef struct ac_parameter_desc {
  ac_init init; /**< Its initial values. */
  bool frozen;  /**< It has no gradient and no optimizer state. */
  /** It has no weight decay. Only tensors of rank 2 and more have weight decay anyway. */
  bool no_weight_decay;
  /** A model file may have more rows than the parameter. The first ones are loaded. For example, a
   * table of positions, if a model is trained on shorter samples. */
  bool first_rows;

  /* ---- may still change ---- */

  /** It is kept in blocks: a frozen matrix [rows, columns] with whole blocks in each row
   * (ac_blocks_elements). What writes it (initial values, files, ac_trainer_set_parameter) rounds
   * it to blocks, and what reads it gets the decoded values. Ops decode it when they read it. So
   * results are those of a frozen parameter with the decoded values. */
  AC_UNSTABLE(ac_blocks) AC_UNSTABLE(blocks);
  /** Its learning rate, as a part of the schedule's, such as 0.9 for the layer before the last one
   * if rates decay with the distance from the head. The rate of its group multiplies it. 0: 1. */
  double AC_UNSTABLE(rate);
} ac_parameter_desc;

/** A value that is fed. If `shape[0]` is AC_BATCH or AC_BATCH_TIMES, samples feed it. Without the
 * batch it is one value for all samples, such as a temperature or a mask: it is fed like the
 * others, but `data` has one tensor. It then keeps its value until it is fed again, and
 * ac_trainer_set_input and ac_session_set_input also set it. Datasets do not feed it. Names are
 * unique.
 *
 * `dtype` is what is fed: f32 or i32; u8, f16 or bf16, which the device converts to f32; or i64,
 * which it converts to i32, and which must be in the range of i32. The result has the dtype after
 * the conversion, and is what ops take; ac_graph_input reports the dtype that is fed. Host memory,
 * batches read ahead and transfers have the bytes of what is fed. Bytes of images are often scaled:
 * `ac_scale(ac_input(graph, "images", AC_U8, ...), 1.0f / 255)`. */
AC_API ac_tensor *ac_input(ac_graph *graph, const char *name, ac_dtype dtype, int rank,
                           const int64_t *shape);

/** Most bytes of the name of a parameter or a loss. */
#define AC_MAX_NAME 1000

/** A trainable float tensor of fixed shape. Names are unique. If several ops use one handle they
 * share the weights. `desc` may be NULL: AC_INIT_DEFAULT, and nothing else.
 *
 * Files store parameters under their names. So a name is UTF-8, has at most AC_MAX_NAME bytes, is
 * not "__metadata__", and does not begin with "accrue/". */
AC_API ac_tensor *ac_parameter(ac_graph *graph, const char *name, int rank, const int64_t *shape,
                               const ac_parameter_desc *desc);

/** Values that are part of the graph and of the plans made of it: masks, tables of positions,
 * filters. They are copied out of `data` (row-major, `dtype`), and go to the device when a trainer
 * or session is created. f32, f16, bf16 and u8 become an f32 tensor; i32 and i64 become an i32
 * tensor. NaNs are refused, and integers beyond 32 bits. Ids are checked, when a plan is made,
 * against the tables that they index. Names are unique among constants.
 *
 * A constant is not a parameter. It has no gradient, and no model or state file has it. If a plan
 * stores in 16 bits, the ops that read it get it in 16 bits. A plan counts its bytes among those of
 * the parameters; ac_plan_info.constant_bytes is the part of the constants. */
AC_API ac_tensor *ac_constant(ac_graph *graph, const char *name, ac_dtype dtype, int rank,
                              const int64_t *shape, const void *data);

/* ---- ops ------------------------------------------------------------------------------------- */

/** How a weight matrix is stored. */
typedef enum ac_layout {
  AC_OUT_IN = 0, /**< [out, in], like PyTorch's Linear, or an embedding used as the output head. */
  AC_IN_OUT      /**< [in, out], like GPT-2's Conv1D. */
} ac_layout;

/** y[..., out] = x[..., in] W (+ bias[out]). `bias` may be NULL. */
AC_API ac_tensor *ac_linear(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, ac_layout layout);

/** Matrix product with equal leading dimensions: op(a)[..., M, K] op(b)[..., K, N] -> [..., M, N].
 * op swaps the last two dimensions if the tensor's flag is set. Both tensors have the same rank, at
 * least 2. */
AC_API ac_tensor *ac_matmul(ac_tensor *a, ac_tensor *b, bool transpose_a, bool transpose_b);

/** rows[..., C] = table[ids[...], :]. `table` is [V, C] f32, and `ids` are i32 in [0, V). Ids out
 * of range are refused when they are fed. */
AC_API ac_tensor *ac_embedding(ac_tensor *table, ac_tensor *ids);

/** exp(x) / sum(exp(x)) over the last dimension. */
AC_API ac_tensor *ac_softmax(ac_tensor *x);

/** While training: zero with probability p, else x / (1 - p). The mask is drawn from (seed, op,
 * update, sample in the effective batch), so it does not depend on how the batch is split. The
 * leading dimension must be the batch. 0 <= p < 1, in steps of 2^-16. */
AC_API ac_tensor *ac_dropout(ac_tensor *x, float p);

/** Like ac_dropout, but whole samples are dropped: the branch of a residual connection, such as
 * ac_add(x, ac_drop_path(branch, 0.1f)), is left out for them; stochastic depth, arXiv 1603.09382.
 */
AC_API ac_tensor *ac_drop_path(ac_tensor *x, float p);

/** For samples of unequal length, padded to the longest: mask[..., t] is 1 where t < length, else
 * 0. `lengths` is i32 [B] or [..., n], with values in [0, positions], which are checked when they
 * are fed; the mask is f32 [..., positions]. One plan then serves all lengths up to its largest. As
 * weights of a loss the mask leaves out the padding: sums, weights and gradients are those of the
 * real positions alone. If `lengths` is an input, the loss's weight is known before a window. */
AC_API ac_tensor *ac_length_mask(ac_tensor *lengths, int64_t positions);

/* ---- hints ----------------------------------------------------------------------------------- */

/** What a plan may do with an activation between the forward and the backward pass. Without a hint
 * it depends on memory. */
typedef enum ac_hint {
  AC_HINT_NONE = 0, /**< No hint. */
  AC_KEEP,          /**< Never compute it twice. */
  /** Never keep it for the backward pass, if ac_plan_desc.recompute allows recomputation. */
  AC_RECOMPUTE
} ac_hint;

/** Sets the hint of an op's result and returns the tensor. ac_reshape, and an op that has nothing
 * to do (ac_dropout(x, 0)), make no elements of their own. A hint on their result is a hint on the
 * op that made x. If x is an input or a parameter the hint has no effect. */
AC_API ac_tensor *ac_tensor_hint(ac_tensor *tensor, ac_hint hint);

/* ---- outputs ----------------------------------------------------------------------------------
 */

/** Names a tensor that forward-only plans compute and sessions read. */
AC_API void ac_graph_set_output(ac_graph *graph, const char *name, ac_tensor *tensor);

/* ---- looking at a graph ---------------------------------------------------------------------- */

/** What a tensor is. */
typedef struct ac_tensor_info {
  const char *name;           /**< Its name. "" for activations. */
  ac_dtype dtype;             /**< Type of its elements. */
  int rank;                   /**< Number of dimensions. */
  int64_t shape[AC_MAX_RANK]; /**< Its dimensions. shape[0] < 0: the batch times -shape[0]. */
} ac_tensor_info;

/** How many parameters a graph has. */
AC_API int ac_graph_parameter_count(const ac_graph *graph);
/** Describes a parameter. Indices are in the order in which they were built. */
AC_API ac_status ac_graph_parameter(const ac_graph *graph, int index, ac_tensor_info *info);
/** How many inputs a graph has. */
AC_API int ac_graph_input_count(const ac_graph *graph);
/** Describes an input, with the dtype that is fed. Indices are in the order in which they were
 * built. */
AC_API ac_status ac_graph_input(const ac_graph *graph, int index, ac_tensor_info *info);
/** Describes a tensor. */
AC_API void ac_tensor_get_info(const ac_tensor *tensor, ac_tensor_info *info);

#ifdef __cplusplus
}
#endif

/* Parts of this header, in files of their own: attention, convolutions and pools, resized images,
 * losses, movement, norms, and ops on elements. */
#include <accrue/attention.h>
#include <accrue/convolution.h>
#include <accrue/image.h>
#include <accrue/loss.h>
#include <accrue/movement.h>
#include <accrue/norm.h>
#include <accrue/pointwise.h>

#endif
