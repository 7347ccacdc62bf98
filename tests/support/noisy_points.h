/* A quadratic with a known covariance of gradients: what tests of the noise scale share. */
#ifndef AC_TESTS_NOISY_POINTS_H
#define AC_TESTS_NOISY_POINTS_H

#include "check.h"

#include "core/random.h"

#include <math.h>

enum { POINT_SIZE = 48 };

/* Of elements [begin, end): of all, but for the factor, and their noise scale. */
double noisy_points_variance(int begin, int end);
double noisy_points_scale(void);
ac_dataset *noisy_points(void);
ac_graph *noisy_points_graph(void);

/* Weights do not change. */
extern const ac_trainer_desc noisy_points_still;

#endif
