/* A plan that can run: its chunks of device memory, a handle for every tensor and value, and the
 * arguments of every step. Trainers and sessions are built on it. It knows nothing of windows.
 *
 * Everything is allocated in ac_instance_create; running allocates nothing. */
#ifndef AC_RUN_INSTANCE_H
#define AC_RUN_INSTANCE_H

#include <accrue/evaluation.h>
#include <accrue/model_file.h>
#include <accrue/results.h>
#include <accrue/session.h>

#include "ops/update/clip.h"
#include "ops/description.h"
#include "ops/update/fold.h"
#include "ops/update/optimizer.h"
#include "plan/plan.h"

enum { AC_MAX_GRAPH_INPUTS = 16 };

/* A sequence with its handles in place. `batch` is the micro-batch that the arguments are for now.
 */
typedef struct ac_prepared {
  const ac_sequence *sequence;
  ac_op_args *args; /* by step */
  void **handles;   /* by value; NULL for those that share */
  void **parts;     /* by step and operand (transfers.c): handles of parts of tensors; NULL: no
                       step is cut */
  int arriving;     /* the step with state on its way to the device; -1: none */
  int64_t batch;
  /* With sections: by value and by input, handles of each micro-batch's place; NULL: there is one
   * place. And the micro-batch that the arguments are for. */
  void ***places, ***inputs;
  int64_t place;
  bool has_run; /* its micro-batch */
} ac_prepared;

/* What ops that depend on the window (ac_op_desc.by_window) get, for one parameter. */
typedef struct ac_update_attributes {
  ac_gradient_statistics_attributes statistics;
  ac_fold_attributes fold;
  ac_clip_attributes clip;
  ac_fold_attributes average;
  union { /* of its optimizer's step */
    ac_callback_arguments callback;
    char arguments[AC_STEP_BYTES];
  } step;
} ac_update_attributes;

/* What the integers fed to an input may be: they index a table or the classes of a loss. */
typedef struct ac_input_check {
  int64_t limit; /* ids in [0, limit); 0: no check */
  bool ignore;   /* ignore_index is allowed as well */
  int32_t ignore_index;
  bool weights; /* f32 that must be finite and >= 0 */
} ac_input_check;

/* What was counted when numbers are watched, by step of the main sequence (numerics.c). */
typedef struct ac_numerics_totals {
  struct {
    int64_t values, overflowed, flushed;
  } * counts;
  void **views; /* of each step's counts on the device */
  void *copy;
} ac_numerics_totals;

/* What one of the graph's losses adds up, and from which inputs its weight follows. */
typedef struct ac_fed_loss {
  ac_loss_rows rows;
  int targets, weights; /* inputs; -1: none */
  int lengths;          /* the input of lengths, if the weights are a mask of it; else -1 */
  int64_t columns;      /* of that mask */
} ac_fed_loss;

/* Called before each step of an update that is among a micro-batch's steps, to ask whether it runs.
 * That depends on the gradient of `parameter`, or on what was pooled for it; -1: only on whether
 * there is an update, as for averages. */
typedef struct ac_gate {
  ac_status (*ask)(void *user, int parameter, bool *runs); /* NULL: all run */
  void *user;
} ac_gate;

/* Called after a step that hands a parameter over (ac_problem_hands_over), with the handle of its
 * gradient. */
typedef struct ac_hand_over {
  ac_status (*step)(void *user, int parameter, const void *gradient); /* NULL: there is none */
  void *user;
} ac_hand_over;

/* Which steps an output needs, and which inputs they read (predict.c). */
typedef struct ac_needed {
  bool *steps, *values;
  int last; /* the step that makes it */
  bool inputs[AC_MAX_GRAPH_INPUTS];
} ac_needed;

/* An output that is handed to a caller in each micro-batch (watched.c). */
typedef struct ac_watched {
  const char *name;
  int tensor, step; /* the step of the main sequence that makes it */
  ac_slot made;
  ac_tensor_callback callback;
  void *user;
  float *copy;
} ac_watched;

/* What is called before each step and each sample that is gathered, where something has to be seen
 * to meanwhile. */
typedef struct ac_meanwhile {
  ac_status (*call)(void *user); /* NULL: nothing */
  void *user;
} ac_meanwhile;

