/** @file
 * Positions of attention: rotary embeddings. */
#ifndef ACCRUE_ATTENTION_H
#define ACCRUE_ATTENTION_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
