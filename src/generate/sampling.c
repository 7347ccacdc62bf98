/* Choosing a token by logits: what can be drawn becomes fewer step by step, and one of the rest is
 * drawn. The k largest of n logits are found with a heap, in n log k and mostly n. For the nucleus
 * only few are sorted: tokens of less than (1 - top_p) / n are together less than 1 - top_p, so it
 * is full before any of them comes. */
#include "generate/sampling.h"

#include "core/error.h"
#include "core/integers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

ac_status ac_sampling_check(const ac_sampling *s) {
  const char *wrong = !(s->temperature >= 0) || isinf(s->temperature)
                          ? "temperature must be finite, at least 0"
                      : s->top_k < 0                      ? "top_k must not be negative"
                      : !(s->top_p >= 0 && s->top_p <= 1) ? "top_p must be in [0, 1]"
                      : !(s->min_p >= 0 && s->min_p <= 1) ? "min_p must be in [0, 1]"
                      : !(s->repetition_penalty >= 0) || isinf(s->repetition_penalty)
                          ? "repetition_penalty must be finite, at least 0"
                      : s->repetition_span < 0 ? "repetition_span must not be negative"
                                               : NULL;
  return wrong ? ac_fail(AC_ERROR_ARGUMENT, "generator: %s", wrong) : AC_OK;
}

/* What is not beyond floats, so that one logit at least has a probability. */
static float within_floats(float x) {
  return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

void ac_sampling_penalise(const ac_sampling *s, float *logits, const uint32_t *text, int64_t count,
                          bool *marks) {
  const float penalty = (float)s->repetition_penalty;
  const int64_t span = s->repetition_span ? ac_smaller(s->repetition_span, count) : count;
  if (penalty == 0 || penalty == 1) return;
  for (int64_t i = count - span; i < count; i++) {
    float *logit = &logits[text[i]];
    if (!marks[text[i]]) *logit = within_floats(*logit > 0 ? *logit / penalty : *logit * penalty);
    marks[text[i]] = true;
  }
  for (int64_t i = count - span; i < count; i++) marks[text[i]] = false;
}

/* Whether a comes before b: it is larger, or the first of equal ones. */
static bool is_before(ac_candidate a, ac_candidate b) {
  return a.value != b.value ? a.value > b.value : a.token < b.token;
}

static int by_value(const void *a, const void *b) {
  return is_before(*(const ac_candidate *)a, *(const ac_candidate *)b) ? -1 : 1;
}

static uint32_t most_likely(const float *logits, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; i++)
    if (logits[i] > logits[best]) best = i;
  return (uint32_t)best;
}

/* ---- the largest ones ------------------------------------------------------------------------ */

/* Lets element i of a heap sink; its root is what comes last. */
static void sink(ac_candidate *heap, int64_t count, int64_t i) {
  for (int64_t child; (child = 2 * i + 1) < count; i = child) {
    if (child + 1 < count && is_before(heap[child], heap[child + 1])) child++;
    if (!is_before(heap[i], heap[child])) return;
    const ac_candidate swapped = heap[i];
    heap[i] = heap[child];
    heap[child] = swapped;
  }
}

/* The `most` largest logits, in any order. */
static int64_t take_largest(const float *logits, int64_t count, int64_t most, ac_candidate *heap) {
  for (int64_t i = 0; i < most; i++) heap[i] = (ac_candidate){(uint32_t)i, logits[i]};
  if (most == count) return count;
  for (int64_t i = most / 2; i-- > 0;) sink(heap, most, i);
  for (int64_t i = most; i < count; i++) {
    const ac_candidate next = {(uint32_t)i, logits[i]};
    if (!is_before(next, heap[0])) continue;
    heap[0] = next;
    sink(heap, most, 0);
  }
  return most;
}

/* ---- probabilities --------------------------------------------------------------------------- */

/* Logits become e^((logit - largest) / temperature); returns the sum. */
static double exponentiate(ac_candidate *list, int64_t count, double temperature) {
  float largest = -INFINITY;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) largest = fmaxf(largest, list[i].value);
  for (int64_t i = 0; i < count; i++)
    sum += list[i].value = (float)exp(((double)list[i].value - (double)largest) / temperature);
  return sum;
}

/* Keeps those of at least `least`; returns how many they are. */
static int64_t keep_from(ac_candidate *list, int64_t count, double least) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; i++)
    if ((double)list[i].value >= least) list[kept++] = list[i];
  return kept;
}

static int64_t keep_nucleus(ac_candidate *list, int64_t count, double top_p, double sum) {
  count = keep_from(list, count, sum * (1 - top_p) / (double)count);
  qsort(list, (size_t)count, sizeof *list, by_value);
  double so_far = 0;
  int64_t kept = 0;
  while (kept < count && (kept == 0 || so_far < top_p * sum)) so_far += (double)list[kept++].value;
  return kept;
}

uint32_t ac_sampling_choose(const ac_sampling *s, const float *logits, int64_t count, double at,
                            ac_candidate *room) {
  if (s->temperature == 0) return most_likely(logits, count);
  int64_t left = take_largest(logits, count, s->top_k ? ac_smaller(s->top_k, count) : count, room);
  double sum = exponentiate(room, left, s->temperature);
  if (s->top_p > 0 && s->top_p < 1) left = keep_nucleus(room, left, s->top_p, sum);
  if (s->min_p > 0) left = keep_from(room, left, s->min_p); /* the largest is 1 */
  sum = 0;
  for (int64_t i = 0; i < left; i++) sum += (double)room[i].value;
  at *= sum;
  for (int64_t i = 0; i < left; i++)
    if ((at -= (double)room[i].value) < 0) return room[i].token;
  return room[left - 1].token;
}
