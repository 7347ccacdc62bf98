/* What graphs and plans know of an op: one description, in the op's file, with every fact about the
 * op. No other code asks which op it is to know what it is like (the test rules). Backends never
 * see this.
 */
#ifndef AC_OPS_DESCRIPTION_H
#define AC_OPS_DESCRIPTION_H

#include "ops/arguments.h"

typedef struct ac_node ac_node;
typedef struct ac_differentiation ac_differentiation;
typedef struct ac_words ac_words;

/* Work of one run: floating-point operations and the bytes that must move at least. */
typedef struct ac_cost {
  double flops, bytes;
} ac_cost;

/* When an op runs. A window is its micro-batches, each with what it folds, then reduce, then the
 * host's decision, then update. Evaluation runs what is forward of the first. */
typedef enum ac_phase {
  AC_PHASE_MICRO_BATCH, /* forward, loss, backward; repeated */
  AC_PHASE_REDUCE,      /* what the decision needs: statistics of gradients */
  AC_PHASE_UPDATE,      /* the optimizer's steps, working copies, running statistics */
  AC_PHASE_FOLD,        /* gradients that are not kept: within a micro-batch, once each is final */
  AC_PHASE_COUNT
} ac_phase;

/* What the time of a run depends on: bytes alone; both, as of functions of elements; or mostly
 * arithmetic, as of products of matrices. */
typedef enum ac_op_bound {
  AC_BOUND_BY_BYTES,
  AC_BOUND_BY_BOTH,
  AC_BOUND_BY_ARITHMETIC
} ac_op_bound;

/* What a loss op adds up over: a row for each id or, without these, for each sample. A row weighs
 * what its weight says, 1 without weights, and nothing if its id is the one to ignore. */
typedef struct ac_loss_rows {
  int weights;        /* which operand; -1: none */
  int64_t per_sample; /* rows */
  int64_t per_weight; /* neighbouring rows that share a weight; 0: each has its own */
  bool ignore;
  int32_t ignore_index;
} ac_loss_rows;

/* Operands to time the op with. A shape is a word, in which each letter is a dimension of three
 * sizes and a digit is itself; sample.c says what the letters are. One that begins with # holds
 * integers; NULL: absent. */
typedef struct ac_op_sample {
  const char *in[AC_MAX_INPUTS], *out[AC_MAX_OUTPUTS];
  const void *attributes, *bf16_attributes; /* the second, if any, where storage is bf16 */
  /* Those of the middle size, if these are others: less arithmetic for the bytes. */
  const void *middle_attributes;
  /* Makes the arguments those of a variant, by its number, with attributes in the room that is
   * given; false: there are no more. All are measured by the bench alone. */
  bool (*variant)(int number, ac_op_args *args, void *attributes);
} ac_op_sample;

typedef struct ac_op_desc {
  /* Bit i: input i may share memory with output 0, if it is not used afterwards. */
  unsigned in_place;
  /* Bit j: output j can be added to (`+` in the list), and so hold a parameter's gradient. */
  unsigned can_add;
  /* Bit j: output j gathers over the window, in whatever graph the op is, so that a run that comes
   * again goes without it. */
  unsigned sums;
  /* The result for one sample depends on the other samples of the micro-batch (batch statistics),
   * so that splitting a batch changes it. */
  bool couples_samples;
  /* The same, where the attributes say it; NULL: they do not. */
  bool (*couples)(const void *attributes);
  /* The least samples of a micro-batch in training, by arguments for one sample; NULL: 1. */
  int64_t (*least_samples)(const ac_op_args *args);
  /* Its results are values of its inputs as they are stored, copied or picked out. */
  bool copies_values;
  /* Its result has, for each of its input's integers, a row of as many ones and then zeros. */
  bool masks;
  /* Its result is its input in another dtype. */
  bool converts;
  /* Output 0 is input 0, changed: a gradient on its way to its step. */
  bool rewrites;
  /* What it does to one element of its operands has to do with no other: it may run in parts. */
  bool by_element;
  ac_phase phase;
  bool backward; /* of AC_PHASE_MICRO_BATCH: only differentiation appends it */
  ac_op_bound bound;
  /* Appends the ops that compute the gradients of the node's inputs; NULL: no gradient. */
  ac_status (*gradient)(ac_differentiation *d, const ac_node *node);
  /* Whether a gradient of its results goes on to an input: not through comparisons. NULL: to each
   * that has one. */
  bool (*passes)(const void *attributes, int input);
  /* Appends to a differentiated graph what the node does to a window in addition to its outputs:
   * nodes that gather sums, once for each micro-batch even if the node runs again or has no
   * gradient, and nodes of other phases that use these sums. They run if the node does. NULL:
   * nothing. */
  ac_status (*window)(ac_differentiation *d, const ac_node *node);
  /* Its attributes are those of the current window, which whoever runs it supplies; a node's own
   * are an example. */
  bool by_window;
  /* For each element of the first operand; a transcendental function counts as 8. */
  double flops_per_element;
  /* From concrete shapes (data handles unset), where that is not all. */
  double (*flops)(const ac_op_args *args);
  /* Bytes that must move at least. NULL: every operand moves once, twice where it is added to. */
  double (*bytes)(const ac_op_args *args);
  /* Input `ids` holds integers in [0, id_limit). NULL: none does. */
  int ids;
  int64_t (*id_limit)(const ac_op_args *args);
  /* Other inputs of integers are in [0, this); 0: input i is none of them. NULL: there are none. */
  int64_t (*limit)(const ac_op_args *args, int input);
  /* Its integer results are in [0, id_bound). NULL: it has none that are ids. */
  int64_t (*id_bound)(const ac_op_args *args);
  /* For one sample. NULL: the op is not a loss. */
  ac_loss_rows (*loss_rows)(const ac_op_args *args);
  /* What an op with these attributes lacks to run on the host, or on another device; NULL: nothing.
   */
  const char *(*lacks)(const void *attributes, bool on_host);
  /* What an op with these attributes is called; NULL: as in the list. */
  const char *(*title)(const void *attributes);
  /* Says which attributes change the work of a run, in addition to its shapes (words.h). NULL: none
   * does. */
  void (*words)(ac_words *words, const ac_op_args *args);
  ac_op_sample sample;
} ac_op_desc;

const ac_op_desc *ac_op_describe(ac_op op);
/* Whether the result for a sample depends on the others of its micro-batch. */
bool ac_op_couples_samples(ac_op op, const void *attributes);
/* What it is called in messages and reports. It lives as long as the attributes. */
const char *ac_op_title(ac_op op, const void *attributes);

/* Flops and bytes by the op's own counts. */
ac_cost ac_op_cost(const ac_op_args *args);
/* The same, without the flops of what is bound by bytes: what the seconds of a run are predicted
 * by. */
ac_cost ac_op_work(const ac_op_args *args);

/* Bytes of all operands present, each moved once, twice where added to. */
double ac_op_operand_bytes(const ac_op_args *args);

/* The op with operands of one of the sizes of its sample, without handles and workspace. */
enum { AC_SAMPLE_SIZES = 3 };
void ac_op_sample_arguments(ac_op_args *args, ac_op op, ac_dtype storage, int size);

#endif
