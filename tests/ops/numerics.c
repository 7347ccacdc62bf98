/* numerics counts bits, so it is checked on bits by hand and fits no table of values. */
#include "driver.h"

static void numerics(const ac_op_args *args) {
  (void)args;
}

static op_tolerance numerics_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_numerics = {numerics, numerics_error, false, false};

const op_family op_family_numerics = {"numerics", NULL, 0, NULL, NULL, NULL};
