/* Weights from Hugging Face: a safetensors file has the names and shapes of another program. Three
 * cases: names that lack a prefix ("transformer."), as in the file of GPT-2, a table with more rows
 * than the model needs, and names that are quite different and are mapped one by one. The program
 * writes such files itself. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 10, ROWS = 8, LONG_ROWS = 32, WIDTH = 6 };

/* The model: token and position tables, and the token table again as output. */
static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc first = {.first_rows = true}; /* the file may have more rows */
  ac_tensor *tokens = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, ROWS)),
            *wte = ac_parameter(graph, "transformer.wte.weight", AC_SHAPE(VOCAB, WIDTH), NULL),
            *wpe = ac_parameter(graph, "transformer.wpe.weight", AC_SHAPE(ROWS, WIDTH), &first),
            *bias = ac_parameter(graph, "transformer.ln_f.bias", AC_SHAPE(WIDTH), NULL);
  ac_tensor *x = ac_add(ac_add(ac_embedding(wte, tokens), wpe), bias);
  ac_graph_set_output(graph, "scores", ac_linear(x, wte, NULL, AC_OUT_IN));
  return ac_graph_status(graph);
}

/* ---- writing a file as another program would ---------------------------------------------------
 */

/* What element `i` of tensor `index` is. */
static float element(int index, int64_t i) {
  return sinf((float)(i + 1) * (float)(index + 1));
}

/* Called for pieces of each tensor, so a program never needs all of a large one at once. */
static ac_status pull(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)user;
  for (int64_t i = 0; i < count; i++) ((float *)data)[i] = element(index, first + i);
  return AC_OK;
}

static ac_status write_file(const char *path, const char *token, const char *position,
                            const char *bias) {
  const ac_model_tensor tensors[] = {{token, AC_F32, 2, {VOCAB, WIDTH}},
                                     {position, AC_F32, 2, {LONG_ROWS, WIDTH}},
                                     {bias, AC_F32, 1, {WIDTH}}};
  const ac_metadata format = {"format", "pt"};
  return ac_model_file_write(path, tensors, 3, &format, 1, pull, NULL);
}

/* ---- reading it --------------------------------------------------------------------------------
 */

/* Reads each tensor by the name that it has in the file and sets the parameter of the model. */
static ac_status load_mapped(ac_session *session, const char *path) {
  static const struct {
    const char *theirs, *ours;
    int64_t count;
  } map[] = {{"model.embed_tokens.weight", "transformer.wte.weight", VOCAB * WIDTH},
             {"model.embed_positions.weight", "transformer.wpe.weight", ROWS * WIDTH},
             {"model.norm.bias", "transformer.ln_f.bias", WIDTH}};
  float buffer[VOCAB * WIDTH];
  ac_model_file *file = NULL;
  ac_status status = ac_model_file_open(&file, path);
  if (status != AC_OK) return status;
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const ac_model_tensor *t = ac_model_file_tensor(file, i);
    printf("  %s: %s, %lld rows of %zu bytes\n", t->name, ac_dtype_name(t->dtype),
           (long long)t->shape[0], ac_dtype_bytes(t->dtype) * (t->rank > 1 ? WIDTH : 1));
  }
  for (size_t i = 0; i < sizeof map / sizeof map[0] && status == AC_OK; i++) {
    const int index = ac_model_file_find(file, map[i].theirs);
    if (index < 0) {
      fprintf(stderr, "hugging_face: %s has no tensor %s\n", path, map[i].theirs);
      status = AC_ERROR_FORMAT;
      break;
    }
    status = ac_model_file_read(file, index, 0, map[i].count, buffer); /* converts 16 bits */
    if (status == AC_OK)
      status = ac_session_set_parameter(session, map[i].ours, 0, map[i].count, buffer);
  }
  ac_model_file_close(file);
  return status;
}

static ac_status scores(ac_session *session, float result[VOCAB]) {
  const int32_t tokens[ROWS] = {3, 1, 4, 1, 5, 9, 2, 6};
  ac_status status = ac_session_run(session, 1, &(ac_feed){"tokens", tokens}, 1);
  return status == AC_OK ? ac_session_output(session, "scores", 0, VOCAB, result) : status;
}

int main(void) {
  const char *gpt = "hugging_face_gpt.safetensors", *other = "hugging_face_other.safetensors";
  float one[VOCAB] = {0}, two[VOCAB] = {1};
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  const ac_plan_desc policy = {.purpose = AC_PREDICT};
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_session_create(&session, plan, 0);
  if (status == AC_OK) status = write_file(gpt, "wte.weight", "wpe.weight", "ln_f.bias");
  if (status == AC_OK)
    status = write_file(other, "model.embed_tokens.weight", "model.embed_positions.weight",
                        "model.norm.bias");
  /* The same names, but without the prefix: one call. */
  if (status == AC_OK) status = ac_session_load(session, gpt, "transformer.");
  if (status == AC_OK) status = scores(session, one);
  /* Other names: one by one. */
  if (status == AC_OK) printf("%s has\n", other);
  if (status == AC_OK) status = load_mapped(session, other);
  if (status == AC_OK) status = scores(session, two);
  if (status != AC_OK) fprintf(stderr, "hugging_face: %s\n", ac_last_error());

  double expected = 0; /* of token 0 at position 0, by hand */
  for (int c = 0; c < WIDTH; c++)
    expected +=
        (double)((element(0, 3 * WIDTH + c) + element(1, c) + element(2, c)) * element(0, c));
  printf("score %.5f, by the other file %.5f, by hand %.5f\n", (double)one[0], (double)two[0],
         expected);
  remove(gpt);
  remove(other);
  ac_session_free(session);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && memcmp(one, two, sizeof one) == 0 &&
                 fabs((double)one[0] - expected) < 1e-4
             ? 0
             : 1;
}
