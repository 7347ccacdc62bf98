/* When gradients that are divided among ranks are exchanged, and how long they live for that.
 *
 * In a micro-batch a round of chunks is exchanged as soon as nothing changes its gradients any
 * more, and after the rounds before it: their order is a matter of the graph alone, so that ranks
 * with other micro-batches, which compute and recompute in another order, exchange the same. A
 * gradient lives until the last round that has some of it. */
#include "plan/shards.h"

#include "core/error.h"

#include <stdlib.h>

void ac_shards_places(const ac_problem *problem, const int *touched, const ac_rounds *rounds,
                      int *places) {
  int before = 0;
  for (int64_t n = 0; n < rounds->gradients; n++) {
    const int final = ac_shards_final(problem, touched, rounds, n);
    before = places[n] = final > before ? final : before;
  }
}

/* The rank that owns a range of the stream, which comes at or after `rank`. */
static int owner_of(const ac_problem *problem, const ac_streamed *s, int rank) {
  while (problem->bounds[rank + 1] <= s->begin) rank++;
  return rank;
}

/* By storage (of 0): how many steps have run when it has been exchanged. */
static void find_shed(const ac_problem *problem, const ac_rounds *rounds, const int *places,
                      int *shed) {
  int rank = 0;
  for (int i = 0; i < problem->streamed_count; i++) {
    const ac_streamed *s = &problem->streamed[i];
    if (s->begin >= problem->gradient_elements) return;
    rank = owner_of(problem, s, rank);
    const int64_t last = s->begin + s->count - 1 - problem->bounds[rank];
    const int place = places[last / rounds->chunk];
    if (place > shed[s->tensor]) shed[s->tensor] = place;
  }
}

ac_status ac_shards_extend(ac_sequence *sequence, const ac_graph *graph) {
  const ac_problem *problem = sequence->shards;
  const ac_rounds rounds = ac_shards_rounds(problem);
  const size_t tensors = (size_t)graph->tensor_count + 1;
  int *touched = calloc(tensors, sizeof *touched), *shed = calloc(tensors, sizeof *shed),
      *places = calloc((size_t)rounds.gradients + 1, sizeof *places);
  const bool room = touched && shed && places;
  if (room) {
    ac_shards_touched(graph, sequence, touched);
    ac_shards_places(problem, touched, &rounds, places);
    find_shed(problem, &rounds, places, shed);
  }
  for (int i = 0; room && i < sequence->value_count; i++) {
    ac_value *value = &sequence->values[i];
    if (ac_tensor_at(graph, value->tensor)->role == AC_ROLE_GRADIENT)
      value->last = shed[value->tensor] - 1;
  }
  free(touched);
  free(shed);
  free(places);
  return room ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
}
