/* clang-format off */
/* The sequences of a window. As a rule there is one: the nodes of a micro-batch, and after them
 * those of the phases that end a window, for which gradients are kept.
 *
 * If gradients are fused, there are two passes over the window's one micro-batch, and no gradient
 * lives longer than its pass:
 *
 *   main       the micro-batch's nodes; those of the phase `reduce` as soon as what they read is final
 *   (decision)
 *   stepping   the micro-batch's nodes once more; those of the phase `update` as soon as what they read is
 *              final and no later node, one that is recomputed included, reads what they write
 *
 * If they are fused locally, there is one pass with the nodes of both phases, and each parameter is
 * decided on by itself:
 *
 *   main       the micro-batch's nodes; those of `reduce` and `update` as above, the latter after all
 *              losses; what depends on no gradient (running statistics) after all others
 *
 * If they are folded, there is one pass, and after it the phases that end a window: the nodes of
 * the phase `fold` are in the pass, each as soon as the gradient that it reads is final.
 *
 * So a node of another phase comes after the last node that touches one of its operands: a
 * parameter's gradient, the parameter, its working copy, what a batch norm pools. A second pass
 * does not change sums other than gradients: a node that yields only such sums does not run again,
 * and one that also yields something else yields the same sums anew. Random numbers depend on
 * update and sample, so both passes compute the same bits. Linear in nodes, except for sorting
 * those that end a window. */
/* clang-format on */
#include "core/error.h"
#include "plan/plan.h"

#include <stdlib.h>

static ac_target target_of(const ac_problem *problem) {
  return problem->desc.purpose == AC_TRAIN      ? AC_TARGET_GRADIENTS
         : problem->desc.purpose == AC_EVALUATE ? AC_TARGET_LOSS
                                                : AC_TARGET_OUTPUTS;
}

/* ---- where nodes are ------------------------------------------------------------------------- */

/* A node of another phase, and the number of the micro-batch's nodes before it. */
typedef struct guest {
  int node, place;
} guest;

/* The phases that have their nodes among the micro-batch's. */
enum { FOLDS = 1 << AC_PHASE_FOLD, MEASURES = 1 << AC_PHASE_REDUCE, STEPS = 1 << AC_PHASE_UPDATE };

typedef struct pass {
  const ac_problem *problem;
  const ac_graph *graph; /* the problem's */
  int phases;            /* FOLDS, MEASURES, STEPS, or both of these */
  int *touched;          /* by storage: after how many nodes of `own` nothing touches it any more */
  int known;             /* after how many nodes all losses are known */
  guest *guests;
  int guest_count;
  ac_nodes own, all; /* nodes without and with guests */
} pass;

static void release(pass *p) {
  free(p->touched);
  free(p->guests);
  free(p->own.list);
  free(p->all.list);
}

static ac_status make_room(pass *p, const ac_problem *problem, const ac_nodes *order, int phases) {
  const size_t nodes =
      (size_t)order->count + (size_t)problem->after.count + (size_t)problem->folds.count + 1;
  *p = (pass){.problem = problem, .graph = problem->graph, .phases = phases};
  p->touched = calloc((size_t)p->graph->tensor_count + 1, sizeof *p->touched);
  p->guests = malloc(nodes * sizeof *p->guests);
  p->own.list = malloc(nodes * sizeof *p->own.list);
  p->all.list = malloc(nodes * sizeof *p->all.list);
  if (p->touched && p->guests && p->own.list && p->all.list) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "no memory for a pass");
}

/* The i-th operand of a node, inputs and outputs alike; -1: absent. */
enum { OPERANDS = AC_MAX_INPUTS + AC_MAX_OUTPUTS + 1 };
static int operand_of(const ac_node *node, int i) {
  if (i < AC_MAX_INPUTS) return node->in[i];
  return i < OPERANDS - 1 ? node->out[i - AC_MAX_INPUTS] : node->accumulate;
}

static int touched(const pass *p, int tensor) {
  return tensor < 0 ? 0 : p->touched[ac_tensor_at(p->graph, tensor)->storage];
}

/* After how many nodes nothing touches the operands of this one any more, nor the working copy that
 * a caller's own step after it writes. */
static int last_touch(const pass *p, const ac_node *node) {
  int last = 0;
  if (ac_problem_hands_over(p->problem, node)) {
    const int parameter = ac_tensor_at(p->graph, node->in[0])->parameter;
    last = touched(p, p->problem->parameters[parameter].working);
  }
  for (int i = 0; i < OPERANDS; i++) {
    const int place = touched(p, operand_of(node, i));
    if (place > last) last = place;
  }
  return last;
}

