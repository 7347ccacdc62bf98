/** @file
 * Attention: each query looks at the keys that its masks leave, and gets the mean of their values,
 * weighed by the softmax of the products of query and keys; arXiv 1706.03762.
 *
 * For query i and key j of a head, with a scale, a cap and a bias as ac_attention_desc has them:
 *
 *     s[i,j] = scale q[i] . k[j]
 *     t[i,j] = cap tanh(s[i,j] / cap) + bias[i,j]
 *     y[i]   = sum over the keys j that i sees of softmax(t[i])[j] v[j]
 *
 * A table of all queries and keys is never in memory: for the backward pass one float (the row's
 * log-sum-exp) is kept for each head and query; arXiv 2205.14135. Keys that a mask hides cost
 * nothing where they hide whole blocks. A query that sees no key has the result 0, and no gradient
 * comes from it. */
#ifndef ACCRUE_ATTENTION_H
#define ACCRUE_ATTENTION_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Settings of attention. Zeros: every query sees every key. */
typedef struct ac_attention_desc {
  /** Number of heads of queries, if queries, keys and values are in one tensor. Of ac_attention
   * with keys it may be 0. */
  int heads;
  float scale;   /**< Factor on the products of queries and keys. 0: 1 / sqrt(size of a head). */
  float dropout; /**< Probability that an attention weight is dropped while training. */
  /** Number of heads of keys and values, if all are in one tensor. 0: as many as of queries. */
  int key_heads;
  /** Query i sees no key after its own position, which is i. So if there are more keys than
   * queries, the first ones are seen, as with `is_causal` of PyTorch's
   * scaled_dot_product_attention. */
  bool causal;
  /** The queries are at the last positions: query i of Tq is at position i + n - Tq, with n keys in
   * the sample. So one new query sees all keys of a cache. Only with `causal` or a window. */
  bool at_end;
  /** A query sees only keys less than so many positions before it (the Mistral family's sliding
   * window) or, if not causal, after it. 0: all. */
  int window;
  float soft_cap; /**< Bounds the products: cap tanh(s / cap), as in Gemma 2. 0: none. */
  /** Keys of each sample, i32 [B] in [0, Tk], which are checked when they are fed. Keys from there
   * on are seen by no query. NULL: all are there. */
  ac_tensor *lengths;
  /** Positions from the length on are padding for queries as well: they see nothing. It saves their
   * work. Otherwise they see what others see, and their results mean nothing. */
  bool skip_padding;
  /** For several documents in one sample: the document of each query, i32 [B, Tq], in any order. A
   * query sees the keys of its own document alone. A negative number is padding, which sees nothing
   * and is not seen. NULL: one document. */
  ac_tensor *segments;
  /** The documents of the keys, i32 [B, Tk]. NULL: those of the queries. */
  ac_tensor *key_segments;
  /** Is added to the scaled and capped products: f32 [H, Tq, Tk], or [1, Tq, Tk] for all heads
   * alike, or one of these for each sample: [B, H, Tq, Tk], [B, 1, Tq, Tk]. It may be trained. An
   * element of -infinity hides a key. NULL: none. */
  ac_tensor *bias;
} ac_attention_desc;

/** Attention of queries q [B, Tq, H, D] to keys k [B, Tk, Hkv, D] with values v [B, Tk, Hkv, Dv].
 * The result is [B, Tq, H, Dv]. H is a multiple of Hkv, the number of heads of keys: neighbouring
 * heads of queries share one (grouped and multi-query attention; arXiv 2305.13245). Keys of
 * another sequence, with another length, make it cross-attention.
 *
 * With k and v NULL all are in q, side by side: [B, T, H + 2 Hkv, D] of `heads` and `key_heads`, as
 * one linear layer makes them. Then nothing has to be sliced. `desc` may be NULL with keys. */
AC_API ac_tensor *ac_attention(ac_tensor *q, ac_tensor *k, ac_tensor *v,
                               const ac_attention_desc *desc);

/** Causal self-attention of qkv [B, T, 3C]: queries, keys and values side by side, each split into
 * heads. The result is [B, T, C]. Position t sees the positions <= t. With fewer heads of keys than
 * of queries the last dimension is C (1 + 2 key_heads / heads). All other settings hold as well,
 * and `causal` need not be set. */
