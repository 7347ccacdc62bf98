/* clang-format off */
/* A graph's training as a chain of stages, and back from a chain's schedule to an order of nodes.
 *
 *   forward nodes   | f f f | f f f f | f f |   cut where a single activation is alive between two of them
 *   boundaries      a0      a1        a2        the activation that crosses the cut
 *   backward nodes  | b b   | b b b   | b b |   those that the stage's forward nodes' gradient rules appended
 *
 * Besides boundaries, a stage's backward nodes read activations of the stage itself. A variant of a stage
 * drops some of these after the forward pass; a backward node that wants a dropped one finds it computed
 * anew, right before, by the same forward nodes. Variants are found greedily: tensors are dropped in the
 * order of bytes saved per second of recomputing, and each length of that order is a variant (at most
 * AC_STAGE_VARIANTS of them, evenly chosen). A graph without any cut is one stage, where dropping is all
 * there is. */
/* clang-format on */
#ifndef AC_PLAN_STAGES_H
#define AC_PLAN_STAGES_H

#include "plan/chain.h"
#include "plan/cost.h"
#include "plan/plan.h"

enum { AC_STAGE_VARIANTS = 8, AC_STAGES = 128 };

typedef struct ac_stage {
  int forward, forward_end;   /* range in `nodes` */
  int backward, backward_end; /* range in `nodes` */
  int boundary;               /* storage that leaves it, -1: the last stage */
  int *droppable;             /* storages, in the order in which variants drop them */
  int droppable_count;
  int drops[AC_STAGE_VARIANTS]; /* by variant: how many of `droppable` */
  int variants;
} ac_stage;

typedef struct ac_stages {
  const ac_graph *graph;
  int *nodes; /* forward nodes of all stages, then backward nodes */
  int node_count;
  ac_stage *stage;
  int count;
  bool hinted;   /* some activation is hinted to be recomputed */
  int *stage_of; /* by storage: the stage whose forward nodes fill it, -1: none */
  int *producer; /* by storage: forward node, -1: none */
  /* Scratch for laying down orders. */
  bool *available; /* by storage */
  bool *kept;      /* by storage: hinted to be kept, and computed */
  int *order;
  int order_count, order_capacity;
} ac_stages;

/* Cuts the nodes that `runs` marks (of a differentiated graph). */
ac_status ac_stages_cut(ac_stages *stages, const ac_graph *graph, const bool *runs);
void ac_stages_free(ac_stages *stages);

/* A chain with the prices of this micro-batch. Chooses each stage's variants. Free with
 * ac_stages_free_chain. */
ac_status ac_stages_price(ac_stages *stages, ac_device *device, const ac_cost_model *costs,
                          int64_t batch, ac_chain *chain);
void ac_stages_free_chain(ac_chain *chain);

/* The order of nodes that a schedule of that chain stands for, in stages->order and order_count. */
ac_status ac_stages_order(ac_stages *stages, const ac_chain_operation *operations, int count);

/* The order that keeps everything: each node once. */
ac_status ac_stages_plain_order(ac_stages *stages);

#endif
