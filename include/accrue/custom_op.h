/** @file
 * An op of one's own, for what neither an op nor a formula (accrue/pointwise.h) says: a C function
 * for the CPU, OpenCL source for other devices, and a gradient, which is described in the same way.
 *
 * Such an op is planned, run again to save memory, counted and measured like the ops of the
 * library. So its functions must compute the same bits each time they get the same operands, and
 * may change nothing but outputs and workspace. Results for one sample may depend on the other
 * samples only with ac_custom_desc.whole_batch. docs/cookbook/own-op.md has an example. */
#ifndef ACCRUE_CUSTOM_OP_H
#define ACCRUE_CUSTOM_OP_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most inputs of an op. */
#define AC_CUSTOM_INPUTS 8
/** Most outputs of an op, and most inputs that have gradients. */
#define AC_CUSTOM_OUTPUTS 4
/** Most bytes of its constants. */
#define AC_CUSTOM_CONSTANT_BYTES 4096

/* ---- a run ----------------------------------------------------------------------------------- */

/** An operand that is read. */
typedef struct ac_custom_input {
  /** Its elements, row-major, on the CPU. For OpenCL a handle for AC_CUSTOM_BUFFER. NULL while
   * memory is planned. */
  const void *data;
  ac_dtype dtype;             /**< AC_F32 or AC_I32. With plan_storage also AC_F16 or AC_BF16. */
  int rank;                   /**< Number of dimensions. */
  int64_t shape[AC_MAX_RANK]; /**< Its dimensions, with the samples of this run in the first one. */
  int64_t count;              /**< Its elements. 0: it is absent. */
} ac_custom_input;

/** An operand that is written: every element, each time. */
typedef struct ac_custom_output {
  void *data;                 /**< As in ac_custom_input. */
  ac_dtype dtype;             /**< As in ac_custom_input. */
  int rank;                   /**< Number of dimensions. */
  int64_t shape[AC_MAX_RANK]; /**< Its dimensions, with the samples of this run in the first one. */
  int64_t count;              /**< Its elements. 0: it is not wanted, and there is no memory. */
} ac_custom_output;

/** What the functions of an op get. It belongs to the library, and lives as long as the call. */
typedef struct ac_custom_call {
  ac_custom_input in[AC_CUSTOM_INPUTS];    /**< The inputs, in the order of the description. */
  ac_custom_output out[AC_CUSTOM_OUTPUTS]; /**< The outputs. */
  int in_count;                            /**< How many inputs. */
  int out_count;                           /**< How many outputs. */
  void *workspace;        /**< Memory for the run. Its contents are undefined. NULL: none. */
  size_t workspace_bytes; /**< At least as many as `workspace` of the description said. */
  const void *constants;  /**< A copy of the description's. */
  void *user;             /**< ac_custom_desc.user. */
  int64_t batch;          /**< Samples in this run. */
  bool training;          /**< False in evaluation and prediction. */
  /** Random numbers must depend on nothing but these four, the sample and the element: then the op
   * draws the same ones when it runs again, and whatever the micro-batch is. */
  uint64_t seed;
  uint32_t update; /**< Updates made so far. */
  uint32_t sample; /**< The first sample's position in the batch of the update. */
  uint32_t stream; /**< Another one for each op of a graph. An op and its gradient have the same. */
  int threads;     /**< Threads that ac_custom_parallel uses. */
  struct ac_custom_device *device; /**< The library's own. */
} ac_custom_call;

/** A part of a run: items [first, last). */
typedef void (*ac_custom_part)(const ac_custom_call *call, int64_t first, int64_t last,
                               void *context);

/** Calls `part` for disjoint ranges [first, last) that together are [0, count), from several
 * threads at once if `count` * `work` is large. `work` is roughly how many operations one item
 * takes. Returns when all are done. `context` is passed on. Only for ac_custom_desc.cpu, and not
 * from within `part`. Results must not depend on how the range is divided. */
AC_API void ac_custom_parallel(const ac_custom_call *call, int64_t count, int64_t work,
                               ac_custom_part part, void *context);

/** Reads elements [first, first + count) of an input on the CPU as floats, whichever float type it
 * has. Only for ac_custom_desc.cpu. */
AC_API void ac_custom_read(const ac_custom_call *call, int input, int64_t first, int64_t count,
                           float *to);
/** Writes elements [first, first + count) of an output, rounded to its float type. */
AC_API void ac_custom_write(const ac_custom_call *call, int output, int64_t first, int64_t count,
                            const float *from);

/* ---- OpenCL ---------------------------------------------------------------------------------- */

/** An argument of a kernel. Make it with AC_CUSTOM_BUFFER or AC_CUSTOM_VALUE. */
typedef struct ac_custom_argument {
  size_t bytes;      /**< 0: a buffer. */
  const void *value; /**< The buffer's handle, or where the value is. */
} ac_custom_argument;

/** `data` of an operand, or the workspace, as an argument `global T *`. An absent one is NULL. */
#define AC_CUSTOM_BUFFER(handle) \
  { 0, (handle) }
