/* Calls the caller's function. Its ranges are shared out as those of kernels are. */
#include "ops/custom/custom.h"

#include "backend/cpu/shared/kernels.h"

typedef struct shared_out {
  struct ac_custom_device device;
  const ac_cpu_context *context;
} shared_out;

typedef struct job {
  const ac_custom_call *call;
  ac_custom_part part;
  void *context;
} job;

static void run_range(const ac_op_args *args, int64_t first, int64_t last) {
  const job *j = args->attributes;
  j->part(j->call, first, last, j->context);
}

static void parallel(const struct ac_custom_device *device, const ac_custom_call *call,
                     int64_t count, int64_t work, ac_custom_part part, void *context) {
  const job j = {call, part, context};
  const ac_op_args args = {.attributes = &j};
  ac_cpu_for(((const shared_out *)device)->context, &args, count, ac_larger(work, 1), run_range);
}

static ac_status run(const ac_cpu_context *context, const ac_op_args *args) {
  shared_out s = {.device = {.parallel = parallel, .mark_flushed = args->run->mark_flushed},
                  .context = context};
  ac_custom_call call;
  ac_custom_call_of(&call, args);
  call.threads = context->threads;
  call.device = &s.device;
  return ac_custom_result(ac_custom_of(args)->desc.cpu(&call));
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  return ac_custom_workspace(args);
}

static bool fits(const ac_op_args *args) {
  return ac_custom_of(args)->desc.cpu;
}

const ac_cpu_kernel AC_CPU_KERNEL(custom) = {
    .run_caller = run, .workspace = workspace, .fits = fits};