/* Told after each step of the main sequence's micro-batch how many of them have run, while all that
 * it has used is still there. */
typedef struct ac_follower {
  ac_status (*call)(void *user, int steps); /* NULL: nobody */
  void *user;
} ac_follower;

/* Where parameters may be on their way from other ranks (window/overlap.h). Whatever reads or
 * writes parameters asks first: the functions below do, those of steps and of cells included. */
typedef struct ac_arrival {
  ac_status (*all)(void *user);            /* NULL: parameters are always there */
  ac_status (*step)(void *user, int step); /* what this step of the micro-batch reads */
  void *user;
} ac_arrival;

/* Called after a section for each sum of batch norms that is whole then on this rank. */
typedef struct ac_join {
  ac_status (*call)(void *user, int tensor); /* NULL: this rank is alone */
  void *user;
} ac_join;

typedef struct ac_instance {
  const ac_plan *plan;
  ac_device *device;
  const struct ac_instance *shares; /* what has the parameters that the plan shares; NULL: none */
  void **chunks;
  int chunk_count;
  void **persistent;           /* by storage id: handles of cells, also of those in the arena */
  void **views;                /* by cell: those of its own */
  ac_host_memory *transferred; /* by storage id: optimizer state in host memory */
  void *control;
  float *control_copy;               /* host, control_bytes */
  ac_input_check *checks;            /* by input */
  bool *given;                       /* by input without the batch: it has a value */
  ac_fed_loss losses[AC_MAX_LOSSES]; /* the graph's */
  void **staging; /* host, by input: a micro-batch of samples gathered from a dataset */
  void *unused;   /* host: where a dataset's fields that feed no input are written */
  uint64_t unused_bytes;
  ac_prepared main, stepping, evaluation, prediction;
  ac_needed needed; /* room, and what was asked for last */
  int *together;    /* together.c: by step of the main sequence that begins a row */
  ac_gate gate;
  ac_meanwhile meanwhile;
  ac_join join;
  ac_follower follower;
  ac_arrival arrival;
  void **measured; /* shards.c: by step that measures, the part of a gradient; NULL: all or none */
  bool folds_nothing; /* of a window (window/folded.c): its gradients are dropped */
  ac_hand_over hand_over;
  ac_watched watched[AC_MAX_WATCHED];
  int watched_count;
  bool hands_out;              /* a caller is being handed a tensor that it watches */
  ac_numerics_totals numerics; /* empty unless the plan watches numbers */
  /* The run state: all that changes from window to window, so that every step is static. */
  ac_run_state run;
  ac_update_attributes *updates; /* by parameter */
  const char *unusable; /* why parameters cannot be used until others are loaded; NULL: they can */
} ac_instance;

static inline ac_status ac_instance_meanwhile(const ac_instance *instance) {
  return instance->meanwhile.call ? instance->meanwhile.call(instance->meanwhile.user) : AC_OK;
}

/* Waits for all parameters that this instance uses, its own and those that it shares. */
ac_status ac_instance_settle(const ac_instance *instance);

/* A handle of bytes of the plan's address space. */
ac_status ac_instance_view(ac_instance *instance, uint64_t address, uint64_t bytes, void **handle);
void ac_instance_drop_view(ac_instance *instance, void *handle);
/* The handle of an operand in the micro-batch that runs; NULL: it is absent. */
void *ac_instance_handle(const ac_instance *instance, const ac_prepared *prepared, ac_slot slot);

ac_status ac_instance_create(ac_instance *instance, const ac_plan *plan, const ac_instance *from);
/* Announces that an instance is created, with all that belongs to it. */
ac_wait ac_instance_announce(const ac_plan *plan);
void ac_instance_free(ac_instance *instance);

/* Finds the handles of parameters that the plan shares, in `from` (NULL: refuses such a plan). */
ac_status ac_shared_find(ac_instance *instance, const ac_instance *from);
/* The instance that keeps a parameter with all its copies; *index becomes its index there. */
const ac_instance *ac_shared_owner(const ac_instance *instance, int *index);
/* Writes elements of a copy in 16 bits that is all an instance uses of such a parameter. Where it
 * has them already the original stays as exact as it is. */
