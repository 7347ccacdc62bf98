/* A hash table of kinds, filled once, and one of answers, by kind, by which sums the step adds to
 * or leaves out, and by micro-batch. Both are probed one place after the other. What there is no
 * memory to keep is worked out again. */
#include "plan/works.h"

#include <stdlib.h>
#include <string.h>

/* An answer, as far as it was asked for. */
typedef struct answer {
  uint64_t key; /* 0: an empty place */
  int64_t batch;
  ac_cost cost;
  uint64_t workspace;
  bool has_cost, has_workspace;
} answer;

struct ac_works {
  const ac_graph *graph;
  ac_device *device;
  int *kind; /* by node: the first node that it is like */
  answer *answers;
  size_t capacity, count; /* capacity is a power of two */
  int64_t misses;
};

/* ---- kinds ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static uint64_t hash_of_tensor(uint64_t hash, const ac_graph *graph, int id) {
  if (id < 0) return mix(hash, UINT64_MAX);
  const ac_tensor *tensor = ac_tensor_at(graph, id);
  hash = mix(hash, (uint64_t)tensor->blocks * 1024 + (uint64_t)tensor->dtype * 64 +
                       (uint64_t)tensor->shape.rank * 2 + tensor->shape.batched);
  for (int i = 0; i < tensor->shape.rank; i++) hash = mix(hash, (uint64_t)tensor->shape.dim[i]);
  return hash;
}

static uint64_t hash_of_node(const ac_graph *graph, const ac_node *node) {
  uint64_t words[AC_MAX_ATTRIBUTE_BYTES / sizeof(uint64_t)];
  memcpy(words, node->attributes, sizeof words);
  uint64_t hash = mix((uint64_t)node->op, (uint64_t)node->loss);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) hash = mix(hash, words[i]);
  for (int i = 0; i < AC_MAX_INPUTS; i++) hash = hash_of_tensor(hash, graph, node->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) hash = hash_of_tensor(hash, graph, node->out[j]);
  return hash;
}

static bool tensors_are_alike(const ac_graph *graph, int a, int b) {
  if (a < 0 || b < 0) return a < 0 && b < 0;
  const ac_tensor *x = ac_tensor_at(graph, a), *y = ac_tensor_at(graph, b);
  return x->dtype == y->dtype && x->blocks == y->blocks && ac_shape_equal(&x->shape, &y->shape);
}

static bool are_alike(const ac_graph *graph, const ac_node *x, const ac_node *y) {
  bool alike = x->op == y->op && x->loss == y->loss &&
               !memcmp(x->attributes, y->attributes, sizeof x->attributes);
  for (int i = 0; i < AC_MAX_INPUTS && alike; i++)
    alike = tensors_are_alike(graph, x->in[i], y->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS && alike; j++)
    alike = tensors_are_alike(graph, x->out[j], y->out[j]);
  return alike;
}

static size_t power_of_two(size_t least) {
  size_t size = 64;
  while (size < least) size *= 2;
  return size;
}

static bool find_kinds(ac_works *works) {
  const ac_graph *graph = works->graph;
  const size_t size = power_of_two(2 * (size_t)graph->node_count);
  int *first = malloc(size * sizeof *first);
  if (!first) return false;
  for (size_t i = 0; i < size; i++) first[i] = -1;
  for (int n = 0; n < graph->node_count; n++) {
    const ac_node *node = ac_node_at(graph, n);
    size_t place = hash_of_node(graph, node) & (size - 1);
    while (first[place] >= 0 && !are_alike(graph, ac_node_at(graph, first[place]), node))
      place = (place + 1) & (size - 1);
    if (first[place] < 0) first[place] = n;
    works->kind[n] = first[place];
  }
  free(first);
  return true;
}

ac_works *ac_works_create(const ac_graph *graph, ac_device *device) {
  ac_works *works = calloc(1, sizeof *works);
  if (!works) return NULL;
  *works = (ac_works){.graph = graph, .device = device};
  works->kind = malloc(((size_t)graph->node_count + 1) * sizeof *works->kind);
  if (works->kind && find_kinds(works)) return works;
  ac_works_free(works);
  return NULL;
}

void ac_works_free(ac_works *works) {
  if (!works) return;
  free(works->kind);
  free(works->answers);
  free(works);
}

int ac_works_kind(const ac_works *works, int node) {
  return works->kind[node];
}

int64_t ac_works_misses(const ac_works *works) {
  return works->misses;
}

/* ---- answers --------------------------------------------------------------------------------- */

static answer *place_of(answer *answers, size_t capacity, uint64_t key, int64_t batch) {
  size_t place = mix(key, (uint64_t)batch) & (capacity - 1);
  while (answers[place].key && (answers[place].key != key || answers[place].batch != batch))
    place = (place + 1) & (capacity - 1);
  return &answers[place];
}

static bool make_room(ac_works *works) {
  if (2 * works->count < works->capacity) return true;
  const size_t capacity = works->capacity ? 2 * works->capacity : 256;
  answer *larger = calloc(capacity, sizeof *larger);
  if (!larger) return false;
  for (size_t i = 0; i < works->capacity; i++) {
    const answer *old = &works->answers[i];
    if (old->key) *place_of(larger, capacity, old->key, old->batch) = *old;
  }
  free(works->answers);
  works->answers = larger;
  works->capacity = capacity;
  return true;
}

/* The answer for a step, with nothing asked yet if it is new. `spare` is it where none can be
 * kept: a part of a parameter has a size of its own. */
static answer *find(ac_works *works, const ac_step *step, int64_t batch, bool training,
                    answer *spare) {
  uint64_t key = (uint64_t)works->kind[step->node] + 1;
  *spare = (answer){.key = 0};
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    key = key * 4 + (step->out[j].tensor < 0 ? 2 : step->write[j] != AC_OVERWRITE);
  key = key * 2 + training;
  if (step->part.count || !make_room(works)) return spare;
  answer *found = place_of(works->answers, works->capacity, key, batch);
  if (!found->key) {
    *found = (answer){.key = key, .batch = batch};
    works->count++;
  }
  return found;
}

ac_cost ac_works_cost(ac_works *works, const ac_step *step, int64_t batch) {
  answer spare, *a = find(works, step, batch, true, &spare);
  if (!a->has_cost) {
    const ac_run_state run = {.training = true, .batch = batch};
    ac_op_args args;
    ac_step_arguments(step, works->graph, &run, &args);
    a->cost = ac_op_work(&args);
    a->has_cost = true;
    works->misses++;
  }
  return a->cost;
}

ac_cost ac_works_node_cost(ac_works *works, int index, int64_t batch) {
  const ac_node *node = ac_node_at(works->graph, index);
  ac_step step = {.node = index};
  for (int i = 0; i < AC_MAX_INPUTS; i++) step.in[i].tensor = node->in[i];
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) step.out[j].tensor = node->out[j];
  return ac_works_cost(works, &step, batch);
}

uint64_t ac_works_workspace(ac_works *works, const ac_step *step, int64_t batch, bool training) {
  answer spare, *a = find(works, step, batch, training, &spare);
  if (!a->has_workspace) {
    const ac_run_state run = {.training = training, .batch = batch};
    ac_op_args args;
    ac_step_arguments(step, works->graph, &run, &args);
    a->workspace = works->device->backend->workspace(works->device->state, &args);
    a->has_workspace = true;
    works->misses++;
  }
  return a->workspace;
}
