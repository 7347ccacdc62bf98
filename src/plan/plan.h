/* clang-format off */
/* What a plan is made of.
 *
 * A plan lays out one virtual address space, cut into chunks of at most the device's largest allocation;
 * no tensor straddles two chunks:
 *
 *   | parameters | gradients | optimizer state | io: inputs, loss sums, statistics | arena ............ |
 *   '------------------- cells: one address each -----------------------------------' values by lifetime
 *
 * All that persists is a cell, which is a row of one table; bytes by class, memory, saving and
 * loading go through this table. What a window runs is a sequence: the steps of its phases one
 * after another, each a node of the graph, and the values that they read and write. A value is one
 * filling of a tensor: a node that runs twice (recomputation) makes two values of its output, each
 * with its own lifetime. Two values may share bytes if their lifetimes do not meet, or if one is
 * computed in place of the other.
 *
 * If a window is known to be one micro-batch (ac_plan_desc.whole_windows), gradients are also
 * values of the sequence, alive from their first step to the end of the window. If they are fused
 * (passes.c), they are alive only until they are measured, and again until their parameters are
 * stepped; fused locally, until both is done. Gradients that are folded into optimizer state are
 * values of a micro-batch, alive until they are folded. Those that ranks divide among them are
 * values of a micro-batch, alive until they have been exchanged; their cells hold this rank's part.
 *
 * Optimizer state may be in host memory, as cells of that space. It is then in values of the
 * sequence while its parameter is stepped (transfers.c).
 *
 * A problem is what the caller asks for. The search turns it into a choice, and the plan is made by
 * laying down the choice; neither changes the problem. */
/* clang-format on */
#ifndef AC_PLAN_PLAN_H
#define AC_PLAN_PLAN_H

#include <accrue/plan.h>

#include "backend/device.h"
#include "graph/fuse.h"
#include "graph/graph.h"
#include "optimizer/optimizer.h"
#include "plan/gradients.h"

#define AC_NO_ADDRESS UINT64_MAX

enum { AC_MAX_RANKS = 1024 };

/* ---- cells ----------------------------------------------------------------------------------- */

typedef enum ac_space {
  AC_SPACE_DEVICE, /* has bytes of its own there */
  AC_SPACE_ARENA,  /* a value of the main sequence, which keeps it to the end of a window; fused: of
                      each pass, and nobody else's */
  AC_SPACE_SHARED, /* another trainer or session has it (run/shared.c) */
  AC_SPACE_HOST    /* an allocation of its own on the host: where samples are gathered before they
                      are uploaded; optimizer state that is transferred */
} ac_space;

typedef struct ac_cell {
  ac_role role;
  int tensor; /* the tensor that it holds; -1: the run's own counts */
  int owner;  /* index of a parameter, an input or a loss, as the role says; -1: the run */
  ac_space space;
  ac_dtype dtype;
  ac_shape shape;
  int64_t first, count; /* the range of its elements that it holds: all, or this rank's */
  uint64_t bytes;       /* of that range */
  uint64_t address;     /* on the device; AC_NO_ADDRESS: none */
} ac_cell;

/* ---- sequences ------------------------------------------------------------------------------- */

typedef struct ac_problem ac_problem;

/* Lifetimes are counted in points: each step of the micro-batch is one, and all that follows it is
 * one more, since the host may look at what is alive between the phases; but where optimizer state
 * is transferred, each step of the update is one. */
typedef struct ac_value {
  int tensor;      /* storage it fills; -1: workspace */
  int64_t count;   /* elements of it that it holds; 0: all */
  int first, last; /* points between which it is alive, both included */
  /* With sections (sections.c): it depends on the samples of the micro-batch; it has a place for
   * each micro-batch of a window; another micro-batch needs it in the same section. */
  bool varies, whole, lasts;
  bool outside;   /* filled before the sequence begins: only where a piece is laid down alone */
  int shares;     /* the value that it shares memory with; its own index if it has its own memory */
  uint64_t bytes; /* aligned; 0 if it shares */
  uint64_t address;
} ac_value;

/* An operand in a sequence. tensor gives shape and dtype, -1: absent; value -1: a cell. */
typedef struct ac_slot {
  int tensor, value;
} ac_slot;