ac_status ac_shared_write_copy(const ac_instance *instance, const ac_cell *cell, int64_t first,
                               int64_t count, const void *data);

/* ac_session_create with parameters of another instance. */
ac_status ac_session_create_from(ac_session **session, const ac_plan *plan, uint64_t seed,
                                 const ac_instance *from);

/* What a session is made of, to change its parameters; refused while it is at work. */
ac_status ac_session_instance(ac_session *session, ac_instance **instance);

/* The host copy's loss sums as doubles. */
typedef struct ac_loss_sums {
  double loss, weight, correct;
} ac_loss_sums;
ac_loss_sums ac_instance_loss_sums(const ac_instance *instance, int loss);
/* All of them on the device, kept while something else is computed. */
typedef struct ac_kept_sums {
  float of[AC_MAX_SUMS][AC_LOSS_SUMS];
} ac_kept_sums;
ac_status ac_instance_keep_sums(const ac_instance *instance, ac_kept_sums *kept);
ac_status ac_instance_restore_sums(const ac_instance *instance, const ac_kept_sums *kept);
/* Brings all that the end of a window depends on to the host, or one cell of it. */
ac_status ac_instance_fetch_control(ac_instance *instance);
ac_status ac_instance_fetch_cell(ac_instance *instance, const ac_cell *cell);

/* ---- feeding (inputs.c) and running ---------------------------------------------------------- */

/* Finds what ops and losses ask of the integers and weights that are fed. */
void ac_instance_find_checks(ac_instance *instance);

/* Finds the data of each input that is needed among the feeds and checks all of it before anything
 * runs. data[i] belongs to input i; NULL: it is not needed, or keeps its value. `needs`, by input;
 * NULL: those that windows, evaluations and sessions read. */
ac_status ac_instance_match_feeds(const ac_instance *instance, const bool *needs, int64_t count,
                                  const ac_feed *feeds, int feed_count,
                                  const void *data[AC_MAX_GRAPH_INPUTS]);

/* Checks the values of samples [first, first + count) of what was matched: ids, weights. */
ac_status ac_instance_check(const ac_instance *instance, const void *const *data, int64_t first,
                            int64_t count);

/* ---- outputs: predict.c ---------------------------------------------------------------------- */

/* The index of a named output of the graph; -1: there is none. */
int ac_instance_find_output(const ac_instance *instance, const char *name);
/* Elements of an output of so many samples. */
int64_t ac_instance_output_count(const ac_instance *instance, int tensor, int64_t samples);
/* The handle of an output's elements, once its step has run. */
const void *ac_instance_output_handle(const ac_instance *instance, const ac_prepared *prepared,
                                      int tensor);
/* Computes an output of samples with a sequence to the graph's outputs, at most `piece` samples at
 * once, into room for `elements` floats. Messages begin with `caller`. */
typedef struct ac_prediction {
  const char *caller, *name;
  int64_t count, elements;
  float *data;
} ac_prediction;
ac_status ac_instance_predict(ac_instance *instance, ac_prepared *prepared, int64_t piece,
                              const ac_prediction *wanted, const ac_feed *feeds, int feed_count);

/* ---- outputs of windows: watched.c ----------------------------------------------------------- */

/* As ac_trainer_watch_tensor. */
ac_status ac_instance_watch(ac_instance *instance, const char *name, ac_tensor_callback callback,
                            void *user);
/* Hands out what a step of the main sequence has made. */
ac_status ac_watched_after(ac_instance *instance, int step);
void ac_watched_free(ac_instance *instance);

/* ---- losses: losses.c ------------------------------------------------------------------------ */

/* The weight of a loss of these samples, or NaN where it does not follow from inputs alone. */
double ac_instance_fed_weight(const ac_instance *instance, int loss, const void *const *data,
                              int64_t first, int64_t count);
void ac_instance_add_fed_weights(const ac_instance *instance, const void *const *data,
                                 int64_t first, int64_t count, double fed[AC_MAX_LOSSES]);
/* Fails with AC_ERROR_INTERNAL if the device's sums of weights are not these. */
ac_status ac_instance_check_weights(const ac_instance *instance, const double fed[AC_MAX_LOSSES]);

