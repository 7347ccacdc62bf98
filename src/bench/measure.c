/* Medians and spreads. Other work on a machine comes in bursts, and a longer sample averages over
 * them. So if a round of samples is too uneven, the next round has samples of twice the length,
 * while there is time. A whole round may be even but slow. So there are at least two rounds, unless
 * the caller asks for one, however long they take, and the difference of two rounds' medians is
 * part of the spread. */
#include "bench/bench.h"

#include "core/error.h"
#include "core/platform/clock.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_SAMPLES = 1000, MOST_ROUNDS = 1000, MOST_RUNS = 1 << 24 };
static const uint64_t least_footprint = 1 << 16; /* bytes */
static const double first_sample = 0.01;         /* seconds, of the first round */

ac_status ac_bench_resolve(ac_bench_desc *resolved, const ac_bench_desc *desc) {
  *resolved = AC_DESCRIBED(ac_bench_desc, desc);
  if (resolved->seconds == 0) resolved->seconds = 2;
  if (resolved->spread == 0) resolved->spread = 0.05;
  if (!resolved->samples) resolved->samples = 15;
  if (!resolved->rounds) resolved->rounds = 2;
  if (!(resolved->seconds > 0 && resolved->spread > 0) || isinf(resolved->seconds))
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "bench: seconds must be positive and finite, and spread positive; they are %g and %g",
        resolved->seconds, resolved->spread);
  if (resolved->samples < AC_BENCH_LEAST_SAMPLES || resolved->samples > MOST_SAMPLES)
    return ac_fail(AC_ERROR_ARGUMENT, "bench: %d samples; a round has from %d to %d",
                   resolved->samples, (int)AC_BENCH_LEAST_SAMPLES, (int)MOST_SAMPLES);
  if (resolved->rounds < 1 || resolved->rounds > MOST_ROUNDS)
    return ac_fail(AC_ERROR_ARGUMENT, "bench: %d rounds; there must be from 1 to %d",
                   resolved->rounds, (int)MOST_ROUNDS);
  if (resolved->footprint && resolved->footprint < least_footprint)
    return ac_fail(AC_ERROR_ARGUMENT, "bench: a footprint of %llu bytes; at least %llu",
                   (unsigned long long)resolved->footprint, (unsigned long long)least_footprint);
  return AC_OK;
}

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Between the two samples next to the place. */
static double quantile(const double *sorted, int count, double part) {
  double place = part * (count - 1);
  int below = (int)place, above = below + 1 < count ? below + 1 : below;
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

static ac_bench_timing summarise(double *samples, int count, int64_t runs) {
  qsort(samples, (size_t)count, sizeof *samples, by_value);
  double median = quantile(samples, count, 0.5);
  double quartiles = quantile(samples, count, 0.75) - quantile(samples, count, 0.25);
  return (ac_bench_timing){.median = median,
                           .spread = median > 0 ? quartiles / median : 0,
                           .least = samples[0],
                           .samples = count,
                           .runs = runs};
}

static ac_status take_sample(double *seconds, int64_t runs, ac_bench_run run, void *user) {
  double start = ac_clock();
  AC_TRY(run(user, runs));
  *seconds = (ac_clock() - start) / (double)runs;
  return AC_OK;
}

static ac_status take_round(ac_bench_timing *timing, const ac_bench_desc *desc, double deadline,
                            int64_t runs, ac_bench_run run, void *user) {
  double samples[MOST_SAMPLES];
  int count = 0;
  while (count < desc->samples && (count < AC_BENCH_LEAST_SAMPLES || ac_clock() < deadline))
    AC_TRY(take_sample(&samples[count++], runs, run, user));
  *timing = summarise(samples, count, runs);
  return AC_OK;
}

/* The first run may do what later ones need not: compile, touch memory for the first time, wake
 * threads. *runs receives how many runs make a sample of `wanted` seconds. */
static ac_status warm_up(int64_t *runs, double wanted, ac_bench_run run, void *user) {
  double seconds;
  AC_TRY(run(user, 1));
  for (*runs = 1;; *runs *= 2) {
    AC_TRY(take_sample(&seconds, *runs, run, user));
    if (seconds * (double)*runs >= wanted || *runs >= MOST_RUNS) return AC_OK;
  }
}

/* How far two rounds that follow each other are apart, relative to the lower. */
static double difference(const ac_bench_timing *a, const ac_bench_timing *b) {
  double least = a->median < b->median ? a->median : b->median;
  return least > 0 ? fabs(a->median - b->median) / least : 0;
}

/* The more even of two rounds, its spread being at least what lies between them. */
static ac_bench_timing join(const ac_bench_timing *a, const ac_bench_timing *b) {
  ac_bench_timing joined = a->spread < b->spread ? *a : *b;
  double apart = difference(a, b);
  if (apart > joined.spread) joined.spread = apart;
  return joined;
}

ac_status ac_bench_measure(ac_bench_timing *timing, const ac_bench_desc *desc, ac_bench_run run,
                           void *user) {
  AC_REQUIRE(timing);
  if (!run) return ac_fail(AC_ERROR_ARGUMENT, "ac_bench_measure: run is NULL");
  ac_bench_desc resolved;
  ac_bench_timing last, round;
  int64_t runs;
  AC_TRY(ac_bench_resolve(&resolved, desc));
  double deadline = ac_clock() + resolved.seconds;
  double part = resolved.seconds / (4 * resolved.samples);
  AC_TRY(warm_up(&runs, part < first_sample ? part : first_sample, run, user));
  AC_TRY(take_round(&last, &resolved, deadline, runs, run, user));
  *timing = last;
  for (int rounds = 1;
       rounds < resolved.rounds || (timing->spread > resolved.spread && ac_clock() < deadline);
       rounds++, last = round) {
    if (runs < MOST_RUNS && ac_clock() < deadline) runs *= 2;
    AC_TRY(take_round(&round, &resolved, deadline, runs, run, user));
    ac_bench_timing joined = join(&last, &round);
    if (rounds == 1 || joined.spread < timing->spread) *timing = joined;
  }
  timing->noisy = timing->spread > resolved.spread;
  return AC_OK;
}

ac_status ac_bench_combine(ac_bench_timing *timing, const ac_bench_desc *desc,
                           const ac_bench_timing *visits, int count) {
  AC_REQUIRE(timing, visits);
  ac_bench_desc resolved;
  double medians[AC_BENCH_MOST_VISITS];
  AC_TRY(ac_bench_resolve(&resolved, desc));
  if (count < 1 || count > AC_BENCH_MOST_VISITS)
    return ac_fail(AC_ERROR_ARGUMENT, "bench: %d visits; from 1 to %d can be combined", count,
                   (int)AC_BENCH_MOST_VISITS);
  *timing = visits[0];
  for (int i = 0; i < count; i++) {
    medians[i] = visits[i].median;
    timing->spread = fmin(timing->spread, visits[i].spread);
    timing->least = fmin(timing->least, visits[i].least);
    if (i > 0) timing->samples += visits[i].samples;
  }
  qsort(medians, (size_t)count, sizeof *medians, by_value);
  timing->median = quantile(medians, count, 0.5);
  if (medians[0] > 0) timing->spread = fmax(timing->spread, medians[count - 1] / medians[0] - 1);
  timing->noisy = timing->spread > resolved.spread;
  return AC_OK;
}
