/* Predicted seconds of the exchange between ranks (src/window/chunks.c).
 *
 * Ranks exchange chunks in rounds. In a round a rank sends each other rank its part of that one's
 * chunk and adds up what it gets; after the update it sends the weights of its own chunk to all, in
 * as many rounds. Links carry both directions at once, so a round takes
 *
 *     latency + (ranks - 1) * (bytes of the largest chunk) / bandwidth
 *
 * and the host's memory moves each chunk several times. Two rounds are under way at once: one's
 * latency passes while the other's bytes do. At a few points of a window all ranks send some
 * numbers to rank 0, which answers.
 *
 * Where a thread can move them while steps run (window/overlap.h; the dry device counts as such)
 * both are hidden. The sums are exchanged while the last micro-batch runs: a round begins when the
 * one before is over and the steps have run that its gradients need. What is left of it when the
 * last step has run is exposed. Weights come while the first micro-batch of the next window runs:
 * what its steps wait for them is exposed. So are all points but the first.
 *
 * Gradients that are divided among ranks (AC_GRADIENTS_SHARDED) are exchanged in each micro-batch.
 * A round travels while steps run, until the second one after it begins; what the steps wait is
 * exposed, and so are what the host copies, a point before each micro-batch, and weights. */
#include "plan/cost.h"
#include "plan/shards.h"

#include "core/error.h"
#include "core/integers.h"

#include <math.h>
#include <stdlib.h>

/* What the host copies and adds in a second, with one thread; and what is told at a point. */
#define HOST_BYTES 15e9
enum { POINTS = 3, POINT_BYTES = 2048, POINT_BYTES_OF_RANK = 16 };

/* The first and the last micro-batch: when each of its steps has ended, from 0 on; after how many
 * of them nothing touches a tensor; and after how many rounds its weights have come. */
typedef struct timeline {
  double *first, *ends; /* by number of steps that have run */
  int *touched;         /* by storage */
  int64_t *rounds_of;   /* by storage */
  double *arrivals;     /* by number of rounds of weights, from 0 on */
  double end;
  bool overlaps;
} timeline;

/* What takes part in a round: bytes of all chunks, of the largest and of this rank's. */
typedef struct chunks {
  double all, most, own;
} chunks;

static chunks chunks_of(const ac_problem *problem, const ac_rounds *rounds, int64_t n) {
  chunks found = {0};
  for (int r = 0; r < problem->desc.ranks; r++) {
    const double bytes = (double)ac_chunk_bytes(ac_shards_chunk_of(problem, rounds, r, n));
    found.all += bytes;
    found.most = fmax(found.most, bytes);
    if (r == problem->desc.rank) found.own = bytes;
  }
  return found;
}

static double on_links(const ac_network *network, double others, double bytes) {
  return network->latency + others * bytes / network->bandwidth;
}

/* Rounds, one after another: when the links are free again, and when the last two have ended. */
typedef struct rounds_of_a_kind {
  double links, last, before;
} rounds_of_a_kind;

/* One that begins at `ready` at the earliest. Messages do not get on while the host moves bytes. */
static void add_round(rounds_of_a_kind *r, const ac_network *network, double ready, double others,
                      double bytes, double host_bytes) {
  const double begins = fmax(ready, fmax(r->links, r->before));
  r->links = begins + others * bytes / network->bandwidth + host_bytes / HOST_BYTES;
  r->before = r->last;
  r->last = fmax(r->last, r->links + network->latency);
}

/* Parts are copied, summed and written. */
static void add_reduce(ac_rank_price *price, chunks c, double others) {
  price->bytes += (uint64_t)(c.all - c.own);
  price->messages += (uint64_t)others;
}

static double host_bytes_of_reduce(chunks c, double others) {
  return 2 * c.all + (others + 1) * c.most + 2 * c.most;
}

/* And what a rank owns is read, and written by all others. */
static void add_gather(ac_rank_price *price, chunks c, double others) {
  price->bytes += (uint64_t)(others * c.own);
  price->messages += (uint64_t)(c.own > 0 ? others : 0);
}

static double host_bytes_of_gather(chunks c) {
  return 2 * c.most + 2 * c.all;
}

static double add_point(ac_rank_price *price, const ac_problem *problem,
                        const ac_network *network) {
  const int ranks = problem->desc.ranks;
  const double bytes = POINT_BYTES + POINT_BYTES_OF_RANK * (double)ranks,
               others = problem->desc.rank ? 1 : ranks - 1,
               seconds = 2 * on_links(network, ranks - 1, bytes);
  price->bytes += (uint64_t)(others * bytes);
  price->messages += (uint64_t)others;
  price->exchange_seconds += seconds;
  return seconds;
}

