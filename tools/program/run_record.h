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

/* What the record of an earlier run says; NULL where there is none. Free with json_decref. Returns
 * a status of message.h: a file that is no JSON object is refused. */
int run_record_read(json_t **record, const char *path);

/* Whether the record of an earlier run says that it has come to its end. */
bool run_record_is_done(const char *path);

/* The record of a run that begins, or goes on with the one of `before` (NULL: begins). It is not
 * written yet: a run that is refused leaves no trace. */
int run_record_begin(run_record *record, const run_folder *folder, const setup *s,
                     const json_t *before);
/* Which run this is, and the fingerprint of its data; states say both too. */
const char *run_record_id(const run_record *record);
const char *run_record_data(const run_record *record);
int run_record_write(run_record *record);
/* "done", "stopped", "failed". A record that cannot be written says so, and that is all. */
void run_record_end(run_record *record, const char *outcome);
void run_record_close(run_record *record);

#endif
