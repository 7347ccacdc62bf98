/* Counts of values in buckets that are the same for all tensors and times: their limits are 0 and,
 * on both sides of it, 1e-12 times powers of 1.1 up to 1e20, as TensorFlow has them. One pass
 * over the values is enough, nothing is kept of them, and gradients of 1e-8 are told apart as well
 * as weights of 1. A bucket holds what is not below the limit before it and below its own. */
#ifndef TOOLS_TENSORBOARD_HISTOGRAM_H
#define TOOLS_TENSORBOARD_HISTOGRAM_H

#include <stdint.h>

enum {
  HISTOGRAM_SIDE = 775, /* limits above 0, the largest double among them */
  HISTOGRAM_BUCKETS = 2 * HISTOGRAM_SIDE + 1
};

typedef struct histogram {
  double limits[HISTOGRAM_BUCKETS];
  int64_t counts[HISTOGRAM_BUCKETS];
  int64_t count;
  double min, max, sum, sum_squares; /* 0 without values */
} histogram;

void histogram_init(histogram *h);  /* empty */
void histogram_clear(histogram *h); /* empty again */

/* Adds finite values, divided by `divisor`. */
void histogram_add(histogram *h, const float *values, int64_t count, double divisor);

/* From the first bucket with values to the last, each run of empty ones as one. The lists have room
 * for HISTOGRAM_BUCKETS; returns how many there are. */
int histogram_read(const histogram *h, double *limits, double *counts);

#endif
