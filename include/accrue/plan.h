/* Plans: graph + device + policy -> an ordered schedule with offsets into one arena. Nothing of the
 * model is allocated on the device, so a plan can be made and read for a model far larger than the
 * machine. (The first plan for a device times its ops, in at most 40 MiB that are given back, and
 * keeps the result on disk.) A plan keeps what it needs of the graph, which may be freed; the
 * device must outlive it. */
#ifndef ACCRUE_PLAN_H
#define ACCRUE_PLAN_H

#include <accrue/device.h>
#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ac_plan ac_plan;

typedef enum ac_purpose {
  AC_TRAIN = 0, /* forward, loss, backward, update; evaluation in the same memory */
  AC_EVALUATE,  /* forward and loss */
  AC_PREDICT    /* forward to the graph's outputs */
} ac_purpose;

/* How activations, their gradients and the weights of products are stored. Arithmetic is in float
 * and sums are float throughout. Master weights, their gradients, optimizer state, biases, the
 * parameters and statistics of norms, and losses are f32 at every precision; a weight that products
 * read has a working copy in 16 bits beside its master, which counts among the parameters, or is
 * rounded anew for each of them (ac_working_copies). Without a backward pass such a weight is kept
 * in 16 bits alone. Muon's step keeps what it multiplies in bf16 if the precision is bf16 and the
 * device multiplies it. ac_plan_step tells op by op. */
typedef enum ac_precision {
  AC_PRECISION_F32 = 0,
  AC_PRECISION_F16,
  AC_PRECISION_BF16
} ac_precision;

AC_API const char *ac_precision_name(ac_precision precision); /* "f32", "f16", "bf16" */

/* What the backward pass does about forward activations. */
typedef enum ac_recompute {
  AC_RECOMPUTE_AUTO = 0,
  AC_RECOMPUTE_NONE,
  AC_RECOMPUTE_ALL
} ac_recompute;

/* How the weights of several losses are known before a window's first micro-batch. */
typedef enum ac_loss_means {
  AC_LOSS_MEANS_COUNTED = 0, /* rows, where none is weighted or ignored; else counted on the host
                                from the inputs of the whole window, which then comes in one call of
                                ac_trainer_accumulate, or is read ahead by ac_fit */
  AC_LOSS_MEANS_GIVEN,       /* by the caller: ac_trainer_begin_window */
  AC_LOSS_MEANS_PER_SAMPLE   /* no need: each sum is divided by the window's samples instead */
} ac_loss_means;

/* Which optimizer's state the plan reserves: for each element of a parameter two floats for AdamW,
 * one for SGD and Lion, none for SGD without momentum; for Adafactor one for each row and each
 * column of a matrix, its first dimension by the rest, and for each element of a vector; for Muon
 * one for the weights of linear layers and convolutions, two for what AdamW steps: vectors, tables
 * of embeddings, and the last layer before a loss; for Adam-mini one, and one for each output of a
 * layer, row of a table, or vector. AC_OPTIMIZER_CALLBACK is the caller's own, a function that is
 * handed gradients, weights and states on the host (ac_trainer_desc.step), with as many floats as
 * ac_plan_desc.callback_states says.
 * ac_optimizer_desc says what the others compute. */
typedef enum ac_optimizer_kind {
  AC_ADAMW = 0,
  AC_SGD,
  AC_LION,
  AC_ADAFACTOR,
  AC_MUON,
  AC_ADAM_MINI,
  AC_OPTIMIZER_CALLBACK, /* May still change. */
  AC_OPTIMIZER_COUNT
} ac_optimizer_kind;

/* Where what the optimizer keeps is, on a device with memory of its own
 * (ac_device_info.own_memory). In host memory: what it keeps for parameters of at least 4096
 * elements. While an update steps one parameter, or a part of a large one, the next one's state is
 * on its way to the device and the last one's on its way back, beside what the device computes.
 * Both ways leave the same bits. May still change. */
