#include "program/verification.h"

#include "common/message.h"

#include <stdlib.h>

/* From so many elements on a gradient is kept in bf16 where that is asked for (AC_GRADIENT_BF16).
 */
enum { LEAST_ROUNDED = 4096 };

bool verification_rounds(const verification *v) {
  return ac_plan_get_info(v->plan)->gradient_storage == AC_GRADIENT_BF16;
}

/* A parameter that is frozen, or that the loss does not depend on, has no gradient to ask for. A
 * base that is apart is not held in floats as well: nothing changes it. */
int verification_list(verification *v, ac_trainer *trainer) {
  layout *l = &v->layout;
  const bool bf16 = verification_rounds(v);
  l->parameters = ac_trainer_parameter_count(trainer);
  l->first = calloc((size_t)l->parameters + 1, sizeof *l->first);
  l->trained = calloc((size_t)l->parameters + 1, sizeof *l->trained);
  l->rounded = calloc((size_t)l->parameters + 1, sizeof *l->rounded);
  l->names = calloc((size_t)l->parameters + 1, sizeof *l->names);
  if (!l->first || !l->trained || !l->rounded || !l->names) return fail("out of memory");
  for (int i = 0; i < l->parameters; i++) {
    ac_tensor_info info;
    if (ac_trainer_parameter_info(trainer, i, &info) != AC_OK) return fail_library();
    int64_t count = 1;
    for (int d = 0; d < info.rank; d++) count *= info.shape[d];
    l->names[i] = info.name;
    l->trained[i] = ac_trainer_get_gradient(trainer, i, 0, 0, NULL) != AC_ERROR_ARGUMENT;
    if (!l->trained[i] && v->setup->trainer.states_without_frozen) count = 0;
    l->first[i + 1] = l->first[i] + count;
    l->rounded[i] = l->trained[i] && bf16 && count >= LEAST_ROUNDED;
  }
  return STATUS_CONTINUE;
}

bool verification_make_room(verification *v) {
  size_t windows = (size_t)v->updates, parameters = (size_t)v->layout.parameters;
  size_t elements = (size_t)v->layout.first[v->layout.parameters];
  record *r = &v->record;
  distances *d = &v->planned;
  r->windows = v->updates;
  r->gradients = calloc(windows, sizeof *r->gradients);
  r->weights = calloc(windows + 1, sizeof *r->weights);
  r->updates = calloc(windows, sizeof *r->updates);
  d->gradient = calloc(windows * parameters, sizeof *d->gradient);
  d->unexplained = calloc(windows * parameters, sizeof *d->unexplained);
  d->share = calloc(windows * parameters, sizeof *d->share);
  d->moved = calloc(windows, sizeof *d->moved);
  d->updates = calloc(windows, sizeof *d->updates);
  v->spread.gradient = calloc(parameters, sizeof *v->spread.gradient);
  v->spread.share = calloc(parameters, sizeof *v->spread.share);
  v->gradient = calloc(elements, sizeof *v->gradient);
  v->weights = calloc(elements, sizeof *v->weights);
  if (verification_rounds(v)) v->squares = calloc(elements, sizeof *v->squares);
  bool good = r->gradients && r->weights && r->updates && d->gradient && d->unexplained &&
              d->share && d->moved && d->updates && v->spread.gradient && v->spread.share &&
              v->gradient && v->weights && (v->squares || !verification_rounds(v));
  for (size_t u = 0; good && u <= windows; u++) {
    good = (r->weights[u] = calloc(elements, sizeof(float))) != NULL;
    if (u < windows) good = good && (r->gradients[u] = calloc(elements, sizeof(float))) != NULL;
  }
  return good;
}

void verification_release(verification *v) {
  for (int64_t u = 0; u <= v->record.windows; u++) {
    if (v->record.weights) free(v->record.weights[u]);
    if (v->record.gradients && u < v->record.windows) free(v->record.gradients[u]);
  }
  free(v->record.gradients);
  free(v->record.weights);
  free(v->record.updates);
  free(v->planned.gradient);
  free(v->planned.unexplained);
  free(v->planned.share);
  free(v->planned.moved);
  free(v->planned.updates);
  free(v->spread.gradient);
  free(v->spread.share);
  free(v->gradient);
  free(v->weights);
  free(v->squares);
  free(v->layout.first);
  free(v->layout.trained);
  free(v->layout.rounded);
  free(v->layout.names);
  for (int f = 0; f < AC_MAX_FIELDS; f++) free(v->blocks[f]);
  ac_plan_free(v->whole_plan);
  ac_plan_free(v->alone);
  verify_ranks_close(&v->ranks);
}

bool verification_make_blocks(verification *v) {
  const ac_dataset *dataset = v->setup->data.train;
  for (int f = 0; f < ac_dataset_field_count(dataset); f++) {
    const ac_field *field = ac_dataset_field(dataset, f);
    size_t bytes = (size_t)field->elements * ac_dtype_bytes(field->dtype);
    if (!(v->blocks[f] = malloc((size_t)v->setup->flags.batch * bytes))) return false;
  }
  return true;
}
