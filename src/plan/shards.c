/* What a window's sums are for ranks: one stream of elements. Each rank owns a stretch of it: it
 * adds up what all ranks have there.
 *
 *   | rank 0: a part of each gradient | rank 1 | ... | last rank | what batch norms pool |
 *
 * Gradients are dealt out one after another, the one that a backward pass finishes first to begin
 * with, so that each rank has about the same number of elements of what is finished at any time.
 * While a backward pass goes on all links between ranks are in use then. A gradient is cut where a
 * step of the optimizer may be: at whole blocks of elements. If it must not be cut, it goes to the
 * rank with the least so far. What is pooled belongs to the last rank.
 *
 * All this is a matter of the graph, the optimizer and the number of ranks alone. So ranks agree on
 * it whatever their micro-batches are, and sums depend on nothing else. */
#include "plan/shards.h"

#include "core/eight_bit.h"
#include "core/error.h"
#include "core/integers.h"

#include <stdlib.h>

/* Smaller parameters are not cut. */
enum { LEAST = 2 * AC_EIGHT_BIT_BLOCK };

/* ---- dealing --------------------------------------------------------------------------------- */

/* A gradient, or what is pooled, and the last node of a micro-batch that adds to it. */
typedef struct sum {
  int tensor, parameter, last;
} sum;

/* Gradients on their way to ranks. */
typedef struct dealer {
  ac_problem *problem;
  sum *sums;
  int sum_count;
  int *last;          /* by storage */
  int64_t *loads;     /* by rank: elements so far */
  int *ranks;         /* by entry of `dealt`: the one that gets it */
  ac_streamed *dealt; /* in the order of dealing */
  int count;
} dealer;

static int by_last(const void *a, const void *b) {
  const sum *x = a, *y = b;
  return x->last != y->last ? x->last - y->last : x->parameter - y->parameter;
}

/* In the order in which backward finishes them, as far as the graph says. */
static void find_sums(dealer *d) {
  const ac_graph *graph = d->problem->graph;
  for (int i = 0; i < graph->node_count; i++) {
    const ac_node *node = ac_node_at(graph, i);
    for (int j = 0; j < AC_MAX_OUTPUTS && node->phase == AC_PHASE_MICRO_BATCH; j++)
      if (node->out[j] >= 0) d->last[ac_tensor_at(graph, node->out[j])->storage] = i;
  }
  for (int i = 0; i < graph->parameter_count; i++) {
    const int gradient = d->problem->parameters[i].gradient;
    if (gradient >= 0) d->sums[d->sum_count++] = (sum){gradient, i, d->last[gradient]};
  }
  qsort(d->sums, (size_t)d->sum_count, sizeof *d->sums, by_last);
}

static void give(dealer *d, const sum *s, int rank, int64_t first, int64_t count) {
  if (!count) return;
  d->ranks[d->count] = rank;
  d->dealt[d->count++] = (ac_streamed){.tensor = s->tensor, .first = first, .count = count};
  d->loads[rank] += count;
  if (rank != d->problem->desc.rank) return;
  d->problem->parameters[s->parameter].own_first = first;
  d->problem->parameters[s->parameter].own_count = count;
}

static int least_loaded(const dealer *d) {
  int least = 0;
  for (int r = 1; r < d->problem->desc.ranks; r++)
    if (d->loads[r] < d->loads[least]) least = r;
  return least;
}

/* Adaptive clipping measures whole units, which a range may cut. */
static bool is_cut(const ac_problem *problem, const sum *s, int64_t count) {
  return problem->parameters[s->parameter].optimizer->part == AC_STEP_RANGE && count >= LEAST &&
         problem->desc.optimizer.clipping != AC_CLIP_ADAPTIVE;
}

/* Each rank takes what brings it to the mean of all, the last one what is over. What ranks want may
 * be less than a block: then one of several takes a block for all of them, and wants less of the
 * next gradient. */