typedef enum ac_state_space {
  AC_STATE_SPACE_AUTO = 0, /* in host memory where `memory` leaves nothing faster and host_memory
                              has room for it */
  AC_STATE_ON_DEVICE,
  AC_STATE_ON_HOST
} ac_state_space;

/* How what the optimizer keeps is stored. 8 bits: in blocks of 256 elements with a scale each, by
 * dynamic quantisation (arXiv 2110.02861), read, stepped and written in one pass. The step itself
 * is f32 and rounding is to nearest, so same seed = same bits holds; results are others than with
 * f32. May still change. */
typedef enum ac_optimizer_state { AC_STATE_F32 = 0, AC_STATE_8BIT } ac_optimizer_state;

/* Where the gradients of a window are kept. Buffer and fused leave the same bits.
 *
 * Buffer: until the update, added up over micro-batches, or in the arena (whole_windows).
 * Fused: a window is one micro-batch, and its backward pass runs twice. The first time each
 * gradient is measured once it is final, and dropped. The loss, the norm and whether all is finite
 * are then known, and the update is decided on as ever. The second time each parameter is stepped
 * once its gradient is final and nothing of the pass reads the parameter any more. So the bytes of
 * gradients are those of the few that are alive at once, for some twice the time of the
 * micro-batch. Nobody can read them (ac_trainer_get_gradient), and parameters cannot be written in
 * the middle of a window.
 *
 * Fused, locally: a window is one micro-batch, and its backward pass runs once, in
 * ac_trainer_update. Each parameter is measured and stepped there once its gradient is final and
 * nothing of the pass reads the parameter any more: the bytes of fused at the time of buffer. But
 * nothing is known of a gradient that comes later. So ac_optimizer_desc.clip bounds the norm of
 * each parameter's gradient by itself; a gradient that is not finite keeps its own parameter from
 * being stepped, and no other (ac_update.left_out); and nobody decides on an update
 * (ac_trainer_desc.decide). A loss that is not finite skips the window whole. Where nothing is
 * clipped and all is finite the bits are those of the other ways.
 *
 * Folded: the gradient of each micro-batch becomes part of what the optimizer keeps once it is
 * final, and is dropped; the first of a window does what the optimizer's decays do. SGD with
 * momentum and Muon without Nesterov's look-ahead compute what they do with a buffer, but for
 * rounding; what Muon leaves to AdamW has a buffer. With AdamW it is AdamA (arXiv 2305.19982), an
 * approximation: the second moment takes the sum of squares of the micro-batches' gradients for the
 * square of their sum. What the losses of a window weigh has to be known before it, as with several
 * losses (ac_loss_means). Given up are what needs a window's gradients before anything is changed:
 * clipping, skipping and scaling an update, dynamic loss scaling, norms, and reading gradients. A
 * window that is not finite, discarded or failed leaves a trainer of no use until a state is
 * loaded. f32 weights, gradients and state alone. May still change. */
typedef enum ac_gradients {
  AC_GRADIENTS_AUTO = 0, /* fused where a budget leaves nothing faster, and windows are whole */
  AC_GRADIENTS_BUFFER,
  AC_GRADIENTS_FUSED,       /* with micro_batch = batch and whole_windows, which follow from it */
  AC_GRADIENTS_FUSED_LOCAL, /* so, too; never taken by AUTO, as results may be others */
  AC_GRADIENTS_FOLDED       /* nor is this */
} ac_gradients;

/* How weights are stored: those parameters that are read, and only by what takes its operands in
 * 16 bits: weights of products and convolutions, tables, what is added or multiplied.
 * AC_WEIGHTS_BF16 keeps them in bf16 alone, with AC_PRECISION_BF16: no original in f32 stands
 * behind. An update is computed in f32, weight decay included, and rounded up as often as the
 * result is near the upper of its two neighbours (stochastic rounding), so that steps far below a
 * weight's last bit are not lost but taken now and then. The random numbers are Philox's, keyed by
 * seed, name, update and element: same seed = same bits holds. Not for AC_OPTIMIZER_CALLBACK. May
 * still change. */
typedef enum ac_weights { AC_WEIGHTS_F32 = 0, AC_WEIGHTS_BF16 } ac_weights;

