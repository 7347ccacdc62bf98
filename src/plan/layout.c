/* Addresses. Cells follow one another. The arena is dynamic storage allocation: values
 * with known lifetimes are placed so that no two that are alive together overlap.
 *
 * Values are placed one after another, each at the lowest address where it fits between those
 * placed before that are alive at the same time (first fit). The quality depends on the order.
 * Three orders are tried, and the lowest total is kept: by size and by size times lifetime, with
 * the largest first, and by beginning, with the earliest first. The bound is the largest sum of
 * bytes alive at one step; every layout needs at least that, so a layout that reaches it ends the
 * search.
 *
 * The values placed before are a tree, ordered by address and then by time. It is a treap: a hash
 * of the values decides which is above which, so that it is about 2 log n deep. Each subtree knows
 * when its values begin and end, and how large a gap between them can be. First fit walks through
 * the tree from low addresses to high ones. It skips a subtree if none of its values is alive at
 * the same time, or if all are and no gap is large enough. In plans most values are nested in time
 * (what forward keeps) or short (what one step passes to the next), so a walk takes about log n
 * steps, and a layout n log n. It would be quadratic if values that are alive at the same time
 * alternate with values that are not, as in an unrolled recurrent network. By beginning that cannot
 * be: what has ended before a value begins is of no use to any value that follows, and is taken out
 * of the tree, so that all that is left is alive. The other two orders are given up after WALKS
 * steps and some more for each value, which only graphs of tens of thousands of nodes need. */
#include "plan/plan.h"

#include "core/align.h"
#include "core/error.h"
#include "core/hash.h"

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

/* A value that has an address, and all that are below it in the tree. */
typedef struct placed {
  int left, right; /* values; -1: none */
  uint32_t priority;
  int earliest_first, latest_first, earliest_last, latest_last; /* points */
  uint64_t low, end;                                            /* of the addresses */
  uint64_t gap; /* no gap between the values is larger */
} placed;

typedef struct tree {
  const ac_value *values;
  placed *at; /* by value */
  int root;
  int64_t walked; /* steps of all walks */
} tree;

/* Puts what is below `other` into the account of `p`. */
static void take_times(placed *p, const placed *other) {
  if (other->earliest_first < p->earliest_first) p->earliest_first = other->earliest_first;
  if (other->latest_first > p->latest_first) p->latest_first = other->latest_first;
  if (other->earliest_last < p->earliest_last) p->earliest_last = other->earliest_last;
  if (other->latest_last > p->latest_last) p->latest_last = other->latest_last;
}

/* Counts what comes after the addresses so far. */
static void take_addresses(placed *p, uint64_t low, uint64_t end, uint64_t gap) {
  if (gap > p->gap) p->gap = gap;
  if (low > p->end && low - p->end > p->gap) p->gap = low - p->end;
  if (end > p->end) p->end = end;
}

/* Sets the account of a value from those of its subtrees. */
static void account(const tree *t, int value) {
  const ac_value *v = &t->values[value];
  placed *p = &t->at[value];
  const uint64_t end = v->address + v->bytes;
  p->earliest_first = p->latest_first = v->first;
  p->earliest_last = p->latest_last = v->last;
  p->low = v->address, p->end = end, p->gap = 0;
  if (p->left >= 0) {
    const placed *left = &t->at[p->left];
    take_times(p, left);
    p->low = left->low, p->end = left->end, p->gap = left->gap;
    take_addresses(p, v->address, end, 0);
  }
  if (p->right < 0) return;
  const placed *right = &t->at[p->right];
  take_times(p, right);
  take_addresses(p, right->low, right->end, right->gap);
}

/* At the same address, values follow one another in time. */
static bool is_before(const ac_value *a, const ac_value *b) {
  return a->address != b->address ? a->address < b->address : a->first < b->first;
}

/* Cuts a subtree in two: up to a value, and beyond it. */
static void split(const tree *t, int top, const ac_value *value, int *up_to, int *beyond) {
  if (top < 0) {
    *up_to = *beyond = -1;
    return;
  }
  placed *p = &t->at[top];
  if (is_before(value, &t->values[top])) {
    split(t, p->left, value, up_to, &p->left);
    *beyond = top;
  } else {
    split(t, p->right, value, &p->right, beyond);
    *up_to = top;
  }
  account(t, top);
}

/* Adds a value, which has its address, to a subtree. Returns what is on its top then. */
static int insert(const tree *t, int top, int value) {
  placed *new = &t->at[value];
  const ac_value *own = &t->values[value];
  if (top < 0 || new->priority > t->at[top].priority) {
    split(t, top, own, &new->left, &new->right);
    account(t, value);
    return value;
  }
  int *side = is_before(own, &t->values[top]) ? &t->at[top].left : &t->at[top].right;
  *side = insert(t, *side, value);
  account(t, top);
  return top;
}

static int join(const tree *t, int a, int b) {
  if (a < 0 || b < 0) return a < 0 ? b : a;
  const bool above = t->at[a].priority > t->at[b].priority;
  if (above) t->at[a].right = join(t, t->at[a].right, b);
  else t->at[b].left = join(t, a, t->at[b].left);
  account(t, above ? a : b);
  return above ? a : b;
}

/* Takes a value out of a subtree. Returns what is on its top then. */
static int take_out(const tree *t, int top, int value) {
  if (top < 0) return top;
  placed *p = &t->at[top];
  if (top == value) return join(t, p->left, p->right);
  int *side = is_before(&t->values[value], &t->values[top]) ? &p->left : &p->right;
  *side = take_out(t, *side, value);
  account(t, top);
  return top;
}

