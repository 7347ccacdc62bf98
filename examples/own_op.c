/* An op of one's own, for what no formula says: a memory that fades, for each channel by another
 * factor,
 *
 *   y[b, t, c] = a[c] y[b, t - 1, c] + x[b, t, c]
 *
 * with its gradient, for the CPU and for OpenCL. The gradient is compared with differences. Then
 * the factors are learned from what comes out. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES = 64, TIME = 12, CHANNELS = 3, UPDATES = 200 };

static const float truth[CHANNELS] = {0.9f, 0.5f, -0.3f};

/* ---- the op ---------------------------------------------------------------------------------- */

static const char *check_inputs(const ac_tensor_info *in, int in_count, ac_tensor_info *out,
                                const void *constants) {
  (void)out, (void)constants;
  if (in_count != 2 || in[0].rank != 3 || in[1].rank != 1 || in[1].shape[0] != in[0].shape[2])
    return "it takes x [B, T, C] and a [C]";
  return NULL;
}

static void fade_samples(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const float *x = call->in[0].data, *a = call->in[1].data;
  float *y = call->out[0].data;
  const int64_t T = call->in[0].shape[1], C = call->in[0].shape[2];
  (void)context;
  for (int64_t b = first; b < last; b++)
    for (int64_t i = b * T * C; i < (b + 1) * T * C; i++)
      y[i] = x[i] + (i < b * T * C + C ? 0 : a[i % C] * y[i - C]);
}

static const char *fade(const ac_custom_call *call) {
  ac_custom_parallel(call, call->batch, call->in[0].count / call->batch, fade_samples, NULL);
  return NULL;
}

static const char source[] =
    "kernel void fade(const global float *x, const global float *a, global float *y,\n"
    "                 int B, int T, int C) {\n"
    "  const int b = get_global_id(0) / C, c = get_global_id(0) % C;\n"
    "  if (b >= B) return;\n"
    "  float state = 0;\n"
    "  for (int t = 0; t < T; t++) {\n"
    "    const size_t i = ((size_t)b * T + t) * C + c;\n"
    "    y[i] = state = a[c] * state + x[i];\n"
    "  }\n"
    "}\n";

/* Starts a kernel that takes buffers, and then the sizes of x. */
static void launch(const ac_custom_call *call, const char *kernel, size_t items, const void *first,
                   const void *second, const void *third, const ac_custom_input *x) {
  const int32_t B = (int32_t)x->shape[0], T = (int32_t)x->shape[1], C = (int32_t)x->shape[2];
  const ac_custom_argument arguments[] = {AC_CUSTOM_BUFFER(first), AC_CUSTOM_BUFFER(second),
                                          AC_CUSTOM_BUFFER(third), AC_CUSTOM_VALUE(B),
                                          AC_CUSTOM_VALUE(T),      AC_CUSTOM_VALUE(C)};
  ac_custom_launch_desc desc = AC_DEFAULTS;
  desc.kernel = kernel;
  desc.items[0] = items;
  desc.group[0] = 64;
  desc.arguments = arguments;
  desc.argument_count = 6;
  ac_custom_launch(call, &desc);
}

static const char *launch_fade(const ac_custom_call *call) {
  const ac_custom_input *x = &call->in[0];
  launch(call, "fade", (size_t)(x->shape[0] * x->shape[2]), x->data, call->in[1].data,
         call->out[0].data, x);
  return NULL;
}

/* ---- its gradient ---------------------------------------------------------------------------- */

/* dx[b, t, c] = dy[b, t, c] + a[c] dx[b, t + 1, c], and da[c] is the sum of dx[b, t, c] y[b, t - 1,
 * c]. The inputs are dy, then what the op below asks for: a and y. dx and da may be absent, and da
 * needs dx: so it has a workspace. */
static float *room_for_dx(const ac_custom_call *call) {
  return call->out[0].count ? call->out[0].data : call->workspace;
}

static size_t gradient_workspace(const ac_custom_call *call) {
  return call->out[0].count ? 0 : (size_t)call->in[0].count * sizeof(float);
}

static void fade_back(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const float *dy = call->in[0].data, *a = call->in[1].data;
  float *dx = context;
  const int64_t T = call->in[0].shape[1], C = call->in[0].shape[2];
  for (int64_t b = first; b < last; b++)
    for (int64_t i = (b + 1) * T * C - 1; i >= b * T * C; i--)
      dx[i] = dy[i] + (i >= (b + 1) * T * C - C ? 0 : a[i % C] * dx[i + C]);
}

