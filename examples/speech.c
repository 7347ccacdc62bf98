/* Toy speech: each letter sounds for a few frames, nobody says for how many, and words have unequal
 * lengths. CTC learns the letters from the words alone. */
#include "recipe.h"

enum { WORDS = 16, FRAMES = 20, BANDS = 4, LETTERS = 3, LONGEST = 4, WIDTH = 16, UPDATES = 200 };

static float sound[WORDS][FRAMES][BANDS];
static int32_t letter[WORDS][LONGEST], frames[WORDS], letters[WORDS];

static int drawn_below(int n) {
  return (int)((draw() + 1) / 2 * (float)n);
}

/* Letter k is loud in band k; the last band is loud between letters. */
static void fill(void) {
  for (int i = 0; i < WORDS; i++) {
    int t = 0;
    letters[i] = 2 + drawn_below(LONGEST - 1);
    for (int k = 0; k < LONGEST; k++) letter[i][k] = 1 + drawn_below(LETTERS); /* 0: the blank */
    for (int b = 0; b < FRAMES * BANDS; b++) sound[i][b / BANDS][b % BANDS] = draw() / 4;
    for (int k = 0; k < letters[i]; k++) {
      const int long_for = 2 + drawn_below(3);
      for (int e = 0; e < long_for; e++) sound[i][t++][letter[i][k] - 1] += 1;
      sound[i][t++][BANDS - 1] += 1;
    }
    frames[i] = t;
  }
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *in = ac_input(graph, "sound", AC_F32, AC_SHAPE(AC_BATCH, FRAMES, BANDS)),
            *word = ac_input(graph, "letter", AC_I32, AC_SHAPE(AC_BATCH, LONGEST)),
            *long_in = ac_input(graph, "frames", AC_I32, AC_SHAPE(AC_BATCH)),
            *long_out = ac_input(graph, "letters", AC_I32, AC_SHAPE(AC_BATCH));
  /* Each frame with its neighbours: a convolution over time, with the bands as its width. */
  ac_tensor *weight = ac_parameter(graph, "near.weight", AC_SHAPE(WIDTH, 1, 3, BANDS), NULL),
            *bias = ac_parameter(graph, "near.bias", AC_SHAPE(WIDTH), NULL);
  const ac_conv2d_desc along = {.padding = {1, 0}};
  ac_tensor *x = ac_reshape(in, AC_SHAPE(AC_BATCH, 1, FRAMES, BANDS));
  x = ac_reshape(ac_conv2d(x, weight, bias, &along), AC_SHAPE(AC_BATCH, WIDTH, FRAMES));
  x = ac_tanh(ac_transpose(x, 1, 2));
  ac_tensor *logits = ac_dense(graph, "out", x, 1 + LETTERS, NULL);
  ac_graph_set_loss(graph, ac_ctc_loss(logits, word, long_in, long_out, NULL, NULL));
  const ac_feed feeds[] = {
      {"sound", sound}, {"letter", letter}, {"frames", frames}, {"letters", letters}};
  return train_recipe("speech", graph, WORDS, UPDATES, 0.1, feeds, 4, fill, 0.0287358447);
}
