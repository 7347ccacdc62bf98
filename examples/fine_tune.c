/* Opens a language model of others and fine-tunes it on a text, with adapters:
 *
 *     fine_tune MODEL TEXTFILE
 *
 * MODEL is a folder of Hugging Face's, or a GGUF file. Without arguments the program writes a tiny
 * model and a text itself, and checks that it learns. */
#include <accrue/accrue.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONTEXT = 32, BATCH = 4, UPDATES = 100, MOST_BYTES = 1 << 20 };

/* ---- fine-tuning ----------------------------------------------------------------------------- */

/* The tokens of a text file, by the model's own tokenizer. */
static ac_status read_text(ac_model *model, const char *path, ac_encoding *text) {
  static char bytes[MOST_BYTES];
  ac_tokenizer *tokenizer;
  FILE *file = fopen(path, "rb");
  if (!file) return AC_ERROR_IO;
  const size_t count = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  ac_status status = ac_model_tokenizer(model, &tokenizer);
  if (status == AC_OK) status = ac_tokenizer_encode(tokenizer, bytes, count, NULL, text);
  return status;
}

/* With adapters the model's own weights stay, and each matrix of its blocks gets one of rank 8.
 * Without them all weights are trained. */
static ac_status make_learner(ac_model *model, bool adapters, ac_learner **learner) {
  const ac_lora_desc lora = {.rank = 8};
  const ac_model_graph_desc desc = {
      .context = CONTEXT, .frozen = adapters, .lora = adapters ? &lora : NULL};
  ac_learner_desc how = AC_DEFAULTS;
  ac_graph *graph;
  how.device.name = "cpu";
  how.plan.batch = BATCH;
  how.trainer.schedule.lr = 0.01;
  ac_status status = ac_graph_create(&graph);
  if (status != AC_OK) return status;
  ac_model_build(model, graph, &desc);
  status = ac_learner_create(learner, graph, &how);
  if (status == AC_OK && ac_model_weights(model))
    status = ac_model_load(model, ac_learner_trainer(*learner));
  ac_graph_free(graph);
  return status;
}

/* Windows of the text, one after another; the target of each token is the next one. */
static void take_window(const ac_encoding *text, int update, int32_t *tokens, int32_t *targets) {
  for (int i = 0; i < BATCH * CONTEXT; i++) {
    const size_t at = ((size_t)update * BATCH * CONTEXT + (size_t)i) % (text->count - 1);
    tokens[i] = (int32_t)text->ids[at];
    targets[i] = (int32_t)text->ids[at + 1];
  }
}

static ac_status train(ac_trainer *trainer, const ac_encoding *text, double *first, double *last) {
  static int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];
  const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
  for (int i = 0; i < UPDATES; i++) {
    ac_update update;
    take_window(text, i, tokens, targets);
    ac_status status = ac_trainer_accumulate(trainer, BATCH, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, &update);
    if (status != AC_OK) return status;
    *(i ? last : first) = update.loss;
  }
  return AC_OK;
}

static ac_status fine_tune(const char *path, const char *text_path, double *first, double *last) {
  ac_model *model = NULL;
  ac_learner *learner = NULL;
  ac_encoding text = {0};
  ac_model_info info;
  ac_status status = ac_model_open(&model, path);
  ac_model_get_info(model, &info);
  if (status == AC_OK)
    printf("%s: %lld layers, %lld parameters\n", info.family, (long long)info.layers,
           (long long)info.parameters);
  if (status == AC_OK) status = read_text(model, text_path, &text);
  if (status == AC_OK && text.count < 2) status = AC_ERROR_ARGUMENT;
  if (status == AC_OK) status = make_learner(model, true, &learner);
  if (status == AC_OK) status = train(ac_learner_trainer(learner), &text, first, last);
  if (status == AC_OK) printf("loss %.3f, after %d updates %.3f\n", *first, UPDATES, *last);
  ac_encoding_free(&text);
  ac_learner_free(learner);
  ac_model_free(model);
  return status;
}

/* ---- a tiny model ---------------------------------------------------------------------------- */

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 64,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"max_position_embeddings\": 64, \"vocab_size\": 12, \"rms_norm_eps\": 1e-5,"
    " \"tie_word_embeddings\": true}\n";
static const char letters[] =
    "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0,"
    " \" \": 1, \"t\": 2, \"h\": 3, \"e\": 4, \"c\": 5, \"a\": 6, \"s\": 7, \"o\": 8, \"n\": 9,"
    " \"m\": 10, \".\": 11}},"
    " \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \".\"},"
    "  \"behavior\": \"Isolated\", \"invert\": false}, \"decoder\": {\"type\": \"Fuse\"}}\n";
static const char learned[] = "a hen came home at noon. ";
static const char sentence[] = "the cat sat on the mat. ";

static ac_status write_text(const char *path, const char *text, int times) {
  FILE *file = fopen(path, "w");
  if (!file) return AC_ERROR_IO;
  for (int i = 0; i < times; i++) fputs(text, file);
  return fclose(file) == 0 ? AC_OK : AC_ERROR_IO;
}

/* A configuration is enough to build a graph. Its parameters have random values; after some
 * updates they are saved under the names that the folder has to have. */
static ac_status write_weights(void) {
  ac_model *model = NULL;
  ac_learner *learner = NULL;
  ac_encoding text = {0};
  double first, last;
  ac_status status = ac_model_open(&model, "fine_tune_model");
  if (status == AC_OK) status = read_text(model, "fine_tune_text", &text);
  if (status == AC_OK) status = make_learner(model, false, &learner);
  if (status == AC_OK) status = train(ac_learner_trainer(learner), &text, &first, &last);
  if (status == AC_OK)
    status =
        ac_trainer_save(ac_learner_trainer(learner), "fine_tune_model/model.safetensors", NULL, 0);
  ac_encoding_free(&text);
  ac_learner_free(learner);
  ac_model_free(model);
  return status;
}

/* It has learned another text than the one that it is fine-tuned on. */
static ac_status write_tiny(void) {
  mkdir("fine_tune_model", 0777);
  ac_status status = write_text("fine_tune_model/config.json", config, 1);
  if (status == AC_OK) status = write_text("fine_tune_model/tokenizer.json", letters, 1);
  if (status == AC_OK) status = write_text("fine_tune_text", learned, 100);
  if (status == AC_OK) status = write_weights();
  if (status == AC_OK) status = write_text("fine_tune_text", sentence, 100);
  return status;
}

int main(int argc, char **argv) {
  double first = 0, last = 0;
  ac_status status = argc > 2 ? AC_OK : write_tiny();
  if (status == AC_OK)
    status = argc > 2 ? fine_tune(argv[1], argv[2], &first, &last)
                      : fine_tune("fine_tune_model", "fine_tune_text", &first, &last);
  if (status != AC_OK)
    fprintf(stderr, "fine_tune: %s: %s\n", ac_status_text(status), ac_last_error());
  if (argc <= 2) {
    remove("fine_tune_model/config.json");
    remove("fine_tune_model/tokenizer.json");
    remove("fine_tune_model/model.safetensors");
    remove("fine_tune_model");
    remove("fine_tune_text");
    if (status == AC_OK && last > 0.7 * first) return 1; /* it has to learn */
  }
  return status == AC_OK ? 0 : 1;
}
