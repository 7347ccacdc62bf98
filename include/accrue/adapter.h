/** @file
 * Adapters: fine-tuning by small matrices next to frozen ones (LoRA, arXiv 2106.09685), which are
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
#include <accrue/model_file.h>
#include <accrue/session.h>
#include <accrue/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A layer with an adapter that differs from the others'. */
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
 * at first, whatever the layout of the weight. `desc` may be NULL: none.
 *
 * A second layer of the same name has the same adapter: its parameters are used again.
 *
 * Only x A^T, [..., rank], is stored in addition: the product with B is added to the layer's
 * result where that is.
 *
 * With DoRA, V = W + scale * B A and its rows' norms |V|, which count as constants in the gradient
 * (section 4.3 of the paper):
 *
 *     y = (|W| + change) / |V| (dropout(x) V) + (x - dropout(x)) W + bias
 *
 * and NAME.lora_magnitude_change [out], zeros at first, is trained as well: the magnitude less the
 * norm of W's row. W counts as frozen. The norms of a layer are computed row by row each time that
 * the layer runs; V is never stored. With dropout there are two products with W instead of one. */
AC_API ac_tensor *ac_lora_linear(ac_graph *graph, const char *name, ac_tensor *x, ac_tensor *weight,
                                 ac_tensor *bias, ac_layout layout, const ac_lora_desc *desc);

/* ---- files ----------------------------------------------------------------------------------- */

/* A folder in the form of PEFT: adapter_config.json, and adapter_model.safetensors with the tensors
 * "base_model.model.NAME.lora_A.weight", "...lora_B.weight" and, of DoRA,
 * "...lora_magnitude_vector", which are whole magnitudes. */

/** An adapter that is open. */
typedef struct ac_adapter ac_adapter;

/** Opens the folder of an adapter that this library or PEFT has written, and checks it: which
 * layers it has, and what rank and scale each of them has by `r`, `lora_alpha`, `rank_pattern`,
 * `alpha_pattern` and `use_rslora`. `target_modules` may be a list or a regular expression.
 *
 * AC_ERROR_UNSUPPORTED names what this library does not have: another kind of adapter, a key that
 * changes results (such as `modules_to_save`, `lora_bias` or `layer_replication`), a tensor of
 * another name. AC_ERROR_FORMAT: files that are malformed or do not fit each other. */
AC_API ac_status ac_adapter_open(ac_adapter **adapter, const char *folder);
/** Closes an adapter. */
AC_API void ac_adapter_close(ac_adapter *adapter);

/** What a graph has to be built with so that the adapter fits it: exactly its layers, each by its
 * name. It belongs to the adapter. NULL for NULL. */
AC_API const ac_lora_desc *ac_adapter_desc(const ac_adapter *adapter);
/** The model that the adapter is for, as its file names it. "" if it names none. */
AC_API const char *ac_adapter_base(const ac_adapter *adapter);

/** Loads the adapter. The graph must have the same layers with adapters, of the same ranks; that is
 * checked before the first parameter changes. With DoRA load the weights of the base before: what
 * is kept of a magnitude is its change from the norm of the weight's row. */
AC_API ac_status ac_adapter_load(const ac_adapter *adapter, ac_trainer *trainer);
/** The same for a session. */
AC_API ac_status ac_adapter_load_session(const ac_adapter *adapter, ac_session *session);

/** Merges an adapter into rows [first, first + count) of a weight: `weight` is its name, such as
 * "model.layers.0.self_attn.q_proj.weight", and `rows` [count, columns] are those of W, which
 * become those of W + scale * B A or, of DoRA, of magnitude / |V| V. Sums are made in double. Rows
 * of a weight without an adapter stay as they are. AC_ERROR_UNSUPPORTED: DoRA and AC_IN_OUT. */
AC_API ac_status ac_adapter_merge(ac_adapter *adapter, const char *weight, ac_layout layout,
                                  int64_t first, int64_t count, int64_t columns, float *rows);

/** Writes both files into a folder, which must be there. `desc` is what the graph was built with.
 * `base` is the model that the adapter is for, such as a path; NULL: not said. Each file replaces
 * its old one as a whole, first the weights. */
AC_API ac_status ac_adapter_save(ac_trainer *trainer, const char *folder, const ac_lora_desc *desc,
                                 const char *base);
/** The weights alone: a file such as adapter_model.safetensors, with this metadata. Fails like
 * ac_trainer_save. */
AC_API ac_status ac_adapter_save_weights(ac_trainer *trainer, const char *path,
                                         const ac_metadata *metadata, int metadata_count);
/** The text of adapter_config.json. Free it with free(). AC_ERROR_ARGUMENT if the description is
 * not that of the trainer's adapters. */
AC_API ac_status ac_adapter_config(char **json, const ac_trainer *trainer, const ac_lora_desc *desc,
                                   const char *base);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
