/** @file
 * Language models of others: a folder as Hugging Face's transformers writes it, or a GGUF file of
 * llama.cpp, becomes a graph, and its weights the parameters of a trainer or a session.
 *
 *     ac_model *model;
 *     ac_model_open(&model, "SmolLM2-135M-Instruct");
 *     ac_model_build(model, graph, &(ac_model_graph_desc){.context = 256});
 *     ... a plan and a trainer of the graph ...
 *     ac_model_load(model, trainer);
 *
 * Families: Llama (1 to 3.2, TinyLlama, SmolLM2), SmolLM3, Mistral, Qwen2 and 2.5, Qwen3, Gemma 1
 * to 3 (text), Phi-3, OLMo-2 and GPT-2. Whatever a configuration asks for and this library does not
 * have is refused by its key, never left out. */
#ifndef ACCRUE_MODEL_H
#define ACCRUE_MODEL_H

#include <accrue/adapter.h>
#include <accrue/graph.h>
#include <accrue/model_file.h>
#include <accrue/session.h>
#include <accrue/tokenizer.h>
#include <accrue/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** A model that is open: its configuration, and its weights if there are any. */
typedef struct ac_model ac_model;

/** Limits of a model. */
enum {
  AC_MODEL_MAX_ENDS = 8 /**< Most tokens that end a text. */
};

/** What a model is. Texts are valid as long as the model. */
typedef struct ac_model_info {
  const char *family; /**< As config.json's `model_type` has it: "llama", "qwen2", "gpt2". */
  const char *path;   /**< What was opened. */
  bool gguf;          /**< It is a GGUF file. */
  bool weights;       /**< It has weights: a configuration alone has none. */
  int64_t layers;     /**< Blocks. */
  int64_t width;      /**< Size of each token's vector. */
  int64_t heads;      /**< Heads of queries. */
  int64_t key_heads;  /**< Heads of keys and values. */
  int64_t head_size;  /**< Size of a head. */
  int64_t hidden;     /**< Inner size of the MLP. */
  int64_t vocabulary; /**< Rows of the embedding. */
  int64_t positions;  /**< Most positions that the configuration names. */
  int64_t window;     /**< Positions that layers with a sliding window see. 0: all see all. */
  bool tied;          /**< The head is the embedding. */
  int64_t parameters; /**< Numbers in all weights; tied ones count once. */
  int32_t begin;      /**< The token that begins a text. -1: none. */
  int end_count;      /**< How many tokens end a text. */
  int32_t ends[AC_MODEL_MAX_ENDS]; /**< These tokens. */
} ac_model_info;

/** Opens a model and reads its configuration. `path` is a folder with a config.json, the
 * config.json itself, or a GGUF file. Weights of a folder are model.safetensors, or the shards that
 * model.safetensors.index.json names; they may be missing, since a plan needs none. If they are
 * there, each tensor is checked: its name, and its shape.
 *
 * Fails with AC_ERROR_IO if a file cannot be read; with AC_ERROR_FORMAT if one is malformed or does
 * not fit the configuration; and with AC_ERROR_UNSUPPORTED if the model is of another family, or if
 * its configuration has a key, or its file a tensor, that this library does not know. The sentence
 * names it. */
AC_API ac_status ac_model_open(ac_model **model, const char *path);
/** Frees a model, with its tokenizer and its weights. */
AC_API void ac_model_free(ac_model *model);

/** What the model is. */
AC_API void ac_model_get_info(const ac_model *model, ac_model_info *info);

/** The file of the weights, or of all shards as one; NULL if there are none. It belongs to the
 * model. Names, shapes and the order of rows are those of Hugging Face, also for a GGUF file: rows
 * of queries and keys, which llama.cpp stores in another order, come in Hugging Face's. */
AC_API ac_model_file *ac_model_weights(ac_model *model);

/** The tokenizer, which the first call opens: tokenizer.json in the folder, or the one in the GGUF
 * file. It belongs to the model. Fails like ac_tokenizer_open. */
AC_API ac_status ac_model_tokenizer(ac_model *model, ac_tokenizer **tokenizer);

