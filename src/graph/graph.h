/* The graph's data structure: tensors and nodes in creation order, referring to each other by
 * index.
 *
 *   tensors  [0 x] [1 w] [2 b] [3 y] [4 y as [B*T,C]] ...     a view (4) shares the storage of 3
 *   nodes    [0 linear: in 0 1 2 -> out 3] ...                creation order is a topological order
 *
 * Tensors are leaves (inputs, constants, parameters), activations (written by one node), or sums
 * that stay over micro-batches and that several nodes may add to (gradients of parameters, loss
 * sums). Index -1 means that an operand is absent. */
#ifndef AC_GRAPH_GRAPH_H
#define AC_GRAPH_GRAPH_H

#include <accrue/metric.h>

#include "graph/block.h"
#include "ops/description.h"

/* dim[0] is multiplied by the micro-batch if `batched`. */
typedef struct ac_shape {
  int rank;
  bool batched;
  int64_t dim[AC_MAX_RANK];
} ac_shape;

typedef enum ac_role {
  AC_ROLE_INPUT,
  AC_ROLE_CONSTANT, /* its values are the graph's own */
  AC_ROLE_PARAMETER,
  AC_ROLE_ACTIVATION,
  AC_ROLE_WORKING,    /* a parameter's copy in 16 bits, or in blocks (precision.h) */
  AC_ROLE_GRADIENT,   /* of a parameter: added to by every micro-batch */
  AC_ROLE_POOLED,     /* batch norm's statistics: those of every micro-batch are joined to it */
  AC_ROLE_GATHERED,   /* what the backward pass of a batch norm adds up over a window, to read it
                         within the same window */
  AC_ROLE_LOSS,       /* AC_LOSS_SUMS floats: added to by every micro-batch */
  AC_ROLE_STATISTICS, /* of a parameter's gradient, or of what is pooled, once a window */
  AC_ROLE_STATE,      /* what an optimizer keeps for a parameter */
  AC_ROLE_AVERAGE,    /* of a parameter over updates */
  AC_ROLE_CACHE,      /* rows of this run and of earlier ones: written by one node */
  AC_ROLE_COUNTER     /* what is counted in stored values: no tensor of a graph has it */
} ac_role;

/* What a role's tensors gather over a window. Each node adds its part once a micro-batch: where it
 * is computed again, its sums are absent. */
static inline bool ac_role_is_sum(ac_role role) {
  return role == AC_ROLE_GRADIENT || role == AC_ROLE_POOLED || role == AC_ROLE_GATHERED ||
         role == AC_ROLE_LOSS;
}

/* How the matrix of a layer is stored. A convolution's is AC_MATRIX_OUT_IN: its outputs come first,
 * and all other dimensions are `in`.
 */
typedef enum ac_matrix_kind { AC_NO_MATRIX = 0, AC_MATRIX_OUT_IN, AC_MATRIX_IN_OUT } ac_matrix_kind;

struct ac_tensor {
  ac_graph *graph;
  int id;
  int storage; /* the tensor that owns these elements; its own id unless it is a view */
  ac_role role;
  ac_dtype dtype;
  ac_shape shape;
  bool requires_gradient;
  bool stopped;           /* its elements have no gradient by way of it */
  uint32_t fed_by;        /* of integers: bit i: some may be those of the graph's input i */
  int64_t id_bound;       /* of integers: those that are not fed are in [0, this) */
  bool is_table;          /* ids pick rows of it (of the storage) */
  bool is_head;           /* what a loss takes is made with it (of the storage) */
  ac_matrix_kind matrix;  /* a layer multiplies by it (of the storage) */
  ac_hint hint;           /* of the storage */
  int producer;           /* node, or -1 */
  int parameter;          /* of roles that belong to one: index among the parameters; else -1 */
  ac_blocks blocks;       /* the bytes of such blocks: dtype u8, shape [rows, bytes of a row] */
  int state;              /* AC_ROLE_STATE: which of its parameter's; else 0 */
  bool folded;            /* AC_ROLE_GRADIENT: not kept, but folded into its parameter's state */
  ac_parameter_desc desc; /* AC_ROLE_PARAMETER */
  ac_block *values;       /* constants, in f32 or i32; parameters from an array; else NULL */
  int made_by;            /* AC_ROLE_LOSS: the tensor that the loss is of; -1: none */
  int fed;                /* the input that it is in the type that ops take; -1: none */
  char *name;             /* leaves, and inputs in the type that ops take; NULL otherwise */
};