/* ---- the last micro-batch -------------------------------------------------------------------- */

/* By what is measured, or else by a guess: a price measures nothing. */
static void find_ends(const ac_plan *plan, int64_t samples, double *ends) {
  const ac_problem *problem = &plan->problem;
  const ac_sequence *sequence = &plan->main;
  bool wanted[AC_OP_COUNT] = {false};
  ac_cost_model model;
  ac_nodes_mark_ops(&problem->main, plan->graph, wanted);
  if (!ac_cost_model_recall(&model, plan->device, ac_plan_storage(&problem->desc), wanted))
    ac_cost_guess(&model);
  for (int i = 0; i < ac_sequence_end(sequence); i++)
    ends[i + 1] = ends[i] + ac_cost_step_seconds(&model, plan->graph, &sequence->steps[i], samples);
}

static bool is_only_one(const ac_plan *plan) {
  return plan->info.share <= plan->info.micro_batch;
}

static ac_status find_timeline(const ac_plan *plan, timeline *t) {
  const ac_backend *backend = plan->device->backend;
  const ac_rounds rounds = ac_shards_rounds(&plan->problem);
  const size_t steps = (size_t)ac_sequence_end(&plan->main) + 1,
               tensors = (size_t)plan->graph->tensor_count + 1;
  const int64_t micro_batch = plan->info.micro_batch, rest = plan->info.share % micro_batch;
  t->first = calloc(steps, sizeof *t->first);
  t->ends = calloc(steps, sizeof *t->ends);
  t->touched = calloc(tensors, sizeof *t->touched);
  t->rounds_of = calloc(tensors, sizeof *t->rounds_of);
  t->arrivals = calloc((size_t)rounds.gradients + 1, sizeof *t->arrivals);
  if (!t->first || !t->ends || !t->touched || !t->rounds_of || !t->arrivals)
    return ac_fail(AC_ERROR_MEMORY, "no memory for a price");
  /* Sections have ranks meet, and so exchange gradients afterwards. */
  const bool divided = plan->way->shards, overlaps = backend->is_host ||
                                                     backend->computes_nothing ||
                                                     (backend->open_lane && !divided);
  if (!overlaps || plan->problem.in_sections) return AC_OK;
  t->overlaps = !divided;
  find_ends(plan, rest ? rest : micro_batch, t->ends);
  find_ends(plan, is_only_one(plan) && rest ? rest : micro_batch, t->first);
  ac_shards_touched(plan->graph, &plan->main, t->touched);
  ac_shards_arrivals(&plan->problem, &rounds, t->rounds_of);
  t->end = t->ends[steps - 1];
  return AC_OK;
}

static void free_timeline(timeline *t) {
  free(t->first);
  free(t->ends);
  free(t->touched);
  free(t->rounds_of);
  free(t->arrivals);
}

/* Batch norms that are exact have a point each, forward and backward. */
static int meetings_of_norms(const ac_plan *plan) {
  int count = 0;
  for (int i = 0; i < plan->cell_count && plan->problem.in_sections; i++)
    count += plan->cells[i].role == AC_ROLE_POOLED || plan->cells[i].role == AC_ROLE_GATHERED;
  return count;
}

/* Rounds of weights, from the end of an update on. */
static void add_weights(ac_rank_price *price, const ac_problem *problem, const ac_network *network,
                        const ac_rounds *rounds, timeline *t) {
  const double others = problem->desc.ranks - 1;
  rounds_of_a_kind r = {0};
  for (int64_t k = 1; k <= rounds->gradients; k++) {
    const chunks c = chunks_of(problem, rounds, rounds->gradients - k);
    add_gather(price, c, others);
    add_round(&r, network, 0, others, c.most, host_bytes_of_gather(c));
    t->arrivals[k] = r.last;
  }
  price->exchange_seconds += r.last;
}

/* Rounds of sums from `now` on; returns when the last one has ended. */
static double add_sums(ac_rank_price *price, const ac_problem *problem, const ac_network *network,
                       const ac_rounds *rounds, const timeline *t, bool divided, double now) {
  const double others = problem->desc.ranks - 1;
  const int64_t first = divided ? rounds->gradients : 0;
  rounds_of_a_kind alone = {0}, r = {now, now, now};
  for (int64_t n = first; n < rounds->all; n++) {
    const chunks c = chunks_of(problem, rounds, n);
    const double ready = t->ends[ac_shards_final(problem, t->touched, rounds, n)];
    add_reduce(price, c, others);
    add_round(&alone, network, 0, others, c.most, host_bytes_of_reduce(c, others));
    add_round(&r, network, ready, others, c.most, host_bytes_of_reduce(c, others));
    if (n < rounds->gradients) continue;
    add_gather(price, c, others);
    add_round(&alone, network, alone.last, others, c.most, host_bytes_of_gather(c));
    add_round(&r, network, r.last, others, c.most, host_bytes_of_gather(c));
  }
  price->exchange_seconds += alone.last;
  return r.last;
}

