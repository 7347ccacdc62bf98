/* Nearest-neighbour upsampling, plane by plane: a row is stretched once and then repeated. */
#include "backend/cpu/convolution/planes.h"
#include "ops/convolution/upsample_nearest2d.h"

#include <string.h>

static int64_t factor_of(const ac_op_args *args) {
  return ((const ac_upsample_nearest2d_attributes *)args->attributes)->factor;
}

static void forward_plane(const ac_op_args *args, const float *const *in, float *y) {
  int64_t factor = factor_of(args), height = args->in[0].dim[2], width = args->in[0].dim[3];
  for (int64_t i = 0; i < height; i++) {
    const float *x = in[0] + i * width;
    for (int64_t j = 0; j < width; j++)
      for (int64_t t = 0; t < factor; t++) y[j * factor + t] = x[j];
    for (int64_t r = 1; r < factor; r++)
      memcpy(y + r * width * factor, y, (size_t)(width * factor) * sizeof *y);
    y += width * factor * factor;
  }
}

static void gradient_plane(const ac_op_args *args, const float *const *in, float *dx) {
  int64_t factor = factor_of(args), height = args->out[0].dim[2], width = args->out[0].dim[3];
  for (int64_t i = 0; i < height; i++, dx += width)
    for (int64_t j = 0; j < width; j++) {
      const float *dy = in[0] + (i * width * factor + j) * factor;
      float sum = args->add[0] ? dx[j] : 0.0f;
      for (int64_t r = 0; r < factor; r++)
        for (int64_t t = 0; t < factor; t++) sum += dy[r * width * factor + t];
      dx[j] = sum;
    }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_planes(context, args, args->out[0].dim[2] * args->out[0].dim[3], forward_plane);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_planes(context, args, args->in[0].dim[2] * args->in[0].dim[3], gradient_plane);
}

const ac_cpu_kernel AC_CPU_KERNEL(upsample_nearest2d) = {.run = forward,
                                                         .workspace = ac_cpu_planes_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(upsample_nearest2d_gradient) = {
    .run = gradient, .workspace = ac_cpu_planes_workspace};
