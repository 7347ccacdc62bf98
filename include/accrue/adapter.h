/** @file
 * Adapters: fine-tuning by small matrices beside frozen ones (LoRA, arXiv 2106.09685), which are
 * saved by themselves, in the form of PEFT.
 *
 *     y = x W + bias + scale * dropout(x) A^T B^T
 *
 * W [out, in] is frozen, A [rank, in] and B [out, rank] are trained. B begins as zeros, so that the
 * model begins as it was. The scale is alpha / rank or, rank-stabilised (arXiv 2312.03732), alpha /
 * sqrt(rank). */
#ifndef ACCRUE_ADAPTER_H
#define ACCRUE_ADAPTER_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A layer whose adapter differs from the others'. */
typedef struct ac_lora_module {
  const char *name; /**< Of the layer: the name of its weight without ".weight". */
  int64_t rank;     /**< 0: as in the description. */
  double alpha;     /**< 0: as in the description. */
} ac_lora_module;

/** Which layers have adapters, and what these are like. */
typedef struct ac_lora_desc {
  int64_t rank; /**< Rows of A. 0: there are no adapters, except those of `modules`. */
  double alpha; /**< The scale's numerator. 0: twice the rank. */
  /** While training, each element of x is zero for the adapter with this probability, and the
   * others are divided by 1 - dropout. 0 <= dropout < 1. */
  double dropout;
  bool rank_stabilised; /**< The scale is alpha / sqrt(rank). */
  /** Weight-decomposed (DoRA, arXiv 2402.09353): each row of W + scale * B A is multiplied by a
   * trained magnitude over its norm. */
  bool dora;
  /** Which layers, by their names: shell patterns with commas between, such as "*_proj". One
   * without `*`, `?` and `[` also matches the end of a name after a dot: "q_proj" is the layer
   * "model.layers.0.self_attn.q_proj". NULL: all that the graph's builder offers; of a model
   * (ac_model_build) these are all linear layers of its blocks. */
  const char *targets;
  /** Layers with a rank or alpha of their own; they need not match `targets`. */
  const ac_lora_module *modules;
  int module_count; /**< How many there are. */
} ac_lora_desc;

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** A linear layer, by ac_linear, with an adapter if `desc` has one for `name`:
 *
 *     y[..., out] = x[..., in] W + bias + scale * dropout(x) A^T B^T
 *
 * `weight` and `bias` (may be NULL) are as for ac_linear; whether they are frozen is the caller's
 * choice (ac_parameter_desc.frozen). `name` is that of the layer, such as
 * "model.layers.0.self_attn.q_proj". The adapter's parameters are NAME.lora_A.weight [rank, in],
 * uniform in +-1 / sqrt(in) at first, as PEFT has them, and NAME.lora_B.weight [out, rank], zeros
 * at first, whatever the layout of the weight. With DoRA there is NAME.lora_magnitude_vector [out]
 * as well. `desc` may be NULL: none.
 *
 * Only x A^T, [..., rank], is stored in addition: the product with B is added to the layer's
 * result where that is. */
AC_API ac_tensor *ac_lora_linear(ac_graph *graph, const char *name, ac_tensor *x, ac_tensor *weight,
                                 ac_tensor *bias, ac_layout layout, const ac_lora_desc *desc);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
