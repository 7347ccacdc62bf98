/* How fast a signal changes, whatever the noise and wherever it begins: a convolutional network of
 * lines. */
#include "recipe.h"

enum { SIGNALS = 32, LENGTH = 48, CLASSES = 3, CHANNELS = 8, UPDATES = 150 };

static float signal[SIGNALS][LENGTH];
static int32_t period[SIGNALS];

/* Up for 2, 3 or 4 steps, then down for as many. */
static void fill(void) {
  for (int n = 0; n < SIGNALS; n++) {
    const int half = 2 + n % CLASSES, phase = (int)(4 * (draw() + 1));
    period[n] = n % CLASSES;
    for (int i = 0; i < LENGTH; i++)
      signal[n][i] = ((i + phase) / half % 2 ? 1.0f : -1.0f) + draw();
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *x = ac_input(graph, "signal", AC_F32, AC_SHAPE(AC_BATCH, 1, LENGTH)),
            *target = ac_input(graph, "period", AC_I32, AC_SHAPE(AC_BATCH));
  const ac_conv1d_layer_desc same = {.convolution = {.same = true}};
  const ac_pool1d_desc twos = {.kernel = 2}, threes = {.kernel = 3, .stride = 2, .ceil = true};
  x = ac_tanh(ac_conv1d_layer(graph, "first", x, CHANNELS, 5, &same));
  x = ac_average_pool1d(x, &twos);
  x = ac_tanh(ac_conv1d_layer(graph, "second", x, CHANNELS, 4, &same));
  x = ac_global_average_pool(ac_max_pool1d(x, &threes));
  ac_tensor *logits = ac_dense(graph, "out", x, CLASSES, NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, target, NULL, NULL));
  const ac_feed feeds[] = {{"signal", signal}, {"period", period}};
  return train_recipe("signals", graph, SIGNALS, UPDATES, 0.3, feeds, 2, fill, 0.0186633929);
}
