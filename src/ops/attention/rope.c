/* Rotary position embeddings. Pair i, (a, b), of each head turns by the angle p f[i] at position p:
 *   y = (a cos - b sin, b cos + a sin)
 * Its gradient is dy turned back, by the negative angle. Formulas of f: Su et al., arXiv
 * 2104.09864; linear scaling: Chen et al., arXiv 2306.15595; that of Llama 3.1 as in Hugging Face's
 * modeling_rope_utils. */
#include "ops/attention/rope.h"

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

static double or_else(double value, double otherwise) {
  return value != 0 ? value : otherwise;
}

static ac_rope_attributes resolve(const ac_rope_desc *desc, int64_t width) {
  return (ac_rope_attributes){
      .dimensions = (int32_t)(desc->dimensions ? desc->dimensions : width),
      .interleaved = desc->interleaved,
      .scaling = (int32_t)desc->scaling,
      .offset = (int32_t)desc->offset,
      .base = or_else(desc->base, 10000),
      .factor = or_else(desc->factor, desc->scaling == AC_ROPE_LLAMA3 ? 8 : 1),
      .low = or_else(desc->low_freq_factor, 1),
      .high = or_else(desc->high_freq_factor, 4),
      .original = or_else((double)desc->original_positions, 8192),
  };
}

/* What is wrong with the numbers; NULL: nothing. */
static const char *fault_of(const ac_rope_attributes *a) {
  if (!(a->base >= 1 && isfinite(a->base))) return "base must be at least 1";
  if (a->scaling < AC_ROPE_UNSCALED || a->scaling > AC_ROPE_LLAMA3) return "scaling is unknown";
  if (!(a->factor >= 1 && isfinite(a->factor))) return "factor must be at least 1";
  if (a->scaling == AC_ROPE_LLAMA3 &&
      !(a->low > 0 && a->high > a->low && isfinite(a->high) && a->original > 0))
    return "high_freq_factor must be above low_freq_factor, and both and original_positions "
           "positive";
  return NULL;
}

ac_tensor *ac_rope(ac_tensor *x, ac_tensor *positions, const ac_rope_desc *desc) {
  static const ac_builder builder = {"rope", 2, {"x f32 [B, T, H, D]", "positions? i32 [B, T]"}};
  ac_tensor *operands[] = {x, positions};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const ac_rope_desc described = AC_DESCRIBED(ac_rope_desc, desc);
  const int64_t T = x->shape.dim[1], D = x->shape.dim[3], turned = described.dimensions;
  ac_shape rows = x->shape;
  rows.rank = 2;
  if (x->dtype != AC_F32 || x->shape.rank != 4 || D > INT32_MAX ||
      (positions && (positions->dtype != AC_I32 || !ac_shape_equal(&positions->shape, &rows))))
    return ac_builder_fail(graph, &builder, operands, NULL);
  if (turned < 0 || turned > D || (turned ? turned : D) % 2)
    return ac_builder_fail(graph, &builder, operands,
                           "cannot turn %lld elements of %lld in pairs; give an even number",
                           (long long)(turned ? turned : D), (long long)D);
  if (described.offset < 0 || described.offset >= INT32_MAX || T > INT32_MAX - described.offset)
    return ac_builder_fail(graph, &builder, operands,
                           "offset is %lld; positions must be below 2^31 - 1",
                           (long long)described.offset);
  const ac_rope_attributes attributes = resolve(&described, D);
  const char *fault = fault_of(&attributes);
  if (fault) return ac_builder_fail(graph, &builder, operands, "%s", fault);
  return ac_graph_emit(graph, AC_OP_rope, &attributes, sizeof attributes, 2, operands, &x->shape);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_rope_attributes a = *(const ac_rope_attributes *)node->attributes;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(d->graph, node->in[1])};
  a.backwards = !a.backwards;
  return ac_gradient_emit(d, AC_OP_rope, &a, sizeof a, 2, operands, 1, &node->in[0]);
}

static int64_t id_limit(const ac_op_args *args) {
  return INT32_MAX - ((const ac_rope_attributes *)args->attributes)->offset;
}

/* A pair costs six operations in each head, and two dozen once for its sine and cosine. */
static double flops(const ac_op_args *args) {
  const ac_rope_attributes *a = args->attributes;
  const ac_rope_shape s = ac_rope_shape_of(args);
  return (double)(s.rows * (a->dimensions / 2)) * (6 * (double)s.heads + 24);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_rope_attributes *a = args->attributes;
  if (a->interleaved) ac_words_put(words, ", interleaved");
  if (a->dimensions != ac_columns(&args->in[0]))
    ac_words_put(words, ", %d elements of a head", (int)a->dimensions);
}

static const ac_rope_attributes sampled = {.dimensions = 128, .base = 10000, .factor = 1};

const ac_op_desc ac_op_desc_rope = {
    .in_place = 1,
    .gradient = gradient,
    .flops = flops,
    .ids = 1,
    .id_limit = id_limit,
    .words = words,
    .sample = {{"BTHD"}, {"BTHD"}, &sampled},
};
