#include "tiny_llm.h"

#include <accrue/model_file.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 64, HEADS = 4, KEY_HEADS = 2, HIDDEN = 128, LAYERS = 2, MOST = 32, NAME = 80 };

static FILE *create(const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return fopen(path, "wb");
}

static bool put_file(const char *folder, const char *name, const char *text) {
  FILE *file = create(folder, name);
  if (!file) return false;
  fputs(text, file);
  return fclose(file) == 0;
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

/* GPT-2's characters for bytes: those that can be seen are themselves, and the others follow from
 * 256 on. */
static void put_byte(FILE *file, int byte, int *hidden) {
  const bool seen = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
  const int c = seen ? byte : 256 + (*hidden)++;
  if (c == '"' || c == '\\') fprintf(file, "\\%c", c);
  else if (c < 128) fputc(c, file);
  else fprintf(file, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 63));
}

static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

static bool write_tokenizer(const char *folder) {
  FILE *file = create(folder, "tokenizer.json");
  int hidden = 0;
  if (!file) return false;
  fputs("{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [",
        file);
  for (int i = 0; i < 3; i++)
    fprintf(file,
            "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
            "\"rstrip\": false, \"normalized\": false, \"special\": true}",
            i ? ", " : "", 256 + i, special[i]);
  fputs(
      "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
      "false, \"trim_offsets\": true, \"use_regex\": true}, \"post_processor\": null, "
      "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
      "\"use_regex\": true}, \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": "
      "null, \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": "
      "false, \"byte_fallback\": false, \"vocab\": {",
      file);
  for (int byte = 0; byte < 256; byte++) {
    fputs(byte ? ", \"" : "\"", file);
    put_byte(file, byte, &hidden);
    fprintf(file, "\": %d", byte);
  }
  fputs("}, \"merges\": []}}\n", file);
  return fclose(file) == 0;
}

static const char tokenizer_config[] =
    "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"bos_token\": \"<|im_start|>\", "
    "\"eos_token\": \"<|im_end|>\", \"pad_token\": \"<|endoftext|>\", \"chat_template\": "
    "\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}\"}\n";

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct weights {
  ac_model_tensor list[MOST];
  char names[MOST][NAME];
  int count;
  uint32_t seed;
} weights;

static void add(weights *w, const char *name, int64_t rows, int64_t columns) {
  snprintf(w->names[w->count], NAME, "%s", name);
  w->list[w->count] =
      (ac_model_tensor){w->names[w->count], AC_F32, columns ? 2 : 1, {rows, columns}};
  w->count++;
}

static void add_block(weights *w, int layer) {
  static const struct {
    const char *name;
    int64_t rows, columns;
  } parts[] = {{"input_layernorm", WIDTH, 0},
               {"self_attn.q_proj", WIDTH, WIDTH},
               {"self_attn.k_proj", WIDTH / HEADS * KEY_HEADS, WIDTH},
               {"self_attn.v_proj", WIDTH / HEADS * KEY_HEADS, WIDTH},
               {"self_attn.o_proj", WIDTH, WIDTH},
               {"post_attention_layernorm", WIDTH, 0},
               {"mlp.gate_proj", HIDDEN, WIDTH},
               {"mlp.up_proj", HIDDEN, WIDTH},
               {"mlp.down_proj", WIDTH, HIDDEN}};
  char name[NAME];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, parts[i].name);
    add(w, name, parts[i].rows, parts[i].columns);
  }
}

/* Of each element by its place alone: near 1 for norms, else about 0.1 in size. */
static ac_status read_weight(void *user, int index, int64_t first, int64_t count, void *data) {
  const weights *w = user;
  float *values = data;
  for (int64_t i = 0; i < count; i++) {
    uint64_t x = (uint64_t)(first + i) + ((uint64_t)index << 32) + ((uint64_t)w->seed << 48);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    const float part = (float)((double)(x >> 11) * 0x1p-53 - 0.5);
    values[i] = w->list[index].rank == 1 ? 1 + 0.2f * part : 0.3f * part;
  }
  return AC_OK;
}

static bool write_weights(const char *folder, unsigned seed) {
  static weights w;
  char path[4096];
  w = (weights){.seed = seed};
  add(&w, "model.embed_tokens.weight", TINY_LLM_VOCABULARY, WIDTH);
  for (int layer = 0; layer < LAYERS; layer++) add_block(&w, layer);
  add(&w, "model.norm.weight", WIDTH, 0);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  const ac_metadata format = {"format", "pt"};
  return ac_model_file_write(path, w.list, w.count, &format, 1, read_weight, &w) == AC_OK;
}

bool tiny_llm_write(const char *folder, unsigned seed, bool weights_too) {
  char config[1024];
  snprintf(config, sizeof config,
           "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
           "\"hidden_size\": %d, \"intermediate_size\": %d, \"num_hidden_layers\": %d, "
           "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"vocab_size\": %d, "
           "\"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
           "\"hidden_act\": \"silu\", \"tie_word_embeddings\": true, \"bos_token_id\": 257, "
           "\"eos_token_id\": 258, \"torch_dtype\": \"float32\"}\n",
           WIDTH, HIDDEN, LAYERS, HEADS, KEY_HEADS, TINY_LLM_VOCABULARY, TINY_LLM_POSITIONS);
  return put_file(folder, "config.json", config) && write_tokenizer(folder) &&
         put_file(folder, "tokenizer_config.json", tokenizer_config) &&
         (!weights_too || write_weights(folder, seed));
}
