/** @file
 * How weights, gradients, activations and optimizer state are stored, and where. */
#ifndef ACCRUE_STORAGE_H
#define ACCRUE_STORAGE_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How activations, their gradients and the weights of products are stored.
 *
 * Arithmetic and sums are float. At every precision these are f32: master weights (the originals),
 * their gradients, optimizer state, biases, the parameters and statistics of norms, and losses. A
 * weight that products read has a working copy in 16 bits as well, which counts among the
 * parameters; or it is rounded again for each product (ac_working_copies). Without a backward pass
 * such a weight is kept in 16 bits only.
 *
 * If the precision is bf16 and the device multiplies bf16, Muon's step stores in bf16 what it
 * multiplies. ac_plan_step shows the types op by op. */
typedef enum ac_precision {
  AC_PRECISION_F32 = 0, /**< f32. */
  AC_PRECISION_F16,     /**< f16. */
  AC_PRECISION_BF16     /**< bf16. */
} ac_precision;

/** The name of a precision: "f32", "f16", "bf16". */
AC_API const char *ac_precision_name(ac_precision precision);

/* ---- may still change ------------------------------------------------------------------------ */

/** How weights are stored. This is about parameters that only ops with operands in 16 bits read:
 * weights of products and convolutions, tables, and what is added or multiplied. */
typedef enum AC_UNSTABLE(ac_weights) {
  AC_UNSTABLE(AC_WEIGHTS_F32) = 0, /**< In f32. */
  /** In bf16 only, without an original in f32. Needs AC_PRECISION_BF16; not for
   * AC_OPTIMIZER_CALLBACK. An update is computed in f32, with weight decay, and rounded at random
   * with the right average (stochastic rounding). So updates far below a weight's last bit are
   * not lost: they are made now and then. The random numbers are Philox's, from seed, name, update
   * and element, so the same seed gives the same bits. */
  AC_UNSTABLE(AC_WEIGHTS_BF16)
} AC_UNSTABLE(ac_weights);

/** Whether trained weights have working copies in 16 bits (ac_precision). Without them a weight is
 * rounded again before each op that reads it, forward and backward. The rounded weight is in the
 * arena only while that op runs. This saves two bytes for each weight and takes more time for each
 * micro-batch. Both ways give the same bits. */
typedef enum AC_UNSTABLE(ac_working_copies) {
  AC_UNSTABLE(AC_WORKING_COPIES_AUTO) = 0, /**< None, if the budget leaves nothing faster. */
  AC_UNSTABLE(AC_WORKING_COPIES_KEPT),     /**< Keep them. */
  AC_UNSTABLE(AC_WORKING_COPIES_NONE)      /**< Do without. */
} AC_UNSTABLE(ac_working_copies);

/** How the numbers of a frozen weight are kept in blocks (ac_parameter_desc.blocks): numbers of 8
 * or 4 bits with a common scale. docs/guide/weights-in-blocks.md says what each costs. Q8_0, Q4_0
 * and Q4_1 are those of GGUF files (llama.cpp), to the bit. NF4 is that of QLoRA (arXiv
 * 2305.14314). */
typedef enum AC_UNSTABLE(ac_blocks) {
  AC_UNSTABLE(AC_BLOCKS_NONE) = 0, /**< Not in blocks. */
  AC_UNSTABLE(AC_BLOCKS_Q8_0),     /**< 32 numbers of 8 bits, an f16 scale: 8.5 bits a weight. */
  AC_UNSTABLE(AC_BLOCKS_Q4_0),     /**< 32 numbers of 4 bits, an f16 scale: 4.5 bits a weight. */
  AC_UNSTABLE(AC_BLOCKS_Q4_1),     /**< 32 numbers of 4 bits, scale and minimum in f16: 5 bits. */
  /** 64 of sixteen values, denser around 0, times an f32 scale: 4.5 bits a weight. */
  AC_UNSTABLE(AC_BLOCKS_NF4)
} AC_UNSTABLE(ac_blocks);

#ifndef AC_STABLE_ONLY

/** The name of a format: "none", "q8_0", "q4_0", "q4_1", "nf4". */
AC_API const char *ac_blocks_name(ac_blocks blocks);
/** Elements of a block: 32, or 64 for AC_BLOCKS_NF4. 0 if there are no blocks. */
AC_API int ac_blocks_elements(ac_blocks blocks);
/** Bytes of `count` elements, which are whole blocks. 0 if they are not, or there are no blocks. */
AC_API int64_t ac_blocks_bytes(ac_blocks blocks, int64_t count);

#endif /* AC_STABLE_ONLY */

