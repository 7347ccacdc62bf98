/* What builders of ops share: a check which graph their tensors belong to, and the message about
 * tensors that do not fit. It names the builder, the scope and every tensor:
 *
 *   linear (h.0.mlp): it takes x f32 [..., in], weight f32 [out, in], bias f32 [out] or NULL; x is
 *   input "images" f32 [B, 784], weight is parameter "w1" f32 [256, 783], bias is NULL */
#include "graph/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct sentence {
  char text[AC_GRAPH_SENTENCE];
  size_t used;
} sentence;

static void put_list(sentence *s, const char *format, va_list args) {
  if (s->used >= sizeof s->text) return;
  int length = vsnprintf(s->text + s->used, sizeof s->text - s->used, format, args);
  s->used += length > 0 ? (size_t)length : 0;
}

AC_PRINTF(2, 3) static void put(sentence *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_list(s, format, args);
  va_end(args);
}

/* ---- what is taken --------------------------------------------------------------------------- */

/* The entry of tensor i: a list's is that of all from its place on. */
static const char *entry_of(const ac_builder *builder, int i) {
  while (i > 0 && !builder->takes[i]) i--;
  return builder->takes[i];
}

static int name_length(const char *entry) {
  return (int)strcspn(entry, "?[ ");
}

static void put_name(sentence *s, const ac_builder *builder, int i) {
  const char *entry = entry_of(builder, i);
  int length = name_length(entry);
  put(s, "%.*s", length, entry);
  if (!strncmp(entry + length, "[]", 2)) put(s, "[%d]", i);
}

static bool is_optional(const ac_builder *builder, int i) {
  const char *entry = entry_of(builder, i);
  return entry[name_length(entry)] == '?';
}

static void put_taken(sentence *s, const ac_builder *builder) {
  for (int i = 0; i < AC_MAX_INPUTS && builder->takes[i]; i++) {
    const char *entry = builder->takes[i];
    int length = name_length(entry);
    bool optional = entry[length] == '?';
    put(s, "%s%.*s%s%s", i ? ", " : "it takes ", length, entry, entry + length + optional,
        optional ? " or NULL" : "");
  }
}

/* ---- what there is --------------------------------------------------------------------------- */

enum { NAME = 64 }; /* of a longer name so many characters are told */

static void put_tensor(sentence *s, const ac_tensor *tensor) {
  const ac_graph *graph = tensor->graph;
  const ac_tensor *storage = ac_tensor_at(graph, tensor->storage);
  char text[AC_SHAPE_TEXT];
  if (storage->role == AC_ROLE_LOSS) {
    put(s, "a loss");
    return;
  }
  if (storage->name)
    put(s, "%s \"%.*s\"",
        storage->role == AC_ROLE_CONSTANT    ? "constant"
        : storage->role == AC_ROLE_PARAMETER ? "parameter"
        : storage->role == AC_ROLE_CACHE     ? "cache"
                                             : "input",
        (int)NAME, storage->name);
  else {
    char op[AC_SHAPE_TEXT];
    put(s, "the result of %s",
        ac_node_text(op, sizeof op, graph, ac_node_at(graph, storage->producer)));
  }
  put(s, " %s %s", ac_dtype_name(tensor->dtype), ac_shape_text(text, &tensor->shape));
}

static void put_given(sentence *s, const ac_graph *graph, const ac_builder *builder,
                      ac_tensor *const *tensors) {
  for (int i = 0; i < builder->count; i++) {
    put(s, i ? ", " : "; ");
    put_name(s, builder, i);
    put(s, " is ");
    if (tensors[i]) put_tensor(s, tensors[i]);
    else put(s, "NULL");
    if (tensors[i] && tensors[i]->graph != graph) put(s, " of another graph");
  }
}

/* ---- failing --------------------------------------------------------------------------------- */

ac_tensor *ac_builder_fail(ac_graph *graph, const ac_builder *builder, ac_tensor *const *tensors,
                           const char *reason, ...) {
  if (graph->status != AC_OK) return NULL;
  sentence s = {{0}, 0};
  const char *scope = graph->scopes[graph->scope];
  put(&s, *scope ? "%s (%s): " : "%s: ", builder->name, scope);
  if (reason) {
    va_list args;
    va_start(args, reason);
    put_list(&s, reason, args);
    va_end(args);
  } else {
    put_taken(&s, builder);
  }
  put_given(&s, graph, builder, tensors);
  return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "%s", s.text);
}

bool ac_builder_begin(ac_graph *graph, const ac_builder *builder, ac_tensor *const *tensors) {
  if (graph->status != AC_OK) return false;
  for (int i = 0; i < builder->count; i++) {
    const ac_tensor *tensor = tensors[i];
    const char *wrong = !tensor                  ? is_optional(builder, i) ? NULL : "is missing"
                        : tensor->graph != graph ? "belongs to another graph"
                        : tensor->role == AC_ROLE_LOSS ? "is a loss, which no op takes"
                                                       : NULL;
    if (!wrong) continue;
    sentence name = {{0}, 0};
    put_name(&name, builder, i);
    return ac_builder_fail(graph, builder, tensors, "%s %s", name.text, wrong);
  }
  graph->builder = *builder;
  for (int i = 0; i < builder->count; i++) graph->operands[i] = tensors[i];
  return true;
}

ac_graph *ac_builder_graph(const ac_builder *builder, ac_tensor *const *tensors) {
  ac_graph *graph = NULL;
  for (int i = 0; i < builder->count && !graph; i++) graph = tensors[i] ? tensors[i]->graph : NULL;
  return graph && ac_builder_begin(graph, builder, tensors) ? graph : NULL;
}

bool ac_is_float_vector(const ac_tensor *tensor, int64_t count) {
  const ac_shape *shape = &tensor->shape;
  return tensor->dtype == AC_F32 && shape->rank == 1 && !shape->batched && shape->dim[0] == count;
}

char *ac_node_text(char *text, size_t size, const ac_graph *graph, const ac_node *node) {
  const char *scope = graph->scopes[node->scope];
  snprintf(text, size, *scope ? "%s (%s)" : "%s", ac_op_title(node->op, node->attributes), scope);
  return text;
}
