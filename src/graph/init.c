/* What an initialiser may ask for. A kind uses some of the description's numbers; another one that
 * is set belongs to a kind that was not meant. */
#include "graph/init.h"

#include <math.h>
#include <stdio.h>

typedef enum use { VALUE = 1, NORMAL = 2, UNIFORM = 4, GAIN = 8, VALUES = 16 } use;

static const struct {
  const char *name;
  use use;
  float gain; /* the default */
} kinds[] = {
    [AC_INIT_DEFAULT] = {"default", 0, 0},
    [AC_INIT_ZERO] = {"zero", 0, 0},
    [AC_INIT_CONSTANT] = {"constant", VALUE, 0},
    [AC_INIT_NORMAL] = {"normal", NORMAL, 0},
    [AC_INIT_UNIFORM] = {"uniform", UNIFORM, 0},
    [AC_INIT_KAIMING_NORMAL] = {"Kaiming normal", GAIN, 1.41421356f},
    [AC_INIT_KAIMING_UNIFORM] = {"Kaiming uniform", GAIN, 1.41421356f},
    [AC_INIT_XAVIER_NORMAL] = {"Xavier normal", GAIN, 1},
    [AC_INIT_XAVIER_UNIFORM] = {"Xavier uniform", GAIN, 1},
    [AC_INIT_TRUNCATED_NORMAL] = {"truncated normal", NORMAL | UNIFORM, 0},
    [AC_INIT_ORTHOGONAL] = {"orthogonal", GAIN, 1},
    [AC_INIT_IDENTITY] = {"identity", GAIN, 1},
    [AC_INIT_ARRAY] = {"array", VALUES, 0},
};

/* As PyTorch's layers do: Kaiming's uniform for a leaky ReLU of slope sqrt(5). */
static void resolve_default(ac_init *init, int rank) {
  init->kind = rank < 2 ? AC_INIT_ZERO : AC_INIT_KAIMING_UNIFORM;
  if (rank >= 2) init->gain = 0.577350269f; /* 1 / sqrt(3) */
}

/* The share of a normal distribution that is between two values. */
static double share_between(const ac_init *init, double low, double high) {
  const double scale = (double)init->deviation * 1.4142135623730951;
  const double a = (low - (double)init->mean) / scale, b = (high - (double)init->mean) / scale;
  return a > 0   ? (erfc(a) - erfc(b)) / 2
         : b < 0 ? (erfc(-b) - erfc(-a)) / 2
                 : (erf(b) - erf(a)) / 2;
}

/* Values are drawn until one is within the limits. */
static void check_truncated(ac_init *init, char *reason, size_t size) {
  if (init->low == 0 && init->high == 0) {
    init->low = init->mean - 2 * init->deviation;
    init->high = init->mean + 2 * init->deviation;
  }
  if (!(init->low < init->high))
    snprintf(reason, size, "the truncated normal initialiser's low, %g, is not below its high, %g",
             (double)init->low, (double)init->high);
  else if (!(share_between(init, (double)init->low, (double)init->high) >= 1e-6))
    snprintf(
        reason, size,
        "the truncated normal initialiser has less than a millionth of its values between low, "
        "%g, and high, %g",
        (double)init->low, (double)init->high);
}

static void check_rank(ac_init_kind kind, int rank, char *reason, size_t size) {
  if (kind == AC_INIT_ORTHOGONAL && rank < 2)
    snprintf(reason, size, "the orthogonal initialiser needs a shape of rank 2 or more");
  if (kind == AC_INIT_IDENTITY && rank != 2)
    snprintf(reason, size, "the identity initialiser needs a shape of rank 2");
}

bool ac_init_resolve(ac_init *init, int rank, char *reason, size_t size) {
  if ((unsigned)init->kind >= sizeof kinds / sizeof *kinds) {
    snprintf(reason, size, "unknown initialiser %d", (int)init->kind);
    return false;
  }
  const char *name = kinds[init->kind].name;
  const use used = kinds[init->kind].use;
  const struct {
    const char *name;
    float value;
    use use;
  } numbers[] = {{"value", init->value, VALUE},          {"mean", init->mean, NORMAL},
                 {"deviation", init->deviation, NORMAL}, {"low", init->low, UNIFORM},
                 {"high", init->high, UNIFORM},          {"gain", init->gain, GAIN}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    bool has = used & numbers[i].use;
    if (has ? isfinite(numbers[i].value) : numbers[i].value == 0) continue;
    snprintf(reason, size,
             has ? "the %s initialiser's %s is %g" : "the %s initialiser has no %s, which is %g",
             name, numbers[i].name, (double)numbers[i].value);
    return false;
  }
  reason[0] = 0;
  if (!(used & VALUES) != !init->values)
    snprintf(reason, size,
             used & VALUES ? "the array initialiser has no values"
                           : "the %s initialiser has no use for values",
             name);
  check_rank(init->kind, rank, reason, size);
  if (used & NORMAL && !(init->deviation > 0))
    snprintf(reason, size, "the %s initialiser's deviation is %g; it must be above 0", name,
             (double)init->deviation);
  else if (init->kind == AC_INIT_TRUNCATED_NORMAL) check_truncated(init, reason, size);
  if (used == UNIFORM && !(init->low < init->high))
    snprintf(reason, size, "the uniform initialiser's low, %g, is not below its high, %g",
             (double)init->low, (double)init->high);
  if (init->gain < 0)
    snprintf(reason, size, "the %s initialiser's gain is %g; it cannot be negative", name,
             (double)init->gain);
  if (init->kind == AC_INIT_DEFAULT) resolve_default(init, rank);
  if (init->gain == 0) init->gain = kinds[init->kind].gain;
  return !reason[0];
}