/* Whether a node yields a loss, which it adds up when it runs first. */
static bool yields_loss(const pass *p, const ac_node *node) {
  for (int k = 0; k < p->graph->loss_count; k++)
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (node->out[j] == p->graph->losses[k].tensor && !touched(p, node->out[j])) return true;
  return false;
}

static void touch(pass *p, const ac_node *node, int place) {
  for (int i = 0; i < OPERANDS; i++) {
    const int tensor = operand_of(node, i);
    if (tensor >= 0) p->touched[ac_tensor_at(p->graph, tensor)->storage] = place;
  }
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Whether a node only adds to sums that are not gradients. */
static bool only_sums(const ac_graph *graph, const ac_node *node) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (node->out[j] < 0) continue;
    const ac_role role = ac_tensor_at(graph, ac_tensor_at(graph, node->out[j])->storage)->role;
    if (!ac_role_is_sum(role) || role == AC_ROLE_GRADIENT) return false;
  }
  return true;
}

/* A pass that does not measure is the second one. */
static void take_own(pass *p, const ac_nodes *order) {
  for (int i = 0; i < order->count; i++) {
    const ac_node *node = ac_node_at(p->graph, order->list[i]);
    if (p->phases == STEPS && only_sums(p->graph, node)) continue;
    p->own.list[p->own.count++] = order->list[i];
    if (yields_loss(p, node)) p->known = p->own.count;
    touch(p, node, p->own.count);
  }
}

static int by_place(const void *a, const void *b) {
  const guest *x = a, *y = b;
  return x->place != y->place ? x->place - y->place : x->node - y->node;
}

/* A step that is decided on alone waits for the losses, or for all others if it follows no
 * gradient. */
static int place_of(const pass *p, const ac_node *node) {
  const int last = last_touch(p, node);
  if (p->phases != (MEASURES | STEPS) || node->phase != AC_PHASE_UPDATE) return last;
  if (ac_tensor_at(p->graph, node->in[0])->role != AC_ROLE_GRADIENT) return p->own.count + 1;
  return last > p->known ? last : p->known;
}

/* Nodes that touch the same thing keep their order. */
static void take_guests(pass *p, const ac_nodes *guests) {
  for (int i = 0; i < guests->count; i++) {
    const ac_node *node = ac_node_at(p->graph, guests->list[i]);
    if (!(p->phases >> node->phase & 1)) continue;
    const guest g = {guests->list[i], place_of(p, node)};
    p->guests[p->guest_count++] = g;
    touch(p, node, g.place);
  }
  qsort(p->guests, (size_t)p->guest_count, sizeof *p->guests, by_place);
}

static void merge(pass *p) {
  for (int i = 0, g = 0; i <= p->own.count + 1; i++) {
    while (g < p->guest_count && p->guests[g].place == i)
      p->all.list[p->all.count++] = p->guests[g++].node;
    if (i < p->own.count) p->all.list[p->all.count++] = p->own.list[i];
  }
}

/* The nodes of `order` with those of the phases between them. If gradients are folded, what ends a
 * window comes after them all; otherwise the pass is the whole window. */
static ac_status build_pass(const ac_problem *problem, const ac_nodes *order, int phases,
                            ac_storage storage, ac_sequence *sequence) {
  const bool folds = phases == FOLDS;
  pass p;
  ac_status status = make_room(&p, problem, order, phases);
  if (status == AC_OK) {
    take_own(&p, order);
    take_guests(&p, folds ? &problem->folds : &problem->after);
    merge(&p);
    status = ac_sequence_build(sequence, problem->graph, AC_TARGET_GRADIENTS, storage, &p.all,
                               folds ? &problem->after : NULL);
  }
  release(&p);
  return status;
}

ac_status ac_passes_build(const ac_problem *problem, const ac_choice *choice, ac_sequence *main,
                          ac_sequence *stepping) {
  const ac_nodes *order = choice->order;
  const ac_storage storage = {.whole_window = ac_problem_whole_window(problem, choice->micro_batch),
                              .host_state = choice->host_state,
                              .shards = problem->desc.ranks > 1 ? problem : NULL,
                              .sheds = choice->way->shards,
                              .window = problem->in_sections ? problem->desc.batch : 0};
  const ac_gradient_way *way = choice->way;
  if (!way->phases[0])
    return ac_sequence_build(main, problem->graph, target_of(problem), storage, order,
                             &problem->after);
  for (int i = 0; i < way->passes; i++)
    AC_TRY(build_pass(problem, order, way->phases[i], storage, i ? stepping : main));
  return AC_OK;
}
