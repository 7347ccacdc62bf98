/** @file
 * Plans: graph + device + description -> a schedule of steps, with offsets into one arena (memory
 * that all activations share).
 *
 * A plan allocates nothing of the model on the device. So a plan can be made and read for a model
 * far larger than the machine. The first plan for a device times its ops. This takes at most 40
 * MiB, which are given back, and the result is kept on disk. A plan keeps what it needs of the
 * graph, which may be freed. The device must outlive the plan. */
#ifndef ACCRUE_PLAN_H
#define ACCRUE_PLAN_H

#include <accrue/device.h>
#include <accrue/graph.h>
#include <accrue/storage.h>
#include <accrue/optimizer.h>
#include <accrue/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A schedule for a graph on a device. */
typedef struct ac_plan ac_plan;

/** What a plan is for. */
typedef enum ac_purpose {
  AC_TRAIN = 0, /**< Forward, loss, backward, update; evaluation in the same memory. */
  AC_EVALUATE,  /**< Forward and loss. */
  AC_PREDICT    /**< Forward to the graph's outputs. */
} ac_purpose;

/** Whether the backward pass computes activations again instead of keeping them (gradient
 * checkpointing). */
typedef enum ac_recompute {
  AC_RECOMPUTE_AUTO = 0, /**< As many as the budget needs. */
  AC_RECOMPUTE_NONE,     /**< Keep all. */
  AC_RECOMPUTE_ALL       /**< Compute all again. */
} ac_recompute;

/** How the weights of several losses are known before a window's first micro-batch. */
typedef enum ac_loss_means {
  /** They are the rows, if none is weighted or ignored. Otherwise the host counts them from the
   * inputs of the whole window. The window must then come in one call of ac_trainer_accumulate, or
   * be read ahead by ac_fit. */
  AC_LOSS_MEANS_COUNTED = 0,
  AC_LOSS_MEANS_GIVEN,     /**< The caller gives them: ac_trainer_begin_window. */
  AC_LOSS_MEANS_PER_SAMPLE /**< Not needed: each sum is divided by the window's samples instead. */
} ac_loss_means;

/** The samples that a batch norm in training takes its mean and variance from. */
typedef enum ac_batch_norm_statistics {
  /** The whole effective batch, which is never split: a window is one micro-batch. */
  AC_BATCH_NORM_WHOLE = 0,
  /** One micro-batch. Results then depend on its size. This also allows other ops that look at more
   * than one sample to see a micro-batch at a time. */
  AC_BATCH_NORM_MICRO,
  /** The whole effective batch, split or not. All micro-batches go through the ops before a batch
   * norm, then all through those after it, and likewise backward. What they hand on there is kept
   * for the whole window, as are its inputs. Loss, gradients and running statistics are those of
   * the whole batch but for rounding, at every micro-batch.
   *
   * A window is one call of ac_trainer_accumulate. Gradients are kept (AC_GRADIENTS_BUFFER). Other
   * ops that look at more than one sample are AC_ERROR_ARGUMENT. With several ranks the statistics
   * are those of all of them, and rank 0 needs a sample of each window: what counts once for all
   * ranks counts there. ac_fit always gives it one. ac_trainer_update fails on all ranks with
   * AC_ERROR_STATE if a caller's own loop does not. */
  AC_BATCH_NORM_EXACT
} ac_batch_norm_statistics;