/* Whether weights that are trained have working copies in 16 bits (ac_precision). Without them a
 * weight is rounded anew before each op that reads it, forward and backward, into the arena, where
 * it is alive no longer than for that op: two bytes less for each weight, and some more time for
 * each micro-batch. Both ways leave the same bits. May still change. */
typedef enum ac_working_copies {
  AC_WORKING_COPIES_AUTO = 0, /* none where a budget leaves nothing faster */
  AC_WORKING_COPIES_KEPT,
  AC_WORKING_COPIES_NONE
} ac_working_copies;

/* How gradients are stored while they add up. AC_GRADIENT_BF16: those of at least 4096 elements in
 * bf16. Whenever something is added the sum is rounded by chance like weights (ac_weights), so that
 * small contributions are not lost in a large sum; the update sees the rounded sum. Not for
 * AC_OPTIMIZER_CALLBACK. May still change. */
typedef enum ac_gradient_storage { AC_GRADIENT_F32 = 0, AC_GRADIENT_BF16 } ac_gradient_storage;

/* What ac_optimizer_desc.clip limits. The last two are formulas of their own on each parameter's
 * gradient before its step, one more pass over it; they need gradients and weights in f32, and are
 * not for folded ones. May still change. */
typedef enum ac_clipping {
  AC_CLIP_NORM = 0, /* the norm of all gradients; with AC_GRADIENTS_FUSED_LOCAL that of each
                       parameter's */
  AC_CLIP_EACH,     /* the norm of each parameter's gradient by itself */
  AC_CLIP_VALUE,    /* each element, to [-clip, clip] */
  /* arXiv 2102.06171: the norm of what makes one output of a layer (a filter, a row of weights
   * [out, in], a column of [in, out], a row of a table, or a whole vector), by clip x the norm of
   * its weights, which counts as at least 1e-3. */
  AC_CLIP_ADAPTIVE
} ac_clipping;

#define AC_MAX_CALLBACK_STATES 4

