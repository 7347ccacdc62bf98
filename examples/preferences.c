/* Preferences: a small model of sequences learns, from pairs of answers, to prefer the first to the
 * second (DPO). An adapter is trained; the model without it is the reference, in the same graph. */
#include <accrue/accrue.h>
#include <stdio.h>

enum { TOKENS = 12, T = 6, WIDTH = 16, PAIRS = 32, UPDATES = 60 };

typedef struct answers {
  int32_t tokens[PAIRS][T], targets[PAIRS][T];
  float weights[PAIRS][T]; /* 1 where the target belongs to the answer */
} answers;

static answers chosen, rejected;

/* A prompt of three tokens, then three that count on from it, or that do not. */
static void make_pairs(void) {
  for (int i = 0; i < PAIRS; i++)
    for (int t = 0; t < T; t++) {
      const int token = i + t, other = t < 3 ? token : i + 2 * t + 1, next = i + t + 1,
                wrong = t < 2 ? next : i + 2 * t + 3;
      chosen.tokens[i][t] = token % TOKENS;
      chosen.targets[i][t] = next % TOKENS;
      rejected.tokens[i][t] = other % TOKENS;
      rejected.targets[i][t] = wrong % TOKENS;
      chosen.weights[i][t] = rejected.weights[i][t] = t >= 2;
    }
}

/* ---- the graph ------------------------------------------------------------------------------- */

typedef struct parameters {
  ac_tensor *table, *hidden, *head;
} parameters;

static ac_tensor *body(ac_graph *graph, const parameters *p, ac_tensor *tokens,
                       const ac_lora_desc *lora) {
  ac_tensor *x = ac_embedding(p->table, tokens);
  return ac_tanh(ac_lora_linear(graph, "hidden", x, p->hidden, NULL, AC_OUT_IN, lora));
}

/* By how much the logarithm of the answer's probability is above the reference's: [B]. */
static ac_tensor *log_ratio(ac_graph *graph, const parameters *p, const char *answer,
                            const ac_lora_desc *lora) {
  char name[3][32];
  static const char *const fields[] = {"tokens", "targets", "weights"};
  for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "%s_%s", answer, fields[i]);
  ac_tensor *tokens = ac_input(graph, name[0], AC_I32, AC_SHAPE(AC_BATCH, T)),
            *targets = ac_input(graph, name[1], AC_I32, AC_SHAPE(AC_BATCH, T)),
            *weights = ac_input(graph, name[2], AC_F32, AC_SHAPE(AC_BATCH, T));
  ac_tensor *reference = ac_linear_log_probability(body(graph, p, tokens, NULL), p->head, AC_OUT_IN,
                                                   targets, weights, NULL, 0);
  ac_tensor *ratio = ac_linear_log_probability(body(graph, p, tokens, lora), p->head, AC_OUT_IN,
                                               targets, weights, reference, 0);
  return ac_sum(ratio, AC_AXES(1), false);
}

static void describe(ac_graph *graph) {
  const ac_lora_desc lora = {.rank = 4};
  const ac_parameter_desc frozen = {.frozen = true};
  const parameters p = {ac_parameter(graph, "table", AC_SHAPE(TOKENS, WIDTH), &frozen),
                        ac_parameter(graph, "hidden.weight", AC_SHAPE(WIDTH, WIDTH), &frozen),
                        ac_parameter(graph, "head", AC_SHAPE(TOKENS, WIDTH), &frozen)};
  ac_tensor *first = log_ratio(graph, &p, "chosen", &lora),
            *second = log_ratio(graph, &p, "rejected", &lora);
  ac_graph_set_output(graph, "margin", ac_subtract(first, second));
  ac_graph_set_loss(graph,
                    ac_dpo_loss(first, second, NULL, NULL, NULL, &(ac_dpo_desc){.beta = 0.5f}));
}

/* ---------------------------------------------------------------------------------------------- */

static ac_status train(ac_trainer *trainer, const ac_feed *feeds, double *first, double *last) {
  ac_update update = {0};
  ac_status status = AC_OK;
  for (int i = 0; i < UPDATES && status == AC_OK; i++) {
    status = ac_trainer_accumulate(trainer, PAIRS, feeds, 6);
    if (status == AC_OK) status = ac_trainer_update(trainer, &update);
    if (i == 0) *first = update.loss;
    *last = update.loss;
  }
  return status;
}

int main(void) {
  float margins[PAIRS] = {0};
  double first = 0, last = 0;
  int preferred = 0;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  make_pairs();
  const ac_feed feeds[] = {
      {"chosen_tokens", chosen.tokens},       {"chosen_targets", chosen.targets},
      {"chosen_weights", chosen.weights},     {"rejected_tokens", rejected.tokens},
      {"rejected_targets", rejected.targets}, {"rejected_weights", rejected.weights}};
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = PAIRS});
  if (status == AC_OK)
    status =
        ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 0.02}});
  if (status == AC_OK) status = train(trainer, feeds, &first, &last);
  if (status == AC_OK)
    status = ac_trainer_predict(trainer, "margin", PAIRS, feeds, 6, PAIRS, margins);
  if (status != AC_OK) fprintf(stderr, "preferences: %s\n", ac_last_error());
  for (int i = 0; i < PAIRS; i++) preferred += margins[i] > 0;
  printf("loss %.4f, then %.4f; %d of %d pairs are preferred as they should\n", first, last,
         preferred, PAIRS);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && preferred == PAIRS && last < 0.3 ? 0 : 1;
}