/** What a plan should be. */
typedef struct ac_plan_desc {
  ac_purpose purpose; /**< What it is for. */
  int64_t batch; /**< Effective batch in samples. AC_TRAIN needs it; else 0: micro_batch, or 1. */
  int64_t micro_batch; /**< 0: the largest that fits the budget, at most `batch`, evenly split. */
  /** Budget in bytes for everything below. 0: what the device has; on a CPU three quarters of it.
   * More than the device has is AC_ERROR_BUDGET. */
  uint64_t memory;
  /** What batch norms take their statistics from, and so whether a batch may be split. */
  ac_batch_norm_statistics batch_norm;
  /** A promise: a window is one call of ac_trainer_accumulate, with at most `batch` samples. ac_fit
   * keeps the promise; it refuses AC_LAST_CARRY, which cannot. If the plan takes a window as one
   * micro-batch, gradients are in the arena from where backward first writes them to the update.
   * Most of them then reuse the memory of activations that are no longer needed. */
  bool whole_windows;
  ac_precision precision; /**< How activations are stored. */
  ac_recompute recompute; /**< Whether activations are computed again. */
  /** Which optimizer, how its state is kept, and its settings. Trainers also read it, and can
   * change settings that the plan does not depend on (ac_trainer_desc.optimizer). */
  ac_optimizer_desc optimizer;
  /** Whole batches that ac_fit's threads read before they are needed. 0: each micro-batch is read
   * when it is needed. */
  int read_ahead;

  /* ---- may still change ---- */

  bool AC_UNSTABLE(beyond_device); /**< Plan as if the device had any amount of memory. */
  /** Where gradients are kept. */
  AC_UNSTABLE(ac_gradients) AC_UNSTABLE(gradients);
  /** How weights are stored. */
  AC_UNSTABLE(ac_weights) AC_UNSTABLE(weights);
  /** Not used in f32, and without a backward pass. */
  AC_UNSTABLE(ac_working_copies) AC_UNSTABLE(working_copies);
  /** How gradients are stored. */
  AC_UNSTABLE(ac_gradient_storage) AC_UNSTABLE(gradient_storage);
  /** Shell patterns with commas between, such as `"h.[0-5].*,wte*"`. Parameters with names that
   * match one of them are frozen, as with ac_parameter_desc.frozen. NULL: none.
   *
   * Frozen parameters have no gradient and no optimizer state. The backward pass ends where nothing
   * below is trained. In a precision of 16 bits, frozen parameters that only ops with operands in
   * 16 bits read are kept in 16 bits only, and saved like that. AC_ERROR_ARGUMENT if a pattern
   * matches no parameter, or if a loss depends on no other parameter. */
  const char *AC_UNSTABLE(frozen);
  /** Keep an average of each trained parameter, in f32 (ac_trainer_desc.average_decay,
   * ac_trainer_use_average). It counts as optimizer state. The weights must have an original in
   * f32. */
  bool AC_UNSTABLE(average);
  /** Where optimizer state is kept. */
  AC_UNSTABLE(ac_state_space) AC_UNSTABLE(state_space);
  /** Bytes of host memory that optimizer state may take, apart from `memory`. 0: none; with
   * AC_STATE_ON_HOST what it needs. */
  uint64_t AC_UNSTABLE(host_memory);
  /** For graphs with several losses (ac_graph_add_loss). */
  ac_loss_means AC_UNSTABLE(loss_means);
  /** Read ahead only as many batches as fit next to the fastest plan, down to none. */
  bool AC_UNSTABLE(read_ahead_if_room);
  /** Count overflows and underflows of what is stored in 16 bits (ac_trainer_numerics); slow. */
  bool AC_UNSTABLE(debug_numerics);
  /** Each description that ac_plan_offers would offer is first shown to this function, with its
   * ac_relief bits. It is left out if the function returns false: the caller cannot use it. The
   * function may also change *desc, if the caller needs more changes with it. Texts in *desc must
   * outlive the call. NULL: all offers are taken. */
  bool (*AC_UNSTABLE(offers))(void *context, unsigned reliefs, struct ac_plan_desc *desc);
  void *AC_UNSTABLE(offers_context); /**< Passed to `offers`. */
  /** Shell patterns with commas between, as in `frozen`: parameters and caches (ac_cache) with such
   * names are those of another trainer or session, which a trainer or a session for this plan is
   * given (ac_trainer_desc.share, ac_session_create_shared, ac_session_create_with). They take no
   * bytes here. NULL: none. AC_ERROR_ARGUMENT if a pattern matches neither. */
  const char *AC_UNSTABLE(shared);
  /** Ranks that share out each window (ac_trainer_desc.ranks), and which of them this plan is for:
   * from 0 on. `batch` stays that of all ranks. This rank takes at most the batch divided by the
   * ranks, rounded up, and a larger `micro_batch` becomes that. Needs AC_GRADIENTS_BUFFER, or AUTO,
   * which becomes it. AC_ERROR_ARGUMENT if something else in the description cannot be shared out,
   * with its name. 0 ranks: 1. */
  int AC_UNSTABLE(ranks);
  int AC_UNSTABLE(rank); /**< See `ranks`. */
} ac_plan_desc;

/** Makes a plan. Fails with AC_ERROR_BUDGET and the smallest budget that would do (ac_plan_offers
 * lists other ways), with the graph's first error, or with AC_ERROR_UNSUPPORTED and the name of the
 * op that the device cannot run. */
AC_API ac_status ac_plan_create(ac_plan **plan, const ac_graph *graph, ac_device *device,
                                const ac_plan_desc *desc);
/** Frees a plan. */
AC_API void ac_plan_free(ac_plan *plan);