typedef struct ac_plan_desc {
  ac_purpose purpose;
  int64_t batch;       /* effective batch in samples; 0: 1 */
  int64_t micro_batch; /* 0: the largest that fits the budget, at most `batch`, evenly split */
  uint64_t memory; /* budget in bytes for everything below; 0: what the device has; on a CPU three
                      quarters of it. More than the device has is AC_ERROR_BUDGET */
  bool beyond_device; /* plan as if the device had any amount of memory. May still change. */
  /* Ops that look at more than one sample (batch norm) may see one micro-batch at a time. Without
   * it, a plan with such an op does not split the batch. */
  bool micro_batch_norm;
  /* A promise: a window is one call of ac_trainer_accumulate, with at most `batch` samples, which
   * ac_fit keeps unless windows are carried over epochs (AC_LAST_CARRY, which it refuses then).
   * Where the plan then takes it as one micro-batch, gradients are in the arena, from where
   * backward first writes them to the update: most take the place of activations that are not
   * needed any more. */
  bool whole_windows;
  ac_gradients gradients;
  ac_precision precision;
  ac_weights weights;
  ac_working_copies working_copies; /* of no meaning in f32 and without a backward pass */
  ac_gradient_storage gradient_storage;
  ac_recompute recompute;
  ac_optimizer_kind optimizer;
  ac_clipping clipping;
  bool sgd_no_momentum; /* AC_SGD without a momentum buffer */
  /* Of AC_OPTIMIZER_CALLBACK, whose weights, gradients and states are f32: how many states there
   * are for each parameter, of its shape, from 0 to AC_MAX_CALLBACK_STATES; and how many elements
   * are handed over at once at most, 0: whole parameters. On a device that is not the host they are
   * copied to and from staging memory there (ac_plan_info.callback_bytes). Predicted seconds are
   * without these copies and without the callback. May still change. */
  int callback_states;
  int64_t callback_part;
  ac_optimizer_state optimizer_state; /* 8 bits: AC_ADAMW, AC_SGD, AC_LION */
  /* With AC_STATE_8BIT, parameters whose names match this shell pattern keep their state in f32.
   * NULL: embeddings, whose rows are met rarely; "": none. Those of fewer than 4096 elements keep
   * it in any case. */
  const char *state_f32;
  /* Parameters whose names match one of these shell patterns, with commas between, are frozen, as
   * by ac_parameter_desc.frozen: "h.[0-5].*,wte*". NULL: none. Frozen parameters have no gradient
   * and no optimizer state, and the backward pass ends where nothing trainable lies below. In a
   * precision of 16 bits those that are read by what takes 16 bits alone, as products do, are kept
   * like that alone, and saved as they are then. A pattern that matches none is
   * AC_ERROR_ARGUMENT, and so is a loss that depends on no other parameter. May still change. */
  const char *frozen;
  /* Keeps an exponential moving average of each trained parameter, in f32, which each update moves
   * (ac_trainer_desc.average_decay, ac_trainer_use_average). It counts with the optimizer's bytes.
   * For weights that have an f32 original. May still change. */
  bool average;
  ac_state_space state_space;
  uint64_t host_memory; /* bytes of host memory that optimizer state may take, apart from `memory`;
                           0: none, with AC_STATE_ON_HOST what it needs */
  ac_loss_means
      loss_means; /* of graphs with several losses (ac_graph_add_loss). May still change. */
  int read_ahead; /* whole batches that ac_fit's threads read before they are needed; 0: each
                     micro-batch is read when it is */
  bool read_ahead_if_room; /* only as many as fit beside the fastest plan, down to none. May
                              still change. */
  bool debug_numerics; /* count in what is stored in 16 bits (ac_trainer_numerics); slow. May still
                          change. */
  /* Each description that ac_plan_offers would offer is shown to this function first, with its
   * ac_relief bits, and is left out if the result is false: the caller could not take it. What else
   * follows from it for the caller may be set in *desc, whose texts must outlive the call. NULL:
   * all that the library takes are offered. May still change. */
  bool (*offers)(void *context, unsigned reliefs, struct ac_plan_desc *desc);
  void *offers_context;
} ac_plan_desc;

/* Fails with AC_ERROR_BUDGET and the smallest budget that would do (ac_plan_offers says what else
 * would), with the graph's first error, or with AC_ERROR_UNSUPPORTED naming the op that the device
 * cannot run. */
AC_API ac_status ac_plan_create(ac_plan **plan, const ac_graph *graph, ac_device *device,
                                const ac_plan_desc *desc);
AC_API void ac_plan_free(ac_plan *plan);

/* What a description can change to need less memory. The last five change results by more than
 * rounding, and so may AC_RELIEF_GRADIENTS_FOLDED and AC_RELIEF_MICRO_BATCH_NORM. May still change.
 */
typedef enum ac_relief {
  AC_RELIEF_NO_READ_AHEAD = 1 << 0,       /* read_ahead = 0 */
  AC_RELIEF_GRADIENTS_AUTO = 1 << 1,      /* gradients = AC_GRADIENTS_AUTO */
  AC_RELIEF_WORKING_COPIES_AUTO = 1 << 2, /* working_copies = AC_WORKING_COPIES_AUTO */
  AC_RELIEF_STATE_SPACE_AUTO = 1 << 3,    /* state_space = AC_STATE_SPACE_AUTO */
  AC_RELIEF_HOST_MEMORY = 1 << 4,         /* host_memory: what optimizer state takes there */
  AC_RELIEF_MICRO_BATCH_NORM = 1 << 5,    /* micro_batch_norm = true */
  AC_RELIEF_MICRO_BATCH_1 = 1 << 6,       /* micro_batch = 1 */
  AC_RELIEF_RECOMPUTE_AUTO = 1 << 7,      /* recompute = AC_RECOMPUTE_AUTO */
  AC_RELIEF_NO_HINTS = 1 << 8,            /* a graph without ac_tensor_hint */
  AC_RELIEF_GRADIENTS_FOLDED = 1 << 9,    /* gradients = AC_GRADIENTS_FOLDED, and a trainer that
                                             does not clip and has no look-ahead of Muon's */
  AC_RELIEF_PRECISION_F16 = 1 << 10,      /* precision = AC_PRECISION_F16 */
  AC_RELIEF_STATE_8BIT = 1 << 11,         /* optimizer_state = AC_STATE_8BIT, state_f32 = "" */
  AC_RELIEF_WEIGHTS_BF16 = 1 << 12, /* precision = AC_PRECISION_BF16, weights = AC_WEIGHTS_BF16 */
  AC_RELIEF_GRADIENTS_LOCAL = 1 << 13, /* gradients = AC_GRADIENTS_FUSED_LOCAL */
  AC_RELIEF_GRADIENTS_BF16 = 1 << 14   /* gradient_storage = AC_GRADIENT_BF16 */
} ac_relief;

