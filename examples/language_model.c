/* A language model: a tiny transformer with causal attention learns the letters of a rhyme that the
 * program writes to a file, and writes on by itself. The loss computes its logits in pieces
 * (ac_linear_cross_entropy), so a large vocabulary would need little memory. */
#include <accrue/accrue.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 256, CONTEXT = 32, WIDTH = 32, HEADS = 4, LAYERS = 2, STEPS = 220, WRITTEN = 64 };

static const char rhyme[] = "one two buckle my shoe\nthree four knock at the door\n";

/* "h.LAYER.PART", or PART alone where `layer` is LAYERS. */
static void make_name(char name[32], const char *part, int layer) {
  if (layer == LAYERS) snprintf(name, 32, "%s", part);
  else snprintf(name, 32, "h.%d.%s", layer, part);
}

static ac_tensor *matrix(ac_graph *graph, const char *part, int layer, int64_t out, int64_t in) {
  char name[32];
  const ac_parameter_desc spread = {.init = {AC_INIT_NORMAL, .deviation = 0.08f}};
  make_name(name, part, layer);
  return ac_parameter(graph, name, AC_SHAPE(out, in), &spread);
}

static ac_tensor *norm(ac_graph *graph, const char *part, int layer, ac_tensor *x) {
  char name[32];
  const ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}};
  make_name(name, part, layer);
  return ac_rms_norm(x, ac_parameter(graph, name, AC_SHAPE(WIDTH), &one), 0);
}

static ac_tensor *block(ac_graph *graph, int layer, ac_tensor *x) {
  const ac_attention_desc attention = {.heads = HEADS};
  ac_tensor *a = norm(graph, "norm_1", layer, x);
  a = ac_linear(a, matrix(graph, "qkv", layer, 3 * WIDTH, WIDTH), NULL, AC_OUT_IN);
  a = ac_causal_attention(a, &attention);
  x = ac_add(x, ac_linear(a, matrix(graph, "out", layer, WIDTH, WIDTH), NULL, AC_OUT_IN));
  /* A gated MLP: silu(gate) x up. */
  a = norm(graph, "norm_2", layer, x);
  ac_tensor *gate = ac_linear(a, matrix(graph, "gate", layer, 2 * WIDTH, WIDTH), NULL, AC_OUT_IN),
            *up = ac_linear(a, matrix(graph, "up", layer, 2 * WIDTH, WIDTH), NULL, AC_OUT_IN);
  a = ac_multiply(ac_silu(gate), up);
  return ac_add(x, ac_linear(a, matrix(graph, "down", layer, WIDTH, 2 * WIDTH), NULL, AC_OUT_IN));
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *tokens = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, CONTEXT)),
            *targets = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, CONTEXT)),
            *table = matrix(graph, "tokens", LAYERS, VOCAB, WIDTH),
            *positions = matrix(graph, "positions", LAYERS, CONTEXT, WIDTH);
  ac_tensor *x = ac_add(ac_embedding(table, tokens), positions);
  for (int layer = 0; layer < LAYERS; layer++) x = block(graph, layer, x);
  x = norm(graph, "norm", LAYERS, x);
  /* The table of tokens is also the last layer. */
  ac_graph_set_loss(graph, ac_linear_cross_entropy(x, table, AC_OUT_IN, targets, NULL, NULL));
  ac_graph_set_output(graph, "logits", ac_linear(x, table, NULL, AC_OUT_IN));
  return ac_graph_status(graph);
}

static bool write_text(const char *path) {
  FILE *file = fopen(path, "w");
  bool good = file != NULL;
  for (int i = 0; i < 40 && good; i++) good = fputs(rhyme, file) >= 0;
  return file && fclose(file) == 0 && good;
}

/* The last tenth of the text validates. */
static ac_status train(const ac_graph *graph, ac_device *device, const char *text,
                       const char *model, double *loss) {
  const ac_plan_desc policy = {.batch = 8, .whole_windows = true};
  const ac_trainer_desc training = {
      .seed = 1,
      .schedule = {AC_SCHEDULE_COSINE, .lr = 5e-3, .warmup = 20, .total = STEPS},
      .optimizer = {.clip = 1}};
  ac_tokens *tokens = NULL;
  ac_dataset *data = NULL, *validation = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_fit_result result;
  ac_status status = ac_tokens_from_text(&tokens, text, 0);
  const int64_t count = ac_tokens_count(tokens), cut = count - count / 10;
  if (status == AC_OK) status = ac_dataset_from_tokens(&data, tokens, 0, cut, CONTEXT, true);
  if (status == AC_OK)
    status = ac_dataset_from_tokens(&validation, tokens, cut, count, CONTEXT, false);
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  const ac_fit_desc fit = {.train = data, .validation = validation, .steps = STEPS};
  if (status == AC_OK) status = ac_fit(trainer, &fit, &result);
  if (status == AC_OK) status = ac_trainer_save(trainer, model, NULL, 0);
  if (status == AC_OK) *loss = result.final.loss;
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_dataset_free(validation);
  ac_dataset_free(data);
  ac_tokens_free(tokens);
  return status;
}

/* Writes on after `text`, each time the likeliest letter. Positions after the last letter do not
 * matter: attention is causal, so they may hold anything. */
static ac_status sample(ac_session *session, char text[WRITTEN + 1], int length) {
  for (; length < WRITTEN; length++) {
    int32_t tokens[CONTEXT] = {0};
    float logits[VOCAB];
    const int begin = length > CONTEXT ? length - CONTEXT : 0, last = length - begin - 1;
    for (int i = begin; i < length; i++) tokens[i - begin] = (unsigned char)text[i];
    ac_status status = ac_session_run(session, 1, &(ac_feed){"tokens", tokens}, 1);
    if (status == AC_OK)
      status = ac_session_output(session, "logits", (int64_t)last * VOCAB, VOCAB, logits);
    if (status != AC_OK) return status;
    int best = 0;
    for (int i = 1; i < VOCAB; i++)
      if (logits[i] > logits[best]) best = i;
    text[length] = (char)best;
  }
  return AC_OK;
}

int main(void) {
  const char *path = "language_model.txt", *model = "language_model.safetensors";
  char text[WRITTEN + 1] = "three four";
  double loss = 100;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  if (!write_text(path)) {
    perror(path);
    return 1;
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = train(graph, device, path, model, &loss);
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.purpose = AC_PREDICT});
  if (status == AC_OK) status = ac_session_create(&session, plan, 0);
  if (status == AC_OK) status = ac_session_load(session, model, NULL);
  if (status == AC_OK) status = sample(session, text, (int)strlen(text));
  if (status != AC_OK) fprintf(stderr, "language_model: %s\n", ac_last_error());
  printf("loss on the last tenth %.3f\n%s\n", loss, text);
  remove(path);
  remove(model);
  ac_session_free(session);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && loss < 0.3 && strstr(text, "three four knock at the door\none two ")
             ? 0
             : 1;
}
