/* The candidates for a training plan, each with its predicted time and a bound for its bytes.
 *
 * For each micro-batch size B (the distinct ceil(batch / n), thinned out to at most AC_SEARCH_SIZES
 * of them) there is a family of orders: keep everything, recompute every stage, and the choices of
 * the chain solver from least memory to fastest, thinned out; policies other than `auto` leave only
 * the order that they name. The solver's choices of least memory are also found with guessed costs:
 * what fits with these orders fits whatever is measured, so a refusal can name them before costs
 * are measured. If a window is one micro-batch, each order makes two candidates: gradients are
 * kept, or the pass runs twice (passes.c). If the caller asks for one way by name, there is only
 * that one. If optimizer state may be in host memory (transfers.c), there are twice as many. The
 * families depend on graph, device and batch alone, never on the budget. */
#ifndef AC_PLAN_CANDIDATES_H
#define AC_PLAN_CANDIDATES_H

#include "plan/stages.h"

typedef struct ac_candidate {
  int size;        /* index */
  uint64_t memory; /* the chain solver's limit that yields the order */
  int choice;
  bool repeats; /* sections make again what is cheap (repeat.c) */
  const ac_gradient_way *way;
  bool host_state;
  double seconds; /* of a whole window and its update */
  uint64_t bound; /* bytes on the device in total, at least */
  uint64_t order; /* a hash of it */
  bool measured;  /* seconds and bound are known */
} ac_candidate;

/* What candidates of one micro-batch share. */
typedef struct ac_candidate_size {
  int64_t micro_batch;
  ac_stage_chain chain;        /* unless everything is kept by policy */
  ac_chain_solution *solution; /* AC_RECOMPUTE_AUTO, with costs */
  ac_stage_chain guessed;      /* AC_RECOMPUTE_AUTO: by a guess of costs */
  ac_chain_solution *frugal;   /* its choices of least memory are used */
  uint64_t evaluation;         /* bytes of its arena */
} ac_candidate_size;

/* Chains that were solved for one description, for others: with the same stages, what is stored
 * otherwise outside of them makes no difference. It owns the solutions. */
typedef struct ac_solved_chain {
  uint64_t key;
  ac_chain_solution *solution;
} ac_solved_chain;

typedef struct ac_chain_memo {
  ac_solved_chain *list;
  int count, capacity;
} ac_chain_memo;

void ac_chain_memo_free(ac_chain_memo *memo);

typedef struct ac_candidates {
  ac_chain_memo *memo; /* only the least bytes are looked for, and no seconds; NULL: all is */
  const ac_problem *problem;
  const ac_cost_model *costs;  /* NULL: unknown, and no candidate depends on them */
  ac_cost_model guess;         /* of costs */
  double per_transferred_byte; /* seconds of the way in, while as much goes out */
  ac_candidate_size sizes[AC_SEARCH_SIZES];
  int size_count;
  ac_candidate *list;
  int count;
  ac_order order; /* of the current one */
  ac_sequence evaluation;
  uint64_t prediction; /* bytes of its arena */
} ac_candidates;

static inline int64_t ac_divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* `costs` NULL: only candidates that do not depend on costs; their seconds mean nothing. Call
 * ac_candidates_free, also after a failure. */
ac_status ac_candidates_list(ac_candidates *s, const ac_problem *problem,
                             const ac_cost_model *costs, double per_transferred_byte);
void ac_candidates_free(ac_candidates *s);

/* `limit`: as that of a choice. */
ac_status ac_candidates_lay_down(ac_candidates *s, ac_plan *plan, const ac_candidate *c,
                                 uint64_t limit);

/* The least total that one of them has, to the byte, and its micro-batch. They are laid down on
 * `board`. UINT64_MAX: none that the device can allocate. */
ac_status ac_candidates_least(ac_candidates *s, ac_plan *board, uint64_t *total,
                              int64_t *micro_batch);

/* The same of a problem, with no more of its candidates listed than it takes. */
ac_status ac_candidates_find_least(const ac_problem *problem, const ac_cost_model *costs,
                                   ac_chain_memo *memo, uint64_t *total, int64_t *micro_batch);

#endif
