/* Threads share out the planes. Planes of floats are worked on where they lie. */
#include "backend/cpu/planes.h"

static int64_t plane_size(const ac_operand *x) {
  return x->count ? x->dim[2] * x->dim[3] : 0;
}

static void run_plane(const ac_op_args *args, ac_cpu_plane plane, int64_t index) {
  const float *in[AC_MAX_INPUTS];
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    in[i] = (const float *)args->in[i].data + index * plane_size(&args->in[i]);
  plane(args, in, (float *)args->out[0].data + index * plane_size(&args->out[0]));
}

void ac_cpu_for_planes(const ac_cpu_context *context, const ac_op_args *args, int64_t weight,
                       ac_cpu_plane plane) {
  int64_t count = args->out[0].dim[0] * args->out[0].dim[1];
#ifdef _OPENMP
  if (context->threads > 1 && count > 1 && count * weight > AC_CPU_SERIAL) {
#pragma omp parallel num_threads(context->threads)
    {
      int64_t first, last;
      ac_cpu_share(count, 1, omp_get_thread_num(), omp_get_num_threads(), &first, &last);
      for (int64_t i = first; i < last; i++) run_plane(args, plane, i);
    }
    return;
  }
#endif
  (void)context;
  for (int64_t i = 0; i < count; i++) run_plane(args, plane, i);
}

uint64_t ac_cpu_planes_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context, (void)args;
  return 0;
}
