/* clang-format off */
/* A graph's training as a chain of stages, and back from a chain's schedule to an order of nodes.
 *
 *   forward nodes   | f f f | f f f f | f f |   cut where a single activation is alive between two of them
 *   boundaries      a0      a1        a2        the activation that crosses the cut
 *   backward nodes  | b b   | b b b   | b b |   those that the stage's forward nodes' gradient rules appended
 *
 * A stage's backward nodes read boundaries, and activations of the stage itself. A variant of a
 * stage drops some of these activations after the forward pass. They are computed anew, by the same
 * forward nodes, right before the backward node that needs them. A node that yields nothing but
 * sums, such as a loss, runs once, however often its stage does. Variants are found greedily:
 * tensors are dropped in the order of bytes saved per second of recomputing, and each length of
 * that order is a variant (at most AC_STAGE_VARIANTS of them, evenly chosen). A graph without any
 * cut is one stage, and can only drop activations within it.
 *
 * What comes before all that is trained has no backward nodes except those that pool statistics. It
 * is not a stage: it runs once, pools right after that, and leaves the activation that the first
 * stage reads. */
/* clang-format on */
#ifndef AC_PLAN_STAGES_H
#define AC_PLAN_STAGES_H

#include "plan/chain.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "plan/works.h"

enum { AC_STAGE_VARIANTS = 8, AC_STAGES = 128 };

typedef struct ac_stage {
  int forward, forward_end;   /* range in `nodes` */
  int backward, backward_end; /* range in `nodes` */
  int boundary;               /* storage that leaves it, -1: the last stage */
  int *droppable;             /* storages */
  int droppable_count;
} ac_stage;

typedef struct ac_stages {
  const ac_graph *graph;
  int *nodes; /* those before all stages, forward nodes of all stages, then backward nodes */
  int node_count;
  int before; /* nodes before all stages */
  int input;  /* the storage that these leave to the first, -1: none */
  ac_stage *stage;
  int count;
  bool hinted;   /* some activation is hinted to be recomputed */
  int *stage_of; /* by storage: the stage with the forward nodes that fill it, -1: none */
  int *producer; /* by storage: forward node, -1: none */
} ac_stages;

/* Cuts nodes of a differentiated graph. */
ac_status ac_stages_cut(ac_stages *stages, const ac_graph *graph, const ac_nodes *nodes);
void ac_stages_free(ac_stages *stages);

/* ---- stage_chain.c: the chain at one micro-batch ----------------------------------------------
 */

typedef struct ac_stage_variants {
  int *droppable;               /* those of the stage, in the order in which variants drop them */
  int drops[AC_STAGE_VARIANTS]; /* by variant: how many of them */
  int count;
} ac_stage_variants;

typedef struct ac_stage_chain {
  ac_stage_variants *variants; /* by stage */
  ac_chain chain;
} ac_stage_chain;

/* A chain that is asked for, at a micro-batch and by a model of costs. */
typedef struct ac_stage_chain_request {
  int64_t batch;
  int64_t window; /* as of a sequence; the same in all requests */
  const ac_cost_model *costs;
  ac_stage_chain *result;
} ac_stage_chain_request;

/* Chooses each stage's variants and measures them in bytes and seconds, for all requests at once.
 * Free the results with ac_stage_chain_free; after a failure there are none. */
ac_status ac_stage_chains_create(const ac_stage_chain_request *requests, int count,
                                 const ac_stages *stages, ac_works *works, uint64_t alignment);
void ac_stage_chain_free(ac_stage_chain *chain);

/* ---- orders of nodes ------------------------------------------------------------------------- */

/* An order and the room to lay one down. */
typedef struct ac_order {
  ac_nodes nodes;
  int capacity;
  bool *available; /* by storage */
  bool *kept;      /* by storage: hinted to be kept, and computed */
  bool *ran;       /* by node: a forward node that is in the order */
  void *pending;   /* nodes that wait for their inputs */
  int pending_capacity;
} ac_order;

ac_status ac_order_create(ac_order *order, const ac_stages *stages);
void ac_order_free(ac_order *order);

/* Turns operations on that chain into an order of nodes. */
ac_status ac_order_lay(ac_order *order, const ac_stages *stages, const ac_stage_chain *chain,
                       const ac_chain_operation *operations, int count);

/* The order of one stage alone: its forward nodes by a variant (-1: keeping nothing), and then, if
 * there is one, its backward nodes. *split receives where these begin. */
ac_status ac_order_lay_stage(ac_order *order, const ac_stages *stages, int s,
                             const ac_stage_variants *variants, int variant, int *split);

/* Lets sections make again what is cheap, instead of keeping it for a window (repeat.c). *mark
 * (NULL: nobody asks), a place in the order, becomes the place of the same node. */
ac_status ac_order_repeat(ac_order *order, ac_sequence_room *room, const ac_graph *graph,
                          int64_t window, int *mark);

/* The order that keeps everything: each node once. */
ac_status ac_order_lay_plain(ac_order *order, const ac_stages *stages);

#endif