/** Bytes on the device, by class. Gaps for alignment count in the class that they follow. */
typedef struct ac_plan_bytes {
  uint64_t parameters; /**< Weights, their working copies, and constants of the graph. */
  /** Gradients. If they are in the arena (whole_windows, fused, folded): what they add to the most
   * that is alive at once. */
  uint64_t gradients;
  uint64_t optimizer;   /**< Optimizer state and averages. */
  uint64_t activations; /**< Arena: the most that activations and their gradients take at once. */
  uint64_t workspace;   /**< Arena: everything else, scratch space and gaps between values. */
  uint64_t io;          /**< Inputs of a micro-batch, sums of losses, statistics of gradients. */
  uint64_t total;       /**< The sum: what a trainer or session allocates, to the byte. */

  /* ---- may still change ---- */

  uint64_t AC_UNSTABLE(caches); /**< Rows that stay from one run to the next (ac_cache). */
} ac_plan_bytes;

/** What a plan has become. */
typedef struct ac_plan_info {
  ac_purpose purpose;         /**< As in the description. */
  ac_precision precision;     /**< As in the description. */
  int64_t batch;              /**< Effective batch in samples. */
  int64_t micro_batch;        /**< Most samples of a micro-batch. */
  int64_t accumulation_steps; /**< Micro-batches of a window, of the share of one rank. */
  /** With exact batch norm (AC_BATCH_NORM_EXACT): parts of the step that each micro-batch waits for
   * all others before. 0: micro-batches run one after the other, and each may be a call of
   * ac_trainer_accumulate. */
  int64_t sections;
  int64_t recomputed_ops;  /**< Steps that run an op again. */
  int64_t parameter_count; /**< Trained scalars; shared ones count once. */
  /** Kernels of one micro-batch, forward and backward. Fused: those of the first pass, which also
   * measures gradients. Fused locally: those of the whole window. Folded: with those that fold. */
  int64_t steps;
  uint64_t budget_bytes;   /**< The budget. 0: none was given. */
  ac_plan_bytes bytes;     /**< Bytes on the device. */
  uint64_t working_bytes;  /**< The part of the parameters' bytes that working copies take. */
  uint64_t constant_bytes; /**< The part of the parameters' bytes that constants take. */
  int read_ahead;          /**< Batches: as in the description, or as many as there is room for. */
  /** Host memory for the batches of `read_ahead` and the current one. On a CPU it is part of the
   * budget. Not counted: for each thread one sample of the fields that nothing reads. */
  uint64_t read_ahead_bytes;
  uint64_t library_bytes;   /**< Held by other libraries (buffers of BLAS). 0: unknown. */
  double predicted_seconds; /**< Seconds of a whole window and its update. 0: forward only. */
  double flops;             /**< Flops of one micro-batch, forward and backward, by the op table. */

  /* ---- may still change ---- */

  /** As in the description. */
  AC_UNSTABLE(ac_weights) AC_UNSTABLE(weights);
  /** As in the description. */
  AC_UNSTABLE(ac_gradient_storage) AC_UNSTABLE(gradient_storage);
  /** As in the description. */
  AC_UNSTABLE(ac_optimizer_state) AC_UNSTABLE(optimizer_state);
  /** Scalars of frozen parameters: those that ac_plan_desc.frozen names, and those with
   * ac_parameter_desc.frozen. */
  int64_t AC_UNSTABLE(frozen_count);
  /** Kernels at the end of a window: reduce and update. Fused: this includes the second pass. */
  int64_t AC_UNSTABLE(update_steps);
  /** The way that was chosen, never AUTO. */
  AC_UNSTABLE(ac_gradients) AC_UNSTABLE(gradients);
  /** The place that was chosen, never AUTO. */
  AC_UNSTABLE(ac_state_space) AC_UNSTABLE(state_space);
  /** Host memory for optimizer state: what a trainer allocates there, to the byte, in addition to
   * batches that are read ahead. */
  uint64_t AC_UNSTABLE(host_bytes);
  /** Host memory that a trainer allocates in addition, to pass parameters to AC_OPTIMIZER_CALLBACK.
   */
  uint64_t AC_UNSTABLE(callback_bytes);
  /** The part of the optimizer's bytes that averages take. */
  uint64_t AC_UNSTABLE(average_bytes);
  /** Lower bound of the arena: the largest sum of bytes that are alive at once. */
  uint64_t AC_UNSTABLE(live_bytes);
  /** Weights in 16 bits are rounded from their masters for each op: AC_TRAIN without working
   * copies. */
  bool AC_UNSTABLE(rounds_anew);
  /** Ops that are not run, nor their results stored, because neighbouring functions of elements are
   * computed together. */
  int64_t AC_UNSTABLE(fused_ops);
  /** Bytes of these results for a micro-batch, which otherwise would be written and read once. */
  uint64_t AC_UNSTABLE(fused_bytes);
  /** The part of the parameters' bytes that weights in blocks take (ac_parameter_desc.blocks). */
  uint64_t AC_UNSTABLE(blocks_bytes);
  int AC_UNSTABLE(ranks);     /**< Ranks that share out each window. */
  int AC_UNSTABLE(rank);      /**< Which of them the plan is for. */
  int64_t AC_UNSTABLE(share); /**< Most samples of a window that this rank takes. */
  /** Host memory that a trainer allocates for transfers between ranks. */
  uint64_t AC_UNSTABLE(transfer_bytes);
} ac_plan_info;

