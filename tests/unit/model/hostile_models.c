/* Folders and GGUF files of language models that are damaged, that ask for what the library does
 * not have, or that mean harm: each is refused by a sentence that names the key or the tensor. Also
 * what a model says about texts, and files that are unusual but good. */
#include "support/files.h"

#include <accrue/gguf.h>

#include <jansson.h>

static test_path vector_path(const char *name) {
  test_path path;
  snprintf(path.text, sizeof path.text, "%s/models/%s", ACCRUE_TEST_VECTORS, name);
  return path;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static json_t *config_of(const char *name) {
  test_path path = vector_path(name);
  json_error_t error;
  strcat(path.text, "/config.json");
  json_t *json = json_load_file(path.text, 0, &error);
  assert_non_null(json);
  return json;
}

static test_path write_json(const char *name, const json_t *json) {
  test_path path = in_folder(name);
  char *text = json_dumps(json, 0);
  write_file(path.text, text, strlen(text));
  free(text);
  return path;
}

/* The configuration of a vector with one key set to this JSON; NULL: without the key. */
static ac_status open_changed(const char *name, const char *key, const char *value) {
  json_t *json = config_of(name);
  ac_model *model;
  if (value) json_object_set_new(json, key, json_loads(value, JSON_DECODE_ANY, NULL));
  else json_object_del(json, key);
  const test_path path = write_json("config.json", json);
  json_decref(json);
  const ac_status status = ac_model_open(&model, path.text);
  assert_true((status == AC_OK) == (model != NULL));
  ac_model_free(model);
  return status;
}

static const struct {
  const char *name, *key, *value;
  ac_status status;
  const char *text;
} refused[] = {
    {"llama", "model_type", "\"mamba\"", AC_ERROR_UNSUPPORTED, "\"mamba\""},
    {"llama", "model_type", NULL, AC_ERROR_FORMAT, "no model_type"},
    {"llama", "model_type", "7", AC_ERROR_FORMAT, "no model_type"},
    {"llama", "num_experts", "8", AC_ERROR_UNSUPPORTED, "\"num_experts\" of a llama model"},
    {"llama", "quantization_config", "{}", AC_ERROR_UNSUPPORTED, "\"quantization_config\""},
    {"llama", "sliding_window", "4", AC_ERROR_UNSUPPORTED, "\"sliding_window\""},
    {"llama", "a\\u001bb", "1", AC_ERROR_UNSUPPORTED, "does not know the key"},
    {"llama", "hidden_size", NULL, AC_ERROR_FORMAT, "the width is 0"},
    {"llama", "hidden_size", "-16", AC_ERROR_FORMAT, "\"hidden_size\" is not a whole number"},
    {"llama", "hidden_size", "16.5", AC_ERROR_FORMAT, "\"hidden_size\" is not a whole number"},
    {"llama", "hidden_size", "9223372036854775807", AC_ERROR_FORMAT, "the width"},
    {"llama", "num_hidden_layers", "1000000", AC_ERROR_FORMAT, "the number of layers is 1000000"},
    {"llama", "num_attention_heads", "0", AC_ERROR_FORMAT, "the number of heads is 0"},
    {"llama", "num_key_value_heads", "3", AC_ERROR_FORMAT, "not a multiple of 3"},
    {"llama", "head_dim", "3", AC_ERROR_FORMAT, "an even number"},
    {"llama", "head_dim", "16777216", AC_ERROR_FORMAT, "heads of 16777216 are too many"},
    {"llama", "vocab_size", "\"many\"", AC_ERROR_FORMAT, "\"vocab_size\" is not a whole number"},
    {"llama", "rms_norm_eps", "0", AC_ERROR_FORMAT, "the epsilon of norms is 0"},
    {"llama", "rms_norm_eps", "1e300", AC_ERROR_FORMAT, "the epsilon of norms is 1e+300"},
    {"llama", "rms_norm_eps", "true", AC_ERROR_FORMAT, "\"rms_norm_eps\" is not a finite number"},
    {"llama", "hidden_act", "\"sine\"", AC_ERROR_UNSUPPORTED, "the \"hidden_act\" \"sine\""},
    {"llama", "hidden_act", "[1]", AC_ERROR_FORMAT, "\"hidden_act\" is not the name"},
    {"llama", "attention_bias", "1", AC_ERROR_FORMAT, "\"attention_bias\" is not true or false"},
    {"llama", "rope_interleaved", "true", AC_ERROR_UNSUPPORTED, "\"rope_interleaved\""},
    {"llama", "is_encoder_decoder", "true", AC_ERROR_UNSUPPORTED, "\"is_encoder_decoder\""},
    {"llama", "rope_parameters", "7", AC_ERROR_FORMAT, "\"rope_parameters\" is not an object"},
    {"llama", "rope_parameters", "{\"rope_type\": \"yarn\"}", AC_ERROR_UNSUPPORTED,
     "the \"rope_parameters.rope_type\" \"yarn\""},
    {"llama", "rope_parameters", "{\"beta_fast\": 32}", AC_ERROR_UNSUPPORTED,
     "\"rope_parameters.beta_fast\""},
    {"llama", "rope_parameters", "{\"rope_theta\": 0}", AC_ERROR_FORMAT,
     "\"rope_parameters.rope_theta\" is not a positive number"},
    {"llama", "rope_parameters", "{\"rope_theta\": 1e-300}", AC_ERROR_FORMAT,
     "the base of rotary positions"},
    {"llama", "rope_scaling", "{\"type\": \"linear\"}", AC_ERROR_FORMAT, "a factor of at least 1"},
    {"llama", "rope_scaling", "{\"type\": \"llama3\", \"factor\": 8}", AC_ERROR_FORMAT,
     "a whole description of Llama 3's scaling"},
    {"llama", "eos_token_id", "[1,2,3,4,5,6,7,8,9]", AC_ERROR_UNSUPPORTED, "more than 8 tokens"},
    {"llama", "eos_token_id", "\"</s>\"", AC_ERROR_FORMAT, "\"eos_token_id\" is not a token's id"},
    {"llama", "bos_token_id", "1e9", AC_ERROR_FORMAT, "\"bos_token_id\" is not a token's id"},
    {"gemma2", "sliding_window", "null", AC_ERROR_FORMAT, "its size is missing"},
    {"gemma2", "layer_types", "[\"full_attention\"]", AC_ERROR_FORMAT, "layer_types has another"},
    {"gemma2", "layer_types", "[\"chunked_attention\"]", AC_ERROR_UNSUPPORTED,
     "\"chunked_attention\""},
    {"gemma2", "attn_logit_softcapping", "-2", AC_ERROR_FORMAT, "a soft cap is -2"},
    {"gemma2", "query_pre_attn_scalar", "1e-40", AC_ERROR_FORMAT, "query_pre_attn_scalar is 1e-40"},
    {"gemma3", "use_bidirectional_attention", "true", AC_ERROR_UNSUPPORTED,
     "\"use_bidirectional_attention\""},
    {"gemma3", "rope_parameters", "{\"full_attention\": {}, \"sliding_attention\": 1}",
     AC_ERROR_FORMAT, "an object for each type of layer"},
    {"gemma3", "rope_parameters",
     "{\"full_attention\": {}, \"sliding_attention\": {\"rope_type\": \"longrope\"}}",
     AC_ERROR_UNSUPPORTED, "\"rope_parameters.sliding_attention.rope_type\" \"longrope\""},
    {"smollm3", "no_rope_layers", "[1]", AC_ERROR_FORMAT, "no_rope_layers has another"},
    {"smollm3", "no_rope_layers", "[1, 2]", AC_ERROR_FORMAT, "not a list of 0 and 1"},
    {"phi3", "rope_scaling", "{\"type\": \"longrope\", \"long_factor\": [1]}", AC_ERROR_UNSUPPORTED,
     "\"longrope\""},
    {"phi3_partial", "partial_rotary_factor", "1.5", AC_ERROR_FORMAT, "an even number"},
    {"gpt2", "n_embd", "18", AC_ERROR_FORMAT, "4 heads do not divide the width of 18"},
    {"gpt2", "n_embd", "9223372036854775804", AC_ERROR_FORMAT, "the width is"},
    {"qwen2", "use_mrope", "true", AC_ERROR_UNSUPPORTED, "\"use_mrope\""},
    {"gpt2", "scale_attn_weights", "2", AC_ERROR_FORMAT, "\"scale_attn_weights\""},
    {"gpt2", "add_cross_attention", "true", AC_ERROR_UNSUPPORTED, "\"add_cross_attention\""},
    {"gpt2", "hidden_size", "16", AC_ERROR_UNSUPPORTED, "\"hidden_size\" of a gpt2 model"},
};

static void what_a_config_must_not_say_is_refused_by_its_key(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const ac_status status = open_changed(refused[i].name, refused[i].key, refused[i].value);
    if (status != refused[i].status)
      fail_msg("%s with %s %s: %s (%s)", refused[i].name, refused[i].key,
               refused[i].value ? refused[i].value : "missing", ac_status_name(status),
               ac_last_error());
    assert_contains(ac_last_error(), refused[i].text);
    assert_contains(ac_last_error(), "config.json: ");
    assert_null(strchr(ac_last_error(), '\n'));
  }
}

