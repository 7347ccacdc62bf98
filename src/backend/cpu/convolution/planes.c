/* Threads share out the planes. Planes of floats are worked on where they lie; others are converted
 * into a thread's part of the workspace, and the result back, one plane at a time. */
#include "backend/cpu/convolution/planes.h"

#include "backend/cpu/shared/convert.h"

static int64_t plane_size(const ac_operand *x) {
  return x->count ? x->dim[2] * x->dim[3] : 0;
}

/* Floats that a thread needs to convert the planes of inputs and output. */
static int64_t scratch_floats(const ac_op_args *args) {
  int64_t floats = plane_size(&args->out[0]);
  for (int i = 0; i < AC_MAX_INPUTS; i++) floats += plane_size(&args->in[i]);
  return ac_op_storage(args) == AC_F32 ? 0 : ac_ceil_div(floats, AC_CPU_LINE) * AC_CPU_LINE;
}

static void run_plane(const ac_op_args *args, ac_cpu_plane plane, int64_t index, float *scratch) {
  const float *in[AC_MAX_INPUTS];
  const ac_operand *y = &args->out[0];
  ac_dtype dtype = ac_op_storage(args);
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const ac_operand *x = &args->in[i];
    int64_t size = plane_size(x);
    in[i] = ac_element(x->data, dtype, index * size);
    if (dtype == AC_F32 || !size) continue;
    ac_cpu_widen(dtype, in[i], scratch, size);
    in[i] = scratch;
    scratch += size;
  }
  int64_t size = plane_size(y);
  void *out = ac_element(y->data, dtype, index * size);
  if (dtype == AC_F32) {
    plane(args, in, out);
    return;
  }
  if (args->add[0]) ac_cpu_widen(dtype, out, scratch, size);
  plane(args, in, scratch);
  ac_cpu_narrow(dtype, args->run->mark_flushed, scratch, out, size);
}

static void run_share(const ac_op_args *args, ac_cpu_plane plane, int64_t count, int thread,
                      int team) {
  float *scratch = (float *)args->workspace + thread * scratch_floats(args);
  int64_t first, last;
  ac_cpu_share(count, 1, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) run_plane(args, plane, i, scratch);
}

void ac_cpu_for_planes(const ac_cpu_context *context, const ac_op_args *args, int64_t weight,
                       ac_cpu_plane plane) {
  int64_t count = args->out[0].dim[0] * args->out[0].dim[1];
#ifdef _OPENMP
  if (context->threads > 1 && count > 1 && count * weight > context->serial) {
#pragma omp parallel num_threads(context->threads)
    run_share(args, plane, count, omp_get_thread_num(), omp_get_num_threads());
    return;
  }
#endif
  (void)context, (void)weight;
  run_share(args, plane, count, 0, 1);
}

uint64_t ac_cpu_planes_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  return sizeof(float) * (uint64_t)(context->threads * scratch_floats(args));
}
