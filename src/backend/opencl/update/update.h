/* What the steps of parameters share. States may be in blocks of 8 bits: then a work-group has a
 * block, or several on a CPU; otherwise a work-item has an element. Random numbers are drawn for
 * stochastic rounding. If each element is stepped by itself, one launch steps several
 * parameters. */
#ifndef AC_BACKEND_OPENCL_UPDATE_H
#define AC_BACKEND_OPENCL_UPDATE_H

#include "backend/opencl/shared/opencl.h"
#include "core/eight_bit.h"

/* Work-groups that have blocks: a GPU's EIGHT_BIT_GROUP and a CPU's EIGHT_BIT_BLOCKS of
 * cl/update/eight_bit.h. */
enum { AC_CL_BLOCK_GROUP = 64, AC_CL_BLOCKS = 8 };

static inline bool ac_cl_is_eight_bit(const ac_op_args *args) {
  return args->out[1].count && args->out[1].dtype == AC_U8;
}

/* What is kept may be in blocks of 8 bits, parameter and gradient in bf16. */
static inline const char *ac_cl_step_options(const ac_op_args *args) {
  static const char *const options[2][2][2] = {
      {{NULL, "-DGRADIENT_BF16"}, {"-DROUNDED", "-DROUNDED -DGRADIENT_BF16"}},
      {{"-DEIGHT_BIT", "-DEIGHT_BIT -DGRADIENT_BF16"},
       {"-DEIGHT_BIT -DROUNDED", "-DEIGHT_BIT -DROUNDED -DGRADIENT_BF16"}}};
  return options[ac_cl_is_eight_bit(args)][args->out[0].dtype == AC_BF16]
                [args->in[0].dtype == AC_BF16];
}

/* Three arguments of a kernel: what the rounding of a parameter is keyed by. The first two are its
 * own. */
#define AC_CL_OWN_ROUNDING(args) \
  AC_CL_SEED((args)->run->seed ^ (args)->name_hash), AC_CL_UINT((args)->first / 8)
#define AC_CL_ROUNDING(args) AC_CL_OWN_ROUNDING(args), AC_CL_UINT((args)->run->update)

static inline ac_cl_kernel ac_cl_update_kernel(const ac_op_args *args, const char *file,
                                               const char *name) {
  return (ac_cl_kernel){file, name, ac_cl_step_options(args)};
}

/* The kernel of a step in f32 for rows of this length. */
static inline ac_cl_kernel ac_cl_row_update_kernel(const ac_opencl *cl, const ac_op_args *args,
                                                   const char *file, const char *name,
                                                   int64_t length) {
  static const char *const options[2][2][2] = {
      {{"-DROW_GROUP=256", "-DROW_GROUP=256 -DGRADIENT_BF16"},
       {"-DROW_GROUP=256 -DROUNDED", "-DROW_GROUP=256 -DROUNDED -DGRADIENT_BF16"}},
      {{"-DROW_GROUP=64", "-DROW_GROUP=64 -DGRADIENT_BF16"},
       {"-DROW_GROUP=64 -DROUNDED", "-DROW_GROUP=64 -DROUNDED -DGRADIENT_BF16"}}};
  const bool rounded = args->out[0].dtype == AC_BF16, halved = args->in[0].dtype == AC_BF16;
  return (ac_cl_kernel){file, name, options[ac_cl_is_short_row(cl, length)][rounded][halved]};
}

/* What an op's kernel gets in addition to its operands. */
enum { AC_CL_FACTORS = 8 };

/* The step of an optimizer; cl/update/parameter.h makes its kernels in FILE.cl. in[0] is the
 * gradient, out[0] the parameter; then come its states, and a copy in 16 bits. */
typedef struct ac_cl_step {
  const char *file, *name, *each; /* for one parameter, and for several */
  int states;
  void (*factors)(const ac_op_args *args, float factors[AC_CL_FACTORS]);
} ac_cl_step;

ac_status ac_cl_update(ac_opencl *cl, const ac_op_args *args, const ac_cl_step *step);
/* Whether it is small and its state is not in 8 bits. Of a large one finding the parameter would
 * cost as much as the step. */
bool ac_cl_update_joins(const ac_opencl *cl, const ac_op_args *args);
/* Steps up to AC_CL_JOINED parameters. */
ac_status ac_cl_update_each(ac_opencl *cl, const ac_op_args *const *args, int count,
                            const ac_cl_step *step);

/* Defines the op NAME of FILE.cl. The function NAME_factors fills in its factors. */
#define AC_CL_STEP_OP(file_, name_, states_)                                               \
  static const ac_cl_step name_##_step = {.file = file_,                                   \
                                          .name = #name_,                                  \
                                          .each = #name_ "_each",                          \
                                          .states = states_,                               \
                                          .factors = name_##_factors};                     \
  static ac_status name_##_one(ac_opencl *cl, const ac_op_args *args) {                    \
    return ac_cl_update(cl, args, &name_##_step);                                          \
  }                                                                                        \
  static ac_status name_##_each(ac_opencl *cl, const ac_op_args *const *args, int count) { \
    return ac_cl_update_each(cl, args, count, &name_##_step);                              \
  }                                                                                        \
  const ac_cl_op ac_cl_op_##name_ = {                                                      \
      .run = name_##_one, .run_joined = name_##_each, .joins = ac_cl_update_joins}

#endif
