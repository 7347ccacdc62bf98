/* Several updates by the authors' formulas: states pass from run to run, and the parameters of each
 * step are compared. Tensors of a case: p0, g[steps, ...], and after each step p[steps, ...];
 * attributes as those of the optimizer. */
#ifndef AC_TESTS_OPS_REPLAY_H
#define AC_TESTS_OPS_REPLAY_H

#include "driver.h"
#include "vector.h"

/* Sets op, attributes of update `t`, from 1, and the shapes of states, which begin as zeros. The
 * gradient's shape and the parameter's are set. */
typedef void (*op_update)(op_case *c, const op_vector *v, int64_t t);

/* Every case of tests/vectors/FILE.safetensors; a NULL device: by the references alone. */
void op_replay(ac_device *device, const char *file, op_update update);

#endif
