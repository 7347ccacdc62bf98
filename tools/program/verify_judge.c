/* Rounding is what may differ, as both ways begin each window with the same weights.
 *
 * A float sum in another order is off by about 1e-7 of its terms' magnitude. Over the ops of a deep
 * network that makes about 1e-6 of a gradient's own norm; ten times that is allowed, which is far
 * below what a wrong division, a dropped sample or a statistic of the wrong batch does. In 16 bits
 * most sums round to the same number all the same. More is granted only where whole batches spread
 * as far when their weights are changed by a few roundings (verify_spread).
 *
 * A gradient in bf16 is rounded by chance each time something is added to it. Such a rounding is
 * off by less than a unit, which is 2^-7 of the sum at most, and by no more than half of that in
 * the mean of squares. It has no bias, and none depends on another. So the length of the difference
 * of two gradients is expected to be 2^-8 of the root of all sums' squares at most. Twice that is
 * explained: no single rounding reaches beyond it, and a parameter that two ops read is rounded
 * twice in a micro-batch. With many sums this hides faults of a few hundredths. But chance
 * points anywhere, and a wrong factor points along the gradient. So the part of the difference
 * along the gradient is compared with chance as well. Of n elements chance has about 1/sqrt(n) of
 * its length there. A part beyond four times its largest standard deviation is not chance.
 *
 * A gradient that is itself zero but for rounding (the bias of attention's keys: softmax does not
 * see a shift) is held against a tenth of that of the norm of all gradients instead.
 *
 * A value that rounding carries across a kink, of ReLU or of a maximum, changes a gradient by one
 * whole term. That happens in one window and not in another, so what counts is the median over the
 * windows. Large networks cross kinks in every window; there the spread is the yardstick. Three
 * tenths of a gradient's norm are beyond any excuse, even in one window. A loss has no such jumps.
 *
 * Optimizers turn gradients that are nothing but rounding into whole steps (Adam's division, Lion's
 * sign, Muon's products). So both ways step by the same gradient (verify.c), from the same weights,
 * with the same random numbers where weights are rounded by chance. What may differ then is the
 * last bit of the factors: the clip's norm is a sum, and the window's weight and the loss scale
 * divide. That is about 1e-7 of a step, and what 16 bits and Muon make of it stays below a
 * thousandth. Weights are compared all together, as a share of the way that the update has moved
 * them, in every window. */
#include "program/verify_judge.h"

#include <math.h>
#include <stdio.h>

static const double gradient_tolerance = 1e-5, noise_tolerance = 1e-6, loss_tolerance = 1e-5;
static const double weight_tolerance = 1e-6, moved_tolerance = 1e-3;
static const double rounding_by_chance = 0x1p-8; /* of a sum: its standard deviation at most */
enum { SPREADS = 4, LENGTHS = 2, DEVIATIONS = 4 };
#define MOST_SPREAD 0.3

/* The most that a spread may excuse. In 16 bits it is a bad measure by itself, as a few roundings
 * of weights change those of all activations: of gradients it excuses one unit of the dtype. */
static const struct {
  double gradient, noise, loss;
} excuse[] = {[AC_PRECISION_F32] = {MOST_SPREAD, 1e-6, 1e-5},
              [AC_PRECISION_F16] = {0x1p-11, 0x1p-11 / 100, 0x1p-11},
              [AC_PRECISION_BF16] = {0x1p-8, 0x1p-8 / 100, 0x1p-8}};

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

static double squared_norm_of_all(const layout *l, const float *gradient) {
  double sum = 0;
  for (int i = 0; i < l->parameters; i++)
    if (l->trained[i]) sum += squared_norm(gradient + l->first[i], l->first[i + 1] - l->first[i]);
  return sum;
}

/* A NaN or an infinity is never explained. */
static double beyond(double distance, double explained) {
  if (!isfinite(distance) || !isfinite(explained)) return INFINITY;
  return fmax(0, distance - explained);
}

/* How much longer the difference is than rounding by chance explains, as a whole or along the
 * gradient. That of whole batches, `whole`, is also rounded. */
static double beyond_chance(const float *whole, const float *gradient, const float *squares,
                            int64_t count) {
  double sum = 0, along = 0, norm = 0, chance = 0, chance_along = 0;
  for (int64_t i = 0; i < count; i++) {
    const double g = (double)whole[i], difference = (double)gradient[i] - g;
    const double rounded = (double)squares[i] + g * g;
    sum += difference * difference;
    along += difference * g;
    norm += g * g;
    chance += rounded;
    chance_along += rounded * g * g;
  }
  const double length = beyond(sqrt(sum), LENGTHS * rounding_by_chance * sqrt(chance));
  if (!(norm > 0)) return length;
  const double deviations = DEVIATIONS * rounding_by_chance * sqrt(chance_along / norm);
  return fmax(length, beyond(fabs(along) / sqrt(norm), deviations));
}

void verify_measure(const layout *l, const record *r, int64_t window, const float *gradient,
                    const float *squares, const float *weights, distances *d) {
  const float *whole = r->gradients[window];
  double all = squared_norm_of_all(l, whole);
  for (int i = 0; i < l->parameters; i++) {
    int64_t first = l->first[i], count = l->first[i + 1] - first, at = window * l->parameters + i;
    d->gradient[at] = d->unexplained[at] = d->share[at] = 0;
    if (!l->trained[i]) continue;
    double difference = squared_distance(whole + first, gradient + first, count);
    const double norm = squared_norm(whole + first, count);
    d->gradient[at] = ratio(difference, norm);
    if (l->rounded[i]) {
      const double rest = beyond_chance(whole + first, gradient + first, squares + first, count);
      difference = rest * rest;
    }
    d->unexplained[at] = ratio(difference, norm);
    d->share[at] = ratio(difference, all);
  }
  const float *before = r->weights[window], *after = r->weights[window + 1];
  int64_t elements = l->first[l->parameters];
  d->moved[window] =
      ratio(squared_distance(after, weights, elements), squared_distance(after, before, elements));
}