/* How long the first micro-batch waits for them. If it is the last one as well its steps end later
 * by that. */
static double wait_for_weights(const ac_plan *plan, const ac_rounds *rounds, timeline *t) {
  const int steps = ac_sequence_end(&plan->main);
  double waited = 0;
  if (!t->overlaps) return t->arrivals[rounds->gradients];
  for (int i = 0; i < steps; i++) {
    const int64_t needed = ac_shards_needed(plan->graph, &plan->main.steps[i], t->rounds_of);
    waited += fmax(t->arrivals[needed] - (t->first[i] + waited), 0);
    if (is_only_one(plan)) t->ends[i + 1] += waited;
  }
  waited += fmax(t->arrivals[rounds->gradients] - (t->first[steps] + waited), 0);
  t->end = t->ends[steps];
  return waited;
}

/* How much longer a micro-batch takes with the exchange of its gradients, which are divided. */
static double add_micro_batch(const ac_plan *plan, const ac_network *network, const timeline *t,
                              ac_rank_price *price) {
  const ac_problem *problem = &plan->problem;
  const ac_rounds rounds = ac_shards_rounds(problem);
  const double others = problem->desc.ranks - 1;
  rounds_of_a_kind alone = {0}, r = {0};
  double late = add_point(price, problem, network);
  int place = 0;
  for (int64_t n = 0; n < rounds.gradients; n++) {
    const chunks c = chunks_of(problem, &rounds, n);
    const int final = ac_shards_final(problem, t->touched, &rounds, n);
    const double host_bytes = host_bytes_of_reduce(c, others);
    place = final > place ? final : place;
    late = fmax(late, r.before - t->ends[place]);
    add_reduce(price, c, others);
    add_round(&alone, network, 0, others, c.most, host_bytes);
    add_round(&r, network, t->ends[place] + late, others, c.most, host_bytes);
    late += host_bytes / HOST_BYTES;
  }
  price->exchange_seconds += alone.last;
  return fmax(late, r.last - t->end);
}

/* As often as the rank with the most samples has micro-batches. When a window ends ranks meet once
 * more. */
static double add_micro_batches(const ac_plan *plan, const ac_network *network, const timeline *t,
                                ac_rank_price *price) {
  const int64_t times = ac_ceil_div(plan->problem.desc.batch, plan->info.micro_batch);
  double seconds = add_point(price, &plan->problem, network);
  for (int64_t i = 0; i < times; i++) seconds += add_micro_batch(plan, network, t, price);
  return seconds;
}

static void add_all(const ac_plan *plan, const ac_network *network, timeline *t,
                    ac_rank_price *price) {
  const ac_problem *problem = &plan->problem;
  const ac_rounds rounds = ac_shards_rounds(problem);
  add_weights(price, problem, network, &rounds, t);
  double after = wait_for_weights(plan, &rounds, t), now = add_point(price, problem, network);
  if (t->overlaps && is_only_one(plan)) now += t->arrivals[rounds.gradients];
  if (plan->way->shards) now += t->end; /* what is pooled follows the steps */
  now = add_sums(price, problem, network, &rounds, t, plan->way->shards, now);
  if (plan->way->shards) after += add_micro_batches(plan, network, t, price);
  for (int i = 1; i < POINTS; i++) after += add_point(price, problem, network);
  for (int i = 0; i < meetings_of_norms(plan); i++) after += add_point(price, problem, network);
  price->exposed_seconds = fmax(now - t->end, 0) + after;
  price->window_seconds += price->exposed_seconds;
}

ac_status ac_plan_price_ranks(const ac_plan *plan, const ac_network *network,
                              ac_rank_price *price) {
  AC_REQUIRE(plan, network, price);
  *price = (ac_rank_price){.window_seconds = plan->info.predicted_seconds};
  if (!(network->bandwidth > 0 && network->latency >= 0 && network->latency < 1e9))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "the bandwidth of a network must be positive, and its latency not negative");
  if (plan->problem.desc.ranks < 2) return AC_OK;
  timeline t = {0};
  const ac_status status = find_timeline(plan, &t);
  if (status == AC_OK) add_all(plan, network, &t, price);
  free_timeline(&t);
  return status;
}