/* What changes nothing is taken. */
static void what_does_not_matter_is_taken(void **state) {
  (void)state;
  assert_ok(open_changed("llama", "attention_dropout", "0.1"));
  assert_ok(open_changed("llama", "_name_or_path", "\"x\""));
  assert_ok(open_changed("llama", "rope_interleaved", "false"));
  assert_ok(open_changed("llama", "rope_scaling", "null"));
  assert_ok(open_changed("llama", "head_dim", NULL));
  assert_ok(open_changed("llama", "max_sequence_length", "2048"));
  assert_ok(open_changed("qwen2", "use_mrope", "false"));
  assert_ok(open_changed("gemma2", "sliding_window_size", "4096"));
  assert_ok(open_changed("gemma2", "sliding_window", NULL));
  assert_ok(open_changed("gpt2", "n_special", "0"));
  assert_ok(open_changed("gpt2", "predict_special_tokens", "true"));
  assert_ok(open_changed("gpt2", "_num_labels", "1"));
  assert_ok(open_changed("llama", "num_key_value_heads", NULL));
  assert_ok(open_changed("gemma", "hidden_act", "\"gelu\""));
  assert_ok(open_changed("gpt2", "n_inner", "20"));
  assert_ok(open_changed("gpt2", "n_ctx", "64"));
  assert_ok(open_changed("mistral", "sliding_window", "null"));
}