static void deal(dealer *d, const sum *s) {
  const int ranks = d->problem->desc.ranks;
  const int64_t count = ac_shape_count(&ac_tensor_at(d->problem->graph, s->tensor)->shape);
  if (!is_cut(d->problem, s, count)) {
    give(d, s, least_loaded(d), 0, count);
    return;
  }
  const int64_t block = AC_EIGHT_BIT_BLOCK;
  int64_t all = count, first = 0, wanted = 0;
  for (int r = 0; r < ranks; r++) all += d->loads[r];
  for (int r = 0; r < ranks && first < count; r++) {
    wanted += ac_larger(all / ranks - d->loads[r], 0);
    const int64_t end = (wanted + block / 2) / block * block;
    const int64_t taken = r == ranks - 1 ? count : ac_smaller(end, count);
    give(d, s, r, first, taken - first);
    first = taken;
  }
}

/* From the order of dealing to that of ranks. `places`, of 0: by rank, where its next range goes.
 */
static void lay(dealer *d, int *places) {
  ac_problem *problem = d->problem;
  const int ranks = problem->desc.ranks;
  for (int r = 0; r < ranks; r++) problem->bounds[r + 1] = problem->bounds[r] + d->loads[r];
  for (int k = 0; k < d->count; k++) places[d->ranks[k] + 1]++;
  for (int r = 1; r <= ranks; r++) places[r] += places[r - 1];
  for (int r = 0; r < ranks; r++) d->loads[r] = problem->bounds[r];
  for (int k = 0; k < d->count; k++) {
    const int rank = d->ranks[k];
    d->dealt[k].begin = d->loads[rank];
    d->loads[rank] += d->dealt[k].count;
    problem->streamed[places[rank]++] = d->dealt[k];
  }
  problem->streamed_count = d->count;
  problem->gradient_elements = problem->bounds[ranks];
}

static void lay_pools(ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  int64_t end = problem->gradient_elements;
  /* What sections gather is summed between them. */
  for (int i = 0; i < graph->tensor_count && !problem->in_sections; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->role != AC_ROLE_POOLED || tensor->storage != i) continue;
    const int64_t count = ac_shape_count(&tensor->shape);
    problem->streamed[problem->streamed_count++] =
        (ac_streamed){.tensor = i, .begin = end, .count = count};
    end += count;
  }
  problem->bounds[problem->desc.ranks] = end;
}

/* How many ranges there can be: at most one of each gradient for each rank, and no more of it than
 * blocks. */
static size_t most_ranges(const ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  size_t most = 1;
  for (int i = 0; i < graph->parameter_count; i++) {
    const int64_t count = ac_shape_count(&ac_tensor_at(graph, graph->parameters[i])->shape);
    most += (size_t)ac_smaller(problem->desc.ranks, ac_eight_bit_blocks(count) + 1);
  }
  return most;
}

ac_status ac_shards_find(ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  const size_t ranks = (size_t)problem->desc.ranks, tensors = (size_t)graph->tensor_count + 1;
  if (ranks < 2) return AC_OK;
  const size_t ranges = most_ranges(problem);
  problem->streamed = calloc(ranges + tensors, sizeof *problem->streamed);
  problem->bounds = calloc(ranks + 1, sizeof *problem->bounds);
  dealer d = {.problem = problem,
              .sums = calloc((size_t)graph->parameter_count + 1, sizeof *d.sums),
              .last = calloc(tensors, sizeof *d.last),
              .loads = calloc(ranks, sizeof *d.loads),
              .ranks = calloc(ranges, sizeof *d.ranks),
              .dealt = calloc(ranges, sizeof *d.dealt)};
  int *places = calloc(ranks + 1, sizeof *places);
  const bool room = problem->streamed && problem->bounds && d.sums && d.last && d.loads &&
                    d.ranks && d.dealt && places;
  if (room) {
    find_sums(&d);
    for (int i = 0; i < d.sum_count; i++) deal(&d, &d.sums[i]);
    lay(&d, places);
    lay_pools(problem);
  }
  free(d.sums);
  free(d.last);
  free(d.loads);
  free(d.ranks);
  free(d.dealt);
  free(places);
  return room ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory for the shares of ranks");
}