static void sum_channels(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const float *y = call->in[2].data, *dx = context;
  float *da = call->out[1].data;
  const int64_t T = call->in[0].shape[1], C = call->in[0].shape[2];
  for (int64_t c = first; c < last; c++) {
    double sum = 0;
    for (int64_t i = c; i < call->in[0].count; i += C)
      if (i / C % T > 0) sum += dx[i] * y[i - C];
    da[c] = (float)sum;
  }
}

static const char *fade_gradient(const ac_custom_call *call) {
  const ac_custom_input *dy = &call->in[0];
  float *dx = room_for_dx(call);
  ac_custom_parallel(call, call->batch, dy->count / call->batch, fade_back, dx);
  if (call->out[1].count)
    ac_custom_parallel(call, dy->shape[2], dy->count / dy->shape[2], sum_channels, dx);
  return NULL;
}

static const char gradient_source[] =
    "kernel void fade_back(const global float *dy, const global float *a, global float *dx,\n"
    "                      int B, int T, int C) {\n"
    "  const int b = get_global_id(0) / C, c = get_global_id(0) % C;\n"
    "  if (b >= B) return;\n"
    "  float state = 0;\n"
    "  for (int t = T - 1; t >= 0; t--) {\n"
    "    const size_t i = ((size_t)b * T + t) * C + c;\n"
    "    dx[i] = state = a[c] * state + dy[i];\n"
    "  }\n"
    "}\n"
    "kernel void sum_channels(const global float *dx, const global float *y, global float *da,\n"
    "                         int B, int T, int C) {\n"
    "  const int c = get_global_id(0);\n"
    "  if (c >= C) return;\n"
    "  float sum = 0;\n"
    "  for (int b = 0; b < B; b++)\n"
    "    for (int t = 1; t < T; t++) {\n"
    "      const size_t i = ((size_t)b * T + t) * C + c;\n"
    "      sum += dx[i] * y[i - C];\n"
    "    }\n"
    "  da[c] = sum;\n"
    "}\n";

static const char *launch_gradient(const ac_custom_call *call) {
  const ac_custom_input *dy = &call->in[0];
  const void *dx = room_for_dx(call);
  launch(call, "fade_back", (size_t)(dy->shape[0] * dy->shape[2]), dy->data, call->in[1].data, dx,
         dy);
  if (call->out[1].count)
    launch(call, "sum_channels", (size_t)dy->shape[2], dx, call->in[2].data, call->out[1].data, dy);
  return NULL;
}

static const ac_custom_desc gradient = {.name = "fade_gradient",
                                        .cpu = fade_gradient,
                                        .opencl_source = gradient_source,
                                        .opencl = launch_gradient,
                                        .workspace = gradient_workspace};
static const ac_custom_desc op = {.name = "fade",
                                  .shapes = check_inputs,
                                  .cpu = fade,
                                  .opencl_source = source,
                                  .opencl = launch_fade,
                                  .gradient = &gradient,
                                  .gradient_takes = 1u << 1, /* a */
                                  .gradient_takes_outputs = 1u << 0 /* y */};

/* ---- a model --------------------------------------------------------------------------------- */

/* The parameter `offset` is added to x, so that the gradient of x can also be read. */
static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc zeros = {.init = {.kind = AC_INIT_ZERO}};
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, TIME, CHANNELS)),
            *want = ac_input(graph, "want", AC_F32, AC_SHAPE(AC_BATCH, TIME, CHANNELS)),
            *offset = ac_parameter(graph, "offset", AC_SHAPE(TIME, CHANNELS), &zeros),
            *a = ac_parameter(graph, "a", AC_SHAPE(CHANNELS), &zeros);
  ac_tensor *inputs[] = {ac_add(x, offset), a};
  ac_tensor *y = ac_custom_op(graph, inputs, 2, NULL, &op);
  ac_graph_set_output(graph, "y", y);
  ac_graph_set_loss(graph, ac_mean_squared_error(y, want, NULL));
  return ac_graph_status(graph);
}

static float x[SAMPLES][TIME][CHANNELS], want[SAMPLES][TIME][CHANNELS];
static const ac_feed feeds[] = {{"x", x}, {"want", want}};

static void draw(void) {
  uint32_t state = 1;
  for (int b = 0; b < SAMPLES; b++)
    for (int t = 0; t < TIME; t++)
      for (int c = 0; c < CHANNELS; c++) {
        state = state * 1664525u + 1013904223u;
        x[b][t][c] = (float)(state >> 8) / (1 << 23) - 1;
        want[b][t][c] = x[b][t][c] + (t ? truth[c] * want[b][t - 1][c] : 0);
      }
}