static void no_config_is_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      "{",
                                      "[]",
                                      "7",
                                      "{\"model_type\":\"llama\",}",
                                      "{\"model_type\":\"llama\",\"model_type\":\"gpt2\"}"};
  ac_model *model;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    test_path path = in_folder("config.json");
    write_file(path.text, texts[i], strlen(texts[i]));
    assert_refused(ac_model_open(&model, path.text), AC_ERROR_FORMAT, "config.json");
  }
  assert_refused(ac_model_open(&model, in_folder("nothing").text), AC_ERROR_IO, "nothing");
  mkdir(in_folder("empty").text, 0777);
  assert_refused(ac_model_open(&model, in_folder("empty").text), AC_ERROR_IO, "config.json");
}

/* ---- what a model says ----------------------------------------------------------------------- */

static void a_configuration_alone_is_enough_for_a_plan(void **state) {
  (void)state;
  json_t *json = config_of("qwen3");
  const test_path path = write_json("config.json", json);
  ac_model *model;
  ac_model_info info;
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  assert_ok(ac_model_open(&model, path.text));
  ac_model_get_info(model, &info);
  assert_string_equal(info.family, "qwen3");
  assert_false(info.weights || info.gguf);
  assert_int_equal(info.head_size, 8);
  assert_int_equal(info.key_heads, 2);
  assert_int_equal(info.parameters, 6512);
  assert_null(ac_model_weights(model));
  assert_null(ac_model_chat_template(model));
  assert_ok(ac_graph_create(&graph));
  assert_non_null(ac_model_build(model, graph, NULL)); /* all positions of the configuration */
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 1}));
  assert_int_equal(ac_plan_get_info(plan)->parameter_count, 6512);
  assert_ok(ac_trainer_create(&trainer, plan, NULL));
  assert_refused(ac_model_load(model, trainer), AC_ERROR_STATE, "the model has no weights");
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  ac_model_free(model);
  json_decref(json);
}

