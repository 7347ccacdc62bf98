/* Muon: a step along the momentum of a matrix, made orthogonal. */
#include "ops/update/muon.h"

#include "ops/update/update.h"

static const ac_muon_attributes example = {1, 1e-3f, 0.1f, 0.95f, 0.05f, 5, true, AC_F32},
                                bf16_example = {1, 1e-3f, 0.1f, 0.95f, 0.05f, 5, true, AC_BF16};

/* Counts A, its square and the result in each iteration; moments and update cost little compared to
 * these. */
static double flops(const ac_op_args *args) {
  const ac_muon_matrix m = ac_muon_matrix_of(args);
  const double side = (double)m.side, count = (double)args->in[0].count;
  return AC_MUON_STEPS * (4 * side * count + 2 * side * side * side) + 12 * count;
}

const ac_op_desc ac_op_desc_muon = {
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = flops,
    .bytes = ac_update_bytes,
    .sample = {{"io"}, {"io", "io"}, &example, &bf16_example},
};
