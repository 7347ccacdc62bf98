/* Graphs: a pure description of a model. Building one needs no device and allocates no tensor data.
 *
 * Builders return a handle so that model code reads like mathematics. The first failure sticks to
 * the graph, every later builder on it returns NULL (and so accepts NULL tensors), and
 * ac_graph_status, or making a plan, reports the first failure, with a sentence that names the
 * builder, the scope, and each tensor it was handed. A handle belongs to its graph.
 *
 * Shapes are row-major, the last dimension contiguous. A graph has one symbolic dimension, the
 * micro-batch, always leading: write AC_BATCH for it, or AC_BATCH_TIMES(k) where k samples' rows
 * are folded into it ([B, T, C] seen as [B*T, C] has the leading dimension AC_BATCH_TIMES(T)). */
#ifndef ACCRUE_GRAPH_H
#define ACCRUE_GRAPH_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ac_graph ac_graph;
typedef struct ac_tensor ac_tensor;

#define AC_MAX_RANK 6
#define AC_BATCH ((int64_t)-1)
#define AC_BATCH_TIMES(k) (-(int64_t)(k))

/* The two arguments `rank, shape` of ac_input, ac_parameter and ac_reshape, in C and C++:
 * ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 784)). The array lives as long as the call. */
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

AC_API ac_status ac_graph_create(ac_graph **graph);
AC_API void ac_graph_free(ac_graph *graph);

/* AC_OK, or the first failure of a builder; ac_graph_message is its sentence ("" if none). */
AC_API ac_status ac_graph_status(const ac_graph *graph);
AC_API const char *ac_graph_message(const ac_graph *graph);

/* Names every op built from here on ("h.0.attn"), for messages and reports. NULL ends it. */
AC_API void ac_graph_scope(ac_graph *graph, const char *scope);

/* ---- leaves ---------------------------------------------------------------------------------- */

/* Initial values. Drawn by a counter-based generator keyed by (seed, parameter name), so they
 * depend neither on the order of parameters nor on the backend.
 *
 * Fans follow PyTorch: for a shape [out, in, ...] fan_in = in * rest, fan_out = out * rest;
 * `in_out` says that a matrix is stored [in, out] instead. */
typedef enum ac_init_kind {
  AC_INIT_ZERO = 0,
  AC_INIT_CONSTANT,        /* value */
  AC_INIT_NORMAL,          /* mean, standard deviation `deviation` */
  AC_INIT_UNIFORM,         /* in [low, high) */
  AC_INIT_KAIMING_NORMAL,  /* deviation gain / sqrt(fan_in); arXiv 1502.01852 */
  AC_INIT_KAIMING_UNIFORM, /* in +-gain * sqrt(3 / fan_in) */
  AC_INIT_XAVIER_NORMAL,   /* deviation gain * sqrt(2 / (fan_in + fan_out)); Glorot and Bengio 2010
                            */
  AC_INIT_XAVIER_UNIFORM   /* in +-gain * sqrt(6 / (fan_in + fan_out)) */
} ac_init_kind;

/* Refused: numbers that are not finite, a deviation or gain that is negative, a normal distribution
 * whose deviation is 0, a uniform one whose low is not below high, and a number other than 0 that
 * the kind makes no use of. */
typedef struct ac_init {
  ac_init_kind kind;
  float value;
  float mean, deviation;
  float low, high;
  float gain; /* 0: sqrt(2), for ReLU, of the Kaiming kinds; 1 of the Xavier kinds */
  bool in_out;
} ac_init;

typedef struct ac_parameter_desc {
  ac_init init;
  bool frozen;          /* no gradient, no optimizer state */
  bool no_weight_decay; /* decay is for tensors of rank 2 and more; this exempts one of those */
  bool first_rows; /* a model file may hold more rows than this has; the first are loaded, as of
                      a table of positions where a model is trained on shorter samples */
} ac_parameter_desc;

/* A value fed with every micro-batch. `shape[0]` must be AC_BATCH or AC_BATCH_TIMES. Names are
 * unique. */
AC_API ac_tensor *ac_input(ac_graph *graph, const char *name, ac_dtype dtype, int rank,
                           const int64_t *shape);

#define AC_MAX_NAME 1000 /* bytes of a parameter's or a loss's name */

/* A trainable float tensor of fixed shape. Names are unique; using one handle in several ops shares
 * the weights. `desc` may be NULL: zeros.
 *
 * Files hold parameters under their names, so a name is UTF-8 and at most AC_MAX_NAME bytes, is not
 * "__metadata__" and does not begin with "accrue/". */
AC_API ac_tensor *ac_parameter(ac_graph *graph, const char *name, int rank, const int64_t *shape,
                               const ac_parameter_desc *desc);

/* ---- ops ------------------------------------------------------------------------------------- */

