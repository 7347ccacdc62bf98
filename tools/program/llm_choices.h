/* Questions with several answers and one right one: `accrue eval` says how often the model
 * finds the right one the likeliest. */
#ifndef TOOLS_PROGRAM_LLM_CHOICES_H
#define TOOLS_PROGRAM_LLM_CHOICES_H

#include <accrue/dataset.h>
#include <accrue/session.h>
#include <accrue/tokenizer.h>

/* An answer of a question: tokens of the question and of the answer after a blank. */
typedef struct llm_choice {
  int32_t *tokens;
  int64_t count, first; /* the first token of the answer */
  int64_t bytes;        /* of the answer's text */
  int question;
  bool right;
} llm_choice;

typedef struct llm_choices {
  llm_choice *list;
  int64_t count, capacity, context; /* context: most tokens that a sample predicts */
  int questions;
} llm_choices;

/* Whether the first object of a file of JSON lines has `choices`. */
bool llm_choices_are_in(const char *path);

/* Reads objects with `question`, `choices` (a list of texts, or an object with `text` and `label`)
 * and `answer` or `answerKey` (a place from 0 on, a letter, or a label or text of the choices).
 * `begin`: the token that begins a text; -1: none. A status of message.h. */
int llm_choices_open(llm_choices *choices, const char *path, ac_tokenizer *tokenizer,
                     int32_t begin);
void llm_choices_free(llm_choices *choices);

/* A sample for each answer, with the fields of a packed graph. `choices` must outlive it. */
ac_status llm_choices_dataset(ac_dataset **dataset, llm_choices *choices);

/* result->accuracy: the share of questions where the right answer has the highest log-likelihood
 * for each byte; result->loss: of the tokens of right answers. *plain gets the share by
 * log-likelihood alone. */
ac_status llm_choices_evaluate(const llm_choices *choices, ac_session *session, ac_dataset *dataset,
                               ac_stop_callback stop, void *user, ac_evaluation *result,
                               double *plain);

#endif