/** Where the gradients of a window are kept. docs/guide/gradients.md compares the ways. */
typedef enum AC_UNSTABLE(ac_gradients) {
  /** Fused, if the budget leaves nothing faster and windows are whole. Else buffer. */
  AC_UNSTABLE(AC_GRADIENTS_AUTO) = 0,
  /** All gradients are kept until the update. Micro-batches add to them. With whole_windows they
   * are in the arena. */
  AC_UNSTABLE(AC_GRADIENTS_BUFFER),
  /** Less memory, the same bits, and about twice the time of a micro-batch. A window is one
   * micro-batch (micro_batch = batch and whole_windows follow from this), and its backward pass
   * runs twice.
   *
   * In the first pass each gradient is measured when it is final, and dropped. The loss, the norm
   * and whether all is finite are then known, and the update is decided as usual. In the second
   * pass each parameter is stepped when its gradient is final and the pass does not need the
   * parameter any more. So only the gradients that are alive at one time need memory. They cannot
   * be read (ac_trainer_get_gradient), and parameters cannot be written in the middle of a window.
   */
  AC_UNSTABLE(AC_GRADIENTS_FUSED),
  /** The memory of fused at the time of buffer, with other limits. AUTO never takes it, because
   * results may differ. A window is one micro-batch, and its backward pass runs once, in
   * ac_trainer_update. Each parameter is measured and stepped there when its gradient is final and
   * the pass does not need the parameter any more.
   *
   * Gradients that come later are not known then. So ac_optimizer_desc.clip limits the norm of each
   * parameter's gradient by itself. If a gradient is not finite, its own parameter is not stepped,
   * but the others are (ac_update.left_out). Updates cannot be decided on (ac_trainer_desc.decide).
   * If the loss is not finite the whole window is skipped. If nothing is clipped and all is finite,
   * the bits are those of buffer and fused. */
  AC_UNSTABLE(AC_GRADIENTS_FUSED_LOCAL),
  /** The gradient of each micro-batch becomes part of the optimizer's state when it is final, and
   * is dropped. The first micro-batch of a window also applies the decays of the state. AUTO never
   * takes it.
   *
   * SGD with momentum, and Muon without Nesterov's look-ahead, compute the same as with a buffer,
   * apart from rounding. What Muon leaves to AdamW has a buffer. With AdamW it is AdamA (arXiv
   * 2305.19982), an approximation: the second moment gets the sum of the squares of the
   * micro-batches' gradients, not the square of their sum. The weights of a window's losses must be
   * known before it, as with several losses (ac_loss_means).
   *
   * What needs a window's gradients before anything changes is not available: clipping, skipping
   * and scaling an update, dynamic loss scaling, norms, and reading gradients. After a window that
   * is not finite, was discarded or failed, a trainer cannot be used until a state is loaded. Only
   * with weights, gradients and state in f32. */
  AC_UNSTABLE(AC_GRADIENTS_FOLDED),
  /** With several ranks (ac_plan_desc.ranks): each rank keeps the sum of all ranks' gradients for
   * the part that it steps, and no more. A micro-batch's gradients live until they have gone to the
   * ranks that own them, so they are exchanged once in each micro-batch, and not once in a window.
   * AUTO never takes it. With one rank it is AC_GRADIENTS_BUFFER.
   *
   * All ranks make as many exchanges as the rank with the most micro-batches; one that has no more
   * samples takes part in ac_trainer_update. If no rank has more than one micro-batch the bits are
   * those of a buffer. A caller reads and writes the part that its rank keeps, while an update is
   * being decided (ac_trainer_gradient_part). Not with gradients in bf16 or with exact batch norm.
   */
  AC_UNSTABLE(AC_GRADIENTS_SHARDED)
} AC_UNSTABLE(ac_gradients);

/** How gradients are stored while they are added up. */
typedef enum AC_UNSTABLE(ac_gradient_storage) {
  AC_UNSTABLE(AC_GRADIENT_F32) = 0, /**< In f32. */
  /** In bf16, for parameters of at least 4096 elements. Each time something is added, the sum is
   * rounded at random like weights (AC_WEIGHTS_BF16), so that small parts are not lost in a large
   * sum. The update sees the rounded sum. Not for AC_OPTIMIZER_CALLBACK. */
  AC_UNSTABLE(AC_GRADIENT_BF16)
} AC_UNSTABLE(ac_gradient_storage);

/** Where optimizer state is kept, if the device has its own memory (ac_device_info.own_memory). In
 * host memory only the state of parameters of at least 4096 elements is kept. While an update steps
 * one parameter, or a part of a large one, the state of the next one is copied to the device, and
 * the state of the last one is copied back. Both ways give the same bits. */
typedef enum AC_UNSTABLE(ac_state_space) {
  /** In host memory if `memory` leaves nothing faster, and host_memory has room for it. */
  AC_UNSTABLE(AC_STATE_SPACE_AUTO) = 0,
  AC_UNSTABLE(AC_STATE_ON_DEVICE), /**< On the device. */
  AC_UNSTABLE(AC_STATE_ON_HOST)    /**< In host memory. */
} AC_UNSTABLE(ac_state_space);

/** How optimizer state is stored. The update is computed in f32, and rounding is to nearest, so the
 * same seed still gives the same bits. Results differ between the two. */
typedef enum AC_UNSTABLE(ac_optimizer_state) {
  AC_UNSTABLE(AC_STATE_F32) = 0, /**< In f32. */
  /** In 8 bits: blocks of 256 elements with one scale each, by dynamic quantisation (arXiv
   * 2110.02861). It is read, stepped and written in one pass. */
  AC_UNSTABLE(AC_STATE_8BIT)
} AC_UNSTABLE(ac_optimizer_state);

#ifdef __cplusplus
}
#endif
#endif
