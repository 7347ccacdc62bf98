/* clang-format off */
/* What a plan is made of.
 *
 * A plan lays out one virtual address space, cut into chunks of at most the device's largest allocation;
 * no tensor straddles two chunks:
 *
 *   | parameters | gradients | optimizer state | io: inputs, loss sums, statistics | arena ............ |
 *   '------------------- persistent: one address a tensor -------------------------' values by lifetime
 *
 * A sequence is the order in which nodes run, and the values they read and write. A value is one filling of
 * a tensor: a node that runs twice (recomputation) makes two values of its output, each with its own
 * lifetime. Two values may share bytes if their lifetimes do not meet, or if one is computed in place of
 * the other.
 *
 * Where a window is one micro-batch, and known to be (ac_plan_desc.whole_windows), gradients are values of
 * the sequence too, alive from their first step to the update. */
/* clang-format on */
#ifndef AC_PLAN_PLAN_H
#define AC_PLAN_PLAN_H

#include <accrue/plan.h>

#include "backend/device.h"
#include "graph/graph.h"

#include <string.h>

#define AC_NO_ADDRESS UINT64_MAX

typedef struct ac_value {
  int tensor;      /* storage it fills; -1: workspace */
  int first, last; /* steps between which it is alive, both included */
  bool outside;    /* filled before the sequence begins: only where a piece is laid down alone */
  int shares; /* the value in whose memory it lives; its own index if it has memory of its own */
  uint64_t bytes; /* aligned; 0 if it shares */
  uint64_t address;
} ac_value;

/* An operand in a sequence. tensor gives shape and dtype, -1: absent; value -1: persistent. */
typedef struct ac_slot {
  int tensor, value;
} ac_slot;

/* Whether an output that stays over micro-batches is overwritten or added to. */
typedef enum ac_write {
  AC_OVERWRITE,       /* an activation */
  AC_ADD,             /* onto what an earlier step of the sequence or `accumulate` left there */
  AC_ADD_UNLESS_FIRST /* the first step to write a sum: adds unless the window begins */
} ac_write;

typedef struct ac_step {
  int node;
  bool recomputed;
  ac_slot in[AC_MAX_INPUTS], out[AC_MAX_OUTPUTS];
  ac_write write[AC_MAX_OUTPUTS];
  ac_slot copy;  /* copied to output 0 before the op adds to it; tensor -1: nothing to copy */
  int workspace; /* value, -1: none */
} ac_step;

typedef struct ac_sequence {
  bool training;
  bool whole_window; /* gradients are values, alive to the end */
  ac_step *steps;
  int step_count;
  ac_value *values;
  int value_count, value_capacity;
  int after; /* the value that is scratch space after the last step; -1: none */
} ac_sequence;

typedef struct ac_parameter_memory {
  int tensor, gradient; /* tensor ids; gradient -1: not trained */
  int working;          /* the copy in 16 bits that ops read; -1: none */
  uint64_t moment[2];   /* addresses; AC_NO_ADDRESS: none */
  uint64_t statistics;  /* address of its two floats */
} ac_parameter_memory;

struct ac_plan {
  ac_graph *source; /* the caller's graph, copied */
  ac_graph *graph;  /* the plan's own, differentiated if training */
  ac_device *device;
  ac_plan_desc desc;
  ac_plan_info info;
  struct ac_stages *stages;     /* of the training graph; NULL otherwise */
  ac_sequence main, evaluation; /* evaluation: only when training */
  uint64_t *address;            /* by storage id: persistent tensors */
  bool *reads;                  /* by storage: what some step reads; other inputs need no feed */
  ac_parameter_memory *parameters;
  uint64_t control, control_bytes;   /* loss sums and all statistics, read back at once */
  uint64_t numerics, numerics_bytes; /* counts of every step's values, where these are watched */
  uint64_t update_workspace_bytes;   /* of scratch space for the ops of an update: main.after */
  int coupled; /* the first node that looks at more than one sample of its batch, though it may not
                  see a part of it only; -1: none */
  uint64_t chunk_bytes; /* of every chunk but the last; 0: one chunk */
};

/* ---- sequence.c ------------------------------------------------------------------------------ */

typedef enum ac_target { AC_TARGET_GRADIENTS, AC_TARGET_LOSS, AC_TARGET_OUTPUTS } ac_target;

/* runs[i] receives whether node i is needed for the target; returns how many are. */
int ac_select_nodes(const ac_graph *graph, ac_target target, bool *runs);

/* Lays down the nodes of `order` one after another (a node that comes again is recomputed) and
 * finds values, lifetimes and what can be done in place; sizes come later, since none of this
 * depends on the micro-batch but whether it is a whole window. */
ac_status ac_sequence_build(ac_sequence *sequence, const ac_graph *graph, ac_target target,
                            bool whole_window, const int *order, int count);
