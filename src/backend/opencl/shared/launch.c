/* Finding kernels and queueing them. A kernel object is made once and kept; in an in-order queue
 * driven by one thread its arguments can be set anew for every launch. The table is searched by a
 * 64-bit hash of file, options and name: with a few hundred kernels two of them have the same hash
 * with a probability of 2^-50. */
#include "backend/opencl/shared/opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/integers.h"

static ac_status launch_fail(const ac_opencl *cl, cl_int error, const char *kernel) {
  char what[128];
  snprintf(what, sizeof what, "%s: kernel %s", cl->op, kernel);
  return ac_cl_fail(cl, error, what);
}

static ac_status add_kernel(ac_opencl *cl, uint64_t key, const ac_cl_kernel *wanted,
                            const ac_cl_writer *writer, cl_kernel *kernel) {
  if (cl->kernel_count == cl->kernel_capacity) {
    int capacity = cl->kernel_capacity ? 2 * cl->kernel_capacity : 64;
    ac_cl_compiled *grown = realloc(cl->kernels, (size_t)capacity * sizeof *grown);
    if (!grown) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for the list of kernels");
    cl->kernels = grown;
    cl->kernel_capacity = capacity;
  }
  cl_int error;
  AC_TRY(
      ac_cl_kernel_create(cl, wanted->file, wanted->options, writer, wanted->name, kernel, &error));
  if (error != CL_SUCCESS) return launch_fail(cl, error, wanted->name);
  cl->kernels[cl->kernel_count++] = (ac_cl_compiled){key, *kernel};
  return AC_OK;
}

static ac_status find_kernel(ac_opencl *cl, const ac_cl_kernel *wanted, const ac_cl_writer *writer,
                             cl_kernel *kernel) {
  uint64_t key = ac_hash(0, wanted->file, strlen(wanted->file) + 1);
  key = ac_hash(key, wanted->options, strlen(wanted->options) + 1);
  key = ac_hash(key + (writer ? writer->key : 0), wanted->name, strlen(wanted->name));
  for (int i = 0; i < cl->kernel_count; i++)
    if (cl->kernels[i].key == key) {
      *kernel = cl->kernels[i].kernel;
      return AC_OK;
    }
  return add_kernel(cl, key, wanted, writer, kernel);
}

/* A kernel that needs many registers may run in smaller groups than the device allows in general.
 */
static ac_status check_group(const ac_opencl *cl, cl_kernel compiled, const ac_cl_kernel *kernel,
                             const ac_cl_grid *grid) {
  size_t most = 0, wanted = grid->local[0] * grid->local[1];
  cl_int error = clGetKernelWorkGroupInfo(compiled, cl->device, CL_KERNEL_WORK_GROUP_SIZE,
                                          sizeof most, &most, NULL);
  if (error != CL_SUCCESS || wanted <= most) return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "opencl: %s: kernel %s wants groups of %zu on %s, which runs it in groups of at "
                 "most %zu",
                 cl->op, kernel->name, wanted, cl->info.name, most);
}

/* Drivers of GPUs take no more items along a dimension, or count on from 0. */
static ac_status check_items(const ac_opencl *cl, const ac_cl_kernel *kernel,
                             const ac_cl_grid *grid) {
  if (grid->global[0] <= UINT32_MAX) return AC_OK;
  return ac_fail(
      AC_ERROR_UNSUPPORTED,
      "opencl: %s: kernel %s wants %zu work-items, more than the 2^32 - 1 that drivers take; "
      "a smaller micro-batch may help",
      cl->op, kernel->name, grid->global[0]);
}

/* What the storage type of the current op adds to a kernel's options. */
static const char *storage_options(const ac_opencl *cl) {
  switch (cl->storage) {
  case AC_F16:
    return cl->mark_flushed ? " -DSTORAGE_F16 -DMARK_FLUSHED" : " -DSTORAGE_F16";
  case AC_BF16:
    return " -DSTORAGE_BF16";
  default:
    return "";
  }
}

ac_status ac_cl_launch(ac_opencl *cl, ac_cl_kernel kernel, ac_cl_grid grid,
                       const ac_cl_argument *arguments, int count) {
  return ac_cl_launch_written(cl, kernel, NULL, grid, arguments, count);
}

