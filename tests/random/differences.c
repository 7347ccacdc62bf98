/* The reference against itself: along a random direction its gradient must be the growth of its
 * loss. So an error of the tape or of a family's table is not taken for an error of the library. */
#include "random.h"

#include <math.h>
#include <stdlib.h>

/* Of length 1, over the parameters that the loss depends on. */
static void draw_direction(double **direction, const random_graph *g, const random_reference *r) {
  op_draw d = {.state = op_draw_hash(g->recipe.key, 31)};
  double squares = 0;
  for (int p = 0; p < r->parameters; p++) {
    if (!r->gradient[p]) continue;
    direction[p] = calloc((size_t)r->count[p], sizeof(double));
    for (int64_t e = 0; e < r->count[p]; e++) {
      direction[p][e] = op_draw_between(&d, -1, 1);
      squares += direction[p][e] * direction[p][e];
    }
  }
  for (int p = 0; p < r->parameters; p++)
    for (int64_t e = 0; direction[p] && e < r->count[p]; e++) direction[p][e] /= sqrt(squares);
}

static bool crosses_a_tie(const random_reference *a, const random_reference *b) {
  for (int i = 0; i < a->ties.count; i++)
    if ((a->ties.distances[i] > 0) != (b->ties.distances[i] > 0)) return true;
  return false;
}

void random_check_reference(const random_graph *g, char *text, size_t size) {
  random_reference here, ahead, behind;
  random_run run = {.count = g->recipe.batch, .micro_batch = g->recipe.batch, .training = true};
  random_evaluate(&here, g, &run, NULL);
  double **direction = calloc((size_t)here.parameters + 1, sizeof *direction), along = 0;
  draw_direction(direction, g, &here);
  run.direction = direction;
  run.step = 1e-5;
  random_evaluate(&ahead, g, &run, NULL);
  run.step = -1e-5;
  random_evaluate(&behind, g, &run, NULL);
  double grown = (ahead.loss - behind.loss) / 2e-5;
  for (int p = 0; p < here.parameters; p++)
    for (int64_t e = 0; direction[p] && e < here.count[p]; e++)
      along += here.gradient[p][e] * direction[p][e];
  /* The third derivative counts where a variance is near epsilon. */
  if (!crosses_a_tie(&ahead, &behind) &&
      !(fabs(grown - along) <= 1e-3 * (fabs(along) + 0.02 * here.norm) + 1e-7))
    snprintf(text, size,
             "the reference's loss grows by %.9g along a direction, its gradient by %.9g", grown,
             along);
  for (int p = 0; p < here.parameters; p++) free(direction[p]);
  free(direction);
  random_reference_free(&here);
  random_reference_free(&ahead);
  random_reference_free(&behind);
}
