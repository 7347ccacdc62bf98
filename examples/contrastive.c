/* As CLIP: two encoders, of images and of texts, learn that what belongs together has one
 * direction. A sample is a group of pairs, and each pair has to be told from the others of its
 * group. */
#include "recipe.h"

enum { GROUPS = 4, PAIRS = 8, IMAGE = 6, TEXT = 5, WIDTH = 8, UPDATES = 200 };

static float image[GROUPS][PAIRS][IMAGE], text[GROUPS][PAIRS][TEXT];

/* An image and its text share two numbers. */
static void fill(void) {
  for (int i = 0; i < GROUPS * PAIRS; i++) {
    const float a = draw(), b = draw();
    for (int k = 0; k < IMAGE; k++) image[i / PAIRS][i % PAIRS][k] = (k % 2 ? a : b) + draw() / 4;
    for (int k = 0; k < TEXT; k++) text[i / PAIRS][i % PAIRS][k] = (k < 2 ? a : -b) + draw() / 4;
  }
}

static ac_tensor *encoder(ac_graph *graph, const char *hidden, const char *out, ac_tensor *in) {
  return ac_dense(graph, out, ac_tanh(ac_dense(graph, hidden, in, 16, NULL)), WIDTH, NULL);
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *images = ac_input(graph, "image", AC_F32, AC_SHAPE(AC_BATCH, PAIRS, IMAGE)),
            *texts = ac_input(graph, "text", AC_F32, AC_SHAPE(AC_BATCH, PAIRS, TEXT));
  ac_tensor *a = encoder(graph, "image.hidden", "image.out", images),
            *b = encoder(graph, "text.hidden", "text.out", texts);
  ac_graph_set_loss(graph, ac_contrastive_loss(a, b, NULL, 0.2f));
  const ac_feed feeds[] = {{"image", image}, {"text", text}};
  return train_recipe("contrastive", graph, GROUPS, UPDATES, 0.2, feeds, 2, fill, 0.876476293);
}