/* Each loss from the host's copy of the sums over so many samples, and all together. */
typedef struct ac_total_loss {
  double loss;
  double weight; /* what the sum of gradients is divided by */
  bool finite, weighs;
  ac_loss_mean losses[AC_MAX_LOSSES];
} ac_total_loss;
ac_total_loss ac_instance_total_loss(const ac_instance *instance, int64_t samples);
/* The host's copy of all sums, and what they come to. */
typedef struct ac_all_sums {
  ac_loss_sums of[AC_MAX_SUMS];
} ac_all_sums;
ac_all_sums ac_instance_all_sums(const ac_instance *instance);
ac_evaluation ac_instance_means(const ac_instance *instance, const ac_all_sums *sums,
                                int64_t samples);

/* Each metric of the host's copy. */
void ac_instance_metrics(const ac_instance *instance, ac_metric metrics[AC_MAX_METRICS]);

/* Whether some loss weighs its rows by inputs, or ignores some of them. */
bool ac_instance_weighs_inputs(const ac_instance *instance);

/* How several losses come together. */
typedef enum ac_loss_division {
  AC_DIVIDE_ONE,     /* there is one: by its weight, at the end */
  AC_DIVIDE_SAMPLES, /* by samples, and by the rows of each, which are known */
  AC_DIVIDE_WEIGHTS  /* by samples; each gradient by its weight, which has to be known before */
} ac_loss_division;
ac_loss_division ac_instance_division(const ac_instance *instance);

/* Finds, for each loss, the factor of its gradient in addition to the loss scale, in a window of so
 * many samples and these weights (NULL: of one unit for each row). */
void ac_instance_loss_shares(const ac_instance *instance, int64_t samples, const double *weights,
                             double shares[AC_MAX_LOSSES]);

/* Checks and uploads the value of an input without the batch. Messages begin with `caller`. */
ac_status ac_instance_set_input(ac_instance *instance, const char *name, const void *data,
                                const char *caller);

/* Uploads samples [first, first + count) of what was matched. */
ac_status ac_instance_upload(ac_instance *instance, const void *const *data, int64_t first,
                             int64_t count);

/* Runs a sequence's micro-batch for instance->run.batch samples; `fresh`: sums are overwritten by
 * the first step that writes them. On a device that compiles the first run is announced step by
 * step. */
ac_status ac_instance_run(ac_instance *instance, ac_prepared *prepared, bool fresh);
/* Runs another phase of the main sequence than AC_PHASE_MICRO_BATCH. */
ac_status ac_instance_run_phase(ac_instance *instance, ac_phase phase);
/* The two parts of the phase AC_PHASE_UPDATE: steps of parameters, and the averages of what they
 * have become. */
ac_status ac_instance_run_steps_of_update(ac_instance *instance);
ac_status ac_instance_run_averages(ac_instance *instance);
/* As the phase AC_PHASE_REDUCE, but of gradients only the parts that this rank owns: shards.c. What
 * it owns nothing of is not measured. */
ac_status ac_instance_measure_shards(ac_instance *instance);
ac_status ac_instance_prepare_shards(ac_instance *instance);
void ac_instance_discard_shards(ac_instance *instance);
/* Sets the arguments of a step, anew after run.batch or the place has changed. */
void ac_instance_fill_arguments(ac_instance *instance, ac_prepared *prepared, int step);
/* All that goes with a step of a micro-batch: what watches it, and what has to be asked. `last`:
 * no other micro-batch runs it. */
ac_status ac_instance_do_step(ac_instance *instance, ac_prepared *prepared, int step, bool fresh,
                              bool last);
/* One step of a sequence. */
ac_status ac_instance_run_step(ac_instance *instance, ac_prepared *prepared, int step, bool fresh);
/* Runs the steps that an output needs. `training` is the sequence's. */
ac_status ac_instance_run_needed(ac_instance *instance, ac_prepared *prepared,
                                 const ac_needed *needed);
/* Sets the arguments to run.batch samples. */
void ac_instance_resize(ac_instance *instance, ac_prepared *prepared);

/* Bytes of a cell, as they are stored, wherever it is. Waits for transfers. */
ac_status ac_instance_read_cell(const ac_instance *instance, const ac_cell *cell, uint64_t offset,
                                void *data, uint64_t bytes);
