/* Trains a small model on one sentence, then continues the sentence's beginning, token by token:
 * what was read before stays in caches, so each token costs the work of one token. The same
 * function builds the graph to train and the graph to write. */
#include <accrue/accrue.h>

#include <stdio.h>
#include <string.h>

static const char sentence[] = "a generator reads its prompt once, then writes on from it.";
enum { LETTERS = 128, LENGTH = sizeof sentence - 2, BEGINNING = 9, WIDTH = 32, UPDATES = 150 };

static ac_tensor *matrix(ac_graph *graph, const char *name, int64_t out, int64_t in) {
  return ac_parameter(graph, name, AC_SHAPE(out, in), NULL);
}

/* x W as two heads: [B, T, 2, WIDTH / 2]. */
static ac_tensor *project(ac_graph *graph, const char *name, ac_tensor *x, int64_t tokens) {
  x = ac_linear(x, matrix(graph, name, WIDTH, WIDTH), NULL, AC_OUT_IN);
  return ac_reshape(x, AC_SHAPE(AC_BATCH, tokens, 2, WIDTH / 2));
}

/* Attention of `tokens` tokens to each other or, with `ends`, to all tokens before as well. */
static ac_tensor *attend(ac_graph *graph, ac_tensor *x, ac_tensor *positions, ac_tensor *ends,
                         int64_t tokens, int64_t context) {
  const ac_attention_desc causal = {.causal = true};
  ac_tensor *q = ac_rope(project(graph, "q", x, tokens), positions, NULL),
            *k = ac_rope(project(graph, "k", x, tokens), positions, NULL),
            *v = project(graph, "v", x, tokens);
  x = ends ? ac_cached_attention(q, k, v, "attention", ends, context, NULL)
           : ac_attention(q, k, v, &causal);
  x = ac_reshape(x, AC_SHAPE(AC_BATCH, tokens, WIDTH));
  return ac_linear(x, matrix(graph, "o", WIDTH, WIDTH), NULL, AC_OUT_IN);
}

/* The logits of all tokens; with `ends` those of the last one. */
static ac_tensor *model(ac_graph *graph, ac_tensor *ends, int64_t tokens, int64_t context) {
  ac_tensor *ids = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, tokens)),
            *positions = ac_input(graph, "positions", AC_I32, AC_SHAPE(AC_BATCH, tokens)),
            *x = ac_embedding(matrix(graph, "table", LETTERS, WIDTH), ids);
  x = ac_add(x, attend(graph, ac_rms_norm(x, NULL, 0), positions, ends, tokens, context));
  if (ends) x = ac_slice(x, 1, tokens - 1, 1);
  return ac_linear(ac_rms_norm(x, NULL, 0), matrix(graph, "head", LETTERS, WIDTH), NULL, AC_OUT_IN);
}

/* For the generator, which calls it for the chunks of a prompt and for a single token. */
static void build_to_write(void *user, ac_graph *graph, int64_t tokens, int64_t context) {
  ac_tensor *ends = ac_input(graph, "ends", AC_I32, AC_SHAPE(AC_BATCH));
  (void)user;
  ac_graph_set_output(graph, "logits", model(graph, ends, tokens, context));
}

static ac_status train(ac_learner **learner) {
  ac_graph *graph = NULL;
  ac_learner_desc desc = AC_DEFAULTS;
  int32_t tokens[LENGTH], positions[LENGTH], targets[LENGTH];
  const ac_feed feeds[] = {{"tokens", tokens}, {"positions", positions}, {"targets", targets}};
  for (int i = 0; i < LENGTH; i++) {
    tokens[i] = sentence[i];
    targets[i] = sentence[i + 1];
    positions[i] = i;
  }
  desc.device.name = "cpu";
  desc.plan.batch = 1;
  desc.trainer.schedule.lr = 0.01;
  ac_status status = ac_graph_create(&graph);
  if (status != AC_OK) return status;
  ac_tensor *next = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, LENGTH));
  ac_graph_set_loss(graph, ac_cross_entropy(model(graph, NULL, LENGTH, 0), next, NULL, NULL));
  status = ac_learner_create(learner, graph, &desc);
  ac_graph_free(graph);
  for (int i = 0; i < UPDATES && status == AC_OK; i++) {
    status = ac_trainer_accumulate(ac_learner_trainer(*learner), 1, feeds, 3);
    if (status == AC_OK) status = ac_trainer_update(ac_learner_trainer(*learner), NULL);
  }
  return status;
}

/* The weights go from the trainer to the generator. */
static ac_status copy_weights(ac_trainer *trainer, ac_session *session) {
  float values[LETTERS * WIDTH];
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    ac_status status = ac_trainer_parameter_info(trainer, i, &info);
    const int64_t count = info.shape[0] * info.shape[1];
    if (status == AC_OK) status = ac_trainer_get_parameter(trainer, i, 0, count, values);
    if (status == AC_OK) status = ac_session_set_parameter(session, info.name, 0, count, values);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* Feeds the beginning and writes the rest. */
static ac_status write_rest(ac_generator *generator, char *text) {
  uint32_t token;
  ac_status status = AC_OK;
  for (int i = 0; i < BEGINNING && status == AC_OK; i++) {
    token = (unsigned char)sentence[i];
    text[i] = sentence[i];
    status = ac_generator_feed(generator, &token, 1);
  }
  for (int i = BEGINNING; i <= LENGTH && status == AC_OK; i++) {
    status = ac_generator_next(generator, &token);
    text[i] = (char)token;
  }
  return status;
}

static ac_status continue_text(ac_learner *learner, char *text) {
  ac_device *device = NULL;
  ac_generator *generator = NULL;
  ac_generator_info info;
  const ac_generator_desc desc = {.context = LENGTH + 1, .sampling = {.temperature = 0}};
  ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu"});
  if (status == AC_OK)
    status = ac_generator_create(&generator, device, &desc, build_to_write, NULL);
  if (status == AC_OK)
    status = copy_weights(ac_learner_trainer(learner), ac_generator_session(generator));
  if (status == AC_OK) status = write_rest(generator, text);
  ac_generator_get_info(generator, &info);
  printf("%llu bytes in caches\n", (unsigned long long)info.caches);
  ac_generator_free(generator);
  ac_device_close(device);
  return status;
}

int main(void) {
  ac_learner *learner = NULL;
  char text[LENGTH + 2] = "";
  ac_status status = train(&learner);
  if (status == AC_OK) status = continue_text(learner, text);
  if (status == AC_OK) printf("%.*s|%s\n", (int)BEGINNING, text, text + BEGINNING);
  else fprintf(stderr, "%s\n", ac_last_error());
  ac_learner_free(learner);
  return status == AC_OK && !strcmp(text, sentence) ? 0 : 1;
}
