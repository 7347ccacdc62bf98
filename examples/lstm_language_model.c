/* A language model of an LSTM that reads a text in windows, and begins each of them with the state
 * in which it left the one before. States are inputs, which the windows' final states are copied
 * to: gradients end where a window begins, but what the model remembers does not. */
#include "recipe.h"

enum { TRACKS = 8, LETTERS = 8, VOCAB = 27, WIDTH = 8, UNITS = 12, UPDATES = 150 };

static const char rhyme[] = "one two buckle my shoe three four knock at the door ";

static int32_t tokens[TRACKS][LETTERS], targets[TRACKS][LETTERS];
static float hidden[TRACKS][UNITS], cell[TRACKS][UNITS];

static int letter(int at) {
  const char c = rhyme[at % (int)(sizeof rhyme - 1)];
  return c == ' ' ? 26 : c - 'a';
}

/* Each sample of a window goes on where it ended in the window before. */
static void fill(void) {
  static int window;
  for (int i = 0; i < TRACKS; i++)
    for (int t = 0; t < LETTERS; t++) {
      const int at = 6 * i + LETTERS * window + t;
      tokens[i][t] = letter(at), targets[i][t] = letter(at + 1);
    }
  window++;
}

static ac_tensor *build(ac_graph *graph) {
  ac_recurrent_state last;
  const ac_recurrent_layer_desc desc = {
      .initial = {ac_input(graph, "hidden", AC_F32, AC_SHAPE(AC_BATCH, 1, UNITS)),
                  ac_input(graph, "cell", AC_F32, AC_SHAPE(AC_BATCH, 1, UNITS))}};
  ac_tensor *x = ac_input(graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, LETTERS));
  x = ac_embedding_layer(graph, "letters", x, VOCAB, WIDTH, NULL);
  x = ac_lstm_layer(graph, "lstm", x, UNITS, &desc, &last);
  ac_graph_set_output(graph, "last hidden", last.hidden);
  ac_graph_set_output(graph, "last cell", last.cell);
  /* No loss depends on the final states, so a metric has windows compute them. */
  ac_tensor *ends[] = {last.hidden, last.cell},
            *begins[] = {desc.initial.hidden, desc.initial.cell};
  ac_tensor *moved =
      ac_mean_squared_error(ac_concat(graph, ends, 2, 1), ac_concat(graph, begins, 2, 1), NULL);
  ac_graph_add_metric(graph, "state moved", moved, AC_METRIC_MEAN);
  return ac_dense(graph, "out", x, VOCAB, NULL);
}

/* What a window leaves is where the next one is fed from. */
static ac_status carry(ac_trainer *trainer) {
  static ac_tensor_buffer of_hidden = {&hidden[0][0], TRACKS * UNITS},
                          of_cell = {&cell[0][0], TRACKS * UNITS};
  const ac_status status =
      ac_trainer_watch_tensor(trainer, "last hidden", ac_keep_tensor, &of_hidden);
  if (status != AC_OK) return status;
  return ac_trainer_watch_tensor(trainer, "last cell", ac_keep_tensor, &of_cell);
}

static void begin_or_fill(void) {
  static bool begun;
  if (!begun && carry(recipe_trainer) != AC_OK) fprintf(stderr, "%s\n", ac_last_error());
  begun = true;
  fill();
}

int main(void) {
  ac_graph *graph = NULL;
  if (ac_graph_create(&graph) != AC_OK) return 1;
  ac_tensor *logits = build(graph),
            *next = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, LETTERS));
  ac_graph_set_loss(graph, ac_cross_entropy(logits, next, NULL, NULL));
  const ac_feed feeds[] = {
      {"tokens", tokens}, {"targets", targets}, {"hidden", hidden}, {"cell", cell}};
  return train_recipe("lstm_language_model", graph, TRACKS, UPDATES, 1, feeds, 4, begin_or_fill,
                      0.63950642);
}
