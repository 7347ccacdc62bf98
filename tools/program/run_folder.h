/* The folder of a run, which is made and locked when the run begins, and the states in it. Only the
 * last few states are kept. A state is named by its update, so the newest comes last in order of
 * names. */
#ifndef TOOLS_PROGRAM_RUN_FOLDER_H
#define TOOLS_PROGRAM_RUN_FOLDER_H

#include "common/folder.h"

#include <accrue/model_file.h>
#include <stddef.h>
#include <stdint.h>

enum { RUN_PATH_BYTES = FOLDER_BYTES + 64 };

typedef struct run_folder {
  char path[FOLDER_BYTES];
  int lock;  /* -1: none */
  bool made; /* the folder was */
} run_folder;

/* Makes the folder and its parents if they are missing, and locks it: a second run in the same
 * folder is refused. The lock ends with the process; if no lock is possible (lock.h), a message
 * says so. Returns a status of message.h, like the others. */
int run_folder_open(run_folder *folder, const char *path);
/* Removes the folder if it was made and is still empty; its parents stay. */
void run_folder_close(run_folder *folder);

/* DIR/NAME. */
void run_folder_path(const run_folder *folder, const char *name, char path[RUN_PATH_BYTES]);

/* The updates of the states in a folder, newest first; free them. None: there are none, or there is
 * no such folder. Returns a status of message.h. */
int run_folder_states(const run_folder *folder, int64_t **steps, size_t *count);
/* The same for the good states, for --on-spike back. */
int run_folder_good_states(const run_folder *folder, int64_t **steps, size_t *count);
void run_folder_state(const run_folder *folder, int64_t step, char path[RUN_PATH_BYTES]);
/* The same for the good state of that update. */
void run_folder_good_state(const run_folder *folder, int64_t step, char path[RUN_PATH_BYTES]);
/* Removes a state with its good state. First make sure which run owns them (run_owner.h). */
void run_folder_remove_state(const run_folder *folder, int64_t step);

/* The newest state with a whole header, as a model file, and its path; *file NULL: there is none.
 * Returns a status of message.h. */
int run_folder_newest(const run_folder *folder, ac_model_file **file, char path[RUN_PATH_BYTES]);

#endif