/* ---- parts ----------------------------------------------------------------------------------- */

void ac_shards_own(const ac_problem *problem, int parameter, int64_t *first, int64_t *count) {
  const ac_graph *graph = problem->graph;
  const bool alone = problem->desc.ranks < 2;
  const ac_parameter_tensors *own = &problem->parameters[parameter];
  *first = alone ? 0 : own->own_first;
  *count = alone ? ac_shape_count(&ac_tensor_at(graph, graph->parameters[parameter])->shape)
                 : own->own_count;
}

bool ac_shards_run(const ac_problem *problem, const ac_node *node, ac_part *part) {
  const ac_graph *graph = problem->graph;
  *part = (ac_part){0, 0};
  if (problem->desc.ranks < 2 || node->phase != AC_PHASE_UPDATE || node->in[0] < 0 ||
      node->out[0] < 0)
    return true;
  const ac_tensor *from = ac_tensor_at(graph, node->in[0]), *to = ac_tensor_at(graph, node->out[0]);
  const bool steps = to->role == AC_ROLE_PARAMETER, clips = to->role == AC_ROLE_GRADIENT;
  if (from->role != AC_ROLE_GRADIENT || !(steps || clips)) return true;
  ac_shards_own(problem, to->parameter, &part->first, &part->count);
  const bool runs = part->count > 0;
  if (part->count == ac_shape_count(&to->shape)) *part = (ac_part){0, 0};
  return runs;
}

const ac_streamed *ac_shards_streamed(const ac_problem *problem, int64_t at) {
  int low = 0, high = problem->streamed_count - 1;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (problem->streamed[middle].begin <= at) low = middle;
    else high = middle - 1;
  }
  return &problem->streamed[low];
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The gradients of a rank's stretch, and what it has of pooled sums. */
static ac_chunk gradients_of(const ac_problem *problem, int rank) {
  return (ac_chunk){problem->bounds[rank],
                    ac_smaller(problem->bounds[rank + 1], problem->gradient_elements)};
}

static ac_chunk pools_of(const ac_problem *problem, int rank) {
  const int64_t end = problem->bounds[rank + 1];
  return (ac_chunk){ac_smaller(problem->gradient_elements, end), end};
}

/* A multiple of 3, because what batch norms pool are three numbers of each channel. It has room for
 * all if that is less than the most: a few elements more would be one more round. Gradients that
 * are divided live until their round has gone, so a small model has several rounds of them. */
static int64_t chunk_elements(const ac_problem *problem) {
  enum { ALL_BYTES = 8 << 20, LEAST_BYTES = 16 << 10, MOST_BYTES = 1 << 20, ROUNDS = 12 };
  const int ranks = problem->desc.ranks;
  int64_t most = 0;
  for (int r = 0; r < ranks; r++)
    most = ac_larger(most, problem->bounds[r + 1] - problem->bounds[r]);
  int64_t bytes = ac_smaller(ac_larger(ALL_BYTES / ranks, LEAST_BYTES), MOST_BYTES);
  if (problem->way->shards)
    bytes = ac_smaller(bytes, ac_larger(most * (int64_t)sizeof(float) / ROUNDS, LEAST_BYTES));
  const int64_t thirds = ac_smaller(bytes / (3 * (int64_t)sizeof(float)), ac_ceil_div(most, 3));
  return 3 * ac_larger(thirds, 1);
}

static int64_t chunks_in(ac_chunk all, int64_t chunk) {
  return ac_ceil_div(ac_larger(all.end - all.begin, 0), chunk);
}

