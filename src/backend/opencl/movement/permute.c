/* permute: axes in another order. */
#include "ops/movement/permute.h"

#include "backend/opencl/movement/permute.h"

/* [outer, A, middle, B] that becomes [outer, B, middle, A]. */
typedef struct swap {
  int64_t outer, a, middle, b;
} swap;

/* Whether the axes are those of a swap that tiles can make. */
static bool is_swap(const ac_cl_axes *axes, swap *s) {
  int k = 1;
  *s = (swap){1, axes->dim[0], 1, 1};
  if (k + 1 < axes->rank && axes->stride[k] != 1) s->middle = axes->dim[k++];
  if (k >= axes->rank || axes->stride[k] != 1) return false;
  s->b = axes->dim[k++];
  if (k < axes->rank) s->outer = axes->dim[k++];
  if (k < axes->rank || axes->stride[0] != s->middle * s->b) return false;
  return (s->middle == 1 || axes->stride[1] == s->b) &&
         (s->outer == 1 || axes->stride[k - 1] == s->a * s->middle * s->b);
}

static ac_cl_axes without_ones(const ac_cl_axes *all) {
  ac_cl_axes axes = {.rank = 0};
  for (int k = 0; k < all->rank; k++) {
    if (all->dim[k] == 1) continue;
    axes.dim[axes.rank] = all->dim[k];
    axes.stride[axes.rank++] = all->stride[k];
  }
  if (!axes.rank) axes.dim[0] = axes.stride[0] = axes.rank = 1;
  for (int k = axes.rank; k < 8; k++) axes.dim[k] = 1;
  return axes;
}

ac_status ac_cl_permute(ac_opencl *cl, const void *x, void *y, const ac_cl_axes *all) {
  const ac_cl_axes axes = without_ones(all);
  int64_t count = 1;
  swap s;
  for (int k = 0; k < axes.rank; k++) count *= axes.dim[k];
  if (is_swap(&axes, &s)) {
    const int64_t tiles = (s.a + 31) / 32 * ((s.b + 31) / 32) * s.outer * s.middle;
    return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"permute", "transpose_tile", NULL}),
                        ac_cl_groups(tiles, 32, ac_cl_lanes(cl)), AC_CL_BUFFER(x), AC_CL_BUFFER(y),
                        AC_CL_LONG(s.a), AC_CL_LONG(s.middle), AC_CL_LONG(s.b));
  }
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"permute", "permute", NULL}), ac_cl_elements(cl, count),
                      AC_CL_BUFFER(x), AC_CL_BUFFER(y), AC_CL_LONG(count), AC_CL_INT(axes.rank),
                      AC_CL_LONGS(axes.dim), AC_CL_LONGS(axes.stride));
}

static ac_status permute(ac_opencl *cl, const ac_op_args *args) {
  const ac_permuted_axes own = ac_permuted_axes_of(args);
  ac_cl_axes axes = {.rank = own.rank};
  for (int k = 0; k < own.rank; k++) {
    axes.dim[k] = own.dim[own.rank - 1 - k];
    axes.stride[k] = own.stride[own.rank - 1 - k];
  }
  return ac_cl_permute(cl, args->in[0].data, args->out[0].data, &axes);
}

const ac_cl_op ac_cl_op_permute = {.run = permute};
