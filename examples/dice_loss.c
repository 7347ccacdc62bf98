/* Which pixels belong to a disc, in noise: a U-net, which goes down to half the size by a stride
 * and up again by a transposed convolution. The Dice loss compares areas, so that a small disc
 * counts as much as the background around it. */
#include "recipe.h"

enum { IMAGES = 8, SIZE = 16, CHANNELS = 6, UPDATES = 150 };

static float noisy[IMAGES][SIZE][SIZE], disc[IMAGES][SIZE][SIZE];

static void fill(void) {
  for (int n = 0; n < IMAGES; n++) {
    const float row = 8 + 5 * draw(), column = 8 + 5 * draw();
    for (int i = 0; i < SIZE; i++)
      for (int j = 0; j < SIZE; j++) {
        const float y = (float)i - row, x = (float)j - column;
        disc[n][i][j] = x * x + y * y < 9;
        noisy[n][i][j] = disc[n][i][j] + draw();
      }
  }
}

/* 1 - (2 |A and B| + 1) / (|A| + |B| + 1) of each image. */
static ac_tensor *dice_loss(ac_tensor *logits, ac_tensor *target) {
  ac_tensor *p = ac_sigmoid(logits);
  ac_tensor *both = ac_sum(ac_multiply(p, target), AC_ALL_AXES, false);
  ac_tensor *sizes = ac_add(ac_sum(p, AC_ALL_AXES, false), ac_sum(target, AC_ALL_AXES, false));
  ac_tensor *overlap = ac_divide(ac_add_scalar(ac_scale(both, 2), 1), ac_add_scalar(sizes, 1));
  return ac_loss(ac_add_scalar(ac_scale(overlap, -1), 1), NULL);
}

static ac_tensor *u_net(ac_graph *graph, ac_tensor *x) {
  const ac_conv2d_layer_desc same = {.convolution = {.same = true}},
                             half = {.convolution = {.stride = {2, 2}, .padding = {1, 1}}};
  const ac_conv_transpose2d_layer_desc twice = {.convolution = {.stride = {2, 2}}};
  ac_tensor *full = ac_tanh(ac_conv2d_layer(graph, "in", x, CHANNELS, 3, &same));
  ac_tensor *down = ac_tanh(ac_conv2d_layer(graph, "down", full, 2 * CHANNELS, 3, &half));
  ac_tensor *up = ac_tanh(ac_conv_transpose2d_layer(graph, "up", down, CHANNELS, 2, &twice));
  ac_tensor *parts[] = {full, up};
  return ac_conv2d_layer(graph, "out", ac_concat(graph, parts, 2, 1), 1, 3, &same);
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *x = ac_input(graph, "noisy", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)),
            *target = ac_input(graph, "disc", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE));
  ac_graph_set_loss(graph, dice_loss(u_net(graph, x), target));
  const ac_feed feeds[] = {{"noisy", noisy}, {"disc", disc}};
  return train_recipe("dice_loss", graph, IMAGES, UPDATES, 1, feeds, 2, fill, 0.0844652291);
}
