/* GPT-2 (Radford et al. 2019): its configuration and its graph. Parameters are named and laid out
 * as GPT2LMHeadModel in Hugging Face's transformers has them, so weights pass both ways. */
#ifndef TOOLS_MODELS_GPT_H
#define TOOLS_MODELS_GPT_H

#include <accrue/graph.h>

typedef struct gpt_config {
  int64_t layers, heads, width, context, vocab;
  double dropout;
} gpt_config;

#define GPT_PREFIX "transformer."

/* Inputs "tokens" and, with `loss`, "targets" (i32 [B, context]), and then cross-entropy as the
 * graph's loss; else "logits" [B, context, vocab] as its output. */
void gpt_build(ac_graph *graph, const gpt_config *config, bool loss);

#endif