static double loss_distance(double whole, double other) {
  return fabs(other - whole) / fmax(1, fabs(whole));
}

void verify_spread(const layout *l, const record *r, int64_t window, const float *gradient,
                   const ac_update *update, spread *s) {
  const float *whole = r->gradients[window];
  double all = squared_norm_of_all(l, whole);
  for (int i = 0; i < l->parameters; i++) {
    if (!l->trained[i]) continue;
    int64_t first = l->first[i], count = l->first[i + 1] - first;
    double difference = squared_distance(whole + first, gradient + first, count);
    s->gradient[i] = fmax(s->gradient[i], ratio(difference, squared_norm(whole + first, count)));
    s->share[i] = fmax(s->share[i], ratio(difference, all));
  }
  s->loss = fmax(s->loss, loss_distance(r->updates[window].loss, update->loss));
}

/* ---- judging --------------------------------------------------------------------------------- */

/* The median of `count` values `stride` apart; of two values the larger. */
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

/* The limit; or what `reach` of rounding excuses, if that is more, but not more than `most`. */
static double granted(double allowed, double reach, double most) {
  return fmax(allowed, fmin(most, SPREADS * reach));
}

/* Where rounding reaches all samples gradients in 16 bits spread as those in f32 do. */
static ac_precision gradients_as(const distances *d, ac_precision precision) {
  return d->spreads ? AC_PRECISION_F32 : precision;
}

/* The comparisons fail for NaN. */
static bool explained(const layout *l, const record *r, const distances *d, ac_precision precision,
                      const spread *s, int i) {
  double own = gradient_tolerance, share = noise_tolerance;
  if (s) {
    own = granted(own, s->gradient[i], excuse[gradients_as(d, precision)].gradient);
    share = granted(share, s->share[i], excuse[gradients_as(d, precision)].noise);
  }
  for (int64_t u = 0; u < r->windows; u++) {
    int64_t at = u * l->parameters + i;
    if (!(d->unexplained[at] <= MOST_SPREAD || d->share[at] <= share)) return false;
  }
  return median(d->unexplained + i, r->windows, l->parameters) <= own ||
         median(d->share + i, r->windows, l->parameters) <= share;
}

gradient_row verify_gradient(const layout *l, const record *r, const distances *d,
                             ac_precision precision, const spread *s, int i) {
  gradient_row row = {.allowed = gradient_tolerance, .allowed_share = noise_tolerance};
  if (s) {
    row.allowed = granted(row.allowed, s->gradient[i], excuse[gradients_as(d, precision)].gradient);
    row.allowed_share =
        granted(row.allowed_share, s->share[i], excuse[gradients_as(d, precision)].noise);
  }
  row.difference = median(d->gradient + i, r->windows, l->parameters);
  row.unexplained = median(d->unexplained + i, r->windows, l->parameters);
  row.share = median(d->share + i, r->windows, l->parameters);
  row.same = explained(l, r, d, precision, s, i);
  return row;
}

window_row verify_windows(const record *r, const distances *d, ac_precision precision,
                          const spread *s) {
  window_row row = {.allowed_weight = weight_tolerance,
                    .allowed_loss = loss_tolerance,
                    .allowed_updates = moved_tolerance};
  if (s) row.allowed_loss = granted(loss_tolerance, s->loss, excuse[precision].loss);
  for (int64_t u = 0; u < r->windows; u++) {
    const ac_update *whole = &r->updates[u], *other = &d->updates[u];
    row.weight = fmax(row.weight, fabs(other->weight - whole->weight) / whole->weight);
    row.loss = fmax(row.loss, loss_distance(whole->loss, other->loss));
    row.updates = fmax(row.updates, d->moved[u]);
  }
  return row;
}

verdict verify_judge(const layout *l, const record *r, const distances *d, ac_precision precision,
                     const spread *s) {
  verdict v = {0};
  double loss = s ? granted(loss_tolerance, s->loss, excuse[precision].loss) : loss_tolerance;
  for (int i = 0; i < l->parameters; i++) v.gradients += !explained(l, r, d, precision, s, i);
  for (int64_t u = 0; u < r->windows; u++) {
    const ac_update *whole = &r->updates[u], *other = &d->updates[u];
    v.weight |= !(fabs(other->weight - whole->weight) <= weight_tolerance * whole->weight);
    v.loss |= !(loss_distance(whole->loss, other->loss) <= loss);
    v.weights |= !(d->moved[u] <= moved_tolerance);
  }
  return v;
}

void verify_print(const layout *l, const record *r, const distances *d, ac_precision precision,
                  const spread *s) {
  printf("\n%-44s %12s%s\n", "relative difference of", "gradient", s ? "  by rounding" : "");
  for (int i = 0; i < l->parameters; i++) {
    if (!l->trained[i]) continue;
    printf("%-44s %12.3g", l->names[i], median(d->gradient + i, r->windows, l->parameters));
    if (s) printf(" %12.3g", s->gradient[i]);
    printf("%s\n", explained(l, r, d, precision, s, i) ? "" : "  worse than rounding");
  }
  const ac_update *whole = &r->updates[r->windows - 1], *planned = &d->updates[r->windows - 1];
  double moved = 0;
  for (int64_t u = 0; u < r->windows; u++) moved = fmax(moved, d->moved[u]);
  printf("\nweights      %.3g of an update apart after it\n", moved);
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
