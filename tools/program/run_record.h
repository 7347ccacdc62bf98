/* run.json in a run's folder: what it takes to repeat the run, and how it ended. It is whole at any
 * time. */
#ifndef TOOLS_PROGRAM_RUN_RECORD_H
#define TOOLS_PROGRAM_RUN_RECORD_H

#include "program/run_folder.h"
#include "program/setup.h"

typedef struct run_record {
  json_t *root; /* NULL: none */
  char path[RUN_PATH_BYTES];
  bool written;
} run_record;

/* The record of an earlier run; NULL if there is none. Free with json_decref. Returns a status of
 * message.h: a file that is not a JSON object is refused. */
int run_record_read(json_t **record, const char *path);

/* Where a run comes from. */
typedef struct run_origin {
  const json_t
      *before;    /* record of the run that goes on; NULL: it begins, or has lost its record */
  const char *id; /* of the run that goes on; "": a new one */
  const char *replaces; /* id of the run that it replaces; "": none */
  const char *pilot;    /* id of the pilot that it is of; NULL: of none */
  int pilot_run;        /* and which of its runs, from 1 */
} run_origin;

/* Whether a record is of a run of that pilot. */
bool run_record_is_of(const json_t *record, const char *pilot, int pilot_run);

/* The record of a run. It is not written yet: a run that is refused leaves no trace. */
int run_record_begin(run_record *record, const run_folder *folder, const setup *s,
                     const run_origin *origin);
/* Which run this is, and the fingerprint of its data. States say both as well. */
const char *run_record_id(const run_record *record);
const char *run_record_data(const run_record *record);
/* Which run it replaces, "" once that has gone. */
const char *run_record_replaces(const run_record *record);
void run_record_has_replaced(run_record *record);
int run_record_write(run_record *record);
/* "done", "stopped", "failed". A record that cannot be written says so, and that is all. */
void run_record_end(run_record *record, const char *outcome);
void run_record_close(run_record *record);

#endif
