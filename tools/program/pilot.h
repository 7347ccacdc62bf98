/* A pilot: short runs over a grid of settings, each cell with several seeds and folds. Its parts
 * are in pilot_*.c.
 *
 * Rung by rung (one, unless --halving makes more) every run of every cell that is still in it is
 * trained up to the rung's update, in a folder of its own below the pilot's; what came of it goes
 * into one record, pilot.json, which appears whole. So whatever kills a pilot costs at most what
 * the run in hand has done since its last state, and the same command goes on to the same results.
 */
#ifndef TOOLS_PROGRAM_PILOT_H
#define TOOLS_PROGRAM_PILOT_H

#include "common/run_id.h"
#include "program/pilot_grid.h"
#include "program/pilot_result.h"
#include "program/plan_cache.h"
#include "program/run_folder.h"
#include "program/setup.h"

enum { PILOT_MOST_RUNGS = 12 };

typedef struct pilot_flags {
  option_list grid, ablate;
  int64_t seeds, folds, halving; /* 0: no folds, no halving */
  double target;                 /* 0: none */
  bool json;
  const char *svg;
} pilot_flags;

typedef struct pilot_run {
  int done; /* rungs */
  pilot_result results[PILOT_MOST_RUNGS];
} pilot_run;

typedef struct pilot {
  pilot_flags flags;
  setup setup; /* the flags of all runs, without data or device */
  grid grid;
  char **base; /* of each run's command line, its kind first; not owned */
  int base_count;
  int runs_per_cell; /* seeds times folds */
  pilot_run *runs;   /* [cells, runs_per_cell] */
  int rungs;
  int64_t rung_steps[PILOT_MOST_RUNGS]; /* 0: to the end */
  int *last_rung;                       /* [cells]: the last that the cell is in, so far */
  run_folder folder;
  plan_cache cache;
  json_t *settings; /* the settings that identify this pilot, with the fingerprints of each cell's
                       data */
  char id[RUN_ID_BYTES]; /* the id that the records of its runs have */
  char path[RUN_PATH_BYTES];
  double began;
  int signal; /* the signal that stopped it; 0: none */
} pilot;

int64_t pilot_seed(const pilot *p, int run);
int pilot_fold(const pilot *p, int run); /* from 1 */
pilot_run *pilot_run_of(const pilot *p, int cell, int run);

/* "tokens" or "images". */
const char *pilot_unit(const pilot *p);

/* "lr 3e-4, batch 64"; "" of a pilot without a grid. */
const char *pilot_cell_name(const pilot *p, int cell, char *text, size_t size);

/* All return a status of message.h.
 *
 * pilot_record.c: takes over results from the folder's record of this same pilot, or writes a new
 * record if the folder has neither a pilot nor a run; `data`: a fingerprint for each cell. */
int pilot_record_open(pilot *p, json_t *data);
int pilot_record_write(const pilot *p);

/* pilot_runs.c: checks that all runs can be made, plans them, and finds the data of each cell;
 * checks that runs in the folder are this pilot's; makes the runs. *stopped: a signal or the time
 * ended it, and the record has the results so far. */
int pilot_check_runs(pilot *p, json_t *data);
int pilot_check_folders(const pilot *p);
int pilot_make_runs(pilot *p, bool *stopped);

/* pilot_table.c */
typedef struct pilot_mean {
  int count;
  double mean, deviation; /* NAN: there is none, or fewer than two */
} pilot_mean;
typedef struct pilot_summary {
  int diverged; /* runs */
  int64_t steps;
  pilot_mean loss, accuracy, seconds, units_to_target, seconds_to_target;
} pilot_summary;
pilot_summary pilot_summary_of(const pilot *p, int cell, int rung);
void pilot_table_put(const pilot *p);
int pilot_json_put(const pilot *p);

/* pilot_svg.c */
int pilot_svg(const pilot *p, const char *path);

#endif