/* How a weight matrix is stored. */
typedef enum ac_layout {
  AC_OUT_IN = 0, /* [out, in], as PyTorch's Linear and an embedding used as output head */
  AC_IN_OUT      /* [in, out], as GPT-2's Conv1D */
} ac_layout;

/* y[..., out] = x[..., in] W (+ bias[out]). `bias` may be NULL. */
AC_API ac_tensor *ac_linear(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, ac_layout layout);

/* Matrix product over equal leading dimensions: op(a)[..., M, K] op(b)[..., K, N] -> [..., M, N],
 * where op transposes the last two dimensions if its flag is set. Both have the same rank >= 2. */
AC_API ac_tensor *ac_matmul(ac_tensor *a, ac_tensor *b, bool transpose_a, bool transpose_b);

/* Element by element; the shape of the operand with fewer dimensions must equal the last dimensions
 * of the other's, and is repeated along the leading ones ([T, C] onto [B, T, C]). */
AC_API ac_tensor *ac_add(ac_tensor *a, ac_tensor *b);
AC_API ac_tensor *ac_multiply(ac_tensor *a, ac_tensor *b);

AC_API ac_tensor *ac_scale(ac_tensor *x, float factor);

/* rows[..., C] = table[ids[...], :]; table [V, C] f32, ids i32 in [0, V). Ids out of range are
 * refused when they are fed. */
AC_API ac_tensor *ac_embedding(ac_tensor *table, ac_tensor *ids);

/* Over the last dimension: gamma * (x - mean) / sqrt(var + epsilon) + beta; arXiv 1607.06450. gamma
 * and beta [C]; beta may be NULL. epsilon 0: 1e-5. */
AC_API ac_tensor *ac_layer_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon);

/* Over the last dimension: gamma * x / sqrt(mean(x^2) + epsilon); arXiv 1910.07467. gamma [C].
 * epsilon 0: 1e-5. */
AC_API ac_tensor *ac_rms_norm(ac_tensor *x, ac_tensor *gamma, float epsilon);

/* Norms of images x [B, C, ...], such as [B, C, H, W]: gamma[c] * (x - mean) / sqrt(var + epsilon)
 * + beta[c], gamma and beta [C], either may be NULL, epsilon 0: 1e-5. They differ in what mean and
 * variance are taken over; none but batch norm looks at more than one sample.
 *
 * ac_group_norm: over a sample's groups of C / groups neighbouring channels with all their
 * positions; `groups` divides C; arXiv 1803.08494.
 * ac_instance_norm: over each channel of a sample; arXiv 1607.08022.
 * ac_sample_norm: over all channels and positions of a sample, the layer norm of image models
 * (ac_layer_norm is over the last dimension alone). */
AC_API ac_tensor *ac_group_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, int groups,
                                float epsilon);
AC_API ac_tensor *ac_instance_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon);
AC_API ac_tensor *ac_sample_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon);

typedef struct ac_batch_norm_desc {
  float epsilon;  /* 0: 1e-5 */
  float momentum; /* how much of the way the running statistics go in an update; 0: 0.1 */
} ac_batch_norm_desc;

/* Over all samples of the micro-batch and all positions of each channel; arXiv 1502.03167. So the
 * result for a sample depends on the rest of its micro-batch, and splitting a batch changes it; a
 * plan refuses to unless it is told that this is meant (ac_plan_desc.micro_batch_norm). In
 * evaluation mean and variance are running_mean and running_variance, frozen parameters [C] that
 * should start from 0 and 1. Each update moves them towards the mean and the (unbiased) variance of
 * all samples of its window; one that is skipped does not. One value of a channel has no variance:
 * plans, and batches of ac_fit_desc, that would always have a micro-batch with one, of one sample
 * of [B, C], are refused. Where only a short last window has one, it yields beta there, passes no
 * gradient on to x, and the running variance stays as it is. x must be batched; `desc` may be NULL.
 */
AC_API ac_tensor *ac_batch_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta,
                                ac_tensor *running_mean, ac_tensor *running_variance,
                                const ac_batch_norm_desc *desc);

/* The weight of a linear or convolutional layer, [O, ...], with each output's row brought to mean 0
 * and variance 1: (w - mean) / sqrt(var + epsilon); arXiv 1903.10520. epsilon 0: 1e-5. */
AC_API ac_tensor *ac_weight_standardisation(ac_tensor *weight, float epsilon);