/* First fit on its way: whatever lies lower does not fit. */
typedef struct fit {
  const ac_address_space *space;
  int first, last; /* points */
  uint64_t bytes, address;
  int64_t *walked; /* steps */
} fit;

/* Continues after what ends there, if that is higher. */
static void go_behind(fit *f, uint64_t end) {
  if (end > f->address) f->address = within_chunk(f->space, end, f->bytes);
}

/* Walks through a subtree. True: the place is found, below all that follows. */
static bool find_place(const tree *t, int top, fit *f) {
  if (top < 0) return false;
  const placed *p = &t->at[top];
  ++*f->walked;
  if (p->end <= f->address || p->earliest_first > f->last || p->latest_last < f->first)
    return false;
  const bool all = p->latest_first <= f->last && p->earliest_last >= f->first;
  if (all && p->low >= f->address + f->bytes) return true;
  if (all && p->gap < f->bytes) {
    go_behind(f, p->end);
    return false;
  }
  if (find_place(t, p->left, f)) return true;
  const ac_value *v = &t->values[top];
  if (v->first <= f->last && v->last >= f->first) {
    if (v->address >= f->address + f->bytes) return true;
    go_behind(f, v->address + v->bytes);
  }
  return find_place(t, p->right, f);
}

static void place(const ac_address_space *space, tree *t, ac_value *value, uint64_t base) {
  const int index = (int)(value - t->values);
  fit f = {
      space,     value->first, value->last, value->bytes, within_chunk(space, base, value->bytes),
      &t->walked};
  find_place(t, t->root, &f);
  value->address = f.address;
  t->at[index].priority = (uint32_t)ac_hash(AC_HASH_BEGIN, &index, sizeof index);
  t->root = insert(t, t->root, index);
}

/* BY_ENDING only says what can be taken out. */
enum { BY_SIZE, BY_SIZE_AND_LENGTH, BY_BEGINNING, ORDERS, BY_ENDING = ORDERS };

static uint64_t order_key(const ac_value *value, int order) {
  uint64_t length = (uint64_t)(value->last - value->first + 1);
  if (order == BY_SIZE) return value->bytes;
  if (order == BY_SIZE_AND_LENGTH) return value->bytes / 64 * length;
  return UINT64_MAX - (uint64_t)(order == BY_BEGINNING ? value->first : value->last);
}

static int list_values(const ac_sequence *sequence, int order, candidate *list) {
  int count = 0;
  for (int i = 0; i < sequence->value_count; i++)
    if (sequence->values[i].shares == i)
      list[count++] = (candidate){order_key(&sequence->values[i], order), i};
  qsort(list, (size_t)count, sizeof *list, by_key);
  return count;
}

enum { WALKS = 1 << 24, WALKS_OF_VALUE = 32 };

/* Returns where the values end. If that is not below `limit`, or not found in as many steps as
 * there may be, it stops early and returns `limit`. */
static uint64_t try_order(const ac_address_space *space, ac_sequence *sequence, int order,
                          uint64_t base, uint64_t limit, candidate *list, candidate *ending,
                          placed *room) {
  ac_value *values = sequence->values;
  tree t = {values, room, -1, 0};
  const int count = list_values(sequence, order, list);
  const int64_t most = WALKS + WALKS_OF_VALUE * (int64_t)count;
  int ended = order == BY_BEGINNING ? 0 : count;
  if (order == BY_BEGINNING) list_values(sequence, BY_ENDING, ending);
  uint64_t end = base;
  for (int i = 0; i < count && end < limit; i++) {
    ac_value *value = &values[list[i].value];
    for (; ended < count && values[ending[ended].value].last < value->first; ended++)
      t.root = take_out(&t, t.root, ending[ended].value);
    place(space, &t, value, base);
    if (value->address + value->bytes > end) end = value->address + value->bytes;
    if (order != BY_BEGINNING && t.walked > most) return limit;
  }
  return end < limit ? end : limit;
}

/* Room for a search. */
typedef struct room {
  candidate *list, *ending;
  placed *at;
  uint64_t *best; /* addresses */
} room;

static ac_status make_room(room *r, int values) {
  const size_t count = (size_t)values + 1;
  r->list = malloc(count * sizeof *r->list);
  r->ending = malloc(count * sizeof *r->ending);
  r->at = malloc(count * sizeof *r->at);
  r->best = malloc(count * sizeof *r->best);
  if (r->list && r->ending && r->at && r->best) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "no memory to lay out the arena");
}

ac_status ac_layout_arena(const ac_address_space *space, ac_sequence *sequence, uint64_t base,
                          uint64_t bound, uint64_t limit, uint64_t *end) {
  AC_TRY(ac_layout_check(space, sequence));
  room r;
  ac_value *values = sequence->values;
  const int count = sequence->value_count;
  ac_status status = make_room(&r, count);
  int best = -1;
  *end = limit;
  for (int order = 0; status == AC_OK && order < ORDERS && base + bound < *end; order++) {
    const uint64_t reached = try_order(space, sequence, order, base, *end, r.list, r.ending, r.at);
    if (reached >= *end) continue;
    *end = reached, best = order;
    for (int i = 0; i < count; i++) r.best[i] = values[i].address;
  }
  for (int i = 0; i < count && best >= 0; i++) values[i].address = r.best[i];
  free(r.list);
  free(r.ending);
  free(r.at);
  free(r.best);
  return status;
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