static void write_text(const char *name, const char *text) {
  write_file(in_folder(name).text, text, strlen(text));
}

static void templates_and_ends_are_those_of_the_folder(void **state) {
  (void)state;
  json_t *json = config_of("llama");
  const test_path path = write_json("config.json", json);
  ac_model *model;
  ac_model_info info;
  write_text("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"tool\", \"template\": "
                                      "\"t\"}, {\"name\": \"default\", \"template\": \"d\"}]}");
  write_text("generation_config.json", "{\"eos_token_id\": [5, 2], \"top_p\": 0.9}");
  assert_ok(ac_model_open(&model, path.text));
  assert_string_equal(ac_model_chat_template(model), "d");
  ac_model_get_info(model, &info);
  assert_int_equal(info.begin, 1);
  assert_int_equal(info.end_count, 2);
  assert_int_equal(info.ends[0], 5);
  ac_model_free(model);
  write_text("tokenizer_config.json", "{\"chat_template\": \"one\"}");
  assert_ok(ac_model_open(&model, path.text));
  assert_string_equal(ac_model_chat_template(model), "one");
  ac_model_free(model);
  write_text("chat_template.jinja", "{{ messages }}\n");
  assert_ok(ac_model_open(&model, path.text));
  assert_string_equal(ac_model_chat_template(model), "{{ messages }}\n");
  ac_model_free(model);
  write_text("generation_config.json", "{\"eos_token_id\": 1.5}");
  assert_refused(ac_model_open(&model, path.text), AC_ERROR_FORMAT, "\"eos_token_id\"");
  json_decref(json);
  unlink(in_folder("generation_config.json").text);
  unlink(in_folder("tokenizer_config.json").text);
  unlink(in_folder("chat_template.jinja").text);
}

static void contexts_are_checked(void **state) {
  (void)state;
  ac_model *model;
  ac_graph *graph;
  assert_ok(ac_model_open(&model, vector_path("gpt2").text));
  assert_ok(ac_graph_create(&graph));
  assert_null(ac_model_build(model, graph, &(ac_model_graph_desc){.context = 65}));
  assert_int_equal(ac_graph_status(graph), AC_ERROR_ARGUMENT);
  assert_contains(ac_graph_message(graph), "a context of 65; ");
  assert_contains(ac_graph_message(graph), "takes from 1 to 64 positions");
  ac_graph_free(graph);
  ac_model_free(model);
}

/* ---- weights --------------------------------------------------------------------------------- */

static void copy_file(const char *from, const char *to) {
  size_t bytes;
  unsigned char *data = read_file(vector_path(from).text, &bytes);
  write_file(in_folder(to).text, data, bytes);
  free(data);
}