typedef enum ac_gelu_kind {
  AC_GELU_TANH = 0, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's */
  AC_GELU_ERF       /* x Phi(x); arXiv 1606.08415 */
} ac_gelu_kind;
AC_API ac_tensor *ac_gelu(ac_tensor *x, ac_gelu_kind kind);
AC_API ac_tensor *ac_relu(ac_tensor *x);
AC_API ac_tensor *ac_silu(ac_tensor *x); /* x / (1 + exp(-x)) */
/* x where x > 0, else slope x; 0 <= slope < infinity. Maas, Hannun, Ng 2013 (slope 0.01). */
AC_API ac_tensor *ac_leaky_relu(ac_tensor *x, float slope);
AC_API ac_tensor *ac_sigmoid(ac_tensor *x); /* 1 / (1 + exp(-x)) */
AC_API ac_tensor *ac_tanh(ac_tensor *x);

/* Over the last dimension. */
AC_API ac_tensor *ac_softmax(ac_tensor *x);

typedef struct ac_attention_desc {
  int heads;     /* divides C */
  float scale;   /* 0: 1 / sqrt(C / heads) */
  float dropout; /* probability of dropping an attention weight while training */
} ac_attention_desc;

/* Causal multi-head self-attention. qkv [B, T, 3C]: queries, keys and values side by side, each
 * split into heads; result [B, T, C]. Position t attends to positions <= t. Keeps one float (the
 * row's log-sum-exp) per head and row for the backward pass, never a T x T matrix; arXiv
 * 2205.14135. */
AC_API ac_tensor *ac_causal_attention(ac_tensor *qkv, const ac_attention_desc *desc);

/* While training: zero with probability p, else x / (1 - p). The mask is drawn from (seed, op,
 * update, sample in the effective batch), so it does not depend on how the batch is split. The
 * leading dimension must be the batch. 0 <= p < 1, in steps of 2^-16. */
AC_API ac_tensor *ac_dropout(ac_tensor *x, float p);

/* Same elements, another shape; no data moves. One dimension may be 0: deduced. Only the leading
 * dimension may be symbolic. */
AC_API ac_tensor *ac_reshape(ac_tensor *x, int rank, const int64_t *shape);

/* Swaps two dimensions, neither of them the batch. */
AC_API ac_tensor *ac_transpose(ac_tensor *x, int axis_a, int axis_b);

/* Parts of equal shape but for `axis`, 1 to 8 of them, side by side along that axis, which is not
 * the batch. */
AC_API ac_tensor *ac_concat(ac_graph *graph, ac_tensor *const *parts, int count, int axis);

/* The elements [first, first + length) of an axis that is not the batch. */
AC_API ac_tensor *ac_slice(ac_tensor *x, int axis, int64_t first, int64_t length);

/* ---- images: [B, channels, height, width] ---------------------------------------------------- */

/* Height first, then width. */
typedef struct ac_conv2d_desc {
  int stride[2];   /* 0: 1 */
  int padding[2];  /* zeros on both sides */
  int dilation[2]; /* distance of the kernel's elements; 0: 1 */
  int groups;      /* of channels that are convolved by themselves; 0: 1 */
} ac_conv2d_desc;

/* Convolution (cross-correlation, as everywhere in this field) of x [B, Ci, H, W] with weight
 * [Co, Ci / groups, kh, kw] and bias [Co] or NULL:
 *
 *   [B, Co, Ho, Wo]   with Ho = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1
 *
 * rounded down, and Wo likewise. Refused: groups that do not divide both numbers of channels, a
 * kernel larger than the padded image. With as many groups as channels (depthwise) it is limited by
 * memory and has kernels of its own. `desc` may be NULL. */
AC_API ac_tensor *ac_conv2d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                            const ac_conv2d_desc *desc);

/* Height first, then width. */
typedef struct ac_pool2d_desc {
  int kernel[2];
  int stride[2];  /* 0: the kernel's */
  int padding[2]; /* on both sides; at most half the kernel */
} ac_pool2d_desc;

/* The largest element or the average of each window:
 *
 *   [B, C, Ho, Wo]   with Ho = (H + 2 padding - kernel) / stride + 1
 *
 * rounded down. Padding is never the largest; in an average it counts as zeros. The gradient of the
 * largest goes to the first of equal ones, in the order of rows. */
AC_API ac_tensor *ac_max_pool2d(ac_tensor *x, const ac_pool2d_desc *desc);
AC_API ac_tensor *ac_average_pool2d(ac_tensor *x, const ac_pool2d_desc *desc);

/* The average of each channel: [B, C, H, W] -> [B, C]. */
AC_API ac_tensor *ac_global_average_pool(ac_tensor *x);

/* Each pixel becomes a square of factor x factor: [B, C, factor * H, factor * W]. */
AC_API ac_tensor *ac_upsample_nearest2d(ac_tensor *x, int factor);

/* ---- hints ----------------------------------------------------------------------------------- */

/* What a plan may do about an activation between the forward and the backward pass. Memory decides
 * unless told. */
