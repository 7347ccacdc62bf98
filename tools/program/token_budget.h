/* --max-tokens: how many tokens a run is trained on, from its beginning: 50000, 500k, 1.5M, 2G. */
#ifndef TOOLS_PROGRAM_TOKEN_BUDGET_H
#define TOOLS_PROGRAM_TOKEN_BUDGET_H

#include "program/data.h"

/* NULL: no budget, and 0 samples. Both return a status of message.h. */
int token_budget_check(const char *text);
/* Once the data are known: the samples after which the tokens are over. */
int token_budget_samples(const char *text, const train_data *data, int64_t *samples);

#endif
