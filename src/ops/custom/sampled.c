/* The op that tells what one of the caller's own takes on a device, apart from what its functions
 * do: y = 2 x, in floats. */
#include "ops/custom/custom.h"

static void double_range(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  (void)context;
  for (int64_t i = first; i < last; i++) y[i] = 2 * x[i];
}

static const char *on_cpu(const ac_custom_call *call) {
  ac_custom_parallel(call, call->in[0].count, 1, double_range, NULL);
  return NULL;
}

static const char source[] =
    "kernel void twice(const global ac_storage *x, global ac_storage *y, long count) {\n"
    "  const size_t i = get_global_id(0);\n"
    "  if (i < count) ac_store(y, i, 2 * ac_load(x, i));\n"
    "}\n";

static const char *on_opencl(const ac_custom_call *call) {
  const ac_custom_argument arguments[] = {AC_CUSTOM_BUFFER(call->in[0].data),
                                          AC_CUSTOM_BUFFER(call->out[0].data),
                                          AC_CUSTOM_VALUE(call->in[0].count)};
  ac_custom_launch(call, &(ac_custom_launch_desc){.kernel = "twice",
                                                  .items = {(size_t)call->in[0].count},
                                                  .group = {64},
                                                  .arguments = arguments,
                                                  .argument_count = 3});
  return NULL;
}

static double flops(const ac_custom_call *call) {
  return (double)call->in[0].count;
}

static const ac_custom op = {
    .desc = {.name = "custom",
             .cpu = on_cpu,
             .opencl_source = source,
             .opencl = on_opencl,
             .flops = flops},
    .source_key = 1,
};
const ac_custom_attributes ac_custom_sampled = {.kinds = {{'f'}, {'f'}}, .stream = 1, .op = &op};
