/* Models that are written for other programs: values, order of rows, tokens, settings. */
#include "support/files.h"
#include "support/tiny_llm.h"

#include "text/gguf_tokenizer.h"
#include "text/pre_tokenizers.h"

#include <math.h>
#include <stdlib.h>

/* A folder "tiny" with a model, changed by `change` words in config.json. */
static ac_model *open_tiny(const char *name) {
  test_path folder = in_folder(name);
  ac_model *model;
  mkdir(folder.text, 0777);
  assert_true(tiny_llm_write(folder.text, 7, true));
  assert_ok(ac_model_open(&model, folder.text));
  return model;
}

static float *read_whole(ac_model *model, const char *name, int64_t *count) {
  ac_model_file *file = ac_model_weights(model);
  const int index = ac_model_file_find(file, name);
  const ac_model_tensor *t = ac_model_file_tensor(file, index);
  assert_non_null(t);
  *count = 1;
  for (int d = 0; d < t->rank; d++) *count *= t->shape[d];
  float *data = malloc((size_t)*count * sizeof *data);
  assert_ok(ac_model_file_read(file, index, 0, *count, data));
  return data;
}

static void assert_same_weights(ac_model *a, ac_model *b) {
  ac_model_file *file = ac_model_weights(a);
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const char *name = ac_model_file_tensor(file, i)->name;
    int64_t count, other;
    float *x = read_whole(a, name, &count), *y = read_whole(b, name, &other);
    assert_int_equal(count, other);
    assert_memory_equal(x, y, (size_t)count * sizeof *x);
    free(x);
    free(y);
  }
}

static void assert_same_tokens(ac_model *a, ac_model *b) {
  static const char text[] = "Hello, it's 1234 <|im_end|>\n\n  \xc3\xbc\xe6\x9d\xb1 don't";
  ac_tokenizer *x, *y;
  ac_encoding p, q;
  assert_ok(ac_model_tokenizer(a, &x));
  assert_ok(ac_model_tokenizer(b, &y));
  assert_ok(ac_tokenizer_encode(x, text, sizeof text - 1, NULL, &p));
  assert_ok(ac_tokenizer_encode(y, text, sizeof text - 1, NULL, &q));
  assert_int_equal(p.count, q.count);
  assert_memory_equal(p.ids, q.ids, p.count * sizeof *p.ids);
  ac_encoding_free(&p);
  ac_encoding_free(&q);
}

static void both_forms_hold_the_same_model(void **state) {
  (void)state;
  ac_model *tiny = open_tiny("tiny"), *gguf, *folder;
  test_path file = in_folder("tiny.gguf"), back = in_folder("back");
  assert_ok(ac_model_export_gguf(tiny, file.text, NULL));
  assert_ok(ac_model_open(&gguf, file.text));
  assert_same_weights(tiny, gguf);
  assert_same_tokens(tiny, gguf);
  assert_ok(ac_model_export_folder(gguf, back.text, NULL));
  assert_ok(ac_model_open(&folder, back.text));
  assert_same_weights(tiny, folder);
  assert_same_tokens(tiny, folder);
  ac_model_info a, b;
  ac_model_get_info(tiny, &a);
  ac_model_get_info(folder, &b);
  assert_int_equal(a.begin, b.begin);
  assert_int_equal(a.end_count, b.end_count);
  assert_memory_equal(a.ends, b.ends, sizeof a.ends);
  assert_string_equal(ac_model_chat_template(tiny), ac_model_chat_template(folder));
  ac_model_free(folder);
  ac_model_free(gguf);
  ac_model_free(tiny);
}