/** What a plan has become. Valid as long as the plan. */
AC_API const ac_plan_info *ac_plan_get_info(const ac_plan *plan);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** What a description can change to need less memory: bits. Those of precision, storage and
 * steps alone, from AC_RELIEF_PRECISION_F16 to AC_RELIEF_GRADIENTS_BF16, change results by more
 * than rounding. AC_RELIEF_GRADIENTS_FOLDED and AC_RELIEF_MICRO_BATCH_NORM may do so. */
typedef enum ac_relief {
  AC_RELIEF_NO_READ_AHEAD = 1 << 0,       /**< read_ahead = 0. */
  AC_RELIEF_GRADIENTS_AUTO = 1 << 1,      /**< gradients = AC_GRADIENTS_AUTO. */
  AC_RELIEF_WORKING_COPIES_AUTO = 1 << 2, /**< working_copies = AC_WORKING_COPIES_AUTO. */
  AC_RELIEF_STATE_SPACE_AUTO = 1 << 3,    /**< state_space = AC_STATE_SPACE_AUTO. */
  AC_RELIEF_HOST_MEMORY = 1 << 4,         /**< host_memory: what optimizer state takes there. */
  AC_RELIEF_MICRO_BATCH_NORM = 1 << 5,    /**< batch_norm = AC_BATCH_NORM_MICRO. */
  AC_RELIEF_MICRO_BATCH_1 = 1 << 6,       /**< micro_batch = 1. */
  AC_RELIEF_RECOMPUTE_AUTO = 1 << 7,      /**< recompute = AC_RECOMPUTE_AUTO. */
  AC_RELIEF_NO_HINTS = 1 << 8,            /**< A graph without ac_tensor_hint. */
  /** gradients = AC_GRADIENTS_FOLDED, and a trainer without clipping and without Muon's look-ahead.
   */
  AC_RELIEF_GRADIENTS_FOLDED = 1 << 9,
  AC_RELIEF_PRECISION_F16 = 1 << 10, /**< precision = AC_PRECISION_F16. */
  AC_RELIEF_STATE_8BIT = 1 << 11, /**< optimizer.state = AC_STATE_8BIT, optimizer.state_f32 = "". */
  /** precision = AC_PRECISION_BF16, weights = AC_WEIGHTS_BF16. */
  AC_RELIEF_WEIGHTS_BF16 = 1 << 12,
  AC_RELIEF_GRADIENTS_LOCAL = 1 << 13,  /**< gradients = AC_GRADIENTS_FUSED_LOCAL. */
  AC_RELIEF_GRADIENTS_BF16 = 1 << 14,   /**< gradient_storage = AC_GRADIENT_BF16. */
  AC_RELIEF_EXACT_BATCH_NORM = 1 << 15, /**< batch_norm = AC_BATCH_NORM_EXACT. */
  AC_RELIEF_GRADIENTS_SHARDED = 1 << 16 /**< gradients = AC_GRADIENTS_SHARDED. */
} ac_relief;

/** Another description, and what it needs. */
typedef struct ac_plan_offer {
  unsigned reliefs;    /**< What differs from the description that was asked for: ac_relief bits. */
  ac_plan_desc desc;   /**< The other description, with the memory that was asked for. */
  uint64_t bytes;      /**< The smallest budget that would do. */
  bool at_most;        /**< Less may do: not all of its ops were measured yet. */
  int64_t micro_batch; /**< The micro-batch with that budget. */
} ac_plan_offer;

/** Lists descriptions that need less memory than this one, whether it fits or not: at most
 * `capacity`. *count receives how many there are. From AC_RELIEF_STATE_8BIT on, each offer also has
 * the changes of the offers before it. Nothing is measured for it. */
AC_API ac_status ac_plan_offers(const ac_graph *graph, ac_device *device, const ac_plan_desc *desc,
                                ac_plan_offer *list, int capacity, int *count);