/* The folder of the tests as that of llama3, which has four shards. */
static json_t *copy_shards(void) {
  static const char *const names[] = {
      "config.json", "model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
      "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors"};
  char from[64];
  json_error_t error;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(from, sizeof from, "llama3/%s", names[i]);
    copy_file(from, names[i]);
  }
  json_t *index =
      json_load_file(vector_path("llama3/model.safetensors.index.json").text, 0, &error);
  assert_non_null(index);
  return index;
}

#define FIRST "model.embed_tokens.weight"
static const struct {
  const char *name, *file; /* in weight_map; file "": the name is left out */
  ac_status status;
  const char *text;
} shards[] = {
    {FIRST, "\"/etc/passwd.safetensors\"", AC_ERROR_FORMAT, "same folder"},
    {FIRST, "\"../model-00001-of-00004.safetensors\"", AC_ERROR_FORMAT, "same folder"},
    {FIRST, "\"..\"", AC_ERROR_FORMAT, "same folder"},
    {FIRST, "\"config.json\"", AC_ERROR_FORMAT, "same folder"},
    {FIRST, "\"\"", AC_ERROR_FORMAT, "same folder"},
    {FIRST, "\".safetensors\"", AC_ERROR_FORMAT, "same folder"},
    {FIRST, "\"a\\\\b.safetensors\"", AC_ERROR_FORMAT, "same folder"},
    {FIRST, "7", AC_ERROR_FORMAT, "is not a name"},
    {FIRST, "\"model-00009-of-00004.safetensors\"", AC_ERROR_IO, "model-00009-of-00004"},
    {FIRST, "\"model-00004-of-00004.safetensors\"", AC_ERROR_FORMAT, "has no tensor \"" FIRST},
    {"ghost", "\"model-00004-of-00004.safetensors\"", AC_ERROR_FORMAT, "has no tensor \"ghost\""},
    {FIRST, "", AC_ERROR_FORMAT, "holds no tensor \"" FIRST},
};

static void shards_are_checked(void **state) {
  (void)state;
  ac_model *model;
  for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
    json_t *index = copy_shards(), *map = json_object_get(index, "weight_map");
    if (*shards[i].file)
      json_object_set_new(map, shards[i].name, json_loads(shards[i].file, JSON_DECODE_ANY, NULL));
    else json_object_del(map, shards[i].name);
    write_json("model.safetensors.index.json", index);
    json_decref(index);
    assert_refused(ac_model_open(&model, test_folder), shards[i].status, shards[i].text);
    assert_null(model);
  }
}

static void an_index_is_one_file(void **state) {
  (void)state;
  json_t *index = copy_shards();
  const test_path path = write_json("model.safetensors.index.json", index);
  ac_model_file *file, *again;
  assert_ok(ac_model_file_open(&file, test_folder));
  assert_int_equal(ac_model_file_tensor_count(file),
                   json_object_size(json_object_get(index, "weight_map")));
  assert_ok(ac_model_file_open(&again, path.text));
  float one, two;
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const char *name = ac_model_file_tensor(file, i)->name;
    assert_ok(ac_model_file_read(file, i, 3, 1, &one));
    assert_ok(ac_model_file_read(again, ac_model_file_find(again, name), 3, 1, &two));
    assert_true(one == two);
  }
  assert_int_equal(ac_model_file_read(file, 0, 1 << 20, 1, &one), AC_ERROR_ARGUMENT);
  ac_model_file_close(file);
  ac_model_file_close(again);
  json_decref(index);
  unlink(path.text);
}

/* A file of an index that is an index again, or a folder with one, would be opened without end. */
static void an_index_in_an_index_is_refused(void **state) {
  (void)state;
  static const char index[] = "{\"weight_map\": {\"w\": \"again.safetensors\"}}";
  const test_path first = in_folder("model.safetensors.index.json"),
                  again = in_folder("again.safetensors");
  ac_model_file *file;
  write_file(first.text, index, strlen(index));
  write_file(again.text, index, strlen(index));
  assert_refused(ac_model_file_open(&file, test_folder), AC_ERROR_FORMAT, "is JSON");
  unlink(again.text);
  assert_int_equal(symlink(test_folder, again.text), 0);
  assert_int_equal(ac_model_file_open(&file, test_folder), AC_ERROR_IO);
  assert_null(file);
  unlink(again.text);
  write_file(first.text, "{}", 2);
  assert_refused(ac_model_file_open(&file, test_folder), AC_ERROR_FORMAT, "it has no weight_map");
  unlink(first.text);
}

