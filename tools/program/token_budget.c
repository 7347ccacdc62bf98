#include "program/token_budget.h"

#include "common/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 0: it is not a number of tokens. Only decimal digits count, as strtod takes more. */
static double read_tokens(const char *text) {
  static const struct {
    const char *unit;
    double factor;
  } units[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  char *end;
  const size_t digits = strspn(text, ".0123456789");
  const double number = strtod(text, &end);
  if (!digits || end != text + digits) return 0;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (!strcmp(end, units[i].unit)) return number * units[i].factor;
  return 0;
}

int token_budget_check(const char *text) {
  const double most = 4e18;
  if (!text) return STATUS_CONTINUE;
  const double tokens = read_tokens(text);
  if (tokens >= 1 && tokens <= most) return STATUS_CONTINUE;
  return fail_usage("--max-tokens %s is not a number of tokens such as 50000, 500k, 1.5M or 2G",
                    text);
}

int token_budget_samples(const char *text, const train_data *data, int64_t *samples) {
  *samples = 0;
  if (!text) return STATUS_CONTINUE;
  if (!data->tokens_per_sample)
    return fail_usage("--max-tokens %s counts tokens, but the data have none; give --steps or "
                      "--epochs",
                      text);
  *samples = (int64_t)ceil(read_tokens(text) / (double)data->tokens_per_sample);
  return STATUS_CONTINUE;
}
