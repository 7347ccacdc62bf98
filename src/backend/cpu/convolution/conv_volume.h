/* Convolutions of volumes, by those of images (conv2d_volume.c), and the parts of these. */
#ifndef AC_BACKEND_CPU_CONV_VOLUME_H
#define AC_BACKEND_CPU_CONV_VOLUME_H

#include "backend/cpu/shared/kernels.h"

#define ac_conv_images_part AC_CPU_NAME(ac_conv_images_part)
#define ac_conv_weight_part AC_CPU_NAME(ac_conv_weight_part)
#define ac_conv_volume_part AC_CPU_NAME(ac_conv_volume_part)
#define ac_conv_volume_workspace AC_CPU_NAME(ac_conv_volume_workspace)

extern const ac_cpu_kernel AC_CPU_KERNEL(conv2d), AC_CPU_KERNEL(conv2d_weight_gradient);

static inline bool ac_conv_is_of_volumes(const ac_op_args *args) {
  return args->in[0].rank == 5;
}

/* A thread's part of conv2d or conv_transpose2d of images, of all threads of the team at once, and
 * of the gradient of weights. */
void ac_conv_images_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team);
void ac_conv_weight_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team);

/* The same of all three, of volumes, and their workspace. */
void ac_conv_volume_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team);
uint64_t ac_conv_volume_workspace(const ac_cpu_context *context, const ac_op_args *args);

#endif