/** Frees the tokenizer, for example when all texts are read: it has several MiB. A later call of
 * ac_model_tokenizer opens it again. */
AC_API void ac_model_close_tokenizer(ac_model *model);

/** The template of chats, in Jinja, of chat_template.jinja, tokenizer_config.json or the GGUF file.
 * It belongs to the model. NULL if there is none. */
AC_API const char *ac_model_chat_template(const ac_model *model);

/* ---- graphs ---------------------------------------------------------------------------------- */

/** What graph to build. */
typedef struct ac_model_graph_desc {
  int64_t context; /**< Positions of a sample, T. 0: as many as the configuration names. */
  /** Several documents in a sample: inputs "segments" i32 [B, T], the document of each position,
   * negative for padding, and "positions" i32 [B, T], which begin anew in each document. Documents
   * do not see each other. */
  bool packed;
  bool weighted; /**< An input "weights" f32 [B, T]: what each position's loss counts. */
  bool logits;   /**< No loss: an output "logits" [B, T, V] instead. */
  /** For texts that are continued (generate.h): keys and values of earlier runs stay in caches of
   * so many positions (ac_cached_attention). Inputs are "tokens", "positions" i32 [B, T] and "ends"
   * i32 [B]; the output is "logits" [B, 1, V], of the last position. 0: no caches. */
  int64_t cache;
  bool frozen; /**< The model's own parameters are not trained. */
  /** Keep the model's own matrices, with embedding and head, in these blocks. They must be frozen.
   * Matrices with rows that are not whole blocks are kept as the plan's precision says, like all
   * matrices with AC_BLOCKS_NONE. Weights are rounded to blocks while they are read. */
  ac_blocks base;
  /** In place of `base`: keep each matrix as it is in the file. Those in Q8_0, Q4_0 and Q4_1 are
   * copied. Those in blocks that parameters cannot have (Q5_0, Q4_K, Q6_K and others) are rounded
   * to Q8_0, which adds an error far below theirs; all others are as with AC_BLOCKS_NONE. */
  bool base_as_in_file;
  /** Adapters on linear layers of blocks. With them the model's own parameters are mostly
   * `frozen`. NULL: none. */
  const ac_lora_desc *lora;
  /** Preferences: the loss is ac_dpo_loss, and the model without its adapters is the reference, in
   * the same graph and with the same weights. Inputs are "chosen_tokens", "chosen_targets" and
   * "rejected_tokens", "rejected_targets" i32 [B, T], and "chosen_weights" and "rejected_weights"
   * f32 [B, T], which are 1 where a target belongs to the answer, else 0: those of a dataset of
   * chats with ac_chat_desc.preferences. Outputs "chosen" and "rejected" [B] are by how much the
   * logarithm of an answer's probability is above the reference's. The metric "accuracy" is the
   * share of pairs in which this is more for the chosen answer than for the rejected one. It needs
   * `lora` and `frozen`. NULL: none. */
  const ac_dpo_desc *dpo;
} ac_model_graph_desc;

/** Builds the model: inputs "tokens" i32 [B, T] and, with a loss, "targets" i32 [B, T], the token
 * that follows each; the loss is the cross-entropy of ac_linear_cross_entropy, so that logits of
 * all positions are never in memory at once. Parameters have the names of Hugging Face, such as
 * "model.layers.0.self_attn.q_proj.weight". A tied head is the embedding's parameter.
 *
 * Returns the loss, or the logits; NULL if it fails, which stays with the graph like any failure of
 * a builder. `desc` may be NULL. */
AC_API ac_tensor *ac_model_build(const ac_model *model, ac_graph *graph,
                                 const ac_model_graph_desc *desc);

/* ---- weights --------------------------------------------------------------------------------- */

/** Fills all parameters of a trainer that are the model's own. Those of adapters stay. The weights
 * are read in pieces: the model is never in memory twice. Fails with AC_ERROR_STATE if the model
 * has no weights, and otherwise like ac_trainer_load. */
AC_API ac_status ac_model_load(ac_model *model, ac_trainer *trainer);
/** The same for a session. */
AC_API ac_status ac_model_load_session(ac_model *model, ac_session *session);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
