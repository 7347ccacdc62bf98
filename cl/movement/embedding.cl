/* embedding: y[i,:] = table[ids[i],:]. One work-item an element, groups of GROUP.
 *
 * Its gradient, dtable[ids[i],:] += dy[i,:], sums a row's occurrences in the order of their
 * positions and without atomics: the occurrences of an id are chained (`next`), and the work-items
 * of its first one walk the chain. embedding_chain: one work-item a position, from `first` on, O(n)
 * each. It marks the position it finds as not the first; that position follows only one other, so
 * nobody else writes the mark. embedding_gradient: one work-item an element of dy.
 *
 * The marks are after the chain, `marks` elements after its begin. Dtypes: storage for table, y,
 * dy; float for dtable; int ids, next. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void embedding(const global storage *table, const global int *ids,
                                           global storage *y, long n, long width) {
  const size_t e = element_id();
  if (e >= n * width) return;
  const size_t i = quotient(e, width);
  store(y, e, load(table, (size_t)ids[i] * width + (e - i * width)));
}

kernel WORK_GROUP(GROUP, 1) void embedding_clear(global int *next, int marks, int n) {
  const size_t i = element_id();
  if (i < n) next[marks + i] = 0;
}

kernel WORK_GROUP(GROUP, 1) void embedding_chain(const global int *ids, global int *next, int marks,
                                                 int first, int n) {
  const size_t i = first + element_id();
  if (i >= n) return;
  const int id = ids[i];
  int j = (int)i + 1;
  while (j < n && ids[j] != id) j++;
  next[i] = j;
  if (j < n) next[marks + j] = 1;
}

kernel WORK_GROUP(GROUP, 1) void embedding_gradient(const global int *ids, const global storage *dy,
                                                    const global int *next, int marks,
                                                    global float *dtable, int n, long width,
                                                    int add) {
  const size_t e = element_id();
  if (e >= n * width) return;
  const size_t i = quotient(e, width), column = e - i * width;
  if (next[marks + i]) return;
  float sum = 0;
  for (int j = (int)i; j < n; j = next[j]) sum += load(dy, (size_t)j * width + column);
  const size_t at = (size_t)ids[i] * width + column;
  dtable[at] = add ? dtable[at] + sum : sum;
}
