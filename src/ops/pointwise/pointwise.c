/* y_j[i] = f_j(a[i], b[i], ...), operands repeated as NumPy does. With dy, for each operand x that
 * has a gradient: dx = sum of dy df/dx over what x is repeated along. The program of all dy df/dx
 * is one node for up to AC_MAX_OUTPUTS operands. Those of operands that are repeated are summed by
 * nodes of their own; where dy df/dx is dy, that itself is passed on or summed. */
#include "ops/pointwise/pointwise.h"

#include "graph/differentiate.h"
#include "ops/pointwise/elementwise.h"
#include "ops/pointwise/functions.h"
#include "ops/reduction/reduction.h"
#include "ops/words.h"

#include <string.h>

/* ---- nodes ----------------------------------------------------------------------------------- */

ac_pointwise_attributes ac_pointwise_attributes_of(const ac_program *program,
                                                   ac_tensor *const *operands,
                                                   const ac_shape *shape) {
  ac_pointwise_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.program = *program;
  for (int i = 0; i < program->operands; i++)
    if (!ac_shape_equal(&operands[i]->shape, shape)) attributes.repeated |= 1u << i;
  return attributes;
}

static ac_tensor *emit(ac_graph *graph, const char *name, const ac_program *program,
                       ac_tensor *const *operands, const ac_shape *shape) {
  ac_pointwise_attributes attributes = ac_pointwise_attributes_of(program, operands, shape);
  attributes.title = ac_pointwise_title(name);
  return ac_graph_emit(graph, AC_OP_pointwise, &attributes, sizeof attributes, program->operands,
                       operands, shape);
}

static ac_tensor *fail_shapes(ac_graph *graph, const ac_builder *builder,
                              ac_tensor *const *operands) {
  return ac_builder_fail(graph, builder, operands,
                         "the shapes cannot be broadcast: from the last dimension backwards they "
                         "must be equal, or 1, or absent, and a batch goes with the same batch");
}

/* The same program with an operand for each tensor. */
static void merge_operands(const ac_program *program, ac_tensor *const *operands,
                           ac_program *distinct, ac_tensor *once[AC_PROGRAM_OPERANDS]) {
  int value[AC_PROGRAM_OPERANDS], result[AC_PROGRAM_RESULTS], count = 0;
  for (int i = 0; i < program->operands; i++) {
    int k = 0;
    while (k < count && once[k] != operands[i]) k++;
    once[k] = operands[i];
    count = k == count ? count + 1 : count;
    value[i] = k;
  }
  ac_program_begin(distinct, count);
  ac_program_append(distinct, program, value, result);
  ac_program_end(distinct, program->results, result, NULL);
}

ac_tensor *ac_pointwise(const ac_builder *builder, ac_tensor *const *operands,
                        const ac_program *program) {
  ac_graph *graph = ac_builder_graph(builder, operands);
  if (!graph) return NULL;
  ac_shape shape;
  for (int i = 0; i < builder->count; i++)
    if (operands[i]->dtype != AC_F32) return ac_builder_fail(graph, builder, operands, NULL);
  if (!ac_broadcast_shapes(&shape, builder->count, operands))
    return fail_shapes(graph, builder, operands);
  ac_program distinct;
  ac_tensor *once[AC_PROGRAM_OPERANDS];
  merge_operands(program, operands, &distinct, once);
  program = &distinct, operands = once;
  const int result = program->result[0];
  if (result < AC_PROGRAM_OPERANDS && ac_shape_equal(&operands[result]->shape, &shape))
    return ac_graph_view(graph, operands[result], &shape);
  return emit(graph, builder->name, program, operands, &shape);
}

/* What differentiation appends (graph/builder.h). */

int ac_append_scale(ac_graph *graph, float factor, ac_tensor *x) {
  ac_program program;
  ac_program_begin(&program, 1);
  const int constant = ac_program_constant(&program, (double)factor);
  const int y = ac_program_apply(&program, AC_FUNCTION_multiply, 0, constant, 0);
  ac_program_end(&program, 1, &y, NULL);
  ac_pointwise_attributes attributes = ac_pointwise_attributes_of(&program, &x, &x->shape);
  attributes.title = ac_pointwise_title("scale");
  return ac_graph_append(graph, AC_OP_pointwise, &attributes, sizeof attributes, 1, &x);
}

