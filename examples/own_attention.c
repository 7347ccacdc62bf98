/* Attention from parts: products, softmax, slices and transposed tensors give attention that looks
 * both ways. ac_attention does that without the table of all pairs. Each number of a row is to be
 * replaced by the number of rows elsewhere that are equal to it, which needs a look at all of them.
 */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { LENGTH = 8, VOCAB = 4, WIDTH = 16, HEADS = 2, HEAD = WIDTH / HEADS, ROWS = 64 };
enum { UPDATES = 400 };

static ac_tensor *matrix(ac_graph *graph, const char *name, int64_t out, int64_t in) {
  const ac_parameter_desc spread = {.init = {AC_INIT_NORMAL, .deviation = 0.25f}};
  return ac_parameter(graph, name, AC_SHAPE(out, in), &spread);
}

/* One third of qkv [B, T, 3C] as heads: [B, H, T, C / H]. */
static ac_tensor *heads(ac_tensor *qkv, int third) {
  ac_tensor *x = ac_slice(qkv, 2, third * WIDTH, WIDTH);
  return ac_transpose(ac_reshape(x, AC_SHAPE(AC_BATCH, LENGTH, HEADS, HEAD)), 1, 2);
}

/* softmax(Q K^T / sqrt(C / H)) V of each head, [B, T, C]. */
static ac_tensor *attention(ac_tensor *qkv) {
  ac_tensor *q = heads(qkv, 0), *k = heads(qkv, 1), *v = heads(qkv, 2);
  ac_tensor *scores = ac_scale(ac_matmul(q, k, false, true), 1 / sqrtf(HEAD));
  ac_tensor *x = ac_matmul(ac_softmax(scores), v, false, false);
  return ac_reshape(ac_transpose(x, 1, 2), AC_SHAPE(AC_BATCH, LENGTH, WIDTH));
}

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}};
  ac_tensor *tokens = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *counts = ac_input(graph, "counts", AC_I32, AC_SHAPE(AC_BATCH, LENGTH)),
            *gamma = ac_parameter(graph, "gamma", AC_SHAPE(WIDTH), &one),
            *beta = ac_parameter(graph, "beta", AC_SHAPE(WIDTH), NULL);
  ac_tensor *x = ac_embedding(matrix(graph, "tokens", VOCAB, WIDTH), tokens);
  ac_tensor *qkv = ac_linear(x, matrix(graph, "qkv", 3 * WIDTH, WIDTH), NULL, AC_OUT_IN);
  x = ac_layer_norm(ac_add(x, attention(qkv)), gamma, beta, 0);
  x = ac_gelu(ac_linear(x, matrix(graph, "up", 4 * WIDTH, WIDTH), NULL, AC_OUT_IN), AC_GELU_ERF);
  x = ac_linear(x, matrix(graph, "down", LENGTH, 4 * WIDTH), NULL, AC_OUT_IN);
  ac_tensor_info info;
  ac_tensor_get_info(x, &info);
  printf("logits: [batch, %lld, %lld]\n", (long long)info.shape[1], (long long)info.shape[2]);
  ac_graph_set_loss(graph, ac_cross_entropy(x, counts, NULL, NULL));
  return ac_graph_status(graph);
}

static void make_rows(int32_t tokens[ROWS][LENGTH], int32_t counts[ROWS][LENGTH], uint32_t *state) {
  for (int row = 0; row < ROWS; row++) {
    for (int i = 0; i < LENGTH; i++) {
      *state = *state * 1664525u + 1013904223u;
      tokens[row][i] = (int32_t)(*state >> 30);
    }
    for (int i = 0; i < LENGTH; i++) {
      counts[row][i] = -1; /* itself */
      for (int k = 0; k < LENGTH; k++) counts[row][i] += tokens[row][k] == tokens[row][i];
    }
  }
}

/* What the graph is made of: inputs and parameters with their shapes. */
static void print_graph(const ac_graph *graph) {
  ac_tensor_info info;
  for (int i = 0; i < ac_graph_input_count(graph); i++)
    if (ac_graph_input(graph, i, &info) == AC_OK)
      printf("input %s: %s, %lld values for each sample\n", info.name, ac_dtype_name(info.dtype),
             (long long)info.shape[1]);
  for (int i = 0; i < ac_graph_parameter_count(graph); i++)
    if (ac_graph_parameter(graph, i, &info) == AC_OK) {
      printf("parameter %s:", info.name);
      for (int d = 0; d < info.rank; d++) printf(" %lld", (long long)info.shape[d]);
      printf("\n");
    }
}

/* The first mistake stays with the graph, so a model is built without a check after each line. */
static bool finds_mistake(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return false;
  ac_tensor *a = ac_input(graph, "a", AC_F32, AC_SHAPE(AC_BATCH, 3)),
            *b = ac_input(graph, "b", AC_F32, AC_SHAPE(AC_BATCH, 4)), *sum = ac_add(a, b);
  ac_graph_set_output(graph, "sum", ac_relu(sum)); /* sum is NULL here, which is fine */
  printf("a mistake: %s\n", ac_graph_message(graph));
  const bool found = ac_graph_status(graph) == AC_ERROR_ARGUMENT && sum == NULL;
  ac_graph_free(graph);
  return found;
}

int main(void) {
  static int32_t tokens[ROWS][LENGTH], counts[ROWS][LENGTH];
  const ac_feed feeds[] = {{"tokens", tokens}, {"counts", counts}};
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_update result = {.loss = INFINITY};
  uint32_t state = 1;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) print_graph(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = ROWS});
  if (status == AC_OK)
    status =
        ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 1, .schedule = {.lr = 0.01}});
  for (int update = 0; update < UPDATES && status == AC_OK; update++) {
    make_rows(tokens, counts, &state); /* new rows each time */
    status = ac_trainer_accumulate(trainer, ROWS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, &result);
  }
  if (status == AC_OK)
    printf("loss %.3f, %.1f %% are right\n", result.loss, 100 * result.losses[0].accuracy);
  else fprintf(stderr, "own_attention: %s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return finds_mistake() && status == AC_OK && result.loss < 0.2 && result.losses[0].accuracy > 0.95
             ? 0
             : 1;
}