ac_status ac_cl_launch_written(ac_opencl *cl, ac_cl_kernel kernel, const ac_cl_writer *writer,
                               ac_cl_grid grid, const ac_cl_argument *arguments, int count) {
  cl_kernel compiled = NULL;
  char options[AC_CL_MAX_OPTIONS];
  const char *own = kernel.options ? kernel.options : "";
  const int length = snprintf(options, sizeof options, "%s%s", own, storage_options(cl));
  if (length < 0 || (size_t)length >= sizeof options)
    return ac_fail(AC_ERROR_ARGUMENT, "opencl: the options of kernel %s are too long", kernel.name);
  kernel.options = options;
  AC_TRY(find_kernel(cl, &kernel, writer, &compiled));
  AC_TRY(check_items(cl, &kernel, &grid));
  if (cl->preparing) return check_group(cl, compiled, &kernel, &grid);
  if (grid.global[0] == 0) return AC_OK;
  for (int i = 0; i < count; i++) {
    const ac_cl_argument *a = &arguments[i];
    const void *value = a->size > sizeof a->value ? a->value.elsewhere : &a->value;
    cl_int error = clSetKernelArg(compiled, (cl_uint)i, a->size, value);
    if (error != CL_SUCCESS) return launch_fail(cl, error, kernel.name);
  }
  cl->launches++;
  cl_int error = clEnqueueNDRangeKernel(cl->queue, compiled, grid.global[2] > 1 ? 3 : 2, NULL,
                                        grid.global, grid.local, 0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : launch_fail(cl, error, kernel.name);
}

ac_cl_grid ac_cl_groups(int64_t groups, int x, int y) {
  return (ac_cl_grid){{(size_t)groups * (size_t)x, (size_t)y, 1}, {(size_t)x, (size_t)y, 1}};
}

ac_cl_grid ac_cl_elements(const ac_opencl *cl, int64_t n) {
  const int64_t groups = ac_ceil_div(n, cl->group), most = ac_larger(cl->most_items / cl->group, 1);
  ac_cl_grid grid = ac_cl_groups(ac_smaller(groups, most), cl->group, 1);
  if (groups > most) grid.global[2] = (size_t)ac_ceil_div(groups, most);
  return grid;
}

bool ac_cl_is_short_row(const ac_opencl *cl, int64_t length) {
  return length <= 1024 || cl->group < 256;
}

const char *ac_cl_row_options(const ac_opencl *cl, int64_t length) {
  return ac_cl_is_short_row(cl, length) ? "-DROW_GROUP=64" : "-DROW_GROUP=256";
}

ac_cl_grid ac_cl_rows(const ac_opencl *cl, int64_t rows, int64_t length) {
  return ac_cl_groups(rows, ac_cl_is_short_row(cl, length) ? 64 : 256, 1);
}

/* The inputs that there are and the output; returns how many. */
static int operands_of(const ac_op_args *args, ac_cl_argument arguments[AC_MAX_INPUTS + 1]) {
  int count = 0;
  for (int i = 0; i < AC_MAX_INPUTS && args->in[i].count; i++)
    arguments[count++] = AC_CL_OPERAND(args->in[i]);
  arguments[count++] = AC_CL_OPERAND(args->out[0]);
  return count;
}

ac_status ac_cl_map(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args) {
  ac_cl_argument arguments[AC_MAX_INPUTS + 2];
  int count = operands_of(args, arguments);
  arguments[count++] = AC_CL_LONG(args->out[0].count);
  return ac_cl_launch(cl, kernel, ac_cl_elements(cl, args->out[0].count), arguments, count);
}

ac_status ac_cl_map_rows(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args, int64_t rows,
                         int64_t length) {
  ac_cl_argument arguments[AC_MAX_INPUTS + 3];
  int count = operands_of(args, arguments);
  arguments[count++] = AC_CL_LONG(length);
  arguments[count++] = AC_CL_INT(args->add[0]);
  kernel.options = ac_cl_row_options(cl, length);
  return ac_cl_launch(cl, kernel, ac_cl_rows(cl, rows, length), arguments, count);
}

int ac_cl_lanes(const ac_opencl *cl) {
  return cl->group / 32;
}

ac_status ac_cl_copy(ac_opencl *cl, void *destination, const void *source, uint64_t bytes) {
  if (cl->preparing || destination == source || bytes == 0) return AC_OK;
  cl_int error = clEnqueueCopyBuffer(cl->queue, (cl_mem)source, (cl_mem)destination, 0, 0, bytes, 0,
                                     NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : launch_fail(cl, error, "copy");
}

ac_status ac_cl_zero(ac_opencl *cl, void *handle, uint64_t bytes) {
  if (cl->preparing || bytes == 0) return AC_OK;
  const cl_uchar zero = 0;
  const cl_uint word = 0;
  cl_int error =
      bytes % 4 ? clEnqueueFillBuffer(cl->queue, (cl_mem)handle, &zero, 1, 0, bytes, 0, NULL, NULL)
                : clEnqueueFillBuffer(cl->queue, (cl_mem)handle, &word, 4, 0, bytes, 0, NULL, NULL);
  return error == CL_SUCCESS ? AC_OK : launch_fail(cl, error, "fill");
}
