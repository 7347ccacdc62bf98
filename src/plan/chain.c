/* Optimal checkpointing of a chain by dynamic programming, after Beaumont, Eyraud-Dubois, Herrmann,
 * Joly, Shilova, "Optimal checkpointing for heterogeneous chains: how to train deep neural networks
 * with limited memory", arXiv 1911.13214, extended by variants. chain.h has the model.
 *
 * Persistent schedules: what is kept is kept until the backward pass that needs it. There are two
 * ways to run the backward passes of stages t, t-1, ..., s, when a[s-1] and the gradient of a[t]
 * are there:
 *
 *   save k       SAVE s by k; stages s+1..t likewise, what SAVE kept being held; BACKWARD s by k
 *   split at r   FORWARD s, ..., r-1 for some s < r <= t; stages r..t likewise, a[r-1] being held;
 *                stages s..r-1 likewise
 *
 * So the loss, which is the last stage, runs once and by SAVE. Let b(l) be the bytes of a[l], g(t)
 * those of the gradient that waits: b(t), but 0 for t = L. C(s, t, m) is the least seconds with m
 * bytes in addition to a[s-1]. The waiting gradient is among the m bytes. C(t+1, t, m) = 0:
 *
 *   C(s, t, m) = min over k with need(k) <= m of
 *                    forward(s) + extra(k) + backward(k) + C(s+1, t, m - saved(k))
 *                min over r with need(r) <= m of
 *                    forward(s) + ... + forward(r-1) + C(r, t, m - b(r-1)) + C(s, r-1, m)
 *
 *   need(k) = max(saved(k) + forward_peak(k) + g(t),
 *                 saved(k) [- b(s) if k drops it] + b(s) + backward_peak(k))
 *   need(r) = g(t) + max over j = s..r-1 of ([b(j-1) if j > s] + b(j) + forward_peak(j))
 *
 * C is infinite if m is negative. A whole schedule has C(1, L, memory - b(0)). What lives between
 * two operations also lives during the next one, so there are no other conditions.
 *
 * Slots: m is counted in slots. What is held (saved, b) is rounded up to slots, and so is each need
 * as a whole. So a column of the table of C is a bound for the true bytes, and often much larger
 * than these. Therefore the schedule of every column at which C(1, L, .) falls is built and
 * measured to the byte, and the solution is the front of those: (peak, seconds), peak rising,
 * seconds falling. At most L things are held at once, each rounded up by less than a slot. So the
 * table has L + 1 slots more than max_memory, and with a slot of z bytes
 *
 *   - a schedule returned for a limit never needs more than the limit; more memory is never slower;
 *   - it is at least as fast as any persistent schedule that needs at most the limit - (L + 1) z;
 *   - if z = 1 (as many slots as bytes) nothing is rounded, and it is the fastest persistent one.
 *
 * The least memory has a recurrence of its own, without m (most_frugal(), below), and is exact.
 * More memory than keeping everything by the fastest variants needs cannot be used, so the table
 * ends there and its slots are finer.
 *
 * Cost: O(L^3 (slots + L) + L^2 variants (slots + L)) time in loops over adjacent columns, 4 L^2
 * (slots + L) bytes while solving. No choices are stored: a schedule is read from the costs. */
#include "plan/chain.h"

#include "core/error.h"
#include "core/integers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the solution: a front of schedules ------------------------------------------------------ */

typedef struct range {
  size_t first;
  int count;
} range;

struct ac_chain_solution {
  uint64_t least;
  ac_chain_choice *choices; /* memory rising, seconds falling */
  range *schedules;         /* of the choices, in `operations` */
  int count, capacity;
  ac_chain_operation *operations;
  size_t operation_count, operation_capacity;
};

void ac_chain_free(ac_chain_solution *solution) {
  if (!solution) return;
  free(solution->choices);
  free(solution->schedules);
  free(solution->operations);
  free(solution);
}

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "no memory to solve for a chain's schedule");
}

