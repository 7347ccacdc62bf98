/* Predicted seconds of the exchange between ranks (src/window/exchange.c).
 *
 * Ranks exchange chunks in rounds. In a round a rank sends each other rank its part of that one's
 * chunk, adds up what it gets, sends the sum to all, and after the update the weights. Links carry
 * both directions at once, so a round takes, for each of the three,
 *
 *     latency + (ranks - 1) * (bytes of the largest chunk) / bandwidth
 *
 * and the host's memory moves each chunk several times. At a few points of a window all ranks send
 * some numbers to rank 0, which answers. None of this takes place while something is computed. */
#include "plan/plan.h"

#include "core/error.h"
#include "core/integers.h"

/* What the host copies and adds in a second, with one thread; and what is told at a point. */
#define HOST_BYTES 6e9
enum { POINTS = 3, POINT_BYTES = 2048, POINT_BYTES_OF_RANK = 16 };

typedef struct stretch {
  int64_t gradients, pooled; /* elements */
} stretch;

static stretch stretch_of(const ac_problem *problem, int rank) {
  const int64_t begin = problem->bounds[rank], end = problem->bounds[rank + 1],
                middle = ac_larger(begin, ac_smaller(end, problem->gradient_elements));
  return (stretch){middle - begin, end - middle};
}

/* Bytes of the n-th chunk: those of gradients come first, and no chunk has some of both. */
static double chunk_bytes(stretch s, int64_t chunk, int64_t n, bool *of_gradients) {
  const int64_t first = ac_ceil_div(s.gradients, chunk);
  *of_gradients = n < first;
  const int64_t left = n < first ? s.gradients - n * chunk : s.pooled - (n - first) * chunk;
  return (double)ac_larger(ac_smaller(left, chunk), 0) * (double)sizeof(float);
}

static int64_t rounds_of(const ac_problem *problem, int64_t chunk) {
  int64_t most = 0;
  for (int r = 0; r < problem->desc.ranks; r++) {
    const stretch s = stretch_of(problem, r);
    most = ac_larger(most, ac_ceil_div(s.gradients, chunk) + ac_ceil_div(s.pooled, chunk));
  }
  return most;
}

/* One round: `all` is what chunks of all ranks have, `own` that of the plan's rank. */
static void add_round(ac_rank_price *price, const ac_problem *problem, const ac_network *network,
                      int64_t chunk, int64_t n) {
  const int ranks = problem->desc.ranks;
  double all = 0, most = 0, weights = 0, own = 0, own_weights = 0;
  for (int r = 0; r < ranks; r++) {
    bool of_gradients;
    const double bytes = chunk_bytes(stretch_of(problem, r), chunk, n, &of_gradients);
    all += bytes;
    if (bytes > most) most = bytes;
    if (of_gradients && bytes > weights) weights = bytes;
    if (r != problem->desc.rank) continue;
    own = bytes;
    own_weights = of_gradients ? bytes : 0;
  }
  const double others = ranks - 1;
  price->bytes += (uint64_t)(all - own + others * (own + own_weights));
  price->messages += (uint64_t)(others * (1 + (own > 0) + (own_weights > 0)));
  price->exchange_seconds += 2 * (network->latency + others * most / network->bandwidth);
  if (weights > 0)
    price->exchange_seconds += network->latency + others * weights / network->bandwidth;
  /* Parts are copied, summed and written; weights are read and written. */
  price->exchange_seconds += (2 * all + (others + 1) * most + 2 * all + 2 * all) / HOST_BYTES;
}

static void add_points(ac_rank_price *price, int ranks, int rank, const ac_network *network) {
  const double bytes = POINT_BYTES + POINT_BYTES_OF_RANK * (double)ranks,
               others = rank ? 1 : ranks - 1;
  price->bytes += (uint64_t)(POINTS * others * bytes);
  price->messages += (uint64_t)(POINTS * others);
  price->exchange_seconds +=
      POINTS * 2 * (network->latency + (ranks - 1) * bytes / network->bandwidth);
}

ac_status ac_plan_price_ranks(const ac_plan *plan, const ac_network *network,
                              ac_rank_price *price) {
  AC_REQUIRE(plan, network, price);
  *price = (ac_rank_price){.window_seconds = plan->info.predicted_seconds};
  if (!(network->bandwidth > 0 && network->latency >= 0 && network->latency < 1e9))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "the bandwidth of a network must be positive, and its latency not negative");
  const ac_problem *problem = &plan->problem;
  if (problem->desc.ranks < 2) return AC_OK;
  const int64_t chunk = ac_shards_chunk(problem), rounds = rounds_of(problem, chunk);
  for (int64_t n = 0; n < rounds; n++) add_round(price, problem, network, chunk, n);
  add_points(price, problem->desc.ranks, problem->desc.rank, network);
  price->exposed_seconds = price->exchange_seconds;
  price->window_seconds += price->exposed_seconds;
  return AC_OK;
}