/* What a folder has next to its weights, for weights that come from elsewhere. */
static void other_files_are_those_of_a_folder(void **state) {
  (void)state;
  static const char *const names[][2] = {{"whole_of_folder", "part_of_folder"},
                                         {"whole_of_gguf", "part_of_gguf"}};
  ac_model *tiny = open_tiny("files"), *gguf;
  test_path file = in_folder("files.gguf");
  assert_ok(ac_model_export_gguf(tiny, file.text, NULL));
  assert_ok(ac_model_open(&gguf, file.text));
  ac_model *const models[] = {tiny, gguf};
  for (int i = 0; i < 2; i++) {
    test_path whole = in_folder(names[i][0]), part = in_folder(names[i][1]), from, to;
    const ac_export_desc desc = {.storage = AC_EXPORT_BF16};
    char *json;
    ac_model *one, *other;
    assert_ok(ac_model_export_folder(models[i], whole.text, &desc));
    assert_ok(ac_model_open(&one, whole.text));
    assert_int_equal(mkdir(part.text, 0777), 0);
    assert_ok(ac_model_export_files(models[i], part.text));
    assert_ok(ac_model_config_json(&json, models[i], AC_BF16));
    snprintf(to.text, sizeof to.text, "%.400s/config.json", part.text);
    write_file(to.text, json, strlen(json));
    assert_contains(json, "bfloat16");
    free(json);
    snprintf(from.text, sizeof from.text, "%.400s/model.safetensors", whole.text);
    snprintf(to.text, sizeof to.text, "%.400s/model.safetensors", part.text);
    assert_int_equal(link(from.text, to.text), 0);
    assert_ok(ac_model_open(&other, part.text));
    assert_same_weights(one, other);
    assert_same_tokens(tiny, other);
    assert_string_equal(ac_model_chat_template(other), ac_model_chat_template(tiny));
    ac_model_free(other);
    ac_model_free(one);
  }
  ac_model_free(gguf);
  ac_model_free(tiny);
}

/* llama.cpp's order: row 2 i + a of a head is row a D / 2 + i. The file is read without a model, so
 * that nothing puts rows back. */
static void rows_of_heads_are_in_llama_cpps_order(void **state) {
  (void)state;
  enum { WIDTH = 64, SIZE = 16 };
  ac_model *tiny = open_tiny("ordered");
  ac_model_file *file;
  test_path path = in_folder("ordered.gguf");
  int64_t count;
  assert_ok(ac_model_export_gguf(tiny, path.text, NULL));
  assert_ok(ac_model_file_open(&file, path.text));
  float *own = read_whole(tiny, "model.layers.1.self_attn.k_proj.weight", &count);
  const int index = ac_model_file_find(file, "blk.1.attn_k.weight");
  for (int64_t row = 0; row < count / WIDTH; row++) {
    float stored[WIDTH];
    assert_ok(ac_model_file_read(file, index, row * WIDTH, WIDTH, stored));
    const int64_t place = row % SIZE, from = row - place + place % 2 * (SIZE / 2) + place / 2;
    assert_memory_equal(stored, own + from * WIDTH, sizeof stored);
  }
  free(own);
  ac_model_file_close(file);
  ac_model_free(tiny);
}

/* ---- what is stored -------------------------------------------------------------------------- */

static bool is_down(void *user, const char *name) {
  (void)user;
  return strstr(name, "down_proj") != NULL;
}

static ac_status give_ones(void *user, const char *name, int64_t first, int64_t count,
                           float *data) {
  assert_true(is_down(user, name));
  (void)first;
  for (int64_t i = 0; i < count; i++) data[i] = 1;
  return AC_OK;
}

static ac_status fail_to_give(void *user, const char *name, int64_t first, int64_t count,
                              float *data) {
  (void)user, (void)name, (void)first, (void)count, (void)data;
  return AC_ERROR_STATE;
}