/* Whether an output that stays over micro-batches is overwritten or added to. */
typedef enum ac_write {
  AC_OVERWRITE,       /* an activation, or what an update leaves */
  AC_ADD,             /* onto what an earlier step of the sequence or `accumulate` left there */
  AC_ADD_UNLESS_FIRST /* the first step to write a sum: adds unless the window begins */
} ac_write;

/* A range of a parameter's elements. */
typedef struct ac_part {
  int64_t first, count; /* count 0: all of them */
} ac_part;

typedef struct ac_step {
  int node;
  bool recomputed;
  bool transfers; /* state that it steps is in host memory, and in values while it does */
  bool once;      /* with sections: in the first micro-batch alone, which it does not depend on */
  ac_part part;   /* that it steps; other steps with the node follow for the rest */
  ac_slot in[AC_MAX_INPUTS], out[AC_MAX_OUTPUTS];
  ac_write write[AC_MAX_OUTPUTS];
  ac_slot copy;  /* copied to output 0 before the op adds to it; tensor -1: nothing to copy */
  int workspace; /* value, -1: none */
} ac_step;

typedef struct ac_sequence {
  bool training;
  bool whole_window; /* gradients are values, alive as long as steps read them */
  bool host_state;   /* optimizer state that may move does */
  int64_t window; /* samples of a window, if its micro-batches go through one section after another;
                     0: each goes through the sequence alone */
  int *sections, section_count; /* where they begin; NULL: there are none */
  const ac_problem *shards;     /* NULL: all is stepped; else only the part of its rank */
  bool sheds; /* gradients are values of the micro-batch, alive until ranks have exchanged them
                 (shards.h); what follows it finds cells with the part of its rank */
  ac_step *steps;
  int step_count;
  int begin[AC_PHASE_COUNT + 1]; /* phase p is the steps [begin[p], begin[p + 1]) */
  ac_value *values;
  int value_count, value_capacity;
} ac_sequence;

/* Steps of a micro-batch, which is also the point at which what follows it runs. */
static inline int ac_sequence_end(const ac_sequence *sequence) {
  return sequence->begin[AC_PHASE_REDUCE];
}

/* The point at which a step runs. */
static inline int ac_sequence_point(const ac_sequence *sequence, int step) {
  const int end = ac_sequence_end(sequence), update = sequence->begin[AC_PHASE_UPDATE];
  if (step < end || !sequence->host_state || step < update) return step < end ? step : end;
  return end + 1 + step - update;
}

static inline int ac_sequence_last_point(const ac_sequence *sequence) {
  const int end = ac_sequence_end(sequence);
  return sequence->step_count > end ? ac_sequence_point(sequence, sequence->step_count - 1) : end;
}

/* ---- problem, choice, plan ------------------------------------------------------------------- */

/* Tensors of the graph that belong to a parameter; -1: none. */
typedef struct ac_parameter_tensors {
  int tensor, gradient;              /* no gradient: not trained */
  int working;                       /* the copy in 16 bits or in blocks that ops read */
  const ac_optimizer_row *optimizer; /* that steps it, if it is trained */
  int64_t own_first, own_count; /* with several ranks: the range that this one steps (shards.h) */
} ac_parameter_tensors;

typedef struct ac_nodes {
  int *list, count;
} ac_nodes;

/* Sums of a window in the stream that ranks add up (shards.h): so many elements of a tensor from
 * `first` on, which are those from `begin` on of the stream. */
typedef struct ac_streamed {
  int tensor;
  int64_t first, begin, count;
} ac_streamed;

/* Sets ops[op] for those of the nodes. */
static inline void ac_nodes_mark_ops(const ac_nodes *nodes, const ac_graph *graph,
                                     bool ops[AC_OP_COUNT]) {
  for (int i = 0; i < nodes->count; i++) ops[ac_node_at(graph, nodes->list[i])->op] = true;
}

