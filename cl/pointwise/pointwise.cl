/* pointwise: y_j[i] (+)= f_j(a[i], b[i], ...), operands repeated. The kernel itself is written for
 * the program of functions (src/backend/opencl/pointwise/pointwise.c), and follows this file. One
 * work-item an element, groups of GROUP; outputs may be in the place of operands. Dtypes: storage.
 */
#include "common.h"

/* Where element i of the results is in each of their dimensions, the innermost first, joined as far
 * as all operands allow. */
typedef struct {
  size_t at[6];
} places;

places places_of(size_t i, int rank, long n0, long n1, long n2, long n3, long n4) {
  const long n[5] = {n0, n1, n2, n3, n4};
  places p = {{0}};
  for (int k = 0; k < 5; k++)
    if (k + 1 < rank) {
      p.at[k] = modulo(i, n[k]);
      i = quotient(i, n[k]);
    } else if (k + 1 == rank) {
      p.at[k] = i;
    }
  if (rank == 6) p.at[5] = i;
  return p;
}

/* The element of an operand there. */
size_t element_at(places p, int rank, long s0, long s1, long s2, long s3, long s4, long s5) {
  size_t at = p.at[0] * s0 + p.at[1] * s1;
  if (rank > 2) at += p.at[2] * s2 + p.at[3] * s3 + p.at[4] * s4 + p.at[5] * s5;
  return at;
}
