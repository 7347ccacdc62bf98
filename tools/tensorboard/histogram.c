#include "tensorboard/histogram.h"

#include <float.h>
#include <math.h>
#include <string.h>

void histogram_init(histogram *h) {
  const int zero = HISTOGRAM_SIDE;
  double limit = 1e-12;
  h->limits[zero] = 0;
  for (int i = 1; i <= HISTOGRAM_SIDE; i++, limit *= 1.1) {
    h->limits[zero + i] = i < HISTOGRAM_SIDE ? limit : DBL_MAX;
    h->limits[zero - i] = -h->limits[zero + i];
  }
  histogram_clear(h);
}

void histogram_clear(histogram *h) {
  memset(h->counts, 0, sizeof h->counts);
  h->count = 0;
  h->min = h->max = h->sum = h->sum_squares = 0;
}

/* The first bucket with a limit above x: by a logarithm, then by the limits themselves. */
static int find_bucket(const histogram *h, double x) {
  enum { ZERO = HISTOGRAM_SIDE, MOST = HISTOGRAM_SIDE - 2 };
  const double powers = log(fabs(x) * 1e12) / log(1.1); /* below 0: x is smaller than all limits */
  const int power = !(powers >= 0) ? -1 : powers < MOST ? (int)powers : MOST;
  int bucket = x < 0 ? ZERO - 1 - power : ZERO + 2 + power;
  while (x >= h->limits[bucket]) bucket++;
  while (x < h->limits[bucket - 1]) bucket--;
  return bucket;
}

void histogram_add(histogram *h, const float *values, int64_t count, double divisor) {
  for (int64_t i = 0; i < count; i++) {
    const double x = (double)values[i] / divisor;
    if (!h->count || x < h->min) h->min = x;
    if (!h->count || x > h->max) h->max = x;
    h->count++;
    h->sum += x;
    h->sum_squares += x * x;
    h->counts[find_bucket(h, x)]++;
  }
}

int histogram_read(const histogram *h, double *limits, double *counts) {
  int first = 0, last = HISTOGRAM_BUCKETS - 1, written = 0;
  while (first <= last && !h->counts[first]) first++;
  while (last >= first && !h->counts[last]) last--;
  for (int i = first; i <= last; i++) {
    if (!h->counts[i] && !h->counts[i + 1]) continue; /* the last one of a run is enough */
    limits[written] = h->limits[i];
    counts[written++] = (double)h->counts[i];
  }
  return written;
}