static void changed_parameters_are_asked_for(void **state) {
  (void)state;
  ac_model *tiny = open_tiny("changed"), *other;
  test_path path = in_folder("changed.gguf");
  const ac_export_desc desc = {.storage = AC_EXPORT_Q4_0, .read = give_ones, .changed = is_down};
  int64_t count;
  assert_ok(ac_model_export_gguf(tiny, path.text, &desc));
  assert_ok(ac_model_open(&other, path.text));
  float *ones = read_whole(other, "model.layers.0.mlp.down_proj.weight", &count);
  for (int64_t i = 0; i < count; i++) assert_true(ones[i] == 1);
  free(ones);
  /* Copied as bytes: the same blocks once more. */
  test_path again = in_folder("again.gguf");
  assert_ok(ac_model_export_gguf(other, again.text, NULL));
  size_t size, same_size;
  unsigned char *a = read_file(path.text, &size), *b = read_file(again.text, &same_size);
  assert_int_equal(size, same_size);
  assert_memory_equal(a, b, size);
  free(a);
  free(b);
  ac_model_free(other);
  ac_model_free(tiny);
}

static void a_source_that_fails_leaves_nothing(void **state) {
  (void)state;
  ac_model *tiny = open_tiny("failing");
  test_path path = in_folder("failing.gguf"), folder = in_folder("failed");
  const ac_export_desc desc = {.read = fail_to_give};
  assert_int_equal(ac_model_export_gguf(tiny, path.text, &desc), AC_ERROR_STATE);
  assert_int_not_equal(access(path.text, F_OK), 0);
  assert_int_equal(ac_model_export_folder(tiny, folder.text, &desc), AC_ERROR_STATE);
  ac_model *none;
  assert_int_not_equal(ac_model_open(&none, folder.text), AC_OK);
  const ac_export_desc blocks = {.storage = AC_EXPORT_Q8_0};
  assert_refused(ac_model_export_folder(tiny, folder.text, &blocks), AC_ERROR_ARGUMENT,
                 "a folder is not written in storage 4");
  /* What would hide the weights. */
  test_path index = in_folder("failed/model.safetensors.index.json");
  write_file(index.text, "{}", 2);
  assert_refused(ac_model_export_folder(tiny, folder.text, NULL), AC_ERROR_STATE,
                 "model.safetensors.index.json");
  unlink(index.text);
  ac_model_free(tiny);
}

/* ---- adapters -------------------------------------------------------------------------------- */

