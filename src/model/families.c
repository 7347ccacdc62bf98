/* The families, a row each. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

/* ---- names of parts -------------------------------------------------------------------------- */

/* Most have these; what differs follows after them. */
#define AROUND                                                               \
  [AC_PART_EMBEDDING] = "model.embed_tokens", [AC_PART_NORM] = "model.norm", \
  [AC_PART_HEAD] = "lm_head", [AC_PART_O] = "self_attn.o_proj", [AC_PART_DOWN] = "mlp.down_proj"
#define SEPARATE                                                      \
  [AC_PART_Q] = "self_attn.q_proj", [AC_PART_K] = "self_attn.k_proj", \
  [AC_PART_V] = "self_attn.v_proj", [AC_PART_GATE] = "mlp.gate_proj", [AC_PART_UP] = "mlp.up_proj"
#define QK_NORMS [AC_PART_Q_NORM] = "self_attn.q_norm", [AC_PART_K_NORM] = "self_attn.k_norm"
#define NORMS_BEFORE \
  [AC_PART_ATTENTION_NORM] = "input_layernorm", [AC_PART_MLP_NORM] = "post_attention_layernorm"
#define NORMS_AFTER                                                             \
  [AC_PART_AFTER_ATTENTION] = "post_attention_layernorm", [AC_PART_AFTER_MLP] = \
                                                              "post_feedforward_layernorm"
#define NORMS_AROUND                                         \
  NORMS_AFTER, [AC_PART_ATTENTION_NORM] = "input_layernorm", \
               [AC_PART_MLP_NORM] = "pre_feedforward_layernorm"

static const char *const llama[AC_PARTS] = {AROUND, SEPARATE, NORMS_BEFORE};
static const char *const qwen3[AC_PARTS] = {AROUND, SEPARATE, NORMS_BEFORE, QK_NORMS};
static const char *const gemma2[AC_PARTS] = {AROUND, SEPARATE, NORMS_AROUND};
static const char *const gemma3[AC_PARTS] = {AROUND, SEPARATE, NORMS_AROUND, QK_NORMS};
static const char *const olmo2[AC_PARTS] = {AROUND, SEPARATE, NORMS_AFTER, QK_NORMS};
static const char *const phi3[AC_PARTS] = {
    AROUND,
    NORMS_BEFORE, [AC_PART_QKV] = "self_attn.qkv_proj", [AC_PART_GATE_UP] = "mlp.gate_up_proj"};
static const char *const gpt2[AC_PARTS] = {[AC_PART_EMBEDDING] = "transformer.wte",
                                           [AC_PART_POSITIONS] = "transformer.wpe",
                                           [AC_PART_NORM] = "transformer.ln_f",
                                           [AC_PART_HEAD] = "lm_head",
                                           [AC_PART_ATTENTION_NORM] = "ln_1",
                                           [AC_PART_QKV] = "attn.c_attn",
                                           [AC_PART_O] = "attn.c_proj",
                                           [AC_PART_MLP_NORM] = "ln_2",
                                           [AC_PART_UP] = "mlp.c_fc",
                                           [AC_PART_DOWN] = "mlp.c_proj"};

/* ---- families -------------------------------------------------------------------------------- */

#define LLAMA_LIKE(names) .parts = names, .block = "model.layers."

static const ac_family families[] = {
    {.name = "llama",
     .gguf = "llama",
     LLAMA_LIKE(llama),
     .epsilon = 1e-6,
     .rope_base = 10000,
     .permuted = true},
    {.name = "mistral",
     LLAMA_LIKE(llama),
     .epsilon = 1e-6,
     .rope_base = 10000,
     .window = 4096,
     .permuted = true},
    {.name = "smollm3",
     LLAMA_LIKE(llama),
     .epsilon = 1e-6,
     .rope_base = 2000000,
     .tied = true,
     .unrotated_each = 4,
     .window_rule = AC_WINDOW_UNROTATED},
    {.name = "qwen2",
     .gguf = "qwen2",
     LLAMA_LIKE(llama),
     .epsilon = 1e-6,
     .rope_base = 10000,
     .qkv_bias = true,
     .window_rule = AC_WINDOW_LATE,
     .window_from = 28},
    {.name = "qwen3",
     .gguf = "qwen3",
     LLAMA_LIKE(qwen3),
     .epsilon = 1e-6,
     .rope_base = 10000,
     .head_size = 128,
     .window_rule = AC_WINDOW_LATE,
     .window_from = 28},
    {.name = "gemma",
     .gguf = "gemma",
     LLAMA_LIKE(llama),
     .norm = AC_MODEL_NORM_RMS_PLUS_ONE,
     .scaled = true,
     .tied = true,
     .activation = AC_GELU_OF_TANH,
     .head_size = 256,
     .epsilon = 1e-6,
     .rope_base = 10000},
    {.name = "gemma2",
     .gguf = "gemma2",
     LLAMA_LIKE(gemma2),
     .norm = AC_MODEL_NORM_RMS_PLUS_ONE,
     .scaled = true,
     .tied = true,
     .activation = AC_GELU_OF_TANH,
     .head_size = 256,
     .epsilon = 1e-6,
     .rope_base = 10000,
     .scale_of = 256,
     .score_cap = 50,
     .logit_cap = 30,
     .window_rule = AC_WINDOW_PATTERN,
     .window = 4096,
     .pattern = 2},
    {.name = "gemma3_text",
     .gguf = "gemma3",
     LLAMA_LIKE(gemma3),
     .norm = AC_MODEL_NORM_RMS_PLUS_ONE,
     .scaled = true,
     .tied = true,
     .activation = AC_GELU_OF_TANH,
     .head_size = 256,
     .epsilon = 1e-6,
     .rope_base = 1000000,
     .local_base = 10000,
     .scale_of = 256,
     .window_rule = AC_WINDOW_PATTERN,
     .pattern = 6},
    {.name = "phi3", .gguf = "phi3", LLAMA_LIKE(phi3), .epsilon = 1e-5, .rope_base = 10000},
    {.name = "olmo2",
     .gguf = "olmo2",
     LLAMA_LIKE(olmo2),
     .whole_qk_norm = true,
     .epsilon = 1e-5,
     .rope_base = 10000},
    {.name = "gpt2",
     .gguf = "gpt2",
     .parts = gpt2,
     .block = "transformer.h.",
     .optional_prefix = "transformer.",
     .norm = AC_MODEL_NORM_LAYER,
     .in_out = true,
     .qkv_bias = true,
     .o_bias = true,
     .mlp_bias = true,
     .tied = true,
     .activation = AC_GELU_OF_TANH,
     .epsilon = 1e-5},
};
enum { FAMILIES = sizeof families / sizeof *families };

const ac_family *ac_family_named(const char *name) {
  for (int i = 0; i < FAMILIES; i++)
    if (!strcmp(families[i].name, name)) return &families[i];
  return NULL;
}

const ac_family *ac_family_of_gguf(const char *architecture) {
  for (int i = 0; i < FAMILIES; i++)
    if (families[i].gguf && !strcmp(families[i].gguf, architecture)) return &families[i];
  return NULL;
}

const char *ac_part_name(const ac_family *family, ac_model_part part, int64_t layer,
                         char name[AC_PART_NAME]) {
  const char *own = family->parts[part];
  if (!own) return NULL;
  if (part < AC_PART_FIRST_OF_BLOCK) snprintf(name, AC_PART_NAME, "%s", own);
  else snprintf(name, AC_PART_NAME, "%s%lld.%s", family->block, (long long)layer, own);
  return name;
}