void ac_sequence_free(ac_sequence *sequence);

/* The value in whose memory this one lives. */
int ac_sequence_root(const ac_sequence *sequence, int value);

/* Sets every value's size for a micro-batch and makes values of the workspace that the device asks
 * for, and of `after` bytes once all steps are done. */
ac_status ac_sequence_size(ac_sequence *sequence, const ac_graph *graph, ac_device *device,
                           int64_t batch, uint64_t after);

/* The arguments of a step without handles. `run` must outlive them; run->batch gives the sizes. */
void ac_step_arguments(const ac_step *step, const ac_graph *graph, const ac_run_state *run,
                       ac_op_args *args);

/* ---- layout.c -------------------------------------------------------------------------------- */

typedef struct ac_address_space {
  uint64_t alignment, chunk_bytes; /* chunk_bytes 0: no limit */
  uint64_t end;
} ac_address_space;

uint64_t ac_align(const ac_address_space *space, uint64_t bytes);

/* Appends a tensor that is always alive. Fails if it exceeds a chunk. */
ac_status ac_layout_append(ac_address_space *space, uint64_t bytes, uint64_t *address);

/* Places a sequence's values from `base` on; *end receives where they end. */
ac_status ac_layout_arena(const ac_address_space *space, ac_sequence *sequence, uint64_t base,
                          uint64_t *end);

/* Fails as ac_layout_arena does if a value exceeds a chunk. */
ac_status ac_layout_check(const ac_address_space *space, const ac_sequence *sequence);

/* The largest sums of bytes alive at one step or after the last: of all values, which no layout can
 * go below, of those that are no workspace, and of those that are no gradients either. */
typedef struct ac_layout_sums {
  uint64_t all, tensors, activations;
} ac_layout_sums;
ac_status ac_layout_bound(const ac_sequence *sequence, const ac_graph *graph, ac_layout_sums *sums);

/* ---- price.c --------------------------------------------------------------------------------- */

/* A size whose tensors exceed the device's largest allocation has a total of UINT64_MAX: nothing
 * fits less.
 *
 * Lays out everything for one micro-batch size with the sequences the plan holds now; fills in
 * info.bytes and info.micro_batch. `exact` false: the arena is counted as its lower bound, which is
 * much faster. */
ac_status ac_plan_price(ac_plan *plan, int64_t micro_batch, bool exact);

/* A plan whose graph is differentiated, stored as the precision says and checked against the
 * device, but for which nothing was chosen or laid out. */
ac_status ac_plan_begin(ac_plan **plan, const ac_graph *graph, ac_device *device,
                        const ac_plan_desc *desc);

/* Whether the device runs all of the plan's ops on so many samples at once, and if not, why. */
ac_status ac_plan_check_support(const ac_plan *plan, int64_t micro_batch);

/* How many batches are read ahead; fills in their bytes. */
void ac_plan_set_read_ahead(ac_plan *plan, int batches);

/* What the budget has to cover beside the total on the device: on a CPU it is the same memory. */
static inline uint64_t ac_plan_host_needs(const ac_plan *plan) {
  return strcmp(plan->device->backend->name, "cpu") ? 0 : plan->info.read_ahead_bytes;
}

/* What the budget has to cover with so many bytes on the device. */
static inline uint64_t ac_plan_needs(const ac_plan *plan, uint64_t total) {
  return total == UINT64_MAX ? total : total + ac_plan_host_needs(plan);
}

/* The storage type of a precision. */
ac_dtype ac_plan_storage(const ac_plan_desc *desc);

/* The arguments of the op that steps a parameter, without handles: p, its moments and last, if it
 * has one, its working copy are outputs. `attributes` are the optimizer's. */
void ac_plan_update_arguments(const ac_plan *plan, int parameter, const void *attributes,
                              const ac_run_state *run, ac_op_args *args);
/* Which output that working copy is. */
int ac_plan_working_output(const ac_plan *plan);

/* Tensors of optimizer state for each parameter: AdamW 2, SGD 1 or, without momentum, 0. */
int ac_plan_moments(const ac_plan *plan);

/* ---- check.c --------------------------------------------------------------------------------- */

/* AC_ERROR_INTERNAL if something does not hold that must hold of every plan. */
ac_status ac_plan_check(const ac_plan *plan);

/* ---- search.c -------------------------------------------------------------------------------- */

/* Chooses micro-batch and recomputation for the least predicted time within `limit` bytes, builds
 * plan->main and lays everything out. */
ac_status ac_plan_search(ac_plan *plan, uint64_t limit);

/* The micro-batch sizes that the search considers for a batch, from the largest on. */
enum { AC_SEARCH_SIZES = 12 };
int ac_plan_search_sizes(int64_t batch, int64_t sizes[AC_SEARCH_SIZES]);

#endif
