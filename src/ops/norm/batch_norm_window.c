/* The ops of a batch norm over a whole window; the formulas are in batch_norm.h. What gathers comes
 * before what reads it, and never in the same run of micro-batches (plan/sections.c). */
#include "graph/window_norms.h"

#include "ops/norm/batch_norm.h"
#include "ops/norm/norm.h"
#include "ops/words.h"

#include <stdlib.h>
#include <string.h>

/* ---- in the place of batch norms ------------------------------------------------------------- */

static bool is_spread(const ac_node *node) {
  const ac_batch_norm_attributes *norm = (const void *)node->attributes;
  return node->op == AC_OP_batch_norm && !norm->frozen;
}

/* Appends to the list that is made anew. */
static int append(ac_graph *graph, const ac_node *like, ac_op op, int count, const int *in) {
  ac_tensor *operands[AC_MAX_INPUTS];
  for (int i = 0; i < count; i++) operands[i] = ac_tensor_at(graph, in[i]);
  const int index = ac_graph_append(graph, op, like->attributes, sizeof(ac_batch_norm_attributes),
                                    count, operands);
  if (index >= 0) ac_node_at(graph, index)->scope = like->scope;
  return index;
}

/* The node's result stays the tensor that it is, now of the node *index. */
static ac_status spread(ac_graph *graph, const ac_node *node, int *index) {
  const int x = node->in[0];
  const int64_t channels = ac_tensor_at(graph, x)->shape.dim[1];
  const ac_shape moments = {.rank = 2, .dim = {channels, 3}},
                 two = {.rank = 2, .dim = {channels, 2}};
  const int measures = append(graph, node, AC_OP_batch_norm_moments, 1, &x);
  if (measures < 0) return graph->status;
  ac_tensor *pooled = ac_graph_new_tensor(graph, AC_ROLE_POOLED, AC_F32, &moments);
  if (!pooled) return graph->status;
  pooled->parameter = ac_tensor_at(graph, node->in[3])->parameter; /* the running mean's */
  ac_node_at(graph, measures)->out[0] = pooled->id;
  const int sources[] = {pooled->id, node->in[3], node->in[4]};
  const int settles = append(graph, node, AC_OP_batch_norm_statistics, 3, sources);
  if (settles < 0) return graph->status;
  const ac_tensor *statistics =
      ac_graph_add_output(graph, settles, AC_ROLE_ACTIVATION, AC_F32, &two);
  if (!statistics) return graph->status;
  const int operands[] = {x, node->in[1], node->in[2], statistics->id};
  *index = append(graph, node, AC_OP_batch_norm_apply, 4, operands);
  if (*index < 0) return graph->status;
  ac_node_at(graph, *index)->out[0] = node->out[0];
  return AC_OK;
}

static ac_status take_over(ac_graph *graph, const ac_node *node, int *index) {
  *index = ac_graph_append(graph, node->op, NULL, 0, 0, NULL);
  if (*index < 0) return graph->status;
  *ac_node_at(graph, *index) = *node;
  ac_node_at(graph, *index)->forward = *index; /* as of each node before differentiation */
  return AC_OK;
}

static ac_status list_anew(ac_graph *graph, const ac_graph *old, int *index) {
  for (int n = 0; n < old->node_count; n++) {
    const ac_node *node = ac_node_at(old, n);
    AC_TRY(is_spread(node) ? spread(graph, node, &index[n]) : take_over(graph, node, &index[n]));
  }
  return AC_OK;
}

ac_status ac_graph_spread_norms(ac_graph *graph, int *count) {
  const ac_graph old = *graph;
  *count = 0;
  for (int n = 0; n < old.node_count; n++) *count += is_spread(ac_node_at(&old, n));
  if (!*count) return AC_OK;
  int *index = malloc((size_t)old.node_count * sizeof *index);
  if (!index) return ac_fail(AC_ERROR_MEMORY, "no memory to spread batch norms");
  graph->node_chunks = NULL;
  graph->node_count = 0;
  const ac_status status = list_anew(graph, &old, index);
  for (int i = 0; i < old.tensor_count && status == AC_OK; i++) {
    ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->producer < 0) continue;
    const ac_node *by = ac_node_at(&old, tensor->producer);
    const bool gone = is_spread(by) && tensor->id != by->out[0] && tensor->storage == tensor->id;
    tensor->producer = gone ? -1 : index[tensor->producer];
  }
  ac_graph_free_chunks((void **)old.node_chunks, old.node_count);
  free(index);
  return status;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

