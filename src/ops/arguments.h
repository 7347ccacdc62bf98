/* What a backend gets to run an op. Attributes are declared in the header with the op's name. */
#ifndef AC_OPS_ARGUMENTS_H
#define AC_OPS_ARGUMENTS_H

#include <accrue/graph.h>

#include "ops/list.h"

const char *ac_op_name(ac_op op);

/* The letter of an input or output in AC_OP_LIST; 0 beyond those the op has. */
char ac_op_input_kind(ac_op op, int input);
char ac_op_output_kind(ac_op op, int output);
/* Whether what it has of kind s may also be integers, which it moves. */
bool ac_op_moves_integers(ac_op op);

enum { AC_MAX_INPUTS = 10, AC_MAX_OUTPUTS = 4, AC_MAX_ATTRIBUTE_BYTES = 512 };

/* What attributes begin with where the op's letters in the list are c; 0: there is no operand. */
typedef struct ac_op_kinds {
  char in[AC_MAX_INPUTS], out[AC_MAX_OUTPUTS];
} ac_op_kinds;

/* The letter of an input or output of an op with these attributes, which is never c. */
char ac_op_input_kind_of(ac_op op, const void *attributes, int input);
char ac_op_output_kind_of(ac_op op, const void *attributes, int output);

/* Loss sums on the device, each kept as an unevaluated sum of two floats (hi + lo, Knuth's TwoSum),
 * so that adding many micro-batches loses nothing: {loss, weight, weight of rows classified right,
 * unused}. */
enum { AC_LOSS_SUMS = 8 };

/* A tensor at run time: concrete shape, and the backend's own handle of its memory (a pointer on
 * the CPU, a sub-buffer on OpenCL). count == 0: absent. Where only shapes matter (costs,
 * workspace), data is NULL. */
typedef struct ac_operand {
  void *data;
  ac_dtype dtype;
  int rank;
  int64_t dim[AC_MAX_RANK];
  int64_t count;    /* product of dim */
  ac_blocks blocks; /* how the elements are kept if it is in blocks, as dtype u8 */
} ac_operand;

/* What changes from run to run. `sample` and `update` key random numbers. */
typedef struct ac_run_state {
  bool training; /* dropout drops */
  uint64_t seed;
  uint32_t update;  /* updates made so far: a skipped window draws the same again */
  uint32_t sample;  /* position of the micro-batch's first sample in the effective batch */
  int64_t batch;    /* samples in this micro-batch */
  float loss_scale; /* factor of the loss gradient */
  /* For each loss, with its share; NULL: loss_scale is for all. */
  const float *loss_scales;
  /* Stores to f16 leave a trace for the op numerics: what is flushed to zero becomes -0, what is
   * zero +0. */
  bool mark_flushed;
  /* Sums of a window that ranks have added up count in the gradients of another rank. */
  bool counts_elsewhere;
} ac_run_state;

typedef struct ac_op_args {
  ac_op op;
  const void *attributes; /* the op's struct from its header in src/ops; NULL if it has none */
  ac_operand in[AC_MAX_INPUTS];
  ac_operand out[AC_MAX_OUTPUTS];
  bool add[AC_MAX_OUTPUTS]; /* add to the output instead of overwriting it; only for `+` outputs */
  void *workspace;          /* handle of ac_backend.workspace bytes; NULL if 0 */
  size_t workspace_bytes;
  const ac_run_state *run;
  int loss; /* of a loss's gradient: which of the graph's */
  /* For a parameter's step, and for ops that add to its gradient: the hash of the parameter's name.
   * It is the key of the random numbers for stochastic rounding. */
  uint64_t name_hash;
  int64_t first; /* of a part of a parameter: its first element, a multiple of 8 */
} ac_op_args;

/* The factor of the gradient of this op's loss. */
static inline float ac_loss_scale(const ac_op_args *args) {
  return args->run->loss_scales ? args->run->loss_scales[args->loss] : args->run->loss_scale;
}

/* The storage type: that of the operands of kind s present, f32 if there are none; i32 where
 * integers are moved. A backend may
 * take some of these in f32 and round them itself (ac_backend.rounds), or in blocks
 * (ac_backend.decodes): then that of the others. */
ac_dtype ac_op_storage(const ac_op_args *args);
/* Whether all operands present have dtypes of their kinds, and those of kind s the same one, but
 * for inputs, as bits, that may be f32 instead, and others that may be in blocks. */
bool ac_op_dtypes_valid(const ac_op_args *args, uint32_t rounded, uint32_t decoded);

/* Rows and columns of an operand seen as a matrix over its last dimension. */
static inline int64_t ac_columns(const ac_operand *x) {
  return x->rank ? x->dim[x->rank - 1] : 1;
}
static inline int64_t ac_rows(const ac_operand *x) {
  int64_t columns = ac_columns(x);
  return columns ? x->count / columns : 0;
}
static inline double ac_operand_bytes(const ac_operand *x) {
  return x->blocks ? (double)ac_blocks_bytes(x->blocks, x->count)
                   : (double)x->count * (double)ac_dtype_bytes(x->dtype);
}

#endif
