/* What the steps of parameters have in common. */
#ifndef AC_OPS_UPDATE_H
#define AC_OPS_UPDATE_H

#include "ops/description.h"

/* Bytes of a step: parameter and states are read and written; the copy in 16 bits is written. */
double ac_update_bytes(const ac_op_args *args);

#endif