struct ac_problem {
  ac_graph *source; /* the caller's graph, copied */
  ac_graph *graph;  /* the plan's own, with all nodes of a window if training */
  ac_device *device;
  ac_plan_desc asked; /* as the caller gave it, with the batch filled in */
  ac_plan_desc desc;  /* with what follows from the graph filled in; its batch is what this rank
                         takes of a window at most */
  const ac_gradient_way *way;        /* that it asks for */
  bool copies;                       /* trained parameters may have working copies */
  ac_fused fused;                    /* what fusing spared */
  char *state_f32, *frozen, *shared; /* those of desc */
  struct ac_stages *stages;          /* of the training graph; NULL otherwise */
  struct ac_works *works;            /* of the graph's nodes (works.h) */
  /* Each node that runs once. evaluation, prediction: only when training. */
  ac_nodes main, evaluation, prediction;
  ac_nodes after;            /* those of the phases after a micro-batch */
  ac_nodes folds;            /* those within a micro-batch: see passes.c */
  uint64_t after_workspace;  /* the most scratch space that one of these asks for */
  uint64_t read_ahead_bytes; /* on the host, of one batch */
  bool *reads;               /* by storage: what some node reads */
  bool *fed;                 /* by input: some node reads it that is not there for outputs alone */
  ac_parameter_tensors *parameters;
  ac_cell *cells; /* in the order of their addresses, which no choice has given yet */
  int cell_count;
  int *cells_by_owner; /* by role, owner and state, but for those of inputs on the host */
  int found_cells;     /* how many these are */
  uint64_t host_bytes; /* of the cells that may be in host memory */
  bool in_sections;    /* windows go through the sections of a sequence (sections.c) */
  int coupled; /* the first node that looks at more than one sample of its batch, though it may not
                  see a part of it only; -1: none */
  int64_t least; /* samples of a micro-batch, in training */
  /* With several ranks: what they add up, and which stretch each of them owns: rank r those from
   * bounds[r] on. */
  ac_streamed *streamed;
  int streamed_count;
  int64_t *bounds, gradient_elements; /* those of gradients come first */
};

/* Whether a parameter, and its copy in 16 bits, are another trainer's or session's; the same of a
 * cache. */
bool ac_problem_shares(const ac_problem *problem, int parameter);
bool ac_problem_shares_cache(const ac_problem *problem, const ac_tensor *cache);

/* What the search decides. */
typedef struct ac_choice {
  int64_t micro_batch;
  const ac_nodes *order;      /* of the micro-batch's nodes, some of them twice */
  const ac_gradient_way *way; /* not AUTO's */
  bool host_state;            /* optimizer state that may move does */
  uint64_t limit;             /* a total that is not below it need not be exact; 0: it has to be */
} ac_choice;

/* Bytes that are alive while a step runs: all, and those of workspace and of gradients. */
typedef struct ac_live_bytes {
  uint64_t all, workspace, gradients;
} ac_live_bytes;

struct ac_plan {
  ac_problem problem;
  const ac_graph *graph; /* the problem's */
  ac_device *device;     /* the problem's */
  ac_plan_info info;
  const ac_gradient_way *way; /* of its gradients */
  double fastest_seconds;     /* of the fastest candidate, whatever it takes */
  uint64_t least;             /* where it was refused: what the budget would have to be */
  ac_sequence main, evaluation;
  ac_sequence prediction; /* training: to the outputs that have names */
  int64_t predicted;      /* most samples of a micro-batch of the prediction */
  ac_sequence stepping;   /* fused: the second pass; without steps otherwise */
  ac_cell *cells;
  int cell_count;
  uint64_t control, control_bytes; /* loss sums and all statistics, read back at once */
  uint64_t chunk_bytes;            /* of every chunk but the last; 0: one chunk */
  ac_live_bytes *live;             /* by step: those of `main`, then of `stepping` */
};

/* Samples that a window brings at once: those of a micro-batch, or all of them. */
static inline int64_t ac_plan_piece(const ac_plan *plan) {
  return plan->problem.in_sections ? plan->problem.desc.batch : plan->info.micro_batch;
}

/* A window comes in one piece. */
static inline bool ac_plan_takes_whole_windows(const ac_plan *plan) {
  return plan->main.whole_window || plan->problem.in_sections;
}

/* The sequence of a pass. */
static inline const ac_sequence *ac_plan_pass(const ac_plan *plan, int pass) {
  return pass ? &plan->stepping : &plan->main;
}

/* Whether a caller's own optimizer steps a parameter after this node, with the gradient that the
 * node leaves. */
