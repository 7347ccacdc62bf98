/* A step of diffusion; arXiv 2006.11239. Images are mixed with noise, more of it at later steps,
 * and a small U-Net that is told the step learns to say which noise it was. */
#include "recipe.h"

enum { IMAGES = 16, SIZE = 8, STEPS = 6, CHANNELS = 8, UPDATES = 150 };

static float image[IMAGES][SIZE][SIZE], noise[IMAGES][SIZE][SIZE], kept[IMAGES];
static int32_t step[IMAGES];

/* A dark and a bright half, upright or lying. */
static void fill(void) {
  for (int i = 0; i < IMAGES; i++) {
    const int upright = draw() > 0;
    const float bright = draw() > 0 ? 1 : -1;
    for (int y = 0; y < SIZE; y++)
      for (int x = 0; x < SIZE; x++)
        image[i][y][x] = (upright ? x : y) < SIZE / 2 ? bright : -bright;
    for (int k = 0; k < SIZE * SIZE; k++) noise[i][k / SIZE][k % SIZE] = 1.5f * draw();
    step[i] = (int32_t)((draw() + 1) / 2 * STEPS);
    kept[i] = 1 - (float)(step[i] + 1) / (STEPS + 1); /* of the image's variance */
  }
}

static ac_tensor *convolve(ac_graph *graph, const char *name, ac_tensor *x, int channels,
                           int stride) {
  const ac_conv2d_layer_desc desc = {
      .convolution = {.stride = {stride, stride}, .padding = {1, 1}}};
  return ac_conv2d_layer(graph, name, x, channels, 3, &desc);
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *clean = ac_input(graph, "image", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)),
            *mixed_in = ac_input(graph, "noise", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)),
            *share = ac_input(graph, "kept", AC_F32, AC_SHAPE(AC_BATCH, 1, 1, 1)),
            *when = ac_input(graph, "step", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *parts[] = {clean, mixed_in, share};
  ac_tensor *noisy = ac_formula(graph, "sqrt(c) * a + sqrt(1 - c) * b", parts, 3);
  ac_tensor *told = ac_embedding_layer(graph, "step", when, STEPS, CHANNELS, NULL);
  told = ac_reshape(told, AC_SHAPE(AC_BATCH, CHANNELS, 1, 1));
  ac_tensor *full = ac_silu(ac_add(convolve(graph, "first", noisy, CHANNELS, 1), told));
  ac_tensor *half = ac_silu(convolve(graph, "down", full, CHANNELS, 2));
  half = ac_layer_norm_over(half, NULL, NULL, AC_AXES(-3, -2, -1), 0);
  const ac_resize2d_desc twice = {.kind = AC_RESIZE_BILINEAR, .factor = {2, 2}};
  ac_tensor *said = convolve(graph, "last", ac_add(full, ac_resize2d(half, &twice)), 1, 1);
  ac_graph_set_loss(graph, ac_mean_squared_error(said, mixed_in, NULL));
  const ac_feed feeds[] = {{"image", image}, {"noise", noise}, {"kept", kept}, {"step", step}};
  return train_recipe("diffusion", graph, IMAGES, UPDATES, 0.05, feeds, 4, fill, 0.250728235);
}
