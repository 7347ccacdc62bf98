#include "program/noise_words.h"

#include "common/message.h"
#include "common/storage.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>

/* Why the noise scale is not known. */
static const char *reason(const ac_plan_info *plan, const ac_noise_scale *noise) {
  if (!gradient_way_of(plan->gradients)->may_have_noise)
    return "the plan keeps no gradients to measure";
  if (plan->accumulation_steps < 2 && plan->ranks < 2)
    return "it takes batches of several micro-batches (--micro-batch)";
  if (!noise->windows) return "no batch of several micro-batches was measured";
  if (isnan(noise->batch)) return "the gradient cannot be told from its noise";
  return "too few batches were measured";
}

/* Rounds to two digits of the larger one, but to whole samples. */
static double rounded(double x, double larger) {
  const double unit = larger < 100 ? 1 : pow(10, floor(log10(larger)) - 1);
  return fmax(unit, round(x / unit) * unit);
}

static const char *advice(double critical, double batch) {
  if (batch > 2 * critical) return "more accumulation would hardly help";
  if (batch < critical / 2) return "larger ones would take fewer updates";
  return "about right";
}

void noise_words(const ac_trainer *trainer, const ac_plan_info *plan, int64_t batch, int64_t tokens,
                 int wanted) {
  ac_noise_scale noise;
  char of_tokens[64] = "";
  if (wanted == NOISE_OFF || ac_trainer_noise_scale(trainer, &noise) != AC_OK) return;
  if (!(noise.batch < 1e15) || !(noise.deviation < noise.batch)) {
    if (wanted == NOISE_ON) say("critical batch not known: %s", reason(plan, &noise));
    return;
  }
  const double critical = rounded(noise.batch, noise.batch);
  if (tokens)
    snprintf(of_tokens, sizeof of_tokens, " (%s tokens)",
             text_count((int64_t)(critical * (double)tokens)).text);
  say("critical batch about %s +- %s samples%s; yours is %s: %s",
      text_count((int64_t)critical).text,
      text_count((int64_t)rounded(noise.deviation, noise.batch)).text, of_tokens,
      text_count(batch).text, advice(noise.batch, (double)batch));
}
