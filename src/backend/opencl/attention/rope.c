/* rope: how far each pair turns is an argument of the launch; where these are many, of several. */
#include "ops/attention/rope.h"

#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

enum { PAIRS = 64 }; /* of a launch, as in the kernel */

/* Pairs from `first` on, and the last time the elements that do not turn. */
static ac_status turn(ac_opencl *cl, const ac_op_args *args, int32_t first, int32_t pairs,
                      int64_t rest) {
  const ac_rope_attributes *a = args->attributes;
  const ac_rope_shape s = ac_rope_shape_of(args);
  uint64_t turns[PAIRS] = {0};
  for (int i = 0; i < pairs; i++) turns[i] = ac_rope_turn(a, first + i);
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"rope", "rope", NULL}), ac_cl_elements(cl, s.rows * (pairs + rest)),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->out[0]),
      AC_CL_LARGE(turns), AC_CL_LONG(s.rows), AC_CL_LONG(s.positions), AC_CL_LONG(s.heads),
      AC_CL_LONG(s.width), AC_CL_INT(first), AC_CL_INT(pairs), AC_CL_INT(a->dimensions / 2),
      AC_CL_INT(rest), AC_CL_INT(a->interleaved), AC_CL_INT(a->backwards), AC_CL_UINT(a->offset));
}

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_rope_attributes *a = args->attributes;
  const int32_t pairs = a->dimensions / 2;
  /* A mark on what does not turn would else be taken for one of this op. */
  const bool there = args->in[0].data == args->out[0].data && !args->run->mark_flushed;
  const int64_t rest = there ? 0 : ac_rope_shape_of(args).width - a->dimensions;
  for (int32_t first = 0; first < pairs; first += PAIRS) {
    const bool last = first + PAIRS >= pairs;
    AC_TRY(turn(cl, args, first, last ? pairs - first : PAIRS, last ? rest : 0));
  }
  return AC_OK;
}

const ac_cl_op ac_cl_op_rope = {.run = run};
