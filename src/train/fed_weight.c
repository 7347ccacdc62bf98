/* The weight of a loss, counted on the host from what is fed: the device's sum must agree, or some
 * row was counted twice or not at all. Known where targets and weights are inputs. */
#include "core/error.h"
#include "train/instance.h"

#include <math.h>

double ac_instance_fed_weight(const ac_instance *instance, const void *const *data, int64_t first,
                              int64_t count) {
  const ac_loss_rows *rows = &instance->loss_rows;
  int64_t from = first * rows->per_sample, n = count * rows->per_sample;
  if (rows->ignore && instance->loss_targets < 0) return NAN;
  if (rows->weights >= 0 && instance->loss_weights < 0) return NAN;
  if (rows->weights < 0 && !rows->ignore) return (double)n;
  const int32_t *targets = rows->ignore ? data[instance->loss_targets] : NULL;
  const float *weights = rows->weights >= 0 ? data[instance->loss_weights] : NULL;
  double sum = 0;
  for (int64_t i = from; i < from + n; i++)
    if (!targets || targets[i] != rows->ignore_index) sum += weights ? (double)weights[i] : 1;
  return sum;
}

/* The device keeps sums in pairs of floats, exact to some 45 bits. */
ac_status ac_instance_check_weight(const ac_instance *instance, double summed, double fed) {
  const double tolerance = 1e-6;
  if (instance->device->backend->computes_nothing) return AC_OK;
  if (isnan(fed) || !isfinite(summed) || fabs(summed - fed) <= tolerance * fed) return AC_OK;
  return ac_fail(AC_ERROR_INTERNAL,
                 "the device counted losses of weight %.9g where samples of weight %.9g were fed; "
                 "nothing was changed",
                 summed, fed);
}