/* The first shard is also the second; the index lists one of its tensors there. */
static void a_tensor_in_two_shards_is_refused(void **state) {
  (void)state;
  json_t *index = copy_shards(), *map = json_object_get(index, "weight_map");
  const char *second = "model-00002-of-00004.safetensors";
  ac_model_file *file, *one;
  copy_file("llama3/model-00001-of-00004.safetensors", second);
  assert_ok(ac_model_file_open(&one, in_folder(second).text));
  json_object_clear(map);
  for (int i = 0; i < ac_model_file_tensor_count(one); i++)
    json_object_set_new(map, ac_model_file_tensor(one, i)->name,
                        json_string(i ? "model-00001-of-00004.safetensors" : second));
  const test_path path = write_json("model.safetensors.index.json", index);
  assert_refused(ac_model_file_open(&file, path.text), AC_ERROR_FORMAT, "two of its files have");
  ac_model_file_close(one);
  json_decref(index);
  unlink(path.text);
}

static ac_status zeros(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)user, (void)index, (void)first;
  memset(data, 0, (size_t)count * sizeof(float));
  return AC_OK;
}

/* The weights of gpt2's vector with one more tensor, or another shape, or without the prefix. */
static test_path write_weights(const char *extra, const char *reshaped, size_t cut) {
  ac_model_file *file;
  ac_model_tensor tensors[64];
  int count = 0;
  assert_ok(ac_model_file_open(&file, vector_path("gpt2").text));
  for (; count < ac_model_file_tensor_count(file); count++) {
    tensors[count] = *ac_model_file_tensor(file, count);
    tensors[count].dtype = AC_F32;
    if (reshaped && !strcmp(tensors[count].name, reshaped)) tensors[count].shape[0]++;
    tensors[count].name += cut;
  }
  if (extra) tensors[count++] = (ac_model_tensor){extra, AC_F32, 1, {4}};
  test_path path = in_folder("model.safetensors");
  assert_ok(ac_model_file_write(path.text, tensors, count, NULL, 0, zeros, NULL));
  ac_model_file_close(file);
  return path;
}

