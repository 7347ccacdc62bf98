/* A small model with all that a state holds, runs of it, and what can be seen of them from outside:
 * what tests of state files share.
 *
 *   y = batch norm of x, if it has one                        x: [B, TOKENS, WIDTH]
 *   h = tanh(S dropout(tanh(We y + be)))                      S: [WIDTH, WIDTH]
 *   pixels   mean squared error of S h and x                  a row for each sample
 *   kinds    cross-entropy of S h, if there are two losses    a row for each token that counts */
#ifndef AC_TESTS_STATES_H
#define AC_TESTS_STATES_H

#include "files.h"

#include "runs.h"

#include "window/trainer.h"

enum { COUNT = 11, BATCH = 4, TOKENS = 3, WIDTH = 4 };

typedef struct shape_of_model {
  bool norm, two;
  int64_t hidden; /* 0: WIDTH; another is another model */
} shape_of_model;

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct sample {
  float x[TOKENS * WIDTH];
  int32_t kinds[TOKENS];
} sample;

/* Of every epoch its own, as with augmentation, and with tokens that do not count. */
sample make_sample(int64_t index, int64_t epoch);
ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields);
ac_dataset *dataset_of(int64_t count);

/* ---- the model ------------------------------------------------------------------------------- */

ac_tensor *matrix(ac_graph *g, const char *name, int64_t rows, int64_t columns);
ac_tensor *statistics(ac_graph *g, const char *name, float value);
ac_graph *graph_of(const shape_of_model *m);

/* ---- runs ------------------------------------------------------------------------------------ */

/* Runs on this device share it, where opening one takes long; NULL: each has its own. */
extern ac_device *shared_device;

run start_graph(const char *device, const ac_graph *graph, const ac_plan_desc *plan,
                const ac_trainer_desc *desc);
run start_model(const char *device, const shape_of_model *m, const ac_plan_desc *plan,
                const ac_trainer_desc *desc);
void end_run(run *r);

/* OpenCL compiles programs for each device that is opened. */
void share_device(const char *name);
void unshare_device(void);

#define ON_SHARED_DEVICES(check)                        \
  static void check##_when_shared(const char *device) { \
    share_device(device);                               \
    check(device);                                      \
    unshare_device();                                   \
  }                                                     \
  static void check##_everywhere(void **state) {        \
    (void)state;                                        \
    on_every_device(check##_when_shared);               \
  }

/* Samples [first, first + count) of the first epoch. */
ac_status feed_samples(const run *r, int first, int count);

/* ---- what can be seen of a trainer ----------------------------------------------------------- */

enum { MOST_FLOATS = 512 };

typedef struct snapshot {
  float weights[MOST_FLOATS], moments[MOST_FLOATS], gradients[MOST_FLOATS];
  int weight_count, moment_count, gradient_count;
  ac_progress progress;
} snapshot;

snapshot look_at(const run *r);
void assert_same(const char *where, const snapshot *a, const snapshot *b);

/* ---- updates as numbers, to be compared bit by bit ------------------------------------------- */

enum { FACTS = 128 };

typedef struct facts {
  double of[FACTS];
  int count;
} facts;

void add_fact(facts *f, double fact);
void add_update(facts *f, const ac_update *u);
void add_evaluation(facts *f, const ac_evaluation *e);
bool same_facts(const facts *a, const facts *b);

#endif
