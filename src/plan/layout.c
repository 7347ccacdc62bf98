/* Addresses. Cells follow one another. The arena is dynamic storage allocation: values
 * with known lifetimes are placed so that no two that are alive together overlap.
 *
 * Values are placed one after another, each at the lowest address where it fits between those
 * placed before that are alive at the same time (first fit). The order decides the quality; three
 * are tried and the lowest total is kept: by size, by size times lifetime, and by beginning,
 * largest or first to begin coming first. Cost O(n^2 log n) for n values. The bound is the largest
 * sum of bytes alive at one step; no layout can be below it. */
#include "plan/plan.h"

#include "core/align.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>

/* The lowest address >= `address` at which `bytes` do not straddle two chunks. */
static uint64_t within_chunk(const ac_address_space *space, uint64_t address, uint64_t bytes) {
  if (!space->chunk_bytes || !bytes) return address;
  uint64_t room = space->chunk_bytes - address % space->chunk_bytes;
  return bytes <= room ? address : address + room;
}

static ac_status check_size(const ac_address_space *space, uint64_t bytes) {
  if (!space->chunk_bytes || bytes <= space->chunk_bytes) return AC_OK;
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: a tensor of %llu bytes exceeds the device's largest allocation of %llu",
                 (unsigned long long)bytes, (unsigned long long)space->chunk_bytes);
}

ac_status ac_layout_append(ac_address_space *space, uint64_t bytes, uint64_t *address) {
  bytes = ac_align(bytes, space->alignment);
  AC_TRY(check_size(space, bytes));
  *address = within_chunk(space, space->end, bytes);
  space->end = *address + bytes;
  return AC_OK;
}

ac_status ac_layout_check(const ac_address_space *space, const ac_sequence *sequence) {
  for (int i = 0; i < sequence->value_count; i++)
    AC_TRY(check_size(space, sequence->values[i].bytes));
  return AC_OK;
}

/* ---- the arena ------------------------------------------------------------------------------- */

typedef struct candidate {
  uint64_t key;
  int value;
} candidate;

static int by_key(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->key != y->key) return x->key > y->key ? -1 : 1;
  return x->value - y->value;
}

static bool meet(const ac_value *a, const ac_value *b) {
  return a->first <= b->last && b->first <= a->last;
}

static int by_address(const void *a, const void *b) {
  const ac_value *const *x = a, *const *y = b;
  return ((*x)->address > (*y)->address) - ((*x)->address < (*y)->address);
}

/* First fit for one value among those already placed that it meets; `met` has room for all of them.
 */
static void place(const ac_address_space *space, ac_value *values, const candidate *order,
                  int placed, ac_value *value, uint64_t base, const ac_value **met) {
  int count = 0;
  for (int i = 0; i < placed; i++)
    if (meet(&values[order[i].value], value)) met[count++] = &values[order[i].value];
  qsort(met, (size_t)count, sizeof *met, by_address);
  uint64_t address = within_chunk(space, base, value->bytes);
  for (int i = 0; i < count && met[i]->address < address + value->bytes; i++) {
    uint64_t end = met[i]->address + met[i]->bytes;
    if (end > address) address = within_chunk(space, end, value->bytes);
  }
  value->address = address;
}

static uint64_t order_key(const ac_value *value, int order) {
  uint64_t length = (uint64_t)(value->last - value->first + 1);
  if (order == 0) return value->bytes;
  if (order == 1) return value->bytes / 64 * length;
  return UINT64_MAX - (uint64_t)value->first;
}

enum { ORDERS = 3 };

static uint64_t try_order(const ac_address_space *space, ac_sequence *sequence, int order,
                          uint64_t base, candidate *list, const ac_value **met) {
  ac_value *values = sequence->values;
  int count = 0;
  for (int i = 0; i < sequence->value_count; i++)
    if (values[i].shares == i) list[count++] = (candidate){order_key(&values[i], order), i};
  qsort(list, (size_t)count, sizeof *list, by_key);
  uint64_t end = base;
  for (int i = 0; i < count; i++) {
    ac_value *value = &values[list[i].value];
    place(space, values, list, i, value, base, met);
    if (value->address + value->bytes > end) end = value->address + value->bytes;
  }
  return end;
}

ac_status ac_layout_arena(const ac_address_space *space, ac_sequence *sequence, uint64_t base,
                          uint64_t *end) {
  AC_TRY(ac_layout_check(space, sequence));
  size_t room = (size_t)sequence->value_count + 1;
  candidate *list = malloc(room * sizeof *list);
  const ac_value **met = malloc(room * sizeof *met);
  if (!list || !met) {
    free(list);
    free(met);
    return ac_fail(AC_ERROR_MEMORY, "no memory to lay out the arena");
  }
  int best = 0;
  uint64_t best_end = UINT64_MAX, reached = 0;
  for (int order = 0; order < ORDERS; order++) {
    reached = try_order(space, sequence, order, base, list, met);
    if (reached < best_end) best_end = reached, best = order;
  }
  if (best != ORDERS - 1) try_order(space, sequence, best, base, list, met);
  free(list);
  free(met);
  *end = best_end;
  return AC_OK;
}

static uint64_t largest_sum(const int64_t *change, int steps) {
  int64_t live = 0, most = 0;
  for (int step = 0; step <= steps; step++) {
    live += change[step];
    if (live > most) most = live;
  }
  return (uint64_t)most;
}

/* Values' beginnings and ends as changes of running sums: linear in steps and values. */
ac_status ac_layout_bound(const ac_sequence *sequence, const ac_graph *graph,
                          ac_layout_sums *sums) {
  int last_point = ac_sequence_last_point(sequence);
  size_t points = (size_t)last_point + 2;
  int64_t *change = calloc(3 * points, sizeof *change);
  if (!change) return ac_fail(AC_ERROR_MEMORY, "no memory to add up what is alive");
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    bool tensor = value->tensor >= 0 && ac_tensor_at(graph, value->tensor)->role != AC_ROLE_STATE;
    bool gradient = tensor && ac_tensor_at(graph, value->tensor)->role == AC_ROLE_GRADIENT;
    int kinds = gradient ? 2 : tensor ? 3 : 1;
    for (int k = 0; k < kinds; k++) {
      change[(size_t)k * points + (size_t)value->first] += (int64_t)value->bytes;
      change[(size_t)k * points + (size_t)value->last + 1] -= (int64_t)value->bytes;
    }
  }
  sums->all = largest_sum(change, last_point);
  sums->tensors = largest_sum(change + points, last_point);
  sums->activations = largest_sum(change + 2 * points, last_point);
  free(change);
  return AC_OK;
}