static inline bool ac_problem_hands_over(const ac_problem *problem, const ac_node *node) {
  return ac_optimizer_row_of(problem->desc.optimizer.kind)->hands_over &&
         ac_op_describe(node->op)->rewrites;
}

/* And how many elements at once at most. */
static inline int64_t ac_problem_callback_part(const ac_problem *problem, int parameter) {
  const ac_graph *graph = problem->graph;
  const int64_t part = problem->desc.optimizer.callback_part,
                count = ac_shape_count(&ac_tensor_at(graph, graph->parameters[parameter])->shape);
  return part && part < count ? part : count;
}

/* The cell of this role and owner, the state-th of them, from the table; NULL: there is none. */
const ac_cell *ac_plan_cell(const ac_plan *plan, ac_role role, int owner, int state);

/* ---- problem.c ------------------------------------------------------------------------------- */

/* Differentiates a graph, chooses its storage by the precision, with or without working copies of
 * what is trained, and checks it against the device. Free it with ac_problem_free, also after a
 * failure. */
ac_status ac_problem_create(ac_problem *problem, const ac_graph *graph, ac_device *device,
                            const ac_plan_desc *desc, bool copies);
void ac_problem_free(ac_problem *problem);

/* Whether the device runs all ops on so many samples at once, and if not, why. */
ac_status ac_problem_check_support(const ac_problem *problem, int64_t micro_batch);
/* Whether it runs the prediction's ops on so many. */
bool ac_problem_supports_prediction(const ac_problem *problem, int64_t micro_batch);
/* Whether no micro-batch of a whole window has too few samples for an op. */
bool ac_problem_allows(const ac_problem *problem, int64_t batch, int64_t micro_batch);

/* Whether a window of this micro-batch has its gradients among the values of its sequence. */
static inline bool ac_problem_whole_window(const ac_problem *problem, int64_t micro_batch) {
  return problem->desc.whole_windows && micro_batch == problem->desc.batch &&
         !problem->way->folds && !problem->way->shards && !problem->in_sections;
}

/* Host memory for so many batches that are read ahead and the current one. */
static inline uint64_t ac_problem_read_ahead(const ac_problem *problem, int batches) {
  return batches ? problem->read_ahead_bytes * (1 + (uint64_t)batches) : 0;
}

/* Whether a choice may have optimizer state in host memory. */
bool ac_problem_may_transfer(const ac_problem *problem);

/* Batches that are read ahead in any case, and what the budget has to cover with so many bytes on
 * the device and batches read ahead. */
static inline int ac_plan_must_read_ahead(const ac_plan_desc *desc) {
  return desc->read_ahead_if_room ? 0 : desc->read_ahead;
}
uint64_t ac_problem_needs(const ac_problem *problem, uint64_t total, int read_ahead);

/* The storage type of a precision. */
ac_dtype ac_plan_storage(const ac_plan_desc *desc);

/* ---- sequence.c ------------------------------------------------------------------------------ */

typedef enum ac_target { AC_TARGET_GRADIENTS, AC_TARGET_LOSS, AC_TARGET_OUTPUTS } ac_target;

/* runs[i] receives whether node i is needed for the target, in whatever phase. */
ac_status ac_select_nodes(const ac_graph *graph, ac_target target, bool *runs);

/* Lays down the nodes of `order` one after another (a node that comes again is recomputed), and
 * then those of `after` (NULL: none), and finds values, lifetimes and what can be done in place;
 * sizes come later, because all this does not depend on the micro-batch's size, only on whether it
 * is a whole window. */
typedef struct ac_storage {
  bool whole_window, host_state; /* as of a sequence */
  const ac_problem *shards;      /* likewise */
  bool sheds;                    /* likewise */
  bool one_output;               /* an output is read as soon as it is made, one in each run */
  int64_t window;                /* as of a sequence */
  bool apart;                    /* no value shares memory */
} ac_storage;
ac_status ac_sequence_build(ac_sequence *sequence, const ac_graph *graph, ac_target target,
                            ac_storage storage, const ac_nodes *order, const ac_nodes *after);
void ac_sequence_free(ac_sequence *sequence);

/* The same in room that is there already, for many short orders of one graph: in time linear in the
 * order alone. */
