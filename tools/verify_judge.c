/* Rounding is what may differ, as both ways begin each window with the same weights.
 *
 * A float sum in another order is off by some 1e-7 of its terms' magnitude. Over the ops of a deep
 * network that makes about 1e-6 of a gradient's own norm; ten times that is allowed, which is far
 * below what a wrong division, a dropped sample or a statistic of the wrong batch does. In 16 bits,
 * where a sum lies next to the middle between two numbers, its rounding carries such a difference
 * to u = 2^-11 (f16) or 2^-8 (bf16) of the value. Were all values stored otherwise, a gradient
 * would be off by about u of its norm, which is allowed.
 *
 * A gradient that is itself zero but for rounding (the bias of attention's keys: softmax does not
 * see a shift) is held against a tenth of that of the norm of all gradients instead.
 *
 * A value that rounding carries across a kink, of ReLU or of a maximum, changes a gradient by one
 * whole term. That happens in one window and not in another, so what counts is the median over the
 * windows. Large networks cross kinks in every window; there the yardstick is how far the gradients
 * of whole batches move when the weights are changed by a few roundings (verify_spread). Three
 * tenths of a gradient's norm are beyond any excuse.
 *
 * Adam turns gradients that are nothing but rounding into whole steps. So weights are compared all
 * together, as a share of the way that the update has moved them. */
#include "verify_judge.h"

#include <math.h>
#include <stdio.h>

typedef struct tolerances {
  double gradient, noise;
} tolerances;

static const tolerances allowed[] = {[AC_PRECISION_F32] = {1e-5, 1e-6},
                                     [AC_PRECISION_F16] = {0x1p-11, 0x1p-11 / 10},
                                     [AC_PRECISION_BF16] = {0x1p-8, 0x1p-8 / 10}};
static const double weight_tolerance = 1e-6, moved_tolerance = 0.01;
static const double spreads = 4, most_spread = 0.3;

/* ---- distances ------------------------------------------------------------------------------- */

static double squared_norm(const float *a, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)a[i] * (double)a[i];
  return sum;
}

static double squared_distance(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  return sum;
}

/* Of squares. Not a number counts as far away. */
static double ratio(double difference, double norm) {
  if (!isfinite(norm) || !isfinite(difference)) return INFINITY;
  return difference == 0 ? 0 : norm > 0 ? sqrt(difference / norm) : INFINITY;
}

void verify_measure(const layout *l, const record *r, int64_t window, const float *gradient,
                    const float *weights, distances *d) {
  const float *whole = r->gradients[window];
  double all = 0;
  for (int i = 0; i < l->parameters; i++)
    if (l->trained[i]) all += squared_norm(whole + l->first[i], l->first[i + 1] - l->first[i]);
  for (int i = 0; i < l->parameters; i++) {
    int64_t first = l->first[i], count = l->first[i + 1] - first, at = window * l->parameters + i;
    d->gradient[at] = d->share[at] = 0;
    if (!l->trained[i]) continue;
    double difference = squared_distance(whole + first, gradient + first, count);
    d->gradient[at] = ratio(difference, squared_norm(whole + first, count));
    d->share[at] = ratio(difference, all);
  }
  const float *before = r->weights[window], *after = r->weights[window + 1];
  int64_t elements = l->first[l->parameters];
  d->moved[window] =
      ratio(squared_distance(after, weights, elements), squared_distance(after, before, elements));
}

void verify_spread(const layout *l, const record *r, int64_t window, const float *gradient,
                   double *spread) {
  for (int i = 0; i < l->parameters; i++) {
    if (!l->trained[i]) continue;
    const float *whole = r->gradients[window] + l->first[i];
    int64_t count = l->first[i + 1] - l->first[i];
    double moved =
        ratio(squared_distance(whole, gradient + l->first[i], count), squared_norm(whole, count));
    if (moved > spread[i]) spread[i] = moved;
  }
}

/* ---- judging --------------------------------------------------------------------------------- */

/* Of `count` values `stride` apart; of two the larger. */
static double median(const double *values, int64_t count, int64_t stride) {
  for (int64_t i = 0; i < count; i++) {
    int64_t below = 0, same = 0;
    for (int64_t k = 0; k < count; k++) {
      below += values[k * stride] < values[i * stride];
      same += values[k * stride] == values[i * stride];
    }
    if (below <= count / 2 && count / 2 < below + same) return values[i * stride];
  }
  return INFINITY;
}

static double loss_distance(const record *r, const distances *d, int64_t window) {
  double whole = r->updates[window].loss;
  return fabs(d->updates[window].loss - whole) / fmax(1, fabs(whole));
}

static bool explained(const layout *l, const record *r, const distances *d, tolerances t,
                      const double *spread, int parameter) {
  double own = median(d->gradient + parameter, r->windows, l->parameters);
  double share = median(d->share + parameter, r->windows, l->parameters);
  return own <= t.gradient || share <= t.noise ||
         (spread && own <= fmin(most_spread, spreads * spread[parameter]));
}

verdict verify_judge(const layout *l, const record *r, const distances *d, ac_precision precision,
                     const double *spread) {
  tolerances t = allowed[precision];
  verdict v = {.weights = median(d->moved, r->windows, 1) > moved_tolerance};
  for (int i = 0; i < l->parameters; i++) v.gradients += !explained(l, r, d, t, spread, i);
  int64_t losses = 0;
  for (int64_t u = 0; u < r->windows; u++) {
    double weight = r->updates[u].weight;
    v.weight |= fabs(d->updates[u].weight - weight) > weight_tolerance * weight;
    losses += loss_distance(r, d, u) > t.gradient;
  }
  v.loss = 2 * losses > r->windows;
  return v;
}

void verify_print(const layout *l, const record *r, const distances *d, ac_precision precision,
                  const double *spread) {
  printf("\n%-44s %12s%s\n", "relative difference of", "gradient", spread ? "  by rounding" : "");
  for (int i = 0; i < l->parameters; i++) {
    if (!l->trained[i]) continue;
    printf("%-44s %12.3g", l->names[i], median(d->gradient + i, r->windows, l->parameters));
    if (spread) printf(" %12.3g", spread[i]);
    printf("%s\n",
           explained(l, r, d, allowed[precision], spread, i) ? "" : "  worse than rounding");
  }
  const ac_update *whole = &r->updates[r->windows - 1], *planned = &d->updates[r->windows - 1];
  printf("\nweights      %.3g of an update apart after it\n", median(d->moved, r->windows, 1));
  printf("weight       %.9g whole, %.9g planned\n", whole->weight, planned->weight);
  printf("loss         %.9g whole, %.9g planned\n", whole->loss, planned->loss);
}

void verify_print_verdict(const layout *l, const verdict *v) {
  if (verdict_same(v)) {
    printf("verdict      the same up to rounding\n");
    return;
  }
  int trained = 0;
  for (int i = 0; i < l->parameters; i++) trained += l->trained[i];
  const char *separator = "";
  printf("verdict      different: ");
  if (v->gradients) {
    printf("%d of %d gradients are off by more than rounding explains", v->gradients, trained);
    separator = ", ";
  }
  if (v->weight) printf("%sa window's weight is another", separator), separator = ", ";
  if (v->loss) printf("%sthe loss is another", separator), separator = ", ";
  if (v->weights) printf("%supdates are others", separator);
  printf("\n");
}
