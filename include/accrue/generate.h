/** @file
 * Generators: a language model continues a text, token by token. What was read before stays in
 * caches (ac_cached_attention), so each token costs the work of one token. */
#ifndef ACCRUE_GENERATE_H
#define ACCRUE_GENERATE_H

#include <accrue/graph.h>
#include <accrue/model.h>
#include <accrue/plan.h>
#include <accrue/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** A model, a text and how to continue it. One thread at a time may use it. */
typedef struct ac_generator ac_generator;

/** How the next token is chosen. All zeros: the most likely one, each time. The steps are those of
 * Hugging Face's `generate`, in its order: the penalty, the temperature, top_k, top_p, min_p. */
typedef struct ac_sampling {
  /** Logits are divided by it, and the token is drawn from their softmax: below 1 likely tokens
   * become more likely. 0: the most likely token, the first of equal ones. */
  double temperature;
  int64_t top_k; /**< Only so many of the most likely tokens can be drawn. 0: all. */
  /** Only the fewest most likely tokens with a probability of at least this in total can be drawn
   * (nucleus sampling, arXiv 1904.09751). In (0, 1]. 0: all. */
  double top_p;
  /** Only tokens with at least this part of the largest probability can be drawn; arXiv 2407.01082.
   * In [0, 1]. */
  double min_p;
  /** Logits of tokens that the text has are divided by it if they are positive, and multiplied if
   * they are not; arXiv 1909.05858. Above 1 the text repeats less. 0: 1, no penalty. */
  double repetition_penalty;
  /** Only the last so many tokens of the text count for the penalty. 0: all. */
  int64_t repetition_span;
  /** The same seed, text and settings draw the same tokens on the same device. */
  uint64_t seed;
} ac_sampling;

/** Settings of a generator. */
typedef struct ac_generator_desc {
  int64_t context; /**< Most tokens of a text. The caches take bytes for all of them. At least 1. */
  /** Tokens of a prompt that are read at once. 0: 64, or fewer if the budget has no room for more.
   * 1 reads them one by one. */
  int64_t chunk;
  /** Budget in bytes for weights, caches and all else on the device. 0: as ac_plan_desc.memory. */
  uint64_t memory;
  ac_precision precision; /**< Storage of activations, caches and weights of products. */
  ac_sampling sampling;   /**< How tokens are chosen. */
} ac_generator_desc;

/** Builds the graph of a model that reads `tokens` tokens at a time, with caches for `context`
 * positions. It is called with two numbers of tokens, and must use the same names each time.
 *
 * Inputs: "tokens" i32 [B, tokens]; "ends" i32 [B], the position after the last token, for
 * ac_cached_attention; and, if it needs them, "positions" i32 [B, tokens] of the tokens, for
 * ac_rope or a table. If a text is shorter than `tokens`, padding comes before it: token 0 at
 * position 0, which no token sees. Output "logits": f32 [B, 1, V], of the last token. */
typedef void (*ac_generator_graph)(void *user, ac_graph *graph, int64_t tokens, int64_t context);

/** Makes a generator for the graph of a model that `build` builds, with weights at their initial
 * values: see ac_generator_session. It plans a pass over `chunk` tokens and one over a single
 * token. Both have the same weights and caches. The device must outlive the generator.
 *
 * AC_ERROR_BUDGET: not even a pass over a single token fits. */
AC_API ac_status ac_generator_create(ac_generator **generator, ac_device *device,
                                     const ac_generator_desc *desc, ac_generator_graph build,
                                     void *user);
/** Makes a generator for a model, with the model's weights. `graph` (may be NULL) says what is not
 * as in the model's files: adapters. Their own parameters begin as ac_lora_linear has them, until
 * the caller loads others into ac_generator_session. Its `context` and `cache` do not matter.
 * `desc->context` 0: as many positions as the configuration names. The model may be freed
 * afterwards. Fails like ac_generator_create and ac_model_load. */
AC_API ac_status ac_generator_create_model(ac_generator **generator, ac_model *model,
                                           ac_device *device, const ac_generator_desc *desc,
                                           const ac_model_graph_desc *graph);
/** Frees a generator. */
AC_API void ac_generator_free(ac_generator *generator);

/** The session with the weights, to load or set them (ac_session_load). It belongs to the
 * generator. Weights must be there before the first token is read; call ac_generator_rewind with 0
 * if they change later. */
AC_API ac_session *ac_generator_session(ac_generator *generator);

/** What a generator is. */
typedef struct ac_generator_info {
  int64_t context;     /**< Most tokens of a text. */
  int64_t chunk;       /**< Tokens of a prompt that are read at once. */
  int64_t vocabulary;  /**< Number of logits. */
  uint64_t parameters; /**< Bytes of weights on the device. */
  uint64_t caches;     /**< Bytes of caches. */
  uint64_t total;      /**< All bytes on the device, to the byte. */
} ac_generator_info;
/** Tells about a generator. */
AC_API void ac_generator_get_info(const ac_generator *generator, ac_generator_info *info);

/** Appends `count` tokens to the text. They are read when their logits are needed. Fails with
 * AC_ERROR_ARGUMENT, and appends nothing, if the context has no room for all, or if a token is not
 * below the vocabulary. */
AC_API ac_status ac_generator_feed(ac_generator *generator, const uint32_t *tokens, int64_t count);
/** Makes `count` tokens the whole text. What it begins with as the text before does not have to be
 * read again. Fails as ac_generator_feed does. */
AC_API ac_status ac_generator_set_text(ac_generator *generator, const uint32_t *tokens,
                                       int64_t count);
/** Keeps the first `length` tokens of the text. Nothing has to be read again. */
AC_API ac_status ac_generator_rewind(ac_generator *generator, int64_t length);
/** The tokens of the text, which are valid until it changes. *count, which may be NULL, receives
 * how many there are. */
AC_API const uint32_t *ac_generator_text(const ac_generator *generator, int64_t *count);
/** Reads what of the text was not read yet. `read` (may be NULL) receives how many tokens were. */
AC_API ac_status ac_generator_read(ac_generator *generator, int64_t *read);
/** Copies the logits of the token that follows the text: `count` floats, which must be the
 * vocabulary. AC_ERROR_STATE if the text is empty. */
AC_API ac_status ac_generator_logits(ac_generator *generator, float *logits, int64_t count);
/** Chooses the token that follows and appends it to the text. Fails with AC_ERROR_STATE if the text
 * is empty or fills the context, and with AC_ERROR_NOT_FINITE if a logit is not finite. */
AC_API ac_status ac_generator_next(ac_generator *generator, uint32_t *token);
/** Changes how tokens are chosen from now on. The drawing begins anew with the seed. */
AC_API ac_status ac_generator_set_sampling(ac_generator *generator, const ac_sampling *sampling);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