typedef struct ac_sequence_room {
  int *current;         /* by storage */
  bool *written, *seen; /* by storage; by node */
  int *added;           /* by storage: sections.c */
} ac_sequence_room;
ac_status ac_sequence_room_create(ac_sequence_room *room, const ac_graph *graph);
void ac_sequence_room_free(ac_sequence_room *room);
ac_status ac_sequence_build_in(ac_sequence_room *room, ac_sequence *sequence, const ac_graph *graph,
                               ac_target target, ac_storage storage, const ac_nodes *order,
                               const ac_nodes *after);

/* ---- sections.c ------------------------------------------------------------------------------ */

/* Finds where sections begin, which steps run once and which values vary. `added` is zeros for all
 * storages, and room: others are left for those that the steps write. */
ac_status ac_sections_find(ac_sequence *sequence, const ac_graph *graph, int *added);
/* Then, when it is known what shares memory: where else sections begin to save some, which values
 * are whole, and how long those live that other micro-batches need. */
ac_status ac_sections_extend(ac_sequence *sequence, const ac_graph *graph);
/* Places that a value has if micro-batches have so many samples. */
int64_t ac_sections_places(const ac_sequence *sequence, const ac_value *value, int64_t micro_batch);

/* The value that owns the memory of this one. */
int ac_sequence_root(const ac_sequence *sequence, int value);

/* Sets every value's size for a micro-batch, and makes values for the workspace that the device
 * asks for: one for each step of the micro-batch, and one of `after` bytes that all steps after it
 * share. */
ac_status ac_sequence_size(ac_sequence *sequence, const ac_graph *graph, struct ac_works *works,
                           uint64_t alignment, int64_t batch, uint64_t after);

/* The arguments of a step, or of a node that runs once, without handles. `run` must outlive them;
 * run->batch gives the sizes. */
void ac_step_arguments(const ac_step *step, const ac_graph *graph, const ac_run_state *run,
                       ac_op_args *args);
void ac_node_arguments(int node, const ac_graph *graph, const ac_run_state *run, ac_op_args *args);

/* ---- transfers.c
 * --------------------------------------------------------------------------------- */

/* Whether what an optimizer keeps here may be in host memory. */
bool ac_transfers_tensor(const ac_graph *graph, const ac_tensor *tensor);
/* How many parts a node's step is cut into if its state is transferred, and each of them. */
int ac_transfers_parts(const ac_graph *graph, const ac_node *node);
ac_part ac_transfers_part(const ac_graph *graph, const ac_node *node, int index, int parts);
/* Elements of an operand of a step that belong to a part of the parameter, and which is the first.
 */
ac_part ac_transfers_range(ac_dtype dtype, ac_part part);
/* Sets the lifetimes of values that hold what is transferred. */
void ac_transfers_set_lifetimes(ac_sequence *sequence, const ac_graph *graph);
/* The next step after this one (-1: the first of all) that transfers state; -1: there is none. */
int ac_transfers_next(const ac_sequence *sequence, int step);
/* Bytes that a step transfers each way. */
uint64_t ac_transfers_bytes(const ac_sequence *sequence, const ac_graph *graph,
                            const ac_step *step);

/* ---- passes.c -------------------------------------------------------------------------------- */

/* Lays down the sequences of a choice: the main one and, if it is fused, the one of the second
 * pass, which is empty otherwise. Free both, also after a failure. */
ac_status ac_passes_build(const ac_problem *problem, const ac_choice *choice, ac_sequence *main,
                          ac_sequence *stepping);

/* ---- layout.c -------------------------------------------------------------------------------- */

typedef struct ac_address_space {
  uint64_t alignment, chunk_bytes; /* chunk_bytes 0: no limit */
  uint64_t end;
} ac_address_space;

/* Appends a tensor that is always alive. Fails if it exceeds a chunk. */
ac_status ac_layout_append(ac_address_space *space, uint64_t bytes, uint64_t *address);

/* Places a sequence's values from `base` on; *end receives where they end. `bound`: the largest sum
 * of bytes alive at once; every layout needs at least that. If no layout is found that ends below
 * `limit`, *end is `limit`, and there are no addresses. */