static void tensors_of_another_model_are_refused(void **state) {
  (void)state;
  ac_model *model;
  copy_file("gpt2/config.json", "config.json");
  write_weights(NULL, NULL, 0);
  assert_ok(ac_model_open(&model, test_folder));
  ac_model_free(model);
  write_weights("transformer.h.0.attn.bias", NULL, 0); /* a mask, which older files have */
  assert_ok(ac_model_open(&model, test_folder));
  ac_model_free(model);
  write_weights(NULL, NULL, strlen("transformer."));
  assert_ok(ac_model_open(&model, test_folder));
  ac_model_free(model);
  write_weights("transformer.h.0.attn.q_norm.weight", NULL, 0);
  assert_refused(ac_model_open(&model, test_folder), AC_ERROR_UNSUPPORTED,
                 "\"transformer.h.0.attn.q_norm.weight\"");
  write_weights("transformer.h.2.ln_1.weight", NULL, 0);
  assert_refused(ac_model_open(&model, test_folder), AC_ERROR_UNSUPPORTED,
                 "\"transformer.h.2.ln_1.weight\"");
  write_weights(NULL, "transformer.h.1.mlp.c_fc.weight", 0);
  assert_refused(ac_model_open(&model, test_folder), AC_ERROR_FORMAT,
                 "\"transformer.h.1.mlp.c_fc.weight\"");
  unlink(in_folder("model.safetensors").text);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* Copies a vector with one value of its metadata changed or added, or one tensor renamed. */
typedef struct gguf_change {
  ac_gguf_value value;
  const char *tensor, *renamed;
} gguf_change;

static ac_status read_source(void *user, int index, int64_t first, int64_t count, void *data) {
  return ac_model_file_read(user, index, first, count, data);
}

static ac_status open_gguf(const char *name, const gguf_change *change) {
  const test_path from = vector_path(name), to = in_folder("model.gguf");
  ac_gguf_metadata *metadata;
  ac_model_file *file;
  ac_gguf_value values[64];
  ac_gguf_tensor tensors[64];
  int value_count = 0, tensor_count = 0;
  bool replaced = !change->value.key;
  assert_ok(ac_gguf_metadata_open(&metadata, from.text));
  assert_ok(ac_model_file_open(&file, from.text));
  for (; value_count < ac_gguf_metadata_count(metadata); value_count++) {
    values[value_count] = *ac_gguf_metadata_at(metadata, value_count);
    if (replaced || strcmp(values[value_count].key, change->value.key)) continue;
    values[value_count] = change->value;
    replaced = true;
  }
  if (!replaced) values[value_count++] = change->value;
  for (; tensor_count < ac_model_file_tensor_count(file); tensor_count++) {
    const ac_model_tensor *t = ac_model_file_tensor(file, tensor_count);
    const bool renamed = change->tensor && !strcmp(t->name, change->tensor);
    tensors[tensor_count] = (ac_gguf_tensor){renamed ? change->renamed : t->name,
                                             AC_GGML_F32,
                                             false,
                                             t->rank,
                                             {t->shape[0], t->shape[1]}};
  }
  assert_ok(ac_gguf_write(to.text, tensors, tensor_count, values, value_count, read_source, file));
  ac_model_file_close(file);
  ac_gguf_metadata_close(metadata);
  ac_model *model;
  const ac_status status = ac_model_open(&model, to.text);
  ac_model_free(model);
  return status;
}

#define NUMBER(key, n) \
  { {key, AC_GGUF_U32, false, 1, &(const uint32_t){n}}, NULL, NULL }
#define NUMBERS(key, ...) \
  { {key, AC_GGUF_U32, true, 2, (const uint32_t[]){__VA_ARGS__}}, NULL, NULL }
#define REAL(key, x) \
  { {key, AC_GGUF_F32, false, 1, &(const float){x}}, NULL, NULL }
#define TEXT(key, text) \
  { {key, AC_GGUF_TEXT, false, 1, &(const char *){text}}, NULL, NULL }
#define RENAMED(from, to) \
  { {NULL, AC_GGUF_U32, false, 0, NULL}, from, to }

static void metadata_of_gguf_files_are_checked(void **state) {
  (void)state;
  const struct {
    const char *name;
    gguf_change change;
    ac_status status;
    const char *text;
  } all[] = {
      {"llama.gguf", RENAMED(NULL, NULL), AC_OK, ""},
      {"llama.gguf", NUMBER("llama.expert_count", 0), AC_OK, ""},
      {"llama.gguf", TEXT("general.name", "x"), AC_OK, ""},
      {"llama.gguf", TEXT("llama.rope.scaling.type", "none"), AC_OK, ""},
      {"llama.gguf", TEXT("general.architecture", "mamba"), AC_ERROR_UNSUPPORTED, "\"mamba\""},
      {"llama.gguf", TEXT("general.type", "adapter"), AC_ERROR_UNSUPPORTED, "\"adapter\""},
      {"llama.gguf", RENAMED("blk.0.attn_v.weight", "blk.00.attn_k.weight"), AC_ERROR_FORMAT,
       "two of its tensors are \"model.layers.0.self_attn.k_proj.weight\""},
      {"llama.gguf", TEXT("llama.tensor_data_layout", "Meta AI original pth"), AC_OK, ""},
      {"llama.gguf", NUMBERS("llama.attention.head_count_kv", 2, 1), AC_ERROR_UNSUPPORTED,
       "\"llama.attention.head_count_kv\" as an array"},
      {"olmo2.gguf", NUMBER("olmo2.attention.sliding_window", 8), AC_ERROR_UNSUPPORTED,
       "no olmo2 with a sliding window"},
      {"llama.gguf", NUMBER("split.count", 3), AC_ERROR_UNSUPPORTED, "join them first"},
      {"llama.gguf", NUMBER("llama.expert_count", 8), AC_ERROR_UNSUPPORTED, "expert_count"},
      {"llama.gguf", NUMBER("llama.attention.novel", 1), AC_ERROR_UNSUPPORTED,
       "\"llama.attention.novel\""},
      {"llama.gguf", TEXT("llama.rope.scaling.type", "yarn"), AC_ERROR_UNSUPPORTED, "\"yarn\""},
      {"llama.gguf", TEXT("llama.block_count", "two"), AC_ERROR_FORMAT, "\"llama.block_count\""},
      {"llama.gguf", NUMBER("llama.block_count", 0), AC_ERROR_FORMAT, "number of layers is 0"},
      {"llama.gguf", NUMBER("llama.block_count", 1), AC_ERROR_UNSUPPORTED, "model.layers.1."},
      {"llama.gguf", NUMBER("llama.block_count", 3), AC_ERROR_FORMAT, "model.layers.2."},
      {"llama.gguf", NUMBER("llama.attention.head_count", 4294967295u), AC_ERROR_FORMAT,
       "head_count"},
      {"llama.gguf", NUMBER("llama.attention.value_length", 6), AC_ERROR_UNSUPPORTED,
       "another size than keys"},
      {"llama.gguf", REAL("llama.rope.freq_base", 0), AC_ERROR_FORMAT,
       "the base of rotary positions is 0"},
      {"llama.gguf", REAL("llama.attention.layer_norm_rms_epsilon", 2), AC_ERROR_FORMAT,
       "the epsilon of norms is 2"},
      {"llama.gguf", RENAMED("token_embd.weight", "other.weight"), AC_ERROR_FORMAT,
       "token_embd.weight"},
      {"llama.gguf", RENAMED("blk.0.attn_q.weight", "blk.0.attn_x.weight"), AC_ERROR_UNSUPPORTED,
       "\"blk.0.attn_x.weight\""},
      {"llama.gguf", RENAMED("blk.1.attn_q.weight", "blk.9999999999999999999.attn_q.weight"),
       AC_ERROR_UNSUPPORTED, "blk.9999999999999999999"},
      {"llama3.gguf", REAL("llama.rope.freq_base", 10000), AC_ERROR_UNSUPPORTED,
       "rope_freqs.weight"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const ac_status status = open_gguf(all[i].name, &all[i].change);
    if (status != all[i].status)
      fail_msg("row %zu: %s (%s)", i, ac_status_name(status), ac_last_error());
    if (status != AC_OK) assert_contains(ac_last_error(), all[i].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_config_must_not_say_is_refused_by_its_key),
      cmocka_unit_test(what_does_not_matter_is_taken),
      cmocka_unit_test(no_config_is_refused),
      cmocka_unit_test(a_configuration_alone_is_enough_for_a_plan),
      cmocka_unit_test(templates_and_ends_are_those_of_the_folder),
      cmocka_unit_test(contexts_are_checked),
      cmocka_unit_test(shards_are_checked),
      cmocka_unit_test(an_index_is_one_file),
      cmocka_unit_test(a_tensor_in_two_shards_is_refused),
      cmocka_unit_test(an_index_in_an_index_is_refused),
      cmocka_unit_test(tensors_of_another_model_are_refused),
      cmocka_unit_test(metadata_of_gguf_files_are_checked),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
