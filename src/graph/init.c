/* What an initialiser may ask for. A kind uses some of the description's numbers; another one that
 * is set belongs to a kind that was not meant. */
#include "graph/init.h"

#include <math.h>
#include <stdio.h>

typedef enum use { VALUE = 1, NORMAL = 2, UNIFORM = 4, GAIN = 8 } use;

static const struct {
  const char *name;
  use use;
  float gain; /* the default */
} kinds[] = {
    [AC_INIT_ZERO] = {"zero", 0, 0},
    [AC_INIT_CONSTANT] = {"constant", VALUE, 0},
    [AC_INIT_NORMAL] = {"normal", NORMAL, 0},
    [AC_INIT_UNIFORM] = {"uniform", UNIFORM, 0},
    [AC_INIT_KAIMING_NORMAL] = {"Kaiming normal", GAIN, 1.41421356f},
    [AC_INIT_KAIMING_UNIFORM] = {"Kaiming uniform", GAIN, 1.41421356f},
    [AC_INIT_XAVIER_NORMAL] = {"Xavier normal", GAIN, 1},
    [AC_INIT_XAVIER_UNIFORM] = {"Xavier uniform", GAIN, 1},
};

bool ac_init_resolve(ac_init *init, char *reason, size_t size) {
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
  if (used == NORMAL && !(init->deviation > 0))
    snprintf(reason, size, "the normal initialiser's deviation is %g; it must be above 0",
             (double)init->deviation);
  if (used == UNIFORM && !(init->low < init->high))
    snprintf(reason, size, "the uniform initialiser's low, %g, is not below its high, %g",
             (double)init->low, (double)init->high);
  if (init->gain < 0)
    snprintf(reason, size, "the %s initialiser's gain is %g; it cannot be negative", name,
             (double)init->gain);
  if (init->gain == 0) init->gain = kinds[init->kind].gain;
  return !reason[0];
}