/** A variable of the type that the kernel's argument has: int32_t is int, int64_t long, float
 * float, and a struct is the same struct. */
#define AC_CUSTOM_VALUE(variable) \
  { sizeof(variable), &(variable) }

/** Most arguments of a kernel. */
#define AC_CUSTOM_ARGUMENTS 32

/** One launch of a kernel. */
typedef struct ac_custom_launch_desc {
  const char *kernel; /**< Its name in the source. */
  /** Work-items along each dimension; 0 counts as 1. They are rounded up to whole groups, so the
   * kernel must check its place. */
  size_t items[3];
  size_t group[3]; /**< Work-items of a group; 0 counts as 1. At most 64 run on every device. */
  const ac_custom_argument *arguments; /**< Its arguments. */
  int argument_count;                  /**< How many arguments. */
} ac_custom_launch_desc;

/** Queues a kernel, from ac_custom_desc.opencl alone. Kernels run one after the other, in the order
 * of the calls. The first failure stays with the call, and ends the update after `opencl` has
 * returned. */
AC_API void ac_custom_launch(const ac_custom_call *call, const ac_custom_launch_desc *desc);

/* ---- the description ------------------------------------------------------------------------- */

/** An op. The library copies all of it, with texts, constants and gradient. The functions and
 * `user` must stay as long as graphs and plans with the op do. */
typedef struct ac_custom_desc {
  const char *name; /**< What messages and reports call it. Required. */
  int outputs;      /**< How many outputs. 0: one. Not for a gradient. */
  /** Sets dtype (AC_F32 or AC_I32), rank and shape of each output from those of the inputs, where
   * shape[0] < 0 is the batch times -shape[0]. Before the call each output has the shape of the
   * first input, and is f32. Returns NULL, or a sentence that says why these inputs do not fit.
   * NULL: outputs stay like the first input. Not for a gradient. */
  const char *(*shapes)(const ac_tensor_info *in, int in_count, ac_tensor_info *out,
                        const void *constants);
  /** Computes the outputs on the CPU. It is called from one thread. Returns NULL, or a sentence
   * that says why it could not: the update then fails as if the device had failed. NULL: the op
   * does not run on the CPU. */
  const char *(*cpu)(const ac_custom_call *call);
  /** OpenCL C 1.2 with the kernels. It may use the names that docs/cookbook/own-op.md lists; no
   * other name may begin with ac_. NULL: the op does not run on OpenCL devices. */
  const char *opencl_source;
  /** Lists the launches of a run (ac_custom_launch). It is also called when there is no memory yet,
   * to compile the kernels: what it launches must depend on nothing but shapes, constants and
   * `training`. Returns NULL or a sentence, as `cpu` does. */
  const char *(*opencl)(const ac_custom_call *call);
  /** Float operands are stored as the plan's precision says: f32, f16 or bf16 (see ac_custom_read;
   * in OpenCL ac_load and ac_store). False: they are always f32, and the library converts them. */
  bool plan_storage;
  /** The result for a sample depends on other samples of the batch, so that the plan must not split
   * it into micro-batches. An output without the batch, of inputs that have it, needs this. */
  bool whole_batch;
  /** Bytes of workspace for operands of these shapes. It must not shrink when the batch grows.
   * NULL: none. */
  size_t (*workspace)(const ac_custom_call *call);
  /** Floating-point operations of a run, from which the plan predicts seconds. NULL: none, so that
   * time depends on bytes alone. */
  double (*flops)(const ac_custom_call *call);
  const void *constants; /**< Numbers for the functions. They are copied. */
  size_t constant_bytes; /**< How many bytes, at most AC_CUSTOM_CONSTANT_BYTES. */
  void *user;            /**< Passed to the functions. NULL is fine. */
  /** The gradient, another op. NULL: none, so that nothing is trained through the op. Its inputs
   * are, in this order: the gradients of the op's f32 outputs, one each (absent if nothing depends
   * on the output, but never all); the op's inputs that `gradient_takes` names; its outputs that
   * `gradient_takes_outputs` names. Its outputs are the gradients of the op's f32 inputs but those
   * of `constant_inputs`, in their shapes (absent if not wanted, but never all). */
  const struct ac_custom_desc *gradient;
  /** Bit i: the gradient needs input i. What no gradient needs is not kept until the backward pass.
   */
  uint32_t gradient_takes;
  uint32_t gradient_takes_outputs; /**< Bit j: the gradient needs output j. */
  uint32_t constant_inputs;        /**< Bit i: input i has no gradient. */
} ac_custom_desc;

/** Applies an op of one's own to `count` tensors, each f32 or i32. Returns its first output.
 * `outputs`, unless it is NULL, gets all of them. Integers are passed on as they are fed: it is the
 * op that must check them. */
AC_API ac_tensor *ac_custom_op(ac_graph *graph, ac_tensor *const *inputs, int count,
                               ac_tensor **outputs, const ac_custom_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
