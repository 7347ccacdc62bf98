/** @file
 * Loss scaling, for training in 16 bits. */
#ifndef ACCRUE_LOSS_SCALING_H
#define ACCRUE_LOSS_SCALING_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Loss scaling: a factor on the loss keeps small gradients from becoming zero in 16 bits. The
 * update divides by it again (arXiv 1710.03740). It is the scale of the window's *mean* loss: 65536
 * means the same as in programs that compute mean losses. With powers of two, as by default, it
 * does not round gradients.
 *
 * A dynamic scale starts high. If a window overflows its update is skipped, and the scale becomes
 * smaller. After `interval` updates in a row it becomes larger. Its states are those of PyTorch's
 * GradScaler. */
typedef enum ac_loss_scaling {
  AC_LOSS_SCALING_DEFAULT = 0, /**< Dynamic if the plan's precision is f16, else none. */
  AC_LOSS_SCALING_NONE,        /**< No scale. */
  AC_LOSS_SCALING_STATIC,      /**< A constant scale. */
  AC_LOSS_SCALING_DYNAMIC      /**< A scale that adapts. */
} ac_loss_scaling;

/** Settings of loss scaling. */
typedef struct ac_loss_scaling_desc {
  ac_loss_scaling kind; /**< Which kind. */
  double scale;         /**< The constant or first scale. Default 65536. */
  double growth;        /**< Factor when the scale grows; above 1. Default 2. */
  double backoff;       /**< Factor after an overflow; between 0 and 1. Default 0.5. */
  int64_t interval;     /**< Updates in a row before the scale grows. Default 2000. */
  double floor;         /**< A dynamic scale never becomes smaller than this. Default 1. */
} ac_loss_scaling_desc;

#ifdef __cplusplus
}
#endif
#endif
