/* What a window's sums are for ranks: one stream of elements, the gradients of all parameters one
 * after another, and after them what batch norms pool. Each rank owns a stretch of the stream: it
 * adds up what all ranks have there. Bounds are a matter of the stream and the number of ranks
 * alone, so that sums depend on nothing else.
 *
 * A bound lies where a step of the optimizer may be cut: at a whole block of elements, or between
 * two parameters. What is pooled belongs to the last rank. */
#include "plan/plan.h"

#include "core/align.h"
#include "core/eight_bit.h"
#include "core/error.h"
#include "core/share.h"

#include <stdlib.h>

/* Smaller parameters are not cut. */
enum { LEAST = 2 * AC_EIGHT_BIT_BLOCK };

static void add(ac_problem *problem, int tensor, int64_t *end) {
  const int64_t count = ac_shape_count(&ac_tensor_at(problem->graph, tensor)->shape);
  problem->streamed[problem->streamed_count++] =
      (ac_streamed){.tensor = tensor, .begin = *end, .count = count};
  *end += count;
}

/* Where the bound next to an element of a parameter may be. */
static int64_t bound_near(const ac_problem *problem, const ac_streamed *s, int64_t at) {
  const ac_optimizer_row *row =
      problem->parameters[ac_tensor_at(problem->graph, s->tensor)->parameter].optimizer;
  const int64_t within = at - s->begin;
  if (row->part == AC_STEP_RANGE && s->count >= LEAST) {
    const int64_t block = AC_EIGHT_BIT_BLOCK, cut = (within + block / 2) / block * block;
    return s->begin + ac_smaller(cut, s->count);
  }
  return within < s->count - within ? s->begin : s->begin + s->count;
}

static void find_bounds(ac_problem *problem, int gradients, int64_t elements, int64_t end) {
  const int ranks = problem->desc.ranks;
  int k = 0;
  for (int r = 1; r < ranks; r++) {
    const int64_t at = ac_share_begin(elements, r, ranks);
    while (k < gradients - 1 && problem->streamed[k].begin + problem->streamed[k].count <= at) k++;
    const int64_t bound = gradients ? bound_near(problem, &problem->streamed[k], at) : 0;
    problem->bounds[r] = ac_larger(bound, problem->bounds[r - 1]);
  }
  problem->bounds[ranks] = end;
}

ac_status ac_shards_find(ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  const int ranks = problem->desc.ranks;
  if (ranks < 2) return AC_OK;
  problem->streamed = calloc((size_t)graph->tensor_count + 1, sizeof *problem->streamed);
  problem->bounds = calloc((size_t)ranks + 1, sizeof *problem->bounds);
  if (!problem->streamed || !problem->bounds)
    return ac_fail(AC_ERROR_MEMORY, "no memory for the shares of ranks");
  int64_t end = 0;
  for (int i = 0; i < graph->parameter_count; i++) {
    problem->parameters[i].streamed = end;
    if (problem->parameters[i].gradient >= 0) add(problem, problem->parameters[i].gradient, &end);
  }
  const int gradients = problem->streamed_count;
  const int64_t elements = problem->gradient_elements = end;
  for (int i = 0; i < graph->tensor_count; i++)
    if (ac_tensor_at(graph, i)->role == AC_ROLE_POOLED && ac_tensor_at(graph, i)->storage == i)
      add(problem, i, &end);
  find_bounds(problem, gradients, elements, end);
  return AC_OK;
}

void ac_shards_own(const ac_problem *problem, int parameter, int64_t *first, int64_t *count) {
  const ac_graph *graph = problem->graph;
  const int64_t all = ac_shape_count(&ac_tensor_at(graph, graph->parameters[parameter])->shape),
                begin = problem->parameters[parameter].streamed;
  *first = 0;
  *count = all;
  if (problem->desc.ranks < 2) return;
  const int64_t *bounds = &problem->bounds[problem->desc.rank];
  *first = ac_smaller(ac_larger(bounds[0] - begin, 0), all);
  *count = ac_smaller(ac_larger(bounds[1] - begin, 0), all) - *first;
}

bool ac_shards_run(const ac_problem *problem, const ac_node *node, ac_part *part) {
  const ac_graph *graph = problem->graph;
  *part = (ac_part){0, 0};
  if (problem->desc.ranks < 2 || node->phase != AC_PHASE_UPDATE || node->in[0] < 0 ||
      node->out[0] < 0)
    return true;
  const ac_tensor *from = ac_tensor_at(graph, node->in[0]), *to = ac_tensor_at(graph, node->out[0]);
  if (from->role != AC_ROLE_GRADIENT || to->role != AC_ROLE_PARAMETER) return true;
  ac_shards_own(problem, to->parameter, &part->first, &part->count);
  const bool runs = part->count > 0;
  if (part->count == ac_shape_count(&to->shape)) *part = (ac_part){0, 0};
  return runs;
}

int64_t ac_shards_chunk(const ac_problem *problem) {
  enum { ALL_BYTES = 8 << 20, LEAST_BYTES = 16 << 10, MOST_BYTES = 1 << 20 };
  const int ranks = problem->desc.ranks;
  int64_t most = 0;
  for (int r = 0; r < ranks; r++)
    most = ac_larger(most, problem->bounds[r + 1] - problem->bounds[r]);
  const int64_t bytes = ac_smaller(ac_larger(ALL_BYTES / ranks, LEAST_BYTES), MOST_BYTES);
  return ac_larger(ac_smaller(bytes / (int64_t)sizeof(float), most) / 3, 1) * 3;
}

/* What a rank receives from each other one and sends to it, and its own part. */
uint64_t ac_shards_bytes(const ac_problem *problem) {
  const int ranks = problem->desc.ranks;
  if (ranks < 2) return 0;
  return (uint64_t)(2 * ranks - 1) * (uint64_t)ac_shards_chunk(problem) * sizeof(float);
}