/* Another description and what it needs. May still change. */
typedef struct ac_plan_offer {
  unsigned reliefs;    /* what differs from the one that is asked for: bits of ac_relief */
  ac_plan_desc desc;   /* the other one, with the memory that is asked for */
  uint64_t bytes;      /* the smallest budget that would do */
  bool at_most;        /* less may do, as ops that it has were not measured yet */
  int64_t micro_batch; /* with that budget */
} ac_plan_offer;

/* What would need less memory than a description does, whether that fits or not: at most `capacity`
 * descriptions; *count receives how many there are. Those with AC_RELIEF_STATE_8BIT and the bits
 * behind it come one on top of the other. Nothing is measured for it. May still change. */
AC_API ac_status ac_plan_offers(const ac_graph *graph, ac_device *device, const ac_plan_desc *desc,
                                ac_plan_offer *list, int capacity, int *count);

/* Bytes on the device, by class. `total` is their sum and is what a trainer or session allocates,
 * to the byte; alignment gaps are counted in the class they follow. */
typedef struct ac_plan_bytes {
  uint64_t parameters;
  uint64_t gradients; /* in the arena (whole_windows, fused, folded): what they add to the most that
                         is alive */
  uint64_t optimizer;
  uint64_t activations; /* arena: the most that activations and their gradients take at once */
  uint64_t workspace;   /* arena: all beyond that, which is scratch space and gaps between values */
  uint64_t io;          /* inputs of a micro-batch, loss sums, gradient statistics */
  uint64_t total;
} ac_plan_bytes;

typedef struct ac_plan_info {
  ac_purpose purpose;
  ac_precision precision;
  ac_weights weights;
  ac_gradient_storage gradient_storage;
  ac_optimizer_state optimizer_state;
  int64_t batch, micro_batch, accumulation_steps;
  int64_t recomputed_ops;  /* steps that run an op again */
  int64_t parameter_count; /* trainable scalars, shared ones once */
  int64_t frozen_count;    /* scalars of the parameters that ac_plan_desc.frozen names. May still
                              change. */
  int64_t steps;           /* kernels of one micro-batch, forward and backward; fused: of the first
                              pass, which measures gradients too; locally: of all that a window is;
                              folded: with what folds them */
  int64_t update_steps;    /* and of what ends a window: reduce and update, which is the second pass
                              if fused. May still change. */
  ac_gradients gradients;  /* the way taken, never AUTO. May still change. */
  ac_state_space state_space; /* the way taken, on the device or on the host. May still change. */
  uint64_t host_bytes;     /* of host memory, for optimizer state: what a trainer allocates there,
                              to the byte, beside what is read ahead. May still change. */
  uint64_t callback_bytes; /* of host memory besides: what a trainer allocates there to hand over
                              parameters to AC_OPTIMIZER_CALLBACK. May still change. */
  uint64_t budget_bytes;   /* 0: none was given */
  ac_plan_bytes bytes;
  uint64_t average_bytes; /* of the optimizer's bytes, those of averages. May still change. */
  uint64_t live_bytes;    /* lower bound of the arena: the largest sum of bytes alive at once. May
                             still change. */
  uint64_t working_bytes; /* of the parameters' bytes, those of working copies in 16 bits */
  bool rounds_anew; /* weights in 16 bits are made from their masters for each op: AC_TRAIN without
                       working copies. May still change. */
  int read_ahead;   /* batches; those of the description, or what room there is */
  uint64_t read_ahead_bytes; /* host memory for the batches of `read_ahead` and the one in hand; on
                                a CPU the budget covers it too. One sample a thread of fields that
                                nothing reads is not counted */
  uint64_t library_bytes;    /* held by libraries outside this account (BLAS buffers); 0: unknown */
  double predicted_seconds;  /* of a whole window and its update; 0: forward only */
  double flops;              /* of one micro-batch, forward and backward, from the op table */
} ac_plan_info;

