/* Adafactor: second moments of rows and columns instead of elements. */
#include "ops/update/adafactor.h"

#include "ops/update/update.h"

static const ac_adafactor_attributes example = {1, 1e-2f, 0.1f, 1e-2f, 0.1f, 0x1p-23f, 1e-3f, 1};

/* The gradient is read three times: for its moments, for the size of the update, and for the
 * update. The parameter is read once more for its size. */
static double bytes(const ac_op_args *args) {
  return ac_update_bytes(args) + 2 * ac_operand_bytes(&args->in[0]) +
         ac_operand_bytes(&args->out[0]);
}

const ac_op_desc ac_op_desc_adafactor = {
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 25,
    .bytes = bytes,
    .sample = {{"RC"}, {"RC", "R", "C"}, &example},
};