/* ---- differences ----------------------------------------------------------------------------- */

/* The sum of the losses of a few samples in double, from what is predicted with element `e` of a
 * parameter moved. */
enum { FEW = 3, OF_SAMPLE = TIME * CHANNELS };
static ac_status loss_at(ac_trainer *trainer, int parameter, int e, float value, double *loss) {
  static float y[FEW * OF_SAMPLE];
  ac_status status = ac_trainer_set_parameter(trainer, parameter, e, 1, &value);
  if (status == AC_OK) status = ac_trainer_predict(trainer, "y", FEW, feeds, 1, FEW * OF_SAMPLE, y);
  *loss = 0;
  for (int i = 0; i < FEW * OF_SAMPLE; i++) {
    const double off = (double)y[i] - (double)(&want[0][0][0])[i];
    *loss += off * off / OF_SAMPLE;
  }
  return status;
}

/* The gradient of every element is near (loss(w + h) - loss(w - h)) / 2 h. */
static ac_status compare(ac_trainer *trainer, int parameter, int count, double *worst) {
  const float h = 0x1p-7f;
  float w[OF_SAMPLE], gradient[OF_SAMPLE];
  ac_status status = ac_trainer_accumulate(trainer, FEW, feeds, 2);
  if (status == AC_OK) status = ac_trainer_get_gradient(trainer, parameter, 0, count, gradient);
  if (status == AC_OK) status = ac_trainer_get_parameter(trainer, parameter, 0, count, w);
  ac_trainer_discard(trainer); /* no update: the window was for its gradient alone */
  for (int e = 0; e < count && status == AC_OK; e++) {
    double up, down;
    status = loss_at(trainer, parameter, e, w[e] + h, &up);
    if (status == AC_OK) status = loss_at(trainer, parameter, e, w[e] - h, &down);
    if (status == AC_OK) status = ac_trainer_set_parameter(trainer, parameter, e, 1, &w[e]);
    if (status == AC_OK)
      *worst = fmax(*worst, fabs((double)gradient[e] - (up - down) / (2 * (double)h)));
  }
  return status;
}

/* ---- training -------------------------------------------------------------------------------- */

static ac_status train(ac_trainer *trainer) {
  ac_update result;
  for (int update = 1; update <= UPDATES; update++) {
    ac_status status = ac_trainer_accumulate(trainer, SAMPLES, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, &result);
    if (status != AC_OK) return status;
    if (update % 50 == 0) printf("update %d: loss %.6f\n", update, result.loss);
  }
  return AC_OK;
}

/* Whether all of it works on a device. */
static bool works_on(const char *device, const ac_graph *graph) {
  ac_learner_desc desc = AC_DEFAULTS;
  desc.device.name = device;
  desc.plan.batch = SAMPLES;
  desc.trainer.schedule.lr = 0.02;
  ac_learner *learner = NULL;
  float a[CHANNELS] = {0.4f, -0.2f, 0.1f};
  double worst = 0, off = 0;
  ac_status status = ac_learner_create(&learner, graph, &desc);
  ac_trainer *trainer = ac_learner_trainer(learner);
  if (status == AC_OK) status = ac_trainer_set_parameter(trainer, 1, 0, CHANNELS, a);
  if (status == AC_OK) status = compare(trainer, 0, OF_SAMPLE, &worst);
  if (status == AC_OK) status = compare(trainer, 1, CHANNELS, &worst);
  if (status == AC_OK) printf("%s: gradients are off by %.1e at most\n", device, worst);
  if (status == AC_OK) status = train(trainer);
  if (status == AC_OK) status = ac_trainer_get_parameter(trainer, 1, 0, CHANNELS, a);
  for (int c = 0; c < CHANNELS; c++) off = fmax(off, fabs((double)a[c] - (double)truth[c]));
  if (status != AC_OK) fprintf(stderr, "%s: %s\n", device, ac_last_error());
  else printf("a = %.3f, %.3f, %.3f\n", (double)a[0], (double)a[1], (double)a[2]);
  ac_learner_free(learner);
  return status == AC_OK && worst < 1e-4 && off < 0.01;
}

int main(void) {
  ac_graph *graph = NULL;
  ac_device_info found;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status != AC_OK) fprintf(stderr, "%s\n", ac_last_error());
  draw();
  bool works = status == AC_OK && works_on("cpu", graph);
  if (works && ac_device_find(&found, "opencl") == AC_OK) works = works_on("opencl", graph);
  ac_graph_free(graph);
  return works ? 0 : 1;
}