ac_status ac_instance_write_cell(const ac_instance *instance, const ac_cell *cell, uint64_t offset,
                                 const void *data, uint64_t bytes);

/* ---- steps in any order: together.c ---------------------------------------------------------- */

/* For each step of the main sequence after its micro-batch: how many steps, from this one on, may
 * run in any order. The number is set at the first step of such a row; rows follow one another.
 * Free the list. */
ac_status ac_together_find(const ac_plan *plan, int **together);

/* ---- sections: sections.c -------------------------------------------------------------------- */

/* Handles of all places of what is whole. */
ac_status ac_sections_prepare(ac_instance *instance, ac_prepared *prepared);
void ac_sections_discard(ac_instance *instance, ac_prepared *prepared);
/* The handle of an operand's place; NULL: it has one place only. */
void *ac_sections_place(const ac_instance *instance, const ac_prepared *prepared, ac_slot slot);
/* Does something with each step of a window of run.batch samples from number run.sample on, for one
 * micro-batch after the other, with its arguments in place. Between sections sums become those of
 * all ranks. `last`: no other micro-batch runs it. */
typedef ac_status (*ac_sections_do)(void *user, ac_instance *instance, ac_prepared *prepared,
                                    int step, bool last);
ac_status ac_sections_each(ac_instance *instance, ac_prepared *prepared, ac_sections_do run,
                           void *user);
/* Runs such a window. Its inputs are there. */
ac_status ac_sections_run(ac_instance *instance, ac_prepared *prepared);
/* What a rank without a sample does meanwhile: it joins the sums of all sections. */
ac_status ac_sections_join(ac_instance *instance);

/* ---- state in host memory: transfers.c
 * ------------------------------------------------------------
 */

/* Host memory of the cells that move. */
ac_status ac_transfers_allocate(ac_instance *instance);
void ac_transfers_release(ac_instance *instance);
/* Handles for steps that are cut, into what is prepared. */
ac_status ac_transfers_prepare(ac_instance *instance, ac_prepared *prepared);
void ac_transfers_discard(ac_instance *instance, ac_prepared *prepared);
/* Replaces handles of a cut step's operands by those of its part. */
void ac_transfers_cut(const ac_prepared *prepared, int step, ac_op_args *args);
/* A handle of a part of an operand that is not in a value of the step's own. */
ac_status ac_transfers_view(ac_instance *instance, const ac_sequence *sequence, ac_slot slot,
                            ac_part part, void **handle);
/* Around a step that transfers state. */
ac_status ac_transfers_begin(ac_instance *instance, ac_prepared *prepared, int step);
ac_status ac_transfers_end(ac_instance *instance, ac_prepared *prepared, int step);

/* ---- watching numbers: numerics.c ------------------------------------------------------------ */

ac_status ac_numerics_create(ac_instance *instance);
void ac_numerics_free(ac_instance *instance);
/* The n-th count that follows a step; false: there are no more. */
bool ac_numerics_arguments(const ac_instance *instance, int step, int n, ac_op_args *args);
/* Counts in what a step has just stored. */
ac_status ac_numerics_watch(ac_instance *instance, int step);
/* Adds a window's counts to the totals. */
ac_status ac_numerics_collect(ac_instance *instance);

/* ---- parameters: initial_values.c, parameters.c ---------------------------------------------- */

ac_status ac_instance_initialise(ac_instance *instance, uint64_t seed);
/* Fails if parameters cannot be used; the message names the function `who`. */
ac_status ac_instance_check_usable(const ac_instance *instance, const char *who);
/* Loads the parameters that match `pattern` (NULL: all); there must be at least one. */
ac_status ac_instance_load(ac_instance *instance, const char *path, const char *pattern,
                           const char *optional_prefix);
/* The same from a file that is open, for the parameters that `takes` says yes to. */
ac_status ac_instance_load_from(ac_instance *instance, ac_model_file *file, const char *prefix,
                                bool (*takes)(void *user, const char *name), void *user);
/* Whether a file has every parameter of the graph, with its shape. */
ac_status ac_graph_check_file(const ac_graph *graph, const ac_model_file *file, const char *prefix);
ac_status ac_session_load_from(ac_session *session, ac_model_file *file, const char *prefix,
                               bool (*takes)(void *user, const char *name), void *user);