ac_tensor *ac_emit_sum(ac_graph *graph, ac_tensor *const terms[2]) {
  ac_program program;
  ac_program_begin(&program, 2);
  const int sum = ac_program_apply(&program, AC_FUNCTION_add, 0, 1, 0);
  ac_program_end(&program, 1, &sum, NULL);
  return emit(graph, "add", &program, terms, &terms[1]->shape);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* The gradients of some operands of a node, as results of one program. */
typedef struct gradients {
  ac_differentiation *d;
  const ac_node *node;
  ac_shape shape; /* of the node's result */
  ac_program program;
  ac_tensor *in[AC_PROGRAM_OPERANDS]; /* of the program, the result's gradient first */
  int count, of[AC_PROGRAM_RESULTS];  /* operands of the node */
} gradients;

static bool is_repeated(const gradients *g, int operand) {
  const ac_tensor *x = ac_tensor_at(g->d->graph, g->node->in[operand]);
  return !ac_shape_equal(&x->shape, &g->shape);
}

/* Whether the gradient of operand `of[j]` is that of the result, but for repetition. */
static bool is_passed(const gradients *g, int j) {
  return g->program.result[j] == 0;
}

static ac_status pass(gradients *g, int operand, ac_tensor *gradient) {
  const int target = g->node->in[operand];
  if (!gradient) return g->d->graph->status;
  return ac_gradient_sum_to(g->d, target, gradient);
}

/* Whether differentiation can place the gradient: it has the operand's shape, no other operand has
 * the same one, and an earlier operand is not a view of the same tensor. */
static bool is_placed(const gradients *g, int j) {
  for (int k = 0; k < g->count; k++)
    if (k != j && g->program.result[k] == g->program.result[j]) return false;
  const ac_graph *graph = g->d->graph;
  const int storage = ac_tensor_at(graph, g->node->in[g->of[j]])->storage;
  for (int k = 0; k < j; k++)
    if (ac_tensor_at(graph, g->node->in[g->of[k]])->storage == storage) return false;
  return !is_repeated(g, g->of[j]);
}

/* Emits what has to be computed: results that differentiation places, and then those in the shape
 * of the node's result, each once, which are passed on. */
static ac_status compute(gradients *g) {
  ac_graph *graph = g->d->graph;
  ac_program program = g->program;
  int target[AC_PROGRAM_RESULTS], slot[AC_PROGRAM_RESULTS], placed = 0, count = 0;
  for (int j = 0; j < g->count; j++) {
    if (is_passed(g, j) || !is_placed(g, j)) continue;
    target[placed] = g->node->in[g->of[j]];
    program.result[placed++] = g->program.result[j];
  }
  count = placed;
  for (int j = 0; j < g->count; j++) {
    if (is_passed(g, j) || is_placed(g, j)) continue;
    int k = placed;
    while (k < count && program.result[k] != g->program.result[j]) k++;
    program.result[k] = g->program.result[j];
    slot[j] = k;
    count = k == count ? count + 1 : count;
  }
  if (!count) return graph->status;
  program.results = (uint8_t)count;
  memset(program.result + count, 0, sizeof program.result - (size_t)count);
  const int index = graph->node_count;
  ac_pointwise_attributes attributes = ac_pointwise_attributes_of(&program, g->in, &g->shape);
  attributes.title = ((const ac_pointwise_attributes *)(const void *)g->node->attributes)->title;
  attributes.gradient = true;
  if (placed)
    AC_TRY(ac_gradient_emit(g->d, AC_OP_pointwise, &attributes, sizeof attributes, program.operands,
                            g->in, placed, target));
  else if (ac_graph_append(graph, AC_OP_pointwise, &attributes, sizeof attributes, program.operands,
                           g->in) < 0)
    return graph->status;
  for (int k = placed; k < count; k++) {
    ac_tensor *whole = ac_graph_new_tensor(graph, AC_ROLE_ACTIVATION, AC_F32, &g->shape);
    if (!whole) return graph->status;
    whole->producer = index;
    ac_node_at(graph, index)->out[k] = whole->id;
  }
  for (int j = 0; j < g->count; j++)
    if (!is_passed(g, j) && !is_placed(g, j))
      AC_TRY(pass(g, g->of[j], ac_tensor_at(graph, ac_node_at(graph, index)->out[slot[j]])));
  return graph->status;
}

/* The program of as many of the operands as it has room for. */
static bool differentiate(gradients *g, const int *wanted, int count) {
  const ac_pointwise_attributes *attributes = (const void *)g->node->attributes;
  ac_graph *graph = g->d->graph;
  int of[AC_PROGRAM_OPERANDS];
  for (g->count = count; g->count; g->count--)
    if (ac_program_differentiate(&attributes->program, g->count, wanted, &g->program, of)) break;
  for (int j = 0; j < g->count; j++) g->of[j] = wanted[j];
  for (int i = 0; g->count && i < g->program.operands; i++)
    g->in[i] = of[i] == AC_OF_RESULT_GRADIENT ? ac_gradient_of(g->d, g->node->out[0])
               : of[i] == AC_OF_RESULT        ? ac_tensor_at(graph, g->node->out[0])
                                              : ac_tensor_at(graph, g->node->in[of[i]]);
  return g->count > 0;
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  const ac_pointwise_attributes *attributes = (const void *)node->attributes;
  ac_graph *graph = d->graph;
  int wanted[AC_PROGRAM_OPERANDS], count = 0;
  for (int i = 0; i < attributes->program.operands; i++)
    if (ac_gradient_wanted(d, node->in[i]) && ac_program_reaches(&attributes->program, i))
      wanted[count++] = i;
  for (int first = 0; first < count;) {
    gradients g = {.d = d, .node = node, .shape = ac_tensor_at(graph, node->out[0])->shape};
    char text[128];
    if (!differentiate(&g, wanted + first,
                       count - first < AC_MAX_OUTPUTS ? count - first : AC_MAX_OUTPUTS))
      return ac_fail(AC_ERROR_UNSUPPORTED, "%s: its gradient is too long",
                     ac_node_text(text, sizeof text, graph, node));
    AC_TRY(compute(&g));
    for (int j = 0; j < g.count; j++)
      if (is_passed(&g, j)) AC_TRY(pass(&g, g.of[j], g.in[0]));
    first += g.count;
  }
  return graph->status;
}

/* ---- description ----------------------------------------------------------------------------- */

static bool passes(const void *attributes, int input) {
  const ac_pointwise_attributes *a = attributes;
  return a->program.results > 1 || ac_program_reaches(&a->program, input);
}

static double flops(const ac_op_args *args) {
  const ac_pointwise_attributes *attributes = args->attributes;
  return ac_program_flops(&attributes->program) * (double)args->out[0].count;
}

static bool uses(const ac_program *program, int function) {
  for (int i = 0; i < program->steps; i++)
    if (program->step[i].function == function) return true;
  return false;
}

static const char *title(const void *attributes) {
  return ac_pointwise_title_text(attributes);
}

/* Of GELU which one, and of a formula what it is. */
static void words(ac_words *words, const ac_op_args *args) {
  const ac_pointwise_attributes *attributes = args->attributes;
  const ac_program *program = &attributes->program;
  if (attributes->title == ac_pointwise_title("gelu") &&
      (uses(program, AC_FUNCTION_gelu) || uses(program, AC_FUNCTION_gelu_slope)))
    ac_words_put(words, ", erf");
  for (int j = 0; attributes->title == 0 && j < program->results; j++) {
    char text[160];
    ac_program_text(program, j, text, sizeof text);
    ac_words_put(words, ", %s", text);
  }
}

/* A function with much arithmetic and, for the middle size, one with little. */
#define ONE_STEP(function)                                                        \
  {                                                                               \
    .operands = 1, .steps = 1, .results = 1, .result = {AC_FIRST_STEP}, .step = { \
      {function, {0}}                                                             \
    }                                                                             \
  }
static const ac_pointwise_attributes sampled = {.program = ONE_STEP(AC_FUNCTION_gelu_tanh),
                                                .title = 1 + AC_FUNCTION_gelu},
                                     middle = {.program = ONE_STEP(AC_FUNCTION_relu),
                                               .title = 1 + AC_FUNCTION_relu};

/* Each function that graphs can have, by itself. */
static bool variant(int number, ac_op_args *args, void *attributes) {
  ac_pointwise_attributes a = {.program = {.operands = 1}};
  int function = 0;
  for (; function < AC_FUNCTION_COUNT; function++)
    if (!ac_functions[function].hidden && number-- == 0) break;
  if (function == AC_FUNCTION_COUNT) return false;
  const int operands = ac_functions[function].operands;
  ac_program_begin(&a.program, operands);
  const int y = ac_program_apply(&a.program, function, 0, 1, 2);
  ac_program_end(&a.program, 1, &y, NULL);
  a.title = ac_pointwise_title(ac_functions[function].name);
  for (int i = 1; i < operands; i++) args->in[i] = args->in[0];
  memcpy(attributes, &a, sizeof a);
  args->attributes = attributes;
  return true;
}

const ac_op_desc ac_op_desc_pointwise = {
    .in_place = 1,
    .bound = AC_BOUND_BY_BOTH,
    .can_add = (1u << AC_PROGRAM_RESULTS) - 1,
    .gradient = gradient,
    .passes = passes,
    .flops = flops,
    .title = title,
    .words = words,
    .sample = {{"n"}, {"n"}, &sampled, .middle_attributes = &middle, .variant = variant},
};
