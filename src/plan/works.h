/* What ops do and ask for at a micro-batch, found once for all nodes that are alike: the same op
 * and attributes on operands of the same shapes and dtypes. A search asks for each step of many
 * orders at many sizes, and an unrolled graph has few kinds of nodes. */
#ifndef AC_PLAN_WORKS_H
#define AC_PLAN_WORKS_H

#include "ops/description.h"
#include "plan/plan.h"

/* The kinds of a graph's nodes on a device, and what was asked about them. Both outlive it. */
typedef struct ac_works ac_works;

/* Expected time is linear in nodes. NULL: there is no memory. */
ac_works *ac_works_create(const ac_graph *graph, ac_device *device);
void ac_works_free(ac_works *works);

/* The first node that a node is like. */
int ac_works_kind(const ac_works *works, int node);

/* The work of a step (ac_op_work) with `batch` samples in training. */
ac_cost ac_works_cost(ac_works *works, const ac_step *step, int64_t batch);
/* And of a node that adds nothing to what is there already. */
ac_cost ac_works_node_cost(ac_works *works, int node, int64_t batch);
/* The workspace that the device asks for. */
uint64_t ac_works_workspace(ac_works *works, const ac_step *step, int64_t batch, bool training);

/* How many answers had to be worked out, rather than found. */
int64_t ac_works_misses(const ac_works *works);

#endif
