/* Sums of columns: bias gradients, and the op sum_leading. */
#include "backend/opencl/shared/sums.h"
#include "core/error.h"

enum { MIN_CHUNK_ROWS = 128, MAX_CHUNKS = 64 };

int64_t ac_cl_most_chunks(int64_t m) {
  const int64_t count = (m + MIN_CHUNK_ROWS - 1) / MIN_CHUNK_ROWS;
  return count < 1 ? 1 : count < MAX_CHUNKS ? count : MAX_CHUNKS;
}

/* Rounding up the rows of a chunk may leave fewer chunks than were meant. */
ac_cl_chunks ac_cl_row_chunks(int64_t m) {
  const int64_t most = ac_cl_most_chunks(m), rows = m > 0 ? (m + most - 1) / most : 1;
  return (ac_cl_chunks){m > 0 ? (m + rows - 1) / rows : 1, rows};
}

/* Rows [first, first + m) of x, in chunks, into y. */
static ac_status sum_columns(ac_opencl *cl, const void *x, bool stored, int64_t first, int64_t m,
                             int64_t n, ac_cl_chunks chunks, void *y, bool add) {
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"add", "sum_columns", stored ? "-DSUM_STORAGE" : NULL}),
                      ac_cl_groups((n + 31) / 32 * chunks.count, 32, ac_cl_lanes(cl)),
                      AC_CL_BUFFER(x), AC_CL_BUFFER(y), AC_CL_LONG(first), AC_CL_LONG(m),
                      AC_CL_LONG(n), AC_CL_LONG(chunks.rows), AC_CL_INT(add));
}

ac_status ac_cl_add_chunks(ac_opencl *cl, const void *partial, int64_t first, int64_t count,
                           int64_t n, void *y, bool add) {
  return sum_columns(cl, partial, false, first, count, n, (ac_cl_chunks){1, count}, y, add);
}

uint64_t ac_cl_column_sums_workspace(int64_t m, int64_t n) {
  const int64_t most = ac_cl_most_chunks(m);
  return most == 1 ? 0 : sizeof(float) * (uint64_t)n * (uint64_t)most;
}

ac_status ac_cl_column_sums(ac_opencl *cl, const void *x, int64_t m, int64_t n, void *y, bool add,
                            void *workspace) {
  const ac_cl_chunks chunks = ac_cl_row_chunks(m);
  if (chunks.count == 1 && !cl->preparing) return sum_columns(cl, x, true, 0, m, n, chunks, y, add);
  AC_TRY(sum_columns(cl, x, true, 0, m, n, chunks, workspace, false));
  return ac_cl_add_chunks(cl, workspace, 0, chunks.count, n, y, add);
}
