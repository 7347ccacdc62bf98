/* Predicted seconds of the exchange between ranks (src/window/chunks.c).
 *
 * Ranks exchange chunks in rounds. In a round a rank sends each other rank its part of that one's
 * chunk and adds up what it gets; after the update it sends the weights of its own chunk to all, in
 * as many rounds. Links carry both directions at once, so a round takes
 *
 *     latency + (ranks - 1) * (bytes of the largest chunk) / bandwidth
 *
 * and the host's memory moves each chunk several times. At a few points of a window all ranks send
 * some numbers to rank 0, which answers.
 *
 * The sums are exchanged while the last micro-batch runs, where the device's memory is the host's
 * (the dry device counts as such): a round begins when the one before is over and the steps have
 * run that its gradients need. What is left of it when the last step has run is exposed, and so are
 * the weights and all points but the first.
 *
 * Gradients that are divided among ranks (AC_GRADIENTS_SHARDED) are exchanged in each micro-batch.
 * A round travels while steps run, until the next one begins; what the steps wait is exposed, and
 * so are what the host copies, and a point before each micro-batch. */
#include "plan/cost.h"
#include "plan/shards.h"

#include "core/error.h"
#include "core/integers.h"

#include <math.h>
#include <stdlib.h>

/* What the host copies and adds in a second, with one thread; and what is told at a point. */
#define HOST_BYTES 15e9
enum { POINTS = 3, POINT_BYTES = 2048, POINT_BYTES_OF_RANK = 16 };

/* The last micro-batch: when each of its steps has ended, from 0 on; and after how many of them
 * nothing touches a tensor. */
typedef struct timeline {
  double *ends; /* by number of steps that have run */
  int *touched; /* by storage */
  double end;
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

/* Parts are copied, summed and written. */
static double on_host(chunks c, double others) {
  return (2 * c.all + (others + 1) * c.most + 2 * c.most) / HOST_BYTES;
}

static double add_reduce(ac_rank_price *price, const ac_network *network, chunks c, double others) {
  const double seconds = on_links(network, others, c.most) + on_host(c, others);
  price->bytes += (uint64_t)(c.all - c.own);
  price->messages += (uint64_t)others;
  price->exchange_seconds += seconds;
  return seconds;
}

/* And what a rank owns is read, and written by all others. */
static double add_gather(ac_rank_price *price, const ac_network *network, chunks c, double others) {
  const double seconds = on_links(network, others, c.most) + (2 * c.most + 2 * c.all) / HOST_BYTES;
  price->bytes += (uint64_t)(others * c.own);
  price->messages += (uint64_t)(c.own > 0 ? others : 0);
  price->exchange_seconds += seconds;
  return seconds;
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
static void find_ends(const ac_plan *plan, double *ends) {
  const ac_problem *problem = &plan->problem;
  const ac_sequence *sequence = &plan->main;
  const int64_t micro_batch = plan->info.micro_batch, rest = plan->info.share % micro_batch;
  bool wanted[AC_OP_COUNT] = {false};
  ac_cost_model model;
  ac_nodes_mark_ops(&problem->main, plan->graph, wanted);
  if (!ac_cost_model_recall(&model, plan->device, ac_plan_storage(&problem->desc), wanted))
    ac_cost_guess(&model);
  for (int i = 0; i < ac_sequence_end(sequence); i++)
    ends[i + 1] = ends[i] + ac_cost_step_seconds(&model, plan->graph, &sequence->steps[i],
                                                 rest ? rest : micro_batch);
}

/* Devices with memory of their own begin when all has run. */
static ac_status find_timeline(const ac_plan *plan, timeline *t) {
  const ac_backend *backend = plan->device->backend;
  const int steps = ac_sequence_end(&plan->main);
  t->ends = calloc((size_t)steps + 1, sizeof *t->ends);
  t->touched = calloc((size_t)plan->graph->tensor_count + 1, sizeof *t->touched);
  if (!t->ends || !t->touched) return ac_fail(AC_ERROR_MEMORY, "no memory for a price");
  /* Sections have ranks meet, and so exchange gradients afterwards. */
  if ((!backend->is_host && !backend->computes_nothing) || plan->problem.in_sections) return AC_OK;
  find_ends(plan, t->ends);
  ac_shards_touched(plan->graph, &plan->main, t->touched);
  t->end = t->ends[steps];
  return AC_OK;
}

/* Batch norms that are exact have a point each, forward and backward. */
static int meetings_of_norms(const ac_plan *plan) {
  int count = 0;
  for (int i = 0; i < plan->cell_count && plan->problem.in_sections; i++)
    count += plan->cells[i].role == AC_ROLE_POOLED || plan->cells[i].role == AC_ROLE_GATHERED;
  return count;
}

/* How much longer a micro-batch takes with the exchange of its gradients, which are divided. */
static double add_micro_batch(const ac_plan *plan, const ac_network *network, const timeline *t,
                              ac_rank_price *price) {
  const ac_problem *problem = &plan->problem;
  const ac_rounds rounds = ac_shards_rounds(problem);
  const double others = problem->desc.ranks - 1;
  double late = add_point(price, problem, network), come = 0;
  int place = 0;
  for (int64_t n = 0; n < rounds.gradients; n++) {
    const chunks c = chunks_of(problem, &rounds, n);
    const int final = ac_shards_final(problem, t->touched, &rounds, n);
    place = final > place ? final : place;
    const double begun = fmax(t->ends[place] + late, come);
    come = begun + add_reduce(price, network, c, others);
    late = begun - t->ends[place] + on_host(c, others);
  }
  return fmax(late, come - t->end);
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

static void add_all(const ac_plan *plan, const ac_network *network, const timeline *t,
                    ac_rank_price *price) {
  const ac_problem *problem = &plan->problem;
  const ac_rounds rounds = ac_shards_rounds(problem);
  const double others = problem->desc.ranks - 1;
  const bool divided = plan->way->shards;
  double now = add_point(price, problem, network), after = 0;
  if (divided) after += add_micro_batches(plan, network, t, price);
  for (int64_t n = 0; n < rounds.all; n++) {
    const chunks c = chunks_of(problem, &rounds, n);
    const double gathered = add_gather(price, network, c, others);
    if (n < rounds.gradients) after += gathered;
    if (n < rounds.gradients && divided) continue;
    now = fmax(now, t->ends[ac_shards_final(problem, t->touched, &rounds, n)]);
    now += add_reduce(price, network, c, others);
    if (n >= rounds.gradients) now += gathered;
  }
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
  free(t.ends);
  free(t.touched);
  return status;
}