static ac_status append(ac_chain_solution *solution, ac_chain_kind kind, int stage, int variant) {
  if (solution->operation_count == solution->operation_capacity) {
    size_t capacity = solution->operation_capacity ? 2 * solution->operation_capacity : 256;
    void *grown = realloc(solution->operations, capacity * sizeof *solution->operations);
    if (!grown) return no_memory();
    solution->operations = grown;
    solution->operation_capacity = capacity;
  }
  solution->operations[solution->operation_count++] = (ac_chain_operation){kind, stage, variant};
  return AC_OK;
}

static ac_status reserve_choice(ac_chain_solution *solution) {
  if (solution->count < solution->capacity) return AC_OK;
  size_t capacity = solution->capacity ? 2 * (size_t)solution->capacity : 64;
  void *choices = realloc(solution->choices, capacity * sizeof *solution->choices);
  if (choices) solution->choices = choices;
  void *schedules = realloc(solution->schedules, capacity * sizeof *solution->schedules);
  if (schedules) solution->schedules = schedules;
  if (!choices || !schedules) return no_memory();
  solution->capacity = (int)capacity;
  return AC_OK;
}

/* Adds to the front the schedule that was appended from `first` on. If it is faster than those
 * before it, those that do not need less memory go. */
static ac_status add_choice(ac_chain_solution *solution, const ac_chain *chain, size_t first) {
  range schedule = {first, (int)(solution->operation_count - first)};
  ac_chain_choice choice;
  AC_TRY(ac_chain_simulate(chain, solution->operations + first, schedule.count, &choice.memory,
                           &choice.seconds));
  if (solution->count && choice.seconds >= solution->choices[solution->count - 1].seconds) {
    solution->operation_count = first;
    return AC_OK;
  }
  while (solution->count && choice.memory <= solution->choices[solution->count - 1].memory)
    solution->count--;
  AC_TRY(reserve_choice(solution));
  range kept = {0, 0};
  if (solution->count) kept = solution->schedules[solution->count - 1];
  schedule.first = kept.first + (size_t)kept.count;
  solution->operation_count = schedule.first + (size_t)schedule.count;
  memmove(solution->operations + schedule.first, solution->operations + first,
          (size_t)schedule.count * sizeof *solution->operations);
  solution->choices[solution->count] = choice;
  solution->schedules[solution->count++] = schedule;
  return AC_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* One term of a minimum: what runs first, then stages next..t with `held` bytes set aside, then
 * stages s..rest, if any. */
typedef struct move {
  int variant; /* -1: a split */
  int next, rest;
  uint64_t need, held;
  double seconds;
} move;

typedef struct solver {
  const ac_chain *chain;
  ac_chain_solution *solution;
  move *moves;     /* room for all of one (s, t) */
  uint64_t *least; /* by (s, t): bytes of the most frugal way, without a[s-1] */
  double *least_seconds;
  uint64_t slot; /* bytes */
  int columns;
  double *table; /* a row of columns by (s, t): C(s, t, column * slot) */
  int *first;    /* by (s, t): the first column where C is finite */
} solver;

static const ac_chain_stage *stage_at(const solver *it, int l) {
  return &it->chain->stage[l - 1];
}

static uint64_t boundary(const solver *it, int l) {
  return l ? stage_at(it, l)->output : it->chain->input;
}

/* Rows: (s, t) with 1 <= s <= t <= L in a triangle, before them one of zeros for no stages. */
static size_t row_of(int s, int t) {
  return s > t ? 0 : (size_t)t * (size_t)(t - 1) / 2 + (size_t)s;
}

static size_t row_count(const ac_chain *chain) {
  return row_of(chain->stages, chain->stages) + 1;
}

/* Every term of C(s, t, .), as the recurrence in the file comment has them. */
static int list_moves(const solver *it, int s, int t) {
  const ac_chain_stage *stage = stage_at(it, s);
  uint64_t waiting = t < it->chain->stages ? boundary(it, t) : 0;
  int count = 0;
  for (int k = 0; k < stage->variants; k++) {
    const ac_chain_variant *variant = &stage->variant[k];
    uint64_t saved = variant->saved, kept = variant->drops_output ? saved - stage->output : saved;
    it->moves[count++] =
        (move){.variant = k,
               .next = s + 1,
               .rest = s - 1,
               .need = ac_larger_bytes(saved + variant->forward_peak + waiting,
                                       kept + stage->output + variant->backward_peak),
               .held = saved,
               .seconds = stage->forward + variant->extra + variant->backward};
  }
  uint64_t need = 0;
  double seconds = 0;
  for (int r = s + 1; r <= t; r++) {
    const ac_chain_stage *run = stage_at(it, r - 1);
    uint64_t read = r - 1 > s ? boundary(it, r - 2) : 0;
    need = ac_larger_bytes(need, waiting + read + run->output + run->forward_peak);
    seconds += run->forward;
    it->moves[count++] = (move){-1, r, r - 1, need, run->output, seconds};
  }
  return count;
}

/* ---- the least memory ------------------------------------------------------------------------ */

/* M(s, t) = min over moves of max(need, held + M(next, t), M(s, rest)); among equals the one that
 * is fastest with the parts as they are. Returns its index. */
static int most_frugal(const solver *it, int s, int t, uint64_t *bytes, double *seconds) {
  int count = list_moves(it, s, t), best = -1;
  for (int i = 0; i < count; i++) {
    const move *m = &it->moves[i];
    size_t next = row_of(m->next, t), rest = row_of(s, m->rest);
    uint64_t need =
        ac_larger_bytes(m->need, ac_larger_bytes(m->held + it->least[next], it->least[rest]));
    double time = m->seconds + it->least_seconds[next] + it->least_seconds[rest];
    if (best >= 0 && (need > *bytes || (need == *bytes && time >= *seconds))) continue;
    best = i;
    *bytes = need;
    *seconds = time;
  }
  return best;
}

static void find_least(solver *it) {
  it->least[0] = 0;
  it->least_seconds[0] = 0;
  for (int length = 1; length <= it->chain->stages; length++)
    for (int s = 1; s + length - 1 <= it->chain->stages; s++) {
      size_t row = row_of(s, s + length - 1);
      most_frugal(it, s, s + length - 1, &it->least[row], &it->least_seconds[row]);
    }
}

/* ---- the least seconds in every column ------------------------------------------------------- */

static int slots_of(const solver *it, uint64_t bytes) {
  uint64_t slots = bytes / it->slot + (bytes % it->slot != 0);
  return slots < (uint64_t)it->columns ? (int)slots : it->columns;
}

static double *costs(const solver *it, size_t row) {
  return it->table + row * (size_t)it->columns;
}

static void relax(double *restrict best, const double *restrict next, const double *restrict rest,
                  double seconds, int count) {
  for (int i = 0; i < count; i++) {
    double cost = seconds + next[i] + rest[i];
    best[i] = cost < best[i] ? cost : best[i];
  }
}

/* The first column where a move can be made. */
static int first_column(const solver *it, const move *m, int s, int t, int held) {
  int from = slots_of(it, m->need), next = held + it->first[row_of(m->next, t)];
  int rest = it->first[row_of(s, m->rest)];
  if (next > from) from = next;
  return rest > from ? rest : from;
}

/* The first column with costs of at most `seconds`. Costs never rise from one column to the
 * next. */
static int column_below(const double *cost, int columns, double seconds) {
  int low = 0, high = columns;
  while (low < high) {
    int middle = (low + high) / 2;
    if (cost[middle] > seconds) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* No column of a move costs less than its last, so columns that are there already are left out. */
static void fill_row(solver *it, int s, int t) {
  size_t row = row_of(s, t);
  double *best = costs(it, row);
  int count = list_moves(it, s, t), end = it->columns - 1;
  for (int c = 0; c <= end; c++) best[c] = INFINITY;
  it->first[row] = it->columns;
  for (int i = 0; i < count; i++) {
    const move *m = &it->moves[i];
    int held = m->next > t ? 0 : slots_of(it, m->held), from = first_column(it, m, s, t, held);
    if (from > end) continue;
    if (from < it->first[row]) it->first[row] = from;
    const double *next = costs(it, row_of(m->next, t)), *rest = costs(it, row_of(s, m->rest));
    int to = column_below(best, it->columns, m->seconds + next[end - held] + rest[end]);
    if (to > from) relax(best + from, next + (from - held), rest + from, m->seconds, to - from);
  }
}

static void fill_table(solver *it) {
  for (int c = 0; c < it->columns; c++) costs(it, 0)[c] = 0;
  it->first[0] = 0;
  for (int length = 1; length <= it->chain->stages; length++)
    for (int s = 1; s + length - 1 <= it->chain->stages; s++) fill_row(it, s, s + length - 1);
}

/* The move that C(s, t, column) comes from. */
static int fastest(const solver *it, int s, int t, int column) {
  int count = list_moves(it, s, t), best = -1;
  double least = INFINITY;
  for (int i = 0; i < count; i++) {
    const move *m = &it->moves[i];
    int held = m->next > t ? 0 : slots_of(it, m->held);
    if (column < first_column(it, m, s, t, held)) continue;
    double cost = m->seconds + costs(it, row_of(m->next, t))[column - held] +
                  costs(it, row_of(s, m->rest))[column];
    if (cost < least) best = i, least = cost;
  }
  return best;
}

/* ---- reading schedules ----------------------------------------------------------------------- */

enum { MOST_FRUGAL = -1 };

/* Appends the operations of stages s..t, by the costs of a column or by the least memory. As deep
 * as there are stages at most. */
static ac_status emit(const solver *it, int s, int t, int column) {
  if (s > t) return AC_OK;
  uint64_t bytes;
  double seconds;
  int best =
      column == MOST_FRUGAL ? most_frugal(it, s, t, &bytes, &seconds) : fastest(it, s, t, column);
  move m = it->moves[best];
  bool split = m.variant < 0;
  if (!split) AC_TRY(append(it->solution, AC_CHAIN_SAVE, s, m.variant));
  for (int l = s; split && l < m.next; l++) AC_TRY(append(it->solution, AC_CHAIN_FORWARD, l, 0));
  bool whole = column == MOST_FRUGAL || m.next > t;
  AC_TRY(emit(it, m.next, t, whole ? column : column - slots_of(it, m.held)));
  if (!split) return append(it->solution, AC_CHAIN_BACKWARD, s, m.variant);
  return emit(it, s, m.rest, column);
}

static ac_status add_schedule(solver *it, int column) {
  size_t first = it->solution->operation_count;
  AC_TRY(emit(it, 1, it->chain->stages, column));
  return add_choice(it->solution, it->chain, first);
}

static ac_status add_schedules(solver *it) {
  const double *cost = costs(it, row_of(1, it->chain->stages));
  double previous = INFINITY;
  for (int c = 0; c < it->columns; c++) {
    if (!(cost[c] < previous)) continue;
    previous = cost[c];
    AC_TRY(add_schedule(it, c));
  }
  return AC_OK;
}

/* ---- solving --------------------------------------------------------------------------------- */

/* Bytes beyond a[0] that keeping everything by the fastest variants needs. */
static ac_status enough(const solver *it, uint64_t *bytes) {
  int stages = it->chain->stages;
  ac_chain_operation *operations = malloc(2 * (size_t)stages * sizeof *operations);
  if (!operations) return no_memory();
  for (int l = 1; l <= stages; l++) {
    const ac_chain_stage *stage = stage_at(it, l);
    int best = 0;
    for (int k = 1; k < stage->variants; k++) {
      double ahead = stage->variant[best].extra + stage->variant[best].backward -
                     stage->variant[k].extra - stage->variant[k].backward;
      if (ahead > 0 || (ahead == 0 && stage->variant[k].saved < stage->variant[best].saved))
        best = k;
    }
    operations[l - 1] = (ac_chain_operation){AC_CHAIN_SAVE, l, best};
    operations[2 * stages - l] = (ac_chain_operation){AC_CHAIN_BACKWARD, l, best};
  }
  double seconds;
  ac_status status = ac_chain_simulate(it->chain, operations, 2 * stages, bytes, &seconds);
  *bytes -= it->chain->input;
  free(operations);
  return status;
}

static ac_status solve_table(solver *it, uint64_t limit, int slots) {
  uint64_t bytes;
  AC_TRY(enough(it, &bytes));
  if (limit < bytes) bytes = limit;
  it->slot = bytes / (uint64_t)slots + (bytes % (uint64_t)slots != 0);
  if (!it->slot) it->slot = 1;
  it->columns = (int)(bytes / it->slot) + 1;
  if (it->slot > 1) it->columns += it->chain->stages + 1;
  size_t rows = row_count(it->chain);
  if ((size_t)it->columns > SIZE_MAX / sizeof *it->table / rows) return no_memory();
  it->table = malloc(rows * (size_t)it->columns * sizeof *it->table);
  it->first = malloc(rows * sizeof *it->first);
  if (!it->table || !it->first) return no_memory();
  fill_table(it);
  return add_schedules(it);
}

static ac_status solve(solver *it, uint64_t max_memory, int slots) {
  int variants = 0;
  for (int l = 1; l <= it->chain->stages; l++)
    if (stage_at(it, l)->variants > variants) variants = stage_at(it, l)->variants;
  size_t rows = row_count(it->chain);
  it->moves = malloc((size_t)(variants + it->chain->stages) * sizeof *it->moves);
  it->least = malloc(rows * sizeof *it->least);
  it->least_seconds = malloc(rows * sizeof *it->least_seconds);
  if (!it->moves || !it->least || !it->least_seconds) return no_memory();
  find_least(it);
  it->solution->least = it->chain->input + it->least[row_of(1, it->chain->stages)];
  if (max_memory < it->solution->least) return AC_OK;
  AC_TRY(add_schedule(it, MOST_FRUGAL));
  return solve_table(it, max_memory - it->chain->input, slots);
}

ac_status ac_chain_solve(ac_chain_solution **solution, const ac_chain *chain, uint64_t max_memory,
                         int slots) {
  *solution = NULL;
  AC_TRY(ac_chain_check(chain));
  if (slots < 1 || slots > AC_CHAIN_MAX_SLOTS)
    return ac_fail(AC_ERROR_ARGUMENT, "chain: %d slots; there must be 1 to %d", slots,
                   AC_CHAIN_MAX_SLOTS);
  solver it = {.chain = chain, .solution = calloc(1, sizeof *it.solution)};
  ac_status status = it.solution ? solve(&it, max_memory, slots) : no_memory();
  free(it.moves);
  free(it.least);
  free(it.least_seconds);
  free(it.table);
  free(it.first);
  if (status == AC_OK) *solution = it.solution;
  else ac_chain_free(it.solution);
  return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

uint64_t ac_chain_least_memory(const ac_chain_solution *solution) {
  return solution->least;
}

int ac_chain_choices(const ac_chain_solution *solution, const ac_chain_choice **choices) {
  *choices = solution->choices;
  return solution->count;
}

/* The last choice within a limit, -1: none. */
static int find(const ac_chain_solution *solution, uint64_t memory) {
  int low = 0, high = solution->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (solution->choices[middle].memory <= memory) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

double ac_chain_seconds(const ac_chain_solution *solution, uint64_t memory) {
  int found = find(solution, memory);
  return found < 0 ? INFINITY : solution->choices[found].seconds;
}

ac_status ac_chain_schedule(const ac_chain_solution *solution, uint64_t memory,
                            const ac_chain_operation **operations, int *count) {
  int found = find(solution, memory);
  if (found < 0) {
    char least[32], limit[32];
    return ac_fail(AC_ERROR_BUDGET, "chain: needs at least %s, the limit is %s",
                   ac_format_bytes_needed(least, sizeof least, solution->least),
                   ac_format_bytes(limit, sizeof limit, memory));
  }
  *operations = solution->operations + solution->schedules[found].first;
  *count = solution->schedules[found].count;
  return AC_OK;
}
