/* cache: y[b, ends[b] - n + i, c] = x[b, i, c]; rows before position 0 are left out. One work-item an
 * element of x, groups of GROUP. Dtypes: storage; int ends. */
#include "movement/bits.h"

kernel WORK_GROUP(GROUP, 1) void cache(const global storage *x, const global int *ends,
                                       global storage *y, long elements, long rows, long positions,
                                       long columns) {
  const size_t e = element_id();
  if (e >= elements) return;
  const size_t row = quotient(e, columns), c = e - row * columns, b = quotient(row, rows);
  const long position = (long)ends[b] - rows + (long)(row - b * rows);
  if (position >= 0 && position < positions)
    ((global bits *)y)[(b * positions + (size_t)position) * columns + c] =
        ((const global bits *)x)[e];
}