typedef enum ac_hint {
  AC_HINT_NONE = 0,
  AC_KEEP,     /* never compute it twice */
  AC_RECOMPUTE /* never keep it for the backward pass, where the policy allows recomputation at all
                */
} ac_hint;

/* Sets the hint of an op's result and returns the tensor. ac_reshape, and an op that has nothing to
 * do (ac_dropout(x, 0)), make no elements of their own: a hint on what they return is one on the op
 * that made x, and without effect where x is an input or a parameter. */
AC_API ac_tensor *ac_tensor_hint(ac_tensor *tensor, ac_hint hint);

/* ---- losses ---------------------------------------------------------------------------------- */

/* A loss yields sums: of weighted losses, of weights, and of the weights of the rows classified
 * right. The division happens once a window, so that unequal micro-batches come out right. */

typedef struct ac_cross_entropy_desc {
  bool ignore;          /* rows whose target is ignore_index weigh nothing */
  int32_t ignore_index; /* e.g. -100 or -1 */
  /* s in [0, 1): the target is (1 - s) onehot + s / V while training (arXiv 1512.00567), and onehot
   * in evaluation. */
  float smoothing;
} ac_cross_entropy_desc;

/* Softmax cross-entropy in nats. logits [..., V], targets i32 [...], weights f32 [...] (finite, >=
 * 0) or NULL for ones. `desc` may be NULL. */
AC_API ac_tensor *ac_cross_entropy(ac_tensor *logits, ac_tensor *targets, ac_tensor *weights,
                                   const ac_cross_entropy_desc *desc);

/* ac_cross_entropy(ac_linear(x, weight, NULL, layout), targets, weights, desc) for large
 * vocabularies: x [..., C], weight [V, C] or [C, V]. The logits are computed some rows at a time,
 * in at most 64 MiB (or one row), and never stored whole; loss and gradients come out of one pass
 * over them, so that training costs no more arithmetic than with separate ops. */
AC_API ac_tensor *ac_linear_cross_entropy(ac_tensor *x, ac_tensor *weight, ac_layout layout,
                                          ac_tensor *targets, ac_tensor *weights,
                                          const ac_cross_entropy_desc *desc);

/* Mean over each sample's elements of (prediction - target)^2. Both [B, ...] f32; weights [B] or
 * NULL. What target and weights are computed from may not be trained, which a plan refuses with
 * AC_ERROR_UNSUPPORTED. */
AC_API ac_tensor *ac_mean_squared_error(ac_tensor *prediction, ac_tensor *target,
                                        ac_tensor *weights);

/* Mean over each sample's elements of the cross-entropy between a target in [0, 1] and the
 * probability 1 / (1 + exp(-logit)), in nats. Both [B, ...] f32; weights [B] or NULL. A sample is
 * classified right if each of its logits is >= 0 where the target is >= 1/2, and < 0 elsewhere. */
AC_API ac_tensor *ac_binary_cross_entropy(ac_tensor *logits, ac_tensor *targets,
                                          ac_tensor *weights);

/* What training minimises: the only loss of a graph. */
AC_API void ac_graph_set_loss(ac_graph *graph, ac_tensor *loss);

/* Several losses: training minimises the sum of factor x mean, where each mean is a loss's own sum
 * over its own weight, reported under its name. A factor is a positive number that floats hold. The
 * gradient of each loss is divided by its weight before it joins that of the others, so where rows
 * are weighted or ignored the weights of a window have to be known before its first micro-batch:
 * see ac_plan_desc.loss_means. Build a loss right behind what it reads: what is built in between
 * may have to be kept for it. Names are UTF-8, of at most AC_MAX_NAME bytes. May still change. */
enum { AC_MAX_LOSSES = 8 };
AC_API void ac_graph_add_loss(ac_graph *graph, const char *name, ac_tensor *loss, double factor);

/* Names a tensor that forward-only plans compute and sessions read. */
AC_API void ac_graph_set_output(ac_graph *graph, const char *name, ac_tensor *tensor);

/* ---- looking at a graph ---------------------------------------------------------------------- */

typedef struct ac_tensor_info {
  const char *name; /* "" for unnamed activations */
  ac_dtype dtype;
  int rank;
  int64_t shape[AC_MAX_RANK]; /* shape[0] < 0: the batch times -shape[0] */
} ac_tensor_info;

AC_API int ac_graph_parameter_count(const ac_graph *graph);
AC_API ac_status ac_graph_parameter(const ac_graph *graph, int index, ac_tensor_info *info);
AC_API int ac_graph_input_count(const ac_graph *graph);
AC_API ac_status ac_graph_input(const ac_graph *graph, int index, ac_tensor_info *info);
AC_API void ac_tensor_get_info(const ac_tensor *tensor, ac_tensor_info *info);

#ifdef __cplusplus
}
#endif
#endif
