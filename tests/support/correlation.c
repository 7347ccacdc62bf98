#include "correlation.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

typedef struct sizes {
  int64_t rows;
  int32_t T, K, Y;
} sizes;

static sizes sizes_of(const ac_custom_input *x, const ac_custom_input *w) {
  const int32_t T = (int32_t)x->shape[x->rank - 1], K = (int32_t)w->shape[0];
  return (sizes){x->count / T, T, K, T - K + 1};
}

static float scale_of(const ac_custom_call *call) {
  return ((const correlation_constants *)call->constants)->scale;
}

static const char *shapes(const ac_tensor_info *in, int in_count, ac_tensor_info *out,
                          const void *constants) {
  (void)constants;
  if (in_count != 2 || in[0].dtype != AC_F32 || in[1].dtype != AC_F32)
    return "it takes x f32 [..., T] and w f32 [K]";
  const int last = in[0].rank - 1;
  if (last < 0 || (last == 0 && in[0].shape[0] < 0) || in[1].rank != 1 || in[1].shape[0] < 1)
    return "it takes x f32 [..., T] and w f32 [K]";
  if (in[0].shape[last] < in[1].shape[0]) return "x is shorter than w";
  out->shape[last] = in[0].shape[last] - in[1].shape[0] + 1;
  return NULL;
}

/* ---- CPU ------------------------------------------------------------------------------------- */

/* Floats of all inputs and then all outputs, in the workspace. */
static size_t workspace(const ac_custom_call *call) {
  int64_t count = 0;
  for (int i = 0; i < call->in_count; i++) count += call->in[i].count;
  for (int j = 0; j < call->out_count; j++) count += call->out[j].count;
  return (size_t)count * sizeof(float);
}

static float *input_floats(const ac_custom_call *call, int input) {
  float *at = call->workspace;
  for (int i = 0; i < input; i++) at += call->in[i].count;
  return at;
}

static float *output_floats(const ac_custom_call *call, int output) {
  float *at = input_floats(call, call->in_count);
  for (int j = 0; j < output; j++) at += call->out[j].count;
  return at;
}

static void forward_rows(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const sizes s = sizes_of(&call->in[0], &call->in[1]);
  const float *w = input_floats(call, 1), scale = scale_of(call);
  (void)context;
  for (int64_t r = first; r < last; r++) {
    float *x = input_floats(call, 0) + r * s.T, *y = output_floats(call, 0) + r * s.Y;
    ac_custom_read(call, 0, r * s.T, s.T, x);
    for (int t = 0; t < s.Y; t++) {
      float sum = 0;
      for (int k = 0; k < s.K; k++) sum += x[t + k] * w[k];
      y[t] = scale * sum;
    }
    ac_custom_write(call, 0, r * s.Y, s.Y, y);
  }
}

static const char *forward(const ac_custom_call *call) {
  const sizes s = sizes_of(&call->in[0], &call->in[1]);
  ac_custom_read(call, 1, 0, s.K, input_floats(call, 1));
  ac_custom_parallel(call, s.rows, (int64_t)s.Y * s.K, forward_rows, NULL);
  return NULL;
}

static void input_rows(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const sizes s = *(const sizes *)context;
  const float *w = input_floats(call, 2), scale = scale_of(call);
  for (int64_t r = first; r < last; r++) {
    float *dy = input_floats(call, 0) + r * s.Y, *dx = output_floats(call, 0) + r * s.T;
    ac_custom_read(call, 0, r * s.Y, s.Y, dy);
    ac_custom_read(call, 1, r * s.T, s.T, input_floats(call, 1) + r * s.T);
    for (int t = 0; t < s.T && call->out[0].count; t++) {
      float sum = 0;
      for (int k = 0; k < s.K; k++)
        if (t - k >= 0 && t - k < s.Y) sum += dy[t - k] * w[k];
      dx[t] = scale * sum;
    }
    if (call->out[0].count) ac_custom_write(call, 0, r * s.T, s.T, dx);
  }
}

static void weight_range(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const sizes s = *(const sizes *)context;
  const float *dy = input_floats(call, 0), *x = input_floats(call, 1), scale = scale_of(call);
  for (int64_t k = first; k < last; k++) {
    double sum = 0;
    for (int64_t r = 0; r < s.rows; r++)
      for (int t = 0; t < s.Y; t++) sum += (double)dy[r * s.Y + t] * (double)x[r * s.T + t + k];
    const float dw = scale * (float)sum;
    ac_custom_write(call, 1, k, 1, &dw);
  }
}

/* dy x w -> dx dw */
static const char *backward(const ac_custom_call *call) {
  sizes s = sizes_of(&call->in[1], &call->in[2]);
  ac_custom_read(call, 2, 0, s.K, input_floats(call, 2));
  ac_custom_parallel(call, s.rows, (int64_t)s.Y * s.K, input_rows, &s);
  if (call->out[1].count) ac_custom_parallel(call, s.K, s.rows * s.Y, weight_range, &s);
  return NULL;
}

/* ---- OpenCL ---------------------------------------------------------------------------------- */