struct ac_node {
  ac_op op;
  ac_phase phase; /* the op's, but where the op `fold` gathers an average */
  bool backward;  /* of AC_PHASE_MICRO_BATCH: appended by differentiation */
  int forward; /* the forward node that this one was added for by its rules; its own index if there
                  is none */
  int in[AC_MAX_INPUTS], out[AC_MAX_OUTPUTS]; /* -1: absent */
  int loss;       /* of a loss's gradient: which of the graph's; else 0 */
  int accumulate; /* output 0 = this tensor + what the op computes; -1: none */
  int scope;      /* index into scopes; 0 is "" */
  _Alignas(8) unsigned char attributes[AC_MAX_ATTRIBUTE_BYTES];
};

/* A function of the public headers that adds to a graph. Each tensor that it takes is described as
 * "NAME WHAT", such as "x f32 [..., in]"; a `?` after the name says that it may be NULL, and
 * "parts[] f32" describes all tensors from its place on. */
typedef struct ac_builder {
  const char *name;
  int count; /* tensors that it is handed */
  const char *takes[AC_MAX_INPUTS];
} ac_builder;

typedef struct ac_named_output {
  char *name;
  int tensor;
} ac_named_output;

/* A hash table of leaves by role and name (names.h). */
typedef struct ac_leaf_names {
  int *at;         /* tensor ids; -1: an empty place */
  size_t capacity; /* a power of two */
  int count;
  int tensors; /* that were looked at */
} ac_leaf_names;

/* A graph's total loss is the sum of factor x mean over these. */
typedef struct ac_graph_loss {
  char *name; /* "" of the only one, unless it was given another */
  int tensor;
  double factor;
} ac_graph_loss;

typedef struct ac_graph_metric {
  char *name;
  int tensor; /* the sums: those of one of the losses, or of no other use */
  ac_metric_kind kind;
} ac_graph_metric;

enum { AC_GRAPH_SENTENCE = 1024 };

struct ac_graph {
  ac_status status;
  char message[AC_GRAPH_SENTENCE];
  ac_tensor **tensor_chunks; /* of AC_GRAPH_CHUNK each: see ac_tensor_at */
  ac_node **node_chunks;
  int *inputs, *parameters; /* tensor ids */
  ac_named_output *outputs;
  char **scopes;
  ac_leaf_names names;
  int tensor_count, node_count, input_count, parameter_count, output_count, scope_count;
  int scope; /* of nodes built now */
  ac_graph_loss losses[AC_MAX_LOSSES];
  int loss_count;
  ac_graph_metric metrics[AC_MAX_METRICS];
  int metric_count;
  ac_block **kept; /* what nodes' attributes point to */
  int kept_count;
  uint32_t streams; /* random number streams given out */
  /* At work, or the last one, and what it was handed: for the sentence about a failure. */
  ac_builder builder;
  ac_tensor *operands[AC_MAX_INPUTS];
};

/* Tensors and nodes lie in chunks that never move, so a pointer to one stays good while others are
 * appended. Index -1, an absent operand, is NULL. */
enum { AC_GRAPH_CHUNK = 64 };
static inline ac_tensor *ac_tensor_at(const ac_graph *graph, int id) {
  return id < 0 ? NULL : &graph->tensor_chunks[id / AC_GRAPH_CHUNK][id % AC_GRAPH_CHUNK];
}
static inline ac_node *ac_node_at(const ac_graph *graph, int index) {
  return index < 0 ? NULL : &graph->node_chunks[index / AC_GRAPH_CHUNK][index % AC_GRAPH_CHUNK];
}

/* Which of the graph's losses a tensor is; -1: none. */
int ac_graph_loss_index(const ac_graph *graph, int tensor);
/* Which of its sums: a loss has its index, and what only metrics use has that of its first metric
 * after AC_MAX_LOSSES; -1: none. */