/* The running statistics follow the window's. */
static ac_status update_running(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  return ac_batch_norm_append_update(graph, node, ac_tensor_at(graph, node->in[0]), node->in + 1);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *x = ac_tensor_at(graph, node->in[0]), *gamma = ac_tensor_at(graph, node->in[1]),
            *statistics = ac_tensor_at(graph, node->in[3]);
  ac_tensor *pooled = ac_tensor_at(graph, ac_node_at(graph, statistics->producer)->in[0]);
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  const ac_shape *two = &statistics->shape;
  ac_tensor *gathers[] = {dy, x, statistics};
  const int index = ac_graph_append(graph, AC_OP_batch_norm_sums, node->attributes,
                                    sizeof(ac_batch_norm_attributes), 3, gathers);
  if (index < 0) return graph->status;
  ac_tensor *sums = ac_graph_new_tensor(graph, AC_ROLE_GATHERED, AC_F32, two);
  if (!sums) return graph->status;
  ac_node_at(graph, index)->out[0] = sums->id;
  ac_tensor *operands[] = {dy, x, statistics, gamma, sums, pooled};
  AC_TRY(ac_gradient_emit(d, AC_OP_batch_norm_input_gradient, node->attributes,
                          sizeof(ac_batch_norm_attributes), 6, operands, 1, node->in));
  return ac_gradient_emit(d, AC_OP_batch_norm_parameter_gradient, NULL, 0, 1, &sums, 2,
                          node->in + 1);
}

/* Counted by hand from the formulas, per element of x. */
static double moments_flops(const ac_op_args *args) {
  return 5.0 * (double)args->in[0].count;
}
static double apply_flops(const ac_op_args *args) {
  return 3.0 * (double)args->in[0].count;
}
static double sums_flops(const ac_op_args *args) {
  return 5.0 * (double)args->in[0].count;
}
static double input_flops(const ac_op_args *args) {
  return 5.0 * (double)args->in[0].count;
}
/* And per channel. */
static double statistics_flops(const ac_op_args *args) {
  return 4.0 * (double)args->in[0].dim[0];
}

static void words(ac_words *words, const ac_op_args *args) {
  ac_words_put_evaluation(words, args->run);
}

static const ac_batch_norm_attributes sampled = {.epsilon = 1e-5f};

/* One value of a channel has no variance: of a whole window. */
static int64_t least_samples(const ac_op_args *args) {
  return args->in[0].count == args->in[0].dim[1] ? 2 : 1;
}

const ac_op_desc ac_op_desc_batch_norm_moments = {
    .sums = 1,
    .least_samples = least_samples,
    .flops = moments_flops,
    .sample = {{"mcP"}, {"c3"}, &sampled},
};
const ac_op_desc ac_op_desc_batch_norm_statistics = {
    .window = update_running,
    .flops = statistics_flops,
    .words = words,
    .sample = {{"n3", "n", "n"}, {"n2"}, &sampled},
};
const ac_op_desc ac_op_desc_batch_norm_apply = {
    .in_place = 1,
    .gradient = gradient,
    .flops = apply_flops,
    .sample = {{"mcP", "c", "c", "c2"}, {"mcP"}, &sampled},
};
const ac_op_desc ac_op_desc_batch_norm_sums = {
    .sums = 1,
    .backward = true,
    .flops = sums_flops,
    .sample = {{"mcP", "mcP", "c2"}, {"c2"}, &sampled},
};
const ac_op_desc ac_op_desc_batch_norm_input_gradient = {
    .in_place = 1,
    .can_add = 1,
    .backward = true,
    .flops = input_flops,
    .sample = {{"mcP", "mcP", "c2", "c", "c2", "c3"}, {"mcP"}, &sampled},
};
const ac_op_desc ac_op_desc_batch_norm_parameter_gradient = {
    .can_add = 3,
    .backward = true,
    .flops_per_element = 1,
    .sample = {{"n2"}, {"n", "n"}},
};