AC_API ac_tensor *ac_causal_attention(ac_tensor *qkv, const ac_attention_desc *desc);

/* ---- positions ------------------------------------------------------------------------------- */

/** How rotary embeddings reach positions beyond those of the first training. */
typedef enum ac_rope_scaling {
  AC_ROPE_UNSCALED = 0, /**< They do not. */
  AC_ROPE_LINEAR,       /**< Each frequency is divided by `factor`; arXiv 2306.15595. */
  /** Frequencies with fewer than low_freq_factor turns in original_positions are divided by
   * `factor`, those with more than high_freq_factor turns stay, and between them the share that is
   * divided falls linearly, as in Llama 3.1. */
  AC_ROPE_LLAMA3
} ac_rope_scaling;

/** Settings of rotary embeddings. */
typedef struct ac_rope_desc {
  /** Which elements of a head are a pair: 2i and 2i + 1, as in the paper and in GPT-J. Otherwise i
   * and i + dimensions / 2, as in Llama and GPT-NeoX at Hugging Face. */
  bool interleaved;
  int dimensions;          /**< The first so many elements of a head are rotated. Even. 0: all. */
  double base;             /**< 0: 10000. Llama 3 has 500000. */
  ac_rope_scaling scaling; /**< Of frequencies. */
  double factor;           /**< At least 1. 0: 1 if linear, 8 as in Llama 3.1. */
  double low_freq_factor;  /**< 0: 1. */
  double high_freq_factor; /**< Above low_freq_factor. 0: 4. */
  int64_t original_positions; /**< 0: 8192. */
  int64_t offset;             /**< Added to each position, such as those that are decoded. */
} ac_rope_desc;

/** Rotary position embeddings (arXiv 2104.09864) of queries or keys x [B, T, H, D]. For pair i of
 * each head at position p
 *
 *     angle = p f[i]   with f[i] = base^(-2i / dimensions), scaled
 *     (a, b) -> (a cos(angle) - b sin(angle), b cos(angle) + a sin(angle))
 *
 * `positions` is i32 [B, T], checked when it is fed, with values in [0, 2^31 - 1 - offset). NULL:
 * position t is t. Angles are exact up to 2^-32 of a turn at positions up to 2^20, unlike those
 * that are computed as floats. `desc` may be NULL. */
AC_API ac_tensor *ac_rope(ac_tensor *x, ac_tensor *positions, const ac_rope_desc *desc);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/* ---- caches ---------------------------------------------------------------------------------- */

/** Keeps rows from one run to the next, such as the keys or values of a text that is continued
 * token by token. `rows` f32 [B, n, ...] are written to positions [ends[b] - n, ends[b]) of sample
 * b of a cache [B, positions, ...], which is the result. It holds what this run and earlier ones
 * have written, and zeros elsewhere. `ends` is i32 [B], checked when it is fed, with values in [0,
 * positions]. Rows that would be before position 0 are left out, so a prompt that is shorter than n
 * is fed with padding before it. Nothing is copied but the rows.
 *
 * As ac_attention_desc.lengths, with `at_end`, `ends` lets each query see what comes before it: see
 * ac_cached_attention. A run may begin at any position that was written before, or after the last
 * one; what is after the end is not seen.
 *
 * The cache belongs to the session. It is stored in the precision of the plan, counts as
 * ac_plan_bytes.caches, and is found by its name, which no other cache of the graph has:
 * ac_session_create_with. Only plans for AC_PREDICT can have one, and a run has at most a
 * micro-batch of samples. */
AC_API ac_tensor *ac_cache(ac_tensor *rows, const char *name, ac_tensor *ends, int64_t positions);

/** Causal attention of the last queries q [B, n, H, D] of each sample to all keys up to them: those
 * of k [B, n, Hkv, D] and v [B, n, Hkv, Dv], and those that earlier runs have left in the caches
 * "NAME.key" and "NAME.value" of `positions` positions. `ends` i32 [B] is how many positions each
 * sample has with these. `desc` (may be NULL) says more, such as a window or a cap; causal, at_end
 * and lengths are set here, and masks by segments or a bias are refused. The result is [B, n, H,
 * Dv]. */
AC_API ac_tensor *ac_cached_attention(ac_tensor *q, ac_tensor *k, ac_tensor *v, const char *name,
                                      ac_tensor *ends, int64_t positions,
                                      const ac_attention_desc *desc);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