AC_API const ac_plan_info *ac_plan_get_info(const ac_plan *plan);

/* When a step runs: its micro-batch, once for each; behind the last one of a window, what reduces
 * gradients to what decides on the update, and the update. May still change. */
typedef enum ac_plan_phase {
  AC_PLAN_MICRO_BATCH = 0,
  AC_PLAN_REDUCE,
  AC_PLAN_UPDATE
} ac_plan_phase;

/* One scheduled op, for reports. Index in [0, info.steps + info.update_steps). May still change. */
typedef struct ac_plan_step {
  const char *op;    /* "layer_norm_gradient" */
  const char *scope; /* as given to ac_graph_scope; "" if none */
  ac_plan_phase phase;
  bool backward;
  bool recomputed;
  bool couples_samples; /* its result for a sample depends on the others: not the same when a batch
                           is split */
  uint64_t live_bytes;  /* of the arena, while it runs */
  uint64_t workspace_bytes; /* of these, scratch space */
  uint64_t gradient_bytes;  /* of these, gradients of parameters (whole_windows, fused, folded) */
  double flops, bytes;      /* work and traffic for one micro-batch */
  int inputs, outputs;      /* operands, absent ones in between included */
  ac_dtype input[8], output[4]; /* how they are stored; AC_DTYPE_COUNT: absent */
} ac_plan_step;
AC_API ac_status ac_plan_get_step(const ac_plan *plan, int64_t index, ac_plan_step *result);

/* What other choices would cost: each micro-batch size that the search considers, keeping
 * everything, recomputing everything, and in between (`auto` with half the arena bytes that lie
 * between these two). May still change. */
typedef struct ac_plan_alternative {
  int64_t micro_batch, accumulation_steps, recomputed_ops;
  ac_recompute recompute;
  ac_gradients gradients; /* never AUTO */
  uint64_t total_bytes;
  double seconds; /* predicted, of a window and its update */
} ac_plan_alternative;

/* Fills in at most `capacity` alternatives of a plan for training; *count receives how many there
 * are. Takes as long as planning anew for each. May still change. */
AC_API ac_status ac_plan_alternatives(const ac_plan *plan, ac_plan_alternative *list, int capacity,
                                      int *count);

/** A parameter and what a plan keeps for it, for reports. May still change. */
typedef struct ac_plan_parameter {
  ac_tensor_info tensor; /**< Name and shape. The type is that in which the weights are stored. */
  bool frozen;           /**< It is frozen: by ac_plan_desc.frozen, or by its own description. */
  bool trained;         /**< Updates step it. A parameter that no loss depends on is not trained. */
  const char *step;     /**< The op that steps it, such as "adamw". "" if none does. */
  ac_dtype state;       /**< How the optimizer's state is stored. AC_U8: in 8 bits. */
  uint64_t bytes;       /**< Bytes of the weights and of their working copy. */
  uint64_t state_bytes; /**< Bytes that the optimizer keeps, on the device or on the host. */
} ac_plan_parameter;
/** Describes a parameter. The index is in [0, ac_graph_parameter_count) of the plan's graph, and in
 * the same order. May still change. */
AC_API ac_status ac_plan_get_parameter(const ac_plan *plan, int index, ac_plan_parameter *result);

#ifdef __cplusplus
}
#endif
#endif
