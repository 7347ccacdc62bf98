/* All that a run remembers on the host: the record of the run itself, and one of each watcher
 * (observe/list.h). What a record has fields for is part of states, and of nothing else. */
#ifndef AC_RECORD_RUN_H
#define AC_RECORD_RUN_H

#include "data/loader.h"
#include "record/field.h"
#include "record/groups.h"

typedef struct ac_run ac_run;

/* A part of what a run remembers. All its fields are in a state, or none. */
typedef struct ac_record {
  const ac_state_field *fields; /* the last one has no key */
  bool of_model;                /* only a run of the same parameters can read it */
  /* Whether it has anything to be saved; NULL: always. */
  bool (*is_kept)(const void *record);
  /* Sets the fields to what they are where a state has none; NULL: they are always there. */
  void (*anew)(void *record);
  void (*came)(void *record); /* after a state's fields were read into it */
  /* After its fields and those of all records before it were read: the key, without its beginning,
   * of one that makes no sense, or NULL. */
  const char *(*check)(const void *record, const ac_run *run);
  /* Where a run takes over what another has written: sets what it keeps of its own instead. */
  void (*settle)(void *read, const void *own);
} ac_record;

/* How far ac_fit has come through its data. */
typedef struct ac_fit_position {
  int64_t begun;                            /* 0: not at all */
  int64_t steps, updates, skipped, samples; /* as in ac_fit_result */
  ac_place next;          /* where the window begins that comes next or is in progress */
  int64_t evaluation_due; /* 1: an evaluation follows before it */
  int64_t count;          /* of the dataset */
  uint64_t seed;          /* of the order */
  int64_t no_shuffle;     /* 1: as they come */
} ac_fit_position;

/* What a run's plan was made for. */
typedef struct ac_run_plan {
  int64_t version; /* of the format of states */
  int64_t optimizer, precision, loss_means, batch, micro_batch;
} ac_run_plan;

struct ac_run {
  ac_run_plan plan;
  int64_t updates; /* made so far; schedules, bias correction and random numbers depend on it */
  uint64_t seed;
  int64_t batch; /* samples of a whole window; rates and the loss scale depend on it */
  /* Of the window in progress: samples accumulated so far; how many it will have in all, if what
   * its losses weigh is known before (0: no); and these weights, as counted so far on the host
   * (NaN: not known) and of all. */
  int64_t samples, whole_samples;
  double fed_weight[AC_MAX_LOSSES], whole_weight[AC_MAX_LOSSES];
  ac_fit_position fit;
  char fingerprint[AC_MAX_FINGERPRINT + 1]; /* of its data, by the caller; "": not known */
  ac_groups groups;
  void **watched; /* each watcher's record, all in one block of memory */
  size_t bytes;   /* of that block */
};

enum { AC_STATE_VERSION = 1 };

/* The records within ac_run itself. */
extern const ac_record ac_record_run, ac_record_fit, ac_record_window, ac_record_window_batch,
    ac_record_fingerprint, ac_record_groups;

/* When the window is over, or discarded. */
void ac_run_leave_window(ac_run *run);

/* Whether this may be a fingerprint: of its length, and printable. */
bool ac_fingerprint_may_be(const char *text);

#endif
