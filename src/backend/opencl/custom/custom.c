/* Calls the caller's function, which lists the launches of kernels of the caller's source. The
 * source follows cl/custom/custom.cl, so it knows the storage type. */
#include "ops/custom/custom.h"

#include <string.h>

#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

typedef struct launches {
  struct ac_custom_device device;
  ac_opencl *cl;
  const ac_custom *op;
  ac_status status; /* the first failure's */
} launches;

/* Ranges are for CPUs; here is but this thread. */
static void alone(const struct ac_custom_device *device, const ac_custom_call *call, int64_t count,
                  int64_t work, ac_custom_part part, void *context) {
  (void)device, (void)work;
  part(call, 0, count, context);
}

static ac_status check(const launches *l, const ac_custom_launch_desc *desc) {
  if (!desc->kernel || !*desc->kernel)
    return ac_fail(AC_ERROR_ARGUMENT, "opencl: %s launches a kernel without a name",
                   l->op->desc.name);
  const int count = desc->argument_count;
  if (count < 0 || count > AC_CUSTOM_ARGUMENTS || (count && !desc->arguments))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "opencl: %s gives kernel %s %d arguments%s; there can be 0 to %d",
                   l->op->desc.name, desc->kernel, count, desc->arguments ? "" : " at NULL",
                   AC_CUSTOM_ARGUMENTS);
  return AC_OK;
}

/* Items in whole groups; both at least 1. */
static ac_cl_grid grid_of(const ac_custom_launch_desc *desc) {
  ac_cl_grid grid;
  for (int k = 0; k < 3; k++) {
    const size_t group = desc->group[k] ? desc->group[k] : 1;
    const size_t items = desc->items[k] ? desc->items[k] : 1;
    grid.local[k] = group;
    grid.global[k] = (items / group + (items % group > 0)) * group;
  }
  return grid;
}

static ac_cl_argument argument_of(const ac_custom_argument *a) {
  if (!a->bytes) return AC_CL_BUFFER(a->value);
  ac_cl_argument argument = {.size = a->bytes};
  if (a->bytes > sizeof argument.value) argument.value.elsewhere = a->value;
  else memcpy(&argument.value, a->value, a->bytes);
  return argument;
}

static ac_status queue(const launches *l, const ac_custom_launch_desc *desc) {
  ac_cl_argument arguments[AC_CUSTOM_ARGUMENTS];
  AC_TRY(check(l, desc));
  for (int i = 0; i < desc->argument_count; i++) {
    arguments[i] = argument_of(&desc->arguments[i]);
  }
  const ac_cl_writer writer = {.key = l->op->source_key, .of = l->op->desc.opencl_source};
  return ac_cl_launch_written(l->cl, (ac_cl_kernel){"custom", desc->kernel, NULL}, &writer,
                              grid_of(desc), arguments, desc->argument_count);
}

static void launch(struct ac_custom_device *device, const ac_custom_launch_desc *desc) {
  launches *l = (launches *)device;
  if (l->status == AC_OK) l->status = queue(l, desc);
}

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  launches l = {{.parallel = alone, .launch = launch}, cl, ac_custom_of(args), AC_OK};
  ac_custom_call call;
  ac_custom_call_of(&call, args);
  call.device = &l.device;
  cl->op = l.op->desc.name;
  const char *sentence = l.op->desc.opencl(&call);
  if (l.status != AC_OK || !sentence) return l.status;
  l.status = ac_custom_result(sentence);
  return cl->preparing ? ac_fail_prefix(l.status, "opencl: %s", cl->op) : l.status;
}

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return ac_custom_workspace(args);
}

static bool fits(const ac_op_args *args) {
  return ac_custom_of(args)->desc.opencl;
}

const ac_cl_op ac_cl_op_custom = {.run = run, .workspace = workspace, .fits = fits};
