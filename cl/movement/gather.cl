/* Along an axis, of x[o, length, c] and ids [o, i], or [i] if these are shared by all o, or
 * [o, i, c] if each element has its own:
 *   gather       y[o,i,c] = x[o, id[o,i], c]. One work-item an element, groups of GROUP.
 *   scatter_add  y[o, id[o,i], c] (+)= x[o,i,c]
 *
 * scatter_add sums what has one id in the order of positions i and without atomics: these positions
 * are chained (`next`), and the work-items of the first one walk the chain. scatter_chain: one
 * work-item an id, from `first` on, O(n) each. It marks the position it finds as not the first;
 * that position follows only one other, so nobody else writes the mark. scatter_add: one work-item
 * an element of x.
 *
 * The marks are after the chain, `marks` elements after its begin. An id lies `apart` ids from that
 * of the next position: 1, or `inner` if each element has its own. Dtypes: storage for what moves,
 * or integers in its place; float for sums; int ids, next. */
#include "movement/bits.h"

/* Which of all ids that of element c of row i is, of the o-th n rows. */
size_t id_at(size_t o, size_t i, size_t c, long n, long apart, int shared) {
  return shared ? i : (o * n + i) * apart + (apart > 1 ? c : 0);
}

kernel WORK_GROUP(GROUP, 1) void gather(const global storage *x, const global int *ids,
                                        global storage *y, long elements, long n, long length,
                                        long inner, long apart, int shared) {
  const size_t e = element_id();
  if (e >= elements) return;
  const size_t row = quotient(e, inner), c = e - row * inner, o = quotient(row, n);
  const size_t id = ids[id_at(o, row - o * n, c, n, apart, shared)];
  ((global bits *)y)[e] = ((const global bits *)x)[(o * length + id) * inner + c];
}

kernel WORK_GROUP(GROUP, 1) void scatter_clear(global int *next, long marks, long count) {
  const size_t i = element_id();
  if (i < count) next[marks + i] = 0;
}

kernel WORK_GROUP(GROUP, 1) void scatter_chain(const global int *ids, global int *next, long marks,
                                               long first, long count, int n, long apart) {
  const size_t at = first + element_id();
  if (at >= count) return;
  const size_t row = quotient(at, apart);
  const int id = ids[at], i = (int)modulo(row, n);
  int j = i + 1;
  while (j < n && ids[at + (size_t)(j - i) * apart] != id) j++;
  next[at] = j;
  if (j < n) next[marks + at + (size_t)(j - i) * apart] = 1;
}

kernel WORK_GROUP(GROUP, 1) void scatter_add(const global int *ids, const global storage *x,
                                             const global int *next, long marks, global float *y,
                                             long elements, int n, long length, long inner,
                                             long apart, int shared, int add) {
  const size_t e = element_id();
  if (e >= elements) return;
  const size_t row = quotient(e, inner), c = e - row * inner, o = quotient(row, n);
  const int i = (int)(row - o * n);
  const size_t first = id_at(o, i, c, n, apart, shared);
  if (next[marks + first]) return;
  float sum = 0;
  for (int j = i; j < n; j = next[id_at(o, j, c, n, apart, shared)])
    sum += load(x, (o * n + j) * inner + c);
  const size_t at = (o * length + ids[first]) * inner + c;
  y[at] = add ? y[at] + sum : sum;
}
