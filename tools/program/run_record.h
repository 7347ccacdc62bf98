/* run.json in a run's folder: all that is needed to repeat the run, and how it ended. The file is
 * complete at any time. */
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
      *before; /* record of the run that is resumed; NULL: the run begins, or has lost its record */
  const char *id;       /* id of the run that is resumed; "": a new run */
  const char *replaces; /* id of the run that it replaces; "": none */
  const char *pilot;    /* id of its pilot; NULL: none */
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
/* The run that it replaces; "" once that one is gone. */
const char *run_record_replaces(const run_record *record);
void run_record_has_replaced(run_record *record);
int run_record_write(run_record *record);
/* Writes how the run ended: "done", "stopped", "failed". If the record cannot be written, a message
 * says so, and nothing else happens. */
void run_record_end(run_record *record, const char *outcome);
void run_record_close(run_record *record);

#endif
