/* A network is trained in floats. Then its matrices are frozen in blocks, and small matrices next
 * to them learn another task (LoRA). What the blocks take, how far they are from the floats, and
 * what is learned next to them.
 *
 *   frozen_blocks [MODEL.gguf]     with a GGUF file: also which of its tensors are in such blocks
 */
#include <accrue/accrue.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { IN = 64, HIDDEN = 128, CLASSES = 4, POINTS = 512, RANK = 4, UPDATES = 150 };

static float x[POINTS * IN];
static int32_t labels[POINTS];

/* Labels by the signs of two sums; the second task adds up other inputs. */
static void make_points(int task) {
  uint64_t state = 7;
  for (int i = 0; i < POINTS; i++) {
    float *row = x + i * IN, a = 0, b = 0;
    for (int k = 0; k < IN; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      row[k] = (float)(state >> 40) * 0x1p-23f - 1;
    }
    for (int k = 0; k < 4; k++) a += row[k + task], b += row[k + 8 + task];
    labels[i] = 2 * (a > 0) + (b > 0);
  }
}

/* x W, and next to it (x A) B where it is frozen. */
static ac_tensor *layer(ac_graph *graph, ac_tensor *input, const char *name, int64_t in,
                        int64_t out, const ac_blocks *blocks) {
  char a[32], b[32];
  const ac_parameter_desc matrix = {.init = {.kind = AC_INIT_KAIMING_UNIFORM},
                                    .frozen = blocks != NULL,
                                    .blocks = blocks ? *blocks : AC_BLOCKS_NONE},
                          small = {.init = {.kind = AC_INIT_KAIMING_UNIFORM}},
                          zero = {.init = {.kind = AC_INIT_ZERO}};
  ac_tensor *y =
      ac_linear(input, ac_parameter(graph, name, AC_SHAPE(out, in), &matrix), NULL, AC_OUT_IN);
  if (!blocks) return y;
  snprintf(a, sizeof a, "%s.a", name);
  snprintf(b, sizeof b, "%s.b", name);
  ac_tensor *low =
      ac_linear(input, ac_parameter(graph, a, AC_SHAPE(RANK, in), &small), NULL, AC_OUT_IN);
  return ac_add(
      y, ac_linear(low, ac_parameter(graph, b, AC_SHAPE(out, RANK), &zero), NULL, AC_OUT_IN));
}

static ac_status train(ac_device *device, const ac_blocks *blocks, const char *load,
                       const char *save, double *loss) {
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_update update = {.loss = INFINITY};
  const ac_plan_desc policy = {.batch = POINTS};
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 1e-2}};
  const ac_feed feeds[] = {{"x", x}, {"labels", labels}};
  ac_status status = ac_graph_create(&graph);
  if (status != AC_OK) return status;
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, IN));
  ac_tensor *of = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *h = ac_relu(layer(graph, in, "first", IN, HIDDEN, blocks));
  h = layer(graph, h, "second", HIDDEN, CLASSES, blocks);
  ac_graph_set_loss(graph, ac_cross_entropy(h, of, NULL, NULL));
  status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK && load) status = ac_trainer_load_part(trainer, load, "first,second", NULL);
  for (int i = 0; i < UPDATES && status == AC_OK; i++) {
    status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, &update);
  }
  if (status == AC_OK && save) status = ac_trainer_save(trainer, save, NULL, 0);
  if (status == AC_OK)
    printf("%-6s %6llu bytes of matrices, loss %.3f\n", blocks ? ac_blocks_name(*blocks) : "floats",
           (unsigned long long)(blocks && *blocks ? ac_plan_get_info(plan)->blocks_bytes
                                                  : (IN + CLASSES) * HIDDEN * sizeof(float)),
           update.loss);
  *loss = update.loss;
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(graph);
  return status;
}

/* Which tensors of a file are in blocks that parameters can have, and the bytes of one block. */
static ac_status list(const char *path) {
  ac_model_file *file;
  unsigned char block[64];
  ac_status status = ac_model_file_open(&file, path);
  for (int i = 0; i < ac_model_file_tensor_count(file) && status == AC_OK; i++) {
    const ac_blocks blocks = ac_model_file_blocks(file, i);
    const int elements = ac_blocks_elements(blocks);
    if (!blocks) continue;
    status = ac_model_file_read_blocks(file, i, 0, elements, block);
    printf("%s: %s, %lld bytes for each %d elements\n", ac_model_file_tensor(file, i)->name,
           ac_blocks_name(blocks), (long long)ac_blocks_bytes(blocks, elements), elements);
  }
  ac_model_file_close(file);
  return status;
}

int main(int argc, char **argv) {
  static const ac_blocks formats[] = {AC_BLOCKS_NONE, AC_BLOCKS_Q8_0, AC_BLOCKS_Q4_0,
                                      AC_BLOCKS_Q4_1, AC_BLOCKS_NF4};
  const char *path = "frozen_blocks.safetensors";
  double floats = 0, loss = 0;
  ac_device *device = NULL;
  ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu"});
  make_points(0);
  if (status == AC_OK) status = train(device, NULL, NULL, path, &floats);
  make_points(2);
  bool near = true; /* what is learned with blocks is as good as with floats */
  for (size_t i = 0; i < sizeof formats / sizeof *formats && status == AC_OK; i++) {
    status = train(device, &formats[i], path, NULL, i ? &loss : &floats);
    if (i) near &= fabs(loss - floats) < 0.1;
  }
  if (argc > 1 && status == AC_OK) status = list(argv[1]);
  if (status != AC_OK) fprintf(stderr, "%s\n", ac_last_error());
  remove(path);
  ac_device_close(device);
  return status == AC_OK && near ? 0 : 1;
}
