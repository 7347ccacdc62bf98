/* Attention to keys and values that earlier runs have left in caches. */
#include <accrue/attention.h>

#include "graph/builder.h"

#include <stdio.h>

enum { QUERIES, KEYS, VALUES, ENDS, OPERANDS };

/* Masks that speak of keys of this run alone, or that are set here. */
static bool are_settings(ac_graph *graph, const ac_builder *builder, ac_tensor *const *operands,
                         const ac_attention_desc *desc, const char *name) {
  if (!name || !*name) return ac_builder_fail(graph, builder, operands, "it has no name");
  if (desc->segments || desc->key_segments || desc->bias || desc->lengths || desc->skip_padding)
    return ac_builder_fail(graph, builder, operands,
                           "it takes no segments, bias, lengths or skip_padding");
  return true;
}

/* The cache "NAME.part" of rows of heads. */
static ac_tensor *keep(ac_tensor *rows, const char *name, const char *part, ac_tensor *ends,
                       int64_t positions) {
  char whole[AC_MAX_NAME];
  if (snprintf(whole, sizeof whole, "%s.%s", name, part) >= (int)sizeof whole)
    return ac_graph_fail(rows->graph, AC_ERROR_ARGUMENT,
                         "cached_attention: a name of more than %d bytes", AC_MAX_NAME - 10);
  return ac_cache(rows, whole, ends, positions);
}

ac_tensor *ac_cached_attention(ac_tensor *q, ac_tensor *k, ac_tensor *v, const char *name,
                               ac_tensor *ends, int64_t positions, const ac_attention_desc *desc) {
  static const ac_builder builder = {
      "cached_attention",
      OPERANDS,
      {"q f32 [B, n, H, D]", "k f32 [B, n, Hkv, D]", "v f32 [B, n, Hkv, Dv]", "ends i32 [B]"}};
  ac_tensor *operands[] = {q, k, v, ends};
  ac_attention_desc settings = AC_DESCRIBED(ac_attention_desc, desc);
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  if (q->shape.rank != 4 || k->shape.rank != 4 || v->shape.rank != 4 ||
      k->shape.dim[1] != q->shape.dim[1] || v->shape.dim[1] != q->shape.dim[1])
    return ac_builder_fail(graph, &builder, operands, NULL);
  if (!are_settings(graph, &builder, operands, &settings, name)) return NULL;
  settings.causal = settings.at_end = true;
  settings.lengths = ends;
  k = keep(k, name, "key", ends, positions);
  if (k) v = keep(v, name, "value", ends, positions);
  return k && v ? ac_attention(q, k, v, &settings) : NULL;
}