/** When a step runs. */
typedef enum ac_plan_phase {
  AC_PLAN_MICRO_BATCH = 0, /**< Once for each micro-batch. */
  /** After the last micro-batch of a window: it reduces gradients to the numbers that decide on the
   * update. */
  AC_PLAN_REDUCE,
  AC_PLAN_UPDATE /**< In the update. */
} ac_plan_phase;

/** One scheduled op, for reports. */
typedef struct ac_plan_step {
  const char *op;           /**< Its name, such as "layer_norm_gradient". */
  const char *scope;        /**< As given to ac_graph_scope. "" if none. */
  ac_plan_phase phase;      /**< When it runs. */
  bool backward;            /**< It is part of the backward pass. */
  bool recomputed;          /**< It runs an op again. */
  bool couples_samples;     /**< Its result for a sample depends on the others in the batch. */
  uint64_t live_bytes;      /**< Bytes of the arena that are in use while it runs. */
  uint64_t workspace_bytes; /**< Scratch space among these. */
  uint64_t gradient_bytes;  /**< Gradients of parameters among these (whole_windows, fused, folded).
                             */
  double flops;             /**< Flops for one micro-batch. */
  double bytes;             /**< Bytes read and written for one micro-batch. */
  int inputs;               /**< Operands that it reads, with absent ones in between. */
  int outputs;              /**< Operands that it writes, with absent ones in between. */
  ac_dtype input[8];        /**< How each input is stored. AC_DTYPE_COUNT: absent. */
  ac_dtype output[4];       /**< How each output is stored. AC_DTYPE_COUNT: absent. */
} ac_plan_step;
/** Describes a step. The index is in [0, info.steps + info.update_steps). */
AC_API ac_status ac_plan_get_step(const ac_plan *plan, int64_t index, ac_plan_step *result);

/** What another choice would cost. */
typedef struct ac_plan_alternative {
  int64_t micro_batch;        /**< Most samples of a micro-batch. */
  int64_t accumulation_steps; /**< Micro-batches of a window. */
  int64_t recomputed_ops;     /**< Steps that run an op again. */
  ac_recompute recompute;     /**< Whether activations are computed again. */
  ac_gradients gradients;     /**< Where gradients are kept, never AUTO. */
  uint64_t total_bytes;       /**< Bytes on the device. */
  double seconds;             /**< Predicted seconds of a window and its update. */
} ac_plan_alternative;

/** Lists what other choices of a plan for training would cost: at most `capacity`. *count receives
 * how many there are. For each micro-batch that the search considers there are three: keep
 * everything, recompute everything, and `auto` with half the arena bytes between these two. It
 * takes as long as making a plan for each. */
AC_API ac_status ac_plan_alternatives(const ac_plan *plan, ac_plan_alternative *list, int capacity,
                                      int *count);

/** A parameter and what a plan keeps for it, for reports. */
typedef struct ac_plan_parameter {
  ac_tensor_info tensor; /**< Name and shape. The type is that in which the weights are stored. */
  bool frozen;           /**< It is frozen: by ac_plan_desc.frozen, or by its own description. */
  bool trained;         /**< Updates step it. A parameter that no loss depends on is not trained. */
  const char *step;     /**< The op that steps it, such as "adamw". "" if none does. */
  ac_dtype state;       /**< How the optimizer's state is stored. AC_U8: in 8 bits. */
  uint64_t bytes;       /**< Bytes of the weights and of their working copy. */
  uint64_t state_bytes; /**< Bytes that the optimizer keeps, on the device or on the host. */
  ac_blocks blocks;     /**< In which it is kept; the type is then u8. */
} ac_plan_parameter;
/** Describes a parameter. The index is in [0, ac_graph_parameter_count) of the plan's graph, and in
 * the same order. */
AC_API ac_status ac_plan_get_parameter(const ac_plan *plan, int index, ac_plan_parameter *result);

/** What the exchange between ranks costs in a window. Predicted from the plan and the network. */
typedef struct ac_rank_price {
  uint64_t bytes;          /**< Bytes that the plan's rank sends to others. */
  uint64_t messages;       /**< How many messages these are. */
  double exchange_seconds; /**< Seconds that the exchange takes. */
  double exposed_seconds;  /**< The part of these in which nothing is computed. */
  double window_seconds;   /**< Seconds of the window with its update and the exposed part. */
} ac_rank_price;

/** Predicts the exchange of a plan for several ranks (ac_plan_desc.ranks) on a network. With one
 * rank there is none. AC_ERROR_ARGUMENT: the bandwidth is not positive, or the latency negative. */
AC_API ac_status ac_plan_price_ranks(const ac_plan *plan, const ac_network *network,
                                     ac_rank_price *price);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
