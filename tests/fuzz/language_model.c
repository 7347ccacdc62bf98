/* A language model: config.json, the metadata of a GGUF file, or an index of shards. An input that
 * begins with an `i` is an index; any other is what ac_model_open is given. */
#include "fuzz.h"

#include <accrue/model.h>
#include <stdlib.h>
#include <string.h>

static void open_index(const uint8_t *data, size_t bytes) {
  ac_model_file *file;
  if (ac_model_file_open(&file, fuzz_file(0, data, bytes)) != AC_OK) {
    FUZZ_CHECK(!file);
    fuzz_check_sentence();
    return;
  }
  ac_model_file_close(file);
}

static void run(const uint8_t *data, size_t bytes) {
  ac_model *model;
  ac_model_info info;
  if (bytes && data[0] == 'i') {
    open_index(data + 1, bytes - 1);
    return;
  }
  if (ac_model_open(&model, fuzz_file(0, data, bytes)) != AC_OK) {
    FUZZ_CHECK(!model);
    fuzz_check_sentence();
    return;
  }
  ac_model_get_info(model, &info);
  FUZZ_CHECK(info.layers > 0 && info.heads % info.key_heads == 0 && info.parameters > 0);
  FUZZ_CHECK(info.end_count >= 0 && info.end_count <= AC_MODEL_MAX_ENDS);
  (void)ac_model_chat_template(model);
  ac_model_free(model);
}

static void take_text(fuzz_take take, const char *text) {
  take(text, strlen(text));
}

/* A pair of a text key and a u32, as a GGUF file has it. */
static size_t put_pair(uint8_t *to, const char *key, uint8_t type, uint32_t number,
                       const char *text) {
  const size_t length = strlen(key);
  size_t at = 0;
  memset(to, 0, 8);
  to[at] = (uint8_t)length, at += 8;
  memcpy(to + at, key, length), at += length;
  memset(to + at, 0, 12);
  to[at] = type, at += 4;
  if (!text) {
    for (int i = 0; i < 4; i++) to[at++] = (uint8_t)(number >> 8 * i);
    return at;
  }
  to[at] = (uint8_t)strlen(text), at += 8;
  memcpy(to + at, text, strlen(text));
  return at + strlen(text);
}

static void take_gguf(fuzz_take take) {
  enum { U32 = 4, F32 = 6, TEXT = 8, PAIRS = 8 };
  static const uint32_t one_half = 0x3f000000u;
  uint8_t file[2048] = "GGUF\3\0\0\0";
  size_t at = 24;
  file[8] = 1, file[16] = PAIRS;
  at += put_pair(file + at, "general.architecture", TEXT, 0, "llama");
  at += put_pair(file + at, "llama.block_count", U32, 1, NULL);
  at += put_pair(file + at, "llama.context_length", U32, 8, NULL);
  at += put_pair(file + at, "llama.embedding_length", U32, 4, NULL);
  at += put_pair(file + at, "llama.feed_forward_length", U32, 4, NULL);
  at += put_pair(file + at, "llama.attention.head_count", U32, 2, NULL);
  at += put_pair(file + at, "llama.attention.layer_norm_rms_epsilon", F32, one_half, NULL);
  at += put_pair(file + at, "tokenizer.ggml.bos_token_id", U32, 1, NULL);
  /* token_embd.weight, F32 [2, 4] */
  static const uint8_t entry[] = {
      17,  0,   0,   0,   0,   0,   0, 0, 't', 'o', 'k', 'e', 'n', '_', 'e', 'm', 'b', 'd', '.',
      'w', 'e', 'i', 'g', 'h', 't', 2, 0, 0,   0,   4,   0,   0,   0,   0,   0,   0,   0,   2,
      0,   0,   0,   0,   0,   0,   0, 0, 0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0};
  memcpy(file + at, entry, sizeof entry), at += sizeof entry;
  take(file, (at + 31) / 32 * 32 + 32);
}

static void seeds(fuzz_take take) {
  take_text(take, "{\"model_type\":\"llama\",\"hidden_size\":8,\"intermediate_size\":8,"
                  "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                  "\"max_position_embeddings\":8,\"vocab_size\":4,\"rms_norm_eps\":1e-5,"
                  "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
                  "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192},"
                  "\"eos_token_id\":[2,3],\"bos_token_id\":1,\"attention_bias\":true}");
  take_text(take, "{\"model_type\":\"gemma3_text\",\"hidden_size\":8,\"intermediate_size\":8,"
                  "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                  "\"head_dim\":4,\"max_position_embeddings\":8,\"vocab_size\":4,"
                  "\"sliding_window\":4,\"layer_types\":[\"sliding_attention\","
                  "\"full_attention\"],\"rope_parameters\":{\"full_attention\":{\"rope_type\":"
                  "\"linear\",\"factor\":8,\"rope_theta\":1e6},\"sliding_attention\":{"
                  "\"rope_type\":\"default\",\"rope_theta\":1e4}},\"final_logit_softcapping\":30,"
                  "\"query_pre_attn_scalar\":4}");
  take_text(take, "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_layer\":1,\"n_head\":2,"
                  "\"n_positions\":8,\"vocab_size\":4,\"n_inner\":null,"
                  "\"scale_attn_weights\":false,\"scale_attn_by_inverse_layer_idx\":true}");
  take_text(take, "{\"model_type\":\"smollm3\",\"hidden_size\":8,\"intermediate_size\":8,"
                  "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"vocab_size\":4,"
                  "\"max_position_embeddings\":8,\"no_rope_layers\":[1,0],"
                  "\"use_sliding_window\":true,\"sliding_window\":3,\"max_window_layers\":1}");
  take_text(take, "i{\"metadata\":{\"total_size\":8},\"weight_map\":{\"w\":"
                  "\"model-00001-of-00002.safetensors\",\"v\":"
                  "\"model-00002-of-00002.safetensors\"}}");
  take_gguf(take);
}

const fuzz_format fuzz_language_model = {"language_model", run, seeds};