static void adapters_have_llama_cpps_names(void **state) {
  (void)state;
  enum { WIDTH = 64, SIZE = 16, RANK = 2 };
  static float a[RANK * WIDTH], b[WIDTH * RANK], stored[WIDTH * RANK];
  ac_model *tiny = open_tiny("adapted");
  ac_model_file *file;
  test_path path = in_folder("adapter.gguf");
  const ac_export_adapter adapter = {"model.layers.1.self_attn.q_proj", RANK, a, b};
  for (int i = 0; i < RANK * WIDTH; i++) a[i] = (float)i, b[i] = (float)-i;
  assert_ok(ac_adapter_export_gguf(tiny, path.text, 8, &adapter, 1));
  assert_ok(ac_model_file_open(&file, path.text));
  assert_string_equal(ac_model_file_metadata(file, "general.type"), "adapter");
  assert_string_equal(ac_model_file_metadata(file, "adapter.type"), "lora");
  assert_string_equal(ac_model_file_metadata(file, "adapter.lora.alpha"), "8");
  assert_int_equal(ac_model_file_find(file, "blk.1.attn_q.weight.lora_a"), 0);
  assert_ok(ac_model_file_read(file, 0, 0, RANK * WIDTH, stored));
  assert_memory_equal(stored, a, sizeof a);
  assert_ok(ac_model_file_read(file, ac_model_file_find(file, "blk.1.attn_q.weight.lora_b"), 0,
                               RANK * WIDTH, stored));
  for (int row = 0; row < WIDTH; row++) {
    const int place = row % SIZE, from = row - place + place % 2 * (SIZE / 2) + place / 2;
    assert_memory_equal(stored + row * RANK, b + from * RANK, RANK * sizeof *b);
  }
  ac_model_file_close(file);
  const ac_export_adapter wrong = {"model.layers.9.self_attn.q_proj", RANK, a, b};
  assert_refused(ac_adapter_export_gguf(tiny, path.text, 8, &wrong, 1), AC_ERROR_ARGUMENT,
                 "has no layer \"model.layers.9.self_attn.q_proj\"");
  assert_refused(ac_adapter_export_gguf(tiny, path.text, 8, &adapter, 0), AC_ERROR_ARGUMENT,
                 "no adapters");
  ac_model_free(tiny);
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

/* Each way to cut texts has steps that are recognised as it, or as one before it with the same. */
static void ways_to_cut_have_names(void **state) {
  (void)state;
  static const char *const names[][2] = {{"gpt-2", "gpt-2"},
                                         {"smollm", "smollm"},
                                         {"llama-bpe", "llama-bpe"},
                                         {"dbrx", "dbrx"},
                                         {"qwen2", "qwen2"},
                                         {"tekken", "tekken"},
                                         {"gpt-4o", "gpt-4o"},
                                         {"starcoder", "smollm"},
                                         {"deepseek-v3", "deepseek-v3"},
                                         {"deepseek-r1-qwen", "qwen2"},
                                         {"llama-v3", "llama-bpe"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const ac_pre_tokenizer *pre = ac_pre_tokenizer_named(names[i][0]);
    assert_non_null(pre);
    json_t *json = ac_pre_tokenizer_json(pre);
    const ac_pre_tokenizer *found = ac_pre_tokenizer_of(json, pre->whole_words);
    assert_non_null(found);
    assert_string_equal(found->name, names[i][1]);
    json_decref(json);
  }
  assert_null(ac_pre_tokenizer_named("default"));
  json_t *other = json_loads("{\"type\": \"Whitespace\"}", 0, NULL);
  assert_null(ac_pre_tokenizer_of(other, false));
  assert_null(ac_pre_tokenizer_of(NULL, false));
  json_decref(other);
}

/* A vocabulary of SentencePiece's: "ab" is joined before "bc", and both before "abc". */
static void scores_become_merges(void **state) {
  (void)state;
  static const char *const tokens[] = {"<unk>", "<s>", "a", "b", "c", "bc", "ab", "abc", "[PAD8]"};
  static const float scores[] = {0, 0, -9, -9, -9, -2, -1, -3, 0};
  static const int32_t kinds[] = {2, 3, 1, 1, 1, 1, 1, 1, 5};
  static const uint32_t begin = 1;
  static const char *const model = "llama";
  const ac_gguf_value values[] = {{"tokenizer.ggml.model", AC_GGUF_TEXT, false, 1, &model},
                                  {"tokenizer.ggml.tokens", AC_GGUF_TEXT, true, 9, tokens},
                                  {"tokenizer.ggml.scores", AC_GGUF_F32, true, 9, scores},
                                  {"tokenizer.ggml.token_type", AC_GGUF_I32, true, 9, kinds},
                                  {"tokenizer.ggml.bos_token_id", AC_GGUF_U32, false, 1, &begin}};
  test_path path = in_folder("pieces.gguf");
  ac_gguf_metadata *metadata;
  json_t *json;
  assert_ok(ac_gguf_write(path.text, NULL, 0, values, 5, NULL, NULL));
  assert_ok(ac_gguf_metadata_open(&metadata, path.text));
  assert_ok(ac_gguf_tokenizer_json(&json, metadata, path.text));
  char *merges = json_dumps(json_object_get(json_object_get(json, "model"), "merges"), 0);
  assert_string_equal(merges, "[[\"a\", \"b\"], [\"b\", \"c\"], [\"a\", \"bc\"], [\"ab\", \"c\"]]");
  free(merges);
  assert_null(json_object_get(json_object_get(json_object_get(json, "model"), "vocab"), "[PAD8]"));
  assert_int_equal(json_array_size(json_object_get(json, "added_tokens")), 2);
  json_decref(json);
  ac_gguf_metadata_close(metadata);
}

static void refuse_vocabulary(const ac_gguf_value *values, int count, ac_status status,
                              const char *mention) {
  test_path path = in_folder("refused.gguf");
  ac_gguf_metadata *metadata;
  json_t *json;
  assert_ok(ac_gguf_write(path.text, NULL, 0, values, count, NULL, NULL));
  assert_ok(ac_gguf_metadata_open(&metadata, path.text));
  assert_refused(ac_gguf_tokenizer_json(&json, metadata, path.text), status, mention);
  assert_null(json);
  ac_gguf_metadata_close(metadata);
}

static void malformed_vocabularies_are_named(void **state) {
  (void)state;
  static const char *const gpt2 = "gpt2", *const bert = "bert", *const pre = "gpt-2",
                           *const odd = "odd", *const twice[] = {"a", "a"},
                           *const bad[] = {"a", "\xff"}, *const two[] = {"a", "b"},
                           *const merge[] = {"ab"};
  static const float score = 1;
  const ac_gguf_value model = {"tokenizer.ggml.model", AC_GGUF_TEXT, false, 1, &gpt2},
                      way = {"tokenizer.ggml.pre", AC_GGUF_TEXT, false, 1, &pre},
                      tokens = {"tokenizer.ggml.tokens", AC_GGUF_TEXT, true, 2, two};
  refuse_vocabulary(NULL, 0, AC_ERROR_UNSUPPORTED, "tokenizer.ggml.model that is missing");
  refuse_vocabulary(&(ac_gguf_value){"tokenizer.ggml.model", AC_GGUF_TEXT, false, 1, &bert}, 1,
                    AC_ERROR_UNSUPPORTED, "\"bert\"");
  refuse_vocabulary(&model, 1, AC_ERROR_FORMAT, "no tokenizer.ggml.tokens");
  refuse_vocabulary((ac_gguf_value[]){model, tokens}, 2, AC_ERROR_UNSUPPORTED,
                    "tokenizer.ggml.pre that is missing");
  refuse_vocabulary(
      (ac_gguf_value[]){model, tokens, {"tokenizer.ggml.pre", AC_GGUF_TEXT, false, 1, &odd}}, 3,
      AC_ERROR_UNSUPPORTED, "tokenizer.ggml.pre \"odd\"");
  refuse_vocabulary((ac_gguf_value[]){model, tokens, way}, 3, AC_ERROR_FORMAT,
                    "no tokenizer.ggml.merges");
  refuse_vocabulary(
      (ac_gguf_value[]){
          model, tokens, way, {"tokenizer.ggml.merges", AC_GGUF_TEXT, true, 1, merge}},
      4, AC_ERROR_FORMAT, "merge 0, \"ab\", is not two tokens");
  refuse_vocabulary(
      (ac_gguf_value[]){model, {"tokenizer.ggml.tokens", AC_GGUF_TEXT, true, 2, twice}}, 2,
      AC_ERROR_FORMAT, "token \"a\" comes twice");
  refuse_vocabulary((ac_gguf_value[]){model, {"tokenizer.ggml.tokens", AC_GGUF_TEXT, true, 2, bad}},
                    2, AC_ERROR_FORMAT, "token 1 is not UTF-8");
  refuse_vocabulary(
      (ac_gguf_value[]){model, tokens, {"tokenizer.ggml.scores", AC_GGUF_F32, true, 1, &score}}, 3,
      AC_ERROR_FORMAT, "has 1 elements for 2 tokens");
  refuse_vocabulary(
      (ac_gguf_value[]){model, {"tokenizer.ggml.tokens", AC_GGUF_F32, true, 1, &score}}, 2,
      AC_ERROR_FORMAT, "another type");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_forms_hold_the_same_model),
      cmocka_unit_test(other_files_are_those_of_a_folder),
      cmocka_unit_test(rows_of_heads_are_in_llama_cpps_order),
      cmocka_unit_test(changed_parameters_are_asked_for),
      cmocka_unit_test(a_source_that_fails_leaves_nothing),
      cmocka_unit_test(adapters_have_llama_cpps_names),
      cmocka_unit_test(ways_to_cut_have_names),
      cmocka_unit_test(scores_become_merges),
      cmocka_unit_test(malformed_vocabularies_are_named),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