ac_status ac_layout_arena(const ac_address_space *space, ac_sequence *sequence, uint64_t base,
                          uint64_t bound, uint64_t limit, uint64_t *end);

/* Fails as ac_layout_arena does if a value exceeds a chunk. */
ac_status ac_layout_check(const ac_address_space *space, const ac_sequence *sequence);

/* The largest sums of bytes alive at one step or after the last: of all values, which every layout
 * needs at least; of values that are neither workspace nor state that is transferred; and of those
 * without gradients. */
typedef struct ac_layout_sums {
  uint64_t all, tensors, activations;
} ac_layout_sums;
ac_status ac_layout_bound(const ac_sequence *sequence, const ac_graph *graph, ac_layout_sums *sums);

/* ---- cells.c --------------------------------------------------------------------------------- */

/* Lists the cells of a graph. */
ac_status ac_cells_list(ac_problem *problem);

typedef struct ac_control_block {
  uint64_t address, bytes;
} ac_control_block;

/* Bytes of those that may be in host memory. */
uint64_t ac_cells_host_bytes(const ac_problem *problem);

/* How cells are placed. */
typedef struct ac_placing {
  int64_t micro_batch;
  uint64_t counters; /* bytes of counts among them */
  bool host_state;   /* those that may be in host memory are */
} ac_placing;

/* Appends the problem's cells to the space; bytes of all classes but the arena's receive what they
 * take, cells (NULL: nobody asks) their addresses. */
ac_status ac_cells_place(const ac_problem *problem, const ac_placing *how, ac_address_space *space,
                         ac_cell *cells, ac_control_block *control, ac_plan_bytes *bytes);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* The least bytes on the device that the sequences of a window can need at this micro-batch, with
 * `evaluation`, the arena's bound of the other sequence. UINT64_MAX: a tensor exceeds the device's
 * largest allocation, so nothing fits. */
ac_status ac_memory_bound(const ac_problem *problem, int64_t micro_batch, ac_sequence *main,
                          ac_sequence *stepping, uint64_t evaluation, uint64_t *bytes);
/* The least bytes of what persists on the device. */
ac_status ac_memory_cells(const ac_problem *problem, int64_t micro_batch, uint64_t *bytes);
/* The bytes of the arena of a sequence without a backward pass. */
ac_status ac_memory_forward(const ac_problem *problem, int64_t micro_batch, ac_sequence *sequence,
                            uint64_t *bytes);

/* Lays down a choice: sequences, cells, addresses, bytes. What the plan held before is freed. A
 * total of UINT64_MAX is not a failure, as above. */
ac_status ac_plan_lay(ac_plan *plan, const ac_choice *choice);
/* Frees what was laid down. */
void ac_plan_clear(ac_plan *plan);

/* ---- check.c --------------------------------------------------------------------------------- */

/* AC_ERROR_INTERNAL if something does not hold that must hold of every plan. */
ac_status ac_plan_check(const ac_plan *plan);
/* The part of it that says that an update steps each trained parameter once. stepped, by parameter,
 * receives how often. */
ac_status ac_plan_check_update(const ac_plan *plan, int *stepped);
/* The part of it that is about sections (check_sections.c). */
ac_status ac_plan_check_sections(const ac_plan *plan);

/* ---- search.c -------------------------------------------------------------------------------- */

/* Chooses micro-batch and order for the least predicted time within `limit` bytes, lays the choice
 * down, and settles what is read ahead. */
ac_status ac_plan_search(ac_plan *plan, uint64_t limit);

/* Whether there may be working copies of what is trained, or not, as a budget wants it. */
static inline bool ac_plan_copies_are_open(const ac_plan_desc *desc) {
  return desc->purpose == AC_TRAIN && desc->precision != AC_PRECISION_F32 &&
         desc->working_copies == AC_WORKING_COPIES_AUTO;
}

/* Whether a description says what there is, and nothing that contradicts itself. */
ac_status ac_plan_check_desc(const ac_plan_desc *desc);

/* candidates.c: the micro-batch sizes that the search considers for a batch, from the largest on.
 */
enum { AC_SEARCH_SIZES = 12 };
int ac_plan_search_sizes(int64_t batch, int64_t sizes[AC_SEARCH_SIZES]);

#endif
