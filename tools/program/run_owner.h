/* Which run owns the files in a run's folder. A run is known by its id, which is in run.json, in
 * its states and in its metrics. No file is replaced, deleted or resumed because of its name alone.
 *
 * A run that replaces another with --overwrite leaves it as it is until there is something of its
 * own: the other's states go with its first state, the other's models with its model. Its run.json
 * names the other until then, so a run that is killed in between and resumed still knows it. */
#ifndef TOOLS_PROGRAM_RUN_OWNER_H
#define TOOLS_PROGRAM_RUN_OWNER_H

#include "common/run_id.h"
#include "program/model_kind.h"
#include "program/run_folder.h"

#include <jansson.h>

/* Whether the flags are possible in --out: a run without --resume needs a folder without a run, or
 * --overwrite, and a run with --resume a state there. Changes nothing. A status of message.h. */
int run_owner_check(const train_flags *f);

/* A file of a run in a folder, by name; NULL: there is none. The second leaves out a name. */
const char *run_owner_finds(const char *folder);
const char *run_owner_finds_but(const char *folder, const char *name);

/* The file for metrics, by default in the folder; NULL: none. */
const char *run_owner_metrics(const train_flags *f, char path[RUN_PATH_BYTES]);

typedef enum run_owner { OWNER_OWN, OWNER_ANOTHER, OWNER_DAMAGED, OWNER_UNREADABLE } run_owner;

/* Which run owns the state of an update, or its good state. `id`: of the run that asks. A file that
 * says another update than its name is a copy, and so another's. */
run_owner run_owner_of_state(const run_folder *folder, int64_t step, const char *id);
run_owner run_owner_of_good(const char *path, const char *id);

/* The id of the run that a folder holds: from its record, which may be NULL, or else from its
 * newest state. "": it is not known. */
void run_owner_id(const run_folder *folder, const json_t *record, char id[RUN_ID_BYTES]);

/* Removes what a replaced run has left: its states, and the files that belong to them. */
void run_owner_remove_states(const run_folder *folder, const char *id);
/* Removes good states of a run that has no states of its own (any more). */
void run_owner_remove_lone(const run_folder *folder, const char *id);
/* Removes its models, but for model.safetensors, which has been replaced by now, and those in
 * `kept`, separated by spaces; and its metrics, unless `kept` has them. */
void run_owner_remove_models(const run_folder *folder, const char *id, const char *kept);

#endif
