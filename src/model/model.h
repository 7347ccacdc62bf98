/* Language models of others: what a configuration says, whether it came from config.json or from
 * the metadata of a GGUF file, and what families differ in. What differs is a row of a table
 * (families.c): the builder (build.c) asks it, and knows no family by name. */
#ifndef AC_MODEL_MODEL_H
#define AC_MODEL_MODEL_H

#include <accrue/model.h>

#include <jansson.h>

/* What a model has weights for; those from AC_PART_FIRST_OF_BLOCK on are in each block. */
typedef enum ac_model_part {
  AC_PART_EMBEDDING,
  AC_PART_POSITIONS, /* a table of learned positions */
  AC_PART_NORM,      /* before the head */
  AC_PART_HEAD,
  AC_PART_FIRST_OF_BLOCK,
  AC_PART_ATTENTION_NORM = AC_PART_FIRST_OF_BLOCK,
  AC_PART_Q,
  AC_PART_K,
  AC_PART_V,
  AC_PART_QKV, /* in the place of the three */
  AC_PART_O,
  AC_PART_Q_NORM,
  AC_PART_K_NORM,
  AC_PART_AFTER_ATTENTION, /* a norm of what attention adds */
  AC_PART_MLP_NORM,
  AC_PART_GATE,
  AC_PART_UP,
  AC_PART_GATE_UP, /* in the place of the two */
  AC_PART_DOWN,
  AC_PART_AFTER_MLP, /* a norm of what the MLP adds */
  AC_PARTS
} ac_model_part;

typedef enum ac_model_norm {
  AC_MODEL_NORM_RMS,
  AC_MODEL_NORM_RMS_PLUS_ONE, /* the weight is the factor less 1 */
  AC_MODEL_NORM_LAYER         /* with a bias */
} ac_model_norm;

typedef enum ac_activation { AC_SILU, AC_GELU_OF_TANH, AC_GELU_OF_ERF, AC_RELU_OF } ac_activation;

/* Which layers have the sliding window where the configuration does not list them. */
typedef enum ac_window_rule {
  AC_WINDOW_ALL,      /* all, if there is a window */
  AC_WINDOW_PATTERN,  /* all but each n-th */
  AC_WINDOW_LATE,     /* if it is in use: from max_window_layers on */
  AC_WINDOW_UNROTATED /* if it is in use: those without rotary positions */
} ac_window_rule;

typedef struct ac_family {
  const char *name; /* model_type of config.json */
  const char *gguf; /* general.architecture; NULL: GGUF files have none of its own */
  /* Names of the parts; NULL: it has none. A block's begin after `block` and a number. */
  const char *const *parts;
  const char *block;           /* "model.layers." */
  const char *optional_prefix; /* that names in a file may lack; NULL: none */
  ac_model_norm norm;
  bool whole_qk_norm; /* q_norm and k_norm are over all heads together */
  bool in_out;        /* matrices are [in, out] */
  bool scaled;        /* embeddings are multiplied by the square root of the width */
  bool qkv_bias, o_bias, mlp_bias, tied; /* where the configuration does not say */
  ac_activation activation;
  int64_t head_size; /* 0: width / heads */
  double epsilon, rope_base;
  double local_base; /* of layers with a window; 0: the same */
  double scale_of, score_cap, logit_cap;
  ac_window_rule window_rule;
  int64_t window, pattern, window_from, unrotated_each;
  bool permuted; /* in GGUF files, rows of q and k are in llama.cpp's order */
} ac_family;

/* NULL: there is none. */
const ac_family *ac_family_named(const char *name);
const ac_family *ac_family_of_gguf(const char *architecture);

enum { AC_MODEL_MOST_LAYERS = 1024 };

/* What is true of a layer: bits. */
enum { AC_LAYER_LOCAL = 1, AC_LAYER_UNROTATED = 2 };

typedef struct ac_model_config {
  const ac_family *family;
  const char *source; /* the file that it came from, in sentences */
  int64_t layers, width, heads, key_heads, head_size, hidden, vocabulary, positions;
  bool tied, qkv_bias, o_bias, mlp_bias;
  double epsilon;
  ac_activation activation;
  double scale_of;                /* attention's factor is 1 / sqrt(this); 0: of the head's size */
  bool unscaled, scaled_by_layer; /* GPT-2 */
  double score_cap, logit_cap;    /* 0: none */
  double rotated;                 /* share of a head that is rotated */
  int64_t window;                 /* 0: none */
  bool window_in_use;
  int64_t window_from, pattern, unrotated_each;
  ac_rope_desc rope, local_rope; /* of layers with a window, if that has its own */
  bool has_local_rope;
  bool has_layer_types, has_unrotated;
  uint8_t layer[AC_MODEL_MOST_LAYERS];
  int64_t listed_layers, listed_unrotated; /* how many entries these lists had */
  int32_t begin;
  int end_count;
  int32_t ends[AC_MODEL_MAX_ENDS];
} ac_model_config;

/* Begins a configuration with what the family has where nothing is said. */
void ac_config_begin(ac_model_config *config, const ac_family *family, const char *source);
/* Fills what follows from the rest, and refuses what cannot be. */
ac_status ac_config_finish(ac_model_config *config);
/* Of a config.json: `source` names it in sentences, and has to live as long as the result. */
ac_status ac_config_read_json(ac_model_config *config, const json_t *json, const char *source);
/* The eos_token_id of a generation_config.json, in the place of the ends so far. */
ac_status ac_config_read_ends(ac_model_config *config, const json_t *json, const char *source);
/* Of the metadata of a GGUF file, which is open. */
ac_status ac_config_read_gguf(ac_model_config *config, ac_model_file *file, const char *source);
/* Gives the tensors of a GGUF file the names, shapes and order of rows of Hugging Face; *names
 * holds them, and free() frees it. */
ac_status ac_gguf_rename(const ac_model_config *config, ac_model_file *file, char **names);

/* "attn_q", as the part is called in GGUF files. */
const char *ac_gguf_part_name(ac_model_part part);
bool ac_part_is_norm(ac_model_part part);

/* "model.layers.3.self_attn.q_proj", without ".weight"; NULL if the family has no such part. */
enum { AC_PART_NAME = 128 };
const char *ac_part_name(const ac_family *family, ac_model_part part, int64_t layer,
                         char name[AC_PART_NAME]);

struct ac_model {
  ac_model_config config;
  char *path;          /* as opened */
  char *folder;        /* of the configuration; NULL: a GGUF file */
  char *source;        /* the configuration's file */
  char *chat_template; /* NULL: none */
  char *names;         /* of a GGUF file's tensors */
  ac_model_file *weights;
  ac_tokenizer *tokenizer;
  ac_graph *graph; /* of one position: it knows all parameters */
  int64_t parameters;
};

/* The blocks that a parameter has if it is kept as in the file, if there is one. */
ac_blocks ac_model_blocks_in_file(const ac_model *model, const char *name);
/* Whether a parameter of this name is the model's own. */
bool ac_model_owns(const ac_model *model, const char *name);
/* Every tensor that the model needs is in its file, with its shape, and none that it does not know.
 */
ac_status ac_model_check_weights(const ac_model *model);

#endif
