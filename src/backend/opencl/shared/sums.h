/* Sums over many rows, made in chunks that fill a device. */
#ifndef AC_OPENCL_SUMS_H
#define AC_OPENCL_SUMS_H

#include "backend/opencl/shared/opencl.h"

/* Sums over rows are made in chunks of rows; then the partial sums [chunks,n] are added up. A chunk
 * has `rows` rows; the last one may have fewer. Up to m rows never make more than
 * ac_cl_most_chunks(m). */
typedef struct ac_cl_chunks {
  int64_t count, rows;
} ac_cl_chunks;
ac_cl_chunks ac_cl_row_chunks(int64_t m);
int64_t ac_cl_most_chunks(int64_t m);

/* y[n] (+)= sum of `count` rows of partial sums, from row `first` on. */
ac_status ac_cl_add_chunks(ac_opencl *cl, const void *partial, int64_t first, int64_t count,
                           int64_t n, void *y, bool add);

/* y[n] (+)= sum over m rows of x, which is `storage`. */
uint64_t ac_cl_column_sums_workspace(int64_t m, int64_t n);
ac_status ac_cl_column_sums(ac_opencl *cl, const void *x, int64_t m, int64_t n, void *y, bool add,
                            void *workspace);

#endif