ac_status ac_instance_save(ac_instance *instance, const char *path, const char *pattern,
                           const ac_metadata *metadata, int metadata_count);
int ac_instance_find_parameter(const ac_instance *instance, const char *name);
/* Elements [first, first + count) of a parameter, in f32. Writing also brings its working copy in
 * 16 bits up to date; reading takes that copy where the plan keeps no other. */
ac_status ac_instance_write_parameter(const ac_instance *instance, int index, int64_t first,
                                      int64_t count, const float *data);
ac_status ac_instance_read_parameter(const ac_instance *instance, int index, int64_t first,
                                     int64_t count, float *data);
/* The same without waiting, for the thread that brings parameters from other ranks. */
ac_status ac_instance_put_parameter(const ac_instance *instance, int index, int64_t first,
                                    int64_t count, const float *data);
ac_status ac_instance_take_parameter(const ac_instance *instance, int index, int64_t first,
                                     int64_t count, float *data);
/* Reads all parameters. Fails with AC_ERROR_NOT_FINITE at the first that is not finite; the message
 * names it and the function `who`.
 */
ac_status ac_instance_check_finite(ac_instance *instance, const char *who);
/* Elements of a tensor of any float type, converted to f32. */
ac_status ac_instance_read_floats(const ac_instance *instance, const void *handle, ac_dtype dtype,
                                  int64_t first, int64_t count, float *data);
/* And back, from f32, into what persists. `data` may be NULL if there are none. */
ac_status ac_instance_write_floats(const ac_instance *instance, int tensor, int64_t first,
                                   int64_t count, const float *data);
/* Elements of a cell, as they are stored. Writing a parameter brings its copy in 16 bits up to
 * date. */
ac_status ac_instance_read_elements(const ac_instance *instance, const ac_cell *cell, int64_t first,
                                    int64_t count, void *data);
ac_status ac_instance_write_elements(ac_instance *instance, const ac_cell *cell, int64_t first,
                                     int64_t count, const void *data);
/* Checks that [first, first + count) lies within the parameter. */
ac_status ac_instance_check_range(const ac_instance *instance, int index, int64_t first,
                                  int64_t count);

/* ---- datasets: gather.c ---------------------------------------------------------------------- */

/* A dataset's fields matched with the graph's inputs. */
typedef struct ac_gathering {
  ac_dataset *dataset;
  int input[AC_MAX_FIELDS];      /* of the field; -1: no step reads it */
  uint64_t bytes[AC_MAX_FIELDS]; /* per sample */
} ac_gathering;

ac_status ac_gather_open(ac_gathering *gather, ac_instance *instance, ac_dataset *dataset);
/* Fails if it is called by a function that reads samples for this instance; the message names the
 * function `who`. */
ac_status ac_instance_check_reading(const ac_instance *instance, const char *who);
/* Reads one sample into place `slot` of the staging buffers. */
ac_status ac_gather_read(ac_gathering *gather, ac_instance *instance, const ac_sample_key *key,
                         int64_t slot);
/* The function that is asked before each micro-batch whether to stop, and whether the answer was
 * yes. */
typedef struct ac_stop {
  bool (*ask)(void *user); /* NULL: never */
  void *user;
  bool stopped;
} ac_stop;

static inline bool ac_stop_asked(ac_stop *stop) {
  if (!stop->stopped && stop->ask) stop->stopped = stop->ask(stop->user);
  return stop->stopped;
}

/* Samples of an evaluation: `limit`, if it is above 0, or all; an error if there are none. */
ac_status ac_instance_count_evaluated(ac_dataset *dataset, int64_t limit, int64_t *samples);
/* The sums over samples [begin, end) of a dataset, with the given sequence, forward only; those of
 * none are 0. */
ac_status ac_instance_sum_up(ac_instance *instance, ac_prepared *prepared, ac_dataset *dataset,
                             int64_t begin, int64_t end, ac_stop *stop, ac_all_sums *sums);
/* Evaluates a dataset with the given sequence, forward only. If it is stopped, there is no
 * result. */
ac_status ac_instance_evaluate(ac_instance *instance, ac_prepared *prepared, ac_dataset *dataset,
                               int64_t limit, ac_stop *stop, ac_evaluation *result);

#endif