static const char forward_source[] =
    "typedef struct { float scale, unused[15]; } constants;\n"
    "kernel void correlate(const global ac_storage *x, const global ac_storage *w, global "
    "ac_storage *y, long rows,\n"
    "                      int T, int K, constants c) {\n"
    "  const int Y = T - K + 1;\n"
    "  const long i = get_global_id(0), r = i / Y, t = i % Y;\n"
    "  if (r >= rows) return;\n"
    "  float sum = 0;\n"
    "  for (int k = 0; k < K; k++) sum += ac_load(x, r * T + t + k) * ac_load(w, k);\n"
    "  ac_store(y, i, c.scale * sum);\n"
    "}\n";
static const char backward_source[] =
    "typedef struct { float scale, unused[15]; } constants;\n"
    "kernel void correlate_input(const global ac_storage *dy, const global ac_storage *w, global "
    "ac_storage *dx,\n"
    "                            long rows, int T, int K, constants c) {\n"
    "  const int Y = T - K + 1;\n"
    "  const long i = get_global_id(0), r = i / T, t = i % T;\n"
    "  if (r >= rows) return;\n"
    "  float sum = 0;\n"
    "  for (int k = 0; k < K; k++)\n"
    "    if (t - k >= 0 && t - k < Y) sum += ac_load(dy, r * Y + t - k) * ac_load(w, k);\n"
    "  ac_store(dx, i, c.scale * sum);\n"
    "}\n"
    "kernel void correlate_weight(const global ac_storage *dy, const global ac_storage *x, global "
    "ac_storage *dw,\n"
    "                             long rows, int T, int K, constants c) {\n"
    "  const int Y = T - K + 1, k = get_global_id(0);\n"
    "  if (k >= K) return;\n"
    "  float sum = 0;\n"
    "  for (long r = 0; r < rows; r++) {\n"
    "    float row = 0;\n"
    "    for (int t = 0; t < Y; t++) row += ac_load(dy, r * Y + t) * ac_load(x, r * T + t + k);\n"
    "    sum += row;\n"
    "  }\n"
    "  ac_store(dw, k, c.scale * sum);\n"
    "}\n";

enum { GROUP = 64 };

static const char *forward_opencl(const ac_custom_call *call) {
  const sizes s = sizes_of(&call->in[0], &call->in[1]);
  const correlation_constants c = *(const correlation_constants *)call->constants;
  const ac_custom_argument arguments[] = {AC_CUSTOM_BUFFER(call->in[0].data),
                                          AC_CUSTOM_BUFFER(call->in[1].data),
                                          AC_CUSTOM_BUFFER(call->out[0].data),
                                          AC_CUSTOM_VALUE(s.rows),
                                          AC_CUSTOM_VALUE(s.T),
                                          AC_CUSTOM_VALUE(s.K),
                                          AC_CUSTOM_VALUE(c)};
  ac_custom_launch(call, &(ac_custom_launch_desc){.kernel = "correlate",
                                                  .items = {(size_t)call->out[0].count},
                                                  .group = {GROUP},
                                                  .arguments = arguments,
                                                  .argument_count = 7});
  return NULL;
}

static void launch_backward(const ac_custom_call *call, const char *kernel, int output,
                            const void *operand) {
  const sizes s = sizes_of(&call->in[1], &call->in[2]);
  const correlation_constants c = *(const correlation_constants *)call->constants;
  const ac_custom_argument arguments[] = {AC_CUSTOM_BUFFER(call->in[0].data),
                                          AC_CUSTOM_BUFFER(operand),
                                          AC_CUSTOM_BUFFER(call->out[output].data),
                                          AC_CUSTOM_VALUE(s.rows),
                                          AC_CUSTOM_VALUE(s.T),
                                          AC_CUSTOM_VALUE(s.K),
                                          AC_CUSTOM_VALUE(c)};
  ac_custom_launch(call, &(ac_custom_launch_desc){.kernel = kernel,
                                                  .items = {(size_t)call->out[output].count},
                                                  .group = {GROUP},
                                                  .arguments = arguments,
                                                  .argument_count = 7});
}

static const char *backward_opencl(const ac_custom_call *call) {
  if (call->out[0].count) launch_backward(call, "correlate_input", 0, call->in[2].data);
  if (call->out[1].count) launch_backward(call, "correlate_weight", 1, call->in[1].data);
  return NULL;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static double flops(const ac_custom_call *call) {
  const sizes s = sizes_of(&call->in[0], &call->in[1]);
  return 2.0 * (double)s.rows * s.Y * s.K;
}

static const correlation_constants half = {0.5f, {0}};

#define GRADIENT(stored)                                                                           \
  {                                                                                                \
    .name = "correlation_gradient", .cpu = backward, .opencl_source = backward_source,             \
    .opencl = backward_opencl, .plan_storage = stored, .workspace = workspace, .constants = &half, \
    .constant_bytes = sizeof half                                                                  \
  }
#define CORRELATION(stored, gradient_)                                                            \
  {                                                                                               \
    .name = "correlation", .shapes = shapes, .cpu = forward, .opencl_source = forward_source,     \
    .opencl = forward_opencl, .plan_storage = stored, .workspace = workspace, .flops = flops,     \
    .constants = &half, .constant_bytes = sizeof half, .gradient = gradient_, .gradient_takes = 3 \
  }

static const ac_custom_desc stored_gradient = GRADIENT(true), floats_gradient = GRADIENT(false);
const ac_custom_desc correlation_stored = CORRELATION(true, &stored_gradient),
                     correlation_floats = CORRELATION(false, &floats_gradient);