ac_rounds ac_shards_rounds(const ac_problem *problem) {
  ac_rounds rounds = {.chunk = chunk_elements(problem)};
  int64_t pools = 0;
  for (int r = 0; r < problem->desc.ranks; r++) {
    const int64_t own = chunks_in(gradients_of(problem, r), rounds.chunk);
    rounds.gradients = ac_larger(rounds.gradients, own);
    pools = ac_larger(pools, chunks_in(pools_of(problem, r), rounds.chunk));
  }
  rounds.all = rounds.gradients + pools;
  return rounds;
}

ac_chunk ac_shards_chunk_of(const ac_problem *problem, const ac_rounds *rounds, int rank,
                            int64_t n) {
  const bool pooled = n >= rounds->gradients;
  const ac_chunk all = pooled ? pools_of(problem, rank) : gradients_of(problem, rank);
  const int64_t skipped = (pooled ? n - rounds->gradients : n) * rounds->chunk,
                begin = ac_smaller(all.begin + skipped, all.end);
  return (ac_chunk){begin, ac_smaller(begin + rounds->chunk, all.end)};
}

static void touch(const ac_graph *graph, ac_slot slot, int point, int *touched) {
  if (slot.tensor >= 0) touched[ac_tensor_at(graph, slot.tensor)->storage] = point;
}

void ac_shards_touched(const ac_graph *graph, const ac_sequence *sequence, int *touched) {
  for (int i = 0; i < ac_sequence_end(sequence); i++) {
    const ac_step *step = &sequence->steps[i];
    touch(graph, step->copy, i + 1, touched);
    for (int k = 0; k < AC_MAX_INPUTS; k++) touch(graph, step->in[k], i + 1, touched);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) touch(graph, step->out[j], i + 1, touched);
  }
}

int ac_shards_final(const ac_problem *problem, const int *touched, const ac_rounds *rounds,
                    int64_t n) {
  int last = 0;
  for (int r = 0; r < problem->desc.ranks; r++) {
    const ac_chunk chunk = ac_shards_chunk_of(problem, rounds, r, n);
    for (int64_t at = chunk.begin; at < chunk.end;) {
      const ac_streamed *s = ac_shards_streamed(problem, at);
      if (touched[s->tensor] > last) last = touched[s->tensor];
      at = s->begin + s->count;
    }
  }
  return last;
}

void ac_shards_arrivals(const ac_problem *problem, const ac_rounds *rounds, int64_t *rounds_of) {
  for (int64_t k = 1; k <= rounds->gradients; k++)
    for (int r = 0; r < problem->desc.ranks; r++) {
      const ac_chunk chunk = ac_shards_chunk_of(problem, rounds, r, rounds->gradients - k);
      for (int64_t at = chunk.begin; at < chunk.end;) {
        const ac_streamed *s = ac_shards_streamed(problem, at);
        const int parameter = ac_tensor_at(problem->graph, s->tensor)->parameter,
                  working = problem->parameters[parameter].working;
        rounds_of[problem->parameters[parameter].tensor] = k;
        if (working >= 0) rounds_of[working] = k;
        at = s->begin + s->count;
      }
    }
}

static int64_t rounds_before(const ac_graph *graph, ac_slot slot, const int64_t *rounds_of) {
  return slot.tensor < 0 ? 0 : rounds_of[ac_tensor_at(graph, slot.tensor)->storage];
}

int64_t ac_shards_needed(const ac_graph *graph, const ac_step *step, const int64_t *rounds_of) {
  int64_t most = rounds_before(graph, step->copy, rounds_of);
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    most = ac_larger(most, rounds_before(graph, step->in[i], rounds_of));
  return most;
}

/* What a rank receives from each other one and sends to it, and its own part; of as many rounds as
 * are under way at once. */
uint64_t ac_shards_bytes(const ac_problem *problem) {
  const int ranks = problem->desc.ranks;
  if (ranks < 2) return 0;
  const int64_t at_once = ac_smaller(ac_shards_rounds(problem).all, AC_ROUNDS_AT_ONCE);
  return (uint64_t)ac_larger(at_once, 1) * (uint64_t)(2 * ranks - 1) *
         (uint64_t)chunk_elements(problem) * sizeof(float);
}
