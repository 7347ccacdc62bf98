/* A hash table of tensor ids, probed one place after the other. Tensors that were appended since
 * the last question are added with the next one. */
#include "graph/names.h"

#include "core/hash.h"

#include <stdlib.h>
#include <string.h>

static size_t place_of(const ac_graph *graph, ac_role role, const char *name) {
  const ac_leaf_names *names = &graph->names;
  const uint64_t hash = ac_hash(ac_hash_text(name), &role, sizeof role);
  size_t place = (hash ^ hash >> 32) & (names->capacity - 1);
  for (; names->at[place] >= 0; place = (place + 1) & (names->capacity - 1)) {
    const ac_tensor *other = ac_tensor_at(graph, names->at[place]);
    if (other->role == role && !strcmp(other->name, name)) break;
  }
  return place;
}

static bool grow(ac_graph *graph) {
  ac_leaf_names *names = &graph->names;
  const size_t capacity = names->capacity ? 2 * names->capacity : 64;
  int *larger = malloc(capacity * sizeof *larger);
  if (!larger) return false;
  free(names->at);
  *names = (ac_leaf_names){.at = larger, .capacity = capacity};
  for (size_t i = 0; i < capacity; i++) larger[i] = -1;
  return true;
}

static bool add_new_ones(ac_graph *graph) {
  ac_leaf_names *names = &graph->names;
  while (names->tensors < graph->tensor_count) {
    const ac_tensor *tensor = ac_tensor_at(graph, names->tensors);
    if (tensor->name && 2 * ((size_t)names->count + 1) > names->capacity) {
      if (!grow(graph)) return false; /* and begins anew */
      continue;
    }
    names->tensors++;
    if (!tensor->name) continue;
    names->at[place_of(graph, tensor->role, tensor->name)] = tensor->id;
    names->count++;
  }
  return true;
}

bool ac_graph_find_leaf(ac_graph *graph, ac_role role, const char *name, int *found) {
  if (!add_new_ones(graph)) return false;
  *found = graph->names.capacity ? graph->names.at[place_of(graph, role, name)] : -1;
  return true;
}