enum { AC_MAX_SUMS = AC_MAX_LOSSES + AC_MAX_METRICS };
int ac_graph_sum_index(const ac_graph *graph, int tensor);
static inline const char *ac_graph_sum_name(const ac_graph *graph, int index) {
  const int metric = index - AC_MAX_LOSSES;
  return metric < 0 ? graph->losses[index].name : graph->metrics[metric].name;
}
/* The index of the input that a node's operand holds the elements of, as they are fed or converted;
 * -1: none. */
int ac_node_input(const ac_graph *graph, const ac_node *node, int operand);
/* The index of the input with integers that say how many ones, before zeros, each row of the
 * operand has; *columns is the length of a row. -1: none. */
int ac_node_lengths(const ac_graph *graph, const ac_node *node, int operand, int64_t *columns);

void ac_graph_free_chunks(void **chunks, int count);

/* No tensor has more elements, at any batch. */
#define AC_MAX_ELEMENTS_LOG2 48
#define AC_MAX_ELEMENTS ((int64_t)1 << AC_MAX_ELEMENTS_LOG2)

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Elements for one sample if batched, else in total. */
int64_t ac_shape_count(const ac_shape *shape);
bool ac_shape_equal(const ac_shape *a, const ac_shape *b);
/* "[B, 64, 128]", "[B*64, 128]"; returns text. */
enum { AC_SHAPE_TEXT = 128 };
char *ac_shape_text(char text[AC_SHAPE_TEXT], const ac_shape *shape);
/* Reads the public form, where a negative leading dimension is symbolic. False if the shape is not
 * valid. */
bool ac_shape_parse(ac_shape *shape, int rank, const int64_t *dim);
/* The shape that tensors are repeated to, as NumPy does: from the last dimension backwards sizes
 * are equal, or 1, or absent. The batch goes with as many rows of a sample, or with 1. False if
 * they do not fit. */
bool ac_broadcast_shapes(ac_shape *shape, int count, ac_tensor *const *tensors);
/* The axis that a caller means: a negative one counts from the end. It may be none of the shape. */
static inline int ac_shape_axis(const ac_shape *s, int axis) {
  return axis < 0 ? axis + s->rank : axis;
}
static inline int64_t ac_shape_last(const ac_shape *s) {
  return s->rank ? s->dim[s->rank - 1] : 1;
}

/* The operand of a tensor for a micro-batch of `batch` samples, without its handle. Of one in
 * blocks it has the elements, not the bytes. */
ac_operand ac_operand_of(const ac_tensor *tensor, int64_t batch);

/* ---- building, for the files in src/ops; see also builder.h --------------------------------- */

/* Records the graph's first failure and returns NULL. */
ac_tensor *ac_graph_fail(ac_graph *graph, ac_status status, const char *format, ...);

/* Appends a node. `in` may hold NULL for absent operands. Returns the node's index, or -1 with the
 * failure recorded. attributes may be NULL with size 0. */
int ac_graph_append(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                    ac_tensor *const *in);
/* Adds an output to the last node. */
ac_tensor *ac_graph_add_output(ac_graph *graph, int node, ac_role role, ac_dtype dtype,
                               const ac_shape *shape);
/* append + add_output of an f32 activation. */
ac_tensor *ac_graph_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                         ac_tensor *const *in, const ac_shape *shape);
/* A view of `tensor` with another shape of as many elements, or the same one: the result of an op
 * that has nothing to do. */
ac_tensor *ac_graph_view(ac_graph *graph, const ac_tensor *tensor, const ac_shape *shape);
/* Appends a tensor to a list of the graph's. NULL with the failure recorded. */
void *ac_graph_list(ac_graph *graph, int **list, int *count, int tensor);
/* Keeps a block, which the graph frees then, as long as it or a copy is there. NULL with the
 * failure recorded. */
void *ac_graph_keep(ac_graph *graph, ac_block *block);
/* Records that memory is short and returns NULL. */
void *ac_graph_out_of_memory(ac_graph *graph);
/* A new tensor without a producer. NULL with the failure recorded. */
ac_tensor *ac_graph_new_tensor(ac_graph *graph, ac_role role, ac_dtype dtype,
                               const ac_shape *shape);

/* A deep copy, so that a plan owns what it schedules. */
ac_status ac_graph_clone(ac_graph **copy, const ac_graph *graph);

/* "linear (h.0.mlp)" */
char *ac_node_text(char *text, size_t size, const ac_graph *graph, const ac_node *node);

#endif
